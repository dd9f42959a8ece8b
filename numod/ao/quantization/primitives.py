"""torchao's building blocks: integers, scales and zero points of a tensor's blocks, for any size of blocks.

`block_size` has one number for each dimension: how many neighbours share a scale. (1, 32) is groups of 32 in each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...autograd import no_grad
from ...core import Tensor, full
from .granularity import MappingType, TorchAODType

__all__ = ["choose_qparams_affine", "choose_qparams_affine_with_min_max", "dequantize_affine", "quantize_affine"]

_FLOATS = (dtypes.float32, dtypes.float16, dtypes.bfloat16)
_RANGES = {
    "uint8": (0, 255), "int8": (-128, 127), "int16": (-(2**15), 2**15 - 1), "int32": (-(2**31), 2**31 - 1),
    **{f"INT{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in range(1, 8)},
}  # fmt: skip


def _limits(dtype: Any, low: float | None, high: float | None) -> tuple[float, float]:
    if dtype.name not in _RANGES:
        raise ValueError(f"Unsupported dtype: {dtype}; expected one of {', '.join(_RANGES)}")
    least, greatest = _RANGES[dtype.name]
    low, high = least if low is None else low, greatest if high is None else high
    if low < least or high > greatest:
        raise AssertionError(f"quant_min and quant_max out of bound for {dtype}: {low} and {high}")
    return low, high


def _blocks(input: Tensor, block_size: Sequence[int]) -> tuple[list[int], list[int]]:
    """The shape in which each dimension is a number of blocks and a number of elements, and the shape of scales."""
    if len(block_size) != input.ndim:
        raise AssertionError(f"Got input dim:{input.ndim}, block_size: {tuple(block_size)}")
    shape: list[int] = []
    for dim, (size, block) in enumerate(zip(input.shape, block_size)):
        if size % block:
            raise AssertionError(
                f"Expecting input size at {dim} dimension: {size} to be divisible by block_size at {dim} dimension: "
                f"{block}"
            )
        shape += [size // block, block]
    return shape, [1 if k % 2 else size for k, size in enumerate(shape)]


def choose_qparams_affine(
    input: Tensor,
    mapping_type: MappingType,
    block_size: Sequence[int],
    target_dtype: Any,
    quant_min: float | None = None,
    quant_max: float | None = None,
    eps: float | None = None,
    scale_dtype: dtypes.dtype | None = None,
    zero_point_dtype: dtypes.dtype | None = dtypes.int32,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    """Scale and zero point of each block of a tensor. Dimensions with one block are left out unless `keepdim`.

    Example:

        >>> from numod.ao.quantization.torchao import MappingType, choose_qparams_affine
        >>> x = torch.tensor([[1.0, -127.0], [0.0, 254.0]])
        >>> scale, zero_point = choose_qparams_affine(x, MappingType.SYMMETRIC, (1, 2), torch.int8, quant_min=-127)
        >>> scale, zero_point
        (tensor([1., 2.]), tensor([0, 0], dtype=numod.int32))
    """
    shape, _ = _blocks(input, block_size)
    values = input.detach().reshape(shape)
    elements = [2 * k + 1 for k in range(input.ndim)]
    low, high = values.amin(elements), values.amax(elements)
    if not keepdim:
        sizes = [
            count for count, block, size in zip(shape[::2], block_size, input.shape) if block != size or block == 1
        ]
        low, high = low.reshape(sizes), high.reshape(sizes)
    others = target_dtype, quant_min, quant_max, eps, scale_dtype, zero_point_dtype
    return choose_qparams_affine_with_min_max(low, high, mapping_type, (), *others)


@no_grad()
def choose_qparams_affine_with_min_max(
    min_val: Tensor,
    max_val: Tensor,
    mapping_type: MappingType,
    block_size: Sequence[int],
    target_dtype: Any,
    quant_min: float | None = None,
    quant_max: float | None = None,
    eps: float | None = None,
    scale_dtype: dtypes.dtype | None = None,
    zero_point_dtype: dtypes.dtype | None = dtypes.int32,
) -> tuple[Tensor, Tensor]:
    """Scale and zero point for ranges, which are widened to contain 0."""
    if not isinstance(mapping_type, MappingType):
        raise AssertionError(f"Unsupported mapping type: {mapping_type}")
    least, greatest = _limits(target_dtype, quant_min, quant_max)
    low, high = min_val.clamp_max(0), max_val.clamp_min(0)
    smallest = float(np.finfo(np.float16 if min_val.dtype is dtypes.float16 else np.float32).smallest_normal)
    smallest = smallest if eps is None else eps
    if mapping_type is MappingType.ASYMMETRIC:
        scale = ((high - low) / float(greatest - least)).clamp_min(smallest)
        zero_point = (least - (low / scale).round()).clamp(least, greatest)
    else:
        if mapping_type is MappingType.SYMMETRIC:
            scale = high.maximum(-low) / (float(greatest - least) / 2)
        else:
            of_low, of_high = low / float(least), high / float(greatest)
            scale = of_low.where(of_low > of_high, of_high)  # no maximum, which would be NaN for a range of 0 / 0
        scale = scale.clamp_min(smallest)
        zero_point = full(scale.shape, int((greatest + least + 1) / 2), device=scale.device)
    return scale.to(scale_dtype or min_val.dtype), zero_point.to(zero_point_dtype or dtypes.int32)


def quantize_affine(
    input: Tensor,
    block_size: Sequence[int],
    scale: Tensor,
    zero_point: Tensor | None,
    output_dtype: Any,
    quant_min: float | None = None,
    quant_max: float | None = None,
) -> Tensor:
    """The integers `round(x / scale) + zero_point` of each block, in the range of the dtype.

    Example:

        >>> from numod.ao.quantization.torchao import dequantize_affine, quantize_affine
        >>> x, scale, zero_point = torch.tensor([[1.0, 4.0]]), torch.tensor([[0.5, 2.0]]), torch.tensor([[0, 1]])
        >>> integers = quantize_affine(x, (1, 1), scale, zero_point, torch.int8)
        >>> integers, dequantize_affine(integers, (1, 1), scale, zero_point, torch.int8)
        (tensor([[2, 3]], dtype=numod.int8), tensor([[1., 4.]]))
    """
    least, greatest = _limits(output_dtype, quant_min, quant_max)
    if input.dtype not in _FLOATS:
        raise AssertionError(f"Unsupported input dtype: {input.dtype}")
    shape, of_scales = _blocks(input, block_size)
    integers = (input.detach().reshape(shape) * (1.0 / scale.reshape(of_scales))).round()
    if zero_point is not None and zero_point.numel():
        integers = integers + zero_point.reshape(of_scales)
    result = integers.clamp(least, greatest).reshape(input.shape)
    return result.to(dtypes.int8 if isinstance(output_dtype, TorchAODType) else output_dtype)


def dequantize_affine(
    input: Tensor,
    block_size: Sequence[int],
    scale: Tensor,
    zero_point: Tensor | None,
    input_dtype: Any,
    quant_min: float | None = None,
    quant_max: float | None = None,
    *,
    output_dtype: dtypes.dtype = dtypes.float32,
) -> Tensor:
    """The values `(integer - zero_point) * scale` of each block."""
    _limits(input_dtype, quant_min, quant_max)
    if not isinstance(input_dtype, TorchAODType) and input.dtype is not input_dtype:
        raise AssertionError(f"Expected: {input_dtype}, got: {input.dtype}")
    shape, of_scales = _blocks(input, block_size)
    values = input.reshape(shape).to(output_dtype)
    if zero_point is not None:
        values = values - zero_point.reshape(of_scales).to(output_dtype)
    return (values * scale.reshape(of_scales)).reshape(input.shape).to(output_dtype)
