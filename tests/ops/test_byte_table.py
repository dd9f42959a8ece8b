"""Functions of one byte as tables, over every byte, layout and dtype."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.core.apply import apply
from numod.ops.byte_table import byte_table
from numod.ops.quantize import scaled_sum, shifted_sum


def tables(rows: int, dtype: str) -> np.ndarray:
    random, limits = np.random.default_rng(rows), np.iinfo(dtype)
    return random.integers(limits.min, limits.max + 1, (rows, 256)).astype(dtype)


@pytest.mark.parametrize("result", ["int8", "uint8"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_every_byte(dtype: str, result: str) -> None:
    x = np.arange(256).astype("uint8").view(dtype).reshape(16, 16)
    table = tables(1, result)
    got = apply(byte_table, (numod.from_numpy(x), numod.from_numpy(table)), (None,))
    assert got.dtype is getattr(numod, result)
    np.testing.assert_array_equal(got.numpy(), table[0][x.astype(int) - np.iinfo(dtype).min])


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 3, 1, 2), (2, 1, 0, 3)])
def test_a_table_for_each_channel(axis: int, order: tuple) -> None:
    x = np.random.default_rng(0).integers(-128, 128, (2, 3, 4, 5)).astype("int8").transpose(order)
    table = tables(x.shape[axis], "uint8")
    got = apply(
        byte_table,
        (
            numod.from_numpy(np.ascontiguousarray(x.transpose(np.argsort(order)))).permute(order),
            numod.from_numpy(table),
        ),
        (axis,),
    )
    rows = np.arange(x.shape[axis]).reshape([-1 if k == axis else 1 for k in range(4)])
    np.testing.assert_array_equal(got.numpy(), table[rows, x.astype(int) + 128])


def test_an_empty_tensor() -> None:
    got = apply(byte_table, (numod.zeros(0, 3, dtype=numod.uint8), numod.from_numpy(tables(1, "int8"))), (None,))
    assert got.shape == (0, 3) and got.dtype is numod.int8


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("shift", [1, 4, 20])
def test_a_shifted_sum_rounds_halves_to_even(shift: int, dtype: str) -> None:
    random = np.random.default_rng(shift)
    x, y = random.integers(-128, 256, (2, 20_000)).astype("int32")
    factors = random.integers(-3, 4, 2) << shift >> 1
    half = 1 << shift >> 1
    got = apply(
        shifted_sum[dtype], (numod.from_numpy(x), numod.from_numpy(y), *map(int, factors), half, shift, -100, 90)
    )
    expected = np.rint((x * factors[0].astype(float) + y * factors[1] + half) / (1 << shift)).clip(-100, 90)
    np.testing.assert_array_equal(got.numpy(), expected.astype("int64").astype(dtype))


def test_a_scaled_sum_is_that_of_float32() -> None:
    totals = np.random.default_rng(0).integers(-(1 << 20), 1 << 20, 20_000).astype("int32")
    multiplier = np.float32(1.1e-4)
    got = apply(scaled_sum["int8"], (numod.from_numpy(totals), int(multiplier.view(np.int32)), 7, -128, 127))
    expected = (np.rint(totals.astype(np.float32) * multiplier) + 7).clip(-128, 127)
    np.testing.assert_array_equal(got.numpy(), expected)
