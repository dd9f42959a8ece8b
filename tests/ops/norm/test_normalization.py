"""The kernels of row and channel norms against NumPy in float64: forward, gradients, partial sums, empty inputs."""

from __future__ import annotations

import numpy as np
import pytest

import numod
import numod.nn.functional as F
from numod.ops.norm import normalization as op
from numod.ops.norm.group_norm import group_norm

pytestmark = pytest.mark.on_cuda

EPS = 1e-5


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape) * 2 + 3


def expected(
    x: np.ndarray,
    g: np.ndarray,
    weight: np.ndarray | float,
    bias: np.ndarray | float,
    axes: tuple,
    summed: tuple,
    centred: bool = True,
) -> tuple:
    """out, dx, dweight, dbias of (x - mean) * rstd * weight + bias, over `axes`; if not `centred`, with 0 in the place
    of the mean.
    """
    level = lambda array: array.mean(axes, keepdims=True) * centred  # noqa: E731
    rstd = 1 / np.sqrt(((x - level(x)) ** 2).mean(axes, keepdims=True) + EPS)
    hat = (x - level(x)) * rstd
    gw = g * weight
    dx = rstd * (gw - level(gw) - hat * (gw * hat).mean(axes, keepdims=True))
    return hat * weight + bias, dx, (g * hat).sum(summed), g.sum(summed)


def run(
    norm: op.Norm,
    x: np.ndarray,
    weight: np.ndarray | None,
    bias: np.ndarray | None,
    g: np.ndarray,
    dtype: numod.dtype,
    attributes: tuple = (EPS,),
) -> list[np.ndarray]:
    inputs = [
        None if array is None else numod.tensor(array, dtype=dtype, requires_grad=True) for array in (x, weight, bias)
    ]
    out, _, _ = norm.apply(tuple(inputs), attributes)
    out.backward(numod.tensor(g, dtype=dtype))
    return [out.detach().numpy(), *(None if input is None else input.grad.numpy() for input in inputs)]


@pytest.mark.parametrize(
    "dtype, tolerance", [(numod.float32, 3e-5), (numod.float64, 1e-11)], ids=["float32", "float64"]
)
@pytest.mark.parametrize("affine", ["both", "weight", "bias", "none"])
@pytest.mark.parametrize("rows, n", [(1, 4), (7, 5), (40, 700)])
@pytest.mark.parametrize("norm", [op.row_norm, op.rms_norm], ids=["layer norm", "RMS norm"])
def test_rows(norm: op.Norm, rows: int, n: int, affine: str, dtype: numod.dtype, tolerance: float) -> None:
    x, g = drawn(rows, n), drawn(rows, n) - 3
    weight, bias = drawn(n) if affine in ("both", "weight") else None, drawn(n) if affine in ("both", "bias") else None
    actual = run(norm, x, weight, bias, g, dtype)
    for mine, theirs in zip(
        actual,
        expected(x, g, 1.0 if weight is None else weight, 0.0 if bias is None else bias, (1,), (0,), norm.centred),
    ):
        assert mine is None or np.abs(mine - theirs).max() < tolerance * (1 + np.abs(theirs).max())


@pytest.mark.parametrize(
    "dtype, tolerance", [(numod.float32, 3e-5), (numod.float64, 1e-11)], ids=["float32", "float64"]
)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(2, 1, 1), (6, 70, 1), (5, 3, 7), (3, 2, 600)])
def test_channels(shape: tuple, affine: bool, dtype: numod.dtype, tolerance: float) -> None:
    x, g = drawn(*shape), drawn(*shape) - 3
    weight, bias = (drawn(shape[1]), drawn(shape[1])) if affine else (None, None)
    actual = run(op.channel_norm, x, weight, bias, g, dtype)
    for mine, theirs in zip(
        actual, expected(x, g, weight[:, None] if affine else 1.0, bias[:, None] if affine else 0.0, (0, 2), (0, 2))
    ):
        assert mine is None or np.abs(mine - theirs).max() < tolerance * (1 + np.abs(theirs).max())


@pytest.mark.parametrize(
    "dtype, tolerance", [(numod.float32, 3e-5), (numod.float64, 1e-11)], ids=["float32", "float64"]
)
@pytest.mark.parametrize("affine", ["both", "weight", "bias", "none"])
@pytest.mark.parametrize("shape, groups", [((1, 2, 1), 1), ((3, 6, 5), 3), ((2, 4, 600), 4), ((5, 3, 7), 1)])
def test_groups(shape: tuple, groups: int, affine: str, dtype: numod.dtype, tolerance: float) -> None:
    x, g = drawn(*shape), drawn(*shape) - 3
    weight = drawn(shape[1]) if affine in ("both", "weight") else None
    bias = drawn(shape[1]) if affine in ("both", "bias") else None
    actual = run(group_norm, x, weight, bias, g, dtype, (groups, EPS))
    apart = (shape[0], groups, shape[1] // groups, shape[2])
    scale, shift = (
        filler if array is None else array.reshape(1, *apart[1:3], 1) for array, filler in ((weight, 1.0), (bias, 0.0))
    )
    for mine, theirs in zip(actual, expected(x.reshape(apart), g.reshape(apart), scale, shift, (2, 3), (0, 3))):
        assert mine is None or np.abs(mine.ravel() - theirs.ravel()).max() < tolerance * (1 + np.abs(theirs).max())


def test_statistics_far_from_zero_keep_their_digits() -> None:
    x = (np.random.default_rng(0).standard_normal((2, 100_000)) + 1000).astype(np.float32)
    _, mean, rstd = op.row_norm.apply((numod.tensor(x), None, None), (0.0,))
    _, mean_of_channels, var = op.channel_norm.apply((numod.tensor(x.reshape(1, 2, -1)), None, None), (0.0,))
    wide = x.astype(np.float64)
    for tensor in (mean, mean_of_channels):
        np.testing.assert_allclose(tensor.numpy(), wide.mean(1), rtol=1e-7)
    np.testing.assert_allclose(rstd.numpy(), wide.std(1) ** -1, rtol=1e-5)
    np.testing.assert_allclose(var.numpy(), wide.var(1), rtol=1e-5)


def test_an_image_far_from_the_others_does_not_blur_them() -> None:
    x = np.random.default_rng(0).standard_normal((3, 2, 700)).astype(np.float32)
    x[0] += 10_000
    _, mean, var = op.channel_norm.apply((numod.tensor(x), None, None), (0.0,))
    np.testing.assert_allclose(mean.numpy(), x.mean((0, 2), np.float64), rtol=1e-6)
    np.testing.assert_allclose(var.numpy(), x.var((0, 2), np.float64), rtol=1e-6)


@pytest.mark.on_cuda(simulator=False)
def test_no_rows_have_gradients_of_zero() -> None:
    numod.full((64,), 7.0)  # memory that was used before
    _, *result = run(op.row_norm, np.zeros((0, 4)), drawn(4), drawn(4), np.zeros((0, 4)), numod.float32)
    assert result[0].shape == (0, 4) and not result[1].any() and not result[2].any()


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("shape", [(4,), (1, 4), (2, 3, 4)])
@pytest.mark.parametrize("norm", [op.row_norm, op.rms_norm], ids=["layer norm", "RMS norm"])
def test_second_gradients_of_rows(norm: op.Norm, shape: tuple) -> None:
    tensors = [numod.tensor(drawn(*shape_), requires_grad=True) for shape_ in (shape, (4,), (4,))]
    assert numod.autograd.gradgradcheck(lambda *args: norm.apply(args, (EPS,))[0], tensors)


def test_sums_over_rows_are_computed_only_on_demand() -> None:
    x = numod.ones(3, 4)
    _, partial = op.row_norm.gradient.apply((x, x, None, numod.zeros(3), numod.ones(3)), (False,))
    assert partial.shape == (1, 2, 4) and not partial.any()
    _, partial = op.row_norm.gradient.apply((x, x, None, numod.zeros(3), numod.ones(3)), (True,))
    assert partial.sum(0).tolist() == [[3.0] * 4] * 2


@pytest.mark.parametrize("norm, shape", [(op.row_norm, (2, 3)), (op.channel_norm, (2, 3, 1))])
def test_unsupported_dtypes_are_refused(norm: op.Norm, shape: tuple) -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        norm.apply((numod.ones(shape, dtype=numod.int64), None, None), (EPS,))
    with pytest.raises(RuntimeError, match="expected scalar type Float"):
        norm.apply((numod.ones(shape), numod.ones(3, dtype=numod.float64), None), (EPS,))


def test_an_infinite_row_leaves_the_others():
    x = numod.randn(3, 40)
    x[0, 0] = numod.inf  # also the first element of memory
    x.requires_grad_()
    out = F.layer_norm(x, (40,))
    out.sum().backward()
    for actual in (out.detach().numpy(), x.grad.numpy()):
        assert np.isnan(actual[0]).all() and np.isfinite(actual[1:]).all()
