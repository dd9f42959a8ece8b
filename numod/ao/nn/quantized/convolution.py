"""Convolutions of integers. They compute in float32 between integers only where the weight has zero points."""

from __future__ import annotations

from typing import Any

from .... import dtypes
from ....core import Tensor, zeros
from ....core.quantized import (
    QuantizedTensor,
    Quantizer,
    Settings,
    per_tensor_affine,
    quantize_per_tensor,
    records_float_layers,
    static_convolution,
    static_transposed_convolution,
    uses_integers,
)
from ....core.quantized.products import expect_one_scale
from ....core.quantized.tensor import wrap_integers
from ....nn import functional as F
from ....nn.convolution import (
    Conv1d as _Conv1d,
    Conv2d as _Conv2d,
    Conv3d as _Conv3d,
    ConvTranspose1d as _ConvTranspose1d,
    ConvTranspose2d as _ConvTranspose2d,
    ConvTranspose3d as _ConvTranspose3d,
)
from ....nn.module import Module
from ....nn.registry import fields_of
from ....nn.settings import unusual
from ..intrinsic import _FusedModule
from .base import QuantizedOutput, expect_quantized, observed, quantize_weight, weight_observer
from .packed_params import ConvPackedParams, PackedParamsOfLayer


class _QuantizedConv(QuantizedOutput):
    """Base of quantized convolutions: `weight()` is quantized, `bias()` float."""

    _version = 3
    _packed_params = PackedParamsOfLayer(ConvPackedParams)
    _FLOAT_MODULE: type[Module]
    _then_relu = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        settings = self._FLOAT_MODULE(*args, **kwargs)
        super().__init__()
        self._take_settings(settings)
        self.set_weight_bias(
            quantize_per_tensor(zeros(settings.weight.shape), 1.0, 0, dtypes.qint8),
            None if settings.bias is None else zeros(settings.out_channels),
        )
        self.set_output(1.0, 0)

    def _take_settings(self, mod: Module) -> None:
        for name in (
            "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "output_padding", "groups",
            "padding_mode",
        ):  # fmt: skip
            setattr(self, name, getattr(mod, name))

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        """Set the quantized weight and the float bias."""
        self._packed_params = w, b

    def _weight_bias(self) -> tuple[Tensor, Tensor | None]:
        return fields_of(self)["_packed_params"]

    def weight(self) -> Tensor:
        """The quantized weight."""
        return self._weight_bias()[0]

    def bias(self) -> Tensor | None:
        """The float bias."""
        return self._weight_bias()[1]

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    def extra_repr(self) -> str:
        zeros_, ones = (0,) * len(self.kernel_size), (1,) * len(self.kernel_size)
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"scale={self.scale}, zero_point={self.zero_point}"
        )
        text += unusual(self, padding=zeros_, dilation=ones, output_padding=zeros_, groups=1)
        return text + (", bias=False" if self.bias() is None else "")

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        Module._save_to_state_dict(self, destination, prefix, keep_vars)
        destination[prefix + "weight"], destination[prefix + "bias"] = self._weight_bias()
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(
        self, state_dict: dict, prefix: str, metadata: dict, strict: bool, missing: list, *others: Any
    ) -> None:
        if prefix + "weight" in state_dict:
            weight = expect_quantized(state_dict.pop(prefix + "weight"), prefix + "weight")
            self.set_weight_bias(weight, state_dict.pop(prefix + "bias", None))
        else:
            missing.append(prefix + "weight")
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, *others)

    def _check_input(self, input: Tensor) -> None:
        expect_one_scale(input, "conv")
        self._check_rank(input._integers)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input(input)
        out = Quantizer(input._quantizer.dtype, per_tensor_affine, self.scale, self.zero_point)
        weight, bias = self._weight_bias()
        if self._uses_integers(input, weight):
            integers = self._by_integers(input, weight, bias, out)
            if integers is not None:
                return wrap_integers(integers.movedim(-1, 1), out)
        values = self._float_product(input.dequantize(), weight.dequantize(), bias)
        return out.quantize(F.relu(values) if self._then_relu else values)

    def _check_rank(self, input: Tensor) -> None:
        if input.ndim != len(self.kernel_size) + 2:
            sizes = {1: "L", 2: "H, W", 3: "D, H, W"}[len(self.kernel_size)]
            raise ValueError(f"Input shape must be `(N, C, {sizes})`! Got {tuple(input.shape)}")

    def _uses_integers(self, x: QuantizedTensor, weight: QuantizedTensor) -> bool:
        is_plain = len(self.kernel_size) == 2 and self.padding_mode == "zeros"  # which ONNX exports recognize
        is_fitting = not isinstance(self.padding, str) and (is_plain or not records_float_layers.get())
        return is_fitting and uses_integers(x, weight)

    def _by_integers(
        self, x: QuantizedTensor, weight: QuantizedTensor, bias: Tensor | None, out: Quantizer
    ) -> Tensor | None:
        """The convolution with the channels innermost, or None where the bias needs floats."""
        integers, padding = x._integers, self.padding
        if self.padding_mode != "zeros":
            integers, padding = F.pad(integers, self._ends(), mode=self.padding_mode), (0,) * len(padding)
        settings = Settings(self.stride, padding, self.dilation, self.groups)
        return static_convolution(integers.movedim(1, -1), x._quantizer, weight, bias, out, self._then_relu, settings)

    def _ends(self) -> list[int]:
        return [end for padding in reversed(self.padding) for end in (padding, padding)]

    def _float_product(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(self.kernel_size)]
        if self.padding_mode != "zeros":
            x = F.pad(x, self._ends(), mode=self.padding_mode)
            return function(x, weight, bias, self.stride, 0, self.dilation, self.groups)
        return function(x, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized layer of a float layer, or of one for training, that observers have seen."""
        return cls._from_float(mod, use_precomputed_fake_quant, *observed(mod))

    @classmethod
    def _from_float(cls, mod: Module, use_precomputed_fake_quant: bool, scale: float, zero_point: int) -> Any:
        qconfig, layer = mod.qconfig, mod[0] if isinstance(mod, _FusedModule) else mod
        weight, bias = layer.fused_parameters() if hasattr(layer, "fused_parameters") else (layer.weight, layer.bias)
        observer = weight_observer(layer, qconfig, weight, use_precomputed_fake_quant)
        result = cls.__new__(cls)
        Module.__init__(result)
        result._take_settings(layer)
        result.set_weight_bias(quantize_weight(weight.float(), observer), None if bias is None else bias.detach())
        result.set_output(scale, zero_point)
        return result

    @classmethod
    def from_reference(cls, ref_qconv: Module, output_scale: float, output_zero_point: int) -> Any:
        """The quantized layer of a reference layer, or of a fused one with it, and the scale of its result."""
        layer = ref_qconv[0] if isinstance(ref_qconv, _FusedModule) else ref_qconv
        result = cls.__new__(cls)
        Module.__init__(result)
        result._take_settings(layer)
        result.set_weight_bias(layer.get_quantized_weight(), None if layer.bias is None else layer.bias.detach())
        result.set_output(float(output_scale), int(output_zero_point))
        return result


class _QuantizedConvTranspose(_QuantizedConv):
    def _uses_integers(self, x: QuantizedTensor, weight: QuantizedTensor) -> bool:
        is_fitting = self.groups == 1 or not weight._quantizer.scheme.is_per_channel
        return is_fitting and not records_float_layers.get() and uses_integers(x, weight, axis=1)

    def _by_integers(
        self, x: QuantizedTensor, weight: QuantizedTensor, bias: Tensor | None, out: Quantizer
    ) -> Tensor | None:
        settings = Settings(self.stride, self.padding, self.dilation, self.groups)
        images = x._integers.movedim(1, -1)
        return static_transposed_convolution(images, x._quantizer, weight, bias, out, settings, self.output_padding)

    def _float_product(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        function = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[len(self.kernel_size)]
        return function(x, weight, bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation)


class Conv1d(_QuantizedConv):
    """Conv1d of integers."""

    _FLOAT_MODULE = _Conv1d


class Conv2d(_QuantizedConv):
    """Conv2d of integers."""

    _FLOAT_MODULE = _Conv2d


class Conv3d(_QuantizedConv):
    """Conv3d of integers."""

    _FLOAT_MODULE = _Conv3d


class ConvTranspose1d(_QuantizedConvTranspose):
    """ConvTranspose1d of integers."""

    _FLOAT_MODULE = _ConvTranspose1d


class ConvTranspose2d(_QuantizedConvTranspose):
    """ConvTranspose2d of integers."""

    _FLOAT_MODULE = _ConvTranspose2d


class ConvTranspose3d(_QuantizedConvTranspose):
    """ConvTranspose3d of integers."""

    _FLOAT_MODULE = _ConvTranspose3d


class ConvReLU1d(Conv1d):
    """Conv1d and ReLU of integers."""

    _then_relu = True


class ConvReLU2d(Conv2d):
    """Conv2d and ReLU of integers."""

    _then_relu = True


class ConvReLU3d(Conv3d):
    """Conv3d and ReLU of integers."""

    _then_relu = True


class ConvAdd2d(Conv2d):
    """Conv2d of integers, and the sum with a second input, computed in float32."""

    def forward(self, input: Tensor, extra_input: Tensor) -> Tensor:
        self._check_input(input)
        weight, bias = self._weight_bias()
        values = self._float_product(input.dequantize(), weight.dequantize(), bias) + extra_input.dequantize()
        return self.quantized(F.relu(values) if self._then_relu else values, input)


class ConvAddReLU2d(ConvAdd2d):
    """Conv2d of integers, the sum with a second input, and ReLU."""

    _then_relu = True
