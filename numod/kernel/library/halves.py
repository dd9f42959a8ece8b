"""16-bit floats by their bits: float16 where the processor has no instruction for it (`kernel.halves`), bfloat16
everywhere.
"""

from __future__ import annotations

from ..language import bits32, float32, float_of_bits32, uint16, uint32
from ..scalar import scalar


@scalar
def from_float16(bits):
    """The float32 of IEEE binary16 bits: its exponent is moved by a multiplication, which also normalises
    subnormals.
    """
    magnitude = (uint32(bits) & uint32(0x7FFF)) << uint32(13)
    value = bits32(float_of_bits32(magnitude) * float_of_bits32(uint32(0x77800000)))  # 2 ** 112
    value = value | uint32(0x7F800000) if magnitude >= uint32(0x0F800000) else value
    return float_of_bits32(value | ((uint32(bits) & uint32(0x8000)) << uint32(16)))


@scalar
def to_float16(x):
    """The IEEE binary16 bits nearest to a float32, halves to even.

    Subnormals are rounded by adding 0.5, which has the same last place.
    """
    bits = bits32(float32(x))
    sign = bits & uint32(0x80000000)
    magnitude = bits ^ sign
    small = bits32(float_of_bits32(magnitude) + float_of_bits32(uint32(0x3F000000))) - uint32(0x3F000000)
    normal = (
        max(magnitude, uint32(0x38800000))
        - uint32(0x38000000)
        + uint32(0xFFF)
        + ((magnitude >> uint32(13)) & uint32(1))
    ) >> uint32(13)
    result = small if magnitude < uint32(0x38800000) else normal
    large = uint32(0x7E00) if magnitude > uint32(0x7F800000) else uint32(0x7C00)
    result = large if magnitude >= uint32(0x47800000) else result
    return uint16(result | (sign >> uint32(16)))


@scalar
def from_bfloat16(bits):
    """The float32 with these bits as its upper half."""
    return float_of_bits32(uint32(uint32(bits) << uint32(16)))


@scalar
def to_bfloat16(x):
    """The upper half of the nearest float32 with an empty lower half, halves to even."""
    bits = bits32(float32(x))
    rounded = (bits + uint32(0x7FFF) + ((bits >> uint32(16)) & uint32(1))) >> uint32(16)
    return uint16(uint32(0x7FC0) if x != x else rounded)
