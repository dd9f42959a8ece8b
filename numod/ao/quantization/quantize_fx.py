"""Graph mode: `prepare_fx` and `convert_fx` find the layers to fuse and the functions to quantize by themselves.

PyTorch traces a model symbolically for that; here the model is run once with the example inputs (`calls`), and keeps
its own code.
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
from ..nn.intrinsic import Fused
from ..nn.quantized.base import quantize_weight
from .backend_config import BackendConfig
from .calls import CONSTANT, Call, CallGraph, is_leaf, record, unwatch, watch_all
from .custom_config import ConvertCustomConfig, FuseCustomConfig, PrepareCustomConfig
from .fuse_modules import get_fuser_method, make_plain_to_fuse
from .graph_module import GraphModule, as_graph_module
from .graph_patterns import (
    ARITHMETIC,
    FUNCTIONS,
    MODULES,
    ON_INTEGERS,
    RELUS,
    STATIC_MODULES,
    WEIGHTED,
    activations_of,
    names_of,
    shares_observer,
)
from .observer import ReuseInputObserver
from .qconfig_mapping import QConfigMapping
from .quantization_mappings import (
    DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
    DEFAULT_QAT_MODULE_MAPPINGS,
    DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS,
)
from .measure import Measurement
from .quantize import MEASURED, swap_module
from .utils import replace_modules

__all__ = ["convert_fx", "convert_to_reference_fx", "fuse_fx", "prepare_fx", "prepare_qat_fx"]

_INTEGERS = (dtypes.quint8, dtypes.qint8)
_FUSED_FIRST = {
    nn.Conv1d: nn.BatchNorm1d, nn.Conv2d: nn.BatchNorm2d, nn.Conv3d: nn.BatchNorm3d, nn.Linear: nn.BatchNorm1d,
    nn.ConvTranspose1d: nn.BatchNorm1d, nn.ConvTranspose2d: nn.BatchNorm2d, nn.ConvTranspose3d: nn.BatchNorm3d,
    nn.BatchNorm2d: None, nn.BatchNorm3d: None,
}  # fmt: skip


# ---- fusing


def _only_user(call: Call) -> Call | None:
    return call.users[0] if len(call.users) == 1 else None


def _is_relu(call: Call | None, functions: tuple | set = ("nn.functional.relu",)) -> bool:
    return call is not None and (call.key is nn.ReLU or call.key in functions)


def _chain(first: Call) -> list[Call]:
    """The calls that are fused with one of a convolution, a linear layer or a batch norm, and that call."""
    chain = [first]
    following = _only_user(first)
    norm = _FUSED_FIRST[first.key]
    if following is not None and norm is not None and following.key is norm:
        chain.append(following)
        following = _only_user(following)
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
        _replace(model, call.target, fused)
        for part in chain[1:]:
            part.is_skipped = True
    for path in times:  # layers of which all calls are skipped
        calls = [call for call in graph.matched if call.op == "call_module" and call.target == path]
        if all(call.is_skipped for call in calls):
            _replace(model, path, nn.Identity())


def _replace(model: Module, path: str, layer: Module) -> None:
    former = model.get_submodule(path)
    unwatch(former)
    replace_modules(model, {former: layer.train(former.training)}, is_leaf)


def _graph_of(
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
    for call in graph.matched:
        if call.op == "call_module" and opaque(call.target, model.get_submodule(call.target)):
            call.qconfig = None
        if (
            backend is not None
            and call.qconfig is not None
            and not backend.quantizes(_patterns(model, call), call.qconfig)
        ):
            call.qconfig = None
        is_known = not call.is_skipped and (call.key in FUNCTIONS or call.key in MODULES)
        call.is_quantized = is_known and _is_static(call.qconfig) and _has_own_weight(call)
        call.is_dynamic = is_known and _is_dynamic(call) and _has_own_weight(call)
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
            _value(call).is_quantized = False
    layers = [call for call in graph.matched if call.op == "call_module" and not call.is_skipped]
    floats = {call.target for call in layers if not call.is_quantized}
    for call in layers:
        call.is_quantized = call.is_quantized and call.target not in floats


def _has_own_weight(call: Call) -> bool:
    """Whether the weight of a functional product is a parameter or buffer of the model."""
    return call.key not in WEIGHTED or (call.inputs[1].op == "get_attr" and call.inputs[1].target != CONSTANT)


def _join_relu(call: Call) -> None:
    """Make the ReLU after arithmetic or a functional product part of it."""
    following = _only_user(call)
    functions = RELUS if call.key in ARITHMETIC else ("nn.functional.relu",)
    is_first = call.is_quantized and call.key in ARITHMETIC | WEIGHTED
    if is_first and _is_relu(following, functions) and not following.is_changed:
        call.has_relu, following.is_quantized = True, False
        following.qconfig = None


def _is_static(qconfig: Any) -> bool:
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
        value = _source(call, number)
        if value[0] in self.quantized:
            return
        if value not in self.of_value:
            self.of_value[value] = call.input_observers[number] = self.add(make())
        call.sources[number] = self.of_value[value]

    def observe_output(self, call: Call) -> None:
        result = _only_user(call) if call.has_relu else call
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
            value = call, _ = _source(call, 0)
            if value in self.of_value:
                return self.of_value[value]
        return None


def _source(call: Call, number: int) -> tuple[Call, int]:
    """The call that made an input, and the number of its result: skipped calls return their input."""
    producer = call.inputs[number]
    return _source(producer, 0) if producer.is_skipped else (producer, call.numbers[number])


def _value(call: Call) -> Call:
    """The call whose result a call returns: skipped calls return their input's."""
    return _source(call, 0)[0] if call.is_skipped else call


def _prepare(
    model: Module, qconfig_mapping: Any, example_inputs: Any, is_qat: bool, config: Any, backend_config: Any
) -> GraphModule:
    backend = _backend(backend_config)
    mapping = qconfig_mapping if isinstance(qconfig_mapping, QConfigMapping) else _from_dict(qconfig_mapping)
    config = PrepareCustomConfig.of(config)
    model, graph = _graph_of(model, example_inputs, is_qat, config, backend)
    _plan(model, graph, mapping, config.is_opaque, backend)
    if is_qat:
        for call in graph.matched:
            if call.is_quantized and call.op == "call_module":
                _swap(model, call, DEFAULT_QAT_MODULE_MAPPINGS)
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


def _backend(backend_config: Any) -> BackendConfig | None:
    """The config of an argument: a config, PyTorch's older dict, or None for all that numod quantizes."""
    if backend_config is None or isinstance(backend_config, BackendConfig):
        return backend_config
    if not isinstance(backend_config, dict):
        raise TypeError(f"backend_config must be a BackendConfig, got {type(backend_config).__name__}")
    return BackendConfig.from_dict(backend_config)


def _swap(model: Module, call: Call, mapping: dict) -> None:
    """Replace the layer of a call by the one of a mapping."""
    layer = model.get_submodule(call.target)
    layer.qconfig = call.qconfig
    result = swap_module(layer, mapping, {})
    if result is layer:
        del layer.qconfig
    else:
        _replace(model, call.target, result)


def prepare_fx(
    model: Module,
    qconfig_mapping: QConfigMapping | dict,
    example_inputs: tuple,
    prepare_custom_config: PrepareCustomConfig | dict | None = None,
    _equalization_config: Any = None,
    backend_config: Any = None,
) -> GraphModule:
    """A copy of a model in evaluation mode, fused, with observers of what is to be quantized.

    The model is run once with `example_inputs`. Then call the result with typical inputs, and `convert_fx` it. Layers
    and functions are quantized as `qconfig_mapping` says, and only those that `backend_config` has, where one is
    passed. A model must make the same calls at each run.
    """
    return _prepare(model, qconfig_mapping, example_inputs, False, prepare_custom_config, backend_config)


def prepare_qat_fx(
    model: Module,
    qconfig_mapping: QConfigMapping | dict,
    example_inputs: tuple,
    prepare_custom_config: PrepareCustomConfig | dict | None = None,
    backend_config: Any = None,
) -> GraphModule:
    """A copy of a model in training mode whose weights and activations are rounded as quantization will.

    Train it, then `convert_fx` it.
    """
    return _prepare(model, qconfig_mapping, example_inputs, True, prepare_custom_config, backend_config)


def fuse_fx(
    model: Module,
    fuse_custom_config: FuseCustomConfig | dict | None = None,
    backend_config: Any = None,
    example_inputs: tuple | None = None,
) -> GraphModule:
    """A copy of a model in evaluation mode with convolutions, linear layers, batch norms and ReLUs fused.

    The model is run once: with `example_inputs`, or with zeros of a shape that its first layer takes.
    """
    backend = _backend(backend_config)
    FuseCustomConfig.of(fuse_custom_config)
    config = PrepareCustomConfig()
    for inputs in _guessed_inputs(model) if example_inputs is None else [example_inputs]:
        try:
            model, graph = _graph_of(model, inputs, False, config, backend)
            break
        except (RuntimeError, ValueError):
            if example_inputs is not None:
                raise
    else:
        raise RuntimeError(
            "fuse_fx: the model could not be run with zeros; pass an input, fuse_fx(model, example_inputs=(x,))"
        )
    watch_all(model, config.is_opaque)
    return as_graph_module(model, graph)


def _guessed_inputs(model: Module) -> list[tuple]:
    """Inputs that the first layer with a weight takes, of several sizes."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            return [(zeros(2, layer.in_features),)]
        if isinstance(layer, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
            dims = len(layer.kernel_size)
            return [(zeros(2, layer.in_channels, *[size] * dims),) for size in (32, 224, 28, 64, 8)]
    return [(zeros(2, 8),)]


# ---- converting


def convert_fx(
    graph_module: GraphModule,
    convert_custom_config: ConvertCustomConfig | dict | None = None,
    _remove_qconfig: bool = True,
    qconfig_mapping: Any = None,
    backend_config: Any = None,
    keep_original_weights: bool = False,
    measure: bool | dict[str, str] = False,
) -> GraphModule:
    """A copy of a calibrated or trained model with integers in place of floats.

    `measure` is that of `convert`: with True, linear layers and convolutions that are not faster as integers stay
    floats. The decisions are in `quantization_decisions`; passed as `measure`, they are repeated without timing.
    """
    measurement = None if measure is False else Measurement(measure, graph_module)
    return _converted("convert_fx", graph_module, qconfig_mapping, backend_config, measurement)


def convert_to_reference_fx(
    graph_module: GraphModule,
    convert_custom_config: ConvertCustomConfig | dict | None = None,
    _remove_qconfig: bool = True,
    qconfig_mapping: Any = None,
    backend_config: Any = None,
) -> GraphModule:
    """A copy of a calibrated or trained model that computes in floats what a converted one computes with integers.

    Its layers are those of `nn.quantized.reference`; each activation is rounded to integers and back.
    """
    return _converted("convert_to_reference_fx", graph_module, qconfig_mapping, backend_config, None, True)


def _converted(
    name: str,
    graph_module: GraphModule,
    qconfig_mapping: Any,
    backend_config: Any,
    measurement: Measurement | None,
    is_reference: bool = False,
) -> GraphModule:
    if not isinstance(graph_module, GraphModule) or graph_module._is_converted:
        raise ValueError(
            f"{name}: expected the model that prepare_fx or prepare_qat_fx returned, got {type(graph_module).__name__}"
        )
    _backend(backend_config)  # the dtypes were chosen by prepare_fx
    model = copy.deepcopy(graph_module)
    model._is_reference = is_reference
    if qconfig_mapping is not None:
        _keep_floats(model.graph, qconfig_mapping)
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
            following = _only_user(call)
            following.is_skipped, call.output_observer = True, following.output_observer
            if following.op == "call_module" and _is_always_skipped(model.graph, following.target):
                _replace(model, following.target, nn.Identity())
    for name in [name for name in model._modules if name.startswith("activation_post_process_")]:
        del model._modules[name]
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
            producer = _value(call.inputs[number])
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
        return not call.sources and not _value(call.inputs[0]).is_quantized
    return call.key not in ON_INTEGERS


def _convert_module(model: GraphModule, call: Call, measurement: Measurement | None) -> None:
    """Replace the layer of a call by a quantized one, unless a measurement keeps floats."""
    layer = model.get_submodule(call.target)
    unwatch(layer)
    if call.is_quantized and model._is_reference:
        _make_reference(model, call)
    elif call.is_quantized:
        layer.activation_post_process = model._modules[call.output_observer]
        _swap(model, call, STATIC_MODULES)
        quantized = model.get_submodule(call.target)
        if quantized is layer:
            del layer.activation_post_process
        elif measurement is not None and isinstance(quantized, MEASURED):
            chosen = measurement.choose(call.target, layer, quantized)
            if chosen is not quantized:
                _replace(model, call.target, chosen)
    elif call.qconfig is not None and not _is_static(call.qconfig):
        if _takes(call, layer):
            _swap(model, call, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS)


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
        _replace(model, call.target, reference)
    else:
        layer[0] = reference
        _replace(model, call.target, layer)


def _takes(call: Call, layer: Module) -> bool:
    """Whether a dynamic or weight-only QConfig is one for this layer: embeddings have weights of quint8."""
    weight = call.qconfig.weight() if call.qconfig.weight else None
    is_table = isinstance(layer, (nn.Embedding, nn.EmbeddingBag))
    is_dynamic = getattr(call.qconfig.activation(), "is_dynamic", False)
    return (getattr(weight, "dtype", None) is dtypes.quint8) if is_table else is_dynamic


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
