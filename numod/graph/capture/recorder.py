"""Records the ops that a function calls as a program: forward and backward passes, optimizer steps, random draws.

`Recorder` turns the events of `core.apply` into steps. Its parts keep the values (`ValueMap`), and decide what can be
repeated (`Decisions`, `ScalarReads`, `ViewCopies`, `UpdateNumbers`, `GradientUse`). `results` finishes the program.
"""

from __future__ import annotations

import os
import sys
from threading import get_ident
from typing import Any
from weakref import WeakSet

import numpy as np

from ... import errors
from ...core.listeners import active_listeners, listeners
from ...core.convert.transfer import Move
from ...core.create.generator import Draw
from ...core.tensor import Tensor
from ...device import Storage
from ...ops import table
from ...ops.op import Op
from ...ops.update import Update
from ..ir.program import EMPTY, Check, Program, Step, Value
from ..values.lazy_scalar import LazyScalar
from ..values.source_location import CannotRepeat
from .decisions import Decisions
from .environment import Environment
from .gradient_use import GradientUse
from .scalar_reads import ScalarReads
from .update_numbers import UpdateNumbers
from .value_map import ValueMap, memory_of
from .view_copies import ViewCopies, ViewCopy

_PACKAGE = os.path.dirname(os.path.abspath(errors.__file__)) + os.sep
_STANDARD = os.path.dirname(os.__file__) + os.sep, "<frozen "


class Recorder:
    """Listens to the ops of one thread while a function runs, and appends them to a program."""

    def __init__(self, inputs: tuple[Tensor, ...], environment: Environment | None = None) -> None:
        self.program = Program()
        self.thread = get_ident()  # events of other threads are not recorded
        self.environment = environment or Environment()
        self.decisions = Decisions()
        self.values = ValueMap(self.program.layouts)
        self.updates = UpdateNumbers(self.decisions)
        outside = self.environment.outside
        self.reads = ScalarReads(self.program, self.values, outside, self.decisions, self.updates)
        self.view_copies = ViewCopies()
        self.gradients = GradientUse()
        self.created_storages: set[int] = set()  # ids of storages that the function created
        self._constants: set[int] = set()  # ids of storages that hold values from Python
        self._created_on_other_threads: WeakSet[Storage] = WeakSet()  # storages that other threads created meanwhile
        self._draws: dict[tuple, Draw] = {}  # draws that steps use
        self.drawn: set[tuple] = set()  # all draws on this thread
        self.is_reseeded = False  # whether a random stream was restarted
        self.assignment_lines: dict[str, str] = {}  # where attributes of modules were assigned, by name
        for input in inputs:
            self.add_input(input)

    def add_input(self, tensor: Tensor) -> None:
        """Add an input of the program."""
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"trace: inputs must be tensors, got {type(tensor).__name__}; capture other values in a closure"
            )
        self.program.inputs.append(self.values.add(tensor))

    # ---- events: ops and tensors

    def __call__(self, op: Op, inputs: tuple, attributes: tuple, outputs: tuple, in_place: bool) -> None:
        """An op was called."""
        if isinstance(op, Move) and id(inputs[0]._storage) in self._constants:
            self.created(outputs[0], "values")
            return
        operands = tuple(self.value_of(input) for input in inputs)
        if isinstance(op, Update):
            self.decisions.made_state |= not all(map(self._existed_before, outputs))
        results = tuple((self.value_of if in_place else self.values.add)(output) for output in outputs)
        storages = {id(output._storage) for output in outputs}
        if in_place:
            self._constants -= storages
        elif not op.is_view:
            self.created_storages |= storages
        self.program.steps.append(Step(op, operands, attributes, results, in_place, line()))
        if in_place:
            self.view_copies.propagate(storages)

    def _existed_before(self, tensor: Tensor) -> bool:
        value = self.values.by_tensor[id(tensor)]
        known = id(tensor) in self.environment.outside
        return known or value in self.program.held or value in self.program.inputs

    def created(self, tensor: Tensor, how: str) -> None:
        """A tensor was created without an op: "empty" memory, "values" from Python, or over a NumPy "array".

        Each run gets its own copy of the values. Arrays are refused, since their later values are unknown.
        """
        if how == "array":
            self.decisions.refuse_array(line())
        elif how == "empty":
            self(EMPTY, (), (), (tensor,), False)
        else:
            original, data = tensor.detach()._alias(), tensor._storage.data
            original._storage = Storage(tensor.device.backend.lengthened(data, len(data)))
            self(table.copy, (original,), (tensor.dtype,), (tensor,), False)
            self._constants.add(id(tensor._storage))

    def created_on_other_thread(self, tensors: tuple) -> None:
        """Another thread created tensors."""
        self._created_on_other_threads.update(tensor._storage for tensor in tensors)

    def view_copied(self, *view_copy: Any) -> None:
        """A copy was created instead of a view. The arguments are the fields of ViewCopy."""
        self.view_copies.copies.append(ViewCopy(*view_copy))

    def has_gaps(self, copy: Tensor) -> None:
        """The view that a copy replaces has gaps between its elements."""
        if get_ident() == self.thread:
            self.view_copies.gapped.add(id(copy._storage))

    @property
    def gapped(self) -> set[int]:
        """Ids of storages of copies for views with gaps."""
        return self.view_copies.gapped

    # ---- events: values that Python reads

    def read(self, tensor: Tensor, method: str) -> LazyScalar | None:
        """A method such as `item` is called. It returns the lazy scalar, if the value can be read after the run."""
        return self.reads.lazy_scalar(tensor, method, line(), self.value_of)

    def branched(self, tensor: Tensor, what: str) -> None:
        """Python branches on a value. Ignored while the numbers of an update are read: each run reads them again."""
        if not self.updates.are_read:
            self.reads.branch(tensor, what, line(), self.value_of)

    def observe(self, tensor: Tensor, value: float | int | bool) -> None:
        """The library reads a value. Each run checks that it is the same, except for the numbers of an update."""
        if self.reads.take_flag(tensor):
            return
        if not self.updates.are_read:
            self.program.steps.append(Check(self.value_of(tensor), value, line()))
            return
        self.updates.note_tensor(tensor, line())
        inputs = (self.values.storage(value) for value in self.program.inputs)
        if any(storage is tensor._storage for storage in inputs):
            self.decisions.may_succeed_later = self.decisions.rate_is_argument = True

    def data_read(self, tensor: Tensor) -> None:
        """The library reads a setting from a tensor. Each call checks that it is the same, before the run."""
        inputs = {id(self.values.storage(value)) for value in self.program.inputs}
        self.reads.data_read(tensor, line(), self.created_storages | inputs)

    def refuse(self, what: str) -> None:
        """Python reads a value by a method that is not supported."""
        if not self.updates.are_read:
            self.decisions.refuse_read(what, line())

    def overridden(self, function: str) -> None:
        """A class or mode overrides a function."""
        self.decisions.refuse_override(function, line())

    def fail(self) -> None:
        """An operation raises LinAlgError."""
        self.decisions.failed |= get_ident() == self.thread

    @property
    def may_succeed_later(self) -> bool:
        """Whether a later recording may succeed where this one does not."""
        return self.decisions.may_succeed_later

    @may_succeed_later.setter
    def may_succeed_later(self, may_succeed_later: bool) -> None:
        self.decisions.may_succeed_later = may_succeed_later

    # ---- events: optimizers, gradients, random streams, modules

    def reading_update_numbers(self, are_read: bool) -> None:
        """An optimizer starts, or stops, reading the numbers of an update."""
        self.updates.are_read = are_read
        expose_numbers = self.updates.expose_numbers
        if are_read and expose_numbers is not None:
            expose_numbers(True)
        self.environment.watch_settings(are_read)
        if not are_read and expose_numbers is not None:
            expose_numbers(False)

    def schedule_stepped(self, schedule: object) -> None:
        """A schedule was stepped: it sets numbers that updates read."""
        self.updates.note_schedule(schedule, self.created_storages)

    def gradient_checked(self, leaf: Tensor) -> None:
        """The library checks whether a leaf has a gradient."""
        if get_ident() == self.thread:
            self.gradients.check(leaf)

    def gradient_dropped(self, leaf: Tensor) -> None:
        """The function sets a leaf's gradient to None."""
        self.gradients.drop(leaf)

    def draw(self, offset: Draw) -> None:
        """Random numbers are drawn."""
        self.drawn.add(_draw_key(offset))

    def restart(self) -> None:
        """A random stream is restarted."""
        self.is_reseeded = True

    def assigned(self, name: str) -> None:
        """An attribute of a module is assigned."""
        if name and get_ident() == self.thread:
            self.assignment_lines[name] = line()

    # ---- values

    def value_of(self, argument: object) -> object:
        """The operand of a step for an argument of an op: a Value for a tensor, a Draw, a number, or a constant.

        An unknown tensor is either an alias of a known one (a detached tensor, say), or existed before the call.
        """
        if isinstance(argument, Draw):  # a rerun checkpoint draws the same numbers
            return self._draws.setdefault(_draw_key(argument), argument)
        if not issubclass(type(argument), Tensor):
            return _constant(argument)
        value = self.values.get(argument)
        if value is None and (value := self.values.add_alias(argument)) is not None:
            self._note_alias(argument, value)
        return self._add_held(argument) if value is None else value

    def _note_alias(self, tensor: Tensor, value: Value) -> None:
        """Record a tensor that shares the memory of a known one."""
        captured = self.program.held.get(value)
        self.decisions.may_succeed_later |= id(tensor) in self.environment.outside and value in self.program.inputs
        if captured is not None and tensor.requires_grad and tensor.grad_fn is None and not captured.requires_grad:
            self.program.held[value] = tensor  # a leaf whose alias was used first; the leaf receives the gradient
            self.gradients.first_use(tensor)

    def _add_held(self, tensor: Tensor) -> Value:
        """Add a tensor that existed before the call."""
        storage = tensor._storage
        if id(tensor) in self.values.by_tensor or id(storage) in self.created_storages:
            self.decisions.refuse_changed_memory(line())
        if storage in self._created_on_other_threads and self.environment.reaches(tensor):
            self.decisions.may_succeed_later = True  # shared state that another thread created; the next call finds it
        elif storage in self._created_on_other_threads:
            self.decisions.refuse_other_thread(line())
        value = self.values.add(tensor)
        self.program.held[value] = tensor
        self.gradients.first_use(tensor)
        return value

    def uses(self, tensor: Tensor) -> bool:
        """Whether the memory of a tensor is used."""
        return memory_of(tensor) in self.values.by_memory

    def refuse_copied_view(self, tensor: Tensor, returned: set[int]) -> None:
        """Refuse a result that is a copy instead of a view of outside memory, or of memory that is also `returned`.

        The program could not repeat later writes through it.
        """
        storage = self.view_copies.storage_viewed(tensor)
        if storage is not tensor._storage and (id(storage) not in self.created_storages or id(storage) in returned):
            self.decisions.refuse_view()

    # ---- gradients that a run leaves

    def drop_gradient(self, leaf: Tensor) -> None:
        """Have the program set a leaf's gradient to None."""
        self.program.gradients[self._leaf_value(leaf)] = None

    def set_gradient(self, leaf: Tensor) -> None:
        """Have the program set a leaf's gradient to its present value."""
        if leaf._grad.requires_grad:
            raise CannotRepeat(
                "trace: the function stores a gradient with a history in .grad, but a recorded program would store it "
                "without one; return it instead"
            )
        self.program.gradients[self._leaf_value(leaf)] = self.value_of(leaf._grad)

    def _leaf_value(self, leaf: Tensor) -> Value:
        inputs = (value for value in self.program.inputs if self.values.tensor(value) is leaf)
        value = next(inputs, None) or self.value_of(leaf)
        if self.program.held.get(value, leaf) is not leaf:
            raise CannotRepeat(
                "trace: the gradient of a tensor is set that has the same memory as another tensor, and a recorded "
                "program cannot distinguish the two"
            )
        return value


def _constant(argument: object) -> object:
    """A plain Python number for NumPy's numbers and for instances of subclasses of int."""
    if isinstance(argument, np.generic):
        return argument.item()
    return int(argument) if isinstance(argument, int) and type(argument) is not bool else argument


def _draw_key(offset: Draw) -> tuple:
    """Identifies random numbers: their stream, its seed, their offset and count."""
    return id(offset.generator), offset.generator._seed, int(offset), offset.count


def recording() -> Recorder | None:
    """The recorder of this thread."""
    if not listeners:
        return None
    return next((listener for listener in active_listeners() if isinstance(listener, Recorder)), None)


def line() -> str:
    """The innermost line outside this package and Python's own: "file.py:12"."""
    frame = sys._getframe(1)
    while frame is not None and of_package(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else ""


def of_package(filename: str) -> bool:
    """Whether a file belongs to this package or to Python itself, not to the user."""
    return filename.startswith((_PACKAGE, *_STANDARD)) and "-packages" not in filename.removeprefix(_PACKAGE)
