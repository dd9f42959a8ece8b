"""The roofline: what this machine can do at most, measured: multiply-adds of its best product, bytes to and from caches and memory. One thread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from time import perf_counter

import numpy as np

from ..device import blas

_IN_CACHE = 1 << 19  # bytes up to which a call's data is taken to come from the caches


@dataclass(frozen=True)
class Machine:
    """Limits: GFLOP/s of a product in float32, GB/s of a copy within the second-level cache and through memory."""

    gflops: float
    cache_gbs: float
    memory_gbs: float

    def attainable(self, flops: int, moved: int) -> float:
        """GFLOP/s that work of so many operations on so many bytes could reach at most."""
        bandwidth = self.cache_gbs if moved <= _IN_CACHE else self.memory_gbs
        return min(self.gflops, flops / moved * bandwidth) if moved else self.gflops

    def fraction(self, flops: int, moved: int, seconds: float) -> float:
        """What part of the attainable was reached; of the bandwidth, where nothing is computed."""
        if not seconds or not (flops or moved):
            return 0.0
        if not flops:
            return moved / seconds / 1e9 / (self.cache_gbs if moved <= _IN_CACHE else self.memory_gbs)
        return flops / seconds / 1e9 / self.attainable(flops, moved)


@cache
def machine() -> Machine:
    """This machine's limits; the first call takes a tenth of a second."""
    a = np.ones((512, 512), np.float32)
    out = np.empty_like(a)
    blas.prepare(1)  # one thread
    product = _best(lambda: np.matmul(a, a, out), 5)
    small, large = np.ones(1 << 15, np.float32), np.ones(1 << 22, np.float32)
    small_out, large_out = np.empty_like(small), np.ones_like(large)
    copies = 32
    in_cache = _best(lambda: [np.copyto(small_out, small) for _ in range(copies)], 9) / copies
    through_memory = _best(lambda: np.copyto(large_out, large), 7)
    return Machine(2 * 512**3 / product / 1e9, 2 * small.nbytes / in_cache / 1e9, 2 * large.nbytes / through_memory / 1e9)


def _best(run: object, rounds: int) -> float:
    """The least seconds of some runs."""
    best = float("inf")
    for _ in range(rounds):
        start = perf_counter()
        run()
        best = min(best, perf_counter() - start)
    return best
