"""Depthwise convolutions, Winograd transforms and pooling, in plain Python."""

from __future__ import annotations

import functools

import numpy as np

from ...language import emitted
from . import lanes_of, put


def _depthwise_fma(vectors):
    def depthwise_fma(
        x, x_at, x_row, x_column, x_next, w, w_at, w_row, w_column, rows, columns, out, out_at, out_next, keep
    ):
        """Vector o of out = (or += if `keep`) the sum over b < rows and k < columns of vectors of x times vectors of w,
        lane by lane.
        """
        for o in range(vectors):
            for lane in range(lanes_of(out)):
                taps = [(b, k) for b in range(rows) for k in range(columns)]
                total = sum(
                    x[x_at + o * x_next + b * x_row + k * x_column + lane] * w[w_at + b * w_row + k * w_column + lane]
                    for b, k in taps
                )
                put(out, out_at + o * out_next + lane, total, keep)

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
    for lane in range(lanes_of(out)):
        taps = weight[at + lane * row_step : at + lane * row_step + 9].reshape(3, 3)
        _write_places(_OF_TAPS @ taps @ _OF_TAPS.T, out, out_at + lane, step)


def transform_lines(x, at, line, out, out_at, step):
    """Transform tiles of 4 x 4 elements, one in each lane, two elements apart; lines are `line` apart."""
    for lane in range(lanes_of(out)):
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
    for lane in range(lanes_of(out)):
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
    for lane in range(lanes_of(out)):
        out[out_at + 9 * lane : out_at + 9 * lane + 9] = _transformed(
            _TO_TAPS, products, at + lane, 4 * step, step
        ).ravel()
    return int(not np.isfinite(out[out_at : out_at + 9 * lanes_of(out)]).all())


def fold_rows_sum(x, x_at, first, slabs, slab_step, lines, line_step, n, into, into_at, places, places_at):
    """into[into_at + w] = the sum over d < slabs and h < lines of x[x_at + first + d * slab_step + h * line_step + w].

    The rest of the last vector becomes 0.
    """
    for w in range(-(-n // lanes_of(into)) * lanes_of(into)):
        into[into_at + w] = (
            sum(x[x_at + k] for k in _rows(first + w, slabs, slab_step, lines, line_step)) if w < n else 0
        )


def fold_rows_max(x, x_at, first, slabs, slab_step, lines, line_step, n, into, into_at, places, places_at):
    """into[into_at + w] = the greatest element over lines and slabs; NaN wins.

    The rest of the last vector becomes -inf.
    """
    for w in range(-(-n // lanes_of(into)) * lanes_of(into)):
        into[into_at + w] = max(
            (x[x_at + k] for k in _rows(first + w, slabs, slab_step, lines, line_step) if w < n),
            key=_rank,
            default=-np.inf,
        )


def fold_rows_argmax(x, x_at, first, slabs, slab_step, lines, line_step, n, into, into_at, places, places_at):
    """Like `fold_rows_max`, with the index of the greatest element, counted from x_at: the first of equal elements, the
    last of NaNs, or -1.
    """
    for w in range(-(-n // lanes_of(into)) * lanes_of(into)):
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


def _transformed(matrix, x, at, row_step, column_step):
    n = matrix.shape[1]
    square = np.array([[x[at + i * row_step + j * column_step] for j in range(n)] for i in range(n)])
    return matrix @ square @ matrix.T


def _write_places(square, out, at, step):
    for position, value in enumerate(square.ravel()):
        out[at + position * step] = value


def _transform_channels(matrix, x, at, line, out, out_at, out_step, step, n):
    lanes = lanes_of(out)
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
