"""Split-K products on a GPU, for few results with many terms: thread blocks sum runs of the terms, then a second kernel
adds the partial sums in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable

from ...device import Layout
from ...kernel import bind, writer
from ...kernel.language import parallel_range, uintp
from ...kernel.specialize import specialized

FULL_GPU_BLOCKS = 264  # blocks that occupy a GPU: an H200 has 132 multiprocessors


def divisor(n: int, limit: int) -> int:
    """The greatest divisor of n up to `limit`."""
    return next(candidate for candidate in range(max(limit, 1), 0, -1) if n % candidate == 0)


def launch_in_parts(run: Callable, constants: tuple, out: Layout, parts: int) -> Callable:
    """A launch of `run`, which computes `parts` partial sums in the accumulation dtype, and of their sum."""
    sum_storage, empty = out.dtype.compute.storage, out.device.empty
    text = specialized(add_parts, stored=writer.store_function(out.dtype))
    add_partials = bind.launcher(
        out.device, "add_parts", text, bind.signature(sum_storage, out, numbers=2), out.dtype, out.size
    )

    def launch(first: object, second: object, result: object, *bias: object) -> None:
        partials = empty(parts * out.size, sum_storage)
        run(first, second, partials, *bias, *constants)
        add_partials(partials, result, out.size, parts)

    return launch


def add_parts(partials, out, n, parts, *, stored):
    """out (n) = partial (parts, n), summed."""
    for index in parallel_range(n):
        total = partials[uintp(index)]
        for part in range(1, parts):
            total += partials[uintp(part * n + index)]
        out[uintp(index)] = stored(total)
