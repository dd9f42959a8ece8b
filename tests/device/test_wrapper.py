"""What Python calls takes numbers and arrays as kernels expect them, and refuses others with an error."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from numod.device import cpu, wrapper
from numod.kernel import build

TEXT = """
def kernel(x, out, n, scale, turn):
    for i in range(n):
        out[i] = x[i] * scale * turn
    return n + 1
"""


@pytest.fixture(scope="module")
def launch() -> object:
    return build.build(cpu, "wrapped", TEXT, "float32[], complex128[], int64, float64, complex128").launch


def test_arguments_arrive_as_they_are(launch: object) -> None:
    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.complex128)
    before = sys.getrefcount(x), sys.getrefcount(out)
    assert launch(x, out, 3, 0.5, 2j) == 4 and out.tolist() == [0, 1j, 2j, 0]
    assert launch(x[1:], out, np.int32(3), -1, -1) == 4 and out.tolist() == [1, 2, 3, 0]
    assert launch(x, out, -1, -1.0, -1.0) == 0 and launch(x[:0], out, 0, 1.0, 1.0) == 1
    assert (sys.getrefcount(x), sys.getrefcount(out)) == before


def test_invalid_arguments_are_refused(launch: object) -> None:
    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.complex128)
    for arguments, error in (
        ((), TypeError),
        ((x, out, 3, 0.5), TypeError),
        ((x.astype(np.float64), out, 3, 0.5, 1j), TypeError),
        ((3, out, 3, 0.5, 1j), TypeError),
        ((x, out, "three", 0.5, 1j), ValueError),
        ((x, out, 1 << 64, 0.5, 1j), OverflowError),
        ((x, out, 3, None, 1j), TypeError),
        ((x, out, 3, 0.5, "i"), TypeError),
    ):
        with pytest.raises(error):
            launch(*arguments)
    assert not out.any()


def test_types_that_no_kernel_has_are_left_to_numba() -> None:
    from numba import types

    assert wrapper.text("a", "b", "c", (types.float32,), types.none, True) is None
    assert wrapper.text("a", "b", "c", (types.int64,), types.float64, True) is None
