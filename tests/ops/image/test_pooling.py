"""Pooling against NumPy windows: values, indices, ties, NaN, gradients by finite differences."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import numod
import numod.nn.functional as F
from numod.autograd.gradcheck import gradcheck
from numod.ops.image import pooling

pytestmark = pytest.mark.on_cuda

# dimensions, kernel, stride, padding, dilation
WINDOWS = [(1, 3, 2, 1, 1), (2, 2, 2, 0, 1), (2, 3, 1, 1, 2), (2, (3, 2), (1, 3), (1, 0), (2, 1)), (3, 2, 1, 1, 1)]
SIZES = {1: (21,), 2: (9, 23), 3: (4, 5, 19)}


def _per_dimension(value, ndim):
    return (value,) * ndim if isinstance(value, int) else value


def _windows(x, ndim, kernel, stride, padding, dilation):
    """For each window: its place in the result, its elements inside x in order, and their places in the plane."""
    kernel, stride, padding, dilation = (_per_dimension(value, ndim) for value in (kernel, stride, padding, dilation))
    sizes = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(x.shape, kernel, stride, padding, dilation)
    ]
    for corner in product(*map(range, sizes)):
        steps = [
            [o * s - p + j * d for j in range(k)] for o, k, s, p, d in zip(corner, kernel, stride, padding, dilation)
        ]
        inside = [at for at in product(*steps) if all(0 <= i < n for i, n in zip(at, x.shape))]
        yield corner, [x[at] for at in inside], [int(np.ravel_multi_index(at, x.shape)) for at in inside]


@pytest.mark.parametrize(("ndim", "kernel", "stride", "padding", "dilation"), WINDOWS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_max_pool(ndim, kernel, stride, padding, dilation, dtype):
    # many are equal: the first of them counts
    x = np.random.default_rng(0).integers(-4, 4, (2, 3, *SIZES[ndim])).astype(dtype)
    values, indices = getattr(F, f"max_pool{ndim}d")(
        numod.tensor(x), kernel, stride, padding, dilation, return_indices=True
    )
    assert indices.dtype is numod.int64
    for image, channel in product(range(2), range(3)):
        for corner, elements, places in _windows(x[image, channel], ndim, kernel, stride, padding, dilation):
            assert values[(image, channel, *corner)].item() == max(elements)
            assert indices[(image, channel, *corner)].item() == places[int(np.argmax(elements))]


@pytest.mark.parametrize(
    ("ndim", "kernel", "stride", "padding"), [(1, 3, 2, 1), (2, 2, 2, 0), (2, (3, 2), (1, 3), (1, 0)), (3, 3, 1, 1)]
)
def test_avg_pool(ndim, kernel, stride, padding):
    x = np.random.default_rng(0).standard_normal((2, 3, *SIZES[ndim])).astype("float32")
    result = getattr(F, f"avg_pool{ndim}d")(numod.tensor(x), kernel, stride, padding, count_include_pad=False).numpy()
    for image, channel in product(range(2), range(3)):
        for corner, elements, _ in _windows(x[image, channel], ndim, kernel, stride, padding, 1):
            np.testing.assert_allclose(
                result[(image, channel, *corner)], np.mean(elements, dtype="float64"), rtol=1e-5, atol=1e-6
            )


def test_a_window_with_nan_gives_nan_and_one_of_infinities_its_first_place():
    x = np.full((1, 1, 4, 34), -np.inf, "float32")
    x[0, 0, 1, 1] = np.nan
    values, indices = F.max_pool2d(numod.tensor(x), 2, return_indices=True)
    assert np.isnan(values[0, 0, 0, 0].item()) and indices[0, 0, 0, 0].item() == 35
    assert values[0, 0, 1, 16].item() == -np.inf and indices[0, 0, 1, 16].item() == 2 * 34 + 32


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.avg_pool2d(x, 3, 2, 1),
        lambda x: F.adaptive_max_pool2d(x, (2, 3)),
    ],
)
def test_gradients(pool):
    x = numod.tensor(np.random.default_rng(0).permutation(2 * 5 * 7).reshape(1, 2, 5, 7) / 7.0, requires_grad=True)
    assert gradcheck(pool, (x,))


def test_a_compiled_step_pools_the_same():
    x = numod.randn(2, 3, 8, 9, requires_grad=True)

    def step(x):
        (F.max_pool2d(x, 3, 2, 1).sum() + F.avg_pool2d(x, 2).square().sum()).backward()
        return x.grad

    expected = step(x).clone()
    x.grad = None
    assert numod.allclose(numod.compile(step)(x), expected)


def test_an_infinity_stays_in_its_windows():
    x = np.ones((1, 2, 6, 6), "float32")
    x[0, 0, 0, 0] = np.inf  # also the first element of memory
    result = F.avg_pool2d(numod.tensor(x), 2).numpy()
    assert result[0, 0, 0, 0] == np.inf and np.isfinite(result.reshape(-1)[1:]).all()
    result = F.adaptive_avg_pool2d(numod.tensor(x), (4, 3)).numpy()
    assert np.isinf(result).sum() == 1 and result[0, 0, 0, 0] == np.inf


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    ("shape", "out"),
    [((1, 2, 21), (4,)), ((2, 2, 9, 37), (4, 5)), ((1, 1, 3, 5), (5, 7)), ((1, 2, 5, 4, 19), (2, 3, 18))],
)
def test_adaptive_windows_that_divide_unevenly(shape, out, dtype):
    ndim = len(out)
    x = np.random.default_rng(0).integers(-4, 4, shape).astype("float32")
    spans = [[range(o * n // m, -(-(o + 1) * n // m)) for o in range(m)] for n, m in zip(shape[-ndim:], out)]
    places = list(product(*map(range, out)))
    windows = [x[(slice(None), slice(None), *np.ix_(*(s[o] for s, o in zip(spans, index))))] for index in places]
    tensor = numod.tensor(x).to(getattr(numod, dtype))
    values, indices = getattr(F, f"adaptive_max_pool{ndim}d")(tensor, out, return_indices=True)
    alone = getattr(F, f"adaptive_max_pool{ndim}d")(tensor, out)
    for index, window in zip(places, windows):
        firsts = window.reshape(*window.shape[:2], -1).argmax(-1).ravel()
        steps = np.stack(np.unravel_index(firsts, window.shape[2:])) + np.array(
            [[s[o][0]] for s, o in zip(spans, index)]
        )
        np.testing.assert_array_equal(values.float().numpy()[(..., *index)], window.max(tuple(range(2, 2 + ndim))))
        np.testing.assert_array_equal(
            indices.numpy()[(..., *index)].ravel(), np.ravel_multi_index(tuple(steps), shape[2:])
        )
    np.testing.assert_array_equal(alone.float().numpy(), values.float().numpy())
    if dtype != "int32":
        means = getattr(F, f"adaptive_avg_pool{ndim}d")(tensor, out).float().numpy()
        for index, window in zip(places, windows):
            np.testing.assert_allclose(
                means[(..., *index)],
                window.mean(tuple(range(2, 2 + ndim))),
                rtol=1e-2 if dtype == "bfloat16" else 1e-6,
                atol=1e-6,
            )


def test_the_mean_of_whole_planes():
    x = numod.randn(3, 2, 17, 40, requires_grad=True)
    result = F.adaptive_avg_pool2d(x, 1)
    np.testing.assert_allclose(
        result.detach().numpy(), x.detach().numpy().mean((2, 3), keepdims=True), rtol=1e-5, atol=1e-6
    )
    result.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 1 / (17 * 40), rtol=1e-6)


@pytest.mark.parametrize(
    ("ndim", "kernel", "stride", "padding", "dilation"),
    [*WINDOWS, (2, 3, 3, 1, 1), (2, 5, 4, 2, 1), (1, 2, 7, 0, 3), (2, 4, 2, 2, 3)],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_values_alone_are_those_that_come_with_indices(ndim, kernel, stride, padding, dilation, dtype):
    x = np.random.default_rng(0).integers(-4, 4, (2, 3, *SIZES[ndim])).astype(dtype)
    if dtype != "int32":
        x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
        x[np.random.default_rng(2).random(x.shape) < 0.1] = -np.inf
    pool = getattr(F, f"max_pool{ndim}d")
    values, _ = pool(numod.tensor(x), kernel, stride, padding, dilation, return_indices=True)
    if dtype == "int32" and ndim == 1:  # as in PyTorch
        with pytest.raises(NotImplementedError, match="not implemented for 'Int'"):
            pool(numod.tensor(x), kernel, stride, padding, dilation)
        return
    np.testing.assert_array_equal(pool(numod.tensor(x), kernel, stride, padding, dilation).numpy(), values.numpy())


def test_index_of_the_last_nan_is_returned():
    x = numod.tensor([[[[1.0, np.nan, 3.0, np.nan, 2.0]]]])
    assert F.max_pool2d(x, (1, 5), return_indices=True)[1].item() == 3
    assert F.adaptive_max_pool2d(x, 1, return_indices=True)[1].item() == 3


@pytest.mark.on_cuda(simulator=False)
def test_a_dilated_window_beside_all_elements_has_no_gradient():
    x = numod.ones(1, 1, 4, requires_grad=True)
    values = F.max_pool1d(x, 2, 1, 1, 5)
    assert values.tolist() == [[[-np.inf]]]
    values.sum().backward()
    assert x.grad.tolist() == [[[0.0] * 4]]


@pytest.mark.parametrize(
    ("kernel", "stride", "ceil_mode", "divisor"), [(3, 2, True, None), ((2, 3), (3, 5), False, 3), (2, 2, False, None)]
)
def test_means_with_borders(kernel, stride, ceil_mode, divisor):
    x = np.random.default_rng(0).standard_normal((1, 2, 8, 35))
    result = F.avg_pool2d(numod.tensor(x), kernel, stride, 1, ceil_mode, divisor_override=divisor).numpy()
    for index in product(*map(range, result.shape)):
        begin = [o * s - 1 for o, s in zip(index[2:], _per_dimension(stride, 2))]
        ends = [min(b + k, n + 1) for b, k, n in zip(begin, _per_dimension(kernel, 2), x.shape[2:])]
        window = x[(*index[:2], *(slice(max(b, 0), e) for b, e in zip(begin, ends)))]
        np.testing.assert_allclose(
            result[index], window.sum() / (divisor or np.prod([e - b for b, e in zip(begin, ends)])), rtol=1e-12
        )


@pytest.mark.on_cuda(simulator=False)
def test_gradients_where_no_indices_were_computed():
    x = numod.tensor(np.random.default_rng(0).permutation(36).reshape(1, 1, 6, 6) / 7.0, requires_grad=True)
    windows = ((3, 2), (2, 2), (1, 0), (1, 1), (3, 3))
    assert gradcheck(lambda x: pooling.max_pool_values.apply((x,), windows), (x,))
    assert gradcheck(lambda x: F.adaptive_avg_pool2d(x, 1) + F.adaptive_avg_pool2d(x, (2, 3)).sum(), (x,))
