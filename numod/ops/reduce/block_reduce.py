"""Kernels in which a block of GPU threads shares a row: when to use them, and their launcher.

The device functions they call are in `kernel.library.teams`.
"""

from __future__ import annotations

from collections.abc import Callable

from ...device import Layout
from ...kernel import bind, build
from ...kernel.specialize import has, specialized

# threads of a block that there are registers for, whatever a kernel takes: 65536 of a multiprocessor, at most 255 of a
# thread
_ANY = 256


# columns of a large matrix that are factored, or solved for, at a time; threads of a block that has what is beside them
PANEL, PANEL_THREADS = 32, 256
# elements for each thread of rows of which one result is made: to join what the threads have found takes as long as to
# read some more
REDUCED = 32


def sharing(x: Layout, n: int, step: int = 1, most: int = 256, each: int = 16) -> int:
    """The number of threads to share a row of n elements on x's device, `each` some of them; 0 if one thread per row is
    better (short rows, or adjacent columns).
    """
    backend = x.device.backend
    if not backend.is_gpu or step != 1:
        return 0
    threads = backend.team(n, most, each)
    return threads if 2 * n >= threads else 0


def launcher(
    x: Layout, name: str, kernel: Callable, signature: str, rows: int, threads: int, most: int = 0, lanes: int = 1
) -> Callable:
    """The launcher of a kernel for a team of so many threads, TEAM in its text, for each of `rows` rows: a block, or
    BESIDE of them, of `most` threads. A team's stand in GROUPS rows of LANES.
    """
    beside = max(min(most // threads, 2) if x.device.backend.SIMULATED else most // threads, 1)
    sizes = {"TEAM": threads, "BESIDE": beside, "LANES": lanes, "GROUPS": threads // lanes}
    source = specialized(kernel, **{name: size for name, size in sizes.items() if has(kernel, name)})
    if threads > _ANY:
        source = f"RESIDENT = {threads}, 1\n{source}"
    return bind.launcher(
        x.device, name, source, signature, x.dtype, x.size, build.FAST_REDUCTION, (-(-rows // beside), beside * threads)
    )


def panel(x: Layout, name: str, kernel: Callable, signature: str, tasks: int, threads: int = PANEL_THREADS) -> Callable:
    """The launcher of a kernel for a panel of a large matrix, with groups of as many threads as it has columns."""
    return launcher(
        x, name, kernel, signature, tasks, 4 if x.device.backend.SIMULATED else threads, lanes=panel_columns(x)
    )


def panel_columns(x: Layout) -> int:
    """PANEL; few in the simulator, whose matrices are small."""
    return 2 if x.device.backend.SIMULATED else PANEL
