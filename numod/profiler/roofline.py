"""The roofline: what this machine can do at most, measured: multiply-adds of its best product or convolution, bytes to and from caches and memory. One thread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from time import perf_counter

import numpy as np

from ..core.creation import ones
from ..device import blas, threads
from ..ops.convolution import convolution

_LEVELS = (1 << 19, 1 << 23)  # bytes up to which a call's data is taken to come from a core's own caches, and from the shared one


@dataclass(frozen=True)
class Machine:
    """Limits: GFLOP/s of the better of a product and a convolution in float32, GB/s of a copy within the second-level cache, the shared one, and through memory."""

    gflops: float
    cache_gbs: float
    shared_gbs: float
    memory_gbs: float

    def bandwidth(self, moved: int) -> float:
        """GB/s where so many bytes lie."""
        return self.cache_gbs if moved <= _LEVELS[0] else self.shared_gbs if moved <= _LEVELS[1] else self.memory_gbs

    def attainable(self, flops: int, moved: int) -> float:
        """GFLOP/s that work of so many operations on so many bytes could reach at most."""
        return min(self.gflops, flops / moved * self.bandwidth(moved)) if moved else self.gflops

    def fraction(self, flops: int, moved: int, seconds: float) -> float:
        """What part of the attainable was reached; of the bandwidth, where nothing is computed."""
        if not seconds or not (flops or moved):
            return 0.0
        if not flops:
            return moved / seconds / 1e9 / self.bandwidth(moved)
        return flops / seconds / 1e9 / self.attainable(flops, moved)


@cache
def machine() -> Machine:
    """This machine's limits; the first call takes a fifth of a second."""
    return Machine(max(_product_rate(512), _convolution_rate(64, 30)), _copy_rate(1 << 15, 16), _copy_rate(1 << 19, 4), _copy_rate(1 << 23, 1))


def _product_rate(n: int) -> float:
    """GFLOP/s of the product of square matrices by BLAS."""
    a = np.ones((n, n), np.float32)
    out = np.empty_like(a)
    blas.prepare(1)  # one thread
    return 2 * n**3 / _best(lambda: np.matmul(a, a, out), 25) / 1e9


def _convolution_rate(channels: int, size: int) -> float:
    """GFLOP/s of our own convolution by 3 x 3, which on some machines passes BLAS."""
    before = threads.get_num_threads()
    threads.set_num_threads(1)
    try:
        x, weight = ones(1, channels, size + 2, size + 2), ones(channels, channels, 3, 3)
        parameters = ((1, 1), (0, 0), (1, 1), 1, None)
        return 2 * channels**2 * 9 * size**2 / _best(lambda: convolution.apply((x, weight), parameters), 25) / 1e9
    finally:
        threads.set_num_threads(before)


def _copy_rate(count: int, times: int) -> float:
    """GB/s of reading and writing so many floats, over and over."""
    source, target = np.ones(count, np.float32), np.ones(count, np.float32)
    seconds = _best(lambda: [np.copyto(target, source) for _ in range(times)], 12) / times
    return 2 * source.nbytes / seconds / 1e9


def _best(run: object, rounds: int) -> float:
    """The least seconds of some runs."""
    best = float("inf")
    for _ in range(rounds):
        start = perf_counter()
        run()
        best = min(best, perf_counter() - start)
    return best
