"""Parameters that a hook computes before each call of a module: by pruning, `weight_norm` and `spectral_norm`."""

from __future__ import annotations

from typing import Any

from ...core import Tensor
from ..hooks import KINDS
from ..module import Module
from ..parameter import Parameter
from .prune_methods import BasePruningMethod
from .spectral_norm import SpectralNorm, remove_spectral_norm
from .weight_norm import WeightNorm, remove_weight_norm


HOOKS = BasePruningMethod, SpectralNorm, WeightNorm


def computes_parameter(hook: Any) -> bool:
    """Whether a forward pre-hook computes a parameter."""
    return isinstance(hook, HOOKS)


def make_plain(module: Module, kinds: tuple[type, ...] = HOOKS) -> dict[str, Tensor]:
    """Make the parameters that these hooks compute plain ones, and return the masks of those that are left, by name.

    The original parameters stay as they are: other modules may share them.
    """
    masks = {}
    hooks = [(number, hook) for number, hook in module._forward_pre_hooks.items() if isinstance(hook, kinds)]
    hooks.sort(key=lambda entry: not isinstance(entry[1], BasePruningMethod))  # norms have parameters that are pruned
    for number, hook in hooks:
        if isinstance(hook, BasePruningMethod):
            masks[hook._tensor_name] = module._buffers[f"{hook._tensor_name}_mask"]
            del module._forward_pre_hooks[number]
            _make_pruned_plain(module, hook)
        elif isinstance(hook, WeightNorm):
            remove_weight_norm(module, hook.name)
        else:
            remove_spectral_norm(module, hook.name)
    return {name: mask for name, mask in masks.items() if name in module._parameters}


def _make_pruned_plain(module: Module, hook: BasePruningMethod) -> None:
    name = hook._tensor_name
    value = hook.apply_mask(module).detach()
    vars(module).pop(name, None)
    requires_grad = module._parameters.pop(f"{name}_orig").requires_grad
    del module._buffers[f"{name}_mask"]
    setattr(module, name, Parameter(value, requires_grad=requires_grad))


def plain(module: Module) -> tuple[Module, dict[str, Tensor]]:
    """The module, or a copy with plain parameters where hooks compute some; and the masks of pruned ones, by name."""
    if not any(map(computes_parameter, module._forward_pre_hooks.values())):
        return module, {}
    result = shallow_copy(module, dict(module._modules))
    return result, make_plain(result)


def copy_pre_hooks(source: Module, target: Module, without: tuple = ()) -> None:
    """Register a module's forward pre-hooks for another one, but some, and those that compute parameters."""
    with_kwargs = source._forward_pre_hooks_with_kwargs
    for number, hook in source._forward_pre_hooks.items():
        if hook not in without and not computes_parameter(hook):
            target.register_forward_pre_hook(hook, with_kwargs=number in with_kwargs)


def copy_forward_hooks(source: Module, target: Module, without: tuple = ()) -> None:
    """Register a module's forward hooks for another one, but some."""
    with_kwargs, always = source._forward_hooks_with_kwargs, source._forward_hooks_always_called
    for number, hook in source._forward_hooks.items():
        if hook not in without:
            target.register_forward_hook(hook, with_kwargs=number in with_kwargs, always_call=number in always)


def shallow_copy(module: Module, modules: dict[str, Module | None]) -> Module:
    """A module with the same state and other submodules. Its hooks can be changed, and its registered names."""
    result = object.__new__(type(module))
    hooks = {name: type(value)(value) for name, value in module.__dict__.items() if name in KINDS}
    result.__setstate__({**module.__dict__, **hooks, "_modules": modules})
    return result
