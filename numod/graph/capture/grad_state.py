"""How a recorded call used `.grad` (accumulated, read or replaced gradients), and the guards on it that follow."""

from __future__ import annotations

from collections.abc import Callable

from ...core.tensor import Tensor
from ..values import source_location
from ..guards.guard import Guard
from ..guards.snapshot import Entry, Place
from ..values.kinds import is_optimizer
from ..guards.bytecode import mentions
from .recorder import Recorder

SAME_MEMORY = "the memory of the gradient"  # prefix of guards that depend on gradients


class Gradients:
    """The gradients of leaves before a call.

    `settle`, after it, gives the conditions under which the program does what the function would do.

    A function that neither changes nor mentions gradients does not concern itself with them. A gradient that was there
    and was not looked at is one the function drops, so anything may be there. One that it used must be the same memory
    at every run; and where there was none there must be none. The gradients of leaves `without` are given, and may be
    others at every run.
    """

    def __init__(
        self, function: Callable, entries: list[Entry], inputs: tuple[Tensor, ...], without: frozenset = frozenset()
    ) -> None:
        self.concerned = mentions(function, "grad") or any(
            entry[1] == "is" and is_optimizer(entry[2]) for entry in entries
        )
        tensors = [thing for _, kind, thing in entries if kind == "is" and issubclass(type(thing), Tensor)]
        leaves = [tensor for tensor in tensors if tensor._requires_grad or tensor._grad is not None]
        self.before: dict[int, tuple[Tensor, Tensor | None]] = {id(leave): (leave, leave._grad) for leave in leaves}
        # which need none, but may be given one
        self.others = [(tensor, None) for tensor in tensors if id(tensor) not in self.before]
        self.places: list[Place] = [(each, "grad") for each, _ in self.before.values()]
        self.given = {key for key in self.before if (key, "grad") in without}
        self.inputs = [
            (number, input, input._grad) for number, input in enumerate(inputs) if (id(input), "data") not in without
        ]
        self.guards: list[Guard] = []
        self.inputs_without: list[int] = []

    def settle(self, recorder: Recorder, function: Callable, asked: bool) -> None:
        """Compare with the state after the call: fill `guards` and `inputs_without`, and make the program drop the
        gradients that the function dropped. Where code `asked` for gradients, it may have seen that there was none
        before it was dropped.
        """
        leaves = {**recorder.found, **self.before}
        for leaf, gradient in [*leaves.values(), *self.others, *((each, former) for _, each, former in self.inputs)]:
            if leaf._grad is not None and leaf._grad is not gradient:
                recorder.set_gradient(leaf)
        touched = [
            leaf._grad is not gradient or (gradient is not None and recorder.holds(gradient))
            for leaf, gradient in leaves.values()
        ]
        concerned = self.concerned or asked or any(touched)
        for leaf, gradient in leaves.values() if concerned else ():
            if id(leaf) in self.given:
                if gradient is not None and leaf._grad is None:
                    recorder.drop_gradient(leaf)
            elif gradient is None:
                if id(leaf) in recorder.asked_about or (
                    leaf._requires_grad and (asked or id(leaf) not in recorder.indifferent)
                ):
                    self.guards.append(_whether_there_is(leaf, False))
            elif recorder.holds(gradient):
                self.guards.append(_same_gradient(leaf, gradient))
            else:
                if leaf._grad is None:
                    recorder.drop_gradient(leaf)
                if asked or id(leaf) in recorder.asked_about:
                    self.guards.append(_whether_there_is(leaf, True))
        self.guards += [_whether_there_is(each, False) for each, _ in self.others if asked and each._grad is None]
        for leaf in recorder.indifferent.values():
            if leaf._grad is None:  # it takes no part, or is frozen: other calls may find a gradient to drop
                recorder.drop_gradient(leaf)
        for number, each, gradient in self.inputs:
            if gradient is None and each._grad is not None and id(each) not in recorder.indifferent:
                self.inputs_without.append(number)
            elif gradient is not None and (recorder.holds(gradient) or each._grad is not gradient):
                raise source_location.CannotRepeat(
                    "compile: an argument's gradient is added to, or replaced, "
                    f"{source_location.where('backward', {}, function)} where it had one; "
                    "set it to None before the call, or leave the function uncompiled"
                )


def _whether_there_is(leaf: Tensor, found: bool) -> Guard:
    return Guard(
        f"the gradient of a {tuple(leaf.shape)} parameter", f"{{0}}._grad is {'not ' if found else ''}None", (leaf,)
    )


def _same_gradient(leaf: Tensor, gradient: Tensor) -> Guard:
    name = f"{SAME_MEMORY} of a {tuple(leaf.shape)} parameter"
    return Guard(
        name,
        "{0}._grad is not None and {0}._grad._storage is {1} and {0}._grad._layout is {2}",
        (leaf, gradient._storage, gradient._layout),
    )
