"""Indices, scattered sums and sorting as PTX (see `test_ptx_machine`)."""

from __future__ import annotations


import pytest

import numod
from numod.nn import functional as F
from numod.ops.sort import radix_cuda as sort_digits

from machine_checks import HALVES, PTX, check, counted, made
from ptx_machine import Machine

pytestmark = PTX


def test_gather_and_scatter() -> None:
    x, index, rows = made(37, 19), numod.randint(0, 37, (23, 19)), numod.randint(0, 37, (50,))
    for function in (
        lambda x, i, r: (
            x.gather(0, i),
            x.index_select(0, r),
            x[r],
            x.take_along_dim(i, 0),
            x[r, r % 19],
            F.embedding(r, x),
            x[x > 0.3],
            x.masked_fill(x > 0, 2.0),
        ),
        lambda x, i, r: (
            x.scatter_add(0, i, x[:23]),
            x.index_add(0, r[:37], x),
            x.scatter_reduce(0, i, x[:23], "prod"),
            x.scatter_reduce(0, i, x[:23], "amax"),
        ),
    ):
        check(lambda x, f=function: f(x, index.to(x.device), rows.to(x.device)), x, tolerance=1e-4)
    check(
        lambda x: (x.nonzero(), numod.bincount((x.abs() * 3).long().reshape(-1)), numod.histc(x, 7, -1.0, 1.0)),
        x,
        gradients=False,
    )
    check(
        lambda x: (
            numod.cat((x, x[:3] * 2), 0),
            numod.stack((x, x)),
            x.roll(3, 1),
            x.flip(0, 1),
            x.tril(),
            x.diagonal(),
            x.repeat(2, 3),
            x.repeat_interleave(2, 0),
        ),
        x,
    )
    check(lambda x: F.embedding_bag(rows.to(x.device), x, numod.tensor([0, 7, 30], device=x.device)), x)


@pytest.mark.parametrize("dtype", [numod.float32, numod.float64, numod.int64, numod.uint8, *HALVES], ids=str)
def test_sums_by_index(dtype: numod.dtype, machine: Machine) -> None:
    x, y, places = made(7, 33).to(dtype), made(300, 33).to(dtype), numod.randint(0, 7, (300,))

    def sums(x: numod.Tensor, y: numod.Tensor) -> tuple:
        r = places.to(x.device)
        put = x.clone().index_put_((r, r * 3), y[:, 0], accumulate=True)
        return (
            x.index_add(0, r, y),
            x.t().index_add(1, r, y.t()),
            x.scatter_add(0, (r[:, None] + r[:33]) % 7, y),
            x[:, 0].scatter_add(0, r, y[:, 1]),
            put,
        )

    check(sums, x, y, tolerance={numod.float16: 4e-2, numod.bfloat16: 3e-1, numod.float64: 1e-12}.get(dtype, 1e-4))
    at, flat = places.cuda(), y[:, 0].contiguous().cuda()
    numod.zeros(7, dtype=dtype, device="cuda").index_add_(0, at, flat)
    threads = 1 if dtype is numod.uint8 else 300
    assert dtype in HALVES or machine.last[1] * machine.last[2] >= threads


@pytest.mark.parametrize("dtype", [numod.float32, numod.bool], ids=str)
def test_the_last_one_stays(dtype: numod.dtype, machine: Machine) -> None:
    x = made(7, 33).to(dtype)
    y = made(300, 33).sign().clamp(min=0).to(dtype) if dtype is numod.bool else made(300, 33)
    places = numod.randint(0, 7, (300,))

    def written(x: numod.Tensor, y: numod.Tensor) -> tuple:
        r = places.to(x.device)
        put = x.clone().index_put_((r, r * 3), y[:, 0])
        return (
            x.index_copy(0, r, y),
            x.t().index_copy(1, r, y.t()),
            x.scatter(0, (r[:, None] + r[:33]) % 7, y),
            put,
            x[:, 0].contiguous().put_(r, y[:, 1]),
        )

    check(written, x, y, gradients=False, tolerance=0)
    at, source, target = places.cuda(), y[:, 0].contiguous().cuda(), numod.zeros(7, dtype=dtype, device="cuda")
    target.index_copy_(0, at, source)
    assert machine.last[1] * machine.last[2] >= 300


@pytest.mark.parametrize(
    "dtype", [numod.float32, numod.float64, numod.int32, numod.int64, numod.int8, numod.uint8, numod.float16], ids=str
)
def test_folds_by_index_have_a_thread_for_each_element(dtype: numod.dtype, machine: Machine) -> None:
    x, y, places = made(7, 3).to(dtype), made(300, 3).to(dtype), numod.randint(0, 7, (300, 3))
    if dtype.is_floating_point:
        x, y = x * 0.1 + 1, y * 0.01 + 1
        y[9, 1] = x[4, 2] = float("nan")
        y[19, 0] = 0

    def fold(x: numod.Tensor, y: numod.Tensor) -> tuple:
        at = places.to(x.device)
        return *(x.scatter_reduce(0, at, y, how) for how in ("prod", "amax", "amin")), x.index_reduce(
            0, at[:, 0], y, "amax", include_self=False
        )

    check(fold, x, y, gradients=False, tolerance={numod.float32: 1e-4, numod.float16: 2e-3}.get(dtype, 1e-12))
    assert any(
        "cas" in instruction.parts
        for kernel in machine.kernels
        if "scatter_reduce_prod" in kernel.name
        for instruction in kernel.program.code
    )


@pytest.mark.parametrize("dtype", [numod.int8, numod.uint8, numod.int16, numod.complex64, numod.complex128], ids=str)
def test_sums_by_index_of_what_is_not_added_at_once(dtype: numod.dtype, machine: Machine) -> None:
    x, y, places = (made(7, 3) * 9).to(dtype), (made(300, 3) * 9).to(dtype), numod.randint(0, 7, (300,))

    def sums(x: numod.Tensor, y: numod.Tensor) -> tuple:
        at = places.to(x.device)
        return (
            x.index_add(0, at, y),
            x.t().contiguous().index_add(1, at, y.t().contiguous()),
            x.scatter_add(0, at[:, None].expand(300, 3).contiguous(), y),
        )

    check(sums, x, y, gradients=False, tolerance=1e-4 if dtype is numod.complex64 else 1e-12)
    assert machine.last[1] * machine.last[2] >= 900  # threads


def test_sums_by_index_in_order_where_asked_for() -> None:
    y, places = made(300, 3), numod.randint(0, 7, (300,))

    def sums(device: str) -> list:
        moved, r = y.to(device), places.to(device)
        return [
            numod.zeros(7, 3, device=device).index_add_(0, r, moved).tolist(),
            numod.zeros(7, 3, device=device).scatter_add_(0, r[:, None].expand(300, 3).contiguous(), moved).tolist(),
            numod.ones(7, 3, device=device)
            .scatter_reduce(0, r[:, None].expand(300, 3).contiguous(), moved, "prod")
            .tolist(),
        ]

    # the machine's last threads add first
    assert all(actual != expected for actual, expected in zip(sums("cuda"), sums("cpu")))
    try:
        numod.use_deterministic_algorithms(True)
        assert sums("cuda") == sums("cpu")
    finally:
        numod.use_deterministic_algorithms(False)
    assert sums("cuda") != sums("cpu")


@pytest.mark.parametrize("n", [1, 33, 1000, 5000])
@pytest.mark.parametrize("dtype", [numod.float32, numod.int64], ids=str)
def test_order(n: int, dtype: numod.dtype) -> None:
    x = (made(3, n) * 5).to(dtype)
    if dtype is numod.float32 and n > 9:
        x[1, 4:9] = numod.tensor([float("nan"), 0.0, -0.0, float("inf"), float("nan")])
    k = min(n, 7)
    check(
        lambda x: (
            *x.sort(1),
            *x.sort(1, descending=True),
            *x.topk(k),
            x.kthvalue(1 + n // 2, 1)[0],
            *x.cummax(1),
            x.cumsum(1) if dtype is numod.int64 else x.nan_to_num(0, 0).cumsum(1),
        ),
        x,
        gradients=False,
        tolerance=1e-4,
    )
    if n < 2000:
        check(
            lambda x: (
                x.median(1)[0],
                x.nanmedian(1)[0],
                x.gather(1, x.median(1, True)[1]),
                x.median(),
                (x / (x[:1] * 0)).nanmedian(0)[0],
            ),
            x,
            gradients=False,
        )
    if dtype is numod.int64:
        check(
            lambda x: (
                *x.unique(return_inverse=True, return_counts=True),
                *x.mode(1),
                numod.searchsorted(x[0].sort()[0], x),
            ),
            x,
            gradients=False,
        )


@pytest.mark.parametrize("dtype", [numod.float32, numod.float64], ids=str)
def test_long_rows_sorted_by_digits(dtype: numod.dtype, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_digits, "suits", lambda *_: True)  # of less than what it is faster for
    x = (made(2, 9001) * 9).abs().to(dtype)
    if dtype is numod.float32:
        x[1, 4000:4005] = numod.tensor([float("nan"), 0.0, -0.0, float("inf"), float("nan")])
        x[0] = x[0].round()  # of many equal ones
    before = {kernel.name for kernel in machine.kernels}
    check(lambda x: (*x.sort(1), *x.sort(1, descending=True)), x, gradients=False)
    assert any("move_digits" in name for name in {kernel.name for kernel in machine.kernels} - before)
    result = counted(machine, x.cuda().sort)
    assert (
        result["shared loads passes"] <= 3 * result["shared loads"]
        and result["shared stores passes"] <= 4 * result["shared stores"]
    )
