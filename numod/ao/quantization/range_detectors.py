"""Detectors of `ModelReport` that look at the ranges of channels: equalization of inputs and weights, outliers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import nn
from ...core import Tensor
from ...nn.module import Module
from ..nn import qat as nnqat
from .detector_base import DetectorBase, DetectorQConfigInfo
from .fake_quantize import FakeQuantizeBase
from .graph_patterns import is_leaf
from .model_report_observer import ModelReportObserver
from .observer import ObserverBase

__all__ = ["InputWeightEqualizationDetector", "OutlierDetector"]


class InputWeightEqualizationDetector(DetectorBase):
    """Whether linear layers and convolutions gain by input-weight equalization.

    The figure of a channel is `sqrt(w / W) / sqrt(i / I)`: w and i are the ranges of the channel in weight and input,
    W and I those of all channels. A channel gains where it is between `ratio_threshold` and its reciprocal.
    """

    SUPPORTED_MODULES: set[Callable] = {
        nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nnqat.Linear, nnqat.Conv1d, nnqat.Conv2d, nnqat.Conv3d,
    }  # fmt: skip
    DEFAULT_PRE_OBSERVER_NAME: str = "model_report_pre_observer"
    WEIGHT_PREFIX = "weight_"
    ACTIVATION_PREFIX = "input_activation_"
    PER_CHANNEL_MAX_KEY = "per_channel_max"
    PER_CHANNEL_MIN_KEY = "per_channel_min"
    GLOBAL_MAX_KEY = "global_max"
    GLOBAL_MIN_KEY = "global_min"
    RECOMMENDED_KEY = "input_weight_equalization_recommended"
    COMP_METRIC_KEY = "input_weight_channel_comparison_metrics"
    THRESHOLD_KEY = "input_weight_threshold"
    CHANNEL_KEY = "input_weight_channel_axis"
    WEIGHT_STR = "weight"
    INPUT_STR = "input"
    DEFAULT_RECOMMEND_INPUT_WEIGHT_CHANNEL_RATIO = 0.4
    _observer_settings = ("ch_axis",)

    def __init__(self, ratio_threshold: float, ch_axis: int = 1) -> None:
        if not 0 < ratio_threshold < 1:
            raise ValueError(f"Make sure threshold is > 0 and < 1, got {ratio_threshold}")
        super().__init__()
        self.ratio_threshold, self.ch_axis = float(ratio_threshold), ch_axis

    def get_detector_name(self) -> str:
        """The key of its report."""
        return "input_weight_equalization_detector"

    def _supports(self, layer: Module) -> bool:
        return type(layer) in self.SUPPORTED_MODULES

    def determine_observer_insert_points(self, prepared_fx_model: Module) -> dict[str, dict[str, Any]]:
        """Before linear layers and convolutions."""
        return {
            f"{path}.{self.DEFAULT_PRE_OBSERVER_NAME}": self._point(call, ModelReportObserver(self.ch_axis), False)
            for path, call in self._targets(prepared_fx_model, self._supports)
        }

    def get_qconfig_info(self, model: Module) -> dict[str, DetectorQConfigInfo]:
        """Whether each channel of a layer gains."""
        result = {}
        for path, figure in self._figures(model).items():
            result[path] = DetectorQConfigInfo(path)
            result[path].is_equalization_recommended = figure[self.RECOMMENDED_KEY]
        return result

    def _figures(self, model: Module) -> dict[str, dict]:
        return {
            path: self._figures_of(path, layer, getattr(layer, self.DEFAULT_PRE_OBSERVER_NAME))
            for path, layer in model.named_modules()
            if self._supports(layer) and hasattr(layer, self.DEFAULT_PRE_OBSERVER_NAME)
        }

    def _figures_of(self, path: str, layer: Module, observer: ModelReportObserver) -> dict[str, Any]:
        channels = layer.weight.detach().transpose(0, self.ch_axis).flatten(1).float()
        inputs = self._ranges(self.ACTIVATION_PREFIX, observer.min_val, observer.max_val)
        weights = self._ranges(self.WEIGHT_PREFIX, *channels.aminmax(dim=1))
        weight = self._ratio(path, self.WEIGHT_STR, weights, self.WEIGHT_PREFIX)
        input_ratio = self._ratio(path, self.INPUT_STR, inputs, self.ACTIVATION_PREFIX)
        groups, rest = divmod(len(input_ratio), len(weight))  # each group of a convolution has its own columns
        if rest:
            raise AssertionError("input channels should be divisible by weight channels.")
        ratio = weight.repeat(groups).sqrt() / input_ratio.sqrt()
        return {
            self.RECOMMENDED_KEY: [self.ratio_threshold <= r <= 1 / self.ratio_threshold for r in ratio.tolist()],
            self.COMP_METRIC_KEY: ratio,
            self.THRESHOLD_KEY: self.ratio_threshold,
            self.CHANNEL_KEY: self.ch_axis,
            **inputs,
            **weights,
        }

    def _ranges(self, prefix: str, low: Tensor, high: Tensor) -> dict[str, Tensor]:
        return {
            prefix + self.PER_CHANNEL_MAX_KEY: high,
            prefix + self.PER_CHANNEL_MIN_KEY: low,
            prefix + self.GLOBAL_MAX_KEY: high.max(),
            prefix + self.GLOBAL_MIN_KEY: low.min(),
        }

    def _ratio(self, path: str, kind: str, ranges: dict[str, Tensor], prefix: str) -> Tensor:
        """The range of each channel divided by that of all."""
        whole = ranges[prefix + self.GLOBAL_MAX_KEY] - ranges[prefix + self.GLOBAL_MIN_KEY]
        if whole == 0:
            raise ValueError(
                f"The range of the {kind} data for module {path} is 0, which means you have a constant value channel. "
                "We recommend removing this channel as it doesn't provide any useful information."
            )
        return (ranges[prefix + self.PER_CHANNEL_MAX_KEY] - ranges[prefix + self.PER_CHANNEL_MIN_KEY]) / whole

    def generate_detector_report(self, model: Module) -> tuple[str, dict[str, Any]]:
        """How many channels of each layer gain."""
        figures = self._figures(model)
        text = "Input-Weight Equalization suggestions: \n"
        if not figures:
            text += "No applicable layers for suggestions. Only linear and conv valid.\n"
        return text + "".join(self._suggestion(path, figure) for path, figure in figures.items()), figures

    def _suggestion(self, path: str, figure: dict[str, Any]) -> str:
        gains, count = sum(figure[self.RECOMMENDED_KEY]), len(figure[self.RECOMMENDED_KEY])
        if gains / count >= self.DEFAULT_RECOMMEND_INPUT_WEIGHT_CHANNEL_RATIO:
            text = "to use input weight equalization because {}/{} channels would benefit and we expect significant "
            text += "reduction in quantization error."
        else:
            text = "to not use input weight equalization because we don't expect much improvement from input-weight "
            text += "equalization based on {}/{} channels benefitting from input-weight equalization being applied."
        return f"For Module {path} looked at with axis {self.ch_axis}: \n\tWe suggest {text.format(gains, count)}\n"


class OutlierDetector(DetectorBase):
    """Whether the largest values of a layer's input are far from the others.

    The figure of a channel is the mean ratio of the maximum of a batch to its quantile `reference_percentile`; above
    `ratio_threshold` there are outliers. Batches in which both are 0 do not count: `fraction_batches_used_threshold`
    of them must, for the figure to be reliable.
    """

    DEFAULT_PRE_OBSERVER_NAME: str = "model_report_pre_observer"
    INPUT_ACTIVATION_PREFIX = "input_activation_"
    OUTLIER_KEY = "outliers_detected"
    NUM_BATCHES_KEY = "outlier_detection_batches_used"
    IS_SUFFICIENT_BATCHES_KEY = "outlier_detection_is_sufficient_batches"
    COMP_METRIC_KEY = "outlier_detection_percentile_ratios"
    RATIO_THRES_KEY = "outlier_detection_ratio_threshold"
    REF_PERCENTILE_KEY = "outlier_detection_reference_percentile"
    CHANNEL_AXIS_KEY = "outlier_detection_channel_axis"
    MAX_VALS_KEY = "input_activation_per_channel_max"
    CONSTANT_COUNTS_KEY = "constant_batch_counts"
    _observer_settings = ("ch_axis", "reference_percentile")

    def __init__(
        self,
        ratio_threshold: float = 3.5,
        reference_percentile: float = 0.975,
        fraction_batches_used_threshold: float = 0.95,
        ch_axis: int = 1,
    ) -> None:
        if not 0 <= reference_percentile <= 1:
            raise AssertionError("reference_percentile must be between 0 and 1")
        if not 0 <= fraction_batches_used_threshold <= 1:
            raise AssertionError("fraction_batches_used_threshold must be between 0 and 1")
        super().__init__()
        self.ratio_threshold, self.reference_percentile = ratio_threshold, reference_percentile
        self.fraction_batches_used_threshold, self.ch_axis = fraction_batches_used_threshold, ch_axis

    def get_detector_name(self) -> str:
        """The key of its report."""
        return "outlier_detector"

    def get_qconfig_info(self, model: Module) -> dict[str, DetectorQConfigInfo]:
        """None: it recommends no QConfig."""
        return {}

    def _supports_insertion(self, layer: Module) -> bool:
        """Whether a module is a layer without layers in it."""
        return is_leaf(layer) and not any(layer.children()) and not isinstance(layer, (ObserverBase, FakeQuantizeBase))

    def determine_observer_insert_points(self, prepared_fx_model: Module) -> dict[str, dict[str, Any]]:
        """Before all layers."""
        return {
            f"{path}.{self.DEFAULT_PRE_OBSERVER_NAME}": self._point(
                call, ModelReportObserver(self.ch_axis, self.reference_percentile), False
            )
            for path, call in self._targets(prepared_fx_model, self._supports_insertion)
        }

    def _figures(self, model: Module) -> dict[str, dict]:
        return {
            path: self._figures_of(getattr(layer, self.DEFAULT_PRE_OBSERVER_NAME))
            for path, layer in model.named_modules()
            if hasattr(layer, self.DEFAULT_PRE_OBSERVER_NAME)
        }

    def _figures_of(self, observer: ModelReportObserver) -> dict[str, Any]:
        ratios, counts = observer.average_percentile_ratio.abs(), observer.percentile_batches_tracked
        ratios = ratios.maximum(1 / ratios)  # of negative data the maximum has the smaller magnitude
        batches = max(observer.num_batches_tracked, 1)
        return {
            self.CHANNEL_AXIS_KEY: self.ch_axis,
            self.REF_PERCENTILE_KEY: self.reference_percentile,
            self.RATIO_THRES_KEY: self.ratio_threshold,
            self.COMP_METRIC_KEY: ratios,
            self.NUM_BATCHES_KEY: counts,
            self.OUTLIER_KEY: [ratio > self.ratio_threshold for ratio in ratios.tolist()],
            self.IS_SUFFICIENT_BATCHES_KEY: [
                count / batches >= self.fraction_batches_used_threshold for count in counts.tolist()
            ],
            self.CONSTANT_COUNTS_KEY: observer.constant_channels,
            self.MAX_VALS_KEY: observer.max_val,
        }

    def generate_detector_report(self, model: Module) -> tuple[str, dict[str, Any]]:
        """The channels with outliers, and those that are constant in some batches."""
        figures = self._figures(model)
        reports = "".join(self._suggestion(path, figure) for path, figure in figures.items())
        text = "Outlier detection report: \n" + (reports or "There were no outliers found in the activations.\n")
        if reports:
            text += (
                "Note: outlier detection is only reliable for stationary distributions. We recommend running the "
                "static vs. dynamic detector to ensure activation data before modules above is stationary to ensure "
                "the most accurate results."
            )
        return text, figures

    def _suggestion(self, path: str, figure: dict[str, Any]) -> str:
        text = ""
        for index, has_outliers in enumerate(figure[self.OUTLIER_KEY]):
            if has_outliers:
                text += (
                    f"\tFor channel {index}, we found outliers in the preceding activation data with a max value "
                    f"across all batches of {figure[self.MAX_VALS_KEY][index]}.\n"
                )
            if constant := figure[self.CONSTANT_COUNTS_KEY][index]:
                text += (
                    f"\tFor channel {index}, we found {constant} constant value batches. We recommend taking a look at "
                    "the dict and data to see how frequent this occurred and why.\n"
                )
        return f"For Module {path} looked at with axis {self.ch_axis}: \n{text}" if text else ""
