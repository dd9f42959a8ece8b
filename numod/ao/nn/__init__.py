"""Layers of quantization: `quantized` (integers), `intrinsic` (fused float layers) and `qat` (training)."""

from __future__ import annotations

from . import intrinsic, qat, quantized  # noqa: F401  public namespaces
