"""The threads that large products get: results do not depend on them, and small products stay on one."""

from __future__ import annotations

import numpy as np

import numod
from numod.device import blas


def test_products_agree_at_every_number_of_threads():
    a = numod.randn(192, 192)
    before = numod.get_num_threads()
    try:
        results = []
        for count in (1, 2):
            numod.set_num_threads(count)
            results.append((a @ a).numpy())
    finally:
        numod.set_num_threads(before)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-5)


def test_small_products_use_one_thread_and_large_ones_those_asked_for():
    before = numod.get_num_threads()
    try:
        numod.set_num_threads(2)
        blas.prepare(1000)
        assert blas._current == 1
        blas.prepare(1 << 23)
        assert blas._current == 2
    finally:
        numod.set_num_threads(before)


def test_another_blas_is_left_alone(monkeypatch):
    a = numod.randn(40, 41)
    expected = a @ a.T
    caches = (blas._library, blas._setter, blas.gemm_address)
    for each in caches:
        each.cache_clear()
    monkeypatch.setattr(blas.glob, "glob", lambda pattern: [])
    try:
        assert blas._setter()(1) is None and blas.gemm_address(np.dtype("float32")) == 0
        b = numod.randn(41, 43)
        np.testing.assert_allclose((a @ b).numpy(), a.numpy() @ b.numpy(), rtol=1e-5, atol=1e-5)  # by NumPy's matmul
    finally:
        for each in caches:
            each.cache_clear()
    np.testing.assert_allclose((a @ a.T).numpy(), expected.numpy(), rtol=1e-6, atol=1e-6)
