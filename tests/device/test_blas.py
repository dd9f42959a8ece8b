"""LAPACK's number of threads: numod's during a factorization, NumPy's setting otherwise."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import numod
from numod.device import blas, threads


@pytest.fixture
def openblas(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A BLAS on 4 threads, whose present number is the last element."""
    counts = [4]
    monkeypatch.setattr(blas, "_controls", lambda: (lambda: counts[-1], counts.append))
    monkeypatch.setattr(threads, "_threads", 2)
    return counts


@pytest.mark.parametrize("shape, expected", [((3, 3), 1), ((1000, 7), 1), ((9, 600, 600), 2)])
def test_small_matrices_get_one_thread_and_large_ones_numods(openblas: list[int], shape: tuple, expected: int) -> None:
    assert blas.limited(lambda a: openblas[-1], [np.empty(shape)]) == expected
    assert openblas[-1] == 4


def test_the_number_is_restored_after_a_refusal(openblas: list[int]) -> None:
    with pytest.raises(numod.linalg.LinAlgError):
        numod.linalg.inv(numod.zeros(2, 2))
    assert len(openblas) > 1 and openblas[-1] == 4


def test_the_last_of_several_threads_restores_it(openblas: list[int]) -> None:
    entered, leave = threading.Event(), threading.Event()
    first = threading.Thread(target=lambda: blas.limited(lambda a: (entered.set(), leave.wait()), [np.empty((2, 2))]))
    first.start()
    entered.wait()
    assert blas.limited(lambda a: openblas[-1], [np.empty((600, 600))]) == 1  # the first one's number holds
    assert openblas[-1] == 1
    leave.set()
    first.join()
    assert openblas[-1] == 4


def test_without_openblas_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "_controls", lambda: None)
    assert blas.limited(lambda a, b: a.shape + (b,), [np.empty((2, 3))], (4,)) == (2, 3, 4)


@pytest.mark.skipif(blas._controls() is None, reason="this NumPy has no OpenBLAS whose threads can be set")
def test_numpys_openblas_is_reached() -> None:
    read, write = blas._controls()
    before = read()
    assert blas.limited(lambda a: read(), [np.empty((2, 2))]) == 1 and read() == before
