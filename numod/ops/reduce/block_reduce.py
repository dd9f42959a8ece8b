"""Kernels in which a block of GPU threads shares a row: when they are used, and their launcher.

Their device functions are in `kernel.library.cuda_block`.
"""

from __future__ import annotations

from collections.abc import Callable

from ...device import Layout
from ...kernel import bind, build
from ...kernel.specialize import has, specialized

# threads of a block that always have enough registers: 65536 per multiprocessor, at most 255 per thread
_SAFE_THREADS = 256


# columns of a large matrix that are factored, or solved for, at a time; threads of a block that updates the rest
PANEL, PANEL_THREADS = 32, 256
ELEMENTS_PER_THREAD = (
    32  # elements per thread of rows that are reduced to one result: combining the threads' results takes time
)


def sharing(x: Layout, n: int, step: int = 1, most: int = 256, per_thread: int = 16) -> int:
    """The number of threads that share a row of n elements, about `per_thread` elements for each.

    0 if one thread per row is better: on a CPU, for short rows, or if elements are `step` != 1 apart.
    """
    backend = x.device.backend
    if not backend.is_gpu or step != 1:
        return 0
    threads = backend.threads_per_row(n, most, per_thread)
    return threads if 2 * n >= threads else 0


def launcher(
    x: Layout, name: str, kernel: Callable, signature: str, rows: int, threads: int, most: int = 0, lanes: int = 1
) -> Callable:
    """The launcher of a kernel in which `threads` threads (THREADS) work on each of `rows` rows.

    A block has up to `most` threads, for TASKS rows. The threads of a row form GROUPS groups of LANES.
    """
    tasks = max(min(most // threads, 2) if x.device.backend.SIMULATED else most // threads, 1)
    sizes = {"THREADS": threads, "TASKS": tasks, "LANES": lanes, "GROUPS": threads // lanes}
    source = specialized(kernel, **{name: size for name, size in sizes.items() if has(kernel, name)})
    if threads > _SAFE_THREADS:
        source = f"RESIDENT = {threads}, 1\n{source}"
    return bind.launcher(
        x.device, name, source, signature, x.dtype, x.size, build.FAST_REDUCTION, (-(-rows // tasks), tasks * threads)
    )


def panel(x: Layout, name: str, kernel: Callable, signature: str, tasks: int, threads: int = PANEL_THREADS) -> Callable:
    """The launcher of a kernel for a panel of a large matrix, with one lane per column of the panel."""
    return launcher(
        x, name, kernel, signature, tasks, 4 if x.device.backend.SIMULATED else threads, lanes=panel_columns(x)
    )


def panel_columns(x: Layout) -> int:
    """PANEL; 2 in the simulator, whose matrices are small."""
    return 2 if x.device.backend.SIMULATED else PANEL
