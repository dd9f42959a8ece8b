"""Requantization by integers gives the results of float32, also where its roundings meet a tie."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.core.apply import apply
from numod.device import target
from numod.ops.matmul.int8_linear import ByteLinear

without_floats = ByteLinear("byte_linear_without_floats")
without_floats.portable = False  # it is not one of the ops that files name


def by_integers(monkeypatch, totals, multipliers, dtype="int8"):
    """Each total times its multiplier: offsets of a layer whose products are zero."""
    monkeypatch.setattr(target, "has_floats", lambda: False)
    limits = np.iinfo(dtype)
    x, weight = numod.zeros(1, 1, dtype=getattr(numod, dtype)), numod.zeros(len(totals), 1, dtype=numod.int8)
    inputs = x, weight, numod.from_numpy(totals.astype("int32")), numod.from_numpy(multipliers.astype("float32"))
    return apply(without_floats, inputs, (5, limits.min, limits.max)).numpy()[0]


def by_floats(totals, multipliers, dtype="int8"):
    limits = np.iinfo(dtype)
    values = np.rint(totals.astype("float32") * multipliers.astype("float32")).astype("float64")
    return np.clip(values + 5, limits.min, limits.max)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("bits", [8, 16, 24, 31])
def test_random_totals(monkeypatch, bits, dtype):
    random = np.random.default_rng(bits)
    totals = random.integers(-(1 << bits), 1 << bits, 20_000)
    multipliers = 2.0 ** random.uniform(-bits - 2, 10 - bits, 20_000)
    result = by_integers(monkeypatch, totals, multipliers, dtype)
    np.testing.assert_array_equal(result, by_floats(totals, multipliers, dtype))


def test_products_that_float32_rounds_to_a_tie(monkeypatch):
    random = np.random.default_rng(0)
    totals = random.integers(1 << 14, 1 << 20, 20_000) * random.choice([-1, 1], 20_000)
    exact = random.integers(0, 120, 20_000) + 0.5
    # the nearest float32s to the multiplier of a tie: products a few units of float32 from it
    multipliers = (exact / abs(totals)).astype("float32")
    for _ in range(3):
        expected = by_floats(totals, multipliers)
        np.testing.assert_array_equal(by_integers(monkeypatch, totals, multipliers), expected)
        multipliers = np.nextafter(multipliers, np.float32(1))
    product = totals.astype("float32") * (exact / abs(totals)).astype("float32")
    assert (abs(product) == exact).sum() > 1000


def test_extreme_multipliers(monkeypatch):
    totals = np.array([1, -1, 0, 7, -(1 << 31), (1 << 31) - 1, 3, 1 << 24, (1 << 25) + 1])
    for multiplier in (1e-45, 1e-38, 2.0**-31, 0.5, 1.0, 2.0**24, 1e28):
        multipliers = np.full(len(totals), multiplier)
        np.testing.assert_array_equal(by_integers(monkeypatch, totals, multipliers), by_floats(totals, multipliers))
