"""The roofline: measured limits of one thread on this machine, for arithmetic and for memory bandwidth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from time import perf_counter

import numpy as np

from ..core.create.creation import ones
from ..device import threads
from ..ops.convolution.convolution import convolution
from ..ops.matmul.matmul import matmul

# sizes in bytes up to which data is assumed to be in a core's own caches, and in the shared cache
_LEVELS = (1 << 19, 1 << 23)


@dataclass(frozen=True)
class Machine:
    """A machine's limits.

    GFLOP/s is that of the faster of a float32 matrix product and a convolution; GB/s is that of a copy within the L2
    cache, the shared cache, and memory.
    """

    gflops: float
    cache_gbs: float
    shared_gbs: float
    memory_gbs: float

    def bandwidth(self, moved: int) -> float:
        """GB/s for data of this size."""
        return self.cache_gbs if moved <= _LEVELS[0] else self.shared_gbs if moved <= _LEVELS[1] else self.memory_gbs

    def attainable(self, flops: int, moved: int) -> float:
        """The attainable GFLOP/s for this many operations on this many bytes."""
        return min(self.gflops, flops / moved * self.bandwidth(moved)) if moved else self.gflops

    def fraction(self, flops: int, moved: int, seconds: float) -> float:
        """The fraction of the attainable performance, or of the bandwidth if there are no operations."""
        if not seconds or not (flops or moved):
            return 0.0
        if not flops:
            return moved / seconds / 1e9 / self.bandwidth(moved)
        return flops / seconds / 1e9 / self.attainable(flops, moved)


@cache
def machine() -> Machine:
    """This machine's limits. The first call takes a fifth of a second."""
    return Machine(
        max(_product_rate(512), _convolution_rate(64, 30)),
        _copy_rate(1 << 15, 16),
        _copy_rate(1 << 19, 4),
        _copy_rate(1 << 23, 1),
    )


def _product_rate(n: int) -> float:
    """GFLOP/s of numod's product of square matrices."""
    a = ones(n, n)
    return 2 * n**3 / _alone(lambda: matmul.apply((a, a), (False, False))) / 1e9


def _convolution_rate(channels: int, size: int) -> float:
    """GFLOP/s of numod's 5 x 5 convolution. A 3 x 3 convolution uses fewer operations than are counted."""
    x, weight = ones(1, channels, size + 4, size + 4), ones(channels, channels, 5, 5)
    return (
        2
        * channels**2
        * 25
        * size**2
        / _alone(lambda: convolution.apply((x, weight), ((1, 1), (0, 0), (1, 1), 1, None)))
        / 1e9
    )


def _alone(run: Callable) -> float:
    """The best time on one thread."""
    before = threads.get_num_threads()
    threads.set_num_threads(1)
    try:
        return _best(run, 25)
    finally:
        threads.set_num_threads(before)


def _copy_rate(count: int, times: int) -> float:
    """GB/s of repeatedly reading and writing this many floats."""
    source, target = np.ones(count, np.float32), np.ones(count, np.float32)
    seconds = _best(lambda: [np.copyto(target, source) for _ in range(times)], 12) / times
    return 2 * source.nbytes / seconds / 1e9


def _best(run: object, rounds: int) -> float:
    """The shortest of several runs in seconds."""
    best = float("inf")
    for _ in range(rounds):
        start = perf_counter()
        run()
        best = min(best, perf_counter() - start)
    return best
