"""Runs one call of a compiled function for real and records it: a version for later calls, or why there is none."""

from __future__ import annotations

import gc
import itertools
import re
import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...autograd.tape import hook_on
from ...core import apply as dispatch
from ...core import changes
from ...core.create.random import Draw, Generator, default_generator
from ...core.tensor import Tensor
from ...device import Storage
from ...errors import LinAlgError
from ..backend.autograd_executable import Differentiable
from ..backend.executable import Executable
from ..backend.section import Form
from ..guards import cache_key
from ..guards.build import build_guards
from ..guards.guard import Guard
from ..guards.snapshot import Entry, Place, Snapshot, StateVisitor, compare, moved, stands_for_numbers
from ..values import pytree
from ..values.kinds import attributes_of, counts_of, hooks_on, is_optimizer, is_plain
from ..values.lazy_scalar import Constant, LazyScalar, ScalarExpression, compute, expression_of
from ..values.pytree import ArgumentContainer, replace
from ..values.source_location import CannotRepeat, where
from ..version import Version
from .differentiate import differentiate
from .environment import Environment
from .grad_state import Gradients
from .python_state import changed_places, replace_member, write_place
from .recorder import Recorder
from .trace import finish
from .turns import is_disturbed

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
    is_strict, capture = fullgraph and not has_fallback, None
    with _collect_refusals(is_strict) as refused:
        capture = _prepare(function, args, kwargs, tensors, excluded)
    if capture is None:
        return Recording(function(*args, **kwargs), refused="".join(refused))
    capture.gradients = Gradients(function, capture.before.entries, tensors, excluded)
    capture.recorder.decisions.has_fallback = check_failed or not is_strict
    results = capture.run()
    containers = pytree.containers(args, kwargs)
    outputs = replace(
        results, lambda leaf: containers[leaf.number] if type(leaf) is ArgumentContainer else leaf, compute
    )
    with _collect_refusals(is_strict) as refused:
        return _conclude(capture, results, outputs, name, form)
    return Recording(outputs, refused=refused[0])


def _prepare(
    function: Callable, args: tuple, kwargs: dict, tensors: tuple[Tensor, ...], excluded: frozenset
) -> _Capture | None:
    """Note the state before a call; None if an argument is another part of memory that the function reaches."""
    before = StateVisitor(function, cache_key.roots_in((args, kwargs)), excluded)
    shared = _shared_storages(before.entries, tensors, excluded)
    if shared is None:
        return None
    _refuse_hooks(before.entries)
    return _Capture(function, args, kwargs, tensors, before, excluded, shared)


def _conclude(capture: _Capture, results: Any, outputs: Any, name: str, form: Form) -> Recording:
    """The recording of a call that has ended. Raises CannotRepeat for what is seen only now."""
    recorder, function = capture.recorder, capture.function
    decisions = recorder.decisions
    if decisions.made_state or decisions.confused or decisions.refused:
        return Recording(outputs, refused=decisions.refused)
    if decisions.failed:
        raise CannotRepeat(
            "compile: the function catches the error of a matrix that could not be factored (LinAlgError), and may "
            "continue differently with other values"
        )
    decisions.has_fallback = False
    change = capture.find_change()
    if change is not None:
        change = change.replace("function: ", "", 1) if capture.excluded else change
        change = f"{change} {where(change, recorder.assignment_lines, function)}"
        return Recording(outputs, change=change, places=changed_places(capture.before, capture.after))
    executable = _compile(capture, results, name, form)
    flags = [Guard(name, "{0}()._observe() == {1}", (flag, value)) for name, flag, value in recorder.reads.flags]
    guards = [*capture.guards, *capture.gradients.guards, *flags]
    snapshot = Snapshot(function, capture.roots, guards, capture.excluded, capture.weak_ids)
    executable.counting = [*snapshot.counting, *counts_of(recorder.updates.schedules)]
    version = Version(
        executable, snapshot, capture.gradients, capture.shared, capture.reached, capture.input_conditions
    )
    return Recording(outputs, version)


def _compile(capture: _Capture, results: Any, name: str, form: Form) -> Executable:
    """Record the gradients of the results, if they require some, and compile the program."""
    recorder, gradients = capture.recorder, capture.gradients
    with capture.listening():
        backward = differentiate(recorder, capture.tensors, results)
    former = {id(gradient) for _, gradient in gradients.before.values()}
    # A gradient that is returned is used: it needs a guard.
    replace(
        results,
        lambda leaf: recorder.value_of(leaf) if issubclass(type(leaf), Tensor) and id(leaf) in former else None,
    )
    gradients.settle(recorder, capture.function, capture.reads_gradients)
    if backward is None:
        return Executable(finish(recorder, results), name, form)
    return Differentiable(finish(recorder, (results, backward[0])), backward[1], name, form)


class _Capture(Environment):
    """A call that is being recorded, and the state of Python before and after it."""

    gradients: Gradients
    after: StateVisitor

    def __init__(
        self,
        function: Callable,
        args: tuple,
        kwargs: dict,
        tensors: tuple[Tensor, ...],
        before: StateVisitor,
        excluded: frozenset,
        shared: dict[int, Storage],
    ) -> None:
        self.function, self.args, self.kwargs, self.tensors = function, args, kwargs, tensors
        self.before, self.excluded, self.shared = before, excluded, shared
        self.roots = cache_key.roots_in((args, kwargs))
        self.outside = {id(thing) for thing in _identical(before.entries) if issubclass(type(thing), Tensor)}
        self.replaceable = {holder for holder, key in excluded if key == "data"}
        builder = build_guards(function, self.roots, excluded)
        builder.refuse_attributes(tensors)
        self.guards, self.weak_ids = builder.guards, builder.weak_ids
        self.reads_gradients = builder.any_name or "grad" in builder.mentioned
        self.input_conditions = [  # evaluates generated text
            (number, f"({text}) is {eval(text.replace('{}', 'x'), {'x': tensor})}")
            for number, tensor in enumerate(tensors)
            for text in builder.input_expressions()
        ]
        self.recorder = Recorder(tensors, self)
        self.recorder.reads.allows_lazy_scalars = not builder.checks_number_types
        self.reached: dict[int, bool] = {}  # inputs that a backward pass inside reaches, and whether they are leaves
        self._contents = pytree.contents((args, kwargs))
        self._settings, self._sets_settings = _settings(before.entries), False  # of optimizers
        self._modes = _modes()
        generators = (thing for _, _, thing in before.entries if issubclass(type(thing), Generator))
        self._streams = {default_generator, *generators}
        self._input_states = [_input_state(tensor) for tensor in tensors]
        self._returned_containers: set[int] = set()  # ids
        self._returned: Counter[int] = Counter()  # results by id of the tensor, of its base and of its storage

    # ---- the call

    def run(self) -> Any:
        """Run the function; its result, encoded as a program returns it.

        Lazy scalars that are stored out of reach, as in a generator, remain: they behave as the number.
        """
        try:
            with self.listening(), self._watching_backward():
                results = self.function(*self.args, **self.kwargs)
                self._count_returned(results)
                results = replace(results, self._encode, whole=self._encode_once)
        except BaseException:
            self._settle_numbers(frozenset())  # leave the state as the function does
            raise
        self._settle_numbers(self.excluded)
        if self.recorder.reads.read_remaining():
            self._settle_numbers(self.excluded, results)
            self._settle_remaining()
        if self.recorder.decisions.refused:
            self.recorder.view_copies.make_views(self.recorder.program.steps, self.recorder.values)
        return results

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Record what runs in this context."""
        recorder = self.recorder
        dispatch.listeners.append(recorder)
        changes.watchers.append(recorder.assigned)
        LinAlgError.listeners.append(recorder.fail)
        try:
            yield
        finally:
            LinAlgError.listeners.remove(recorder.fail)
            dispatch.listeners.remove(recorder)
            changes.watchers.remove(recorder.assigned)

    @contextmanager
    def _watching_backward(self) -> Iterator[None]:
        """Note which inputs a backward pass inside reaches.

        Refuse if it calls their hooks or goes on beyond them: the inputs of later calls have other hooks and histories.
        """
        handles, beyond, hooked = [], set(), set()
        for number, tensor in enumerate(self.tensors):
            is_state = id(tensor) in self.outside or (id(tensor), "data") in self.excluded
            if is_state or not tensor.requires_grad:
                continue
            if not is_plain(tensor, False):
                hooked.add(number)
            is_leaf = tensor.grad_fn is None
            register = Tensor.register_hook if is_leaf else hook_on
            handles.append(
                register(tensor, lambda _, number=number, is_leaf=is_leaf: self.reached.update({number: is_leaf}))
            )
            if not is_leaf:
                handles.append(tensor.grad_fn.register_hook(lambda *_, number=number: beyond.add(number)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
        for number in sorted(beyond | hooked & self.reached.keys()):
            what = (
                f"continues into the history of argument {number}"
                if number in beyond
                else f"calls the hooks of argument {number}"
            )
            self.recorder.decisions.give_up(
                f"compile: a backward pass inside the function {what}, which may differ at the next call; detach the "
                "argument, or call backward outside the compiled function"
            )

    # ---- results

    def _count_returned(self, results: Any) -> None:
        """Count the returned tensors that show a tensor: as itself, as its view, or by its memory."""
        leaves: dict[int, Any] = {}
        replace(results, lambda leaf: leaves.setdefault(id(leaf), leaf))
        for leaf in leaves.values():
            if type(leaf) is not LazyScalar and issubclass(type(leaf), Tensor):
                self._returned.update(map(id, (leaf, leaf._base, leaf._storage)))

    def _encode(self, leaf: Any) -> Any:
        """Encode a result. Results that alias an input or another result stay views."""
        if type(leaf) is LazyScalar:
            return expression_of(leaf)
        if not issubclass(type(leaf), Tensor):
            return leaf
        self.recorder.refuse_copied_view(leaf, self._returned.keys())
        base = leaf._base
        is_known = id(leaf) in self.outside or any(leaf is tensor for tensor in self.tensors)
        if self.recorder.decisions.refused or base is None or is_known:
            return leaf
        source = next((tensor for tensor in self.tensors if base is tensor or base is tensor._base), None)
        is_only_view = id(base) not in self.outside and self._returned[id(base)] < 2 and not leaf.requires_grad
        if source is None and is_only_view:
            return leaf
        return ScalarExpression("view_of", (leaf, base if source is None else source, leaf._unrecorded))

    def _encode_once(self, container: Any) -> ScalarExpression | ArgumentContainer | None:
        """Encode a container that is returned. A new container is refused at its second occurrence."""
        encoded = self.encode_container(container)
        if encoded is None and id(container) in self._returned_containers:
            self.recorder.decisions.give_up(
                f"compile: the function returns the same {type(container).__name__} twice, but a compiled function "
                "would return two; return a copy"
            )
        self._returned_containers.add(id(container))
        return encoded

    # ---- what the recorder needs to know

    def encode_container(self, container: Any) -> ScalarExpression | ArgumentContainer | None:
        """Encode a container that is an argument, or that a guard holds fixed; None for a new one."""
        arguments = pytree.containers(self.args, self.kwargs)
        numbers = [number for number, argument in enumerate(arguments) if argument is container]
        if len(numbers) > 1:
            self.recorder.decisions.give_up(
                f"compile: the function returns a {type(container).__name__} that was passed twice; return a copy"
            )
        if numbers:
            return ArgumentContainer(numbers[0])
        return ScalarExpression("call", (Constant(container),)) if self._is_guarded(container) else None

    def is_constant(self, thing: Any) -> bool:
        """Whether an object is an argument, or is held fixed by a guard or the snapshot; or a method of one."""
        if issubclass(type(thing), types.MethodType):
            return self.is_constant(thing.__self__)
        known = itertools.chain(self.roots, _identical(self.before.entries))
        return any(known_thing is thing for known_thing in known) or self._is_guarded(thing)

    def _is_guarded(self, thing: Any) -> bool:
        return any(guard.same is thing for guard in self.guards)

    def reaches(self, tensor: Tensor) -> bool:
        """Whether the function can reach a tensor by name now, such as a buffer that a module creates at first use."""
        entries = StateVisitor(self.function, self.roots, self.excluded).entries
        return any(thing is tensor for thing in _identical(entries))

    def watch_settings(self, are_read: bool) -> None:
        """Note whether the function itself sets optimizers' settings. What a schedule's step sets, each run repeats."""
        settings = _settings(self.before.entries)
        self._sets_settings |= are_read and settings != self._settings
        self._settings = settings

    # ---- lazy scalars that the function has stored

    def _settle_numbers(self, excluded: frozenset, results: Any = None) -> None:
        """Replace the lazy scalars that the function has stored, such as a sum of losses, by numbers."""
        if not self.recorder.reads.lazy_scalars:
            return
        for holder, key, value in StateVisitor(self.function, [*self.roots, results], excluded).places:
            if stands_for_numbers(value) and key is value:
                replace_member(holder, key, _number(value))
            elif stands_for_numbers(value) and not issubclass(type(holder), (tuple, set, frozenset)):
                write_place(holder, _number(key), _number(value))

    def _settle_remaining(self) -> None:
        """Replace lazy scalars in lists and dictionaries that StateVisitor does not reach, such as other globals."""
        for scalar in self.recorder.reads.remaining():
            for holder in gc.get_referrers(scalar):
                items = holder.items() if type(holder) is dict else enumerate(holder) if type(holder) is list else ()
                for key, value in list(items):
                    if value is scalar:
                        holder[key] = _number(value)

    # ---- changes that the call made

    def find_change(self) -> str | None:
        """A change of Python state that the call made and its steps do not contain, in words."""
        self.after = StateVisitor(self.function, self.roots, self.excluded)
        change = compare(self.before.entries, self.after.entries) or self._input_change() or self._random_change()
        if change is None and (self._sets_settings or _settings(self.before.entries) != self._settings):
            return "a setting of an optimizer's param_groups changes"
        if change is None and (kind := pytree.changed(self._contents)):
            return f"the contents of an argument, a {kind}, change"
        if change is None:
            former, self.guards = self.guards, build_guards(self.function, self.roots, self.excluded).guards
            change = moved(former, self.guards)
        return change

    def _input_change(self) -> str | None:
        """A change of an argument's history, hooks or attributes, or of the modes."""
        for tensor, state in zip(self.tensors, self._input_states):
            grad_fn, requires_grad, hooks, is_plain_tensor, attributes = state
            if tensor.grad_fn is not grad_fn:
                return "an argument is written in place where gradients are recorded"
            if tensor.requires_grad is not requires_grad:
                return "an argument's requires_grad is set"
            if hooks_on(tensor) != hooks or is_plain(tensor, False) is not is_plain_tensor:
                return "the hooks of an argument change"
            if _ids(attributes_of(tensor)) != _ids(attributes):
                return "the attributes of an argument change"
        return "the grad mode, or autocast, changes" if _modes() != self._modes else None

    def _random_change(self) -> str | None:
        """A change of random streams other than draws by steps. Each run draws the next numbers."""
        draws = {
            id(input): input
            for step in self.recorder.program.steps
            for input in getattr(step, "inputs", ())
            if isinstance(input, Draw)
        }
        if any(draw.generator not in self._streams for draw in draws.values()):
            return "a random generator is created"
        if self.recorder.is_reseeded or len(self.recorder.drawn) != len(draws):
            return "a random stream is restarted, or used outside tensor operations"
        return None


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


def _identical(entries: list[Entry]) -> Iterator[Any]:
    """The objects in a snapshot that must be the same at every run."""
    return (thing for _, kind, thing in entries if kind == "is")


def _number(value: Any) -> Any:
    """The number of a lazy scalar, or a tuple with its numbers, now that the function has ended."""
    if type(value) is LazyScalar:
        return replace(expression_of(value), lambda leaf: leaf, compute)
    return tuple(map(_number, value)) if stands_for_numbers(value) else value


def _modes() -> tuple:
    return dispatch.state.grad_enabled, dispatch.state.inference, dispatch.state.autocast


def _input_state(tensor: Tensor) -> tuple:
    return tensor.grad_fn, tensor.requires_grad, hooks_on(tensor), is_plain(tensor, False), attributes_of(tensor)


def _ids(attributes: list[tuple[str, Any]]) -> list[tuple[str, int]]:
    return [(key, id(value)) for key, value in attributes]


def _shared_storages(
    entries: list[Entry], tensors: tuple[Tensor, ...], excluded: frozenset
) -> dict[int, Storage] | None:
    """The storages of arguments that the function also reaches by itself, by the arguments' numbers.

    Example: parameters passed to `functional_call`. None if the function reaches another part of such a storage.
    """
    reachable = [thing for thing in _identical(entries) if issubclass(type(thing), Tensor)]
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


def _settings(entries: list[Entry]) -> list[dict]:
    """The numbers and identities of tensors in the groups of all reachable optimizers.

    A program reads them at every run, but does not write them.
    """
    optimizers = [thing for thing in _identical(entries) if is_optimizer(thing)]
    return [_group_settings(group) for optimizer in optimizers for group in optimizer.param_groups]


def _group_settings(group: dict) -> dict:
    settings = {key: value for key, value in group.items() if isinstance(value, (bool, int, float, tuple))}
    tensors = {f"{key}, a tensor": id(value) for key, value in group.items() if issubclass(type(value), Tensor)}
    return settings | tensors


def _refuse_hooks(entries: list[Entry]) -> None:
    """Refuse backward hooks of modules inside, which would not be called. Those of the compiled module are.

    Forward hooks are recorded, and their code is guarded.
    """
    for name, _, thing in entries:
        if re.search(r"_backward_(pre_)?hooks\[", name) and callable(thing) and not name.startswith(_OWN_HOOKS):
            module, _, hook = name.rpartition(".")
            raise CannotRepeat(
                f"compile: {module} has a hook ({hook}), which a compiled function would not call; remove it, or "
                "compile the submodules instead"
            )
