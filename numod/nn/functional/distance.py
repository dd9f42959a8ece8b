"""Norms and distances between vectors."""

from __future__ import annotations

from ... import dtypes
from ...core import functions as f
from ...core.tensor import Tensor
from ...errors import normalize_dim
from ...ops import table as t

__all__ = ["cosine_similarity", "normalize", "pairwise_distance", "pdist"]

pdist = f.pdist


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """x divided by its norm along a dimension, or by eps if that is greater.

    Example:

        >>> F.normalize(torch.tensor([[3.0, 4.0]]))
        tensor([[0.6000, 0.8000]])
    """
    length = t.clamp_min(f.norm(input, p, dim, True), eps)
    return input / length if out is None else f.div(input, length, out=out)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 . x2 / (|x1| |x2|) along a dimension after broadcasting, with norms of at least eps.

    Example:

        >>> F.cosine_similarity(torch.tensor([[3.0, 4.0]]), torch.tensor([[3.0, 0.0]]))
        tensor([0.6000])
    """
    if not eps >= 0:
        raise RuntimeError(f"cosine_similarity: eps must be non-negative, got: {eps}")
    dtype = dtypes.promote_types(x1.dtype, x2.dtype)
    x1, x2 = f.broadcast_tensors(x1.to(dtype), x2.to(dtype))
    dim = normalize_dim(dim, x1.ndim)
    # the product of the norms might underflow or overflow
    return f.sum(normalize(x1, 2.0, dim, eps) * normalize(x2, 2.0, dim, eps), dim)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """Norm of x1 - x2 + eps along the last dimension.

    Example:

        >>> F.pairwise_distance(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]))
        tensor([5.0000])
    """
    return f.norm(x1 - x2 + eps, p, -1, keepdim)
