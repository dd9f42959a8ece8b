"""Tensors that lie along another dimension than the result: copies by transposed squares, and loops that read such
copies, against NumPy.
"""

import itertools

import numod
import numpy as np
import pytest
from selection import diagonals

pytestmark = pytest.mark.on_cuda(simulator=False)

SHAPES = [(64, 64), (100, 130), (8, 600), (601, 9), (3, 70, 65), (2, 3, 40, 50), (2, 2, 2, 33, 40), (5, 7, 300)]


@pytest.mark.parametrize("shape, dtype", diagonals(
    SHAPES, [np.float32, np.float64, np.int32, np.int64, np.complex64, np.float16, np.uint8], 2,
    others=pytest.mark.fuzz,
))  # fmt: skip
def test_copies(shape, dtype):
    x = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    for order in itertools.islice(itertools.permutations(range(len(shape))), 24):
        np.testing.assert_array_equal(numod.from_numpy(x).permute(order).contiguous().numpy(), x.transpose(order))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_loops(shape):
    r = np.random.default_rng(1)
    x, y = r.standard_normal(shape), r.standard_normal(shape[::-1])
    a, b = numod.from_numpy(x), numod.from_numpy(y)
    transposed = b.permute(*range(b.ndim)[::-1])
    np.testing.assert_array_equal((a - transposed).numpy(), x - y.T)
    np.testing.assert_array_equal((transposed * a + transposed).numpy(), y.T * x + y.T)
    np.testing.assert_array_equal(numod.where(transposed > 0, a, transposed).numpy(), np.where(y.T > 0, x, y.T))
    np.testing.assert_array_equal(a.clone().sub_(transposed).numpy(), x - y.T)
    np.testing.assert_array_equal(transposed.clone().mul_(a).numpy(), y.T * x)
    np.testing.assert_array_equal(numod.cat([a, transposed], -1).numpy(), np.concatenate([x, y.T], -1))
    np.testing.assert_array_equal(a.copy_(transposed).numpy(), y.T)


def test_parts_of_larger_memory():
    x = np.random.default_rng(2).standard_normal((90, 110)).astype(np.float32)
    a, out = numod.from_numpy(x), numod.zeros(120, 100)
    out[3:83, 5:75] = a[7:77, 20:100].T
    assert numod.equal(out[3:83, 5:75], numod.from_numpy(np.ascontiguousarray(x[7:77, 20:100].T)))
    assert int((out != 0).sum()) == 80 * 70
    np.testing.assert_array_equal(a[::2].T.contiguous().numpy(), x[::2].T)
    np.testing.assert_array_equal((a.T[::3] + 1).contiguous().numpy(), x.T[::3] + 1)


def test_a_turned_result_and_itself():
    x = np.random.default_rng(3).standard_normal((80, 80)).astype(np.float32)
    a = numod.from_numpy(x.copy())
    a.add_(a.T)
    np.testing.assert_array_equal(a.numpy(), x + x.T)
    b = numod.from_numpy(x.copy())
    b.T.mul_(b)
    np.testing.assert_array_equal(b.numpy(), x * x.T)


@pytest.mark.parametrize("dtype", [numod.float32, numod.float64, numod.int32, numod.int64, numod.uint8, numod.bool])
def test_choices(dtype):
    """By a random mask, of which a processor's guesses are wrong half of the time."""
    mask, x, y = (np.random.default_rng(k).integers(0, 2, 5000) for k in range(3))
    result = numod.where(numod.from_numpy(mask) > 0, numod.from_numpy(x).to(dtype), numod.from_numpy(y).to(dtype))
    assert result.dtype is dtype
    np.testing.assert_array_equal(result.to(numod.int64).numpy(), np.where(mask, x, y))
