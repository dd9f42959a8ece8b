"""A call of a function while it is recorded: runs it, encodes its results, and settles the lazy scalars it stored."""

from __future__ import annotations

import gc
import itertools
import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...autograd.tape import hook_on
from ...core import apply as dispatch
from ...core.listeners import listeners
from ...core import changes
from ...core.tensor import Tensor
from ...device import Storage
from ...errors import LinAlgError
from ..guards import cache_key
from ..guards.build import build_guards
from ..guards.snapshot import change_of_guards
from ..guards.state_visitor import StateVisitor, identical_objects, stands_for_numbers
from ..values import pytree
from ..values.kinds import is_plain
from ..values.lazy_scalar import Constant, LazyScalar, ScalarExpression, compute, expression_of
from ..values.pytree import ArgumentContainer, replace
from .call_changes import CallChanges
from .environment import Environment
from .grad_state import Gradients
from .python_state import replace_member, write_place
from .recorder import Recorder


class RecordedCall(Environment):
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
        shared_storages: dict[int, Storage],
    ) -> None:
        self.function, self.args, self.kwargs, self.tensors = function, args, kwargs, tensors
        self.before, self.excluded, self.shared_storages = before, excluded, shared_storages
        self.roots = cache_key.roots_in((args, kwargs))
        self.outside = {id(obj) for obj in identical_objects(before.entries) if issubclass(type(obj), Tensor)}
        self.replaceable = {holder for holder, key in excluded if key == "data"}
        builder = build_guards(function, self.roots, excluded)
        builder.refuse_attributes(tensors)
        self.guards, self.weak_ids = builder.guards, builder.weak_ids
        self.reads_gradients = builder.any_name or "grad" in builder.mentioned
        self.input_expressions = [  # evaluates generated text
            (number, f"({text}) is {eval(text.replace('{}', 'x'), {'x': tensor})}")
            for number, tensor in enumerate(tensors)
            for text in builder.input_expressions()
        ]
        self.recorder = Recorder(tensors, self)
        self.recorder.reads.allows_lazy_scalars = not builder.checks_number_types
        self.in_backward: dict[
            int, bool
        ] = {}  # inputs that a backward pass inside reaches, and whether they are leaves
        self.changes = CallChanges(before, args, kwargs, tensors)
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
        listeners.append(recorder)
        changes.watchers.append(recorder.assigned)
        LinAlgError.listeners.append(recorder.fail)
        try:
            yield
        finally:
            LinAlgError.listeners.remove(recorder.fail)
            listeners.remove(recorder)
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
                register(tensor, lambda _, number=number, is_leaf=is_leaf: self.in_backward.update({number: is_leaf}))
            )
            if not is_leaf:
                handles.append(tensor.grad_fn.register_hook(lambda *_, number=number: beyond.add(number)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
        for number in sorted(beyond | hooked & self.in_backward.keys()):
            what = (
                f"continues into the history of argument {number}"
                if number in beyond
                else f"calls the hooks of argument {number}"
            )
            self.recorder.decisions.give_up(
                f"compile: a backward pass inside the function {what}, which may differ at the next call; detach the "
                "argument, or call backward outside the compiled function"
            )

    def release(self) -> None:
        """Drop the objects of the call. The call is part of a reference cycle, which would keep them alive."""
        self.args, self.kwargs, self.tensors, self.roots, self.guards = (), {}, (), [], []
        for visitor in (self.before, getattr(self, "after", self.before)):
            visitor.entries, visitor.places = [], []
        del self.changes

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
        is_known = id(leaf) in self.outside or any(leaf is tensor for tensor in self.tensors)
        if self.recorder.decisions.refused or is_known:
            return leaf
        encoded = self._encode_view(leaf)
        # a run marks results with new memory by the mode in which the function is called
        existing = (*self.tensors, *self.recorder.program.held.values())
        is_marked = dispatch.state.inference and not any(leaf._storage is tensor._storage for tensor in existing)
        if leaf._inference == is_marked:
            return encoded
        return ScalarExpression("with_inference", (encoded, leaf._inference))

    def _encode_view(self, leaf: Tensor) -> Tensor | ScalarExpression:
        """Encode a new tensor, which may be a view of an input or of another result."""
        base = leaf._base
        if base is None:
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

    # ---- queries of the recorder

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

    def is_constant(self, obj: Any) -> bool:
        """Whether an object is an argument, or is held fixed by a guard or the snapshot; or a method of one."""
        if issubclass(type(obj), types.MethodType):
            return self.is_constant(obj.__self__)
        known = itertools.chain(self.roots, identical_objects(self.before.entries))
        return any(known_thing is obj for known_thing in known) or self._is_guarded(obj)

    def _is_guarded(self, obj: Any) -> bool:
        return any(guard.same is obj for guard in self.guards)

    def reaches(self, tensor: Tensor) -> bool:
        """Whether the function can reach a tensor by name now, such as a buffer that a module creates at first use."""
        entries = StateVisitor(self.function, self.roots, self.excluded).entries
        return any(obj is tensor for obj in identical_objects(entries))

    def watch_settings(self, are_read: bool) -> None:
        """An optimizer begins, or ends, to read the numbers of a step."""
        self.changes.watch_settings(are_read)

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
            for holder in _referrers(scalar):
                items = holder.items() if type(holder) is dict else enumerate(holder) if type(holder) is list else ()
                for key, value in list(items):
                    if value is scalar:
                        holder[key] = _number(value)

    # ---- changes that the call made

    def find_change(self) -> str | None:
        """A change of Python state that the call made and its steps do not contain, in words."""
        self.after = StateVisitor(self.function, self.roots, self.excluded)
        change = self.changes.find(self.after, self.recorder)
        if change is None:
            former, self.guards = self.guards, build_guards(self.function, self.roots, self.excluded).guards
            change = change_of_guards(former, self.guards)
        return change


def _referrers(obj: Any) -> list:
    """The objects that refer to an object, also where the program has frozen them (`gc.freeze`)."""
    frozen = gc.get_freeze_count()
    if frozen:
        gc.unfreeze()
    try:
        return gc.get_referrers(obj)
    finally:
        if frozen:
            gc.freeze()


def _number(value: Any) -> Any:
    """The number of a lazy scalar, or a tuple with its numbers, now that the function has ended."""
    if type(value) is LazyScalar:
        return replace(expression_of(value), lambda leaf: leaf, compute)
    return tuple(map(_number, value)) if stands_for_numbers(value) else value
