"""Lets pointwise loops write their result over an input that is no longer needed, which saves memory and cache."""

from __future__ import annotations

from typing import Any

from ...ops.pointwise import Pointwise
from ..ir.alias_analysis import Boundary, Effects, copied, is_pure, renamed, accessed_values
from .fuse_pointwise import Fused, is_large
from ..ir.program import Check, Program, Step, Value


def reuse_in_place(program: Program) -> Program:
    """The program with loops in place where possible."""
    return _ReuseInPlace(program).result()


class _ReuseInPlace:
    """One pass over a program, which lets loops overwrite inputs that no later step reads."""

    def __init__(self, program: Program) -> None:
        self.program, self.effects = program, Effects(program)
        self.merged: dict[Value, Value] = {}  # roots whose memory is now another root's
        self.names: dict[Value, Value] = {}
        # memory of the current forward or backward pass. A backward pass may run twice, so it must not overwrite values
        # of the forward pass.
        self.allocated: set[Value] = set()
        self.last_use: dict[Any, int] = {}  # the last step that uses a root
        for position, step in enumerate(program.steps):
            self.last_use.update((self.effects.root[value], position) for value in accessed_values(step))

    def result(self) -> Program:
        """Transform the steps in order."""
        steps = [self._step(renamed(step, self.names), position) for position, step in enumerate(self.program.steps)]
        return copied(self.program, steps, self.names)

    def _step(self, step: Step | Check, position: int) -> Step | Check:
        """The step, writing over one of its inputs if that is possible."""
        if isinstance(step, Boundary):
            self.allocated.clear()
        target = self._target(step, position) if is_pure(step) else None
        if target is None:
            results = getattr(step, "results", ())
            self.allocated.update(result for result in results if self.effects.root[result] is result)
            return step
        (result,) = step.results
        self.names[result], self.merged[result] = target, self._root(target)
        self.last_use[self._root(target)] = self.last_use.get(result, position)
        return Step(step.op, step.inputs, step.attributes, (target,), True, step.location)

    def _target(self, step: Step, position: int) -> Value | None:
        """An input that a loop can overwrite: it has the result's layout, and its memory has no later use."""
        if (
            not isinstance(step.op, (Fused, Pointwise))
            or len(step.results) != 1
            or step.results[0] in self.effects.output_roots
        ):
            return None
        layout = self.program.layouts[step.results[0]]
        tensors = dict.fromkeys(input for input in step.inputs if issubclass(type(input), Value))
        # a single row over large tensors runs the eager op's kernel, which is already compiled
        if isinstance(step.op, Pointwise) and is_large(layout):
            return None
        roots = [self._root(tensor) for tensor in tensors]
        candidates = (
            tensor
            for tensor in tensors
            if self.program.layouts[tensor] is layout and layout.dense and self._root(tensor) in self.allocated
        )
        return next(
            (
                candidate
                for candidate in candidates
                if self.effects.private(candidate)
                and self.last_use[self._root(candidate)] == position
                and roots.count(self._root(candidate)) == 1
            ),
            None,
        )

    def _root(self, value: Value) -> Any:
        """The owner of a value's memory, after the steps so far were transformed."""
        root = self.effects.root[value]
        while root in self.merged:
            root = self.merged[root]
        return root
