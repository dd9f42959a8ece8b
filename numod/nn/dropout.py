"""Dropout as a module. The formula is `functional.dropout`; here it learns from `training` whether to act."""

from __future__ import annotations

from ..core import Tensor
from . import functional as F
from .module import Module

__all__ = ["Dropout"]


class Dropout(Module):
    """In training, each element zero with probability `p` and the others divided by 1 - p; in evaluation the input itself.

    Source: Hinton et al., Improving neural networks by preventing co-adaptation of feature detectors, 2012.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
