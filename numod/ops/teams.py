"""Kernels in which a block of GPU threads shares a row: when to use them, and their launcher. The device functions they call are in `kernel.library.teams`."""

from __future__ import annotations

from collections.abc import Callable

from ..device import Layout
from ..kernel import bind, build

_ANY = 256  # threads of a block that there are registers for, whatever a kernel takes: 65536 of a multiprocessor, at most 255 of a thread


REDUCED = 32  # elements for each thread of rows of which one result is made: to join what the threads have found takes as long as to read some more


def sharing(x: Layout, n: int, step: int = 1, most: int = 256, each: int = 16) -> int:
    """The number of threads to share a row of n elements on x's device, `each` some of them; 0 if one thread per row is better (short rows, or adjacent
    columns)."""
    backend = x.device.backend
    if not backend.FLAT or step != 1:
        return 0
    threads = backend.team(n, most, each)
    return threads if 2 * n >= threads else 0


def launcher(x: Layout, name: str, kernel: Callable | str, signature: str, rows: int, threads: int, most: int = 0) -> Callable:
    """The launcher of a kernel for a team of so many threads, TEAM in its text, for each of `rows` rows: a block, or BESIDE of them, of `most` threads."""
    beside = max(min(most // threads, 2) if x.device.backend.SIMULATED else most // threads, 1)
    source = (kernel if isinstance(kernel, str) else bind.source_of(kernel)).replace("TEAM", str(threads)).replace("BESIDE", str(beside))
    if threads > _ANY:
        source = f"RESIDENT = {threads}, 1\n{source}"
    return bind.launcher(x.device, name, source, signature, x.dtype, x.size, build.FAST_REDUCTION, (-(-rows // beside), beside * threads))
