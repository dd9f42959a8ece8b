"""Convolution by kernels that walk over the tensors themselves, and what every kernel of a convolution is told. No memory beside the result.

They serve every device and dtype; on the CPU floats have faster ones in `convolution_grid`. Rows are output rows (out_d * out_h of them).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from ..device import Layout
from ..kernel import bind, build
from ..kernel.specialize import specialized
from .finish import Finish, unfinished

GEOMETRY = (  # channels and features are those of one group
    "images", "groups", "channels", "features", "depth", "height", "width", "kernel_d", "kernel_h", "kernel_w", "out_d", "out_h", "out_w",
    "stride_d", "stride_h", "stride_w", "pad_d", "pad_h", "pad_w", "step_d", "step_h", "step_w",
)  # fmt: skip


def forward_direct(x, weight, out):
    """A row of the output at a time."""
    for task in parallel_range(images * groups * features * out_d * out_h):
        convolve_line(x, weight, out, int64(task), GEOMETRY)


def input_direct(g, weight, out):
    """A plane (image, channel) of the input at a time."""
    for task in parallel_range(images * groups * channels):
        convolve_back(g, weight, out, int64(task), GEOMETRY)


def weight_direct(g, x, out):
    """An element of the weight at a time."""
    for task in parallel_range(groups * features * channels * kernel_d * kernel_h * kernel_w):
        out[uintp(int64(task))] = correlate(g, x, int64(task), GEOMETRY)


def launcher(
    name: str, kernel: Callable, out: Layout, arrays: tuple[str, ...], numbers: int, work: int, constants: tuple = (), finish: Finish | None = None,
    fastmath: frozenset = build.FAST_REDUCTION,
) -> Callable:  # fmt: skip
    """A launcher of a kernel of `arrays` (names of storages), so many numbers, the geometry, and what `finish` adds. `constants` are written into its text.

    Kernels whose sums are the tiles' need no more than FAST_POINTWISE: those with an end, and those that share their helpers, which are then compiled once.
    """
    signature = bind.signature(*arrays, numbers=numbers + len(GEOMETRY), others=finish.types() if finish else ())
    source = finish.joined(_source(kernel, constants)) if finish else unfinished(_source(kernel, constants))
    return bind.launcher(out.device, f"{name}_{kernel.__name__}", source, signature, out.dtype, work, fastmath)


@cache
def _source(kernel: Callable, constants: tuple[tuple[str, object], ...]) -> str:
    """The kernel's text with the geometry's names as its last arguments, and the words of `constants` replaced."""
    names = {"GEOMETRY": ", ".join(GEOMETRY), **dict(constants)}
    text = specialized(kernel).replace("):", f", {names['GEOMETRY']}):", 1)
    return re.sub(rf"\b({'|'.join(names)})\b", lambda found: str(names[found[1]]), text)


def geometry(x: tuple, weight: tuple, result: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int) -> tuple[int, ...]:
    """The numbers of `GEOMETRY`; missing spatial dimensions have size and stride 1."""

    def three(values: tuple, filler: int) -> tuple:
        return (filler,) * (3 - len(values)) + tuple(values)

    sizes = (*three(x[2:], 1), *three(weight[2:], 1), *three(result[2:], 1))
    return (x[0], groups, weight[1], weight[0] // groups, *sizes, *three(stride, 1), *three(padding, 0), *three(dilation, 1))
