"""Reference layers: float layers whose weight is rounded to integers and back, with its scale beside it.

They say what a quantized layer computes, for other backends and for comparisons; `from_reference` of a quantized layer
takes one. `forward` is that of the float layer on the rounded weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..... import dtypes, nn
from .....core import Tensor, tensor
from .....core.quantized import (
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_tensor_affine,
    qscheme,
    quantize_per_channel,
    quantize_per_tensor,
)
from .....nn.module import Module
from .....nn.parameter import Parameter
from .....nn.recurrent import RNNBase as _RNNBase
from .....nn.recurrent_cells import RNNCellBase as _RNNCellBase

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Embedding", "EmbeddingBag",
    "GRU", "GRUCell", "LSTM", "LSTMCell", "Linear", "RNNCell", "ReferenceQuantizedModule", "get_quantized_weight",
]  # fmt: skip

_PER_CHANNEL = (per_channel_affine, per_channel_affine_float_qparams)
_DEFAULTS = {"qscheme": per_tensor_affine, "dtype": dtypes.quint8, "scale": 1.0, "zero_point": 0}


def _quantize_weight(
    weight: Tensor,
    weight_qscheme: qscheme,
    weight_dtype: dtypes.dtype,
    weight_scale: Tensor,
    weight_zero_point: Tensor,
    weight_axis_int: int,
) -> Tensor:
    """The weight as float16, or quantized."""
    if weight_dtype is dtypes.float16:
        return weight.half()
    if isinstance(weight_dtype, dtypes.QuantizedDtype):
        if weight_qscheme is per_tensor_affine:
            return quantize_per_tensor(weight, weight_scale, weight_zero_point, weight_dtype)
        if weight_qscheme in _PER_CHANNEL:
            return quantize_per_channel(weight, weight_scale, weight_zero_point, weight_axis_int, weight_dtype)
    raise ValueError(f"Unsupported dtype and qscheme: {weight_dtype}, {weight_qscheme}")


def _quantize_and_dequantize_weight(weight: Tensor, weight_qscheme: qscheme | None, *others: Any) -> Tensor:
    """The weight, rounded to what integers can hold."""
    if weight_qscheme not in (per_tensor_affine, *_PER_CHANNEL):
        return weight
    return _quantize_weight(weight, weight_qscheme, *others).dequantize()


def get_quantized_weight(module: Module, wn: str) -> Tensor:
    """The weight of this name, quantized."""
    return _quantize_weight(getattr(module, wn), *module._numbers(wn))


class ReferenceQuantizedModule(Module):
    """Mixed into a float layer: the scales of its weights, and `forward` with the rounded weights."""

    _IS_REFERENCE = True
    _float: type[Module]  # the float layer

    def _init_weight_qparams(self, weight_qparams: dict[str, Any] | None, device: Any = None) -> None:
        """Take scheme, dtype, scale, zero point and axis of `weight`."""
        self._set_numbers("weight", _DEFAULTS if weight_qparams is None else weight_qparams, device)

    def _set_numbers(self, name: str, qparams: dict[str, Any], device: Any) -> None:
        scheme, dtype = qparams["qscheme"], qparams["dtype"]
        if scheme not in (None, per_tensor_affine, *_PER_CHANNEL):
            raise AssertionError(f"qscheme: {scheme} is not supported in reference quantized {self._get_name()}")
        setattr(self, f"{name}_qscheme", scheme)
        setattr(self, f"{name}_dtype", dtype)
        used = qparams if isinstance(dtype, dtypes.QuantizedDtype) else _DEFAULTS
        values = used["scale"], used["zero_point"], used["axis"] if scheme in _PER_CHANNEL else 0
        for part, value, kind in zip(("scale", "zero_point", "axis"), values, "fii"):
            kind = dtypes.float32 if kind == "f" else dtypes.int32
            is_tensor = isinstance(value, Tensor)
            buffer = value.detach().clone() if is_tensor else tensor(value, dtype=kind, device=device)
            self.register_buffer(f"{name}_{part}", buffer)
        self.is_decomposed = qparams.get("is_decomposed", False)
        for limit in ("quant_min", "quant_max"):
            setattr(self, f"{name}_{limit}", qparams.get(limit))

    def _numbers(self, name: str) -> tuple:
        """Scheme, dtype, scale, zero point and axis of a weight."""
        parts = [getattr(self, f"{name}_{part}") for part in ("qscheme", "dtype", "scale", "zero_point", "axis")]
        return *parts[:-1], int(parts[-1])

    def _weight_names(self) -> list[str]:
        return [name for name in self._parameters if name.startswith("weight")]

    def get_weight(self) -> Tensor:
        """The weight, rounded to what integers can hold."""
        return _quantize_and_dequantize_weight(self.weight, *self._numbers("weight"))

    def get_quantized_weight(self) -> Tensor:
        """The weight, quantized."""
        return get_quantized_weight(self, "weight")

    def _get_name(self) -> str:
        return f"Quantized{self._float.__name__}(Reference)"

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """That of the float layer, with rounded weights."""
        names = self._weight_names()
        rounded = {name: _quantize_and_dequantize_weight(getattr(self, name), *self._numbers(name)) for name in names}
        layer = object.__new__(self._float)
        vars(layer).update(vars(self), _parameters={**self._parameters, **rounded})
        return self._float.forward(layer, *args, **kwargs)

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in self._weight_names():
            for part in ("qscheme", "dtype"):
                destination[f"{prefix}{name}_{part}"] = getattr(self, f"{name}_{part}")

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *others: Any) -> None:
        for name in self._weight_names():
            for part in ("qscheme", "dtype"):
                key = f"{name}_{part}"
                setattr(self, key, state_dict.pop(prefix + key, getattr(self, key)))
            for part in ("scale", "zero_point", "axis"):  # of another shape, where the scheme is another
                key = f"{name}_{part}"
                if prefix + key in state_dict:
                    self._buffers[key] = state_dict[prefix + key].detach().clone()
        super()._load_from_state_dict(state_dict, prefix, *others)

    @classmethod
    def from_float(cls, float_layer: Module, weight_qparams: dict[str, Any], *others: Any) -> Any:
        """The reference layer with a float layer's settings and parameters."""
        result = cls.__new__(cls)
        Module.__init__(result)
        settings = {name: value for name, value in vars(float_layer).items() if name not in vars(result)}
        vars(result).update(settings)
        vars(result).pop("qconfig", None)
        result.training = float_layer.training
        for name, parameter in float_layer._parameters.items():
            result.register_parameter(name, None if parameter is None else Parameter(parameter.detach()))
        result._init_numbers(weight_qparams, next(result.parameters()).device)
        return result

    def _init_numbers(self, qparams: dict[str, Any], device: Any) -> None:
        self._init_weight_qparams(qparams, device)


class _Recurrent(ReferenceQuantizedModule):
    """Mixed into recurrent layers and cells: a scale for each of their weights."""

    def _init_weight_qparams_dict(self, weight_qparams_dict: dict[str, Any] | None, device: Any = None) -> None:
        """Take the numbers of all weights, {"weight_ih": {...}, "weight_hh": {...}, "is_decomposed": False}."""
        names = self._weight_names()
        qparams = dict.fromkeys(names, _DEFAULTS) if weight_qparams_dict is None else weight_qparams_dict
        if {name for name in qparams if name != "is_decomposed"} != set(names):
            raise AssertionError(f"expected the numbers of {', '.join(names)}, got {', '.join(qparams)}")
        for name in names:
            if qparams[name]["qscheme"] is per_channel_affine_float_qparams:
                raise AssertionError(f"qscheme: {qparams[name]['qscheme']} is not supported in {self._get_name()}")
            self._set_numbers(name, qparams[name], device)
        self.is_decomposed = qparams.get("is_decomposed", False)

    _init_numbers = _init_weight_qparams_dict

    def get_quantized_weight_bias_dict(self) -> dict[str, Tensor]:
        """Each weight quantized, and each bias, by name."""
        names = self._weight_names()
        return {
            name: get_quantized_weight(self, name) if name in names else parameter
            for name, parameter in self._parameters.items()
        }

    def get_flat_weights(self) -> list[Tensor]:
        """Each weight rounded, and each bias."""
        names = self._weight_names()
        return [
            _quantize_and_dequantize_weight(parameter, *self._numbers(name)) if name in names else parameter
            for name, parameter in self._parameters.items()
        ]


class _Cell(_Recurrent):
    def get_quantized_weight_ih(self) -> Tensor:
        """The weight of the input, quantized."""
        return get_quantized_weight(self, "weight_ih")

    def get_quantized_weight_hh(self) -> Tensor:
        """The weight of the state, quantized."""
        return get_quantized_weight(self, "weight_hh")

    def get_weight_ih(self) -> Tensor:
        """The weight of the input, rounded."""
        return _quantize_and_dequantize_weight(self.weight_ih, *self._numbers("weight_ih"))

    def get_weight_hh(self) -> Tensor:
        """The weight of the state, rounded."""
        return _quantize_and_dequantize_weight(self.weight_hh, *self._numbers("weight_hh"))


def _constructor(base: type[Module], keyword: str) -> Callable:
    def __init__(self: Any, *args: Any, device: Any = None, **kwargs: Any) -> None:
        qparams = kwargs.pop(keyword, None)
        if "bias_" in kwargs:
            kwargs["bias"] = kwargs.pop("bias_")
        base.__init__(self, *args, device=device, **kwargs)
        self._init_numbers(qparams, device)

    return __init__


def _reference(name: str) -> Any:
    base: Any = getattr(nn, name)
    is_recurrent = issubclass(base, (_RNNBase, _RNNCellBase))
    mixin = _Cell if name.endswith("Cell") else _Recurrent if is_recurrent else ReferenceQuantizedModule
    keyword = "weight_qparams_dict" if is_recurrent else "weight_qparams"
    members = {
        "__init__": _constructor(base, keyword), "_float": base, "__module__": __name__,
        "__doc__": f"{name} with rounded weights; `{keyword}` has their scales.",
    }  # fmt: skip
    return type(name, (mixin, base), members)


Conv1d, Conv2d, Conv3d = _reference("Conv1d"), _reference("Conv2d"), _reference("Conv3d")
ConvTranspose1d, ConvTranspose2d = _reference("ConvTranspose1d"), _reference("ConvTranspose2d")
ConvTranspose3d, Linear = _reference("ConvTranspose3d"), _reference("Linear")
Embedding, EmbeddingBag = _reference("Embedding"), _reference("EmbeddingBag")
RNNCell, LSTMCell, GRUCell = _reference("RNNCell"), _reference("LSTMCell"), _reference("GRUCell")
LSTM, GRU = _reference("LSTM"), _reference("GRU")
