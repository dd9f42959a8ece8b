"""Linear of integers: an int8 product with the bias, the ReLU and the new scale in one pass after it."""

from __future__ import annotations

from typing import Any

from .... import dtypes
from ....core import Tensor, zeros
from ....core.quantized import QuantizedTensor, quantize_per_tensor, quantized_linear
from ....nn import functional as F
from ....nn.module import Module
from ....nn.registry import fields_of
from ..intrinsic import _FusedModule
from .base import QuantizedOutput, expect_quantized, observed, quantize_weight, refuse_float_weight, weight_observer
from .packed_params import PackedParams, PackedParamsOfLayer


class LinearPackedParams(Module):
    """Weight and bias of a quantized Linear, under PyTorch's names in a state dict."""

    _version = 3
    _packed_params = PackedParamsOfLayer(PackedParams)

    def __init__(self, dtype: dtypes.dtype = dtypes.qint8) -> None:
        super().__init__()
        self.dtype = dtype
        empty = zeros(1, 1)
        weight = empty.half() if dtype is dtypes.float16 else quantize_per_tensor(empty, 1.0, 0, dtypes.qint8)
        self.set_weight_bias(weight, None)

    def set_weight_bias(self, weight: Tensor, bias: Tensor | None) -> None:
        """Set both."""
        self._packed_params = weight, bias

    def _weight_bias(self) -> tuple[Tensor, Tensor | None]:
        return fields_of(self)["_packed_params"]  # `__dict__` builds a view

    def forward(self, x: Tensor) -> Tensor:
        return x

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._weight_bias()

    def _load_from_state_dict(
        self, state_dict: dict, prefix: str, metadata: dict, strict: bool, missing: list, *others: Any
    ) -> None:
        packed = state_dict.pop(prefix + "_packed_params", None)
        self.dtype = state_dict.pop(prefix + "dtype", self.dtype)
        if packed is not None:
            weight, bias = packed
            self.set_weight_bias(weight if self.dtype is dtypes.float16 else expect_quantized(weight, prefix), bias)
        else:
            missing.append(prefix + "_packed_params")
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, *others)

    def __repr__(self) -> str:
        return repr(self._weight_bias())


class _PackedLinear(QuantizedOutput):
    """What static and dynamic Linear share: the packed parameters."""

    _version = 3

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: dtypes.dtype = dtypes.qint8
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.set_output(1.0, 0)
        self._packed_params = LinearPackedParams(dtype)
        self._packed_params.set_weight_bias(self._empty_weight(dtype), zeros(out_features) if bias_ else None)

    def _empty_weight(self, dtype: dtypes.dtype) -> Tensor:
        values = zeros(self.out_features, self.in_features)
        return values.half() if dtype is dtypes.float16 else quantize_per_tensor(values, 1.0, 0, dtypes.qint8)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *others: Any) -> None:
        refuse_float_weight(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *others)

    def weight(self) -> Tensor:
        """The quantized weight (out, in)."""
        return self._packed_params._weight_bias()[0]

    def bias(self) -> Tensor | None:
        """The float bias."""
        return self._packed_params._weight_bias()[1]

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        """Set the quantized weight and the float bias."""
        if not isinstance(w, QuantizedTensor) and self._packed_params.dtype is not dtypes.float16:
            raise NotImplementedError(
                "Could not run 'quantized::linear_prepack' with arguments from the 'CPU' backend: the weight must be "
                f"quantized, got {getattr(w, 'dtype', type(w).__name__)}; make it by numod.quantize_per_channel"
            )
        self._packed_params.set_weight_bias(w, b)

    def _weight_bias(self) -> tuple[Tensor, Tensor | None]:
        return self._packed_params._weight_bias()

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"


class Linear(_PackedLinear):
    """x @ weight.T + bias for a quantized x, (…, in_features) -> (…, out_features)."""

    _then_relu = False

    def _get_name(self) -> str:
        return "QuantizedLinear"

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, scale={self.scale}, "
            f"zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"
        )

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self._packed_params._weight_bias()
        return quantized_linear(x, weight, bias, self.scale, self.zero_point, self._then_relu)

    @classmethod
    def _empty(cls, layer: Module, has_bias: bool) -> Any:
        return cls(layer.in_features, layer.out_features, has_bias)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Linear:
        """The quantized layer of a float layer, or of one for training, that observers have seen."""
        scale, zero_point = observed(mod)
        qconfig, layer = mod.qconfig, mod[0] if isinstance(mod, _FusedModule) else mod
        weight, bias = layer.fused_parameters() if hasattr(layer, "fused_parameters") else (layer.weight, layer.bias)
        observer = weight_observer(layer, qconfig, weight, use_precomputed_fake_quant)
        result = cls._empty(layer, bias is not None)
        result.set_weight_bias(quantize_weight(weight.float(), observer), bias)
        result.set_output(scale, zero_point)
        return result

    @classmethod
    def from_reference(cls, ref_qlinear: Module, output_scale: float, output_zero_point: int) -> Linear:
        """The quantized layer of a reference layer, or of a fused pair with one, and the scale of its result."""
        layer = ref_qlinear[0] if isinstance(ref_qlinear, _FusedModule) else ref_qlinear
        result = cls._empty(layer, layer.bias is not None)
        result.set_weight_bias(layer.get_quantized_weight(), layer.bias)
        result.set_output(float(output_scale), int(output_zero_point))
        return result


class LinearReLU(Linear):
    """Linear and ReLU for a quantized x."""

    _then_relu = True

    def _get_name(self) -> str:
        return "QuantizedLinearReLU"


class _LinearActivation(Linear):
    """Base of linear layers whose activation has no integer kernel: both are computed in float32."""

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self._weight_bias()
        return self.quantized(self._activation(F.linear(x.dequantize(), weight.dequantize(), bias)), x)

    def _activation(self, values: Tensor) -> Tensor:
        return values.tanh()

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"


class LinearTanh(_LinearActivation):
    """Linear and Tanh for a quantized x."""


class LinearLeakyReLU(_LinearActivation):
    """Linear and LeakyReLU for a quantized x."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        negative_slope: float = 0.01,
        bias: bool = True,
        dtype: dtypes.dtype = dtypes.qint8,
    ) -> None:
        super().__init__(in_features, out_features, bias, dtype)
        self.negative_slope = negative_slope

    @classmethod
    def _empty(cls, layer: Module, has_bias: bool) -> Any:
        return cls(layer.in_features, layer.out_features, bias=has_bias)

    def _activation(self, values: Tensor) -> Tensor:
        return F.leaky_relu(values, self.negative_slope)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> LinearLeakyReLU:
        """The quantized layer of an observed pair of float layers."""
        result = super().from_float(mod, use_precomputed_fake_quant)
        result.negative_slope = mod[1].negative_slope
        return result

    @classmethod
    def from_reference(cls, ref_qlinear: Module, output_scale: float, output_zero_point: int) -> LinearLeakyReLU:
        """The quantized layer of a pair with a reference layer, and the scale of its result."""
        result = super().from_reference(ref_qlinear, output_scale, output_zero_point)
        result.negative_slope = ref_qlinear[1].negative_slope
        return result
