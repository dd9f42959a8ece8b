"""Complex tensors against NumPy; gradients against differences of both parts, to second order."""

from __future__ import annotations

import cmath

import numpy as np
import pytest
from selection import second_orders

import numod
from numod import nn
from numod.autograd import gradcheck, gradgradcheck

pytestmark = pytest.mark.on_cuda(simulator=False)

RNG = np.random.default_rng(11)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


X, Y, REAL = numbers(2, 3), numbers(2, 3), RNG.standard_normal((2, 3))
UNARY = {
    "neg": np.negative, "square": np.square, "reciprocal": np.reciprocal, "exp": np.exp, "expm1": np.expm1,
    "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh,
    "abs": np.abs, "angle": np.angle, "conj": np.conj, "sgn": lambda x: x / np.abs(x), "isnan": np.isnan,
    "isinf": np.isinf, "isfinite": np.isfinite,
}  # fmt: skip
EXTREME = np.array(
    [0, 1e300, -1e300, 1e-300j, 1e300j, np.inf, 1j * np.inf, complex(np.nan, 1), 50 + 1j, -50 + 3j, 0.5j]
)


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name: str) -> None:
    for array in (X, X.astype(np.complex64)):
        actual = getattr(numod.tensor(array), name)().numpy()
        expected = UNARY[name](array)
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol=1e-13 if array is X else 1e-5)


@pytest.mark.parametrize("name", ["sqrt", "abs", "angle", "conj", "isnan", "isinf", "isfinite", "tanh"])
def test_extreme_numbers(name: str) -> None:
    array = EXTREME[np.isfinite(EXTREME)] if name in ("sqrt", "tanh") else EXTREME
    array = array[np.abs(array.imag) < 1e200] if name == "tanh" else array
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(getattr(numod.tensor(array), name)().numpy(), UNARY[name](array), rtol=1e-12)


@pytest.mark.parametrize("name", ["sqrt", "asin", "acos", "atan", "asinh", "acosh", "atanh"])
def test_functions_at_infinities(name: str) -> None:
    parts = [-np.inf, -2.0, -0.0, 0.0, 1.0, np.inf]
    array = np.array([complex(a, b) for a in parts for b in parts if np.isinf([a, b]).any()] + [1e200 + 3e200j])
    actual = getattr(numod.tensor(array), name)().numpy()
    expected = np.array([getattr(cmath, name)(number) for number in array])
    np.testing.assert_allclose(actual.real, expected.real, rtol=1e-14)
    np.testing.assert_allclose(actual.imag, expected.imag, rtol=1e-14)
    assert numod.tensor([complex(-np.inf, np.inf)]).exp().item() == 0
    assert numod.tensor([complex(-1e20, np.inf)]).exp().isnan().all()


@pytest.mark.parametrize("function", [
    lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y, lambda x, y: x**y, lambda x, y: x == y, lambda x, y: x != y, lambda x, y: x * (2 - 1j), lambda x, y: 1j / y,
    lambda x, y: x**2, lambda x, y: 2 * x - 1,
], ids=range(11))  # fmt: skip
def test_operators(function) -> None:
    for a, b in ((X, Y), (X, REAL), (REAL, Y), (X.astype(np.complex64), Y.astype(np.complex64)), (X, Y[0])):
        actual, expected = function(numod.tensor(a), numod.tensor(b)).numpy(), function(a, b)
        if function(1.0, 1.0).__class__ is not bool:
            assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol=1e-5 if actual.dtype == np.complex64 else 1e-12)


def test_a_quotient_neither_overflows_nor_divides_by_zero_silently() -> None:
    x = numod.tensor([1e300 + 1e300j], dtype=numod.complex128)
    assert (x / x).item() == 1
    assert (x / 0).isinf().all() or (x / 0).isnan().all()


def test_dtypes_and_promotion() -> None:
    assert numod.cfloat is numod.complex64 and numod.cdouble is numod.complex128
    assert numod.tensor(1j).dtype is numod.complex64 and numod.tensor([1, 2.5, 1j]).dtype is numod.complex64
    for a, b, result in (
        ("int64", "complex64", "complex64"), ("float32", "complex64", "complex64"), ("float64", "complex64", "complex128"), ("complex64", "complex128", "complex128"),
        ("float16", "complex64", "complex64"), ("bool", "complex128", "complex128"),
    ):  # fmt: skip
        assert (
            numod.promote_types(getattr(numod, a), getattr(numod, b))
            is getattr(numod, result)
            is numod.promote_types(getattr(numod, b), getattr(numod, a))
        )
    assert (numod.ones(2, dtype=numod.float64) * 1j).dtype is numod.complex128
    assert (numod.ones(2) * numod.tensor(1j, dtype=numod.complex128)).dtype is numod.complex64
    assert (numod.ones(2, dtype=numod.int64) * 1j).dtype is numod.complex64
    assert (
        numod.complex64.is_complex
        and not numod.complex64.is_floating_point
        and numod.complex64.to_real() is numod.float32
    )
    assert numod.finfo(numod.complex64).eps == numod.finfo(numod.float32).eps
    assert not numod.can_cast(numod.complex64, numod.float32) and numod.can_cast(numod.float32, numod.complex64)


def test_creation() -> None:
    for tensor, expected in (
        (numod.zeros(2, dtype=numod.cfloat), [0, 0]), (numod.ones(2, dtype=numod.cdouble), [1, 1]), (numod.full((2,), 1j), [1j, 1j]), (numod.complex(numod.ones(1), -numod.ones(1)), [1 - 1j]),
        (numod.polar(numod.tensor([2.0]), numod.tensor([0.0])), [2]), (numod.zeros(1, dtype=numod.cfloat).fill_(3 + 1j), [3 + 1j]),
    ):  # fmt: skip
        np.testing.assert_array_equal(tensor.numpy(), expected)
    numod.manual_seed(0)
    draws = numod.randn(20_000, dtype=numod.complex64)
    assert abs(draws.abs().square().mean().item() - 1) < 0.05 and abs(draws.real.std().item() - 0.5**0.5) < 0.02
    assert numod.rand(100, dtype=numod.complex64).real.min() >= 0
    ends = numod.linspace(1 + 1j, numod.tensor(2.0), 3)
    assert (
        ends.dtype is numod.complex64
        and ends.tolist() == [1 + 1j, 1.5 + 0.5j, 2]
        and numod.logspace(1j, 1j, 1, base=1).tolist() == [1]
    )
    with pytest.raises(RuntimeError, match="can't be safely cast"):
        numod.linspace(1j, 2, 3, dtype=numod.float32)
    with pytest.raises(RuntimeError, match="Expected object of scalar type Float but got scalar type Double"):
        numod.complex(numod.ones(1), numod.ones(1, dtype=numod.float64))


def test_numbers_without_an_imaginary_part_are_real() -> None:
    x = numod.tensor([2 + 0j])
    assert float(x) == 2.0 and int(x) == 2 and numod.tensor([1 + 0j, 2], dtype=numod.int64).tolist() == [1, 2]
    for function in (lambda: float(x + 1j), lambda: numod.tensor([1j], dtype=numod.float32)):
        with pytest.raises(RuntimeError, match="cannot be converted to type float.. without overflow"):
            function()


def test_parts_are_views() -> None:
    x = numod.tensor([1 + 2j, 3 - 4j])
    x.real[0] = 5
    x.imag = numod.tensor([7.0, 8.0])
    numod.view_as_real(x)[1, 0] = -1
    assert x.tolist() == [5 + 7j, -1 + 8j]
    x *= 2
    assert numod.view_as_real(x).tolist() == [[10, 14], [-2, 16]]
    pairs = numod.zeros(3, 2)
    numod.view_as_complex(pairs)[1] = 1 + 2j
    assert pairs.tolist() == [[0, 0], [1, 2], [0, 0]]
    x.copy_(x.imag.flip(0))  # read and written at once
    assert x.tolist() == [16, 14]


def test_views_that_cannot_be() -> None:
    for x, message in (
        (numod.zeros(3), "size 2"),
        (numod.zeros(2, 3).T, "stride 1"),
        (numod.zeros(3, 3)[:, :2], "divisible by 2"),
    ):
        with pytest.raises(RuntimeError, match=message):
            numod.view_as_complex(x)
    with pytest.raises(RuntimeError, match="complex tensors"):
        numod.view_as_real(numod.zeros(2))
    with pytest.raises(RuntimeError, match="non-complex"):
        numod.zeros(2).imag  # noqa: B018


def test_writes_through_real_to_saved_values_are_refused() -> None:
    x = numod.tensor([1 + 2j], requires_grad=True)
    y = x * 1
    z = y * y
    y.detach().real.fill_(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.abs().sum().backward()


def test_conversions() -> None:
    x = numod.tensor([1 + 2j, 0, 2j])
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert x.to(numod.float64).tolist() == [1, 0, 0]
    assert x.bool().tolist() == [True, False, True]
    assert complex(x[0]) == 1 + 2j and x[0].item() == 1 + 2j and x.tolist() == [1 + 2j, 0, 2j]
    assert numod.ones(2).cfloat().dtype is numod.complex64
    with pytest.raises(RuntimeError, match="can't be cast"):
        numod.ones(2).add_(1j)
    with pytest.raises(NotImplementedError, match="'ComplexFloat'"):
        x < x  # noqa: B015


@pytest.mark.cpu_only
def test_printing() -> None:
    assert repr(numod.tensor([1 + 2j, -0.5j])) == "tensor([1.+2.0000j, -0.-0.5000j])"
    assert repr(numod.zeros(1, dtype=numod.cdouble)) == "tensor([0.+0.j], dtype=numod.complex128)"


@pytest.mark.parametrize("function, twice", second_orders(4, [
    lambda x, y: x * y, lambda x, y: x / y, lambda x, y: x**y, lambda x, y: x**3, lambda x, y: (x * y.conj()).exp(), lambda x, y: x.log() + y.sqrt(), lambda x, y: x.sin() * y.cos(),
    lambda x, y: x.tanh() - y.tan(), lambda x, y: x.abs() * y, lambda x, y: x.angle() + y.real, lambda x, y: x.sgn() * y.imag, lambda x, y: x.real * y, lambda x, y: numod.complex(x.imag, y.abs()),
    lambda x, y: numod.view_as_real(x) * 2, lambda x, y: numod.view_as_complex(y.real.contiguous().reshape(3, 2)), lambda x, y: x.prod(1), lambda x, y: x.cumsum(1), lambda x, y: x.cumprod(1), lambda x, y: x.mean() + y.sum(),
    lambda x, y: x.var(), lambda x, y: numod.where(y.real > 0, x, y), lambda x, y: numod.polar(x.abs(), y.real), lambda x, y: x.norm() + y.norm(p=1), lambda x, y: x[:, [0, 2, 2]] * y[0],
    lambda x, y: numod.cat([x, y]).mH, lambda x, y: x.tanh() * y.reciprocal(), lambda x, y: x.real.to(numod.complex128) + y,
], others=pytest.mark.fuzz))  # fmt: skip
def test_gradients(function, twice) -> None:
    x, y = (numod.tensor(array, requires_grad=True) for array in (X, Y))
    assert gradcheck(function, [x, y])
    assert not twice or gradgradcheck(function, [x, y])


def test_gradients_of_real_inputs_are_real() -> None:
    x = numod.tensor(REAL, requires_grad=True)
    assert gradcheck(lambda x: x * numod.tensor(Y), [x])
    (x * 1j).abs().sum().backward()
    assert x.grad.dtype is numod.float64
    with pytest.raises(RuntimeError, match="only for real scalar outputs"):
        (x * 1j).sum().backward()


@pytest.mark.parametrize(
    "shapes", [((2, 3), (3, 4)), ((3,), (3,)), ((2, 3), (3,)), ((4, 2, 3), (3, 2)), ((2, 20, 30), (2, 30, 40))]
)
def test_products(shapes: tuple) -> None:
    a, b = (numbers(*shape) for shape in shapes)
    np.testing.assert_allclose((numod.tensor(a) @ numod.tensor(b)).numpy(), a @ b, rtol=1e-12)
    if a.size < 30:
        assert gradcheck(numod.matmul, [numod.tensor(factor, requires_grad=True) for factor in (a, b)])


def test_products_by_other_names() -> None:
    a, b, v = numbers(2, 3), numbers(3, 2), numbers(3)
    x, y, z = map(numod.tensor, (a, b, v))
    np.testing.assert_allclose(numod.einsum("ij,jk->ik", x, y).numpy(), a @ b)
    np.testing.assert_allclose(numod.vdot(z, z).numpy(), np.vdot(v, v))
    np.testing.assert_allclose(numod.outer(z, z).numpy(), np.outer(v, v))
    np.testing.assert_allclose(numod.addmm(x @ y, x, y, beta=2j).numpy(), (1 + 2j) * (a @ b))
    np.testing.assert_allclose(nn.functional.linear(x, y.T, z[:2]).numpy(), a @ b + v[:2])
    np.testing.assert_allclose((x.H @ x).numpy(), a.conj().T @ a)
    with pytest.raises(RuntimeError, match="same dtype"):
        x @ numod.ones(3, 2)


@pytest.mark.parametrize("function, reference", [
    (numod.linalg.inv, np.linalg.inv), (numod.linalg.det, np.linalg.det), (lambda x: numod.linalg.solve(x, x @ x), lambda x: x),
    (lambda x: numod.linalg.eigvalsh(x + x.mH), lambda x: np.linalg.eigvalsh(x + x.conj().T)), (lambda x: numod.linalg.cholesky(x @ x.mH), lambda x: np.linalg.cholesky(x @ x.conj().T)),
    (lambda x: numod.linalg.matrix_power(x, 3), lambda x: x @ x @ x), (lambda x: numod.linalg.solve_triangular(x, x[:, :1], upper=False), lambda x: np.linalg.solve(np.tril(x), x[:, :1])),
], ids=range(7))  # fmt: skip
def test_matrices(function, reference) -> None:
    a = numbers(3, 3)
    np.testing.assert_allclose(function(numod.tensor(a)).numpy(), reference(a), rtol=1e-9, atol=1e-12)
    assert gradcheck(function, [numod.tensor(a, requires_grad=True)])


@pytest.mark.cpu_only
def test_eigenvalues_of_real_matrices_are_complex() -> None:
    a = numod.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=numod.float64, requires_grad=True)
    values, vectors = numod.linalg.eig(a)
    assert sorted(values.imag.tolist()) == [-1, 1]
    assert numod.allclose(a.detach().cdouble() @ vectors.detach(), vectors.detach() * values.detach())
    assert gradcheck(
        lambda x: numod.linalg.eigvals(x).abs().square(),
        [numod.tensor(RNG.standard_normal((3, 3)), requires_grad=True)],
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda p: numod.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
        lambda p: numod.optim.Adam(p, lr=0.1),
        lambda p: numod.optim.RMSprop(p, lr=0.1),
    ],
    ids=["SGD", "Adam", "RMSprop"],
)
def test_optimizers_step_by_parts(make) -> None:
    whole = nn.Parameter(numod.tensor([1 + 2j, -3 + 0.5j]))
    parts = nn.Parameter(numod.tensor([[1.0, 2.0], [-3.0, 0.5]]))
    first, second = make([whole]), make([parts])
    for _ in range(3):
        for parameter, optimizer in ((whole, first), (parts, second)):
            optimizer.zero_grad()
            parameter.abs().square().sum().backward()
            optimizer.step()
    assert numod.allclose(numod.view_as_real(whole.detach()), parts.detach())


def test_modules_and_files(tmp_path) -> None:
    layer = nn.Linear(3, 2).to(numod.cfloat)
    assert layer.weight.dtype is numod.complex64
    for name in ("weights.safetensors", "weights.pt"):
        numod.save(layer.state_dict(), tmp_path / name)
        loaded = numod.load(tmp_path / name)
        assert numod.equal(loaded["weight"], layer.weight) and loaded["bias"].dtype is numod.complex64


def test_a_compiled_function_of_complex_numbers() -> None:
    def rotated(x, angles):
        return numod.view_as_real(
            numod.view_as_complex(x.reshape(2, 4, 2)) * numod.polar(numod.ones(4), angles) * (1 + 2j)
        ).flatten(1)

    compiled = numod.compile(rotated)
    x, angles = numod.randn(2, 8), numod.randn(4)
    for _ in range(2):
        assert numod.allclose(compiled(x, angles), rotated(x, angles))

    @numod.compile
    def written(z):
        z.real.mul_(2)
        return z * 1

    z = numod.tensor([1 + 1j])
    for k in (2, 4, 8):
        assert written(z).tolist() == z.tolist() == [k + 1j]


def _pairs_written(y):
    numod.view_as_complex(y.reshape(3, 1, 2))[1:, 0].mul_(1j)
    return y


def _pairs_shown_before(y):
    z = numod.view_as_complex(y)
    real, row = z.real, numod.view_as_real(z)[1]
    z.mul_(2j)
    row.add_(z.imag[0])
    return numod.stack([real, row.sum() * z.real])


WRITES = {  # a write through a view of another dtype, and the same without
    "real": (lambda y: numod.view_as_complex(y.clone()).real.mul_(3), lambda y: y[:, 0] * 3),
    "whole": (_pairs_written, lambda y: numod.stack([y[0], *(numod.stack([-pair[1], pair[0]]) for pair in y[1:])])),
    "before": (_pairs_shown_before, lambda y: _rotated(-2 * y[:, 1], 2 * y[:, 0])),
}


def _rotated(real, imag):
    real, imag = (numod.stack([column[0], column[1] + imag[0], column[2]]) for column in (real, imag))
    return numod.stack([real, (real[1] + imag[1]) * real])


@pytest.mark.parametrize("name", WRITES)
def test_gradients_of_writes_through_views_of_another_dtype(name):
    results = []
    for function in WRITES[name]:
        x = (numod.arange(6.0, dtype=numod.float64).reshape(3, 2) + 1).requires_grad_()
        y = function(x * 1)
        (gradient,) = numod.autograd.grad(y.pow(3).sum(), x, create_graph=True)
        results.append((y, gradient, numod.autograd.grad(gradient.sum(), x)[0]))
    assert all(map(numod.allclose, *results))


def test_memory_read_as_another_dtype_counts_writes_together() -> None:
    x = numod.zeros(4)
    for other in (x.view(numod.int32), numod.view_as_complex(x.view(2, 2))):
        before = x._version
        other.zero_()
        assert x._version == before + 1
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(100)


def test_fills_keep_infinities_and_take_complex_numbers_that_are_real():
    """A product with 1 would give inf * 0 in the other part."""
    z = numod.zeros(2, dtype=numod.complex64)
    assert z.fill_(float("inf")).tolist() == [complex(float("inf"), 0)] * 2
    assert numod.full((2,), complex(1, float("-inf"))).tolist() == [complex(1, float("-inf"))] * 2
    mask = numod.tensor([True, False])
    for filled in (
        numod.zeros(2).fill_(2 + 0j),
        numod.full((2,), 2 + 0j, dtype=numod.float32),
        numod.full_like(numod.ones(2), 2 + 0j),
    ):
        assert filled.tolist() == [2.0, 2.0]
    assert numod.zeros(2, dtype=numod.int64).masked_fill(mask, 2 + 0j).tolist() == [2, 0]
    with pytest.raises(RuntimeError, match="without overflow"):
        numod.zeros(2).fill_(2 + 1j)


def test_real_results_of_complex_numbers_are_written_to_what_is_given() -> None:
    x = numod.tensor([3 + 4j, 0])
    assert numod.abs(x, out=numod.empty(0)).tolist() == [5, 0] and numod.angle(x, out=numod.empty(2))[1] == 0
    assert numod.abs(x, out=numod.empty(2, dtype=numod.complex64)).tolist() == [5, 0]
    assert numod.ne(x, 0, out=numod.empty(2)).tolist() == [1, 0]


def test_logarithms_of_sums_of_exponentials():
    x, y = (numod.randn(2, 5, dtype=numod.complex128) * 3 for _ in range(2))
    np.testing.assert_allclose(numod.logaddexp(x, y).exp(), np.exp(x) + np.exp(y))
    np.testing.assert_allclose(x.logcumsumexp(1).exp(), np.exp(x).cumsum(1))
    great = numod.tensor(800 + 1j, dtype=numod.complex128)
    nothing = numod.tensor(complex("-inf"), dtype=numod.complex128)
    assert numod.logaddexp(great, nothing).item() == 800 + 1j and numod.logaddexp(nothing, nothing).item() == complex(
        "-inf"
    )
    assert numod.logaddexp(great, great - 1000).item() == 800 + 1j
    for function in (numod.logaddexp, lambda x, y: x.logcumsumexp(1), lambda x, y: numod.nn.functional.softsign(x)):
        gradcheck(function, (x.clone().requires_grad_(), y.clone().requires_grad_()))
    flags = numod.tensor([True, False])
    assert numod.equal(
        numod.logaddexp(flags, numod.tensor([1 + 2j, 0.5j])),
        numod.logaddexp(flags.float(), numod.tensor([1 + 2j, 0.5j])),
    )


def test_nan_to_num_of_both_parts():
    x = numod.tensor([complex("nan+infj"), complex("-inf"), 1 + 2j], requires_grad=True)
    result = x.nan_to_num(5.0, 6.0, 7.0)
    result.abs().square().sum().backward()
    assert result.tolist() == [5 + 6j, 7, 1 + 2j] and x.grad.tolist() == [0, 0, 2 + 4j]
