"""Passes over lines of an array in vector registers, for pooling: several lines become one, and a line's windows their sums or greatest elements.

Instructions are written for whole registers, with masks at the ends: lines are short, and loops for what is left of them would cost more than the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .tiles import AHEAD, _broadcast as broadcast, _masked as masked, _prefetch as prefetch, host

STRIDES = (1, 2, 4)  # of windows that are read as whole registers; others are read element by element
MARGIN = 64  # bytes before a folded line, for windows that begin outside


def neutral(kind: str) -> float:
    """What elements outside a line count as."""
    return 0.0 if kind == "sum" else float("-inf")


def reach(lanes: int, width: int, out: int, stride: int, kernel: int, step: int) -> int:
    """Elements that a folded line of `width` needs: across reads whole registers of windows, down writes whole registers."""
    windows = -(-out // lanes) * lanes
    return max(-(-width // lanes) * lanes, (windows - 1) * stride + (kernel - 1) * step + 1 + max(STRIDES) * lanes) + 2 * lanes


@functools.cache
def functions() -> dict[str, Callable]:
    """Of the kinds "sum", "greatest" (NaN first) and "placed" (the greatest and its place; of equals the first, of NaNs the last):

    down_KIND(x, x_at, first, slabs, slab_step, lines, line_step, n, into, into_at, places, places_at): into[into_at + w] = the lines at x[x_at + first + d * slab_step +
    h * line_step] folded over d < slabs and h < lines, for w < n; what is left of the last register becomes neutral. Places count from x_at; none is -1.
    across_KIND_S(x, x_at, places, places_at, step, taps, out, out_at, indices, indices_at, n, sizes, factor): out[out_at + o] = x[x_at + o * stride + k * step] folded over k < taps, for
    o < n. Sums are divided by sizes[o] * factor. S is the stride, or "any", which takes it as another argument behind `factor`.
    Arrays that a kind does not need are given, and not looked at.
    """
    kinds = ("sum", "greatest", "placed")
    found = {f"down_{kind}": _down(kind) for kind in kinds}
    return {**found, **{f"across_{kind}_{stride}": _across(kind, stride) for kind in kinds for stride in (*STRIDES, "any")}}


def _down(kind: str) -> Callable:
    from numba import types
    from numba.extending import intrinsic

    at = types.int64

    @intrinsic
    def down(context, x, x_at, first, slabs, slab_step, lines, line_step, n, into, into_at, places, places_at):  # noqa: ANN001, ANN202
        def generate(context, builder, signature, values):  # noqa: ANN001, ANN202
            source, target, where = _pointers(context, builder, signature, values, (0, 8, 10))
            _Fold(builder, context.get_value_type(x.dtype), kind).down(source, *values[2:8], target, where)
            return context.get_dummy_value()

        return types.void(x, *[at] * 7, into, at, places, at), generate

    return down


def _across(kind: str, stride: int | str) -> Callable:
    from numba import types
    from numba.extending import intrinsic

    at = types.int64

    def generate(context, builder, signature, values):  # noqa: ANN001, ANN202
        source, where, target, indices = _pointers(context, builder, signature, values, (0, 2, 6, 8))
        (sizes,) = _pointers(context, builder, signature, values, (11,), apart=False)
        fold = _Fold(builder, context.get_value_type(signature.args[0].dtype), kind)
        fold.across(source, where, *values[4:6], target, indices, values[10], sizes, values[12], stride if len(values) == 13 else values[13])
        return context.get_dummy_value()

    if stride == "any":

        @intrinsic
        def across(context, x, x_at, places, places_at, step, taps, out, out_at, indices, indices_at, n, sizes, factor, stride):  # noqa: ANN001, ANN202
            return types.void(x, at, places, at, at, at, out, at, indices, at, at, sizes, x.dtype, at), generate
    else:

        @intrinsic
        def across(context, x, x_at, places, places_at, step, taps, out, out_at, indices, indices_at, n, sizes, factor):  # noqa: ANN001, ANN202
            return types.void(x, at, places, at, at, at, out, at, indices, at, at, sizes, x.dtype), generate

    return across


def _pointers(context: object, builder: object, signature: object, values: list, positions: tuple, apart: bool = True) -> list:
    """Where the arrays begin, or where the numbers behind them say."""
    found = [context.make_array(signature.args[k])(context, builder, values[k]).data for k in positions]
    return [builder.gep(each, [values[k + 1]]) for each, k in zip(found, positions)] if apart else found


class _Fold:
    """Writes the instructions for one type of numbers and one kind of fold. A state is [values] or, with places, [values, places]."""

    def __init__(self, builder: object, real: object, kind: str) -> None:
        from llvmlite import ir

        self.builder, self.kind, self.size = builder, kind, 4 if isinstance(real, ir.FloatType) else 8
        self.lanes = host().lanes(self.size)
        self.integer, self.vector = ir.IntType(64), ir.VectorType(real, self.lanes)
        self.indices, self.byte = ir.VectorType(ir.IntType(32), self.lanes), ir.IntType(8).as_pointer()
        self.numbers = ir.Constant(self.indices, list(range(self.lanes)))
        self.nothing = ir.Constant(self.vector, [neutral(kind)] * self.lanes)
        self.empty = [self.nothing, ir.Constant(self.indices, [-1] * self.lanes)] if kind == "placed" else [self.nothing]

    def number(self, value: int) -> object:
        """A constant integer."""
        from llvmlite import ir

        return ir.Constant(self.integer, value)

    def loop(self, stop: object, step: int, state: list, body: Callable) -> list:
        """`state` after the turns k = 0, step, ... below stop: state = body(k, state)."""
        builder = self.builder
        before, turn, after = builder.block, builder.append_basic_block("turn"), builder.append_basic_block("turned")
        builder.cbranch(builder.icmp_signed(">", stop, self.number(0)), turn, after)
        builder.position_at_end(turn)
        k, held = builder.phi(self.integer), [builder.phi(each.type) for each in state]
        new = body(k, held)
        following, last = builder.add(k, self.number(step)), builder.block
        builder.cbranch(builder.icmp_signed("<", following, stop), turn, after)
        builder.position_at_end(after)
        k.add_incoming(self.number(0), before)
        k.add_incoming(following, last)
        found = []
        for phi, first, value in zip(held, state, new):
            phi.add_incoming(first, before)
            phi.add_incoming(value, last)
            result = builder.phi(phi.type)
            result.add_incoming(first, before)
            result.add_incoming(value, last)
            found.append(result)
        return found

    def down(self, source, first, slabs, slab_step, lines, line_step, n, target, where):  # noqa: ANN001, ANN201
        """See `functions`."""
        builder = self.builder
        some = builder.icmp_signed(">", builder.mul(slabs, lines), self.number(0))

        def line(j: object, here: object, mask: object, d: object, h: object, state: list) -> list:
            at = builder.add(first, builder.add(builder.mul(d, slab_step), builder.mul(h, line_step)))
            place = builder.gep(source, [builder.add(at, j)])
            prefetch(builder, builder.bitcast(builder.gep(place, [self.number(AHEAD // self.size)]), self.byte), False)
            value = self.load_masked(place, mask)
            if self.kind != "placed":
                return [self.joined(state[0], value)]
            better = builder.or_(builder.fcmp_ordered(">", value, state[0]), builder.fcmp_unordered("uno", value, value))
            return [builder.select(better, value, state[0]), builder.select(better, builder.add(self.small(at), here), state[1])]

        def register(known: int | None, j: object, _: list) -> list:
            mask = self.below(builder.sub(n, j))
            here = builder.add(self.small(j), self.numbers)
            state = list(self.empty)
            if self.kind == "placed":  # all may be -inf: then the first line's place stands
                state[1] = builder.select(some, builder.add(self.small(first), here), state[1])
            if known is None:
                state = self.loop(slabs, 1, state, lambda d, state: self.loop(lines, 1, state, functools.partial(line, j, here, mask, d)))
            for h in range(known or 0):
                state = line(j, here, mask, self.number(0), self.number(h), state)
            self.store(state[0], builder.gep(target, [j]))
            if self.kind == "placed":
                self.store(builder.select(mask, state[1], self.empty[1]), builder.gep(where, [j]))
            return []

        alone = builder.icmp_signed("==", slabs, self.number(1))
        self.by_count(lines, alone, lambda known: self.loop(n, self.lanes, [], functools.partial(register, known)))

    def by_count(self, count: object, simple: object, write: Callable, known: tuple[int, ...] = (2, 3)) -> None:
        """`write` what does `count` turns: for the usual numbers of them, where things are `simple`, without a loop around them, which takes as long as they do."""
        if not known:
            write(None)
            return
        with self.builder.if_else(self.builder.and_(simple, self.builder.icmp_signed("==", count, self.number(known[0])))) as (then, otherwise):
            with then:
                write(known[0])
            with otherwise:
                self.by_count(count, simple, write, known[1:])

    def across(self, source, where, step, taps, target, indices, n, sizes, factor, stride):  # noqa: ANN001, ANN201
        """See `functions`. `stride` is a Python number or, where it may be any, a value."""
        builder = self.builder
        across = self.number(stride) if isinstance(stride, int) else stride

        def register(o: object, _: list) -> list:
            def tap(k: object, state: list) -> list:
                at = builder.add(builder.mul(o, across), builder.mul(k, step))
                value = self.spread(builder.gep(source, [at]), self.vector, stride)
                if self.kind != "placed":
                    return [self.joined(state[0], value)]
                place = self.spread(builder.gep(where, [at]), self.indices, stride)
                better = self.first_greatest(value, place, *state)
                return [builder.select(better, value, state[0]), builder.select(better, place, state[1])]

            state = self.loop(taps, 1, self.empty, tap)
            mask = self.below(builder.sub(n, o))
            if self.kind == "sum":
                shares = self.load_masked(builder.gep(sizes, [o]), mask)
                state[0] = builder.fdiv(state[0], builder.fmul(shares, broadcast(builder, factor, self.lanes)))
            self.store_masked(state[0], builder.gep(target, [o]), mask)
            if self.kind == "placed":
                self.store_masked(state[1], builder.gep(indices, [o]), mask)
            return []

        self.loop(n, self.lanes, [], register)

    def joined(self, held: object, value: object) -> object:
        """Two registers as one."""
        builder = self.builder
        if self.kind == "sum":
            return builder.fadd(held, value)
        return builder.select(builder.fcmp_unordered("uno", held, held), held, builder.select(builder.fcmp_ordered(">", held, value), held, value))

    def first_greatest(self, value: object, place: object, held: object, held_place: object) -> object:
        """Where a value comes before what is held: columns are met in another order than elements, so equals are told by their places. No place is the last."""
        builder = self.builder
        lower, nan = builder.icmp_unsigned("<", place, held_place), builder.fcmp_unordered("uno", value, value)
        greater = builder.or_(builder.fcmp_ordered(">", value, held), builder.and_(builder.fcmp_ordered("==", value, held), lower))
        return builder.or_(greater, builder.and_(nan, builder.or_(builder.fcmp_ordered("ord", held, held), builder.not_(lower))))

    def spread(self, pointer: object, vector: object, stride: object) -> object:
        """A register of every stride-th element."""
        from llvmlite import ir

        builder, small = self.builder, ir.IntType(32)
        if not isinstance(stride, int):
            found = ir.Constant(vector, ir.Undefined)
            for lane in range(self.lanes):
                each = builder.load(builder.gep(pointer, [builder.mul(stride, self.number(lane))]))
                found = builder.insert_element(found, each, ir.Constant(small, lane))
            return found
        parts = [self.load(builder.gep(pointer, [self.number(part * self.lanes)]), vector) for part in range(stride)]
        order = ir.Constant(self.indices, list(range(0, 2 * self.lanes, 2)))
        while len(parts) > 1:  # every second element of two, until one is left
            parts = [builder.shuffle_vector(low, high, order) for low, high in zip(parts[::2], parts[1::2])]
        return parts[0]

    def small(self, value: object) -> object:
        """An integer in all lanes of a register of places."""
        from llvmlite import ir

        return broadcast(self.builder, self.builder.trunc(value, ir.IntType(32)), self.lanes)

    def below(self, count: object) -> object:
        """A mask of the first `count` lanes."""
        return self.builder.icmp_signed("<", self.numbers, self.small(count))

    def load(self, place: object, vector: object) -> object:
        """A whole register of elements that lie anywhere."""
        return self.builder.load(self.builder.bitcast(place, vector.as_pointer()), align=4)

    def store(self, value: object, place: object) -> None:
        """A whole register to anywhere."""
        self.builder.store(value, self.builder.bitcast(place, value.type.as_pointer()), align=4)

    def load_masked(self, place: object, mask: object) -> object:
        """The elements that the mask names, neutral ones for the rest."""
        from llvmlite import ir

        function = masked(self.builder.module, "load", self.vector)
        return self.builder.call(function, [self.builder.bitcast(place, self.vector.as_pointer()), ir.Constant(ir.IntType(32), self.size), mask, self.nothing])

    def store_masked(self, value: object, place: object, mask: object) -> None:
        """Write the lanes that the mask names; those of integers as floats of their bits."""
        from llvmlite import ir

        vector, size = (self.vector, self.size) if value.type == self.vector else (ir.VectorType(ir.FloatType(), self.lanes), 4)
        place = self.builder.bitcast(place, vector.as_pointer())
        self.builder.call(masked(self.builder.module, "store", vector), [self.builder.bitcast(value, vector), place, ir.Constant(ir.IntType(32), size), mask])
