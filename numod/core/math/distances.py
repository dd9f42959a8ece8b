"""Distances of all pairs of rows. Those of matching rows are in `nn.functional`."""

from __future__ import annotations

from math import prod

from ...ops.image import cdist as distance
from ...ops import table as t
from ...ops.pointwise import broadcast_shapes
from ..apply import apply
from ..convert.copies import contiguous
from .reductions import sum as total
from ..shape.shapes import expand, in_shape, reshape, transpose, unsqueeze
from ..linalg.products import matmul
from ..tensor import Tensor

FUNCTIONS = "cdist pdist"

_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
_PRODUCT_ROWS = 25  # with more rows, Euclidean distances are computed by a matrix product, as in PyTorch


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = _MODES[0]) -> Tensor:
    """p-norm distances of all pairs of rows, (..., P, M) and (..., R, M) -> (..., P, R).

    For many rows and p = 2 by a matrix product, which is less accurate.

    Example:

        >>> torch.cdist(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([[5., 1.]])
    """
    _check(x1, x2, p, compute_mode)
    batch = broadcast_shapes("cdist", [x1.shape[:-2], x2.shape[:-2]])
    n, m, width = x1.shape[-2], x2.shape[-2], x1.shape[-1]
    x, y = (
        reshape(expand(points, (*batch, *points.shape[-2:])), (prod(batch), *points.shape[-2:])) for points in (x1, x2)
    )
    mode = compute_mode or _MODES[0]
    if p == 2 and width and (mode == _MODES[1] or (mode == _MODES[0] and (n > _PRODUCT_ROWS or m > _PRODUCT_ROWS))):
        distances = _by_product(x, y)
    else:
        distances = apply(distance.cdist, (contiguous(x), contiguous(y)), (float(p),))
    return in_shape(distances, *batch, n, m)


def _check(x1: Tensor, x2: Tensor, p: float, compute_mode: str | None) -> None:
    if compute_mode is not None and compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for name, points in (("X1", x1), ("X2", x2)):
        if points.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {points.ndim}D")
        if not points.is_floating_point():
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {points.dtype.short}")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if x1.dtype is not x2.dtype:
        raise RuntimeError(f"cdist: X1 and X2 must have the same dtype, got {x1.dtype} and {x2.dtype}")
    if not p >= 0:
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")


def _by_product(x: Tensor, y: Tensor) -> Tensor:
    """Euclidean distances as the root of |x|^2 - 2 x.y + |y|^2."""
    squares = unsqueeze(total(t.square(x), -1), -1) + unsqueeze(total(t.square(y), -1), -2)
    return t.deviation(t.clamp_min(t.add_scaled(squares, matmul(x, transpose(y, -2, -1)), -2), 0.0))


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """p-norm distances of each row to those after it, (N, M) -> (N * (N - 1) / 2).

    Example:

        >>> F.pdist(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
        tensor([5.])
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input.is_floating_point():
        raise RuntimeError(f"pdist only supports floating-point dtypes, got: {input.dtype.short}")
    if not p >= 0:
        raise RuntimeError(f"pdist only supports non-negative p values, got {p}")
    return apply(distance.pdist, (contiguous(input),), (float(p),))
