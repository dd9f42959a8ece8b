"""numod.linalg against NumPy, and gradients against finite differences. Beside PyTorch: the parity files."""

from __future__ import annotations

import numpy as np
import pytest
from selection import second_orders

import numod
from numod import linalg
from numod.autograd import gradcheck, gradgradcheck

pytestmark = pytest.mark.on_cuda(simulator=False)

RNG = np.random.default_rng(3)
SQUARE, TALL, RIGHT = RNG.standard_normal((2, 3, 3)), RNG.standard_normal((4, 2)), RNG.standard_normal((2, 3, 2))
POSITIVE = SQUARE @ SQUARE.swapaxes(-1, -2) + np.eye(3)


def tensor_of(array: np.ndarray) -> numod.Tensor:
    return numod.tensor(array, requires_grad=True)


@pytest.mark.parametrize("mine, reference, array", [
    (linalg.inv, np.linalg.inv, SQUARE), (linalg.det, np.linalg.det, SQUARE), (linalg.cholesky, np.linalg.cholesky, POSITIVE), (linalg.pinv, np.linalg.pinv, TALL),
    (linalg.svdvals, lambda x: np.linalg.svd(x, compute_uv=False), TALL), (linalg.eigvalsh, np.linalg.eigvalsh, POSITIVE), (lambda x: linalg.matrix_power(x, -3), lambda x: np.linalg.matrix_power(x, -3), SQUARE),
    (lambda x: linalg.norm(x, "nuc"), lambda x: np.linalg.norm(x, "nuc"), TALL), (lambda x: linalg.norm(x, -1), lambda x: np.linalg.norm(x, -1), TALL), (linalg.cond, np.linalg.cond, SQUARE),
    (lambda x: linalg.solve(x, numod.tensor(RIGHT).to(x.dtype)), lambda x: np.linalg.solve(x, RIGHT), SQUARE), (linalg.matrix_rank, np.linalg.matrix_rank, SQUARE),
])  # fmt: skip
def test_values(mine, reference, array: np.ndarray) -> None:
    for x in (array, array.astype(np.float32)):
        result = mine(numod.tensor(x))
        assert result.dtype is (numod.int64 if mine is linalg.matrix_rank else numod.tensor(x).dtype)
        np.testing.assert_allclose(
            result.numpy(), reference(x), rtol=1e-9 if x is array else 2e-3, atol=1e-9 if x is array else 1e-4
        )


@pytest.mark.parametrize("function, array", [
    (linalg.svd, TALL), (lambda x: linalg.svd(x, full_matrices=False), TALL.T), (linalg.qr, TALL), (lambda x: linalg.qr(x, "complete"), TALL), (linalg.eigh, POSITIVE), (linalg.lu, SQUARE), (linalg.lu, TALL), (linalg.lu, TALL.T),
])  # fmt: skip
def test_factors_multiply_to_the_matrix(function, array: np.ndarray) -> None:
    parts = list(function(numod.tensor(array)))
    if function is linalg.eigh:
        parts = [parts[1], parts[0].diag_embed(), parts[1].mT]
    if len(parts) == 3 and parts[1].ndim == 1:
        parts[1] = parts[1].diag()
        parts[0], parts[2] = parts[0][:, :2], parts[2][:2]
    product = parts[0]
    for part in parts[1:]:
        product = product @ part
    np.testing.assert_allclose(product.numpy(), array, atol=1e-12)


@pytest.mark.parametrize("function, array, has_second, twice", second_orders(3, [
    (linalg.inv, SQUARE, True), (linalg.det, SQUARE, True), (lambda x: linalg.slogdet(x)[1], SQUARE, True), (lambda x: linalg.cholesky((x + x.mT) / 2), POSITIVE, True), (lambda x: linalg.solve(x, x[..., :2]), SQUARE[0], True),
    (lambda x: linalg.qr(x), TALL, True), (lambda x: linalg.qr(x), TALL.T, True), (lambda x: linalg.svd(x, False)[1], TALL, True), (lambda x: linalg.eigh((x + x.mT) / 2)[0], POSITIVE, False), (linalg.pinv, TALL, True), (linalg.pinv, np.eye(2), True),
    (lambda x: linalg.lu(x)[1:], TALL, False), (lambda x: linalg.lu(x)[1:], TALL.T, False), (linalg.matrix_exp, SQUARE[0], True), (lambda x: linalg.solve_triangular(x, x[:, :1], upper=True), SQUARE[0], True), (lambda x: linalg.norm(x, "nuc"), TALL, False),
], others=pytest.mark.fuzz))  # fmt: skip
def test_gradients(function, array: np.ndarray, has_second: bool, twice: bool) -> None:
    x = tensor_of(array)
    assert gradcheck(function, [x])
    assert not (has_second and twice) or gradgradcheck(function, [x])


def test_layouts() -> None:
    x = numod.tensor(SQUARE)
    for tensor in (x.mT, x[:, 1:, 1:], x[:1].expand(4, 3, 3), x.permute(2, 0, 1)[:2, :, :2]):
        np.testing.assert_allclose(linalg.inv(tensor).numpy(), np.linalg.inv(tensor.numpy()), rtol=1e-10)


def test_errors_name_the_failing_matrix() -> None:
    singular = numod.stack([numod.eye(2), numod.ones(2, 2)])
    with pytest.raises(linalg.LinAlgError, match=r"linalg.inv: \(Batch element 1\): The diagonal element 2 is zero"):
        linalg.inv(singular)
    with pytest.raises(linalg.LinAlgError, match="leading minor of order 2"):
        linalg.cholesky(numod.tensor([[1.0, 0.0], [0.0, -1.0]]))
    result, info = linalg.inv_ex(singular)
    assert info.tolist() == [0, 2] and result[0].tolist() == [[1, 0], [0, 1]]
    with pytest.raises(RuntimeError, match="Low precision dtypes not supported. Got Half"):
        linalg.inv(numod.eye(2, dtype=numod.float16))


def test_beta_zero_does_not_read_the_input() -> None:
    nan = numod.full((2, 2), float("nan"))
    assert numod.addmm(nan, numod.eye(2), numod.eye(2), beta=0).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(RuntimeError, match="argument alpha must not be a floating point number"):
        numod.addmm(
            numod.ones(2, 2, dtype=numod.int64),
            numod.ones(2, 2, dtype=numod.int64),
            numod.ones(2, 2, dtype=numod.int64),
            alpha=0.5,
        )


def test_einsum_of_nothing() -> None:
    assert numod.einsum("ij,jk->ik", numod.ones(2, 0), numod.ones(0, 3)).tolist() == [[0.0] * 3] * 2
    assert numod.einsum("i,j->ij", numod.ones(0), numod.ones(3)).shape == (0, 3)


def test_diagonal_is_of_the_last_two_dimensions() -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(linalg.diagonal(numod.tensor(array), offset=1).numpy(), np.diagonal(array, 1, -2, -1))


def test_gradients_of_nothing_and_of_singular_matrices() -> None:
    empty = numod.zeros(0, 3, requires_grad=True)
    numod.diag_embed(empty, 1).sum().backward()
    assert empty.grad.shape == (0, 3)
    singular = numod.ones(2, 2, requires_grad=True)
    linalg.slogdet(singular)[1].backward()
    assert not singular.grad.isfinite().any()
    unread = numod.full((2, 2), float("nan"), requires_grad=True)
    numod.addmm(unread, numod.eye(2), numod.eye(2), beta=0).sum().backward()
    assert unread.grad.tolist() == [[0, 0], [0, 0]]


def test_dtypes_that_are_refused_and_those_that_are_not() -> None:
    half = numod.eye(2, dtype=numod.float16)
    assert linalg.matrix_norm(half).dtype is numod.float16 and linalg.matrix_norm(half, 1).item() == 1
    np.testing.assert_allclose(linalg.matrix_exp(half).numpy(), np.eye(2) * np.e, rtol=1e-3, atol=1e-3)
    for function in (
        linalg.det,
        linalg.cholesky,
        linalg.eigh,
        lambda x: linalg.eigh(x.long()),
        lambda x: numod.trace(x.bool()),
    ):
        with pytest.raises(NotImplementedError):
            function(half)
    with pytest.raises(RuntimeError, match="linalg.pinv"):
        linalg.pinv(half.long())
    with pytest.raises(RuntimeError, match="N must be greater than 1"):
        linalg.vander(numod.ones(1))


@pytest.mark.parametrize("scale", [1.0, 0.0])  # an empty diagonal takes blocks of 2
def test_ldl_factors_and_solves(scale: float) -> None:
    array = np.random.default_rng(0).standard_normal((2, 5, 5))
    array = array + array.swapaxes(-1, -2)
    array[:, range(5), range(5)] = scale * 10
    right = np.ones((5, 2))
    packed, pivots = linalg.ldl_factor(numod.tensor(array))
    assert (pivots < 0).any().item() is (scale == 0.0)
    np.testing.assert_allclose(
        linalg.ldl_solve(packed, pivots, numod.tensor(right)).numpy(),
        np.linalg.solve(array, np.stack([right] * 2)),
        rtol=1e-8,
        atol=1e-10,
    )
    with pytest.raises(RuntimeError, match="D is singular"):
        linalg.ldl_factor(numod.zeros(2, 2))


def test_a_few_singular_and_eigenvectors() -> None:
    random = np.random.default_rng(1)
    array = random.standard_normal((3, 12, 3)) @ random.standard_normal((3, 3, 20))
    u, s, v = numod.svd_lowrank(numod.tensor(array), q=3)
    np.testing.assert_allclose(((u * s.unsqueeze(-2)) @ v.mT).numpy(), array, atol=1e-10)
    _, s, _ = numod.pca_lowrank(numod.tensor(array[0]), q=3)
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(array[0] - array[0].mean(0), compute_uv=False)[:3], rtol=1e-8)
    symmetric = array[0] @ array[0].T + np.diag(np.arange(1.0, 13))
    values, vectors = numod.lobpcg(numod.tensor(symmetric), 2)
    np.testing.assert_allclose(values.numpy(), np.linalg.eigvalsh(symmetric)[:-3:-1], rtol=1e-8)
    np.testing.assert_allclose((numod.tensor(symmetric) @ vectors).numpy(), (vectors * values).numpy(), atol=1e-4)
    weight = np.diag(np.arange(1.0, 13))
    least, _ = numod.lobpcg(numod.tensor(symmetric), 2, numod.tensor(weight), largest=False)
    np.testing.assert_allclose(
        least.numpy(), np.sort(np.linalg.eigvals(np.linalg.solve(weight, symmetric)).real)[:2], rtol=1e-6
    )


def test_gradients_of_singular_matrices_divide_by_zero() -> None:
    x = numod.stack([numod.ones(2, 2), numod.eye(2)]).requires_grad_()
    linalg.slogdet(x)[1].sum().backward()
    inf = float("inf")
    assert x.grad.tolist() == [[[inf, -inf], [-inf, inf]], [[1, 0], [0, 1]]]


def test_functions_of_any_dtype() -> None:
    integers = numod.tensor([[1, 1], [0, 1]])
    assert (
        linalg.matrix_power(integers, 3).tolist() == [[1, 3], [0, 1]]
        and linalg.matrix_power(integers.half(), 3).dtype is numod.float16
    )
    assert linalg.vander(numod.tensor([2, 3])).tolist() == [[1, 2], [1, 3]]
    assert linalg.diagonal(numod.arange(8).reshape(2, 2, 2)).tolist() == [[0, 3], [4, 7]]
    half = numod.tensor([[3.0, 0.0], [4.0, 0.0]], dtype=numod.float16)
    assert linalg.matrix_norm(half).tolist() == 5 and linalg.matrix_exp(
        numod.zeros(2, 2, dtype=numod.float16)
    ).tolist() == [[1, 0], [0, 1]]
    x = numod.zeros((0, 3), requires_grad=True)
    numod.diag_embed(x, 1).sum().backward()
    assert x.grad.shape == (0, 3)


@pytest.mark.cpu_only
@pytest.mark.parametrize("function, dtype, error", [
    (linalg.pinv, numod.int64, RuntimeError), (linalg.pinv, numod.bool, RuntimeError), (linalg.det, numod.float16, NotImplementedError), (linalg.cholesky, numod.float16, NotImplementedError), (linalg.eigh, numod.int64, NotImplementedError),
    (numod.trace, numod.bool, NotImplementedError), (lambda x: linalg.vander(x[0, :1]), numod.float32, RuntimeError), (lambda x: linalg.lstsq(x, x), numod.float16, RuntimeError), (lambda x: linalg.solve_triangular(x, x, upper=True), numod.int64, NotImplementedError),
])  # fmt: skip
def test_types_of_errors(function, dtype, error) -> None:
    with pytest.raises(error):
        function(numod.eye(2).to(dtype))


@pytest.mark.parametrize(
    "a",
    [TALL, TALL.T, SQUARE, TALL[:, [0, 0]], np.zeros((2, 3, 3)), 1e-7 * TALL, TALL * [1, 1e-17]],
    ids=["tall", "wide", "square", "deficient", "zero", "tiny", "small column"],
)
def test_least_squares(a: np.ndarray) -> None:
    b = RNG.standard_normal((*a.shape[:-1], 2))
    solution, _, rank, _ = linalg.lstsq(numod.tensor(a), numod.tensor(b))
    np.testing.assert_allclose(
        solution.numpy(), np.linalg.pinv(a, rcond=max(a.shape[-2:]) * 2**-52) @ b, rtol=1e-9, atol=1e-9
    )
    assert (rank.numpy() == np.linalg.matrix_rank(a)).all()


def test_a_negative_tolerance_is_the_machine_precision() -> None:
    assert linalg.lstsq(numod.ones(2, 2), numod.ones(2, 1), rcond=-1.0).rank == 1
    assert linalg.lstsq(numod.ones(2, 2), numod.ones(2, 1), rcond=1.0, driver="gelsd").rank == 1


@pytest.mark.parametrize("a", [TALL, TALL.T, SQUARE])
def test_gradients_of_least_squares(a: np.ndarray) -> None:
    inputs = tensor_of(a), tensor_of(RNG.standard_normal((*a.shape[:-1], 2)))
    for check in (gradcheck, gradgradcheck):
        assert check(lambda a, b: linalg.lstsq(a, b).solution, inputs)


def test_reflections_may_be_left_out() -> None:
    a, tau = numod.geqrf(numod.tensor(TALL))
    v = np.array([1.0, *a[1:, 0].tolist()])
    one = np.eye(4) - tau[0].item() * np.outer(v, v)
    x = RNG.standard_normal((4, 3))
    for transpose, q in ((False, one), (True, one.T)):
        np.testing.assert_allclose(
            numod.ormqr(a, numod.stack([tau[0], 0 * tau[1]]), numod.tensor(x), transpose=transpose).numpy(),
            q @ x,
            atol=1e-12,
        )


def test_a_matrix_with_nan_is_not_positive_definite():
    nan = numod.tensor([[[4.0, 0.0], [2.0, 2.0]], [[1.0, 0.0], [np.nan, 1.0]]])
    with pytest.raises(numod.linalg.LinAlgError, match="Batch element 1.*minor of order 2 is not positive-definite"):
        numod.linalg.cholesky(nan)
    assert numod.linalg.cholesky_ex(nan).info.tolist() == [0, 2]


def test_pseudoinverses_with_a_tolerance_for_each_matrix():
    a = numod.tensor(RNG.standard_normal((2, 4, 3)))
    middle = numod.linalg.svdvals(a)[:, 1]
    result = numod.linalg.pinv(a, atol=middle + 1e-9, rtol=numod.zeros(2))
    for k in range(2):
        np.testing.assert_allclose(result[k], numod.linalg.pinv(a[k], atol=middle[k].item() + 1e-9), atol=1e-12)


def test_tensorsolve_of_nothing():
    assert numod.linalg.tensorsolve(numod.empty(0, 0, 1, 2, 0), numod.empty(0, 0)).shape == (1, 2, 0)


@pytest.mark.parametrize("dtype", [numod.float64, numod.complex128])
def test_gradients_of_eigenvectors_are_hermitian(dtype: numod.dtype) -> None:
    a = numod.randn(4, 4, dtype=dtype, generator=numod.Generator().manual_seed(0))
    a = (a @ a.mH + numod.arange(4).diag()).requires_grad_()
    weights = numod.arange(16.0, dtype=numod.float64).view(4, 4)
    (g,) = numod.autograd.grad((linalg.eigh(a)[1].abs() * weights).sum(), a)
    assert numod.allclose(g, g.mH) and g.abs().max() > 0.1


@pytest.mark.parametrize(
    "matrix", [[[np.nan, 1.0], [2.0, 3.0]], [[0.0, np.nan], [0.0, 0.0]], [[1.0, 0.0], [0.0, np.nan]]]
)
def test_a_matrix_with_nan_has_nothing_else(matrix):
    batch = numod.tensor([matrix, [[2.0, 0.0], [0.0, 1.0]]], requires_grad=True)
    for actual in (
        numod.det(batch),
        numod.logdet(batch),
        numod.linalg.slogdet(batch)[1],
        numod.inverse(batch),
        numod.linalg.solve(batch, numod.ones(2, 2, 1)),
    ):
        assert actual[0].isnan().all() and actual[1].isfinite().all()
    assert numod.linalg.slogdet(batch)[0].tolist() == [0.0, 1.0]
    (gradient,) = numod.autograd.grad(numod.det(batch).sum(), batch)
    assert gradient[0].isnan().all() and gradient[1].tolist() == [[1.0, 0.0], [0.0, 2.0]]


def test_gradients_of_lobpcg_are_those_of_all_eigenvectors():
    a = numod.diag(numod.arange(1.0, 10.0, dtype=numod.float64)) + 0.1
    a.requires_grad_()
    values, vectors = numod.lobpcg(a, k=2)
    (actual,) = numod.autograd.grad(values.sum() + vectors.abs().sum(), a)
    values, vectors = numod.linalg.eigh(a)
    (wanted,) = numod.autograd.grad(values[-2:].sum() + vectors[:, -2:].abs().sum(), a)
    np.testing.assert_allclose(actual.numpy(), wanted.numpy(), atol=1e-10)


def test_older_functions_name_their_successor_at_the_callers_line():
    a = numod.eye(2)
    for call, successor in (
        (lambda: numod.qr(a), "linalg.qr"),
        (a.qr, "linalg.qr"),
        (lambda: numod.cholesky(a), "linalg.cholesky"),
        (lambda: numod.lu(a), "linalg.lu_factor"),
        (a.lu, "linalg.lu_factor"),
        (lambda: numod.triangular_solve(a, a), "linalg.solve_triangular"),
        (lambda: numod.cross(numod.ones(3), numod.ones(3)), "linalg.cross"),
    ):
        with pytest.warns(UserWarning, match=f"numod.{successor}") as caught:
            call()
        assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="'device' of Tensor.is_pinned"):
        assert not a.is_pinned("cuda")
