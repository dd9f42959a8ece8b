"""Fuses pointwise loops with a reduction that is the only use of their result, so that the elements are never stored.

Applies to contiguous elements whose last dimensions are reduced. Small ones are left alone, so that their results equal
eager's bit for bit.
"""

from __future__ import annotations

from math import prod

from ...device import Layout
from ...kernel import folds
from ...kernel.expression import Symbol, substitute
from ...ops.reduce import reduction
from ...ops.op import Op, Plan
from ...ops.reduce.reduction import Reduction
from ..ir.alias_analysis import Effects, copied, leaving, used
from .fuse_pointwise import LARGE, Fused
from ..ir.program import Check, Program, Step, Value


class FusedReduction(Op):
    """A reduction over a fused loop. `rows` are the loop's, `row` the reduction's."""

    upcasts_half, differentiable = False, False

    def __init__(self, loop: Fused, row: Reduction, x: Layout, out: Layout, parameters: tuple) -> None:
        super().__init__(f"{loop.name}_{row.name}")
        self.rows, self.inputs, self.row, self.x, self.out = loop.rows, loop.inputs, row, x, out
        fold, (output,) = row.fold(x, parameters[2]), loop.loop.outputs
        symbol = Symbol("x")
        each = (
            substitute(row.each(symbol), {symbol: output.expression})
            if row.each(symbol) is not symbol
            else output.expression
        )
        self.fold = folds.Fold(
            each, fold.combine, fold.finish, fold.identity, fold.source, fold.dtype, fold.wide, fold.result
        )
        self.loop = loop.loop

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        n, outs, fold = self.x.size, self.out.size, self.fold
        if outs == 1:
            return Plan(self.out, *reduction.total(self.name, self.out.device, fold, self.loop.inputs, n))
        return Plan(
            self.out,
            reduction.flat(self.name, self.out.device, fold, self.loop.inputs, n, outs),
            (n, n // outs, outs, n // outs),
        )


def close(program: Program) -> Program:
    """The program with loops fused into the reductions of their results."""
    effects = Effects(program)
    outside, users = set(leaving(program)), {}
    for step in program.steps:
        for each in used(step):
            users.setdefault(each, []).append(step)
    makers = {step.results[0]: step for step in program.steps if isinstance(step, Step) and isinstance(step.op, Fused)}
    gone, joined = set(), {}
    for step in program.steps:
        maker = (
            makers.get(step.inputs[0])
            if isinstance(step, Step) and isinstance(step.op, Reduction) and not step.in_place
            else None
        )
        if (
            maker is not None
            and users[step.inputs[0]] == [step]
            and step.inputs[0] not in outside
            and _fits(maker, step, program, effects)
        ):
            gone.add(id(maker))
            joined[id(step)] = _joined(maker, step, program)
    steps: list[Step | Check] = [joined.get(id(step), step) for step in program.steps if id(step) not in gone]
    return copied(program, steps)


def _fits(maker: Step, step: Step, program: Program, effects: Effects) -> bool:
    """Whether the reduction reads the loop's elements in order, and nothing modifies its inputs between loop and
    reduction.
    """
    x, (dims, _, wanted) = program.layouts[step.inputs[0]], step.parameters
    tensors = [input for input in maker.inputs if issubclass(type(input), Value)]
    last = tuple(dims) == tuple(range(x.ndim - len(dims), x.ndim))
    dense = x.dense and all(
        program.layouts[tensor].dense and program.layouts[tensor].shape == x.shape for tensor in tensors
    )
    whole = len(maker.results) == 1 and prod(x.shape[d] for d in dims) > 0 and x.size >= LARGE
    return (
        last
        and dense
        and whole
        and bool(tensors)
        and step.op.fold(x, wanted).dtype is maker.op.loop.dtype
        and all(map(effects.fixed, tensors))
    )


def _joined(maker: Step, step: Step, program: Program) -> Step:
    x, out = program.layouts[step.inputs[0]], program.layouts[step.results[0]]
    op = FusedReduction(maker.op, step.op, x, out, step.parameters)
    return Step(op, maker.inputs, (), step.results, False, step.where)
