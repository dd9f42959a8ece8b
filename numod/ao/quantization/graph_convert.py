"""The second half of graph mode: an observed model becomes one with integers, or with reference layers."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

from ... import nn
from ...nn.module import Module
from ...nn.utils.parametrize import type_before_parametrizations as kind_of
from ..nn.intrinsic import Fused
from ..nn.quantized.base import quantize_weight
from ..nn.quantized.embeddings import TABLE_DTYPES
from .calls import Call, CallGraph, unwatch, watch_all
from .graph_equalize import equalize
from .graph_module import GraphModule
from .graph_patterns import ON_INTEGERS, STATIC_MODULES, WEIGHTED, shares_observer
from .graph_prepare import backend_of, is_static, only_user, replace_layer, swap_layer, value_of
from .measure import Measurement
from .quantization_mappings import (
    DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
    DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS,
)
from .quantize import MEASURED, swap_module


def convert_graph(
    name: str,
    graph_module: GraphModule,
    qconfig_mapping: Any,
    backend_config: Any,
    measurement: Measurement | None,
    is_reference: bool = False,
    remove_qconfig: bool = True,
) -> GraphModule:
    if not isinstance(graph_module, GraphModule) or graph_module._is_converted:
        raise ValueError(
            f"{name}: expected the model that prepare_fx or prepare_qat_fx returned, got {type(graph_module).__name__}"
        )
    backend_of(backend_config)  # the dtypes were chosen by prepare_fx
    model = copy.deepcopy(graph_module)
    model._is_reference = is_reference
    if qconfig_mapping is not None:
        _keep_floats(model.graph, qconfig_mapping)
    if model._equalized:
        equalize(model)
    _set_scales(model)
    done: set[str] = set()
    for call in model.graph.matched:
        if call.is_skipped or (call.op == "call_module" and call.target in done):
            continue
        if call.op == "call_module":
            done.add(call.target)
            _convert_module(model, call, measurement)
        elif call.key in WEIGHTED and (call.is_quantized or call.is_dynamic):
            _convert_weight(model, call)
        if call.has_relu:
            following = only_user(call)
            following.is_skipped, call.output_observer = True, following.output_observer
            if following.op == "call_module" and _is_always_skipped(model.graph, following.target):
                replace_layer(model, following.target, nn.Identity())
    for name in [
        name
        for name in model._modules
        if name.startswith("activation_post_process_") or name.endswith("_equalized_input")
    ]:
        del model._modules[name]
    model._loggers, model._input_loggers = {}, {}
    for module in model.modules() if remove_qconfig else ():
        module.__dict__.pop("qconfig", None)
    watch_all(model, lambda path, module: path in done)
    model._is_converted = True
    if measurement is not None:
        model.quantization_decisions = measurement.decisions
    return model


def _keep_floats(graph: CallGraph, mapping: Any) -> None:
    """Leave calls in floats for which a mapping has None."""
    for call in graph.matched:
        if mapping.qconfig_of(call.path, call.key, call.scope, call.index) is None:
            call.qconfig, call.is_quantized, call.is_dynamic = None, False, False
            if call.has_relu:
                call.has_relu = False


def _is_always_skipped(graph: CallGraph, path: str) -> bool:
    return all(call.is_skipped for call in graph.matched if call.op == "call_module" and call.target == path)


def _set_scales(model: GraphModule) -> None:
    """Keep the scales that functions and quantized inputs need, under PyTorch's names."""
    graph, counts = model.graph, Counter()
    used = {name for call in graph.matched if call.is_quantized for name in call.sources.values()}
    for call in graph.matched:
        for number, observer in call.input_observers.items():
            producer = value_of(call.inputs[number])
            is_input = producer.op == "placeholder" or producer.qconfig is None
            name = _scale_name(counts, f"{call.path}_input" if is_input else producer.path)
            if call.key not in WEIGHTED or number == 0:
                model.add_numbers(observer, name)
        if call.output_observer is not None:
            name = _scale_name(counts, call.path)
            head = call.inputs[0] if call.qconfig is None and call.inputs[0].has_relu else call
            if (
                _needs_scale(head)
                or (model._is_reference and head.is_quantized)
                or (call.output_observer in used and not head.is_quantized)
            ):
                model.add_numbers(call.output_observer, name)


def _scale_name(counts: Counter, prefix: str) -> str:
    prefix = prefix.replace(".", "_")
    counts[prefix] += 1
    return f"{prefix}_scale_{counts[prefix] - 1}"


def _needs_scale(call: Call) -> bool:
    """Whether the graph module quantizes a call's result; layers and functions on integers do it themselves."""
    if not call.is_quantized or call.op == "call_module":
        return False
    if shares_observer(call.key, len(call.inputs)):
        return not call.sources and not value_of(call.inputs[0]).is_quantized
    return call.key not in ON_INTEGERS


def _convert_module(model: GraphModule, call: Call, measurement: Measurement | None) -> None:
    """Replace the layer of a call by a quantized one, unless a measurement keeps floats."""
    layer = model.get_submodule(call.target)
    unwatch(layer)
    if call.is_quantized and model._is_reference:
        _make_reference(model, call)
    elif call.is_quantized:
        layer.activation_post_process = model._modules[call.output_observer]
        swap_layer(model, call, STATIC_MODULES)
        quantized = model.get_submodule(call.target)
        if quantized is layer:
            del layer.activation_post_process
        elif measurement is not None and isinstance(quantized, MEASURED):
            chosen = measurement.choose(call.target, layer, quantized)
            if chosen is not quantized:
                replace_layer(model, call.target, chosen)
    elif call.qconfig is not None and not is_static(call.qconfig):
        if _takes(call, layer):
            swap_layer(model, call, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS)


def _make_reference(model: GraphModule, call: Call) -> None:
    """Replace the layer of a call by a reference layer; of a fused one, its first layer."""
    layer = model.get_submodule(call.target)
    layer = layer.to_float() if hasattr(layer, "weight_fake_quant") else layer
    first = layer[0] if isinstance(layer, Fused) else layer
    if kind_of(first) not in DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS:
        return
    first.qconfig = call.qconfig
    reference = swap_module(first, DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS, {})
    if layer is first:
        replace_layer(model, call.target, reference)
    else:
        layer[0] = reference
        replace_layer(model, call.target, layer)


def _takes(call: Call, layer: Module) -> bool:
    """Whether a dynamic or weight-only QConfig is one for this layer: embeddings have tables of few bits."""
    weight = call.qconfig.weight() if call.qconfig.weight else None
    is_table = isinstance(layer, (nn.Embedding, nn.EmbeddingBag))
    is_dynamic = getattr(call.qconfig.activation(), "is_dynamic", False)
    return (getattr(weight, "dtype", None) in TABLE_DTYPES) if is_table else is_dynamic


def _convert_weight(model: GraphModule, call: Call) -> None:
    """Replace the parameter that a functional product takes by a quantized buffer."""
    path, _, name = call.inputs[1].target.rpartition(".")
    owner = model.get_submodule(path)
    weight = getattr(owner, name)
    if weight.is_quantized:
        return
    observer = call.qconfig.weight() if call.is_dynamic else model._modules[call.sources[1]]
    observer(weight)
    owner._parameters.pop(name, None)
    owner._buffers[name] = quantize_weight(weight.detach(), observer)
