"""The numeric suite: where a quantized model differs from its float model, layer for layer."""

from __future__ import annotations

from . import _numeric_suite  # noqa: F401  PyTorch's name of the public module

__all__: list[str] = []
