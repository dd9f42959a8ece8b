"""Modules of the numeric suite of graph mode that note what they see."""

from __future__ import annotations

from typing import Any

from ...nn.module import Module
from ..quantization.calls import map_tensors

__all__ = ["OutputLogger", "loggers_set_enabled", "loggers_set_save_activations"]


class OutputLogger(Module):
    """Notes the results of a call in `stats`, while `enabled`. Subclasses may note something else."""

    def __init__(
        self,
        ref_node_name: str,
        prev_node_name: str,
        model_name: str,
        ref_name: str,
        prev_node_target_type: str,
        ref_node_target_type: str,
        results_type: str,
        index_within_arg: int,
        index_of_arg: int,
        fqn: str | None,
        qconfig_str: str | None = "",
    ) -> None:
        super().__init__()
        self.stats: list[Any] = []
        self.ref_node_name, self.prev_node_name, self.model_name = ref_node_name, prev_node_name, model_name
        self.ref_name, self.results_type = ref_name, results_type
        self.prev_node_target_type, self.ref_node_target_type = prev_node_target_type, ref_node_target_type
        self.index_within_arg, self.index_of_arg = index_within_arg, index_of_arg
        self.fqn, self.qconfig_str = fqn, qconfig_str
        self.enabled, self.save_activations = True, True

    def forward(self, x: Any) -> Any:
        if self.enabled and self.save_activations:
            self.stats.append(map_tensors(x, lambda tensor: tensor.detach()))
        return x


def _set_flag(model: Module, name: str, value: bool) -> None:
    for child in model.modules():
        if isinstance(child, OutputLogger):
            setattr(child, name, value)


def loggers_set_enabled(model: Module, enabled: bool) -> None:
    """Whether the loggers of a model note results."""
    _set_flag(model, "enabled", enabled)


def loggers_set_save_activations(model: Module, save_activations: bool) -> None:
    """Whether the loggers of a model keep what they see."""
    _set_flag(model, "save_activations", save_activations)
