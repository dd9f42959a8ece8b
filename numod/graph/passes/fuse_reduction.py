"""Fuses a pointwise loop with a reduction that is the only use of its result, so the elements are never stored.

This applies to contiguous elements whose last dimensions are reduced. Small tensors are not fused, so their results
equal eager's bit for bit.
"""

from __future__ import annotations

from math import prod

from ...device import Layout
from ...kernel import folds
from ...kernel.any_size import for_all_sizes
from ...kernel.expression import Symbol, substitute
from ...ops.reduce import reduction
from ...ops.op import Op, Plan
from ...ops.reduce.reduction import Reduction
from ..ir.alias_analysis import Effects, copied, program_outputs, accessed_values
from .fuse_pointwise import Fused, is_large
from ..ir.program import Check, Program, Step, Value


class FusedReduction(Op):
    """A reduction over a fused loop. `rows`: the loop's pointwise ops (see `Fused`); `row`: the op of the reduction."""

    upcasts_half, differentiable = False, False

    def __init__(self, loop: Fused, row: Reduction, x: Layout, out: Layout, attributes: tuple) -> None:
        super().__init__(f"{loop.name}_{row.name}")
        self.rows, self.inputs, self.row, self.x, self.out = loop.rows, loop.inputs, row, x, out
        fold, (output,) = row.fold(x, attributes[2]), loop.loop.outputs
        symbol = Symbol("x")
        element = (
            substitute(row.map(symbol), {symbol: output.expression})
            if row.map(symbol) is not symbol
            else output.expression
        )
        self.fold = folds.Fold(
            element, fold.combine, fold.finalize, fold.identity, fold.source, fold.dtype, fold.wide, fold.result
        )
        self.loop = loop.loop

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        n, outs, fold = self.x.size, self.out.size, self.fold
        # in a program for all sizes, a dimension of size 1 may be larger at another time
        if outs == 1 and not (self.out.ndim and for_all_sizes.get()):
            return Plan(self.out, *reduction.total(self.name, self.out.device, fold, self.loop.inputs, n))
        return Plan(
            self.out,
            reduction.flat(self.name, self.out.device, fold, self.loop.inputs, n, outs),
            (n, n // outs, outs, n // outs),
        )


def fuse_reductions(program: Program) -> Program:
    """The program with loops fused into the reductions of their results."""
    effects = Effects(program)
    outputs, users = set(program_outputs(program)), {}
    for step in program.steps:
        for value in accessed_values(step):
            users.setdefault(value, []).append(step)
    loop_of = {step.results[0]: step for step in program.steps if isinstance(step, Step) and isinstance(step.op, Fused)}
    fused_loops, fused_reductions = set(), {}
    for step in program.steps:
        loop = (
            loop_of.get(step.inputs[0])
            if isinstance(step, Step) and isinstance(step.op, Reduction) and not step.in_place
            else None
        )
        if (
            loop is not None
            and users[step.inputs[0]] == [step]
            and step.inputs[0] not in outputs
            and _can_fuse(loop, step, program, effects)
        ):
            fused_loops.add(id(loop))
            fused_reductions[id(step)] = _fuse(loop, step, program)
    steps: list[Step | Check] = [
        fused_reductions.get(id(step), step) for step in program.steps if id(step) not in fused_loops
    ]
    return copied(program, steps)


def _can_fuse(loop: Step, step: Step, program: Program, effects: Effects) -> bool:
    """Whether the reduction reads the loop's elements in order, and no step modifies the loop's inputs."""
    x, (dims, _, dtype) = program.layouts[step.inputs[0]], step.attributes
    tensors = [input for input in loop.inputs if issubclass(type(input), Value)]
    reduces_last_dims = tuple(dims) == tuple(range(x.ndim - len(dims), x.ndim))
    dense = x.dense and all(
        program.layouts[tensor].dense and program.layouts[tensor].shape == x.shape for tensor in tensors
    )
    worthwhile = len(loop.results) == 1 and prod(x.shape[d] for d in dims) > 0 and is_large(x)
    return (
        reduces_last_dims
        and dense
        and worthwhile
        and bool(tensors)
        and step.op.fold(x, dtype).dtype is loop.op.loop.dtype
        and all(map(effects.fixed, tensors))
    )


def _fuse(loop: Step, step: Step, program: Program) -> Step:
    x, out = program.layouts[step.inputs[0]], program.layouts[step.results[0]]
    op = FusedReduction(loop.op, step.op, x, out, step.attributes)
    return Step(op, loop.inputs, (), step.results, False, step.location)
