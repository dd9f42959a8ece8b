"""numod.linalg beside torch.linalg: values, gradients, errors, over batches."""

from __future__ import annotations

import numpy as np
import pytest
from parity import compare, random, same_error

import numod

pytestmark = pytest.mark.parity


def data(kind: str, shape: tuple, seed: int) -> np.ndarray:
    x = random(*shape, seed=seed)
    if kind == "positive":
        return x @ np.swapaxes(x, -1, -2) + 0.5 * np.eye(shape[-1])
    return x + np.swapaxes(x, -1, -2) if kind == "symmetric" else x


def agree(function, *inputs: tuple, differentiable: bool = True) -> None:
    compare(
        function,
        *(data(kind, shape, k) for k, (kind, shape) in enumerate(inputs)),
        atol=1e-8,
        differentiable=differentiable,
    )


ANY, BATCH, TALL, WIDE = ("any", (4, 4)), ("any", (2, 3, 4, 4)), ("any", (2, 5, 3)), ("any", (2, 3, 5))
POSITIVE, SYMMETRIC = ("positive", (2, 4, 4)), ("symmetric", (2, 4, 4))


@pytest.mark.parametrize("function, inputs", [
    (lambda t, a: t.linalg.inv(a), (BATCH,)), (lambda t, a: t.inverse(a), (ANY,)), (lambda t, a: t.linalg.det(a), (BATCH,)), (lambda t, a: t.linalg.slogdet(a)[1], (BATCH,)), (lambda t, a: t.logdet(a), (POSITIVE,)),
    (lambda t, a, b: t.linalg.solve(a, b), (BATCH, ("any", (2, 3, 4, 2)))), (lambda t, a, b: t.linalg.solve(a, b), (ANY, ("any", (4,)))), (lambda t, a, b: t.linalg.solve(a, b, left=False), (ANY, ("any", (2, 4)))), (lambda t, a: t.linalg.cholesky(a), (POSITIVE,)), (lambda t, a: t.linalg.cholesky(a, upper=True), (POSITIVE,)),
    (lambda t, a, b: t.linalg.solve_triangular(a, b, upper=True), (POSITIVE, ("any", (2, 4, 3)))), (lambda t, a, b: t.linalg.solve_triangular(a, b, upper=False, unitriangular=True), (POSITIVE, ("any", (2, 4, 3)))), (lambda t, a, b: t.linalg.solve_triangular(a, b, upper=False, left=False), (POSITIVE, ("any", (2, 3, 4)))),
    (lambda t, a, b: t.cholesky_solve(b, t.linalg.cholesky(a)), (POSITIVE, ("any", (2, 4, 3)))), (lambda t, a: t.cholesky_inverse(t.linalg.cholesky(a)), (POSITIVE,)), (lambda t, a: (lambda q, r: q @ r @ r.mT)(*t.linalg.qr(a)), (TALL,)), (lambda t, a: t.linalg.qr(a)[1].abs(), (ANY,)),
    (lambda t, a: t.linalg.svd(a, False)[1], (TALL,)), (lambda t, a: t.linalg.svdvals(a), (WIDE,)), (lambda t, a: (lambda u, s, vh: (u.abs() * s.unsqueeze(-2)) @ vh.abs())(*t.linalg.svd(a, False)), (TALL,)), (lambda t, a: t.linalg.eigvalsh((a + a.mT) / 2), (SYMMETRIC,)),
    (lambda t, a: (lambda w, v: v.abs() * w.unsqueeze(-2))(*t.linalg.eigh((a + a.mT) / 2)), (SYMMETRIC,)), (lambda t, a: t.linalg.pinv(a), (TALL,)), (lambda t, a: t.linalg.matrix_power(a, 3), (BATCH,)), (lambda t, a: t.linalg.matrix_power(a, -2), (POSITIVE,)), (lambda t, a: t.linalg.matrix_exp(a), (BATCH,)),
    (lambda t, a: t.linalg.norm(a), (BATCH,)), (lambda t, a: t.linalg.norm(a, 1), (ANY,)), (lambda t, a: t.linalg.norm(a, "nuc"), (ANY,)), (lambda t, a: t.linalg.matrix_norm(a, 2), (BATCH,)), (lambda t, a: t.linalg.matrix_norm(a, float("-inf"), keepdim=True), (BATCH,)), (lambda t, a: t.linalg.vector_norm(a, 3, dim=1), (BATCH,)),
    (lambda t, a: t.linalg.vector_norm(a, keepdim=True), (ANY,)), (lambda t, a: t.linalg.cond(a), (ANY,)), (lambda t, a, b: t.linalg.multi_dot([a, b, a]), (ANY, ANY)), (lambda t, a, b: t.linalg.lstsq(a, b)[0], (TALL, ("any", (2, 5, 2)))), (lambda t, a: t.linalg.vander(a, N=3), (("any", (4,)),)),
    (lambda t, a, b: t.linalg.vecdot(a, b), (ANY, ANY)), (lambda t, a, b: t.linalg.cross(a, b), (("any", (4, 3)), ("any", (4, 3)))), (lambda t, a: t.linalg.tensorinv(a.reshape(2, 2, 4)), (ANY,)), (lambda t, a, b: t.linalg.householder_product(a, b), (("any", (5, 3)), ("any", (3,)))), (lambda t, a, b: t.linalg.tensorsolve(a.reshape(2, 2, 4), b), (ANY, ("any", (2, 2)))),
])  # fmt: skip
def test_values_and_gradients(function, inputs: tuple) -> None:
    agree(function, *inputs)


@pytest.mark.parametrize("function, inputs", [
    (lambda t, a: t.linalg.qr(a, mode="complete")[1].abs(), (TALL,)), (lambda t, a: t.linalg.matrix_rank(a), (TALL,)), (lambda t, a: t.linalg.lu_factor(a)[0], (BATCH,)), (lambda t, a: tuple(t.linalg.lu(a)), (BATCH,)), (lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b), (ANY, ("any", (4, 2)))),
    (lambda t, a: t.linalg.eigvals(t.triu(a)).real.sort()[0], (ANY,)), (lambda t, a: t.svd(a)[1], (TALL,)), (lambda t, a: t.linalg.slogdet(a)[0], (BATCH,)), (lambda t, a: t.linalg.svd(a)[1], (WIDE,)),
])  # fmt: skip
def test_values(function, inputs: tuple) -> None:
    agree(function, *inputs, differentiable=False)


@pytest.mark.parametrize("call", [
    lambda t: t.linalg.inv(t.zeros(2, 2)), lambda t: t.linalg.cholesky(-t.eye(2)), lambda t: t.linalg.solve(t.zeros(2, 2), t.ones(2)), lambda t: t.linalg.inv(t.zeros(2, 3)), lambda t: t.linalg.inv(t.zeros(3)), lambda t: t.linalg.qr(t.eye(2), mode="other"), lambda t: t.linalg.eigh(t.eye(2), UPLO="X"),
    lambda t: t.linalg.solve(t.eye(2), t.ones(3)), lambda t: t.linalg.matrix_norm(t.eye(2), ord=5), lambda t: t.linalg.inv(t.eye(2, dtype=t.int64)), lambda t: t.linalg.multi_dot([t.eye(2)]),
])  # fmt: skip
def test_errors(call) -> None:
    same_error(call)


def test_second_order() -> None:
    a = numod.tensor(data("positive", (3, 3), 0), requires_grad=True)
    for function in (
        numod.linalg.inv,
        numod.linalg.det,
        lambda x: numod.linalg.cholesky((x + x.mT) / 2),
        lambda x: numod.linalg.solve(x, x[:, 0]),
        lambda x: numod.linalg.slogdet(x)[1],
        numod.linalg.svdvals,
    ):
        assert numod.autograd.gradcheck(function, (a,)) and numod.autograd.gradgradcheck(function, (a,))
