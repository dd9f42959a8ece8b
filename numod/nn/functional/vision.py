"""Image functions: unfold and fold, pixel and channel shuffling, and grid sampling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...errors import warn_caller
from ...core import functions as f
from ...core.apply import apply
from ...core.create.ranges import linspace
from ...core.tensor import Tensor
from ...kernel.any_size import tables_by_steps
from ...ops.image.grid_sample import grid_sample as grid_sample_op
from ...ops.image.unfold import patches
from ...ops.table import row_major
from .convolution import spread

__all__ = [
    "affine_grid", "channel_shuffle", "fold", "grid_sample", "pixel_shuffle", "pixel_unshuffle", "unfold",
]  # fmt: skip


def _pairs(**values: int | Sequence[int]) -> list[tuple[int, ...]]:
    return [spread(name, value, 2) for name, value in values.items()]


def _patch_counts(sizes: tuple, kernel: tuple, dilation: tuple, padding: tuple, stride: tuple) -> tuple[int, int]:
    """The number of patches vertically and horizontally."""
    if min(*kernel, *dilation, *stride) <= 0 or min(padding) < 0:
        raise RuntimeError(
            "kernel size, dilation and stride should be greater than zero and padding non-negative, but got "
            f"{kernel}, {dilation}, {stride} and {padding}"
        )
    counts = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in zip(sizes, kernel, dilation, padding, stride)
    )
    if min(counts) <= 0:
        raise RuntimeError(
            f"given input with spatial size {sizes}, kernel_size={kernel}, dilation={dilation}, padding={padding}, "
            f"stride={stride}: no patch fits"
        )
    return counts


def unfold(
    input: Tensor,
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:
    """Patches of (N, C, H, W) as columns: (N, C * taps, patches).

    Example:

        >>> F.unfold(torch.ones(1, 3, 4, 5), kernel_size=2).shape
        numod.Size([1, 12, 12])
    """
    if input.ndim not in (3, 4) or 0 in input.shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
            f"input, but got: {list(input.shape)}"
        )
    x = input if input.ndim == 4 else input.unsqueeze(0)
    kernel, dilation, padding, stride = _pairs(
        kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride
    )
    sizes = tuple(x.shape[2:])
    counts = _patch_counts(sizes, kernel, dilation, padding, stride)
    result = apply(patches, (f.contiguous(x),), (sizes, kernel, counts, dilation, padding, stride, False))
    return result if input.ndim == 4 else result.squeeze(0)


def fold(
    input: Tensor,
    output_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:
    """Sum columns (N, C * taps, patches) at the positions of their patches in (N, C, *output_size).

    It is the transpose of `unfold`.

    Example:

        >>> F.fold(torch.ones(1, 12, 12), output_size=(4, 5), kernel_size=2).shape
        numod.Size([1, 3, 4, 5])
    """
    if input.ndim not in (2, 3):
        raise RuntimeError(f"Expected 2D or 3D (batch mode) tensor for input to fold, but got {list(input.shape)}")
    x = input if input.ndim == 3 else input.unsqueeze(0)
    sizes, kernel, dilation, padding, stride = _pairs(
        output_size=output_size, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride
    )
    counts, taps = _patch_counts(sizes, kernel, dilation, padding, stride), prod(kernel)
    if x.shape[1] % taps:
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={x.shape[1]} and kernel_size={kernel}."
        )
    if x.shape[2] != prod(counts):
        raise RuntimeError(
            f"Given output_size={sizes}, kernel_size={kernel}, expected size of input's dimension 2 to match the "
            "calculated "
            f"number of sliding blocks {counts[0]} * {counts[1]} = {prod(counts)}, but got input.size(2)={x.shape[2]}."
        )
    image = apply(patches, (f.contiguous(x),), (sizes, kernel, counts, dilation, padding, stride, True))
    return image if input.ndim == 3 else image.squeeze(0)


def _expect_images(name: str, x: Tensor) -> None:
    if x.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {x.ndim} dimension(s)"
        )


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., C r^2, H, W) -> (..., C, H r, W r). Shi et al., 2016.

    Example:

        >>> F.pixel_shuffle(torch.ones(1, 8, 3, 3), 2).shape
        numod.Size([1, 2, 6, 6])
    """
    _expect_images("pixel_shuffle", input)
    *lead, channels, height, width = input.shape
    r = upscale_factor
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the "
            f"square of upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}"
        )
    split = f.reshape(input, (*lead, channels // (r * r), r, r, height, width))
    n = len(lead)
    return f.in_shape(
        apply(row_major, (f.permute(split, (*range(n), n, n + 3, n + 1, n + 4, n + 2)),)),
        *lead,
        channels // (r * r),
        height * r,
        width * r,
    )


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """The inverse of `pixel_shuffle`.

    Example:

        >>> F.pixel_unshuffle(torch.ones(1, 2, 6, 6), 2).shape
        numod.Size([1, 8, 3, 3])
    """
    _expect_images("pixel_unshuffle", input)
    *lead, channels, height, width = input.shape
    r = downscale_factor
    if r <= 0 or height % r or width % r:
        raise RuntimeError(
            f"pixel_unshuffle expects height and width to be divisible by downscale_factor, but got {height} x "
            f"{width} and {r}"
        )
    split = f.reshape(input, (*lead, channels, height // r, r, width // r, r))
    n = len(lead)
    return f.in_shape(
        apply(row_major, (f.permute(split, (*range(n), n, n + 2, n + 4, n + 1, n + 3)),)),
        *lead,
        channels * r * r,
        height // r,
        width // r,
    )


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of (N, C, ...) viewed as (groups, C / groups) and transposed. Zhang et al., ShuffleNet, 2018.

    Example:

        >>> F.channel_shuffle(torch.arange(4.0).reshape(1, 4, 1, 1), 2).flatten()
        tensor([0., 2., 1., 3.])
    """
    _expect_images("channel_shuffle", input)
    if groups <= 0 or input.shape[1] % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {input.shape[1]} channels and {groups} groups."
        )
    split = f.reshape(input, (input.shape[0], groups, input.shape[1] // groups, *input.shape[2:]))
    return f.reshape(f.transpose(split, 1, 2), input.shape)


# ---- grid sampling


def _corners(align_corners: bool | None) -> bool:
    """`align_corners`, or False with a warning if it is None: code from before PyTorch 1.3 expects True."""
    if align_corners is None:
        warn_caller(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False "
            "since 1.3.0. Please specify align_corners=True if the old behavior is desired. "
            "See the documentation of grid_sample for details."
        )
    return bool(align_corners)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The sampling grid (N, *sizes, ndim) in [-1, 1] of affine maps theta (N, ndim, ndim + 1), for `grid_sample`.

    Jaderberg et al., 2015.

    Example:

        >>> F.affine_grid(torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 2, 2), align_corners=True).shape
        numod.Size([1, 2, 2, 2])
    """
    align_corners = _corners(align_corners)
    size, ndim = tuple(size), len(size) - 2
    if ndim not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size "
            f"{size}."
        )
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (ndim, ndim + 1):
        raise ValueError(
            f"Expected a batch of {ndim}D affine matrices of shape Nx{ndim}x{ndim + 1} for size {size}. Got "
            f"{theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    if align_corners and 1 in size[2:]:
        warn_caller(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when align_corners=True. This "
            "is not an intended use case of "
            "affine_grid. See the documentation of affine_grid for details."
        )
    axes = [_axis(n, bool(align_corners), theta) for n in size[2:]]
    shape = size[2:]
    parts = [
        f.reshape(axes[d], [-1 if k == d else 1 for k in range(ndim)]).expand(shape) for d in reversed(range(ndim))
    ]
    base = f.reshape(f.stack([*parts, theta.new_ones(shape)], -1), (1, prod(shape), ndim + 1))
    return f.in_shape(f.matmul(base, theta.mT), size[0], *shape, ndim)


def _axis(n: int, corners: bool, like: Tensor) -> Tensor:
    if n == 1:
        return like.new_zeros(1)
    if tables_by_steps.get():
        axis = linspace(-1, 1, n, dtype=like.dtype, device=like.device)
        return axis if corners else axis * (n - 1) / n
    edge = 1.0 if corners else (n - 1) / n
    return linspace(-edge, edge, n, dtype=like.dtype, device=like.device)


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Sample input (N, C, *sizes) at grid (N, *out, ndim) in [-1, 1], x first -> (N, C, *out).

    Modes are "bilinear", "nearest" and "bicubic" (2d). NaN in the grid counts as -1, except with `padding_mode` "zeros"
    or mode "bicubic", where the result is NaN.

    Example:

        >>> F.grid_sample(torch.ones(1, 1, 4, 4), torch.zeros(1, 2, 2, 2), align_corners=False).shape
        numod.Size([1, 1, 2, 2])
    """
    name = "nn.functional.grid_sample()"
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(f"{name}: expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            f"{name}: expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{padding_mode}'"
        )
    ndim, corners = input.ndim - 2, _corners(align_corners)
    if ndim not in (2, 3) or grid.ndim != input.ndim or grid.shape[0] != input.shape[0] or grid.shape[-1] != ndim:
        raise RuntimeError(
            f"grid_sampler(): expected a 4D or 5D input and a grid of size [{input.shape[0]}, ..., "
            f"{ndim}] for it, but got input of size {list(input.shape)} and grid of size {list(grid.shape)}"
        )
    if 0 in input.shape[2:]:
        raise RuntimeError(
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
            f"{list(input.shape)}"
        )
    if mode == "bicubic" and ndim != 2:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if not input.is_floating_point():
        raise NotImplementedError(f"grid_sampler(): not implemented for {input.dtype}; convert with .float()")
    if grid.dtype is not input.dtype:
        raise RuntimeError(
            f"grid_sampler(): expected input and grid of one dtype, but got {input.dtype} and {grid.dtype}; convert "
            "with .to()"
        )
    return apply(grid_sample_op, (f.contiguous(input), f.contiguous(grid)), (mode, padding_mode, corners, (0,) * ndim))
