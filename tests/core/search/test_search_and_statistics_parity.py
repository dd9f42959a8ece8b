"""Sorting, searching, running totals and statistics beside the installed PyTorch: values, dtypes, shapes, gradients,
texts, error types.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from parity import compare, same, same_error, torch

import numod

pytestmark = pytest.mark.parity
INF, NAN = math.inf, math.nan
KINDS = ["float32", "float64", "int64", "int32", "int16", "int8", "uint8"]


def floats(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-3, 3, shape).astype(np.float32)


def whole(*shape, dtype="float32", seed=0):
    """Few distinct values, so that there are ties; floats have NaN, infinities and both zeros among them."""
    x = np.random.default_rng(seed).integers(0, 6, shape).astype(dtype)
    if x.dtype.kind == "f" and x.size > 8:
        x.ravel()[[2, 5]], x.ravel()[3], x.ravel()[4], x.ravel()[6], x.ravel()[7] = NAN, INF, -INF, -0.0, 0.0
    return x


# ---- with gradients, on distinct values

DISTINCT = {
    "sort": lambda t, x: tuple(t.sort(x)), "sort_dim": lambda t, x: tuple(x.sort(0, descending=True)),
    "sort_stable": lambda t, x: tuple(t.sort(x, stable=True, dim=1)),
    "argsort": lambda t, x: x.argsort(1, True), "msort": lambda t, x: t.msort(x), "topk": lambda t,
    x: tuple(x.topk(2)), "topk_least": lambda t, x: tuple(t.topk(x, 3, 1, largest=False)),
    "topk_all": lambda t, x: tuple(x.topk(4, 0)), "topk_1": lambda t, x: tuple(x.topk(1, 2)), "kthvalue": lambda t,
    x: tuple(x.kthvalue(2)), "kthvalue_keep": lambda t, x: tuple(t.kthvalue(x, 5, 1, True)),
    "median": lambda t, x: x.median(), "median_dim": lambda t, x: tuple(x.median(1)), "nanmedian": lambda t,
    x: x.nanmedian(), "nanmedian_dim": lambda t, x: tuple(x.nanmedian(0, keepdim=True)),
    "mode": lambda t, x: tuple(x.mode(1)), "mode_0": lambda t, x: tuple(t.mode(x, 0)), "mode_keep": lambda t,
    x: tuple(t.mode(x, 0, True)), "quantile": lambda t, x: x.quantile(0.3), "quantile_dim": lambda t,
    x: t.quantile(x, 0.25, 1, keepdim=True),
    "quantile_many": lambda t, x: t.quantile(x, t.tensor([0.0, 0.1, 0.77, 1.0]), 2), "quantile_many_keep": lambda t,
    x: t.quantile(x, t.tensor([0.5]), keepdim=True),
    "quantile_lower": lambda t, x: t.quantile(x, 0.4, 0, interpolation="lower"), "quantile_higher": lambda t,
    x: t.quantile(x, 0.4, 0, interpolation="higher"),
    "quantile_nearest": lambda t, x: t.quantile(x, 0.4, 1, interpolation="nearest"), "quantile_midpoint": lambda t,
    x: t.quantile(x, 0.4, 0, interpolation="midpoint"),
    "nanquantile": lambda t, x: t.nanquantile(x, 0.6, 1), "cumsum": lambda t, x: x.cumsum(1), "cumprod": lambda t,
    x: x.cumprod(1), "cummax": lambda t, x: tuple(x.cummax(1)),
    "cummin": lambda t, x: tuple(t.cummin(x, 2)), "logcumsumexp": lambda t, x: x.logcumsumexp(1), "diff": lambda t,
    x: x.diff(), "diff_2": lambda t, x: t.diff(x, 2, 1),
    "diff_many": lambda t, x: t.diff(x, 9), "diff_ends": lambda t,
    x: t.diff(x, dim=1, prepend=x[:, :1], append=x[:, 1:3]), "diff_0": lambda t, x: t.diff(x, 0),
    "trapezoid": lambda t, x: t.trapezoid(x), "trapz_dx": lambda t, x: t.trapz(x, dx=0.5, dim=0),
    "trapezoid_x": lambda t, x: t.trapezoid(x, x[0, 0].detach() * 2, dim=2),
    "trapezoid_xs": lambda t, x: t.trapezoid(x, x * x, dim=1), "cumulative_trapezoid": lambda t,
    x: t.cumulative_trapezoid(x, dim=1), "trapezoid_x_dim": lambda t, x: t.trapezoid(x, x[0, :, 0], dim=1),
    "nansum": lambda t, x: x.nansum(1), "nanmean": lambda t, x: x.nanmean((0, 2), True), "aminmax": lambda t,
    x: tuple(x.aminmax(dim=1)), "aminmax_all": lambda t, x: tuple(t.aminmax(x)),
    "cov": lambda t, x: x[0].cov(), "cov_vector": lambda t, x: t.cov(x[0, 0]), "cov_0": lambda t,
    x: t.cov(x[0], correction=0),
    "cov_weights": lambda t,
    x: t.cov(x[0], fweights=t.tensor([1, 2, 3, 1, 0, 2]), aweights=t.tensor([0.5, 1.0, 0.25, 1.0, 1.0, 2.0])),
    "cov_fweights": lambda t, x: t.cov(x[0], fweights=t.tensor([1, 2, 3, 1, 0, 2])),
    "corrcoef": lambda t, x: t.corrcoef(x[0]), "corrcoef_vector": lambda t, x: t.corrcoef(x[0, 0]), "renorm": lambda t,
    x: x.renorm(2, 1, 1.5), "renorm_1": lambda t, x: t.renorm(x, 1, 0, 2.0),
    "dist": lambda t, x: t.dist(x[0], x[1]), "dist_1": lambda t, x: x[0].dist(x[1], 1), "dist_inf": lambda t,
    x: x[0].dist(x[1], INF), "dist_0": lambda t, x: x[0].detach().dist(x[1].detach(), 0),
    "max": lambda t, x: tuple(x.max(1)), "max_all": lambda t, x: x.max(), "logsumexp": lambda t, x: x.logsumexp(1),
    "searchsorted": lambda t, x: t.searchsorted(x.sort().values, x + 0.1),
    "cdist": lambda t, x: t.cdist(x, x[:, :3] * 2), "cdist_1": lambda t, x: t.cdist(x[0], x[1], 1),
    "cdist_3": lambda t, x: t.cdist(x, x[0] * 2, 3.0), "cdist_inf": lambda t, x: t.cdist(x[0], x[1], INF),
    "cdist_0": lambda t, x: t.cdist(x[0], x[1], 0.0), "cdist_half": lambda t, x: t.cdist(x[0], x[1], 0.5),
    "cdist_1.5": lambda t, x: t.cdist(x[0], x[1], 1.5),
    "cdist_exact": lambda t, x: t.cdist(x, x[1], compute_mode="donot_use_mm_for_euclid_dist"), "pdist": lambda t,
    x: t.pdist(x[0]), "pdist_3": lambda t, x: t.nn.functional.pdist(x[0], 3.0),
    "unique": lambda t, x: t.unique(x.detach(), return_inverse=True, return_counts=True),
}  # fmt: skip


@pytest.mark.parametrize("name", DISTINCT)
def test_distinct_values(name):
    compare(DISTINCT[name], floats(4, 5, 6), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        "sort",
        "topk",
        "kthvalue",
        "median_dim",
        "cumsum",
        "cumprod",
        "cummax",
        "mode",
        "diff",
        "quantile_dim",
        "logcumsumexp",
        "unique",
    ],
)
def test_other_layouts(name):
    compare(lambda t, x: DISTINCT[name](t, x.permute(2, 0, 1)[::2, :, 1:]), floats(6, 7, 5), rtol=1e-5, atol=1e-5)


# ---- ties, NaN, infinities and integers: values; places where PyTorch defines them

TIES = {
    "sort": lambda t, x: tuple(t.sort(x, stable=True)), "sort_down": lambda t,
    x: tuple(t.sort(x, dim=0, descending=True, stable=True)), "topk": lambda t, x: x.topk(3).values,
    "topk_least": lambda t, x: x.topk(4, 0, False).values, "topk_unsorted": lambda t,
    x: x.topk(2, sorted=False).values.sort().values, "kthvalue": lambda t, x: x.kthvalue(3).values,
    "median": lambda t, x: x.median(), "median_dim": lambda t, x: x.median(1).values, "nanmedian": lambda t,
    x: x.nanmedian(), "nanmedian_dim": lambda t, x: x.nanmedian(1).values,
    "cummax": lambda t, x: tuple(x.cummax(1)), "cummin": lambda t, x: tuple(x.cummin(0)), "cumsum": lambda t,
    x: x.cumsum(0), "cumprod": lambda t, x: x.cumprod(1),
    "cumsum_dtype": lambda t, x: x.cumsum(0, dtype=t.float64), "diff": lambda t, x: x.diff(), "unique": lambda t,
    x: t.unique(x, return_inverse=True, return_counts=True),
    "unique_dim": lambda t, x: x[:, :2].unique(dim=0, return_inverse=True, return_counts=True),
    "unique_dim_1": lambda t, x: t.unique(x[:2], dim=1), "unique_plain": lambda t, x: x.unique(),
    "unique_consecutive": lambda t, x: t.unique_consecutive(x, return_inverse=True, return_counts=True),
    "consecutive_dim": lambda t, x: x[:, :1].unique_consecutive(dim=0, return_counts=True),
    "isin": lambda t, x: t.isin(x, x[1]), "isin_not": lambda t, x: t.isin(x, t.tensor([1, 2]), invert=True),
    "isin_number": lambda t, x: t.isin(x, 3), "isin_left": lambda t, x: t.isin(2, x),
    "searchsorted": lambda t, x: t.searchsorted(x[0].sort().values, x), "searchsorted_right": lambda t,
    x: t.searchsorted(x.sort().values, x, right=True),
    "searchsorted_sorter": lambda t, x: t.searchsorted(x, x, side="right", sorter=x.argsort(stable=True)),
    "searchsorted_32": lambda t, x: t.searchsorted(x[0].sort().values, x, out_int32=True),
    "bucketize": lambda t, x: t.bucketize(x, x[0].sort().values), "bucketize_number": lambda t,
    x: t.bucketize(3, x[0].sort().values, right=True), "nansum": lambda t, x: x.nansum(1),
    "nansum_all": lambda t, x: t.nansum(x), "aminmax": lambda t, x: tuple(t.aminmax(x, dim=1, keepdim=True)),
    "max": lambda t, x: x.max(1).values, "sum": lambda t, x: x.sum((0, 1)),
    "any": lambda t, x: x.any((0, 1)), "all": lambda t, x: t.all(x, dim=(0,)), "count_nonzero": lambda t,
    x: x.count_nonzero((0, 1)), "msort": lambda t, x: x.msort(),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
@pytest.mark.parametrize("name", TIES)
def test_ties_and_special_values(name, dtype):
    x = whole(7, 9, dtype=dtype)
    if dtype == "int64" or name not in ("cumprod",):
        compare(TIES[name], x, differentiable=False)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(300,), (3, 90), (2, 6000)])
def test_sort_of_every_dtype_and_length(shape, dtype):
    x = (np.random.default_rng(1).standard_normal(shape) * 90).astype(dtype)
    compare(
        lambda t, x: tuple(t.sort(x, stable=True)) + tuple(t.sort(x, descending=True, stable=True)),
        x,
        differentiable=False,
    )
    compare(lambda t, x: (t.topk(x, 20).values, t.topk(x, 20, largest=False).values), x, differentiable=False)


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_sixteen_bit_floats(half):
    x = floats(5, 9)
    for function in (
        lambda t, x: t.sort(x, stable=True),
        lambda t, x: t.topk(x, 2),
        lambda t, x: t.cummax(x, 1),
        lambda t, x: t.median(x, 1),
    ):
        ours = function(numod, numod.tensor(x).to(getattr(numod, half)))
        theirs = function(torch, torch.tensor(x).to(getattr(torch, half)))
        assert ours[0].dtype is getattr(numod, half)
        same((ours[0].float(), ours[1]), (theirs[0].float(), theirs[1]))


@pytest.mark.parametrize(
    "name",
    [
        "median",
        "median_dim",
        "nanmedian",
        "max_all",
        "aminmax_all",
        "quantile",
        "cumprod",
        "cumprod_0",
        "logcumsumexp",
        "sort",
        "cummax",
        "renorm",
        "mode",
        "quantile_dim",
        "nanquantile",
        "nansum",
    ],
)
def test_gradients_of_ties_zeros_and_nan(name):
    x = np.array(
        [[[1.0, 1.0, 0.0, 2.0], [0.0, 2.0, 2.0, 0.0]], [[0.0, 0.0, 3.0, 1.0], [5.0, 0.0, 2.0, 2.0]]], np.float32
    )
    function = {**DISTINCT, "cumprod_0": lambda t, x: x.cumprod(2)}[name]
    if name == "sort":
        function = lambda t, x: tuple(t.sort(x, stable=True))  # noqa: E731
    compare(function, x, rtol=1e-5, atol=1e-5) if name not in ("median_dim", "mode") else same(
        function(numod, numod.tensor(x))[0], function(torch, torch.tensor(x))[0]
    )
    if name in ("nanmedian", "nansum", "nanquantile", "median"):
        x[0, 0, 0] = NAN
        compare(function, x, rtol=1e-5, atol=1e-5)


# ---- empty and zero-dimensional

SMALL = {
    "sort": lambda t, x: tuple(x.sort()), "argsort": lambda t, x: t.argsort(x), "topk_0": lambda t,
    x: tuple(x.topk(0)), "cumsum": lambda t, x: x.cumsum(0), "cummax": lambda t, x: tuple(x.cummax(0)),
    "cumprod": lambda t, x: x.cumprod(-1), "logcumsumexp": lambda t, x: x.logcumsumexp(0), "unique": lambda t,
    x: x.unique(return_inverse=True, return_counts=True),
    "unique_consecutive": lambda t, x: x.unique_consecutive(return_inverse=True, return_counts=True),
    "nansum": lambda t, x: x.nansum(), "median": lambda t, x: x.median(), "nanmedian": lambda t, x: x.nanmedian(),
    "isin": lambda t, x: t.isin(x, t.tensor([1.0])), "isin_none": lambda t, x: t.isin(t.tensor([1.0]), x),
    "bucketize": lambda t, x: t.bucketize(x, t.tensor([0.0, 1.0])),
    "histc": lambda t, x: x.histc(3, 0, 2), "kthvalue": lambda t, x: tuple(x.kthvalue(1)), "median_dim": lambda t,
    x: tuple(x.median(0)), "mode": lambda t, x: tuple(x.mode()),
    "diff": lambda t, x: x.diff(), "quantile": lambda t, x: x.quantile(0.5), "aminmax": lambda t,
    x: tuple(x.aminmax()), "topk": lambda t, x: tuple(x.topk(1)), "cov": lambda t, x: x.cov(),
    "cumsum_dim": lambda t, x: x.cumsum(1), "unique_dim": lambda t, x: x.unique(dim=0), "trapezoid": lambda t,
    x: t.trapezoid(x), "max": lambda t, x: tuple(x.max(0)), "quantile_dim": lambda t, x: x.quantile(0.5, 0, True),
}  # fmt: skip


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (1,)], ids=str)
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.filterwarnings("ignore")
def test_empty_and_scalar(name, shape):
    x = floats(*shape)
    try:
        theirs = SMALL[name](torch, torch.from_numpy(np.array(x)))
    except Exception as error:  # PyTorch says which
        with pytest.raises(type(error)):
            SMALL[name](numod, numod.tensor(x))
    else:
        same(SMALL[name](numod, numod.tensor(x)), theirs)


# ---- counting

COUNTS = {
    "bincount": lambda t: t.bincount(t.tensor([1, 3, 3, 0])),
    "minlength": lambda t: t.tensor([1, 3]).bincount(minlength=7),
    "int32": lambda t: t.bincount(t.tensor([1, 3], dtype=t.int32)),
    "weights": lambda t: t.bincount(t.tensor([1, 3, 3]), t.tensor([0.5, 1.0, 2.0])),
    "weights_64": lambda t: t.bincount(t.tensor([1, 3, 3]), t.tensor([1, 2, 3])),
    "empty": lambda t: t.bincount(t.tensor([], dtype=t.int64), minlength=2),
    "histc": lambda t: t.histc(t.tensor([0.0, 0.1, 1.0, 2.5, 2.5, 3.0]), 4),
    "histc_range": lambda t: t.histc(t.tensor([0.0, 0.1, 1.0, 2.5, -2.5, 3.0]), 5, 0, 2),
    "histc_nan": lambda t: t.histc(t.tensor([NAN, 1.0]), 2, 0, 2), "histc_point": lambda t: t.histc(t.ones(3), 3),
    "histogramdd": lambda t: (lambda histogram: (histogram[0],
        *histogram[1]))(t.histogramdd(t.tensor([[0.0, 0.1], [1.0, 2.5], [2.5, 3.0], [9.0, 9.0]]), [3, 2],
        range=(0.0, 3.0, 0.0, 3.0), weight=t.tensor([1.0, 2.0, 4.0, 8.0]), density=True)),
    "histogramdd of edges": lambda t: t.histogramdd(t.tensor([[[0.0, 0.1]], [[1.0, 2.5]]]),
        [t.tensor([0.0, 0.5, 2.0]), t.tensor([0.0, 1.0, 3.0])]).hist,
        "histogram": lambda t: tuple(t.histogram(t.tensor([0.0, 0.1, 1.0, 2.5, 2.5, 3.0]), 4)),
        "range": lambda t: tuple(t.histogram(t.tensor([0.0, 0.1, 1.0]), 3, range=(0.0, 0.9))),
    "edges": lambda t: tuple(t.histogram(t.tensor([0.0, 0.1, 1.0, 4.0]), t.tensor([0.0, 0.1, 2.0]),
        weight=t.tensor([1.0, 2.0, 4.0, 8.0]))),
    "density": lambda t: tuple(t.tensor([0.0, 0.1, 1.0]).histogram(t.tensor([0.0, 0.1, 2.0]), density=True)),
    "tril_indices": lambda t: t.tril_indices(3, 4, 1), "triu_indices": lambda t: t.triu_indices(3, 4, -1),
    "triu_empty": lambda t: t.triu_indices(0, 2),
    "searchsorted_number": lambda t: t.searchsorted(t.tensor([1.0, 2.0, 3.0]), 2),
    "search_types": lambda t: t.searchsorted(t.tensor([1.0, 2.5]), t.tensor([2, 3])),
    "isin_types": lambda t: t.isin(t.tensor([1, 2]), t.tensor([1.0, 5.0])),
    "combinations": lambda t: t.combinations(t.tensor([1, 2, 3, 4]), 3),
    "combinations_again": lambda t: t.combinations(t.tensor([1, 2, 3]), with_replacement=True),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name):
    same(COUNTS[name](numod), COUNTS[name](torch))


# ---- out, in place, names, texts

OUT = {
    "sort": lambda t, x, out: t.sort(x, out=out), "topk": lambda t, x, out: t.topk(x, 2, out=out),
    "kthvalue": lambda t, x, out: t.kthvalue(x, 2, out=out), "median": lambda t, x, out: t.median(x, 1, out=out),
    "max": lambda t, x, out: t.max(x, 1, out=out), "cummax": lambda t, x, out: t.cummax(x, 1, out=out),
    "mode": lambda t, x, out: t.mode(x, 1, out=out), "min": lambda t, x, out: t.min(x, dim=0, out=out),
}  # fmt: skip


@pytest.mark.parametrize("name", OUT)
def test_two_results_written_out(name):
    for values in (lambda t: t.empty(0), lambda t: t.empty(4)):
        results = []
        for t in (numod, torch):
            out = (values(t), t.empty(0, dtype=t.int64))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = OUT[name](t, t.tensor(floats(4, 5)), out)
            assert result[0] is out[0] and result.indices is out[1]
            results.append(out)
        same(*results)


SINGLE = (
    "cumsum:0 cumprod:1 logcumsumexp:0 nansum: quantile:0.5 msort: diff: sum:1 mean: amax:0 argmax:1 all: any:1 "
    "var: std:0 renorm:2,0,1 histc: prod:1 norm: bucketize:X0"
)


@pytest.mark.parametrize("case", SINGLE.split())
def test_one_result_written_out(case):
    name, arguments = case.split(":")
    results = []
    for t in (numod, torch):
        x = t.tensor(floats(4, 5))
        values = (x[0].sort().values,) if arguments == "X0" else eval(f"({arguments},)" if arguments else "()")
        expected = getattr(t, name)(x, *values)
        out = t.empty(0, dtype=expected.dtype)
        assert getattr(t, name)(x, *values, out=out) is out
        results.append(out)
    same(*results)


def test_in_place():
    for t in (numod, torch):
        x = t.tensor([[1.0, 2.0], [3.0, 4.0]])
        assert x.cumsum_(0) is x and x.cumprod_(1) is x
        assert x.tolist() == [[1.0, 2.0], [4.0, 24.0]]
        assert x.renorm_(2, 0, 1.0) is x


@pytest.mark.parametrize(
    "name",
    [
        "sort",
        "topk",
        "kthvalue",
        "median",
        "nanmedian",
        "mode",
        "max",
        "min",
        "cummax",
        "cummin",
        "aminmax",
        "histogram",
    ],
)
def test_named_results(name):
    arguments = {
        "topk": (2,),
        "kthvalue": (2,),
        "cummax": (0,),
        "cummin": (0,),
        "histogram": (2,),
        "sort": (),
        "aminmax": (),
    }.get(name, (0,))
    ours, theirs = (getattr(t, name)(t.tensor([3.0, 1.0, 2.0]), *arguments) for t in (numod, torch))
    assert repr(ours) == repr(theirs).replace("torch.", "numod.")
    assert isinstance(ours, getattr(numod.return_types, name)) and isinstance(ours, tuple)
    assert type(ours)(tuple(ours)) == ours


# ---- ways to call: x (2, 3, 4) of floats, i of integers, b of bool

FORMS = """
    t.var(x,1) | t.var(x,1,True) | t.var(x,1,False,True) | t.var(x,unbiased=False) | t.var(x,(0,1),correction=2) | t.var(x,False)
    x.var(dim=1,keepdim=True) | t.var(x,None) | t.var(x,correction=0.5) | t.var(x,correction=30)
    t.var_mean(x) | t.var_mean(x,1) | t.var_mean(x,1,True) | t.var_mean(x,1,False,True) | t.var_mean(x,False)
    t.var_mean(x,dim=(0,1),correction=0,keepdim=True) | t.std_mean(x,1,False) | t.std_mean(x,unbiased=False) | t.std(x,1,unbiased=False)
    t.std(x,correction=0)
    t.var(x[:0]) | t.std(x[0,0,0]) | t.var(x[0,0,0],correction=0) | t.var(i) | t.std(x[:,:0],1) | t.var(x,[0,1])
    t.norm(x) | t.norm(x,2) | t.norm(x,"fro") | t.norm(x,p=1,dim=1) | t.norm(x,p=3,dim=(0,1),keepdim=True) | t.norm(x,INF) | t.norm(x,-INF,0)
    t.norm(x,0,1) | t.norm(x,0.5,1) | t.norm(x,-1,1) | t.norm(x,2,1,dtype=t.float64) | x.norm(dim=2) | t.norm(x[:0]) | t.norm(x[:0],INF)
    t.norm(i) | t.norm(i,dtype=t.float32) | t.norm(x[0],p="fro",dim=(0,1)) | t.norm(x,dim=None) | x.norm(2,-1,True) | t.norm(x[0,0,0])
    t.logsumexp(x,1) | t.logsumexp(x,(0,1),True) | t.logsumexp(i,0) | t.logsumexp(x[:0],0) | t.logsumexp(x,dim=-1) | t.logsumexp(x*INF,0)
    t.logsumexp(x[0,0,0],0)
    t.sum(x,()) | t.sum(x,[]) | t.sum(x,dim=(0,-1)) | t.sum(b) | t.sum(b,0,dtype=t.float32) | t.sum(x,dtype=t.int64) | t.sum(i,0,dtype=t.int32)
    x.sum(0,True) | t.sum(x,0,keepdim=True) | x.sum(None) | x.sum(axis=1) | t.mean(x,axis=0) | t.sum(x,[0,0])
    t.mean(x) | t.mean(x,(0,2),True) | t.mean(i) | t.mean(i,dtype=t.float32) | t.mean(i,0,dtype=t.float64) | t.mean(x[:0]) | t.mean(x[:0],0)
    t.mean(x,[])
    t.prod(x) | t.prod(x,1,True) | t.prod(i) | t.prod(i,0,dtype=t.float32) | t.prod(x,(0,1)) | t.prod(b)
    t.amax(x) | t.amax(x,(0,1)) | t.amax(x,()) | t.amin(i,0,True) | t.amax(b) | t.amax(x[:0]) | t.amax(x[:0],1) | t.amax(x[:0],0)
    t.amax(x[0,0,0],0)
    t.argmax(x) | t.argmax(x,1) | t.argmax(x,1,True) | t.argmax(x,keepdim=True) | x.argmin(dim=-1) | t.argmax(i) | t.argmax(b) | t.argmax(x[0,0,0])
    t.argmax(x[0,0,0],0) | t.argmax(x[:0],1) | t.argmax(x,dim=(0,1))
    t.max(x) | t.max(x,1) | t.max(x,dim=1,keepdim=True) | t.max(x,-x) | t.max(x,other=-x) | x.max(0) | t.min(i,1) | t.min(b) | t.max(x[0,0,0],0)
    t.max(x[:0],0) | t.max(x[:0],1) | t.max(x,(0,1)) | x.min(dim=2,keepdim=False) | t.max(i,0) | x.max(other=x)
    t.all(x) | t.all(b,1) | t.all(b,(0,1),True) | t.any(b,dim=(0,)) | t.any(x,()) | t.all(b,()) | t.any(b[:0]) | t.all(b[:0],0) | t.any(i,0)
    t.all(x,dim=None) | b.all(dim=-1,keepdim=True) | t.any(x[0,0,0],0) | t.all(b,[])
    t.count_nonzero(x) | t.count_nonzero(b,0) | t.count_nonzero(i,(0,1)) | t.count_nonzero(x,dim=()) | t.count_nonzero(x[:0])
    t.nansum(x,()) | t.nansum(i) | t.nansum(b,0) | t.nansum(x,(0,1),True,dtype=t.float64) | t.nanmean(x) | t.nanmean(i) | t.nanmean(x,1,True)
    t.nanmean(x[:0]) | t.nansum(x[:0],0) | t.nanmean(x,dtype=t.float64)
    t.cumsum(b,0) | t.cumsum(i,0,dtype=t.float32) | x.cumsum(dim=-1) | t.cumsum(x,axis=0) | t.cumprod(b,0) | t.cumprod(i,1,dtype=t.int32)
    t.cummax(b,0) | t.cummin(i,0) | t.logcumsumexp(i,0) | t.cumsum(x,0,dtype=t.int64) | t.cumsum(x,0,t.float64) | x.cumsum(0,t.float64)
    t.sort(x,1,True) | t.sort(x,descending=True) | t.sort(x,stable=True,dim=0) | x.sort(1) | x.sort(stable=True) | t.sort(b) | t.argsort(x,0,True)
    t.argsort(x,stable=True) | t.argsort(x,dim=1,descending=True,stable=True) | t.argsort(x[:0]) | x.argsort(0)
    t.topk(x,2,1,False,True) | t.topk(x,k=1) | t.topk(i,2) | t.topk(x,2,dim=0,largest=True,sorted=False) | t.topk(b,1) | t.topk(x,t.tensor(2))
    t.topk(x,0)
    t.kthvalue(i,1) | t.kthvalue(x,1,dim=0,keepdim=True) | t.kthvalue(x[0,0,0],1) | t.median(i) | t.median(x,-1,True) | t.median(i,0)
    t.median(x[0,0,0]) | t.nanmedian(i) | t.mode(i) | t.mode(b) | t.mode(x[0,0,0])
    t.quantile(x,0.5,keepdim=True) | t.quantile(x.double(),t.tensor([0.1,0.2],dtype=t.float64),-1,True) | t.quantile(x,t.tensor([]),0)
    t.nanquantile(x,0.2) | t.quantile(x[0,0,0],0.5) | t.quantile(x,q=t.tensor(0.3),dim=1) | t.quantile(x,1) | t.quantile(x,0.5,[0])
    t.unique(x,sorted=False) | t.unique(i,False,True) | t.unique(i,dim=-1) | i.unique(dim=0,return_counts=True) | t.unique(b)
    t.unique_consecutive(i) | t.unique_consecutive(i,dim=1,return_inverse=True) | t.unique(i[0],True,True,True,0)
    t.bincount(i[0,0]) | t.bincount(i[0,0],x[0,0]) | t.bincount(i[0,0],weights=i[0,0],minlength=3) | t.bincount(b[0,0]) | t.bincount(i[0,0].byte())
    t.bincount(t.tensor([])) | t.bincount(i[:0,0,0])
    t.histc(x) | t.histc(x,bins=3,min=-1,max=1) | t.histc(x.double(),4) | t.histc(x[:0],3) | t.histogram(x,3)
    t.histogram(x,bins=4,range=(-1.,1.),density=True) | t.histogram(x.double(),2) | t.histogram(x,3,weight=x.abs()) | t.histogram(i,3)
    t.diff(i) | t.diff(b) | t.diff(x,dim=0) | t.diff(x,n=5) | t.diff(x[:0]) | t.trapezoid(x,dx=2) | t.trapezoid(i) | t.cumulative_trapezoid(x,x)
    t.cumulative_trapezoid(x[:0],dim=0) | t.trapezoid(x,t.tensor([1.,2.,4.,5.])) | t.trapz(x,x.abs(),dim=0) | t.trapezoid(x[0,0,0])
    t.cov(i[0]) | t.cov(x[0,0,0]) | t.cov(x[0,:,:0]) | t.corrcoef(i[0]) | t.corrcoef(x[0,0,0]) | t.cov(x[0],correction=9) | t.cov(x[0,:1])
    t.dist(x,x) | t.dist(x,x[0],3) | t.dist(i,i) | t.renorm(x,p=2,dim=-1,maxnorm=1) | t.renorm(x,1,0,5.) | t.renorm(i,2,0,1)
    t.cdist(x,x) | t.cdist(x,x,p=INF) | t.cdist(x[0],x) | t.cdist(x,x[:,:0]) | t.cdist(x[:,:,:0],x[:,:,:0]) | t.cdist(i,i) | t.cdist(x,x.double())
    t.cdist(x[:1],x[:,:2],0) | t.pdist(x[0]) | t.pdist(x[0,:1]) | t.pdist(x[0,:0])
    t.isin(i,[1]) | t.isin(i,t.tensor(1)) | t.isin(1,i) | t.isin(x,i) | t.searchsorted(t.tensor([1,3,5]),4)
    t.searchsorted(t.tensor([1.,3.,5.]),t.tensor(4.)) | t.searchsorted(t.tensor([[1,3],[2,4]]),t.tensor([[2],[2]]))
    t.searchsorted(t.tensor([1.,3.]),x[:0]) | t.searchsorted(t.tensor([]),x) | t.bucketize(x,t.tensor([-1.,0.,1.]),right=True,out_int32=True)
    t.bucketize(1,t.tensor([1,2])) | t.bucketize(i,t.tensor([0.5,1.5])) | t.searchsorted(x[0],x[1],side='right')
    t.aminmax(x) | t.aminmax(x,dim=0) | t.aminmax(i,dim=1,keepdim=True) | t.aminmax(b) | t.aminmax(x[0,0,0],dim=0) | t.aminmax(x[0,0,0])
    x.aminmax()
    t.tril_indices(3,3) | t.triu_indices(2,5,1,dtype=t.int32) | t.tril_indices(2,2,-5) | t.equal(x,x) | t.allclose(x,x) | t.msort(x[0,0,0])
    t.max(x,1).indices | t.sort(x).values | t.std_mean(x)[0] | t.var_mean(x,(0,1))
"""


@pytest.mark.parametrize("form", [word.strip() for line in FORMS.strip().splitlines() for word in line.split(" | ")])
@pytest.mark.filterwarnings("ignore")
def test_ways_to_call(form):
    results = []
    for t in (numod, torch):
        x = t.from_numpy(floats(2, 3, 4))
        try:
            results.append(eval(form, {"t": t, "x": x, "i": (x.abs() * 2).long(), "b": x > 0, "INF": INF}))
        except Exception as error:  # PyTorch says which
            results.append(error)
    if isinstance(results[1], Exception):
        assert type(results[0]) is type(results[1])
    else:
        same(*results, 1e-5, 1e-5)


# ---- errors: the same type

BAD = {
    "sort": lambda t: t.ones(2).sort(1), "topk": lambda t: t.ones(2).topk(3),
    "topk_negative": lambda t: t.ones(2).topk(-1), "kthvalue": lambda t: t.ones(2).kthvalue(3),
    "kthvalue_0": lambda t: t.ones(2).kthvalue(0),
    "quantile_q": lambda t: t.ones(2).quantile(1.5), "quantile_qs": lambda t: t.ones(2).quantile(t.tensor([2.0])),
    "quantile_int": lambda t: t.tensor([1]).quantile(0.5),
    "quantile_dtype": lambda t: t.ones(2).quantile(t.ones(2).double()),
    "quantile_name": lambda t: t.ones(2).quantile(0.5, interpolation="cubic"),
    "quantile_2d": lambda t: t.ones(2).quantile(t.ones(1, 1)),
    "search_shape": lambda t: t.searchsorted(t.ones(2, 2), t.ones(3, 2)),
    "search_side": lambda t: t.searchsorted(t.ones(2), t.ones(2), side="up"),
    "search_sides": lambda t: t.searchsorted(t.ones(2), t.ones(2), side="left", right=True),
    "sorter": lambda t: t.searchsorted(t.ones(2), t.ones(2), sorter=t.tensor([0])),
    "sorter_dtype": lambda t: t.searchsorted(t.ones(2), t.ones(2), sorter=t.tensor([0, 1], dtype=t.int32)),
    "sorter_range": lambda t: t.searchsorted(t.ones(2), t.ones(2), sorter=t.tensor([0, 2])),
    "bucketize": lambda t: t.bucketize(t.ones(2), t.ones(2, 2)), "bincount": lambda t: t.bincount(t.tensor([-1])),
    "bincount_2d": lambda t: t.bincount(t.tensor([[1]])), "bincount_float": lambda t: t.bincount(t.ones(1)),
    "bincount_weights": lambda t: t.bincount(t.tensor([1]), t.ones(2)),
    "minlength": lambda t: t.bincount(t.tensor([1]), minlength=-1), "histc_bins": lambda t: t.histc(t.ones(1), 0),
    "histc_order": lambda t: t.histc(t.ones(1), 2, 3, 1),
    "histc_nan": lambda t: t.histc(t.tensor([NAN]), 2), "histc_int": lambda t: t.histc(t.tensor([1]), 2),
    "isin": lambda t: t.isin(1, 2), "diff": lambda t: t.tensor(1.0).diff(), "diff_order": lambda t: t.ones(2).diff(-1),
    "cov": lambda t: t.ones(1, 1, 1).cov(), "cov_bool": lambda t: t.tensor([True]).cov(),
    "cov_weights": lambda t: t.cov(t.ones(2, 2), fweights=t.ones(2)),
    "cov_negative": lambda t: t.cov(t.ones(2, 2), fweights=t.tensor([1, -1])),
    "renorm": lambda t: t.ones(2).renorm(2, 0, 1), "renorm_p": lambda t: t.ones(2, 2).renorm(0, 0, 1),
    "renorm_most": lambda t: t.ones(2, 2).renorm(2, 0, -1), "nanmean": lambda t: t.tensor([1]).nanmean(),
    "trapezoid": lambda t: t.trapezoid(t.ones(3), t.ones(2)),
    "trapezoid_both": lambda t: t.trapezoid(t.ones(3), t.ones(3), dx=1),
    "logcumsumexp": lambda t: t.tensor([1]).logcumsumexp(0), "cumsum": lambda t: t.ones(2).cumsum(2),
    "cummax": lambda t: t.ones(2).cummax(1), "median": lambda t: t.ones(2).median(2),
    "median_empty": lambda t: t.ones(0, 2).median(0), "mode_empty": lambda t: t.ones(0, 2).mode(0),
    "unique": lambda t: t.ones(2).unique(dim=1),
    "aminmax": lambda t: t.ones(0).aminmax(),
    "out_grad": lambda t: t.cumsum(t.ones(2, requires_grad=True), 0, out=t.ones(2)),
    "cdist": lambda t: t.cdist(t.ones(2, 2), t.ones(2, 3)), "cdist_1d": lambda t: t.cdist(t.ones(2), t.ones(2)),
    "cdist_p": lambda t: t.cdist(t.ones(2, 2), t.ones(2, 2), -1), "pdist": lambda t: t.pdist(t.ones(2)),
    "multinomial": lambda t: t.ones(2).multinomial(3), "multinomial_0": lambda t: t.ones(2).multinomial(0),
    "multinomial_sum": lambda t: t.zeros(2).multinomial(1),
    "multinomial_negative": lambda t: t.tensor([-1.0, 2]).multinomial(1),
    "multinomial_int": lambda t: t.tensor([1, 2]).multinomial(1),
    "multinomial_3d": lambda t: t.ones(1, 1, 1).multinomial(1), "exponential": lambda t: t.ones(2).exponential_(-1),
    "exponential_int": lambda t: t.tensor([1]).exponential_(),
    "geometric": lambda t: t.ones(2).geometric_(2), "cauchy": lambda t: t.ones(2).cauchy_(0, -1),
    "log_normal": lambda t: t.ones(2).log_normal_(0, -1), "poisson": lambda t: t.poisson(t.tensor([1])),
    "uniform": lambda t: t.ones(1).uniform_(2, 1),
    "poisson_negative": lambda t: t.poisson(t.tensor([-1.0])), "triu_indices": lambda t: t.triu_indices(-1, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_error_types(name):
    same_error(BAD[name])
