"""How fast this machine could do a row's work at most: the profiler's measured roofline over the operations and bytes
that `ops/cost.py` counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from numod import get_num_threads
from numod.profiler import profile
from numod.profiler.roofline import Machine, machine


@cache
def limits() -> Machine:
    """The machine's limits with the threads in use: cores do not share their arithmetic and caches, and share the
    memory.
    """
    one, threads = machine(), get_num_threads()
    return replace(
        one, gflops=threads * one.gflops, cache_gbs=threads * one.cache_gbs, shared_gbs=threads * one.shared_gbs
    )


def least_seconds(work: Callable[[], object]) -> float | None:
    """Seconds the ops of `work` would take if each ran at the machine's limit, one after the other.

    None where nothing is counted.
    """
    work()
    with profile(record_shapes=True, with_flops=True) as prof:
        work()
    counted = [(event.flops, event.bytes_moved) for event in prof.events() if event.category == "op"]
    return sum(limits().fraction(flops, moved, 1.0) for flops, moved in counted) or None
