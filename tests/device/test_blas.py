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
    blas._setter.cache_clear()
    monkeypatch.setattr(blas.glob, "glob", lambda pattern: [])
    try:
        assert blas._setter()(1) is None
    finally:
        blas._setter.cache_clear()
