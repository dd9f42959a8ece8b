"""A convolution by 3×3 from 64 to 64 channels of 56×56, its border padded beforehand: from the definition to register
tiles.
"""

from __future__ import annotations

import numpy as np

from . import Ladder, Version, compiled, into

CHANNELS, SIZE, KERNEL = 64, 56, 3
SIGNATURE = "float32[], float32[], float32[], int64, int64, int64"


def as_defined(x, weight, out, channels, size, kernel):
    """Each element of the result is the sum of a window of all channels."""
    wide = size + kernel - 1
    for o in range(channels):
        for row in range(size):
            for column in range(size):
                total = 0.0
                for c in range(channels):
                    for i in range(kernel):
                        for j in range(kernel):
                            total += (
                                x[uintp((c * wide + row + i) * wide + column + j)]
                                * weight[uintp(((o * channels + c) * kernel + i) * kernel + j)]
                            )
                out[uintp((o * size + row) * size + column)] = total


def along_rows(x, weight, out, channels, size, kernel):
    """A row of the result gathers rows of x."""
    wide = size + kernel - 1
    for o in range(channels):
        for row in range(size):
            at = (o * size + row) * size
            for column in range(size):
                out[uintp(at + column)] = 0.0
            for c in range(channels):
                for i in range(kernel):
                    for j in range(kernel):
                        value = weight[uintp(((o * channels + c) * kernel + i) * kernel + j)]
                        for column in range(size):
                            out[uintp(at + column)] += value * x[uintp((c * wide + row + i) * wide + column + j)]


def a_row_of_weights(x, weight, out, channels, size, kernel):
    """Three taps at a time: the result is read and written a third as often."""
    wide = size + kernel - 1
    for o in range(channels):
        for row in range(size):
            at = (o * size + row) * size
            for column in range(size):
                out[uintp(at + column)] = 0.0
            for c in range(channels):
                for i in range(kernel):
                    tap, line = ((o * channels + c) * kernel + i) * kernel, (c * wide + row + i) * wide
                    w0, w1, w2 = weight[uintp(tap)], weight[uintp(tap + 1)], weight[uintp(tap + 2)]
                    for column in range(size):
                        out[uintp(at + column)] += w0 * x[uintp(line + column)] + (
                            w1 * x[uintp(line + column + 1)] + w2 * x[uintp(line + column + 2)]
                        )


def patches(x, out, channels, size, kernel):
    """out (channels, kernel, kernel, size, size): the windows of x as columns of a matrix."""
    wide = size + kernel - 1
    for c in range(channels):
        for i in range(kernel):
            for j in range(kernel):
                for row in range(size):
                    at = (((c * kernel + i) * kernel + j) * size + row) * size
                    for column in range(size):
                        out[uintp(at + column)] = x[uintp((c * wide + row + i) * wide + column + j)]


def by_tiles(x, weight):
    """A launch of the kernel that convolutions of other windows take, and its result."""
    from numod import empty
    from numod.ops.convolution.direct import geometry
    from numod.ops.convolution.implicit_gemm import grid_launcher

    out, once = empty(1, CHANNELS, SIZE, SIZE), ((1, 1), (0, 0), (1, 1), 1)
    run = grid_launcher(
        "convolution",
        out._layout,
        geometry(x.shape, weight.shape, out.shape, *once),
        weight.shape,
        once,
        SIZE**2 * CHANNELS**2,
    )
    return lambda: (run(x.ravel(), weight.ravel(), out.numpy().ravel()), out)[1]


def ladder() -> Ladder:
    """From the definition to numod's convolution."""
    import numod

    generator, wide = np.random.default_rng(0), SIZE + KERNEL - 1
    x = generator.standard_normal((CHANNELS, wide, wide), np.float32)
    weight = generator.standard_normal((CHANNELS, CHANNELS, KERNEL, KERNEL), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (KERNEL, KERNEL), (1, 2))
    out, sizes = np.empty(CHANNELS * SIZE**2, np.float32), (CHANNELS, SIZE, KERNEL)
    matrix = numod.empty(CHANNELS * KERNEL**2, SIZE**2)
    fill = into(
        compiled(patches, "float32[], float32[], int64, int64, int64"), matrix.numpy().ravel(), x.ravel(), *sizes
    )
    image, taps = numod.tensor(x)[None], numod.tensor(weight)
    plain, flat = (x.ravel(), weight.ravel()), taps.reshape(CHANNELS, -1)
    return Ladder(f"conv2d {KERNEL}×{KERNEL}, {CHANNELS}→{CHANNELS} at {SIZE}²",
        np.tensordot(weight, windows, ((1, 2, 3), (0, 3, 4))), 1e-5, [
        Version("1 as it is defined", "six loops, a sum of products for each element",
            into(compiled(as_defined, SIGNATURE), out, *plain, *sizes)),
        Version("2 along rows", "inner loop along rows of the image: vectors",
            into(compiled(along_rows, SIGNATURE), out, *plain, *sizes)),
        Version("3 a row of weights at once", "the result is loaded and stored a third as often",
            into(compiled(a_row_of_weights, SIGNATURE), out, *plain, *sizes)),
        Version("4 a matrix of patches", "the product's register tiles, at the price of writing nine images",
            lambda: (fill(), flat @ matrix)[1]),
        Version("5 register tiles", "over shifts of the image itself: no patches", by_tiles(x[None], weight)),
        Version("6 numod", "Winograd's F(2×2, 3×3): 16 products in the place of 36, between transforms",
            lambda: numod.nn.functional.conv2d(image, taps)),
    ], 2 * CHANNELS**2 * KERNEL**2 * SIZE**2, 4 * (x.size + weight.size + out.size))  # fmt: skip
