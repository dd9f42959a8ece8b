"""max, min, argmax and argmin along a dimension against NumPy: widths around the vector length, NaN, infinities, zeros
of both signs, ties, layouts, dtypes.
"""

from __future__ import annotations

import numpy as np
import pytest
from selection import diagonals

import numod
from numod.autograd import gradcheck, gradgradcheck

pytestmark = pytest.mark.on_cuda(simulator=False)

KINDS = ["float32", "float64", "int64", "int32", "int16", "int8", "uint8"]


def sample(shape, kind, seed=0):
    """Few different values, so that most rows have ties; floats have infinities and both zeros."""
    generator = np.random.default_rng(seed)
    if np.dtype(kind).kind != "f":
        return generator.integers(0 if kind == "uint8" else -9, 9, shape).astype(kind)
    x = generator.integers(-9, 9, shape).astype(kind)
    return generator.choice(np.array([0.0, -0.0, np.inf, -np.inf, -1.5], kind), shape) if seed % 2 else x


def agree(x, y, dim):
    """numod's four functions on y are NumPy's on x."""
    for name in ("max", "min"):
        position = getattr(np, f"arg{name}")(x, dim)
        values, indices = getattr(y, name)(dim)
        np.testing.assert_array_equal(indices.numpy(), position)
        np.testing.assert_array_equal(
            values.numpy(), np.take_along_axis(x, np.expand_dims(position, dim), dim).squeeze(dim)
        )
        np.testing.assert_array_equal(getattr(y, f"arg{name}")(dim).numpy(), position)
        assert (
            getattr(y, f"arg{name}")(dim, keepdim=True).shape
            == getattr(y, name)(dim, True).values.shape
            == np.expand_dims(position, dim).shape
        )


@pytest.mark.parametrize("n, kind", diagonals(
    [1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 300], list(KINDS), 2, others=pytest.mark.fuzz
))  # fmt: skip
def test_rows_and_columns_of_any_length(n, kind):
    for seed in range(2):
        x = sample((3, n), kind, seed)
        agree(x, numod.tensor(x), 1)
        agree(x.T, numod.tensor(x).T, 0)
        agree(np.ascontiguousarray(x.T), numod.tensor(x.T), 0)
        agree(np.ascontiguousarray(x.T), numod.tensor(x.T), 1)
        stack = sample((2, n, 3), kind, seed)
        agree(stack, numod.tensor(stack), 1)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("n", [5, 40, 200])
def test_the_first_nan_is_the_extreme(n, kind):
    for at in ([0], [n - 1], [n // 2, n // 2 + 1], [3, 4, n - 1]):
        x = sample((n, 70), kind)
        x[at, :] = np.nan
        agree(x, numod.tensor(x), 0)
        agree(np.ascontiguousarray(x.T), numod.tensor(np.ascontiguousarray(x.T)), 1)
    rows = np.full((2, n), np.nan, kind)
    agree(rows, numod.tensor(rows), 1)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_nan_is_the_extreme_of_its_column_alone(kind):
    x = sample((40, 150), kind)
    for line, column in ((0, 3), (17, 5), (39, 149)):
        x[line, column] = np.nan
    agree(x, numod.tensor(x), 0)
    x[20:, 5] = np.nan
    agree(x, numod.tensor(x), 0)


@pytest.mark.parametrize("lines, kind", diagonals([1, 15, 16, 17, 300], list(KINDS), 2, others=pytest.mark.fuzz))
def test_columns_beside_each_other(lines, kind):
    for columns in (16, 31, 64, 127, 128, 150):
        for seed in range(2):
            x = sample((lines, columns), kind, seed)
            agree(x, numod.tensor(x), 0)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16"])
def test_rows_of_more_groups_than_an_element_counts(kind):
    x = np.random.default_rng(0).integers(3, 6, (64, 70_000)).astype(kind)
    for row, position in enumerate([0, 16_255, 16_256, 16_257, 32_512, 65_535, 69_999]):
        x[row, position], x[row + 32, position] = 100, 1
    agree(x, numod.tensor(x), 1)


def test_all_equal_and_all_infinite():
    for value in (0.0, -np.inf, np.inf):
        x = np.full((2, 150), value, np.float32)
        assert numod.tensor(x).argmax(1).tolist() == numod.tensor(x).argmin(1).tolist() == [0, 0]
        assert numod.tensor(x).argmax(0).tolist() == [0] * 150
    zeros = numod.tensor([[-0.0, 0.0] * 40])
    assert zeros.argmax(1).item() == zeros.argmin(1).item() == 0


@pytest.mark.parametrize("kind", ["float32", "int64", "uint8"])
def test_layouts(kind):
    x = sample((6, 5, 40), kind)
    y = numod.tensor(x)
    for dim in range(3):
        agree(x, y, dim)
        agree(x.transpose(2, 0, 1), y.permute(2, 0, 1), dim)
        agree(x[::2, :, 3:], y[::2, :, 3:], dim)
        agree(x[:, 1:, ::3], y[:, 1:, ::3], dim)
        agree(np.broadcast_to(x[:1], (4, 5, 40)), y[:1].expand(4, 5, 40), dim)


@pytest.mark.parametrize("kind", ["float32", "float64", "int32"])
def test_long_rows_are_searched_in_parts(kind):
    x = np.random.default_rng(0).integers(-1000, 1000, (2, 20_000)).astype(kind)
    agree(x, numod.tensor(x), 1)
    assert numod.tensor(x).argmax().item() == x.argmax() and numod.tensor(x).argmin().item() == x.argmin()
    x[1, [9_000, 19_999]] = 5000
    x[0, [3, 15_000]] = -5000
    assert numod.tensor(x).argmax().item() == 29_000 and numod.tensor(x).argmin().item() == 3
    if kind != "int32":
        x[1, [11_111, 15_555]] = np.nan
        assert numod.tensor(x).argmax(1)[1].item() == numod.tensor(x).argmin(1)[1].item() == 11_111


def test_bool_and_half():
    assert [tensor.tolist() for tensor in numod.tensor([[False, True, True] * 9]).max(1)] == [[True], [1]]
    x = np.random.default_rng(0).standard_normal((4, 50)).astype(np.float16)
    agree(x, numod.tensor(x), 1)


def test_empty_and_single_element_inputs():
    assert [tensor.item() for tensor in numod.tensor(3.0).max(0)] == [3.0, 0] and numod.tensor(3.0).argmax(
        0
    ).item() == 0
    assert [tuple(tensor.shape) for tensor in numod.zeros(0, 3).max(1)] == [(0,), (0,)]
    with pytest.raises(IndexError):
        numod.zeros(3, 0).max(1)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("function", [numod.max, numod.min])
def test_gradients(function, dim, keepdim):
    x = numod.tensor(np.random.default_rng(0).permutation(40).reshape(4, 5, 2) / 7.0).requires_grad_()
    for order in ((0, 1, 2), (2, 0, 1)):
        assert gradcheck(lambda x, order=order: function(x.permute(order), dim, keepdim)[0], x)
        assert gradgradcheck(lambda x, order=order: function(x.permute(order), dim, keepdim)[0] ** 2, x)
    assert function(numod.tensor(3.0, requires_grad=True), 0).values.requires_grad
