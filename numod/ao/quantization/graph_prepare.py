"""The first half of graph mode: layers are fused, it is decided what is quantized, and observers are added.

A model is run once (`calls`); `quantize_fx` has the public functions, `graph_convert` the second half.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any

from ...errors import warn_caller
from ... import dtypes, nn
from ...core import Tensor, zeros
from ...nn.module import Module
from ...nn.utils.parametrize import type_before_parametrizations as kind_of
from .backend_config import BackendConfig
from .calls import CONSTANT, Call, CallGraph, is_leaf, record, unwatch, watch_all
from .custom_config import PrepareCustomConfig
from .fuse_modules import get_fuser_method, make_plain_to_fuse
from .graph_module import GraphModule, as_graph_module
from .graph_patterns import (
    ARITHMETIC,
    FUNCTIONS,
    MODULES,
    RELUS,
    WEIGHTED,
    activations_of,
    names_of,
    shares_observer,
)
from .observer import ReuseInputObserver
from .qconfig_mapping import QConfigMapping
from .quantization_mappings import DEFAULT_QAT_MODULE_MAPPINGS
from .quantize import swap_module
from .utils import replace_modules

_INTEGERS = (dtypes.quint8, dtypes.qint8)
_FUSED_FIRST = {
    nn.Conv1d: nn.BatchNorm1d, nn.Conv2d: nn.BatchNorm2d, nn.Conv3d: nn.BatchNorm3d, nn.Linear: nn.BatchNorm1d,
    nn.ConvTranspose1d: nn.BatchNorm1d, nn.ConvTranspose2d: nn.BatchNorm2d, nn.ConvTranspose3d: nn.BatchNorm3d,
    nn.BatchNorm2d: None, nn.BatchNorm3d: None,
}  # fmt: skip


# ---- fusing


def only_user(call: Call) -> Call | None:
    return call.users[0] if len(call.users) == 1 else None


def _is_relu(call: Call | None, functions: tuple | set = ("nn.functional.relu",)) -> bool:
    return call is not None and (call.key is nn.ReLU or call.key in functions)


def _chain(first: Call) -> list[Call]:
    """The calls that are fused with one of a convolution, a linear layer or a batch norm, and that call."""
    chain = [first]
    following = only_user(first)
    norm = _FUSED_FIRST[first.key]
    if following is not None and norm is not None and following.key is norm:
        chain.append(following)
        following = only_user(following)
    can_end_in_relu = not (first.key is nn.Linear and len(chain) == 2) and "Transpose" not in first.key.__name__
    return [*chain, following] if can_end_in_relu and _is_relu(following) else chain


def _fuse(model: Module, graph: CallGraph, is_qat: bool, backend: BackendConfig | None) -> None:
    """Fuse layers in place; the calls after the first of a group are skipped."""
    times = Counter(call.target for call in graph.matched if call.op == "call_module")
    for call in graph.matched:
        if call.is_skipped or call.key not in _FUSED_FIRST or times[call.target] > 1:
            continue
        chain = _chain(call)
        if len(chain) == 1:
            continue
        layers = [
            model.get_submodule(part.target) if part.op == "call_module" else nn.ReLU().train(model.training)
            for part in chain
        ]
        kinds = tuple(map(kind_of, layers))
        method = get_fuser_method(kinds) if backend is None else backend.fuser_of(kinds)
        if method is None:
            continue
        make_plain_to_fuse(layers, is_qat)
        fused = method(is_qat, *layers)
        replace_layer(model, call.target, fused)
        for part in chain[1:]:
            part.is_skipped = True
    for path in times:  # layers of which all calls are skipped
        calls = [call for call in graph.matched if call.op == "call_module" and call.target == path]
        if all(call.is_skipped for call in calls):
            replace_layer(model, path, nn.Identity())


def replace_layer(model: Module, path: str, layer: Module) -> None:
    former = model.get_submodule(path)
    unwatch(former)
    replace_modules(model, [(former, layer.train(former.training))], is_leaf)


def fused_graph(
    model: Module, example_inputs: Any, is_qat: bool, config: PrepareCustomConfig, backend: BackendConfig | None
) -> tuple:
    if isinstance(example_inputs, Tensor):
        example_inputs = (example_inputs,)
    if not isinstance(example_inputs, (tuple, list)):
        raise TypeError(
            f"example_inputs must be a tuple of the model's positional arguments, got {type(example_inputs).__name__}"
        )
    model = copy.deepcopy(model)
    graph = record(model, tuple(example_inputs), config.is_opaque)
    _fuse(model, graph, is_qat, backend)
    return model, graph


# ---- preparing


def _plan(
    model: Module, graph: CallGraph, mapping: QConfigMapping, opaque: Callable, backend: BackendConfig | None
) -> None:
    """Decide which calls are quantized, and with which QConfig."""
    for call in graph.nodes:
        if call.op != "placeholder":
            call.qconfig = mapping.qconfig_of(call.path, call.key, call.scope, call.index)
    read = [node for node in graph.nodes if node.op == "get_attr"]
    for call in graph.matched:
        if call.op == "call_module":
            is_read = any(_is_of_layer(node, call) for node in read)
            if is_read or opaque(call.target, model.get_submodule(call.target)):
                call.qconfig = None
        if (
            backend is not None
            and call.qconfig is not None
            and not backend.quantizes(_patterns(model, call), call.qconfig)
        ):
            call.qconfig = None
        is_known = not call.is_skipped and call.has_floats and (call.key in FUNCTIONS or call.key in MODULES)
        is_known = is_known and has_own_weight(call) and not _has_weight_of_layer(call, graph)
        call.is_quantized = is_known and is_static(call.qconfig)
        call.is_dynamic = is_known and _is_dynamic(call)
    _leave_in_floats(graph)
    for call in graph.matched:
        _join_relu(call)


def _patterns(model: Module, call: Call) -> tuple:
    """The patterns of a BackendConfig that a call matches: a fused layer also those of the layer it was."""
    kind = kind_of(model.get_submodule(call.target)) if call.op == "call_module" else call.key
    return *names_of(call.key), *([kind] if kind != call.key else [])


def _leave_in_floats(graph: CallGraph) -> None:
    """Quantize no result that is changed in place, and no layer of which one call stays in floats."""
    for call in graph.nodes:
        if call.is_changed:
            value_of(call).is_quantized = False
    layers = [call for call in graph.matched if call.op == "call_module" and not call.is_skipped]
    floats = {call.target for call in layers if not call.is_quantized}
    for call in layers:
        call.is_quantized = call.is_quantized and call.target not in floats


def has_own_weight(call: Call) -> bool:
    """Whether the weight of a functional product is a parameter or buffer of the model."""
    return call.key not in WEIGHTED or (call.inputs[1].op == "get_attr" and call.inputs[1].target != CONSTANT)


def _is_of_layer(node: Call, layer: Call) -> bool:
    """Whether a parameter that the model's code reads is a layer's, such as the weight of a tied embedding."""
    return node.target.startswith(f"{layer.target}.")


def _has_weight_of_layer(call: Call, graph: CallGraph) -> bool:
    """Whether the weight of a functional product is also that of a layer, which keeps floats for it."""
    if call.key not in WEIGHTED:
        return False
    return any(_is_of_layer(call.inputs[1], layer) for layer in graph.matched if layer.op == "call_module")


def _join_relu(call: Call) -> None:
    """Make the ReLU after arithmetic or a functional product part of it."""
    following = only_user(call)
    functions = RELUS if call.key in ARITHMETIC else ("nn.functional.relu",)
    is_first = call.is_quantized and call.key in ARITHMETIC | WEIGHTED
    if is_first and _is_relu(following, functions) and not following.is_changed:
        call.has_relu, following.is_quantized = True, False
        following.qconfig = None


def is_static(qconfig: Any) -> bool:
    """Whether activations are quantized with scales of calibration."""
    if qconfig is None or qconfig.activation is None:
        return False
    activation = qconfig.activation()
    return not getattr(activation, "is_dynamic", False) and (
        isinstance(activation, ReuseInputObserver) or getattr(activation, "dtype", None) in _INTEGERS
    )


def _is_dynamic(call: Call) -> bool:
    """Whether a functional product quantizes its input at the call."""
    activation = None if call.qconfig is None or call.key != "nn.functional.linear" else call.qconfig.activation()
    return getattr(activation, "is_dynamic", False) and call.qconfig.weight().dtype is dtypes.qint8


class _Observers:
    """Adds observers to a model in the order of calls, named and shared as PyTorch does."""

    def __init__(self, model: Module, quantized: list[Call]) -> None:
        self.model, self.count = model, 0
        self.quantized = quantized  # arguments that are quantized tensors
        self.of_value: dict[tuple[Call, int], str] = {}  # by call and number of the result
        self.of_target: dict[str, str] = {}  # by path of the layer

    def add(self, observer: Module) -> str:
        name = f"activation_post_process_{self.count}"
        self.count += 1
        self.model.add_module(name, observer)
        return name

    def observe(self, call: Call) -> None:
        """Add the observers that a call needs."""
        reuses = isinstance(call.qconfig.activation(), ReuseInputObserver)
        count = activations_of(call.key, len(call.inputs))
        for number in range(len(call.inputs)):
            if number < count and not reuses:
                self.observe_input(call, number, call.qconfig.activation)
            elif call.key in WEIGHTED and number == 1:
                self.observe_input(call, number, call.qconfig.weight)
        self.observe_output(call)

    def observe_input(self, call: Call, number: int, make: Callable) -> None:
        value = source_of(call, number)
        if value[0] in self.quantized:
            return
        if value not in self.of_value:
            self.of_value[value] = call.input_observers[number] = self.add(make())
        call.sources[number] = self.of_value[value]

    def observe_output(self, call: Call) -> None:
        result = only_user(call) if call.has_relu else call
        if shares_observer(call.key, len(call.inputs)):
            first = self.found_before(call)
            if first is None:
                call.is_quantized = False
                return
            shared = self.model._modules[first]
            for name in call.sources.values():
                self.share(name, shared)
            name = self.add(shared)
        else:
            name = self.add(self.of_layer(call) or call.qconfig.activation())
        result.output_observer = name
        for number in range(result.results):
            self.of_value[result, number] = name

    def of_layer(self, call: Call) -> Module | None:
        """The observer of a layer's earlier call: one layer has one scale, so its observer sees all its results."""
        if call.op != "call_module":
            return None
        name = self.of_target.setdefault(call.target, f"activation_post_process_{self.count}")
        return self.model._modules.get(name)

    def share(self, name: str, shared: Module) -> None:
        """Put the shared observer wherever the one of this name is."""
        former = self.model._modules[name]
        for other, observer in list(self.model._modules.items()):
            if observer is former:
                self.model._modules[other] = shared

    def found_before(self, call: Call) -> str | None:
        """The observer of a call's input, or of what it was made of by functions that nothing observes."""
        while call.inputs:
            value = call, _ = source_of(call, 0)
            if value in self.of_value:
                return self.of_value[value]
        return None


def source_of(call: Call, number: int) -> tuple[Call, int]:
    """The call that made an input, and the number of its result: skipped calls return their input."""
    producer = call.inputs[number]
    return source_of(producer, 0) if producer.is_skipped else (producer, call.numbers[number])


def value_of(call: Call) -> Call:
    """The call whose result a call returns: skipped calls return their input's."""
    return source_of(call, 0)[0] if call.is_skipped else call


def prepare_graph(
    model: Module, qconfig_mapping: Any, example_inputs: Any, is_qat: bool, config: Any, backend_config: Any
) -> GraphModule:
    backend = backend_of(backend_config)
    mapping = qconfig_mapping if isinstance(qconfig_mapping, QConfigMapping) else _from_dict(qconfig_mapping)
    config = PrepareCustomConfig.of(config)
    model, graph = fused_graph(model, example_inputs, is_qat, config, backend)
    _plan(model, graph, mapping, config.is_opaque, backend)
    if is_qat:
        for call in graph.matched:
            if call.is_quantized and call.op == "call_module":
                swap_layer(model, call, DEFAULT_QAT_MODULE_MAPPINGS)
    for call in graph.matched:
        if call.op == "call_module" and not call.is_skipped:
            _note_qconfig(model.get_submodule(call.target), call.qconfig)
    watch_all(model, config.is_opaque)
    model = as_graph_module(model, graph)
    places = [call for call in model.graph.nodes if call.op == "placeholder"]
    _check_indexes(config.input_quantized_indexes, len(places))
    model._quantized_outputs = tuple(config.output_quantized_indexes)
    observers = _Observers(model, [places[index] for index in config.input_quantized_indexes])
    for call in graph.matched:
        if call.is_quantized:
            observers.observe(call)
    return model


def _note_qconfig(layer: Module, qconfig: Any) -> None:
    """Keep a layer's QConfig where PyTorch has it, also in the parts of a fused layer."""
    for part in layer.modules():
        part.qconfig = qconfig


def _check_indexes(indexes: list[int], count: int) -> None:
    if not all(isinstance(index, int) and 0 <= index < count for index in indexes):
        raise IndexError(f"set_input_quantized_indexes: the model has {count} tensor arguments, got {indexes}")


def _from_dict(qconfig_dict: Any) -> QConfigMapping:
    if not isinstance(qconfig_dict, dict):
        raise AssertionError(f"qconfig_mapping must be a QConfigMapping, got {type(qconfig_dict).__name__}")
    warn_caller(
        "Passing a QConfig dictionary to prepare is deprecated and will not be supported in a future version. Please "
        "pass in a QConfigMapping instead.",
        FutureWarning,
    )
    return QConfigMapping.from_dict(qconfig_dict)


def backend_of(backend_config: Any) -> BackendConfig | None:
    """The config of an argument: a config, PyTorch's older dict, or None for all that numod quantizes."""
    if backend_config is None or isinstance(backend_config, BackendConfig):
        return backend_config
    if not isinstance(backend_config, dict):
        raise TypeError(f"backend_config must be a BackendConfig, got {type(backend_config).__name__}")
    return BackendConfig.from_dict(backend_config)


def swap_layer(model: Module, call: Call, mapping: dict) -> None:
    """Replace the layer of a call by the one of a mapping."""
    layer = model.get_submodule(call.target)
    layer.qconfig = call.qconfig
    result = swap_module(layer, mapping, {})
    if result is layer:
        del layer.qconfig
    else:
        replace_layer(model, call.target, result)


def guessed_inputs(model: Module) -> list[tuple]:
    """Inputs that the first layer with a weight takes, of several sizes."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            return [(zeros(2, layer.in_features),)]
        if isinstance(layer, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
            dims = len(layer.kernel_size)
            return [(zeros(2, layer.in_channels, *[size] * dims),) for size in (32, 224, 28, 64, 8)]
    return [(zeros(2, 8),)]
