"""Functional calls of modules with given parameters and buffers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ..core import Tensor, stack
from ..nn.module import Module
from ..nn.normalization import _BatchNorm
from ..nn.utils.stateless import call_with

__all__ = ["functional_call", "functionalize", "stack_module_state"]


def functionalize(func: Callable, *, remove: str = "mutations") -> Callable:
    """Return `func`. PyTorch removes in-place writes for its compilers; numod's supports them.

    Raises RuntimeError for an invalid `remove`.

    Example:

        >>> torch.func.functionalize(lambda x: x.clone().add_(1))(torch.ones(2))
        tensor([2., 2.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are "
            "'mutations_and_views'."
        )
    return func


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`module(*args, **kwargs)` with other tensors in place of its own, by dotted name, for this call only.

    A tensor for one name of a tied parameter is used for all its names unless `tie_weights=False`. With `strict`
    exactly all parameters and buffers must be given. Buffers that the call replaces are stored in the dictionary.

    Example:

        >>> from numod.func import functional_call
        >>> net = nn.Linear(2, 1, bias=False)
        >>> functional_call(net, {"weight": torch.ones(1, 2)}, (torch.ones(1, 2),))
        tensor([[2.]])
    """
    tensors = _as_one(parameter_and_buffer_dicts)
    return call_with(module, tensors, args, kwargs, tie_weights, strict)


def _as_one(dicts: Any) -> dict[str, Tensor]:
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, Sequence):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}"
        )
    if not all(isinstance(dict_, dict) for dict_ in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    repeated = [name for name, times in Counter(name for dict_ in dicts for name in dict_).items() if times > 1]
    if repeated:
        raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return {name: tensor for dict_ in dicts for name, tensor in dict_.items()}


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and buffers of modules of one class, each stacked along a new first dimension.

    The stacked parameters are leaves.

    Example:

        >>> params, buffers = torch.func.stack_module_state([nn.Linear(2, 3), nn.Linear(2, 3)])
        >>> params["weight"].shape
        numod.Size([2, 3, 2])
    """
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = _stacked([dict(model.named_parameters()) for model in models])
    buffers = _stacked([dict(model.named_buffers()) for model in models])
    return parameters, buffers


def _stacked(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: _stacked_leaf([state[name] for state in states], name) for name in states[0]}


def _stacked_leaf(tensors: list[Tensor], name: str) -> Tensor:
    if len({tensor.requires_grad for tensor in tensors}) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    result = stack(tensors)
    return result.detach().requires_grad_() if tensors[0].requires_grad else result


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Remove the running statistics of the batch norms in `root`, which `vmap` could not update. Returns `root`.

    Example:

        >>> net = torch.func.replace_all_batch_norm_modules_(nn.BatchNorm1d(3))
        >>> net.running_mean is None
        True
    """
    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
