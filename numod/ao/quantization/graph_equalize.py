"""Equalization in graph mode: which calls have observers for it, and what conversion makes of their ranges."""

from __future__ import annotations

from typing import Any

from ... import nn
from ...core import Tensor
from ...nn.module import Module
from ...nn.parameter import Parameter
from ..nn.intrinsic import ConvReLU1d, ConvReLU2d, ConvReLU3d, LinearReLU
from .calls import CONSTANT, Call
from .equalization import ColumnObserver, calculate_equalization_scale
from .graph_module import GraphModule
from .graph_patterns import WEIGHTED
from .graph_prepare import has_own_weight, source_of
from .observer import MinMaxObserver

_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, ConvReLU1d, ConvReLU2d, ConvReLU3d, LinearReLU)


def _layer(model: Module, call: Call) -> Module | None:
    """The module with the weight of a call of a layer."""
    layer = model.get_submodule(call.target) if call.op == "call_module" else None
    return layer if layer is None or type(layer) in (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d) else layer[0]


def _can_equalize(model: Module, call: Call) -> bool:
    """Whether a call is the only one of a layer or of a weight with one group of channels, and quantized."""
    if not call.is_quantized:
        return False
    if call.op == "call_function":
        return call.key in WEIGHTED and has_own_weight(call) and len(call.inputs[1].users) == 1
    calls = sum(other.target == call.target and other.op == "call_module" for other in model.graph.matched)
    if type(model.get_submodule(call.target)) not in _LAYERS or calls > 1:
        return False
    return getattr(_layer(model, call), "groups", 1) == 1


def add_equalization(model: GraphModule, mapping: Any) -> None:
    """Observe the channels of the inputs for which a mapping has an EqualizationQConfig."""
    for call in model.graph.matched:
        config = mapping.qconfig_of(call.path, call.key, call.scope, call.index)
        if not _has_observers(config) or not _can_equalize(model, call) or _is_shared(call):
            continue  # what several calls take cannot be scaled for one of them
        name, observer = f"{call.name}_equalization_process_0", config.input_activation()
        observer.columns.ch_axis = -1 if _is_linear(model, call) else 1
        model.add_module(name, observer)
        model.add_input_logger(call, name, 0)
        model._equalized = {**model._equalized, call.name: (name, config.weight)}


def _has_observers(config: Any) -> bool:
    """Whether a config has observers of input and weight: the default of an EqualizationQConfig is none."""
    return config is not None and all(isinstance(make(), ColumnObserver) for make in config)


def _is_shared(call: Call) -> bool:
    """Whether something else takes a call's input, or what the skipped calls before it return."""
    producer = call.inputs[0]
    return len(producer.users) > 1 or (producer.is_skipped and _is_shared(producer))


def _is_linear(model: GraphModule, call: Call) -> bool:
    return call.key == "nn.functional.linear" or isinstance(_layer(model, call), nn.Linear)


def equalize(model: GraphModule) -> None:
    """Scale weights by the ranges that the observers have seen, and inputs: by the weight before, or at each call."""
    calls = [call for call in model.graph.matched if call.name in model._equalized and call.is_quantized]
    scales = {call: _scale(model, call) for call in calls}
    for call, scale in scales.items():
        if scale.numel() > 1:
            _change_weight(model, call, 1, scale.reciprocal())
            _scale_input(model, call, scale)
    for name, _ in model._equalized.values():
        del model._modules[name]


def _scale(model: GraphModule, call: Call) -> Tensor:
    """What each channel of a call's input is multiplied by."""
    name, make = model._equalized[call.name]
    observer = make()
    observer(_weight(model, call).detach())
    return calculate_equalization_scale(model._modules[name], observer)


def _weight(model: GraphModule, call: Call) -> Tensor:
    layer = _layer(model, call)
    return _get(model, call.inputs[1].target) if layer is None else layer.weight


def _change_weight(model: GraphModule, call: Call, dim: int, factors: Tensor) -> None:
    """Multiply the weight of a call along a dimension."""
    weight = _weight(model, call)
    weight = weight.detach() * factors.reshape([-1 if k == dim else 1 for k in range(weight.ndim)])
    layer = _layer(model, call)
    if layer is not None:
        layer.weight = Parameter(weight)
        return
    _set(model, call.inputs[1].target, weight)
    model._modules[call.sources[1]].reset_min_max_vals()  # it has seen the weight as it was


def _get(model: GraphModule, path: str) -> Tensor:
    owner, _, name = path.rpartition(".")
    return getattr(model.get_submodule(owner), name)


def _set(model: GraphModule, path: str, value: Tensor) -> None:
    owner, _, name = path.rpartition(".")
    parent = model.get_submodule(owner)
    setattr(parent, name, Parameter(value) if name in parent._parameters else value)


def _scale_input(model: GraphModule, call: Call, scale: Tensor) -> None:
    low, high = model._modules[model._equalized[call.name][0]].get_input_minmax()
    former = model._modules[call.sources[0]]
    observer = _observer_of(former, (low * scale).min(), (high * scale).max())
    before = _call_before(model, call)
    if before is None:
        name = f"{call.name}_equalized_input"
        model.add_module(name, observer)
        call.sources[0] = call.input_observers[0] = name
        factors = scale if _is_linear(model, call) else scale.reshape(-1, *[1] * (_weight(model, call).ndim - 2))
        model.register_buffer(f"{call.name}_equalization_scale_0", factors)
        return
    _change_weight(model, before, 0, scale)
    _change_bias(model, before, scale)
    model._modules.update({name: observer for name, other in model._modules.items() if other is former})


def _observer_of(former: Any, low: Tensor, high: Tensor) -> MinMaxObserver:
    """An observer with this range, and the integers of another: a histogram cannot be scaled by channels."""
    settings = {name: getattr(former, name) for name in ("dtype", "qscheme", "quant_min", "quant_max")}
    result = MinMaxObserver(**settings)
    result.min_val, result.max_val = low, high
    return result


def _call_before(model: GraphModule, call: Call) -> Call | None:
    """The call whose weight and bias can be scaled in the place of a call's input; a ReLU may be between them."""
    producer = source_of(call, 0)[0]
    if producer.qconfig is None and producer.inputs and producer.inputs[0].has_relu:
        producer = producer.inputs[0]
    return producer if producer.is_matched and _can_equalize(model, producer) and _has_own_bias(producer) else None


def _has_own_bias(call: Call) -> bool:
    """Whether the bias of a call, if it has one, can be scaled: it is a parameter or buffer that nothing else takes."""
    if call.op == "call_module" or len(call.inputs) < 3:
        return True
    bias = call.inputs[2]
    return bias.op == "get_attr" and bias.target != CONSTANT and len(bias.users) == 1


def _change_bias(model: GraphModule, call: Call, scale: Tensor) -> None:
    layer = _layer(model, call)
    if layer is not None:
        if layer.bias is not None:
            layer.bias = Parameter(layer.bias.detach() * scale)
    elif len(call.inputs) > 2:
        path = call.inputs[2].target
        _set(model, path, _get(model, path).detach() * scale)
