"""einsum, tensordot and their kin against NumPy, gradients against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.autograd import gradcheck, gradgradcheck

pytestmark = pytest.mark.on_cuda

SIZES = dict(zip("abcdeijkmn", (2, 3, 4, 2, 3, 4, 5, 2, 2, 4)))
EQUATIONS = [
    "ij,jk->ik", "ij,jk", "bij,bjk->bik", "ij->ji", "ii->i", "ii", "i,j->ij", "i,i", "ij,ij->", "bn,anm,bm->ba",
    "abc,cd,de->abe", "ij->", "abij,abkj->abik", "a,b,c->cba", "iij->ij", "ij,kj->ikj", "ba,ba->b", "iijj->ij",
]  # fmt: skip


def drawn(*shapes: tuple) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) for shape in shapes]


@pytest.mark.parametrize("equation", EQUATIONS)
@pytest.mark.parametrize("transposed", [False, True])
def test_einsum(equation: str, transposed: bool) -> None:
    arrays = drawn(*(tuple(SIZES[letter] for letter in term) for term in equation.split("->")[0].split(",")))
    tensors = [
        numod.tensor(np.ascontiguousarray(array.T)).permute(tuple(range(array.ndim))[::-1])
        if transposed
        else numod.tensor(array)
        for array in arrays
    ]
    np.testing.assert_allclose(
        numod.einsum(equation, *tensors).numpy(), np.einsum(equation, *arrays), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("equation, shapes", [
    ("...ij,...jk->...ik", ((2, 3, 4, 5), (3, 5, 2))), ("...i,...i->...", ((2, 3), (2, 3))), ("b...,b->...", ((2, 3, 4), (2,))), ("...ij->...ji", ((2, 3, 4),)), ("...,...", ((2, 3), (3,))),
    ("i...,...i->i...", ((3, 2), (2, 3))), ("ij , jk -> ik", ((2, 3), (3, 4))), ("ij,jk->ik", ((0, 3), (3, 4))), ("ij,jk->ik", ((2, 0), (0, 4))), ("i,i->", ((0,), (0,))),
])  # fmt: skip
def test_ellipsis_and_empty(equation: str, shapes: tuple) -> None:
    arrays = drawn(*shapes)
    np.testing.assert_allclose(
        numod.einsum(equation, *map(numod.tensor, arrays)).numpy(), np.einsum(equation, *arrays), rtol=1e-9
    )


def test_einsum_of_lists_and_of_dtypes() -> None:
    x, y = drawn((2, 3), (3, 4))
    np.testing.assert_allclose(numod.einsum(numod.tensor(x), [0, 1], numod.tensor(y), [1, 2], [0, 2]).numpy(), x @ y)
    integers = numod.arange(6).reshape(2, 3)
    assert numod.einsum("ij,kj->ik", integers, integers).tolist() == [[5, 14], [14, 50]]
    half = numod.einsum("ij,kj->ik", integers.half(), integers.half())
    assert half.dtype is numod.float16 and half.tolist() == [[5, 14], [14, 50]]


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("equation", ["ij,jk->ik", "ii->i", "ii", "bij,bjk->bik", "i,j->ij", "ij->", "bn,anm,bm->ba"])
def test_gradients(equation: str) -> None:
    arrays = drawn(*(tuple(SIZES[letter] for letter in term) for term in equation.split("->")[0].split(",")))
    tensors = [numod.tensor(array, requires_grad=True) for array in arrays]
    assert gradcheck(lambda *xs: numod.einsum(equation, *xs), tensors) and gradgradcheck(
        lambda *xs: numod.einsum(equation, *xs), tensors
    )


@pytest.mark.parametrize("equation, shapes, text", [
    ("ij,jk->ik", ((2, 3), (4, 5)), "do not broadcast"), ("ij->ik", ((2, 3),), "does not appear"), ("ij->ii", ((2, 3),), "more than once"), ("ii->i", ((2, 3),), "repeated for operand"), ("ij,j", ((2, 3),), "fewer operands"),
    ("ij", ((2, 3, 4),), "does not match the number of dimensions"), ("i$->i", ((2, 3),), "invalid subscript"),
])  # fmt: skip
def test_invalid_einsum_arguments(equation: str, shapes: tuple, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        numod.einsum(equation, *(numod.ones(shape) for shape in shapes))


@pytest.mark.parametrize(
    "shapes, dims",
    [
        (((2, 3, 4), (3, 4, 5)), 2),
        (((2, 3), (4, 5)), 0),
        (((2, 3, 4), (4, 3, 5)), ([1, 2], [1, 0])),
        (((3,), (3,)), 1),
        (((2, 3), (3, 2)), 2),
    ],
)
def test_tensordot(shapes: tuple, dims: object) -> None:
    if dims == 2 and shapes == ((2, 3), (3, 2)):
        with pytest.raises(RuntimeError, match="contracted dimensions need to match"):
            numod.tensordot(numod.ones(2, 3), numod.ones(3, 2), 2)
        return
    x, y = drawn(*shapes)
    np.testing.assert_allclose(
        numod.tensordot(numod.tensor(x), numod.tensor(y), dims).numpy(), np.tensordot(x, y, dims), rtol=1e-9
    )


def test_chain_matmul_is_deprecated() -> None:
    a, b = drawn((2, 3), (3, 4))
    out = numod.empty(0, dtype=numod.float64)
    with pytest.warns(UserWarning, match="in favor of numod.linalg.multi_dot"):
        assert numod.chain_matmul(numod.tensor(a), numod.tensor(b), out=out) is out
    np.testing.assert_allclose(out.numpy(), a @ b, rtol=1e-9)


def test_kin() -> None:
    a, b, v, w = drawn((2, 3), (4, 3), (3,), (2,))
    t = numod.tensor
    for mine, theirs in (
        (numod.inner(t(a), t(b)), np.inner(a, b)), (numod.kron(t(a), t(v)), np.kron(a, v)), (numod.cross(t(a), t(b[:2]), dim=1), np.cross(a, b[:2])), (numod.vdot(t(v), t(v)), v @ v), (numod.outer(t(v), t(w)), np.outer(v, w)),
        (numod.addmv(t(w), t(a), t(v), beta=0.5, alpha=2), 0.5 * w + 2 * a @ v), (numod.addr(t(a), t(w), t(v), beta=2), 2 * a + np.outer(w, v)), (numod.addmm(t(w[:, None]), t(a), t(b.T), beta=3), 3 * w[:, None] + a @ b.T),
        (numod.baddbmm(t(a), t(a[None]), t(a.T @ a)[None], alpha=0.5), a + 0.5 * (a @ a.T @ a)[None]), (numod.addbmm(t(a), t(np.stack([a, a])), t(np.stack([a.T @ a] * 2))), a + 2 * a @ a.T @ a), (numod.linalg.multi_dot([t(a), t(b.T), t(b)]), a @ b.T @ b),
        (numod.linalg.multi_dot([t(w), t(a), t(v)]), w @ a @ v), (numod.linalg.vecdot(t(a), t(a)), (a * a).sum(-1)),
    ):  # fmt: skip
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-9)


@pytest.mark.parametrize(
    ("shapes", "dim"),
    [(((4, 3), (4, 3)), -1), (((3, 2), (3, 1)), 0), (((2, 1, 3, 2), (1, 5, 3, 2)), 2), (((0, 3), (0, 3)), 1)],
)
def test_cross_products(shapes: tuple, dim: int) -> None:
    x, y = drawn(*shapes)
    a, b = numod.tensor(x, requires_grad=True), numod.tensor(y, requires_grad=True)
    np.testing.assert_allclose(
        numod.linalg.cross(a, b, dim=dim).detach().numpy(), np.cross(*np.broadcast_arrays(x, y), axis=dim), rtol=1e-9
    )
    assert gradcheck(lambda a, b: numod.linalg.cross(a * 1j, b * (1 + 2j), dim=dim).imag, (a, b)) and gradgradcheck(
        lambda a, b: numod.linalg.cross(a, b, dim=dim), (a, b)
    )


def test_cross_products_of_what_does_not_fit() -> None:
    x = numod.ones(3)
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        numod.cross(x, x.double(), dim=0)
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        numod.cross(x.bool(), x.bool(), dim=0)
    with pytest.raises(RuntimeError, match="must match"):
        numod.linalg.cross(numod.ones(2, 3), numod.ones(4, 3))
    assert numod.cross(
        numod.tensor([200, 7, 3], dtype=numod.uint8), numod.tensor([3, 1, 2], dtype=numod.uint8), dim=0
    ).tolist() == [11, 121, 179]
