"""QConfigMapping: which QConfig each call of a model gets, for the graph mode (`quantize_fx`)."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

from ... import nn
from ...core import overrides
from ...nn import functional as F
from .fake_quantize import FixedQParamsFakeQuantize, default_weight_fake_quant
from .observer import (
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
    default_placeholder_observer,
    default_weight_observer,
)
from .qconfig import (
    QConfig,
    default_quint8_weight_qconfig,
    default_reuse_input_qconfig,
    default_symmetric_qnnpack_qat_qconfig,
    default_symmetric_qnnpack_qconfig,
    get_default_qat_qconfig,
    get_default_qconfig,
)

_OPERATORS = {operator.add: "Tensor.add", operator.mul: "Tensor.mul", operator.matmul: "Tensor.matmul"}
_TRANSPOSED = (
    nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, F.conv_transpose1d, F.conv_transpose2d,
    F.conv_transpose3d,
)  # fmt: skip
_RANGE_0TO1 = (nn.Hardsigmoid, F.hardsigmoid, "hardsigmoid", nn.Sigmoid, "sigmoid", nn.Softmax)
_RANGE_NEG1TO1 = (nn.Tanh, "tanh")


def type_key(object_type: Any) -> Any:
    """The key of an object type: a module class, or a function's name such as "nn.functional.relu" or "Tensor.add"."""
    if isinstance(object_type, type):
        return object_type
    if isinstance(object_type, str):
        return f"Tensor.{object_type}"
    name = _OPERATORS.get(object_type) or overrides.resolve_name(object_type)
    return object_type if name is None else name.removeprefix("numod.")


class QConfigMapping:
    """QConfigs by call, in increasing priority: `set_global`, `set_object_type` (a module class, a function, or the
    name of a method), `set_module_name_regex`, `set_module_name` and `set_module_name_object_type_order`.

    None as a QConfig leaves a call in floats.
    """

    def __init__(self) -> None:
        self.global_qconfig: QConfig | None = None
        self.object_type_qconfigs: dict[Any, QConfig | None] = {}
        self.module_name_regex_qconfigs: dict[str, QConfig | None] = {}
        self.module_name_qconfigs: dict[str, QConfig | None] = {}
        self.module_name_object_type_order_qconfigs: dict[tuple[str, Any, int], QConfig | None] = {}

    def set_global(self, global_qconfig: QConfig | None) -> QConfigMapping:
        """Set the QConfig of all calls for which nothing else is set."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type: Callable | str, qconfig: QConfig | None) -> QConfigMapping:
        """Set the QConfig of a module class, a function, or a method by its name."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex: str, qconfig: QConfig | None) -> QConfigMapping:
        """Set the QConfig of the modules whose path matches; the first matching expression counts."""
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name: str, qconfig: QConfig | None) -> QConfigMapping:
        """Set the QConfig of a module and of what is in it."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(
        self, module_name: str, object_type: Callable, index: int, qconfig: QConfig | None
    ) -> QConfigMapping:
        """Set the QConfig of the call number `index` of an object type in a module."""
        self.module_name_object_type_order_qconfigs[module_name, object_type, index] = qconfig
        return self

    def qconfig_of(self, path: str, key: Any, scope: str, index: int) -> QConfig | None:
        """The QConfig of a call: of the module at `path`, or of a function in the module at `path`.

        `key` is its object type (`type_key`), `index` counts calls of that type in the module `scope`.
        """
        ordered = {(name, type_key(kind), k): q for (name, kind, k), q in self._ordered()}
        if (scope, key, index) in ordered:
            return ordered[scope, key, index]
        for name in _above(path):
            if name in self.module_name_qconfigs:
                return self.module_name_qconfigs[name]
        for pattern, qconfig in self.module_name_regex_qconfigs.items():
            if re.match(pattern, path):
                return qconfig
        by_type = {type_key(kind): qconfig for kind, qconfig in self.object_type_qconfigs.items()}
        return by_type.get(key, self.global_qconfig)

    def _ordered(self) -> Any:
        return self.module_name_object_type_order_qconfigs.items()

    def to_dict(self) -> dict[str, Any]:
        """The mapping as PyTorch's older dict."""
        return {
            "": self.global_qconfig,
            "object_type": list(self.object_type_qconfigs.items()),
            "module_name_regex": list(self.module_name_regex_qconfigs.items()),
            "module_name": list(self.module_name_qconfigs.items()),
            "module_name_object_type_order": [(*key, qconfig) for key, qconfig in self._ordered()],
        }

    @classmethod
    def from_dict(cls, qconfig_dict: dict[str, Any]) -> QConfigMapping:
        """The mapping of PyTorch's older dict: {"": qconfig, "object_type": [(nn.Linear, qconfig)], ...}."""
        result = cls().set_global(qconfig_dict.get(""))
        for name in ("object_type", "module_name_regex", "module_name", "module_name_object_type_order"):
            for entry in qconfig_dict.get(name, ()):
                getattr(result, f"set_{name}")(*entry)
        return result

    def __repr__(self) -> str:
        lines = ["QConfigMapping ("]
        for name, value in vars(self).items():
            lines.append(f" {name}")
            entries = value if isinstance(value, dict) else {}
            lines += [f"  {key}: {qconfig}" for key, qconfig in entries.items()] or [f"  {value}"]
        return "\n".join([*lines, ")"])


def _above(path: str) -> list[str]:
    """The path and those of the modules that contain it, the innermost first."""
    names = path.split(".")
    return [".".join(names[:k]) for k in range(len(names), 0, -1)]


def _default_mapping(qconfig: QConfig, is_qat: bool, backend: str) -> QConfigMapping:
    weight = default_weight_fake_quant if is_qat else default_weight_observer
    per_tensor = QConfig(qconfig.activation, weight) if backend in ("fbgemm", "x86") else qconfig
    float_weight = QConfig(qconfig.activation, default_placeholder_observer)
    result = QConfigMapping().set_global(qconfig).set_object_type("reshape", default_reuse_input_qconfig)
    for kind in _TRANSPOSED:
        result.set_object_type(kind, per_tensor)
    result.set_object_type(F.layer_norm, float_weight).set_object_type(nn.LayerNorm, float_weight)
    result.set_object_type(nn.PReLU, default_quint8_weight_qconfig)
    for kinds, observer in (
        (_RANGE_0TO1, default_fixed_qparams_range_0to1_observer),
        (_RANGE_NEG1TO1, default_fixed_qparams_range_neg1to1_observer),
    ):
        activation = FixedQParamsFakeQuantize.with_args(observer=observer) if is_qat else observer
        for kind in (*kinds, *(_function(kind) for kind in kinds if isinstance(kind, str) and kind != "hardsigmoid")):
            result.set_object_type(kind, QConfig(activation, weight))
    return result


def _function(name: str) -> Callable:
    """The public function of this name."""
    overrides.install()
    return next(function for function, path in overrides.overridable.items() if path == f"numod.{name}")


def get_default_qconfig_mapping(backend: str = "x86", version: int = 0) -> QConfigMapping:
    """The mapping for static quantization: `get_default_qconfig`, and fixed scales for sigmoid, tanh and softmax."""
    return _default_mapping(get_default_qconfig(backend, version), False, backend)


def get_default_qat_qconfig_mapping(backend: str = "x86", version: int = 1) -> QConfigMapping:
    """The mapping for training: `get_default_qat_qconfig`, and fixed scales for sigmoid, tanh and softmax."""
    return _default_mapping(get_default_qat_qconfig(backend, version), True, backend)


def _symmetric(mapping: QConfigMapping, qconfig: QConfig) -> QConfigMapping:
    mapping.set_global(qconfig)
    fixed = {type_key(kind) for kind in (*_RANGE_0TO1, *_RANGE_NEG1TO1)} | {"sigmoid", "tanh"}
    for kind in mapping.object_type_qconfigs:
        if type_key(kind) not in fixed:
            mapping.set_object_type(kind, qconfig)
    return mapping


def _get_symmetric_qnnpack_qconfig_mapping() -> QConfigMapping:
    """The mapping for static quantization with signed activations."""
    return _symmetric(get_default_qconfig_mapping("qnnpack"), default_symmetric_qnnpack_qconfig)


def _get_symmetric_qnnpack_qat_qconfig_mapping() -> QConfigMapping:
    """The mapping for training with signed activations."""
    return _symmetric(get_default_qat_qconfig_mapping("qnnpack"), default_symmetric_qnnpack_qat_qconfig)


def get_default_qconfig_dict(backend: str = "x86", version: int = 0) -> dict[str, Any]:
    """`get_default_qconfig_mapping` as PyTorch's older dict."""
    return get_default_qconfig_mapping(backend, version).to_dict()


def get_default_qat_qconfig_dict(backend: str = "x86", version: int = 1) -> dict[str, Any]:
    """`get_default_qat_qconfig_mapping` as PyTorch's older dict."""
    return get_default_qat_qconfig_mapping(backend, version).to_dict()
