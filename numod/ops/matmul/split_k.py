"""Products on a GPU with few results and many terms: blocks of threads sum runs of the terms, and a second kernel what
they found, in order.
"""

from __future__ import annotations

from collections.abc import Callable

from ...device import Layout
from ...kernel import bind, writer
from ...kernel.language import parallel_range, uintp
from ...kernel.specialize import specialized

BUSY = 264  # blocks that keep a GPU's multiprocessors at work: an H200 has 132


def divisor(n: int, most: int) -> int:
    """The greatest divisor of n up to `most`."""
    return next(each for each in range(max(most, 1), 0, -1) if n % each == 0)


def in_parts(run: Callable, constants: tuple, out: Layout, parts: int) -> Callable:
    """A launch by which `run` computes the parts, one after the other in memory and in the dtype of sums, and then
    their sum.
    """
    summed, empty = out.dtype.compute.storage, out.device.empty
    text = specialized(add_parts, stored=writer.store_function(out.dtype))
    add = bind.launcher(out.device, "add_parts", text, bind.signature(summed, out, numbers=2), out.dtype, out.size)

    def launch(first: object, second: object, result: object, *bias: object) -> None:
        partial = empty(parts * out.size, summed)
        run(first, second, partial, *bias, *constants)
        add(partial, result, out.size, parts)

    return launch


def add_parts(partial, out, n, parts, *, stored):
    """out (n) = partial (parts, n), summed."""
    for place in parallel_range(n):
        total = partial[uintp(place)]
        for part in range(1, parts):
            total += partial[uintp(part * n + place)]
        out[uintp(place)] = stored(total)
