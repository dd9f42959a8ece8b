"""QConfig: which observers a layer gets, for its activations and for its weight; the defaults of each backend."""

from __future__ import annotations

from typing import Any, NamedTuple

from ... import dtypes
from ...nn.linear import Identity
from ...nn.module import Module
from .fake_quantize import (
    FakeQuantize,
    FakeQuantizeBase,
    FusedMovingAvgObsFakeQuantize,
    default_dynamic_fake_quant,
    default_embedding_fake_quant,
    default_embedding_fake_quant_4bit,
    default_fake_quant,
    default_fused_act_fake_quant,
    default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant,
    default_per_channel_weight_fake_quant,
    default_weight_fake_quant,
    fused_per_channel_wt_fake_quant_range_neg_127_to_127,
    fused_wt_fake_quant_range_neg_127_to_127,
)
from .observer import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    NoopObserver,
    PartialWrapper,
    PlaceholderObserver,
    default_debug_observer,
    default_dynamic_quant_observer,
    default_float_qparams_observer,
    default_float_qparams_observer_4bit,
    default_observer,
    default_per_channel_weight_observer,
    default_placeholder_observer,
    default_reuse_input_observer,
    default_weight_observer,
    per_channel_weight_observer_range_neg_127_to_127,
    weight_observer_range_neg_127_to_127,
)

BACKENDS = ("fbgemm", "x86", "qnnpack", "onednn")


class _Pair(NamedTuple):
    activation: Any
    weight: Any


class QConfig(_Pair):
    """Recipes of observers (classes, or `Observer.with_args(...)`) for activations and weights."""

    __slots__ = ()

    def __new__(cls, activation: Any, weight: Any) -> QConfig:
        if isinstance(activation, Module) or isinstance(weight, Module):
            raise ValueError(
                "QConfig received observer instance, please pass observer class instead. Use "
                "MyObserver.with_args(x=1) to override arguments to constructor if needed"
            )
        return super().__new__(cls, activation, weight)


class QConfigDynamic(QConfig):
    """PyTorch's older QConfig of dynamic quantization, in which both entries have defaults."""

    __slots__ = ()

    def __new__(cls, activation: Any = Identity, weight: Any = Identity) -> QConfigDynamic:
        return super().__new__(cls, activation, weight)


QConfigAny = QConfig | None
default_qconfig = QConfig(activation=default_observer, weight=default_weight_observer)
default_debug_qconfig = QConfig(weight=default_weight_observer, activation=default_debug_observer)
default_per_channel_qconfig = QConfig(activation=default_observer, weight=default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(activation=default_dynamic_quant_observer, weight=default_weight_observer)
float16_dynamic_qconfig = QConfig(
    activation=PlaceholderObserver.with_args(dtype=dtypes.float16, is_dynamic=True),
    weight=PlaceholderObserver.with_args(dtype=dtypes.float16),
)
float16_static_qconfig = QConfig(
    activation=PlaceholderObserver.with_args(dtype=dtypes.float16),
    weight=PlaceholderObserver.with_args(dtype=dtypes.float16),
)
per_channel_dynamic_qconfig = QConfig(
    activation=default_dynamic_quant_observer, weight=default_per_channel_weight_observer
)
float_qparams_weight_only_qconfig = QConfig(
    activation=default_placeholder_observer, weight=default_float_qparams_observer
)
default_qat_qconfig = QConfig(activation=default_fake_quant, weight=default_weight_fake_quant)
default_dynamic_qat_qconfig = QConfig(activation=default_dynamic_fake_quant, weight=default_weight_fake_quant)
default_weight_only_qconfig = QConfig(activation=Identity, weight=default_weight_fake_quant)
default_activation_only_qconfig = QConfig(activation=default_fake_quant, weight=Identity)
default_qat_qconfig_v2 = QConfig(activation=default_fused_act_fake_quant, weight=default_fused_wt_fake_quant)
default_reuse_input_qconfig = QConfig(activation=default_reuse_input_observer, weight=NoopObserver)
default_embedding_qat_qconfig = QConfig(
    activation=NoopObserver.with_args(dtype=dtypes.float32), weight=default_embedding_fake_quant
)
float_qparams_weight_only_qconfig_4bit = QConfig(
    activation=default_placeholder_observer, weight=default_float_qparams_observer_4bit
)
default_embedding_qat_qconfig_4bit = QConfig(
    activation=NoopObserver.with_args(dtype=dtypes.float32), weight=default_embedding_fake_quant_4bit
)
default_quint8_weight_qconfig = QConfig(activation=HistogramObserver, weight=MinMaxObserver)
_SIGNED_HISTOGRAM = HistogramObserver.with_args(dtype=dtypes.qint8, reduce_range=False, eps=2**-12)
default_symmetric_qnnpack_qconfig = QConfig(activation=_SIGNED_HISTOGRAM, weight=weight_observer_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(
    activation=_SIGNED_HISTOGRAM, weight=per_channel_weight_observer_range_neg_127_to_127
)
_SIGNED_MOVING = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=dtypes.qint8, reduce_range=False,
    eps=2**-12,
)  # fmt: skip
default_symmetric_qnnpack_qat_qconfig = QConfig(
    activation=_SIGNED_MOVING, weight=fused_wt_fake_quant_range_neg_127_to_127
)
default_per_channel_symmetric_qnnpack_qat_qconfig = QConfig(
    activation=_SIGNED_MOVING, weight=fused_per_channel_wt_fake_quant_range_neg_127_to_127
)


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """The QConfig for static quantization. "x86" and "fbgemm" leave out a bit of the activations."""
    _check(backend, version, (0,), "get_default_qconfig")
    weight = default_weight_observer if backend == "qnnpack" else default_per_channel_weight_observer
    return QConfig(HistogramObserver.with_args(reduce_range=backend in ("x86", "fbgemm")), weight)


def get_default_qat_qconfig(backend: str = "x86", version: int | None = 1) -> QConfig:
    """The QConfig for training. Version 1 has the fused observers, version 0 the separate ones."""
    _check(backend, version, (0, 1), "get_default_qat_qconfig")
    kind = FusedMovingAvgObsFakeQuantize if version else FakeQuantize
    reduced = {} if backend == "onednn" else {"reduce_range": backend != "qnnpack"}
    activation = kind.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **reduced)
    per_tensor = default_fused_wt_fake_quant if version else default_weight_fake_quant
    per_channel = default_fused_per_channel_wt_fake_quant if version else default_per_channel_weight_fake_quant
    return QConfig(activation, per_tensor if backend == "qnnpack" else per_channel)


def _check(backend: str, version: int | None, versions: tuple[int, ...], name: str) -> None:
    if backend not in BACKENDS:
        raise AssertionError(
            f"backend: {backend} not supported. backend must be one of {['fbgemm', 'x86', 'qnnpack', 'onednn']}"
        )
    if version not in versions:
        raise AssertionError(
            f"Version number: {version} in {name} is not supported. Version number must be one of {versions}"
        )


def qconfig_equals(q1: QConfig | None, q2: QConfig | None) -> bool:
    """Whether two QConfigs make the same observers."""
    if q1 is None or q2 is None:
        return q1 is q2
    return all(_same(first, second) for first, second in zip(q1, q2))


def _same(first: Any, second: Any) -> bool:
    if not (isinstance(first, PartialWrapper) and isinstance(second, PartialWrapper)):
        return first == second
    keywords, others = first.p.keywords, second.p.keywords
    return (
        _same(first.p.func, second.p.func)
        and keywords.keys() == others.keys()
        and all(_same(value, others[name]) for name, value in keywords.items())
    )


def is_memoryless(qconfig: QConfig) -> bool:
    """Whether the range of activations is determined at each call, before the layer."""
    observer = qconfig.activation()
    if isinstance(observer, FakeQuantizeBase) and hasattr(observer, "activation_post_process"):
        observer = observer.activation_post_process
    return getattr(observer, "averaging_constant", None) == 1
