"""Layout: shape, strides, dtype and device of a tensor.

Layouts are interned, so that plans can be keyed by identity.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from operator import index
from typing import SupportsIndex, overload

from ..dtypes import dtype as DType
from .device import Device

_MAX_LAYOUTS = 1 << 14  # number of interned layouts beyond which the table is cleared, which costs only time
_interned: dict[tuple, Layout] = {}


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple of ints that prints as PyTorch's.

    Example:

        >>> torch.Size([2, 3]).numel()
        6
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[int] = ()) -> Size:
        """Raises TypeError for a size that is not an integer."""
        size = tuple.__new__(cls, sizes)
        for k, item in enumerate(size):
            if type(item) is not int:
                if not hasattr(item, "__index__"):
                    raise TypeError(f"numod.Size() takes an iterable of 'int' (item {k} is '{type(item).__name__}')")
                return tuple.__new__(cls, [index(n) for n in size])
        return size

    def numel(self) -> int:
        """Product of the sizes: the number of elements."""
        return prod(self)

    def __repr__(self) -> str:
        return f"numod.Size({list(self)})"

    def __add__(self, other: tuple) -> Size:
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: tuple) -> Size:
        return Size(tuple.__add__(tuple(other), self))

    def __mul__(self, times: int) -> Size:
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    @overload
    def __getitem__(self, item: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, item: slice) -> Size: ...
    def __getitem__(self, item: SupportsIndex | slice) -> int | Size:
        sizes = tuple.__getitem__(self, item)
        return Size(sizes) if isinstance(item, slice) else sizes


class Layout:
    """Shape, strides (in elements), dtype and device of a tensor.

    `dense`: row-major without gaps. `packed`: without gaps in some order of the dimensions. `overlapping`: two indices
    may share an element. `extent`: elements of storage from the first to the last one touched. `is_host_number`: one
    element in the host's memory, whose stored value is the Python number. Make one with `layout()`.
    """

    __slots__ = (
        "shape", "strides", "dtype", "device", "ndim", "size", "dense", "packed", "storage", "overlapping", "extent",
        "is_host_number", "__weakref__",
    )  # fmt: skip
    batch = None  # the vmap batch that the tensor belongs to (see `func.examples`)

    def __init__(self, shape: Size, strides: tuple[int, ...], dtype: DType, device: Device) -> None:
        self.shape, self.strides, self.dtype, self.device = shape, strides, dtype, device
        self.ndim, self.size, self.storage = len(shape), prod(shape), dtype.storage
        self.dense = self.size == 0 or _same_walk(shape, strides, dense_strides(shape))
        self.packed = self.dense or _is_packed(shape, strides)
        self.overlapping = not self.packed and _overlapping(shape, strides)
        self.extent = 1 + sum((n - 1) * s for n, s in zip(shape, strides)) if self.size else 0
        self.is_host_number = self.size == 1 and device.type == "cpu" and dtype.compute is dtype and dtype.kind != "b"


def _overlapping(shape: tuple, strides: tuple) -> bool:
    """Whether two indices may share an element: exact for expanded and sliced tensors, else conservative."""
    extent = 0
    for stride, n in sorted((s, n) for n, s in zip(shape, strides) if n > 1):
        if stride <= extent:
            return True
        extent += stride * (n - 1)
    return False


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements; sizes of 0 count as 1, as in PyTorch."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n or 1
    return tuple(reversed(strides))


def ordered_strides(shape: tuple[int, ...], *strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides without gaps for the result of tensors with these strides, as PyTorch's TensorIterator chooses them.

    The first tensor with different nonzero strides in two dimensions decides their order.
    """
    order = list(reversed(range(len(shape))))  # innermost dimension first
    for k in range(1, len(order)):
        for j in range(k - 1, -1, -1):
            compared = _compared(shape, strides, order[j], order[j + 1])
            if compared < 0:
                break
            if compared:
                order[j], order[j + 1] = order[j + 1], order[j]
    result, step = [0] * len(shape), 1
    for d in order:
        result[d], step = step, step * (shape[d] or 1)
    return tuple(result)


def _compared(shape: tuple[int, ...], strides: tuple[tuple[int, ...], ...], inner: int, outer: int) -> int:
    """-1 if dimension `inner` should have the smaller stride, 1 if `outer` should, 0 if no tensor decides."""
    for stride in strides:
        if stride[inner] and stride[outer]:
            if stride[inner] != stride[outer]:
                return -1 if stride[inner] < stride[outer] else 1
            if shape[inner] > shape[outer]:
                return 1
    return 0


def layout(shape: tuple[int, ...], dtype: DType, device: Device, strides: tuple[int, ...] | None = None) -> Layout:
    """The interned layout of these properties; dense if no strides are given."""
    key = (shape, strides, dtype, device)
    interned = _interned.get(key)
    if interned is None:
        if len(_interned) >= _MAX_LAYOUTS:
            _interned.clear()
        size = _checked(shape)
        steps = dense_strides(size) if strides is None else tuple([int(index(s)) for s in strides])
        full_key = size, steps, dtype, device
        # two threads get the same object
        interned = _interned.get(full_key) or _interned.setdefault(full_key, Layout(size, steps, dtype, device))
        _interned[key] = interned
    return interned


def _checked(shape: tuple[int, ...]) -> Size:
    """The shape with each size as an int.

    Raises TypeError for a size that is not an integer, RuntimeError if one is negative or their product exceeds int64.
    """
    size = Size([int(index(n)) for n in shape])
    if min(size, default=0) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    if prod([n for n in size if n]) >= 1 << 63:
        raise RuntimeError(
            f"numel: integer multiplication overflow: sizes {list(size)} have more elements than an int64 can count"
        )
    return size


def same(a: Layout, b: Layout) -> bool:
    """Whether two layouts are equal: usually one object, unless the table was cleared between them."""
    return a is b or (a.shape, a.strides, a.dtype, a.device) == (b.shape, b.strides, b.dtype, b.device)


def same_elements(a: Layout, b: Layout) -> bool:
    """Whether two layouts have the same elements at the same places: strides of sizes of 1 do not matter."""
    same_kind = (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)
    return a is b or (same_kind and (not a.size or _same_walk(a.shape, a.strides, b.strides)))


def _same_walk(shape: tuple, strides: tuple, expected: tuple) -> bool:
    return all(s == w or n == 1 for n, s, w in zip(shape, strides, expected))


def _is_packed(shape: tuple, strides: tuple) -> bool:
    step = 1
    for stride, n in sorted((s, n) for n, s in zip(shape, strides) if n > 1):
        if stride != step:
            return False
        step *= n
    return True
