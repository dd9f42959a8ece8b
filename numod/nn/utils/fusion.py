"""Folding of a batch norm into the layer before it, for evaluation. It happens only on request."""

from __future__ import annotations

import copy

from ...core import Tensor, ones_like, zeros_like
from ..module import Module
from ..parameter import Parameter
from .parametrize import is_parametrized, remove_parametrizations

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def fuse_conv_bn_eval(conv: Module, bn: Module, transpose: bool = False) -> Module:
    """A copy of `conv` that computes `bn(conv(x))`.

    Both must be in evaluation mode; `transpose` is for transposed convolutions.

    Example:

        >>> fused = nn.utils.fuse_conv_bn_eval(nn.Conv2d(3, 4, 1).eval(), nn.BatchNorm2d(4).eval())
        >>> type(fused).__name__
        'Conv2d'
    """
    _check(conv, bn)
    fused = _plain_copy(conv)
    statistics = bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, *statistics, transpose)
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the fused convolution. `conv_w` is (out, in, ...), or with `transpose` (in, out, ...).

    Example:

        >>> stats = torch.zeros(1), torch.ones(1), 0.0, torch.full((1,), 2.0), None
        >>> nn.utils.fuse_conv_bn_weights(torch.ones(1, 1, 1), None, *stats)[0]
        Parameter containing:
        tensor([[[2.]]])
    """
    scale = (ones_like(bn_rm) if bn_w is None else bn_w) * (bn_rv + bn_eps).rsqrt()
    shape = [1, -1] if transpose else [-1, 1]
    return _fused(conv_w, conv_b, bn_rm, bn_b, scale, scale.reshape(shape + [1] * (conv_w.ndim - 2)))


def fuse_linear_bn_eval(linear: Module, bn: Module) -> Module:
    """A copy of `linear` that computes `bn(linear(x))`.

    Both must be in evaluation mode, and `bn` must have the same number of features, or one.

    Example:

        >>> fused = nn.utils.fuse_linear_bn_eval(nn.Linear(2, 3).eval(), nn.BatchNorm1d(3).eval())
        >>> fused
        Linear(in_features=2, out_features=3, bias=True)
    """
    _check(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, "
            f"got linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused = _plain_copy(linear)
    statistics = bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, *statistics)
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight, (out, in), and bias of the fused linear layer.

    Example:

        >>> stats = torch.zeros(1), torch.ones(1), 0.0, torch.full((1,), 2.0), None
        >>> nn.utils.fuse_linear_bn_weights(torch.ones(1, 1), None, *stats)[0]
        Parameter containing:
        tensor([[2.]])
    """
    scale = (ones_like(bn_rm) if bn_w is None else bn_w) * (bn_rv + bn_eps).rsqrt()
    return _fused(linear_w, linear_b, bn_rm, bn_b, scale, scale.unsqueeze(-1))


def _plain_copy(layer: Module) -> Module:
    """A copy without parametrizations, whose parameters can be set to any value."""
    result = copy.deepcopy(layer)
    for name in ("weight", "bias"):
        if is_parametrized(result, name):
            remove_parametrizations(result, name)
    return result


def _check(layer: Module, bn: Module) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def _fused(
    weight: Tensor, bias: Tensor | None, mean: Tensor, shift: Tensor | None, scale: Tensor, weight_scale: Tensor
) -> tuple[Parameter, Parameter]:
    """scale (w x + b - mean) + shift, as a weight and a bias."""
    before = zeros_like(mean) if bias is None else bias
    after = (before - mean) * scale + (zeros_like(mean) if shift is None else shift)
    dtype, wants_grad = (weight.dtype, before.requires_grad) if bias is None else (bias.dtype, bias.requires_grad)
    return Parameter((weight * weight_scale).to(weight.dtype), weight.requires_grad), Parameter(
        after.to(dtype), wants_grad
    )
