"""Runs one call of a compiled function for real and records it: a version for later calls, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...core.tensor import Tensor
from ...device import Storage
from ..backend.autograd_executable import Differentiable
from ..backend.executable import Executable
from ..backend.section import Form
from ..guards import cache_key
from ..guards.data import same_data
from ..guards.guard import Guard
from ..guards.inputs import InputConditions
from ..guards.snapshot import Snapshot
from ..guards.state_visitor import Entry, Place, StateVisitor, identical_objects
from ..values import pytree
from ..values.kinds import modified_by_steps
from ..values.lazy_scalar import compute
from ..values.pytree import ArgumentContainer, replace
from ..values.source_location import CannotRepeat, where
from ..version import Version
from .differentiate import differentiate
from .grad_state import Gradients
from .python_state import changed_places
from .recorded_call import RecordedCall
from .trace import finish
from .call_lock import is_disturbed

_OWN_HOOKS = tuple(
    f"self.{name}" for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
)


@dataclass
class Recording:
    """The outputs of a recorded call, and a version for later calls, or why there is none."""

    outputs: Any
    version: Version | None = None
    change: str | None = None  # a change of Python state that the call made
    places: list[Place] = field(default_factory=list)  # that hold new tensors or numbers
    refused: str = ""  # why no program can repeat the call
    rate_is_argument: bool = False  # whether an optimizer reads an argument of the call


def record(
    function: Callable,
    args: tuple,
    kwargs: dict,
    name: str,
    form: Form,
    check_failed: bool,
    excluded: frozenset,
    fullgraph: bool,
    has_fallback: bool,
) -> Recording:
    """Run a call for real while recording it.

    - `check_failed`: a check of a version failed. The function is likely to raise, with values in its message.
    - `excluded`: (id of the holder, key) of places whose values are among the arguments.
    - `fullgraph`: raise CannotRepeat for what no program can repeat, unless the caller `has_fallback`. Otherwise the
      call goes on eagerly.
    """
    tensors = cache_key.describe(args, kwargs)[1]
    is_strict, call = fullgraph and not has_fallback, None
    with _collect_refusals(is_strict) as refused:
        call = _prepare(function, args, kwargs, tensors, excluded)
    if call is None:
        return Recording(function(*args, **kwargs), refused="".join(refused))
    call.gradients = Gradients(function, call.before.entries, tensors, excluded)
    call.recorder.decisions.has_fallback = check_failed or not is_strict
    results = call.run()
    containers = pytree.containers(args, kwargs)
    outputs = replace(
        results, lambda leaf: containers[leaf.number] if type(leaf) is ArgumentContainer else leaf, compute
    )
    try:
        with _collect_refusals(is_strict) as refused:
            return _conclude(call, results, outputs, name, form)
        return Recording(outputs, refused=refused[0])
    finally:
        call.release()


def _prepare(
    function: Callable, args: tuple, kwargs: dict, tensors: tuple[Tensor, ...], excluded: frozenset
) -> RecordedCall | None:
    """Note the state before a call; None if an argument is another part of memory that the function reaches."""
    before = StateVisitor(function, cache_key.roots_in((args, kwargs)), excluded)
    shared = _shared_storages(before.entries, tensors, excluded)
    if shared is None:
        return None
    _refuse_hooks(before.entries)
    return RecordedCall(function, args, kwargs, tensors, before, excluded, shared)


def _conclude(call: RecordedCall, results: Any, outputs: Any, name: str, form: Form) -> Recording:
    """The recording of a call that has ended. Raises CannotRepeat for problems that are found only at the end."""
    recorder, function = call.recorder, call.function
    decisions = recorder.decisions
    if decisions.made_state or decisions.may_succeed_later or decisions.refused:
        return Recording(outputs, refused=decisions.refused, rate_is_argument=decisions.rate_is_argument)
    if decisions.failed:
        raise CannotRepeat(
            "compile: the function catches the error of a matrix that could not be factored (LinAlgError), and may "
            "continue differently with other values"
        )
    decisions.has_fallback = False
    change = call.find_change()
    if change is not None:
        change = change.replace("function: ", "", 1) if call.excluded else change
        change = f"{change} {where(change, recorder.assignment_lines, function)}"
        return Recording(outputs, change=change, places=changed_places(call.before, call.after))
    executable = _compile(call, results, name, form)
    flags = [Guard(name, "{0}()._observe() == {1}", (flag, value)) for name, flag, value in recorder.reads.flags]
    settings = [same_data(recorder.reads.settings)] if recorder.reads.settings else []
    guards = [*call.guards, *call.gradients.guards, *flags, *settings]
    snapshot = Snapshot(function, call.roots, guards, call.excluded, call.weak_ids)
    executable.counting = [*snapshot.counting, *modified_by_steps(recorder.updates.schedules)]
    captured_storages = snapshot.storages.union(tensor._storage for tensor in executable.program.held.values())
    inputs = InputConditions(
        call.shared_storages, captured_storages, call.gradients.inputs_without, call.in_backward, call.input_expressions
    )
    return Recording(outputs, Version(executable, snapshot, inputs, call.gradients.places))


def _compile(call: RecordedCall, results: Any, name: str, form: Form) -> Executable:
    """Record the gradients of the results, if they require some, and compile the program."""
    recorder, gradients = call.recorder, call.gradients
    with call.listening():
        backward = differentiate(recorder, call.tensors, results)
    former = {id(gradient) for _, gradient in gradients.before.values()}
    # A gradient that is returned is used: it needs a guard.
    replace(
        results,
        lambda leaf: recorder.value_of(leaf) if issubclass(type(leaf), Tensor) and id(leaf) in former else None,
    )
    gradients.settle(recorder, call.function, call.reads_gradients)
    if backward is None:
        return Executable(finish(recorder, results), name, form)
    return Differentiable(finish(recorder, (results, backward[0])), backward[1], name, form)


@contextmanager
def _collect_refusals(is_strict: bool) -> Iterator[list[str]]:
    """Add why a call cannot be repeated to the list that this yields; raise it if `is_strict`.

    An empty reason is added if another thread disturbs the recording: the next call is recorded.
    """
    reasons: list[str] = []
    try:
        yield reasons
    except CannotRepeat as error:
        if is_strict:
            raise
        reasons.append(str(error))
    except RuntimeError as error:
        if not is_disturbed(error):
            raise
        reasons.append("")


def _shared_storages(
    entries: list[Entry], tensors: tuple[Tensor, ...], excluded: frozenset
) -> dict[int, Storage] | None:
    """The storages of arguments that the function can also reach otherwise, by the arguments' numbers.

    Example: parameters passed to `functional_call`. None if the function reaches another part of such a storage.
    """
    reachable = [obj for obj in identical_objects(entries) if issubclass(type(obj), Tensor)]
    shared = {}
    for number, tensor in enumerate(tensors):
        is_replaceable = (id(tensor), "data") in excluded
        aliases = [
            other
            for other in reachable
            if other._storage is tensor._storage and not (other is tensor and is_replaceable)
        ]
        if any(other._offset != tensor._offset or other._layout is not tensor._layout for other in aliases):
            return None
        if aliases:
            shared[number] = tensor._storage
    return shared


def _refuse_hooks(entries: list[Entry]) -> None:
    """Refuse backward hooks of submodules, which would not be called. Hooks of the compiled module itself are.

    Forward hooks are recorded, and their code is guarded.
    """
    for name, _, obj in entries:
        if re.search(r"_backward_(pre_)?hooks\[", name) and callable(obj) and not name.startswith(_OWN_HOOKS):
            module, _, hook = name.rpartition(".")
            raise CannotRepeat(
                f"compile: {module} has a hook ({hook}), which a compiled function would not call; remove it, or "
                "compile the submodules instead"
            )
