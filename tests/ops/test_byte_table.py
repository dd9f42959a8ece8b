"""Functions of one byte as tables, over every byte, layout and dtype."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.core.apply import apply
from numod.ops import pointwise, quantize  # noqa: F401  the second one adds rows
from numod.ops.byte_table import byte_table


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


def computed(name: str, *inputs: object) -> np.ndarray:
    """A row of integers of NumPy arrays and numbers."""
    tensors = [numod.from_numpy(x) if isinstance(x, np.ndarray) else x for x in inputs]
    return apply(pointwise.rows[name], tuple(tensors)).numpy().astype(int)


def totals_of(bits: int) -> np.ndarray:
    return np.random.default_rng(bits).integers(-(1 << bits), 1 << bits, 20_000).astype("int32")


@pytest.mark.parametrize("name, least", [("shifted_sum_int8", -100), ("shifted_sum_uint8", 3)])
@pytest.mark.parametrize("shift", [1, 4, 20])
def test_a_shifted_sum_rounds_halves_to_even(shift: int, name: str, least: int) -> None:
    random = np.random.default_rng(shift)
    x, y = random.integers(-128, 256, (2, 20_000)).astype("int32")
    factors, half = [int(number) for number in random.integers(-3, 4, 2) << shift >> 1], 1 << shift >> 1
    total = x.astype(int) * factors[0] + y.astype(int) * factors[1] + half
    expected = np.rint(total / (1 << shift)).clip(least, 90)
    np.testing.assert_array_equal(computed(name, x, y, *factors, half, shift, least, 90), expected)
    np.testing.assert_array_equal(computed("shifted", total.astype("int32"), shift), np.rint(total / (1 << shift)))


@pytest.mark.parametrize("name, least", [("scaled_sum_int8", -128), ("scaled_sum_uint8", 0)])
def test_a_scaled_sum_is_that_of_float32(name: str, least: int) -> None:
    totals, multiplier = totals_of(20), np.float32(1.1e-4)
    bits, scaled = int(multiplier.view(np.int32)), np.rint(totals.astype(np.float32) * multiplier)
    np.testing.assert_array_equal(computed("scaled_by_bits", totals, bits, 0), scaled)
    expected = (scaled + 7).clip(least, least + 255)
    np.testing.assert_array_equal(computed(name, totals, bits, 7, least, least + 255), expected)


@pytest.mark.parametrize("name, least", [("mean_sum_int8", -128), ("mean_sum_uint8", 0)])
@pytest.mark.parametrize("count", [2, 6, 49])
def test_a_mean_rounds_halves_to_even_with_its_zero_point(count: int, name: str, least: int) -> None:
    totals = totals_of(13)
    exact = np.rint(totals / count + 7)
    np.testing.assert_array_equal(computed("quotient_by_integers", totals, count, 7), exact)
    expected = exact.clip(least, least + 255)
    np.testing.assert_array_equal(computed(name, totals, count, 7, least, least + 255), expected)


def test_a_mean_may_divide_by_large_numbers() -> None:
    totals, count = np.array([-2147483647, -3, 3, 1073741824, 2147483647], "int32"), (1 << 31) - 1
    got = computed("quotient_by_integers", totals, count, 0)
    np.testing.assert_array_equal(got, np.rint(totals.astype(np.float64) / count))


@pytest.mark.parametrize("zero", [-128, -7, 0, 127])
def test_a_scaled_sum_rounds_halves_to_even_with_its_zero_point(zero: int) -> None:
    totals, multiplier = np.arange(-300, 300).astype("int32"), np.float32(0.25)
    bits, exact = int(multiplier.view(np.int32)), np.rint(totals * 0.25 + zero)
    np.testing.assert_array_equal(computed("scaled_by_bits", totals, bits, zero) + zero, exact)
    got = computed("scaled_sum_int8", totals, bits, zero, -128, 127)
    np.testing.assert_array_equal(got, exact.clip(-128, 127))
