"""Convolution layers of one to three dimensions, transposed convolutions, and lazy forms of both.

`functional` has the computation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd import no_grad
from ..core import Tensor, empty
from . import functional as F
from . import init
from .common_types import _size_1_t, _size_2_t, _size_3_t  # noqa: F401
from .lazy import LazyLayer, lazy_form
from .module import Module
from .parameter import Parameter, UninitializedParameter
from .settings import Size, per_dimension, unusual

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
]  # fmt: skip

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _Convolution(Module):
    """Base class of all convolutions: settings, parameters, initialization and repr."""

    ndim = 0
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size,
        padding: Size | str,
        dilation: Size,
        output_padding: Size,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name} must be divisible by groups, got {channels} and {groups}")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of ('same', 'valid')")
        if (
            isinstance(padding, str)
            and padding == "same"
            and any(step != 1 for step in per_dimension(stride, self.ndim))
        ):
            raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in PADDING_MODES:
            raise ValueError(f"padding_mode must be one of {PADDING_MODES}, but got padding_mode='{padding_mode}'")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride = per_dimension(kernel_size, self.ndim), per_dimension(stride, self.ndim)
        self.padding = padding if isinstance(padding, str) else per_dimension(padding, self.ndim)
        self.dilation, self.output_padding = (
            per_dimension(dilation, self.ndim),
            per_dimension(output_padding, self.ndim),
        )
        self.groups, self.padding_mode = groups, padding_mode
        self._make(bias, device, dtype)

    def _make(self, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = Parameter(empty(self._weight_shape(), device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(empty(self.out_channels, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def _weight_shape(self) -> tuple[int, ...]:
        first, second = (
            (self.in_channels, self.out_channels) if self.transposed else (self.out_channels, self.in_channels)
        )
        return (first, second // self.groups, *self.kernel_size)

    def reset_parameters(self) -> None:
        """Draw new values, uniform in ±1/√fan_in."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = init._calculate_fan_in_and_fan_out(self.weight)[0]
            if fan_in:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        sizes = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        zeros = (0,) * self.ndim
        steps = unusual(self, padding=zeros, dilation=(1,) * self.ndim, output_padding=zeros, groups=1)
        return sizes + steps + (", bias=False" if self.bias is None else "") + unusual(self, padding_mode="zeros")


class _Conv(_Convolution):
    """Convolution (cross-correlation): (N, in_channels, *sizes) -> (N, out_channels, *sizes).

    `padding` may be "same" or "valid".
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            0,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution with this layer's settings and another weight. Users' layers override it."""
        convolve = getattr(F, f"conv{self.ndim}d")
        if self.padding_mode == "zeros":
            return convolve(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        return convolve(
            F.pad(input, self._reversed_padding_repeated_twice, self.padding_mode),
            weight,
            bias,
            self.stride,
            0,
            self.dilation,
            self.groups,
        )

    @property
    def _reversed_padding_repeated_twice(self) -> list[int]:
        """The padding in the order of F.pad, from the last dimension on. Users' layers read it by PyTorch's name."""
        if self.padding == "valid":
            return [0, 0] * self.ndim
        if self.padding == "same":
            return [
                side
                for k, d in zip(reversed(self.kernel_size), reversed(self.dilation))
                for side in (d * (k - 1) // 2, d * (k - 1) - d * (k - 1) // 2)
            ]
        return [side for p in reversed(self.padding) for side in (p, p)]


class _ConvTranspose(_Convolution):
    """Transposed convolution: (N, in_channels, *sizes) -> (N, out_channels, *sizes).

    `output_padding` is added to one side of the result.
    """

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra = self.output_padding if output_size is None else self._output_padding(input, list(output_size))
        return getattr(F, f"conv_transpose{self.ndim}d")(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )

    def _output_padding(self, x: Tensor, wanted: list[int]) -> list[int]:
        """The output padding that yields the requested sizes. Raises ValueError if there is none."""
        if len(wanted) == x.ndim:
            wanted = wanted[-self.ndim :]
        if len(wanted) != self.ndim:
            raise ValueError(
                f"ConvTranspose{self.ndim}D: for {x.ndim}D input, output_size must have {self.ndim} or {x.ndim} "
                f"elements (got {len(wanted)})"
            )
        least = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(x.shape[-self.ndim :], self.stride, self.padding, self.dilation, self.kernel_size)
        ]
        most = [low + s - 1 for low, s in zip(least, self.stride)]
        if any(not low <= n <= high for n, low, high in zip(wanted, least, most)):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {least} to {most} (for an input of "
                f"{list(x.shape[-self.ndim :])})"
            )
        return [n - low for n, low in zip(wanted, least)]


class Conv1d(_Conv):
    """Convolution of (N, C, L).

    Example:

        >>> nn.Conv1d(4, 8, kernel_size=3, padding=1)(torch.ones(2, 4, 10)).shape
        numod.Size([2, 8, 10])
    """

    ndim = 1


class Conv2d(_Conv):
    """Convolution of (N, C, H, W).

    Example:

        >>> nn.Conv2d(3, 8, kernel_size=3, stride=2)(torch.ones(2, 3, 9, 9)).shape
        numod.Size([2, 8, 4, 4])
    """

    ndim = 2


class Conv3d(_Conv):
    """Convolution of (N, C, D, H, W).

    Example:

        >>> nn.Conv3d(2, 4, kernel_size=3)(torch.ones(1, 2, 5, 6, 7)).shape
        numod.Size([1, 4, 3, 4, 5])
    """

    ndim = 3


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution of (N, C, L).

    Example:

        >>> nn.ConvTranspose1d(4, 2, kernel_size=2, stride=2)(torch.ones(1, 4, 5)).shape
        numod.Size([1, 2, 10])
    """

    ndim = 1


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution of (N, C, H, W).

    Example:

        >>> nn.ConvTranspose2d(4, 2, kernel_size=2, stride=2)(torch.ones(1, 4, 5, 5)).shape
        numod.Size([1, 2, 10, 10])
    """

    ndim = 2


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution of (N, C, D, H, W).

    Example:

        >>> nn.ConvTranspose3d(4, 2, kernel_size=2, stride=2)(torch.ones(1, 4, 3, 3, 3)).shape
        numod.Size([1, 2, 6, 6, 6])
    """

    ndim = 3


class _LazyConvolution(LazyLayer):
    """A convolution that takes `in_channels` from its first input."""

    inferred = "in_channels"

    def _make(self, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.register_parameter("bias", UninitializedParameter(device=device, dtype=dtype) if bias else None)

    @no_grad()
    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Set `in_channels` from the input."""
        if input.ndim not in (self.ndim + 1, self.ndim + 2):
            raise RuntimeError(
                f"Expected {self.ndim + 1}D (unbatched) or {self.ndim + 2}D (batched) input to {type(self).__name__}, "
                f"but got input of size: {input.shape}"
            )
        self.in_channels = input.shape[-self.ndim - 1]
        if self.in_channels % self.groups:
            raise ValueError(f"in_channels must be divisible by groups, got {self.in_channels} and {self.groups}")
        if self.has_uninitialized_params():
            self.weight.materialize(self._weight_shape())
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()


class _LazyConv(_LazyConvolution):
    """A lazy convolution: the arguments of a convolution except `in_channels`."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )


class _LazyConvTranspose(_LazyConvolution):
    """A lazy transposed convolution: the arguments of a transposed convolution except `in_channels`."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            bias,
            dilation,
            padding_mode,
            device,
            dtype,
        )


LazyConv1d, LazyConv2d, LazyConv3d = (lazy_form(layer, _LazyConv) for layer in (Conv1d, Conv2d, Conv3d))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (
    lazy_form(layer, _LazyConvTranspose) for layer in (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
)
