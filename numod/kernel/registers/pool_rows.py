"""Pooling in vector registers: `fold_rows` reduces several rows to one, `fold_windows` reduces the windows of a row.

All instructions work on whole registers, with masks at the ends: rows are short, and scalar loops for their remainders
would take longer than the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .tiles import PREFETCH_BYTES
from .vectors import Writer, primitive

STRIDES = (1, 2, 4)  # of windows that are read by vector loads; others are read element by element
MARGIN_BYTES = 64  # bytes before a folded row, for windows that begin outside


def neutral(kind: str) -> float:
    """The value of elements outside a row."""
    return 0.0 if kind == "sum" else float("-inf")


def folded_row_size(lanes: int, width: int, out: int, stride: int, kernel: int, step: int) -> int:
    """The number of elements to allocate for a folded row of `width`.

    Windows are read by whole registers, and folded rows are written by whole registers.
    """
    windows = -(-out // lanes) * lanes
    return (
        max(-(-width // lanes) * lanes, (windows - 1) * stride + (kernel - 1) * step + 1 + max(STRIDES) * lanes)
        + 2 * lanes
    )


@functools.cache
def functions() -> dict[str, Callable]:
    """Folds of three kinds: "sum", "max" (NaN wins) and "argmax" (the greatest element and its index: the first of
    equal elements, the last of NaNs).

    fold_rows_KIND(x, x_at, first, slabs, slab_step, lines, line_step, n, into, into_at, places, places_at):
    into[into_at + w] = the fold over d < slabs and h < lines of x[x_at + first + d * slab_step + h * line_step + w],
    for w < n. The rest of the last register becomes neutral. `places` receives indices, counted from x_at, or -1.

    fold_windows_KIND_S(x, x_at, places, places_at, step, taps, out, out_at, indices, indices_at, n, sizes, sizes_at,
    factor, stride): out[out_at + o] = the fold over k < taps of x[x_at + o * stride + k * step], for o < n. Sums are
    divided by sizes[sizes_at + o] * factor. S is the stride, if it is known at compile time, or "any". Arrays that a
    kind does not need are passed but not read.
    """
    primitives = {}
    for kind in ("sum", "max", "argmax"):
        rows = "x[x_at], first, slabs, slab_step, lines, line_step, n, into[into_at], places[places_at]"
        primitives[f"fold_rows_{kind}"] = primitive(f"fold_rows_{kind}", rows, functools.partial(_emit_rows, kind))
        for stride in (*STRIDES, "any"):
            windows = (
                "x[x_at], places[places_at], step, taps, out[out_at], indices[indices_at], n, sizes[sizes_at], "
                "real factor, stride"
            )
            name = f"fold_windows_{kind}_{stride}"
            primitives[name] = primitive(name, windows, functools.partial(_emit_windows, kind, stride))
    return primitives


def _emit_rows(kind: str, w: Writer, *operands: object) -> None:
    _Fold(w, kind).rows(*operands)


def _emit_windows(kind: str, stride: int | str, w: Writer, *operands: object) -> None:
    _Fold(w, kind).windows(*operands[:9], operands[9] if stride == "any" else stride)


class _Fold:
    """Writes the instructions of one kind of fold.

    `w` writes vectors of values, `p` vectors of indices. A state is [values] or, for "argmax", [values, indices].
    """

    def __init__(self, w: Writer, kind: str) -> None:
        self.w, self.builder, self.kind, self.p = w, w.builder, kind, Writer(w.builder, w.ir.IntType(32), w.lanes)
        self.numbers = w.ir.Constant(self.p.vector, list(range(w.lanes)))
        self.neutral_values, self.no_indices = (
            w.ir.Constant(w.vector, [neutral(kind)] * w.lanes),
            w.ir.Constant(self.p.vector, [-1] * w.lanes),
        )
        self.empty = [self.neutral_values, self.no_indices] if kind == "argmax" else [self.neutral_values]

    def rows(self, source, first, slabs, slab_step, lines, line_step, n, target, indices):
        """Write fold_rows (see `functions`)."""
        builder, w, p = self.builder, self.w, self.p
        is_nonempty = builder.icmp_signed(">", builder.mul(slabs, lines), w.number(0))

        def line(j: object, column_indices: object, mask: object, d: object, h: object, state: list) -> list:
            at = w.offset(first, (d, slab_step), (h, line_step))
            w.prefetch(source, at, j, PREFETCH_BYTES // w.size)
            value = w.load(source, at, j, mask=mask, other=self.neutral_values)
            if self.kind != "argmax":
                return [self.folded(state[0], value)]
            better = builder.or_(
                builder.fcmp_ordered(">", value, state[0]), builder.fcmp_unordered("uno", value, value)
            )
            return [
                builder.select(better, value, state[0]),
                builder.select(better, builder.add(self.splat_index(at), column_indices), state[1]),
            ]

        def register(line_count: int | None, j: object, _: list) -> list:
            mask, column_indices, state = (
                p.first(self.as_index(builder.sub(n, j))),
                builder.add(self.splat_index(j), self.numbers),
                list(self.empty),
            )
            if self.kind == "argmax":  # if all elements are -inf, the first line's index is the result
                state[1] = builder.select(is_nonempty, builder.add(self.splat_index(first), column_indices), state[1])
            if line_count is None:
                state = w.loop(
                    0,
                    slabs,
                    1,
                    state,
                    lambda d, state: w.loop(0, lines, 1, state, functools.partial(line, j, column_indices, mask, d)),
                )
            for h in range(line_count or 0):
                state = line(j, column_indices, mask, 0, h, state)
            w.store(state[0], target, j)
            if self.kind == "argmax":
                p.store(builder.select(mask, state[1], self.no_indices), indices, j)
            return []

        single_slab = builder.icmp_signed("==", slabs, w.number(1))
        self.fold_by_count(
            lines, single_slab, lambda line_count: w.loop(0, n, w.lanes, [], functools.partial(register, line_count))
        )

    def fold_by_count(self, count: object, simple: object, write: Callable, known: tuple[int, ...] = (2, 3)) -> None:
        """Write a fold of `count` lines or taps.

        Unrolled by `write(count)` if the count is `known` and `simple` holds, else as a loop by `write(None)`.
        """
        if not known:
            write(None)
            return
        with self.builder.if_else(
            self.builder.and_(simple, self.builder.icmp_signed("==", count, self.w.number(known[0])))
        ) as (unrolled, otherwise):
            with unrolled:
                write(known[0])
            with otherwise:
                self.fold_by_count(count, simple, write, known[1:])

    def windows(self, source, source_indices, step, taps, target, indices, n, sizes, factor, stride):
        """Write fold_windows (see `functions`). `stride` is a Python number or an int64 value."""
        builder, w, p = self.builder, self.w, self.p

        def joined(at: object, first: int, state: list) -> list:
            """The state folded with every stride-th element from at + first on."""
            value = self.strided(w, w.at(source, at), stride, first)
            if self.kind != "argmax":
                return [self.folded(state[0], value)]
            index = self.strided(p, w.at(source_indices, at), stride, first)
            better = self.is_better(value, index, *state)
            return [builder.select(better, value, state[0]), builder.select(better, index, state[1])]

        def register(tap_count: int | None, o: object, _: list) -> list:
            state = self.empty
            if tap_count is None:
                state = w.loop(0, taps, 1, state, lambda k, state: joined(w.offset((o, stride), (k, step)), 0, state))
            for k in range(tap_count or 0):  # neighbouring taps share loads
                first = k % stride if isinstance(stride, int) else 0
                state = joined(w.offset((o, stride), k - first), first, state)
            remaining = self.as_index(builder.sub(n, o))
            if self.kind == "sum":
                counts = w.load(sizes, o, mask=p.first(remaining), other=self.neutral_values)
                state[0] = builder.fdiv(state[0], builder.fmul(counts, w.splat(factor)))
            w.store_first(state[0], remaining, target, o)
            if self.kind == "argmax":
                p.store_first(state[1], remaining, indices, o)
            return []

        neighbours = builder.icmp_signed("==", step, w.number(1))
        self.fold_by_count(
            taps, neighbours, lambda tap_count: w.loop(0, n, w.lanes, [], functools.partial(register, tap_count))
        )

    def folded(self, best: object, value: object) -> object:
        """The sums or maxima of two registers."""
        w = self.w
        if self.kind == "sum":
            return w.builder.fadd(best, value)
        maximum = w.declared(f"maximum.v{w.lanes}f{8 * w.size}", w.vector, [w.vector] * 2)
        # three instructions; comparing and selecting takes four
        return w.builder.call(maximum, [best, value], fastmath=("nsz",))

    def is_better(self, value: object, index: object, best: object, best_index: object) -> object:
        """A mask of the lanes whose value replaces the best one so far.

        Columns are not visited in the order of elements, so the indices of equal values are compared. Index -1 comes
        last.
        """
        builder = self.builder
        lower, nan = builder.icmp_unsigned("<", index, best_index), builder.fcmp_unordered("uno", value, value)
        greater = builder.or_(
            builder.fcmp_ordered(">", value, best), builder.and_(builder.fcmp_ordered("==", value, best), lower)
        )
        return builder.or_(
            greater, builder.and_(nan, builder.or_(builder.fcmp_ordered("ord", best, best), builder.not_(lower)))
        )

    def strided(self, w: Writer, pointer: object, stride: object, first: int) -> object:
        """A register of every stride-th element from pointer + first on, first < stride."""
        if isinstance(stride, int):
            return w.every_second([w.load(pointer, part * w.lanes) for part in range(stride)], first)
        vector = w.ir.Constant(w.vector, w.ir.Undefined)
        for lane in range(w.lanes):
            vector = self.builder.insert_element(
                vector, w.element_at(pointer, (lane, stride)), w.ir.Constant(w.ir.IntType(32), lane)
            )
        return vector

    def as_index(self, value: object) -> object:
        """An int64 truncated to the 32 bits of an index."""
        return self.builder.trunc(value, self.p.element)

    def splat_index(self, value: object) -> object:
        """An int64 in all lanes of a register of indices."""
        return self.p.splat(self.as_index(value))
