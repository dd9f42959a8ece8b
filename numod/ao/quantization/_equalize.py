"""Equalization across layers: the ranges of a layer's output channels become those of the next layer's inputs.

Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction, section 4.1. The function of
both layers stays the same where only a ReLU (or another function with f(s x) = s f(x) for s > 0) is between them.
"""

from __future__ import annotations

import copy
from typing import Any

from ...core import Tensor, zeros
from ...nn import Conv1d, Conv2d, Linear
from ...nn.module import Module
from ...nn.parameter import Parameter
from ..nn.intrinsic import ConvReLU1d, ConvReLU2d, LinearReLU

__all__ = [
    "channel_range", "converged", "cross_layer_equalization", "equalize", "expand_groups_in_paired_modules_list",
    "get_module_bias", "get_module_weight", "get_name_by_module", "has_bias", "max_over_ndim", "min_over_ndim",
    "process_paired_modules_list_to_name", "set_module_bias", "set_module_weight",
]  # fmt: skip

_supported_types = {Conv1d, Conv2d, Linear}
_supported_intrinsic_types = {ConvReLU1d, ConvReLU2d, LinearReLU}
_all_supported_types = _supported_types | _supported_intrinsic_types


def _layer(module: Module) -> Module:
    """The layer with the weight: the module, or the first of a fused pair."""
    return module if type(module) in _supported_types else module[0]


def set_module_weight(module: Module, weight: Tensor) -> None:
    """Make a tensor the weight of a layer."""
    _layer(module).weight = Parameter(weight)


def set_module_bias(module: Module, bias: Tensor) -> None:
    """Make a tensor the bias of a layer."""
    _layer(module).bias = Parameter(bias)


def has_bias(module: Module) -> bool:
    """Whether a layer has a bias."""
    return get_module_bias(module) is not None


def get_module_weight(module: Module) -> Tensor:
    """The weight of a layer."""
    return _layer(module).weight


def get_module_bias(module: Module) -> Tensor | None:
    """The bias of a layer."""
    return _layer(module).bias


def max_over_ndim(input: Tensor, axis_list: list[int], keepdim: bool = False) -> Tensor:
    """The maximum over several dimensions."""
    return input.amax(axis_list, keepdim) if axis_list else input


def min_over_ndim(input: Tensor, axis_list: list[int], keepdim: bool = False) -> Tensor:
    """The minimum over several dimensions."""
    return input.amin(axis_list, keepdim) if axis_list else input


def channel_range(input: Tensor, axis: int = 0) -> Tensor:
    """The difference between the greatest and the least value of each channel."""
    others = [dim for dim in range(input.ndim) if dim != axis]
    return max_over_ndim(input, others) - min_over_ndim(input, others)


def get_name_by_module(model: Module, module: Module) -> str:
    """The path of a module in a model. Raises ValueError where it is no part of it."""
    for name, part in model.named_modules():
        if part is module:
            return name
    raise ValueError("module is not in the model")


def cross_layer_equalization(module1: Module, module2: Module, output_axis: int = 0, input_axis: int = 1) -> None:
    """Scale the output channels of one layer, and the next layer's inputs by the inverse, so that their ranges agree.

    Example:

        >>> from numod.ao.quantization._equalize import cross_layer_equalization
        >>> first, second = torch.nn.Linear(2, 3), torch.nn.Linear(3, 4)
        >>> x = torch.ones(1, 2)
        >>> before = second(first(x))
        >>> cross_layer_equalization(first, second)
        >>> torch.allclose(second(first(x)), before, atol=1e-5)
        True
    """
    if not {type(module1), type(module2)} <= _all_supported_types:
        raise ValueError(
            f"module type not supported: {type(module1)} {type(module2)}; equalize Linear, Conv1d and Conv2d, or these "
            "fused with a ReLU"
        )
    weight1, weight2 = get_module_weight(module1), get_module_weight(module2)
    if weight1.shape[output_axis] != weight2.shape[input_axis]:
        raise TypeError(
            "Number of output channels of first arg do not match number input channels of second arg: "
            f"{weight1.shape[output_axis]} and {weight2.shape[input_axis]}"
        )
    first, second = channel_range(weight1, output_axis), channel_range(weight2, input_axis)
    scale = (first / (second + 1e-9)).sqrt().where(first > 0, 1.0)  # equal weights, as zeros, have no range
    inverse = scale.reciprocal()
    if has_bias(module1):
        set_module_bias(module1, (get_module_bias(module1) * inverse).detach())
    set_module_weight(module1, (weight1 * _along(inverse, weight1.ndim, output_axis)).detach())
    set_module_weight(module2, (weight2 * _along(scale, weight2.ndim, input_axis)).detach())


def _along(vector: Tensor, ndim: int, axis: int) -> Tensor:
    return vector.reshape([-1 if dim == axis else 1 for dim in range(ndim)])


def process_paired_modules_list_to_name(model: Module, paired_modules_list: list[list[Any]]) -> list[list[str]]:
    """The groups with paths in the places of modules, in place."""
    for group in paired_modules_list:
        for number, item in enumerate(group):
            if isinstance(item, Module):
                group[number] = get_name_by_module(model, item)
            elif not isinstance(item, str):
                raise TypeError(f"item must be a nn.Module or a string, got {type(item).__name__}")
    return paired_modules_list


def expand_groups_in_paired_modules_list(paired_modules_list: list[list[str]]) -> list[list[str]]:
    """Pairs of neighbours of groups of two and more."""
    if any(len(group) == 1 for group in paired_modules_list):
        raise ValueError("Group must have at least two modules")
    return [list(pair) for group in paired_modules_list for pair in zip(group, group[1:])]


def equalize(
    model: Module, paired_modules_list: list[list[Any]], threshold: float = 1e-4, inplace: bool = True
) -> Module:
    """Equalize groups of layers that follow each other, until the weights change by less than the threshold.

    The groups have paths, or modules of the model: [["conv1", "conv2"], ["conv2", "fc"]].
    """
    groups = process_paired_modules_list_to_name(model, paired_modules_list)
    model = model if inplace else copy.deepcopy(model)
    pairs = expand_groups_in_paired_modules_list(groups)
    names = {name for pair in pairs for name in pair}
    layers = {name: module for name, module in model.named_modules() if name in names}
    former: dict[str, Module | None] = dict.fromkeys(layers)
    while not converged(layers, former, threshold):
        for first, second in pairs:
            former |= {name: copy.deepcopy(layers[name]) for name in (first, second)}
            cross_layer_equalization(layers[first], layers[second])
    return model


def converged(curr_modules: dict[str, Module], prev_modules: dict[str, Module | None], threshold: float = 1e-4) -> bool:
    """Whether the weights of layers differ from their former ones by less than the threshold (sum of the norms)."""
    if curr_modules.keys() != prev_modules.keys():
        raise ValueError("The keys to the given mappings must have the same set of names of modules")
    if None in prev_modules.values():
        return False
    total = zeros(())
    for name, module in curr_modules.items():
        total = total + (get_module_weight(module) - get_module_weight(prev_modules[name])).norm()
    return not total >= threshold  # weights that are not a number will not come closer
