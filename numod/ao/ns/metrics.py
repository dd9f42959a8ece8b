"""How far an approximation is from a tensor: PyTorch's `torch.ao.ns.fx.utils`."""

from __future__ import annotations

from typing import Any

from ...core import Tensor
from ...nn import functional as F

__all__ = ["compute_cosine_similarity", "compute_normalized_l2_error", "compute_sqnr"]


def _pairs(function: Any) -> Any:
    """Extend a function of two tensors to quantized ones, and to lists of tensors."""

    def apply(x: Any, y: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return [apply(*pair) for pair in zip(x, y, strict=True)]
        x, y = (value.dequantize() if value.is_quantized else value for value in (x, y))
        return function(x, y)

    apply.__name__, apply.__qualname__, apply.__doc__ = function.__name__, function.__name__, function.__doc__
    return apply


@_pairs
def compute_sqnr(x: Tensor, y: Tensor) -> Tensor:
    """The signal-to-noise ratio of y, an approximation of x, in decibels: 20 log10(|x| / |x - y|).

    Example:

        >>> from numod.ao.ns.fx.utils import compute_sqnr
        >>> round(compute_sqnr(torch.tensor([1.0, 2.0]), torch.tensor([1.1, 2.2])).item())
        20
    """
    return 20 * (x.norm() / (x - y).norm()).log10()


@_pairs
def compute_normalized_l2_error(x: Tensor, y: Tensor) -> Tensor:
    """sqrt(sum((x - y)²) / sum(x²))."""
    return ((x - y).square().sum() / x.square().sum()).sqrt()


@_pairs
def compute_cosine_similarity(x: Tensor, y: Tensor) -> Tensor:
    """The cosine of the angle between both tensors, as vectors."""
    return F.cosine_similarity(x.reshape(1, -1), y.reshape(1, -1))
