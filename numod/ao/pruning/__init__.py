"""Sparsity by PyTorch's names: a sparsifier keeps masks of weights while a model trains, and then writes the zeros."""

from __future__ import annotations

from .scheduler import BaseScheduler, CubicSL, LambdaSL
from .sparsifier import (
    BaseSparsifier,
    FakeSparsity,
    NearlyDiagonalSparsifier,
    WeightNormSparsifier,
    fqn_to_module,
    get_arg_info_from_tensor_fqn,
    module_to_fqn,
)

__all__ = [
    "BaseScheduler", "BaseSparsifier", "CubicSL", "FakeSparsity", "LambdaSL", "NearlyDiagonalSparsifier",
    "WeightNormSparsifier", "fqn_to_module", "get_arg_info_from_tensor_fqn",
    "module_to_fqn",
]  # fmt: skip
