"""Sorting, searching, running totals and statistics against NumPy and written expressions; gradients to second order;
dtypes, layouts, `out`.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from selection import diagonals, second_orders

import numod
from numod.autograd import gradcheck, gradgradcheck

pytestmark = pytest.mark.on_cuda

GENERATOR = np.random.default_rng(3)
X = GENERATOR.uniform(-2, 2, (3, 4, 5))
TIED = GENERATOR.integers(0, 5, (6, 7))
BYTES = np.arange(1 << 17, dtype=np.uint8)[:-5]  # more than are counted at a time
NAN = math.nan


def of(x):
    return numod.from_numpy(np.array(x))


def distances(x, y, p):
    return (np.abs(x[:, None] - y[None]) ** p).sum(-1) ** (1 / p)


def running(function):
    return np.stack([function(X[:, : k + 1]) for k in range(4)], 1)


VALUES = {
    "msort": (lambda: of(X).msort(), np.sort(X, 0)),
    "topk": (lambda: of(X).topk(2, 1)[0], -np.sort(-X, 1)[:, :2]),
    "cumsum": (lambda: of(X).cumsum(1), np.cumsum(X, 1)),
    "cumprod": (lambda: of(X).cumprod(-1), np.cumprod(X, -1)),
    "cumprod_int": (lambda: of(TIED.astype(np.int8)).cumprod(0), np.cumprod(TIED, 0)),
    "cummax": (lambda: of(X).cummax(2)[0], np.maximum.accumulate(X, 2)),
    "cummin": (lambda: of(X.swapaxes(0, 2)).cummin(0)[0], np.minimum.accumulate(X, 2).swapaxes(0, 2)),
    "logcumsumexp": (lambda: of(X).logcumsumexp(1), running(lambda part: np.log(np.exp(part).sum(1)))),
    "logcumsumexp_huge": (lambda: of([1000.0, 1000.0, -np.inf]).logcumsumexp(0), 1000 + np.log([1.0, 2.0, 2.0])),
    "diff": (lambda: of(X).diff(2, 1), np.diff(X, 2, 1)),
    "trapezoid": (
        lambda: numod.trapezoid(of(X), of(np.array([0.0, 1.0, 3.0, 4.0])), dim=1),
        np.trapezoid(X, [0.0, 1.0, 3.0, 4.0], axis=1),
    ),
    "quantile": (lambda: of(X).quantile(of([0.1, 0.5, 0.9]), 1), np.quantile(X, [0.1, 0.5, 0.9], 1)),
    "nanquantile": (lambda: of([[1.0, NAN, 4.0], [NAN, NAN, 2.0]]).nanquantile(0.5, 1), [2.5, 2.0]),
    "quantile_nan": (lambda: of([[1.0, NAN, 4.0], [0.0, 1.0, 2.0]]).quantile(0.5, 1), [NAN, 1.0]),
    "nanmean": (lambda: of([[1.0, NAN, 4.0], [NAN, NAN, 2.0]]).nanmean(1), [2.5, 2.0]),
    "nansum": (lambda: of([[1.0, NAN, 4.0], [NAN, NAN, NAN]]).nansum(1), [5.0, 0.0]),
    "cov": (lambda: of(X[0]).cov(), np.cov(X[0])),
    "cov_weights": (
        lambda: of(X[0]).cov(fweights=of([1, 2, 3, 1, 1]), aweights=of(X[1, 0] ** 2)),
        np.cov(X[0], fweights=[1, 2, 3, 1, 1], aweights=X[1, 0] ** 2),
    ),
    "corrcoef": (lambda: of(X[0]).corrcoef(), np.corrcoef(X[0])),
    "searchsorted": (
        lambda: numod.searchsorted(of(np.sort(TIED, 1)), of(TIED), right=True),
        np.stack([np.searchsorted(np.sort(row), row, "right") for row in TIED]),
    ),
    "searchsorted_sorter": (
        lambda: numod.searchsorted(of(TIED[0]), of(TIED), sorter=of(TIED[0]).argsort()),
        np.searchsorted(np.sort(TIED[0]), TIED),
    ),
    "bucketize": (lambda: numod.bucketize(of(X), of([-1.0, 0.0, 1.0])), np.digitize(X, [-1.0, 0.0, 1.0], right=True)),
    "isin": (lambda: numod.isin(of(TIED), of([1, 4])), np.isin(TIED, [1, 4])),
    "bincount": (lambda: of(TIED[0]).bincount(minlength=9), np.bincount(TIED[0], minlength=9)),
    "bincount_weights": (lambda: of(TIED[0]).bincount(of(X.ravel()[:7])), np.bincount(TIED[0], X.ravel()[:7])),
    "bincount_blocks": (lambda: of(BYTES).bincount(of(BYTES).float()), np.bincount(BYTES, BYTES)),
    "histc": (lambda: of(X).histc(7, -1, 1), np.histogram(X, 7, (-1, 1))[0]),
    "histogram": (lambda: of(X).histogram(6)[0], np.histogram(X, 6)[0]),
    "histogram_density": (
        lambda: of(X).histogram(of([-2.0, 0.0, 0.5, 2.0]), density=True)[0],
        np.histogram(X, [-2.0, 0.0, 0.5, 2.0], density=True)[0],
    ),
    "cdist": (lambda: numod.cdist(of(X[0]), of(X[1]), 3), distances(X[0], X[1], 3)),
    "cdist_many": (lambda: numod.cdist(of(X[0]), of(np.tile(X[1], (9, 1)))), distances(X[0], np.tile(X[1], (9, 1)), 2)),
    "pdist": (lambda: numod.pdist(of(X[0])), distances(X[0], X[0], 2)[np.triu_indices(4, 1)]),
    "renorm": (
        lambda: of(X[0]).renorm(2, 0, 1.0),
        X[0] * np.minimum(1, 1 / np.linalg.norm(X[0], axis=1, keepdims=True)),
    ),
    "tril_indices": (lambda: numod.tril_indices(3, 4, 1), np.tril_indices(3, 1, 4)),
    "triu_indices": (lambda: numod.triu_indices(3, 4, -1), np.triu_indices(3, -1, 4)),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    compute, expected = VALUES[name]
    np.testing.assert_allclose(compute().numpy(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unique(axis):
    values, inverse, counts = (
        tensor.numpy() for tensor in of(TIED[:, :2]).unique(return_inverse=True, return_counts=True, dim=axis)
    )
    expected, expected_inverse, expected_counts = np.unique(
        TIED[:, :2], return_inverse=True, return_counts=True, axis=axis
    )
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(inverse.ravel(), expected_inverse.ravel())
    np.testing.assert_array_equal(counts, expected_counts)


def test_unique_consecutive_and_nan():
    values, inverse, counts = of([1, 1, 2, 2, 2, 1]).unique_consecutive(return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([1, 2, 1], [0, 0, 1, 1, 1, 2], [2, 3, 1])
    assert of([NAN, 1.0, NAN]).unique().numel() == 3  # no NaN equals another


def test_mode_takes_the_least_of_the_most_frequent_and_its_last_place():
    values, indices = of([[3, 1, 3, 1, 2], [5, 5, 0, 0, 0]]).mode(1)
    assert (values.tolist(), indices.tolist()) == ([1, 0], [3, 4])
    assert of([[3, 1], [3, 2]]).mode(0, keepdim=True).values.tolist() == [[3, 1]]


def test_running_extrema_keep_the_last_place_and_nan():
    values, indices = of([1.0, 3.0, 3.0, NAN, 5.0]).cummax(0)
    assert indices.tolist() == [0, 1, 2, 3, 3] and values.isnan().tolist() == [False, False, False, True, True]


GRADIENTS = {
    "cumprod": lambda x: x.cumprod(1), "logcumsumexp": lambda x: x.logcumsumexp(1), "cummax": lambda x: x.cummax(2)[0],
    "diff": lambda x: x.diff(dim=1), "nansum": lambda x: x.nansum(0),
    "trapezoid": lambda x: numod.trapezoid(x, x * x), "cov": lambda x: x[0].cov(),
    "renorm": lambda x: x.renorm(2, 1, 1.5), "aminmax": lambda x: sum(x.aminmax(dim=1)),
    "nanmedian": lambda x: x.nanmedian(),
}  # fmt: skip


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("name, twice", second_orders(3, GRADIENTS, others=pytest.mark.fuzz))
def test_gradients(name, twice):
    x = of(X).requires_grad_()
    assert gradcheck(GRADIENTS[name], (x,))
    assert not twice or gradgradcheck(GRADIENTS[name], (x,))


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, math.inf])
def test_gradient_of_distances(p):
    assert gradcheck(lambda x, y: numod.cdist(x, y, p), (of(X[:, :2]).requires_grad_(), of(X[0]).requires_grad_()))
    assert gradcheck(lambda x: numod.pdist(x, p), (of(X[0]).requires_grad_(),)) and numod.pdist(
        of(X[0, :1]), p
    ).shape == (0,)


@pytest.mark.parametrize("shape, dtype", diagonals(
    [(3, 4, 7), (3, 4, 8), (2, 30, 257), (1, 5, 600), (600, 3, 1)],
    ["float32", "float64", "int32", "bool", "complex128"], 2, others=pytest.mark.fuzz,
))  # fmt: skip
def test_running_totals_of_columns(shape: tuple, dtype: str) -> None:
    """Neighbours along the last dimension have their totals together where they are many."""
    x = (np.random.default_rng(0).uniform(-1.3, 1.3, shape) * 2).astype(dtype)
    for dim in range(3):
        np.testing.assert_allclose(of(x).cumsum(dim).numpy(), x.cumsum(dim), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(of(x).cumprod(dim).numpy(), x.cumprod(dim), rtol=1e-4, atol=1e-6)


@pytest.mark.on_cuda(simulator=False)
def test_gradient_of_products_past_zeros():
    x = of([[1.0, 0.0, 2.0, 0.0, 3.0], [2.0, 3.0, 0.0, 4.0, 5.0]]).requires_grad_()
    assert (
        gradcheck(lambda x: x.cumprod(1), (x,))
        and gradgradcheck(lambda x: x.cumprod(1), (x,))
        and gradgradcheck(lambda x: x.t().cumprod(0)[:3], (x,))
    )
    scalar = numod.tensor(0.0, requires_grad=True)
    assert numod.autograd.grad(scalar.cumprod(0), scalar, create_graph=True)[0].item() == 1.0
    x = numod.tensor([2.0, 0.0, 3.0, 0.0], requires_grad=True)
    slope = x.cumprod(0).sum()
    for _ in range(3):
        slope = numod.autograd.grad(slope, x, create_graph=True)[0].sum()
    assert slope.item() == 36.0  # all third derivatives of a + ab + abc + abcd: 6 of abc, and 6 (a + b + c + d) of abcd


def test_equal_distances_have_no_slope():
    x = of([[1.0, 2.0]]).requires_grad_()
    for p in (0.5, 1.0, 2.0, 3.0, math.inf):
        assert numod.autograd.grad(numod.cdist(x, x.detach(), p).sum(), x)[0].tolist() == [[0.0, 0.0]]


def test_results_go_where_out_says():
    values, indices = numod.empty(0), numod.empty(0, dtype=numod.int64)
    result = numod.sort(of([2.0, 1.0]).float(), out=(values, indices))
    assert result.values is values and values.tolist() == [1.0, 2.0] and indices.tolist() == [1, 0]
    total = numod.zeros(2)
    assert numod.cumsum(numod.ones(2), 0, out=total) is total and total.tolist() == [1.0, 2.0]
    with pytest.warns(UserWarning, match="resized"):
        numod.cumsum(numod.ones(3), 0, out=total)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        numod.cumsum(numod.ones(2, requires_grad=True), 0, out=numod.ones(2))


@pytest.mark.cpu_only
def test_named_results():
    result = of([2.0, 1.0]).sort()
    values, indices = result
    assert (
        values is result.values is result[0]
        and indices is result.indices
        and isinstance(result, numod.return_types.sort)
    )
    assert repr(of([2, 1]).max(0)) == "numod.return_types.max(\nvalues=tensor(2),\nindices=tensor(0))"
    with pytest.raises(TypeError, match="2-sequence"):
        numod.return_types.sort((values,))


@pytest.mark.cpu_only
def test_names_of_numpy():
    x = of(X)
    assert x.sum(axis=1, keepdims=True).equal(x.sum(1, True)) and numod.cumsum(x, axis=0).equal(x.cumsum(0))


ERRORS = [
    (lambda: of(X).topk(9), RuntimeError, "selected index k out of range"),
    (lambda: of(X).kthvalue(0), RuntimeError, "selected number k out of range"),
    (lambda: numod.zeros(2, 0).median(1), IndexError, "non-zero size"),
    (lambda: of(X).quantile(2.0), RuntimeError, r"range \[0, 1\]"),
    (lambda: of(TIED).quantile(0.5), RuntimeError, "float or double"),
    (lambda: of([-1]).bincount(), RuntimeError, "non-negative"),
    (lambda: of([NAN]).histc(), RuntimeError, "not finite"),
    (lambda: numod.searchsorted(of(X), of(X[:2])), RuntimeError, "must match"),
    (lambda: numod.searchsorted(of([1.0, 2.0]), 1.0, sorter=of([0, 7])), RuntimeError, "out of bounds"),
    (lambda: numod.cdist(of(X), of(X), -1), RuntimeError, "non-negative p"),
    (lambda: numod.cdist(of(X), of(X[..., 1:])), RuntimeError, "same number of columns"),
    (lambda: of(X).renorm(0, 0, 1), RuntimeError, "non-positive"),
    (lambda: numod.poisson(of([-1.0])), RuntimeError, "non-negative"),
    (lambda: numod.tensor(1.0).diff(), RuntimeError, "one-dimensional"),
    (lambda: of(X).cov(), RuntimeError, "two or fewer"),
]  # fmt: skip


@pytest.mark.on_cuda(gpu=False)
@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    call, kind, text = ERRORS[number]
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize("dtype", [numod.float16, numod.bfloat16])
def test_a_histogram_of_16_bit_floats_is_the_same_at_every_call(dtype: numod.dtype) -> None:
    x = numod.tensor([1.0, 2.0, 3.0, 3.0], dtype=dtype)
    for _ in range(3):  # from the second call on the range is read without a tensor
        assert x.histc(4).tolist() == [1.0, 0.0, 1.0, 2.0]
