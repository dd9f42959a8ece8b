"""Hooks that run when a module is called, differentiated, saved, loaded, or registers a part.

A hook is stored in an ordered dictionary under a number, and its handle removes it again. Each kind of hook has a
dictionary per module; some kinds have a global one for all modules, whose hooks run first. This file registers hooks;
`calling.py` and `state.py` run them.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..core import changes

_BOTH_KINDS = (
    "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only one of them."
)

if TYPE_CHECKING:
    from .module import Module

__all__ = [
    "RemovableHandle",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]  # fmt: skip


class Hooks(changes.NotedDict):
    """The hooks of one kind, by number, in execution order."""

    in_use = False  # whether any hook was ever registered in this process; until then calls skip the check

    def __setitem__(self, number: int, hook: Any) -> None:
        Hooks.in_use = True
        RemovableHandle.next_id = max(RemovableHandle.next_id, number + 1)  # unpickled hooks keep their numbers
        super().__setitem__(number, hook)

    def __deepcopy__(self, memo: dict) -> Hooks:
        result = Hooks()
        for number, hook in self.items():
            result[number] = copy.deepcopy(hook, memo)
        return result


KINDS = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks",
    "_state_dict_hooks_in_place", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks_with_module", "_load_state_dict_post_hooks",
)  # fmt: skip


class RemovableHandle:
    """Removes a hook: by `handle.remove()`, or on leaving a `with` block.

    Pickled together with its module, it still removes the hook of the copy.

    Example:

        >>> handle = nn.ReLU().register_forward_hook(lambda module, inputs, output: None)
        >>> handle.remove()
    """

    next_id = 0

    def __init__(self, hooks_dict: dict, *, extra_dict: dict | Sequence[dict] | None = None) -> None:
        others = () if extra_dict is None else (extra_dict,) if isinstance(extra_dict, dict) else extra_dict
        self._references = [weakref.ref(hooks) for hooks in (hooks_dict, *others)]
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        for reference in self._references:
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)
        changes.note()

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    def __getstate__(self) -> tuple:
        return [reference() for reference in self._references], self.id

    def __setstate__(self, state: tuple) -> None:
        dictionaries, self.id = state
        self._references = [weakref.ref(hooks) for hooks in dictionaries if hooks is not None]
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)


def register(
    hooks: Hooks, hook: Callable, prepend: bool = False, options: Sequence[tuple[Hooks, bool]] = ()
) -> RemovableHandle:
    """Add `hook`, last or first. `options`: pairs of a dictionary that records an option, and whether it is set."""
    if not callable(hook):
        raise TypeError(f"expected a hook that can be called, got {type(hook).__name__}")
    handle = RemovableHandle(hooks, extra_dict=[option_hooks for option_hooks, _ in options])
    hooks[handle.id] = hook
    for option_hooks, on in options:
        if on:
            option_hooks[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


# ---- hooks of all modules
# ----------------------------------------------------------------------------------------------

registration = {"parameter": Hooks(), "buffer": Hooks(), "module": Hooks()}
forward_pre, forward, forward_with_kwargs, forward_always_called = Hooks(), Hooks(), Hooks(), Hooks()
backward_pre, backward = Hooks(), Hooks()
changes.global_hooks += [forward_pre, forward, backward_pre, backward]


def register_module_parameter_registration_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(module, name, parameter)` when a module registers a parameter; a result replaces it."""
    return register(registration["parameter"], hook)


def register_module_buffer_registration_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(module, name, buffer)` when a module registers a buffer; a result replaces it."""
    return register(registration["buffer"], hook)


def register_module_module_registration_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(module, name, submodule)` when a module registers a submodule; a result replaces it."""
    return register(registration["module"], hook)


def register_module_forward_pre_hook(hook: Callable) -> RemovableHandle:
    """`Module.register_forward_pre_hook` for all modules.

    Example:

        >>> handle = nn.modules.module.register_module_forward_pre_hook(lambda module, inputs: print(module))
        >>> nn.ReLU()(torch.tensor([-1.0]))
        ReLU()
        tensor([0.])
        >>> handle.remove()
    """
    return register(forward_pre, hook)


def register_module_forward_hook(
    hook: Callable, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """`Module.register_forward_hook` for all modules.

    Example:

        >>> handle = nn.modules.module.register_module_forward_hook(lambda module, inputs, output: print(module))
        >>> nn.ReLU()(torch.tensor([-1.0]))
        ReLU()
        tensor([0.])
        >>> handle.remove()
    """
    options = (forward_with_kwargs, with_kwargs), (forward_always_called, always_call)
    return register(forward, hook, options=options)


def register_module_full_backward_pre_hook(hook: Callable) -> RemovableHandle:
    """`Module.register_full_backward_pre_hook` for all modules."""
    return register(backward_pre, hook)


def register_module_full_backward_hook(hook: Callable) -> RemovableHandle:
    """`Module.register_full_backward_hook` for all modules."""
    return register(backward, hook)


def register_module_backward_hook(hook: Callable) -> RemovableHandle:
    """The old name of `register_module_full_backward_hook`."""
    return register_module_full_backward_hook(hook)


def passed_through(kind: str, module: Module, name: str, value: Any) -> Any:
    """`value` after the global registration hooks of this kind."""
    for hook in registration[kind].values():
        replacement = hook(module, name, value)
        value = value if replacement is None else replacement
    return value


# ---- hooks of one module
# -----------------------------------------------------------------------------------------------


class Hookable:
    """The methods of Module that register hooks, with the hooks' arguments and results.

    `calling.py` and `state.py` run them.
    """

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before `forward`; a result, a value or a tuple, replaces the arguments.

        With `with_kwargs` it is `hook(module, args, kwargs)`, returning None or `(args, kwargs)`.
        """
        options = [(self._forward_pre_hooks_with_kwargs, with_kwargs)]
        return register(self._forward_pre_hooks, hook, prepend, options)

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after `forward`; a result replaces the output.

        With `with_kwargs` it is `hook(module, args, kwargs, output)`; with `always_call` it is called even after an
        exception.
        """
        options = [(self._forward_hooks_with_kwargs, with_kwargs), (self._forward_hooks_always_called, always_call)]
        return register(self._forward_hooks, hook, prepend, options)

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` when the gradient of the output is known; a returned tuple replaces it."""
        return register(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the inputs' gradients are known; a tuple replaces them.
        Both are tuples, `grad_input` over the positional arguments, with None for values that are not tensors. If no
        input requires a gradient, all are None. The output may be a tensor or a tuple, list or dict of tensors. A
        module that modifies its input in place raises RuntimeError, since the gradient of the input would be lost.
        """
        if self._is_full_backward_hook is False:
            raise RuntimeError(_BOTH_KINDS)
        self._is_full_backward_hook = True
        return register(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """Deprecated: registers a full backward hook. A module can have hooks of only one of the two names."""
        if self._is_full_backward_hook is True:
            raise RuntimeError(_BOTH_KINDS)
        self._is_full_backward_hook = False
        return register(self._backward_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before the module's state is collected."""
        return register(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after collecting state; it may change the dict."""
        return register(self._state_dict_hooks, hook, options=[(self._state_dict_hooks_in_place, True)])

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        return register(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call a hook before loading.

        Its arguments are those of `Module._load_from_state_dict`: `hook(module, state_dict, prefix, local_metadata,
        strict, missing_keys, unexpected_keys, error_msgs)`.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook: Callable, with_module: bool = False) -> RemovableHandle:
        return register(
            self._load_state_dict_pre_hooks, hook, options=[(self._load_state_dict_pre_hooks_with_module, with_module)]
        )

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading. It may change the two lists of keys in place."""
        return register(self._load_state_dict_post_hooks, hook)
