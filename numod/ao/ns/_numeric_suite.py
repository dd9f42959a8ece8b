"""PyTorch's numeric suite for eager models: weights, results of layers, and layers beside their float layers.

`compare_weights` pairs two state dicts, `compare_model_outputs` the results of all layers, and `compare_model_stub`
runs a float layer on the inputs of the quantized one (a `Shadow`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ... import dtypes, nn
from ...core import Tensor
from ...nn.module import Module
from ..nn import quantized as nnq
from ..nn.quantized import dynamic as nnqd
from ..quantization.measure import forget_call
from ..quantization.qconfig import QConfig
from ..quantization.quantization_mappings import get_default_compare_output_module_list
from ..quantization.quantize import prepare

__all__ = [
    "Logger", "NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST", "OutputLogger", "Shadow", "ShadowLogger",
    "compare_model_outputs", "compare_model_stub", "compare_weights", "get_default_compare_output_module_list",
    "get_logger_dict", "get_matching_activations", "prepare_model_outputs", "prepare_model_with_stubs",
]  # fmt: skip

NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST = {nnqd.Linear, nnq.Linear, nnqd.LSTM, nn.LSTM}
_WITHOUT_CONVERSION: dict[str, Any] = {}  # for `prepare`: layers in parts stay as they are


# ---- weights


def _find_match(str_list: Iterable[str], key_str: str, postfix: str) -> str | None:
    """The name in a list of the same layer as a key that ends in `postfix`."""
    *layer, last = key_str.split(".")
    if last != postfix:
        return None
    layers = [layer]
    if postfix == "_packed_params" and layer[:-1]:  # "fc._packed_params._packed_params" is "fc.weight"
        layers.append(layer[:-1])
    for parts in layers:
        for name in str_list:
            others = name.split(".")
            if "".join(parts) in ("".join(others[:-1]), "".join(others[:-2])):
                return name
    return None


def compare_weights(float_dict: dict[str, Any], quantized_dict: dict[str, Any]) -> dict[str, dict[str, Tensor]]:
    """The weights of two state dicts, {key: {"float": weight, "quantized": weight}}.

    Example:

        >>> from numod.ao.ns import _numeric_suite as ns
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3))
        >>> quantized = torch.ao.quantization.quantize_dynamic(model)
        >>> sorted(ns.compare_weights(model.state_dict(), quantized.state_dict()))
        ['0._packed_params._packed_params']
    """
    result = {}
    for key, value in quantized_dict.items():
        match = _find_match(float_dict, key, "weight")
        if match is None:
            match = _find_match(float_dict, key, "_packed_params")
            value = value[0] if match is not None else value
        layer, _, name = key.rpartition(".")
        if match is None and name.startswith("weight_") and key in float_dict and value.is_quantized:
            match = key  # recurrent layers keep the names of their weights
        if match is not None:
            result[key] = {"float": float_dict[match], "quantized": value}
    return result


# ---- what is noted


class Logger(Module):
    """Base of modules that note what they are called with in `stats`."""

    def __init__(self) -> None:
        super().__init__()
        self.stats: dict[str, Any] = {}
        self.dtype = dtypes.quint8

    def forward(self, x: Any) -> Any:
        return x


class ShadowLogger(Logger):
    """Notes the results of a quantized layer and of its float layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stats["float"], self.stats["quantized"] = [], []

    def forward(self, x: Any, y: Any) -> None:
        x, y = (value[0] if len(value) > 1 else value for value in (x, y))
        self.stats["quantized"].append(x.detach())
        self.stats["float"].append(y.detach())


class OutputLogger(Logger):
    """Notes the results of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stats["tensor_val"] = []

    def forward(self, x: Any) -> Any:
        self.stats["tensor_val"].append(x)
        return x


def get_logger_dict(mod: Module, prefix: str = "") -> dict[str, dict]:
    """What the loggers in a model have noted, {"path.stats": stats}."""
    result = {}
    path = f"{prefix}." if prefix else ""
    logger = next((child for child in mod.children() if isinstance(child, Logger)), None)
    if logger is not None:
        result[f"{path}stats"] = logger.stats
    for name, child in mod.named_children():
        result |= get_logger_dict(child, path + name)
    return result


# ---- layers beside their float layers


def _lists(value: Any) -> Any:
    return [_lists(part) for part in value] if type(value) is tuple else value


def _floats(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_floats(part) for part in value]
    return value.dequantize() if isinstance(value, Tensor) and value.is_quantized else value


class Shadow(Module):
    """A quantized layer and its float layer, which gets the same inputs as floats. Returns the quantized result."""

    def __init__(self, q_module: Module, float_module: Module, logger_cls: Callable) -> None:
        super().__init__()
        self.orig_module, self.shadow_module = q_module, float_module
        self.dequant = nnq.DeQuantize()
        self.logger = logger_cls()

    def _both(self, name: str, *inputs: Any) -> Any:
        result = getattr(self.orig_module, name)(*inputs)
        self.logger(result, getattr(self.shadow_module, name)(*map(_floats, inputs)))
        return result

    def forward(self, *x: Any) -> Any:
        return self._both("__call__", *_lists(x))

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """That of both modules, which are functional ones."""
        return self._both("add", x, y)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """That of both modules, which are functional ones."""
        return self._both("add_scalar", x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """That of both modules, which are functional ones."""
        return self._both("mul", x, y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """That of both modules, which are functional ones."""
        return self._both("mul_scalar", x, y)

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        """That of both modules, which are functional ones."""
        return self._both("cat", x, dim)

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """That of both modules, which are functional ones."""
        return self._both("add_relu", x, y)


def _is_identical_module_type(mod1: Module, mod2: Module) -> bool:
    return [type(module) for module in mod1.modules()] == [type(module) for module in mod2.modules()]


def prepare_model_with_stubs(
    float_module: Module, q_module: Module, module_swap_list: Iterable[type], logger_cls: Callable
) -> None:
    """Put a Shadow in the place of each quantized layer whose float layer is of a class in the list."""
    floats = dict(float_module.named_children())
    shadows = {}
    for name, module in q_module.named_children():
        if name not in floats:
            continue
        if type(floats[name]) not in module_swap_list:
            prepare_model_with_stubs(floats[name], module, module_swap_list, logger_cls)
        elif not _is_identical_module_type(module, floats[name]):
            shadows[name] = Shadow(module, floats[name], logger_cls)
    q_module._modules.update(shadows)


def compare_model_stub(
    float_model: Module,
    q_model: Module,
    module_swap_list: Iterable[type],
    *data: Any,
    logger_cls: Callable = ShadowLogger,
) -> dict[str, dict]:
    """The results of quantized layers and of their float layers for the same inputs, by path.

    The quantized model is run with `data`; layers of the classes in `module_swap_list` become `Shadow`s, in place.
    """
    prepare_model_with_stubs(float_model, q_model, module_swap_list, logger_cls)
    q_model(*data)
    return get_logger_dict(q_model)


# ---- results of all layers


def get_matching_activations(float_module: Module, q_module: Module) -> dict[str, dict[str, Tensor]]:
    """What the loggers of two models have noted, paired by path."""
    float_dict, result = get_logger_dict(float_module), {}
    names = sorted(float_dict, reverse=True)
    for key, stats in get_logger_dict(q_module).items():
        match = _find_match(names, key, "stats") if stats["tensor_val"] else None
        if match is not None:
            result[key] = {"float": float_dict[match]["tensor_val"], "quantized": stats["tensor_val"]}
    return result


def prepare_model_outputs(
    float_module: Module, q_module: Module, logger_cls: Callable = OutputLogger, allow_list: Iterable | None = None
) -> None:
    """Add loggers to both models, at the layers of the classes in the list."""
    kinds = get_default_compare_output_module_list() if allow_list is None else allow_list
    for module, not_leaves in ((float_module, None), (q_module, NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST)):
        module.qconfig = QConfig(activation=logger_cls, weight=None)
        prepare(module, True, kinds, not_leaves, _WITHOUT_CONVERSION)
        forget_call(module)  # nothing will be timed


def compare_model_outputs(
    float_model: Module,
    q_model: Module,
    *data: Any,
    logger_cls: Callable = OutputLogger,
    allow_list: Iterable | None = None,
) -> dict[str, dict[str, Tensor]]:
    """The results of the layers of both models for `data`, {"path.stats": {"float": [...], "quantized": [...]}}."""
    prepare_model_outputs(float_model, q_model, logger_cls, allow_list)
    float_model(*data)
    q_model(*data)
    return get_matching_activations(float_model, q_model)
