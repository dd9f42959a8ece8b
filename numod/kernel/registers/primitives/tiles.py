"""Copies, transposes, and register tiles of products, in plain Python."""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from ...language import emitted
from .. import tiles
from ..vectors import host
from . import lanes_of, put


def copy_line(x, x_at, first, last, out, out_at, n):
    """out[out_at + j] = x[x_at + j] for first <= j < last, 0 for the other j < n."""
    for j in range(n):
        out[out_at + j] = x[x_at + j] if first <= j < last else 0


def copy_panel(x, x_at, x_step, out, out_at, count):
    """Copy the first elements of `count` lines, `x_step` apart: as many as the widest tile has columns."""
    _copy_lines(x, x_at, x_step, out, out_at, count, tiles.VECTORS * lanes_of(x))


def copy_strip(x, x_at, x_step, out, out_at, count):
    """Copy the first elements of `count` lines, `x_step` apart: as many as a tile has rows."""
    _copy_lines(x, x_at, x_step, out, out_at, count, host().rows)


def transpose_block(x, x_at, x_step, out, out_at, out_step):
    """Transpose a square of `tiles.square` elements a side: out (k, j) = x (j, k)."""
    transpose_edge(x, x_at, x_step, out, out_at, out_step, tiles.square(x.itemsize))


def transpose_edge(x, x_at, x_step, out, out_at, out_step, valid):
    """Transpose like `transpose_block`, reading only `valid` lines; the last one is repeated."""
    side = tiles.square(x.itemsize)
    for k in range(side):
        for j in range(side):
            out[out_at + k * out_step + j] = x[x_at + min(j, valid - 1) * x_step + k]


def _split(stride):
    def split(x, x_at, x_step, first, last, top, bottom, out, out_at, out_step, apart, lines, n, valid, room, less):
        """out (lines, valid phases, n) = every `stride`-th element of each line of x, from each phase on; 0 outside of
        [first, last) and [top, bottom).

        The compiled form may write beyond the n elements, up to room - i * less elements in line i.
        """
        for i in range(lines):
            for phase in range(valid):
                for j in range(n):
                    k = j * stride + phase
                    inside = top <= i < bottom and first <= k < last
                    out[out_at + i * out_step + phase * apart + j] = x[x_at + i * x_step + k] if inside else 0

    return split


split1, split2, split4, split8, split16 = map(_split, (1, 2, 4, 8, 16))


def _tile(vectors):
    def tile(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, valid, last):
        """c (valid rows, vectors) = (or += if `keep`) a (rows, depth) @ b (depth, columns). a and b are addresses."""
        a_at, b_at = (functools.partial(_read, address, c.dtype) for address in (a, b))
        for i in range(valid):
            for j in range(vectors * lanes_of(c)):
                total = sum(a_at(i * a_row + k * a_step) * b_at(k * b_step + j) for k in range(depth))
                put(c, c_at + i * c_row + j, total, keep)

    return tile


tile1, tile2, tile3 = map(_tile, (1, 2, 3))


def _column(vectors, height=1):
    def column(a, a_step, b, b_step, c, c_at, c_row, depth, keep):
        """A tile of `height` times the usual rows, of whose a each column is contiguous."""
        _tile(vectors)(a, 1, a_step, b, b_step, c, c_at, c_row, depth, keep, height * host().rows, 0)

    return column


column1, column2, column3 = map(_column, (1, 2, 3))
tall_column1 = _column(1, 2)


def _panel_tile(rows, vectors):
    def panel_tile(a, a_at, a_row, b, b_at, c, c_at, c_row, depth):
        """c (rows, vectors) = a (rows, depth) @ b (depth, vectors); b is a contiguous panel. All are arrays."""
        columns = vectors * lanes_of(c)
        for i in range(rows):
            for j in range(columns):
                c[c_at + i * c_row + j] = sum(a[a_at + i * a_row + k] * b[b_at + k * columns + j] for k in range(depth))

    panel_tile.__name__ = f"tile{rows}x{vectors}"
    return emitted(panel_tile)


globals().update(
    {
        tile.__name__: tile
        for rows in tiles.HEIGHTS
        for tile in map(functools.partial(_panel_tile, rows), range(1, tiles.LINE + 1))
    }
)


def _edge(vectors):
    def edge(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, valid, last):
        """A tile of which only `last` elements of the last vector are read and written."""
        for i in range(valid):
            for j in range((vectors - 1) * lanes_of(c) + last):
                terms = (
                    _read(a, c.dtype, i * a_row + k * a_step) * _read(b, c.dtype, k * b_step + j) for k in range(depth)
                )
                put(c, c_at + i * c_row + j, sum(terms), keep)

    return edge


edge1, edge2, edge3 = map(_edge, (1, 2, 3))


def _shifted(vectors, height=1):
    def shifted(a, a_at, a_row, a_step, b, b_at, b_step, table, table_at, c, c_at, c_row, depth, keep):
        """A tile of arrays, of `height` times the usual rows; row k of b begins at b_at + table[table_at + k]."""
        for i in range(height * host().rows):
            for j in range(vectors * lanes_of(c)):
                total = sum(a[a_at + i * a_row + k * a_step] * b[b_at + table[table_at + k] + j] for k in range(depth))
                put(c, c_at + i * c_row + j, total, keep)

    return shifted


shifted1, shifted2, shifted3 = map(_shifted, (1, 2, 3))


tall1 = _shifted(1, 2)


def _spread(vectors):
    def spread(a, a_at, a_row, a_step, b, b_at, b_step, table, table_at, c, c_at, c_row, depth, keep):
        """A tile of arrays; row i of a begins at a_at + table[table_at + i]."""
        for i in range(host().rows):
            for j in range(vectors * lanes_of(c)):
                total = sum(a[a_at + table[table_at + i] + k * a_step] * b[b_at + k * b_step + j] for k in range(depth))
                put(c, c_at + i * c_row + j, total, keep)

    return spread


spread1, spread2, spread3 = map(_spread, (1, 2, 3))


def _line(vectors):
    def line(a, a_at, a_row, a_step, b, b_at, b_step, table, table_at, c, c_at, last, depth, keep):
        """`shifted` of one row; only `last` elements of the last vector are written."""
        for j in range((vectors - 1) * lanes_of(c) + min(last, lanes_of(c))):
            total = sum(a[a_at + k * a_step] * b[b_at + table[table_at + k] + j] for k in range(depth))
            put(c, c_at + j, total, keep)

    return line


line1, line2, line4, line8 = map(_line, (1, 2, 4, 8))


def dots(matrix, at, step, vector, vector_at, depth, out, out_at, count):
    """out (count) = the dot products of the vector with rows of the matrix, which are `step` apart."""
    for j in range(count):
        out[out_at + j] = sum(matrix[at + j * step + k] * vector[vector_at + k] for k in range(depth))


def dot_tile(a, a_at, a_row, b, b_at, b_row, depth, out, out_at, out_row, valid, wide):
    """out (valid, wide) = the dot products of rows of a with rows of b."""
    for i in range(valid):
        for j in range(wide):
            out[out_at + i * out_row + j] = sum(a[a_at + i * a_row + k] * b[b_at + j * b_row + k] for k in range(depth))


def _copy_lines(x, x_at, x_step, out, out_at, count, n):
    for k in range(count):
        out[out_at + k * n : out_at + (k + 1) * n] = x[x_at + k * x_step : x_at + k * x_step + n]


def _read(address, dtype, index):
    return np.frombuffer((ctypes.c_char * dtype.itemsize).from_address(address + index * dtype.itemsize), dtype)[0]
