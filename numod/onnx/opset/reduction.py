"""Reductions over some or all axes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import numod

from ...core import Tensor
from ..registry import operator


def _enter(name: str, function: Callable, axes_are_input_since: int) -> None:
    """Enter a reduction `function(x, axes, keepdim)`. Before that version the axes are an attribute."""

    def compute(
        x: Tensor, axes: np.ndarray | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Tensor:
        places = None if axes is None or not axes.size else tuple(axes.tolist())
        return _reduced(function, x, places, keepdims, noop_with_empty_axes)

    def compute_in_old_version(x: Tensor, *, axes: list[int] | None = None, keepdims: int = 1) -> Tensor:
        return _reduced(function, x, axes, keepdims, False)

    operator(name, 1)(compute_in_old_version)
    operator(name, axes_are_input_since, host="axes")(compute)


def _reduced(function: Callable, x: Tensor, axes: object, keepdims: int, noop: int) -> Tensor:
    if axes is None:
        axes = () if noop else tuple(range(x.ndim))
    return function(x, tuple(axes), bool(keepdims))


def _over_axes(function: Callable) -> Callable:
    """A reduction for which no axes mean none, as opposed to all."""
    return lambda x, axes, keepdim: function(x, axes, keepdim) if axes else x


def _product(x: Tensor, axes: tuple, keepdim: bool) -> Tensor:
    for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
        x = x.prod(axis, keepdim=keepdim, dtype=x.dtype)
    return x


def _sum(x: Tensor, axes: tuple, keepdim: bool) -> Tensor:
    return x.sum(axes, keepdim=keepdim, dtype=x.dtype) if axes else x


def _mean(x: Tensor, axes: tuple, keepdim: bool) -> Tensor:
    if not axes:
        return x
    if x.dtype.is_floating_point or x.is_quantized:
        return x.mean(axes, keepdim=keepdim)
    return x.to(numod.float64).mean(axes, keepdim=keepdim).to(x.dtype)


def _extreme(function: Callable, largest: bool) -> Callable:
    def compute(x: Tensor, axes: tuple, keepdim: bool) -> Tensor:
        if not axes:
            return x
        if x.dtype is numod.bool:
            return (x.any if largest else x.all)(axes, keepdim)
        if all(x.shape[axis] for axis in axes):
            return function(x, axes, keepdim)
        # of no elements the result is the value that every other one replaces
        shape = x.sum(axes, keepdim=keepdim).shape
        if x.dtype.is_floating_point:
            return numod.full(shape, -np.inf if largest else np.inf, dtype=x.dtype)
        info = numod.iinfo(x.dtype)
        return numod.full(shape, info.min if largest else info.max, dtype=x.dtype)

    return compute


for _name, _function, _version in (
    ("ReduceSum", _sum, 13),
    ("ReduceMean", _mean, 18),
    ("ReduceProd", _product, 18),
    ("ReduceMax", _extreme(numod.amax, True), 18),
    ("ReduceMin", _extreme(numod.amin, False), 18),
    ("ReduceL1", lambda x, axes, keepdim: _sum(x.abs(), axes, keepdim), 18),
    ("ReduceL2", lambda x, axes, keepdim: numod.sqrt(_sum(x * x, axes, keepdim)).to(x.dtype), 18),
    ("ReduceSumSquare", lambda x, axes, keepdim: _sum(x * x, axes, keepdim), 18),
    ("ReduceLogSum", lambda x, axes, keepdim: numod.log(_sum(x, axes, keepdim)), 18),
    ("ReduceLogSumExp", _over_axes(numod.logsumexp), 18),
):
    _enter(_name, _function, _version)


def _enter_place(name: str, function: Callable) -> None:
    def compute(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
        if not select_last_index:
            return function(x, axis, keepdim=bool(keepdims))
        return x.shape[axis] - 1 - function(x.flip(axis), axis, keepdim=bool(keepdims))

    operator(name)(compute)


_enter_place("ArgMax", numod.argmax)
_enter_place("ArgMin", numod.argmin)
