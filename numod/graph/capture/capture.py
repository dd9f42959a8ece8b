"""One call of a compiled function, run for real and recorded: the version it gives for later calls, or why it gives
none.
"""

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

from ...autograd.engine import grad_up_to
from ...autograd.tape import edge_to, hook_on
from ...core import apply as dispatch
from ...core import changes
from ...core.create.creation import ones
from ...core.create.random import Draw, Generator, default_generator
from ...core.tensor import Tensor
from ...device import Storage
from ...errors import LinAlgError
from ..guards import snapshot, cache_key as key, build as reach
from ..values import lazy_scalar, source_location, pytree
from . import python_state
from ..guards.guard import Guard
from ..backend.autograd_executable import Differentiable, Tape
from .grad_state import Gradients
from ..values.kinds import attributes_of, counts_of, hooks_on, is_optimizer, is_plain
from ..backend.executable import Executable
from ..backend.section import Form
from ..values.pytree import replace
from .recorder import Recorder
from .turns import is_disturbed
from ..version import Version

_OWN_HOOKS = tuple(
    f"self.{name}" for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
)


@dataclass
class Recording:
    """What came of a call: its `outputs`, and the `version` for later calls.

    Without one, the `change` it made in Python, and the `places` that hold new tensors.
    """

    outputs: Any
    version: Version | None = None
    change: str | None = None
    places: list[snapshot.Place] = field(default_factory=list)
    refused: str = ""  # what it did that no program can repeat


def record(
    function: Callable,
    arguments: tuple,
    named: dict,
    name: str,
    form: Form,
    failed: bool,
    without: frozenset,
    fullgraph: bool,
    has_fallback: bool,
) -> Recording:
    """Run a call for real while recording it.

    What lies at the places `without` is among the arguments. Where a check has `failed` the function is likely to
    raise, and to put values into its message. With `fullgraph` what no program can repeat is an error; without, or
    where a caller is `has_fallback`, the call goes on eagerly to its end.
    """
    roots, tensors = key.roots_in((arguments, named)), key.describe(arguments, named)[1]
    strict, shared = fullgraph and not has_fallback, None
    with _noted(strict) as refused:
        before = snapshot.StateVisitor(function, roots, without)
        shared = _shared(before.entries, tensors, without)
        if shared is not None:
            _refuse_hooks(before.entries)
            witness = _Capture(function, arguments, named, tensors, before, without)
    if refused or shared is None:
        return Recording(function(*arguments, **named), refused="".join(refused))
    recorder, owned = witness.recorder, Gradients(function, before.entries, tensors, without)
    recorder.has_fallback = failed or not strict
    outputs = witness.run()
    given = pytree.containers(arguments, named)
    told = replace(
        outputs, lambda each: given[each.number] if type(each) is pytree.Given else each, lazy_scalar.compute
    )
    with _noted(strict) as refused:
        return _concluded(witness, owned, shared, outputs, told, name, form)
    return Recording(told, refused=refused[0])


def _concluded(
    witness: _Capture, owned: Gradients, shared: dict[int, Storage], outputs: Any, told: Any, name: str, form: Form
) -> Recording:
    """What comes of a call that has ended. Raises CannotRepeat for what only then is seen."""
    recorder, function, without = witness.recorder, witness.function, witness.without
    if recorder.made_state or recorder.confused or recorder.refused:
        return Recording(told, refused=recorder.refused)
    if recorder.failed:
        raise source_location.CannotRepeat(
            "compile: the function goes on where a matrix could not be factored (LinAlgError), and would do otherwise "
            "where it can be"
        )
    witness.look_back(outputs)
    if witness.change is not None:
        change = witness.change.replace("function: ", "", 1) if without else witness.change
        return Recording(
            told,
            None,
            f"{change} {source_location.where(change, recorder.lines, function)}",
            python_state.changed_places(witness.before, witness.after),
        )
    former = {id(gradient) for _, gradient in owned.before.values()}
    # a use, which needs a guard
    replace(
        outputs, lambda each: recorder._known(each) if issubclass(type(each), Tensor) and id(each) in former else None
    )
    owned.settle(recorder, function, witness.asks_gradients)
    if witness.joint is None:
        executable = Executable(recorder.finish(outputs), name, form)
    else:
        gradients, tape = witness.joint
        executable = Differentiable(recorder.finish((outputs, gradients)), tape, name, form)
    flags = (Guard(name, "{0}()._observe() == {1}", (flag, found)) for name, flag, found in recorder.flags)
    picture = snapshot.Snapshot(
        function, witness.roots, [*witness.guards, *owned.guards, *flags], without, witness.loose
    )
    executable.counting = [*picture.counting, *counts_of(recorder.actors)]
    return Recording(told, Version(executable, picture, owned, shared, witness.reached, witness.answers))


class _Capture:
    """How things were before a call, and what the call changes beside tensors: `change`."""

    def __init__(
        self,
        function: Callable,
        arguments: tuple,
        named: dict,
        tensors: tuple[Tensor, ...],
        before: snapshot.StateVisitor,
        without: frozenset,
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.named = named
        self.tensors = tensors
        self.before = before
        self.without = without
        self.roots = key.roots_in((arguments, named))
        walk = reach.quick(function, self.roots, without)
        walk.refuse_attributes(tensors)
        self.loose = walk.loose
        self.guards, self.asks_gradients = walk.guards, walk.any_name or "grad" in walk.mentioned
        asked = [(k, tensor, text) for k, tensor in enumerate(tensors) for text in walk.questions()]
        # our own text
        self.answers = [(k, f"({text}) is {eval(text.replace('{}', 'x'), {'x': each})}") for k, each, text in asked]
        self.recorder = Recorder(
            tensors,
            {id(thing) for _, kind, thing in before.entries if kind == "is" and issubclass(type(thing), Tensor)},
        )
        self.recorder.postponing = not walk.asks_types
        self.recorder.moving = {holder for holder, name in without if name == "data"}
        self.contents, self.settings, self.set = (
            pytree.contents((arguments, named)),
            _settings(before.entries),
            False,
        )
        self.recorder.watch, self.recorder.itself, self.recorder.remains = self._watch, self._itself, self._remains
        self.recorder.reaches = self._reaches
        self.modes = dispatch.state.grad_enabled, dispatch.state.inference, dispatch.state.autocast
        self.streams = {
            default_generator,
            *(thing for _, _, thing in before.entries if issubclass(type(thing), Generator)),
        }
        self.histories = [
            (tensor.grad_fn, tensor.requires_grad, hooks_on(tensor), is_plain(tensor, False), attributes_of(tensor))
            for tensor in tensors
        ]
        self.returned: set[int] = set()  # ids of containers among the results
        # ids of the results' memory; by how many a tensor is shown: as itself, or as what they are views of
        self.shown: Counter[int] = Counter()
        # arguments whose gradients a backward pass inside computes, and whether they are leaves
        self.reached: dict[int, bool] = {}

    def run(self) -> Any:
        """The call's result.

        Where numbers that are not known yet are kept out of sight, as in a generator, what stands for them stays: it is
        the number to whatever uses it.
        """
        try:
            with self._recording(), self._reaching():
                outputs = self.function(*self.arguments, **self.named)
                self._count_shown(outputs)
                outputs = replace(outputs, self._returned, whole=self._whole)
        except BaseException:
            self._settle_numbers(frozenset())  # as the function has left them
            raise
        self._settle_numbers(self.without)
        if self.recorder.refuse_kept():
            self._settle_numbers(self.without, outputs)
            self._settle_elsewhere()
        if self.recorder.refused:
            self.recorder.show()
        return outputs

    def look_back(self, outputs: Any) -> None:
        """Find the `change` that the call made, or record the gradients of its result, where that needs some:

        `joint`.
        """
        self.recorder.has_fallback = False
        self.change = self._changed()
        with self._recording():
            self.joint = None if self.change else _differentiate(self.recorder, self.tensors, outputs)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Note which arguments a backward pass inside reaches.

        That it calls their hooks, or goes on, cannot be repeated: other calls' hooks and histories are others.
        """
        handles, beyond, hooked = [], set(), set()
        own = [
            (number, tensor)
            for number, tensor in enumerate(self.tensors)
            if tensor.requires_grad
            and id(tensor) not in self.recorder.outside
            and (id(tensor), "data") not in self.without
        ]
        for number, each in own:
            if not is_plain(each, False):
                hooked.add(number)
            leaf = each.grad_fn is None
            handles.append(
                (Tensor.register_hook if leaf else hook_on)(
                    each, lambda _, number=number, leaf=leaf: self.reached.update({number: leaf})
                )
            )
            if not leaf:
                handles.append(each.grad_fn.register_hook(lambda *_, number=number: beyond.add(number)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
        for number in sorted(beyond | hooked & self.reached.keys()):
            what = (
                f"goes on into what argument {number} was computed of"
                if number in beyond
                else f"calls the hooks of argument {number}"
            )
            self.recorder.give_up(
                f"compile: a backward pass inside {what}, which the next call's may not have; give it detached, or "
                "call backward outside the compiled function"
            )

    def _whole(self, container: Any) -> lazy_scalar.ScalarExpression | pytree.Given | None:
        """What stands for a container that is returned."""
        found = self._itself(container)
        if found is None and id(container) in self.returned:
            self.recorder.give_up(
                f"compile: the function returns a {type(container).__name__} twice, which a compiled function makes "
                "two of; return a copy"
            )
        self.returned.add(id(container))
        return found

    def _itself(self, container: Any) -> lazy_scalar.ScalarExpression | pytree.Given | None:
        """What stands for a container that the function was given, or reaches by itself, where a guard tells that it is
        the same at every run.
        """
        given = [
            number for number, each in enumerate(pytree.containers(self.arguments, self.named)) if each is container
        ]
        if len(given) > 1:
            self.recorder.give_up(
                f"compile: the function returns a {type(container).__name__} that it was given twice; return a copy "
                "of it"
            )
        if given:
            return pytree.Given(given[0])
        return (
            lazy_scalar.ScalarExpression("call", (lazy_scalar.Itself(container),))
            if self._is_guarded(container)
            else None
        )

    def _reaches(self, tensor: Tensor) -> bool:
        """Whether the function now reaches a tensor by itself: a buffer, say, that a module makes when it is first
        used.
        """
        return any(
            thing is tensor
            for _, kind, thing in snapshot.StateVisitor(self.function, self.roots, self.without).entries
            if kind == "is"
        )

    def _is_guarded(self, thing: Any) -> bool:
        return any(guard.same is thing for guard in self.guards)

    def _remains(self, thing: Any) -> bool:
        """Whether a thing is an argument, or the same at every run by a guard or a note; or a method of such a
        thing.
        """
        if issubclass(type(thing), types.MethodType):
            return self._remains(thing.__self__)
        noted = (each for _, kind, each in self.before.entries if kind == "is")
        return any(each is thing for each in itertools.chain(self.roots, noted)) or self._is_guarded(thing)

    def _count_shown(self, outputs: Any) -> None:
        found: dict[int, Any] = {}
        replace(outputs, lambda each: found.setdefault(id(each), each))
        tensors = [
            value
            for value in found.values()
            if type(value) is not lazy_scalar.LazyScalar and issubclass(type(value), Tensor)
        ]
        self.shown.update(id(shown) for tensor in tensors for shown in (tensor, tensor._base, tensor._storage))

    def _returned(self, each: Any) -> Any:
        """What stands for a result.

        That one is a view matters to the tape, and to who has more of what it is a view of.
        """
        if type(each) is lazy_scalar.LazyScalar:
            return lazy_scalar.reading_of(each)
        if not issubclass(type(each), Tensor):
            return each
        self.recorder.refuse_shown(each, self.shown.keys())
        base, outside = each._base, self.recorder.outside
        if self.recorder.refused or base is None or id(each) in outside or any(each is other for other in self.tensors):
            return each
        given = next((other for other in self.tensors if base is other or base is other._base), None)
        if given is None and id(base) not in outside and self.shown[id(base)] < 2 and not each.requires_grad:
            return each
        return lazy_scalar.ScalarExpression("view_of", (each, base if given is None else given, each._unrecorded))

    @contextmanager
    def _recording(self) -> Iterator[None]:
        dispatch.listeners.append(self.recorder)
        changes.watchers.append(self.recorder.assigned)
        LinAlgError.listeners.append(self.recorder.fail)
        try:
            yield
        finally:
            LinAlgError.listeners.remove(self.recorder.fail)
            dispatch.listeners.remove(self.recorder)
            changes.watchers.remove(self.recorder.assigned)

    def _settle_numbers(self, without: frozenset, outputs: Any = None) -> None:
        """Put values in the stead of what the function has put for them at places in Python: a sum of losses, say."""
        for holder, name, value in (
            snapshot.StateVisitor(self.function, [*self.roots, outputs], without).places
            if self.recorder.postponed
            else ()
        ):
            if snapshot.stands_for_numbers(value) and name is value:
                python_state.replace_member(holder, name, _known(value))
            elif snapshot.stands_for_numbers(value) and not issubclass(type(holder), (tuple, set, frozenset)):
                python_state.write_place(holder, _known(name), _known(value))

    def _settle_elsewhere(self) -> None:
        """The same in lists and dictionaries that the function reaches by ways that are not followed, such as the
        globals of a method it calls.
        """
        for each in self.recorder.kept():
            for holder in gc.get_referrers(each):
                for name, value in list(
                    holder.items() if type(holder) is dict else enumerate(holder) if type(holder) is list else ()
                ):
                    if value is each:
                        holder[name] = _known(value)

    def _changed(self) -> str | None:
        self.after = snapshot.StateVisitor(self.function, self.roots, self.without)
        found = snapshot.compare(self.before.entries, self.after.entries) or self._unseen()
        if found is None and (self.set or _settings(self.before.entries) != self.settings):
            found = "a setting of an optimizer's param_groups changes"
        if found is None and (kind := pytree.changed(self.contents)):
            found = f"what is in an argument, a {kind}, changes"
        if found is None:
            former, self.guards = self.guards, reach.quick(self.function, self.roots, self.without).guards
            found = snapshot.moved(former, self.guards)
        return found

    def _watch(self, asking: bool) -> None:
        """Tell what the function sets in optimizers' groups from what a schedule's step sets, which every run does
        again.
        """
        settings = _settings(self.before.entries)
        self.set |= asking and settings != self.settings
        self.settings = settings

    def _unseen(self) -> str | None:
        """What the call did that its steps do not show: a random stream begun anew, an argument that became part of the
        tape.
        """
        for tensor, (history, required, hooks, plain, attributes) in zip(self.tensors, self.histories):
            if tensor.grad_fn is not history:
                return "an argument is written in place where gradients are recorded"
            if tensor.requires_grad is not required:
                return "an argument's requires_grad is set"
            if hooks_on(tensor) != hooks or is_plain(tensor, False) is not plain:
                return "an argument is given a hook, or loses one"
            if [(key, id(value)) for key, value in attributes_of(tensor)] != [
                (key, id(value)) for key, value in attributes
            ]:
                return "an argument is given an attribute, or loses one"
        if (dispatch.state.grad_enabled, dispatch.state.inference, dispatch.state.autocast) != self.modes:
            return "the grad mode, or autocast, is left as another"
        return self._restarted()

    def _restarted(self) -> str | None:
        """Whether random streams do more than go on by what is drawn. Each run of a program draws what is next."""
        drawn = {
            id(each): each
            for step in self.recorder.program.steps
            for each in getattr(step, "inputs", ())
            if isinstance(each, Draw)
        }.values()
        if any(each.generator not in self.streams for each in drawn):
            return "a random generator is made"
        if self.recorder.restarted or len(self.recorder.drawn) != len(drawn):
            return "a random stream is begun anew or used outside tensors' operations"
        return None


@contextmanager
def _noted(strict: bool) -> Iterator[list[str]]:
    """What cannot be repeated ends the context, and is told in the list it yields; or raised, if `strict`.

    So does, without a word, what another thread disturbs: the next call is recorded.
    """
    found: list[str] = []
    try:
        yield found
    except source_location.CannotRepeat as error:
        if strict:
            raise
        found.append(str(error))
    except RuntimeError as error:
        if not is_disturbed(error):
            raise
        found.append("")


def _known(value: Any) -> Any:
    """A number that was not known, or a tuple with such, now that the function has ended."""
    if type(value) is lazy_scalar.LazyScalar:
        return replace(lazy_scalar.reading_of(value), lambda each: each, lazy_scalar.compute)
    return tuple(map(_known, value)) if snapshot.stands_for_numbers(value) else value


def _shared(
    entries: list[snapshot.Entry], tensors: tuple[Tensor, ...], without: frozenset
) -> dict[int, Storage] | None:
    """The memory of arguments that the function also reaches by itself (parameters given to `functional_call`, say), by
    their numbers.

    None where a tensor that it reaches is another part of that memory: which elements are which would not be known.
    """
    reached = [thing for _, kind, thing in entries if kind == "is" and issubclass(type(thing), Tensor)]
    found = {}
    for number, tensor in enumerate(tensors):
        same = [
            other
            for other in reached
            if other._storage is tensor._storage and not (other is tensor and (id(tensor), "data") in without)
        ]
        if any(other._offset != tensor._offset or other._layout is not tensor._layout for other in same):
            return None
        if same:
            found[number] = tensor._storage
    return found


def _settings(entries: list[snapshot.Entry]) -> list[dict]:
    """The numbers, and the identity of tensors, in the groups of all optimizers that the function reaches.

    Programs read them anew at every run, but do not write them.
    """
    optimizers = [thing for _, kind, thing in entries if kind == "is" and is_optimizer(thing)]
    numbers = lambda group: {key: each for key, each in group.items() if isinstance(each, (bool, int, float, tuple))}  # noqa: E731

    def tensors(group):
        return {f"{key}, a tensor": id(each) for key, each in group.items() if issubclass(type(each), Tensor)}

    return [numbers(group) | tensors(group) for optimizer in optimizers for group in optimizer.param_groups]


def _differentiate(recorder: Recorder, tensors: tuple[Tensor, ...], outputs: Any) -> tuple[tuple, Tape] | None:
    """Record the gradients of results that need them: (the gradients, what they are of and for)."""
    results: list[Tensor] = []

    def note(each: Any) -> None:
        if (
            not issubclass(type(each), Tensor)
            or id(each) in recorder.outside
            or any(each is other for other in (*results, *tensors))
        ):
            return  # what existed before has its own history
        if each.grad_fn is not None:
            results.append(each)

    replace(outputs, note)
    results = [result for result in results if _leaves([result], tensors) is not None]
    if not results:
        return None
    leaves = _leaves(results, tensors)
    seeds = [ones(result.shape, dtype=result.dtype, device=result.device) for result in results]
    for seed in seeds:
        recorder.add_input(seed)
    boundary = len(recorder.program.steps)
    numbers = {id(tensor): k for k, tensor in enumerate(tensors)}
    try:
        gradients = tuple(grad_up_to(results, leaves, seeds)) if leaves else ()
    except RuntimeError as error:  # of what backward needs and the function has overwritten: it may never be called
        raise source_location.CannotRepeat(
            f"compile: the gradients of the results cannot be computed: {error}"
        ) from error
    wanted = [numbers.get(id(leave), leave) for leave in leaves]
    return gradients, Tape(
        boundary, [recorder.numbers[id(result)] for result in results], wanted, *_dependence(results, leaves)
    )


def _dependence(results: list[Tensor], leaves: list[Tensor]) -> tuple[list[set[int]], list[set[int]], list[set[int]]]:
    """(for each leaf the numbers of the results that were computed of it, for each result those of the results that it
    was computed of, and those with which it shares nodes that saved tensors).
    """
    places, ends = [
        {(id(edge[0]), edge[1]): number for number, edge in enumerate(map(edge_to, each))} for each in (results, leaves)
    ]
    uses: list[set[int]] = [set() for _ in leaves]
    behind: list[set[int]] = [set() for _ in results]
    saving: list[set[int]] = [set() for _ in results]
    for number, result in enumerate(results):
        seen, waiting = set(), [edge_to(result)]
        while waiting:
            target, output = waiting.pop()
            place = id(target), output
            if place in ends:
                uses[ends[place]].add(number)
            elif place not in seen:
                seen.add(place)
                if getattr(target, "kept", True) or target.out or target.packed is not None:
                    saving[number].add(id(target))
                behind[number].add(places.get(place, number))
                waiting += [edge for edge in target.edges if edge is not None]
        behind[number].discard(number)
    return (
        uses,
        behind,
        [{number for number, other in enumerate(saving) if not own.isdisjoint(other)} for own in saving],
    )


def _leaves(results: list[Tensor], tensors: tuple[Tensor, ...]) -> list[Tensor] | None:
    """The leaves, and the given tensors, that the results depend on.

    None where the graph was already used up by a backward pass.
    """
    given = {(id(edge[0]), edge[1]): tensor for tensor in tensors if (edge := edge_to(tensor)) is not None}
    found: dict[int, Tensor] = {}
    seen, waiting = set(), [edge_to(result) for result in results]
    while waiting:
        target, number = waiting.pop()
        stop = given.get((id(target), number), target if isinstance(target, Tensor) else None)
        if stop is not None:
            found[id(stop)] = stop
        elif target not in seen:
            seen.add(target)
            if getattr(target, "kept", ()) is None and target.refill is None and target.packed is None:
                return None
            if target.hooks is not None and any(vars(target.hooks).values()):
                raise source_location.CannotRepeat(
                    "compile: a computed tensor has hooks or retains its gradient, which a compiled function does not "
                    "call; leave the function uncompiled"
                )
            waiting += [edge for edge in target.edges if edge is not None]
    return list(found.values())


def _refuse_hooks(entries: list[snapshot.Entry]) -> None:
    """Hooks on the gradients of modules inside would not be called.

    (Those of a compiled module itself are: they run around it.)

    Forward hooks are part of what is recorded, and their code is guarded like the function's own.
    """
    for name, _, thing in entries:
        if re.search(r"_backward_(pre_)?hooks\[", name) and callable(thing) and not name.startswith(_OWN_HOOKS):
            module, _, hook = name.rpartition(".")
            raise source_location.CannotRepeat(
                f"compile: {module} has a hook ({hook}), which a compiled function would not call; remove it, or "
                "compile the parts"
            )
