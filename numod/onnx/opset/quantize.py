"""Quantized tensors as integers with scales and zero points, per tensor, per axis or per block."""

from __future__ import annotations

import numod

from ...core import Tensor
from ...dtypes import dtype
from ..registry import operator
from .convolution import conv


def _expanded(value: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """A scale or zero point in a shape that broadcasts with `x`."""
    if block_size:
        repeated = value.repeat_interleave(block_size, axis)
        return repeated.narrow(axis, 0, x.shape[axis])
    if value.numel() == 1 and value.ndim <= 1:
        return value.reshape(())
    return value.reshape([-1 if dim == axis % x.ndim else 1 for dim in range(x.ndim)])


def quantized(x: Tensor, scale: Tensor, zero_point: Tensor | None, kind: dtype) -> Tensor:
    """round(x / scale) + zero_point, saturated to the integers of `kind`."""
    limits = numod.iinfo(kind)
    values = numod.round((x / scale).to(numod.float32))
    values = values if zero_point is None else values + zero_point.to(numod.float32)
    return numod.clamp(values, limits.min, limits.max).to(kind)


@operator("QuantizeLinear", since=10, state="scale zero_point")
@operator("QuantizeLinear", domain="com.microsoft", state="scale zero_point")
def quantize_linear(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: dtype | None = None,
    precision: int = 0,
    saturate: int = 1,
) -> Tensor:
    """Integers for numbers. The zero point's dtype is the result's, uint8 by default."""
    kind = zero_point.dtype if zero_point is not None else output_dtype or numod.uint8
    if zero_point is not None:
        zero_point = _expanded(zero_point, x, axis, block_size)
    if x.dtype is numod.int32:
        x = x.to(numod.float32)
    return quantized(x, _expanded(scale, x, axis, block_size), zero_point, kind)


@operator("DequantizeLinear", since=10, state="x scale zero_point")
@operator("DequantizeLinear", domain="com.microsoft", state="x scale zero_point")
def dequantize_linear(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: dtype | None = None,
) -> Tensor:
    """Numbers for integers."""
    kind = output_dtype or scale.dtype
    values = x.to(numod.int32)
    if zero_point is not None:
        values = values - _expanded(zero_point, x, axis, block_size).to(numod.int32)
    return (values.to(scale.dtype) * _expanded(scale, x, axis, block_size)).to(kind)


@operator("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(x: Tensor) -> tuple:
    """uint8 integers, the scale and the zero point of the range that the numbers have."""
    low, high = numod.clamp(x.min(), max=0.0), numod.clamp(x.max(), min=0.0)
    scale = (high - low) / 255.0
    scale = numod.where(scale == 0, numod.ones_like(scale), scale)
    zero_point = numod.clamp(numod.round(-low / scale), 0, 255).to(numod.uint8)
    return quantized(x, scale, zero_point, numod.uint8), scale, zero_point


def _centred(x: Tensor, zero_point: Tensor | None, axis: int | None = None) -> Tensor:
    """x - zero_point in int32. A vector of zero points lies along `axis`."""
    values = x.to(numod.int32)
    if zero_point is None:
        return values
    zero_point = zero_point.to(numod.int32)
    if zero_point.numel() == 1 and zero_point.ndim <= 1:
        return values - zero_point.reshape(())
    if zero_point.ndim == 1 and axis is not None:
        zero_point = zero_point.reshape([-1 if dim == axis % x.ndim else 1 for dim in range(x.ndim)])
    return values - zero_point


@operator("MatMulInteger", since=10, state="a_zero b_zero")
def matmul_integer(a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:
    """The int32 product of 8-bit matrices; zero points may be per row of `a` and per column of `b`."""
    return numod.matmul(_centred(a, a_zero, -2), _centred(b, b_zero, -1))


@operator("QLinearMatMul", since=10, state="a_scale a_zero b_scale b_zero y_scale y_zero")
def qlinear_matmul(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
) -> Tensor:
    """The quantized product of quantized matrices."""
    product = numod.matmul(_centred(a, a_zero, -2), _centred(b, b_zero, -1)).to(numod.float32)
    a_scale = a_scale.unsqueeze(-1) if a_scale.ndim == 1 and a_scale.numel() > 1 else a_scale
    factor = a_scale.to(numod.float32) * b_scale.to(numod.float32) / y_scale.to(numod.float32)
    return quantized(product * factor, numod.ones_like(factor), y_zero, y_zero.dtype)


def _convolution(x: Tensor, weight: Tensor, bias: Tensor | None, **attributes: object) -> Tensor:
    """A convolution of integers below 2**24, which float64 computes exactly."""
    bias = None if bias is None else bias.to(numod.float64)
    return conv(x.to(numod.float64), weight.to(numod.float64), bias, **attributes)


@operator("ConvInteger", since=10, state="x_zero w_zero")
def conv_integer(
    x: Tensor,
    weight: Tensor,
    x_zero: Tensor | None = None,
    w_zero: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """The int32 convolution of 8-bit tensors."""
    out = _convolution(
        _centred(x, x_zero),
        _centred(weight, w_zero, 0),
        None,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
    )
    return out.to(numod.int32)


@operator("QLinearConv", since=10, state="x_scale x_zero w_scale w_zero y_scale y_zero")
def qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    weight: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """The quantized convolution of quantized tensors; weights may have scales per channel."""
    out = _convolution(
        _centred(x, x_zero),
        _centred(weight, w_zero, 0),
        bias,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
    )
    factor = x_scale * w_scale / y_scale
    factor = factor.reshape(-1, *[1] * (x.ndim - 2)) if factor.numel() > 1 else factor.reshape(())
    return quantized(out.to(numod.float32) * factor, numod.ones_like(factor), y_zero, y_zero.dtype)
