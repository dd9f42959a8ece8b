"""Integer division against Python's, at both ends of int64 and with all signs."""

from __future__ import annotations

import numpy as np

import numod
from numod.device import target
from numod.kernel import bind

END = 2**63
NUMBERS = [
    0,
    1,
    2,
    3,
    7,
    10**12,
    END - 1,
    END - 2,
    -END,
    *np.random.default_rng(0).integers(-END, END - 1, 20, endpoint=True).tolist(),
]
NUMBERS += [-number for number in NUMBERS if -END < -number < 0]
PAIRS = [(x, y) for x in NUMBERS for y in NUMBERS if y]


def wrapped(number: int) -> int:
    return (number + END) % (2 * END) - END


def test_quotients_and_rests_are_exact() -> None:
    x, y = (numod.tensor(column) for column in zip(*PAIRS))
    cut = [(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) for a, b in PAIRS]
    assert (x // y).tolist() == [wrapped(a // b) for a, b in PAIRS]
    assert (x % y).tolist() == [a % b for a, b in PAIRS]
    assert numod.div(x, y, rounding_mode="trunc").tolist() == [*map(wrapped, cut)]
    assert numod.fmod(x, y).tolist() == [a - b * quotient for (a, b), quotient in zip(PAIRS, cut)]


def test_processors_without_vectors_of_64_bits_use_their_instruction() -> None:
    numod_formulas = {"truncated", "whole_quotient"} & {*bind._formulas()}
    assert len(numod_formulas) == (0 if "+avx512dq" in target.features().split(",") else 2)
