"""`fuse_modules`: layers that are called one after the other become one, and the others identities."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from ... import nn
from ...nn.module import Module
from ...nn.utils.computed import computes_parameter, copy_forward_hooks, copy_pre_hooks, make_plain
from ...nn.utils.parametrize import type_before_parametrizations as kind_of
from ...nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from ..nn import intrinsic as nni
from .utils import MatchAllNode

_CONVOLUTIONS = {
    nn.Conv1d: (nni.ConvBn1d, nni.ConvBnReLU1d, nni.ConvReLU1d),
    nn.Conv2d: (nni.ConvBn2d, nni.ConvBnReLU2d, nni.ConvReLU2d),
    nn.Conv3d: (nni.ConvBn3d, nni.ConvBnReLU3d, nni.ConvReLU3d),
}


def _check_modes(conv: Module, bn: Module, *others: Module) -> None:
    if any(module.training is not conv.training for module in (bn, *others)):
        raise AssertionError("Conv and BN both must be in the same mode (train or eval).")


def _check_training(features: int, bn: Module) -> None:
    if bn.num_features != features:
        raise AssertionError("Output channel of Conv2d must match num_features of BatchNorm2d.")
    if not bn.affine:
        raise AssertionError("Only support fusing BatchNorm2d with affine set to True")
    if not bn.track_running_stats:
        raise AssertionError("Only support fusing BatchNorm2d with tracking_running_stats set to True")


def fuse_conv_bn(is_qat: bool, conv: Module, bn: Module) -> Module:
    """The convolution with the batch norm in its weight; for training a pair."""
    _check_modes(conv, bn)
    if not is_qat:
        return fuse_conv_bn_eval(conv, bn)
    _check_training(conv.out_channels, bn)
    return _CONVOLUTIONS[kind_of(conv)][0](conv, bn)


def fuse_conv_bn_relu(is_qat: bool, conv: Module, bn: Module, relu: Module) -> Module:
    """The convolution with the batch norm in its weight and the ReLU; for training a triple."""
    _check_modes(conv, bn, relu)
    _, triple, pair = _CONVOLUTIONS[kind_of(conv)]
    if not is_qat:
        return pair(fuse_conv_bn_eval(conv, bn), relu)
    _check_training(conv.out_channels, bn)
    return triple(conv, bn, relu)


def fuse_linear_bn(is_qat: bool, linear: Module, bn: Module) -> Module:
    """The linear layer with the batch norm in its weight; for training a pair."""
    if linear.training is not bn.training:
        raise AssertionError("Linear and BN both must be in the same mode (train or eval).")
    if not is_qat:
        return fuse_linear_bn_eval(linear, bn)
    _check_training(linear.out_features, bn)
    return nni.LinearBn1d(linear, bn)


def fuse_convtranspose_bn(is_qat: bool, convt: Module, bn: Module) -> Module:
    """The transposed convolution with the batch norm in its weight."""
    _check_modes(convt, bn)
    if is_qat:
        raise NotImplementedError(
            "a transposed convolution and a batch norm cannot be fused for training, as in PyTorch; fuse them with "
            "fuse_modules in evaluation mode, or leave them apart"
        )
    return fuse_conv_bn_eval(convt, bn, transpose=True)


def _paired(kind: type, is_qat: bool, *layers: Module) -> Module:
    return kind(*layers)


def _sequential_wrapper2(sequential: type) -> Callable:
    """The function that fuses two layers to this class."""
    return partial(_paired, sequential)


FUSERS: dict[tuple, Callable] = {
    **{(conv, getattr(nn, f"BatchNorm{n}d")): fuse_conv_bn for n, conv in enumerate(_CONVOLUTIONS, 1)},
    **{(conv, getattr(nn, f"BatchNorm{n}d"), nn.ReLU): fuse_conv_bn_relu for n, conv in enumerate(_CONVOLUTIONS, 1)},
    **{(conv, nn.ReLU): partial(_paired, kinds[2]) for conv, kinds in _CONVOLUTIONS.items()},
    (nn.Linear, nn.BatchNorm1d): fuse_linear_bn,
    (nn.Linear, nn.ReLU): partial(_paired, nni.LinearReLU),
    (nn.BatchNorm2d, nn.ReLU): partial(_paired, nni.BNReLU2d),
    (nn.BatchNorm3d, nn.ReLU): partial(_paired, nni.BNReLU3d),
    **{(getattr(nn, f"ConvTranspose{n}d"), getattr(nn, f"BatchNorm{n}d")): fuse_convtranspose_bn for n in (1, 2, 3)},
}


def get_fuser_method(op_list: tuple, additional_fuser_method_mapping: dict | None = None) -> Callable:
    """The function that fuses layers of these classes."""
    method = {**FUSERS, **(additional_fuser_method_mapping or {})}.get(tuple(op_list))
    if method is None:
        raise AssertionError(f"did not find fuser method for: {op_list} ")
    return method


def get_fuser_method_new(op_pattern: Any, fuser_method_mapping: dict[Any, Callable]) -> Callable:
    """The function of a mapping for a pattern: a class, a tuple of classes, or nested pairs with wildcards."""
    for pattern, method in fuser_method_mapping.items():
        if _matches(pattern, op_pattern):
            return method
    raise AssertionError(f"did not find fuser method for: {op_pattern} ")


def _matches(pattern: Any, op_pattern: Any) -> bool:
    if pattern is MatchAllNode or pattern == op_pattern:
        return True
    both = isinstance(pattern, tuple) and isinstance(op_pattern, tuple) and len(pattern) == len(op_pattern)
    return both and all(_matches(*parts) for parts in zip(pattern, op_pattern))


def make_plain_to_fuse(layers: list[Module], is_qat: bool) -> None:
    """Make parameters that hooks compute plain ones, unless they are trained further."""
    for layer in () if is_qat else layers:
        make_plain(layer)


def fuse_known_modules(mod_list: list, is_qat: bool, additional_fuser_method_mapping: dict | None = None) -> list:
    """The fused layer, which takes over the hooks, and an identity for each further layer."""
    make_plain_to_fuse(mod_list, is_qat)
    fused = get_fuser_method(tuple(map(kind_of, mod_list)), additional_fuser_method_mapping)(is_qat, *mod_list)
    first, last = mod_list[0], mod_list[-1]
    copy_pre_hooks(first, fused)
    for number, hook in list(first._forward_pre_hooks.items()):
        if not computes_parameter(hook):
            del first._forward_pre_hooks[number]
    copy_forward_hooks(last, fused)
    last._forward_hooks.clear()
    return [fused, *(nn.Identity().train(first.training) for _ in mod_list[1:])]


def _fuse(
    model: Module,
    modules_to_fuse: list,
    is_qat: bool,
    inplace: bool,
    fuser_func: Callable,
    fuse_custom_config_dict: dict | None,
) -> Module:
    model = model if inplace else copy.deepcopy(model)
    further = (fuse_custom_config_dict or {}).get("additional_fuser_method_mapping", {})
    groups = [modules_to_fuse] if all(isinstance(entry, str) for entry in modules_to_fuse) else modules_to_fuse
    for names in groups:
        layers = fuser_func([model.get_submodule(name) for name in names], is_qat, further)
        for name, layer in zip(names, layers):
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, layer)
    return model


def fuse_modules(
    model: Module,
    modules_to_fuse: list,
    inplace: bool = False,
    fuser_func: Callable = fuse_known_modules,
    fuse_custom_config_dict: dict | None = None,
) -> Module:
    """Fuse groups of layers by name, in a model in evaluation mode: [["conv", "bn", "relu"], ...].

    The first layer of a group becomes the fused one, the others identities. Known groups: convolution or linear with
    batch norm or ReLU or both, batch norm with ReLU.
    """
    return _fuse(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(
    model: Module,
    modules_to_fuse: list,
    inplace: bool = False,
    fuser_func: Callable = fuse_known_modules,
    fuse_custom_config_dict: dict | None = None,
) -> Module:
    """As `fuse_modules`, for a model in training mode: batch norms stay layers of their own."""
    return _fuse(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
