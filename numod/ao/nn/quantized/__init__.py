"""Layers with integer kernels over quantized tensors; those in `dynamic` have float inputs and results."""

from __future__ import annotations

from ....nn import MaxPool2d
from .base import _quantize_weight  # noqa: F401  PyTorch's name, in modules.utils
from .convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .embeddings import Embedding, EmbeddingBag, EmbeddingPackedParams
from .functional_modules import FloatFunctional, FXFloatFunctional, QFunctional
from .layers import (
    ELU,
    BatchNorm2d,
    BatchNorm3d,
    DeQuantize,
    Dropout,
    GroupNorm,
    Hardswish,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    LeakyReLU,
    PReLU,
    Quantize,
    ReLU6,
    Sigmoid,
    Softmax,
)
from .linear import Linear, LinearPackedParams
from .observed_layers import LSTM, MultiheadAttention
from . import dynamic, functional, reference  # noqa: F401  public namespaces; they derive from the layers above

__all__ = [
    "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "DeQuantize", "Dropout", "ELU", "Embedding", "EmbeddingBag", "EmbeddingPackedParams",
    "FXFloatFunctional", "FloatFunctional", "GroupNorm", "Hardswish", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm", "LSTM", "LeakyReLU", "Linear", "LinearPackedParams", "MaxPool2d",
    "MultiheadAttention", "PReLU", "QFunctional", "Quantize", "ReLU6", "Sigmoid", "Softmax",
]  # fmt: skip
