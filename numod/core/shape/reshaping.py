"""Tensors that change their own shape, strides or memory (t_, squeeze_, resize_, set_), and views in another dtype.

Views that are new tensors: `shapes` and `parts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ...device.layout import layout
from ...device.storage import read_as
from ... import dtypes
from ...dtypes import dtype as DType
from ...errors import normalize_dim
from ...ops import view as v
from .. import changes, row_texts
from . import parts, shapes
from ..apply import apply, state
from ..resolve import refuse_floats
from ..tensor import Tensor
from ..convert.transfer import _refuse_trace
from ..create.values import tensor

METHODS = """
    t_=t_in_place transpose_ swapaxes_ swapdims_=transpose_ squeeze_ unsqueeze_ as_strided_ unfold view resize_
    resize_as_ set_ apply_ map_ is_set_to
"""
FUNCTIONS = "as_strided_ resize_as_"


def _count(self: Tensor) -> None:
    """Count a change of the tensor's layout as a write, since backward would read saved values by the new strides."""
    changes.note()
    (self._version_counter or self._storage).version += 1


def _becomes(function: Callable) -> Callable:
    """The in-place form of a view: the tensor itself takes the view's strides, and its place on the tape."""

    def method(self: Tensor, *arguments: object, **kwargs: object) -> Tensor:
        if state.grad_enabled and self._requires_grad and self.is_leaf:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        changed = function(self, *arguments, **kwargs)
        if changed is not self:
            # before the version is incremented, which would create a new node for a view
            node, recorded = changed.grad_fn, changed.requires_grad
            _count(self)
            self._layout, self._offset = changed._layout, changed._offset
            if recorded:
                self._node, self._output = node, changed._output
        return self

    name = function.__name__.rstrip("_")
    method.__name__, method.__doc__ = f"{name}_", row_texts.in_place_sentence(name, function)
    return method


t_in_place, transpose_, squeeze_, unsqueeze_, as_strided_ = map(
    _becomes, (shapes.t_, shapes.transpose, shapes.squeeze, shapes.unsqueeze, parts.as_strided)
)
swapaxes_ = _becomes(shapes.swapaxes)


def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """All windows of `size` neighbours along a dimension, every `step`-th; a view with the windows as a last
    dimension.

    Example:

        >>> torch.arange(5).unfold(0, 3, 2)
        tensor([[0, 1, 2],
                [2, 3, 4]])
    """
    dim = normalize_dim(dimension, input.ndim)
    shape, strides = (list(input.shape), list(input.stride())) if input.ndim else ([1], [1])
    if size > shape[dim] or size < 0:
        raise RuntimeError(f"maximum size for tensor at dimension {dim} is {shape[dim]} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    shape, strides = [*shape, size], [*strides, strides[dim]]
    shape[dim], strides[dim] = (shape[dim] - size) // step + 1, strides[dim] * step
    return apply(
        v.as_strided, (input,), (tuple(shape) if input.ndim else (size,), tuple(strides) if input.ndim else (1,), 0)
    )


def view(input: Tensor, *shape: int | DType, size: Sequence[int] | None = None, dtype: DType | None = None) -> Tensor:
    """The same memory in another shape, or read as another dtype.

    Example:

        >>> torch.arange(4).view(2, 2)
        tensor([[0, 1],
                [2, 3]])
    """
    if dtype is not None or (len(shape) == 1 and isinstance(shape[0], (DType, type))):
        return _read_as(input, dtypes.as_dtype(dtype or shape[0]))
    return shapes.view(input, *shape, size=size)


def _read_as(input: Tensor, dtype: DType) -> Tensor:
    """The memory read as another dtype; where its size differs, the last dimension grows or shrinks."""
    if dtype is input.dtype:
        return shapes.view(input, input.shape)
    _refuse_trace("view(dtype)")
    old, new = input.dtype.itemsize, dtype.itemsize
    shape, strides, offset = list(input.shape), list(input.stride()), input._offset
    if old != new:
        if not input.ndim:
            raise RuntimeError(f"self.dim() cannot be 0 to view {input.dtype} as {dtype} (different element sizes)")
        if strides[-1] != 1:
            raise RuntimeError(
                f"self.stride(-1) must be 1 to view {input.dtype} as {dtype} (different element sizes), but got "
                f"{strides[-1]}"
            )
        ratio = new // old
        if ratio and (shape[-1] % ratio or offset % ratio or any(s % ratio for s in strides[:-1])):
            raise RuntimeError(
                "self.size(-1), self.storage_offset() and self.stride() must be divisible "
                f"by {ratio} to view {input.dtype} as {dtype} (different element sizes)"
            )
        shape[-1], offset = shape[-1] * old // new, offset * old // new
        strides = [s * old // new for s in strides[:-1]] + [1]
    result = input.detach()
    result._storage = read_as(input._storage, dtype.storage)
    result._layout, result._offset = layout(tuple(shape), dtype, input.device, tuple(strides)), offset
    return result


def resize_(self: Tensor, *sizes: int, size: Sequence[int] | None = None, memory_format: object = None) -> Tensor:
    """Resize in place to another shape, row-major from the tensor's first element on.

    The storage grows if it is too small; new elements are uninitialised.

    Example:

        >>> torch.arange(4).resize_(2)
        tensor([0, 1])
    """
    sizes = sizes if size is None else (size,)
    sizes = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes
    refuse_floats("resize_", sizes)
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if any(n < 0 for n in sizes):
        raise RuntimeError(f"Trying to resize tensor to negative dimension: {list(sizes)}")
    if sizes == self.shape:  # which may have other strides
        return self
    storage, needed = self._storage, self._offset + prod(sizes)
    if needed > storage.data.size:
        if storage.foreign:
            raise RuntimeError("Trying to resize storage that is not resizable")
        storage.data = self.device.backend.lengthened(storage.data, needed)
    _count(self)
    self._layout = layout(tuple(sizes), self.dtype, self.device)
    return self


def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: object = None) -> Tensor:
    """`resize_` to the shape of another tensor.

    Example:

        >>> torch.zeros(2).resize_as_(torch.ones(1, 2)).shape
        numod.Size([1, 2])
    """
    return resize_(self, the_template.shape)


def set_(
    self: Tensor,
    source: Tensor | None = None,
    storage_offset: int = 0,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Refer to the storage, sizes and strides of another tensor, or to a storage with those given; without arguments,
    to no elements.

    Example:

        >>> x = torch.zeros(1)
        >>> x.set_(torch.ones(2))
        tensor([1., 1.])
    """
    source = getattr(source, "elements", source)  # of a storage
    if source is None:
        source = tensor([], dtype=self.dtype, device=self.device)
    if not isinstance(source, Tensor):
        raise TypeError(
            f"set_(): argument 'source' (position 1) must be Tensor or Storage, not {type(source).__name__}"
        )
    if source.dtype is not self.dtype:
        raise RuntimeError(f"Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}")
    if size is not None:
        stride = stride or layout(tuple(size), self.dtype, self.device).strides
        source = parts.as_strided(source.detach(), size, stride, storage_offset)
    self.data = source
    return self


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both have the same storage, offset, sizes and strides.

    Example:

        >>> x = torch.ones(2)
        >>> x.is_set_to(x.view(2))
        True
    """
    return self._storage is tensor._storage and self._offset == tensor._offset and self._layout is tensor._layout


def apply_(self: Tensor, callable: Callable) -> Tensor:
    """Replace each element by a Python function of it; slow, and only on the CPU.

    Example:

        >>> torch.tensor([1.0, 2.0]).apply_(lambda value: value + 1)
        tensor([2., 3.])
    """
    return _filled_by(self, [callable(number) for number in self.detach().reshape(-1).tolist()])


def map_(self: Tensor, tensor: Tensor, callable: Callable) -> Tensor:
    """Replace each element by a Python function of it and another tensor's element; slow, and only on the CPU.

    Example:

        >>> torch.tensor([1.0, 2.0]).map_(torch.tensor([3.0, 4.0]), lambda a, b: a * b)
        tensor([3., 8.])
    """
    pairs = zip(self.detach().reshape(-1).tolist(), tensor.detach().expand(self.shape).reshape(-1).tolist())
    return _filled_by(self, [callable(*pair) for pair in pairs])


def _filled_by(self: Tensor, values: list) -> Tensor:
    if self.device.type != "cpu":
        raise TypeError("apply_ and map_ are only implemented on CPU tensors")
    if state.grad_enabled and self.requires_grad:
        raise RuntimeError(
            "Can't call apply_() or map_() on Variable that requires grad. Use var.detach().apply_() or map_() instead."
        )
    return self.copy_(tensor(values, dtype=self.dtype).reshape(self.shape))
