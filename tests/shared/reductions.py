"""Inputs of reductions, and their references in NumPy."""

from __future__ import annotations

import numpy as np

import numod


def logsumexp(x, axis=None, keepdims=False):
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


def norm(x, axis=None, keepdims=False):
    return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))


def variance(x, axis=None, keepdims=False):
    return np.var(x, axis=axis, keepdims=keepdims, ddof=1)


def deviation(x, axis=None, keepdims=False):
    return np.std(x, axis=axis, keepdims=keepdims, ddof=1)


def data(shape=(3, 5, 4), dtype=np.float64, seed=0):
    generator = np.random.default_rng(seed)
    return (
        generator.standard_normal(shape).astype(dtype)
        if np.dtype(dtype).kind == "f"
        else generator.integers(0, 5, shape).astype(dtype)
    )


def reduce(name, x, dim, keepdim=False):
    """The numod function by name; those that need a dim get all."""
    if name == "norm":
        return numod.norm(x, 2, dim, keepdim)
    dim = tuple(range(x.ndim)) if dim is None and name in ("logsumexp",) else dim
    return getattr(numod, name)(x, keepdim=keepdim) if dim is None else getattr(numod, name)(x, dim, keepdim=keepdim)


def close(result, reference, rtol=1e-12):
    reference = np.asarray(reference)
    assert result.shape == reference.shape
    np.testing.assert_allclose(result.detach().numpy(), reference, rtol=rtol, atol=rtol)
