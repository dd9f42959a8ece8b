"""`numod.quasirandom`: Sobol sequences with the same numbers as PyTorch's.

Direction numbers: S. Joe and F. Y. Kuo, Constructing Sobol sequences with better two-dimensional projections, 2008
(`sobol.npz`, created by `tests/sobol_table.py`).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from .. import dtypes
from ..core.math.outputs import write_result
from ..core.create.random import randint
from ..core.tensor import Tensor
from ..core.create.values import from_numpy

__all__ = ["SobolEngine"]


class SobolEngine:
    """Points of a low-discrepancy sequence in the unit cube. Sobol, 1967; scrambling by Owen, 1998.

    For a `seed` the points are PyTorch's. The state is in `sobolstate` (dimension, 30), the direction numbers, `shift`,
    the first point, and `quasi`, the last point, as 30-bit integers.
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}], got {dimension}"
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        state, shift = _directions(dimension), np.zeros(dimension, np.int64)
        if scramble:
            state, shift = _scrambled(state, seed)
        self.sobolstate, self.shift, self.quasi = from_numpy(state), from_numpy(shift), from_numpy(shift.copy())
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: dtypes.dtype | None = None) -> Tensor:
        """The next n points, (n, dimension)."""
        points = self._advance(n) / 2.0**self.MAXBIT
        result = from_numpy(points).to(dtype or dtypes.get_default_dtype())
        return result if out is None else write_result("draw", result, out.resize_(result.shape))

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: dtypes.dtype | None = None) -> Tensor:
        """The next 2 ** m points.

        Raises ValueError unless the total number of points becomes a power of 2, which keeps the sequence balanced.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. "
                "If you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip n points."""
        self._advance(n)
        return self

    def reset(self) -> SobolEngine:
        """Restart at the first point."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def _advance(self, n: int) -> np.ndarray:
        """The next n points as integers.

        A point differs from the previous one by the direction number of the lowest zero bit of the previous index.
        """
        first, last = self.num_generated, self.quasi.numpy()
        indices = np.arange(max(first, 1), first + n) - 1  # of the points before; the first of all is the shift itself
        lowest = np.log2(~indices & (indices + 1)).astype(np.int64)
        steps = self.sobolstate.numpy().T[lowest]
        points = np.bitwise_xor.accumulate(np.concatenate([last[None], steps]), 0)
        self.quasi.copy_(from_numpy(points[-1].copy()))
        self.num_generated += n
        return points if first == 0 else points[1:]

    def __repr__(self) -> str:
        more = (
            [f"dimension={self.dimension}"]
            + ["scramble=True"] * bool(self.scramble)
            + ([f"seed={self.seed}"] if self.seed is not None else [])
        )
        return f"{type(self).__name__}({', '.join(more)})"


@cache
def _table() -> tuple[np.ndarray, np.ndarray]:
    """(the primitive polynomials, the initial numbers m) by dimension."""
    with np.load(Path(__file__).with_name("sobol.npz"), allow_pickle=False) as file:
        columns = [file[f"m{j}"].astype(np.int64) * 2 + 1 for j in range(18)]
        return np.cumsum(file["steps"], dtype=np.int64), np.stack(columns, 1)


def _directions(dimension: int) -> np.ndarray:
    """The direction numbers (dimension, 30), from the initial ones by the polynomials' recurrence.

    The highest bit of the j-th number is at 29 - j.
    """
    bits = SobolEngine.MAXBIT
    polynomials, initial = (table[:dimension] for table in _table())
    degrees = np.log2(polynomials).astype(np.int64)
    numbers = np.ones((dimension, bits), np.int64)
    for degree in range(1, 19):
        rows = np.flatnonzero(degrees == degree)
        numbers[rows, :degree] = initial[rows, :degree]
        for j in range(degree, bits):
            new = numbers[rows, j - degree]
            for k in range(degree):
                new ^= (numbers[rows, j - k - 1] << (k + 1)) * (polynomials[rows] >> (degree - 1 - k) & 1)
            numbers[rows, j] = new
    return numbers << np.arange(bits - 1, -1, -1)


def _scrambled(state: np.ndarray, seed: int | None) -> tuple[np.ndarray, np.ndarray]:
    """(direction numbers multiplied by random lower triangular matrices of bits, a random shift).

    The bits are those that PyTorch's generator draws.
    """
    dimension, bits = state.shape
    # MT19937, seeded as PyTorch's
    draw = np.random.RandomState((randint(1 << 32, ()).item() if seed is None else seed) & 0xFFFFFFFF)
    coins = lambda *shape: draw.randint(0, 1 << 32, shape, np.uint32).astype(np.int64) & 1  # noqa: E731
    shift = coins(dimension, bits) @ (1 << np.arange(bits))
    matrices = np.tril(coins(dimension, bits, bits))
    matrices[:, range(bits), range(bits)] = 1
    # (dimension, bits): a row's bits, highest first
    rows = matrices @ (1 << np.arange(bits - 1, -1, -1))
    scrambled = np.zeros_like(state)
    for p in range(bits):
        parity = np.bitwise_count(rows[:, p, None] & state) & 1
        scrambled |= parity.astype(np.int64) << (bits - 1 - p)
    return scrambled, shift
