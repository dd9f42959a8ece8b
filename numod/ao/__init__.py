"""Smaller networks: `ao.quantization` is PyTorch's recipe, `ao.nn` has its layers, `ao.pruning` masks weights, and
`ao.ns` compares a quantized model with its float model.
"""

from __future__ import annotations

import sys

from ..paths import later
from . import nn, pruning, quantization  # noqa: F401  public namespaces
from . import ns  # noqa: F401  after `quantization`, which it needs
from .quantization import quantize_ as quantize_

for _path in (
    "nn.intrinsic", "nn.intrinsic.qat", "nn.intrinsic.quantized", "nn.intrinsic.quantized.dynamic", "nn.qat",
    "nn.qat.dynamic", "nn.quantizable", "nn.quantized", "nn.quantized.dynamic", "nn.quantized.reference",
    "quantization", "quantization.backend_config",
):  # fmt: skip
    sys.modules[f"{__name__}.{_path}"].__getattr__ = later(f"ao.{_path}")
quantization.quantize_fx.__getattr__ = later("ao.quantization.fx")
