"""Finds the changes of Python state that a recorded call made and that its steps do not contain."""

from __future__ import annotations

from typing import Any

from ...core import apply as dispatch
from ...core.create.generator import Draw, Generator, default_generator
from ...core.tensor import Tensor
from ..guards.snapshot import compare
from ..guards.state_visitor import Entry, StateVisitor, identical_objects
from ..values import pytree
from ..values.kinds import attributes_of, hooks_on, is_optimizer, is_plain
from .recorder import Recorder


class CallChanges:
    """The state before a call: of reachable objects (`before`), of the arguments, of modes and of random streams."""

    def __init__(self, before: StateVisitor, args: tuple, kwargs: dict, tensors: tuple[Tensor, ...]) -> None:
        self.before, self.tensors = before, tensors
        self._contents = pytree.contents((args, kwargs))
        self._settings, self._sets_settings = _settings(before.entries), False  # of optimizers
        self._modes = _modes()
        generators = (obj for _, _, obj in before.entries if issubclass(type(obj), Generator))
        self._streams = {default_generator, *generators}
        self._input_states = [_input_state(tensor) for tensor in tensors]

    def watch_settings(self, are_read: bool) -> None:
        """Note whether the function itself sets optimizers' settings. Each run repeats the step of a schedule."""
        settings = _settings(self.before.entries)
        self._sets_settings |= are_read and settings != self._settings
        self._settings = settings

    def find(self, after: StateVisitor, recorder: Recorder) -> str | None:
        """The first change, in words, or None."""
        change = (
            compare(self.before.entries, after.entries)
            or self._input_change()
            or _random_change(recorder, self._streams)
        )
        if change is None and (self._sets_settings or _settings(self.before.entries) != self._settings):
            return "a setting of an optimizer's param_groups changes"
        if change is None and (kind := pytree.changed(self._contents)):
            return f"the contents of an argument, a {kind}, change"
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


def _random_change(recorder: Recorder, streams: set[Generator]) -> str | None:
    """A change of random streams other than draws by steps. Each run draws the next numbers."""
    draws = {
        id(input): input
        for step in recorder.program.steps
        for input in getattr(step, "inputs", ())
        if isinstance(input, Draw)
    }
    if any(draw.generator not in streams for draw in draws.values()):
        return "a random generator is created"
    if recorder.is_reseeded or len(recorder.drawn) != len(draws):
        return "a random stream is restarted, or used outside tensor operations"
    return None


def _modes() -> tuple:
    return dispatch.state.grad_enabled, dispatch.state.inference, dispatch.state.autocast


def _input_state(tensor: Tensor) -> tuple:
    return tensor.grad_fn, tensor.requires_grad, hooks_on(tensor), is_plain(tensor, False), attributes_of(tensor)


def _ids(attributes: list[tuple[str, Any]]) -> list[tuple[str, int]]:
    return [(key, id(value)) for key, value in attributes]


def _settings(entries: list[Entry]) -> list[dict]:
    """The numbers and identities of tensors in the groups of all reachable optimizers.

    A program reads them at every run, but does not write them.
    """
    optimizers = [obj for obj in identical_objects(entries) if is_optimizer(obj)]
    return [_group_settings(group) for optimizer in optimizers for group in optimizer.param_groups]


def _group_settings(group: dict) -> dict:
    settings = {key: value for key, value in group.items() if isinstance(value, (bool, int, float, tuple))}
    tensors = {f"{key}, a tensor": id(value) for key, value in group.items() if issubclass(type(value), Tensor)}
    return settings | tensors
