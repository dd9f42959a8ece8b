"""Shape arithmetic: operators on small NumPy arrays, run by Python and not recorded.

These run if all inputs of a node are arrays: constants, and results of Shape and Size.
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from numod.dtypes import dtype as Dtype

from ..registry import on_host
from .shape import sizes, slices, unsqueezed

_MAX_ELEMENTS = 4096  # of results that stay arrays; larger ones are tensors
for _names, _function in {
    "Abs": np.abs,
    "Ceil": np.ceil,
    "Floor": np.floor,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Sqrt": np.sqrt,
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
    "GreaterOrEqual": np.greater_equal,
    "LessOrEqual": np.less_equal,
}.items():

    def _compute(*inputs: np.ndarray, _function: np.ufunc = _function, **attributes: object) -> object:
        """The operator for arrays. Versions with attributes for broadcasting do not occur in shape arithmetic."""
        return (
            NotImplemented
            if attributes or any(tensor.dtype == object for tensor in inputs)
            else np.asarray(_function(*inputs))
        )

    on_host(_names)(_compute)


@on_host("Div")
def divide(a: np.ndarray, b: np.ndarray) -> object:
    """Quotient; of integers rounded towards zero."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    if not np.all(b):
        raise ZeroDivisionError("division by zero in shape arithmetic")
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))).astype(a.dtype)


@on_host("Mod")
def modulo(a: np.ndarray, b: np.ndarray, fmod: int = 0) -> object:
    """Remainder."""
    return NotImplemented if fmod or not np.all(b) else np.asarray(np.mod(a, b))


@on_host("Max")
def maximum(*inputs: np.ndarray) -> np.ndarray:
    """The largest of each place."""
    return np.asarray(reduce(np.maximum, inputs))


@on_host("Min")
def minimum(*inputs: np.ndarray) -> np.ndarray:
    """The smallest of each place."""
    return np.asarray(reduce(np.minimum, inputs))


@on_host("Where")
def where(condition: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`a` where the condition holds, else `b`."""
    return np.where(condition, a, b)


@on_host("Cast")
def cast(x: np.ndarray, to: Dtype | str, **others: object) -> object:
    """`x` in another dtype; bfloat16 is for tensors."""
    known = isinstance(to, Dtype) and to.numpy is not None and x.dtype != object
    fits = known and (x.dtype.kind != "f" or to.is_floating_point or np.all(np.abs(x) < 2**31))
    return x.astype(to.numpy) if fits else NotImplemented


@on_host("Gather")
def gather(x: np.ndarray, index: np.ndarray, axis: int = 0) -> np.ndarray:
    """Elements along an axis. Raises IndexError outside the range."""
    return np.asarray(np.take(x, index, axis))


@on_host("Concat")
def concat(*arrays: np.ndarray, axis: int = 1) -> np.ndarray:
    """Arrays one after another."""
    return np.concatenate(arrays, axis)


@on_host("Unsqueeze")
def unsqueeze(x: np.ndarray, axes: np.ndarray | list) -> np.ndarray:
    """With new axes of size 1."""
    return x.reshape(unsqueezed(x.shape, sizes(np.asarray(axes))))


@on_host("Squeeze")
def squeeze(x: np.ndarray, axes: np.ndarray | list | None = None) -> np.ndarray:
    """Without axes of size 1."""
    return np.squeeze(x, None if axes is None else sizes(np.asarray(axes)))


@on_host("Slice")
def slice_(
    x: np.ndarray,
    starts: np.ndarray | list,
    ends: np.ndarray | list,
    axes: np.ndarray | list | None = None,
    steps: np.ndarray | None = None,
) -> np.ndarray:
    """Ranges along axes."""
    axes = None if axes is None else np.asarray(axes)
    index = [slice(None)] * x.ndim
    for axis, start, end, step in slices(x.shape, np.asarray(starts), np.asarray(ends), axes, steps):
        index[axis] = slice(start, end, step)
    return x[tuple(index)]


@on_host("Reshape")
def reshape(x: np.ndarray, shape: np.ndarray, allowzero: int = 0) -> object:
    """Another shape, without sizes that are copied."""
    return NotImplemented if 0 in shape else x.reshape(sizes(shape))


@on_host("Transpose")
def transpose(x: np.ndarray, perm: list[int] | None = None) -> np.ndarray:
    """The axes in another order."""
    return x.transpose(perm)


@on_host("ReduceProd")
def reduce_prod(x: np.ndarray, *axes: np.ndarray, **attributes: object) -> object:
    """The product of all elements, which is the size of a part of a shape."""
    if axes or attributes.get("axes") not in (None, [0]) or x.ndim != 1:
        return NotImplemented
    keepdims = bool(attributes.get("keepdims", 1))
    return np.asarray(x.prod(keepdims=keepdims, dtype=x.dtype))


@on_host("ConstantOfShape")
def constant_of_shape(shape: np.ndarray, value: np.ndarray | None = None) -> object:
    """A list of equal numbers; other shapes are for tensors."""
    integers = isinstance(value, np.ndarray) and value.dtype.kind in "iub"
    return (
        np.full(sizes(shape), value.reshape(())) if integers and shape.size == 1 and shape[0] <= 64 else NotImplemented
    )


@on_host("Expand")
def expand(x: np.ndarray, shape: np.ndarray) -> object:
    """Broadcast against a shape."""
    target = np.broadcast_shapes(x.shape, sizes(shape))
    return np.broadcast_to(x, target).copy() if math.prod(target) <= _MAX_ELEMENTS else NotImplemented


@on_host("Tile")
def tile(x: np.ndarray, *repeats: np.ndarray) -> object:
    """Copies beside each other."""
    if len(repeats) != 1 or math.prod(sizes(repeats[0])) * x.size > _MAX_ELEMENTS:
        return NotImplemented
    return np.tile(x, sizes(repeats[0]))


@on_host("Split")
def split(x: np.ndarray, *sizes_: np.ndarray, axis: int = 0, **attributes: object) -> object:
    """Parts of given sizes along an axis."""
    lengths = sizes(sizes_[0]) if sizes_ and sizes_[0] is not None else attributes.get("split")
    if not lengths or sum(lengths) != x.shape[axis]:
        return NotImplemented
    return tuple(np.split(x, np.cumsum(lengths)[:-1], axis))
