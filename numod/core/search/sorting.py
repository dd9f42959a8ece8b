"""Sorting and order statistics: sort, topk, kthvalue, median, mode.

Kernels are in `ops.sort`; they work on the last dimension of a contiguous tensor.
"""

from __future__ import annotations

from math import nan
from operator import index

from ... import dtypes
from ...errors import normalize_dim
from ...ops.index import indexing as ix
from ...ops.sort import unique, topk as sl, sort as so
from ...ops import table as t
from ...ops.op import Op
from .. import return_types
from ..apply import apply, state
from ..create.creation import full
from ..convert.copies import contiguous
from ..math.elementwise import masked_fill
from ..math.reductions import amax
from ..index.selection import gather
from ..shape.parts import narrow
from ..shape.shapes import memory_order, permute, reshape, squeeze, transpose, unsqueeze
from ..tensor import Tensor

BOTH = "sort argsort msort topk kthvalue median nanmedian mode"
OUT = "sort argsort msort topk kthvalue median nanmedian mode"
_SELECTION_LIMIT = 512  # up to this many elements, selecting the first ones is faster than sorting


def _along(op: Op, input: Tensor, dim: int, attributes: tuple) -> tuple[Tensor, ...]:
    """An op on the last dimension, applied along any dimension."""
    if dim == max(input.ndim - 1, 0):
        return apply(op, (contiguous(input),), attributes)
    return tuple(
        [
            contiguous(transpose(result, dim, -1))
            for result in apply(op, (contiguous(transpose(input, dim, -1)),), attributes)
        ]
    )


def sort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> return_types.sort:
    """(values, indices) sorted along a dimension. NaN sorts as the largest; the order is always stable.

    Example:

        >>> torch.sort(torch.tensor([3.0, 1.0, 2.0]))
        numod.return_types.sort(
        values=tensor([1., 2., 3.]),
        indices=tensor([1, 2, 0]))
    """
    dim = normalize_dim(dim, input.ndim)
    if (orders := memory_order(input._layout)) is not None:
        order, back = orders
        results = _along(so.sort, permute(input, *order), back[dim], (bool(descending),))
        return return_types.sort([permute(result, *back) for result in results])
    return return_types.sort(_along(so.sort, input, dim, (bool(descending),)))


def argsort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Tensor:
    """The indices that sort along a dimension.

    Example:

        >>> torch.argsort(torch.tensor([3.0, 1.0, 2.0]))
        tensor([1, 2, 0])
    """
    return sort(input, dim, descending).indices


def msort(input: Tensor) -> Tensor:
    """Sorted along the first dimension.

    Example:

        >>> torch.msort(torch.tensor([3, 1, 2]))
        tensor([1, 2, 3])
    """
    return sort(input, 0).values


def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> return_types.topk:
    """(values, indices) of the k largest (or smallest) elements along a dimension, in order if `sorted`.

    Example:

        >>> torch.topk(torch.tensor([1.0, 3.0, 2.0]), 2)
        numod.return_types.topk(
        values=tensor([3., 2.]),
        indices=tensor([1, 2]))
    """
    dim, k = normalize_dim(-1 if dim is None else dim, input.ndim), index(k)
    n = input.shape[dim] if input.ndim else 1
    if input.dtype is dtypes.bool_:
        raise RuntimeError("topk does not support bool dtypes; convert first, for example with .byte()")
    if not 0 <= k <= n:
        raise RuntimeError(f"selected index k out of range: k is {k}, dimension {dim} has size {n}")
    if not input.ndim:
        return return_types.topk((input.clone(), full((), 0, dtype=dtypes.int64, device=input.device)))
    # sorting everything is as fast there
    if input.device.backend.is_gpu or 4 * k > n and (k > sl.SORTED_LIMIT or input._layout.size > _SELECTION_LIMIT):
        return return_types.topk(contiguous(narrow(result, dim, 0, k)) for result in sort(input, dim, largest))
    values, indices = _along(sl.select, input, dim, (k, k - 1, bool(largest), sl.FIRST))
    if sorted and k > sl.SORTED_LIMIT:
        values, order = sort(values, dim, largest)
        indices = apply(ix.gather, (indices, order), (dim,))
    return return_types.topk((values, indices))


def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> return_types.kthvalue:
    """(values, indices) of the k-th smallest element (from 1) along a dimension.

    Example:

        >>> torch.kthvalue(torch.tensor([3.0, 1.0, 2.0]), 2)
        numod.return_types.kthvalue(
        values=tensor(2.),
        indices=tensor(2))
    """
    dim, k = normalize_dim(dim, input.ndim), index(k)
    n = input.shape[dim] if input.ndim else 1
    _expect_elements("kthvalue", n, dim)
    if not 1 <= k <= n:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}: k is {k}, its size {n}")
    return return_types.kthvalue(_selected(input, dim, keepdim, k - 1, sl.RANK))


def _expect_elements(name: str, n: int, dim: int) -> None:
    if not n:
        raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")


def _selected(input: Tensor, dim: int, keepdim: bool, rank: int, aim: int) -> tuple[Tensor, Tensor]:
    """One element of each row."""
    # blocks of threads sort a row sooner than one thread selects from it
    if input.ndim and input.device.backend.is_gpu:
        results = _of_sorted(sort(input, dim), dim, rank, aim)
        return results if keepdim else tuple([squeeze(result, dim) for result in results])
    if not input.ndim:
        results = _along(sl.select, reshape(input, 1), 0, (1, 0, False, aim))
        return tuple([reshape(result, ()) for result in results])
    results = _along(sl.select, input, dim, (1, rank, False, aim))
    return results if keepdim else tuple([squeeze(result, dim) for result in results])


def _of_sorted(both: return_types.sort, dim: int, rank: int, aim: int) -> tuple[Tensor, Tensor]:
    """The element at a rank of sorted rows, or their middle, and its index; NaN come last."""
    n = both.values.shape[dim]
    if aim == sl.RANK or not both.values.is_floating_point():
        rank = rank if aim == sl.RANK else (n - 1) // 2
        return tuple([narrow(result, dim, rank, 1) for result in both])
    missing = t.isnan(both.values).sum(dim, keepdim=True)
    if aim == sl.MEDIAN:
        position = t.where(missing > 0, n - missing, (n - 1) // 2)  # the first NaN
    else:
        position = t.clamp_min((n - 1 - missing) // 2, 0)
    return gather(both.values, dim, position), gather(both.indices, dim, position)


def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | return_types.median:
    """The median (of an even number of elements the lower), NaN if there is one; with `dim`, (values, indices) along
    it.

    Example:

        >>> torch.median(torch.tensor([3.0, 1.0, 2.0]))
        tensor(2.)
    """
    return _middle(sl.MEDIAN, return_types.median, input, dim, keepdim)


def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | return_types.nanmedian:
    """The median of the elements that are not NaN; with `dim`, (values, indices) along it.

    Example:

        >>> torch.nanmedian(torch.tensor([1.0, float("nan"), 3.0]))
        tensor(1.)
    """
    return _middle(sl.NANMEDIAN, return_types.nanmedian, input, dim, keepdim)


def _middle(aim: int, kind: type, input: Tensor, dim: int | None, keepdim: bool) -> Tensor | tuple[Tensor, Tensor]:
    """The median: the element at rank `aim` along `dim`, or of all elements."""
    if dim is None and keepdim:
        raise TypeError(f"{kind.__name__}(): argument 'keepdim' needs a 'dim'")
    if dim is not None:
        dim = normalize_dim(dim, input.ndim)
        _expect_elements(kind.__name__, input.shape[dim] if input.ndim else 1, dim)
        return kind(_selected(input, dim, keepdim, 0, aim))
    if not input.numel():
        return full(
            (),
            nan if input.is_floating_point() else dtypes.iinfo(input.dtype).min,
            dtype=input.dtype,
            device=input.device,
        )
    result = squeeze(_selected(reshape(input.detach(), -1), 0, True, 0, aim)[0], 0)
    if not (state.grad_enabled and input.requires_grad):
        return result
    others = t.logical_not((input == result) | (t.isnan(input) & t.isnan(result)))
    # the same value, but its gradient is shared by the elements equal to it
    return amax(masked_fill(input, others, -float("inf")))


def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> return_types.mode:
    """(values, indices): the most frequent element along a dimension (of several the smallest), and its last
    position.

    Example:

        >>> torch.mode(torch.tensor([1, 2, 2, 3]))
        numod.return_types.mode(
        values=tensor(2),
        indices=tensor(2))
    """
    dim = normalize_dim(dim, input.ndim)
    if not input.ndim:
        return return_types.mode((input.clone(), full((), 0, dtype=dtypes.int64, device=input.device)))
    _expect_elements("mode", input.shape[dim], dim)
    rows = contiguous(transpose(input, dim, -1))
    indices = unsqueeze(apply(unique.longest_run, tuple(sort(rows.detach()))), -1)
    results = gather(rows, -1, indices), indices
    results = [contiguous(transpose(result, dim, -1)) for result in results]
    return return_types.mode(results if keepdim else [squeeze(result, dim) for result in results])
