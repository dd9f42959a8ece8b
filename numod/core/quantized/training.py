"""Rounding in training: values become those that a quantized tensor can hold, with the gradient of the identity."""

from __future__ import annotations

import numpy as np

from ... import dtypes
from ...errors import normalize_dim
from ...ops import quantize as rows
from ..apply import apply
from ..create.creation import tensor
from ..tensor import Tensor
from .functions import range_parameters


def fake_quantize_per_tensor_affine(
    input: Tensor, scale: float | Tensor, zero_point: int | Tensor, quant_min: int, quant_max: int
) -> Tensor:
    """The nearest values that a quantized tensor could hold, as floats. The gradient is 1 inside the range, else 0.

    Example:

        >>> torch.fake_quantize_per_tensor_affine(torch.tensor([0.26, 9.0]), 0.1, 0, 0, 15)
        tensor([0.3000, 1.5000])
    """
    _check_range("fake_quantize_per_tensor_affine", quant_min, quant_max)
    if isinstance(zero_point, (int, float)) and not quant_min <= zero_point <= quant_max:
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    return _rounded(input, _detached(scale), _detached(zero_point), quant_min, quant_max)


def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """As `fake_quantize_per_tensor_affine`, with a scale and a zero point for each channel along `axis`.

    Example:

        >>> scales, zeros = torch.tensor([0.1, 0.5]), torch.tensor([0, 0], dtype=torch.int32)
        >>> torch.fake_quantize_per_channel_affine(torch.tensor([[0.26], [0.26]]), scales, zeros, 0, 0, 255)
        tensor([[0.3000],
                [0.5000]])
    """
    _check_range("fake_quantize_per_channel_affine", quant_min, quant_max)
    axis = normalize_dim(axis, input.ndim)
    if zero_point.dtype not in (dtypes.int32, dtypes.float32, dtypes.float16):
        raise RuntimeError(f"Zero-point must be Int32, Float or Half, found {zero_point.dtype.short}")
    if scale.dtype not in (dtypes.float32, dtypes.bfloat16):
        raise RuntimeError(f"Scale must be Float or BFloat16, found {scale.dtype.short}")
    if scale.ndim != 1 or zero_point.ndim != 1:
        raise RuntimeError("scale and zero_point should be 1-D tensors")
    if not scale.numel() == zero_point.numel() == input.shape[axis]:
        raise RuntimeError(
            "dimensions of scale and zero-point are not consistent with input tensor: expected "
            f"{input.shape[axis]} channels, got {scale.numel()} and {zero_point.numel()}"
        )
    is_float = zero_point.is_floating_point()
    if not is_float and zero_point.numel():
        low, high = zero_point.aminmax()
        if not quant_min <= low.item() <= high.item() <= quant_max:
            raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    shape = [-1 if dim == axis else 1 for dim in range(input.ndim)]
    scale, zero_point = (_detached(argument).reshape(shape) for argument in (scale, zero_point))
    if not is_float:
        return _rounded(input, scale, zero_point, quant_min, quant_max)
    moved = zero_point * scale  # a float zero point is added before the rounding, not after it
    return (_rounded(input + moved, scale, 0, quant_min, quant_max) - moved).to(input.dtype)


def _fake_quantize_learnable_per_tensor_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, grad_factor: float = 1.0
) -> Tensor:
    """`fake_quantize_per_tensor_affine` with gradients of scale and zero point, multiplied by `grad_factor`."""
    _check_range("_fake_quantize_learnable_per_tensor_affine", quant_min, quant_max)
    zero_point = _through(zero_point, zero_point.detach().round().clamp(quant_min, quant_max))
    scale, zero_point = (_scaled_gradient(argument, grad_factor) for argument in (scale, zero_point))
    return _rounded(input, scale, zero_point, quant_min, quant_max)


def _fake_quantize_learnable_per_channel_affine(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,
) -> Tensor:
    """`fake_quantize_per_channel_affine` with gradients of scales and zero points, multiplied by `grad_factor`."""
    shape = [-1 if dim == normalize_dim(axis, input.ndim) else 1 for dim in range(input.ndim)]
    return _fake_quantize_learnable_per_tensor_affine(
        input, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max, grad_factor
    )


def _rounded(input: Tensor, *others: float | Tensor) -> Tensor:
    """`fake_quantize` in the input's dtype."""
    result = apply(rows.fake_quantize, (input, *others))
    return result if result.dtype is input.dtype else result.to(input.dtype)


def fused_moving_avg_obs_fake_quant(
    x: Tensor, observer_on: Tensor, fake_quant_on: Tensor, running_min: Tensor, running_max: Tensor, scale: Tensor,
    zero_point: Tensor, averaging_const: float, quant_min: int, quant_max: int, ch_axis: int = 0,
    per_row_fake_quant: bool = False, symmetric_quant: bool = False,
) -> Tensor:  # fmt: skip
    """Observe a tensor's range with a moving average, then round the tensor as quantization will.

    `running_min`, `running_max`, `scale` and `zero_point` are written. With `per_row_fake_quant` each channel along
    `ch_axis` has its own; they are resized to the number of channels. Scales follow FBGEMM's rules.

    Example:

        >>> on, low, high = torch.tensor([1]), torch.tensor(float("inf")), torch.tensor(float("-inf"))
        >>> scale, zero_point = torch.tensor([1.0]), torch.tensor([0], dtype=torch.int32)
        >>> x = torch.tensor([0.0, 0.26, 1.5])
        >>> torch.fused_moving_avg_obs_fake_quant(x, on, on, low, high, scale, zero_point, 0.01, 0, 15)
        tensor([0.0000, 0.3000, 1.5000])
    """
    if not x.numel():
        return x.clone()
    if observer_on.item() == 1:
        values = x.detach().to(running_min.dtype)
        low_high = values.transpose(0, ch_axis).flatten(1).aminmax(dim=1) if per_row_fake_quant else values.aminmax()
        move_averages((running_min, running_max), low_high, averaging_const)
    if fake_quant_on.item() != 1:
        return x
    if running_min.numel():  # also where the observer is off: the range may have been loaded
        ends = (np.atleast_1d(bound.cpu().numpy()) for bound in (running_min, running_max))
        for target, numbers in zip((scale, zero_point), range_parameters(*ends, quant_min, quant_max, symmetric_quant)):
            numbers = tensor(numbers)
            if target.shape != numbers.shape:
                target.resize_(numbers.shape)
            target.copy_(numbers)
    if per_row_fake_quant:
        return fake_quantize_per_channel_affine(x, scale, zero_point, ch_axis, quant_min, quant_max)
    return fake_quantize_per_tensor_affine(x, scale, zero_point, quant_min, quant_max)


def move_averages(averages: tuple[Tensor, ...], values: tuple[Tensor, ...], constant: float) -> None:
    """Move running averages towards values; the first values are taken as they are."""
    first = averages[0]
    is_first = not first.numel() or first.flatten()[0].item() == float("inf")
    for average, value in zip(averages, values):
        if is_first:
            average.resize_(value.shape)
            average.copy_(value)
        else:
            average.copy_(average + constant * (value - average))


def _through(source: Tensor, value: Tensor) -> Tensor:
    """`value`, with the gradient of `source`."""
    return source + (value - source).detach() if source.requires_grad else value


def _scaled_gradient(source: Tensor, factor: float) -> Tensor:
    """The tensor itself, whose gradient is multiplied by `factor`."""
    return source if factor == 1.0 or not source.requires_grad else _through(source * factor, source.detach())


def _detached(value: float | Tensor) -> float | Tensor:
    """A copy in float32: observers write their buffers before the backward pass reads the scale."""
    if not isinstance(value, Tensor):
        return value
    return value.detach().clone() if value.dtype is dtypes.float32 else value.detach().float()


def _check_range(name: str, quant_min: int, quant_max: int) -> None:
    if quant_min > quant_max:
        raise RuntimeError(
            f"{name}: `quant_min` should be less than or equal to `quant_max`, got {quant_min}, {quant_max}"
        )
