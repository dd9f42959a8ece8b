"""How a recorded call used `.grad` (accumulated, read or replaced gradients), and the guards that follow from it."""

from __future__ import annotations

from collections.abc import Callable

from ...core.tensor import Tensor
from ..guards.bytecode import mentions
from ..guards.guard import Guard
from ..guards.state_visitor import Entry, Place, identical_objects
from ..values.kinds import is_optimizer
from ..values.source_location import CannotRepeat, where
from .recorder import Recorder

SAME_MEMORY = "the memory of the gradient"  # prefix of the names of guards on the memory of gradients


class Gradients:
    """The gradients of leaves before a call. After the call, `settle` derives guards from them.

    - A function that neither changes nor mentions gradients gets no guards.
    - A gradient that existed and was not used is one that the function drops: any gradient may be there.
    - A gradient that was used must be the same memory at every run.
    - Where there was no gradient, there must be none.

    Gradients of `excluded` leaves are arguments, and may be different tensors at every run.
    """

    def __init__(
        self, function: Callable, entries: list[Entry], inputs: tuple[Tensor, ...], excluded: frozenset = frozenset()
    ) -> None:
        self.uses_gradients = mentions(function, "grad") or any(is_optimizer(obj) for obj in identical_objects(entries))
        tensors = [obj for obj in identical_objects(entries) if issubclass(type(obj), Tensor)]
        leaves = [tensor for tensor in tensors if tensor._requires_grad or tensor._grad is not None]
        self.before: dict[int, tuple[Tensor, Tensor | None]] = {id(leaf): (leaf, leaf._grad) for leaf in leaves}
        # other tensors, which may get a gradient
        self.others = [tensor for tensor in tensors if id(tensor) not in self.before]
        self.places: list[Place] = [(leaf, "grad") for leaf, _ in self.before.values()]
        self.arguments = {key for key in self.before if (key, "grad") in excluded}
        self.inputs = [
            (number, tensor, tensor._grad)
            for number, tensor in enumerate(inputs)
            if (id(tensor), "data") not in excluded
        ]
        self.guards: list[Guard] = []
        self.inputs_without: list[int] = []  # numbers of inputs that must have no gradient

    def settle(self, recorder: Recorder, function: Callable, is_read: bool) -> None:
        """Compare with the state after the call: fill `guards` and `inputs_without`, and record dropped gradients.

        `is_read`: whether code reads `.grad`, and so may have seen that there was none before it was dropped.
        """
        leaves = {**recorder.gradients.at_first_use, **self.before}
        self._record_new(recorder, leaves)
        is_touched = any(
            leaf._grad is not former or (former is not None and recorder.uses(former))
            for leaf, former in leaves.values()
        )
        if self.uses_gradients or is_read or is_touched:
            for leaf, former in leaves.values():
                self._settle_leaf(recorder, leaf, former, is_read)
        self.guards += [_presence_guard(leaf, False) for leaf in self.others if is_read and leaf._grad is None]
        for leaf in recorder.gradients.dropped_unseen.values():
            if leaf._grad is None:  # it is unused or frozen: other calls may find a gradient to drop
                recorder.drop_gradient(leaf)
        self._settle_inputs(recorder, function)

    def _record_new(self, recorder: Recorder, leaves: dict[int, tuple[Tensor, Tensor | None]]) -> None:
        """Record the gradients that the call has set."""
        others = ((tensor, None) for tensor in self.others)
        inputs = ((tensor, former) for _, tensor, former in self.inputs)
        for leaf, former in [*leaves.values(), *others, *inputs]:
            if leaf._grad is not None and leaf._grad is not former:
                recorder.set_gradient(leaf)

    def _settle_leaf(self, recorder: Recorder, leaf: Tensor, former: Tensor | None, is_read: bool) -> None:
        """Guard the gradient of a leaf as it was before the call, or record that the call dropped it."""
        use = recorder.gradients
        is_dropped = former is not None and leaf._grad is None
        if id(leaf) in self.arguments:
            if is_dropped:
                recorder.drop_gradient(leaf)
        elif former is None:
            is_needed = leaf._requires_grad and (is_read or id(leaf) not in use.dropped_unseen)
            if id(leaf) in use.checked or is_needed:
                self.guards.append(_presence_guard(leaf, False))
        elif recorder.uses(former):
            self.guards.append(_same_gradient_guard(leaf, former))
        else:
            if is_dropped:
                recorder.drop_gradient(leaf)
            if is_read or id(leaf) in use.checked:
                self.guards.append(_presence_guard(leaf, True))

    def _settle_inputs(self, recorder: Recorder, function: Callable) -> None:
        """Note the inputs that must have no gradient; refuse to change one that existed."""
        for number, tensor, former in self.inputs:
            if former is None and tensor._grad is not None and id(tensor) not in recorder.gradients.dropped_unseen:
                self.inputs_without.append(number)
            elif former is not None and (recorder.uses(former) or tensor._grad is not former):
                raise CannotRepeat(
                    "compile: an argument had a gradient before the call, and the gradient is changed "
                    f"{where('backward', {}, function)} which a compiled function cannot repeat; set it to None before "
                    "the call, or leave the function uncompiled"
                )


def _presence_guard(leaf: Tensor, is_present: bool) -> Guard:
    text = f"{{0}}._grad is {'not ' if is_present else ''}None"
    return Guard(f"the gradient of a {tuple(leaf.shape)} parameter", text, (leaf,))


def _same_gradient_guard(leaf: Tensor, gradient: Tensor) -> Guard:
    return Guard(
        f"{SAME_MEMORY} of a {tuple(leaf.shape)} parameter",
        "{0}._grad is not None and {0}._grad._storage is {1} and {0}._grad._layout is {2}",
        (leaf, gradient._storage, gradient._layout),
    )
