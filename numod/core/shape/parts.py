"""Parts of a tensor as views: slices of a dimension, diagonals and splits."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index

from ... import dtypes
from ...device import Layout
from ...errors import normalize_dim, plain
from ...ops import view as v
from ..apply import apply, state
from ..arguments import expect_ints, is_whole
from ..resolve import refuse_floats, resolved, whole_number
from ..tensor import Tensor

BOTH = """
    narrow select as_strided diagonal split chunk unsafe_split unsafe_chunk unbind tensor_split hsplit vsplit dsplit
    narrow_copy split_with_sizes unsafe_split_with_sizes
"""
OUT = "narrow_copy"


def narrow(input: Tensor, dim: int, start: Tensor | int, length: int) -> Tensor:
    """`length` elements of a dimension from `start` on.

    Example:

        >>> torch.narrow(torch.arange(5), 0, 1, 3)
        tensor([1, 2, 3])
    """
    return apply(v.slice_, (input,), _span(input._layout, dim, start, length))


@resolved
def _span(input_layout: Layout, dim: int, start: int | Tensor, length: int) -> tuple[int, int, int, int]:
    """(dimension, start, both counted from the front, length, step) of `narrow`."""
    dim = normalize_dim(dim, input_layout.ndim)
    if input_layout.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    size = input_layout.shape[dim]
    if isinstance(start, Tensor):
        if start.ndim or start.dtype is dtypes.bool_ or start.dtype.is_floating_point:
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        start = int(start)
    start = whole_number("narrow", "start", start)
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {start})")
    length = whole_number("narrow", "length", length)
    if length < 0:
        raise RuntimeError(f"narrow(): length must be non-negative, got {length}.")
    start = start + size if start < 0 else start
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return dim, start, length, 1


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """One index of a dimension, which is removed; a view.

    Example:

        >>> torch.select(torch.tensor([[1, 2], [3, 4]]), 1, 0)
        tensor([1, 3])
    """
    return apply(v.select, (input,), _selected_offset(input._layout, dim, index))


@resolved
def _selected_offset(input_layout: Layout, dim: int, index: int) -> tuple[int, int]:
    if input_layout.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = normalize_dim(dim, input_layout.ndim)
    n, index = input_layout.shape[dim], whole_number("select", "index", index)
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {n}")
    return dim, index % n


def as_strided(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """A view of any sizes and strides over the storage. Raises RuntimeError if it would leave the storage.

    Example:

        >>> torch.as_strided(torch.arange(6), (2, 2), (3, 1))
        tensor([[0, 1],
                [3, 4]])
    """
    offset = input._offset if storage_offset is None else storage_offset
    for name, numbers in (("size", size), ("stride", stride)):
        if not isinstance(numbers, (tuple, list)):
            raise TypeError(f"as_strided(): argument '{name}' must be tuple of ints, not {type(numbers).__name__}")
    size, stride = tuple(size), tuple(stride)
    if isinstance(offset, Tensor) and is_whole(offset):
        offset = index(offset)
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {len(stride)} and {len(size)}")
    if not all(
        hasattr(value, "__index__") and not isinstance(value, (bool, Tensor)) for value in (*size, *stride, offset)
    ):
        raise TypeError(f"as_strided(): sizes, strides and storage offset must be ints, got {size}, {stride}, {offset}")
    if min(size, default=0) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    extent = 1 + sum((n - 1) * s for n, s in zip(size, stride)) if prod(size) else 0
    if min(stride, default=0) < 0 or offset < 0 or offset + extent > input._storage.nbytes() // input.itemsize:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset "
            f"{offset} are out of bounds for storage of {input._storage.data.size} elements"
        )
    return apply(v.as_strided, (input,), (size, stride, offset - input._offset))


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two dimensions, as the last dimension of a view.

    Example:

        >>> torch.diagonal(torch.tensor([[1, 2], [3, 4]]))
        tensor([1, 4])
    """
    dim1, dim2 = normalize_dim(dim1, input.ndim), normalize_dim(dim2, input.ndim)
    if dim1 == dim2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return apply(v.diagonal, (input,), (offset, dim1, dim2))


def split(
    tensor: Tensor,
    split_size_or_sections: int | Sequence[int] | None = None,
    dim: int = 0,
    *,
    split_size: int | Sequence[int] | None = None,
) -> tuple[Tensor, ...]:
    """Parts of a given size (the last may be smaller), or of several sizes, along a dimension; views.

    (The method's argument is called `split_size`.)

    Where gradients are recorded they cannot be written to.

    Example:

        >>> torch.split(torch.arange(5), 2)
        (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    return _of_several(
        "Split", unsafe_split(tensor, split_size if split_size_or_sections is None else split_size_or_sections, dim)
    )


def _of_several(name: str, views: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Views made by one function, which must not be written to where gradients are recorded.

    In PyTorch they are results of one node.
    """
    if state.grad_enabled:
        for view in views:
            view._unrecorded = view._unrecorded or name
    return views


def unsafe_split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """The parts of `split`, as views that can be modified in place.

    Example:

        >>> torch.unsafe_split(torch.arange(4), 3)
        (tensor([0, 1, 2]), tensor([3]))
    """
    _require_dims("split", tensor)
    dim = normalize_dim(dim, tensor.ndim)
    n, sizes = tensor.shape[dim], plain(split_size_or_sections)
    if isinstance(sizes, int):
        if sizes <= 0 and n:
            raise RuntimeError(f"split expects split_size be non-negative, but got split_size={sizes}")
        sizes = [min(sizes, n - start) for start in range(0, n, sizes)] if n else [0]
    elif sum(sizes) != n:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {dim}), "
            f"but got split_sizes={list(sizes)}"
        )
    if min(sizes, default=0) < 0:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={list(sizes)}"
        )
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + size)
    return tuple([apply(v.slice_, (tensor,), (dim, start, size, 1)) for start, size in zip(starts, sizes)])


def _require_dims(name: str, x: Tensor) -> None:
    if not x.ndim:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` parts of equal size, the last perhaps smaller; views.

    Where gradients are recorded they cannot be written to.

    Example:

        >>> torch.chunk(torch.arange(5), 2)
        (tensor([0, 1, 2]), tensor([3, 4]))
    """
    return _of_several("Split", unsafe_chunk(input, chunks, dim))


def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """The parts of `chunk`, as views that can be modified in place.

    Example:

        >>> torch.unsafe_chunk(torch.arange(4), 2)
        (tensor([0, 1]), tensor([2, 3]))
    """
    chunks = plain(chunks)
    _require_dims("chunk", input)
    if chunks < 1:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    n = input.shape[normalize_dim(dim, input.ndim)]
    return unsafe_split(input, -(-n // chunks) if n else [0] * chunks, dim)


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along a dimension; views. Where gradients are recorded they cannot be written to.

    Example:

        >>> torch.unbind(torch.tensor([[1, 2], [3, 4]]))
        (tensor([1, 2]), tensor([3, 4]))
    """
    dim = normalize_dim(dim, input.ndim)
    if not input.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return _of_several("Unbind", tuple([apply(v.select, (input,), (dim, k)) for k in range(input.shape[dim])]))


def tensor_split(
    input: Tensor,
    indices_or_sections: Tensor | int | Sequence[int] | None = None,
    dim: int = 0,
    *,
    sections: int | None = None,
    indices: Sequence[int] | None = None,
) -> tuple[Tensor, ...]:
    """A number of nearly equal parts along a dimension, or the parts between indices; views.

    Example:

        >>> torch.tensor_split(torch.arange(5), 2)
        (tensor([0, 1, 2]), tensor([3, 4]))
    """
    indices_or_sections = _the_argument("tensor_split", indices_or_sections, sections, indices)
    if not input.ndim:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    dim = normalize_dim(dim, input.ndim)
    if isinstance(indices_or_sections, Tensor):
        cuts = _cuts_of(indices_or_sections)
    else:
        expect_ints("tensor_split", "indices_or_sections", indices_or_sections)
        cuts = plain(indices_or_sections)
    n = input.shape[dim]
    if isinstance(cuts, int):
        if cuts <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {cuts}")
        size, more = divmod(n, cuts)
        return unsafe_split(input, [size + (k < more) for k in range(cuts)], dim)
    bounds = [0, *(slice(None, cut).indices(n)[1] for cut in cuts)]
    ends = [*bounds[1:], n]
    return tuple(narrow(input, dim, start, max(0, end - start)) for start, end in zip(bounds, ends))


def _cuts_of(sections: Tensor) -> int | list[int]:
    """The sections or indices that `tensor_split` takes as a tensor."""
    if sections.dtype is not dtypes.int64:
        raise RuntimeError(
            f"tensor_split expected tensor_indices_or_sections to have dtype of long, but got {sections.dtype.short}"
        )
    if sections.ndim > 1:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but "
            f"got a tensor with {sections.ndim} dims"
        )
    return sections.tolist()


def _split_along(
    name: str, input: Tensor, cuts: Tensor | int | Sequence[int], dim: int, least: int
) -> tuple[Tensor, ...]:
    if input.ndim < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {input.ndim} "
            "dimensions!"
        )
    expect_ints(name, "indices_or_sections", cuts)
    if is_whole(cuts) and (cuts == 0 or input.shape[dim] % cuts):
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of "
            f"the dimension {input.shape[dim]} is not divisible by the split_size {cuts}!"
        )
    return tensor_split(input, cuts, dim)


def hsplit(
    input: Tensor, *indices_or_sections: object, sections: int | None = None, indices: Sequence[int] | None = None
) -> tuple[Tensor, ...]:
    """`tensor_split` into columns: along dimension 1, or 0 of a vector.

    Example:

        >>> torch.hsplit(torch.arange(4), 2)
        (tensor([0, 1]), tensor([2, 3]))
    """
    return _split_along(
        "hsplit",
        input,
        _the_argument("hsplit", _unpack_one(indices_or_sections), sections, indices),
        0 if input.ndim == 1 else 1,
        1,
    )


def vsplit(
    input: Tensor, *indices_or_sections: object, sections: int | None = None, indices: Sequence[int] | None = None
) -> tuple[Tensor, ...]:
    """`tensor_split` into rows: along dimension 0.

    Example:

        >>> torch.vsplit(torch.arange(4).reshape(2, 2), 2)
        (tensor([[0, 1]]), tensor([[2, 3]]))
    """
    return _split_along(
        "vsplit", input, _the_argument("vsplit", _unpack_one(indices_or_sections), sections, indices), 0, 2
    )


def dsplit(
    input: Tensor, *indices_or_sections: object, sections: int | None = None, indices: Sequence[int] | None = None
) -> tuple[Tensor, ...]:
    """`tensor_split` along dimension 2.

    Example:

        >>> [part.shape for part in torch.dsplit(torch.ones(1, 2, 4), 2)]
        [numod.Size([1, 2, 2]), numod.Size([1, 2, 2])]
    """
    return _split_along(
        "dsplit", input, _the_argument("dsplit", _unpack_one(indices_or_sections), sections, indices), 2, 3
    )


def _unpack_one(values: tuple) -> object:
    return values[0] if len(values) == 1 else values or None


def _the_argument(name: str, *values: object) -> object:
    """The value of the one argument that is not None; TypeError for none or several."""
    values_set = [value for value in values if value is not None]
    if len(values_set) != 1:
        raise TypeError(f"{name}(): expected one of indices_or_sections, sections and indices, got {len(values_set)}")
    return values_set[0]


def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of the given sizes along a dimension; views.

    Example:

        >>> torch.split_with_sizes(torch.arange(5), [2, 3])
        (tensor([0, 1]), tensor([2, 3, 4]))
    """
    expect_ints("split_with_sizes", "split_sizes", split_sizes)
    sizes = tuple(split_sizes)
    refuse_floats("split_with_sizes", sizes)
    return split(input, sizes, dim)


def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of the given sizes, as views that autograd lets one write to.

    Example:

        >>> torch.unsafe_split_with_sizes(torch.arange(4), [1, 3])
        (tensor([0]), tensor([1, 2, 3]))
    """
    return unsafe_split(input, tuple(split_sizes), dim)


def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of `length` elements of a dimension from `start` on.

    Example:

        >>> torch.narrow_copy(torch.arange(5), 0, 1, 3)
        tensor([1, 2, 3])
    """
    return narrow(input, dim, start, length).clone()
