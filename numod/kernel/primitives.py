"""The vector primitives that kernels of convolutions and pooling call, as Python functions: what each computes, element by element.

`device.tiles`, `device.depthwise_fma`, `device.winograd` and `device.pool_rows` write the instructions; a kernel's source
has the names only. A vector has as many lanes as a register of this processor holds elements of the array's type. An
array and the place in it where something begins are two arguments.
"""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from ..device.vectors import host
from .language import emitted


def copy_line(x, x_at, first, last, out, out_at, n):
    """out[out_at + j] = x[x_at + j] for j from `first` to `last`, 0 for the rest up to n."""
    for j in range(n):
        out[out_at + j] = x[x_at + j] if first <= j < last else 0


def turn_block(x, x_at, x_step, out, out_at, out_step):
    """Transpose a square with as many elements as a register on each side: out (k, j) = x (j, k)."""
    turn_edge(x, x_at, x_step, out, out_at, out_step, _lanes(x))


def turn_edge(x, x_at, x_step, out, out_at, out_step, held):
    """As `turn_block`, reading only `held` lines; the last of them takes the place of those that are missing."""
    for k in range(_lanes(x)):
        for j in range(_lanes(x)):
            out[out_at + k * out_step + j] = x[x_at + min(j, held - 1) * x_step + k]


def _split(stride):
    def split(x, x_at, x_step, first, last, top, bottom, out, out_at, out_step, apart, lines, n, held, room, less):
        """out (lines, held phases, n) = every `stride`-th element of each line of x, from each phase on; 0 outside of [first, last) and [top, bottom).

        Behind the n elements anything may be written, up to `room` elements in all, `less` of them in each line than in the one before.
        """
        for i in range(lines):
            for phase in range(held):
                for j in range(n):
                    k = j * stride + phase
                    inside = top <= i < bottom and first <= k < last
                    out[out_at + i * out_step + phase * apart + j] = x[x_at + i * x_step + k] if inside else 0

    return split


split1, split2, split4, split8, split16 = map(_split, (1, 2, 4, 8, 16))


def _tile(vectors):
    def tile(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, held, last):
        """c (held rows, so many vectors) = or, where `keep`, += a (rows, depth) @ b (depth, columns). a and b are addresses."""
        a_at, b_at = (functools.partial(_read, address, c.dtype) for address in (a, b))
        for i in range(held):
            for j in range(vectors * _lanes(c)):
                total = sum(a_at(i * a_row + k * a_step) * b_at(k * b_step + j) for k in range(depth))
                _put(c, c_at + i * c_row + j, total, keep)

    return tile


tile1, tile2, tile3 = map(_tile, (1, 2, 3))


def _shifted(vectors):
    def shifted(a, a_at, a_row, a_step, b, b_at, b_step, table, table_at, c, c_at, c_row, depth, keep):
        """As a tile of arrays: row k of b begins at b_at + table[table_at + k]."""
        for i in range(host().rows):
            for j in range(vectors * _lanes(c)):
                total = sum(a[a_at + i * a_row + k * a_step] * b[b_at + table[table_at + k] + j] for k in range(depth))
                _put(c, c_at + i * c_row + j, total, keep)

    return shifted


shifted1, shifted2, shifted3 = map(_shifted, (1, 2, 3))


def _spread(vectors):
    def spread(a, a_at, a_row, a_step, b, b_at, b_step, table, table_at, c, c_at, c_row, depth, keep):
        """As a tile of arrays: row i of a begins at a_at + table[table_at + i]."""
        for i in range(host().rows):
            for j in range(vectors * _lanes(c)):
                total = sum(a[a_at + table[table_at + i] + k * a_step] * b[b_at + k * b_step + j] for k in range(depth))
                _put(c, c_at + i * c_row + j, total, keep)

    return spread


spread1, spread2, spread3 = map(_spread, (1, 2, 3))


def _line(vectors):
    def line(a, a_at, a_row, a_step, b, b_at, b_step, table, table_at, c, c_at, last, depth, keep):
        """One row of `shifted`: of its last vector only `last` elements are written."""
        for j in range((vectors - 1) * _lanes(c) + min(last, _lanes(c))):
            total = sum(a[a_at + k * a_step] * b[b_at + table[table_at + k] + j] for k in range(depth))
            _put(c, c_at + j, total, keep)

    return line


line1, line2, line4, line8 = map(_line, (1, 2, 4, 8))


def _depthwise_fma(vectors):
    def depthwise_fma(
        x, x_at, x_row, x_column, x_next, w, w_at, w_row, w_column, rows, columns, out, out_at, out_next, keep
    ):
        """Vector o of out = or, where `keep`, += the sum over b < rows and k < columns of vectors of x times vectors of w, lane by lane."""
        for o in range(vectors):
            for lane in range(_lanes(out)):
                taps = [(b, k) for b in range(rows) for k in range(columns)]
                total = sum(
                    x[x_at + o * x_next + b * x_row + k * x_column + lane] * w[w_at + b * w_row + k * w_column + lane]
                    for b, k in taps
                )
                _put(out, out_at + o * out_next + lane, total, keep)

    return depthwise_fma


depthwise_fma1, depthwise_fma2, depthwise_fma3, depthwise_fma4 = map(_depthwise_fma, (1, 2, 3, 4))

# The matrices of Winograd's F(2x2, 3x3): of elements, kernels, outputs' gradients, and back to outputs and to kernels' gradients
_OF_ELEMENTS = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
_OF_TAPS = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
_OF_OUTPUTS = np.array([[1, 0], [0.5, 0.5], [0.5, -0.5], [0, 1]])
_TO_OUTPUTS = np.array([[1, 1, 1, 0], [0, 1, -1, -1]])
_TO_TAPS = np.array([[1, 1, 1, 0], [0, 1, -1, 0], [0, 1, 1, -1]])


def transform_taps(weight, at, row_step, out, out_at, step):
    """Transform kernels of 3 x 3, one for each lane, `row_step` apart: the 16 places of each are `step` apart in out."""
    for lane in range(_lanes(out)):
        taps = weight[at + lane * row_step : at + lane * row_step + 9].reshape(3, 3)
        _write_places(_OF_TAPS @ taps @ _OF_TAPS.T, out, out_at + lane, step)


def transform_lines(x, at, line, out, out_at, step):
    """Transform tiles of 4 x 4 elements, one for each lane, two elements apart; lines are `line` apart."""
    for lane in range(_lanes(out)):
        _write_places(_transformed(_OF_ELEMENTS, x, at + 2 * lane, line, 1), out, out_at + lane, step)


def transform_pixels(x, at, line, out, out_at, out_step, step, n):
    """Transform n tiles of 4 x 4 elements for each lane, a channel; elements are a vector apart, tiles two of them."""
    _transform_channels(_OF_ELEMENTS, x, at, line, out, out_at, out_step, step, n)


def transform_outputs(x, at, line, out, out_at, out_step, step, n):
    """As `transform_pixels`, of the 2 x 2 elements that belong to a tile's outputs."""
    _transform_channels(_OF_OUTPUTS, x, at, line, out, out_at, out_step, step, n)


def combine_lines(products, at, step, out, out_at, line, columns, lines):
    """Transform products back to outputs of 2 x 2, one for each lane: two lines, or one, with `columns` elements, at most two vectors of them.

    Returns whether an output is not finite.
    """
    odd = 0
    for lane in range(_lanes(out)):
        outputs = _transformed(_TO_OUTPUTS, products, at + lane, 4 * step, step)
        for i in range(min(lines, 2)):
            for j in range(min(2, columns - 2 * lane)):
                out[out_at + i * line + 2 * lane + j] = outputs[i, j]
                odd |= int(not np.isfinite(outputs[i, j]))
    return odd


def combine_taps(products, at, step, out, out_at):
    """Transform products back to gradients of kernels of 3 x 3, one for each lane, one after the other. Returns whether an element is not finite."""
    for lane in range(_lanes(out)):
        out[out_at + 9 * lane : out_at + 9 * lane + 9] = _transformed(
            _TO_TAPS, products, at + lane, 4 * step, step
        ).ravel()
    return int(not np.isfinite(out[out_at : out_at + 9 * _lanes(out)]).all())


def fold_rows_sum(x, x_at, first, slabs, slab_step, lines, line_step, n, into, into_at, places, places_at):
    """into[into_at + w] = the sum over lines and slabs of lines of x, of which the first begins at x_at + first; what is left of the last vector is 0."""
    for w in range(-(-n // _lanes(into)) * _lanes(into)):
        into[into_at + w] = (
            sum(x[x_at + k] for k in _rows(first + w, slabs, slab_step, lines, line_step)) if w < n else 0
        )


def fold_rows_max(x, x_at, first, slabs, slab_step, lines, line_step, n, into, into_at, places, places_at):
    """As `fold_rows_sum`, the greatest element, NaN first; what is left of the last vector is -inf."""
    for w in range(-(-n // _lanes(into)) * _lanes(into)):
        into[into_at + w] = max(
            (x[x_at + k] for k in _rows(first + w, slabs, slab_step, lines, line_step) if w < n),
            key=_rank,
            default=-np.inf,
        )


def fold_rows_argmax(x, x_at, first, slabs, slab_step, lines, line_step, n, into, into_at, places, places_at):
    """As `fold_rows_max`, with the place of the greatest, counted from x_at: the first of several, the last of NaNs; -1 where there is none."""
    for w in range(-(-n // _lanes(into)) * _lanes(into)):
        found = [(x[x_at + k], k) for k in _rows(first + w, slabs, slab_step, lines, line_step) if w < n]
        into[into_at + w], places[places_at + w] = max(found, key=_rank_with_place, default=(-np.inf, -1))


@functools.cache
def fold_windows(kind: str, known_stride: int | str):
    """The primitive that folds windows of a row which are a known stride apart, or "any": "sum", "max", or "argmax", the greatest with its place."""

    def folded(
        x, x_at, places, places_at, step, taps, out, out_at, indices, indices_at, n, sizes, sizes_at, factor, stride
    ):
        for o in range(n):
            window = [o * stride + k * step for k in range(taps)]
            if kind == "sum":
                out[out_at + o] = sum(x[x_at + k] for k in window) / (sizes[sizes_at + o] * factor)
            elif kind == "max":
                out[out_at + o] = max((x[x_at + k] for k in window), key=_rank, default=-np.inf)
            else:
                found = [(x[x_at + k], places[places_at + k]) for k in window]
                out[out_at + o], indices[indices_at + o] = max(found, key=_rank_with_place, default=(-np.inf, -1))

    folded.__name__ = f"fold_windows_{kind}_{known_stride}"
    return emitted(folded)


def _lanes(array):
    return host().lanes(array.itemsize)


def _read(address, dtype, place):
    return np.frombuffer((ctypes.c_char * dtype.itemsize).from_address(address + place * dtype.itemsize), dtype)[0]


def _put(out, at, total, keep):
    out[at] = out[at] + total if keep else total


def _transformed(matrix, x, at, row_step, column_step):
    n = matrix.shape[1]
    square = np.array([[x[at + i * row_step + j * column_step] for j in range(n)] for i in range(n)])
    return matrix @ square @ matrix.T


def _write_places(square, out, at, step):
    for place, value in enumerate(square.ravel()):
        out[at + place * step] = value


def _transform_channels(matrix, x, at, line, out, out_at, out_step, step, n):
    lanes = _lanes(out)
    for tile in range(n):
        for lane in range(lanes):
            square = _transformed(matrix, x, at + 2 * tile * lanes + lane, line, lanes)
            _write_places(square, out, out_at + tile * out_step + lane, step)


def _rows(first, slabs, slab_step, lines, line_step):
    return [first + d * slab_step + h * line_step for d in range(slabs) for h in range(lines)]


def _rank(value):
    return (value != value, value)


def _rank_with_place(found):
    value, place = found  # a place of -1, none, comes after all others
    return (1, place) if value != value else (0, value, -(place if place >= 0 else 1 << 32))
