"""Tables of the graph mode: which modules and functions are quantized, and what is observed of them.

Functions are named as in `QConfigMapping`: "nn.functional.relu", "add" (`numod.add`), "Tensor.add" (x + y, x.add(y)).
"""

from __future__ import annotations

import operator
from typing import Any

from ... import dtypes, nn
from ...nn.module import Module
from ...nn.utils.parametrize import type_before_parametrizations as kind_of
from ..nn import quantized as nnq
from .backend_config import BackendPatternConfig, DTypeConfig, ObservationType
from .fuse_modules import FUSERS
from .quantization_mappings import (
    DEFAULT_QAT_MODULE_MAPPINGS,
    DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS,
    DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
)
from .stubs import DeQuantStub, QuantStub


def _names(prefix: str, names: str) -> set[str]:
    return {prefix + name for name in names.split()}


# the result has the scale of the input, and the same observer
_SHARED = (
    _names(
        "nn.functional.",
        """adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d avg_pool1d avg_pool2d avg_pool3d hardtanh
        hardtanh_ interpolate max_pool1d max_pool2d max_pool3d pixel_shuffle pixel_unshuffle relu relu6""",
    )
    | _names("", "adaptive_avg_pool1d avg_pool1d clamp flatten mean narrow repeat_interleave transpose squeeze stack")
    | _names("", "unsqueeze cat")
    | _names(
        "Tensor.",
        """contiguous clamp detach mean permute repeat repeat_interleave reshape relu relu_ squeeze transpose unsqueeze
        view""",
    )
)
# two tensors give a result with a scale of its own; a tensor and a number change the scale
SUMS = _names("", "add Tensor.add Tensor.add_")
PRODUCTS = _names("", "mul Tensor.mul Tensor.mul_")
ARITHMETIC = SUMS | PRODUCTS
# an activation, a weight and a bias
WEIGHTED = _names("nn.functional.", "linear conv1d conv2d conv3d")
_SEPARATE = (
    ARITHMETIC
    | WEIGHTED
    | {"matmul"}
    | _names("nn.functional.", "elu hardswish leaky_relu dropout group_norm instance_norm layer_norm hardsigmoid")
    | _names("", "sigmoid tanh Tensor.sigmoid Tensor.tanh Tensor.hardsigmoid")
)
FUNCTIONS = _SHARED | _SEPARATE
ALIASES = {"nn.functional.sigmoid": "Tensor.sigmoid", "nn.functional.tanh": "Tensor.tanh"}
RELUS = _names("", "nn.functional.relu relu")  # that join the arithmetic before them
MATCHED = FUNCTIONS | RELUS  # functions of which later runs match each call
# functions that run on integers as they are
ON_INTEGERS = _SHARED | _names("", "sigmoid tanh Tensor.sigmoid Tensor.tanh")
ACTIVATIONS_ONLY = {"group_norm": 1, "instance_norm": 1, "layer_norm": 1}  # how many tensors are activations

_SHARED_MODULES = tuple(
    getattr(nn, name)
    for name in """AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AvgPool1d AvgPool2d AvgPool3d Hardtanh Identity
    MaxPool1d MaxPool2d MaxPool3d PixelShuffle PixelUnshuffle ReLU ReLU6""".split()
)
_FIXED_MODULES = (nn.Hardsigmoid, nn.Sigmoid, nn.Softmax, nn.Tanh)
_UNOBSERVED = (QuantStub, DeQuantStub, nnq.FloatFunctional, nn.GroupNorm, nn.Embedding, nn.EmbeddingBag)
STATIC_MODULES = {
    kind: layer for kind, layer in DEFAULT_STATIC_QUANT_MODULE_MAPPINGS.items() if kind not in _UNOBSERVED
} | {nn.Softmax: nnq.Softmax}
MODULES = {*STATIC_MODULES, *_SHARED_MODULES, *_FIXED_MODULES}


LAYERS_WITH_WEIGHT = {kind for kind in MODULES if kind.__name__.startswith(("Conv", "Linear"))}


def shares_observer(key: Any, tensors: int) -> bool:
    """Whether the result of a call has the scale of its input."""
    return key in _SHARED or key in _SHARED_MODULES or (key in ARITHMETIC and tensors == 1)


def activations_of(key: Any, tensors: int) -> int:
    """How many of the call's tensors are activations; weights and biases follow them."""
    if key in WEIGHTED or isinstance(key, type):
        return 1
    return ACTIVATIONS_ONLY.get(str(key).rpartition(".")[2], tensors)


def is_leaf(module: Module) -> bool:
    """Whether a call of a module is one call of the graph: all modules of the library but containers."""
    kind = kind_of(module)
    is_container = kind in (nn.Sequential, nn.ModuleList, nn.ModuleDict)
    return kind.__module__.startswith(("numod.nn.", "numod.ao.")) and not is_container


def function_of(name: str) -> Any:
    """The function that a name of these tables stands for; a Tensor method is named by its last part, as in PyTorch."""
    import numod

    if name.startswith("Tensor."):
        return name.removeprefix("Tensor.")
    return operator.attrgetter(name)(numod)


def names_of(key: Any) -> tuple:
    """The patterns of a BackendConfig that a call matches."""
    if not isinstance(key, str):
        return (key,)
    operators = {"Tensor.add": (operator.add,), "Tensor.mul": (operator.mul,)}
    return function_of(key), *operators.get(key, ()), *([function_of("add")] if key == "Tensor.add" else [])


def native_patterns() -> list[BackendPatternConfig]:
    """What `BackendConfig` says of the tables above."""
    static = [DTypeConfig(dtype, dtype) for dtype in (dtypes.quint8, dtypes.qint8)]
    weighted = [DTypeConfig(dtype, dtype, dtypes.qint8, dtypes.float32) for dtype in (dtypes.quint8, dtypes.qint8)]
    dynamic = DTypeConfig(dtypes.quint8, dtypes.float32, dtypes.qint8, dtypes.float32, is_dynamic=True)
    patterns = []
    for key in [*sorted(MODULES, key=lambda kind: kind.__name__), *sorted(FUNCTIONS)]:
        has_weight = key in WEIGHTED or key in LAYERS_WITH_WEIGHT
        configs = list(weighted if has_weight else static)
        if key in (nn.Linear, "nn.functional.linear"):
            configs.append(dynamic)
        shared = shares_observer(key, 2)
        kind = "OUTPUT_SHARE_OBSERVER_WITH_INPUT" if shared else "OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT"
        for name in names_of(key):
            pattern = BackendPatternConfig(name).set_dtype_configs(configs)
            if key in DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS:
                pattern.set_root_module(key).set_qat_module(DEFAULT_QAT_MODULE_MAPPINGS.get(key))
                pattern.set_reference_quantized_module(DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS[key])
            patterns.append(pattern.set_observation_type(ObservationType[kind]))
    patterns += [BackendPatternConfig(kinds).set_fuser_method(method) for kinds, method in FUSERS.items()]
    patterns += [BackendPatternConfig(kind).set_dtype_configs([dynamic]) for kind in (nn.LSTM, nn.GRU)]
    return patterns
