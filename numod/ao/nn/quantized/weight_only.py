"""Linear layers that torchao's configs make: packed weights for float inputs."""

from __future__ import annotations

from typing import Any

from .... import dtypes
from ....core import Tensor, cat
from ....core.apply import apply
from ....core.quantized import dynamic_rows_linear
from ....nn import functional as F
from ....nn.linear import Linear
from ....nn.module import Module
from ....nn.parameter import Parameter
from ....nn.utils.computed import plain
from ....kernel.any_size import tables_by_steps
from ....ops.matmul.weight_only import weight_only_product
from .base import expect_floats, refuse_float_weight

_PACKED_PRODUCT_ROWS = 16  # rows up to which the packed product is faster than one with the weight as floats


class _Packed(Module):
    """Base: the sizes, the bias, and the name in the text of a model."""

    bits = 8

    def __init__(self, mod: Module) -> None:
        super().__init__()
        if not isinstance(mod, Linear):
            raise TypeError(
                f"expected a float Linear layer to quantize, got {type(mod).__name__}; choose layers by filter_fn, or "
                "by their paths"
            )
        self.in_features, self.out_features = mod.in_features, mod.out_features
        if not mod.in_features or not mod.out_features:
            raise ValueError(f"the layer has no weights to quantize: Linear({mod.in_features}, {mod.out_features})")
        self.training = mod.training
        bias = mod.bias
        self.register_parameter("bias", bias if bias is None or type(bias) is Parameter else Parameter(bias.detach()))

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *others: Any) -> None:
        refuse_float_weight(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *others)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"bits={self.bits}"
        )


class WeightOnlyLinear(_Packed):
    """x @ w.T + bias for a packed w: int8 with a scale for each row, or 4 bits with a scale for each group of columns.

    A few rows of x read the packed weight once; for more, and for gradients of x, the weight becomes floats first.
    """

    packed: Tensor
    scale: Tensor
    zero_point: Tensor

    def __init__(self, mod: Module, bits: int = 8, group_size: int | None = None, symmetric: bool = False) -> None:
        mod = plain(mod)[0]
        super().__init__(mod)
        self.bits, self.group_size = bits, mod.in_features if group_size is None else group_size
        if self.in_features % self.group_size or (bits == 4 and self.group_size % 2):
            raise ValueError(
                f"group_size {self.group_size} must be even and divide the {self.in_features} input features"
            )
        weight = mod.weight.detach()
        parts = _four_bits(weight, self.group_size, symmetric) if bits == 4 else _eight_bits(weight, self.group_size)
        packed, scale, zero_point = parts
        self.register_buffer("packed", packed)
        self.register_buffer("scale", scale)
        self.register_buffer("zero_point", zero_point)

    def dequantize(self) -> Tensor:
        """The weight (out, in) as floats."""
        groups = self.packed.reshape(self.out_features, self.scale.shape[1], -1)
        values = cat([groups & 15, groups >> 4], 2) if self.bits == 4 else groups
        values = (values.float() - self.zero_point[..., None]) * self.scale[..., None]
        return values.reshape(self.out_features, self.in_features)

    def forward(self, input: Tensor) -> Tensor:
        expect_floats(input, self.in_features, self)
        rows = input.numel() // max(self.in_features, 1)
        many = rows > _PACKED_PRODUCT_ROWS and not tables_by_steps.get()  # a program for all sizes has one form
        if many or input.dtype is not dtypes.float32 or input.requires_grad:
            return F.linear(input, self.dequantize().to(input.dtype), self.bias)
        x = input.detach().reshape(-1, self.in_features).contiguous()
        result = apply(weight_only_product, (x, self.packed, self.scale, self.zero_point), (self.group_size,))
        result = result.reshape(*input.shape[:-1], self.out_features)
        return result if self.bias is None else result + self.bias


def _eight_bits(weight: Tensor, group: int) -> tuple[Tensor, Tensor, Tensor]:
    """int8 with the middle at 0, in groups of columns."""
    groups = weight.reshape(-1, group)
    scale = (groups.abs().amax(1) / 127).clamp_min(1e-12)
    integers = (groups / scale[:, None]).round().clamp(-127, 127).to(dtypes.int8)
    shape = weight.shape[0], weight.shape[1] // group
    return integers.reshape(weight.shape), scale.reshape(shape), scale.new_zeros(shape)


def _four_bits(weight: Tensor, group: int, symmetric: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Two 4-bit numbers in a byte, each group of columns with its own range. `symmetric`: with the middle at 0."""
    groups = weight.reshape(weight.shape[0], -1, group)
    low, high = groups.amin(2).clamp_max(0), groups.amax(2).clamp_min(0)
    if symmetric:
        high = high.maximum(-low)
        low = -high
    scale = ((high - low) / 15).clamp_min(1e-12)
    zero_point = (-low / scale).round() if not symmetric else scale.new_full(scale.shape, 8.0)
    values = ((groups / scale[..., None]).round() + zero_point[..., None]).clamp(0, 15).to(dtypes.uint8)
    packed = values[..., : group // 2] | values[..., group // 2 :] << 4
    return packed.reshape(weight.shape[0], -1), scale, zero_point


class DynamicActivationInt4Linear(WeightOnlyLinear):
    """x @ w.T + bias for a packed w of 4 bits; each row of x is rounded to 8 bits before.

    `rounding`: its `round(x)` gives the rounded rows.
    """

    def __init__(self, mod: Module, group_size: int | None, symmetric: bool, rounding: Any) -> None:
        super().__init__(mod, 4, group_size, symmetric)
        self.rounding = rounding

    def forward(self, input: Tensor) -> Tensor:
        expect_floats(input, self.in_features, self)
        rounded = self.rounding.round(input).to(input.dtype)
        return super().forward(input + (rounded - input).detach() if input.requires_grad else rounded)


class DynamicActivationLinear(_Packed):
    """x @ w.T + bias for an int8 w with a scale for each row; each row of x is quantized by its own range."""

    def __init__(self, mod: Module) -> None:
        mod = plain(mod)[0]
        super().__init__(mod)
        integers, scale, _ = _eight_bits(mod.weight.detach(), mod.in_features)
        self.register_buffer("packed", integers)
        self.register_buffer("scale", scale[:, 0])

    def dequantize(self) -> Tensor:
        """The weight (out, in) as floats."""
        return self.packed.float() * self.scale[:, None]

    def forward(self, input: Tensor) -> Tensor:
        expect_floats(input, self.in_features, self)
        return dynamic_rows_linear(input, self.packed, self.scale, self.bias)
