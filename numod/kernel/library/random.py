"""Counter-based random bits and numbers: equal on every target, in any order, with any number of threads."""

from __future__ import annotations

from math import cos, log, sqrt

from ..language import int64, real, uint32, uint64
from ..scalar import inlined_scalar, scalar


@inlined_scalar
def philox_block(seed, counter, group):
    """128 random bits, as two numbers: Philox4x32-10 with the key `seed` and the counter (counter, group).

    Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011.
    """
    key0 = uint64(seed) & uint64(0xFFFFFFFF)
    key1 = uint64(seed) >> uint64(32)
    c0 = uint64(counter) & uint64(0xFFFFFFFF)
    c1 = uint64(counter) >> uint64(32)
    c2 = uint64(group)
    c3 = uint64(0)
    for _ in range(10):
        product0 = uint64(0xD2511F53) * c0
        product1 = uint64(0xCD9E8D57) * c2
        c0 = (product1 >> uint64(32)) ^ c1 ^ key0
        c1 = product1 & uint64(0xFFFFFFFF)
        c2 = (product0 >> uint64(32)) ^ c3 ^ key1
        c3 = product0 & uint64(0xFFFFFFFF)
        key0 = (key0 + uint64(0x9E3779B9)) & uint64(0xFFFFFFFF)
        key1 = (key1 + uint64(0xBB67AE85)) & uint64(0xFFFFFFFF)
    return c0 | (c1 << uint64(32)), c2 | (c3 << uint64(32))


@inlined_scalar
def lane(low, high, k):
    """Word k % 4 of a block."""
    return ((high if k & 2 else low) >> (uint64(k & 1) << uint64(5))) & uint64(0xFFFFFFFF)


@inlined_scalar
def philox(seed, counter, k):
    """Word k % 4 of block k // 4 of a counter."""
    low, high = philox_block(seed, counter, k >> 2)
    return lane(low, high, k)


@inlined_scalar
def word(seed, offset, index, group):
    """A random word for element `index`: four neighbours share a block.

    An element's second to fourth words are those of the groups 1, 2 and 3.
    """
    return philox(seed, int64(offset) + (int64(index) >> 2), (int64(index) & 3) + 4 * group)


@inlined_scalar
def draw_words(words, seed, offset, start, end, group):
    """Words of elements `start` // 4 * 4 to `end` - 1, for a loop that reads them.

    It computes a quarter of the blocks that calls of `word` would compute.
    """
    first = start >> 2
    for k in range(((end + 3) >> 2) - first):
        low, high = philox_block(seed, int64(offset) + first + k, group)
        words[4 * k] = uint32(low)
        words[4 * k + 1] = uint32(low >> uint64(32))
        words[4 * k + 2] = uint32(high)
        words[4 * k + 3] = uint32(high >> uint64(32))


@scalar
def unit(high, low):
    """A number in [0, 1) from two random words: 24 bits of the first in float32, 53 bits of both in float64."""
    value = real(int64(uint64(high) >> uint64(8))) * 5.9604644775390625e-08
    if 1.0 + 1e-12 != 1.0:
        value = (
            value
            + real(int64(((uint64(high) & uint64(255)) << uint64(21)) | (uint64(low) >> uint64(11))))
            * 1.1102230246251565e-16
        )
    return value


@inlined_scalar
def draw_uniforms(high, low, seed, offset, start, end):
    """Draw the words from which `unit` computes numbers in [0, 1); `low` is filled for float64 only.

    Returns the index of the element that the first words belong to.
    """
    draw_words(high, seed, offset, start, end, 0)
    if 1.0 + 1e-12 != 1.0:
        draw_words(low, seed, offset, start, end, 1)
    return start & -4


@inlined_scalar
def normal_of(a, b, c, d):
    """A standard normal number of four random words (Box and Muller, 1958)."""
    return sqrt(-2.0 * log(1.0 - unit(a, b))) * cos(6.283185307179586 * unit(c, d))


@inlined_scalar
def below(high, low, bound):
    """An integer in [0, bound) from 64 random bits; a negative bound means bound + 2^64.

    For a bound of 32 bits it is bits * bound / 2^64; for a larger one, bits modulo bound (bias below bound / 2^63).
    """
    if uint64(int64(bound)) >> uint64(32) == 0:
        return int64((uint64(high) * uint64(bound) + (uint64(low) * uint64(bound) >> uint64(32))) >> uint64(32))
    return int64((((uint64(high) << uint64(32)) | uint64(low)) >> uint64(bound >= 0)) % uint64(int64(bound)))


@inlined_scalar
def random_uniform(seed, offset, index):
    """A number in [0, 1), exact in the kernel's type; float32 and float64 agree in the leading 24 bits."""
    return unit(word(seed, offset, index, 0), word(seed, offset, index, 1))


@inlined_scalar
def random_normal(seed, offset, index):
    """A standard normal number."""
    return normal_of(
        word(seed, offset, index, 0),
        word(seed, offset, index, 1),
        word(seed, offset, index, 2),
        word(seed, offset, index, 3),
    )


@inlined_scalar
def random_below(seed, offset, index, bound):
    """An integer in [0, bound)."""
    return below(word(seed, offset, index, 0), word(seed, offset, index, 1), bound)
