"""Writes `numod/paths/sobol.npz`, the primitive polynomials and initial direction numbers of Joe and Kuo (2008) by
which Sobol sequences of up to 21201 dimensions are made, as PyTorch has them. Needs the installed torch:

    python tests/sobol_table.py

Column j holds the j-th initial number m of every dimension, odd and less than 2 ** (j + 1), as m // 2; a dimension has
as many as its polynomial's degree.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import numod

COUNT, BITS, DEGREE = 21201, 30, 18


def numbers() -> np.ndarray:
    """The direction numbers m[dimension, j], j < 30, of PyTorch's engine."""
    state = torch.zeros(COUNT, BITS, dtype=torch.long)
    torch._sobol_engine_initialize_state_(state, COUNT)
    return state.numpy() >> np.arange(BITS - 1, -1, -1)


def following(m: list[int], j: int, polynomial: int, degree: int) -> int:
    """m[j] by the recurrence."""
    new = m[j - degree]
    for k in range(degree):
        new ^= (m[j - k - 1] << (k + 1)) if polynomial >> (degree - 1 - k) & 1 else 0
    return new


def polynomials(m: np.ndarray) -> np.ndarray:
    """The primitive polynomials by dimension, by whose recurrences the numbers follow.

    They rise, so that each is looked for from the one before.
    """
    results = [1]
    rows = m.tolist()
    candidate = 2
    for row in rows[1:]:
        while True:
            candidate += 1
            degree = candidate.bit_length() - 1
            if candidate & 1 and all(row[j] == following(row, j, candidate, degree) for j in range(degree, BITS)):
                results.append(candidate)
                break
    return np.array(results, np.int32)


if __name__ == "__main__":
    m = numbers()
    p = polynomials(m)
    degrees = np.frompyfunc(int.bit_length, 1, 1)(p.astype(object)).astype(int) - 1
    columns = {
        f"m{j}": (m[:, j] // 2 * (degrees > j)).astype(np.uint8 if j < 9 else np.uint16 if j < 17 else np.uint32)
        for j in range(DEGREE)
    }
    np.savez_compressed(
        Path(numod.__file__).parent / "paths" / "sobol.npz", steps=np.diff(p, prepend=0).astype(np.uint16), **columns
    )
