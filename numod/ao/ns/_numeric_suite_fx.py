"""PyTorch's numeric suite for graph mode: weights and results of the calls of two models that `prepare_fx` made.

Calls are paired by their names in the graph, which a prepared model and a converted one share. A logger is a submodule
of the graph module, which passes it each result, or each input.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...errors import name_only
from ...nn.module import Module
from ..nn.intrinsic import Fused
from ..quantization.calls import Call
from ..quantization.graph_module import GraphModule
from ..quantization.graph_patterns import ARITHMETIC, FUNCTIONS, MODULES, WEIGHTED, activations_of
from ..quantization.graph_prepare import has_own_weight, only_user
from .loggers import OutputLogger, loggers_set_enabled, loggers_set_save_activations
from .shadows import ShadowCopy, can_shadow

__all__ = [
    "OutputLogger", "add_loggers", "add_shadow_loggers", "extend_logger_results_with_comparison", "extract_logger_info",
    "extract_shadow_logger_info", "extract_weights", "loggers_set_enabled", "loggers_set_save_activations",
]  # fmt: skip

_ABOUT = (
    "ref_node_name", "ref_node_target_type", "prev_node_name", "prev_node_target_type", "index_within_arg",
    "index_of_arg", "fqn", "qconfig_str",
)  # fmt: skip
Results = dict[str, dict[str, dict[str, list[dict[str, Any]]]]]


# ---- pairs of calls


def _calls(model: Module) -> dict[str, Call]:
    """The quantizable calls of a graph module by name, without those that are part of others."""
    if not isinstance(model, GraphModule):
        raise TypeError(
            f"expected a model of prepare_fx or convert_fx, got {type(model).__name__}: prepare_fx(model, "
            "QConfigMapping(), example_inputs) makes one of a float model; for models of the eager recipe use "
            "numod.ao.ns._numeric_suite"
        )
    graph = model.graph.matched
    joined = {only_user(call) for call in graph if call.has_relu}
    known = [call for call in graph if call.key in FUNCTIONS or call.key in MODULES]
    return {_layer(call): call for call in known if not call.is_skipped and call not in joined}


def _layer(call: Call) -> str:
    """PyTorch's name of a call's node."""
    return f"_{call.name}" if call.name[0].isdigit() else call.name


def _pairs(first: Module, second: Module) -> Iterator[tuple[Call, Call]]:
    calls, others = _calls(first), _calls(second)
    yield from ((call, others[name]) for name, call in calls.items() if name in others)


def _kind(model: Module, call: Call) -> str:
    """The class of a call's layer, or the function's name."""
    if call.op != "call_module":
        return call.target if call.op == "call_function" else ""
    kind = type(model.get_submodule(call.target))
    return f"{kind.__module__}.{kind.__qualname__}"


# ---- weights


def _weight(model: Module, call: Call) -> Any:
    """The weight of a call, those of a recurrent layer as a list; None if it has none, or one that is computed."""
    if call.op != "call_module":
        if call.key not in WEIGHTED or not has_own_weight(call):
            return None
        path, _, name = call.inputs[1].target.rpartition(".")
        return getattr(model.get_submodule(path), name)
    layer = model.get_submodule(call.target)
    layer = layer[0] if isinstance(layer, Fused) and not hasattr(layer, "weight") else layer
    recurrent = [value for name, value in layer.named_parameters() if name.startswith("weight_")]
    weight = getattr(layer, "weight", None)
    return (recurrent or None) if weight is None else weight() if callable(weight) else weight


def extract_weights(
    model_name_a: str, model_a: Module, model_name_b: str, model_b: Module, base_name_to_sets_of_related_ops: Any = None
) -> Results:
    """The weights of two models, {layer: {"weight": {name of the model: [{"values": [weight], ...}]}}}.

    Example:

        >>> from numod.ao.ns import _numeric_suite_fx as ns
        >>> from numod.ao.quantization import get_default_qconfig_mapping, quantize_fx
        >>> model, x = torch.nn.Sequential(torch.nn.Linear(2, 3)).eval(), torch.ones(1, 2)
        >>> prepared = quantize_fx.prepare_fx(model, get_default_qconfig_mapping(), (x,))
        >>> _ = prepared(x)
        >>> results = ns.extract_weights("float", prepared, "int8", quantize_fx.convert_fx(prepared))
        >>> [entry[0]["values"][0].dtype for entry in results["_0"]["weight"].values()]
        [numod.float32, numod.qint8]
    """
    results: Results = {}
    for pair in _pairs(model_a, model_b):
        weights = [_weight(model, call) for model, call in zip((model_a, model_b), pair)]
        if any(weight is None for weight in weights):
            continue
        entries = results.setdefault(_layer(pair[1]), {"weight": {}})["weight"]
        for name, model, call, weight in zip((model_name_a, model_name_b), (model_a, model_b), pair, weights):
            values = [part.detach() for part in (weight if isinstance(weight, list) else [weight])]
            entries[name] = [{**_about(model, call), "type": "weight", "values": values}]
    return results


def _about(model: Module, call: Call) -> dict[str, Any]:
    kind = _kind(model, call)
    names = {"ref_node_name": _layer(call), "prev_node_name": _layer(call)}
    kinds = {"ref_node_target_type": kind, "prev_node_target_type": kind}
    return {**names, **kinds, "index_within_arg": 0, "index_of_arg": 0, "fqn": call.path}


# ---- results


def add_loggers(
    name_a: str,
    model_a: Module,
    name_b: str,
    model_b: Module,
    logger_cls: Callable = OutputLogger,
    should_log_inputs: bool = False,
    base_name_to_sets_of_related_ops: Any = None,
    unmatchable_types_map: Any = None,
) -> tuple[Module, Module]:
    """Copies of two models that note the results of the calls that both have, and their inputs.

    `extract_logger_info` pairs what they have noted, under "node_output" and "node_input".
    """
    pairs, models = list(_pairs(model_a, model_b)), (copy.deepcopy(model_a), copy.deepcopy(model_b))
    for number, (name, model) in enumerate(zip((name_a, name_b), models)):
        calls = _calls(model)
        for pair in pairs:
            call = calls[_layer(pair[number])]
            inputs = _inputs(logger_cls, name, model, call) if should_log_inputs else {}
            _log(model, call, _logger(logger_cls, name, model, call), inputs)
    return models


def add_shadow_loggers(
    name_a: str,
    model_a: Module,
    name_b: str,
    model_b: Module,
    logger_cls: Callable = OutputLogger,
    should_log_inputs: bool = False,
    base_name_to_sets_of_related_ops: Any = None,
    node_type_to_io_type_map: Any = None,
    unmatchable_types_map: Any = None,
) -> Module:
    """A copy of model B in which each call that A also has is made by A too, with B's inputs; both results are noted.

    The result is B's. `extract_shadow_logger_info` pairs what was noted: the error of each call alone, without the
    errors of the calls before it. PyTorch leaves out functions of several tensors, as `add` and `cat`.

    Example:

        >>> from numod.ao.ns import _numeric_suite_fx as ns
        >>> from numod.ao.quantization import get_default_qconfig_mapping, quantize_fx
        >>> model, x = torch.nn.Sequential(torch.nn.Linear(2, 3)).eval(), torch.ones(1, 2)
        >>> prepared = quantize_fx.prepare_fx(model, get_default_qconfig_mapping(), (x,))
        >>> _ = prepared(x)
        >>> shadowed = ns.add_shadow_loggers("float", prepared, "int8", quantize_fx.convert_fx(prepared))
        >>> _ = shadowed(x)
        >>> results = ns.extract_shadow_logger_info(shadowed, ns.OutputLogger, "int8")
        >>> [entry[0]["values"][0].dtype for entry in results["_0"]["node_output"].values()]
        [numod.float32, numod.quint8]
    """
    _refuse_equalized(model_a, model_b)
    names = [
        (_layer(call), _layer(other)) for call, other in _pairs(model_a, model_b) if can_shadow(model_a, call, other)
    ]
    result, shadow = copy.deepcopy(model_b), copy.deepcopy(model_a)
    result.add_module("shadow_model", shadow)
    calls, others = _calls(shadow), _calls(result)
    for name, other_name in names:
        call, other = calls[name], others[other_name]
        inputs = [_inputs(logger_cls, *pair) if should_log_inputs else {}
                  for pair in ((name_a, shadow, call), (name_b, result, other))]  # fmt: skip
        _log(result, other, _logger(logger_cls, name_b, result, other), inputs[1])
        path = f"{other_name}_shadow_copy_0"
        result.add_module(path, ShadowCopy(shadow, call, inputs[0], _logger(logger_cls, name_a, shadow, call)))
        result.add_input_logger(other, path, None)
    return result


def _refuse_equalized(*models: Module) -> None:
    if any(isinstance(model, GraphModule) and model._is_converted and model._equalized for model in models):
        raise ValueError(
            "add_shadow_loggers: the layers of an equalized model take and return scaled values; "
            "compare the models' results, or use models prepared without _equalization_config"
        )


def _logger(logger_cls: Callable, name: str, model: Module, call: Call) -> Module:
    """A logger of a call's result."""
    return logger_cls(model_name=name, ref_name=_layer(call), results_type="node_output", **_about(model, call))


def _inputs(logger_cls: Callable, name: str, model: Module, call: Call) -> dict[int, Module]:
    """Loggers of a call's inputs, by the number of the tensor: the first, or all of arithmetic and of a list."""
    takes_list = call.key in ("cat", "stack")
    count = activations_of(call.key, len(call.inputs)) if takes_list or call.key in ARITHMETIC else 1
    loggers = {}
    for number, producer in enumerate(call.inputs[:count]):
        about = _about(model, call)
        about |= {"prev_node_name": _layer(producer), "prev_node_target_type": _kind(model, producer)}
        about["index_within_arg" if takes_list else "index_of_arg"] = number
        loggers[number] = logger_cls(model_name=name, ref_name=_layer(call), results_type="node_input", **about)
    return loggers


def _log(model: Module, call: Call, logger: Module, input_loggers: dict[int, Module]) -> None:
    """Let loggers see a call's result and inputs."""
    layer = _layer(call)
    path = f"{layer}_ns_logger_0"
    model.add_module(path, logger)
    model.add_logger(_end(call), path)
    for number, input_logger in input_loggers.items():
        path = f"{layer}_ns_logger_inp_{number}"
        model.add_module(path, input_logger)
        model.add_input_logger(call, path, number)


def _end(call: Call) -> Call:
    """The call whose result is that of a call and of the ReLU that is part of it."""
    following = only_user(call) if call.has_relu else None
    return call if following is None or following.is_skipped else following


def extract_logger_info(
    model_a: Module, model_b: Module, logger_cls: type, model_name_to_use_for_layer_names: str
) -> Results:
    """What the loggers of two models have noted, {layer: {"node_output": {name of the model: [{"values": ...}]}}}."""
    return _noted((model_a, model_b), logger_cls)


def extract_shadow_logger_info(
    model_a_shadows_b: Module, logger_cls: type, model_name_to_use_for_layer_names: str
) -> Results:
    """What the loggers of a model of `add_shadow_loggers` have noted, as in `extract_logger_info`."""
    return _noted((model_a_shadows_b,), logger_cls)


def _noted(models: Iterable[Module], kind: type) -> Results:
    results: Results = {}
    for logger in (child for model in models for child in model.modules() if isinstance(child, kind)):
        entry = {"type": logger.results_type, "values": logger.stats}
        entry |= {name: getattr(logger, name) for name in _ABOUT}
        by_model = results.setdefault(logger.ref_name, {}).setdefault(logger.results_type, {})
        by_model.setdefault(logger.model_name, []).append(entry)
    return results


def extend_logger_results_with_comparison(
    results: Results, model_name_1: str, model_name_2: str, comparison_fn: Callable, comparison_name: str
) -> None:
    """Add `comparison_fn(value of model 1, value of model 2)` to the results of model 2, under a name."""
    for by_type in results.values():
        for by_model in by_type.values():
            for name in (model_name_1, model_name_2):
                if name not in by_model:
                    raise AssertionError(f"{name} not found in results: expected one of {', '.join(by_model)}")
            for first, second in zip(by_model[model_name_1], by_model[model_name_2], strict=True):
                second[comparison_name] = [
                    comparison_fn(*pair) for pair in zip(first["values"], second["values"], strict=True)
                ]


_INSTEAD = "add_loggers and add_shadow_loggers compare two models, layer for layer"
globals().update(
    {
        name: name_only(f"ao.ns._numeric_suite_fx.{name}", _INSTEAD)
        for name in (
            "NSTracer OutputComparisonLogger convert_n_shadows_model extract_results_n_shadows_model "
            "prepare_n_shadows_model print_comparisons_n_shadows_model"
        ).split()
    }
)
