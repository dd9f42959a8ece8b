"""What the profiler costs the smallest training step:

`python -m perf.overhead`. Processor time, on and off in turns; below 1.01 off and 1.15 on is the aim.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import process_time

from numod.profiler import profile

from .peers import training
from .steps import TRAINED

SETTINGS = {
    "on, with_modules=False": {"with_modules": False}, "on": {}, "on, with_jit": {"with_jit": True},
    "on, everything": {"with_jit": True, "record_shapes": True, "with_flops": True, "profile_memory": True,
        "with_stack": True},
}  # fmt: skip


def seconds(step: Callable[[], None], times: int = 10) -> float:
    """Processor seconds of a step."""
    start = process_time()
    for _ in range(times):
        step()
    return (process_time() - start) / times


def blocks(step: Callable[[], None], number: int = 5) -> list[float]:
    """Seconds of a step in short blocks, after Python has learnt what its calls are: it does so anew where functions
    were exchanged.
    """
    seconds(step, 50)
    return [seconds(step) for _ in range(number)]


def main(rounds: int = 60) -> None:
    """Print a step's time on beside that off, and off beside that before it was ever on: the middle of all blocks, and
    the fastest tenth, which other work disturbs least.
    """
    step = training(*TRAINED["MLP 4-3-1, batch 1"])["numod"]().names["step"]
    never = [block for _ in range(rounds) for block in blocks(step)]
    results: dict[str, list[float]] = {"off, after it was on": [], **{name: [] for name in SETTINGS}}
    for _ in range(rounds):
        for name, setting in SETTINGS.items():
            with profile(**setting):
                results[name] += blocks(step)
            results["off, after it was on"] += blocks(step)
    off = results["off, after it was on"]
    for name, times in results.items():
        plain = never if times is off else off
        print(
            f"{name:<26} × {statistics.median(times) / statistics.median(plain):.3f}   fastest tenth × "
            f"{_fast(times) / _fast(plain):.3f}"
        )


def _fast(times: list[float]) -> float:
    return statistics.quantiles(times, n=10)[0]


if __name__ == "__main__":
    main()
