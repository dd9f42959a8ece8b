"""`numod.ops.quantized_decomposed`: PyTorch's operators from floats to plain integer tensors and back.

Scales and zero points are arguments, not parts of the tensor. `quant_min` and `quant_max` clip the integers.
"""

from __future__ import annotations

from typing import Any

from .... import dtypes
from ....core import Tensor, tensor
from ....core.quantized import (
    fake_quantize_per_channel_affine,
    per_tensor_affine,
    per_tensor_symmetric,
)

_FLOATS = (dtypes.float32, dtypes.float16, dtypes.bfloat16)
_EPS = 2.0**-23  # of float32


def _check_range(quant_min: int, quant_max: int, dtype: dtypes.dtype) -> None:
    limits = dtypes.RANGES.get(dtype)
    if limits is None:
        raise ValueError(f"Unsupported dtype: {dtype}")
    for name, value, outside in (
        ("quant_min", quant_min, quant_min < limits[0]),
        ("quant_max", quant_max, quant_max > limits[1]),
    ):
        if outside:
            raise AssertionError(f"{name} out of bounds for dtype, {dtype} has {limits[0]} to {limits[1]}, got {value}")


def _float(input: Tensor) -> Tensor:
    if input.dtype not in _FLOATS:
        raise AssertionError(f"Expecting input to have dtype numod.float32, but got dtype: {input.dtype}")
    return input.float()


def _expect(input: Tensor, dtype: dtypes.dtype) -> None:
    if input.dtype is not dtype:
        raise AssertionError(f"Expecting input to have dtype: {dtype}, but got {input.dtype}")


def _along(vector: Tensor, ndim: int, axis: int) -> Tensor:
    if axis >= ndim:
        raise AssertionError(f"Expecting axis to be < {ndim}")
    return vector.reshape([-1 if dim == axis % ndim else 1 for dim in range(ndim)])


def _rounded_first(x: Tensor, scale: Any, zero_point: Any, low: int, high: int, dtype: dtypes.dtype) -> Tensor:
    return ((x * (1.0 / scale)).round() + zero_point).clamp(low, high).to(dtype)


def quantize_per_tensor(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: dtypes.dtype
) -> Tensor:
    """The integers of floats, with one scale: a number, or a tensor of one element.

    Example:

        >>> op = torch.ops.quantized_decomposed.quantize_per_tensor
        >>> op(torch.tensor([0.1, 0.26]), 0.1, 0, -128, 127, torch.int8)
        tensor([1, 3], dtype=numod.int8)
    """
    low, high = int(quant_min), int(quant_max)
    input = _float(input)
    _check_range(low, high, dtype)
    return _rounded_first(input, scale, zero_point, low, high, dtype)


def dequantize_per_tensor(
    input: Tensor,
    scale: Any,
    zero_point: Any,
    quant_min: int,
    quant_max: int,
    dtype: dtypes.dtype,
    *,
    out_dtype: dtypes.dtype | None = None,
) -> Tensor:
    """The floats of integers, with one scale."""
    _expect(input, dtype)
    kind = out_dtype or dtypes.float32
    return ((input.to(kind) - zero_point) * scale).to(kind)  # a scale in a tensor may be float64


def _choose(scheme: Any, name: str) -> Any:
    def function(input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: dtypes.dtype) -> tuple:
        from ...quantization.utils import determine_qparams, validate_qmin_qmax

        _float(input)
        validate_qmin_qmax(quant_min, quant_max)
        low, high = input.aminmax()
        return determine_qparams(low, high, quant_min, quant_max, dtype, tensor([eps]), False, scheme)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Scale and zero point for the range of a tensor."
    return function


choose_qparams = _choose(per_tensor_affine, "choose_qparams")
choose_qparams_symmetric = _choose(per_tensor_symmetric, "choose_qparams_symmetric")


def quantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int, dtype: dtypes.dtype
) -> Tensor:
    """The integers of floats, with a scale for each entry along `axis`."""
    input = _float(input)
    scales, zero_points = (_along(vector, input.ndim, axis) for vector in (scales, zero_points))
    _check_range(quant_min, quant_max, dtype)
    return _rounded_first(input, scales, zero_points, quant_min, quant_max, dtype)


def dequantize_per_channel(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: dtypes.dtype,
    *,
    out_dtype: dtypes.dtype | None = None,
) -> Tensor:
    """The floats of integers, with a scale for each entry along `axis`."""
    _expect(input, dtype)
    _check_range(quant_min, quant_max, dtype)
    shift = 0 if zero_points is None else _along(zero_points, input.ndim, axis)
    return ((input.to(dtypes.int32) - shift) * _along(scales, input.ndim, axis)).to(out_dtype or dtypes.float32)


def fake_quant_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """Floats rounded to what integers can hold, with a gradient: `fake_quantize_per_channel_affine`."""
    return fake_quantize_per_channel_affine(
        input, scales.float(), zero_points.to(dtypes.int32), axis, quant_min, quant_max
    )


# ---- a scale for each row ("token") or group of a row


def choose_qparams_per_token(input: Tensor, dtype: dtypes.dtype) -> tuple[Tensor, Tensor]:
    """Scale and zero point (0) of each row, for int8."""
    if dtype is not dtypes.int8:
        raise Exception(f"unsupported dtype in choose_qparams_per_token: {dtype}; use numod.int8")
    scales = input.abs().amax(-1, True)
    scales = (scales.float() if scales.dtype is dtypes.float16 else scales).clamp(min=1e-5) / 127
    return scales, scales.new_zeros(scales.shape)


def choose_qparams_per_token_asymmetric(input: Tensor, dtype: dtypes.dtype) -> tuple[Tensor, Tensor]:
    """Scale (float64) and zero point of each row for its range, for integers of -128 to 127."""
    low, high = input.amin(-1, True).clamp(max=0), input.amax(-1, True).clamp(min=0)
    scale = ((high - low) / 255.0).clamp(min=_EPS)
    low, high = low / scale, high / scale
    zero_point = (-128 - low).where((-128 + low) + (127 + high) > 0, 127 - high)
    return scale.to(dtypes.float64), zero_point.clamp(-128, 127).round().to(dtypes.int64)


_choose_qparams_per_token_asymmetric_impl = choose_qparams_per_token_asymmetric


def _rounded_last(x: Tensor, scales: Tensor, zero_points: Tensor, low: int, high: int, dtype: dtypes.dtype) -> Tensor:
    return (x * (1.0 / scales) + zero_points).round().clamp(low, high).to(dtype)


def _check_rows(input: Tensor, scales: Tensor, zero_points: Tensor) -> None:
    rows = input.numel() // max(input.shape[-1], 1)
    if rows != scales.numel() or rows != zero_points.numel():
        raise AssertionError(
            f"expected a scale and a zero point for each of {rows} rows, got shapes {tuple(scales.shape)} and "
            f"{tuple(zero_points.shape)}"
        )


def quantize_per_token(
    input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int, dtype: dtypes.dtype
) -> Tensor:
    """The integers of floats, with a scale for each row."""
    _check_range(quant_min, quant_max, dtype)
    _check_rows(input, scales, zero_points)
    return _rounded_last(input, scales, zero_points, quant_min, quant_max, dtype)


def dequantize_per_token(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: dtypes.dtype,
    output_dtype: dtypes.dtype = dtypes.float32,
) -> Tensor:
    """The floats of integers, with a scale for each row."""
    return ((input - zero_points) * scales).to(output_dtype)


def _groups(input: Tensor, scales: Tensor, group_size: int) -> Tensor:
    if group_size <= 1:
        raise AssertionError("group_size must be > 1")
    if group_size > input.shape[-1] and scales.shape[-1] == 1:
        group_size = input.shape[-1]
    if input.shape[-1] % group_size:
        raise AssertionError(f"input.shape[-1] must be divisible by group_size, got {input.shape[-1]} and {group_size}")
    if input.ndim != 2:
        raise AssertionError(f"input must be 2-dimensional, got shape {tuple(input.shape)}")
    return input.reshape(-1, group_size)


def quantize_per_channel_group(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: dtypes.dtype,
    group_size: int = 128,
) -> Tensor:
    """The integers of a matrix, with a scale for each group of columns of a row."""
    groups = _groups(input, scales, group_size)
    if bool(groups.isnan().any()):
        raise AssertionError("to_quant must not contain NaNs")
    vectors = scales.reshape(-1, 1), zero_points.reshape(-1, 1)
    return _rounded_last(groups, *vectors, quant_min, quant_max, dtype).reshape(input.shape)


def dequantize_per_channel_group(
    w_int8: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    quant_min: int,
    quant_max: int,
    dtype: dtypes.dtype,
    group_size: int = 128,
    output_dtype: dtypes.dtype = dtypes.float32,
) -> Tensor:
    """The floats of a matrix of integers, with a scale for each group of columns of a row."""
    shift = 0 if zero_points is None else zero_points.reshape(-1, 1)
    groups = _groups(w_int8, scales, group_size).to(dtypes.int32)
    return ((groups - shift) * scales.reshape(-1, 1)).reshape(w_int8.shape).to(output_dtype)


for _op in (quantize_per_tensor, dequantize_per_tensor, choose_qparams, choose_qparams_symmetric):
    _op.tensor = _op.tensor2 = _op  # overloads with tensors in the places of numbers
for _op in [value for name, value in globals().items() if callable(value) and not name.startswith("_")]:
    if getattr(_op, "__module__", None) == __name__:
        _op.default = _op
