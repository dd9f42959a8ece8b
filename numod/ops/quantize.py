"""Rows that map real numbers to integers and back: value = scale * (integer - zero_point).

`scale` and `zero` are numbers, or tensors that broadcast (one entry per channel). Rounding is to even, as in PyTorch,
and values beyond the integers' range saturate. Products of integers are in `matmul.int8` and
`matmul.int8_linear`.
"""

from __future__ import annotations

from .pointwise import pointwise
from .table import clamp, maximum, minimum, round, where


def steps(x, scale):
    """x in steps of the scale, rounded. PyTorch multiplies by the reciprocal, which decides ties."""
    return round(x * (1.0 / scale))


def saturated(value, low, high):
    """`value` in [low, high]; NaN is `high`, as in PyTorch."""
    return where(value < high, where(value > low, value, low), high)


def quantized(x, scale, zero, low, high):
    """The integer of x, still as a float. The zero point is added before rounding, which decides ties."""
    return saturated(round(x * (1.0 / scale) + zero), low, high)


def requantized(total, offset, multiplier, zero, low, high):
    """The integer of a product's sum: `offset` has the bias and the products with zero points."""
    return saturated(zero + round((total + offset) * multiplier), low, high)


def is_inside(x, scale, zero, low, high):
    """Whether the integer of x is in [low, high]. False for NaN."""
    value = zero + steps(x, scale)
    return (value >= low) & (value <= high)


def rounded_off(x, scale, zero, low, high):
    """The nearest value that a quantized tensor can hold; NaN is the lowest."""
    value = zero + steps(x, scale)
    return (where(value > low, where(value < high, value, high), low) - zero) * scale


def scale_slope(g, x, scale, zero, low, high):
    """The gradient of a learned scale (Esser et al., Learned Step Size Quantization). NaN counts as the lowest."""
    value = zero + steps(x, scale)
    inner = value - zero - x * (1.0 / scale)
    return g * where(value >= low, where(value > high, high - zero, inner), low - zero)


def zero_slope(g, x, scale, zero, low, high):
    """The gradient of a learned zero point: it moves the values that are clipped."""
    return where(is_inside(x, scale, zero, low, high), 0.0, -g * scale)


def scale_or_default(scale):
    """A scale that has a reciprocal: 0.1 for a tensor of zeros, as FBGEMM has it."""
    return where(scale > 1e-38, maximum(scale, 6.1e-5), 0.1)


def zero_of(low, scale, last):
    """The integer that stands for zero."""
    return saturated(round(0.0 - minimum(low, 0.0) / scale), 0.0, last)


to_integers = {  # name of the integers' dtype -> row
    name: pointwise(f"quantize_{name}", quantized, accepts="f", result=name) for name in ("int8", "uint8", "int32")
}
requantize = {  # saved programs of older versions have these rows after products of integers
    name: pointwise(f"requantize_{name}", requantized, accepts="f", result=name) for name in ("int8", "uint8")
}
for _row in (*to_integers.values(), *requantize.values()):
    _row.differentiable = False
# the scale and zero point of a tensor whose values are in [low, high], for the integers 0 to `last`
range_scale = pointwise(
    "range_scale",
    lambda low, high, last: scale_or_default((maximum(high, 0.0) - minimum(low, 0.0)) / last),
    accepts="f",
)
range_zero = pointwise("range_zero", lambda low, scale, last: zero_of(low, scale, last), accepts="f")
dequantize_product = pointwise(
    "dequantize_product",
    lambda total, sums, zero, scale, weight_scale, bias: (total - zero * sums) * (scale * weight_scale) + bias,
    accepts="f",
)
for _row in (range_scale, range_zero, dequantize_product):
    _row.differentiable = False
# without floating point: bytes from 32-bit sums, by a shift, a division or the bits of a float32 multiplier
_shifted = pointwise("shifted", "shifted(x, y)", accepts="i")
_scaled_by_bits = pointwise("scaled_by_bits", "scaled_by_bits(x, y, z)", accepts="i")
shifted_sum = {
    name: pointwise(
        f"shifted_sum_{name}",
        lambda x, y, first, second, offset, shift, low, high: clamp(
            _shifted(x * first + y * second + offset, shift), low, high
        ),
        accepts="i",
        result=name,
    )
    for name in ("int8", "uint8")
}
_quotient = pointwise("quotient_by_integers", "quotient_by_integers(x, y, z)", accepts="i")
mean_sum = {
    name: pointwise(
        f"mean_sum_{name}",
        lambda total, count, zero, low, high: clamp(_quotient(total, count, zero), low, high),
        accepts="i",
        result=name,
    )
    for name in ("int8", "uint8")
}
scaled_sum = {
    name: pointwise(
        f"scaled_sum_{name}",
        lambda total, bits, zero, low, high: clamp(_scaled_by_bits(total, bits, zero) + zero, low, high),
        accepts="i",
        result=name,
    )
    for name in ("int8", "uint8")
}
for _row in (_shifted, _scaled_by_bits, _quotient, *mean_sum.values(), *shifted_sum.values(), *scaled_sum.values()):
    _row.differentiable = False
fake_quantize = pointwise(
    "fake_quantize",
    rounded_off,
    dx=lambda g, x, scale, zero, low, high: where(is_inside(x, scale, zero, low, high), g, 0.0),
    dscale=scale_slope,
    dzero=zero_slope,
    accepts="f",
)
