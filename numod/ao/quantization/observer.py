"""Observers: modules that record the range of the tensors they see, and choose a scale and a zero point for it.

Parameters are chosen as in PyTorch, bit for bit: the same float32 operations in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...errors import warn_caller
from ... import dtypes
from ...core import Tensor, full, tensor
from ...core.quantized import (
    move_averages,
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
    qscheme,
)
from ...nn.module import Module

EPS = float(np.finfo(np.float32).eps)
_BYTES = {"qint8": (-128, 127), "int8": (-128, 127), "quint8": (0, 255), "uint8": (0, 255)}
_OTHERS = {
    "qint32": (-(2**31), 2**31 - 1), "int32": (-(2**31), 2**31 - 1), "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
}  # fmt: skip
PER_TENSOR = (per_tensor_affine, per_tensor_symmetric)
PER_CHANNEL = (per_channel_affine, per_channel_symmetric, per_channel_affine_float_qparams)
SYMMETRIC = (per_tensor_symmetric, per_channel_symmetric)


class PartialWrapper:
    """A class with some arguments given, which `with_args` extends: a recipe for observers, since each is new."""

    def __init__(self, p: partial) -> None:
        self.p = p
        self.callable_args: dict[str, Callable] = {}

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        created = {name: make() for name, make in self.callable_args.items() if name not in keywords}
        return self.p(*args, **created, **keywords)

    def __repr__(self) -> str:
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, **kwargs: Any) -> PartialWrapper:
        """The recipe with further arguments."""
        return PartialWrapper(partial(self, **kwargs))

    def with_callable_args(self, **kwargs: Callable) -> PartialWrapper:
        """The recipe with arguments that are computed when it is used."""
        result = PartialWrapper(self.p)
        result.callable_args = {**self.callable_args, **kwargs}
        return result


class WithArguments:
    """Adds `with_args` to a class."""

    @classmethod
    def with_args(cls, **kwargs: Any) -> PartialWrapper:
        """A recipe: the class with these arguments."""
        return PartialWrapper(partial(cls, **kwargs))

    @classmethod
    def with_callable_args(cls, **kwargs: Callable) -> PartialWrapper:
        """A recipe with arguments that are computed when it is used."""
        return PartialWrapper(partial(cls)).with_callable_args(**kwargs)


class ObserverBase(WithArguments, Module):
    """Base of observers: `forward` returns its input, `calculate_qparams` the scale and zero point."""

    _may_be_dynamic = True  # whether the range may be that of each batch

    def __init__(self, dtype: dtypes.dtype, is_dynamic: bool = False) -> None:
        if is_dynamic and not self._may_be_dynamic:
            raise NotImplementedError(f"{type(self).__name__} doesn't support dynamic quantization")
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    def calculate_qparams(self, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Scale and zero point."""
        raise RuntimeError(f"calculate_qparams should not be called for {type(self).__name__}")


class UniformQuantizationObserverBase(ObserverBase):
    """Base of observers of a range.

    `quant_min` and `quant_max` are the integers in use; `reduce_range` leaves out a bit, against overflow of 16-bit
    sums on processors without VNNI.
    """

    _version = 3
    eps: Tensor
    _schemes = PER_TENSOR

    def __init__(
        self,
        dtype: dtypes.dtype = dtypes.quint8,
        qscheme: qscheme = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: dict | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
    ) -> None:
        if qscheme not in self._schemes:
            names = " and ".join(f"numod.{scheme.name}" for scheme in self._schemes)
            raise NotImplementedError(f"{type(self).__name__}'s qscheme only support {names}, got {qscheme}")
        super().__init__(dtype, is_dynamic)
        if reduce_range:
            warn_caller(
                "Please use quant_min and quant_max to specify the range for observers. reduce_range will be "
                "deprecated in a future release of PyTorch."
            )
        if dtype.name not in {**_BYTES, **_OTHERS, "quint4x2": 0}:
            raise AssertionError(f"Default Observer only works for integer and quantized dtypes, got {dtype}")
        self.qscheme, self.reduce_range = qscheme, reduce_range
        self.register_buffer("eps", tensor([eps], **(factory_kwargs or {})))
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        self.quant_min, self.quant_max = self._range(quant_min, quant_max)

    def _range(self, low: int | None, high: int | None) -> tuple[int, int]:
        if self.has_customized_qrange:
            if not low <= 0 <= high:
                raise AssertionError("Used-specified quantization range must include 0.")
            if low >= high:
                raise AssertionError("qmin must be strictly less than qmax for user-specified quantization range.")
        return self.range_of(self.dtype, self.reduce_range, low, high)

    @staticmethod
    def range_of(dtype: dtypes.dtype, reduce_range: bool, low: int | None, high: int | None) -> tuple[int, int]:
        """The integers in use: `low` to `high`, or all of the dtype; `reduce_range` leaves out a bit of bytes."""
        if low is None or high is None:
            low, high = {**_BYTES, **_OTHERS}.get(dtype.name, (0, 15))
            if dtype.name not in _BYTES:
                return low, high
        elif dtype.name in ("qint8", "int8") and not 0 <= high - low <= 255:
            raise AssertionError("quantization range should be positive and not exceed the maximum bit range (=256).")
        return (low // 2, high // 2) if reduce_range else (low, high)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, local_metadata: dict, *others: Any) -> None:
        if local_metadata.get("version") in (None, 1):
            state_dict[prefix + "eps"] = tensor([EPS])
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)

    def _calculate_qparams(self, min_val: Tensor, max_val: Tensor) -> tuple[Tensor, Tensor]:
        if not self._was_calibrated(min_val, max_val):
            return tensor([1.0], device=min_val.device), tensor([0], device=min_val.device)
        low, high = min_val.clamp_max(0), max_val.clamp_min(0)
        if self.qscheme in SYMMETRIC:
            scale = (-low).maximum(high) / (float(self.quant_max - self.quant_min) / 2)
            scale = scale.maximum(self.eps)
            zero_point = full(scale.shape, self._middle(), dtype=dtypes.int64, device=scale.device)
        elif self.qscheme is per_channel_affine_float_qparams:
            scale = (max_val - min_val) / float(self.quant_max - self.quant_min)
            scale = scale.where(scale > self.eps, tensor(1.0, device=scale.device))
            zero_point = -1 * min_val / scale
        else:
            scale = ((high - low) / float(self.quant_max - self.quant_min)).maximum(self.eps)
            rounded = (low / scale).round().nan_to_num(nan=-(2.0**31)).to(dtypes.int32)
            zero_point = (self.quant_min - rounded).clamp(self.quant_min, self.quant_max)
        return scale, zero_point

    def _middle(self) -> int:
        """The zero point of a symmetric scheme."""
        if self.dtype.name not in ("quint8", "uint8"):
            return 0
        return (self.quant_min + self.quant_max) // 2 if self.has_customized_qrange else 128

    def _was_calibrated(self, low: Tensor, high: Tensor) -> bool:
        """Whether values were seen. Warns if not."""
        unseen = low.numel() == 0 or high.numel() == 0
        if unseen or (low.ndim == 0 and low.item() == float("inf") and high.item() == -float("inf")):
            warn_caller("must run observer before calling calculate_qparams. Returning default values.")
            return False
        if (low > high).any():
            raise AssertionError(f"min {low} should be less than max {high}")
        return True

    def reset_min_max_vals(self) -> None:
        """Forget the values that were seen."""
        raise NotImplementedError("Cannot reset min/max values in the given observer.")


_ObserverBase = UniformQuantizationObserverBase


class MinMaxObserver(UniformQuantizationObserverBase):
    """Records the least and the greatest value."""

    min_val: Tensor
    max_val: Tensor

    def __init__(
        self,
        dtype: dtypes.dtype = dtypes.quint8,
        qscheme: qscheme = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: dict | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if reduce_range and qscheme is per_tensor_symmetric and dtype is dtypes.quint8:
            raise NotImplementedError(
                "Cannot reduce range for symmetric quantization for quint8; use qint8, or per_tensor_affine"
            )
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self.register_buffer("min_val", tensor(float("inf"), **(factory_kwargs or {})))
        self.register_buffer("max_val", tensor(float("-inf"), **(factory_kwargs or {})))

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            low, high = x_orig.detach().to(self.min_val.dtype).aminmax()
            self.min_val.copy_(low.minimum(self.min_val))
            self.max_val.copy_(high.maximum(self.max_val))
        return x_orig

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale and zero point."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self) -> None:
        """Forget the values that were seen."""
        self.min_val.fill_(float("inf"))
        self.max_val.fill_(float("-inf"))


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Records moving averages of the least and the greatest value."""

    def __init__(
        self,
        averaging_constant: float = 0.01,
        dtype: dtypes.dtype = dtypes.quint8,
        qscheme: qscheme = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if is_dynamic and averaging_constant != 1:
            raise NotImplementedError(
                "MovingAverageMinMaxObserver doesn't support dynamic quantization for averaging constant of "
                f"{averaging_constant}"
            )
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs)
        self.averaging_constant = averaging_constant

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            low, high = x_orig.detach().to(self.min_val.dtype).aminmax()
            move_averages((self.min_val, self.max_val), (low, high), self.averaging_constant)
        return x_orig


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """Records the least and the greatest value of each channel along `ch_axis`."""

    min_val: Tensor
    max_val: Tensor
    _schemes, _may_be_dynamic = PER_CHANNEL, False

    def __init__(
        self,
        ch_axis: int = 0,
        dtype: dtypes.dtype = dtypes.quint8,
        qscheme: qscheme = per_channel_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: dict | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self.ch_axis = ch_axis
        self.register_buffer("min_val", tensor([], **(factory_kwargs or {})))
        self.register_buffer("max_val", tensor([], **(factory_kwargs or {})))

    def _ranges(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values = x.detach().to(self.min_val.dtype).transpose(0, self.ch_axis)
        return values.flatten(1).aminmax(dim=1)

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            low, high = self._ranges(x_orig)
            if self.min_val.numel():
                low, high = low.minimum(self.min_val), high.maximum(self.max_val)
            self.min_val.resize_(low.shape)
            self.max_val.resize_(high.shape)
            self.min_val.copy_(low)
            self.max_val.copy_(high)
        return x_orig

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scales and zero points."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *others: Any) -> None:
        resize_to_saved(self, state_dict, prefix, "min_val", "max_val")
        super()._load_from_state_dict(state_dict, prefix, *others)

    def reset_min_max_vals(self) -> None:
        """Forget the values that were seen."""
        self.min_val, self.max_val = tensor([]), tensor([])


def resize_to_saved(module: Module, state_dict: dict, prefix: str, *names: str) -> None:
    """Give buffers whose number of channels is known from data only the shapes that they have in a state dict."""
    for name in names:
        saved = state_dict.get(prefix + name)
        if saved is not None and saved.shape != getattr(module, name).shape:
            getattr(module, name).resize_(saved.shape)


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Records moving averages of the least and the greatest value of each channel."""

    def __init__(
        self,
        averaging_constant: float = 0.01,
        ch_axis: int = 0,
        dtype: dtypes.dtype = dtypes.quint8,
        qscheme: qscheme = per_channel_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            ch_axis, dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs
        )
        self.averaging_constant = averaging_constant

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            move_averages((self.min_val, self.max_val), self._ranges(x_orig), self.averaging_constant)
        return x_orig


class FixedQParamsObserver(ObserverBase):
    """Has a scale and a zero point that no data change, such as for the result of a sigmoid."""

    _may_be_dynamic = False

    def __init__(
        self,
        scale: float,
        zero_point: int,
        dtype: dtypes.dtype = dtypes.quint8,
        qscheme: qscheme = per_tensor_affine,
        quant_min: int = 0,
        quant_max: int = 255,
        is_dynamic: bool = False,
    ) -> None:
        super().__init__(dtype, is_dynamic)
        self.quant_min, self.quant_max, self.qscheme = quant_min, quant_max, qscheme
        self.register_buffer("scale", tensor([scale], dtype=dtypes.float32))
        self.register_buffer("zero_point", tensor([zero_point], dtype=dtypes.int32))

    def forward(self, X: Tensor) -> Tensor:
        return X

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """The fixed scale and zero point."""
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Observes nothing, and says which dtype is wanted: float16, or of activations that are quantized per call."""

    def __init__(
        self,
        dtype: dtypes.dtype = dtypes.float32,
        custom_op_name: str = "",
        compute_dtype: dtypes.dtype | None = None,
        quant_min: int | None = None,
        quant_max: int | None = None,
        qscheme: qscheme | None = None,
        eps: float | None = None,
        is_dynamic: bool = False,
    ) -> None:
        super().__init__(dtype, is_dynamic or bool(compute_dtype))
        self.qscheme, self.eps = qscheme or per_tensor_affine, EPS if eps is None else eps
        self.quant_min, self.quant_max, self.custom_op = quant_min, quant_max, custom_op_name

    def forward(self, x: Tensor) -> Tensor:
        return x

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"


class RecordingObserver(ObserverBase):
    """Keeps all tensors that it sees."""

    def __init__(self, dtype: dtypes.dtype = dtypes.quint8) -> None:
        super().__init__(dtype)
        self.tensor_val: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.tensor_val.append(x.clone())
        return x

    def get_tensor_value(self) -> list[Tensor]:
        """The tensors."""
        return self.tensor_val


class NoopObserver(ObserverBase):
    """Observes nothing."""

    def __init__(self, dtype: dtypes.dtype = dtypes.float16, custom_op_name: str = "") -> None:
        super().__init__(dtype)
        self.custom_op = custom_op_name

    def forward(self, x: Tensor) -> Tensor:
        return x


class ReuseInputObserver(ObserverBase):
    """Stands for the observer of the operation's input, whose scale the result has."""

    def __init__(self) -> None:
        super().__init__(dtypes.quint8)

    def forward(self, x: Tensor) -> Tensor:
        return x


def get_observer_state_dict(mod: Module) -> dict[str, Tensor]:
    """The part of a state dict that belongs to observers."""
    return {name: value for name, value in mod.state_dict().items() if "activation_post_process" in name}


def load_observer_state_dict(mod: Module, obs_dict: dict[str, Tensor]) -> None:
    """Load what `get_observer_state_dict` returned."""
    mod.load_state_dict(obs_dict, strict=False)


from .granularity import (  # noqa: E402  they derive from classes above
    AffineQuantizedObserverBase as AffineQuantizedObserverBase,
    Granularity as Granularity,
    MappingType as MappingType,
    PerAxis as PerAxis,
    PerBlock as PerBlock,
    PerGroup as PerGroup,
    PerRow as PerRow,
    PerTensor as PerTensor,
    PerToken as PerToken,
    TorchAODType as TorchAODType,
    ZeroPointDomain as ZeroPointDomain,
    get_block_size as get_block_size,
)
from .histogram import HistogramObserver  # noqa: E402

default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_weight_observer = MinMaxObserver.with_args(dtype=dtypes.qint8, qscheme=per_tensor_symmetric)
_NARROW = {"quant_min": -127, "quant_max": 127, "eps": 2**-12}
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(
    dtype=dtypes.qint8, qscheme=per_tensor_symmetric, **_NARROW
)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=dtypes.qint8, qscheme=per_channel_symmetric
)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    dtype=dtypes.qint8, qscheme=per_channel_symmetric, **_NARROW
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=dtypes.quint8, quant_min=0, quant_max=255, is_dynamic=True
)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(
    dtype=dtypes.quint8, qscheme=per_channel_affine_float_qparams, ch_axis=0
)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(
    dtype=dtypes.quint4x2, qscheme=per_channel_affine_float_qparams, ch_axis=0
)
_ALL_BYTES = {"dtype": dtypes.quint8, "quant_min": 0, "quant_max": 255}
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(
    scale=2 / 256, zero_point=128, **_ALL_BYTES
)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(scale=1 / 256, zero_point=0, **_ALL_BYTES)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
default_reuse_input_observer = ReuseInputObserver
