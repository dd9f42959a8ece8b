"""How a recorder handles values that Python reads: as lazy scalars, as flags with a guard, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...core import apply as dispatch
from ...core.convert.transfer import peek
from ...core.create.generator import Draw
from ...core.tensor import Tensor
from ...ops import table
from ...ops.pointwise import Pointwise
from ...ops.reduce.reduction import Reduction
from ..ir.program import Program, Step, Value
from ..values.lazy_scalar import METHODS, LazyScalar, ScalarExpression
from .decisions import Decisions
from .update_numbers import UpdateNumbers
from .value_map import ValueMap

_FLAG_STEPS = 10  # steps that may compute a flag
_FLAG_ELEMENTS = 1000  # of a tensor that a flag is computed of


class ScalarReads:
    """Values that Python read during a recording."""

    def __init__(
        self, program: Program, values: ValueMap, outside: set[int], decisions: Decisions, updates: UpdateNumbers
    ) -> None:
        self.program, self.values, self.outside = program, values, outside
        self.decisions, self.updates = decisions, updates
        self.allows_lazy_scalars = False
        # (weak reference to a lazy scalar, its `on_read`)
        self.lazy_scalars: list = []
        # (name, program that computes the flag, its value): the next calls must find the same values
        self.flags: list[tuple[str, Program, float]] = []
        self.settings: list[Tensor] = []  # whose data the library has read: the next calls must find the same
        self._flag: Tensor | None = None  # the flag whose value is read next

    def lazy_scalar(
        self, tensor: Tensor, method: str, where: str, value_of: Callable[[Tensor], Value]
    ) -> LazyScalar | None:
        """A lazy scalar for `tensor.item()`, or another of these methods; None if it cannot be one."""
        if not self.allows_lazy_scalars or self.decisions.refused or method not in METHODS:
            return None
        if method != "numpy":  # an array shares the tensor's memory, a number does not
            source = tensor.detach() if tensor.requires_grad else tensor
            tensor = dispatch.apply(table.copy, (source,), (tensor.dtype,))

        def on_read(flag: Tensor | None = None) -> None:
            if flag is None or self.updates.are_read:
                self.decisions.refuse_read(f"{method}()", where)
            else:
                self.branch(flag, f"{method}()", where, value_of)

        return LazyScalar(ScalarExpression(method, (tensor,)), on_read, self.lazy_scalars)

    def branch(self, tensor: Tensor, what: str, where: str, value_of: Callable[[Tensor], Value]) -> None:
        """Python branches on a value. A flag (0 or 1) that depends on outside state only is guarded, others refused.

        `value_of` is `Recorder.value_of`.
        """
        self._flag = None
        if self.decisions.refused:
            return
        value = peek(tensor)
        program = self._flag_program(value_of(tensor)) if value in (0, 1) else None
        if program is None:
            self.decisions.refuse_read(what, where)
        else:
            self._flag = tensor
            self.flags.append((f"the flag that is branched on, {where},", program, value))

    def take_flag(self, tensor: Tensor) -> bool:
        """Whether the library reads the value of a tensor because Python branches on it as a flag."""
        flag, self._flag = self._flag, None
        return flag is tensor

    def data_read(self, tensor: Tensor, where: str, variable: set[int]) -> None:
        """The library reads the data of a tensor, which is refused for `variable` storages and for written ones."""
        if id(tensor._storage) in variable | written_storages(self.program, self.values):
            self.decisions.refuse_read("a layer", where)
        elif not any(tensor is setting for setting in self.settings):
            self.settings.append(tensor)

    def _flag_program(self, result: Value) -> Program | None:
        """A program that computes a value from small tensors that existed before and are not written to; or None.

        Its steps are views, pointwise operations and reductions, which accept any values.
        """
        steps: list[Step] = []
        needed = {result}
        for step in reversed(self.program.steps):
            if isinstance(step, Step) and not needed.isdisjoint(step.results):
                accepts_all = step.op.is_view or isinstance(step.op, (Pointwise, Reduction))
                if (
                    len(steps) == _FLAG_STEPS
                    or not accepts_all
                    or any(isinstance(input, Draw) for input in step.inputs)
                ):
                    return None
                steps.insert(0, step)
                needed.update(input for input in step.inputs if issubclass(type(input), Value))
        leaves = {}
        for value in needed - {result for step in steps for result in step.results}:
            leaf = leaves[value] = self.program.held.get(value)
            if leaf is None or id(leaf) not in self.outside or leaf._layout.size > _FLAG_ELEMENTS:
                return None
        storages = {id(self.values.storage(value)) for value in needed}
        if not storages.isdisjoint(written_storages(self.program, self.values)):
            return None
        flag = Program()
        flag.held, flag.steps, flag.layouts, flag.outputs = leaves, steps, self.program.layouts, result
        return flag

    def read_remaining(self) -> bool:
        """Read the lazy scalars that still exist after the function has returned. Return whether there were any."""
        readers = [on_read for reference, on_read in self.lazy_scalars if reference() is not None]
        for on_read in readers:
            on_read()
        return bool(readers)

    def remaining(self) -> Iterator[LazyScalar]:
        """The lazy scalars that still exist."""
        for reference, _ in self.lazy_scalars:
            if (lazy_scalar := reference()) is not None:
                yield lazy_scalar


def written_storages(program: Program, values: ValueMap) -> set[int]:
    """The ids of storages that a program's steps write in place."""
    in_place = (step for step in program.steps if isinstance(step, Step) and step.in_place)
    return {id(values.storage(result)) for step in in_place for result in step.results}
