"""Input-weight equalization of graph mode: channels of inputs and columns of weights get ranges that agree.

Each input channel is multiplied by `sqrt(range of the weight's column / range of the channel)`, and the column divided
by it: the product stays the same. `prepare_fx(..., _equalization_config=mapping)` observes the ranges.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from ... import dtypes, nn
from ...core import Tensor, tensor
from ...core.quantized import per_channel_symmetric, per_tensor_affine, per_tensor_symmetric, qscheme
from ...errors import warn_caller
from ...nn.module import Module
from .observer import PER_CHANNEL, PER_TENSOR, PerChannelMinMaxObserver, WithArguments

__all__ = [
    "EqualizationQConfig", "calculate_equalization_scale", "default_equalization_qconfig",
    "get_equalization_qconfig_dict", "get_layer_sqnr_dict",
]  # fmt: skip


class ColumnObserver(WithArguments, Module):
    """Ranges of columns: dimension 1, of inputs of linear layers the last dimension."""

    _dtype = dtypes.quint8
    _schemes: tuple = PER_TENSOR

    def __init__(
        self,
        dtype: dtypes.dtype | None = None,
        qscheme: qscheme = per_tensor_affine,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: dict | None = None,
    ) -> None:
        super().__init__()
        if qscheme not in self._schemes:
            raise TypeError(f"Input qscheme must be per-tensor, got {qscheme}")
        self.dtype, self.qscheme = dtype or self._dtype, qscheme
        self.columns = PerChannelMinMaxObserver(1, quant_min=quant_min, quant_max=quant_max, dtype=self.dtype)
        self.equalization_scale = tensor(1)

    def forward(self, x: Tensor) -> Tensor:
        if not 2 <= x.ndim <= 5:
            raise ValueError(f"{type(self).__name__} only supports Linear and Conv layers, got {x.ndim} dimensions")
        return self.columns(x)

    def _range(self) -> tuple[Tensor, Tensor]:
        return self.columns.min_val, self.columns.max_val


class _InputEqualizationObserver(ColumnObserver):
    """Observes the range of each channel of a layer's input."""

    def get_input_minmax(self) -> tuple[Tensor, Tensor]:
        """The ranges of the channels."""
        return self._range()


class _WeightEqualizationObserver(ColumnObserver):
    """Observes the range of each column of a layer's weight: what an input channel is multiplied by."""

    _dtype = dtypes.qint8
    _schemes = (*PER_TENSOR, *PER_CHANNEL)

    def get_weight_col_minmax(self) -> tuple[Tensor, Tensor]:
        """The ranges of the columns."""
        return self._range()


def calculate_equalization_scale(
    input_obs: _InputEqualizationObserver, weight_obs: _WeightEqualizationObserver
) -> Tensor:
    """What each input channel is multiplied by; 1 where a range is empty."""
    (low, high), (weight_low, weight_high) = input_obs.get_input_minmax(), weight_obs.get_weight_col_minmax()
    if not low.numel() or not weight_low.numel():
        warn_caller(
            "Must run observer before calling calculate_equalization_scale. Returning default equalization scale 1."
        )
        return tensor(1)
    if low.shape != weight_low.shape:
        raise ValueError(
            f"Input and Weight must have the same column dimension. Found {low.shape} and {weight_low.shape} shapes "
            "instead."
        )
    scale = ((weight_high - weight_low) / (high - low)).sqrt()
    return scale.masked_fill(scale == 0, 1.0).nan_to_num(1.0, 1.0, 1.0)


class _Pair(NamedTuple):
    input_activation: Any
    weight: Any


class EqualizationQConfig(_Pair):
    """Recipes of the observers that equalize a layer: of its input's channels and of its weight's columns."""

    __slots__ = ()

    def __new__(cls, input_activation: Any = nn.Identity, weight: Any = nn.Identity) -> EqualizationQConfig:
        if isinstance(input_activation, Module) or isinstance(weight, Module):
            raise ValueError(
                "EqualizationQConfig received observer instance, please pass observer class instead. Use "
                "MyObserver.with_args(x=1) to override arguments to constructor if needed"
            )
        return super().__new__(cls, input_activation, weight)


def get_layer_sqnr_dict(model_a: Module, model_b: Module, x: Tensor) -> dict[str, float]:
    """The signal-to-noise ratio of each layer of model B against model A, in dB, for an input."""
    suite, metrics = (import_module(f"numod.ao.ns.{name}") for name in ("_numeric_suite_fx", "metrics"))
    noting = suite.add_loggers("fp32", model_a, "int8", model_b)
    for model in noting:
        model(x)
    results = suite.extract_logger_info(*noting, suite.OutputLogger, "int8")
    suite.extend_logger_results_with_comparison(results, "fp32", "int8", metrics.compute_sqnr, "sqnr")
    entries = [by_type["node_output"]["int8"][0] for by_type in results.values()]
    return {entry["fqn"]: entry["sqnr"][0] for entry in entries}


def get_equalization_qconfig_dict(layer_sqnr_dict: dict[str, float], num_layers_to_equalize: int) -> dict[str, list]:
    """What equalizes the layers with the lowest ratios of `get_layer_sqnr_dict`: pass it as `_equalization_config`."""
    layers = sorted(layer_sqnr_dict, key=lambda name: float(layer_sqnr_dict[name]))[:num_layers_to_equalize]
    return {"module_name": [(name, default_equalization_qconfig) for name in layers]}


input_equalization_observer = _InputEqualizationObserver.with_args(dtype=dtypes.quint8, qscheme=per_tensor_symmetric)
weight_equalization_observer = _WeightEqualizationObserver.with_args(dtype=dtypes.qint8, qscheme=per_channel_symmetric)
default_equalization_qconfig = EqualizationQConfig(input_equalization_observer, weight_equalization_observer)
