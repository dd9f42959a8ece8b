"""Detectors of `ModelReport`: each looks at one question about a prepared model, and writes a report on it.

A detector names the layers whose inputs and results it wants to see (`determine_observer_insert_points`). After
calibration it returns a text and a dictionary with the figures of each layer. The texts are PyTorch's.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ... import nn
from ...nn.module import Module
from ..nn import qat as nnqat
from .detector_base import DetectorBase, DetectorQConfigInfo
from .fake_quantize import FakeQuantizeBase
from .model_report_observer import ModelReportObserver
from .range_detectors import InputWeightEqualizationDetector, OutlierDetector

__all__ = [
    "DetectorBase", "DetectorQConfigInfo", "DynamicStaticDetector", "InputWeightEqualizationDetector",
    "OutlierDetector", "PerChannelDetector",
]  # fmt: skip

_LAYERS = {
    nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nnqat.Linear, nnqat.Conv1d, nnqat.Conv2d, nnqat.Conv3d,
}  # fmt: skip


class PerChannelDetector(DetectorBase):
    """Whether linear layers and convolutions have a scale for each output channel of their weights.

    Example:

        >>> from numod.ao.quantization import get_default_qconfig_mapping, quantize_fx
        >>> from numod.ao.quantization.fx._model_report.detector import PerChannelDetector
        >>> model, x = torch.nn.Sequential(torch.nn.Linear(2, 3)).eval(), torch.ones(1, 2)
        >>> prepared = quantize_fx.prepare_fx(model, get_default_qconfig_mapping("qnnpack"), (x,))
        >>> text, figures = PerChannelDetector().generate_detector_report(prepared)
        >>> figures["0"]["per_channel_quantization_used"]
        False
    """

    BACKEND_KEY = "backend"
    PER_CHAN_SUPPORTED_KEY = "per_channel_quantization_supported"
    PER_CHAN_USED_KEY = "per_channel_quantization_used"
    DEFAULT_BACKEND_PER_CHANNEL_SUPPORTED_MODULES = dict.fromkeys(("fbgemm", "qnnpack", "onednn", "x86"), _LAYERS)

    def __init__(self, backend: str | None = None) -> None:
        super().__init__()
        self.backend_chosen = import_module("numod.backends").quantized.engine if backend is None else backend
        if self.backend_chosen not in self.DEFAULT_BACKEND_PER_CHANNEL_SUPPORTED_MODULES:
            raise ValueError(f"Not configured to work with {self.backend_chosen}. Try a different default backend")
        self.supported_modules = self.DEFAULT_BACKEND_PER_CHANNEL_SUPPORTED_MODULES[self.backend_chosen]

    def get_detector_name(self) -> str:
        """The key of its report."""
        return "per_channel_detector"

    def determine_observer_insert_points(self, model: Module) -> dict:
        """None: it looks at configurations."""
        return {}

    def get_qconfig_info(self, model: Module) -> dict[str, DetectorQConfigInfo]:
        """A scale for each channel, for all layers."""
        return {path: DetectorQConfigInfo(path, is_weight_per_channel=True) for path in self._figures(model)}

    def _figures(self, model: Module) -> dict[str, dict]:
        layers = [
            (path, layer) for path, layer in model.named_modules() if isinstance(layer, (*self.supported_modules,))
        ]
        return {
            path: {
                self.PER_CHAN_SUPPORTED_KEY: True,
                self.PER_CHAN_USED_KEY: _has_channels(layer.qconfig.weight()),
                self.BACKEND_KEY: self.backend_chosen,
            }
            for path, layer in layers
            if getattr(layer, "qconfig", None) is not None
        }

    def generate_detector_report(self, model: Module) -> tuple[str, dict[str, Any]]:
        """The layers that could have a scale for each channel."""
        figures = self._figures(model)
        text = f"Further Optimizations for backend {self.backend_chosen}: \n"
        possible = [path for path, figure in figures.items() if not figure[self.PER_CHAN_USED_KEY]]
        if not possible:
            return text + "No further per_channel optimizations possible.", figures
        for path in possible:
            text += f"Module {path} can be configured to use per_channel quantization.\n"
        return text + (
            "To use per_channel quantization, make sure the qconfig has a per_channel weight observer."
        ), figures


def _has_channels(observer: Module) -> bool:
    """Whether an observer or fake quantization of a weight has a scale for each channel."""
    return observer.is_per_channel if isinstance(observer, FakeQuantizeBase) else hasattr(observer, "ch_axis")


class DynamicStaticDetector(DetectorBase):
    """Whether a layer's results have about the same range in each batch, so that one scale fits: then static
    quantization is as accurate as dynamic quantization, and faster.

    The figure is the mean range of a batch divided by the range of all data. Data are stationary where it is above
    `tolerance`.
    """

    DEFAULT_PRE_OBSERVER_NAME = "model_report_pre_observer"
    DEFAULT_POST_OBSERVER_NAME = "model_report_post_observer"
    STATIONARY_STR = "stationary"
    NON_STATIONARY_STR = "non-stationary"
    INPUT_ACTIVATION_PREFIX = "input_activation_"
    OUTPUT_ACTIVATION_PREFIX = "output_activation_"
    TOLERANCE_KEY = "dynamic_static_tolerance"
    DEFAULT_DYNAMIC_REC_KEY = "dynamic_recommended"
    PRE_OBS_COMP_STAT_KEY = "input_activation_dynamic_static_comp_stat"
    POST_OBS_COMP_STAT_KEY = "output_activation_dynamic_static_comp_stat"
    PRE_OBS_DATA_DIST_KEY = "input_activation_dynamic_static_data_classification"
    POST_OBS_DATA_DIST_KEY = "output_activation_dynamic_static_data_classification"
    IS_CURRENTLY_SUPPORTED_KEY = "is_dynamic_supported"
    DEFAULT_DYNAMIC_STATIC_CHECK_SUPPORTED = {nn.Linear}
    DEFAULT_DYNAMIC_STATIC_FUTURE_SUPPORTED = {nn.Conv1d, nn.Conv2d, nn.Conv3d}

    def __init__(self, tolerance: float = 0.5) -> None:
        super().__init__()
        self.tolerance = tolerance
        self.useful_observer_fqns: set[str] = set()

    def get_detector_name(self) -> str:
        """The key of its report."""
        return "dynamic_vs_static_detector"

    def _supports(self, layer: Module) -> bool:
        kinds = self.DEFAULT_DYNAMIC_STATIC_CHECK_SUPPORTED | self.DEFAULT_DYNAMIC_STATIC_FUTURE_SUPPORTED
        return isinstance(layer, (*kinds,))

    def determine_observer_insert_points(self, prepared_fx_model: Module) -> dict[str, dict[str, Any]]:
        """Before and after linear layers and convolutions."""
        points = {}
        for path, call in self._targets(prepared_fx_model, self._supports):
            for name, is_after in ((self.DEFAULT_PRE_OBSERVER_NAME, False), (self.DEFAULT_POST_OBSERVER_NAME, True)):
                points[f"{path}.{name}"] = self._point(call, ModelReportObserver(), is_after)
        return points

    def get_qconfig_info(self, model: Module) -> dict[str, DetectorQConfigInfo]:
        """Dynamic quantization where it is recommended."""
        return {
            path: DetectorQConfigInfo(path, is_activation_dynamic=bool(figure[self.DEFAULT_DYNAMIC_REC_KEY]))
            for path, figure in self._figures(model).items()
        }

    def _figures(self, model: Module) -> dict[str, dict]:
        observers = self.DEFAULT_PRE_OBSERVER_NAME, self.DEFAULT_POST_OBSERVER_NAME
        return {
            path: self._figures_of(layer, *(getattr(layer, name).get_batch_to_epoch_ratio() for name in observers))
            for path, layer in model.named_modules()
            if self._supports(layer) and all(hasattr(layer, name) for name in observers)
        }

    def _figures_of(self, layer: Module, before: Any, after: Any) -> dict[str, Any]:
        kinds = [
            self.STATIONARY_STR if ratio > self.tolerance else self.NON_STATIONARY_STR for ratio in (before, after)
        ]
        return {
            self.TOLERANCE_KEY: self.tolerance,
            self.DEFAULT_DYNAMIC_REC_KEY: after <= self.tolerance,
            self.PRE_OBS_COMP_STAT_KEY: before,
            self.PRE_OBS_DATA_DIST_KEY: kinds[0],
            self.POST_OBS_COMP_STAT_KEY: after,
            self.POST_OBS_DATA_DIST_KEY: kinds[1],
            self.IS_CURRENTLY_SUPPORTED_KEY: isinstance(layer, (*self.DEFAULT_DYNAMIC_STATIC_CHECK_SUPPORTED,)),
        }

    def generate_detector_report(self, model: Module) -> tuple[str, dict[str, Any]]:
        """Dynamic or static quantization for each layer, and why."""
        figures = self._figures(model)
        text = "Dynamic vs. Static Quantization suggestions: \n"
        if not figures:
            text += "No applicable layers for suggestions. Only linear and conv are valid.\n"
        return text + "".join(self._suggestion(path, figure) for path, figure in figures.items()), figures

    def _suggestion(self, path: str, figure: dict[str, Any]) -> str:
        before, after = figure[self.PRE_OBS_DATA_DIST_KEY], figure[self.POST_OBS_DATA_DIST_KEY]
        is_dynamic = bool(figure[self.DEFAULT_DYNAMIC_REC_KEY])
        reason = f"the distribution of data before {path} is {before} and the distribution after is {after}."
        if is_dynamic:
            reason += " You will get more accurate results if you use dynamic quantization"
            if not figure[self.IS_CURRENTLY_SUPPORTED_KEY]:
                reason += ". This layer is not yet supported for dynamic quantization"
        else:
            reason += " You can increase model efficiency if you use static quantization"
        if (before, after) == (self.NON_STATIONARY_STR, self.STATIONARY_STR):
            reason += (
                ". We recommend to add a dynamic quantize per tensor layer before this module if it is static. This is "
                "because the input to this module has a non-stationary distribution"
            )
        kind = "dynamic" if is_dynamic else "static"
        return f"For module {path} it is suggested to use {kind} quantization because {reason}.\n"
