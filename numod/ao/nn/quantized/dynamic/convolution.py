"""Convolutions with quantized weights for float inputs, which are quantized at each call with the scale of their range.

The products of the rounded values are computed in float32. PyTorch rounds the result with the input's scale and zero
point, which clips it to the range of the input; here it is not rounded.
"""

from __future__ import annotations

from typing import Any

from .....errors import warn_caller
from .....core import Tensor
from .....core.quantized.products import rounded_by_own_range
from .. import convolution as static


class _Dynamic:
    """Mixed into a quantized convolution: its input and its result are floats."""

    kernel_size: tuple[int, ...]

    def __init__(self, *args: Any, reduce_range: bool = True, **kwargs: Any) -> None:
        warn_caller(
            f"The current implementation of the {self._get_name()} module has poor numerical accuracy and its use is "
            "not recommended"
        )
        super().__init__(*args, **kwargs)

    def _get_name(self) -> str:
        return f"DynamicQuantized{type(self).__name__}"

    def forward(self, input: Tensor, reduce_range: bool = True) -> Tensor:
        self._check_rank(input)
        weight, bias = self._weight_bias()
        rounded = rounded_by_own_range(input, reduce_range)
        return self._float_product(rounded, weight.dequantize(), bias)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer of a float one: `mod.qconfig` says how its weight is quantized."""
        return cls._from_float(mod, use_precomputed_fake_quant, 1.0, 0)


class Conv1d(_Dynamic, static.Conv1d):
    """Conv1d with a quantized weight."""


class Conv2d(_Dynamic, static.Conv2d):
    """Conv2d with a quantized weight."""


class Conv3d(_Dynamic, static.Conv3d):
    """Conv3d with a quantized weight."""


class ConvTranspose1d(_Dynamic, static.ConvTranspose1d):
    """ConvTranspose1d with a quantized weight."""


class ConvTranspose2d(_Dynamic, static.ConvTranspose2d):
    """ConvTranspose2d with a quantized weight."""


class ConvTranspose3d(_Dynamic, static.ConvTranspose3d):
    """ConvTranspose3d with a quantized weight."""
