"""Convolution by kernels that walk over the tensors themselves, and what every kernel of a convolution is told. No memory beside the result.

They serve every device and dtype; on the CPU floats have faster ones in `convolution_grid`. Rows are output rows (out_d * out_h of them).
"""

from __future__ import annotations

from collections.abc import Callable

from ..device import Layout
from ..kernel import bind, build
from ..kernel.language import int64, parallel_range, uintp
from ..kernel.library.direct import Geometry, convolve_plane_back, convolve_row, correlate_tap
from ..kernel.specialize import arguments, specialized
from .finish import Finish, unfinished


def forward_direct(x, weight, out, conv: Geometry):
    """A row of the output at a time."""
    for task in parallel_range(conv.images * conv.groups * conv.features * conv.out_d * conv.out_h):
        convolve_row(x, weight, out, int64(task), conv)


def input_direct(g, weight, out, conv: Geometry):
    """A plane (image, channel) of the input at a time."""
    for task in parallel_range(conv.images * conv.groups * conv.channels):
        convolve_plane_back(g, weight, out, int64(task), conv)


def weight_direct(g, x, out, conv: Geometry):
    """An element of the weight at a time."""
    for task in parallel_range(
        conv.groups * conv.features * conv.channels * conv.kernel_d * conv.kernel_h * conv.kernel_w
    ):
        out[uintp(int64(task))] = correlate_tap(g, x, int64(task), conv)


def launcher(
    name: str,
    kernel: Callable,
    out: Layout,
    arrays: tuple[str, ...],
    work: int,
    finish: Finish | None = None,
    fastmath: frozenset = build.FAST_REDUCTION,
    **values: object,
) -> Callable:
    """A launcher of a kernel of `arrays` (names of storages) and int64 numbers, and what `finish` adds. `values` are those of its compile-time parameters.

    Kernels whose sums are the tiles' need no more than FAST_POINTWISE: those with an end, and those that share their helpers, which are then compiled once.
    """
    numbers = len(arguments(kernel)) - len(arrays)
    signature = bind.signature(*arrays, numbers=numbers, others=finish.types() if finish else ())
    source = specialized(kernel, **values)
    source = finish.joined(source) if finish else unfinished(source)
    return bind.launcher(out.device, f"{name}_{kernel.__name__}", source, signature, out.dtype, work, fastmath)


def geometry(
    x: tuple, weight: tuple, result: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int
) -> Geometry:
    """The sizes of a convolution of these shapes; missing spatial dimensions have size and stride 1."""

    def three(values: tuple, filler: int) -> tuple:
        return (filler,) * (3 - len(values)) + tuple(values)

    sizes = (*three(x[2:], 1), *three(weight[2:], 1), *three(result[2:], 1))
    return Geometry(
        x[0],
        groups,
        weight[1],
        weight[0] // groups,
        *sizes,
        *three(stride, 1),
        *three(padding, 0),
        *three(dilation, 1),
    )
