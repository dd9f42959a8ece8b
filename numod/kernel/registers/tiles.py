"""Register tiles of a matrix product. Blocking, packing and edges are loops in kernels.

A tile is `rows` x `vectors` registers of sums. Each step loads a row of B and adds its product with one element of each
row of A, by fused multiply-adds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .vectors import Writer, host, primitive

VECTORS = 3  # width of a full tile: with 8 rows 24 sums in 32 registers, with 4 rows 12 in 16
LINE = 8  # width of a tile of one row, in vectors
_UNROLLED = 4  # steps of the depth that a tall tile takes at a time, so that addresses of rows are computed less often
# prefetch distance in bytes: hardware prefetchers do not follow masked loads, which take up to four times as long
# without it
PREFETCH_BYTES = 512
HEIGHTS = (1, 2, 4, 8)  # rows of tiles for few rows
SPLITS = (1, 2, 4, 8, 16)  # strides of `splitS`


@functools.cache
def functions() -> dict[str, Callable]:
    """Tiles c (rows, columns) = a @ b, or += if `keep`, of N vectors a row, and copies that pack their operands.

    tileN(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, valid, last): a and b are addresses. Element (i, k)
    of a is at a + i * a_row + k * a_step (in elements), row k of b at b + k * b_step, row i of c at c_at + i * c_row.
    columnN is tileN for a whose columns are contiguous (a_row is 1): it needs no registers for addresses of rows.
    tall_column1 is column1 with twice as many rows.
    edgeN reads and writes only `valid` rows and `last` elements of a row's last vector (without `host().masks` it reads
    all of b's last vector).

    shiftedN(a, a_at, a_row, a_step, b, b_at, b_step, table, table_at, c, c_at, c_row, depth, keep) takes arrays; row k
    of b is at b_at + table[table_at + k]. tall1 is shifted1 with twice as many rows. In spreadN, row i of a is at
    a_at + table[table_at + i]. lineN is shiftedN of one row; instead of c_row it takes the number of elements of the
    last vector to write.

    tileRxN(a, a_at, a_row, b, b_at, c, c_at, c_row, depth) takes arrays: R contiguous rows of a, and b as a panel of N
    vectors.

    copy_line(x, x_at, first, last, out, out_at, n): out[out_at + j] = x[x_at + j] for first <= j < last, 0 for the
    other j < n. copy_panel(x, x_at, x_step, out, out_at, count) copies the first elements of `count` lines, x_step
    apart, one after the other: as many as the widest tile has columns. copy_strip copies as many as a tile has rows.

    splitS(x, x_at, x_step, first, last, top, bottom, out, out_at, out_step, apart, lines, n, valid, room, less) splits
    each line i by the remainder r of the index modulo S: out[out_at + i * out_step + r * apart + j] = x[x_at + i *
    x_step + j * S + r] for r < valid and j < n; 0 unless first <= j * S + r < last and top <= i < bottom. It may write
    beyond these n, up to room - i * less elements in line i, since whole vectors are faster.

    transpose_block(x, x_at, x_step, out, out_at, out_step) transposes a square of `square` elements a side: out (k, j)
    = x (j, k). transpose_edge(..., out_step, valid) reads only `valid` lines and repeats the last one.
    """
    rows, functions = host().rows, {}

    def add(name: str, arguments: str, emit: Callable, **options: bool) -> None:
        functions[name] = primitive(name, arguments, emit, **options)

    for vectors in range(1, VECTORS + 1):
        for edge in (False, True):
            add(
                f"{'edge' if edge else 'tile'}{vectors}",
                TILE,
                functools.partial(emit_tile, rows, vectors, edge, host().masks),
                shared=True,
            )
        add(f"column{vectors}", _COLUMN, functools.partial(_emit_column, rows, vectors), shared=True)
        for kind in ("shifted", "spread"):
            add(f"{kind}{vectors}", _INDIRECT, functools.partial(_emit_indirect, rows, vectors, kind))
    add("tall_column1", _COLUMN, functools.partial(_emit_column, 2 * rows, 1), shared=True)
    add("tall1", _INDIRECT, functools.partial(_emit_indirect, 2 * rows, 1, "shifted"))
    for vectors in (1, 2, 4, LINE):
        add(f"line{vectors}", _INDIRECT, functools.partial(_emit_line, vectors))
    for height in HEIGHTS:
        for vectors in range(1, widest(height) + 1):
            add(
                f"tile{height}x{vectors}",
                "a[a_at], a_row, b[b_at], c[c_at], c_row, depth",
                functools.partial(_emit_panel_tile, height, vectors),
            )
    add("copy_line", "x[x_at], first, last, out[out_at], n", emit_copy)
    for stride in SPLITS:
        add(f"split{stride}", _SPLIT_ARGUMENTS, functools.partial(emit_split, stride), shared=True)
    for name, lanes, vectors in (("copy_panel", None, VECTORS), ("copy_strip", rows, 1)):
        add(name, "x[x_at], x_step, out[out_at], count", functools.partial(_emit_copy_panel, lanes, vectors))
    add("transpose_block", "x[x_at], x_step, out[out_at], out_step", _emit_transpose, shared=True)
    add("transpose_edge", "x[x_at], x_step, out[out_at], out_step, valid", _emit_transpose, shared=True)
    return functions


def widest(rows: int) -> int:
    """The width of the widest tile of `rows` rows, in vectors."""
    return min(LINE, VECTORS * host().rows // rows)


def panel(columns: int, lanes: int, vectors: int = VECTORS) -> tuple[int, int]:
    """The width of equal panels of at most `vectors` registers that hold `columns`, and their total width."""
    needed = -(-columns // lanes)
    panels = -(-needed // vectors)
    width = -(-needed // panels) * lanes
    return width, panels * width


TILE = "a*, a_row, a_step, b*, b_step, c[c_at], c_row, depth, keep, valid, last"
_COLUMN = "a*, a_step, b*, b_step, c[c_at], c_row, depth, keep"
_INDIRECT = "a[a_at], a_row, a_step, b[b_at], b_step, table[table_at], c[c_at], c_row, depth, keep"

_SPLIT_ARGUMENTS = (
    "x[x_at], x_step, first, last, top, bottom, out[out_at], out_step, apart, lines, n, valid, room, less"
)


def emit_tile(rows, vectors, edge, masks, w, a, a_row, a_step, b, b_step, c, c_row, depth, keep, valid, last):
    """Write tileN or, with `edge`, edgeN. Without `masks`, edgeN reads all of b's last vector."""
    mask = w.first(last) if edge else None

    def row(k: object) -> list:
        return [
            w.load(b, (k, b_step), v * w.lanes, mask=mask if masks and v == vectors - 1 else None)
            for v in range(vectors)
        ]

    row_offsets = [(a_row, w.within(i, valid if edge else None)) for i in range(rows)]
    for i in range(rows):  # c is in the cache when the sums are added to it
        for v in range(vectors):
            w.prefetch(c, (c_row, i), v * w.lanes, write=True)
    totals = _sums(w, rows, vectors, [w.at(a, row_offset) for row_offset in row_offsets], a_step, row, depth)
    _store_sums(w, totals, c, c_row, keep, valid if edge else None, mask)


def _emit_column(rows, vectors, w, a, a_step, b, b_step, c, c_row, depth, keep):
    emit_tile(rows, vectors, False, False, w, a, 1, a_step, b, b_step, c, c_row, depth, keep, None, None)


def _emit_panel_tile(rows, vectors, w, a, a_row, b, c, c_row, depth):
    def row(k: object) -> list:
        return [w.load(b, (k, vectors * w.lanes), v * w.lanes) for v in range(vectors)]

    totals = _sums(w, rows, vectors, [w.at(a, (a_row, i)) for i in range(rows)], 1, row, depth)
    for i in range(rows):
        for v in range(vectors):
            w.store(totals[i][v], c, (c_row, i), v * w.lanes)


def _emit_line(vectors, w, a, a_row, a_step, b, b_step, table, c, last, depth, keep):
    def row(k: object) -> list:
        return [w.load(b, w.element_at(table, k), v * w.lanes) for v in range(vectors)]

    totals = _sums(w, 1, vectors, [a], a_step, row, depth)
    _store_sums(w, totals, c, 0, keep, None, w.first(last))


def _emit_indirect(rows, vectors, kind, w, a, a_row, a_step, b, b_step, table, c, c_row, depth, keep):
    shifted = kind == "shifted"

    def row(k: object) -> list:
        line = w.at(b, w.element_at(table, k) if shifted else (k, b_step))
        return [w.load(line, v * w.lanes) for v in range(vectors)]

    def prefetch(k: object) -> None:
        """Prefetch the next rows: there are more streams than hardware prefetchers follow."""
        w.prefetch(a, (w.offset(a_row, k), rows))

    starts = [w.at(a, (a_row, i) if shifted else w.element_at(table, i)) for i in range(rows)]
    _store_sums(
        w,
        _sums(w, rows, vectors, starts, a_step, row, depth, prefetch if shifted else None),
        c,
        c_row,
        keep,
        None,
        None,
    )


def _sums(
    w: Writer,
    rows: int,
    vectors: int,
    starts: list,
    a_step: object,
    row: Callable,
    depth: object,
    prefetch: Callable | None = None,
) -> list:
    """Write the loop over k < depth; returns rows of vectors, the sums of row(k), a row of b, times column k of a.

    The rows of a begin at `starts`. `prefetch(k)` writes prefetches.
    """

    def added(ks: list, sums: list) -> list:
        rights = [row(k) for k in ks]
        for start, totals in zip(starts, sums):
            for k, right in zip(ks, rights):
                left = w.splat(w.element_at(start, (k, a_step)))
                totals = [w.multiply_add(left, vector, total) for vector, total in zip(right, totals)]
            yield totals

    def step(k: object, sets: list) -> list:
        if prefetch:
            prefetch(k)
        return [[*added([w.offset(k, number)], sums)] for number, sums in enumerate(sets)]

    def unrolled(k: object, sets: list) -> list:
        ks = [w.offset(k, number) for number in range(_UNROLLED)]
        for step_k in ks:
            prefetch(step_k)
        return [[*added(ks, sets[0])]]

    zeros = [[w.zeros] * vectors] * rows
    if prefetch and rows > host().rows:
        rest = w.builder.and_(depth, w.number(_UNROLLED - 1))
        sets = w.loop(0, rest, 1, [zeros], step)
        return w.loop(rest, depth, _UNROLLED, sets, unrolled)[0]
    if not prefetch or vectors * rows > host().rows:
        return w.loop(0, depth, 1, [zeros], step)[0]
    # each of so few sums would wait for its last addition: two sets of sums, for even and odd k
    odd = w.builder.and_(depth, w.number(1))
    (first_sums,) = w.loop(0, odd, 1, [zeros], step)
    first, second = w.loop(odd, depth, 2, [first_sums, zeros], step)
    return [[w.builder.fadd(*pair) for pair in zip(*both)] for both in zip(first, second)]


def _store_sums(w: Writer, totals: list, c: object, c_row: object, keep: object, valid: object, mask: object) -> None:
    """Write the sums to c, or add them: `valid` rows, and the lanes `mask` of each row's last vector."""
    vectors = len(totals[0])
    masks = [None] * (vectors - 1) + [mask]
    w.rows(
        len(totals),
        valid,
        lambda i: w.put(totals[i], [w.at(c, (c_row, i), v * w.lanes) for v in range(vectors)], keep, masks),
    )


def emit_copy(w, source, first, last, target, n):
    """Write copy_line: partial vectors use masks, so that ends and borders need no loops of their own."""

    def copy(j: object, _: list) -> list:
        end = w.offset(j, w.lanes)
        inside = w.builder.and_(
            w.builder.icmp_signed("<=", end, w.lesser(last, n)), w.builder.icmp_signed(">=", j, first)
        )
        with w.builder.if_else(inside, likely=True) as (whole, partly):  # masks cost several times as much as a copy
            with whole:
                w.store(w.load(source, j), target, j)
            with partly:
                w.store_first(w.load(source, j, mask=w.between(first, last, j)), w.builder.sub(n, j), target, j)
        return []

    w.loop(0, n, w.lanes, [], copy)


def emit_split(
    stride, w, source, source_step, first, last, top, bottom, target, target_step, apart, lines, n, valid, room, less
):
    """Write splitS: consecutive vectors are split into even and odd lanes until each holds one remainder."""
    builder = w.builder

    def split_lanes(vectors: list) -> list:
        """The vectors of each remainder, in order."""
        if len(vectors) == 1:
            return vectors
        even, odd = (
            split_lanes([w.shuffle(*pair, list(range(k, 2 * w.lanes, 2))) for pair in zip(vectors[::2], vectors[1::2])])
            for k in (0, 1)
        )
        return [vector for pair in zip(even, odd) for vector in pair]

    def split(i: object, last: object, j: object) -> None:
        start, end = w.offset((j, stride)), w.offset((j, stride), stride * w.lanes)
        line, destination = w.at(source, (i, source_step), start), w.at(target, (i, target_step), j)
        inside = builder.and_(builder.icmp_signed("<=", end, last), builder.icmp_signed(">=", start, first))
        with builder.if_else(inside) as (whole, partly):
            with whole:
                direct, direct_end = [w.load(line, k * w.lanes) for k in range(stride)], builder.block
            with partly:
                masked = []
                for k in range(stride):
                    address = w.at(line, k * w.lanes)
                    w.prefetch(address, PREFETCH_BYTES // w.size)
                    masked.append(w.load(address, mask=w.between(first, last, w.offset(start, k * w.lanes))))
                masked_end = builder.block
        parts = split_lanes(w.either(direct, direct_end, masked, masked_end))
        with builder.if_else(
            builder.icmp_signed("<=", w.offset(j, w.lanes), builder.sub(room, builder.mul(i, less)))
        ) as (enough, short):
            with enough:
                w.rows(stride, valid, lambda r: w.store(parts[r], destination, (apart, r)))
            with short:
                w.rows(stride, valid, lambda r: w.store_first(parts[r], builder.sub(n, j), destination, (apart, r)))

    def line(i: object, _: list) -> list:
        read = builder.and_(builder.icmp_signed(">=", i, top), builder.icmp_signed("<", i, bottom))
        end = builder.select(read, last, w.number(0))
        return w.loop(0, n, w.lanes, [], lambda j, _: split(i, end, j) or [])

    w.loop(0, lines, 1, [], line)


def _emit_copy_panel(lanes, vectors, w, x, x_step, out, count):
    w = Writer(w.builder, w.element, lanes)

    def line(k: object, _: list) -> list:
        for v, vector in enumerate([w.load(x, (k, x_step), v * w.lanes) for v in range(vectors)]):
            w.store(vector, out, (k, vectors * w.lanes), v * w.lanes)
        return []

    w.loop(0, count, 1, [], line)


def square(itemsize: int) -> int:
    """The side of a square that `transpose_block` transposes: a register's elements, of bytes those of 128 bits."""
    return 16 if itemsize == 1 else host().lanes(itemsize)


def _emit_transpose(w, source, step, target, target_step, valid=None):
    w = Writer(w.builder, w.element, square(w.size))
    for k, value in enumerate(w.transposed([w.load(source, (step, w.within(k, valid))) for k in range(w.lanes)])):
        w.store(value, target, (target_step, k))
