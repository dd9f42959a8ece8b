"""Floats that an integer dtype does not hold: as PyTorch on x86 converts them, wherever the element lies."""

from __future__ import annotations

import math

import numpy as np
import pytest

import numod
from numod.nn import functional as F

NUMBERS = [
    -1.5, -0.5, 127.9, 128.0, -129.0, 255.5, 256.0, 300.0, -300.0, 32768.0, 40000.0, -40000.0, 65536.5, 2147483520.0,
    2147483648.0, 2147483653.0, 3e9, -3e9,
    -2147483649.5, 4294967297.0, 1e10 + 7, -1e10 - 7, 9.3e18, -9.3e18, 2.0**63 - 1024, 2.0**63, 1e19, 1e300, math.inf,
    -math.inf, math.nan,
]  # fmt: skip
FLOATS = ["float16", "bfloat16", "float32", "float64", "complex64"]
INTEGERS = ["uint8", "int8", "int16", "int32", "int64", "bool"]


def converted(number: float, target: str) -> int:
    """By way of int32, or int64 for uint8 and int64: what does not fit is the least one.

    The lowest bits of that are kept.
    """
    if target == "bool":
        return number != 0
    width = 64 if target in ("uint8", "int64") else 32
    whole = int(number) if math.isfinite(number) and abs(number) < 2.0 ** (width - 1) else -(2 ** (width - 1))
    bits = np.dtype(target).itemsize * 8
    whole &= 2**bits - 1
    return whole - 2**bits if target != "uint8" and whole >> (bits - 1) else whole


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
def test_numbers_out_of_range(source: str, target: str) -> None:
    x = numod.tensor(NUMBERS, dtype=numod.float64).to(getattr(numod, source))
    expected = [converted(value.real, target) for value in x.tolist()]
    assert x.to(getattr(numod, target)).tolist() == expected


@pytest.mark.parametrize(
    ("number", "target"),
    [
        (-1.5, "uint8"),
        (300.0, "uint8"),
        (128.0, "int8"),
        (1e10, "int16"),
        (math.nan, "int16"),
        (3e9, "int32"),
        (math.inf, "int64"),
    ],
)
def test_the_same_at_every_place(number: float, target: str) -> None:
    kind, wanted = getattr(numod, target), converted(number, target)
    compiled = numod.compile(lambda x: (x + 0.0).to(kind), dynamic=True)
    for size in (1, 7, 8, 15, 33, 100):
        x = numod.full((size,), number)
        results = [
            x.to(kind),
            compiled(x),
            compiled(x),
            numod.full((2, size, 3), number)[:, ::2, 1].to(kind),
            numod.zeros(size, dtype=kind).copy_(x),
        ]
        assert {element for result in results for element in result.flatten().tolist()} == {wanted}


def test_the_same_in_threads() -> None:
    x, before = numod.full((200_001,), -300.0), numod.get_num_threads()
    numod.set_num_threads(2)
    try:
        assert x.to(numod.uint8).unique().tolist() == [converted(-300.0, "uint8")]
    finally:
        numod.set_num_threads(before)


def test_places_that_no_index_can_hold_are_outside() -> None:
    """Of a grid: of PyTorch's result the finite places, next to which are others."""
    grid = numod.tensor([[[[0.0, 0.0], [1e30, 0.0], [-1e30, 1e30], [math.inf, 0.0], [-math.inf, 0.0]]]])
    for mode in ("bilinear", "nearest", "bicubic"):
        result = F.grid_sample(numod.ones(1, 1, 5, 5), grid, mode=mode, align_corners=True).flatten().tolist()
        assert result[0] == pytest.approx(1.0) and all(element == 0 or math.isnan(element) for element in result[1:])
    assert numod.histc(numod.tensor([0.5, 1e30, -1e30]), 4, 0, 1).sum() == 1


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", [*FLOATS, "complex128"])
def test_as_pytorch(source: str, target: str) -> None:
    torch = pytest.importorskip("torch")
    for size in (1, 7, 35, 1000):
        numbers = (NUMBERS * 40)[:size]
        mine, theirs = (lib.tensor(numbers, dtype=lib.float64).to(getattr(lib, source)) for lib in (numod, torch))
        for part in (slice(None), slice(None, None, 2)):
            assert mine[part].to(getattr(numod, target)).tolist() == theirs[part].to(getattr(torch, target)).tolist()
