"""Distinct elements and slices: by sorting rows and finding runs of equal ones."""

from __future__ import annotations

from ...errors import normalize_dim
from ...ops.index import indexing as ix
from ...ops.sort import unique as runs
from ..apply import apply, without_derivative
from ..create.creation import zeros
from ..convert.copies import contiguous
from ..create.ranges import arange
from ..shape.parts import narrow
from ..shape.shapes import reshape, transpose
from .sorting import argsort, sort
from ..tensor import Tensor

BOTH = "unique unique_consecutive"


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """The distinct elements (or slices of a dimension), sorted.

    With `return_inverse` also the index of each input among them, with `return_counts` their counts.

    Example:

        >>> torch.unique(torch.tensor([3, 1, 3]))
        tensor([1, 3])
    """
    slices, rows = _rows(input, dim)
    if rows.ndim == 1:
        ordered, order = sort(rows)
    else:
        order = _order(rows)
        ordered = _at(rows, order)
    name = "_unique2" if dim is None else "unique_dim"
    return _results(name, input, dim, slices, apply(runs.runs, (ordered,)), order, return_inverse, return_counts)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Tensor | tuple[Tensor, ...]:
    """The first of each run of equal elements (or slices of a dimension), in order; further results as in `unique`.

    Example:

        >>> torch.unique_consecutive(torch.tensor([1, 1, 2, 1]))
        tensor([1, 2, 1])
    """
    slices, rows = _rows(input, dim)
    return _results(
        "unique_consecutive", input, dim, slices, apply(runs.runs, (rows,)), None, return_inverse, return_counts
    )


def _rows(input: Tensor, dim: int | None) -> tuple[Tensor, Tensor]:
    """(the slices to compare, along the first dimension; the slices flattened: a vector, or the rows of a matrix)."""
    input = input.detach()
    if dim is None:
        flat = reshape(contiguous(input), -1)
        return flat, flat
    if not input.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = normalize_dim(dim, input.ndim)
    if not input.numel() and input.shape[dim]:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    slices = contiguous(transpose(input, 0, dim))
    return slices, reshape(slices, (slices.shape[0], -1)) if slices.shape[0] else reshape(slices, (0, 1))


def _at(x: Tensor, places: Tensor) -> Tensor:
    """Rows of a contiguous tensor at indices in range, without a check."""
    return apply(ix.index_select, (x, places), (0,))


def _order(rows: Tensor) -> Tensor:
    """The indices that sort rows lexicographically: a stable sort by each column, from the last."""
    order = arange(rows.shape[0], device=rows.device)
    for column in reversed(range(rows.shape[1])):
        order = _at(order, argsort(_at(contiguous(rows[:, column]), order)))
    return order


def _results(
    name: str,
    input: Tensor,
    dim: int | None,
    slices: Tensor,
    numbers: Tensor,
    order: Tensor | None,
    inverse: bool,
    counts: bool,
) -> Tensor | tuple[Tensor, ...]:
    """The first slice of each run, and the requested inverse and counts.

    `numbers`: the run of each slice; `order`: the permutation that sorted the slices, if any.
    """
    count = int(numbers[-1]._observe()) + 1 if numbers.numel() else 0
    starts = apply(runs.begins, (numbers,), (count,)) if count else zeros(1, dtype=numbers.dtype, device=input.device)
    first = narrow(starts, 0, 0, count)
    distinct = _at(slices, first if order is None else _at(order, first))
    if dim is not None:
        distinct = contiguous(transpose(distinct, 0, normalize_dim(dim, input.ndim)))
    results = [without_derivative(name, distinct, input)]
    if inverse:
        input_runs = (
            numbers
            if order is None
            else zeros(order.shape, dtype=order.dtype, device=input.device).scatter_(0, order, numbers)
        )
        results.append(reshape(input_runs, input.shape) if dim is None else input_runs)
    if counts:
        results.append(narrow(starts, 0, 1, count) - first)
    return tuple(results) if len(results) > 1 else distinct
