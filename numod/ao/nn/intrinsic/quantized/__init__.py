"""Fused layers of integers."""

from __future__ import annotations

from ...quantized.convolution import ConvAdd2d, ConvAddReLU2d, ConvReLU1d, ConvReLU2d, ConvReLU3d
from ...quantized.layers import BNReLU2d, BNReLU3d
from ...quantized.linear import LinearLeakyReLU, LinearReLU, LinearTanh
from . import dynamic  # noqa: F401  a public namespace

__all__ = [
    "BNReLU2d", "BNReLU3d", "ConvAdd2d", "ConvAddReLU2d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearLeakyReLU",
    "LinearReLU", "LinearTanh",
]  # fmt: skip
