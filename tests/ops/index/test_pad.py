"""Padding against NumPy: any sizes, also negative ones, and more dimensions than the kernel supports at once."""

from __future__ import annotations

import random

import numpy as np
import pytest

import numod
from numod.autograd import gradcheck, gradgradcheck
from numod.nn.functional import pad

pytestmark = pytest.mark.on_cuda(simulator=False)

MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def expected(x: np.ndarray, sides: list[int], mode: str) -> np.ndarray:
    """What stays of x, in NumPy's words; what a mode repeats is of the whole x unless it is circular."""
    widths = [(0, 0)] * (x.ndim - len(sides) // 2) + [tuple(sides[k : k + 2]) for k in range(len(sides) - 2, -1, -2)]
    cut = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, widths))
    if mode == "circular":
        return np.pad(x[cut], [(max(a, 0), max(b, 0)) for a, b in widths], "wrap")
    grown = np.pad(x, [(max(a, 0), max(b, 0)) for a, b in widths], MODES[mode])
    return grown[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(grown.shape, widths))]


@pytest.mark.parametrize("mode", MODES)
def test_values(mode: str) -> None:
    draw = random.Random(0)
    for _ in range(40):
        count = draw.randint(1, 3)
        x = np.random.default_rng(0).standard_normal(
            [2] * draw.randint(1, 2) + [draw.randint(5, 7) for _ in range(count)]
        )
        sides = [draw.randint(-1, 3) for _ in range(2 * count)]
        tensor = numod.tensor(x, requires_grad=True)
        actual, sources = pad(tensor, sides, mode), expected(1 + np.arange(x.size).reshape(x.shape), sides, mode)
        assert np.array_equal(actual.detach().numpy(), expected(x, sides, mode)), (x.shape, sides)
        g = np.random.default_rng(1).integers(-9, 9, sources.shape)
        actual.backward(numod.tensor(g, dtype=numod.float64))
        assert np.array_equal(tensor.grad.numpy().ravel(), np.bincount(sources.ravel(), g.ravel(), x.size + 1)[1:]), (
            x.shape,
            sides,
        )


@pytest.mark.parametrize("mode", MODES)
def test_gradients(mode: str) -> None:
    x = numod.randn(1, 2, 3, 4, dtype=numod.float64, requires_grad=True)
    assert gradcheck(lambda x: pad(x, (2, -1, 1, 0), mode) ** 2, (x,)) and gradgradcheck(
        lambda x: pad(x, (-1, 1), mode).exp() if mode == "constant" else pad(x[0], (-1, 1), mode).exp(), (x,)
    )


def test_many_dimensions_dtypes_and_nothing() -> None:
    x = np.random.default_rng(0).standard_normal((2, 1, 3, 1, 2))
    sides = (1, 0, 0, 1, 0, 0, 0, 2, 1, 1)
    assert np.array_equal(
        pad(numod.tensor(x).transpose(0, 2), sides, value=2.5).numpy(),
        np.pad(x.swapaxes(0, 2), [(1, 1), (0, 2), (0, 0), (0, 1), (1, 0)], constant_values=2.5),
    )
    for dtype, value in ((numod.bool, True), (numod.int32, -3), (numod.float16, 0.5), (numod.complex64, 1j)):
        assert pad(numod.zeros(1, dtype=dtype), (1, 1), value=value).tolist() == [value, 0, value]
    assert pad(numod.zeros(0, 2), (0, 1, 1, 0), value=7).tolist() == [[7, 7, 7]] and pad(
        numod.zeros(3), (-1, -2)
    ).shape == (0,)
    same = numod.zeros(3)
    assert pad(same, (0, 0)) is not same
