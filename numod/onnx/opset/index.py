"""Gathering, scattering, sorting, and searching."""

from __future__ import annotations

import math

import numpy as np

import numod

from ...core import Tensor
from ..registry import operator


def _wrapped(index: Tensor, size: int) -> Tensor:
    """Indices with negative ones counted from the end."""
    index = index.to(numod.int64)
    return numod.where(index < 0, index + size, index)


@operator("Gather")
def gather(x: Tensor, index: Tensor, *, axis: int = 0) -> Tensor:
    """Slices of `x` along an axis, in the shape of the index."""
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis must be from {-x.ndim} to {x.ndim - 1} for an input of {x.ndim} dimensions, got {axis}")
    axis = axis + x.ndim if axis < 0 else axis
    if index.ndim == 0:
        return x.index_select(axis, _wrapped(index.reshape(1), x.shape[axis])).squeeze(axis)
    out = x.index_select(axis, _wrapped(index.reshape(-1), x.shape[axis]))
    return out.reshape(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])


@operator("GatherElements", since=11)
def gather_elements(x: Tensor, index: Tensor, *, axis: int = 0) -> Tensor:
    """One element for each index, at the index's place along the other axes."""
    return x.gather(axis, _wrapped(index, x.shape[axis]))


def _flat_places(index: Tensor, shape: tuple) -> Tensor:
    """Places in a tensor of `shape`, flattened, for indices (…, len(shape))."""
    flat_index = numod.zeros(index.shape[:-1], dtype=numod.int64)
    for axis, size in enumerate(shape):
        flat_index = flat_index * size + _wrapped(index.select(-1, axis), size)
    return flat_index


@operator("GatherND", since=11)
def gather_nd(x: Tensor, index: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Slices of `x` by indices of several axes, after some axes that both have."""
    depth, b, outer = index.shape[-1], batch_dims, tuple(index.shape[:-1])
    shape = tuple(x.shape)
    batch = math.prod(shape[:b])
    index = index.reshape(batch, -1, depth)
    flat_index = _flat_places(index, shape[b : b + depth])
    step = math.prod(shape[b : b + depth])
    flat_index = flat_index + (numod.arange(batch) * step).reshape(-1, 1)
    rest = shape[b + depth :]
    rows = x.reshape(batch * step, math.prod(rest)).index_select(0, flat_index.reshape(-1))
    return rows.reshape(*outer, *rest)


@operator("Scatter ScatterElements", since=9)
def scatter_elements(x: Tensor, index: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none") -> Tensor:
    """`x` with elements replaced by, or reduced with, the updates."""
    index = _wrapped(index, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, index, updates)
    names = {"add": "sum", "mul": "prod", "min": "amin", "max": "amax"}
    if reduction not in names:
        raise ValueError(f"reduction must be none, add, mul, min or max, got {reduction}")
    return x.scatter_reduce(axis, index, updates, names[reduction])


@operator("ScatterND", since=11)
def scatter_nd(x: Tensor, index: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """`x` with slices replaced by, or reduced with, the updates."""
    depth, shape = index.shape[-1], tuple(x.shape)
    rest = math.prod(shape[depth:])
    flat_index = _flat_places(index.reshape(-1, depth), shape[:depth]).reshape(-1, 1).expand(-1, rest)
    flat = x.reshape(math.prod(shape[:depth]), rest)
    return scatter_elements(flat, flat_index, updates.reshape(-1, rest), reduction=reduction).reshape(shape)


@operator("OneHot", since=9, host="depth")
def one_hot(index: Tensor, depth: np.ndarray, values: Tensor, *, axis: int = -1) -> Tensor:
    """values[1] at the index along a new axis of size depth, else values[0]."""
    size = int(depth.reshape(()))
    axis = axis + index.ndim + 1 if axis < 0 else axis
    wrapped = _wrapped(index, size).unsqueeze(axis)
    classes = numod.arange(size).reshape([-1 if k == axis else 1 for k in range(index.ndim + 1)])
    return numod.where(wrapped == classes, values[1], values[0])


@operator("NonZero", since=9)
def nonzero(x: Tensor) -> Tensor:
    """The indices of elements that are not zero, an axis a row."""
    return numod.nonzero(x).T


@operator("Compress", since=9, host="condition")
def compress(x: Tensor, condition: np.ndarray, *, axis: int | None = None) -> Tensor:
    """The slices along an axis (the flattened input by default) where the condition holds."""
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    return x.index_select(axis, numod.tensor(np.flatnonzero(condition).tolist(), dtype=numod.int64))


@operator("TopK", since=1)
def topk_in_first_version(x: Tensor, *, axis: int = -1, k: int) -> tuple:
    """Before version 10 k is an attribute."""
    return _ordered_top(x, k, axis, True)


@operator("TopK", since=10, host="k")
def topk(x: Tensor, k: np.ndarray, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple:
    """The k largest or smallest elements along an axis and their indices; of equal ones the first."""
    return _ordered_top(x, int(k.reshape(())), axis, bool(largest))


def _ordered_top(x: Tensor, k: int, axis: int, largest: bool) -> tuple:
    values, places = numod.sort(x, stable=True, dim=axis, descending=largest)
    return values.narrow(axis, 0, k), places.narrow(axis, 0, k)


@operator("Unique", since=11)
def unique(x: Tensor, *, axis: int | None = None, sorted: int = 1) -> tuple:
    """Distinct elements or slices, where each occurs first, the place of each element's, and counts."""
    flat = x.reshape(-1) if axis is None else x
    dim = 0 if axis is None else axis
    values, inverse, counts = numod.unique(flat, return_inverse=True, return_counts=True, dim=dim)
    inverse = inverse.reshape(-1)
    size = values.shape[dim]
    places = numod.arange(inverse.shape[0])
    first = numod.full((size,), inverse.shape[0]).scatter_reduce(0, inverse, places, "amin")
    if not sorted:
        order = numod.argsort(first)
        values, first, counts = values.index_select(dim, order), first[order], counts[order]
        inverse = numod.argsort(order)[inverse]
    return values, first, inverse, counts


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(x: Tensor, index: Tensor) -> Tensor:
    """Columns of `x`."""
    return (
        x.index_select(-1, index.reshape(-1)).reshape(-1, index.numel())
        if x.ndim == 1
        else x.index_select(-1, index.reshape(-1))
    )


@operator("Binarizer", domain="ai.onnx.ml")
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    """1 where `x` is above the threshold, else 0."""
    return (x > threshold).to(x.dtype)
