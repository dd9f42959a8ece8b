"""Dropout: elements set to 0 at random in training."""

from __future__ import annotations

from ...core import functions as f, random
from ...core.tensor import Tensor
from ...ops import table as t

__all__ = ["dropout"]


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:  # noqa: A002
    """Each element 0 with probability p, else divided by 1 - p; in evaluation unchanged. Srivastava et al., 2014."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    result = t.dropout(f.contiguous(input), float(p), *random.default_generator.draw(input.numel()))
    return f.copy_(input, result) if inplace else result
