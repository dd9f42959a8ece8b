"""Tiles of a product beside NumPy, reading and writing nothing beyond."""

from __future__ import annotations

import numpy as np
import pytest

from numod.device import cpu
from numod.kernel import build
from numod.kernel.registers import tiles

SIZE = {"float32": 4, "float64": 8}


def _run(text, name, signature, arguments):
    source = f"def kernel({', '.join(f'x{k}' for k in range(len(arguments)))}):\n    {text}\n"
    build.build(cpu, name, source, signature).launch(*arguments)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("vectors", [1, 2, 3])
@pytest.mark.parametrize("depth", [0, 1, 37])
def test_a_tile_is_a_product(dtype, vectors, depth):
    rows, lanes = tiles.host().rows, tiles.host().lanes(SIZE[dtype])
    rng, columns = np.random.default_rng(0), vectors * tiles.host().lanes(SIZE[dtype])
    a, b, c = (
        rng.standard_normal(shape).astype(dtype)
        for shape in ((rows, depth + 1), (depth + 1, columns + 3), (rows, columns + 1))
    )
    expected = np.concatenate([c[:, :columns] + a[:, :depth] @ b[:depth, :columns], c[:, columns:]], 1)
    text = (
        f"tile{vectors}(address_of(x0), {depth + 1}, 1, address_of(x1), {columns + 3}, x2, 0, {columns + 1}, "
        f"{depth}, 1, {rows}, {lanes})"
    )
    _run(text, "tile", f"{dtype}[], {dtype}[], {dtype}[]", (a.ravel(), b.ravel(), c.reshape(-1)))
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-5)
    assert lanes * tiles.VECTORS * rows * SIZE[dtype] <= 24 * 64


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("vectors", [1, 2, 3])
@pytest.mark.parametrize(("depth", "keep"), [(0, 0), (1, 1), (37, 1)])
def test_a_tile_of_columns_is_a_product(dtype, vectors, depth, keep):
    rows, columns = tiles.host().rows, vectors * tiles.host().lanes(SIZE[dtype])
    rng = np.random.default_rng(0)
    a, b, c = (
        rng.standard_normal(shape).astype(dtype)
        for shape in ((depth + 1, rows + 2), (depth + 1, columns + 3), (rows, columns + 1))
    )
    product = a[:depth, :rows].T @ b[:depth, :columns]
    expected = np.concatenate([keep * c[:, :columns] + product, c[:, columns:]], 1)
    text = (
        f"column{vectors}(address_of(x0), {rows + 2}, address_of(x1), {columns + 3}, x2, 0, {columns + 1}, {depth}, "
        f"{keep})"
    )
    _run(text, "column", f"{dtype}[], {dtype}[], {dtype}[]", (a.ravel(), b.ravel(), c.reshape(-1)))
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("keep", [0, 1])
def test_a_tall_tile_of_columns_has_twice_the_rows(dtype, keep):
    rows, columns, depth = 2 * tiles.host().rows, tiles.host().lanes(SIZE[dtype]), 9
    rng = np.random.default_rng(0)
    a, b, c = (
        rng.standard_normal(shape).astype(dtype)
        for shape in ((depth, rows + 2), (depth, columns + 3), (rows + 1, columns + 1))
    )
    expected = c.copy()
    expected[:rows, :columns] = keep * c[:rows, :columns] + a[:, :rows].T @ b[:, :columns]
    text = f"tall_column1(address_of(x0), {rows + 2}, address_of(x1), {columns + 3}, x2, 0, {columns + 1}, {depth}, {keep})"
    _run(text, "tall_column", f"{dtype}[], {dtype}[], {dtype}[]", (a.ravel(), b.ravel(), c.reshape(-1)))
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("depth", [0, 1, 37, 40])
def test_a_tall_tile_reads_the_rows_of_b_that_a_table_names(dtype, depth):
    rows, columns, rng = 2 * tiles.host().rows, tiles.host().lanes(SIZE[dtype]), np.random.default_rng(0)
    a, b, c = (
        rng.standard_normal(shape).astype(dtype)
        for shape in ((rows, depth + 1), (depth + 1, columns + 3), (rows, columns + 1))
    )
    table = rng.permutation(depth + 1) * (columns + 3)
    expected = np.concatenate([a[:, :depth] @ b.ravel()[table[:depth, None] + np.arange(columns)], c[:, columns:]], 1)
    text = f"tall1(x0, 0, {depth + 1}, 1, x1, 0, 0, x2, 0, x3, 0, {columns + 1}, {depth}, 0)"
    arrays = (a.ravel(), b.ravel(), table, c.reshape(-1))
    _run(text, "tall", f"{dtype}[], {dtype}[], int64[], {dtype}[]", arrays)
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("vectors", [1, 2, 3])
@pytest.mark.parametrize(("valid", "last", "keep"), [(1, 1, 0), (3, 2, 1)])
def test_a_tile_at_the_edge_reads_and_writes_no_further(dtype, vectors, valid, last, keep):
    lanes, depth = tiles.host().lanes(SIZE[dtype]), 5
    rng, columns = np.random.default_rng(0), (vectors - 1) * lanes + last
    a, c = rng.standard_normal((valid, depth)).astype(dtype), np.full((valid + 1, columns + 9), 7, dtype)
    b = rng.standard_normal((depth, columns if tiles.host().masks else vectors * lanes)).astype(dtype)
    expected = c.copy()
    expected[:valid, :columns] = 7 * keep + a @ b[:, :columns]
    text = (
        f"edge{vectors}(address_of(x0), {depth}, 1, address_of(x1), {b.shape[1]}, x2, 0, {c.shape[1]}, {depth}, "
        f"{keep}, {valid}, {last})"
    )
    _run(text, "edge", f"{dtype}[], {dtype}[], {dtype}[]", (a.ravel(), b.ravel(), c.reshape(-1)))
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", tiles.HEIGHTS)
def test_a_tile_of_few_rows_is_a_product(dtype, rows):
    vectors, depth, rng = tiles.widest(rows), 19, np.random.default_rng(0)
    columns = vectors * tiles.host().lanes(SIZE[dtype])
    a, b, c = (
        rng.standard_normal(shape).astype(dtype) for shape in ((rows, depth + 2), (depth, columns), (rows, columns + 1))
    )
    expected = np.concatenate([a[:, 1:-1] @ b, c[:, columns:]], 1)
    _run(
        f"tile{rows}x{vectors}(x0, 1, {depth + 2}, x1, 0, x2, 0, {columns + 1}, {depth})",
        "few",
        f"{dtype}[], {dtype}[], {dtype}[]",
        (a.ravel(), b.ravel(), c.reshape(-1)),
    )
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-5)


def test_panels_are_of_equal_width_and_hold_all_columns():
    assert [tiles.panel(columns, 16) for columns in (1, 48, 64, 512)] == [(16, 16), (48, 48), (32, 64), (48, 528)]
    assert tiles.panel(96, 16, 8) == (96, 96)


@pytest.mark.parametrize(("first", "last", "n"), [(0, 50, 50), (3, 20, 37), (5, 5, 9), (0, 0, 0), (1, 2, 16)])
def test_a_line_is_copied_between_zeros_and_not_beyond(first, last, n):
    x, out = np.arange(1, 51, dtype="float32"), np.full(64, -1, "float32")
    _run(f"copy_line(x0, 0, {first}, {last}, x1, 3, {n})", "line", "float32[], float32[]", (x, out))
    expected = np.full(64, -1, "float32")
    expected[3 : 3 + n] = 0
    expected[3 + first : 3 + last] = x[first:last]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_line_s_last_lanes_are_written_whatever_their_number(dtype):
    x, out = np.arange(1, 41, dtype=dtype), np.full((35, 40), -1, dtype)
    _run(
        "for n in range(35): copy_line(x0, 0, 0, n, x1, 40 * n, n)",
        "ends",
        f"{dtype}[], {dtype}[]",
        (x, out.reshape(-1)),
    )
    np.testing.assert_array_equal(out, np.where(np.arange(40) < np.arange(35)[:, None], x, -1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("stride", tiles.SPLITS)
@pytest.mark.parametrize(
    ("n", "first", "missing", "valid"), [(40, 0, 0, 16), (40, 3, 2, 16), (9, 1, 1, 1), (5, 0, 60, 16)]
)
def test_lines_are_split_by_the_stride(dtype, stride, n, first, missing, valid):
    """Three lines of which the middle one is read; each is n behind the one before, so that what is written beyond an
    end is written again.
    """
    lines, wide, valid = 3, n * stride, min(valid, stride)
    x, out = np.arange(1.0, 1 + lines * wide, dtype=dtype), np.full((valid + 1, lines * n), -1, dtype)
    last, apart = max(first, wide - missing), lines * n
    _run(
        f"split{stride}(x0, 0, {wide}, {first}, {last}, 1, 2, x1, 0, {n}, {apart}, {lines}, {n}, {valid}, {apart}, {n})", "split", f"{dtype}[], {dtype}[]",
        (x, out.reshape(-1)),
    )  # fmt: skip
    expected, here = np.zeros((valid, lines, n)), np.arange(wide)
    expected[:, 1] = np.where((here >= first) & (here < last), x[wide : 2 * wide], 0).reshape(n, stride).T[:valid]
    np.testing.assert_array_equal(out[:valid], expected.reshape(valid, -1))
    assert (out[valid] == -1).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["copy_panel", "copy_strip"])
def test_parts_of_lines_are_put_behind_each_other(dtype, name):
    count, wide = 3, tiles.host().rows if name == "copy_strip" else tiles.VECTORS * tiles.host().lanes(SIZE[dtype])
    x, out = np.arange(count * (wide + 5), dtype=dtype).reshape(count, -1), np.full(count * wide + 2, -1, dtype)
    _run(f"{name}(x0, 2, {wide + 5}, x1, 1, {count})", "parts", f"{dtype}[], {dtype}[]", (x.ravel(), out))
    np.testing.assert_array_equal(out, [-1, *x[:, 2 : 2 + wide].ravel(), -1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_block_is_turned(dtype):
    lanes = tiles.host().lanes(SIZE[dtype])
    x = np.random.default_rng(0).standard_normal((lanes, lanes + 3)).astype(dtype)
    out = np.zeros((lanes, lanes + 5), dtype)
    _run(
        f"transpose_block(x0, 1, {lanes + 3}, x1, 2, {lanes + 5})",
        "turn",
        f"{dtype}[], {dtype}[]",
        (x.ravel(), out.reshape(-1)),
    )
    np.testing.assert_array_equal(out[:, 2 : 2 + lanes], x[:, 1 : 1 + lanes].T)


def test_the_edge_of_a_block_is_turned_without_reading_beyond():
    lanes, valid = tiles.host().lanes(4), 3
    x = np.random.default_rng(0).standard_normal((valid, lanes)).astype("float32")
    out = np.zeros((lanes, lanes), "float32")
    _run(
        f"transpose_edge(x0, 0, {lanes}, x1, 0, {lanes}, {valid})",
        "turn",
        "float32[], float32[]",
        (x.ravel(), out.reshape(-1)),
    )
    np.testing.assert_array_equal(out[:, :valid], x.T)
