"""Tiles of a matrix product in vector registers. Not blocking, packing or edges, which are loops in kernels.

A tile is `rows` x `vectors` registers of sums; each step loads a row of B and adds it times one element of each row of
A, by fused multiply-adds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .vectors import Writer, host, primitive

VECTORS = 3  # of a full tile's width: with 8 rows 24 sums in 32 registers, with 4 rows 12 in 16
LINE = 8  # vectors of a tile of one row
# bytes that a line is asked for before it is read: processors do not foresee what masked loads read, which then take up
# to four times as long
AHEAD = 512
HEIGHTS = (1, 2, 4, 8)  # rows of tiles for few rows
SPLITS = (1, 2, 4, 8, 16)


@functools.cache
def functions() -> dict[str, Callable]:
    """tile1 to tile3, by the vectors of a row: c (rows, columns) = or += a @ b.

    tileN(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, held, last): a and b are addresses, a's element (i,
    k) lies i * a_row + k * a_step elements behind its own, row k of b k * b_step behind its own, row i of c begins at
    c_at + i * c_row; `keep` adds to what c holds. `edge` tiles read and write only `held` rows, and `last` elements of
    a row's last vector (where `host().masks` is false they read all of b's). shiftedN(a, a_at, a_row, a_step, b, b_at,
    b_step, table, table_at, c, c_at, c_row, depth, keep), where all are arrays, finds row k of b at b_at +
    table[table_at + k], spreadN row i of a at a_at + table[table_at + i]. lineN is shiftedN of one row; in the place of
    c_row it is told how many elements of the last vector to write.

    tileRxN(a, a_at, a_row, b, b_at, c, c_at, c_row, depth), where all are arrays, is a tile of R rows, of a as it lies
    and of b in a panel of this width.

    copy_line(x, x_at, first, last, out, out_at, n): out[out_at + j] = x[x_at + j] for j from first to last, 0 for the
    rest up to n. copy_panel(x, x_at, x_step, out, out_at, count) copies, of `count` lines x_step apart, as many
    elements as the widest tile has columns, one line's behind the other's; copy_strip as many as a tile has rows.

    splitS(x, x_at, x_step, first, last, top, bottom, out, out_at, out_step, apart, lines, n, held, room, less), for a
    stride S, of each line i: out[out_at + i * out_step + r * apart + j] = x[x_at + i * x_step + j * S + r] for r < held
    and j < n, or 0 where j * S + r is not from first to last, or i from top to bottom.
    Behind these n it may write anything, up to `room` elements in all, which are `less` in each line than in the one
    before: whole vectors are faster.

    turn_block(x, x_at, x_step, out, out_at, out_step): a transposed square of as many elements as a register holds, out
    (k, j) = x (j, k), its lines x_step apart. turn_edge(..., out_step, held) reads only `held` lines, the last of them
    in the place of those that are missing.
    """
    rows, found = host().rows, {}

    def add(name: str, arguments: str, emit: Callable, **options: bool) -> None:
        found[name] = primitive(name, arguments, emit, **options)

    for vectors in range(1, VECTORS + 1):
        for edge in (False, True):
            add(
                f"{'edge' if edge else 'tile'}{vectors}",
                TILE,
                functools.partial(emit_tile, rows, vectors, edge, host().masks),
                shared=True,
            )
        for kind in ("shifted", "spread"):
            add(f"{kind}{vectors}", _INDIRECT, functools.partial(_emit_indirect, rows, vectors, kind))
    for vectors in (1, 2, 4, LINE):
        add(f"line{vectors}", _INDIRECT, functools.partial(_emit_line, vectors))
    for few in HEIGHTS:
        for vectors in range(1, widest(few) + 1):
            add(
                f"tile{few}x{vectors}",
                "a[a_at], a_row, b[b_at], c[c_at], c_row, depth",
                functools.partial(_emit_few, few, vectors),
            )
    add("copy_line", "x[x_at], first, last, out[out_at], n", emit_copy)
    for stride in SPLITS:
        add(f"split{stride}", _SPLIT, functools.partial(emit_split, stride), shared=True)
    for name, lanes, vectors in (("copy_panel", None, VECTORS), ("copy_strip", rows, 1)):
        add(name, "x[x_at], x_step, out[out_at], count", functools.partial(_emit_side_by_side, lanes, vectors))
    add("turn_block", "x[x_at], x_step, out[out_at], out_step", _emit_turn, shared=True)
    add("turn_edge", "x[x_at], x_step, out[out_at], out_step, held", _emit_turn, shared=True)
    return found


def widest(rows: int) -> int:
    """Vectors of a row of the widest tile of `rows` rows."""
    return min(LINE, VECTORS * host().rows // rows)


def panel(columns: int, lanes: int, vectors: int = VECTORS) -> tuple[int, int]:
    """The width of panels of equal width, at most `vectors` registers, and what they take together, for so many
    columns.
    """
    needed = -(-columns // lanes)
    panels = -(-needed // vectors)
    width = -(-needed // panels) * lanes
    return width, panels * width


TILE = "a*, a_row, a_step, b*, b_step, c[c_at], c_row, depth, keep, held, last"
_INDIRECT = "a[a_at], a_row, a_step, b[b_at], b_step, table[table_at], c[c_at], c_row, depth, keep"

_SPLIT = "x[x_at], x_step, first, last, top, bottom, out[out_at], out_step, apart, lines, n, held, room, less"


def emit_tile(rows, vectors, edge, masks, w, a, a_row, a_step, b, b_step, c, c_row, depth, keep, held, last):
    """Write tileN or, at an `edge`, edgeN; where loads have no `masks` it reads all of b's last vector."""
    mask = w.first(last) if edge else None

    def row(k: object) -> list:
        return [
            w.load(b, (k, b_step), v * w.lanes, mask=mask if masks and v == vectors - 1 else None)
            for v in range(vectors)
        ]

    places = [(a_row, w.within(i, held if edge else None)) for i in range(rows)]
    for i in range(rows):  # by the time of the sums what they are added to has come from memory
        for v in range(vectors):
            w.prefetch(c, (c_row, i), v * w.lanes, write=True)
    totals = _sums(w, rows, vectors, [w.at(a, place) for place in places], a_step, row, depth)
    _put(w, totals, c, c_row, keep, held if edge else None, mask)


def _emit_few(rows, vectors, w, a, a_row, b, c, c_row, depth):
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
    _put(w, totals, c, 0, keep, None, w.first(last))


def _emit_indirect(rows, vectors, kind, w, a, a_row, a_step, b, b_step, table, c, c_row, depth, keep):
    shifted = kind == "shifted"

    def row(k: object) -> list:
        line = w.at(b, w.element_at(table, k) if shifted else (k, b_step))
        return [w.load(line, v * w.lanes) for v in range(vectors)]

    def ask(k: object) -> None:
        """Rows behind these are asked for as fast as they are read: processors do not foresee so many lines at once."""
        w.prefetch(a, (w.offset(a_row, k), rows))

    starts = [w.at(a, (a_row, i) if shifted else w.element_at(table, i)) for i in range(rows)]
    _put(w, _sums(w, rows, vectors, starts, a_step, row, depth, ask if shifted else None), c, c_row, keep, None, None)


def _sums(
    w: Writer,
    rows: int,
    vectors: int,
    starts: list,
    a_step: object,
    row: Callable,
    depth: object,
    ask: Callable | None = None,
) -> list:
    """Write the loop along the depth: rows of vectors, the sums of row(k), a row of b, times column k of a, whose rows
    begin at `starts`. `ask` prefetches.
    """

    def added(k: object, sums: list) -> list:
        right, new = row(k), []
        for start, totals in zip(starts, sums):
            left = w.splat(w.element_at(start, (k, a_step)))
            new.append([w.multiply_add(left, each, total) for each, total in zip(right, totals)])
        return new

    def step(k: object, sets: list) -> list:
        if ask:
            ask(k)
        return [added(w.offset(k, number), sums) for number, sums in enumerate(sets)]

    nothing = [[w.zeros] * vectors] * rows
    if not ask or vectors > 1:
        return w.loop(0, depth, 1, [nothing], step)[0]
    # so few sums would each wait for its last: two steps at a time, with sums of their own
    begin = w.builder.and_(depth, w.number(1))
    (only,) = w.loop(0, begin, 1, [nothing], step)
    first, second = w.loop(begin, depth, 2, [only, nothing], step)
    return [[w.builder.fadd(*pair) for pair in zip(*both)] for both in zip(first, second)]


def _put(w: Writer, totals: list, c: object, c_row: object, keep: object, held: object, mask: object) -> None:
    """Write the sums, or add them to what c holds: `held` rows, and of each row's last vector the lanes of the mask."""
    vectors = len(totals[0])
    masks = [None] * (vectors - 1) + [mask]
    w.rows(
        len(totals),
        held,
        lambda i: w.put(totals[i], [w.at(c, (c_row, i), v * w.lanes) for v in range(vectors)], keep, masks),
    )


def emit_copy(w, source, first, last, target, n):
    """Write copy_line: masked loads where a vector is not whole, so that neither the ends nor the borders need loops of
    their own.
    """

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
    stride, w, source, source_step, first, last, top, bottom, target, target_step, apart, lines, n, held, room, less
):
    """Write splitS: vectors of the source in a row are parted in even and odd lanes until each has one remainder."""
    builder = w.builder

    def parted(vectors: list) -> list:
        """Vectors of the remainders in order."""
        if len(vectors) == 1:
            return vectors
        even, odd = (
            parted([w.shuffle(*pair, list(range(k, 2 * w.lanes, 2))) for pair in zip(vectors[::2], vectors[1::2])])
            for k in (0, 1)
        )
        return [each for pair in zip(even, odd) for each in pair]

    def split(i: object, last: object, j: object) -> None:
        start, end = w.offset((j, stride)), w.offset((j, stride), stride * w.lanes)
        line, into = w.at(source, (i, source_step), start), w.at(target, (i, target_step), j)
        inside = builder.and_(builder.icmp_signed("<=", end, last), builder.icmp_signed(">=", start, first))
        with builder.if_else(inside) as (whole, partly):
            with whole:
                direct, direct_end = [w.load(line, k * w.lanes) for k in range(stride)], builder.block
            with partly:
                masked = []
                for k in range(stride):
                    here = w.at(line, k * w.lanes)
                    w.prefetch(here, AHEAD // w.size)
                    masked.append(w.load(here, mask=w.between(first, last, w.offset(start, k * w.lanes))))
                masked_end = builder.block
        parts = parted(w.either(direct, direct_end, masked, masked_end))
        with builder.if_else(
            builder.icmp_signed("<=", w.offset(j, w.lanes), builder.sub(room, builder.mul(i, less)))
        ) as (enough, short):
            with enough:
                w.rows(stride, held, lambda r: w.store(parts[r], into, (apart, r)))
            with short:
                w.rows(stride, held, lambda r: w.store_first(parts[r], builder.sub(n, j), into, (apart, r)))

    def line(i: object, _: list) -> list:
        read = builder.and_(builder.icmp_signed(">=", i, top), builder.icmp_signed("<", i, bottom))
        end = builder.select(read, last, w.number(0))
        return w.loop(0, n, w.lanes, [], lambda j, _: split(i, end, j) or [])

    w.loop(0, lines, 1, [], line)


def _emit_side_by_side(lanes, vectors, w, x, x_step, out, count):
    w = Writer(w.builder, w.element, lanes)

    def line(k: object, _: list) -> list:
        for v, each in enumerate([w.load(x, (k, x_step), v * w.lanes) for v in range(vectors)]):
            w.store(each, out, (k, vectors * w.lanes), v * w.lanes)
        return []

    w.loop(0, count, 1, [], line)


def _emit_turn(w, source, step, target, target_step, held=None):
    for k, value in enumerate(w.turned([w.load(source, (step, w.within(k, held))) for k in range(w.lanes)])):
        w.store(value, target, (target_step, k))
