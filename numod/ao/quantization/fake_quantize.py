"""Modules that round as quantization will, during training: an observer, and a gradient that ignores the rounding."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...core import Tensor, tensor
from ...core.quantized import (
    fake_quantize_per_channel_affine,
    fake_quantize_per_tensor_affine,
    fused_moving_avg_obs_fake_quant,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)
from ...nn.module import Module
from .observer import (
    PER_CHANNEL,
    SYMMETRIC,
    FixedQParamsObserver,
    HistogramObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    WithArguments,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
    resize_to_saved,
)


_OF_OBSERVER = ("quant_min", "quant_max", "reduce_range")  # settings that the text takes from the observer


class FakeQuantizeBase(WithArguments, Module):
    """Base of modules that simulate quantization: two switches, for the observer and for the rounding."""

    fake_quant_enabled: Tensor
    observer_enabled: Tensor
    _flags = dtypes.uint8

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", tensor([1], dtype=self._flags))
        self.register_buffer("observer_enabled", tensor([1], dtype=self._flags))

    def calculate_qparams(self, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Scale and zero point."""
        raise NotImplementedError(f"{type(self).__name__} must define calculate_qparams()")

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Switch the rounding on or off."""
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self) -> None:
        """Switch the rounding off."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Switch the observer on or off."""
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self) -> None:
        """Switch the observer off: the scale stays as it is."""
        self.enable_observer(False)


class FakeQuantize(FakeQuantizeBase):
    """Observes its input, and rounds it with the scale and zero point found so far."""

    scale: Tensor
    zero_point: Tensor
    # what the text of a model shows, in PyTorch's order
    _shown = (
        "fake_quant_enabled", "observer_enabled", "quant_min", "quant_max", "dtype", "qscheme", "ch_axis", "scale",
        "zero_point",
    )  # fmt: skip

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int | None = None,
        quant_max: int | None = None,
        is_dynamic: bool = False,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__()
        if quant_min is not None and quant_max is not None:
            self._check_range(observer, quant_min, quant_max, observer_kwargs)
            observer_kwargs |= {"quant_min": quant_min, "quant_max": quant_max}
        if is_dynamic:
            observer_kwargs["is_dynamic"] = True
        self.activation_post_process = inner = observer(**observer_kwargs)
        self.quant_min, self.quant_max, self.is_dynamic = inner.quant_min, inner.quant_max, inner.is_dynamic
        is_float = inner.qscheme is per_channel_affine_float_qparams
        self.register_buffer("scale", tensor([1.0], dtype=dtypes.float32))
        self.register_buffer("zero_point", tensor([0], dtype=dtypes.float32 if is_float else dtypes.int32))
        self.dtype, self.qscheme, self.ch_axis = inner.dtype, inner.qscheme, getattr(inner, "ch_axis", -1)
        self.is_per_channel = inner.qscheme in PER_CHANNEL

    @staticmethod
    def _check_range(observer: Any, quant_min: int, quant_max: int, observer_kwargs: dict) -> None:
        if quant_min > quant_max:
            raise AssertionError(f"quant_min must be less than or equal to quant_max, got {quant_min} and {quant_max}")
        default_dtype = getattr(getattr(observer, "p", None), "keywords", {}).get("dtype", dtypes.quint8)
        limits = dtypes.iinfo(observer_kwargs.get("dtype", default_dtype))
        if limits.min > quant_min:
            raise AssertionError(f"quant_min out of bound: expected {limits.min} to {limits.max}, got {quant_min}")
        if quant_max > limits.max:
            raise AssertionError(f"quant_max out of bound: expected {limits.min} to {limits.max}, got {quant_max}")

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale and zero point of the observer."""
        return self.activation_post_process.calculate_qparams()

    def forward(self, X: Tensor) -> Tensor:
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            self._store(*self.calculate_qparams())
        return self._rounded(X) if self.fake_quant_enabled[0] == 1 else X

    def _store(self, scale: Tensor, zero_point: Tensor) -> None:
        if self.scale.shape != scale.shape:
            self.scale.resize_(scale.shape)
            self.zero_point.resize_(zero_point.shape)
        self.scale.copy_(scale)
        self.zero_point.copy_(zero_point)

    def _rounded(self, x: Tensor) -> Tensor:
        limits = self.activation_post_process.quant_min, self.activation_post_process.quant_max
        if self.is_per_channel:
            return fake_quantize_per_channel_affine(x, self.scale, self.zero_point, self.ch_axis, *limits)
        return fake_quantize_per_tensor_affine(x, self.scale, self.zero_point, *limits)

    def extra_repr(self) -> str:
        inner = self.activation_post_process
        return ", ".join(f"{name}={getattr(inner if name in _OF_OBSERVER else self, name)}" for name in self._shown)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *others: Any) -> None:
        resize_to_saved(self, state_dict, prefix, "scale", "zero_point")
        super()._load_from_state_dict(state_dict, prefix, *others)


class FixedQParamsFakeQuantize(FakeQuantize):
    """Rounds with a scale and a zero point that no data change."""

    _shown = (
        "fake_quant_enabled", "observer_enabled", "scale", "zero_point", "dtype", "quant_min", "quant_max", "qscheme",
    )  # fmt: skip

    def __init__(self, observer: Any) -> None:
        super().__init__(observer=observer)
        inner = self.activation_post_process
        if type(inner) is not FixedQParamsObserver:
            raise AssertionError(f"{type(self).__name__}'s observer must be a FixedQParamsObserver")
        self._observer_ctr, self.scale, self.zero_point = observer, inner.scale, inner.zero_point

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """The fixed scale and zero point."""
        return self.scale, self.zero_point


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """FakeQuantize with a moving average. Scales of training follow FBGEMM's rules, as in PyTorch's fused kernel."""

    _flags = dtypes.int64
    _shown = (*FixedQParamsFakeQuantize._shown, "reduce_range")

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int = 0,
        quant_max: int = 255,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        moving = (MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver)
        if not isinstance(self.activation_post_process, moving):
            raise AssertionError("Fused observer+fake_quant module only works with MovingAverageMinMaxObserver")
        self.is_symmetric_quant = self.activation_post_process.qscheme in SYMMETRIC

    def forward(self, X: Tensor) -> Tensor:
        inner = self.activation_post_process
        return fused_moving_avg_obs_fake_quant(
            X, self.observer_enabled, self.fake_quant_enabled, inner.min_val, inner.max_val, self.scale,
            self.zero_point, inner.averaging_constant, inner.quant_min, inner.quant_max, self.ch_axis,
            self.is_per_channel, self.is_symmetric_quant,
        )  # fmt: skip


_ACTIVATION = {"observer": MovingAverageMinMaxObserver, "quant_min": 0, "quant_max": 255, "dtype": dtypes.quint8}
_WEIGHT = {"observer": MovingAverageMinMaxObserver, "quant_min": -128, "quant_max": 127, "dtype": dtypes.qint8}
_CHANNELS = _WEIGHT | {"observer": MovingAveragePerChannelMinMaxObserver, "qscheme": per_channel_symmetric}
_WEIGHT |= {"qscheme": per_tensor_symmetric}
default_fake_quant = FakeQuantize.with_args(**_ACTIVATION, qscheme=per_tensor_affine, reduce_range=True)
default_weight_fake_quant = FakeQuantize.with_args(**_WEIGHT, reduce_range=False)
default_dynamic_fake_quant = FakeQuantize.with_args(**_ACTIVATION, is_dynamic=True, averaging_constant=1)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer
)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_per_channel_weight_fake_quant = FakeQuantize.with_args(**_CHANNELS, reduce_range=False, ch_axis=0)
default_embedding_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, qscheme=per_channel_affine_float_qparams, dtype=dtypes.quint8,
    quant_min=0, quant_max=255, ch_axis=0, averaging_constant=1,
)  # fmt: skip
default_embedding_fake_quant_4bit = default_embedding_fake_quant.with_args(dtype=dtypes.quint4x2, quant_max=15)
default_histogram_fake_quant = FakeQuantize.with_args(
    **_ACTIVATION | {"observer": HistogramObserver}, qscheme=per_tensor_affine, reduce_range=True
)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(**_ACTIVATION)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(**_WEIGHT)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(**_CHANNELS)
_NARROW = {"quant_min": -127, "eps": 2**-12}
fused_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(**_WEIGHT | _NARROW)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(**_CHANNELS | _NARROW)


def disable_fake_quant(mod: Module) -> None:
    """Switch the rounding off: for `model.apply`."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_fake_quant()


def enable_fake_quant(mod: Module) -> None:
    """Switch the rounding on: for `model.apply`."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_fake_quant()


def disable_observer(mod: Module) -> None:
    """Switch the observer off: for `model.apply`."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_observer()


def enable_observer(mod: Module) -> None:
    """Switch the observer on: for `model.apply`."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_observer()
