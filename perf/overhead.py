"""What the profiler costs the smallest training step: `python -m perf.overhead`. Processor time, on and off in turns; below 1.01 off, 1.15 on is the aim."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import process_time

from numod.profiler import profile

from .peers import training
from .steps import TRAINED

SETTINGS = {
    "off, after it was on": None, "on, with_modules=False": {"with_modules": False}, "on": {}, "on, with_jit": {"with_jit": True},
    "on, everything": {"with_jit": True, "record_shapes": True, "with_flops": True, "profile_memory": True, "with_stack": True},
}  # fmt: skip


def seconds(step: Callable[[], None], times: int = 100) -> float:
    """Processor seconds of a step."""
    start = process_time()
    for _ in range(times):
        step()
    return (process_time() - start) / times


def ratio(step: Callable[[], None], setting: dict | None) -> float:
    """A step's time with the profiler as set, over that before and after without."""
    before = seconds(step)
    if setting is None:
        with profile(with_jit=True):
            step()
        seconds(step)  # Python learns anew what these calls are
        after = seconds(step)
        return after / before
    with profile(**setting):
        seconds(step, 10)
        on = seconds(step)
    seconds(step, 10)
    return on / ((before + seconds(step)) / 2)


def main(rounds: int = 60) -> None:
    """Print the middle and the lower quarter of the ratios."""
    step = training(*TRAINED["MLP 4-3-1, batch 1"])["numod"]().names["step"]
    seconds(step)
    found: dict[str, list[float]] = {name: [] for name in SETTINGS}
    for _ in range(rounds):
        for name, setting in SETTINGS.items():
            found[name].append(ratio(step, setting))
    for name, ratios in found.items():
        print(f"{name:<26} × {statistics.median(ratios):.3f}   lower quarter × {statistics.quantiles(ratios, n=4)[0]:.3f}")


if __name__ == "__main__":
    main()
