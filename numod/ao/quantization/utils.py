"""Questions about QConfigs, dtypes and schemes, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from inspect import signature
from typing import Any

from ... import dtypes
from ...core import Tensor
from ...core.quantized import per_channel_affine, per_channel_symmetric, per_tensor_affine, qscheme
from ...nn.module import Module
from ...nn.utils import parametrize
from ...nn.utils.computed import copy_forward_hooks, copy_pre_hooks
from .observer import PER_CHANNEL, PER_TENSOR, PlaceholderObserver, UniformQuantizationObserverBase

__all__ = [
    "MatchAllNode", "Pattern", "QuantType", "activation_dtype", "activation_is_dynamically_quantized",
    "activation_is_int32_quantized",
    "activation_is_int8_quantized", "activation_is_statically_quantized", "calculate_qmin_qmax",
    "check_min_max_valid", "determine_qparams", "get_combined_dict", "get_fqn_to_example_inputs",
    "get_qconfig_dtypes", "get_qparam_dict", "get_quant_type", "get_swapped_custom_module_class", "getattr_from_fqn",
    "has_no_children_ignoring_parametrizations", "is_per_channel", "is_per_tensor",
    "op_is_int8_dynamically_quantized", "to_underlying_dtype", "validate_qmin_qmax", "weight_dtype",
    "weight_is_quantized", "weight_is_statically_quantized",
]  # fmt: skip

_BYTES = (dtypes.quint8, dtypes.qint8, dtypes.uint8, dtypes.int8)
_INTEGERS = (*_BYTES, dtypes.qint32, dtypes.int16, dtypes.int32)


class QuantType(IntEnum):
    """How a layer is quantized."""

    DYNAMIC = 0
    STATIC = 1
    QAT = 2
    WEIGHT_ONLY = 3


def _get_quant_type_to_str(quant_type: QuantType) -> str:
    return quant_type.name.lower()


def _quant_type_from_str(name: str) -> QuantType:
    if name.upper() not in QuantType.__members__:
        raise ValueError(f"Unknown QuantType name '{name}'")
    return QuantType[name.upper()]


class MatchAllNode:
    """In a pattern: anything."""


Pattern = Any  # a class, a function, a name, or a tuple of patterns


def get_swapped_custom_module_class(custom_module: Module, custom_module_class_mapping: dict, qconfig: Any) -> type:
    """The class that a mapping has for a module, {QuantType.STATIC: {class: class}, ...}."""
    mapping = custom_module_class_mapping.get(get_quant_type(qconfig), {})
    if type(custom_module) not in mapping:
        raise AssertionError(
            f"did not find corresponding observed module class for {type(custom_module)} in mapping: {mapping}"
        )
    return mapping[type(custom_module)]


def is_per_tensor(qscheme: qscheme) -> bool:
    """Whether one scale holds for the tensor."""
    return qscheme in PER_TENSOR


def is_per_channel(qscheme: qscheme) -> bool:
    """Whether each channel has its own scale."""
    return qscheme in PER_CHANNEL


def get_combined_dict(default_dict: dict, additional_dict: dict) -> dict:
    """Both; the second one decides."""
    return {**default_dict, **additional_dict}


def getattr_from_fqn(obj: Any, fqn: str) -> Any:
    """The attribute at a path."""
    for name in fqn.split("."):
        obj = getattr(obj, name)
    return obj


def to_underlying_dtype(qdtype: dtypes.dtype) -> dtypes.dtype:
    """The dtype of a quantized dtype's integers; integers are their own."""
    return getattr(qdtype, "integers", qdtype)


def get_qconfig_dtypes(qconfig: Any) -> tuple[dtypes.dtype, dtypes.dtype, bool]:
    """(dtype of the activation, of the weight, whether the activation's scale is that of each call)."""
    activation = qconfig.activation()
    return activation.dtype, qconfig.weight().dtype, getattr(activation, "is_dynamic", False)


def activation_dtype(qconfig: Any) -> dtypes.dtype:
    """The dtype of activations."""
    return qconfig.activation().dtype


def weight_dtype(qconfig: Any) -> dtypes.dtype:
    """The dtype of weights."""
    return qconfig.weight().dtype


def activation_is_dynamically_quantized(qconfig: Any) -> bool:
    """Whether each call finds the scale of its activations."""
    return get_qconfig_dtypes(qconfig)[2]


def activation_is_statically_quantized(qconfig: Any) -> bool:
    """Whether calibration finds the scale of activations."""
    dtype, _, is_dynamic = get_qconfig_dtypes(qconfig)
    return dtype in (*_INTEGERS, dtypes.float16) and not is_dynamic


def activation_is_int8_quantized(qconfig: Any) -> bool:
    """Whether activations are bytes."""
    return activation_dtype(qconfig) in _BYTES


def activation_is_int32_quantized(qconfig: Any) -> bool:
    """Whether activations are integers of 32 bits."""
    return activation_dtype(qconfig) in (dtypes.qint32, dtypes.int32)


def weight_is_quantized(qconfig: Any) -> bool:
    """Whether weights are integers or float16."""
    return weight_dtype(qconfig) in (*_INTEGERS, dtypes.float16)


def weight_is_statically_quantized(qconfig: Any) -> bool:
    """Whether weights are bytes."""
    return weight_dtype(qconfig) in _BYTES


def op_is_int8_dynamically_quantized(qconfig: Any) -> bool:
    """Whether activations are bytes with the scale of each call, and weights are bytes."""
    activation, weight, is_dynamic = get_qconfig_dtypes(qconfig)
    return (
        is_dynamic and activation in (dtypes.quint8, dtypes.uint8) and weight in (dtypes.qint8, dtypes.int8)
    )  # fmt: skip


def get_quant_type(qconfig: Any) -> QuantType:
    """How a QConfig quantizes. Raises RuntimeError for dtypes that do not go together."""
    activation, weight, is_dynamic = get_qconfig_dtypes(qconfig)
    if weight in (*_INTEGERS, dtypes.float16):
        if is_dynamic:
            return QuantType.DYNAMIC
        if activation in (_INTEGERS if weight in _INTEGERS else (dtypes.float16,)):
            return QuantType.STATIC
        if weight in _INTEGERS:
            return QuantType.WEIGHT_ONLY
    raise RuntimeError(f"Unrecognized dtype combination in get_quant_type: activation({activation}), weight({weight})")


def get_qparam_dict(observer_or_fake_quant: Any) -> dict[str, Any]:
    """Scheme, dtype, scale and zero point that an observer has found."""
    scheme, dtype = getattr(observer_or_fake_quant, "qscheme", None), observer_or_fake_quant.dtype
    if scheme is None or isinstance(observer_or_fake_quant, PlaceholderObserver):
        return {"qscheme": None, "dtype": dtype}
    result = {"qscheme": per_tensor_affine if is_per_tensor(scheme) else scheme, "dtype": dtype}
    if is_per_channel(scheme):
        result["qscheme"] = per_channel_affine if scheme is per_channel_symmetric else scheme
        result["axis"] = observer_or_fake_quant.ch_axis
    result["scale"], result["zero_point"] = observer_or_fake_quant.calculate_qparams()
    limits = {name: getattr(observer_or_fake_quant, name, None) for name in ("quant_min", "quant_max")}
    return result | {name: limit for name, limit in limits.items() if limit is not None}


def check_min_max_valid(min_val: Tensor, max_val: Tensor) -> bool:
    """Whether an observer has seen values; it warns if not. Raises AssertionError if a minimum is the greater one."""
    return UniformQuantizationObserverBase()._was_calibrated(min_val, max_val)


def validate_qmin_qmax(quant_min: int, quant_max: int) -> None:
    """Raise AssertionError unless the range has 0 and more than one integer."""
    if not quant_min <= 0 <= quant_max:
        raise AssertionError("Used-specified quantization range must include 0.")
    if quant_min >= quant_max:
        raise AssertionError("qmin must be strictly less than qmax for user-specified quantization range.")


def calculate_qmin_qmax(
    quant_min: int | None, quant_max: int | None, has_customized_qrange: bool, dtype: dtypes.dtype, reduce_range: bool
) -> tuple[int, int]:
    """The integers in use: those chosen, or all of the dtype, without a bit for `reduce_range`."""
    limits = (quant_min, quant_max) if has_customized_qrange else (None, None)
    return UniformQuantizationObserverBase.range_of(dtype, reduce_range, *limits)


def determine_qparams(
    min_val: Tensor,
    max_val: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: dtypes.dtype,
    eps: Tensor,
    has_customized_qrange: bool,
    qscheme: qscheme = per_tensor_affine,
) -> tuple[Tensor, Tensor]:
    """Scale (float64) and zero point (int64) for a range."""
    observer = UniformQuantizationObserverBase(dtype)
    observer.qscheme, observer.eps = qscheme, eps
    observer.quant_min, observer.quant_max = quant_min, quant_max
    observer.has_customized_qrange = has_customized_qrange
    scale, zero_point = observer._calculate_qparams(min_val, max_val)
    return scale.double(), zero_point.long()


def has_no_children_ignoring_parametrizations(module: Module) -> bool:
    """Whether a module has no others but parametrizations."""
    return not [
        name for name in module._modules if name != "parametrizations" or not parametrize.is_parametrized(module)
    ]


def get_fqn_to_example_inputs(model: Module, example_inputs: tuple) -> dict[str, tuple]:
    """The positional inputs of each submodule, by path, in a call of the model. Missing arguments have their defaults.

    Example:

        >>> from numod.ao.quantization.utils import get_fqn_to_example_inputs
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3))
        >>> sorted(get_fqn_to_example_inputs(model, (torch.zeros(1, 2),)))
        ['', '0']
    """
    inputs: dict[str, tuple] = {}

    def note(path: str) -> Callable:
        def hook(module: Module, args: tuple, kwargs: dict) -> None:
            parameters = list(signature(module.forward).parameters.values())[len(args) :]
            defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
            inputs[path] = (*args, *{**defaults, **kwargs}.values())

        return hook

    hooks = [module.register_forward_pre_hook(note(path), with_kwargs=True) for path, module in model.named_modules()]
    try:
        model(*example_inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return inputs


def replace_modules(
    model: Module,
    layers: Sequence[tuple[Module, Module]],
    is_closed: Callable[[Module], bool] = lambda module: False,
) -> None:
    """Replace modules at all paths that these have below the model, except inside closed modules.

    `layers`: pairs of a module and the one that replaces it. Modules are compared by identity: a class may define
    `__eq__`.
    """
    by_id = {id(module): layer for module, layer in layers}
    seen, parents = set(), [model]
    while parents:
        parent = parents.pop()
        seen.add(id(parent))
        parents += [
            child for child in parent._modules.values() if not (child is None or id(child) in seen or is_closed(child))
        ]
        for name, child in parent._modules.items():
            parent._modules[name] = by_id.get(id(child), child)


def with_hooks(layer: Module, replaced: Module, without: tuple = ()) -> Module:
    """The layer, with the hooks of the one that it replaces but some, and those that compute parameters."""
    if layer is replaced:
        return layer
    copy_pre_hooks(replaced, layer, without)
    copy_forward_hooks(replaced, layer, without)
    return layer
