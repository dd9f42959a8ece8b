"""The base of `ModelReport`'s detectors, and what they recommend for a layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from ... import nn
from ...nn.module import Module
from .calls import Call
from .equalization import EqualizationQConfig, default_equalization_qconfig
from .graph_module import GraphModule
from .observer import (
    default_dynamic_quant_observer,
    default_observer,
    default_per_channel_weight_observer,
    default_weight_observer,
)
from .qconfig import QConfig

__all__ = ["DetectorBase", "DetectorQConfigInfo"]

DETECTOR_TARGET_NODE_KEY = "target_node"
DETECTOR_OBS_TO_INSERT_KEY = "observer_to_insert"
DETECTOR_IS_POST_OBS_KEY = "is_post_observer"
DETECTOR_OBS_ARGS_KEY = "observer_args"
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


class DetectorQConfigInfo:
    """What detectors recommend for a layer: a dynamic scale of its input, scales for channels, equalization."""

    def __init__(
        self, module_fqn: str, *, is_activation_dynamic: bool = False, is_weight_per_channel: bool = False
    ) -> None:
        self.module_fqn = module_fqn
        self.is_activation_dynamic, self.is_weight_per_channel = is_activation_dynamic, is_weight_per_channel
        self.is_equalization_recommended: Any = False

    def generate_quantization_qconfig(self, module: Module) -> QConfig:
        """A QConfig with the recommendations that the layer can have: transposed convolutions have one scale."""
        has_channels = self.is_weight_per_channel and not isinstance(module, _TRANSPOSED)
        return QConfig(
            default_dynamic_quant_observer if self.is_activation_dynamic else default_observer,
            default_per_channel_weight_observer if has_channels else default_weight_observer,
        )

    def generate_equalization_qconfig(self) -> EqualizationQConfig:
        """The default observers of equalization."""
        return default_equalization_qconfig


class DetectorBase(ABC):
    """Base of detectors. A subclass writes a report on a prepared model, of what its observers have seen."""

    _observer_settings: tuple[str, ...] = ()  # attributes that its observers of inputs depend on

    def __init__(self) -> None:
        self.detector_config_info = None

    @abstractmethod
    def determine_observer_insert_points(self, model: Module) -> dict:
        """The observers that it wants, by path: dictionaries with "target_node", "observer_to_insert",
        "is_post_observer" and "observer_args"."""

    @abstractmethod
    def get_detector_name(self) -> str:
        """The key of its report."""

    @abstractmethod
    def get_qconfig_info(self, model: Module) -> dict[str, DetectorQConfigInfo]:
        """What it recommends, by path of the layer."""

    @abstractmethod
    def generate_detector_report(self, model: Module) -> tuple[str, dict[str, Any]]:
        """The report: a text, and the figures of each layer by path."""

    def _targets(self, model: GraphModule, supports: Callable[[Module], bool]) -> Iterator[tuple[str, Call]]:
        """The layers that the detector supports and the model calls, with the first of their calls."""
        if not isinstance(model, GraphModule):
            raise TypeError(f"expected a model of prepare_fx, got {type(model).__name__}")
        for path, layer in model.named_modules():
            call = self._get_targeting_node(model, path) if supports(layer) else None
            if call is not None:
                yield path, call

    def _get_targeting_node(self, prepared_fx_model: GraphModule, target_fqn: str) -> Call | None:
        """The first call of a layer, or of the fused layer that it is a part of."""
        while target_fqn:
            for call in prepared_fx_model.graph.matched:
                if call.target == target_fqn and call.op == "call_module" and not call.is_skipped:
                    return call
            target_fqn = target_fqn.rpartition(".")[0]
        return None

    @staticmethod
    def _point(call: Call, observer: Module, is_after: bool) -> dict[str, Any]:
        return {
            DETECTOR_TARGET_NODE_KEY: call,
            DETECTOR_OBS_TO_INSERT_KEY: observer,
            DETECTOR_IS_POST_OBS_KEY: is_after,
            DETECTOR_OBS_ARGS_KEY: (call,) if is_after else call.inputs,
        }
