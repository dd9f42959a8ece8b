"""Bias correction: the mean error of each quantized layer is subtracted from its bias.

Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction, section 4.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...core import Tensor
from ...nn import Conv2d, Linear
from ...nn.module import Module
from ..nn import quantized as nnq
from ..ns import _numeric_suite as ns

__all__ = ["MeanShadowLogger", "bias_correction", "get_module", "get_param", "parent_child_names"]

_supported_modules = {Linear, Conv2d}
_supported_modules_quantized = {nnq.Linear, nnq.Conv2d}


def get_module(model: Module, name: str) -> Module:
    """The submodule at a path."""
    return model.get_submodule(name)


def parent_child_names(name: str) -> tuple[str, str]:
    """The path of the parent, and the last name."""
    parent, _, child = name.rpartition(".")
    return parent, child


def get_param(module: Module, attr: str) -> Tensor | None:
    """A layer's "weight" or "bias", which quantized layers have as methods."""
    parameter = getattr(module, attr, None)
    return parameter() if callable(parameter) else parameter


class MeanShadowLogger(ns.Logger):
    """Notes the mean of the results of a quantized layer and of its float layer."""

    def __init__(self) -> None:
        super().__init__()
        self.clear()

    def clear(self) -> None:
        """Forget what was noted."""
        self.stats["float"] = self.stats["quantized"] = None
        self.count, self.float_sum, self.quant_sum = 0, None, None

    def forward(self, x: Tensor, y: Tensor) -> None:
        x = x.dequantize() if x.is_quantized else x
        self.count += 1
        self.quant_sum = x if self.quant_sum is None else self.quant_sum + x
        self.float_sum = y if self.float_sum is None else self.float_sum + y
        self.stats["quantized"], self.stats["float"] = self.quant_sum / self.count, self.float_sum / self.count


def bias_correction(
    float_model: Module,
    quantized_model: Module,
    img_data: Iterable[Any],
    target_modules: Iterable[type] = _supported_modules_quantized,
    neval_batches: int | None = None,
) -> None:
    """Correct the biases of quantized layers, in place, one layer after the other.

    `img_data` has batches whose first entry is the model's input; `neval_batches` limits their number. The corrected
    layers stay wrapped in `ns.Shadow`, whose `orig_module` they are.
    """
    ns.prepare_model_with_stubs(float_model, quantized_model, _supported_modules, MeanShadowLogger)
    for path, layer in list(quantized_model.named_modules()):
        bias = get_param(layer, "bias") if type(layer) in target_modules else None
        if bias is None:
            continue
        for count, data in enumerate(img_data, start=1):
            quantized_model(data[0])
            if count == neval_batches:
                break
        stats = ns.get_logger_dict(quantized_model)[f"{parent_child_names(path)[0]}.stats"]
        error = stats["quantized"] - stats["float"]
        layer.set_weight_bias(
            layer.weight(), bias.detach() - error.mean([dim for dim in range(error.ndim) if dim != 1])
        )
        for logger in quantized_model.modules():
            if isinstance(logger, MeanShadowLogger):
                logger.clear()
