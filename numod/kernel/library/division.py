"""Division for GPUs, which divide 64-bit numbers several times slower than 32-bit ones, and by functions of some forty
instructions.
"""

from __future__ import annotations

from ..language import int32, int64, uint32, uint64, uintp
from ..scalar import scalar


@scalar
def quotient(x, y):
    """x // y of non-negative integers, in 32 bits if both fit.

    It takes half of the instructions of a signed division.
    """
    return int64(uintp(x) // uintp(y))


@scalar
def quotient32(x, y):
    """x // y of numbers from 0 to 2^31 - 1, in 32 bits: a GPU divides 64-bit numbers several times slower."""
    return int64(uint32(x) // uint32(y))


@scalar
def reciprocal32(y):
    """The least number above 2^63 / y, for y from 1 to 2^31 - 1; turns divisions by y in a loop into products."""
    return (uint64(1) << uint64(63)) // uint64(y) + uint64(1)


@scalar
def quotient_by(x, reciprocal):
    """x // y for x from 0 to 2^31 - 1, with `reciprocal` = reciprocal32(y).

    It is the upper word of a product, which is less than both x / y + 2^-32 and x / y + 1 / y.
    """
    twice, mask = uint64(uint32(x)) << uint64(1), uint64(4294967295)
    return int32((twice * (reciprocal >> uint64(32)) + (twice * (reciprocal & mask) >> uint64(32))) >> uint64(32))
