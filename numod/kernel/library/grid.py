"""Device functions of the implicit GEMM convolution: copy the input into a grid with contiguous im2col rows.

A grid has the shape (channels, phases, variants, depth, height, images, width) and holds some images with their
padding. An axis with stride s has s phases: phase r holds every s-th element, beginning with element r. Within a
phase, the elements that one tap of the kernel reads for all outputs are contiguous, in the order of the outputs. So a
matrix product reads each row of the im2col matrix as a run of the grid, and that matrix is never written. A variant
is a phase of the width, with columns for the padding: positions between the end of an output row and the next row of
the grid are computed and dropped. Narrow images have a variant for each column of the kernel instead, as wide as the
output; then nothing is dropped.
"""

from __future__ import annotations

from typing import NamedTuple

from ..language import uintp
from ..registers.primitives.tiles import copy_line, split1, split2, split4, split8, split16
from ..scalar import filled, rolled_scalar, scalar, shared_scalar


class GridLines(NamedTuple):
    """The order of the lines of a grid's phase: the lines of `stack` images side by side, grid_h times."""

    grid_h: int
    stack: int
    grid_w: int


class GridShape(NamedTuple):
    """The sizes of one phase of a grid."""

    grid_d: int
    grid_h: int
    stack: int
    grid_w: int


class Taps(NamedTuple):
    """The positions of a convolution's taps: the kernel's sizes, the padding and the dilation (`step`). The padding and
    the dilation along a line are not needed.
    """

    kernel_d: int
    kernel_h: int
    kernel_w: int
    pad_d: int
    pad_h: int
    step_d: int
    step_h: int


@scalar
def is_read(phase, n, step, pad, stride):
    """Whether any of a kernel's n taps reads from a phase."""
    for k in range(n):
        if (k * step - pad) % stride == phase:
            return True
    return False


@rolled_scalar
def fill_columns(columns, kernel_w, pad_w, step_w, stride_w, s_w, low_w, variants, apart, plane):
    """columns (kernel_w + variants) = the offset of each column of the kernel in a phase of the grid, followed by the
    first element of a line for each variant.

    For the input's gradient, whose grid has no phases (s_w is 0), the offsets are negative. A variant that no column
    reads begins beyond every line.
    """
    for r in range(variants):
        columns[uintp(kernel_w + r)] = 1 << 40
    for k in range(kernel_w):
        v = k * step_w - pad_w
        if s_w == 0:
            v = -(v // stride_w)
        s = max(s_w, 1)
        r = k if apart else v % s
        columns[uintp(k)] = r * plane + (0 if apart else v // s - low_w)
        columns[uintp(kernel_w + r)] = v if apart else low_w * s + r


def _copy_to_grid(
    x, base, image_step, grid, grid_at, count, channels, depth, height, width, s_d, s_h, s_w, low_d, low_h, columns,
    variants, shape: GridShape, conv: Taps, *, FURTHER_STRIDES,
):  # fmt: skip
    """grid[grid_at:] = `count` images, which begin at x[base]. Line (0, 0) of the grid is line (low_d, low_h) of
    phase 0. Elements outside the images are 0. `s_w` is 1 or 2, or larger with FURTHER_STRIDES.
    """
    # lines follow each other in x as in the grid
    contiguous = (shape.stack == 1) & (shape.grid_w == width) & (s_h == 1) & (s_w == 1)
    plane = shape.grid_d * shape.grid_h * shape.stack * shape.grid_w
    for r_d in range(s_d):
        for r_h in range(s_h if is_read(r_d, conv.kernel_d, conv.step_d, conv.pad_d, s_d) else 0):
            top = max(0, -((low_h * s_h + r_h) // s_h))
            bottom = min((height - 1 - r_h) // s_h + 1 - low_h, shape.grid_h)
            for c in range(channels if is_read(r_h, conv.kernel_h, conv.step_h, conv.pad_h, s_h) else 0):
                r = 0
                while r < variants:
                    start, phase_count = columns[uintp(conv.kernel_w + r)], 1  # variants of neighbours are read at once
                    while (phase_count < s_w) & (r + phase_count < variants) and columns[
                        uintp(conv.kernel_w + r + phase_count)
                    ] == start + phase_count:
                        phase_count += 1
                    at = grid_at + (((c * s_d + r_d) * s_h + r_h) * variants + r) * plane
                    end, first, r = at + plane, max(0, -start), r + phase_count
                    for j_d in range(shape.grid_d if start < 1 << 40 else 0):
                        d = (j_d + low_d) * s_d + r_d
                        slab = (d >= 0) & (d < depth)
                        if contiguous & slab & (first < shape.grid_w) & (first < width - start) & (top < bottom):
                            # all at once; where lines begin and end there are elements of their neighbours then
                            source, last = (
                                base + ((c * depth + d) * height + low_h) * width + start,
                                min(shape.grid_w, width - start),
                            )
                            copy_line(
                                x, source, top * shape.grid_w + first, (bottom - 1) * shape.grid_w + last, grid, at,
                                shape.grid_h * shape.grid_w,
                            )  # fmt: skip
                            for line in range(at + top * shape.grid_w, at + bottom * shape.grid_w, shape.grid_w):
                                for j in range(first):
                                    grid[uintp(line + j)] = 0
                                for j in range(last, shape.grid_w):
                                    grid[uintp(line + j)] = 0
                            at += shape.grid_h * shape.grid_w
                            continue
                        for n in range(shape.stack):  # an image at a time: its lines follow each other
                            source, target = (
                                base + n * image_step + ((c * depth + d) * height + low_h * s_h + r_h) * width + start,
                                at + n * shape.grid_w,
                            )
                            stop, last, x_step, step = (
                                bottom if slab & (n < count) else 0,
                                width - start,
                                s_h * width,
                                shape.stack * shape.grid_w,
                            )
                            # `split` may write `room` elements beyond the first line, and `less` fewer for each further line
                            room, less = (
                                (end - at, shape.grid_w) if shape.stack == 1 else ((shape.stack - n) * shape.grid_w, 0)
                            )
                            if s_w == 1:
                                split1(
                                    x, source, x_step, first, last, top, stop, grid, target, step, plane, shape.grid_h,
                                    shape.grid_w, phase_count, room, less,
                                )  # fmt: skip
                            elif s_w == 2:
                                split2(
                                    x, source, x_step, first, last, top, stop, grid, target, step, plane, shape.grid_h,
                                    shape.grid_w, phase_count, room, less,
                                )  # fmt: skip
                            elif FURTHER_STRIDES:
                                if s_w == 4:
                                    split4(
                                        x, source, x_step, first, last, top, stop, grid, target, step, plane, shape.grid_h,
                                        shape.grid_w, phase_count, room, less,
                                    )  # fmt: skip
                                elif s_w == 8:
                                    split8(
                                        x, source, x_step, first, last, top, stop, grid, target, step, plane, shape.grid_h,
                                        shape.grid_w, phase_count, room, less,
                                    )  # fmt: skip
                                elif s_w == 16:
                                    split16(
                                        x, source, x_step, first, last, top, stop, grid, target, step, plane, shape.grid_h,
                                        shape.grid_w, phase_count, room, less,
                                    )  # fmt: skip
                                else:
                                    for i in range(shape.grid_h):
                                        for t in range(phase_count):
                                            for j in range(shape.grid_w):
                                                k, element = j * s_w + t, target + i * step + t * plane + j
                                                read = (k >= first) & (k < last) & (i >= top) & (i < stop)
                                                grid[uintp(element)] = x[uintp(source + i * x_step + k)] if read else 0
                        at += shape.grid_h * shape.stack * shape.grid_w


# two forms: the functions for larger strides take a fifth of LLVM's time for the first convolution of a process
copy_to_grid = rolled_scalar(filled(_copy_to_grid, "copy_to_grid", FURTHER_STRIDES=False))
copy_to_strided_grid = rolled_scalar(filled(_copy_to_grid, "copy_to_strided_grid", FURTHER_STRIDES=True))


@rolled_scalar
def fill_taps(table, channels, conv: Taps, s_d, s_h, low_d, low_h, columns, variants, shape: GridShape):
    """table (taps) = the offset in the grid of each element of the first output's patch."""
    tap = 0
    phase = variants * shape.grid_d * shape.grid_h * shape.stack * shape.grid_w
    for c in range(channels):
        for a in range(conv.kernel_d):
            v_d = a * conv.step_d - conv.pad_d
            for b in range(conv.kernel_h):
                v_h = b * conv.step_h - conv.pad_h
                line = ((c * s_d + v_d % s_d) * s_h + v_h % s_h) * phase + (
                    (v_d // s_d - low_d) * shape.grid_h + v_h // s_h - low_h
                ) * shape.stack * shape.grid_w
                for k in range(conv.kernel_w):
                    table[uintp(tap)] = line + columns[uintp(k)]
                    tap += 1


@rolled_scalar
def pad_features(weight, padded, features, padded_rows, taps):
    """padded (groups, padded_rows, taps) = weight (groups, features, taps), with zeros beyond the last feature.
    `padded` may be empty.
    """
    for row in range(padded.size // taps):
        group, feature = row // padded_rows, row % padded_rows
        copy_line(
            weight, (group * features + feature) * taps, 0, taps if feature < features else 0, padded, row * taps, taps
        )


@shared_scalar
def pack_taps(weight, base, features, channels, taps, panels, at, rows, tile_rows, row_count, order, phases):
    """panels (tiles of rows, phases, tile_rows, features, taps of the phase) = rows of weight (features, channels,
    taps), from row `base` on. Rows beyond `row_count` repeat the last one.

    16 features at a time, so that the next tile finds what it reads in the cache.
    """
    for first_feature in range(0, features, 16):
        for row in range(0, rows, tile_rows):
            for phase in range(phases):
                begin, tap_count = order[taps + phase], order[taps + phase + 1] - order[taps + phase]
                for feature in range(first_feature, min(first_feature + 16, features)):
                    for tile_row in range(tile_rows):
                        source = base + (feature * channels + min(row + tile_row, row_count - 1)) * taps
                        target = (
                            at
                            + row * features * taps
                            + (tile_rows * begin + tile_row * tap_count) * features
                            + feature * tap_count
                        )
                        if tap_count == taps:  # a single phase has the taps in order
                            for j in range(taps):
                                panels[uintp(target + j)] = weight[uintp(source + j)]
                        else:
                            for j in range(tap_count):
                                panels[uintp(target + j)] = weight[uintp(source + order[begin + j])]


@scalar
def grid_reach(count, shape: GridLines, slabs, lines, columns):
    """The number of grid positions from the first output to the last one."""
    return (((slabs - 1) * shape.grid_h + lines - 1) * shape.stack + count - 1) * shape.grid_w + columns
