"""Shapes and arrangement of elements."""

from __future__ import annotations

import math

import numpy as np

import numod
import numod.nn.functional as F

from ... import dtypes
from ...core import Tensor
from ...dtypes import dtype
from ..registry import operator
from ..tensors import as_array


def sizes(values: np.ndarray) -> tuple[int, ...]:
    """The numbers of an array, as sizes of numod's."""
    return tuple(int(value) for value in values.reshape(-1))


@operator("Identity", raw=True)
def identity(x: object) -> object:
    """The input."""
    return x


@operator("Reshape", since=1)
def reshape_in_old_version(x: Tensor, *, shape: list[int], consumed_inputs: list[int] | None = None) -> Tensor:
    """Before version 5 the shape is an attribute."""
    return reshape(x, np.array(shape))


@operator("Reshape", since=5, host="shape")
def reshape(x: Tensor, shape: np.ndarray, *, allowzero: int = 0) -> Tensor:
    """Another shape; 0 is the size at the same place unless `allowzero`, -1 the remaining size."""
    shape = sizes(shape)
    if not allowzero:
        if any(size == 0 and axis >= x.ndim for axis, size in enumerate(shape)):
            raise ValueError(f"a size 0 of {list(shape)} copies a size that the input {list(x.shape)} does not have")
        shape = tuple(size or x.shape[axis] for axis, size in enumerate(shape))
    return x.reshape(shape)


@operator("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """A matrix: the axes before `axis` are its rows."""
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@operator("Transpose")
def transpose(x: Tensor, *, perm: list[int] | None = None) -> Tensor:
    """The axes in the order `perm`, or reversed."""
    return x.permute(tuple(range(x.ndim))[::-1] if perm is None else tuple(perm))


@operator("Squeeze", since=1)
def squeeze_in_old_version(x: Tensor, *, axes: list[int] | None = None) -> Tensor:
    """Before version 13 the axes are an attribute."""
    return squeeze(x, None if axes is None else np.array(axes))


@operator("Squeeze", since=13, host="axes")
def squeeze(x: Tensor, axes: np.ndarray | None = None) -> Tensor:
    """Without the axes, which have size 1; all such by default."""
    if axes is None:
        return x.squeeze()
    for axis in sizes(axes):
        if x.shape[axis] != 1:
            raise ValueError(f"axis {axis} of shape {list(x.shape)} does not have size 1")
    return x.squeeze(sizes(axes))


@operator("Unsqueeze", since=1)
def unsqueeze_in_old_version(x: Tensor, *, axes: list[int]) -> Tensor:
    """Before version 13 the axes are an attribute."""
    return unsqueeze(x, np.array(axes))


@operator("Unsqueeze", since=13, host="axes")
def unsqueeze(x: Tensor, axes: np.ndarray) -> Tensor:
    """With new axes of size 1 at these places of the result."""
    return x.reshape(unsqueezed(tuple(x.shape), sizes(axes)))


def unsqueezed(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """`shape` with sizes 1 at the places `axes` of the result."""
    ndim = len(shape) + len(axes)
    places = {axis + ndim if axis < 0 else axis for axis in axes}
    if len(places) != len(axes) or not all(0 <= dim < ndim for dim in places):
        raise ValueError(f"axes {list(axes)} are repeated, or outside the result's {ndim} dimensions")
    remaining = iter(shape)
    return tuple(1 if dim in places else next(remaining) for dim in range(ndim))


@operator("Concat", since=1)
def concat_in_old_version(*tensors: Tensor, axis: int = 1) -> Tensor:
    """Before version 4 the axis is 1 by default."""
    return numod.cat(tensors, axis)


@operator("Concat", since=4)
def concat(*tensors: Tensor, axis: int) -> Tensor:
    """Tensors one after another along an axis."""
    return numod.cat(tensors, axis)


@operator("Split", since=1, host="lengths")
def split_in_first_version(
    x: Tensor, lengths: np.ndarray | None = None, *, axis: int = 0, split: list[int] | None = None, outputs: int
) -> tuple:
    """In version 1 the sizes are an input or an attribute."""
    return _split(x, split if lengths is None else sizes(lengths), axis, outputs)


@operator("Split", since=2)
def split_in_old_version(x: Tensor, *, axis: int = 0, split: list[int] | None = None, outputs: int) -> tuple:
    """Before version 13 the sizes are an attribute."""
    return _split(x, split, axis, outputs)


@operator("Split", since=13, host="lengths")
def split(
    x: Tensor, lengths: np.ndarray | None = None, *, axis: int = 0, num_outputs: int | None = None, outputs: int
) -> tuple:
    """Parts along an axis, of the sizes or as equal as can be; the last is then the smallest."""
    return _split(x, None if lengths is None else sizes(lengths), axis, num_outputs or outputs)


def _split(x: Tensor, lengths: tuple | None, axis: int, count: int) -> tuple:
    if lengths is None:
        size = x.shape[axis]
        chunk = -(-size // count)
        lengths = [max(0, min(chunk, size - k * chunk)) for k in range(count)]
    if sum(lengths) != x.shape[axis]:
        raise ValueError(f"parts of {list(lengths)} elements do not add up to {x.shape[axis]}, the size of axis {axis}")
    return tuple(numod.split(x, list(lengths), axis))


@operator("Slice", since=1)
def slice_in_old_version(x: Tensor, *, starts: list[int], ends: list[int], axes: list[int] | None = None) -> Tensor:
    """Before version 10 starts and ends are attributes."""
    return slice_(x, np.array(starts), np.array(ends), None if axes is None else np.array(axes))


@operator("Slice", since=10, host="starts ends axes steps")
def slice_(
    x: Tensor,
    starts: np.ndarray,
    ends: np.ndarray,
    axes: np.ndarray | None = None,
    steps: np.ndarray | None = None,
) -> Tensor:
    """Ranges along axes; ends are clamped as Python clamps them, steps may be negative."""
    index: list[slice] = [slice(None)] * x.ndim
    reversed_axes = []
    for axis, start, end, step in slices(tuple(x.shape), starts, ends, axes, steps):
        if step < 0:  # the same elements, in ascending order
            places = range(*slice(start, end, step).indices(x.shape[axis]))[::-1]
            start, end, step = places.start, places.stop, places.step
            start, end = (start, end) if len(places) else (0, 0)
            reversed_axes.append(axis)
        index[axis] = slice(start, end, step)
    x = x[tuple(index)]
    return x.flip(reversed_axes) if reversed_axes else x


def slices(shape: tuple, starts: np.ndarray, ends: np.ndarray, axes: np.ndarray | None, steps: np.ndarray | None):
    """Each axis with its start, end and step, as Python's `slice` takes them."""
    places = range(starts.size) if axes is None else sizes(axes)
    strides = [1] * starts.size if steps is None else sizes(steps)
    return [
        (axis, start, None if step < 0 and end < -shape[axis] else end, step)
        for axis, start, end, step in zip(places, sizes(starts), sizes(ends), strides)
    ]


@operator("Expand", since=8, host="shape")
def expand(x: Tensor, shape: np.ndarray) -> Tensor:
    """Broadcast against a shape."""
    target = np.broadcast_shapes(tuple(x.shape), sizes(shape))
    return x.expand(target)


@operator("Tile", since=1, host="tiles axis")
def tile_in_old_version(x: Tensor, tiles: np.ndarray, axis: np.ndarray) -> Tensor:
    """Before version 6 along one axis."""
    repeats = np.ones(x.ndim, np.int64)
    repeats[int(axis.reshape(()))] = int(tiles.reshape(()))
    return tile(x, repeats)


@operator("Tile", since=6, host="repeats")
def tile(x: Tensor, repeats: np.ndarray) -> Tensor:
    """Copies beside each other, so many along each axis."""
    return x.repeat(sizes(repeats)) if x.ndim else x.clone()


@operator("Shape", since=1, raw=True)
def shape(x: object, *, start: int = 0, end: int | None = None) -> np.ndarray:
    """The sizes of the axes from `start` to `end`."""
    return np.array(x.shape[slice(start, end)], np.int64)


@operator("Size", raw=True)
def size(x: object) -> np.ndarray:
    """The number of elements."""
    return np.array(math.prod(x.shape), np.int64)


@operator("Constant", raw=True)
def constant(
    *,
    value: np.ndarray | None = None,
    value_float: float | None = None,
    value_floats: list[float] | None = None,
    value_int: int | None = None,
    value_ints: list[int] | None = None,
    value_string: str | None = None,
    value_strings: list[str] | None = None,
) -> object:
    """The value of the one attribute that the node has."""
    forms = (
        (value, None),
        (value_float, np.float32),
        (value_floats, np.float32),
        (value_int, np.int64),
        (value_ints, np.int64),
        (value_string, object),
        (value_strings, object),
    )
    content = [(content, kind) for content, kind in forms if content is not None]
    if len(content) != 1:
        raise ValueError(f"a constant has one value, got {len(content)}")
    return content[0][0] if content[0][1] is None else np.array(content[0][0], content[0][1])


@operator("ConstantOfShape", since=9, host="shape")
def constant_of_shape(shape: np.ndarray, *, value: np.ndarray | None = None) -> Tensor:
    """One value, 0 by default, in a shape."""
    if value is None:
        return numod.zeros(sizes(shape))
    if isinstance(value, Tensor):
        return value.reshape(()).expand(sizes(shape)).clone()
    return numod.full(sizes(shape), value.item(), dtype=dtypes.from_numpy(value.dtype))


@operator("Range", since=11, host="start limit delta")
def range_in_old_version(start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> Tensor:
    """Before version 27 no type is bfloat16, which arrays have not."""
    return range_(start, limit, delta)


@operator("Range", since=27, raw=True)
def range_(start: np.ndarray | Tensor, limit: np.ndarray | Tensor, delta: np.ndarray | Tensor) -> Tensor:
    """Numbers from start, by delta, up to but without limit."""
    dtype = start.dtype if isinstance(start, Tensor) else dtypes.from_numpy(start.dtype)
    first, last, step = (as_array(number).item() for number in (start, limit, delta))
    if dtype.is_floating_point:
        count = max(math.ceil((last - first) / step), 0)
        return (numod.arange(count) * step + first).to(dtype)
    return numod.arange(first, max(first, last) if step > 0 else min(first, last), step, dtype=dtype)


@operator("EyeLike", since=9)
def eye_like(x: Tensor, *, dtype: dtype | None = None, k: int = 0) -> Tensor:
    """Ones on the k-th diagonal of a matrix shaped as `x`, else zeros."""
    rows, columns = x.shape
    places = numod.arange(rows).unsqueeze(1) + k == numod.arange(columns)
    return places.to(dtype or x.dtype)


@operator("Trilu", since=14, host="k")
@operator("Trilu", domain="com.microsoft", host="k")
def triangle(x: Tensor, k: np.ndarray | None = None, *, upper: int = 1) -> Tensor:
    """The upper or lower triangle from the k-th diagonal on."""
    diagonal = 0 if k is None else int(k.reshape(()))
    return numod.triu(x, diagonal) if upper else numod.tril(x, diagonal)


@operator("Pad", since=1)
def pad_in_first_version(x: Tensor, *, paddings: list[int], mode: str = "constant", value: float = 0.0) -> Tensor:
    """Version 1 calls the attribute paddings."""
    return _pad(x, paddings, mode, value, None)


@operator("Pad", since=2)
def pad_in_old_version(x: Tensor, *, pads: list[int], mode: str = "constant", value: float = 0.0) -> Tensor:
    """Before version 11 pads and value are attributes."""
    return _pad(x, pads, mode, value, None)


@operator("Pad", since=11, host="pads value axes")
def pad(
    x: Tensor,
    pads: np.ndarray,
    value: np.ndarray | None = None,
    axes: np.ndarray | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    """More elements at the ends of axes (negative: fewer): constant, reflected, repeated (edge) or wrapped."""
    return _pad(x, sizes(pads), mode, 0 if value is None else value.item(), None if axes is None else sizes(axes))


def _pad(x: Tensor, pads: tuple | list, mode: str, value: float, axes: tuple | None) -> Tensor:
    axes = tuple(range(x.ndim)) if axes is None else axes
    if len(pads) != 2 * len(axes):
        raise ValueError(f"pads needs two numbers for each of {len(axes)} axes, got {len(pads)}")
    before, after = pads[: len(axes)], pads[len(axes) :]
    if mode == "constant":
        flat = [0] * (2 * x.ndim)
        for axis, low, high in zip(axes, before, after):
            dim = x.ndim - 1 - (axis + x.ndim if axis < 0 else axis)
            flat[2 * dim : 2 * dim + 2] = low, high
        return _padded_bool(x, flat, value) if x.dtype is numod.bool else F.pad(x, flat, value=value)
    for axis, low, high in zip(axes, before, after):
        if low or high:
            x = x.index_select(axis, _border(x.shape[axis], low, high, mode))
    return x


def _padded_bool(x: Tensor, flat: list[int], value: float) -> Tensor:
    return F.pad(x.to(numod.uint8), flat, value=int(value)).to(numod.bool)


def _border(size: int, low: int, high: int, mode: str) -> Tensor:
    """The index in the input of each element along a padded axis."""
    places = np.arange(-low, size + high)
    if mode == "edge":
        places = places.clip(0, size - 1)
    elif mode == "wrap":
        places %= size
    elif mode == "reflect":
        period = max(2 * (size - 1), 1)
        places = np.abs((places + size - 1) % period - (size - 1)) if size > 1 else places * 0
    else:
        raise ValueError(f"mode must be constant, reflect, edge or wrap, got {mode}")
    return numod.tensor(places.tolist())


@operator("CenterCropPad", since=18, host="shape")
def center_crop_pad(x: Tensor, shape: np.ndarray, *, axes: list[int] | None = None) -> Tensor:
    """Cut or padded with zeros around its centre to the sizes."""
    pads_before, pads_after = [], []
    places = list(range(x.ndim)) if axes is None else axes
    for axis, length in zip(places, sizes(shape)):
        excess = x.shape[axis] - length
        low = -(excess // 2) if excess > 0 else -excess // 2
        pads_before.append(low)
        pads_after.append(-excess - low)
    return _pad(x, [*pads_before, *pads_after], "constant", 0, tuple(places))


@operator("DepthToSpace", since=1)
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Channels to blocks of pixels: depth-column-row, or column-row-depth."""
    n, c, h, w = x.shape
    b = blocksize
    if mode == "CRD":
        return x.reshape(n, c // b**2, b, b, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, c // b**2, h * b, w * b)
    return x.reshape(n, b, b, c // b**2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)


@operator("SpaceToDepth", since=1)
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of pixels to channels, the inverse of DepthToSpace."""
    n, c, h, w = x.shape
    b = blocksize
    blocks = x.reshape(n, c, h // b, b, w // b, b)
    order = (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)
    return blocks.permute(order).reshape(n, c * b**2, h // b, w // b)


@operator("ReverseSequence", since=10)
def reverse_sequence(x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """The first elements of each sequence reversed, as many as its length."""
    steps = x.shape[time_axis]
    places = numod.arange(steps).reshape([-1 if axis == time_axis else 1 for axis in range(x.ndim)])
    ends = lengths.reshape([-1 if axis == batch_axis else 1 for axis in range(x.ndim)])
    index = numod.where(places < ends, ends - 1 - places, places)
    return x.gather(time_axis, index.expand(x.shape))
