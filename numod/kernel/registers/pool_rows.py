"""Pooling along rows of an array in vector registers:

`fold_rows` folds several rows into one, `fold_windows` folds the windows of a row.

Instructions are written for whole registers, with masks at the ends: lines are short, and loops for what is left of
them would cost more than the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .tiles import AHEAD
from .vectors import Writer, primitive

STRIDES = (1, 2, 4)  # of windows that are read as whole registers; others are read element by element
MARGIN = 64  # bytes before a folded line, for windows that begin outside


def neutral(kind: str) -> float:
    """What elements outside a line count as."""
    return 0.0 if kind == "sum" else float("-inf")


def reach(lanes: int, width: int, out: int, stride: int, kernel: int, step: int) -> int:
    """Elements that a folded row of `width` needs:

    `fold_windows` reads whole registers of windows, `fold_rows` writes whole registers.
    """
    windows = -(-out // lanes) * lanes
    return (
        max(-(-width // lanes) * lanes, (windows - 1) * stride + (kernel - 1) * step + 1 + max(STRIDES) * lanes)
        + 2 * lanes
    )


@functools.cache
def functions() -> dict[str, Callable]:
    """For each kind of fold, "sum", "max" (NaN wins) and "argmax" (the greatest and its place; of equals the first, of
    NaNs the last):

    fold_rows_KIND(x, x_at, first, slabs, slab_step, lines, line_step, n, into, into_at, places, places_at):
    into[into_at + w] = the rows at x[x_at + first + d * slab_step + h * line_step] folded over d < slabs and h < lines,
    for w < n. What is left of the last register becomes neutral. Places count from x_at; none is -1.

    fold_windows_KIND_S(x, x_at, places, places_at, step, taps, out, out_at, indices, indices_at, n, sizes, sizes_at,
    factor, stride): out[out_at + o] = x[x_at + o * stride + k * step] folded over k < taps, for o < n. Sums are divided
    by sizes[sizes_at + o] * factor. S is the stride, if it is known at compile time, or "any". Arrays that a kind does
    not need are arguments, too, and are not read.
    """
    found = {}
    for kind in ("sum", "max", "argmax"):
        rows = "x[x_at], first, slabs, slab_step, lines, line_step, n, into[into_at], places[places_at]"
        found[f"fold_rows_{kind}"] = primitive(f"fold_rows_{kind}", rows, functools.partial(_emit_rows, kind))
        for stride in (*STRIDES, "any"):
            windows = (
                "x[x_at], places[places_at], step, taps, out[out_at], indices[indices_at], n, sizes[sizes_at], "
                "real factor, stride"
            )
            name = f"fold_windows_{kind}_{stride}"
            found[name] = primitive(name, windows, functools.partial(_emit_windows, kind, stride))
    return found


def _emit_rows(kind: str, w: Writer, *given: object) -> None:
    _Fold(w, kind).rows(*given)


def _emit_windows(kind: str, stride: int | str, w: Writer, *given: object) -> None:
    _Fold(w, kind).windows(*given[:9], given[9] if stride == "any" else stride)


class _Fold:
    """Writes the instructions of one kind of fold:

    `w` vectors of values, `p` those of places. A state is [values] or, with places, [values, places].
    """

    def __init__(self, w: Writer, kind: str) -> None:
        self.w, self.builder, self.kind, self.p = w, w.builder, kind, Writer(w.builder, w.ir.IntType(32), w.lanes)
        self.numbers = w.ir.Constant(self.p.vector, list(range(w.lanes)))
        self.nothing, self.nowhere = (
            w.ir.Constant(w.vector, [neutral(kind)] * w.lanes),
            w.ir.Constant(self.p.vector, [-1] * w.lanes),
        )
        self.empty = [self.nothing, self.nowhere] if kind == "argmax" else [self.nothing]

    def rows(self, source, first, slabs, slab_step, lines, line_step, n, target, where):
        """See `functions`."""
        builder, w, p = self.builder, self.w, self.p
        some = builder.icmp_signed(">", builder.mul(slabs, lines), w.number(0))

        def line(j: object, here: object, mask: object, d: object, h: object, state: list) -> list:
            at = w.offset(first, (d, slab_step), (h, line_step))
            w.prefetch(source, at, j, AHEAD // w.size)
            value = w.load(source, at, j, mask=mask, other=self.nothing)
            if self.kind != "argmax":
                return [self.joined(state[0], value)]
            better = builder.or_(
                builder.fcmp_ordered(">", value, state[0]), builder.fcmp_unordered("uno", value, value)
            )
            return [
                builder.select(better, value, state[0]),
                builder.select(better, builder.add(self.spread(at), here), state[1]),
            ]

        def register(known: int | None, j: object, _: list) -> list:
            mask, here, state = (
                p.first(self.small(builder.sub(n, j))),
                builder.add(self.spread(j), self.numbers),
                list(self.empty),
            )
            if self.kind == "argmax":  # all may be -inf: then the first line's place stands
                state[1] = builder.select(some, builder.add(self.spread(first), here), state[1])
            if known is None:
                state = w.loop(
                    0,
                    slabs,
                    1,
                    state,
                    lambda d, state: w.loop(0, lines, 1, state, functools.partial(line, j, here, mask, d)),
                )
            for h in range(known or 0):
                state = line(j, here, mask, 0, h, state)
            w.store(state[0], target, j)
            if self.kind == "argmax":
                p.store(builder.select(mask, state[1], self.nowhere), where, j)
            return []

        alone = builder.icmp_signed("==", slabs, w.number(1))
        self.by_count(lines, alone, lambda known: w.loop(0, n, w.lanes, [], functools.partial(register, known)))

    def by_count(self, count: object, simple: object, write: Callable, known: tuple[int, ...] = (2, 3)) -> None:
        """`write` a fold of `count` lines or taps: for the usual counts, where things are `simple`, without a loop over
        them, which takes as long as they do.
        """
        if not known:
            write(None)
            return
        with self.builder.if_else(
            self.builder.and_(simple, self.builder.icmp_signed("==", count, self.w.number(known[0])))
        ) as (then, otherwise):
            with then:
                write(known[0])
            with otherwise:
                self.by_count(count, simple, write, known[1:])

    def windows(self, source, where, step, taps, target, indices, n, sizes, factor, stride):
        """See `functions`. `stride` is a Python number or, where it may be any, a value."""
        builder, w, p = self.builder, self.w, self.p

        def joined(at: object, first: int, state: list) -> list:
            """The state with every stride-th element from `at` on, of registers whose lane `first` is the first of
            them.
            """
            value = self.strided(w, w.at(source, at), stride, first)
            if self.kind != "argmax":
                return [self.joined(state[0], value)]
            place = self.strided(p, w.at(where, at), stride, first)
            better = self.is_better(value, place, *state)
            return [builder.select(better, value, state[0]), builder.select(better, place, state[1])]

        def register(known: int | None, o: object, _: list) -> list:
            state = self.empty
            if known is None:
                state = w.loop(0, taps, 1, state, lambda k, state: joined(w.offset((o, stride), (k, step)), 0, state))
            for k in range(known or 0):  # neighbours come from the same registers
                first = k % stride if isinstance(stride, int) else 0
                state = joined(w.offset((o, stride), k - first), first, state)
            left = self.small(builder.sub(n, o))
            if self.kind == "sum":
                counts = w.load(sizes, o, mask=p.first(left), other=self.nothing)
                state[0] = builder.fdiv(state[0], builder.fmul(counts, w.splat(factor)))
            w.store_first(state[0], left, target, o)
            if self.kind == "argmax":
                p.store_first(state[1], left, indices, o)
            return []

        neighbours = builder.icmp_signed("==", step, w.number(1))
        self.by_count(taps, neighbours, lambda known: w.loop(0, n, w.lanes, [], functools.partial(register, known)))

    def joined(self, held: object, value: object) -> object:
        """Two registers as one."""
        w = self.w
        if self.kind == "sum":
            return w.builder.fadd(held, value)
        greater = w.declared(f"maximum.v{w.lanes}f{8 * w.size}", w.vector, [w.vector] * 2)
        # three instructions, where selects of what is greater or NaN take four
        return w.builder.call(greater, [held, value], fastmath=("nsz",))

    def is_better(self, value: object, place: object, held: object, held_place: object) -> object:
        """Where a value comes before what is held: columns are met in another order than elements, so equals are told
        by their places. No place is the last.
        """
        builder = self.builder
        lower, nan = builder.icmp_unsigned("<", place, held_place), builder.fcmp_unordered("uno", value, value)
        greater = builder.or_(
            builder.fcmp_ordered(">", value, held), builder.and_(builder.fcmp_ordered("==", value, held), lower)
        )
        return builder.or_(
            greater, builder.and_(nan, builder.or_(builder.fcmp_ordered("ord", held, held), builder.not_(lower)))
        )

    def strided(self, w: Writer, pointer: object, stride: object, first: int) -> object:
        """A register of every stride-th element, beginning with the one `first` behind the pointer, which is less than
        a stride away.
        """
        if isinstance(stride, int):
            return w.every_second([w.load(pointer, part * w.lanes) for part in range(stride)], first)
        found = w.ir.Constant(w.vector, w.ir.Undefined)
        for lane in range(w.lanes):
            found = self.builder.insert_element(
                found, w.element_at(pointer, (lane, stride)), w.ir.Constant(w.ir.IntType(32), lane)
            )
        return found

    def small(self, value: object) -> object:
        """An int64 as the 32 bits of a place."""
        return self.builder.trunc(value, self.p.element)

    def spread(self, value: object) -> object:
        """An int64 in all lanes of a register of places."""
        return self.p.splat(self.small(value))
