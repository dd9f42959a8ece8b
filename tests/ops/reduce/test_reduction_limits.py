"""Reductions at their limits: dtypes, NaN, infinities, no elements, and the accuracy of long rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

import numod

from reductions import close, data


pytestmark = pytest.mark.on_cuda

NAN, INF = math.nan, math.inf


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
