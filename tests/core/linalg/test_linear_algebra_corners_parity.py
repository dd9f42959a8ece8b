"""numod.linalg beside torch.linalg where it is easy to go wrong: second order, singular and repeated, empty and wide
matrices, infos, texts, dtypes, `out`.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import numod
from numod.autograd import gradcheck

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")]
RNG = np.random.default_rng(5)


def matrices(*shape: int, kind: str = "any") -> np.ndarray:
    x = RNG.standard_normal(shape)
    if kind == "positive":
        return x @ x.swapaxes(-1, -2) + np.eye(shape[-1])
    if kind == "real":  # real eigenvalues, far apart
        return x @ np.diag(np.arange(1.0, shape[-1] + 1)) @ np.linalg.inv(x)
    return x + x.swapaxes(-1, -2) if kind == "symmetric" else x


def flat(results: object) -> list:
    return list(results) if isinstance(results, tuple) else [results]


def same(function, *arrays: np.ndarray, tolerance: float = 1e-8) -> None:
    """Results, gradients and gradients of gradients."""
    by_library = []
    for t in (numod, torch):
        inputs = [t.tensor(array, requires_grad=array.dtype.kind == "f") for array in arrays]
        results = flat(function(t, *inputs))
        distinct = [
            tuple(result.detach().numpy() for result in results),
            [str(result.dtype).split(".")[1] for result in results],
        ]
        loss = sum((result * result).sum() for result in results if result.requires_grad)
        if any(result.requires_grad for result in results):
            first = t.autograd.grad(loss, inputs, create_graph=True)
            second = t.autograd.grad(sum((result * result).sum() for result in first), inputs, allow_unused=True)
            distinct[0] += tuple(
                gradient.detach().numpy() for gradient in (*first, *(array for array in second if array is not None))
            )
        by_library.append(distinct)
    assert by_library[0][1] == by_library[1][1] and len(by_library[0][0]) == len(by_library[1][0])
    for mine, theirs in zip(by_library[0][0], by_library[1][0]):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=tolerance)


A = matrices(2, 3, 3)
P = matrices(2, 3, 3, kind="positive")
R = matrices(3, 3, kind="real")
S = matrices(2, 3, 3, kind="symmetric")


@pytest.mark.parametrize("function, arrays", [
    (lambda t, a: t.linalg.inv(a), (A,)), (lambda t, a: t.linalg.det(a), (A,)), (lambda t, a: t.linalg.slogdet(a)[1], (A,)), (lambda t, a: t.linalg.cholesky(a), (P,)),
    (lambda t, a: t.linalg.cholesky(a, upper=True), (P,)), (lambda t, a, b: t.linalg.solve(a, b), (A[0], matrices(2, 3, 4))), (lambda t, a, b: t.linalg.solve(a, b), (A, matrices(2, 3))),
    (lambda t, a, b: t.linalg.solve(a, b, left=False), (A, matrices(1, 2, 3))), (lambda t, a, b: t.linalg.solve_triangular(a, b, upper=True), (A[:1], matrices(3, 2))),
    (lambda t, a: tuple(t.linalg.qr(a)), (matrices(2, 4, 3),)), (lambda t, a: tuple(t.linalg.qr(a)), (matrices(3, 5),)), (lambda t, a: tuple(t.linalg.qr(a, "complete")), (matrices(3, 5),)),
    (lambda t, a: t.linalg.svdvals(a), (matrices(2, 4, 3),)), (lambda t, a: t.linalg.eigvalsh(a), (S,)), (lambda t, a: t.linalg.eigvalsh(a, "U"), (S,)),
    (lambda t, a: t.linalg.pinv(a), (matrices(2, 4, 3),)), (lambda t, a: t.linalg.pinv(a), (matrices(2, 5),)), (lambda t, a: t.linalg.pinv(a), (np.eye(3),)),
    (lambda t, a: t.linalg.lu_factor(a).LU, (matrices(2, 4, 4),)), (lambda t, a: t.linalg.lu_factor(a).LU, (matrices(3, 5),)), (lambda t, a: t.linalg.lu_factor(a).LU, (matrices(2, 5, 3),)),
    (lambda t, a: tuple(t.linalg.lu(a)), (matrices(2, 4, 3),)), (lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b), (A, matrices(2, 3, 2))),
    (lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b, left=False, adjoint=True), (A, matrices(2, 2, 3))), (lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b, adjoint=True), (A, matrices(2, 3, 2))),
    (lambda t, a: t.linalg.matrix_exp(a), (A,)), (lambda t, a: t.linalg.matrix_exp(a), (np.stack([np.eye(2) * 0.1, np.array([[0.0, 30.0], [-30.0, 0.0]])]),)),
    (lambda t, a: t.linalg.matrix_power(a, 5), (A,)), (lambda t, a: t.linalg.matrix_power(a, -3), (P,)),
    (lambda t, a: t.norm(a, "nuc"), (A[0],)), (lambda t, a: t.norm(a, "nuc", dim=(0, 2), keepdim=True), (A,)), (lambda t, a: t.linalg.norm(a, -2, dim=(0, 1)), (A,)), (lambda t, a: t.linalg.norm(a, 3), (A[0, 0],)),
    (lambda t, a: t.linalg.norm(a, dim=(0, 2)), (A,)), (lambda t, a: t.linalg.cond(a, -2), (A,)),

    (lambda t, a, b: t.triangular_solve(b, a, upper=False, transpose=True).solution, (P, matrices(2, 3, 2))), (lambda t, a: t.logdet(a), (P,)), (lambda t, a, b: t.linalg.lstsq(a, b).solution, (matrices(4, 3), matrices(4, 2))),
    (lambda t, a, b: t.linalg.vecdot(a, b, dim=0), (A[0], A[1])), (lambda t, a: t.pinverse(a), (matrices(3, 2),)), (lambda t, a, b: t.cholesky_solve(b, t.triu(a), upper=True), (P, matrices(2, 3, 1))), (lambda t, a: t.cholesky_inverse(t.tril(a)), (P,)),
])  # fmt: skip
def test_to_second_order(function, arrays: tuple) -> None:
    same(function, *arrays)


@pytest.mark.parametrize("function, arrays", [
    (lambda t, a: tuple(t.linalg.svd(a)), (np.zeros((0, 3)),)), (lambda t, a: t.linalg.inv(a), (np.zeros((2, 0, 0)),)), (lambda t, a: t.linalg.det(a), (np.zeros((0, 0)),)), (lambda t, a: t.linalg.inv(a), (np.zeros((0, 3, 3)),)),
    (lambda t, a, b: t.linalg.householder_product(a, b), (matrices(2, 4, 3), matrices(2, 2))), (lambda t, a: t.linalg.matrix_power(a, 0), (A,)), (lambda t, a: t.linalg.cond(a, 1), (A,)), (lambda t, a: t.linalg.cond(a, "fro"), (A,)), (lambda t, a: t.nuclear_norm(a), (A[0],)), (lambda t, a: t.vander(a), (A[0, 0],)), (lambda t, a: t.vander(a, 2, increasing=True), (A[0, 0],)), (lambda t, a: t.linalg.vander(a), (A[0],)),
    (lambda t, a: t.linalg.matrix_exp(a), (np.zeros((0, 0)),)), (lambda t, a: t.linalg.matrix_rank(a), (np.zeros((2, 0, 3)),)), (lambda t, a: t.linalg.pinv(a), (np.zeros((2, 0)),)), (lambda t, a: t.linalg.cholesky(a), (np.zeros((3, 0, 0)),)),
    (lambda t, a: t.linalg.solve(a, a[..., :0]), (np.eye(3),)), (lambda t, a: tuple(t.linalg.qr(a)), (np.zeros((3, 0)),)), (lambda t, a: tuple(t.linalg.eigh(a)), (np.zeros((0, 0)),)), (lambda t, a: tuple(t.linalg.lu_factor(a)), (np.zeros((2, 0, 0)),)),
    (lambda t, a: tuple(t.linalg.inv_ex(a)), (np.stack([np.eye(2), np.ones((2, 2))])[:1],)), (lambda t, a: t.linalg.inv_ex(a).info, (np.stack([np.eye(2), np.ones((2, 2)), np.zeros((2, 2))]),)), (lambda t, a: t.linalg.cholesky_ex(a).info, (np.stack([np.eye(3), np.diag([1.0, -1, 1]), np.diag([1.0, 2, -3])]),)),
    (lambda t, a: t.linalg.solve_ex(a, a).info, (np.ones((3, 3)),)), (lambda t, a: tuple(t.linalg.lu_factor_ex(a)), (np.ones((3, 3)),)), (lambda t, a: tuple(t.linalg.lu(a)), (np.ones((2, 3, 3)),)), (lambda t, a: t.linalg.cond(a, 1), (np.ones((2, 2)),)), (lambda t, a: t.linalg.solve_triangular(a, a, upper=True), (np.array([[1.0, 2], [0, 0]]),)),
    (lambda t, a: t.linalg.matrix_rank(a), (np.outer([1.0, 2, 3], [1, 2]),)), (lambda t, a: t.linalg.matrix_rank(a, hermitian=True), (np.diag([1.0, 0, -2]),)), (lambda t, a: t.linalg.matrix_rank(a, atol=1.5), (np.diag([1.0, 0, -2]),)), (lambda t, a: t.linalg.matrix_rank(a, rtol=0.9), (np.diag([1.0, 0, -2]),)), (lambda t, a: t.linalg.matrix_rank(a, 1.5), (np.diag([1.0, 0, -2]),)),
    (lambda t, a, b: tuple(t.linalg.lstsq(a, b)), (matrices(4, 2), matrices(4, 3))), (lambda t, a, b: tuple(t.linalg.lstsq(a, b, driver="gelsd")), (matrices(2, 4, 2), matrices(2, 4, 3))), (lambda t, a, b: tuple(t.linalg.lstsq(a, b, driver="gels")), (matrices(2, 4), matrices(2, 3))),
    (lambda t, a: tuple(t.geqrf(a)), (matrices(2, 4, 3),)), (lambda t, a, b: t.ormqr(*t.geqrf(a), b), (matrices(4, 3), matrices(4, 2))), (lambda t, a, b: t.ormqr(*t.geqrf(a), b, left=False, transpose=True), (matrices(4, 3), matrices(2, 4))), (lambda t, a: tuple(t.lu_unpack(*t.linalg.lu_factor(a))), (matrices(2, 3, 4),)),
    (lambda t, a: t.linalg.inv(a), (matrices(3, 3).astype(np.float32),)), (lambda t, a: tuple(t.linalg.slogdet(a)), (np.ones((2, 2, 2), np.float32),)), (lambda t, a: t.linalg.matrix_exp(a), (matrices(4, 4).astype(np.float32),)), (lambda t, a: t.linalg.vector_norm(a, dtype=t.float64), (np.ones(3, np.float32),)), (lambda t, a: tuple(t.svd(a, compute_uv=False)), (matrices(3, 2),)),
])  # fmt: skip
def test_values_at_the_edges(function, arrays: tuple) -> None:
    with torch.no_grad(), numod.no_grad():
        same(function, *arrays, tolerance=1e-5 if arrays[0].dtype == np.float32 else 1e-9)


def test_the_gradient_of_a_singular_determinant_is_its_cofactors() -> None:
    same_first = [np.outer([1.0, 2, 3], [1, -1, 2]), np.diag([1.0, 2, 0])]
    for array in same_first:
        x = numod.tensor(array, requires_grad=True)
        numod.det(x).backward()
        cofactors = [
            [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(array, i, 0), j, 1)) for j in range(3)]
            for i in range(3)
        ]
        np.testing.assert_allclose(x.grad.numpy(), cofactors, atol=1e-12)


def test_eig_of_real_eigenvalues() -> None:
    x = numod.tensor(R, requires_grad=True)
    values, vectors = numod.linalg.eig(x)
    np.testing.assert_allclose(np.sort(values.detach().real.numpy()), [1, 2, 3], rtol=1e-9)
    assert gradcheck(lambda a: numod.linalg.eig(a)[0], [x]) and gradcheck(lambda a: numod.linalg.eig(a)[1].real, [x])


REFUSED = [
    "inv(t.ones(2, 2))", "inv(t.ones(3, 2, 2))", "inv(t.ones(2, 3))", "inv(t.ones(3))",
    "inv(t.ones(2, 2, dtype=t.int64))", "inv(t.ones(2, 2, dtype=t.float16))", "cholesky(-t.eye(3))",
    "cholesky(t.stack([t.eye(3), -t.eye(3)]))", "solve(t.ones(2, 2), t.ones(2, 1))", "solve(t.eye(3), t.ones(2, 2))",
    "solve(t.eye(3), t.eye(3).double())", "solve_triangular(t.eye(3), t.ones(2, 2), upper=True)",
    "qr(t.eye(3), 'wrong')", "eigh(t.eye(3), 'X')", "eigh(t.ones(2, 3))", "lu_factor(t.ones(2, 2))",
    "matrix_norm(t.eye(3), 5)", "matrix_norm(t.eye(3), dim=(0, 0))", "matrix_norm(t.ones(3))",
    "matrix_norm(t.eye(3), dim=(0,))", "norm(t.ones(2, 2, 2), 2)", "norm(t.ones(2, 2), 'wrong')",
    "vector_norm(t.ones(2, dtype=t.int64))", "multi_dot([t.eye(3)])", "householder_product(t.ones(2, 3), t.ones(2))",
    "cross(t.ones(2), t.ones(2))", "lstsq(t.eye(3), t.eye(3), driver='wrong')", "tensorinv(t.ones(2, 3), ind=1)",
    "matrix_power(t.ones(2, 3), 2)", "matrix_exp(t.ones(2, 3))", "det(t.ones(2, 3))", "slogdet(t.ones(3))",
    "vander(t.ones(3), N=1)", "svd(t.ones(3))", "pinv(t.ones(3))", "vector_norm(t.ones(0), float('inf'))",
    "inv_ex(t.ones(2, 2), check_errors=True)",
]  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_errors(call: str) -> None:
    with pytest.raises(Exception) as theirs:
        eval(f"t.linalg.{call}", {"t": torch})
    with pytest.raises(Exception) as mine:
        eval(f"t.linalg.{call}", {"t": numod})
    kinds = {torch.linalg.LinAlgError: numod.linalg.LinAlgError}
    assert type(mine.value) is kinds.get(type(theirs.value), type(theirs.value))
    if isinstance(theirs.value, torch.linalg.LinAlgError) and "lu_factor" not in call:
        assert str(mine.value).split(": ", 1)[1] == str(theirs.value).split(": ", 1)[1]


def test_derivatives_that_do_not_exist_are_errors() -> None:
    for t in (torch, numod):
        for mode, text in (("r", "mode='r'"), ("complete", "nrows > ncols")):
            with pytest.raises(RuntimeError, match=text):
                t.linalg.qr(t.ones(3, 2, requires_grad=True), mode).R.sum().backward()


def test_out_and_names() -> None:
    for t in (torch, numod):
        into = t.empty(3, 3)
        assert t.linalg.inv(t.eye(3) * 2, out=into) is into and float(into[0, 0]) == 0.5
        u, s, vh = t.empty(3, 3), t.empty(3), t.empty(3, 3)
        t.linalg.svd(t.eye(3) * 2, out=(u, s, vh))
        assert s.tolist() == [2, 2, 2]
    assert repr(numod.linalg.slogdet(numod.eye(2))) == repr(torch.linalg.slogdet(torch.eye(2))).replace(
        "torch", "numod"
    )
    for name in ("qr", "svd", "eigh", "inv_ex", "lu_factor", "lu", "cholesky_ex", "lu_factor_ex"):
        mine, theirs = (type(getattr(t.linalg, name)(t.eye(2))) for t in (numod, torch))
        assert mine.__name__ == theirs.__name__ and all(hasattr(theirs, field) for field in mine.__match_args__)


def test_infinite_matrices_have_a_result() -> None:
    assert math.isnan(numod.linalg.matrix_exp(numod.tensor([[math.inf, 0.0], [0.0, 1.0]])).sum().item())
