"""Record what a function does at the waist, as a program: forward, backward, optimizer steps, in-place writes, random
draws.

What a program cannot repeat (reading a value in Python, say) is an error when it is recorded, or ends the recording
where that is allowed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from threading import get_ident
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any
from weakref import WeakSet

import numpy as np

from ... import errors
from ...autograd import set_grad_enabled
from ...core import apply as dispatch
from ...core.create.random import Draw
from ...core.tensor import Tensor
from ...core.convert.transfer import Move, peek
from ...device import Storage
from ...ops import table, view
from ...ops.op import Op
from ...ops.pointwise import Pointwise
from ...ops.reduce.reduction import Reduction
from ...ops.update import Update
from ..values.kinds import attributes_of, is_simple, of_library
from ..values.lazy_scalar import METHODS, Itself, LazyScalar, ScalarExpression
from ..values.source_location import CannotRepeat
from ..ir.program import EMPTY, Check, Program, Step, Value
from ..values.pytree import Given, replace

_PACKAGE = os.path.dirname(os.path.abspath(errors.__file__)) + os.sep
_STANDARD = os.path.dirname(os.__file__) + os.sep, "<frozen "


def trace(function: Callable, *inputs: Tensor) -> Program:
    """Run `function(*inputs)` once, for real, and give the program of what it did.

    Raises RuntimeError for what cannot be repeated: values read in Python (`item()`, `if tensor:`), optimizer state
    made in the recorded step (run a step before), and input tensors made to require gradients inside.
    """
    recorder = Recorder(inputs)
    dispatch.listeners.append(recorder)
    try:
        outputs = function(*inputs)
    finally:
        dispatch.listeners.remove(recorder)
    if recorder.made_state:
        raise RuntimeError(
            "trace: the optimizer's state was made in the recorded step, so each run would start it anew; run one "
            "step before tracing"
        )
    return recorder.finish(outputs)


class Recorder:
    """Listens at the waist while the function runs."""

    def __init__(self, inputs: tuple[Tensor, ...], outside: set[int] = frozenset()) -> None:
        self.program = Program()
        self.thread = get_ident()  # what other threads do meanwhile is not recorded
        self.outside = outside  # ids of tensors that are known to have existed before: as results they are themselves
        self.numbers: dict[int, Value] = {}
        self.places: list[tuple] = []  # of each value: where its elements lay when it was first seen
        self.at: dict[tuple, Value] = {}  # the first value at a place
        self.alive: list[Tensor] = []  # of each value. Ids must not be used again while recording
        self.others: list[object] = []  # aliases and storages, for the same reason
        self.made_here: set[int] = set()  # storages that the function made
        self.constant: set[int] = set()  # those that hold Python's values
        self.elsewhere: WeakSet[Storage] = WeakSet()  # those that other threads made meanwhile
        # whether the function now reaches a tensor by itself
        self.reaches: Callable[[Tensor], bool] = lambda tensor: False
        self.indifferent: dict[int, Tensor] = {}  # leaves whose gradient is dropped before it is looked at
        self.replaced: dict[int, Tensor] = {}  # leaves whose gradient is dropped before the library asks for it
        self.asked_about: dict[int, Tensor] = {}  # leaves of which the library asked whether they have a gradient
        # leaves with the gradients they had when they were first used
        self.found: dict[int, tuple[Tensor, Tensor | None]] = {}
        # whether what cannot be repeated is no error, but ends the recording; what that was, and where
        self.has_fallback, self.refused = False, ""
        # whether values that are only returned are read after the run; what stands for them
        self.postponing, self.postponed = False, []
        self.failed = False  # whether an operation raised an error that other values would not make it raise
        # whether a tensor known to have existed before is the memory of an input: the next run's input may be another;
        # or another thread changed what was used
        self.confused = False
        self.lines: dict[str, str] = {}  # where attributes of modules were assigned
        # copies that stand for views: of which tensors, their values anew, how they are written back, the views
        self.copies: list[tuple[Tensor, Tensor, Callable, Callable, Callable]] = []
        self.gapped: set[int] = set()  # storages of those copies that are dense, where the view has gaps
        self.following = False  # whether copies, or what they are views of, are written after a write to the other
        self.moving: set[int] = set()  # ids of inputs that may get other memory, which is among the results
        self.actors: list[object] = []  # schedules that were stepped
        # told before and after an update's numbers are asked for
        self.watch: Callable[[bool], None] = lambda asking: None
        self.itself: Callable[[Any], Any] = lambda container: None  # what stands for a container that existed before
        # whether a thing existed before and is the same at every run
        self.remains: Callable[[Any], bool] = lambda thing: False
        # puts numbers where something stands for them, while an update asks for them, and back
        self.expose: Callable[[bool], None] | None = None
        # whether an update's numbers are asked for, which every run does; tensors that were read for them
        self.asking, self.asked = False, []
        self.draws: dict[tuple, Draw] = {}  # from the random streams, by place and size
        # what Python looked at, how it is computed, and what was found: the next calls must find the same
        self.flags: list[tuple[str, Program, float]] = []
        self.looked_at: Tensor | None = None  # the value that is being looked at
        self.drawn: set[tuple] = set()  # places and sizes of all draws on this thread
        self.restarted = False  # whether a random stream was begun anew
        self.made_state = False  # whether an optimizer began its state in the recorded step
        for input in inputs:
            self.add_input(input)

    def add_input(self, tensor: Tensor) -> None:
        """A tensor that every run is given."""
        if not isinstance(tensor, Tensor):
            raise TypeError(f"trace: inputs must be tensors, got {type(tensor).__name__}; close over other values")
        self.program.inputs.append(self._new(tensor))

    def notice(self, made: tuple) -> None:
        """Another thread made tensors."""
        self.elsewhere.update(each._storage for each in made)

    def __call__(self, op: Op, inputs: tuple, parameters: tuple, outputs: tuple, in_place: bool) -> None:
        if isinstance(op, Move) and id(inputs[0]._storage) in self.constant:
            self.made(outputs[0], "values")
            return
        known = tuple(self._known(input) for input in inputs)
        if isinstance(op, Update):
            for output in outputs:
                existed = (
                    id(output) in self.outside
                    or self.numbers[id(output)] in self.program.held
                    or self.numbers[id(output)] in self.program.inputs
                )
                self.made_state |= not existed
        results = tuple(self._known(output) if in_place else self._new(output) for output in outputs)
        if in_place:
            self.constant.difference_update(id(output._storage) for output in outputs)
        elif not op.is_view:
            self.made_here.update(id(output._storage) for output in outputs)
        self.program.steps.append(Step(op, known, parameters, results, in_place, line()))
        if in_place and self.copies and not self.following:
            self.following = True
            try:
                self._follow({id(output._storage) for output in outputs})
            finally:
                self.following = False

    def copied(
        self,
        copy: Tensor,
        source: Tensor,
        again: Callable[[], Tensor],
        back: Callable[[], None],
        view: Callable[[], Tensor],
    ) -> None:
        """A copy was made in the place of a view."""
        self.copies.append((copy, source, again, back, view))

    def has_gaps(self, copy: Tensor) -> None:
        """The view that a copy stands for has gaps between its elements."""
        if get_ident() == self.thread:
            self.gapped.add(id(copy._storage))

    def refuse_shown(self, tensor: Tensor, shown: set[int]) -> None:
        """Refuse a result that stands for a view of a tensor from outside, or of memory that is `shown` by others: what
        is written to it later would not reach that.
        """
        storage = tensor._storage
        for copy, source, *_ in reversed(self.copies):
            storage = source._storage if copy._storage is storage else storage
        if storage is not tensor._storage and (id(storage) not in self.made_here or id(storage) in shown):
            self.give_up(
                "trace: the function returns a view, by a tensor without dimensions, a number that changes or as "
                "other numbers, of a tensor from outside "
                "or of another result, which a recorded program has a copy of; return a clone() of it"
            )

    def show(self) -> None:
        """Make the views that copies stand for of them, and of views of them, where the recording is worth nothing: the
        caller may write to one.
        """
        for copy, source, _, _, shown in self.copies:
            former = copy._storage
            _become(copy, shown, source)
            for step in self.program.steps:
                if isinstance(step, Step) and step.op.is_view and self.alive[step.results[0].number]._storage is former:
                    before = self.alive[step.inputs[0].number]
                    _become(
                        self.alive[step.results[0].number],
                        partial(dispatch.apply, step.op, (before,), step.parameters),
                        before,
                    )

    def _follow(self, written: set[int]) -> None:
        """After a write to a copy that stands for a view, what it is a view of is written, and after that, or a write
        by others, all other copies. By their storages.
        """
        current = set()
        for copy, source, _, back, _ in reversed(self.copies):
            if id(copy._storage) in written:
                back()
                written.add(id(source._storage))
                current.add(id(copy))
        for copy, source, again, _, _ in self.copies:
            if id(source._storage) in written and id(copy) not in current:
                copy.copy_(again())
                written.add(id(copy._storage))

    def observe(self, tensor: Tensor, value: float | int | bool) -> None:
        """The library looked at a value."""
        flag, self.looked_at = self.looked_at, None
        if flag is tensor:
            return
        if self.asking:
            self.asked.append((tensor, line()))
            self.confused |= any(tensor._storage is self.alive[input.number]._storage for input in self.program.inputs)
        else:
            self.program.steps.append(Check(self._known(tensor), value, line()))

    def asks(self, asking: bool) -> None:
        """An optimizer is asked for a step's numbers, before and after."""
        self.asking = asking
        for each in (self.expose, self.watch) if asking else (self.watch, self.expose):
            if each is not None:
                each(asking)

    def acted(self, owner: object) -> None:
        """An action, of a schedule say, was run: it sets numbers that updates ask for."""
        self.actors.append(owner)
        made = [where for tensor, where in self.asked if id(tensor._storage) in self.made_here]
        if made:
            self.give_up(
                f"trace: {made[0]} gives {type(owner).__name__} a metric that the function computes, which a recorded "
                "program cannot repeat; step it outside"
            )

    def read(self, tensor: Tensor, method: str) -> LazyScalar | None:
        """A method of a tensor gives Python its values: what takes their place, if they can be read after the run."""
        if not self.postponing or self.refused or method not in METHODS:
            return None
        if method != "numpy":  # that shares memory
            tensor = dispatch.apply(table.copy, (tensor.detach() if tensor.requires_grad else tensor,), (tensor.dtype,))
        what, where = f"{method}()", line()
        return LazyScalar(
            ScalarExpression(method, (tensor,)),
            lambda flag=None: self.refuse(what, where) if flag is None else self.look(flag, what, where),
            self.postponed,
        )

    def look(self, tensor: Tensor, what: str, where: str = "") -> None:
        """Python looks at a value.

        A flag is guarded: 0 or 1, computed of small tensors from outside that have not been written to. Else it is
        refused.
        """
        self.looked_at = None
        if self.refused:
            return
        found = None if self.asking else peek(tensor)
        flag = self._of_outside(tensor) if found in (0, 1) else None
        if flag is None:
            self.refuse(what, where)
        else:
            self.looked_at = tensor
            self.flags.append((f"the flag looked at, {line()},", flag, found))

    def _of_outside(self, tensor: Tensor) -> Program | None:
        """What computes a value again from small tensors that existed before and have not been written to.

        None if it is of anything else, or of many steps.

        Steps are those that take any values: one that indexes would have to check them first.
        """
        steps, result, leaves = [], self._known(tensor), {}
        wanted = {result}
        for step in reversed(self.program.steps):
            if isinstance(step, Step) and not wanted.isdisjoint(step.results):
                if (
                    len(steps) == 10
                    or not (step.op.is_view or isinstance(step.op, (Pointwise, Reduction)))
                    or any(isinstance(input, Draw) for input in step.inputs)
                ):
                    return None
                steps.insert(0, step)
                wanted.update(input for input in step.inputs if issubclass(type(input), Value))
        for each in wanted - {result for step in steps for result in step.results}:
            leaves[each] = self.program.held.get(each)
            if leaves[each] is None or id(leaves[each]) not in self.outside or leaves[each]._layout.size > 1000:
                return None
        memory = {id(self.alive[each.number]._storage) for each in wanted}
        written = (
            result for step in self.program.steps if isinstance(step, Step) and step.in_place for result in step.results
        )
        if any(id(self.alive[each.number]._storage) in memory for each in written):
            return None
        flag = Program()
        flag.held, flag.steps, flag.layouts, flag.outputs = leaves, steps, self.program.layouts, result
        return flag

    def refuse(self, what: str, where: str = "") -> None:
        """Python reads a value."""
        if not self.asking or where:
            self.give_up(
                f"trace: {what} at {where or line()} reads a tensor's value in Python, which a recorded program "
                "cannot repeat; "
                "keep it a tensor, return its item() without looking at it, or read it after the program"
            )

    def overridden(self, function: str) -> None:
        """A class or mode takes over a function."""
        self.give_up(
            f"trace: {line()} calls {function or 'a function'} of a class, or in a mode, that overrides functions "
            "(__torch_function__), which a recorded "
            "program would not ask; call it outside, or give plain tensors"
        )

    def give_up(self, why: str) -> None:
        """The function does what no program can repeat: an error, or the recording is worth nothing and the call goes
        on eagerly.
        """
        if not self.refused:
            self.refused = why
            if not self.has_fallback:
                raise CannotRepeat(why)

    def fail(self) -> None:
        """An operation finds a matrix that it cannot factor."""
        self.failed |= get_ident() == self.thread

    def refuse_kept(self) -> bool:
        """Whether a value that is not known yet is kept somewhere in Python, which is refused.

        What the function returned has been released.
        """
        looks = [look for each, look in self.postponed if each() is not None]
        for look in looks:
            look()
        return bool(looks)

    def kept(self) -> Iterator[LazyScalar]:
        """What stands for values and is still kept somewhere."""
        for each, _ in self.postponed:
            if (found := each()) is not None:
                yield found

    def made(self, tensor: Tensor, how: str) -> None:
        """A tensor came to be without an op:

        "empty" memory, Python "values" (every run gets a fresh copy), or an "array", whose next values nobody knows.
        """
        if how == "array":
            self.give_up(
                f"trace: {line()} makes a tensor of a NumPy array, which a recorded program cannot repeat; make it "
                "before, or give it as an argument"
            )
            return
        if how == "empty":
            self(EMPTY, (), (), (tensor,), False)
            return
        original = tensor.detach()._alias()
        original._storage = Storage(tensor.device.backend.lengthened(tensor._storage.data, len(tensor._storage.data)))
        self(table.copy, (original,), (tensor.dtype,), (tensor,), False)
        self.constant.add(id(tensor._storage))

    def draw(self, offset: Draw) -> None:
        """Random numbers are drawn."""
        self.drawn.add(_drawn(offset))

    def restart(self) -> None:
        """A random stream is begun anew."""
        self.restarted = True

    def assigned(self, name: str) -> None:
        """An attribute of a module is assigned."""
        if name and get_ident() == self.thread:
            self.lines[name] = line()

    def holds(self, tensor: Tensor) -> bool:
        """Whether a tensor that existed before takes part."""
        return _place(tensor) in self.at

    def asked_for_gradient(self, leaf: Tensor) -> None:
        """The library asks whether a leaf has a gradient. One that a run has dropped or set itself is no matter."""
        if get_ident() == self.thread and id(leaf) not in self.replaced:
            self.asked_about[id(leaf)] = leaf

    def dropped(self, leaf: Tensor) -> None:
        """The function sets a leaf's gradient to None.

        Where nothing has set it yet, what a run finds there does not matter.
        """
        if id(leaf) not in self.asked_about:
            self.replaced[id(leaf)] = leaf
            self.indifferent.update({id(leaf): leaf} if leaf._grad is None else {})

    def drop_gradient(self, leaf: Tensor) -> None:
        """Have the program set a leaf's gradient to None."""
        self.program.gradients[self._owner(leaf)] = None

    def set_gradient(self, leaf: Tensor) -> None:
        """Have the program set a leaf's gradient to what it is now."""
        if leaf._grad.requires_grad:
            raise CannotRepeat(
                "trace: the function leaves a gradient with a history in .grad, which a recorded program would leave "
                "without; return it"
            )
        self.program.gradients[self._owner(leaf)] = self._known(leaf._grad)

    def _owner(self, leaf: Tensor) -> Value:
        given = next((input for input in self.program.inputs if self.alive[input.number] is leaf), None)
        owner = self._known(leaf) if given is None else given
        if self.program.held.get(owner, leaf) is not leaf:
            raise CannotRepeat(
                "trace: the gradient of a tensor is set that shares all its memory with another one, which a recorded "
                "program takes it for"
            )
        return owner

    def _new(self, tensor: Tensor) -> Value:
        value = self.numbers[id(tensor)] = Value(len(self.alive))
        place = _place(tensor)
        self.program.layouts[value] = tensor._layout
        self.alive.append(tensor)
        self.places.append(place)
        self.others.append(tensor._storage)
        self.at.setdefault(place, value)
        return value

    def _known(self, each: object) -> object:
        """The value of a tensor; one not seen before is an alias of a seen one (detached, say), or existed before."""
        if isinstance(each, Draw):  # a second run of a checkpoint draws what the first drew
            return self.draws.setdefault(_drawn(each), each)
        if not issubclass(type(each), Tensor):
            return (
                each.item()
                if isinstance(each, np.generic)
                else int(each)
                if isinstance(each, int) and type(each) is not bool
                else each
            )
        found, place = self.numbers.get(id(each)), _place(each)
        if found is not None and self.places[found.number] == place:
            return found
        if place in self.at:
            found = self.numbers[id(each)] = self.at[place]
            self.others += [each, each._storage]
            self.confused |= id(each) in self.outside and found in self.program.inputs
            if (
                found in self.program.held
                and each.requires_grad
                and each.grad_fn is None
                and not self.program.held[found].requires_grad
            ):
                # an alias was seen first: the gradient is the leaf's
                self.program.held[found], self.found[id(each)] = each, (each, each._grad)
            return found
        if found is not None or place[0] in self.made_here:
            self.give_up(
                f"trace: a tensor's shape or memory was changed in place before {line()}, which a recorded program "
                "cannot repeat; "
                "use the form that gives a new tensor"
            )
        if each._storage in self.elsewhere and self.reaches(each):
            self.confused = True  # state that another thread made for all: the next call finds it
        elif each._storage in self.elsewhere:
            self.give_up(
                f"trace: what another thread computed is used at {line()}, which a recorded "
                "program cannot repeat; compute it in this thread, or before the call"
            )
        found = self._new(each)
        self.program.held[found] = each
        self.found[id(each)] = each, each._grad
        return found

    def finish(self, outputs: Any) -> Program:
        """The program, with its results and the gradients it leaves on tensors that existed before."""
        program = self.program
        self._refuse_asked()
        for value, tensor in [*program.held.items(), *((v, self.alive[v.number]) for v in program.inputs)]:
            if self.places[value.number] != _place(tensor) and id(tensor) not in self.moving:
                shape = tuple(program.layouts[value].shape)
                raise CannotRepeat(
                    f"trace: the shape or memory of a {shape} tensor from outside was changed, which a recorded "
                    "program cannot repeat"
                )
            gradient = tensor._grad
            if gradient is not None and id(gradient) in self.numbers and self.numbers[id(gradient)] not in program.held:
                program.gradients[value] = self.numbers[id(gradient)]
        program.outputs = replace(outputs, self._leaving)
        memory = [self.places[input.number][0] for input in program.inputs]
        program.shared = [memory.index(each) for each in memory]
        return program

    def _refuse_asked(self) -> None:
        """Raise if a tensor that gives an update its numbers is made or written here: runs ask for them before they
        begin.
        """
        written = {
            id(self.alive[result.number]._storage)
            for step in self.program.steps
            if isinstance(step, Step) and step.in_place
            for result in step.results
        }
        for tensor, where in self.asked:
            if id(tensor._storage) in written | self.made_here:
                raise CannotRepeat(
                    f"trace: {where} takes a step with a rate or metric that the function computes, which a recorded "
                    "program cannot repeat; set it outside"
                )

    def _leaving(self, each: Any) -> Any:
        """A result.

        One that is the same memory as another value, but another tensor (detached, say), is a view of it.
        """
        if not (
            issubclass(type(each), (Tensor, Given, Itself)) or is_simple(each) or _is_fixed(each)
        ) and not self.remains(each):
            kind = type(each).__name__
            raise CannotRepeat(
                f"trace: the function returns a {kind}, which may hold values of this run; return tensors in tuples, "
                "lists, dicts or data classes"
            )
        if not issubclass(type(each), Tensor) or id(each) in self.outside:
            return each
        if self._known(each) not in self.program.inputs and attributes_of(each):
            raise CannotRepeat(
                f"trace: the function returns a tensor with an attribute, {attributes_of(each)[0][0]}, "
                "which a recorded program does not give its own; set it outside"
            )
        found = self._known(each)
        if self.alive[found.number] is each and (found in self.program.held or found in self.program.inputs):
            return found
        if type(each) is not Tensor or (each.requires_grad and each.grad_fn is None):
            raise CannotRepeat(
                "trace: the function returns a leaf or a Parameter that it makes, which a recorded program would "
                "return as a computed tensor"
            )
        if self.alive[found.number] is each:
            return found
        alias = self._new(each)
        self.program.steps.append(
            Step(view.rows["permute"], (found,), (tuple(range(each.ndim)),), (alias,), False, line())
        )
        return alias


def _is_fixed(thing: Any) -> bool:
    """Whether it is a function or class that is written in a library, and so can hold no values of a run."""
    if not issubclass(type(thing), (type, FunctionType, BuiltinFunctionType)):
        return False
    made = getattr(thing, "__closure__", None) or not isinstance(
        getattr(thing, "__self__", None), (ModuleType, type(None))
    )
    return of_library(thing) and not made


def _become(tensor: Tensor, view: Callable[[], Tensor], source: Tensor) -> None:
    """Make a tensor the view of `source`; its gradients go there if they did before."""
    with set_grad_enabled(dispatch.state.grad_enabled and tensor.requires_grad is source.requires_grad):
        made = view()
    for name in (
        "_storage",
        "_layout",
        "_offset",
        "_base",
        "_own",
        "_seen",
        "_node",
        "_output",
        "_requires_grad",
        "_unrecorded",
    ):
        setattr(tensor, name, getattr(made, name))


def _drawn(offset: Draw) -> tuple:
    """What tells random numbers from others."""
    return id(offset.generator), offset.generator._seed, int(offset), offset.count


def _place(tensor: Tensor) -> tuple:
    return id(tensor._storage), tensor._offset, tensor._layout


def recording() -> Recorder | None:
    """What records on this thread."""
    return (
        next(
            (
                active_listener
                for active_listener in dispatch.active_listeners()
                if isinstance(active_listener, Recorder)
            ),
            None,
        )
        if dispatch.listeners
        else None
    )


def line() -> str:
    """The innermost line outside this package and Python's own: "file.py:12"."""
    frame = sys._getframe(1)
    while frame is not None and of_package(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else ""


def of_package(filename: str) -> bool:
    """Whether a file belongs to this package or to Python itself, not to the user."""
    return filename.startswith((_PACKAGE, *_STANDARD)) and "-packages" not in filename.removeprefix(_PACKAGE)
