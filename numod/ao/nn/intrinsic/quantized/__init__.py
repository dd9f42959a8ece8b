"""Fused layers of integers."""

from __future__ import annotations

from ...quantized.convolution import ConvReLU1d, ConvReLU2d, ConvReLU3d
from ...quantized.layers import BNReLU2d, BNReLU3d
from ...quantized.linear import LinearReLU
from . import dynamic  # noqa: F401  a public namespace

__all__ = ["BNReLU2d", "BNReLU3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU"]
