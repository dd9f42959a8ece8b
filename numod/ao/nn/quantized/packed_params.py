"""What stands for PyTorch's packed parameters: weight and bias, which operators of `torch.ops.quantized` take.

Kernels pack a weight at its first use, so nothing is packed here.
"""

from __future__ import annotations

from typing import Any

from ....core import Tensor

__all__ = ["ConvPackedParams", "PackedParams", "PackedParamsOfLayer"]


class PackedParams(tuple):
    """A weight and a bias (or None) of `linear_prepack` or of a layer.

    Example:

        >>> weight = torch.quantize_per_tensor(torch.ones(1, 2), 0.5, 0, torch.qint8)
        >>> torch.ops.quantized.linear_prepack(weight, torch.zeros(1)).bias()
        tensor([0.])
    """

    __slots__ = ()

    def weight(self) -> Tensor:
        """The weight."""
        return self[0]

    def bias(self) -> Tensor | None:
        """The bias."""
        return self[1]

    def unpack(self) -> tuple[Tensor, Tensor | None]:
        """Weight and bias."""
        return tuple(self)


class ConvPackedParams(PackedParams):
    """Weight, bias and settings of a convolution."""

    def __new__(cls, layer: Any) -> ConvPackedParams:
        result = super().__new__(cls, layer._weight_bias())
        result.layer = layer
        return result

    def __reduce__(self) -> tuple:
        return ConvPackedParams, (self.layer,)

    def stride(self) -> list[int]:
        """The steps of the window."""
        return list(self.layer.stride)

    def padding(self) -> list[int]:
        """What is added to each side, also as a number where the layer has the text "same" or "valid"."""
        padding, layer = self.layer.padding, self.layer
        if padding == "same":
            return [step * (size - 1) // 2 for step, size in zip(layer.dilation, layer.kernel_size)]
        return [0] * len(layer.kernel_size) if padding == "valid" else list(padding)

    def output_padding(self) -> list[int]:
        """What is added to one side of a transposed convolution's result."""
        return list(self.layer.output_padding)

    def dilation(self) -> list[int]:
        """The distances of the kernel's elements."""
        return list(self.layer.dilation)

    def groups(self) -> int:
        """The number of groups of channels."""
        return self.layer.groups

    def transpose(self) -> bool:
        """Whether it is a transposed convolution."""
        return "Transpose" in type(self.layer).__name__


class PackedParamsOfLayer:
    """The attribute `_packed_params` of a layer: it is kept as a pair, which compiled functions and files know."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def __get__(self, layer: Any, owner: type | None = None) -> Any:
        if layer is None:
            return self
        return self.kind(layer if self.kind is ConvPackedParams else layer._weight_bias())

    def __set__(self, layer: Any, value: tuple[Tensor, Tensor | None]) -> None:
        layer.__dict__["_packed_params"] = tuple(value)


def settings_operators() -> dict[str, Any]:
    """`conv2d_stride` and its relatives: a packed convolution's settings."""
    result = {}
    for kind in ("conv2d", "conv3d", "conv_transpose2d", "conv_transpose3d"):
        for setting in ("stride", "padding", "output_padding", "dilation", "groups", "transpose"):
            result[f"{kind}_{setting}"] = _setting(f"{kind}_{setting}", setting)
    return result


def _setting(name: str, setting: str) -> Any:
    def function(packed_weights: ConvPackedParams) -> Any:
        return getattr(packed_weights, setting)()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {setting.replace('_', ' ')} of a packed convolution."
    return function
