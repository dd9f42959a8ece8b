"""Gradients of convolutions as functions, conv1d_input, conv1d_weight and so on, as in `torch.nn.grad`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core import functions as f
from ..core.tensor import Tensor
from ..ops.convolution import convolution as op
from .functional.convolution import check_steps, spread

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]
_Steps = int | Sequence[int]


def _of_input(ndim: int) -> Callable:
    def gradient(
        input_size: Sequence[int],
        weight: Tensor,
        grad_output: Tensor,
        stride: _Steps = 1,
        padding: _Steps = 0,
        dilation: _Steps = 1,
        groups: int = 1,
    ) -> Tensor:
        steps = _steps(ndim, stride, padding, dilation)
        _check(gradient.__name__, tuple(input_size), tuple(weight.shape), grad_output, *steps, groups)
        return op.convolution_input.apply(
            (f.contiguous(grad_output), f.contiguous(weight)), (*steps, groups, tuple(input_size))
        )

    return _with_name(
        gradient,
        f"conv{ndim}d_input",
        f"The gradient of conv{ndim}d with respect to its input of `input_size`, from the gradient of its result.",
    )


def _of_weight(ndim: int) -> Callable:
    def gradient(
        input: Tensor,
        weight_size: Sequence[int],
        grad_output: Tensor,
        stride: _Steps = 1,
        padding: _Steps = 0,
        dilation: _Steps = 1,
        groups: int = 1,
    ) -> Tensor:
        steps = _steps(ndim, stride, padding, dilation)
        _check(gradient.__name__, tuple(input.shape), tuple(weight_size), grad_output, *steps, groups)
        return op.convolution_weight.apply(
            (f.contiguous(grad_output), f.contiguous(input)), (*steps, groups, tuple(weight_size))
        )

    return _with_name(
        gradient,
        f"conv{ndim}d_weight",
        f"The gradient of conv{ndim}d with respect to its weight of `weight_size`, from the gradient of its result.",
    )


def _steps(ndim: int, stride: _Steps, padding: _Steps, dilation: _Steps) -> tuple[tuple[int, ...], ...]:
    stride = spread("stride", stride, ndim)
    padding = spread("padding", padding, ndim)
    dilation = spread("dilation", dilation, ndim)
    check_steps(stride, dilation, padding)
    return stride, padding, dilation


def _check(
    name: str, x: tuple, weight: tuple, gradient: Tensor, stride: tuple, padding: tuple, dilation: tuple, groups: int
) -> None:
    """Raise RuntimeError unless the gradient has the shape of the convolution's result."""
    ndim = len(stride) + 2
    if len(x) != ndim or len(weight) != ndim or x[1] != weight[1] * groups or weight[0] % groups:
        raise RuntimeError(
            f"{name}: input {list(x)} (N, C, ...) and weight {list(weight)} (O, C / groups, ...) do not fit, with "
            f"groups={groups}"
        )
    result = (x[0], weight[0], *op.output_sizes(x[2:], weight[2:], stride, padding, dilation))
    if tuple(gradient.shape) != result:
        raise RuntimeError(f"{name}: expected grad_output of shape {list(result)}, got {list(gradient.shape)}")


def _with_name(function: Callable, name: str, text: str) -> Callable:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


conv1d_input, conv2d_input, conv3d_input = map(_of_input, (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = map(_of_weight, (1, 2, 3))
