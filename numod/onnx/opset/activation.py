"""Activations and softmax."""

from __future__ import annotations

import math

import numod
import numod.nn.functional as F

from ...core import Tensor
from ..registry import operator
from .arithmetic import unary

unary("Relu", F.relu)
unary("Sigmoid", numod.sigmoid)
unary("Tanh", numod.tanh)
unary("Softplus", F.softplus)
unary("Softsign", F.softsign)
unary("HardSwish", F.hardswish, 14)
unary("Mish", F.mish, 18)


@operator("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01, consumed_inputs: list[int] | None = None) -> Tensor:
    """x, or alpha x where negative."""
    return F.leaky_relu(x, alpha)


@operator("Elu")
def elu(x: Tensor, *, alpha: float = 1.0, consumed_inputs: list[int] | None = None) -> Tensor:
    """x, or alpha (exp(x) - 1) where negative."""
    return F.elu(x, alpha)


@operator("PRelu", since=1)
def prelu_in_old_version(x: Tensor, slope: Tensor, *, consumed_inputs: list[int] | None = None) -> Tensor:
    """PRelu before version 7: `slope` is a vector with an entry per channel."""
    return F.prelu(x, slope.reshape(-1))


@operator("PRelu", since=7)
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """x, or x slope where negative."""
    return numod.where(x < 0, x * slope, x)


@operator("Selu", since=1)
def selu_in_old_version(
    x: Tensor, *, alpha: float = 1.6732, gamma: float = 1.0507, consumed_inputs: list[int] | None = None
) -> Tensor:
    """Selu before version 6, whose constants have fewer digits."""
    return gamma * F.elu(x, alpha)


@operator("Selu", since=6)
def selu(x: Tensor, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Tensor:
    """gamma elu(x, alpha)."""
    return gamma * F.elu(x, alpha)


@operator("Celu", since=12)
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1))."""
    return F.celu(x, alpha)


@operator("HardSigmoid")
def hard_sigmoid(
    x: Tensor, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: list[int] | None = None
) -> Tensor:
    """max(0, min(1, alpha x + beta))."""
    return numod.clamp(alpha * x + beta, 0.0, 1.0)


@operator("ThresholdedRelu", since=10)
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x where it is above alpha, else 0."""
    return F.threshold(x, alpha, 0.0)


@operator("Shrink", since=9)
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """x moved towards zero by the bias, and 0 within lambd of it."""
    zero = numod.zeros_like(x)
    out = numod.where(x < -lambd, x + bias, numod.where(x > lambd, x - bias, zero))
    return out.to(x.dtype)


@operator("Gelu", since=20)
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """Gaussian error linear unit, exact or by tanh."""
    return F.gelu(x, approximate=approximate)


@operator("Swish", since=24)
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x sigmoid(alpha x)."""
    return F.silu(x) if alpha == 1 else x * numod.sigmoid(alpha * x)


@operator("Softmax", since=13)
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Softmax along one axis."""
    return F.softmax(x, axis)


@operator("LogSoftmax", since=13)
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """The logarithm of softmax along one axis."""
    return F.log_softmax(x, axis)


@operator("Hardmax", since=13)
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """1 at the first maximum along an axis, else 0."""
    index = x.argmax(axis, keepdim=True)
    return numod.zeros_like(x).scatter(axis, index, 1.0)


def _matrix(x: Tensor, axis: int) -> Tensor:
    """x with the axes before `axis`, and those from it on, flattened."""
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@operator("Softmax", since=1)
def softmax_of_matrix(x: Tensor, *, axis: int = 1) -> Tensor:
    """Softmax before version 13: over all axes from `axis` on."""
    return F.softmax(_matrix(x, axis), 1).reshape(x.shape)


@operator("LogSoftmax", since=1)
def log_softmax_of_matrix(x: Tensor, *, axis: int = 1) -> Tensor:
    """LogSoftmax before version 13: over all axes from `axis` on."""
    return F.log_softmax(_matrix(x, axis), 1).reshape(x.shape)


@operator("Hardmax", since=1)
def hardmax_of_matrix(x: Tensor, *, axis: int = 1) -> Tensor:
    """Hardmax before version 13: over all axes from `axis` on."""
    return hardmax(_matrix(x, axis)).reshape(x.shape)
