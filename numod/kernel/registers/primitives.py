"""The functions of this folder in plain Python, for kernels to import; the compiled forms compute equal results.

A compiled kernel calls the vector instructions of that name instead. A vector has as many lanes as a register of this
processor holds elements of the array's type. An array and the index of its first element are two arguments.
"""

from __future__ import annotations

import cmath
import ctypes
import functools
import math

import numpy as np

from ..language import emitted
from . import byte_tiles, sparse_rows, tiles
from . import depthwise_bytes as depthwise_words
from . import limb_dots as limb_dot_products
from .vectors import host


def copy_line(x, x_at, first, last, out, out_at, n):
    """out[out_at + j] = x[x_at + j] for first <= j < last, 0 for the other j < n."""
    for j in range(n):
        out[out_at + j] = x[x_at + j] if first <= j < last else 0


def copy_panel(x, x_at, x_step, out, out_at, count):
    """Copy the first elements of `count` lines, `x_step` apart: as many as the widest tile has columns."""
    _copy_lines(x, x_at, x_step, out, out_at, count, tiles.VECTORS * _lanes(x))


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
            for j in range(vectors * _lanes(c)):
                total = sum(a_at(i * a_row + k * a_step) * b_at(k * b_step + j) for k in range(depth))
                _put(c, c_at + i * c_row + j, total, keep)

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
        columns = vectors * _lanes(c)
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
            for j in range((vectors - 1) * _lanes(c) + last):
                terms = (
                    _read(a, c.dtype, i * a_row + k * a_step) * _read(b, c.dtype, k * b_step + j) for k in range(depth)
                )
                _put(c, c_at + i * c_row + j, sum(terms), keep)

    return edge


edge1, edge2, edge3 = map(_edge, (1, 2, 3))


def _shifted(vectors, height=1):
    def shifted(a, a_at, a_row, a_step, b, b_at, b_step, table, table_at, c, c_at, c_row, depth, keep):
        """A tile of arrays, of `height` times the usual rows; row k of b begins at b_at + table[table_at + k]."""
        for i in range(height * host().rows):
            for j in range(vectors * _lanes(c)):
                total = sum(a[a_at + i * a_row + k * a_step] * b[b_at + table[table_at + k] + j] for k in range(depth))
                _put(c, c_at + i * c_row + j, total, keep)

    return shifted


shifted1, shifted2, shifted3 = map(_shifted, (1, 2, 3))
tall1 = _shifted(1, 2)


def _spread(vectors):
    def spread(a, a_at, a_row, a_step, b, b_at, b_step, table, table_at, c, c_at, c_row, depth, keep):
        """A tile of arrays; row i of a begins at a_at + table[table_at + i]."""
        for i in range(host().rows):
            for j in range(vectors * _lanes(c)):
                total = sum(a[a_at + table[table_at + i] + k * a_step] * b[b_at + k * b_step + j] for k in range(depth))
                _put(c, c_at + i * c_row + j, total, keep)

    return spread


spread1, spread2, spread3 = map(_spread, (1, 2, 3))


def _line(vectors):
    def line(a, a_at, a_row, a_step, b, b_at, b_step, table, table_at, c, c_at, last, depth, keep):
        """`shifted` of one row; only `last` elements of the last vector are written."""
        for j in range((vectors - 1) * _lanes(c) + min(last, _lanes(c))):
            total = sum(a[a_at + k * a_step] * b[b_at + table[table_at + k] + j] for k in range(depth))
            _put(c, c_at + j, total, keep)

    return line


line1, line2, line4, line8 = map(_line, (1, 2, 4, 8))


def _depthwise_fma(vectors):
    def depthwise_fma(
        x, x_at, x_row, x_column, x_next, w, w_at, w_row, w_column, rows, columns, out, out_at, out_next, keep
    ):
        """Vector o of out = (or += if `keep`) the sum over b < rows and k < columns of vectors of x times vectors of w,
        lane by lane.
        """
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

# The matrices of Winograd's F(2x2, 3x3), which transform elements, kernels and outputs' gradients, and products back to
# outputs and to kernels' gradients
_OF_ELEMENTS = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
_OF_TAPS = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
_OF_OUTPUTS = np.array([[1, 0], [0.5, 0.5], [0.5, -0.5], [0, 1]])
_TO_OUTPUTS = np.array([[1, 1, 1, 0], [0, 1, -1, -1]])
_TO_TAPS = np.array([[1, 1, 1, 0], [0, 1, -1, 0], [0, 1, 1, -1]])


def transform_taps(weight, at, row_step, out, out_at, step):
    """Transform kernels of 3 x 3, one in each lane, `row_step` apart; the 16 results are `step` apart."""
    for lane in range(_lanes(out)):
        taps = weight[at + lane * row_step : at + lane * row_step + 9].reshape(3, 3)
        _write_places(_OF_TAPS @ taps @ _OF_TAPS.T, out, out_at + lane, step)


def transform_lines(x, at, line, out, out_at, step):
    """Transform tiles of 4 x 4 elements, one in each lane, two elements apart; lines are `line` apart."""
    for lane in range(_lanes(out)):
        _write_places(_transformed(_OF_ELEMENTS, x, at + 2 * lane, line, 1), out, out_at + lane, step)


def transform_pixels(x, at, line, out, out_at, out_step, step, n):
    """Transform n tiles of 4 x 4 elements with a channel in each lane; tiles are two elements (vectors) apart."""
    _transform_channels(_OF_ELEMENTS, x, at, line, out, out_at, out_step, step, n)


def transform_outputs(x, at, line, out, out_at, out_step, step, n):
    """Transform the 2 x 2 gradients of n tiles' outputs, with a channel in each lane."""
    _transform_channels(_OF_OUTPUTS, x, at, line, out, out_at, out_step, step, n)


def combine_lines(products, at, step, out, out_at, line, columns, lines):
    """Transform products back to outputs of 2 x 2, one tile in each lane: one or two lines of `columns` elements, at
    most two vectors.

    Returns whether an output is not finite.
    """
    not_finite = 0
    for lane in range(_lanes(out)):
        outputs = _transformed(_TO_OUTPUTS, products, at + lane, 4 * step, step)
        for i in range(min(lines, 2)):
            for j in range(min(2, columns - 2 * lane)):
                out[out_at + i * line + 2 * lane + j] = outputs[i, j]
                not_finite |= int(not np.isfinite(outputs[i, j]))
    return not_finite


def combine_taps(products, at, step, out, out_at):
    """Transform products back to gradients of kernels of 3 x 3, one in each lane; they are written one after the other.

    Returns whether an element is not finite.
    """
    for lane in range(_lanes(out)):
        out[out_at + 9 * lane : out_at + 9 * lane + 9] = _transformed(
            _TO_TAPS, products, at + lane, 4 * step, step
        ).ravel()
    return int(not np.isfinite(out[out_at : out_at + 9 * _lanes(out)]).all())


def fold_rows_sum(x, x_at, first, slabs, slab_step, lines, line_step, n, into, into_at, places, places_at):
    """into[into_at + w] = the sum over d < slabs and h < lines of x[x_at + first + d * slab_step + h * line_step + w].

    The rest of the last vector becomes 0.
    """
    for w in range(-(-n // _lanes(into)) * _lanes(into)):
        into[into_at + w] = (
            sum(x[x_at + k] for k in _rows(first + w, slabs, slab_step, lines, line_step)) if w < n else 0
        )


def fold_rows_max(x, x_at, first, slabs, slab_step, lines, line_step, n, into, into_at, places, places_at):
    """into[into_at + w] = the greatest element over lines and slabs; NaN wins.

    The rest of the last vector becomes -inf.
    """
    for w in range(-(-n // _lanes(into)) * _lanes(into)):
        into[into_at + w] = max(
            (x[x_at + k] for k in _rows(first + w, slabs, slab_step, lines, line_step) if w < n),
            key=_rank,
            default=-np.inf,
        )


def fold_rows_argmax(x, x_at, first, slabs, slab_step, lines, line_step, n, into, into_at, places, places_at):
    """Like `fold_rows_max`, with the index of the greatest element, counted from x_at: the first of equal elements, the
    last of NaNs, or -1.
    """
    for w in range(-(-n // _lanes(into)) * _lanes(into)):
        candidates = [(x[x_at + k], k) for k in _rows(first + w, slabs, slab_step, lines, line_step) if w < n]
        into[into_at + w], places[places_at + w] = max(candidates, key=_rank_with_place, default=(-np.inf, -1))


@functools.cache
def fold_windows(kind: str, known_stride: int | str):
    """The function that folds the windows of a row by `kind`: "sum", "max", or "argmax", the greatest and its index.

    The distance of windows is known at compile time, or "any".
    """

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
                candidates = [(x[x_at + k], places[places_at + k]) for k in window]
                out[out_at + o], indices[indices_at + o] = max(candidates, key=_rank_with_place, default=(-np.inf, -1))

    folded.__name__ = f"fold_windows_{kind}_{known_stride}"
    return emitted(folded)


def dots(matrix, at, step, vector, vector_at, depth, out, out_at, count):
    """out (count) = the dot products of the vector with rows of the matrix, which are `step` apart."""
    for j in range(count):
        out[out_at + j] = sum(matrix[at + j * step + k] * vector[vector_at + k] for k in range(depth))


def dot_tile(a, a_at, a_row, b, b_at, b_row, depth, out, out_at, out_row, valid, wide):
    """out (valid, wide) = the dot products of rows of a with rows of b."""
    for i in range(valid):
        for j in range(wide):
            out[out_at + i * out_row + j] = sum(a[a_at + i * a_row + k] * b[b_at + j * b_row + k] for k in range(depth))


def byte_tile(a, a_at, a_row, b, b_at, b_step, c, c_at, c_row, depth):
    """c (rows, panel) = a (rows, depth) @ b (depth, panel), of words with `byte_tiles.group()` integers."""
    group, left = byte_tiles.group(), _unsigned if byte_tiles.group() == 4 else _signed
    parts = 32 // group
    for i in range(byte_tiles.shape().rows):
        for j in range(byte_tiles.shape().panel):
            words = [(int(a[a_at + i * a_row + k]), int(b[b_at + k * b_step + j])) for k in range(depth)]
            c[c_at + i * c_row + j] = sum(
                left(x >> parts * q, parts) * _signed(y >> parts * q, parts) for x, y in words for q in range(group)
            )


def _byte_rows(name):
    def byte_rows(
        a, a_at, a_row, a_segment, b, b_at, added, added_at, scales, scales_at, out, out_at, out_row, depth, segments,
        valid, columns, least, most, zero,
    ):  # fmt: skip
        """out (valid, columns) = round((a @ b + added) * scales) in [least, most], plus zero: integers of a byte."""
        for i in range(valid):
            for j in range(columns):
                total = int(added[added_at + j])
                for k in range(segments * depth):
                    word = i * a_row + k // depth * a_segment + k % depth
                    total += _word_product(a, a_at, word, b[b_at + k * byte_tiles.shape().panel + j])
                value = np.float32(total) * np.float32(scales[scales_at + j])
                out[out_at + i * out_row + j] = int(np.rint(min(max(value, least), most))) + zero

    byte_rows.__name__ = name
    return emitted(byte_rows)


byte_rows, byte_row = map(_byte_rows, ("byte_rows", "byte_row"))


def _byte_floats(name):
    def byte_floats(
        a, a_at, a_row, b, b_at, added, added_at, scales, scales_at, shifts, shifts_at, factors, factors_at, out,
        out_at, out_row, depth, valid, columns,
    ):  # fmt: skip
        """out (valid, columns) = float(a @ b + added) * (scales * factor of the row) + shifts."""
        for i in range(valid):
            for j in range(columns):
                total = int(added[added_at + j])
                for k in range(depth):
                    total += _word_product(a, a_at, i * a_row + k, b[b_at + k * byte_tiles.shape().panel + j])
                scale = np.float32(scales[scales_at + j]) * np.float32(factors[factors_at + i])
                out[out_at + i * out_row + j] = np.float32(total) * scale + shifts[shifts_at + j]

    byte_floats.__name__ = name
    return emitted(byte_floats)


byte_floats, byte_float_row = map(_byte_floats, ("byte_floats", "byte_float_row"))


def _limb_dots(bits):
    def limb_dots(
        weight, w_at, step, limbs, l_at, limb_step, starts, s_at, scale, c_at, zero, z_at, totals, t_at, out, out_at,
        valid, groups, size,
    ):  # fmt: skip
        """out (valid) = the sums over groups of scale * (starts + limbs @ weights - zero * totals)."""
        half = size // 2
        for i in range(valid):
            total, at = np.float32(0), w_at + i * step
            for g in range(groups):
                factor = scale[c_at + i * groups + g]
                total -= factor * zero[z_at + i * groups + g] * totals[t_at + g]
                for q in range(limb_dot_products.LIMBS):
                    dot, first = int(starts[s_at + 3 * g + q]) if bits == 8 else 0, l_at + q * limb_step + g * size
                    for k in range(size):
                        byte = int(weight[at + (g * size + k if bits == 8 else g * half + k % half)])
                        value = byte + 128 if bits == 8 else byte >> (4 if k >= half else 0) & 15
                        dot += value * int(limbs[first + k])
                    total += np.float32(256.0**q) * np.float32(dot) * factor
            out[out_at + i] = total

    limb_dots.__name__ = "limb_dots" if bits == 8 else "limb_dots4"
    return emitted(limb_dots)


limb_dots, limb_dots4 = map(_limb_dots, (8, 4))


def depthwise_bytes(
    x, x_at, taps, t_at, groups, weight, w_at, added, added_at, scales, scales_at, out, out_at, columns, least, most,
    zero,
):  # fmt: skip
    """out (columns) = round((sum + added) * scales) in [least, most], plus zero: the sums over taps of x * weight."""
    count = host().width // 4
    for number in range(4 * count):
        vector, lane, total = number // count, number % count, int(added[added_at + number])
        channel = depthwise_words.channel_of(vector, lane)
        for tap in range(4 * groups):
            word = int(weight[w_at + (tap // 4 * 4 + vector) * count + lane])
            total += int(x[x_at + int(taps[t_at + tap]) + channel]) * _signed(word >> tap % 4 * 8, 8)
        if channel < columns:
            value = np.float32(total) * np.float32(scales[scales_at + number])
            out[out_at + channel] = int(np.rint(min(max(value, least), most))) + zero


def sparse_dots(values, v_at, columns, c_at, steps, x, x_at, out, out_at, valid):
    """out (valid) = a group of sparse rows, one in each lane, times x."""
    lanes = host().lanes(4)
    numbers = values[v_at : v_at + steps * lanes].view(np.float32)
    for row in range(min(valid, lanes)):
        places = range(row, steps * lanes, lanes)
        out[out_at + row] = sum(numbers[k] * x[x_at + int(columns[c_at + k])] for k in places)


def sparse_batch(values, v_at, columns, c_at, steps, x, x_at, order, o_at, out, out_at):
    """Rows `order` of out (..., width) = ROWS rows of a group of sparse rows times x (inner, width)."""
    lanes = host().lanes(4)
    width, numbers = sparse_rows.VECTORS * lanes, values[v_at:].view(np.float32)
    for row in range(sparse_rows.ROWS):
        for j in range(width):
            places = range(row, steps * lanes, lanes)
            out[out_at + int(order[o_at + row]) * width + j] = sum(
                numbers[k] * x[x_at + int(columns[c_at + k]) * width + j] for k in places
            )


def _word_product(a, a_at, word, right):
    """The dot product of word `word` of a, counted from element `a_at`, with a word of weights."""
    group, left = byte_tiles.group(), _unsigned if byte_tiles.group() == 4 else _signed
    parts, right = 32 // group, int(right)
    x = int(a[a_at:].view(np.uint32)[word])
    return sum(left(x >> parts * q, parts) * _signed(right >> parts * q, parts) for q in range(group))


def greatest_of_line(x, x_at, n):
    """The greatest of n elements, ignoring NaN."""
    return max((x[x_at + k] for k in range(n) if x[x_at + k] == x[x_at + k]), default=-math.inf)


def sum_lifted(x, x_at, n, high):
    """The sum of `exp(x - high)` over n elements."""
    return sum(math.exp(x[x_at + k] - high) for k in range(n))


def lift_line(x, x_at, out, out_at, n, high):
    """out (n) = exp(x - high). Returns the sum."""
    for k in range(n):
        out[out_at + k] = math.exp(x[x_at + k] - high)
    return sum(out[out_at + k] for k in range(n))


def scale_line(x, x_at, out, out_at, n, factor):
    """out (n) = x * factor."""
    for k in range(n):
        out[out_at + k] = x[x_at + k] * factor


def greatest_score(scores, scores_at, n, factor):
    """The greatest of n scores times the factor, ignoring NaN."""
    return max(
        (scores[scores_at + k] * factor for k in range(n) if scores[scores_at + k] == scores[scores_at + k]),
        default=-math.inf,
    )


def exp_scores(scores, scores_at, attention_weights, weights_at, n, factor, shift):
    """attention_weights (n) = exp(scores * factor - shift), at most 1 each. Returns the sum."""
    for k in range(n):
        attention_weights[weights_at + k] = math.exp(scores[scores_at + k] * factor - shift)
    return sum(attention_weights[weights_at + k] for k in range(n))


def log_sums(highs, highs_at, totals, totals_at, out, out_at, n):
    """out (n) = highs + log(totals); inf if a total is 0."""
    for k in range(n):
        total = totals[totals_at + k]
        out[out_at + k] = math.inf if total == 0 else highs[highs_at + k] + math.log(total)


def lstm_gates(
    x, x_at, y, y_at, cell, cell_at, gates, gates_at, new_cell, new_cell_at, c, c_at, h, h_at, state, state_at, n
):
    """A step of an LSTM cell. x + y are the gates' pre-activations; new_cell, c, h and state are the results."""
    for k in range(n):
        i, f, g, o = (x[x_at + q * n + k] + y[y_at + q * n + k] for q in range(4))
        i, f, g, o = _sigmoid(i), _sigmoid(f), math.tanh(g), _sigmoid(o)
        value = f * cell[cell_at + k] + i * g
        for q, gate in enumerate((i, f, g, o)):
            gates[gates_at + q * n + k] = gate
        new_cell[new_cell_at + k] = c[c_at + k] = value
        h[h_at + k] = state[state_at + k] = o * math.tanh(value)


def lstm_gate_gradients(
    d_out_h, d_out_h_at, d_out_c, d_out_c_at, d_h, d_h_at, d_c, d_c_at, gates, gates_at, c, c_at, c_before, c_before_at,
    d_x, d_x_at, d_gates, d_gates_at, new_d_c, new_d_c_at, n,
):  # fmt: skip
    """The gradients of a step of an LSTM cell."""
    for k in range(n):
        i, f, g, o = (gates[gates_at + q * n + k] for q in range(4))
        tanh_c, total_d_h = math.tanh(c[c_at + k]), d_out_h[d_out_h_at + k] + d_h[d_h_at + k]
        total_d_c = total_d_h * o * (1 - tanh_c * tanh_c) + d_out_c[d_out_c_at + k] + d_c[d_c_at + k]
        sums = (
            total_d_c * g * i * (1 - i),
            total_d_c * c_before[c_before_at + k] * f * (1 - f),
            total_d_c * i * (1 - g * g),
            total_d_h * tanh_c * o * (1 - o),
        )
        for q, value in enumerate(sums):
            d_x[d_x_at + q * n + k] = d_gates[d_gates_at + q * n + k] = value
        new_d_c[new_d_c_at + k] = total_d_c * f


def gru_gates(x, x_at, y, y_at, bias, bias_at, before, before_at, gates, gates_at, h, h_at, state, state_at, n):
    """A step of a GRU cell from the state `before`."""
    for k in range(n):
        a, b = ([values[at + q * n + k] for q in range(3)] for values, at in ((x, x_at), (y, y_at)))
        b = [value + bias[bias_at + q * n + k] for q, value in enumerate(b)]
        r, z = _sigmoid(a[0] + b[0]), _sigmoid(a[1] + b[1])
        new = math.tanh(r * b[2] + a[2])
        for q, gate in enumerate((r, z, new, b[2])):
            gates[gates_at + q * n + k] = gate
        h[h_at + k] = state[state_at + k] = z * (before[before_at + k] - new) + new


def gru_gate_gradients(
    d_out, d_out_at, d_h, d_h_at, direct, direct_at, gates, gates_at, h_before, h_before_at,
    d_x, d_x_at, d_y, d_y_at, d_gates, d_gates_at, new_direct, new_direct_at, n,
):  # fmt: skip
    """The gradients of a step of a GRU cell.

    `direct` is the part of the state's gradient that bypasses the matrix product of the next step.
    """
    for k in range(n):
        r, z, new, y = (gates[gates_at + q * n + k] for q in range(4))
        g = d_out[d_out_at + k] + d_h[d_h_at + k] + direct[direct_at + k]
        d_new = g * (1 - z) * (1 - new * new)
        sums = d_new * y * r * (1 - r), g * (h_before[h_before_at + k] - new) * z * (1 - z), d_new
        for q, value in enumerate(sums):
            d_x[d_x_at + q * n + k] = value
            d_y[d_y_at + q * n + k] = d_gates[d_gates_at + q * n + k] = value * r if q == 2 else value
        new_direct[new_direct_at + k] = g * z


def _rnn(act, derivative, name):
    def gates(x, x_at, y, y_at, h, h_at, state, state_at, n):
        """A step of an RNN cell."""
        for k in range(n):
            h[h_at + k] = state[state_at + k] = act(x[x_at + k] + y[y_at + k])

    def gradients(d_out, d_out_at, d_h, d_h_at, h, h_at, d_x, d_x_at, d_y, d_y_at, n):
        """The gradients of a step of an RNN cell."""
        for k in range(n):
            d_x[d_x_at + k] = d_y[d_y_at + k] = (d_out[d_out_at + k] + d_h[d_h_at + k]) * derivative(h[h_at + k])

    gates.__name__, gradients.__name__ = f"{name}_gates", f"{name}_gate_gradients"
    return gates, gradients


def _sigmoid(x):
    return 1 / (1 + math.exp(-x))


rnn_gates, rnn_gate_gradients = _rnn(math.tanh, lambda h: 1 - h * h, "rnn")
rnn_relu_gates, rnn_relu_gate_gradients = _rnn(lambda x: max(x, 0), lambda h: h > 0, "rnn_relu")


def rows_in(x, x_at, step, n, re, re_at, im, im_at):
    """re, im (n, lanes) = n complex numbers of each row; rows are `step` numbers apart, one in each lane."""
    _complex_in(x, x_at, 2, step, n, re, re_at, im, im_at)


def columns_in(x, x_at, step, n, re, re_at, im, im_at):
    """Like `rows_in`, for neighbouring columns, whose successive numbers are `step` apart."""
    _complex_in(x, x_at, step, 2, n, re, re_at, im, im_at)


def rows_out(re, re_at, im, im_at, n, x, x_at, step, scale):
    """The reverse of `rows_in`, times the scale."""
    _complex_out(re, re_at, im, im_at, n, x, x_at, 2, step, scale)


def columns_out(re, re_at, im, im_at, n, x, x_at, step, scale):
    """The reverse of `columns_in`, times the scale."""
    _complex_out(re, re_at, im, im_at, n, x, x_at, step, 2, scale)


def stage(re, re_at, im, im_at, roots, to_re, to_re_at, to_im, to_im_at, radix, m, run, turn):
    """A stage of a fast Fourier transform: transforms of `radix` registers that are m * run apart, times powers of
    roots of unity.
    """
    for p in range(m):
        for j in range(run):
            terms = [
                complex(re[re_at + k], im[im_at + k])
                for k in range(p * run + j, p * run + j + radix * m * run, m * run)
            ]
            for q in range(radix):
                total = sum(term * cmath.exp(-2j * math.pi * q * k / radix) for k, term in enumerate(terms))
                total *= complex(roots[2 * p * q * turn], roots[2 * p * q * turn + 1])
                at = (p * radix + q) * run + j
                to_re[to_re_at + at], to_im[to_im_at + at] = total.real, total.imag


def to_half(re, re_at, im, im_at, roots, to_re, to_re_at, to_im, to_im_at, n):
    """Twice the first n + 1 numbers of the spectra of 2 n real numbers, from the spectra of these numbers as n complex
    pairs.
    """
    _half(re, re_at, im, im_at, roots, to_re, to_re_at, to_im, to_im_at, n, n + 1, -1j)


def from_half(re, re_at, im, im_at, roots, to_re, to_re_at, to_im, to_im_at, n):
    """The reverse of `to_half`."""
    _half(re, re_at, im, im_at, roots, to_re, to_re_at, to_im, to_im_at, n, n, 1j)


def _half(re, re_at, im, im_at, roots, to_re, to_re_at, to_im, to_im_at, n, count, unit):
    lanes = _lanes(re)
    for k in range(count):
        root = cmath.exp((-1j if unit == -1j else 1j) * math.pi * k / n)
        for lane in range(lanes):
            low, high = (
                (k % n if unit == -1j else k) * lanes + lane,
                ((n - k) % n if unit == -1j else n - k) * lanes + lane,
            )
            x, y = complex(re[re_at + low], im[im_at + low]), complex(re[re_at + high], -im[im_at + high])
            total = x + y + unit * root * (x - y)
            to_re[to_re_at + k * lanes + lane], to_im[to_im_at + k * lanes + lane] = total.real, total.imag


def _complex_in(x, x_at, next_number, next_lane, n, re, re_at, im, im_at):
    lanes = _lanes(x)
    for k in range(n):
        for lane in range(lanes):
            at = x_at + k * next_number + lane * next_lane
            re[re_at + k * lanes + lane], im[im_at + k * lanes + lane] = x[at], x[at + 1]


def _complex_out(re, re_at, im, im_at, n, x, x_at, next_number, next_lane, scale):
    lanes = _lanes(x)
    for k in range(n):
        for lane in range(lanes):
            at = x_at + k * next_number + lane * next_lane
            x[at], x[at + 1] = re[re_at + k * lanes + lane] * scale, im[im_at + k * lanes + lane] * scale


def _copy_lines(x, x_at, x_step, out, out_at, count, n):
    for k in range(count):
        out[out_at + k * n : out_at + (k + 1) * n] = x[x_at + k * x_step : x_at + k * x_step + n]


def _unsigned(word, bits):
    return word & ((1 << bits) - 1)


def _signed(word, bits):
    word = _unsigned(word, bits)
    return word - (1 << bits) if word >> (bits - 1) else word


def _lanes(array):
    return host().lanes(array.itemsize)


def _read(address, dtype, index):
    return np.frombuffer((ctypes.c_char * dtype.itemsize).from_address(address + index * dtype.itemsize), dtype)[0]


def _put(out, at, total, keep):
    out[at] = out[at] + total if keep else total


def _transformed(matrix, x, at, row_step, column_step):
    n = matrix.shape[1]
    square = np.array([[x[at + i * row_step + j * column_step] for j in range(n)] for i in range(n)])
    return matrix @ square @ matrix.T


def _write_places(square, out, at, step):
    for position, value in enumerate(square.ravel()):
        out[at + position * step] = value


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


def _rank_with_place(candidate):
    value, index = candidate  # index -1 comes last
    return (1, index) if value != value else (0, value, -(index if index >= 0 else 1 << 32))
