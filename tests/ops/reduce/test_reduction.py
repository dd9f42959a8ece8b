"""Reductions over dimensions against NumPy: values, shapes, and how they are launched."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import numod
from numod.device.layout import layout
from numod.kernel import bind
from numod.ops.reduce import reduction

from reductions import close, data, deviation, logsumexp, norm, reduce, variance
from selection import pairwise


pytestmark = pytest.mark.on_cuda

DIMS = [None, 0, 1, -1, (0, 1), (0, 2), (1, 2), (0, 1, 2)]

NAN, INF = math.nan, math.inf


OVER_DIMS = {
    "sum": np.sum, "nansum": np.nansum, "mean": np.mean, "amax": np.max, "amin": np.min, "var": variance,
    "std": deviation, "norm": norm, "logsumexp": logsumexp,
}  # fmt: skip


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


FEW_AND_MANY = ["sum", "prod", "amax", "amin", "any"], ["float32", "float64", "int64", "uint8", "bool"]


@pytest.mark.parametrize(
    "n, name, kind",
    pairwise([1, 3, 8, 16, 1025], *FEW_AND_MANY, others=pytest.mark.fuzz)
    + [pytest.param(*case, marks=pytest.mark.fuzz) for case in product([2, 7, 9, 13, 1023, 1024], *FEW_AND_MANY)],
)
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
