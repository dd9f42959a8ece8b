"""1 x 1 convolution without strides, padding or groups: a matrix product of the weight and each image, without a
copy of the input. The input's gradient is the product with the transposed weight.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...device import Layout
from ...device.layout import layout
from ...kernel.any_size import for_all_sizes
from ...kernel.registers import tiles
from ..matmul.epilogue import Epilogue
from ..matmul.tiled import tiled_launcher


# size of a weight up to which every image reads it again; the implicit GEMM reads it once for several images
_REREAD_WEIGHT_SIZE = 1 << 18


def product_launcher(
    op: str, out: Layout, x: tuple, weight: tuple, result: tuple, attributes: tuple, epilogue: Epilogue | None
) -> Callable | None:
    """A launcher of the products of the convolution or its input's gradient. None if it is not such a convolution,
    or if the implicit GEMM is faster.
    """
    stride, _, _, groups = attributes
    features, channels = weight[:2]
    positions = prod(x[2:])
    backward = op == "convolution_input"
    if (
        prod((*stride, *weight[2:], groups)) > 1
        or x[2:] != result[2:]
        or positions < tiles.host().lanes(out.storage.itemsize)
    ):
        return None
    if (x[0] > 1 or for_all_sizes.get()) and prod(weight) > _REREAD_WEIGHT_SIZE and not backward:
        return None
    shape, steps, inner = (
        ((channels, features), (1, channels), features) if backward else ((features, channels), (channels, 1), channels)
    )
    a, b = layout(shape, out.dtype, out.device, steps), layout((inner, positions), out.dtype, out.device)
    run = tiled_launcher(op, a, b, x[0], 0, inner * positions, epilogue)
    no_bias = out.device.empty(0, out.storage)
    return run and (lambda x_data, weight, result, *further: run(weight, x_data, result, no_bias, *further))
