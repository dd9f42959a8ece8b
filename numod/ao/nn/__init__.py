"""Layers of quantization: `quantized` (integers), `quantizable` (layers in parts that observers see), `intrinsic`
(fused float layers) and `qat` (training).
"""

from __future__ import annotations

from . import intrinsic, qat, quantized  # noqa: F401  public namespaces
from . import quantizable  # noqa: F401  after `quantized`, which it needs
