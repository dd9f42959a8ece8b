"""Further reads and writes by index: reductions (scatter_reduce, index_reduce), flat indices (take, put), slices
replaced in a copy (select_scatter, …).
"""

from __future__ import annotations

from collections.abc import Sequence

from ... import dtypes
from ...dtypes import dtype as DType
from ...errors import SINGLE_INT, normalize_dim, plain
from ...ops.index import indexing as ix, scatter_reduce as sr
from ...ops import table as t
from ...ops.pointwise import broadcast_shapes
from ..apply import apply, copy_among
from ..create.creation import full
from ..convert.copies import contiguous, copy_, to
from .indexing import index_put_
from ..create.ranges import arange
from ..search.searching import searchsorted
from .selection import (
    _like_index,
    _line,
    _places_of,
    check_bounds,
    gather,
    nonzero,
    read,
    scatter_,
    scatter_add_,
    write,
)
from ..shape.parts import as_strided, diagonal, narrow, select
from ..shape.shapes import expand, ravel, reshape
from ..tensor import Tensor

BOTH = """
    scatter_reduce index_reduce take take_along_dim select_scatter slice_scatter diagonal_scatter
    as_strided_scatter index_put nonzero_static masked_scatter
"""
FUNCTIONS = "index_put_ segment_reduce unravel_index"
METHODS = "put_ masked_scatter_ fill_diagonal_"
COPYING = "put"
IN_PLACE = "scatter_reduce index_reduce"
OUT = (
    "slice_scatter take take_along_dim gather index_select masked_select nonzero scatter scatter_add scatter_reduce "
    "index_add index_copy index_reduce roll nonzero_static"
)


def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Reduce src into input at index along a dimension, by sum, prod, mean, amax or amin.

    The values of input take part unless `include_self` is false.

    Example:

        >>> torch.scatter_reduce(torch.zeros(2), 0, torch.tensor([0, 0, 1]), torch.tensor([1.0, 2.0, 3.0]), "amax")
        tensor([2., 3.])
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}.")
    if index.dtype not in (dtypes.int32, dtypes.int64):
        raise RuntimeError(f"scatter(): Expected dtype int32/int64 for index, got {index.dtype}; convert with .long()")
    if src.dtype is not input.dtype:
        raise RuntimeError(
            f"scatter(): Expected self.dtype to be equal to src.dtype, got {input.dtype} and {src.dtype}"
        )
    if not input.ndim:
        return reshape(
            scatter_reduce(ravel(input), dim, ravel(index), ravel(src), reduce, include_self=include_self), ()
        )
    dim = normalize_dim(dim, input.ndim)
    if not index.numel():
        return scatter_(input.clone(), dim, index, src)
    if not index.ndim == input.ndim == src.ndim:
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    line = _line(index, dim)
    check_bounds("scatter_reduce()", index if line is None else line, input.shape[dim], dim, error=RuntimeError)
    if line is None:
        index = to(index, dtypes.int64)
    else:
        index = expand(reshape(to(line, dtypes.int64), [-1 if d == dim else 1 for d in range(index.ndim)]), index.shape)
    for d, n in enumerate(index.shape):
        src = src if src.shape[d] == n else narrow(src, d, 0, n)
    target = _like_index(input, index, dim)
    folded = _fold(target, dim, index, src, reduce, include_self)
    if target is input:
        return folded
    result = copy_among(input.clone(), (folded,))
    copy_(_like_index(result, index, dim), folded)
    return result


def _fold(input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool) -> Tensor:
    """Combine the elements of `src` at `index` by `reduce`, in a new tensor."""
    if not include_self:
        input = scatter_(copy_among(input.clone(), (index, src)), dim, index, _identity(reduce, input.dtype))
    if input.dtype in ix.SHORT_DTYPES and input.device.backend.is_gpu:  # a GPU changes no less than 32 bits at once
        return to(_fold(to(input, dtypes.int32), dim, index, to(src, dtypes.int32), reduce, True), input.dtype)
    if reduce in ("prod", "amax", "amin"):
        return apply(sr.scatter_reduce, (contiguous(input), contiguous(index), contiguous(src)), (dim, reduce))
    total = scatter_add_(copy_among(input.clone(), (index, src)), dim, index, src)
    if reduce == "sum":
        return total
    counts = full(input.shape, 1 if include_self else 0, dtype=input.dtype.real, device=input.device)
    counts = t.clamp_min(
        scatter_add_(
            copy_among(counts, (index,)), dim, index, full(index.shape, 1, dtype=input.dtype.real, device=input.device)
        ),
        1,
    )
    return t.div(total, counts) if input.dtype.differentiable else t.floor_divide(total, counts)


def _identity(reduce: str, dtype: DType) -> float | int:
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype.is_floating_point:
        return float("-inf" if reduce == "amax" else "inf")
    if dtype is dtypes.bool_:
        return reduce == "amin"
    return dtypes.iinfo(dtype).min if reduce == "amax" else dtypes.iinfo(dtype).max


def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """input with the slices of source reduced into those selected by a vector of indices, by prod, mean, amax or
    amin.

    Example:

        >>> torch.index_reduce(torch.ones(2), 0, torch.tensor([0, 0, 1]), torch.tensor([2.0, 3.0, 4.0]), "prod")
        tensor([6., 4.])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    dim = normalize_dim(dim, input.ndim)
    if index.ndim > 1 or (source.ndim and source.shape[dim] != index.numel()):
        raise RuntimeError(
            f"index_reduce(): Number of indices ({index.numel()}) should be equal to source.size(dim) "
            f"({source.shape[dim] if source.ndim else 1})"
        )
    places = expand(reshape(index, [-1 if d == dim else 1 for d in range(input.ndim)]), source.shape)
    return scatter_reduce(input, dim, places, source, reduce, include_self=include_self)


_SEGMENTS = {
    "sum": ("sum", 0.0),
    "mean": ("sum", 0.0),
    "max": ("amax", float("-inf")),
    "min": ("amin", float("inf")),
    "prod": ("prod", 1.0),
}


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Reduce segments of `data` (*batch, n, ...) by "sum", "mean", "max", "min" or "prod".

    Segments are neighbouring slices of `lengths` (*batch, segments) along `axis`.

    `offsets` (*batch, segments + 1) say where they begin instead. A segment without slices gives `initial`, or what the
    reduction starts from (NaN for a mean). Raises RuntimeError for lengths that are negative or do not add up to n, and
    for offsets beyond it, unless `unsafe`.

    Example:

        >>> torch.segment_reduce(torch.tensor([1.0, 2.0, 3.0]), "sum", lengths=torch.tensor([2, 1]))
        tensor([3., 3.])
    """
    if reduce not in _SEGMENTS:
        raise RuntimeError(f"segment_reduce(): Expected reduce to be one of {', '.join(_SEGMENTS)}, got {reduce}")
    if indices is not None or (lengths is None) == (offsets is None):
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    axis = normalize_dim(axis, data.ndim)
    lengths = offsets[..., 1:] - offsets[..., :-1] if lengths is None else lengths
    if axis != lengths.ndim - 1:
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of lengths but got {axis}.")
    if not unsafe and (lengths < 0).any()._observe():
        raise RuntimeError("lengths contains negative value!")
    if not unsafe and offsets is not None and ((offsets < 0) | (offsets > data.shape[axis])).any()._observe():
        raise RuntimeError(
            f"segment_reduce(): Expected offsets from 0 to data.size(lengths.dim()-1) = {data.shape[axis]} when "
            "!unsafe."
        )
    if not unsafe and offsets is None and (lengths.sum(-1) != data.shape[axis]).any()._observe():
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) = "
            f"{data.shape[axis]} when !unsafe."
        )
    counted = reshape(lengths.to(data.dtype), (*lengths.shape, *(1,) * (data.ndim - axis - 1)))
    fold, start = _SEGMENTS[reduce]
    count = lengths.shape[-1]
    shape = (
        *lengths.shape[:-1],
        count + 1,
        *data.shape[axis + 1 :],
    )  # the last one collects elements outside of all segments
    result = full(shape, start if initial is None else initial, dtype=data.dtype, device=data.device)
    segments = reshape(
        _segments(lengths, offsets, data.shape[axis]), (*data.shape[: axis + 1], *(1,) * (data.ndim - axis - 1))
    )
    result = contiguous(narrow(scatter_reduce(result, axis, expand(segments, data.shape), data, fold), axis, 0, count))
    if reduce != "mean":
        return result
    return t.where(counted == 0, float("nan") if initial is None else float(initial), result / counted)


def _segments(lengths: Tensor, offsets: Tensor | None, n: int) -> Tensor:
    """The segment of each of n places, (*batch, n); the number of segments where there is none."""
    begin = 0 if offsets is None else offsets[..., :1]
    segment_ends = lengths.to(dtypes.int64).cumsum(-1) + begin
    places = expand(arange(n, device=lengths.device), (*lengths.shape[:-1], n))
    segments = searchsorted(contiguous(segment_ends), contiguous(places), right=True)
    return segments if offsets is None else t.where(places < begin, lengths.shape[-1], segments)


# ---- flat places


def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at indices of the flattened tensor; shaped like `index`.

    Example:

        >>> torch.take(torch.tensor([[1, 2], [3, 4]]), torch.tensor([0, 3]))
        tensor([1, 4])
    """
    return read(ravel(input), 0, check_bounds("take()", index, input.numel(), 0, negative=True))


def put_(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Write (or add) the elements of source at indices of the flattened tensor.

    Example:

        >>> torch.zeros(2, 2).put_(torch.tensor([0, 3]), torch.tensor([1.0, 2.0]))
        tensor([[1., 0.],
                [0., 2.]])
    """
    if source.dtype is not self.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got self.dtype = {self.dtype} and "
            f"source.dtype = {source.dtype}"
        )
    if source.numel() != index.numel():
        raise IndexError(
            f"put_(): Expected source and index to have the same number of elements, but got {source.numel()} and "
            f"{index.numel()}"
        )
    return _put(
        ix.index_add if accumulate else ix.index_copy,
        self,
        ravel(check_bounds("put_()", index, self.numel(), 0, negative=True)),
        source,
    )


def _put(op: ix.Scatter, self: Tensor, places: Tensor, source: Tensor) -> Tensor:
    """Write at flat indices that are known to be in range."""
    flat = ravel(self)
    write(op, flat, 0, places, ravel(source))
    return self if flat._storage is self._storage else copy_(self, reshape(flat, self.shape))


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """As gather, with input and indices broadcast in all other dimensions; without `dim` the flattened tensor is
    read.

    Example:

        >>> torch.take_along_dim(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[1], [0]]), dim=1)
        tensor([[2],
                [3]])
    """
    if indices.dtype is not dtypes.int64:
        raise RuntimeError(f"numod.take_along_dim(): dtype of indices should be Long but got {indices.dtype.short}")
    if dim is None:
        return gather(ravel(input), 0, ravel(indices))
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "numod.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, "
            f"and {indices.ndim} dimensions for indices"
        )
    dim = normalize_dim(dim, input.ndim)
    rest = broadcast_shapes(
        "take_along_dim", [[1 if d == dim else n for d, n in enumerate(tensor.shape)] for tensor in (input, indices)]
    )
    input, indices = (
        expand(tensor, [tensor.shape[dim] if d == dim else n for d, n in enumerate(rest)])
        for tensor in (input, indices)
    )
    return gather(input, dim, check_bounds("take_along_dim()", indices, input.shape[dim], dim, negative=True))


def masked_scatter_(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Write the elements of source, in order, where mask (which broadcasts) is true.

    Example:

        >>> torch.zeros(3).masked_scatter_(torch.tensor([True, False, True]), torch.tensor([1.0, 2.0]))
        tensor([1., 0., 2.])
    """
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    if source.dtype is not self.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got {self.dtype} and {source.dtype}"
        )
    places = _places_of(expand(mask, self.shape))
    if places.numel() > source.numel():
        raise RuntimeError(
            f"masked_scatter: expected mask to have at most {source.numel()} true elements, the number of elements of "
            f"source, but it has {places.numel()}"
        )
    return _put(ix.index_copy, self, places, ravel(source)[: places.numel()])


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy of input, broadcast with mask, with the elements of source written where mask is true.

    Example:

        >>> torch.masked_scatter(torch.zeros(3), torch.tensor([True, False, True]), torch.tensor([5.0, 6.0]))
        tensor([5., 0., 6.])
    """
    return masked_scatter_(
        expand(input, broadcast_shapes("masked_scatter", [input.shape, mask.shape])).clone(), mask, source
    )


def index_put(input: Tensor, indices: tuple, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of input with values written (or added) at indices.

    Example:

        >>> torch.index_put(torch.zeros(3), (torch.tensor([0, 2]),), torch.tensor([1.0, 2.0]))
        tensor([1., 0., 2.])
    """
    tensors = (*indices, values) if isinstance(indices, (tuple, list)) else ()  # `index_put_` refuses the others
    return index_put_(copy_among(input.clone(), tensors), indices, values, accumulate)


def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Indices of the first `size` nonzero elements, (size, ndim), padded with `fill_value`.

    Example:

        >>> torch.nonzero_static(torch.tensor([0, 5, 6]), size=3)
        tensor([[ 1],
                [ 2],
                [-1]])
    """
    indices = nonzero(input)[:size]
    result = full((size, input.ndim), fill_value, dtype=dtypes.int64, device=input.device)
    copy_(narrow(result, 0, 0, indices.shape[0]), indices)
    return result


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Flat indices converted to a tuple of coordinates in a tensor of `shape`.

    Example:

        >>> torch.unravel_index(torch.tensor([5]), (2, 3))
        (tensor([1]), tensor([2]))
    """
    if indices.dtype.kind not in "ui":
        raise TypeError(f"unravel_index: expected 'indices' to be integer, got {indices.dtype}")
    sizes = (plain(shape),) if isinstance(shape, SINGLE_INT) else tuple(shape)
    if not all(isinstance(n, SINGLE_INT) for n in sizes):
        raise TypeError(f"unravel_index: expected 'shape' to be an int or a sequence of ints, got {shape}")
    sizes = tuple(map(plain, sizes))
    if any(n < 0 for n in sizes):
        raise ValueError(f"unravel_index: 'shape' cannot have negative values, got {sizes}")
    indices, places = indices.to(dtypes.int64), []
    for n in reversed(sizes):
        places.append(indices % n)
        indices = t.floor_divide(indices, n)
    return tuple(reversed(places))


# ---- a part of a copy replaced


def _replaced(name: str, part: Tensor, src: Tensor, copy: Tensor) -> Tensor:
    if part.shape != src.shape:
        raise RuntimeError(
            f"{name}: expected src to have a size equal to the part it replaces, {list(part.shape)}, but got "
            f"{list(src.shape)}"
        )
    copy_(part, src)
    return copy


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of input with one slice of a dimension replaced by src.

    Example:

        >>> torch.select_scatter(torch.zeros(2, 2), torch.ones(2), 0, 1)
        tensor([[0., 0.],
                [1., 1.]])
    """
    copy = copy_among(input.clone(), (src,))
    return _replaced("select_scatter", select(copy, dim, index), src, copy)


def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of input with every `step`-th slice from `start` to `end` of a dimension replaced by src.

    Example:

        >>> torch.slice_scatter(torch.zeros(4), torch.ones(2), start=1, end=3)
        tensor([0., 1., 1., 0.])
    """
    copy = copy_among(input.clone(), (src,))
    part = copy[(slice(None),) * normalize_dim(dim, input.ndim) + (slice(start, end, step),)]
    return _replaced("slice_scatter", part, src, copy)


def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of input with a diagonal replaced by src.

    Example:

        >>> torch.diagonal_scatter(torch.zeros(2, 2), torch.tensor([1.0, 2.0]))
        tensor([[1., 0.],
                [0., 2.]])
    """
    copy = copy_among(input.clone(), (src,))
    return _replaced("diagonal_scatter", diagonal(copy, offset, dim1, dim2), src, copy)


def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A copy of input with the elements of as_strided(size, stride, storage_offset) replaced by src.

    Example:

        >>> torch.as_strided_scatter(torch.zeros(4), torch.ones(2), (2,), (2,))
        tensor([1., 0., 1., 0.])
    """
    copy = copy_among(input.clone(), (src,))
    return _replaced("as_strided_scatter", as_strided(copy, size, stride, storage_offset), src, copy)


def fill_diagonal_(self: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Write a number on the main diagonal; with `wrap` it restarts below the square part of a tall matrix.

    Example:

        >>> torch.zeros(2, 2).fill_diagonal_(1.0)
        tensor([[1., 0.],
                [0., 1.]])
    """
    if self.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.ndim > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    length, step = min(self.shape), sum(self.stride())
    as_strided(self, (length,), (step,)).fill_(fill_value)
    rows, columns = self.shape[0], self.shape[1]
    if wrap and self.ndim == 2 and rows > columns + 1:
        for top in range(columns + 1, rows, columns + 1):
            diagonal(self[top:]).fill_(fill_value)
    return self
