"""Random bits and numbers of a counter: the same on every target, in any order, by any number of threads."""

from __future__ import annotations

from ..scalar import inlined_scalar, scalar


@inlined_scalar
def philox(seed, counter, lane):
    """Word `lane` % 4 of the 128 random bits of Philox4x32-10 for key seed and counter (counter, lane // 4). Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011."""
    key0 = uint64(seed) & uint64(0xFFFFFFFF)
    key1 = uint64(seed) >> uint64(32)
    c0 = uint64(counter) & uint64(0xFFFFFFFF)
    c1 = uint64(counter) >> uint64(32)
    c2 = uint64(lane) >> uint64(2)
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
    low, high = c0 | (c1 << uint64(32)), c2 | (c3 << uint64(32))
    return ((high if lane & 2 else low) >> (uint64(lane & 1) << uint64(5))) & uint64(0xFFFFFFFF)


@scalar
def unit(high, low):
    """A number in [0, 1) from two random words: 24 bits of the first in float32, 53 bits of both in float64."""
    value = real(int64(high >> uint64(8))) * 5.9604644775390625e-08
    if 1.0 + 1e-12 != 1.0:
        value = value + real(int64(((high & uint64(255)) << uint64(21)) | (low >> uint64(11)))) * 1.1102230246251565e-16
    return value


@inlined_scalar
def random_pair(seed, offset, index):
    """64 random bits for element `index`: two words of counter offset + index."""
    high = philox(seed, int64(offset) + int64(index), 0)
    low = philox(seed, int64(offset) + int64(index), 1)
    return (high << uint64(32)) | low


@inlined_scalar
def random_uniform(seed, offset, index):
    """A number in [0, 1), exact in the kernel's type; float32 and float64 agree in the leading 24 bits."""
    counter = int64(offset) + (int64(index) >> 2)
    lane = int64(index) & 3
    return unit(philox(seed, counter, lane), philox(seed, counter, lane + 4))


@inlined_scalar
def random_normal(seed, offset, index):
    """A standard normal number (Box and Muller, 1958), from the words of counter offset + index."""
    counter = int64(offset) + int64(index)
    u = unit(philox(seed, counter, 0), philox(seed, counter, 1))
    v = unit(philox(seed, counter, 2), philox(seed, counter, 3))
    return sqrt(-2.0 * log(1.0 - u)) * cos(6.283185307179586 * v)


@inlined_scalar
def random_below(seed, offset, index, bound):
    """An integer in [0, bound): 63 random bits modulo bound (bias below bound / 2^63). A negative bound stands for 2^64 more, and takes 64 bits."""
    return int64((random_pair(seed, offset, index) >> uint64(bound >= 0)) % uint64(int64(bound)))
