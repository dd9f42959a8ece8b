"""Pruning: a parameter is multiplied by a mask of zeros and ones before every call of its module.

The parameter moves to `<name>_orig`, the mask becomes the buffer `<name>_mask`, and a forward pre-hook computes
`<name>` as their product. Pruning can be repeated: a `PruningContainer` stores the methods, and each receives the
entries that earlier ones have left. `prune_methods.py` has the methods.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...core import Tensor, ones_like
from ..module import Module
from .prune_methods import (
    BasePruningMethod, CustomFromMask, Identity, L1Unstructured, LnStructured, PruningContainer, RandomStructured,
    RandomUnstructured, hooks_on,
)  # fmt: skip
from .prune_methods import _compute_nparams_toprune, _validate_pruning_amount, _validate_pruning_amount_init  # noqa: F401  for own methods
from .vector import parameters_to_vector

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
    "shrink",
]  # fmt: skip


def identity(module: Module, name: str) -> Module:
    """Set up pruning of `module.<name>` without pruning anything."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: int | float) -> Module:
    """Prune `amount` of the entries of `module.<name>` at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: int | float, importance_scores: Tensor | None = None) -> Module:
    """Prune the `amount` of entries of `module.<name>` with the smallest absolute values.

    `importance_scores` replace the values in the comparison.
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: int | float, dim: int) -> Module:
    """Prune `amount` of the channels of `module.<name>` along `dim` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: int | float, n: float | str, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the `amount` of channels of `module.<name>` along `dim` with the smallest norm of order `n`."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune `module.<name>` where `mask` is zero."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters, given as (module, name), as one: `amount` counts over all of them.

    `importance_scores` may contain, by (module, name), scores to compare instead of the parameters' values.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    importance_scores = {} if importance_scores is None else importance_scores
    if not isinstance(importance_scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = [(module, name, getattr(module, name)) for module, name in parameters]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of '
            f"type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "all of them"
    scores = parameters_to_vector([importance_scores.get((module, name), value) for module, name, value in parameters])
    masks = parameters_to_vector(
        [getattr(module, f"{name}_mask", ones_like(value)) for module, name, value in parameters]
    )
    mask, start = PruningContainer(method).compute_mask(scores, masks), 0
    for module, name, value in parameters:
        custom_from_mask(module, name, mask=mask[start : start + value.numel()].view_as(value))
        start += value.numel()


def remove(module: Module, name: str) -> Module:
    """Make the pruning of `module.<name>` permanent and restore its names. Raises ValueError if it is not pruned."""
    for number, hook in hooks_on(module, name).items():
        hook.remove(module)
        del module._forward_pre_hooks[number]
        return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether the module or a submodule has a pruned parameter."""
    return any(
        isinstance(hook, BasePruningMethod) for part in module.modules() for hook in part._forward_pre_hooks.values()
    )


def shrink(model: Module, example: Any) -> Module:
    """A smaller copy of a pruned model in evaluation mode, with the same outputs: removed channels are cut out.

    A channel of a linear layer or convolution is removed if all its weights are zero, as after `ln_structured` with
    `dim=0`. It is cut if batch norms, activations, pooling (also `F.max_pool2d` and `x.mean((2, 3))`), dropout and
    changes of shape lie between this layer and the next linear layer or convolution, and nothing else reads it; that
    layer's bias takes over what a constant channel added. Where the model's code has sizes as numbers, as in
    `x.view(-1, 400)`, the channels before all changes of shape by `view` stay.
    Channels of residual sums, of shared modules and of grouped convolutions stay. Pruned parameters become plain ones.

    `example` is an input of the model, or a tuple of inputs. The model runs at least twice with it. Raises RuntimeError
    if the model is in training mode, or if the smaller model does not compute the same outputs, and TypeError if the
    outputs are objects of other classes than tensors, numbers, tuples, lists, dicts and dataclasses.

    Example:

        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
        >>> model[0] = nn.utils.prune.ln_structured(model[0], "weight", amount=0.5, n=2, dim=0)
        >>> nn.utils.prune.shrink(model, torch.randn(1, 4))
        Sequential(
          (0): Linear(in_features=4, out_features=4, bias=True)
          (1): ReLU()
          (2): Linear(in_features=4, out_features=2, bias=True)
        )
    """
    from .shrink import shrink as shrunk  # layers import this package

    return shrunk(model, example)
