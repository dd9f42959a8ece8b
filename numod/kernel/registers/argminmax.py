"""Positions of the greatest or least elements in vector registers: along a row, or down neighbouring columns.

NaN counts as the extreme; of equal elements the first one counts. Elements are floats or integers of any width.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .vectors import Writer, host, primitive, tree

LINES = 16  # most lines that `greatest_in_columns` takes: line numbers and -1 fit elements of any width
_COLUMNS = 2  # neighbouring vectors in a step of `greatest_in_columns`
_STREAMS = 4  # vectors in a step ("group") of `greatest_in_row`


def lanes(itemsize: int) -> int:
    """The number of elements in a vector."""
    return host().lanes(itemsize)


def least_columns(itemsize: int) -> int:
    """The least number of columns of a matrix that the searches in columns take."""
    return _COLUMNS * lanes(itemsize)


@functools.cache
def functions() -> dict[str, Callable]:
    """Searches for the greatest element; least_in_row and least_in_columns search for the least.

    greatest_in_row(x, at, n): the index in x[at : at + n] of the greatest element; n is at least `lanes`.

    greatest_in_columns(x, at, step, rows, first, best, best_at, where, where_at, n) updates n (at least
    `least_columns`) elements of `best` and of `where`, the greatest elements of columns and their lines, by `rows` (at
    most LINES) more lines of x, `step` apart from x[at] on; the first of them has the number `first`. `where` is int64
    for 8-byte elements, else int32.
    """
    primitives = {}
    for name, least in (("greatest", False), ("least", True)):
        row, columns = f"{name}_in_row", f"{name}_in_columns"
        primitives[row] = primitive(row, "x[at], n", functools.partial(emit_row, least), shared=True, result="int64")
        primitives[columns] = primitive(
            columns,
            "x[at], step, rows, first, best[best_at], where[where_at], n",
            functools.partial(emit_columns, least),
            shared=True,
        )
    return primitives


def emit_row(least: bool, w: Writer, x: object, n: object) -> object:
    """Write greatest_in_row, or least_in_row."""
    return _Search(w, least).row(x, n)


def emit_columns(least: bool, w: Writer, *operands: object) -> None:
    """Write greatest_in_columns, or least_in_columns."""
    _Search(w, least).columns(*operands)


class _Search:
    """Writes the search for one type of elements. `w` writes vectors of values."""

    def __init__(self, w: Writer, least: bool) -> None:
        self.w, self.builder, self.least, self.is_float, self.count = w, w.builder, least, w.is_float, w.lanes
        self.bits, self.numbers = (w.ir.VectorType(w.ir.IntType(size), w.lanes) for size in (1, 8 * w.size))
        # masks that loops carry: without mask registers LLVM would pack and unpack single bits in each iteration
        self.none = w.ir.Constant(self.bits if host().width == 64 else self.numbers, None)
        self.places = Writer(w.builder, self.numbers.element, self.count)

    def row(self, x: object, n: object) -> object:
        """The first position of the extreme of x (n).

        Each lane keeps its extreme and the number of the first group that has it; then one group is searched. Group
        numbers are as wide as elements, so counting restarts in each block. The last group overlaps the one before.
        """
        builder, w, count = self.builder, self.w, self.count
        width, last, shifts = count * _STREAMS, w.offset(n, -count), [k * count for k in range(_STREAMS)]
        block = width << min(8 * w.size - 1, 24)

        def group(positions: list, state: list) -> list:
            (best, where, number, has_nan), values = state, [w.load(x, position) for position in positions]
            extreme = tree(self.passing, values)
            better = self.passes(extreme, best)
            new_best = [builder.select(better, extreme, best), builder.select(better, number, where)]
            return [*new_best, builder.add(number, self.whole(1)), self.with_nan(has_nan, values)]

        def compare(start: object, state: list) -> list:
            """Find the best element of a block from `start` on, and combine it with the state."""
            best, where, has_nan = state
            groups = builder.udiv(
                builder.sub(w.lesser(w.offset(start, block - 1), w.offset(n, -1)), start), w.number(width)
            )
            state = [w.splat(self.worst()), self.whole(0), self.whole(0), has_nan]
            state = w.loop(
                0,
                groups,
                1,
                state,
                lambda k, state: group([w.offset(start, (k, width), shift) for shift in shifts], state),
            )
            ends = [w.lesser(w.offset(start, (groups, width), shift), last) for shift in shifts]
            extremes, numbers, _, has_nan = group(ends, state)
            extreme = w.across(self.passing, extremes)
            candidate_numbers = builder.select(self.equal(extremes, w.splat(extreme)), numbers, self.whole(-1))
            number = self.places.across(self.lower, candidate_numbers)
            better = self.passes(extreme, best)
            new_position = w.offset(start, (builder.zext(number, start.type) if w.size < 8 else number, width))
            return [builder.select(better, extreme, best), builder.select(better, new_position, where), has_nan]

        best, where, has_nan = w.loop(0, n, block, [self.worst(), w.number(0), self.none], compare)
        extreme = w.splat(best)

        def first_position() -> list:
            positions = [w.lesser(w.offset(where, shift), last) for shift in shifts]
            return [self.at_first(positions, [self.equal(w.load(x, position), extreme) for position in positions])]

        return self.unless_nan(has_nan, first_position, lambda: [self.first_nan(x, last)])[0]

    def at_first(self, positions: list, masks: list) -> object:
        """The position of the first lane in any mask; each mask belongs to a vector at a position."""
        builder, position = self.builder, None
        for start, mask in list(zip(positions, masks))[::-1]:
            flags = builder.bitcast(mask, self.w.ir.IntType(self.count))
            lane = builder.cttz(flags, self.w.ir.Constant(self.w.ir.IntType(1), 0))
            candidate = self.w.offset(start, builder.zext(lane, start.type))
            position = candidate if position is None else builder.select(self.any(mask), candidate, position)
        return position

    def first_nan(self, x: object, last: object) -> object:
        """The position of the first NaN of x, which must have one; its last vector is at `last`."""
        builder, w = self.builder, self.w
        entry_block = builder.block
        loop = builder.append_basic_block("loop")
        found_block = builder.append_basic_block("found")
        builder.branch(loop)
        builder.position_at_end(loop)
        k = builder.phi(last.type)
        at = w.lesser(k, last)
        value = w.load(x, at)
        mask = builder.fcmp_unordered("uno", value, value)
        k.add_incoming(w.number(0), entry_block)
        k.add_incoming(w.offset(k, self.count), loop)
        builder.cbranch(self.any(mask), found_block, loop)
        builder.position_at_end(found_block)
        return self.at_first([at], [mask])

    def columns(
        self, x: object, step: object, rows: object, first: object, best: object, where: object, n: object
    ) -> None:
        """Update best and where (n) by `rows` lines of x.

        The last step overlaps the one before. Columns with NaN are computed again, by exact comparisons.
        """
        builder, w, last = self.builder, self.w, self.w.offset(n, -self.count * _COLUMNS)
        p = Writer(builder, w.ir.IntType(max(8 * w.size, 32)), self.count)
        start = p.splat(self.narrowed(first, p.element))

        def group(c: object, _: list) -> list:
            positions = [w.offset(w.lesser(c, last), column * self.count) for column in range(_COLUMNS)]

            def line(k: object, states: list, passes: Callable) -> tuple[list, list]:
                number = w.splat(self.narrowed(k, self.numbers.element))
                values = [w.load(x, (k, step), position) for position in positions]
                new_states = []
                for value, (best_so_far, line_number) in zip(values, states):
                    mask = passes(value, best_so_far)
                    new_states.append(
                        [builder.select(mask, value, best_so_far), builder.select(mask, number, line_number)]
                    )
                return new_states, values

            def step_without_nan(k: object, state: list) -> list:
                new_states, values = line(k, state[0], self.passes)
                return [new_states, self.with_nan(state[1], values)]

            initial = [[w.load(best, position), self.whole(-1)] for position in positions]
            states, has_nan = w.loop(0, rows, 1, [initial, self.none], step_without_nan)
            exactly = functools.partial(
                w.loop, 0, rows, 1, initial, lambda k, states: line(k, states, self.replaces)[0]
            )
            for position, (value, line_number) in zip(positions, self.unless_nan(has_nan, lambda: states, exactly)):
                w.store(value, best, position)
                line_numbers = line_number if p.vector == self.numbers else builder.sext(line_number, p.vector)
                p.store(
                    builder.select(
                        builder.icmp_signed("<", line_numbers, p.zeros),
                        p.load(where, position),
                        builder.add(line_numbers, start),
                    ),
                    where,
                    position,
                )
            return []

        w.loop(0, n, self.count * _COLUMNS, [], group)

    def whole(self, number: int) -> object:
        """A vector of one integer, as wide as the elements."""
        return self.w.ir.Constant(self.numbers, [number] * self.count)

    def worst(self) -> object:
        """The neutral value: every element is at least as extreme."""
        if self.is_float:
            return self.w.ir.Constant(self.w.element, float("inf" if self.least else "-inf"))
        bits = 8 * self.w.size
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if self.w.signed else (0, (1 << bits) - 1)
        return self.w.ir.Constant(self.w.element, high if self.least else low)

    def unless_nan(self, has_nan: object, usual: Callable, otherwise: Callable) -> list:
        """The state that `usual()` returns, or `otherwise()` if any lane of the mask `has_nan` is set."""
        if not self.is_float:
            return usual()
        mask = has_nan if has_nan.type == self.bits else self.builder.icmp_signed("<", has_nan, self.none)
        with self.builder.if_else(self.any(mask), likely=False) as (bad, good):
            with bad:
                nan_state, nan_block = otherwise(), self.builder.block
            with good:
                usual_state, usual_block = usual(), self.builder.block
        return self.w.either(usual_state, usual_block, nan_state, nan_block)

    def any(self, mask: object) -> object:
        """Whether any lane of a mask is set."""
        flags = self.w.ir.IntType(self.count)
        return self.builder.icmp_unsigned("!=", self.builder.bitcast(mask, flags), flags(0))

    def narrowed(self, value: object, kind: object) -> object:
        """An int64 as an integer of this type."""
        return self.builder.trunc(value, kind) if kind.width < 64 else value

    def passes(self, value: object, best: object) -> object:
        """A mask of the lanes whose value is more extreme than `best`; false if either is NaN."""
        if self.is_float:
            compare = self.builder.fcmp_ordered
        elif self.w.signed:
            compare = self.builder.icmp_signed
        else:
            compare = self.builder.icmp_unsigned
        return compare("<" if self.least else ">", value, best)

    def replaces(self, value: object, best: object) -> object:
        """A mask of the lanes whose value replaces `best`: NaN replaces any number, but no NaN."""
        passes = self.builder.fcmp_unordered("<" if self.least else ">", value, best)
        return self.builder.and_(passes, self.builder.fcmp_ordered("ord", best, best))

    def passing(self, x: object, y: object) -> object:
        """The more extreme of two values in each lane; y if one is NaN."""
        return self.builder.select(self.passes(x, y), x, y)

    def lower(self, x: object, y: object) -> object:
        """The lesser of two unsigned integers in each lane."""
        return self.builder.select(self.builder.icmp_unsigned("<", x, y), x, y)

    def equal(self, x: object, y: object) -> object:
        """A mask of the lanes that are equal."""
        return self.builder.fcmp_ordered("==", x, y) if self.is_float else self.builder.icmp_signed("==", x, y)

    def with_nan(self, has_nan: object, values: list) -> object:
        """The mask `has_nan`, with the lanes added that are NaN in any of these vectors (an even number)."""
        for pair in zip(values[::2], values[1::2]) if self.is_float else ():
            mask = self.builder.fcmp_unordered("uno", *pair)
            has_nan = self.builder.or_(
                has_nan, mask if has_nan.type == self.bits else self.builder.sext(mask, has_nan.type)
            )
        return has_nan
