"""The standard's functions that search, sort and find unique elements."""

from __future__ import annotations

from typing import NamedTuple

import numod

from .. import Tensor, where

__all__ = [
    "argmax", "argmin", "argsort", "nonzero", "searchsorted", "sort", "unique_all", "unique_counts", "unique_inverse",
    "unique_values", "where",
]  # fmt: skip


class UniqueAll(NamedTuple):
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    values: Tensor
    inverse_indices: Tensor


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the first largest element."""
    return numod.argmax(x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the first smallest element."""
    return numod.argmin(x, axis, keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of elements that are not zero, one array for each axis."""
    return tuple(numod.nonzero(x, as_tuple=True))


def searchsorted(x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Where the elements of x2 belong in the sorted x1."""
    return numod.searchsorted(x1, x2, side=side, sorter=sorter)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along an axis."""
    return numod.sort(x, dim=axis, descending=descending, stable=stable).values


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort an axis."""
    return numod.sort(x, dim=axis, descending=descending, stable=stable).indices


def unique_all(x: Tensor, /) -> UniqueAll:
    """The unique elements, their first indices, where each element is among them, and how often they occur."""
    values, inverse, counts = numod.unique(x, return_inverse=True, return_counts=True)
    order = numod.sort(inverse.reshape(-1), stable=True).indices
    return UniqueAll(values, order[numod.cumsum(counts, 0) - counts], inverse, counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The unique elements and how often they occur."""
    return UniqueCounts(*numod.unique(x, return_counts=True))


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The unique elements, and where each element is among them."""
    return UniqueInverse(*numod.unique(x, return_inverse=True))


def unique_values(x: Tensor, /) -> Tensor:
    """The unique elements."""
    return numod.unique(x)
