"""Smaller networks: `ao.quantization` is PyTorch's recipe, `ao.nn` has its layers, `ao.pruning` masks weights."""

from __future__ import annotations

from . import nn, pruning, quantization  # noqa: F401  public namespaces
from .quantization import quantize_ as quantize_
