"""`ModelReport`: what a model in preparation for quantization looks like, and which configuration suits its layers.

Detectors (`detectors`) have observers of inputs and results of layers, which see the data of calibration.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import combinations
from typing import Any

from ...core import Tensor
from ...nn.module import Module
from ...paths import later
from .detector_base import (
    DETECTOR_IS_POST_OBS_KEY,
    DETECTOR_OBS_TO_INSERT_KEY,
    DETECTOR_TARGET_NODE_KEY,
    DetectorBase,
    DetectorQConfigInfo,
)
from .graph_module import GraphModule
from .model_report_visualizer import ModelReportVisualizer
from .qconfig_mapping import QConfigMapping

__all__ = ["ModelReport"]


class ModelReport:
    """Reports of detectors on a model of `prepare_fx`.

    Call `prepare_detailed_calibration`, run the model on typical data, and then `generate_model_report`,
    `generate_qconfig_mapping`, `generate_equalization_mapping` and `generate_visualizer`.

    Example:

        >>> from numod.ao.quantization import get_default_qconfig_mapping, quantize_fx
        >>> from numod.ao.quantization.fx._model_report.detector import DynamicStaticDetector
        >>> from numod.ao.quantization.fx._model_report.model_report import ModelReport
        >>> model, x = torch.nn.Sequential(torch.nn.Linear(2, 3)).eval(), torch.tensor([[1.0, 2.0], [3.0, 5.0]])
        >>> prepared = quantize_fx.prepare_fx(model, get_default_qconfig_mapping(), (x,))
        >>> model_report = ModelReport(prepared, {DynamicStaticDetector()})
        >>> for batch in (x, 100 * x):
        ...     _ = model_report.prepare_detailed_calibration()(batch) if batch is x else prepared(batch)
        >>> reports = model_report.generate_model_report(remove_inserted_observers=False)
        >>> reports["dynamic_vs_static_detector"][1]["0"]["input_activation_dynamic_static_data_classification"]
        'stationary'
    """

    def __init__(self, model: GraphModule, desired_report_detectors: set[DetectorBase]) -> None:
        if not desired_report_detectors:
            raise ValueError("Should include at least 1 desired report")
        self._model, self._desired_report_detectors = model, desired_report_detectors
        self._desired_detector_names = {detector.get_detector_name() for detector in desired_report_detectors}
        self._detector_name_to_observer_fqns: dict[str, set[str]] = {
            name: set() for name in self._desired_detector_names
        }
        self._prepared_flag = self._removed_observers = False
        self._generated_reports: dict[str, dict] = {}

    def get_desired_reports_names(self) -> set[str]:
        """The names of the detectors."""
        return self._desired_detector_names.copy()

    def get_observers_of_interest(self) -> dict[str, set[str]]:
        """The paths of each detector's observers."""
        return self._detector_name_to_observer_fqns.copy()

    def prepare_detailed_calibration(self) -> GraphModule:
        """Add the detectors' observers to the model, and return it."""
        if self._prepared_flag:
            raise ValueError(
                "Already ran preparing detailed calibration. Run the report generation next after calibration."
            )
        points: dict[str, dict] = {}
        for detector in self._by_settings():
            of_detector = detector.determine_observer_insert_points(self._model)
            points |= of_detector
            self._detector_name_to_observer_fqns[detector.get_detector_name()] = set(of_detector)
        for path, point in points.items():
            self._insert(path, point)
        self._prepared_flag = True
        return self._model

    def _by_settings(self) -> list[DetectorBase]:
        """The detectors, last the one whose observers suit all: they share an observer of each input."""
        detectors = sorted(self._desired_report_detectors, key=lambda detector: len(detector._observer_settings))
        for first, second in combinations(detectors, 2):
            for name in set(first._observer_settings) & set(second._observer_settings):
                _expect_equal(name, first, second)
        return detectors

    def _insert(self, path: str, point: dict[str, Any]) -> None:
        parent, _, name = path.rpartition(".")
        self._model.get_submodule(parent).add_module(name, point[DETECTOR_OBS_TO_INSERT_KEY])
        call = point[DETECTOR_TARGET_NODE_KEY]
        if point[DETECTOR_IS_POST_OBS_KEY]:
            self._model.add_logger(call, path)
        else:
            self._model.add_input_logger(call, path, 0)

    def _remove(self, path: str) -> None:
        parent, _, name = path.rpartition(".")
        del self._model.get_submodule(parent)._modules[name]
        self._model.remove_logger(path)

    def generate_model_report(self, remove_inserted_observers: bool) -> dict[str, tuple[str, dict]]:
        """The reports: for each detector's name, a text and the figures of each layer."""
        self._check("report")
        reports = {
            detector.get_detector_name(): detector.generate_detector_report(self._model)
            for detector in self._desired_report_detectors
        }
        if remove_inserted_observers:
            self._removed_observers = True
            for path in set().union(*self._detector_name_to_observer_fqns.values()):
                self._remove(path)
        self._generated_reports = {name: figures for name, (_, figures) in reports.items()}
        return reports

    def _check(self, what: str) -> None:
        if not self._prepared_flag:
            raise RuntimeError(
                f"Cannot generate {what} without preparing model for calibration: call prepare_detailed_calibration() "
                "and run the model"
            )
        if self._removed_observers:
            raise RuntimeError(f"Cannot generate {what} on model you already removed observers from")

    def generate_visualizer(self) -> ModelReportVisualizer:
        """Tables and plots of the figures of the last reports."""
        if not self._generated_reports:
            raise RuntimeError("Unable to generate visualizers without first generating reports")
        figures: dict[str, dict] = {}
        for by_layer in self._generated_reports.values():
            for path, features in by_layer.items():
                present = figures.setdefault(path, {})
                if not all(_is_same(features[key], present[key]) for key in features.keys() & present.keys()):
                    raise ValueError(
                        "You have the same key with different values across detectors. Someone incorrectly implemented "
                        "a detector with conflicting keys to existing detectors."
                    )
                figures[path] = features | present
        names = [path for path, _ in self._model.named_modules() if path in figures]
        return ModelReportVisualizer(OrderedDict((path, figures[path]) for path in names))

    def _combined(self, update: Callable[[DetectorQConfigInfo, DetectorQConfigInfo], None]) -> dict:
        """What all detectors recommend for each layer."""
        self._check("report")
        result: dict[str, DetectorQConfigInfo] = {}
        for detector in self._desired_report_detectors:
            for path, info in detector.get_qconfig_info(self._model).items():
                if path in result:
                    update(result[path], info)
                else:
                    result[path] = info
        return result

    def _mapping(self, infos: dict, make: Callable[[DetectorQConfigInfo, Module], Any]) -> QConfigMapping:
        mapping = QConfigMapping()
        for path, layer in self._model.named_modules():
            if path in infos:
                mapping.set_module_name(path, make(infos[path], layer))
        return mapping

    def generate_qconfig_mapping(self) -> QConfigMapping:
        """A QConfigMapping with what the detectors recommend."""

        def update(info: DetectorQConfigInfo, other: DetectorQConfigInfo) -> None:
            info.is_activation_dynamic = info.is_activation_dynamic or other.is_activation_dynamic
            info.is_weight_per_channel = info.is_weight_per_channel or other.is_weight_per_channel

        return self._mapping(self._combined(update), DetectorQConfigInfo.generate_quantization_qconfig)

    def generate_equalization_mapping(self) -> QConfigMapping:
        """A mapping for `prepare_fx(_equalization_config=)` with the layers of the detectors."""

        def update(info: DetectorQConfigInfo, other: DetectorQConfigInfo) -> None:
            info.is_equalization_recommended = info.is_equalization_recommended or other.is_equalization_recommended

        return self._mapping(self._combined(update), lambda info, layer: info.generate_equalization_qconfig())


def _expect_equal(name: str, first: DetectorBase, second: DetectorBase) -> None:
    """Raise ValueError for two detectors with different settings of a shared observer."""
    values = getattr(first, name), getattr(second, name)
    if values[0] != values[1]:
        raise ValueError(
            f"{first.get_detector_name()} and {second.get_detector_name()} share an observer of each input: expected "
            f"the same {name}, got {values[0]} and {values[1]}; use a ModelReport for each of them"
        )


def _is_same(first: Any, second: Any) -> bool:
    """Whether two figures are equal."""
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return first.shape == second.shape and bool((first == second).all())
    return type(first) is type(second) and first == second


__getattr__ = later("ao.quantization.fx._model_report")  # PyTorch's package of this name has several modules
