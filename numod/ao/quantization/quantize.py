"""Quantization of eager models: `prepare` adds observers, `convert` replaces layers, others combine both."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable
from typing import Any

from ...errors import warn_caller
from ... import dtypes, nn
from ...nn.module import Module
from ...nn.utils.computed import make_plain
from ...nn.utils.parametrize import type_before_parametrizations as kind_of
from ...nn.utils.prune import custom_from_mask
from ..nn import quantizable
from ..nn import quantized as nnq
from ..nn.intrinsic import Fused
from ..nn.quantized import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    FloatFunctional,
    Linear,
    QFunctional,
)
from ..nn.quantized.embeddings import TABLE_DTYPES
from .fake_quantize import FakeQuantizeBase
from .measure import Measurement, first_call, forget_call, note_call, note_shape, shared_copy
from .observer import ObserverBase, PerChannelMinMaxObserver
from .qconfig import (
    default_dynamic_qconfig,
    float16_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
    is_memoryless,
)
from .quantization_mappings import (
    DEFAULT_MODULE_TO_ACT_POST_PROCESS,
    get_default_dynamic_quant_module_mappings,
    get_default_qat_module_mappings,
    get_default_qconfig_propagation_list,
    get_default_static_quant_module_mappings,
    get_default_static_quant_reference_module_mappings,
    is_observed_specially,
    no_observer_set,
)
from .stubs import DeQuantStub, QuantWrapper
from .utils import get_qparam_dict, has_no_children_ignoring_parametrizations, replace_modules, with_hooks

MEASURED = Linear, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def get_default_custom_config_dict() -> dict[str, dict[type, type]]:
    """The layers that `prepare` replaces by layers in parts, and `convert` those by quantized ones."""
    kinds = ("LSTM", "MultiheadAttention")
    return {
        "float_to_observed_custom_module_class": {getattr(nn, kind): getattr(quantizable, kind) for kind in kinds},
        "observed_to_quantized_custom_module_class": {getattr(quantizable, kind): getattr(nnq, kind) for kind in kinds},
    }


def _check_qconfig(qconfig: Any, module: Module) -> None:
    if qconfig is not None and not hasattr(qconfig, "activation"):
        raise AttributeError(f"qconfig must be a QConfig, such as get_default_qconfig('x86'), got {qconfig!r}")
    if qconfig is None or not isinstance(module, _TRANSPOSED) or qconfig.weight is None:
        return
    if isinstance(qconfig.weight(), PerChannelMinMaxObserver):
        raise AssertionError("Per channel weight observer is not supported yet for ConvTranspose{n}d.")


def propagate_qconfig_(module: Module, qconfig_dict: dict | None = None, _parent: Any = None, _path: str = "") -> None:
    """Give each submodule a `qconfig`: its own, the one of its path or type in the dict, or its parent's."""
    specified = qconfig_dict or {}
    own_qconfig = specified.get(_path, specified.get(kind_of(module), _parent))
    qconfig = getattr(module, "qconfig", own_qconfig)
    _check_qconfig(qconfig, module)
    module.qconfig = qconfig
    for name, child in module.named_children():
        propagate_qconfig_(child, specified, qconfig, f"{_path}.{name}" if _path else name)


def _observer_forward_hook(self: Module, input: Any, output: Any) -> Any:
    note_shape(self, input)
    return self.activation_post_process(output)


def _observer_forward_pre_hook(self: Module, input: Any) -> Any:
    return self.activation_post_process(input[0])


def _observe(module: Module, make: Callable | None = None) -> None:
    """Add an observer of the module's result."""
    qconfig = getattr(module, "qconfig", None)
    if qconfig is None or isinstance(module, DeQuantStub):
        return
    observer = (make or qconfig.activation)()
    device = next((parameter.device for parameter in module.parameters()), None)
    module.add_module("activation_post_process", observer if device is None else observer.to(device))
    if is_memoryless(qconfig):
        module.register_forward_pre_hook(_observer_forward_pre_hook, prepend=True)
    else:
        module.register_forward_hook(_observer_forward_hook, prepend=True)


def _add_observers(module: Module, kinds: set, non_leaf: Iterable, custom: dict) -> None:
    """Attach observers to the submodules that have a qconfig, recursively."""
    for child in module.children():
        if kind_of(child) is nn.Dropout:
            continue
        if isinstance(child, (FloatFunctional, QFunctional)):
            if getattr(child, "qconfig", None) is not None:
                child.activation_post_process = child.qconfig.activation()
        elif isinstance(child, Fused) or kind_of(child) in non_leaf:
            _observe(child)
        elif is_observed_specially(child):
            _observe(child, DEFAULT_MODULE_TO_ACT_POST_PROCESS[kind_of(child)])
        elif getattr(child, "qconfig", None) is not None and kind_of(child) in custom:
            observed_child = custom[kind_of(child)].from_float(child)
            replace_modules(module, [(child, observed_child)])
            if not isinstance(observed_child, no_observer_set()):
                _observe(observed_child)
        else:
            _add_observers(child, kinds, non_leaf, custom)
    is_leaf = has_no_children_ignoring_parametrizations(module) and not isinstance(module, nn.Sequential)
    if (is_leaf or hasattr(module, "weight_fake_quant")) and kind_of(module) in kinds:
        _observe(module)


def prepare(
    model: Module,
    inplace: bool = False,
    allow_list: set | None = None,
    observer_non_leaf_module_list: Iterable | None = None,
    prepare_custom_config_dict: dict | None = None,
) -> Module:
    """Add observers to the layers that have a `qconfig`, of their own or of a module above them.

    Then call the model with typical inputs, and `convert` it.
    """
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    if not any(getattr(module, "qconfig", None) for module in model.modules()):
        warn_caller(
            "None of the submodule got qconfig applied. Make sure you passed correct configuration through "
            "`qconfig_dict` or by assigning the `.qconfig` attribute directly on submodules"
        )
    config = get_default_custom_config_dict() if prepare_custom_config_dict is None else prepare_custom_config_dict
    custom = config.get("float_to_observed_custom_module_class", {})
    kinds = get_default_qconfig_propagation_list() if allow_list is None else allow_list
    _add_observers(model, kinds, set(observer_non_leaf_module_list or ()), custom)
    if _has_float_form(model):
        model.register_forward_pre_hook(note_call, with_kwargs=True)
    return model


def prepare_qat(model: Module, mapping: dict | None = None, inplace: bool = False) -> Module:
    """Replace layers by those for training, which round their weights, and add observers that round activations.

    The model must be in training mode. Train it, then `convert` it.
    """
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    mapping = get_default_qat_module_mappings() if mapping is None else mapping
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    convert(model, mapping, inplace=True, remove_qconfig=False)
    return prepare(model, inplace=True, observer_non_leaf_module_list=set(mapping.values()))


def convert(
    module: Module,
    mapping: dict | None = None,
    inplace: bool = False,
    remove_qconfig: bool = True,
    is_reference: bool = False,
    convert_custom_config_dict: dict | None = None,
    use_precomputed_fake_quant: bool = False,
    measure: bool | dict[str, str] | Callable[[Module], Callable] = False,
) -> Module:
    """Replace observed layers by quantized ones, with the scales that their observers have found.

    With `measure=True`, linear layers and convolutions are timed on this machine with the shapes of calibration, and
    stay floats where integers are not faster; then the whole model is timed with the first input of calibration, and
    stays float if that is faster. A function as `measure` makes of a model what will be called: with `numod.compile`,
    compiled models are timed. The decisions by path, "" for the model, are kept as `quantization_decisions`; passed as
    `measure`, they are repeated without timing, for a model that loads the state of the first one.
    """
    module = module if inplace else copy.deepcopy(module)
    default = (
        get_default_static_quant_reference_module_mappings if is_reference else get_default_static_quant_module_mappings
    )
    mapping = default() if mapping is None else mapping
    config = get_default_custom_config_dict() if convert_custom_config_dict is None else convert_custom_config_dict
    custom = config.get("observed_to_quantized_custom_module_class", {})
    convert_layers = functools.partial(_convert, mapping=mapping, custom=custom, precomputed=use_precomputed_fake_quant)
    if measure is False:
        convert_layers(module)
    elif is_reference:
        raise ValueError("convert(is_reference=True, measure=...): reference layers compute in floats; leave one out")
    else:
        _convert_measured(module, convert_layers, Measurement(measure, module))
    forget_call(module)
    if remove_qconfig:
        _remove_qconfig(module)
    return module


def _convert_measured(module: Module, convert_layers: Callable, measurement: Measurement) -> None:
    """Convert a model where that makes it faster. It stays as it is if a call that is timed fails."""
    float_model, full, call = _float_model(module), shared_copy(module), first_call(module)
    if measurement.keeps_model:
        if float_model is None:
            raise ValueError("convert(measure=decisions): these keep the float model, which training has replaced")
        measurement.decisions, best = measurement.earlier, float_model
    else:
        best = shared_copy(module)
        convert_layers(best, measurement=measurement)
        measurement.decisions |= {path: decision for path, decision in measurement.earlier.items() if not path}
        if float_model is not None and call is not None and not measurement.earlier:
            # timed without observers and hooks, which a compiler would call
            mixed = _without_observers(shared_copy(best))
            best = measurement.choose_model(float_model, mixed, lambda: _converted(full, convert_layers), call)
    module._modules = best._modules
    module.quantization_decisions = measurement.decisions


def _converted(model: Module, convert_layers: Callable) -> Module:
    convert_layers(model)
    return _without_observers(model)


def _without_observers(model: Module) -> Module:
    _remove_qconfig(model)
    return model


def _float_model(prepared: Module) -> Module | None:
    """The model without its observers, if it has that form."""
    if not _has_float_form(prepared):
        return None
    model = shared_copy(prepared)
    _remove_qconfig(model)
    for module in model.modules():
        if isinstance(module, FloatFunctional):
            module.activation_post_process = nn.Identity()
    return model


def _has_float_form(prepared: Module) -> bool:
    """Whether no layers were replaced by others for observation or training."""
    replaced = (FakeQuantizeBase, quantizable.LSTM, quantizable.MultiheadAttention)
    return not any(isinstance(module, replaced) for module in prepared.modules())


def _convert(
    module: Module,
    mapping: dict,
    custom: dict,
    precomputed: bool,
    measurement: Measurement | None = None,
    above: str = "",
    layers: dict[int, tuple[Module, Module]] | None = None,
) -> None:
    """Replace the layers below a module.

    `layers`: by id, the float layer and what replaces it, so that a layer at two places stays shared.
    """
    layers = {} if layers is None else layers
    for name, child in module._modules.items():
        if child is not None and id(child) not in layers:
            path = above + name
            if not isinstance(child, Fused) and kind_of(child) not in custom:
                _convert(child, mapping, custom, precomputed, measurement, f"{path}.", layers)
            layer = swap_module(child, mapping, custom, precomputed)
            if measurement is not None and layer is not child and isinstance(layer, MEASURED):
                layer = measurement.choose(path, child, layer)
            layers[id(child)] = child, layer
        module._modules[name] = None if child is None else layers[id(child)][1]


def swap_module(
    mod: Module, mapping: dict, custom_module_class_mapping: dict, use_precomputed_fake_quant: bool = False
) -> Module:
    """The layer that replaces this one, with its hooks; the module itself where nothing does."""
    if getattr(mod, "qconfig", None) is None:
        return mod
    custom = custom_module_class_mapping.get(kind_of(mod))
    if custom is None and kind_of(mod) not in mapping:
        return mod
    parts = list(mod.children()) if isinstance(mod, Fused) else []
    weighted = parts[0] if isinstance(mod, nn.Sequential) and parts else mod
    masks = [make_plain(part) for part in (weighted, *parts)][0]  # those of batch norms are not kept
    if custom is not None:
        result = custom.from_observed(mod)
    else:
        result = _from_float(mapping[kind_of(mod)], mod, use_precomputed_fake_quant)
    if hasattr(result, "weight_fake_quant"):  # pruned weights stay pruned in training
        for name, mask in masks.items():
            custom_from_mask(result, name, mask)
    return with_hooks(result, mod, (_observer_forward_pre_hook, _observer_forward_hook))


def _from_float(kind: type, mod: Module, precomputed: bool) -> Module:
    """The layer of this class for an observed one. Reference layers take the numbers of their weights."""
    if not getattr(kind, "_IS_REFERENCE", False):
        return kind.from_float(mod, precomputed) if precomputed else kind.from_float(mod)
    return kind.from_float(mod, weight_numbers(mod))


def weight_numbers(mod: Module) -> dict[str, Any]:
    """What `get_qparam_dict` says of a layer's weight; of a recurrent layer's weights, by name."""
    numbers = {}
    for name, parameter in mod._parameters.items():
        if name.startswith("weight"):
            observer = mod.qconfig.weight()
            observer(parameter)
            numbers[name] = get_qparam_dict(observer)
    return numbers["weight"] if "weight" in numbers else {**numbers, "is_decomposed": False}


def _remove_qconfig(module: Module) -> None:
    for child in module.children():
        _remove_qconfig(child)
    if hasattr(module, "qconfig"):
        del module.qconfig
    if isinstance(getattr(module, "activation_post_process", None), (ObserverBase, FakeQuantizeBase)):
        del module.activation_post_process
    for hooks, hook in (
        (module._forward_pre_hooks, _observer_forward_pre_hook),
        (module._forward_hooks, _observer_forward_hook),
    ):
        for key in [key for key, registered in hooks.items() if registered is hook]:
            del hooks[key]
    forget_call(module)


def _get_observer_dict(mod: Module, target_dict: dict[str, Module], prefix: str = "") -> None:
    """Add the observers of a model to a dict, by path."""
    for path, module in mod.named_modules():
        if hasattr(module, "activation_post_process"):
            target_dict[f"{prefix}.{path}.activation_post_process".lstrip(".")] = module.activation_post_process


def default_eval_fn(model: Module, calib_data: Iterable) -> None:
    """Call the model with the inputs of (input, target) pairs: a `run_fn` for `quantize`."""
    for data, _ in calib_data:
        model(data)


def quantize(
    model: Module, run_fn: Callable, run_args: Iterable, mapping: dict | None = None, inplace: bool = False
) -> Module:
    """`prepare`, calibrate by `run_fn(model, *run_args)`, and `convert`."""
    model = model if inplace else copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, mapping, inplace=True)


def quantize_qat(model: Module, run_fn: Callable, run_args: Iterable, inplace: bool = False) -> Module:
    """`prepare_qat`, train by `run_fn(model, *run_args)`, and `convert`."""
    model = model if inplace else copy.deepcopy(model)
    model.train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, inplace=True)


def quantize_dynamic(
    model: Module,
    qconfig_spec: Any = None,
    dtype: dtypes.dtype = dtypes.qint8,
    mapping: dict | None = None,
    inplace: bool = False,
) -> Module:
    """Quantize the weights of layers; their inputs are quantized at each call with the scale of their range.

    `qconfig_spec` is a set of layer classes or names, or a dict from these to QConfigs; by default Linear, LSTM, GRU
    and the cells, with `dtype` qint8 or float16, or embeddings with quint8 or quint4x2.
    """
    by_dtype = {
        dtypes.qint8: default_dynamic_qconfig,
        dtypes.float16: float16_dynamic_qconfig,
        dtypes.quint8: float_qparams_weight_only_qconfig,
        dtypes.quint4x2: float_qparams_weight_only_qconfig_4bit,
    }
    if isinstance(qconfig_spec, (str, type)) or not isinstance(qconfig_spec, (Iterable, type(None))):
        raise TypeError(
            "quantize_dynamic: qconfig_spec must be a set of layer classes or names, such as {nn.Linear}, or a dict "
            f"from these to QConfigs, got {qconfig_spec!r}"
        )
    if not isinstance(qconfig_spec, dict):
        if dtype not in by_dtype:
            raise (ValueError if qconfig_spec is None else RuntimeError)(
                f"Don't know how to quantize with default settings for {dtype}. Provide full qconfig please"
            )
        qconfig_spec = dict.fromkeys(_default_layers(dtype) if qconfig_spec is None else qconfig_spec, by_dtype[dtype])
    model = model if inplace else copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, qconfig_spec)
    return convert(model, mapping or get_default_dynamic_quant_module_mappings(), inplace=True)


def _default_layers(dtype: dtypes.dtype) -> tuple[type, ...]:
    if dtype in TABLE_DTYPES:
        return nn.EmbeddingBag, nn.Embedding
    return nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell


def add_quant_dequant(module: Module) -> Module:
    """Wrap each leaf with a `qconfig` in a QuantWrapper."""
    if not module._modules and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module
