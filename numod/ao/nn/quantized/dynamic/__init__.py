"""Layers with quantized weights for float inputs, which are quantized at each call with the scale of their range."""

from __future__ import annotations

from typing import Any

from ..... import dtypes, nn
from .....core import Tensor
from .....core.listeners import listeners
from .....core.quantized import (
    QuantizedTensor,
    dynamic_layer,
    dynamic_linear,
    quantize_per_tensor,
    runs_layer,
    zero_state,
)
from .....nn import functional as F
from .....nn.module import Module
from .....nn.recurrent import run_by_step
from ...intrinsic import _FusedModule
from ..base import expect_floats, expect_quantized, quantize_weight
from ..linear import _PackedLinear
from .convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "GRU", "GRUCell", "LSTM",
    "LSTMCell", "Linear", "RNNCell",
]  # fmt: skip


_KERNEL_BATCH = 32  # sequences up to which one thread's kernel of all steps is faster than products by several threads


def _weight_of(weight: Tensor, qconfig: Any) -> Tensor:
    """The weight as the QConfig wants it: of float16, or quantized."""
    observer = qconfig.weight()
    if observer.dtype is dtypes.float16:
        return weight.detach().half()
    if observer.dtype is not dtypes.qint8:
        raise RuntimeError(f"Unsupported dtype {observer.dtype} for dynamic quantization; use numod.qint8 or float16")
    observer(weight)
    return quantize_weight(weight.float(), observer)


def _quantized(weight: Tensor) -> QuantizedTensor:
    """A new layer's weight, which a state dict replaces."""
    return quantize_per_tensor(weight, 0.1, 0, dtypes.qint8)


def _expect(mod: Module, layer: Module, *kinds: type[Module]) -> None:
    """Raise AssertionError for a float layer of another class, or without a QConfig."""
    if not isinstance(layer, kinds[0]):
        raise AssertionError(f"from_float only works for {kinds[0].__name__}, got {type(layer).__name__}")
    if getattr(mod, "qconfig", None) is None:
        raise AssertionError("Input float module must have qconfig defined")


class Linear(_PackedLinear):
    """x @ weight.T + bias for a float x, (…, in_features) -> (…, out_features)."""

    _version = 4
    _then_relu = False

    def _get_name(self) -> str:
        return "DynamicQuantizedLinear"

    def extra_repr(self) -> str:
        text = f"in_features={self.in_features}, out_features={self.out_features}, dtype={self._packed_params.dtype}"
        return text + (f", qscheme={self.weight().qscheme()}" if self._packed_params.dtype is dtypes.qint8 else "")

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self._packed_params._weight_bias()
        expect_floats(x, weight._layout.shape[1], self)
        if isinstance(weight, QuantizedTensor):
            result = dynamic_linear(x, weight, bias)
        else:
            result = F.linear(x, weight.to(x.dtype), bias if bias is None else bias.to(x.dtype))
        return F.relu(result) if self._then_relu else result

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Linear:
        """The layer of a float one."""
        layer = mod[0] if isinstance(mod, _FusedModule) else mod
        _expect(mod, layer, nn.Linear)
        weight = _weight_of(layer.weight, mod.qconfig)
        kind = dtypes.float16 if weight.dtype is dtypes.float16 else dtypes.qint8
        result = cls(layer.in_features, layer.out_features, layer.bias is not None, kind)
        result.set_weight_bias(weight, layer.bias)
        return result

    @classmethod
    def from_reference(cls, ref_qlinear: Module) -> Linear:
        """The layer of a reference layer."""
        layer = ref_qlinear[0] if isinstance(ref_qlinear, _FusedModule) else ref_qlinear
        result = cls(layer.in_features, layer.out_features, layer.bias is not None, layer.weight_dtype)
        result.set_weight_bias(layer.get_quantized_weight(), layer.bias)
        return result


class LinearReLU(Linear):
    """Linear and ReLU for a float x."""

    _then_relu = True

    def _get_name(self) -> str:
        return "DynamicQuantizedLinearReLU"


class _Recurrent:
    """Mixed into recurrent layers and cells: their weights are quantized (or of float16), so that each product
    `F.linear` in them is a dynamic one.
    """

    _recurrent_weight = "weight_hh"

    def __init__(self, *args: Any, dtype: dtypes.dtype = dtypes.qint8, **kwargs: Any) -> None:
        if dtype not in (dtypes.qint8, dtypes.float16):
            raise RuntimeError(f"Unsupported dtype {dtype} for dynamic quantization; use numod.qint8 or float16")
        super().__init__(*args, **kwargs)
        for name, parameter in list(self._parameters.items()):
            value = None if parameter is None else self._parameters.pop(name).detach()
            if value is not None and name.startswith("weight"):
                value = self._stored(value.half()) if dtype is dtypes.float16 else _quantized(value)
            if value is not None:
                self.register_buffer(name, value)

    def _get_name(self) -> str:
        return f"DynamicQuantized{type(self).__name__}"

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer of a float one."""
        _expect(mod, mod, *(kind for kind in cls.__mro__ if kind.__module__.startswith(nn.__name__)))
        result = cls.__new__(cls)
        Module.__init__(result)
        settings = {name: value for name, value in vars(mod).items() if name not in vars(result)}
        result.__dict__.update(settings)
        result.__dict__.pop("qconfig", None)
        for name, parameter in mod._parameters.items():
            is_weight = name.startswith("weight") and parameter is not None
            value = parameter if parameter is None else parameter.detach()
            result.register_buffer(name, cls._stored(_weight_of(value, mod.qconfig)) if is_weight else value)
        result.training = mod.training
        return result

    @staticmethod
    def _stored(weight: Tensor) -> Tensor:
        """The weight as a cell holds it: one rounded to float16 as float32, which its products take."""
        return weight.float() if weight.dtype is dtypes.float16 else weight

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *others: Any) -> None:
        for name, buffer in self._buffers.items():
            if isinstance(buffer, QuantizedTensor) and prefix + name in state_dict:
                self._buffers[name] = expect_quantized(state_dict[prefix + name], prefix + name)
        super()._load_from_state_dict(state_dict, prefix, *others)

    def _zeros(self, batch: int, size: int, x: Tensor) -> Tensor:
        weight = getattr(self, self._recurrent_weight)
        is_remembered = batch <= _KERNEL_BATCH and not listeners and runs_layer(x, (), weight)
        if not is_remembered or weight._layout.device is not x._layout.device:
            return super()._zeros(batch, size, x)
        return zero_state(weight, batch, size)

    def _check_dtype(self, x: Tensor) -> None:
        if x.dtype is not dtypes.float32:
            raise ValueError(f"RNN input dtype ({x.dtype}) does not match weight dtype (numod.float32). Convert input")


class _Layer(_Recurrent):
    _recurrent_weight = "weight_hh_l0"

    @staticmethod
    def _stored(weight: Tensor) -> Tensor:
        return weight

    def _run(self, x: Tensor, sizes: list[int], start: tuple, suffix: str, reverse: bool) -> tuple:
        weights, batch = self._weights(suffix), sizes[0]
        weight = weights["weight_hh"]
        has_kernel = self.mode in ("LSTM", "GRU") and not self.proj_size and runs_layer(x, start, weight)
        has_kernel = has_kernel and batch > 0 and min(sizes) == batch == start[0]._layout.shape[0]
        # a recorded program has the kernel for every batch, so that this size can be dynamic
        if not has_kernel or (batch > _KERNEL_BATCH and not listeners):
            return run_by_step(self.mode, x, sizes, start, weights, reverse)
        gates = dynamic_linear(x, weights["weight_ih"], weights.get("bias_ih"))
        states, last = dynamic_layer(self.mode, gates, weight, weights.get("bias_hh"), start, reverse)
        return states[0], last

    def _takes(self, sequence: Any) -> bool:
        return False

    def _weights(self, suffix: str) -> dict[str, Tensor]:
        weights = super()._weights(suffix)
        if isinstance(weights["weight_ih"], QuantizedTensor):
            return weights
        return {name: weight.float() if weight.dtype is dtypes.float16 else weight for name, weight in weights.items()}


class _Cell(_Recurrent):
    @staticmethod
    def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """`F.linear`, which finds its rule for a quantized weight at each call."""
        product = dynamic_linear if isinstance(weight, QuantizedTensor) and type(x) is Tensor else F.linear
        return product(x, weight, bias)


class LSTM(_Layer, nn.LSTM):
    """LSTM with quantized weights."""


class GRU(_Layer, nn.GRU):
    """GRU with quantized weights."""


class LSTMCell(_Cell, nn.LSTMCell):
    """LSTMCell with quantized weights."""


class GRUCell(_Cell, nn.GRUCell):
    """GRUCell with quantized weights."""


class RNNCell(_Cell, nn.RNNCell):
    """RNNCell with quantized weights."""
