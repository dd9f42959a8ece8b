"""From a sum of products of integers to an integer of a byte: by float32, or by integers with the same result."""

from __future__ import annotations

from ..language import bits32, float32, int32, uint32, uint64
from ..scalar import scalar
from .arithmetic import round_small


@scalar
def scaled_by_float(total, multiplier, least, most):
    """round(total * multiplier) in [least, most], with the roundings of float32. `multiplier` is positive."""
    return int32(round_small(min(max(float32(total) * multiplier, float32(least)), float32(most))))


@scalar
def half_even(doubled, rest, odd):
    """doubled / 2, rounded to the nearest integer, halves to the even one, or the odd one if `odd` is 1.

    `rest` is not zero if `doubled` is less than the exact number.
    """
    return uint32((doubled >> uint32(1)) + (doubled & uint32(1) & (rest | ((doubled >> uint32(1)) ^ odd))))


@scalar
def scaled_by_integers(total, multiplier, least, most):
    """`scaled_by_float` without floating point, for processors that have none."""
    return int32(min(max(scaled_by_bits(total, bits32(multiplier), uint32(0)), int32(least)), int32(most)))


@scalar
def scaled_by_bits(total, bits, zero):
    """round(total * m + zero) - zero for the float32 m of these bits; 2 ** 23 stands for all greater numbers.

    Halves are rounded to even, so `zero` matters if it is odd.
    float32 rounds the total and the product to 24 bits: here the bits shifted out are kept in `rest`.
    """
    exponent, factor = int32(bits >> uint32(23)), uint32((bits & uint32(0x7FFFFF)) | uint32(0x800000))
    shift = int32(150 - exponent)  # the product is size * factor / 2 ** shift
    size, rest = uint32(-total if total < 0 else total), uint32(0)
    while size >= uint32(1 << 25):
        size, rest, shift = uint32(size >> uint32(1)), uint32(rest | (size & uint32(1))), int32(shift - 1)
    if size >= uint32(1 << 24):
        size, shift = half_even(size, rest, uint32(0)), int32(shift - 1)
    product, rest = uint64(size) * uint64(factor), uint32(0)
    while product >= uint64(1 << 33):
        rest = uint32(rest | uint32((uint32(product) & uint32(255)) != uint32(0)))
        product, shift = product >> uint64(8), int32(shift - 8)
    while product >= uint64(1 << 25):
        rest, product, shift = uint32(rest | (uint32(product) & uint32(1))), product >> uint64(1), int32(shift - 1)
    size = uint32(product)
    if size >= uint32(1 << 24):
        size, shift = half_even(size, rest, uint32(0)), int32(shift - 1)
    if shift <= 0:  # 2 ** 23 or more, unless it is zero
        value = int32(1 << 23) if size > uint32(0) else int32(0)
    elif shift > 25:
        value = int32(0)
    else:
        rest = uint32(0)
        while shift > 1:
            size, rest, shift = uint32(size >> uint32(1)), uint32(rest | (size & uint32(1))), int32(shift - 1)
        value = int32(half_even(size, rest, uint32(zero) & uint32(1)))
    return int32(-value) if total < 0 else value


@scalar
def shifted(total, shift):
    """total / 2 ** shift, rounded to the nearest integer, halves to even. The sum with 2 ** (shift - 1) has 32 bits."""
    half = int32(int32(1) << int32(shift - 1)) - int32(1)
    return int32(int32(total + half + ((total >> int32(shift)) & int32(1))) >> int32(shift))


@scalar
def quotient_by_floats(total, size, zero):
    """total / size + zero, rounded to the nearest integer, halves to even."""
    return int32(round_small(float32(total) / float32(size) + float32(zero)))


@scalar
def quotient_by_integers(total, size, zero):
    """`quotient_by_floats` without floating point."""
    whole = int32(total // size)
    rest, result = int32(total - whole * size), int32(whole + zero)
    to_next = int32(size - rest)
    return int32(result + 1) if rest > to_next or (rest == to_next and result % 2 != 0) else result
