"""Reductions, index reductions and scans against NumPy: dimensions, dtypes, NaN, empty and strided inputs, accuracy,
gradients.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import numod
from numod.autograd import gradcheck, gradgradcheck
from numod.device.layout import layout
from numod.kernel import bind
from numod.ops.reduce import reduction

pytestmark = pytest.mark.on_cuda

DIMS = [None, 0, 1, -1, (0, 1), (0, 2), (1, 2), (0, 1, 2)]
NAN, INF = math.nan, math.inf


def logsumexp(x, axis=None, keepdims=False):
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


def norm(x, axis=None, keepdims=False):
    return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))


def variance(x, axis=None, keepdims=False):
    return np.var(x, axis=axis, keepdims=keepdims, ddof=1)


def deviation(x, axis=None, keepdims=False):
    return np.std(x, axis=axis, keepdims=keepdims, ddof=1)


OVER_DIMS = {
    "sum": np.sum, "nansum": np.nansum, "mean": np.mean, "amax": np.max, "amin": np.min, "var": variance,
    "std": deviation, "norm": norm, "logsumexp": logsumexp,
}  # fmt: skip


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


# ---- dimensions and layouts


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("name", OVER_DIMS)
def test_dims(name, dim):
    x = data()
    close(reduce(name, numod.tensor(x), dim), OVER_DIMS[name](x, axis=dim))
    if dim is not None:
        close(reduce(name, numod.tensor(x), dim, True), OVER_DIMS[name](x, axis=dim, keepdims=True))


@pytest.mark.parametrize("name", ["sum", "amax", "norm"])
def test_strided_inputs(name):
    x = data((6, 5, 8), np.float64)
    for cut in (lambda a: a.transpose(2, 0, 1), lambda a: a[::2, :, 1::3]):
        strided = numod.tensor(x).permute(2, 0, 1) if cut(x).shape == (8, 6, 5) else cut(numod.tensor(x))
        for dim in (0, 2, (0, 2)):
            close(reduce(name, strided, dim), OVER_DIMS[name](cut(x), axis=dim))


def test_expanded_input():
    x = numod.tensor([[1.0], [2.0]]).expand(2, 3)
    assert x.sum().item() == 9.0
    assert x.sum(0).tolist() == [3.0, 3.0, 3.0]
    assert x.sum(1).tolist() == [3.0, 6.0]


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("name", ["prod", "any", "all", "argmax", "argmin", "cumsum", "count_nonzero", "max", "min"])
def test_one_dim(name, dim):
    x = data(dtype=np.float64).round(1)
    x[0, 0, :2] = 0
    tensor = numod.tensor(x > 0.4) if name in ("any", "all") else numod.tensor(x)
    array = tensor.numpy()
    result = getattr(numod, name)(tensor, dim)
    if name in ("max", "min"):
        position = getattr(np, f"arg{name}")(array, axis=dim)
        np.testing.assert_array_equal(result.indices.numpy(), position)
        result = result.values
    close(result, getattr(np, name)(array, axis=dim))


@pytest.mark.parametrize("name", ["prod", "any", "all", "argmax", "argmin", "count_nonzero", "max", "min"])
def test_all_elements(name):
    x = data() + 0.1
    close(getattr(numod, name)(numod.tensor(x)), getattr(np, name)(x))


@pytest.mark.parametrize("name", ["any", "all", "amax"])
def test_several_dims(name):
    x = data(dtype=np.int64)
    array = x > 3
    np.testing.assert_array_equal(
        getattr(numod, name)(numod.tensor(array), (0, 2)).numpy(), getattr(np, name)(array, axis=(0, 2))
    )


def test_count_nonzero_over_several_dims():
    x = data(dtype=np.int64)
    np.testing.assert_array_equal(
        numod.count_nonzero(numod.tensor(x), (0, 2)).numpy(), np.count_nonzero(x, axis=(0, 2))
    )


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_index_reduction_keepdim(name):
    x = data()
    assert getattr(numod, name)(numod.tensor(x), 1, keepdim=True).shape == (3, 1, 4)
    assert getattr(numod, name)(numod.tensor(x), keepdim=True).shape == (1, 1, 1)


@pytest.mark.parametrize("name", ["argmax", "argmin", "max", "min", "cumsum"])
def test_strided_index_reductions_and_scans(name):
    x = data((6, 5, 8))
    result = getattr(numod, name)(numod.tensor(x).permute(2, 0, 1)[::2], 1)
    reference = getattr(np, name)(x.transpose(2, 0, 1)[::2], axis=1)
    close(result.values if name in ("max", "min") else result, reference)


def test_first_of_equal_extrema():
    x = numod.tensor([[1, 3, 3], [0, 0, 2]])
    assert x.argmax(1).tolist() == [1, 2]
    assert x.argmin(1).tolist() == [0, 0]


def test_elementwise_max_and_min():
    a, b = numod.tensor([1, 5]), numod.tensor([3, 2])
    assert numod.max(a, b).tolist() == [3, 5]
    assert numod.min(a, b).tolist() == [1, 2]


@pytest.mark.cpu_only
def test_named_results():
    values, indices = numod.tensor([[1.0, 4.0], [3.0, 2.0]]).max(dim=1)
    assert (values.tolist(), indices.tolist()) == ([4.0, 3.0], [1, 0])
    assert indices.dtype is numod.int64


@pytest.mark.parametrize(
    "name", ["sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "logsumexp", "cumsum", "any", "all"]
)
def test_zero_dimensional(name):
    x = numod.tensor(2.0)
    wanted = {"argmax": 0, "argmin": 0, "any": True, "all": True}.get(name, 2.0)
    result = getattr(numod, name)(x, 0)
    assert result.shape == ()
    assert result.item() == pytest.approx(wanted)


def test_sum_to_size_and_matrix_of_ones():
    assert numod.ones(2, 3, 4).sum_to_size(3, 1).tolist() == [[8.0]] * 3


# ---- dtypes


@pytest.mark.parametrize("dtype", [numod.uint8, numod.int8, numod.int16, numod.int32, numod.int64, numod.bool])
@pytest.mark.parametrize("name", ["sum", "prod", "cumsum"])
def test_integers_give_int64(name, dtype):
    x = data((2, 9), np.int64) % 2 if dtype is numod.bool else data((2, 9), np.int64) + 1
    x = x.astype(dtype.numpy)
    result = getattr(numod, name)(numod.tensor(x), 1)
    assert result.dtype is numod.int64
    np.testing.assert_array_equal(result.numpy(), getattr(np, name)(x.astype(np.int64), axis=1))


def test_integer_sums_do_not_overflow_their_input():
    assert numod.full((1000,), 127, dtype=numod.int8).sum().item() == 127000
    assert numod.full((1000, 4), 255, dtype=numod.uint8).sum(0).tolist() == [255000] * 4
    assert numod.tensor([2**62, 2**61, 1]).sum().item() == 2**62 + 2**61 + 1


@pytest.mark.parametrize("dtype", [numod.uint8, numod.int8, numod.int64, numod.bool, numod.float32])
@pytest.mark.parametrize("name", ["amax", "amin", "argmax", "argmin"])
def test_extrema_keep_the_dtype(name, dtype):
    x = np.array([[3, 0, 7], [1, 1, 0]]).astype(dtype.numpy)
    if dtype.is_signed:
        x = x - x.dtype.type(2)
    if name.startswith("arg") and dtype is numod.bool:
        with pytest.raises(RuntimeError, match="does not support bool"):
            getattr(numod, name)(numod.tensor(x), 1)
        return
    result = getattr(numod, name)(numod.tensor(x), 1)
    assert result.dtype is (numod.int64 if name.startswith("arg") else dtype)
    np.testing.assert_array_equal(result.numpy(), getattr(np, name.replace("am", "m"))(x, axis=1))


def test_extrema_of_extreme_integers():
    x = numod.tensor([-(2**63), 2**63 - 1])
    assert (x.max().item(), x.min().item()) == (2**63 - 1, -(2**63))
    assert numod.full((3,), -128, dtype=numod.int8).amax().item() == -128


def test_dtype_argument():
    x = numod.full((10,), 100, dtype=numod.uint8)
    assert x.sum(dtype=numod.float64).item() == 1000.0
    assert x.sum(dtype=numod.float64).dtype is numod.float64
    assert x.sum(dtype=numod.uint8).item() == 1000 % 256
    assert numod.tensor([True, False]).to(numod.float32).mean().item() == 0.5
    assert numod.tensor([1, 2]).mean(dtype=numod.float32).item() == 1.5
    assert numod.tensor([1.5, 2.5]).cumsum(0, dtype=numod.int64).tolist() == [1, 3]


def test_any_and_all_of_numbers():
    assert numod.tensor([0.0, NAN]).any().item() is True
    assert numod.tensor([1, 256]).all().item() is True
    assert numod.tensor([[0, 256]]).any(1).dtype is numod.bool


@pytest.mark.parametrize("name", ["mean", "var", "std", "norm", "logsumexp"])
def test_floating_only(name):
    if name == "logsumexp":
        np.testing.assert_allclose(numod.logsumexp(numod.tensor([1, 2]), 0).item(), np.logaddexp(1, 2), rtol=1e-6)
        return
    with pytest.raises(RuntimeError, match="(?i)float"):
        getattr(numod, name)(numod.tensor([1, 2]))


# ---- NaN, infinity, empty


@pytest.mark.parametrize(
    "name", ["sum", "mean", "prod", "amax", "amin", "max", "min", "var", "std", "logsumexp", "norm"]
)
@pytest.mark.parametrize("nan_index", [0, 3, 6])
def test_nan_spreads(name, nan_index):
    x = np.arange(7.0, dtype=np.float32)
    x[nan_index] = NAN
    assert math.isnan(
        numod.logsumexp(numod.tensor(x), 0).item()
        if name == "logsumexp"
        else getattr(numod, name)(numod.tensor(x)).item()
    )


@pytest.mark.parametrize("name", ["amax", "amin", "sum"])
def test_nan_stays_in_its_column(name):
    x = data((5, 6), np.float32)
    x[2, 3] = NAN
    result = getattr(numod, name)(numod.tensor(x), 0).numpy()
    np.testing.assert_allclose(result, getattr(np, name)(x, axis=0), rtol=1e-6, atol=1e-6)


def test_nan_is_the_extremum_that_argmax_finds():
    x = numod.tensor([[1.0, NAN, 5.0, NAN], [NAN, 1.0, 2.0, 3.0]])
    assert x.argmax(1).tolist() == [1, 0]
    assert x.argmin(1).tolist() == [1, 0]
    values, indices = x.max(1)
    assert indices.tolist() == [1, 0]
    assert numod.isnan(values).all()


@pytest.mark.parametrize(
    "x, wanted",
    [
        ([-INF, -INF], -INF),
        ([INF, 1.0], INF),
        ([-INF, 2.0], 2.0),
        ([1000.0, 1000.0], 1000.0 + math.log(2)),
        ([INF, -INF], INF),
    ],
)
def test_logsumexp_of_extremes(x, wanted):
    assert numod.logsumexp(numod.tensor(x), 0).item() == pytest.approx(wanted)


def test_infinities():
    x = numod.tensor([[INF, 1.0], [-INF, 2.0]])
    assert math.isnan(x.sum(0)[0].item())
    assert x.amax(0).tolist() == [INF, 2.0]
    assert x.amin(0).tolist() == [-INF, 1.0]
    assert x.norm().item() == INF


@pytest.mark.parametrize(
    "name, wanted",
    [("sum", 0.0), ("prod", 1.0), ("mean", NAN), ("any", False), ("all", True), ("count_nonzero", 0), ("norm", 0.0)],
)
def test_empty(name, wanted):
    result = getattr(numod, name)(numod.zeros(0))
    np.testing.assert_array_equal(result.item(), wanted)


@pytest.mark.parametrize(
    "name, wanted", [("sum", 0.0), ("prod", 1.0), ("any", False), ("all", True), ("logsumexp", -INF)]
)
def test_empty_dimension(name, wanted):
    x = numod.zeros(2, 0, 3)
    np.testing.assert_array_equal(getattr(numod, name)(x, 1).numpy(), np.full((2, 3), wanted))
    assert getattr(numod, name)(x, 0).shape == (0, 3)


def test_cumsum_of_nothing():
    assert numod.zeros(2, 0).cumsum(1).shape == (2, 0)


@pytest.mark.parametrize("name", ["amax", "amin", "argmax", "argmin", "max", "min"])
def test_extremum_of_nothing(name):
    with pytest.raises((IndexError, RuntimeError), match="Expected reduction dim"):
        getattr(numod, name)(numod.zeros(0))
    with pytest.raises(IndexError, match="Expected reduction dim 1 to have non-zero size"):
        getattr(numod, name)(numod.zeros(2, 0, 3), 1)


def test_variance_of_too_few():
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert math.isnan(numod.tensor([1.0]).var().item())
    assert numod.tensor([1.0]).var(unbiased=False).item() == 0.0
    assert numod.tensor([[1.0, 3.0]]).var(1, correction=0).tolist() == [1.0]


@pytest.mark.on_cuda(simulator=False)
def test_variance_with_a_large_mean():
    x = numod.tensor(np.array([1e8, 1e8 + 1, 1e8 + 2]))
    assert x.var().item() == pytest.approx(1.0)
    assert numod.tensor([10000.0, 10001.0, 10002.0]).std().item() == pytest.approx(1.0)
    # whose mean is no float32
    assert numod.tensor([2.0**24, 2.0**24 + 2, 2.0**24 + 2]).var().item() == pytest.approx(4 / 3)


@pytest.mark.parametrize(
    "numbers, dtype",
    [([0.0, 600.0, -700.0], "float16"), ([1.0, 1e30, -2.0], "float32"), ([1e-30, 2e-30, 5e-30], "float32")],
)
def test_deviations_whose_squares_leave_the_range(numbers, dtype):
    x = numod.tensor(numbers, dtype=getattr(numod, dtype), requires_grad=True)
    result, middle = numod.std_mean(x)
    result.backward()
    assert result.dtype == middle.dtype == x.dtype and result.item() == x.std().item() == pytest.approx(
        np.std(numbers, ddof=1), rel=1e-3
    )
    close(x.grad, (numbers - np.mean(numbers)) / np.std(numbers, ddof=1) / 2, rtol=1e-2)


def test_var_mean_and_std_mean():
    x = data((4, 5))
    variance_, mean = numod.var_mean(numod.tensor(x), 1)
    close(variance_, x.var(1, ddof=1))
    close(mean, x.mean(1))
    close(numod.std_mean(numod.tensor(x), 0, correction=0)[0], x.std(0))


@pytest.mark.parametrize(
    "p, order", [(1, 1), (2, 2), (3, 3), (0, 0), (INF, np.inf), (-INF, -np.inf), (0.5, 0.5), ("fro", 2)]
)
def test_norms(p, order):
    x = data((4, 5))
    x[0, 0] = 0.0
    close(numod.norm(numod.tensor(x), p, 1), np.linalg.norm(x, order, axis=1), 1e-11)
    close(numod.norm(numod.tensor(x), p), np.linalg.norm(x.ravel(), order), 1e-11)


# ---- accuracy


@pytest.fixture(scope="module")
def many():
    """Ten million numbers whose partial sums would drift in float32."""
    return (np.random.default_rng(3).random(10_000_000, dtype=np.float32) + np.float32(0.1)).astype(np.float32)


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_accuracy_of_a_long_row(name, many):
    exact = getattr(np, name)(many, dtype=np.float64)
    assert getattr(numod.from_numpy(many), name)().item() == pytest.approx(exact, rel=3e-7)


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("dim", [0, 1])
def test_accuracy_along_a_matrix(name, dim, many):
    x = many.reshape(1_000_000, 10) if dim == 0 else many.reshape(10, 1_000_000)
    exact = getattr(np, name)(x, axis=dim, dtype=np.float64)
    np.testing.assert_allclose(getattr(numod.from_numpy(x), name)(dim).numpy(), exact, rtol=3e-7)


@pytest.mark.on_cuda(simulator=False)
def test_accuracy_along_a_transposed_matrix(many):
    x = many.reshape(1000, 10_000)
    np.testing.assert_allclose(numod.from_numpy(x).t().sum(0).numpy(), x.sum(1, dtype=np.float64), rtol=3e-7)
    np.testing.assert_allclose(numod.from_numpy(x)[:, ::2].sum().item(), x[:, ::2].sum(dtype=np.float64), rtol=3e-7)


@pytest.mark.on_cuda(simulator=False)
def test_accuracy_of_cumsum(many):
    x = many[:1_000_000]
    np.testing.assert_allclose(numod.from_numpy(x).cumsum(0).numpy()[-1], x.sum(dtype=np.float64), rtol=1e-6)


@pytest.mark.on_cuda(simulator=False)
def test_extrema_of_a_long_row(many):
    x = numod.from_numpy(many)
    assert (x.amax().item(), x.argmax().item()) == (many.max(), many.argmax())
    assert (x.amin().item(), x.argmin().item()) == (many.min(), many.argmin())


# ---- gradients

GRADIENTS = {
    "sum": lambda x: x.sum(1), "sum_all": lambda x: x.sum(), "mean": lambda x: x.mean((0, 1)),
    "prod": lambda x: x.prod(1), "prod_all": lambda x: x.prod(),
    "amax": lambda x: x.amax(0), "amin": lambda x: x.amin(1, keepdim=True), "max": lambda x: x.max(1).values,
    "min": lambda x: x.min(0).values,
    "var": lambda x: x.var(1), "std": lambda x: x.std(), "logsumexp": lambda x: x.logsumexp(1),
    "norm": lambda x: x.norm(2, 1), "norm_1": lambda x: x.norm(1, 0),
    "norm_3": lambda x: x.norm(3, 0), "norm_inf": lambda x: x.norm(INF, 1), "cumsum": lambda x: x.cumsum(1),
    "sum_to_size": lambda x: x.sum_to_size(1, 3),
}  # fmt: skip


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_to_second_order(name):
    x = numod.tensor([[0.7, -1.2, 2.3], [1.9, 0.4, -0.6]], dtype=numod.float64, requires_grad=True)
    assert gradcheck(GRADIENTS[name], (x,))
    assert gradgradcheck(GRADIENTS[name], (x,))


@pytest.mark.on_cuda(simulator=False)
def test_gradient_of_a_strided_input():
    x = numod.tensor(data((4, 6)), requires_grad=True)
    assert gradcheck(lambda x: x.t()[::2].sum(0), (x,))


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("zeros", [1, 2])
def test_gradient_of_prod_with_zeros(zeros):
    x = numod.tensor([[2.0, 0.0, 3.0], [4.0, 5.0, 6.0]], dtype=numod.float64)
    if zeros == 2:
        x[0, 2] = 0.0
    x.requires_grad_()
    assert gradcheck(lambda x: x.prod(1), (x,))
    x.prod(1).sum().backward()
    assert x.grad.tolist()[0] == ([0.0, 6.0, 0.0] if zeros == 1 else [0.0, 0.0, 0.0])


@pytest.mark.on_cuda(simulator=False)
def test_gradient_of_prod_over_two_dims_with_a_zero():
    x = numod.tensor(data((2, 3, 2)), requires_grad=True)
    with numod.no_grad():
        x[0, 1, 1] = 0.0
    assert gradcheck(lambda x: x.prod(), (x,))


@pytest.mark.on_cuda(simulator=False)
def test_gradient_of_equal_extrema():
    x = numod.tensor([1.0, 3.0, 3.0], requires_grad=True)
    x.amax().backward()
    assert x.grad.tolist() == [0.0, 0.5, 0.5]
    y = numod.tensor([1.0, 3.0, 3.0], requires_grad=True)
    y.max(0).values.backward()
    assert y.grad.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.on_cuda(simulator=False)
def test_gradient_of_norm_at_zero():
    x = numod.zeros(3, requires_grad=True)
    x.norm().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("p", [0.5, -0.5, 1.5])
def test_gradients_of_norms_of_elements_that_are_zero(p):
    x = numod.tensor([[0.0, 0.0], [0.0, -4.0]], requires_grad=True)
    numod.linalg.vector_norm(x, p, 1).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0], [0.0, -1.0 if p > 0 else 0.0]]


@pytest.mark.on_cuda(simulator=False)
def test_gradient_of_a_scalar():
    x = numod.tensor(2.0, requires_grad=True)
    (x.sum() + x.mean() + x.amax() + x.prod()).backward()
    assert x.grad.item() == 4.0


@pytest.mark.on_cuda(simulator=False)
def test_gradient_with_a_dtype():
    x = numod.tensor([1.0, 2.0], requires_grad=True)
    x.sum(dtype=numod.float64).backward()
    assert x.grad.dtype is numod.float32


# ---- errors


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "argmax", "cumsum", "any", "max"])
@pytest.mark.parametrize("dim", [2, -3])
def test_dim_out_of_range(name, dim):
    with pytest.raises(
        IndexError, match=rf"Dimension out of range \(expected to be in range of \[-2, 1\], but got {dim}\)"
    ):
        getattr(numod, name)(numod.ones(2, 2), dim)


def test_repeated_dim():
    with pytest.raises(RuntimeError, match="dim"):
        numod.ones(2, 2).sum((0, -2))


@pytest.mark.parametrize("step", [2, 3, 200])
def test_neighbouring_columns_apart(step: int) -> None:
    """Columns that are `step` elements apart are reduced together, those of a transposed tensor too."""
    x = np.random.default_rng(step).standard_normal((37, 70 * step)).astype(np.float32)
    cut = numod.from_numpy(x)[:, ::step]
    np.testing.assert_allclose(cut.sum(0).numpy(), x[:, ::step].astype(np.float64).sum(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(cut.amax(0).numpy(), x[:, ::step].max(0))
    np.testing.assert_array_equal(cut.mT.amin(1).numpy(), x[:, ::step].min(0))
    np.testing.assert_array_equal(
        (cut.reshape(37, 35, 2)[:, ::2] > 0).any(0).numpy(), (x[:, ::step].reshape(37, 35, 2)[:, ::2] > 0).any(0)
    )


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "uint8", "bool"])
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "any"])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 13, 16, 1023, 1024, 1025])
def test_rows_and_columns_of_few_and_many(n: int, name: str, kind: str) -> None:
    """A short row is one loop, and a few rows are reduced by columns in one; both also of a part of a tensor."""
    x = np.random.default_rng(n).uniform(0, 2.5, (n, 230)).astype(kind)
    if kind.startswith("float"):
        x *= 0.8
        x[n // 2, 5] = NAN if name != "any" else 0
    expected = getattr(np, name)(x, axis=0)
    expected = expected.astype(x.dtype) if name in ("amax", "amin") else expected
    for actual in (
        getattr(numod.tensor(x), name)(0),
        getattr(numod.tensor(x.T.copy()), name)(1),
        getattr(numod.tensor(np.stack([x, x])), name)(1)[1],
    ):
        np.testing.assert_allclose(actual.numpy(), expected, rtol=2e-5)


@pytest.mark.cpu_only
@pytest.mark.parametrize("kind", ["float32", "int64", "bool"])
@pytest.mark.parametrize("name", ["sum", "amax", "any"])
def test_chunks_of_a_long_row_and_their_totals_are_one_launch(name, kind):
    x = np.random.default_rng(0).integers(0, 2, (2, 70_001)).astype(kind)
    tensor = numod.tensor(x)
    with bind.unbuilt() as log:
        plan = reduction.rows[name].prepare((layout(x.shape, tensor.dtype, tensor.device),), ((1,), False, None))
        plan.launch(None, None, *plan.constants)
    assert len(log) == 1
    np.testing.assert_array_equal(
        getattr(tensor, name)(1).numpy(), getattr(x, name.removeprefix("a") if name == "amax" else name)(1)
    )


@pytest.mark.cpu_only
def test_one_thread_reads_longer_runs_of_columns():
    x = np.random.default_rng(0).standard_normal((40, 1500)).astype(np.float32)
    before = numod.get_num_threads()
    totals = []
    try:
        for count, tile in ((1, 1024), (2, 512)):
            numod.set_num_threads(count)
            with bind.unbuilt() as log:
                plan = reduction.sum.prepare(
                    (layout(x.shape, numod.float32, numod.tensor(x).device),), ((0,), False, None)
                )
                plan.launch(None, None, *plan.constants)
            ((_, arguments),) = log
            assert arguments[7] == tile
            totals.append(numod.tensor(x).sum(0).numpy())
    finally:
        numod.set_num_threads(before)
    np.testing.assert_array_equal(*totals)
    np.testing.assert_allclose(totals[0], x.sum(0, dtype=np.float64), rtol=1e-5, atol=1e-5)
