"""Image layers: unfold and fold, pixel and channel shuffling, upsampling."""

from __future__ import annotations

from typing import Any

from ..core import Tensor
from . import functional as F
from .module import Module
from .settings import Described

__all__ = [
    "ChannelShuffle", "Fold", "PixelShuffle", "PixelUnshuffle", "Unfold", "Upsample", "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]  # fmt: skip


class Unfold(Described):
    """Patches of (N, C, H, W) as columns (N, C * taps, patches).

    Example:

        >>> nn.Unfold(kernel_size=2)(torch.ones(1, 3, 4, 5)).shape
        numod.Size([1, 12, 12])
    """

    _shown = ("kernel_size", "dilation", "padding", "stride")

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(Described):
    """Columns summed at the positions of their patches in an image of `output_size`: the transpose of Unfold.

    Example:

        >>> nn.Fold(output_size=(4, 5), kernel_size=2)(torch.ones(1, 3 * 4, 12)).shape
        numod.Size([1, 3, 4, 5])
    """

    _shown = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)


class PixelShuffle(Described):
    """(…, C r², H, W) -> (…, C, H r, W r).

    Example:

        >>> nn.PixelShuffle(2)(torch.ones(1, 8, 3, 3)).shape
        numod.Size([1, 2, 6, 6])
    """

    _shown = ("upscale_factor",)

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Described):
    """(…, C, H r, W r) -> (…, C r², H, W).

    Example:

        >>> nn.PixelUnshuffle(2)(torch.ones(1, 2, 6, 6)).shape
        numod.Size([1, 8, 3, 3])
    """

    _shown = ("downscale_factor",)

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(Described):
    """Channels of (N, C, …) interleaved between groups.

    Example:

        >>> nn.ChannelShuffle(2)(torch.arange(4.0).reshape(1, 4, 1, 1)).flatten()
        tensor([0., 2., 1., 3.])
    """

    _shown = ("groups",)

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)


class Upsample(Module):
    """Resizes to `size` or by `scale_factor`; see `nn.functional.interpolate`.

    Example:

        >>> nn.Upsample(scale_factor=2)(torch.tensor([[[[1.0, 2.0]]]]))
        tensor([[[[1., 1., 2., 2.],
                  [1., 1., 2., 2.]]]])
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(map(float, scale_factor))
        elif scale_factor:
            self.scale_factor = float(scale_factor)
        else:
            self.scale_factor = None

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        return (
            f"scale_factor={self.scale_factor!r}" if self.scale_factor is not None else f"size={self.size!r}"
        ) + f", mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsampling with mode "nearest".

    Example:

        >>> nn.UpsamplingNearest2d(scale_factor=2)(torch.ones(1, 1, 2, 2)).shape
        numod.Size([1, 1, 4, 4])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsampling with mode "bilinear" and align_corners=True.

    Example:

        >>> nn.UpsamplingBilinear2d(scale_factor=2)(torch.ones(1, 1, 2, 2)).shape
        numod.Size([1, 1, 4, 4])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
