"""Quantized layers without integer kernels: they compute in float32 and quantize the result with the observed scale."""

from __future__ import annotations

from typing import Any

from .... import dtypes
from .... import nn
from ....errors import warn_caller
from ....core import Tensor, tensor, zeros
from ....core.derived import number_of
from ....core.quantized import QuantizedTensor, quantize_per_tensor
from ....nn import functional as F
from ....nn.module import Module
from ..intrinsic import BNReLU2d as _BNReLU2d, BNReLU3d as _BNReLU3d
from .base import QuantizedOutput, expect_quantized, observed


class Quantize(Module):
    """Where floats become integers: what `convert` makes of a QuantStub."""

    scale: Tensor
    zero_point: Tensor

    def __init__(self, scale: Any, zero_point: Any, dtype: dtypes.dtype, factory_kwargs: dict | None = None) -> None:
        super().__init__()
        self.register_buffer("scale", tensor([float(scale)], dtype=dtypes.float32))
        self.register_buffer("zero_point", tensor([int(zero_point)], dtype=dtypes.int64))
        self.dtype = dtype

    def _parameters_as_numbers(self) -> tuple[float, int]:
        """Scale and zero point."""
        return number_of(self.scale), int(number_of(self.zero_point))

    def forward(self, X: Tensor) -> Tensor:
        return quantize_per_tensor(X, *self._parameters_as_numbers(), self.dtype)

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> Quantize:
        """The layer with the scale of an observed QuantStub."""
        return Quantize(*observed(mod), mod.activation_post_process.dtype)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(Module):
    """Where integers become floats: what `convert` makes of a DeQuantStub."""

    def forward(self, Xq: Tensor) -> Tensor:
        return Xq.dequantize()

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> DeQuantize:
        """The layer."""
        return DeQuantize()


class _OfFloat(QuantizedOutput):
    """Mixed into a float layer: its forward on the values, and a quantized result."""

    _arguments = ""  # names of the constructor's arguments, in order

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        values = {**dict(zip(self._arguments.split(), args)), **kwargs}
        parameters = {name: values.pop(name, None) for name in ("weight", "bias") if name in self._arguments.split()}
        scale, zero_point = (
            values.pop(name, values.pop(f"output_{name}", default))
            for name, default in (("scale", 1.0), ("zero_point", 0))
        )
        super().__init__(**values)
        for name, parameter in parameters.items():
            if parameter is not None:
                setattr(self, name, parameter)
        self.set_output(float(scale), int(zero_point))

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    def forward(self, input: Tensor) -> Tensor:
        values = self._of_values(input.dequantize())
        return self.quantized(F.relu(values) if isinstance(self, (BNReLU2d, BNReLU3d)) else values, input)

    def _of_values(self, x: Tensor) -> Tensor:
        if not isinstance(self, (nn.BatchNorm2d, nn.BatchNorm3d)):
            return super().forward(x)
        # always with the running statistics
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized layer, with the settings and parameters of an observed float layer."""
        scale, zero_point = observed(mod)
        layer = mod[0] if isinstance(mod, (_BNReLU2d, _BNReLU3d)) else mod
        result = cls.__new__(cls)
        Module.__init__(result)
        result.__dict__.update({name: value for name, value in vars(layer).items() if name not in vars(result)})
        for name, parameter in layer._parameters.items():
            result.register_parameter(name, parameter)
        for name, buffer in layer._buffers.items():
            result.register_buffer(name, buffer)
        result.__dict__.pop("qconfig", None)
        result.training = layer.training
        result.set_output(scale, zero_point)
        return result


def _quantized(name: str, base: type[Module], arguments: str, **members: Any) -> Any:
    members = {"__doc__": f"{name} with a quantized result.", "__module__": __name__, **members}
    return type(name, (_OfFloat, base), {"_arguments": arguments, **members})


_BATCH_NORM, _WITH_SCALE = "num_features eps momentum", "weight bias scale zero_point eps"
BatchNorm2d, BatchNorm3d, BNReLU2d, BNReLU3d = (
    _quantized(name, getattr(nn, f"BatchNorm{name[-2:]}"), _BATCH_NORM)
    for name in ("BatchNorm2d", "BatchNorm3d", "BNReLU2d", "BNReLU3d")
)
LayerNorm = _quantized("LayerNorm", nn.LayerNorm, f"normalized_shape {_WITH_SCALE} elementwise_affine")
GroupNorm = _quantized("GroupNorm", nn.GroupNorm, f"num_groups num_channels {_WITH_SCALE} affine")
InstanceNorm1d, InstanceNorm2d, InstanceNorm3d = (
    _quantized(
        f"InstanceNorm{n}d", getattr(nn, f"InstanceNorm{n}d"),
        f"num_features {_WITH_SCALE} momentum affine track_running_stats",
    )
    for n in (1, 2, 3)
)  # fmt: skip
Hardswish = _quantized("Hardswish", nn.Hardswish, "scale zero_point")
LeakyReLU = _quantized("LeakyReLU", nn.LeakyReLU, "scale zero_point negative_slope inplace")
ELU = _quantized("ELU", nn.ELU, "scale zero_point alpha", _saves_parameters=False)
Sigmoid = _quantized(
    "Sigmoid", nn.Sigmoid, "output_scale output_zero_point", _needs_parameters=False, _get_name=lambda self: "Sigmoid"
)
Softmax = _quantized("Softmax", nn.Softmax, "dim scale zero_point", _needs_parameters=False)


class PReLU(QuantizedOutput):
    """PReLU with a quantized weight and result."""

    weight: Tensor
    _needs_parameters = False

    def __init__(self, output_scale: float, output_zero_point: int, num_parameters: int = 1) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.set_output(float(output_scale), int(output_zero_point))
        self.register_buffer("weight", quantize_per_tensor(zeros(num_parameters), 1.0, 0, dtypes.quint8))

    def set_weight(self, w: QuantizedTensor) -> None:
        """Set the quantized weight."""
        self._buffers["weight"] = expect_quantized(w, "weight")

    def _get_name(self) -> str:
        return "QuantizedPReLU"

    def forward(self, input: Tensor) -> Tensor:
        return self.quantized(F.prelu(input.dequantize(), self.weight.dequantize()), input)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *others: Any) -> None:
        weight = state_dict.pop(f"{prefix}weight", None)  # PyTorch does not save it
        if weight is not None:
            self.set_weight(weight)
        state_dict[f"{prefix}weight"] = self.weight
        super()._load_from_state_dict(state_dict, prefix, *others)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> PReLU:
        """The layer of an observed float one."""
        result, observer = cls(*observed(mod), mod.num_parameters), mod.qconfig.weight()
        weight = mod.weight.detach().float()
        observer(weight)
        if observer.dtype is not dtypes.quint8:
            warn_caller(f"PReLU's weight observer should have dtype quint8 but got {observer.dtype}")
        scale, zero_point = observer.calculate_qparams()
        result.set_weight(quantize_per_tensor(weight, float(scale), int(zero_point), dtypes.quint8))
        return result


class ReLU6(nn.ReLU6):
    """ReLU6, whose result has the scale of its input."""

    def _get_name(self) -> str:
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> ReLU6:
        """The layer."""
        return ReLU6(mod.inplace)


class Dropout(nn.Dropout):
    """Dropout, which does nothing after training."""

    def _get_name(self) -> str:
        return "QuantizedDropout"

    def forward(self, input: Tensor) -> Tensor:
        return input

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Dropout:
        """The layer."""
        return cls(mod.p, mod.inplace)
