"""Fused layers with quantized weights for float inputs."""

from __future__ import annotations

from ....quantized.dynamic import LinearReLU

__all__ = ["LinearReLU"]
