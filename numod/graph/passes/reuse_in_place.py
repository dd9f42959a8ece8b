"""Lets pointwise loops write their result over an input that is no longer needed: fewer bytes in the arena, and in the
cache.
"""

from __future__ import annotations

from typing import Any

from ...ops.pointwise import Pointwise
from ..ir.alias_analysis import Boundary, Effects, copied, pure, renamed, used
from .fuse_pointwise import LARGE, Fused
from ..ir.program import Check, Program, Step, Value


def overwrite(program: Program) -> Program:
    """The program with loops in place where possible."""
    return _Overwriting(program).result()


class _Overwriting:
    def __init__(self, program: Program) -> None:
        self.program, self.effects = program, Effects(program)
        self.merged: dict[Value, Value] = {}  # roots whose memory is now another root's
        self.names: dict[Value, Value] = {}
        # memory of the current pass: a backward pass may run twice, so it must not overwrite the forward pass's values
        self.made: set[Value] = set()
        self.last: dict[Any, int] = {}  # the last step that uses a root
        for position, step in enumerate(program.steps):
            self.last.update((self.effects.root[each], position) for each in used(step))

    def result(self) -> Program:
        """Go through the steps in order."""
        steps = [self._step(renamed(step, self.names), position) for position, step in enumerate(self.program.steps)]
        return copied(self.program, steps, self.names)

    def _step(self, step: Step | Check, position: int) -> Step | Check:
        if isinstance(step, Boundary):
            self.made.clear()
        target = self._target(step, position) if pure(step) else None
        if target is None:
            self.made.update(each for each in getattr(step, "results", ()) if self.effects.root[each] is each)
            return step
        (result,) = step.results
        self.names[result], self.merged[result] = target, self._root(target)
        self.last[self._root(target)] = self.last.get(result, position)
        return Step(step.op, step.inputs, step.parameters, (target,), True, step.where)

    def _target(self, step: Step, position: int) -> Value | None:
        """An input that a loop can write its result over: it has the result's layout, and nothing else uses its memory
        any more.
        """
        if (
            not isinstance(step.op, (Fused, Pointwise))
            or len(step.results) != 1
            or step.results[0] in self.effects.leaving
        ):
            return None
        layout = self.program.layouts[step.results[0]]
        tensors = dict.fromkeys(input for input in step.inputs if issubclass(type(input), Value))
        # in large programs a single row uses the eager op's kernel, which is compiled already
        if isinstance(step.op, Pointwise) and layout.size >= LARGE:
            return None
        roots = [self._root(tensor) for tensor in tensors]
        fitting = (
            tensor
            for tensor in tensors
            if self.program.layouts[tensor] is layout and layout.dense and self._root(tensor) in self.made
        )
        return next(
            (
                each
                for each in fitting
                if self.effects.private(each)
                and self.last[self._root(each)] == position
                and roots.count(self._root(each)) == 1
            ),
            None,
        )

    def _root(self, value: Value) -> Any:
        root = self.effects.root[value]
        while root in self.merged:
            root = self.merged[root]
        return root
