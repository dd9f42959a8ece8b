"""Positions of extremes in vector registers: lanes of the best values beside lanes of their positions. Which elements are compared is `ops.extremum`'s.

NaN is the extreme of any that holds one, and of equal elements the first counts. Elements are floats or integers of any width.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .vectors import Writer, host, primitive, tree

_COLUMNS = 2  # vectors beside each other
_STREAMS = 4  # vectors of a row at a time: more would hide more latency, but what joins them costs as much as the rest of a row of 1000


def lanes(itemsize: int) -> int:
    """Elements that are compared at once: as many as there are positions of 32 or 64 bits in a register."""
    return host().lanes(max(itemsize, 4))


def least_columns(itemsize: int) -> int:
    """How many neighbouring columns `greatest_in_columns` needs at least."""
    return _COLUMNS * lanes(itemsize)


@functools.cache
def functions() -> dict[str, Callable]:
    """greatest_in_row(x, at, n): which of x[at : at + n] is the greatest; n is at least `lanes`.

    greatest_in_columns(x, at, step, rows, first, best, best_at, where, where_at, n): each of n columns of `rows` lines, `step` apart from x[at] on, against the
    n elements of best and of where: these become the greatest and its line, counted from `first`. n is at least `least_columns`. And least_in_row,
    least_in_columns.
    """
    found = {}
    for name, least in (("greatest", False), ("least", True)):
        row, columns = f"{name}_in_row", f"{name}_in_columns"
        found[row] = primitive(row, "x[at], n", functools.partial(_emit_row, least), shared=True, result="int64")
        found[columns] = primitive(columns, "x[at], step, rows, first, best[best_at], where[where_at], n", functools.partial(_emit_columns, least), shared=True)
    return found


def _emit_row(least: bool, w: Writer, x: object, n: object) -> object:
    return _Search(w, least).row(x, n)


def _emit_columns(least: bool, w: Writer, *given: object) -> None:
    _Search(w, least).columns(*given)


class _Search:
    """Writes the search for one type of elements. `w` writes vectors of values, `p` those of positions."""

    def __init__(self, w: Writer, least: bool) -> None:
        count = lanes(w.size)
        self.w, self.builder, self.least, self.is_float = Writer(w.builder, w.element, count, w.signed), w.builder, least, w.is_float
        self.p = Writer(w.builder, w.ir.IntType(max(8 * w.size, 32)), count)
        self.count, self.far = count, w.ir.Constant(self.p.vector, [-1] * count)  # as an unsigned number, behind every position

    def row(self, x: object, n: object) -> object:
        """The first position of the extreme of x (n): some vectors at a time, then the last elements, some of them again."""
        builder, w, count = self.builder, self.w, self.count
        width = count * _STREAMS
        whole, last = builder.and_(n, w.number(-width)), w.offset(n, -count)
        shifts = [stream * count for stream in range(_STREAMS)]

        def step(k: object, state: list) -> list:
            (best, blocks, missing), block = state, self.spread(k)
            values = [w.load(x, k, shift) for shift in shifts]
            kept = [self.keep(self.passes(value, held), value, block, held, at) for value, held, at in zip(values, best, blocks)]
            return [*map(list, zip(*kept)), functools.reduce(builder.or_, self.missing(values), missing)]

        nowhere = w.ir.Constant(self.p.vector, [-width] * count)  # as an unsigned number, behind every position, even with what is added below
        none = w.ir.Constant(w.ir.VectorType(w.ir.IntType(1), count), None)
        state = [[w.load(x)] * _STREAMS, [self.p.zeros] + [nowhere] * (_STREAMS - 1), none]
        best, blocks, missing = w.loop(0, whole, width, state, step)
        ends = [w.lesser(w.offset(whole, shift), last) for shift in shifts]
        values = [*best, *[w.load(x, end) for end in ends]]
        positions = [builder.add(block, self.numbered(w.number(shift))) for block, shift in zip(blocks, shifts)] + [self.numbered(end) for end in ends]
        extreme = w.splat(w.across(self.passing, tree(self.passing, values)))
        found = self.first([self.equal(value, extreme) for value in values], positions)
        return self.unless_missing(found, functools.reduce(builder.or_, self.missing(values), missing), x, last) if self.is_float else found

    def columns(self, x: object, step: object, rows: object, first: object, best: object, where: object, n: object) -> None:
        """best, where (n) with `rows` lines of x; the last columns are done again rather than fewer."""
        w, p, last = self.w, self.p, self.w.offset(n, -self.count * _COLUMNS)

        def group(c: object, _: list) -> list:
            spots = [w.offset(w.lesser(c, last), column * self.count) for column in range(_COLUMNS)]

            def line(k: object, states: list) -> list:
                position, values = self.spread(w.offset(first, k)), [w.load(x, (k, step), spot) for spot in spots]
                return [self.replace(value, position, *state) for value, state in zip(values, states)]

            values = [w.load(best, spot) for spot in spots]
            states = w.loop(0, rows, 1, [[value, p.load(where, spot), self.present(value)] for value, spot in zip(values, spots)], line)
            for spot, (value, position, _) in zip(spots, states):
                w.store(value, best, spot)
                p.store(position, where, spot)
            return []

        w.loop(0, n, self.count * _COLUMNS, [], group)

    def unless_missing(self, found: object, missing: object, x: object, last: object) -> object:
        """The position `found`, or that of the first NaN where any lane is missing one."""
        builder, flags, before = self.builder, self.w.ir.IntType(self.count), self.builder.block

        def look(k: object, states: list) -> list:
            k = self.w.lesser(k, last)
            value = self.w.load(x, k)
            return [self.lower(states[0], builder.select(builder.fcmp_unordered("uno", value, value), self.numbered(k), self.far))]

        with builder.if_then(builder.icmp_unsigned("!=", builder.bitcast(missing, flags), flags(0))):
            (positions,) = self.w.loop(0, self.w.offset(last, self.count), self.count, [self.far], look)
            of_nan, after = self.as_integer(self.p.across(self.lower, positions)), builder.block
        return self.w.either([found], before, [of_nan], after)[0]

    def first(self, masks: list, positions: list) -> object:
        """The lowest position whose lane is in its mask, as int64."""
        chosen = [self.builder.select(mask, position, self.far) for mask, position in zip(masks, positions)]
        return self.as_integer(self.p.across(self.lower, tree(self.lower, chosen)))

    def replace(self, value: object, position: object, best: object, where: object, open: object) -> list:
        """best, where and where both are still `open` to change, with what passes them: NaN passes all and ends it."""
        if not self.is_float:
            return [*self.keep(self.passes(value, best), value, position, best, where), open]
        mask = self.builder.and_(self.builder.fcmp_unordered("<" if self.least else ">", value, best), open)
        return [*self.keep(mask, value, position, best, where), self.builder.and_(open, self.present(value))]

    def keep(self, mask: object, value: object, position: object, best: object, where: object) -> list:
        """best and where, with what is in the mask."""
        return [self.builder.select(mask, value, best), self.builder.select(mask, position, where)]

    def spread(self, value: object) -> object:
        """An int64 as a vector of positions."""
        return self.p.splat(self.builder.trunc(value, self.p.element) if self.p.size < 8 else value)

    def numbered(self, first: object) -> object:
        """The positions first, first + 1, ..."""
        return self.builder.add(self.spread(first), self.w.ir.Constant(self.p.vector, list(range(self.count))))

    def as_integer(self, position: object) -> object:
        """A position as int64."""
        return self.builder.zext(position, self.w.ir.IntType(64)) if self.p.size < 8 else position

    def passes(self, value: object, best: object) -> object:
        """Where a vector passes another; NaN neither passes nor is passed."""
        compare = self.builder.fcmp_ordered if self.is_float else self.builder.icmp_signed if self.w.signed else self.builder.icmp_unsigned
        return compare("<" if self.least else ">", value, best)

    def passing(self, x: object, y: object) -> object:
        """The more extreme of two in each lane, whatever NaN does."""
        return self.builder.select(self.passes(x, y), x, y)

    def lower(self, x: object, y: object) -> object:
        """The lower of two positions in each lane."""
        return self.builder.select(self.builder.icmp_unsigned("<", x, y), x, y)

    def equal(self, x: object, y: object) -> object:
        """Where two are equal."""
        return self.builder.fcmp_ordered("==", x, y) if self.is_float else self.builder.icmp_signed("==", x, y)

    def present(self, value: object) -> object:
        """Where there is no NaN."""
        return self.builder.fcmp_ordered("ord", value, value) if self.is_float else self.builder.icmp_signed("==", value, value)

    def missing(self, values: list) -> list:
        """Where there are NaN, two vectors at a time."""
        return [self.builder.fcmp_unordered("uno", *pair) for pair in zip(values[::2], values[1::2])] if self.is_float else []
