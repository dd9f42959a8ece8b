"""Convolution on a GPU as implicit GEMM: a matrix product for each group, whose operands are read from the tensors.

`kernel.block` generates the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...device import Layout
from ...kernel import bind, block, block_products, tensor_cores
from ...kernel.library.direct import Geometry
from ..matmul.split_k import FULL_GPU_BLOCKS, divisor, launch_in_parts

_MIN_TERMS, _MIN_WEIGHT_TERMS = 256, 512  # minimum number of terms that a block sums; for the gradient of a weight


def fits_block_kernel(x: tuple, result: tuple) -> bool:
    """Whether tensors of these shapes have few enough elements for these kernels."""
    return 0 not in result and max(prod(x), prod(result)) < block.OFFSET32_LIMIT


def block_launcher(name: str, out: Layout, numbers: Geometry) -> tuple[Callable, tuple]:
    """Launcher and constants of a convolution or a gradient.

    If the result is too small to fill the GPU, the sums are cut into parts, which are added in order: positions for the
    weight's gradient, else channels.
    """
    images, groups, channels, features, *sizes = numbers
    input_size, taps, positions = prod(sizes[:3]), prod(sizes[3:6]), prod(sizes[6:9])
    rows, columns, inner = {
        "convolution": (features, images * positions, channels * taps),
        "convolution_input": (channels, images * input_size, features * taps),
        "convolution_weight": (features, channels * taps, images * positions),
    }[name]  # fmt: skip
    cuts_positions = name == "convolution_weight"
    # the simulator's tests have small sums, which are cut all the same
    min_terms = 8 if out.device.backend.SIMULATED else _MIN_WEIGHT_TERMS if cuts_positions else _MIN_TERMS
    max_parts = -(-inner // min_terms)
    tile = tensor_cores.choose(out, rows, columns, groups * max_parts)
    parts = max(1, min(-(-FULL_GPU_BLOCKS // block.tiles(tile, groups, rows, columns)), max_parts))
    parts = parts if cuts_positions else divisor(inner // taps, parts)
    inner = -(-inner // parts)
    constants = (parts * groups, rows, columns, inner, *numbers)
    storage, result_storage = out.storage.name, (out.storage if parts == 1 else out.dtype.compute.storage).name
    signature = bind.signature(storage, storage, result_storage, numbers=len(constants))
    source = block.source(getattr(block_products, name)(numbers._asdict()), tile, storage, rounded=parts == 1)
    blocks = block.tiles(tile, parts * groups, rows, columns), tile.threads
    run = bind.launcher(
        out.device,
        f"{name}_blocks",
        source,
        signature,
        out.dtype,
        parts * groups * rows * columns * inner // 4,
        blocks=blocks,
    )
    return (run, constants) if parts == 1 else (launch_in_parts(run, constants, out, parts), ())
