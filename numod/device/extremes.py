"""Places of extremes in vector registers: lanes of best values beside lanes of where they were. Not which elements are asked for, which is `ops.extremum`.

NaN is the extreme of any that holds one, and of equal elements the first counts. Elements are floats or integers of any width.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from . import tiles

_COLUMNS = 2  # vectors beside each other
_STREAMS = 4  # vectors of a row at a time: more would hide more latency, but what joins them costs as much as the rest of a row of 1000


def lanes(itemsize: int) -> int:
    """Elements that are compared at once: as many as there are places of 32 or 64 bits in a register."""
    return tiles.host().lanes(max(itemsize, 4))


def least_columns(itemsize: int) -> int:
    """How many neighbouring columns `greatest_in_columns` needs at least."""
    return _COLUMNS * lanes(itemsize)


@functools.cache
def functions() -> dict[str, Callable]:
    """greatest_in_row(x, at, n): which of x[at : at + n] is the greatest; n is at least `lanes`.

    greatest_in_columns(x, at, step, rows, first, best, where, own, n): each of n columns of `rows` lines, `step` apart from x[at] on, against best[own] and
    where[own] and so on: these become the greatest and its line, counted from `first`. n is at least `least_columns`. And least_in_row, least_in_columns.
    """
    return {f"{name}_in_{kind}": make(least) for name, least in (("greatest", False), ("least", True)) for kind, make in (("row", _row), ("columns", _columns))}


def _row(least: bool) -> Callable:
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def in_row(context, x, at, n):  # noqa: ANN001, ANN202
        def generate(context, builder, signature, values):  # noqa: ANN001, ANN202
            from llvmlite import ir

            integer, source = ir.IntType(64), _place(context, builder, signature, values, 0, 1)
            return _call(builder, f"row_{least}", x.dtype, integer, [source, values[2]], lambda inside, row: inside.ret(row.search(*inside.function.args)), least)

        return types.int64(x, types.int64, types.int64), generate

    return in_row


def _columns(least: bool) -> Callable:
    from numba import types
    from numba.extending import intrinsic

    at = types.int64

    @intrinsic
    def in_columns(context, x, x_at, step, rows, first, best, where, own, n):  # noqa: ANN001, ANN202
        def generate(context, builder, signature, values):  # noqa: ANN001, ANN202
            from llvmlite import ir

            places = [_place(context, builder, signature, values, array, place) for array, place in ((0, 1), (5, 7), (6, 7))]
            given = [places[0], *values[2:5], *places[1:], values[8]]
            _call(builder, f"columns_{least}", x.dtype, ir.VoidType(), given, lambda inside, all_: (all_.update(*inside.function.args), inside.ret_void()), least)
            return context.get_dummy_value()

        return types.void(x, at, at, at, at, best, where, at, at), generate

    return in_columns


def _place(context: object, builder: object, signature: object, values: list, array: int, at: int) -> object:
    """The address of an element of an argument that is an array."""
    return builder.gep(context.make_array(signature.args[array])(context, builder, values[array]).data, [values[at]])


def _call(builder: object, name: str, number: object, result: object, arguments: list, write: Callable, least: bool) -> object:
    """Call a function of its own, of which a program holds one."""
    from llvmlite import ir

    module, name = builder.module, f"numod_{name}_{number}"
    function = module.globals.get(name) or ir.Function(module, ir.FunctionType(result, [each.type for each in arguments]), name)
    if function.is_declaration:
        function.linkage = "linkonce_odr"
        function.attributes.add("noinline")
        inside = ir.IRBuilder(function.append_basic_block())
        write(inside, _Lanes(inside, number, arguments[0].type.pointee, least))
    return builder.call(function, arguments)


class _Lanes:
    """Writes the instructions for elements of the Numba type `number`, held as the LLVM type `element`."""

    def __init__(self, builder: object, number: object, element: object, least: bool) -> None:
        from llvmlite import ir
        from numba import types

        self.builder, self.least, self.is_float, self.signed = builder, least, isinstance(number, types.Float), getattr(number, "signed", True)
        self.size = number.bitwidth // 8
        self.count = lanes(self.size)
        self.integer, self.index = ir.IntType(64), ir.IntType(max(number.bitwidth, 32))
        self.values, self.places = ir.VectorType(element, self.count), ir.VectorType(self.index, self.count)

    def constant(self, value: int) -> object:
        """An int64."""
        from llvmlite import ir

        return ir.Constant(self.integer, value)

    def load(self, pointer: object, at: object) -> object:
        """A vector of elements."""
        return self.builder.load(self.builder.bitcast(self.builder.gep(pointer, [at]), self.values.as_pointer()), align=self.size)

    def spread(self, value: object) -> object:
        """An int64 as a vector of places."""
        narrow = self.builder.trunc(value, self.index) if self.index.width < 64 else value
        return tiles._broadcast(self.builder, narrow, self.count)

    def numbered(self, first: object) -> object:
        """The places first, first + 1, ..."""
        from llvmlite import ir

        return self.builder.add(self.spread(first), ir.Constant(self.places, list(range(self.count))))

    def passes(self, value: object, best: object) -> object:
        """Where a vector passes another; NaN neither passes nor is passed."""
        compare = self.builder.fcmp_ordered if self.is_float else self.builder.icmp_signed if self.signed else self.builder.icmp_unsigned
        return compare("<" if self.least else ">", value, best)

    def keep(self, mask: object, value: object, place: object, best: object, where: object) -> list:
        """best and where, with what is in the mask."""
        return [self.builder.select(mask, value, best), self.builder.select(mask, place, where)]

    def loop(self, start: object, stop: object, step: int, states: list, body: Callable) -> list:
        """The states after body(k, states) for k from start in steps while k < stop."""
        builder = self.builder
        before, loop, after = builder.block, builder.append_basic_block("loop"), builder.append_basic_block("after")
        builder.cbranch(builder.icmp_signed("<", start, stop), loop, after)
        builder.position_at_end(loop)
        k, held = builder.phi(self.integer), [builder.phi(each.type) for each in states]
        new = body(k, held)
        following, end = builder.add(k, self.constant(step)), builder.block
        for phi, first, last in zip((k, *held), (start, *states), (following, *new)):
            phi.add_incoming(first, before)
            phi.add_incoming(last, end)
        builder.cbranch(builder.icmp_signed("<", following, stop), loop, after)
        builder.position_at_end(after)
        found = [builder.phi(each.type) for each in states]
        for phi, first, last in zip(found, states, new):
            phi.add_incoming(first, before)
            phi.add_incoming(last, end)
        return found

    def search(self, x: object, n: object) -> object:
        """The first place of the extreme of x (n): some vectors at a time, then the last elements, some of them again."""
        from llvmlite import ir

        builder, streams = self.builder, _STREAMS
        width = self.count * streams
        whole, last = builder.and_(n, self.constant(-width)), builder.sub(n, self.constant(self.count))
        shifts = [self.constant(stream * self.count) for stream in range(streams)]

        def turn(k: object, states: list) -> list:
            block, new = self.spread(k), []
            values = [self.load(x, builder.add(k, shift)) for shift in shifts]
            for stream, value in enumerate(values):
                new += self.keep(self.passes(value, states[2 * stream]), value, block, *states[2 * stream : 2 * stream + 2])
            return [*new, functools.reduce(builder.or_, self.missing(values), states[-1])]

        nowhere = ir.Constant(self.places, [-width] * self.count)  # greater than any place, as an unsigned number
        start = [self.load(x, self.constant(0)), nowhere] * streams
        start[1] = ir.Constant(self.places, None)
        *states, missing = self.loop(self.constant(0), whole, width, [*start, ir.Constant(ir.VectorType(ir.IntType(1), self.count), None)], turn)
        ends = [self.lesser(builder.add(whole, shift), last) for shift in shifts]
        values = [*states[::2], *[self.load(x, end) for end in ends]]
        places = [builder.add(block, self.numbered(shift)) for block, shift in zip(states[1::2], shifts)] + [self.numbered(end) for end in ends]
        extreme = tiles._broadcast(builder, self.across(self.passing, _tree(self.passing, values)), self.count)
        found = self.first([self.equal(value, extreme) for value in values], places)
        return self.unless_missing(found, functools.reduce(builder.or_, self.missing(values), missing), x, last) if self.is_float else found

    def unless_missing(self, found: object, missing: object, x: object, last: object) -> object:
        """The place `found`, or that of the first NaN where any lane is missing one."""
        from llvmlite import ir

        builder, flags = self.builder, ir.IntType(self.count)
        search, done, before = builder.append_basic_block("search"), builder.append_basic_block("done"), builder.block
        builder.cbranch(builder.icmp_unsigned("!=", builder.bitcast(missing, flags), ir.Constant(flags, 0)), search, done)
        builder.position_at_end(search)
        far = ir.Constant(self.places, [-1] * self.count)

        def look(k: object, states: list) -> list:
            k = self.lesser(k, last)
            value = self.load(x, k)
            return [self.lower(states[0], builder.select(builder.fcmp_unordered("uno", value, value), self.numbered(k), far))]

        place, = self.loop(self.constant(0), builder.add(last, self.constant(self.count)), self.count, [far], look)
        place, after = self.as_integer(self.across(self.lower, place)), builder.block
        builder.branch(done)
        builder.position_at_end(done)
        result = builder.phi(self.integer)
        result.add_incoming(found, before)
        result.add_incoming(place, after)
        return result

    def first(self, masks: list, places: list) -> object:
        """The lowest place whose lane is in its mask, as int64."""
        from llvmlite import ir

        far = ir.Constant(self.places, [-1] * self.count)
        chosen = [self.builder.select(mask, place, far) for mask, place in zip(masks, places)]
        return self.as_integer(self.across(self.lower, _tree(self.lower, chosen)))

    def as_integer(self, place: object) -> object:
        """A place as int64."""
        return self.builder.zext(place, self.integer) if self.index.width < 64 else place

    def lesser(self, x: object, y: object) -> object:
        """The lesser of two numbers."""
        return self.builder.select(self.builder.icmp_signed("<", x, y), x, y)

    def missing(self, values: list) -> list:
        """Where there are NaN, two vectors at a time."""
        return [self.builder.fcmp_unordered("uno", *pair) for pair in zip(values[::2], values[1::2])] if self.is_float else []

    def equal(self, x: object, y: object) -> object:
        """Where two are equal."""
        return self.builder.fcmp_ordered("==", x, y) if self.is_float else self.builder.icmp_signed("==", x, y)

    def passing(self, x: object, y: object) -> object:
        """The more extreme of two in each lane, whatever NaN does."""
        return self.builder.select(self.passes(x, y), x, y)

    def lower(self, x: object, y: object) -> object:
        """The lower of two places in each lane."""
        return self.builder.select(self.builder.icmp_unsigned("<", x, y), x, y)

    def across(self, join: Callable, vector: object) -> object:
        """One element of a vector's, by halves."""
        from llvmlite import ir

        number, width = ir.IntType(32), self.count
        while width > 1:
            width //= 2
            order = ir.Constant(ir.VectorType(number, self.count), [(lane + width) % self.count for lane in range(self.count)])
            vector = join(vector, self.builder.shuffle_vector(vector, vector, order))
        return self.builder.extract_element(vector, ir.Constant(number, 0))

    def update(self, x: object, step: object, rows: object, first: object, best: object, where: object, n: object) -> None:
        """best, where (n) with `rows` lines of x; the last columns are done again rather than fewer."""
        builder, width = self.builder, self.count * _COLUMNS
        shifts = [self.constant(column * self.count) for column in range(_COLUMNS)]
        last = builder.sub(n, self.constant(width))

        def columns(c: object, _: list) -> list:
            spots = [builder.add(self.lesser(c, last), shift) for shift in shifts]
            held = [builder.bitcast(builder.gep(best, [spot]), self.values.as_pointer()) for spot in spots]
            kept = [builder.bitcast(builder.gep(where, [spot]), self.places.as_pointer()) for spot in spots]

            def line(k: object, states: list) -> list:
                place, row, new = self.spread(builder.add(first, k)), builder.mul(k, step), []
                for column, spot in enumerate(spots):
                    new += self.replace(self.load(x, builder.add(row, spot)), place, *states[3 * column : 3 * column + 3])
                return new

            start = []
            for best_at, where_at in zip(held, kept):
                value = builder.load(best_at, align=self.size)
                start += [value, builder.load(where_at, align=self.index.width // 8), self.present(value)]
            states = self.loop(self.constant(0), rows, 1, start, line)
            for column in range(_COLUMNS):
                builder.store(states[3 * column], held[column], align=self.size)
                builder.store(states[3 * column + 1], kept[column], align=self.index.width // 8)
            return []

        self.loop(self.constant(0), n, width, [], columns)

    def present(self, value: object) -> object:
        """Where there is no NaN."""
        return self.builder.fcmp_ordered("ord", value, value) if self.is_float else self.builder.icmp_signed("==", value, value)

    def replace(self, value: object, place: object, best: object, where: object, open: object) -> list:  # noqa: A002
        """best, where and where both are still `open` to change, with what passes them: NaN passes all and ends it."""
        builder, sign = self.builder, "<" if self.least else ">"
        if not self.is_float:
            return [*self.keep(self.passes(value, best), value, place, best, where), open]
        mask = builder.and_(builder.fcmp_unordered(sign, value, best), open)
        return [*self.keep(mask, value, place, best, where), builder.and_(open, self.present(value))]


def _tree(join: Callable, values: list) -> object:
    """Values joined in pairs, pairs of pairs and so on."""
    while len(values) > 1:
        values = [join(*values[k : k + 2]) if k + 1 < len(values) else values[k] for k in range(0, len(values), 2)]
    return values[0]
