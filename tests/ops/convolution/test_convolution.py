"""Convolution against sums over NumPy windows; gradients against the transposed sums and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from selection import every

import numod
import numod.nn.functional as F
from numod.autograd.gradcheck import gradcheck, gradgradcheck

pytestmark = pytest.mark.on_cuda(simulator=False)

CASES = [  # x, weight, stride, padding, dilation, groups
    ((2, 3, 9, 11), (4, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((1, 3, 23, 26), (5, 3, 7, 7), (4, 4), (2, 2), (1, 1), 1),  # a first layer: few channels, phases of four
    ((2, 8, 15, 14), (16, 8, 3, 2), (2, 2), (0, 1), (1, 1), 1),
    ((3, 6, 12, 10), (12, 1, 3, 3), (1, 2), (1, 1), (1, 1), 6),  # depthwise
    ((2, 20, 7, 7), (20, 1, 3, 3), (1, 1), (1, 1), (1, 1), 20),  # planes side by side, the last of them few
    ((1, 24, 14, 9), (24, 1, 5, 3), (2, 1), (3, 0), (1, 2), 24),
    # fewer elements than a vector has; strides and dilations that meet seldom
    ((3, 8, 3, 5), (8, 1, 2, 4), (3, 2), (2, 4), (2, 3), 8),
    # depthwise, widths of kernels that have instructions of their own
    ((1, 20, 9, 13), (20, 1, 3, 5), (1, 1), (1, 2), (1, 1), 20),
    ((1, 20, 9, 13), (20, 1, 5, 7), (1, 1), (2, 3), (1, 1), 20),
    ((1, 16, 40, 60), (16, 1, 3, 3), (2, 2), (1, 1), (1, 1), 16),  # several boards for a plane
    ((2, 8, 9, 9), (12, 4, 3, 3), (1, 1), (2, 2), (2, 2), 2),
    ((9, 16, 4, 4), (8, 16, 3, 3), (1, 1), (1, 1), (1, 1), 1),  # several images on a grid
    ((1, 40, 60, 50), (6, 40, 3, 3), (1, 1), (1, 1), (1, 1), 1),  # several grids for an image
    # so deep that parts of the depth are added to the others
    ((1, 100, 12, 40), (10, 100, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((1, 9, 12, 40), (400, 9, 3, 3), (2, 2), (1, 1), (1, 1), 1),  # the same of the gradient
    # a large weight of few features, which no workers share
    ((1, 512, 5, 6), (8, 512, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 5, 7, 7), (9, 5, 1, 1), (1, 1), (0, 0), (1, 1), 1),  # a product for each image
    ((2, 5, 7, 7), (9, 5, 1, 1), (2, 3), (0, 1), (1, 1), 1),
    ((2, 3, 6, 5), (4, 3, 1, 2), (1, 1), (2, 3), (1, 1), 1),  # borders wider than a kernel's reach
    ((3, 4, 5, 3), (6, 4, 5, 3), (2, 1), (0, 0), (1, 1), 1),  # a kernel as large as the image: a matrix product
    ((2, 3, 9, 6), (4, 3, 2, 6), (2, 1), (1, 0), (1, 1), 1),  # one window across: a sentence of word vectors
    ((2, 4, 6, 9), (8, 2, 6, 1), (1, 2), (0, 0), (1, 1), 2),
    ((2, 4, 3, 2), (4, 2, 3, 2), (1, 1), (0, 0), (1, 1), 2),  # one window in all, in groups
    ((2, 3, 4, 5, 3), (4, 3, 4, 2, 3), (1, 2, 1), (0, 1, 0), (1, 1, 1), 1),
    ((2, 3, 40), (4, 3, 5), (3,), (2,), (1,), 1),
    ((2, 3, 5, 6, 7), (4, 3, 2, 3, 3), (1, 2, 1), (1, 1, 0), (1, 1, 2), 1),
    # windows that nearly cover the width: this and the next three fold their sums
    ((1, 3, 6, 20), (20, 3, 3, 19), (1, 1), (0, 0), (1, 1), 1),
    ((1, 6, 9, 15), (40, 3, 4, 6), (2, 1), (1, 3), (2, 2), 2),
    ((1, 3, 3, 5, 6), (24, 3, 3, 4, 5), (1, 1, 1), (1, 0, 0), (1, 1, 1), 1),
    ((2, 1, 700), (8, 1, 128), (50,), (3,), (1,), 1),
]


def _patches(x, kernel, stride, padding, dilation):
    """(N, C, *out, *kernel): a view of the padded x."""
    ndim = len(kernel)
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(padded.shape[2:], kernel, stride, dilation)]
    steps = padded.strides[2:]
    strides = (*padded.strides[:2], *(t * s for t, s in zip(steps, stride)), *(t * d for t, d in zip(steps, dilation)))
    return np.lib.stride_tricks.as_strided(padded, (*x.shape[:2], *sizes, *kernel), strides), padded, ndim


def _reference(x, weight, stride, padding, dilation, groups):
    patches, _, ndim = _patches(x, weight.shape[2:], stride, padding, dilation)
    parts = []
    for p, w in zip(np.split(patches, groups, 1), np.split(weight, groups, 0)):
        axes = (1, *range(2 + ndim, 2 + 2 * ndim))
        parts.append(np.moveaxis(np.tensordot(p, w, (axes, tuple(range(1, 2 + ndim)))), -1, 1))
    return np.concatenate(parts, 1)


# large ones compile for long
KINDS = [
    (*case, dtype)
    for case in CASES
    for dtype in ("float32", "float64")
    if dtype == "float32" or np.prod(case[0]) < 10_000
]


@pytest.mark.parametrize(("x", "weight", "stride", "padding", "dilation", "groups", "dtype"), KINDS)
def test_values_and_gradients(x, weight, stride, padding, dilation, groups, dtype):
    rng = np.random.default_rng(0)
    x, weight = (rng.standard_normal(shape) for shape in (x, weight))
    expected = _reference(x, weight, stride, padding, dilation, groups)
    g, dx, dw = (rng.standard_normal(shape) for shape in (expected.shape, x.shape, weight.shape))
    tensors = [numod.tensor(array.astype(dtype), requires_grad=True) for array in (x, weight)]
    actual = getattr(F, f"conv{x.ndim - 2}d")(*tensors, None, stride, padding, dilation, groups)
    tolerance = 1e-4 if dtype == "float32" else 1e-11
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=tolerance, atol=tolerance)
    actual.backward(numod.tensor(g.astype(dtype)))
    for name, tensor, direction, result in (
        ("x", tensors[0], dx, _reference(dx, weight, stride, padding, dilation, groups)),
        ("weight", tensors[1], dw, _reference(x, dw, stride, padding, dilation, groups)),
    ):
        # linear in each: the slope along a direction is the value there
        slope = (tensor.grad.numpy().astype("float64") * direction).sum()
        scale = np.abs(g * result).sum()
        assert abs(slope - (g * result).sum()) <= tolerance * 1e-1 * scale, name


def test_a_transposed_convolution_of_single_elements_is_its_weight_times_them():
    x, weight = numod.tensor([[[[2.0]], [[-1.0]]]]), numod.arange(12.0).reshape(2, 1, 2, 3)
    assert numod.equal(F.conv_transpose2d(x, weight, numod.tensor([5.0]), stride=3), 2 * weight[:1] - weight[1:] + 5)


def test_a_transposed_convolution_shows_what_its_padding_leaves():
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((2, 4, 5, 6)).astype("float32"), rng.standard_normal((4, 3, 2, 3)).astype("float32")
    whole = np.zeros((2, 3, 5 + 2, 6 + 4))
    for a, b in np.ndindex(2, 3):
        whole[:, :, 2 * a : 2 * a + 5, 2 * b : 2 * b + 6] += np.einsum("nohw,oc->nchw", x, weight[:, :, a, b])
    for padding, extra in ((0, 0), (1, 0), (1, 1)):
        result = F.conv_transpose2d(numod.tensor(x), numod.tensor(weight), None, 1, padding, extra, 1, 2).numpy()
        np.testing.assert_allclose(
            result, whole[:, :, padding : 7 - padding + extra, padding : 10 - padding + extra], rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_integers_are_exact(dtype):
    rng = np.random.default_rng(0)
    x, weight = rng.integers(-9, 9, (2, 4, 6, 7)), rng.integers(-9, 9, (6, 2, 3, 3))
    result = F.conv2d(numod.tensor(x.astype(dtype)), numod.tensor(weight.astype(dtype)), None, 2, 1, 1, 2)
    assert (result.numpy() == _reference(x, weight, (2, 2), (1, 1), (1, 1), 2)).all()


def test_gradients_by_differences_to_second_order():
    x = numod.randn(2, 2, 5, 4, dtype=numod.float64, requires_grad=True)
    weight = numod.randn(4, 1, 3, 2, dtype=numod.float64, requires_grad=True)
    convolve = lambda x, weight: F.conv2d(x, weight, None, 2, 1, 1, 2)  # noqa: E731
    assert gradcheck(convolve, (x, weight)) and gradgradcheck(convolve, (x, weight))


@pytest.mark.parametrize("features", [24, 32])  # by sums, and by Winograd's method
def test_threads_change_no_bit_of_forward_and_input(features):
    x, weight = numod.randn(4, 16, 30, 30, requires_grad=True), numod.randn(features, 16, 3, 3)
    before, results = numod.get_num_threads(), []
    try:
        for count in (1, 2):
            numod.set_num_threads(count)
            x.grad = None
            out = F.conv2d(x, weight, None, 1, 1)
            out.sum().backward()
            results.append((out.detach().numpy(), x.grad.numpy(), F.conv2d(x, weight, None, 1, 1).detach().numpy()))
    finally:
        numod.set_num_threads(before)
    assert all((one == two).all() for one, two in zip(*results)) and (results[0][0] == results[0][2]).all()


def test_a_nan_stays_where_it_is_seen():
    x = np.ones((1, 2, 6, 20), "float32")
    x[0, 0, 2, 3] = np.nan
    actual = F.conv2d(numod.tensor(x), numod.ones(8, 2, 3, 3), None, 1, 1).numpy()
    expected = np.zeros((6, 20), bool)
    expected[1:4, 2:5] = True
    assert (np.isnan(actual[0, 5]) == expected).all()


def _existing(x, weight, g, stride, padding, dilation, groups):
    """(out, dx, dweight) as sums over products of elements that exist: a border has none.

    One group's output planes at a time, tap by tap.
    """
    # 0 in the border
    places = _patches(np.arange(1, x.size + 1).reshape(x.shape), weight.shape[2:], stride, padding, dilation)[0]
    out, dx, dweight = np.zeros(g.shape), np.zeros(x.size), np.zeros(weight.shape)
    ndim, channels, features = x.ndim - 2, weight.shape[1], weight.shape[0] // groups
    for n, o, c in np.ndindex(x.shape[0], weight.shape[0], channels):
        for tap in np.ndindex(weight.shape[2:]):
            at = places[(n, o // features * channels + c, *[slice(None)] * ndim, *tap)]
            seen = at > 0
            out[n, o][seen] += x.flat[at[seen] - 1] * weight[(o, c, *tap)]
            dweight[(o, c, *tap)] += (x.flat[at[seen] - 1] * g[n, o][seen]).sum()
            dx[at[seen] - 1] += g[n, o][seen] * weight[(o, c, *tap)]
    return out, dx.reshape(x.shape), dweight


@pytest.mark.cpu_only
@pytest.mark.parametrize("number", every(2, range(len(CASES)), others=pytest.mark.fuzz))
@pytest.mark.filterwarnings("ignore:invalid value")
def test_borders_make_no_nan_of_what_is_not_finite(number):
    x_shape, weight_shape, stride, padding, dilation, groups = CASES[number]
    rng = np.random.default_rng(number)
    shapes = (x_shape[:2] + tuple(min(n, max(12, k + 1)) for n, k in zip(x_shape[2:], weight_shape[2:])), weight_shape)
    shapes = (*shapes, _reference(*map(np.ones, shapes), stride, padding, dilation, groups).shape)
    for planted in range(3):  # in x, weight and g: a corner and any place
        arrays = [rng.standard_normal(shape).astype("float32") for shape in shapes]
        arrays[planted].flat[[-1, rng.integers(arrays[planted].size)]] = (np.nan, np.inf)
        x, weight = (numod.tensor(array, requires_grad=True) for array in arrays[:2])
        out = getattr(F, f"conv{len(stride)}d")(x, weight, None, stride, padding, dilation, groups)
        out.backward(numod.tensor(arrays[2]))
        for actual, expected in zip(
            (out.detach(), x.grad, weight.grad), _existing(*arrays, stride, padding, dilation, groups)
        ):
            np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-3, atol=1e-3, equal_nan=True)


def test_no_channels_give_the_bias():
    x, weight, bias = (numod.ones(shape, requires_grad=True) for shape in ((1, 0, 8, 8), (4, 0, 3, 3), (4,)))
    for convolve in (F.conv2d, numod.compile(F.conv2d)):
        out = convolve(x, weight, bias)
        assert out.shape == (1, 4, 6, 6) and (out == 1).all()
    out.sum().backward()
    assert x.grad.shape == x.shape and weight.grad.shape == weight.shape and (bias.grad == 36).all()


# x, features, padding of convolutions by Winograd's method: odd sizes, tasks that end within an image, weights
# transformed after the tiles
WINOGRAD = [
    ((2, 32, 17, 15), 48, (1, 0)),
    ((3, 64, 9, 14), 32, (2, 1)),
    ((2, 176, 7, 8), 192, (1, 1)),
    ((9, 256, 6, 6), 32, (0, 2)),
]


def _prefers_winograd(x_shape, features, padding, seed=0, draw="standard_normal"):
    """float32 (x, weight, g) of a convolution, checked to be one by Winograd's method, with its gradients."""
    from numod.ops.convolution.convolution import convolution, convolution_input, convolution_weight

    rng = np.random.default_rng(seed)
    weight_shape = (features, x_shape[1], 3, 3)
    attributes = ((1, 1), padding, (1, 1), 1, None)
    x, weight = (getattr(rng, draw)(shape).astype("float32") for shape in (x_shape, weight_shape))
    layouts = [numod.tensor(array)._layout for array in (x, weight)]
    out = convolution.prepare(tuple(layouts), attributes).layout
    for op, layout in ((convolution, out), (convolution_input, layouts[0]), (convolution_weight, layouts[1])):
        assert op._prefers_winograd(layout, x_shape, weight_shape, tuple(out.shape), attributes[:4])
    return x, weight, getattr(rng, draw)(tuple(out.shape)).astype("float32")


def _results(x, weight, g, padding, dtype):
    """(out, dx, dweight) in a dtype."""
    x, weight = (numod.tensor(array, dtype=dtype, requires_grad=True) for array in (x, weight))
    out = F.conv2d(x, weight, None, 1, padding)
    out.backward(numod.tensor(g, dtype=dtype))
    return out.detach().numpy(), x.grad.numpy(), weight.grad.numpy()


@pytest.mark.parametrize("draw", ["standard_normal", "random"])
@pytest.mark.parametrize(("x_shape", "features", "padding"), WINOGRAD)
def test_winograd_is_as_exact_as_sums(x_shape, features, padding, draw):
    case = _prefers_winograd(x_shape, features, padding, 1, draw)
    exact = (
        _reference(*(array.astype("float64") for array in case[:2]), (1, 1), padding, (1, 1), 1),
        *_results(*case, padding, numod.float64)[1:],
    )
    for actual, expected in zip(_results(*case, padding, numod.float32), exact):
        error = np.abs(actual - expected) / np.sqrt((expected**2).mean())
        assert np.sqrt((error**2).mean()) < 2.8e-7 and error.max() < 2e-6  # PyTorch's sums: 2.3e-7 and 1.8e-6


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1.5e38])
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_winograd_spreads_nothing_that_is_not_finite(value):
    for planted, (x_shape, features, padding) in enumerate(WINOGRAD[:3]):  # in x, weight and g
        case = _prefers_winograd(x_shape, features, padding)
        for array in case:
            array.flat[0] = 1
        case[planted].flat[[-1, case[planted].size // 3]] = value
        if planted == 1:
            case[0][:] = 0.5  # signs would make differences of infinities
            case[2][:] = 0.5
        for actual, expected in zip(_results(*case, padding, numod.float32), _results(*case, padding, numod.float64)):
            finite = np.abs(expected) <= np.finfo("float32").max
            assert (np.isfinite(actual) == finite).all() and (np.isnan(actual) == np.isnan(expected)).all()
            np.testing.assert_allclose(
                actual[finite], expected[finite], rtol=1e-4, atol=1e-3 if np.abs(expected[finite]).max() < 1e6 else 1e34
            )


def test_winograd_compiled_has_the_bits_of_eager():
    x, weight, _ = (numod.tensor(array) for array in _prefers_winograd(*WINOGRAD[0]))
    bias, other = numod.randn(48), numod.randn(2, 48, 17, 13)
    for function in (
        lambda x: F.relu(F.conv2d(x, weight, bias, 1, (1, 0)) + other),
        lambda x: F.conv2d(x, weight, None, 1, (1, 0)),
    ):
        assert numod.equal(numod.compile(function)(x), function(x))


def test_single_elements_compiled_have_the_bits_of_eager():
    x = numod.randn(3, 20, 6, 7)
    weight = numod.randn(34, 20, 1, 1)
    bias = numod.randn(34)
    other = numod.randn(3, 34, 6, 7)
    for function in (lambda x: F.relu(F.conv2d(x, weight, bias) + other), lambda x: F.conv2d(x, weight)):
        assert numod.equal(numod.compile(function)(x), function(x))
