"""Convolution by its definition, without scratch memory, and the launcher of all convolution kernels.

These kernels serve every device and dtype; floats on the CPU have faster ones in `implicit_gemm`.
"""

from __future__ import annotations

from collections.abc import Callable

from ...device import Layout
from ...kernel import bind, build
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.library.direct import Geometry, convolve_plane_back, convolve_row, correlate_tap
from ...kernel.specialize import arguments, specialized
from ..matmul.epilogue import Epilogue, without_epilogue


def forward_direct(x, weight, out, conv: Geometry):
    """Each task computes a row of the output."""
    for task in parallel_range(conv.images * conv.groups * conv.features * conv.out_d * conv.out_h):
        convolve_row(x, weight, out, int64(task), conv)


def input_direct(g, weight, out, conv: Geometry):
    """Each task computes a plane (image, channel) of the input's gradient."""
    for task in parallel_range(conv.images * conv.groups * conv.channels):
        convolve_plane_back(g, weight, out, int64(task), conv)


def weight_direct(g, x, out, conv: Geometry):
    """Each task computes an element of the weight's gradient."""
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
    epilogue: Epilogue | None = None,
    fastmath: frozenset = build.FAST_REDUCTION,
    **values: object,
) -> Callable:
    """A launcher of a kernel with `arrays` (names of storages), int64 numbers and the arguments of `epilogue`.

    `values`: the compile-time parameters. Kernels that sum in register tiles need only FAST_POINTWISE, and then share
    the machine code of their device functions.
    """
    numbers = len(arguments(kernel)) - len(arrays)
    signature = bind.signature(*arrays, numbers=numbers, others=epilogue.types() if epilogue else ())
    source = specialized(kernel, **values)
    source = epilogue.inlined_into(source) if epilogue else without_epilogue(source)
    return bind.launcher(out.device, f"{name}_{kernel.__name__}", source, signature, out.dtype, work, fastmath)


def geometry(
    x: tuple, weight: tuple, result: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int
) -> Geometry:
    """The sizes of a convolution of these shapes; missing spatial dimensions have size and stride 1."""

    def three_sizes(values: tuple, filler: int) -> tuple:
        return (filler,) * (3 - len(values)) + tuple(values)

    sizes = (*three_sizes(x[2:], 1), *three_sizes(weight[2:], 1), *three_sizes(result[2:], 1))
    return Geometry(
        x[0],
        groups,
        weight[1],
        weight[0] // groups,
        *sizes,
        *three_sizes(stride, 1),
        *three_sizes(padding, 0),
        *three_sizes(dilation, 1),
    )
