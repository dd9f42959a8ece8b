"""Einsum and its kin, triangles and diagonals, beside PyTorch's: values, gradients, errors."""

from __future__ import annotations

import pytest
from parity import compare, random, same_error


pytestmark = pytest.mark.parity
SIZES = dict(zip("abcdeijklmn", (2, 3, 4, 2, 3, 4, 5, 2, 3, 2, 4)))


def agree(function, *shapes: tuple) -> None:
    compare(function, *(random(*shape, seed=k) for k, shape in enumerate(shapes)))


@pytest.mark.parametrize(
    "equation",
    [
        "ij,jk->ik",
        "ij,jk",
        "bij,bjk->bik",
        "ij->ji",
        "ii->i",
        "ii",
        "i,j->ij",
        "i,i",
        "ij,ij->",
        "bn,anm,bm->ba",
        "abc,cd,de->abe",
        "ij->",
        "ij->j",
        "abij,abkj->abik",
        "a,b,c->cba",
        "iij->ij",
        "ij,kj->ikj",
        "ba,ba->b",
    ],
)
def test_einsum(equation: str) -> None:
    shapes = [tuple(SIZES[letter] for letter in term) for term in equation.split("->")[0].split(",")]
    agree(lambda t, *xs: t.einsum(equation, *xs), *shapes)


@pytest.mark.parametrize("equation, shapes", [
    ("...ij,...jk->...ik", ((2, 3, 4, 5), (3, 5, 2))), ("...i,...i->...", ((2, 3), (2, 3))), ("b...,b->...", ((2, 3, 4), (2,))), ("...ij->...ji", ((2, 3, 4),)), ("...,...", ((2, 3), (3,))), ("i...,...i->i...", ((3, 2), (2, 3))), ("ij, jk -> ik", ((2, 3), (3, 4))), ("ij,jk->ik", ((2, 1), (3, 4))),
])  # fmt: skip
def test_ellipsis_and_broadcasting(equation: str, shapes: tuple) -> None:
    agree(lambda t, *xs: t.einsum(equation, *xs), *shapes)


def test_einsum_by_lists() -> None:
    agree(lambda t, a, b: t.einsum(a, [0, 1], b, [1, 2], [0, 2]), (2, 3), (3, 4))
    agree(lambda t, a, b: t.einsum(a, [..., 1], b, [1, 2]), (2, 3), (3, 4))


@pytest.mark.parametrize("function, shapes", [
    (lambda t, a, b: t.tensordot(a, b), ((2, 3, 4), (3, 4, 5))), (lambda t, a, b: t.tensordot(a, b, 1), ((2, 3), (3, 4))), (lambda t, a, b: t.tensordot(a, b, ([2, 0], [0, 1])), ((2, 3, 4), (4, 2, 5))), (lambda t, a, b: t.tensordot(a, b, 0), ((2,), (3,))),
    (lambda t, a, b: t.inner(a, b), ((2, 3), (4, 3))), (lambda t, a, b: t.inner(a, b), ((3,), (3,))), (lambda t, a, b: t.kron(a, b), ((2, 3), (3, 2))), (lambda t, a, b: t.kron(a, b), ((2,), (3, 2))), (lambda t, a, b: t.cross(a, b, dim=-1), ((2, 3), (2, 3))), (lambda t, a, b: t.vdot(a, b), ((3,), (3,))),
    (lambda t, x, a, b: t.addmm(x, a, b, beta=0.5, alpha=2), ((4,), (2, 3), (3, 4))), (lambda t, x, a, b: t.addmv(x, a, b, beta=0.5), ((2,), (2, 3), (3,))), (lambda t, x, a, b: t.addr(x, a, b, alpha=3), ((2, 3), (2,), (3,))), (lambda t, x, a, b: t.baddbmm(x, a, b, beta=2), ((2, 3, 4), (2, 3, 5), (2, 5, 4))),
    (lambda t, x, a, b: t.addbmm(x, a, b), ((3, 4), (2, 3, 5), (2, 5, 4))), (lambda t, a, b: t.ger(a, b), ((2,), (3,))), (lambda t, a, b, c: t.linalg.multi_dot([a, b, c]), ((2, 5), (5, 3), (3, 4))),
    (lambda t, x: t.tril(x), ((3, 4),)), (lambda t, x: x.tril(-1), ((2, 4, 3),)), (lambda t, x: t.triu(x, 1), ((2, 3, 4),)), (lambda t, x: x.clone().triu_(1), ((3, 3),)), (lambda t, x: t.diag(x), ((3,),)), (lambda t, x: t.diag(x, -1), ((3,),)), (lambda t, x: x.diag(1), ((3, 4),)),
    (lambda t, x: t.diag_embed(x, 1), ((2, 3),)), (lambda t, x: t.diag_embed(x, 0, 0, 2), ((2, 3),)), (lambda t, x: t.diagflat(x), ((2, 2),)), (lambda t, x: t.trace(x), ((3, 4),)), (lambda t, a, b: t.block_diag(a, b), ((2, 3), (1, 2))), (lambda t, a, b: t.zeros(2, 4, dtype=t.float64).addmm_(a, b), ((2, 3), (3, 4))),
])  # fmt: skip
def test_products_and_triangles(function, shapes: tuple) -> None:
    agree(function, *shapes)


@pytest.mark.parametrize("call", [
    lambda t: t.einsum("ij,jk->il", t.zeros(2, 3), t.zeros(3, 4)), lambda t: t.einsum("ij,jk", t.zeros(2, 3)), lambda t: t.einsum("ij", t.zeros(2)), lambda t: t.einsum("i1", t.zeros(2, 2)), lambda t: t.einsum("ij,jk->ik", t.zeros(2, 3), t.zeros(4, 5)),
    lambda t: t.einsum("ij->ii", t.zeros(2, 3)), lambda t: t.tensordot(t.zeros(2, 3), t.zeros(4, 5)), lambda t: t.tril(t.zeros(3)), lambda t: t.diag(t.zeros(2, 2, 2)), lambda t: t.trace(t.zeros(3)), lambda t: t.cross(t.zeros(2), t.zeros(2), dim=0), lambda t: t.inner(t.zeros(2), t.zeros(3)),
])  # fmt: skip
def test_errors(call) -> None:
    same_error(call)
