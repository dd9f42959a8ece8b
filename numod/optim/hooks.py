"""Hooks around steps, `state_dict` and `load_state_dict`, of one optimizer or of all."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from itertools import chain
from typing import Any

from ..autograd import Handle
from ..core import changes


_before_any_step, _after_any_step = changes.NotedDict(), changes.NotedDict()
changes.global_hooks += [_before_any_step, _after_any_step]


class Hooked:
    """An optimizer's hooks, with PyTorch's names. A subclass's `step` is wrapped, so that hooks run around it."""

    def __init__(self) -> None:
        for when in (
            "step_pre",
            "step_post",
            "state_dict_pre",
            "state_dict_post",
            "load_state_dict_pre",
            "load_state_dict_post",
        ):
            setattr(self, f"_optimizer_{when}_hooks", changes.NotedDict())

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            cls.step = _around_step(cls.step)

    def register_step_pre_hook(self, hook: Callable) -> Handle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return new (args, kwargs).

        `args` begins with the optimizer.
        """
        return Handle.add(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> Handle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return Handle.add(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """Call `hook(optimizer)` before `state_dict()`."""
        return _add(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """Call `hook(optimizer, state_dict)` with the result of `state_dict()`; it may return a replacement."""
        return _add(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """Call `hook(optimizer, state_dict)` with a shallow copy of the dict to load; it may return a replacement."""
        return _add(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """Call `hook(optimizer)` after `load_state_dict`."""
        return _add(self._optimizer_load_state_dict_post_hooks, hook, prepend)


def register_optimizer_step_pre_hook(hook: Callable) -> Handle:
    """Call `hook(optimizer, args, kwargs)` before each step of any optimizer."""
    return Handle.add(_before_any_step, hook)


def register_optimizer_step_post_hook(hook: Callable) -> Handle:
    """Call `hook(optimizer, args, kwargs)` after each step of any optimizer."""
    return Handle.add(_after_any_step, hook)


def through(hooks: OrderedDict[int, Callable], optimizer: Hooked, value: Any) -> Any:
    """`value` after each hook had the chance to replace it."""
    for hook in hooks.values():
        replacement = hook(optimizer, value)
        value = value if replacement is None else replacement
    return value


def _add(hooks: OrderedDict[int, Callable], hook: Callable, prepend: bool) -> Handle:
    handle = Handle.add(hooks, hook)
    if prepend:
        hooks.move_to_end(next(reversed(hooks)), last=False)
    return handle


def _around_step(step: Callable) -> Callable:
    """An optimizer's `step` that runs the hooks before and after it."""
    if getattr(step, "hooked", False):
        return step

    @wraps(step)
    def hooked(self: Hooked, *args: Any, **kwargs: Any) -> Any:
        # an optimizer that wraps another one and never called Optimizer.__init__
        if "_optimizer_step_pre_hooks" not in vars(self):
            return step(self, *args, **kwargs)
        args = (self, *args)  # PyTorch's hooks receive the optimizer among the arguments, too
        for hook in chain(_before_any_step.values(), self._optimizer_step_pre_hooks.values()):
            replacement = hook(self, args, kwargs)
            if replacement is not None and not (isinstance(replacement, tuple) and len(replacement) == 2):
                raise RuntimeError(
                    f"{step} must return None or a tuple of (new_args, new_kwargs), but got {replacement}."
                )
            args, kwargs = (args, kwargs) if replacement is None else replacement
        result = step(*args, **kwargs)
        for hook in chain(self._optimizer_step_post_hooks.values(), _after_any_step.values()):
            hook(self, args, kwargs)
        return result

    hooked.hooked = True
    return hooked
