"""What quantized layers share: the scale of their result, their quantized weight, and how both are found."""

from __future__ import annotations

from typing import Any

from .... import dtypes
from ....core import Tensor, tensor
from ....core.quantized import (
    QuantizedTensor,
    Quantizer,
    per_channel_affine_float_qparams,
    per_tensor_affine,
    quantize_per_channel,
    quantize_per_tensor,
)
from ....core.quantized.tensor import wrap_integers
from ....nn.module import Module


def quantize_weight(weight: Tensor, observer: Any) -> QuantizedTensor:
    """The weight, quantized with the scale of an observer that has seen it."""
    scale, zero_point = observer.calculate_qparams()
    weight = weight.detach()
    if observer.qscheme is per_channel_affine_float_qparams:
        return quantize_per_channel(weight, scale.float(), zero_point.float(), observer.ch_axis, observer.dtype)
    if observer.qscheme.is_per_channel:
        result = quantize_per_channel(weight, scale.double(), zero_point.long(), observer.ch_axis, dtypes.qint8)
    else:
        result = quantize_per_tensor(weight, float(scale), int(zero_point), dtypes.qint8)
    low, high = (getattr(observer, name, None) for name in ("quant_min", "quant_max"))
    if low is None or high is None or (low <= -128 and high >= 127):
        return result
    return wrap_integers(result._integers.clamp(low, high), result._quantizer)  # as the rounding of training


_quantize_weight = quantize_weight  # PyTorch's name


def weight_observer(mod: Module, qconfig: Any, weight: Tensor, use_precomputed_fake_quant: bool = False) -> Any:
    """The observer of a layer's weight, which has seen it: the one of training, or a new one of the QConfig."""
    rounding = getattr(mod, "weight_fake_quant", None)
    observer = qconfig.weight() if rounding is None else rounding
    if rounding is None or not use_precomputed_fake_quant:
        observer(weight)
    if getattr(observer, "dtype", dtypes.qint8) is not dtypes.qint8:
        raise AssertionError(f"Weight observer must have dtype numod.qint8, got {observer.dtype}")
    return observer


def observed(mod: Module) -> tuple[float, int]:
    """Scale and zero point that the observer of a layer's result has found."""
    observer = getattr(mod, "activation_post_process", None)
    if observer is None:
        raise AssertionError("Input float module must have qconfig defined, and prepare() must have seen it")
    scale, zero_point = observer.calculate_qparams()
    return float(scale), int(zero_point)


class QuantizedOutput(Module):
    """Base of layers with a quantized result. `scale` and `zero_point` are saved with the state."""

    scale: float
    zero_point: int
    _saves_parameters = True
    _needs_parameters = True  # in a state dict: PyTorch does not save those of some layers

    def set_output(self, scale: float, zero_point: int) -> None:
        """Set the scale and zero point of the result."""
        self.scale, self.zero_point = scale, zero_point

    def quantized(self, values: Tensor, like: Tensor) -> QuantizedTensor:
        """Floats as the layer's quantized result, in the input's dtype."""
        if not isinstance(like, QuantizedTensor):
            raise NotImplementedError(
                f"Could not run '{self._get_name()}' with arguments from the 'CPU' backend: it needs a quantized "
                f"input, got {like.dtype}; put a QuantStub before it"
            )
        return Quantizer(like.dtype, per_tensor_affine, self.scale, self.zero_point).quantize(values)

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self._saves_parameters:
            destination[prefix + "scale"] = tensor(self.scale)
            destination[prefix + "zero_point"] = tensor(self.zero_point)

    def _load_from_state_dict(
        self, state_dict: dict, prefix: str, local_metadata: dict, strict: bool, missing: list, *others: Any
    ) -> None:
        for name, kind in (("scale", float), ("zero_point", int)) if self._saves_parameters else ():
            if prefix + name in state_dict:
                value = state_dict.pop(prefix + name)
                if isinstance(value, Tensor) and value.numel() != 1:
                    raise RuntimeError(
                        f"{prefix}{name} must be a number, got shape {tuple(value.shape)}: the checkpoint is of a "
                        "layer that is quantized in another way; quantize the model as that one was"
                    )
                setattr(self, name, kind(value))
            elif strict and self._needs_parameters:
                missing.append(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, *others)


def refuse_float_weight(state_dict: dict, prefix: str) -> None:
    """Raise RuntimeError if the state of a layer with packed weights is a float layer's."""
    if prefix + "weight" in state_dict:
        expect_quantized(state_dict[prefix + "weight"], prefix + "weight")


def expect_quantized(weight: Any, key: str) -> QuantizedTensor:
    """`weight`. Raises RuntimeError for a float one from a float model's checkpoint."""
    if not isinstance(weight, QuantizedTensor):
        raise RuntimeError(
            f"{key} is a float weight, and this layer is quantized: load the checkpoint into the float model, then "
            "quantize that"
        )
    return weight


def expect_floats(x: Any, features: int, layer: Module) -> None:
    """Raise an error unless x is what a layer with a quantized weight takes: floats (…, features)."""
    if isinstance(x, Tensor) and x.is_floating_point() and x.ndim and x.shape[-1] == features:
        return
    name = layer._get_name()
    if isinstance(x, QuantizedTensor):
        raise NotImplementedError(
            f"Could not run '{name}' with arguments from the 'QuantizedCPU' backend: it takes floats and quantizes "
            "them itself; call dequantize() first, or leave the QuantStub out"
        )
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(x).__name__}")
    if not x.is_floating_point():
        raise RuntimeError(f"{name}: expected scalar type Float but found {x.dtype.short}; convert with .float() first")
    got = x.shape[-1] if x.ndim else "a scalar"
    raise RuntimeError(f"{name}: expected {features} input features, got {got}")
