"""Dot products of a vector with many rows beside NumPy, reading and writing nothing beyond."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from numod.device import cpu
from numod.kernel import build
from numod.kernel.registers import dots


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dots_of_rows(dtype):
    text = "def kernel(a, x, out, step, depth, count):\n    dots(a, 1, step, x, 2, depth, out, 3, count)\n"
    run = build.build(cpu, "dots", text, f"{dtype}[], {dtype}[], {dtype}[], int64, int64, int64").launch
    rng = np.random.default_rng(0)
    for count, depth in [(1, 1), (6, 64), (16, 16), (17, 5), (64, 17), (33, 70), (3, 0), (0, 4)]:
        a, x = rng.standard_normal((count, depth + 2)).astype(dtype), rng.standard_normal(depth + 2).astype(dtype)
        out = np.full(count + 4, 7, dtype)
        run(np.append(a.ravel(), np.nan).astype(dtype), x, out, depth + 2, depth, count)
        np.testing.assert_allclose(out[3:-1], a[:, 1:-1] @ x[2:], rtol=1e-5, atol=1e-5)
        assert (out[[0, 1, 2, -1]] == 7).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tiles_of_dots(dtype):
    """Of every height and width, with what lies around them NaN and 7."""
    text = (
        "def kernel(a, b, out, a_row, b_row, depth, held, wide):\n    dot_tile(a, 1, a_row, b, 2, b_row, depth, "
        "out, 3, 6, held, wide)\n"
    )
    run = build.build(cpu, "dot_tile", text, ", ".join([f"{dtype}[]"] * 3 + ["int64"] * 5)).launch
    rng = np.random.default_rng(0)
    for stored_dtype, wide, depth in itertools.product(
        range(1, dots.tile_rows() + 1), range(1, dots.COLUMNS + 1), (0, 3, 16, 37)
    ):
        a, b = np.full((stored_dtype, depth + 3), np.nan, dtype), np.full((wide, depth + 5), np.nan, dtype)
        a[:, 1:-2], b[:, 2:-3] = rng.standard_normal((stored_dtype, depth)), rng.standard_normal((wide, depth))
        out = np.full(3 + 6 * dots.tile_rows(), 7, dtype)
        run(a.ravel(), b.ravel(), out, depth + 3, depth + 5, depth, stored_dtype, wide)
        expected = np.full((dots.tile_rows(), 6), 7, dtype)
        expected[:stored_dtype, :wide] = a[:, 1:-2] @ b[:, 2:-3].T
        np.testing.assert_allclose(out[3:].reshape(-1, 6), expected, rtol=1e-5, atol=1e-5)
        assert (out[:3] == 7).all()
