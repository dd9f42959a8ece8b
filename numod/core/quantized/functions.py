"""The public functions that create quantized tensors, return their parts, and simulate quantization in training."""

from __future__ import annotations

from collections.abc import Sequence
import numpy as np

from ... import dtypes
from ...device.device import Device
from ...dtypes import QuantizedDtype
from ...errors import normalize_dim
from ...formats import memory_format as MemoryFormat
from ..attributes import refuse_plain
from ..create.creation import empty
from ..create.values import as_tensor
from ..tensor import Tensor
from .schemes import per_channel_affine, per_channel_affine_float_qparams, per_tensor_affine
from .tensor import QuantizedTensor, Quantizer, refuse, wrap_integers

_SMALL_SCALE = 6.1e-5  # smaller scales lose precision in 16-bit arithmetic; PyTorch enlarges them


def quantize_per_tensor(
    input: Tensor | Sequence[Tensor],
    scale: float | Tensor,
    zero_point: int | Tensor,
    dtype: QuantizedDtype,
) -> QuantizedTensor | tuple[QuantizedTensor, ...]:
    """Quantize floats with one scale and zero point: integer = round(x / scale) + zero_point, saturated.

    A list of tensors is quantized with a vector of scales and one of zero points, one of each for every tensor.

    Example:

        >>> torch.quantize_per_tensor(torch.tensor([0.1, 0.26]), 0.1, 0, torch.qint8).int_repr()
        tensor([1, 3], dtype=numod.int8)
    """
    if isinstance(input, (list, tuple)):
        parts = zip(input, scale.tolist(), zero_point.tolist(), strict=True)
        return tuple(quantize_per_tensor(*part, dtype) for part in parts)
    _check_input("quantize_per_tensor", input, dtype)
    for name, value, wrong, kind in (("scale", scale, str, "float"), ("zero_point", zero_point, (str, float), "int")):
        if isinstance(value, wrong):
            raise TypeError(f"quantize_per_tensor(): argument '{name}' must be {kind}, not {type(value).__name__}")
    scale, zero_point = _number(scale), int(_number(zero_point))
    low, high = dtypes.RANGES[dtype.integers]
    if not low <= zero_point <= high:
        bound = "above upper" if zero_point > high else "below lower"
        raise RuntimeError(f"quantize_tensor_per_tensor_affine zero_point {zero_point} is {bound} bound.")
    return Quantizer(dtype, per_tensor_affine, float(scale), zero_point).quantize(input)


def quantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: QuantizedDtype
) -> QuantizedTensor:
    """Quantize floats with a scale and a zero point for each channel along `axis`.

    Example:

        >>> scales, zeros = torch.tensor([0.1, 0.5]), torch.tensor([0, 0])
        >>> torch.quantize_per_channel(torch.tensor([[0.2], [1.0]]), scales, zeros, 0, torch.qint8).int_repr()
        tensor([[2],
                [2]], dtype=numod.int8)
    """
    _check_input("quantize_per_channel", input, dtype)
    if not isinstance(axis, int):
        raise TypeError(f"quantize_per_channel(): argument 'axis' must be int, not {type(axis).__name__}")
    if not -input.ndim <= axis < input.ndim:
        raise RuntimeError(
            f"Channel axis out of range in per channel affine quantization. Got: {axis} Expected: [0, {input.ndim})"
        )
    axis, (scales, zero_points) = normalize_dim(axis, input.ndim), map(as_tensor, (scales, zero_points))
    for name, vector in (("scales", scales), ("zero_points", zero_points)):
        if vector.ndim != 1:
            raise RuntimeError(f"quantize_per_channel: {name} must be a vector, got shape {tuple(vector.shape)}")
        if vector.numel() != input.shape[axis]:
            raise RuntimeError(
                f"length of {name} must equal to channel, expected {input.shape[axis]} got, {vector.numel()}"
            )
    return _channel_quantizer(dtype, scales, zero_points, axis).quantize(input)


def _channel_quantizer(dtype: QuantizedDtype, scales: Tensor, zero_points: Tensor, axis: int) -> Quantizer:
    scales, zero_points = scales.detach(), zero_points.detach()
    if zero_points.is_floating_point():
        return Quantizer(dtype, per_channel_affine_float_qparams, scales.float(), zero_points.float(), axis)
    return Quantizer(dtype, per_channel_affine, scales.double(), zero_points.long(), axis)


def quantize_per_tensor_dynamic(input: Tensor, dtype: QuantizedDtype, reduce_range: bool) -> QuantizedTensor:
    """Quantize floats with the scale and zero point of their own range.

    Example:

        >>> torch.quantize_per_tensor_dynamic(torch.tensor([0.0, 1.0]), torch.quint8, False).int_repr()
        tensor([  0, 255], dtype=numod.uint8)
    """
    _check_input("quantize_per_tensor_dynamic", input, dtype)
    if dtype.bits != 8:
        raise RuntimeError(f"dtype {dtype.short} not supported; use numod.quint8 or numod.qint8")
    return quantize_per_tensor(input, *_parameters_of(input, dtype, reduce_range), dtype)


def _choose_qparams_per_tensor(input: Tensor, reduce_range: bool = False) -> tuple[float, int]:
    """Scale and zero point of quint8 for a tensor's range."""
    return _parameters_of(input, dtypes.quint8, reduce_range)


def _parameters_of(input: Tensor, dtype: QuantizedDtype, reduce_range: bool) -> tuple[float, int]:
    low, high = (float(bound) for bound in input.aminmax()) if input.numel() else (0.0, 0.0)
    return choose_parameters(low, high, dtype, reduce_range)


def choose_parameters(low: float, high: float, dtype: QuantizedDtype, reduce_range: bool = False) -> tuple[float, int]:
    """Scale and zero point for values in [low, high], which is widened to contain 0. `reduce_range`: of 7 bits."""
    first, last = (int(bound / (2 if reduce_range else 1)) for bound in dtypes.RANGES[dtype.integers])
    if not low <= high:
        raise RuntimeError("In ChooseQuantizationParams, min should be less than or equal to max")
    scale, zero_point = range_parameters(np.float32(low), np.float32(high), first, last)
    return float(scale), int(zero_point)


def range_parameters(
    low: np.ndarray, high: np.ndarray, first: int, last: int, symmetric: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Scales (float64) and zero points for float32 ranges and the integers `first` to `last`.

    The rules are those of FBGEMM: zero is represented exactly, and the zero point is rounded from the end of the range
    with the smaller error. `symmetric`: a range on both sides of 0 is widened so that the zero point is in the middle.
    """
    low, high = np.minimum(low, np.float32(0)), np.maximum(high, np.float32(0))
    steps, both = last - first, symmetric & (low < 0) & (high > 0)
    largest = np.maximum(abs(low / np.float32(steps // 2 + 1)), abs(high / np.float32(steps // 2))).astype(np.float64)
    low = np.where(both, -largest * (steps // 2 + 1), low).astype(np.float32)
    high = np.where(both, largest * (steps // 2), high).astype(np.float32)
    with np.errstate(all="ignore"):
        scale = (high.astype(np.float64) - low) / steps
        empty = (scale.astype(np.float32) == 0) | np.isinf(1 / scale.astype(np.float32))
        scale = np.where(empty, 0.1, scale)
        is_small, factor = scale < _SMALL_SCALE, np.float32(_SMALL_SCALE) / scale.astype(np.float32)
        wide = np.float32(_SMALL_SCALE) * np.float32(steps)
        low, high = (
            np.where(is_small, np.where(high == 0, -wide, np.where(low == 0, low, low * factor)), low),
            np.where(is_small, np.where(low == 0, wide, np.where(high == 0, high, high * factor)), high),
        )
        scale = np.where(is_small, np.float64(np.float32(_SMALL_SCALE)), scale)
        from_low, from_high = first - low / scale, last - high / scale
        closer = abs(first) - abs(low / scale) < abs(last) - abs(high / scale)
        zero_point = np.where(both, (first + last) / 2, np.where(closer, from_low, from_high))
        return scale, np.clip(np.rint(np.nan_to_num(zero_point)), first, last).astype(np.int64)


def _check_input(name: str, input: Tensor, dtype: QuantizedDtype) -> None:
    if isinstance(input, QuantizedTensor):
        refuse(name)
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(input).__name__}")
    if not isinstance(dtype, QuantizedDtype):
        short = getattr(dtype, "short", dtype)
        raise RuntimeError(f"ScalarType {short} is not supported in new_qtensor; use numod.quint8 or numod.qint8")
    if input.dtype is not dtypes.float32:
        kind = input.dtype.short
        raise RuntimeError(f"Quantize only works on Float Tensor, got {kind}; convert with .float() first")


def _number(value: float | Tensor) -> float:
    return value.item() if isinstance(value, Tensor) else value


# ---- the parts of a quantized tensor


def dequantize(tensor: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """The values of a quantized tensor in float32, or of each of several. Float tensors are returned in float32.

    Example:

        >>> torch.dequantize(torch.quantize_per_tensor(torch.tensor([0.1, 0.26]), 0.1, 0, torch.qint8))
        tensor([0.1000, 0.3000])
    """
    if isinstance(tensor, (list, tuple)):
        return tuple(map(dequantize, tensor))
    return tensor.dequantize()


def _part(name: str) -> object:
    def function(input: Tensor) -> object:
        if not isinstance(input, QuantizedTensor):
            refuse_plain(f"'aten::{name}'", input)
        return getattr(QuantizedTensor, name)(input)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = getattr(QuantizedTensor, name).__doc__
    return function


int_repr, q_scale, q_zero_point, q_per_channel_scales, q_per_channel_zero_points, q_per_channel_axis = map(
    _part, "int_repr q_scale q_zero_point q_per_channel_scales q_per_channel_zero_points q_per_channel_axis".split()
)


def _make_per_tensor_quantized_tensor(input: Tensor, scale: float, zero_point: int) -> QuantizedTensor:
    """The quantized tensor of a copy of these integers (int8, uint8 or int32)."""
    return wrap_integers(input.clone(), Quantizer(_dtype_of(input), per_tensor_affine, float(scale), int(zero_point)))


def _make_per_channel_quantized_tensor(input: Tensor, scale: Tensor, zero_point: Tensor, axis: int) -> QuantizedTensor:
    """The quantized tensor of a copy of these integers, with a scale per channel."""
    return wrap_integers(input.clone(), _channel_quantizer(_dtype_of(input), scale, zero_point, axis))


def _dtype_of(integers: Tensor) -> QuantizedDtype:
    quantized = next((row for row in dtypes.QUANTIZED.values() if row.integers is integers.dtype), None)
    if quantized is None:
        raise RuntimeError(f"a quantized tensor has integers of int8, uint8 or int32, got {integers.dtype}")
    return quantized


def _empty_affine_quantized(
    *size: int | Sequence[int],
    scale: float = 1.0,
    zero_point: int = 0,
    dtype: QuantizedDtype = dtypes.quint8,
    device: str | Device | None = None,
    memory_format: MemoryFormat | None = None,
) -> QuantizedTensor:
    """An uninitialized quantized tensor."""
    quantizer = Quantizer(dtype, per_tensor_affine, float(scale), int(zero_point))
    return wrap_integers(_empty_integers(size, dtype, device, memory_format), quantizer)


def _empty_per_channel_affine_quantized(
    *size: int | Sequence[int],
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    dtype: QuantizedDtype = dtypes.quint8,
    device: str | Device | None = None,
    memory_format: MemoryFormat | None = None,
) -> QuantizedTensor:
    """An uninitialized quantized tensor with a scale and a zero point for each channel along `axis`."""
    integers = _empty_integers(size, dtype, device, memory_format)
    return wrap_integers(integers, _channel_quantizer(dtype, scales, zero_points, normalize_dim(axis, integers.ndim)))


def _empty_integers(
    size: tuple, dtype: QuantizedDtype, device: str | Device | None, order: MemoryFormat | None
) -> Tensor:
    if not isinstance(dtype, QuantizedDtype):
        raise RuntimeError(f"Creation of quantized tensor requires quantized dtype like numod.quint8, got {dtype}")
    shape = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    integers = empty(tuple(shape), dtype=dtype.integers, device=device)
    return integers if order is None else integers.contiguous(memory_format=order)
