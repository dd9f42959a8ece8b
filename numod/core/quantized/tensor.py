"""The class of quantized tensors: a tensor of integers together with its quantizer.

It is a subclass of Tensor, not a flag of it, because no op may compute with the integers as if they were the values:
`__torch_function__` decides (`operations`), without overhead for plain tensors. Every operation ends
in ops on the plain tensor `_integers`, so recorded programs contain integers only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

from ... import dtypes
from ...dtypes import QuantizedDtype
from ...errors import normalize_dim
from ...ops import quantize as rows
from ...ops import table as t
from .. import overrides
from ..apply import apply
from ..derived import data_of, derived
from ..printing import format_tensor
from ..tensor import Tensor, fields_of
from .schemes import qscheme


@dataclass(frozen=True, eq=False)
class Quantizer:
    """How integers stand for values: value = scale * (integer - zero_point).

    Scale and zero point are a float and an int, or of a per-channel scheme vectors along `axis`.
    """

    dtype: QuantizedDtype
    scheme: qscheme
    scale: float | Tensor
    zero_point: int | Tensor
    axis: int = 0

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest integer."""
        return dtypes.RANGES[self.dtype.integers]

    @property
    def is_symmetric(self) -> bool:
        """Whether all zero points are 0."""
        zero = self.zero_point
        if not isinstance(zero, Tensor):
            return not zero
        return not derived(zero, "any", partial(_any, zero))

    def numbers(self, ndim: int) -> tuple:
        """Scale and zero point for rows over a tensor of `ndim` dimensions."""
        if not self.scheme.is_per_channel:
            return self.scale, self.zero_point
        shape = [1] * ndim
        shape[self.axis] = -1
        return self.scale.float().reshape(shape), self.zero_point.float().reshape(shape)

    def quantize(self, values: Tensor) -> QuantizedTensor:
        """The quantized tensor of floats."""
        row = rows.to_integers[self.dtype.integers.name]
        return wrap_integers(apply(row, (values.detach(), *self.numbers(values.ndim), *self._float_limits())), self)

    def _float_limits(self) -> tuple[int, int]:
        low, high = self.limits
        return low, high if self.dtype is not dtypes.qint32 else 2147483520  # the largest float32 below 2^31

    def dequantize(self, integers: Tensor) -> Tensor:
        """The values of integers, in float32."""
        scale, zero = self.numbers(integers.ndim)
        return apply(t.mul, (apply(t.sub, (apply(t.copy, (integers,), (dtypes.float32,)), zero)), scale))

    def same_as(self, other: Quantizer) -> bool:
        """Whether equal integers stand for equal values."""
        if self.scheme.is_per_channel or other.scheme.is_per_channel:
            return self is other
        return self.dtype is other.dtype and (self.scale, self.zero_point) == (other.scale, other.zero_point)

    def with_dtype(self, dtype: QuantizedDtype) -> Quantizer:
        """This quantizer for other integers."""
        return replace(self, dtype=dtype)


class QuantizedTensor(Tensor):
    """Integers and a scale. Made by `numod.quantize_per_tensor` and its relatives; `dequantize()` gives the values."""

    overrides_from_first_object = True  # export and the Learner import this class

    _integers: Tensor
    _quantizer: Quantizer

    @property
    def dtype(self) -> QuantizedDtype:
        """qint8, quint8 or qint32."""
        return self._quantizer.dtype

    @property
    def is_quantized(self) -> bool:
        """True."""
        return True

    def int_repr(self) -> Tensor:
        """A copy of the integers."""
        return self._integers.clone()

    def dequantize(self) -> Tensor:
        """The values, in float32."""
        return self._quantizer.dequantize(self._integers)

    def qscheme(self) -> qscheme:
        """The quantization scheme."""
        return self._quantizer.scheme

    def q_scale(self) -> float:
        """The scale of a per-tensor scheme."""
        self._expect(False, "q_scale")
        return self._quantizer.scale

    def q_zero_point(self) -> int:
        """The zero point of a per-tensor scheme."""
        self._expect(False, "q_zero_point")
        return self._quantizer.zero_point

    def q_per_channel_scales(self) -> Tensor:
        """The scales of a per-channel scheme."""
        self._expect(True, "q_per_channel_scales")
        return self._quantizer.scale

    def q_per_channel_zero_points(self) -> Tensor:
        """The zero points of a per-channel scheme."""
        self._expect(True, "q_per_channel_zero_points")
        return self._quantizer.zero_point

    def q_per_channel_axis(self) -> int:
        """The dimension of the channels."""
        self._expect(True, "q_per_channel_axis")
        return self._quantizer.axis

    def _expect(self, per_channel: bool, what: str) -> None:
        if self._quantizer.scheme.is_per_channel is not per_channel:
            kind, other = ("per-channel", "q_scale()") if per_channel else ("per-tensor", "q_per_channel_scales()")
            raise RuntimeError(
                f"{what}(): expected a {kind} quantized tensor, but the scheme is {self._quantizer.scheme}; try {other}"
            )

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        return format_tensor(self)

    def __deepcopy__(self, memo: dict) -> QuantizedTensor:
        result = memo[id(self)] = wrap_integers(self._integers.clone(), self._quantizer)
        return result

    def __reduce_ex__(self, protocol: int) -> tuple:
        quantizer = self._quantizer
        parts = quantizer.dtype, quantizer.scheme, quantizer.scale, quantizer.zero_point, quantizer.axis
        return _rebuild, (self._integers, *parts)

    @classmethod
    def __torch_function__(
        cls, func: Callable, types: Iterable[type], args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        from .operations import call

        return call(func, overrides.overridable.get(func, func.__name__), args, kwargs or {})


QuantizedTensor.recordable = True  # its overrides end in ops on plain tensors


def _any(tensor: Tensor) -> bool:
    return bool(data_of(tensor).any())


def wrap_integers(integers: Tensor, quantizer: Quantizer) -> QuantizedTensor:
    """The quantized tensor of these integers, over the same memory."""
    if not overrides.is_installed:
        overrides.install()
    result = object.__new__(QuantizedTensor)
    fields_of(result).update(
        _storage=integers._storage, _layout=integers._layout, _offset=integers._offset, _integers=integers,
        _quantizer=quantizer,
    )  # fmt: skip
    return result


def _rebuild(integers: Tensor, *parts: object) -> QuantizedTensor:
    return wrap_integers(integers, Quantizer(*parts))


def moved(quantizer: Quantizer, order: tuple[int, ...]) -> Quantizer:
    """The quantizer after a permutation of dimensions."""
    if not quantizer.scheme.is_per_channel:
        return quantizer
    return replace(quantizer, axis=[normalize_dim(dim, len(order)) for dim in order].index(quantizer.axis))


def refuse(name: str) -> NoReturn:
    """Raise the error of a function that quantized tensors do not have."""
    raise NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the 'QuantizedCPU' backend: the function is not defined for "
        "quantized tensors; call dequantize() first, or use nn.quantized.QFunctional for arithmetic"
    )
