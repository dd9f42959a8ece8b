"""LSTM and MultiheadAttention of quantized parts: what `convert` makes of those of `nn.quantizable`."""

from __future__ import annotations

from typing import Any, NoReturn

from .... import dtypes
from ....core import Tensor
from ....core.quantized import _choose_qparams_per_tensor, quantize_per_tensor
from ....nn.module import Module
from .. import quantizable


def _converted(kind: type, other: Module) -> Any:
    from ...quantization.quantize import convert

    if not isinstance(other, kind._FLOAT_MODULE):
        raise AssertionError(f"from_observed: expected a quantizable {kind.__name__}, got {type(other).__name__}")
    result = convert(other)
    result.__class__ = kind
    return result


def _refuse(kind: type, name: str) -> NoReturn:
    raise NotImplementedError(
        f"It looks like you are trying to convert a non-observed {name} module. Please, see the examples on "
        f"quantizable {name}s: nn.quantizable.{kind.__name__}.from_float makes one that observes; run it on samples, "
        f"then pass it to nn.quantized.{kind.__name__}.from_observed"
    )


class LSTM(quantizable.LSTM):
    """An LSTM of quantized layers and functions for a quantized input."""

    _FLOAT_MODULE = quantizable.LSTM

    def _get_name(self) -> str:
        return "QuantizedLSTM"

    @classmethod
    def from_float(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises NotImplementedError: the layer is made of an observed one."""
        _refuse(cls, "LSTM")

    @classmethod
    def from_observed(cls, other: Module) -> LSTM:
        """The quantized layer of an observed `nn.quantizable.LSTM`."""
        return _converted(cls, other)


class MultiheadAttention(quantizable.MultiheadAttention):
    """MultiheadAttention with quantized projections for quantized inputs."""

    _FLOAT_MODULE = quantizable.MultiheadAttention

    def _get_name(self) -> str:
        return "QuantizedMultiheadAttention"

    @classmethod
    def from_float(cls, other: Module) -> NoReturn:
        """Raises NotImplementedError: the layer is made of an observed one."""
        _refuse(cls, "MHA")

    @classmethod
    def from_observed(cls, other: Module) -> MultiheadAttention:
        """The quantized layer of an observed `nn.quantizable.MultiheadAttention`."""
        result = _converted(cls, other)
        for name in ("bias_k", "bias_v"):
            bias = result._parameters.pop(name, None)
            setattr(result, name, None if bias is None else _quantized(bias.detach()))
        for name in ("in_proj_weight", "in_proj_bias", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            result._parameters.pop(name, None)
        return result


def _quantized(bias: Tensor) -> Tensor:
    return quantize_per_tensor(bias, *_choose_qparams_per_tensor(bias), dtypes.quint8)
