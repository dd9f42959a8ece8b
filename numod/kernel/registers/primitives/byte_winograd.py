"""The transforms and the product of Winograd's filtering of bytes, in plain Python."""

from __future__ import annotations

import operator

import numpy as np

from .. import byte_winograd
from ..vectors import host

_OPERATIONS = operator.add, operator.sub, operator.lshift


def _both_axes(transform, square):
    """Apply a transform along the columns, then along the rows."""
    columns = [transform(*_OPERATIONS, list(column)) for column in zip(*square)]
    return [transform(*_OPERATIONS, list(row)) for row in zip(*columns)]


def byte_winograd_tile(x, x_at, line, pixel, out, out_at, step):
    """out (36 numbers `step` apart, a register of channels) = B' d B of a tile d of x."""
    side = range(byte_winograd.SIDE)
    for c in range(host().width // 2):
        tile = [[int(x[x_at + i * line + j * pixel + c]) for j in side] for i in side]
        rows = _both_axes(byte_winograd.transformed_inputs, tile)
        for point, value in enumerate(value for row in rows for value in row):
            out[out_at + point * step + c] = value


def byte_winograd_product(a, a_at, a_row, b, b_at, c, c_at, depth, valid):
    """c (ROWS, panel) = a (valid, depth) @ b (depth, panel), of words with two 16-bit numbers; rows are repeated."""
    panel = byte_winograd.panel()
    for i in range(byte_winograd.ROWS):
        start = a_at + min(i, valid - 1) * a_row
        left = np.asarray(a[start : start + 2 * depth], "int64").reshape(depth, 1, 2)
        words = np.asarray(b[b_at : b_at + depth * panel]).astype("int32")
        right = words.view("int16").astype("int64").reshape(depth, panel, 2)
        c[c_at + i * panel : c_at + (i + 1) * panel] = (left * right).sum((0, 2)).astype("int32")


def byte_winograd_outputs(
    sums, s_at, step, added, added_at, scales, scales_at, out, out_at, line, pixel, rows, columns, least, most, zero
):
    """out (rows, columns pixels; a register of filters) = round((A' sums A + added) * scales) in limits, plus zero."""
    side, shifts = byte_winograd.SIDE, byte_winograd.SHIFTS
    for f in range(host().width // 4):
        tile = [[int(sums[s_at + (i * side + j) * step + f]) for j in range(side)] for i in range(side)]
        values = _both_axes(byte_winograd.outputs_of_products, tile)
        for i in range(rows):
            for j in range(columns):
                total = (values[i][j] * byte_winograd.INVERSE_OF_9 + (1 << 31)) % (1 << 32) - (1 << 31)
                total = (total >> shifts[i] + shifts[j]) + int(added[added_at + f])
                value = np.float32(total) * np.float32(scales[scales_at + f])
                out[out_at + i * line + j * pixel + f] = int(np.rint(min(max(value, least), most))) + zero
