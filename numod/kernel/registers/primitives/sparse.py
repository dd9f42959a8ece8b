"""Products of sparse rows, in plain Python."""

from __future__ import annotations

import numpy as np

from .. import sparse_rows
from ..vectors import host


def sparse_dots(values, v_at, columns, c_at, steps, x, x_at, out, out_at, valid):
    """out (valid) = a group of sparse rows, one in each lane, times x."""
    lanes = host().lanes(4)
    numbers = values[v_at : v_at + steps * lanes].view(np.float32)
    for row in range(min(valid, lanes)):
        places = range(row, steps * lanes, lanes)
        out[out_at + row] = sum(numbers[k] * x[x_at + int(columns[c_at + k])] for k in places)


def sparse_batch(values, v_at, columns, c_at, steps, x, x_at, x_step, order, o_at, out, out_at, out_step):
    """Rows `order` of out = ROWS rows of a group of sparse rows times x (inner, width)."""
    lanes = host().lanes(4)
    width, numbers = sparse_rows.VECTORS * lanes, values[v_at:].view(np.float32)
    for row in range(sparse_rows.ROWS):
        for j in range(width):
            places = range(row, steps * lanes, lanes)
            out[out_at + int(order[o_at + row]) * out_step + j] = sum(
                numbers[k] * x[x_at + int(columns[c_at + k]) * x_step + j] for k in places
            )


def window_dots(values, v_at, places, p_at, bases, b_at, steps, x, x_at, out, out_at, valid):
    """out (valid) = a group of sparse rows, one in each lane, times x; elements are found from each step's base on."""
    lanes = host().lanes(4)
    numbers, offsets = values[v_at : v_at + steps * lanes].view(np.float32), places[p_at:].view(np.uint8)
    for row in range(min(valid, lanes)):
        out[out_at + row] = sum(
            numbers[k * lanes + row] * x[x_at + int(bases[b_at + k]) + int(offsets[k * lanes + row])]
            for k in range(steps)
        )
