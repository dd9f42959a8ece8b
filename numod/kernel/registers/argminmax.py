"""Positions of extremes in vector registers: along a row, or down neighbouring columns.

Which elements are compared is `ops.extremum`'s.

NaN is the extreme of any that holds one, and of equal elements the first counts. Elements are floats or integers of any
width.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .vectors import Writer, host, primitive, tree

LINES = 16  # most lines of columns that are compared at a time: their numbers, and -1, fit an element of any width
_COLUMNS = 2  # vectors beside each other
_STREAMS = 4  # vectors of a row that are compared with what lanes hold as a group


def lanes(itemsize: int) -> int:
    """Elements that are compared at once."""
    return host().lanes(itemsize)


def least_columns(itemsize: int) -> int:
    """How many neighbouring columns `greatest_in_columns` needs at least."""
    return _COLUMNS * lanes(itemsize)


@functools.cache
def functions() -> dict[str, Callable]:
    """greatest_in_row(x, at, n): which of x[at : at + n] is the greatest; n is at least `lanes`.

    greatest_in_columns(x, at, step, rows, first, best, best_at, where, where_at, n): each of n columns of `rows` lines,
    at most LINES, `step` apart from x[at] on, against the n elements of best and of where: these become the greatest
    and its line, counted from `first`. where has int64 for elements of 8 bytes, else int32. n is at least
    `least_columns`. And least_in_row, least_in_columns.
    """
    found = {}
    for name, least in (("greatest", False), ("least", True)):
        row, columns = f"{name}_in_row", f"{name}_in_columns"
        found[row] = primitive(row, "x[at], n", functools.partial(emit_row, least), shared=True, result="int64")
        found[columns] = primitive(
            columns,
            "x[at], step, rows, first, best[best_at], where[where_at], n",
            functools.partial(emit_columns, least),
            shared=True,
        )
    return found


def emit_row(least: bool, w: Writer, x: object, n: object) -> object:
    """greatest_in_row, or least_in_row."""
    return _Search(w, least).row(x, n)


def emit_columns(least: bool, w: Writer, *given: object) -> None:
    """greatest_in_columns, or least_in_columns."""
    _Search(w, least).columns(*given)


class _Search:
    """Writes the search for one type of elements. `w` writes vectors of values."""

    def __init__(self, w: Writer, least: bool) -> None:
        self.w, self.builder, self.least, self.is_float, self.count = w, w.builder, least, w.is_float, w.lanes
        self.bits, self.numbers = (w.ir.VectorType(w.ir.IntType(size), w.lanes) for size in (1, 8 * w.size))
        # masks that loops carry: without registers for masks LLVM would pack and unpack single bits at every turn
        self.none = w.ir.Constant(self.bits if host().width == 64 else self.numbers, None)
        self.places = Writer(w.builder, self.numbers.element, self.count)

    def row(self, x: object, n: object) -> object:
        """The first position of the extreme of x (n).

        Each lane holds its extreme and the first group of vectors that has it; then one group is searched.

        Groups are numbered in integers as wide as the elements, anew in each block. Of the last group some elements are
        read again.
        """
        builder, w, count = self.builder, self.w, self.count
        width, last, shifts = count * _STREAMS, w.offset(n, -count), [k * count for k in range(_STREAMS)]
        block = width << min(8 * w.size - 1, 24)

        def group(spots: list, state: list) -> list:
            (best, where, number, missing), values = state, [w.load(x, spot) for spot in spots]
            extreme = tree(self.passing, values)
            better = self.passes(extreme, best)
            held = [builder.select(better, extreme, best), builder.select(better, number, where)]
            return [*held, builder.add(number, self.whole(1)), self.noted(missing, values)]

        def compare(start: object, state: list) -> list:
            best, where, missing = state
            groups = builder.udiv(
                builder.sub(w.lesser(w.offset(start, block - 1), w.offset(n, -1)), start), w.number(width)
            )
            state = [w.splat(self.worst()), self.whole(0), self.whole(0), missing]
            state = w.loop(
                0,
                groups,
                1,
                state,
                lambda k, state: group([w.offset(start, (k, width), shift) for shift in shifts], state),
            )
            ends = [w.lesser(w.offset(start, (groups, width), shift), last) for shift in shifts]
            extremes, numbers, _, missing = group(ends, state)
            extreme = w.across(self.passing, extremes)
            of = builder.select(self.equal(extremes, w.splat(extreme)), numbers, self.whole(-1))
            number = self.places.across(self.lower, of)
            better = self.passes(extreme, best)
            here = w.offset(start, (builder.zext(number, start.type) if w.size < 8 else number, width))
            return [builder.select(better, extreme, best), builder.select(better, here, where), missing]

        best, where, missing = w.loop(0, n, block, [self.worst(), w.number(0), self.none], compare)
        extreme = w.splat(best)

        def place() -> list:
            spots = [w.lesser(w.offset(where, shift), last) for shift in shifts]
            return [self.at_first(spots, [self.equal(w.load(x, spot), extreme) for spot in spots])]

        return self.unless_missing(missing, place, lambda: [self.first_missing(x, last)])[0]

    def at_first(self, spots: list, masks: list) -> object:
        """The position of the first lane of a mask, of vectors from these positions on."""
        builder, position = self.builder, None
        for spot, mask in list(zip(spots, masks))[::-1]:
            flags = builder.bitcast(mask, self.w.ir.IntType(self.count))
            lane = builder.cttz(flags, self.w.ir.Constant(self.w.ir.IntType(1), 0))
            here = self.w.offset(spot, builder.zext(lane, spot.type))
            position = here if position is None else builder.select(self.any(mask), here, position)
        return position

    def first_missing(self, x: object, last: object) -> object:
        """The position of the first NaN of x, which has one; its last vector is at `last`."""
        builder, w = self.builder, self.w
        before, loop, found = builder.block, builder.append_basic_block("loop"), builder.append_basic_block("found")
        builder.branch(loop)
        builder.position_at_end(loop)
        k = builder.phi(last.type)
        spot = w.lesser(k, last)
        value = w.load(x, spot)
        mask = builder.fcmp_unordered("uno", value, value)
        k.add_incoming(w.number(0), before)
        k.add_incoming(w.offset(k, self.count), loop)
        builder.cbranch(self.any(mask), found, loop)
        builder.position_at_end(found)
        return self.at_first([spot], [mask])

    def columns(
        self, x: object, step: object, rows: object, first: object, best: object, where: object, n: object
    ) -> None:
        """best, where (n) with `rows` lines of x; the last columns are done again rather than fewer.

        Lines with NaN are done again, one by one.
        """
        builder, w, last = self.builder, self.w, self.w.offset(n, -self.count * _COLUMNS)
        p = Writer(builder, w.ir.IntType(max(8 * w.size, 32)), self.count)
        start = p.splat(self.narrowed(first, p.element))

        def group(c: object, _: list) -> list:
            spots = [w.offset(w.lesser(c, last), column * self.count) for column in range(_COLUMNS)]

            def line(k: object, states: list, passes: Callable) -> tuple[list, list]:
                number, values = (
                    w.splat(self.narrowed(k, self.numbers.element)),
                    [w.load(x, (k, step), spot) for spot in spots],
                )
                kept = []
                for value, (held, place) in zip(values, states):
                    mask = passes(value, held)
                    kept.append([builder.select(mask, value, held), builder.select(mask, number, place)])
                return kept, values

            def quickly(k: object, state: list) -> list:
                kept, values = line(k, state[0], self.passes)
                return [kept, self.noted(state[1], values)]

            given = [[w.load(best, spot), self.whole(-1)] for spot in spots]
            states, missing = w.loop(0, rows, 1, [given, self.none], quickly)
            exactly = functools.partial(w.loop, 0, rows, 1, given, lambda k, states: line(k, states, self.replaces)[0])
            for spot, (value, place) in zip(spots, self.unless_missing(missing, lambda: states, exactly)):
                w.store(value, best, spot)
                wide = place if p.vector == self.numbers else builder.sext(place, p.vector)
                p.store(
                    builder.select(
                        builder.icmp_signed("<", wide, p.zeros), p.load(where, spot), builder.add(wide, start)
                    ),
                    where,
                    spot,
                )
            return []

        w.loop(0, n, self.count * _COLUMNS, [], group)

    def whole(self, number: int) -> object:
        """A number in each lane, an integer as wide as the elements."""
        return self.w.ir.Constant(self.numbers, [number] * self.count)

    def worst(self) -> object:
        """What every element passes or equals."""
        if self.is_float:
            return self.w.ir.Constant(self.w.element, float("inf" if self.least else "-inf"))
        bits = 8 * self.w.size
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if self.w.signed else (0, (1 << bits) - 1)
        return self.w.ir.Constant(self.w.element, high if self.least else low)

    def unless_missing(self, missing: object, usual: Callable, otherwise: Callable) -> list:
        """The state that `usual` gives, or `otherwise` where any lane is missing a number."""
        if not self.is_float:
            return usual()
        mask = missing if missing.type == self.bits else self.builder.icmp_signed("<", missing, self.none)
        with self.builder.if_else(self.any(mask), likely=False) as (bad, good):
            with bad:
                found, after = otherwise(), self.builder.block
            with good:
                expected, behind = usual(), self.builder.block
        return self.w.either(expected, behind, found, after)

    def any(self, mask: object) -> object:
        """Whether a mask has any lane."""
        flags = self.w.ir.IntType(self.count)
        return self.builder.icmp_unsigned("!=", self.builder.bitcast(mask, flags), flags(0))

    def narrowed(self, value: object, kind: object) -> object:
        """An int64 as an integer of this type."""
        return self.builder.trunc(value, kind) if kind.width < 64 else value

    def passes(self, value: object, best: object) -> object:
        """Where one passes another; NaN neither passes nor is passed."""
        compare = (
            self.builder.fcmp_ordered
            if self.is_float
            else self.builder.icmp_signed
            if self.w.signed
            else self.builder.icmp_unsigned
        )
        return compare("<" if self.least else ">", value, best)

    def replaces(self, value: object, best: object) -> object:
        """Where one takes the place of another: NaN passes all but NaN."""
        passes = self.builder.fcmp_unordered("<" if self.least else ">", value, best)
        return self.builder.and_(passes, self.builder.fcmp_ordered("ord", best, best))

    def passing(self, x: object, y: object) -> object:
        """The more extreme of two in each lane: y if one is NaN."""
        return self.builder.select(self.passes(x, y), x, y)

    def lower(self, x: object, y: object) -> object:
        """The lower of two unsigned numbers in each lane."""
        return self.builder.select(self.builder.icmp_unsigned("<", x, y), x, y)

    def equal(self, x: object, y: object) -> object:
        """Where two are equal."""
        return self.builder.fcmp_ordered("==", x, y) if self.is_float else self.builder.icmp_signed("==", x, y)

    def noted(self, missing: object, values: list) -> object:
        """`missing`, and where there are NaN in any of an even number of vectors."""
        for pair in zip(values[::2], values[1::2]) if self.is_float else ():
            mask = self.builder.fcmp_unordered("uno", *pair)
            missing = self.builder.or_(
                missing, mask if missing.type == self.bits else self.builder.sext(mask, missing.type)
            )
        return missing
