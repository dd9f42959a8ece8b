"""`x[index]` and `x[index] = value`.

Ints, slices, None and Ellipsis make views; index tensors and masks become linear indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ...errors import warn_caller
from ... import dtypes
from ...device import Layout
from ...ops.index import indexing as ix
from ...ops.reduce import reduction as r
from ...ops import table as t, view as v
from ..apply import apply, as_tensor_of, observed
from ..listeners import active_listeners, listeners, notify_copied
from ..create.creation import constant
from ..convert.copies import contiguous, copy_
from ..math.in_place import memory_of
from ..create.ranges import arange
from ..resolve import resolved
from .selection import _places_of, check_bounds, index_select, read, write
from ..shape.parts import select
from ..shape.shapes import expand, flatten, reshape, unsqueeze
from ..tensor import Tensor
from ..create.values import as_tensor, tensor


def getitem(self: Tensor, index: object) -> Tensor:
    """`x[index]`: a view for ints, slices, None and Ellipsis, else a copy."""
    if isinstance(index, int) and not isinstance(index, bool):
        if not self.ndim:
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a Python number"
            )
        return select(self, 0, index)
    if index.__class__ is list and index and set(map(type, index)) == {int}:
        index = tensor(index, device=self.device)
    if (
        isinstance(index, Tensor)
        and index._layout.dtype is dtypes.int64
        and index._layout.ndim
        and self._layout.ndim
        and index.device is self.device
    ):
        return read(self, 0, check_bounds("", index, self.shape[0], 0, negative=True))
    view, tensors = _basic_view(self, index if index.__class__ is tuple else (index,)), None
    if view is None or view is self:
        view, tensors = _basic(self, index)
    if not tensors:
        return view
    if not listeners or any([tensor.ndim for tensor in tensors.values()]):
        return _gathered(view, tensors)
    # a recorded program has a copy instead of the view
    index_tensors = {dim: tensor.clone() for dim, tensor in tensors.items()}
    result = _gathered(view, index_tensors)
    back = lambda: put(view, index_tensors, result, accumulate=False)  # noqa: E731
    return notify_copied(
        result, view, lambda: _gathered(view, index_tensors), back, lambda: _selected(view, index_tensors)
    )


def _selected(view: Tensor, index_tensors: dict[int, Tensor]) -> Tensor:
    """The view for index tensors without dimensions, whose numbers are read."""
    for dim in sorted(index_tensors, reverse=True):
        view = select(view, dim, index_tensors[dim].item())
    return view


def _basic_view(self: Tensor, items: tuple) -> Tensor | None:
    """Fast path: the view for an index of ints, slices, None and one Ellipsis; None for other indices."""
    used = ellipses = 0
    for item in items:
        if item.__class__ is int or item.__class__ is slice:
            used += 1
        elif item is Ellipsis:
            ellipses += 1
        elif item is not None:
            return None
    if used > self._layout.ndim or ellipses > 1:
        return None
    result, dim = self, 0
    for item in items:
        if item.__class__ is int:
            try:
                result = select(result, dim, item)
            except IndexError:
                raise _out_of_bounds(self, items) from None
        elif item.__class__ is slice:
            result, dim = _slice(result, dim, item), dim + 1
        elif item is None:
            result, dim = unsqueeze(result, dim), dim + 1
        else:
            dim += self._layout.ndim - used
    return result


def _out_of_bounds(self: Tensor, items: tuple) -> IndexError:
    """The error for the first int of an index that is out of range, with the tensor's dimension."""
    dim, used = 0, sum(map(_dimensions_used, items))
    for item in items:
        if isinstance(item, int) and not isinstance(item, bool) and not -(n := self.shape[dim]) <= item < n:
            return IndexError(f"index {item} is out of bounds for dimension {dim} with size {n}")
        dim += self.ndim - used if item is Ellipsis else _dimensions_used(item)
    return IndexError(f"index {items} is out of bounds for a tensor of shape {list(self.shape)}")


def setitem(self: Tensor, index: object, value: object) -> None:
    """`x[index] = value`: value broadcasts and is converted to the dtype of x."""
    if _is_fill(self, index, value):
        self.masked_fill_(
            index if index.ndim == self.ndim else reshape(index, (*index.shape, *(1,) * (self.ndim - index.ndim))),
            value,
        )
        return
    view = _basic_view(self, index if index.__class__ is tuple else (index,))
    view, tensors = _basic(self, index) if view is None or view is self else (view, {})
    # a number fills the view; `fill_` converts values that `copy_` refuses, as in PyTorch
    if value.__class__ in (int, float, complex) and (tensors or not view._layout.overlapping):
        if not tensors:
            view.fill_(value)
            return
        put(view, tensors, dtypes.fitting(value, self.dtype), accumulate=False)
        return
    if not isinstance(value, Tensor):  # a float64 tensor keeps the precision of Python numbers
        value = as_tensor(value, dtype=dtypes.float64 if self.dtype is dtypes.float64 else None, device=self.device)
    elif (
        value.dtype is not self.dtype
        and any(tensor.ndim for tensor in tensors.values())
        and not (value.numel() == 1 and _has_mask(index))
    ):
        raise RuntimeError(_mismatch(self, value))
    value = value if value.dtype is self.dtype else value.to(self.dtype)
    value = value if value.device is self.device else value.to(device=self.device)
    if not tensors:
        copy_(view, _without_leading_ones(value, view.ndim))
    else:
        put(view, tensors, value, accumulate=False)


def _is_fill(self: Tensor, index: object, value: object) -> bool:
    """Whether an assignment writes one number, which the dtype can represent, where a mask is true."""
    if (
        not isinstance(index, Tensor)
        or index.dtype is not dtypes.bool_
        or not isinstance(value, (int, float))
        or index.device is not self.device
    ):
        return False
    return (
        index.ndim > 0
        and index.shape == self.shape[: index.ndim]
        and (self.is_floating_point() or (self.dtype is dtypes.int64 and isinstance(value, int)))
    )


def _has_mask(index: object) -> bool:
    return any(
        isinstance(item, Tensor) and item.dtype in (dtypes.bool_, dtypes.uint8)
        for item in (index if isinstance(index, tuple) else (index,))
    )


def _mismatch(self: Tensor, value: Tensor) -> str:
    return (
        f"Index put requires the source and destination dtypes match, got {self.dtype.short} for the destination and "
        f"{value.dtype.short} for the source. "
        "Convert it first: .to(x.dtype)"
    )


def _without_leading_ones(value: Tensor, ndim: int) -> Tensor:
    while value.ndim > ndim and value.shape[0] == 1:
        value = value.squeeze(0)
    if value.ndim > ndim:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to indexing result of "
            f"{ndim} dimensions"
        )
    return value


def _basic(self: Tensor, index: object) -> tuple[Tensor, dict[int, Tensor]]:
    """The view for the basic items, and the remaining index tensors by dimension of that view."""
    index_items, self_layout = index if index.__class__ is tuple else (index,), self._layout
    if 0 < len(index_items) <= self_layout.ndim and all(
        [
            isinstance(item, Tensor)
            and (item_layout := item._layout).dtype is dtypes.int64
            and item_layout.ndim
            and item_layout.device is self_layout.device
            for item in index_items
        ]
    ):
        if len(index_items) > 1 and not self_layout.device.backend.is_gpu:
            return self, {0: Multi(_linear(self_layout, index_items), len(index_items))}
        return self, _checked(self_layout, index_items)
    if (
        isinstance(index, Tensor)
        and index.dtype is dtypes.bool_
        and 0 < index.ndim <= self.ndim
        and index.device is self.device
    ):
        view, places = _masked(self, 0, index)
        return view, {0: places}
    items = list(index) if isinstance(index, tuple) or _is_list_of_indices(index) else [index]
    items = _zero_dim_as_ints([_as_index(item, self) for item in items])
    used = sum(map(_dimensions_used, items))
    if used > self.ndim:
        raise IndexError(f"too many indices for tensor of dimension {self.ndim}: got {used}")
    if any(item is Ellipsis for item in items):
        position = next(k for k, item in enumerate(items) if item is Ellipsis)
        # further ones have no effect
        items[position + 1 :] = [item for item in items[position + 1 :] if item is not Ellipsis]
        items[position : position + 1] = [slice(None)] * (self.ndim - used)
    result, dim, tensors = self, 0, {}
    for item in items:
        if item is None:
            result, dim = unsqueeze(result, dim), dim + 1
        elif isinstance(item, bool):
            result, tensors[dim] = unsqueeze(result, dim), arange(int(item), device=self.device)
            dim += 1
        elif isinstance(item, int):
            try:
                result = select(result, dim, item)
            except IndexError:
                raise _out_of_bounds(self, items) from None
        elif isinstance(item, slice):
            result, dim = _slice(result, dim, item), dim + 1
        elif item.dtype is dtypes.bool_:
            result, tensors[dim] = _masked(result, dim, item)
            dim += max(1, item.ndim)
        else:
            tensors[dim] = check_bounds("", item.to(dtypes.int64), result.shape[dim], dim, negative=True)
            dim += 1
    if result is self and not tensors:
        result = self.view(self.shape)
    return result, tensors


def _checked(input_layout: Layout, index_tensors: tuple[Tensor, ...]) -> dict[int, Tensor]:
    """The index tensors of the first dimensions, checked for range."""
    return {
        dim: check_bounds("", index_tensor, n, dim, negative=True)
        for dim, (index_tensor, n) in enumerate(zip(index_tensors, input_layout.shape))
    }


def _linear(input_layout: Layout, index_tensors: tuple[Tensor, ...]) -> Tensor:
    """The index tensors of the first dimensions as one linear index into these dimensions.

    Bounds of the linear index are checked; only if that fails each tensor is checked, for the message.
    """
    linear, size = index_tensors[0], input_layout.shape[0]
    for index_tensor, n in zip(index_tensors[1:], input_layout.shape[1:]):
        try:
            linear = t.linear_place(linear, index_tensor, size, n)
        except RuntimeError:
            raise _not_broadcast(index_tensors) from None
        size *= n
        if (
            linear._layout.size
            and input_layout.device.type != "meta"
            and observed(r.fused_map_reduce(t.bounds), (linear, 0, size), (1,))
        ):
            _checked(input_layout, index_tensors)
    return linear


def _not_broadcast(index_tensors: Sequence[Tensor]) -> IndexError:
    shapes = ", ".join(str(list(position.shape)) for position in index_tensors)
    return IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}")


def _zero_dim_as_ints(items: list) -> list:
    """The items, with zero-dimensional integer tensors converted to ints, which make views.

    While a program is recorded, or for tensors batched by vmap, values must not be read; these tensors gather a copy
    instead. Next to index tensors with dimensions they are read anyway: an int and a tensor place the result's
    dimensions differently.
    """
    tensor_positions = [k for k, item in enumerate(items) if isinstance(item, Tensor)]
    adjacent = len(tensor_positions) < 2 or tensor_positions[-1] - tensor_positions[0] < len(tensor_positions)
    unreadable = (
        listeners and any(hasattr(active_listener, "observe") for active_listener in active_listeners())
    ) or any(items[k]._layout.batch is not None for k in tensor_positions)
    if all(items[k].ndim for k in tensor_positions) or (adjacent and unreadable):
        return items
    return [
        int(item._observe()) if isinstance(item, Tensor) and not item.ndim and item.dtype is not dtypes.bool_ else item
        for item in items
    ]


def _is_list_of_indices(index: object) -> bool:
    """Whether a list means a tuple of indices, as PyTorch treats lists that contain sequences, tensors or slices."""
    is_list = (
        isinstance(index, list)
        and len(index) < 32
        and any(item is None or item is Ellipsis or isinstance(item, (list, tuple, slice, Tensor)) for item in index)
    )
    if is_list:
        warn_caller(
            "Using a non-tuple sequence for multidimensional indexing is deprecated; use "
            "x[tuple(seq)] instead of x[seq], or x[numod.tensor(seq)] for a tensor index."
        )
    return is_list


def _dimensions_used(item: object) -> int:
    """Number of the tensor's dimensions that an index item consumes."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.ndim if isinstance(item, Tensor) and item.dtype is dtypes.bool_ else 1


def _as_index(element: object, self: Tensor) -> object:
    """An index item converted to None, Ellipsis, bool, int, slice or a tensor."""
    if (number := as_tensor_of(element)) is not None and number.dtype is dtypes.int64:
        return number
    if element is None or element is Ellipsis or isinstance(element, (bool, slice)):
        return element
    element = list(element) if isinstance(element, range) else element
    if isinstance(element, np.ndarray) and not element.ndim:
        return _as_index(element.item(), self)
    if isinstance(element, (list, tuple, np.ndarray)):
        element = (
            tensor(element, device=self.device)
            if len(element)
            else tensor(element, dtype=dtypes.int64, device=self.device)
        )
    if isinstance(element, Tensor):
        if element.dtype.kind == "w" and not element.ndim:  # PyTorch takes any integer without dimensions
            return _wide_index(element).to(device=self.device)
        if element.dtype not in (dtypes.int64, dtypes.int32, dtypes.uint8, dtypes.bool_) and (
            element.ndim or element.dtype not in (dtypes.int8, dtypes.int16)
        ):
            raise IndexError(
                f"tensors used as indices must be long, int, byte or bool tensors, got {element.dtype}; convert with "
                ".long()"
            )
        if element.dtype is dtypes.uint8:
            warn_caller("indexing with dtype numod.uint8 is now deprecated, please use a dtype numod.bool instead.")
            return element.to(dtypes.bool_)
        if element.device is not self.device and element.device.type != "cpu":
            raise RuntimeError(
                f"indices should be either on cpu or on the same device as the indexed tensor ({self.device})"
            )
        return element if element.device is self.device else element.to(device=self.device)
    try:
        return element.__index__()
    except AttributeError:
        error = TypeError if isinstance(element, (str, bytes)) else IndexError
        raise error(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
            f"{type(element).__name__})"
        ) from None


def _wide_index(element: Tensor) -> Tensor:
    """An index of uint16, uint32 or uint64 as int64. What int64 cannot hold becomes its maximum, out of range."""
    index = element.to(dtypes.int64)
    return t.where(index < 0, dtypes.iinfo(dtypes.int64).max, index) if element.dtype is dtypes.uint64 else index


def _slice(result: Tensor, dim: int, item: slice) -> Tensor:
    bounds = _slice_bounds(result._layout, dim, item.start, item.stop, item.step)
    return result if bounds is None else apply(v.slice_, (result,), bounds)


@resolved
def _slice_bounds(input_layout: Layout, dim: int, *bounds: int | None) -> tuple[int, int, int, int] | None:
    """(dim, start, length, step) of a slice; None for the whole dimension."""
    bounds = [int(b) if isinstance(b, Tensor) else b for b in bounds]
    if bounds[2] is not None and bounds[2] <= 0:
        raise ValueError("step must be greater than zero; use flip() for the reverse order")
    start, stop, step = slice(*bounds).indices(input_layout.shape[dim])
    if start == 0 and step == 1 and stop == input_layout.shape[dim]:
        return None
    return dim, start, max(0, -(-(stop - start) // step)), step


def _masked(result: Tensor, dim: int, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The masked dimensions flattened, and the flat indices of the mask's true elements."""
    covered = result.shape[dim : dim + mask.ndim]
    if covered != mask.shape:
        at = next(d for d, (a, b) in enumerate(zip(mask.shape, covered)) if a != b)
        raise IndexError(
            f"The shape of the mask {list(mask.shape)} at index {at} does not match the shape of the indexed tensor "
            f"{list(result.shape)} at index {dim + at}"
        )
    indices = _places_of(mask)
    if mask.ndim == 0:
        return unsqueeze(result, dim), indices
    if mask.ndim == 1:
        return result, indices
    return result, Multi(indices, mask.ndim)


class Multi:
    """Flat indices into `ndim` dimensions at once, from a mask or from index tensors."""

    def __init__(self, indices: Tensor, ndim: int) -> None:
        self.indices, self.ndim = indices, ndim


def _plan(view: Tensor, tensors: dict[int, Tensor | Multi]) -> tuple[tuple[int, ...], Tensor, int]:
    """(indexed dimensions, linear index over them, position of the index dimensions in the result)."""
    if len(tensors) == 1:
        ((dim, item),) = tensors.items()
        return (
            ((dim,), item, dim) if isinstance(item, Tensor) else (tuple(range(dim, dim + item.ndim)), item.indices, dim)
        )
    ordered = sorted(tensors.items())
    index_tensors = [item.indices if isinstance(item, Multi) else item for _, item in ordered]
    dims, sizes = _indexed_dims(
        view._layout, *[n for dim, item in ordered for n in (dim, item.ndim if isinstance(item, Multi) else 1)]
    )
    linear = index_tensors[0]
    for index_tensor, size in zip(index_tensors[1:], sizes[1:]):
        try:
            linear = t.add_scaled(index_tensor, linear, size)
        except RuntimeError:
            raise _not_broadcast(index_tensors) from None
    return dims, linear, dims[0] if dims[-1] - dims[0] < len(dims) else 0


@resolved
def _indexed_dims(view_layout: Layout, *first_and_count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(all indexed dimensions, the number of elements that each index tensor selects from).

    `first_and_count` has two ints for each index tensor: its first dimension and its number of dimensions.
    """
    spans = [range(first, first + n) for first, n in zip(first_and_count[::2], first_and_count[1::2])]
    return tuple(d for span in spans for d in span), tuple(prod(view_layout.shape[d] for d in span) for span in spans)


def _gathered(view: Tensor, tensors: dict) -> Tensor:
    dims, linear, position = _plan(view, tensors)
    if len(dims) == 1:
        return read(view, position, linear)
    if dims[0] != position or dims[-1] - position >= len(dims):
        view = view.permute([*dims, *[d for d in range(view.ndim) if d not in dims]])
    return read(flatten(view, position, position + len(dims) - 1), position, linear)


def put(view: Tensor, tensors: dict, value: Tensor | float, accumulate: bool) -> None:
    """Write (or add) `value` at the elements selected by index tensors."""
    dims, linear, position = _plan(view, tensors)
    shape, rows, order, front = _put_shapes(view._layout, linear._layout, position, *dims)
    if isinstance(value, Tensor):
        value = value if value.shape == shape else expand(_without_leading_ones(value, len(shape)), shape)
    else:
        value = constant(t.fill, (value,), shape, view.dtype, view.device)
    value = value.permute(order) if position else value
    value, index = (value, linear) if linear.ndim == 1 else (reshape(value, rows), reshape(linear, -1))
    op = ix.index_add if accumulate else ix.index_copy
    target = view.permute(front) if dims[-1] >= len(dims) else view
    if target._layout.overlapping:
        memory, offsets = memory_of(target, "index_put_")
        write(
            op,
            memory,
            0,
            reshape(index_select(flatten(contiguous(offsets), 0, len(dims) - 1), 0, index), -1),
            reshape(contiguous(value), -1),
        )
        return
    if target._layout.dense:
        write(op, target if len(dims) == 1 else flatten(target, 0, len(dims) - 1), 0, index, value)
        return
    dense = flatten(contiguous(target.clone()), 0, len(dims) - 1)
    write(op, dense, 0, index, value)
    copy_(target, reshape(dense, target.shape))


@resolved
def _put_shapes(view_layout: Layout, index: Layout, position: int, *dims: int) -> tuple[tuple[int, ...], ...]:
    """Shapes and orders for writing where `index` selects from `dims`.

    (shape of the written values, this shape with the index as one dimension in front, order of dimensions with the
    index in front, order of the view's dimensions with `dims` in front)
    """
    rest = [d for d in range(view_layout.ndim) if d not in dims]
    sizes = [view_layout.shape[d] for d in rest]
    order = (
        *range(position, position + index.ndim),
        *range(position),
        *range(position + index.ndim, index.ndim + len(rest)),
    )
    return (*sizes[:position], *index.shape, *sizes[position:]), (index.size, *sizes), order, (*dims, *rest)


def index_put_(self: Tensor, indices: tuple, values: Tensor, accumulate: bool = False) -> Tensor:
    """self[indices] = values, or += with `accumulate` (repeated indices add up).

    Example:

        >>> torch.zeros(3).index_put_((torch.tensor([0, 2]),), torch.tensor([1.0, 2.0]))
        tensor([1., 0., 2.])
    """
    if not isinstance(indices, (tuple, list)):
        raise TypeError(
            f"index_put_(): argument 'indices' (position 2) must be tuple of Tensors, not {type(indices).__name__}"
        )
    if not isinstance(accumulate, bool):
        raise TypeError(
            f"index_put_(): argument 'accumulate' (position 4) must be bool, not {type(accumulate).__name__}"
        )
    view, tensors = _basic(self, tuple(indices))
    if values.dtype is not self.dtype:
        if values.numel() > 1 or accumulate or not _has_mask(tuple(indices)):
            raise RuntimeError(_mismatch(self, values))
        values = values.to(self.dtype)
    if tensors:
        put(view, tensors, values, accumulate)
    else:  # only ints, slices and numbers
        values = _without_leading_ones(values, view.ndim)
        copy_(view, view + values if accumulate else values)
    return self


def places(self: Tensor, shape: tuple, strides: tuple, offset: int) -> Tensor:
    """Storage offsets of a strided window's elements, as int64 of `shape`."""
    total = tensor(offset, device=self.device)
    for d, (n, s) in enumerate(zip(shape, strides)):
        total = total + (arange(n, device=self.device) * s).reshape([n] + [1] * (len(shape) - 1 - d))
    return total.expand(shape)


def _delitem(self: Tensor, index: object) -> None:
    """`del x[index]` raises TypeError."""
    raise TypeError("Tensor does not support deleting items")


Tensor.__delitem__ = _delitem
Tensor.__getitem__, Tensor.__setitem__, Tensor.index_put_, Tensor._places = getitem, setitem, index_put_, places
