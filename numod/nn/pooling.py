"""Pooling layers: settings for the functions of `functional`, with PyTorch's names, defaults and reprs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core import Tensor
from ..errors import SINGLE_INT
from . import functional as F
from .settings import Described, Size, per_dimension

__all__ = [  # for type checkers: pooling.pyi, written by tests/stubs.py
    f"{name}{ndim}d"
    for name in ("MaxPool", "MaxUnpool", "AvgPool", "LPPool", "AdaptiveMaxPool", "AdaptiveAvgPool")
    for ndim in (1, 2, 3)
] + [
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
]


class _Pool(Described):
    """Base class of pooling layers over `ndim` dimensions."""

    ndim = 0


class _MaxPool(_Pool):
    """The maximum of each window; with `return_indices`, also its index, for MaxUnpool."""

    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, stride if stride is not None else kernel_size
        self.padding, self.dilation, self.return_indices, self.ceil_mode = padding, dilation, return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        function = getattr(F, f"max_pool{self.ndim}d")
        return function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


class _MaxUnpool(_Pool):
    """A partial inverse of max pooling: each element is put at its index, with zeros elsewhere."""

    _shown = ("kernel_size", "stride", "padding")

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        super().__init__()
        stride = kernel_size if stride is None else stride
        self.kernel_size, self.stride, self.padding = (
            per_dimension(setting, self.ndim) for setting in (kernel_size, stride, padding)
        )

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return getattr(F, f"max_unpool{self.ndim}d")(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class _AvgPool(_Pool):
    """The mean of each window; padding counts as zeros unless `count_include_pad` is False."""

    _shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        sizes = (kernel_size, stride if stride is not None else kernel_size, padding)
        self.kernel_size, self.stride, self.padding = (
            (size,) if self.ndim == 1 and isinstance(size, SINGLE_INT) else size for size in sizes
        )
        self.ceil_mode, self.count_include_pad, self.divisor_override = ceil_mode, count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        function = getattr(F, f"avg_pool{self.ndim}d")
        return function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class _LPPool(_Pool):
    """The p-norm of each window."""

    _shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, f"lp_pool{self.ndim}d")(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class _AdaptiveMaxPool(_Pool):
    """The maxima of `output_size` windows that divide the input evenly."""

    _shown = ("output_size",)

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return getattr(F, f"adaptive_max_pool{self.ndim}d")(input, self.output_size, self.return_indices)


class _AdaptiveAvgPool(_Pool):
    """The means of `output_size` windows that divide the input evenly."""

    _shown = ("output_size",)

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, f"adaptive_avg_pool{self.ndim}d")(input, self.output_size)


class _FractionalMaxPool(_Pool):
    """The maxima of windows at pseudo-random positions, for an output size or its ratio to the input's size."""

    def __init__(
        self,
        kernel_size: Size,
        output_size: Size | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        if output_size is None and output_ratio is None:
            raise ValueError(f"{type(self).__name__} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        self.kernel_size, self.return_indices = per_dimension(kernel_size, self.ndim), return_indices
        self.output_size, self.output_ratio = (
            None if setting is None else per_dimension(setting, self.ndim) for setting in (output_size, output_ratio)
        )
        self.register_buffer("_random_samples", _random_samples)
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return getattr(F, f"fractional_max_pool{self.ndim}d")(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class AvgPool1d(_AvgPool):
    """The mean of each window over 1 spatial dimension; padding counts as zeros unless `count_include_pad` is False.

    Example:

        >>> nn.AvgPool1d(2)(torch.tensor([[[1.0, 3.0, 5.0, 7.0]]]))
        tensor([[[2., 6.]]])
    """

    ndim = 1

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)


_EXAMPLE_ARGUMENTS = {
    _MaxPool: "2",
    _AvgPool: "2",
    _LPPool: "2, 2",
    _AdaptiveMaxPool: "2",
    _AdaptiveAvgPool: "2",
    _FractionalMaxPool: "2, 2",
}


def _of(base: type, ndim: int) -> type:
    """The layer class for `ndim` dimensions."""
    name = f"{base.__name__[1:]}{ndim}d"
    text = f"{base.__doc__} Over {ndim} spatial dimension{'s' if ndim > 1 else ''}."
    if base in _EXAMPLE_ARGUMENTS:
        text += (
            f"\n\nExample:\n\n    >>> nn.{name}({_EXAMPLE_ARGUMENTS[base]})(torch.ones(1, 2{', 4' * ndim})).shape\n"
            f"    numod.Size([1, 2{', 2' * ndim}])\n"
        )
    if base is _MaxUnpool:
        text += f"""

Example:

    >>> pool, unpool = nn.MaxPool{ndim}d(2, return_indices=True), nn.{name}(2)
    >>> unpool(*pool(torch.rand(1, 2{", 4" * ndim}))).shape
    numod.Size([1, 2{", 4" * ndim}])
"""
    return type(
        name,
        (base,),
        {
            "ndim": ndim,
            "__module__": __name__,
            "__doc__": text,
        },
    )


MaxPool1d, MaxPool2d, MaxPool3d = (_of(_MaxPool, ndim) for ndim in (1, 2, 3))
MaxUnpool1d, MaxUnpool2d, MaxUnpool3d = (_of(_MaxUnpool, ndim) for ndim in (1, 2, 3))
AvgPool2d, AvgPool3d = (_of(_AvgPool, ndim) for ndim in (2, 3))
LPPool1d, LPPool2d, LPPool3d = (_of(_LPPool, ndim) for ndim in (1, 2, 3))
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = (_of(_AdaptiveMaxPool, ndim) for ndim in (1, 2, 3))
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = (_of(_AdaptiveAvgPool, ndim) for ndim in (1, 2, 3))
FractionalMaxPool2d, FractionalMaxPool3d = (_of(_FractionalMaxPool, ndim) for ndim in (2, 3))
