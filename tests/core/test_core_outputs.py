"""`out=`: which functions write to a tensor of another dtype than their result's, and which refuse it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import numod

A, B, PLACES = numod.arange(1.0, 7.0).reshape(2, 3), numod.ones(2, 3), numod.zeros(1, 3, dtype=numod.int64)
EXACT: dict[str, Callable] = {
    "abs": lambda out: numod.abs(A, out=out), "clamp": lambda out: numod.clamp(A, 0, 1, out=out),
    "round": lambda out: numod.round(A, out=out),
    "where": lambda out: numod.where(A > 2, A, B, out=out), "amax": lambda out: numod.amax(A, 0, out=out),
    "argmax": lambda out: numod.argmax(A, 0, out=out),
    "matmul": lambda out: numod.matmul(A, B.T, out=out), "gather": lambda out: numod.gather(A, 0, PLACES, out=out),
    "tril": lambda out: numod.tril(A, out=out),
    "nonzero": lambda out: numod.nonzero(A, out=out), "all": lambda out: numod.all(A, 0, out=out),
    "isin": lambda out: numod.isin(A, B, out=out),
    "signbit": lambda out: numod.signbit(A, out=out), "searchsorted": lambda out: numod.searchsorted(A[0], A, out=out),
    "svdvals": lambda out: numod.linalg.svdvals(A, out=out), "softmax": lambda out: numod.softmax(A, 0, out=out),
}  # fmt: skip
CONVERTING: dict[str, Callable] = {
    "exp": lambda out: numod.exp(A, out=out), "add": lambda out: numod.add(A, B, out=out),
    "maximum": lambda out: numod.maximum(A, B, out=out),
    "sum": lambda out: numod.sum(A, 0, out=out), "mean": lambda out: numod.mean(A, 0, out=out),
    "cumsum": lambda out: numod.cumsum(A, 0, out=out),
    "cat": lambda out: numod.cat([A, B], out=out), "eq": lambda out: numod.eq(A, B, out=out),
    "logsumexp": lambda out: numod.logsumexp(A, 0, out=out),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_functions_that_refuse_another_dtype(name: str) -> None:
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        EXACT[name](numod.empty(0, dtype=numod.float64))


@pytest.mark.parametrize("name", CONVERTING)
def test_functions_that_convert(name: str) -> None:
    out = numod.empty(0, dtype=numod.float64)
    numod.testing.assert_close(CONVERTING[name](out).float(), CONVERTING[name](numod.empty(0)))
    assert out.numel() and out.dtype is numod.float64


def test_several_results_are_written_to_several_tensors() -> None:
    image, buffers = numod.arange(12.0).reshape(1, 2, 6), tuple(numod.empty(0) for _ in range(3))
    arguments = image, None, None, None, None, True, 0.1, 1e-5
    assert all(written is into for written, into in zip(numod.native_batch_norm(*arguments, out=buffers), buffers))
    assert all(map(numod.equal, buffers, numod.native_batch_norm(*arguments)))


def test_a_hash_is_written_as_int64() -> None:
    out = numod.empty((), dtype=numod.int64)
    assert numod.equal(numod.hash_tensor(A, out=out), numod.hash_tensor(A))
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype Long"):
        numod.hash_tensor(A, out=numod.empty(()))


def test_an_input_is_not_resized_to_hold_the_result() -> None:
    for compare in (numod.add, numod.lt):
        out = numod.ones(())
        with pytest.raises(RuntimeError, match=r"output with shape \[\] doesn't match the broadcast shape \[2, 3\]"):
            compare(out, A, out=out)


def test_a_part_of_the_input_is_refused_as_output() -> None:
    x = numod.arange(6.0)
    for source, out in ((x[:-1], x[1:]), (x[:4].view(2, 2), x[:4].view(2, 2).T)):
        with pytest.raises(RuntimeError, match="input tensor and the written-to tensor refer to a single memory"):
            numod.neg(source, out=out)
    assert numod.neg(x[:3], out=x[3:]).tolist() == [0, -1, -2]
    assert numod.neg(x[::2], out=x[1::2]).tolist() == [0, -2, 1]
    assert numod.neg(x, out=x).tolist() == [0, 0, -2, 2, 1, -1]


def test_copies_of_views_are_written_to_their_own_dtype() -> None:
    assert numod.equal(numod.t_copy(A, out=numod.empty(0)), A.T)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype Float, but got Double"):
        numod.t_copy(A, out=numod.empty(0, dtype=numod.float64))


def test_joined_tensors_are_cast_by_kind() -> None:
    for join in (numod.cat, numod.stack, numod.hstack):
        with pytest.raises(TypeError, match="can't be cast to the desired output type Int"):
            join([A, A], out=numod.empty(0, dtype=numod.int32))


def test_truths_may_be_bytes() -> None:
    assert numod.all(A > 1, 1, out=numod.empty(0, dtype=numod.uint8)).tolist() == [0, 1]


def test_functions_of_the_table_that_had_no_out() -> None:
    out = numod.empty(0, dtype=numod.int64)
    assert numod.nonzero_static(A[0], size=2, out=out) is out and out.tolist() == [[0], [1]]
    numod.testing.assert_close(numod.nuclear_norm(numod.eye(3), True), numod.tensor([[3.0]]))


def test_results_without_gradient_are_written_although_an_input_requires_one() -> None:
    x, out = numod.arange(3.0, requires_grad=True), numod.zeros(3, dtype=numod.bool)
    for compare in (numod.gt, numod.eq, numod.logical_and):
        assert numod.equal(compare(x, x, out=out), compare(x, x)) and not out.requires_grad
    assert numod.isposinf(x, out=out).tolist() == [False] * 3
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        numod.add(x, x, out=numod.zeros(3))


def test_ldexp_converts() -> None:
    out = numod.ldexp(A, B, out=numod.empty(0, dtype=numod.float64))
    assert out.dtype is numod.float64 and numod.equal(out, numod.ldexp(A.double(), B.double()))
