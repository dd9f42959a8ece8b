"""The class of quantized tensors: a tensor of integers together with its quantizer.

It is a subclass of Tensor, not a flag of it, because no op may compute with the integers as if they were the values:
`__torch_function__` decides (`operations`), without overhead for plain tensors. Every operation ends
in ops on the plain tensor `_integers`, so recorded programs contain integers only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, NoReturn

from ... import dtypes
from ...device.layout import layout
from ...dtypes import QuantizedDtype
from ...errors import normalize_dim
from ...ops import quantize as rows
from ...ops import table as t
from ...ops.index.dequantized_rows import dequantized_rows
from .. import overrides
from ..apply import apply
from ..convert.copies import contiguous
from ..derived import data_of, derived
from ..index.selection import check_bounds
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
        return self.dtype.limits

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
        scale, zero = self.numbers(values.ndim)
        if self.dtype.bits < 8 and not self.scheme.is_per_channel:  # PyTorch adds their zero point after rounding
            limits = [limit - zero for limit in self.limits]
            steps = apply(rows.to_integers["int32"], (values.detach(), scale, 0, *limits))
            return wrap_integers((steps + zero).to(self.dtype.integers), self)
        row = rows.to_integers[self.dtype.integers.name]
        return wrap_integers(apply(row, (values.detach(), scale, zero, *self._float_limits())), self)

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

    @property
    def _memory(self) -> Tensor:
        """The plain tensor whose memory this is: the integers, or the bytes into which they are packed."""
        return self._integers

    def _rewrapped(self, memory: Tensor) -> QuantizedTensor:
        """The quantized tensor of a copy of this one's memory, of the same shape."""
        return wrap_integers(memory, self._quantizer)

    def _write(self, integers: Tensor) -> None:
        """Overwrite the integers."""
        self._integers.copy_(integers)

    def rows_of_table(self, indices: Tensor) -> Tensor:
        """The values of rows at a vector of indices, in float32. The rows have scales and zero points of their own."""
        quantizer, (count, *sizes), name = self._quantizer, self._layout.shape, "quantized embedding"
        vectors = quantizer.scale, quantizer.zero_point
        if not quantizer.scheme.is_per_channel or quantizer.axis or any([v._layout.shape != (count,) for v in vectors]):
            raise RuntimeError(
                f"{name}: expected a table with scales and zero points of its {count} rows, got those of the scheme "
                f"{quantizer.scheme}, axis {quantizer.axis}, {getattr(vectors[0], 'shape', '')}; quantize the table by "
                "quantize_per_channel with axis 0"
            )
        if indices._layout.dtype not in (dtypes.int32, dtypes.int64):
            raise RuntimeError(
                f"{name}: Expect 32 or 64 bit indices, but found {indices.dtype.short} instead; convert with .long()"
            )
        table, bits = self._rows_of_bytes()
        indices = check_bounds(name, indices, count, 0, error=RuntimeError)
        numbers = [contiguous(numbers.float()) for numbers in vectors]
        values = apply(dequantized_rows, (contiguous(table), *numbers, indices), (bits,))
        return values if len(sizes) == 1 else values.reshape(-1, *sizes)

    def _rows_of_bytes(self) -> tuple[Tensor, int]:
        """(the integers as a matrix of bytes, a row of this tensor in each; the bits of an integer)."""
        rows, *sizes = self._layout.shape
        return self._integers.reshape(rows, prod(sizes)), 8

    def int_repr(self) -> Tensor:
        """A copy of the integers; of less than 8 bits, of the bytes that hold them."""
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
        result = memo[id(self)] = self._rewrapped(self._memory.clone())
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


class PackedTensor(QuantizedTensor):
    """A quantized tensor of integers of less than 8 bits, several of which a byte holds.

    Functions work on unpacked integers and their results are packed again, so a view is a copy.
    """

    overrides_from_first_object = True
    _bytes: Tensor  # a vector

    @property
    def _integers(self) -> Tensor:
        """The integers, each in a byte."""
        shape = self._layout.shape
        return unpack(self._bytes, self._quantizer.dtype.bits)[: prod(shape)].reshape(shape)

    @property
    def _memory(self) -> Tensor:
        return self._bytes

    def _rewrapped(self, memory: Tensor) -> PackedTensor:
        return wrap_bytes(memory, self._layout.shape, self._quantizer)

    def _write(self, integers: Tensor) -> None:
        self._bytes.copy_(pack(integers.expand(self._layout.shape), self._quantizer.dtype.bits))

    def _rows_of_bytes(self) -> tuple[Tensor, int]:
        rows, *sizes = self._layout.shape
        bits, count = self._quantizer.dtype.bits, prod(sizes)
        if count * bits % 8:  # a byte holds integers of two rows
            return super()._rows_of_bytes()
        size = rows * count * bits // 8
        table = self._bytes if self._bytes._layout.size == size else self._bytes[:size]
        return table.reshape(rows, count * bits // 8), bits

    def int_repr(self) -> Tensor:
        """A copy of the bytes that hold the integers, a vector."""
        return self._bytes[: byte_count(self._layout.shape, self._quantizer.dtype.bits)].clone()

    def __reduce_ex__(self, protocol: int) -> tuple:
        _, parts = super().__reduce_ex__(protocol)
        return _rebuild_packed, (self._bytes, tuple(self._layout.shape), *parts[1:])


def byte_count(shape: Sequence[int], bits: int) -> int:
    """The number of bytes that hold the integers of a tensor."""
    return (prod(shape) * bits + 7) // 8


def pack(integers: Tensor, bits: int) -> Tensor:
    """Integers of few bits as a vector of bytes, the first one in the low bits."""
    flat, per_byte = integers.reshape(-1), 8 // bits
    size = byte_count(flat.shape, bits)
    if size * per_byte > flat.numel():
        padded = flat.new_zeros(size * per_byte)
        padded[: flat.numel()] = flat
        flat = padded
    shifts = flat.new_tensor(list(range(0, 8, bits)))
    return (flat.reshape(size, per_byte) << shifts).sum(1, dtype=dtypes.uint8)


def unpack(packed: Tensor, bits: int) -> Tensor:
    """The integers of bytes, (…, bytes) -> (…, integers)."""
    shifts = packed.new_tensor(list(range(0, 8, bits)))
    return ((packed[..., None] >> shifts) & (2**bits - 1)).flatten(-2)


QuantizedTensor.recordable = True  # its overrides end in ops on plain tensors


def _any(tensor: Tensor) -> bool:
    return bool(data_of(tensor).any())


def wrap_integers(integers: Tensor, quantizer: Quantizer) -> QuantizedTensor:
    """The quantized tensor of these integers, over the same memory; of less than 8 bits, of a packed copy."""
    if quantizer.dtype.bits < 8:
        return wrap_bytes(pack(integers, quantizer.dtype.bits), integers.shape, quantizer)
    if not overrides.is_installed:
        overrides.install()
    result = object.__new__(QuantizedTensor)
    fields_of(result).update(
        _storage=integers._storage, _layout=integers._layout, _offset=integers._offset, _integers=integers,
        _quantizer=quantizer,
    )  # fmt: skip
    return result


def wrap_bytes(packed: Tensor, shape: Sequence[int], quantizer: Quantizer) -> PackedTensor:
    """The quantized tensor of this shape whose integers these bytes hold, over the same memory."""
    if not overrides.is_installed:
        overrides.install()
    result = object.__new__(PackedTensor)
    fields_of(result).update(
        _storage=packed._storage, _layout=layout(tuple(shape), packed.dtype, packed.device), _offset=packed._offset,
        _bytes=packed, _quantizer=quantizer,
    )  # fmt: skip
    return result


def _rebuild(integers: Tensor, *parts: object) -> QuantizedTensor:
    return wrap_integers(integers, Quantizer(*parts))


def _rebuild_packed(packed: Tensor, shape: tuple[int, ...], *parts: object) -> PackedTensor:
    return wrap_bytes(packed, shape, Quantizer(*parts))


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
