"""The product of two matrices of 576×576 floats: from the definition to register tiles."""

from __future__ import annotations

import numpy as np

from . import Ladder, Version, compiled, into

SIZE = 576  # rows and columns are whole tiles of any processor's registers
SIGNATURE = "float32[], float32[], float32[]"


def as_defined(a, b, c, n):
    """Each element of c is a row of a times a column of b."""
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += a[uintp(i * n + k)] * b[uintp(k * n + j)]
            c[uintp(i * n + j)] = total


def rows(a, b, c, n):
    """A row of c gathers rows of b."""
    for i in range(n):
        for j in range(n):
            c[uintp(i * n + j)] = 0.0
        for k in range(n):
            value = a[uintp(i * n + k)]
            for j in range(n):
                c[uintp(i * n + j)] += value * b[uintp(k * n + j)]


def four_rows(a, b, c, n):
    """Four rows of b at a time: c is read and written a fourth as often."""
    for i in range(n):
        for j in range(n):
            c[uintp(i * n + j)] = 0.0
        for k in range(0, n, 4):
            a0 = a[uintp(i * n + k)]
            a1 = a[uintp(i * n + k + 1)]
            a2 = a[uintp(i * n + k + 2)]
            a3 = a[uintp(i * n + k + 3)]
            for j in range(n):
                total = a0 * b[uintp(k * n + j)] + a1 * b[uintp((k + 1) * n + j)]
                c[uintp(i * n + j)] += total + (a2 * b[uintp((k + 2) * n + j)] + a3 * b[uintp((k + 3) * n + j)])


def tiles(a, b, c, n, height, width, lanes):
    """A tile of c stays in vector registers for all of k."""
    for i in range(0, n, height):
        for j in range(0, n, width):
            tile3(address_of(a) + 4 * i * n, n, 1, address_of(b) + 4 * j, n, c, i * n + j, n, n, 0, height, lanes)


def packed_tiles(a, b, panel, c, n, height, width, lanes, depth):
    """Columns of b are first copied to a panel, which a tile then reads in order, and all tiles of its column again."""
    for k in range(0, n, depth):
        for j in range(0, n, width):
            for row in range(depth):
                for column in range(width):
                    panel[uintp(row * width + column)] = b[uintp((k + row) * n + j + column)]
            for i in range(0, n, height):
                tile3(
                    address_of(a) + 4 * (i * n + k),
                    n,
                    1,
                    address_of(panel),
                    width,
                    c,
                    i * n + j,
                    n,
                    depth,
                    int64(k > 0),
                    height,
                    lanes,
                )


def ladder() -> Ladder:
    """From three loops to numod's product, NumPy's beside it."""
    import numod
    from numod.kernel.registers import tiles as registers

    a, b = np.random.default_rng(0).random((2, SIZE, SIZE), np.float32)
    lanes, height = registers.host().lanes(4), registers.host().rows
    shape, c = (height, registers.VECTORS * lanes, lanes), np.empty(SIZE * SIZE, np.float32)
    panel, depth, x, y = np.empty(SIZE * shape[1], np.float32), 192, numod.tensor(a), numod.tensor(b)
    other = np.empty_like(a)
    plain, numbers = (a.ravel(), b.ravel()), ", int64" * 4
    return Ladder(f"product of two {SIZE}×{SIZE} matrices, float32", a.astype(np.float64) @ b, 1e-5, [
        Version("1 as it is defined", "an element of c after the other; b is read by columns",
            into(compiled(as_defined, f"{SIGNATURE}, int64"), c, *plain, SIZE)),
        Version("2 rows", "inner loop along rows of b and c: vectors, and memory in order",
            into(compiled(rows, f"{SIGNATURE}, int64"), c, *plain, SIZE)),
        Version("3 four rows at once", "c is loaded and stored a fourth as often",
            into(compiled(four_rows, f"{SIGNATURE}, int64"), c, *plain, SIZE)),
        Version("4 register tiles",
            f"{height}×{shape[1]} sums stay in vector registers: a load of b serves {height} rows", into(
            compiled(tiles, f"{SIGNATURE}{numbers}"), c, *plain, SIZE, *shape)),
        Version("5 packed panels", "a tile reads memory in order, and finds its panel in the cache", into(
            compiled(packed_tiles, f"float32[], {SIGNATURE}{numbers}, int64"), c, *plain, panel, SIZE, *shape, depth)),
        Version("6 numod", "packed by whole vectors, blocks for each cache, edges by masks", lambda: x @ y),
        Version("  NumPy (OpenBLAS)", "", lambda: np.matmul(a, b, out=other)),
    ], 2 * SIZE**3, 12 * SIZE**2)  # fmt: skip
