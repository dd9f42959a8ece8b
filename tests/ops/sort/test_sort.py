"""sort, topk, kthvalue and median against NumPy: dtypes, row lengths, directions, ties, NaN, layouts, gradients."""

from __future__ import annotations

import numpy as np
import pytest
from selection import diagonals

import numod
from numod.autograd import gradcheck, gradgradcheck
from numod.core.apply import apply
from numod.ops.sort import topk, sort

pytestmark = pytest.mark.on_cuda

KINDS = ["float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"]


def sample(shape, kind):
    """Values with many ties; floats have NaN, infinities and both zeros among them."""
    x = (np.random.default_rng(0).standard_normal(shape) * 30).astype(kind)
    if x.dtype.kind == "f":
        for k, value in enumerate([np.nan, np.inf, -np.inf, 0.0, -0.0, np.nan]):
            x.ravel()[k :: 9 + k] = value
    return x


def expected_order(x, descending):
    """A stable order: NumPy's, with NaN greatest; downwards that of the reversed ranks."""
    ranks = np.unique(x, return_inverse=True)[1].reshape(x.shape)  # equal elements (NaN too) have equal ranks
    return np.argsort(-ranks if descending else ranks, -1, kind="stable")


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("shape, kind", diagonals(
    [(1,), (7,), (3, 16), (3, 40), (2, 200), (2, 300), (2, 5000)], list(KINDS), 2, others=pytest.mark.fuzz
))  # fmt: skip
def test_rows_in_order(shape, kind):
    x = sample(shape, kind)
    for descending in (False, True):
        values, indices = apply(sort.sort, (numod.from_numpy(x.copy()),), (descending,))
        order = expected_order(x, descending)
        np.testing.assert_array_equal(indices.numpy(), order)
        expected = np.take_along_axis(x, order, -1)
        np.testing.assert_array_equal(values.numpy(), expected)
        assert kind == "bool" or (np.signbit(values.numpy()) == np.signbit(expected)).all()  # zeros keep theirs


@pytest.mark.on_cuda(simulator=False)
def test_digits_that_all_have_are_passed_over():
    x = np.random.default_rng(0).integers(0, 10, 300_000).astype(np.float32)
    values, indices = apply(sort.sort, (numod.from_numpy(x.copy()),), (False,))
    np.testing.assert_array_equal(indices.numpy(), np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(values.numpy(), np.sort(x))


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("reach", [0, 1, 255, 2**32 - 1, 2**32, 2**63 - 1])
@pytest.mark.parametrize("n", [70, 5000])
def test_integers_of_any_reach(n, reach):
    x = np.random.default_rng(0).integers(-reach // 2, reach - reach // 2, (2, n), endpoint=True)
    x[:, [5, n - 1]], x[:, [7, 9]] = -reach // 2, reach - reach // 2
    for descending in (False, True):
        values, indices = apply(sort.sort, (numod.from_numpy(x.copy()),), (descending,))
        np.testing.assert_array_equal(indices.numpy(), expected_order(x, descending))
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, expected_order(x, descending), -1))


@pytest.mark.cpu_only
@pytest.mark.parametrize("kind", ["float32", "int64"])
@pytest.mark.parametrize("n", [9, 5000])
def test_selecting(n, kind):
    x = sample((4, n), kind)
    y, ordered = numod.from_numpy(x.copy()), np.sort(x, -1)
    for rank in (0, n // 3, n - 1):
        values, indices = apply(topk.select, (y,), (1, rank, False, topk.RANK))
        np.testing.assert_array_equal(values.numpy()[:, 0], ordered[:, rank])
        np.testing.assert_array_equal(np.take_along_axis(x, indices.numpy(), -1), values.numpy())
    values, indices = apply(topk.select, (y,), (3, 2, True, topk.FIRST))
    np.testing.assert_array_equal(indices.numpy(), expected_order(x, True)[:, :3])
    np.testing.assert_array_equal(np.take_along_axis(x, indices.numpy(), -1), values.numpy())
    many = min(n, topk.SORTED_LIMIT + 1)
    values, indices = apply(topk.select, (y,), (many, many - 1, True, topk.FIRST))
    # the first of equal ones
    np.testing.assert_array_equal(np.sort(indices.numpy(), -1), np.sort(expected_order(x, True)[:, :many], -1))
    np.testing.assert_array_equal(np.take_along_axis(x, indices.numpy(), -1), values.numpy())


def test_medians():
    x = numod.tensor([[5.0, 1.0, 3.0, 2.0], [float("nan"), 4.0, float("nan"), 0.0], [float("nan")] * 4])
    assert x.median(1).indices.tolist() == [3, 0, 0]
    assert x.nanmedian(1).values.tolist()[:2] == [2.0, 0.0] and x.nanmedian(1).indices.tolist() == [3, 3, 0]


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sort(0).values,
        lambda x: x.topk(2, 1, largest=False).values,
        lambda x: x.kthvalue(2).values,
        lambda x: x.median(),
        lambda x: x.quantile(0.3, 1),
    ],
)
def test_gradients(function):
    x = numod.tensor(np.random.default_rng(0).permutation(20).reshape(4, 5) / 7.0).requires_grad_()
    assert gradcheck(function, (x,)) and gradgradcheck(function, (x,))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
@pytest.mark.parametrize("n, k", [(9, 2), (300, 5), (1000, 32), (1000, 33)])
def test_topk_in_order(n, k, dtype):
    """Few and many, of rows that rise, fall, repeat themselves or have NaN; equal elements as they stand."""
    rows = np.random.default_rng(n).standard_normal((5, n)) * 20 + 100
    rows[1].sort()
    rows[2] = np.sort(rows[2])[::-1]
    rows[3] = np.round(rows[3] / 20)
    rows = rows.astype(dtype)
    if rows.dtype.kind == "f":
        rows[4, ::2] = np.nan
    for largest in (True, False):
        values, indices = numod.from_numpy(rows).topk(k, largest=largest)
        keys = np.where(np.isnan(rows), np.inf, rows.astype(np.float64))
        order = np.argsort(-keys if largest else keys, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(indices.numpy(), order)
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(rows, order, 1))


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "uint8"])
@pytest.mark.parametrize("case", ["drawn", "equal", "sample lies", "rising"])
def test_few_of_many(case, kind):
    n, k = 20_000, 100
    x = sample((2, n), kind)
    if case == "equal":
        x[:] = 3  # more pass the sample's limit than there is room for
    if case == "sample lies":
        x[:] = 0
        # what the sample sees is greater than the rest: downwards too few pass
        x[:, :: n // 4096] = np.arange(-(-n // (n // 4096))) % 200
    if case == "rising":
        x.sort(-1)
    for descending in (False, True):
        values, indices = apply(topk.select, (numod.from_numpy(x.copy()),), (k, k - 1, descending, topk.FIRST))
        np.testing.assert_array_equal(np.sort(indices.numpy(), -1), np.sort(expected_order(x, descending)[:, :k], -1))
        np.testing.assert_array_equal(np.take_along_axis(x, indices.numpy(), -1), values.numpy())
