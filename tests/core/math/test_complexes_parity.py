"""Complex numbers and Fourier transforms beside PyTorch: values and gradients to second order."""

from __future__ import annotations

import numpy as np
import pytest

import numod

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore::UserWarning")]
RNG = np.random.default_rng(0)


def cn(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def rn(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def method(name: str):
    return lambda T, a: getattr(a, name)()


def transform(name: str, *arguments: object, **kwargs: object):
    return lambda T, a: getattr(T.fft, name)(a, *arguments, **kwargs) ** 2


def recomposed(u, s, vh):
    return (u * s.exp().unsqueeze(-2)) @ vh


UNARY = (
    "exp log sqrt sin cos tan tanh sinh cosh rsqrt reciprocal expm1 log1p abs angle sgn conj square asin acos "
    "atan asinh acosh atanh log2 log10 exp2 sigmoid sinc"
)
CASES = {
    **{name: (method(name), cn(3)) for name in UNARY.split()},
    "mul": (lambda T, a, b: a * b, cn(3, 4), cn(4)), "div": (lambda T, a, b: a / b, cn(3, 4), cn(3, 4)),
    "real divided": (lambda T, a, b: a / b, rn(3, 4), cn(4)), "pow": (lambda T, a, b: a**b, cn(3), cn(3)),
    "cube": (lambda T, a: a**3, cn(3)), "inverse": (lambda T, a: a**-1, cn(3)),
    "var": (lambda T, a: a.var(0), cn(3, 2)), "polar": (lambda T, a, b: T.polar(a * a, b), rn(3), rn(3)),
    "complex": (lambda T, a, b: T.complex(a, b), rn(3), rn(3)),
    "as real": (lambda T, a: T.view_as_real(a), cn(3)), "as complex": (lambda T, a: T.view_as_complex(a), rn(3, 2)),
    "prod": (lambda T, a: a.prod(1), cn(3, 2)),
    "prod of zeros": (lambda T, a: (a * T.tensor([1.0, 0, 1])).prod(), cn(3)),
    "cumprod": (lambda T, a: a.cumprod(1), cn(3, 4)),
    "einsum": (lambda T, a, b: T.einsum("bixy,ioxy->boxy", a, b), cn(2, 3, 2, 2), cn(3, 2, 2, 2)),
    "linear": (lambda T, a, b, c: T.nn.functional.linear(a, b, c), cn(5, 3), cn(2, 3), cn(2)),
    "baddbmm": (lambda T, a, b: T.baddbmm(a @ b, a, b, alpha=1j), cn(2, 3, 4), cn(2, 4, 2)),
    "where": (lambda T, a, b: T.where(a.real > 0, a, b), cn(4), cn(4)),
    "masked_fill": (lambda T, a: a.masked_fill(a.real > 0, 2j), cn(4)),
    "index_add": (lambda T, a, b: a.index_add(0, T.tensor([0, 0]), b), cn(3, 2), cn(2, 2)),
    "scatter_add": (lambda T, a, b: a.scatter_add(0, T.tensor([0, 0, 1]), b), cn(3), cn(3)),
    "norm": (lambda T, a: a.norm(p=1, dim=1), cn(3, 2)),
    "lerp": (lambda T, a, b: T.lerp(a, b, 0.3), cn(3), cn(3)),
    "addcmul": (lambda T, a, b, c: T.addcmul(a, b, c, value=0.5), cn(3), cn(3), cn(3)),
    "kron": (lambda T, a, b: T.kron(a, b), cn(2, 2), cn(2, 2)), "trace": (lambda T, a: a.tril().trace(), cn(3, 3)),
    "inv": (lambda T, a: T.linalg.inv(a), cn(2, 3, 3)),
    "solve": (lambda T, a, b: T.linalg.solve(a, b), cn(3, 3), cn(3, 2)),
    "det": (lambda T, a: T.linalg.det(a), cn(3, 3)),
    "eigvals": (lambda T, a: T.linalg.eigvals(a).abs().sort()[0], rn(4, 4)),
    "eigenvectors": (lambda T, a: (T.linalg.eig(a)[1].abs() ** 3).sum(), rn(4, 4)),
    "cholesky": (lambda T, a: T.linalg.cholesky(a @ a.mH), cn(3, 3)),
    "eigvalsh": (lambda T, a: T.linalg.eigvalsh(a + a.mH), cn(3, 3)),
    "svd": (lambda T, a: recomposed(*T.linalg.svd(a, full_matrices=False)), cn(4, 3)),
    "qr": (lambda T, a: sum(tensor.abs().sum() for tensor in T.linalg.qr(a)), cn(4, 3)),
    "qr of wide": (lambda T, a: T.linalg.qr(a)[1], cn(3, 5)),
    "pinv": (lambda T, a: T.linalg.pinv(a), cn(4, 3)),
    "lstsq": (lambda T, a, b: T.linalg.lstsq(a, b).solution, cn(4, 3), cn(4, 2)),
    "matrix_exp": (lambda T, a: T.linalg.matrix_exp(a), cn(3, 3)),
    "lu": (lambda T, a: T.linalg.lu_factor(a)[0], cn(3, 4)),
    "slogdet": (lambda T, a: T.linalg.slogdet(a)[0] * T.linalg.slogdet(a)[1], cn(3, 3)),
    "reflections": (lambda T, a, b: T.linalg.householder_product(a, b), cn(4, 3), cn(3)),
    "conv2d": (lambda T, a, b, c: T.nn.functional.conv2d(a, b, c, padding=1), cn(2, 2, 4, 4), cn(3, 2, 3, 3), cn(3)),
    "conv_transpose1d": (lambda T, a, b: T.nn.functional.conv_transpose1d(a, b, stride=2), cn(2, 2, 4), cn(2, 3, 3)),
    "cov": (lambda T, a: T.cov(a), cn(3, 4)), "corrcoef": (lambda T, a: T.corrcoef(a), cn(2, 4)),
    "add alpha": (lambda T, a, b: T.add(a, b, alpha=0.5), cn(3), cn(3)),
    "l1_loss": (lambda T, a, b: T.nn.functional.l1_loss(a, b), cn(3), cn(3)),
    "gradient": (lambda T, a: T.gradient(a)[0], cn(5)),
    "istft of all frequencies": (lambda T, a: T.istft(a, 6, window=T.ones(6, dtype=T.float64), onesided=False),
        cn(6, 3)),
    "stft": (lambda T, a: T.stft(a, 16, 5, 12, T.hann_window(12, dtype=T.float64), return_complex=True).abs(),
        rn(2, 64)),
    "istft": (lambda T, a: T.istft(T.stft(a, 16, 4, return_complex=True) * 1j, 16, 4, length=60), rn(2, 64)),
    **{f"{name} {norm} {n}": (transform(name, n, norm=norm), rn(2, 6) if name in ("rfft", "ihfft") else cn(2, 6))
       for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") for norm,
       n in ((None, None), ("ortho", 4), ("forward", 9))},
    **{name: (transform(name, (3, 6), (0, 2)),
        rn(2, 4, 5) if name in ("rfftn", "ihfft2") else cn(2, 4, 5)) for name in ("fftn", "rfftn", "irfft2", "hfftn",
        "ihfft2")},
}  # fmt: skip


def outcome(library, function, arrays: tuple) -> list[np.ndarray]:
    inputs = [library.tensor(array, requires_grad=True) for array in arrays]
    result = function(library, *inputs)
    weight = np.random.default_rng(1).normal(size=tuple(result.shape))
    first = library.autograd.grad(
        result, inputs, library.tensor(weight * (1 + 0.5j) if result.is_complex() else weight), create_graph=True
    )
    size = sum((tensor.abs() ** 2).sum() for tensor in first)
    second = library.autograd.grad(size, inputs, allow_unused=True) if size.requires_grad else ()
    return [
        tensor.detach().resolve_conj().numpy()
        for tensor in (result, *first, *(gradient for gradient in second if gradient is not None))
    ]


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    function, *arrays = CASES[name]
    actual, expected = outcome(numod, function, tuple(arrays)), outcome(torch, function, tuple(arrays))
    for mine, theirs in zip(actual, expected):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    "values", [[1 + 2j, -0.5j], [1e6 + 1j, 2], [[1.25 - 2j], [3j]], 1 + 0.5j, [], [complex("nan"), 1j], [0.0001j, 1000]]
)
def test_printing(values: object) -> None:
    for dtype in ("complex64", "complex128"):
        mine, theirs = (library.tensor(values, dtype=getattr(library, dtype)) for library in (numod, torch))
        assert repr(mine) == repr(theirs).replace("torch", "numod")


def test_promotion() -> None:
    # PyTorch has a complex number of 32 bits with float16, and no promotion of uint16 to uint64 with other integers
    names = [name for name in numod.dtypes.ALL if name not in ("float16", "uint16", "uint32", "uint64")]
    for first in names:
        for second in names:
            assert repr(numod.promote_types(getattr(numod, first), getattr(numod, second))) == repr(
                torch.promote_types(getattr(torch, first), getattr(torch, second))
            ).replace("torch", "numod")
            x, y = (
                (numod.ones(shape, dtype=getattr(numod, name)), torch.ones(shape, dtype=getattr(torch, name)))
                for shape, name in ((2, first), ((), second))
            )
            assert repr((x[0] * y[0]).dtype) == repr((x[1] * y[1]).dtype).replace("torch", "numod")
        assert repr((numod.ones(2, dtype=getattr(numod, first)) * 1j).dtype) == repr(
            (torch.ones(2, dtype=getattr(torch, first)) * 1j).dtype
        ).replace("torch", "numod")
