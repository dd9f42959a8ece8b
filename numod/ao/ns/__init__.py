"""The numeric suite: where a quantized model differs from its float model, layer for layer."""

from __future__ import annotations

from . import _numeric_suite, metrics  # noqa: F401  public modules, the first under PyTorch's name

__all__: list[str] = []
