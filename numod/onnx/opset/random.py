"""Random numbers, from numod's generator. A node's seed is ignored: it would repeat the same numbers."""

from __future__ import annotations

import numod

from ...core import Tensor
from ...dtypes import dtype
from ..registry import operator


@operator("RandomNormal")
def random_normal(
    *, dtype: dtype = numod.float32, mean: float = 0.0, scale: float = 1.0, seed: float | None = None, shape: list[int]
) -> Tensor:
    """Normal numbers in a shape."""
    return numod.randn(shape, dtype=dtype) * scale + mean


@operator("RandomUniform")
def random_uniform(
    *, dtype: dtype = numod.float32, high: float = 1.0, low: float = 0.0, seed: float | None = None, shape: list[int]
) -> Tensor:
    """Uniform numbers in a shape."""
    return numod.rand(shape, dtype=dtype) * (high - low) + low


def _kind(x: Tensor, dtype: dtype | None) -> dtype:
    return dtype or (x.dtype if x.dtype.is_floating_point else numod.float32)


@operator("RandomNormalLike")
def random_normal_like(
    x: Tensor, *, dtype: dtype | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Tensor:
    """Normal numbers in the shape of `x`."""
    return numod.randn(x.shape, dtype=_kind(x, dtype)) * scale + mean


@operator("RandomUniformLike")
def random_uniform_like(
    x: Tensor, *, dtype: dtype | None = None, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Tensor:
    """Uniform numbers in the shape of `x`."""
    return numod.rand(x.shape, dtype=_kind(x, dtype)) * (high - low) + low


@operator("Bernoulli", since=15)
def bernoulli(x: Tensor, *, dtype: dtype | None = None, seed: float | None = None) -> Tensor:
    """1 with the probability `x`, else 0."""
    return (numod.rand(x.shape, dtype=x.dtype) < x).to(dtype or x.dtype)


@operator("Multinomial", since=7)
def multinomial(x: Tensor, *, dtype: dtype = numod.int32, sample_size: int = 1, seed: float | None = None) -> Tensor:
    """Classes drawn with the unnormalized log-probabilities `x`."""
    return numod.multinomial(numod.softmax(x, -1), sample_size, replacement=True).to(dtype)
