"""grid_sample against a weighted sum over all elements of an image; gradients by finite differences; NaN coordinates."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from selection import diagonals, second_orders

import numod
from numod.autograd import gradcheck, gradgradcheck
from numod.nn import functional as F

pytestmark = pytest.mark.on_cuda(simulator=False)

CASES = [
    (mode, axes) for mode in ("nearest", "bilinear", "bicubic") for axes in (2, 3) if (mode, axes) != ("bicubic", 3)
]
RULES = [*itertools.product(("zeros", "border", "reflection"), (False, True))]
SIZES = (3, 4, 5)


def bordered(coordinate: float, n: int, padding: str, corners: bool) -> float:
    """The coordinate that stands for one outside: reflections are made one at a time."""
    low, high = (0.0, n - 1.0) if corners else (-0.5, n - 0.5)
    while padding == "reflection" and not low <= coordinate <= high:
        coordinate = 2 * low - coordinate if coordinate < low else 2 * high - coordinate
    return coordinate if padding == "zeros" else min(max(coordinate, 0.0), n - 1.0)


def shares(x: float, n: int, mode: str, padding: str, corners: bool) -> np.ndarray:
    """What each of the n elements of an axis has in the sample at x."""
    coordinate, weights = (x + 1) / 2 * (n - 1) if corners else ((x + 1) * n - 1) / 2, np.zeros(n)
    coordinate = coordinate if mode == "bicubic" else bordered(coordinate, n, padding, corners)
    for k in range(int(np.floor(coordinate)) - 2, int(np.floor(coordinate)) + 4):
        away = abs(coordinate - k)
        if mode == "nearest":
            weight = float(k == np.rint(coordinate))
        elif mode == "bilinear":
            weight = max(1.0 - away, 0.0)
        else:  # Keys, 1981, with a = -0.75
            weight = (
                1.25 * away**3 - 2.25 * away**2 + 1
                if away <= 1
                else -0.75 * (away**3 - 5 * away**2 + 8 * away - 4)
                if away < 2
                else 0.0
            )
        at = bordered(k, n, padding, corners) if mode == "bicubic" else k
        if 0 <= at <= n - 1:
            weights[int(at)] += weight
    return weights


def expected(x: np.ndarray, grid: np.ndarray, *rule: object) -> np.ndarray:
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for image, *point in np.ndindex(*grid.shape[:-1]):
        sample = x[image]
        for at in grid[(image, *point)]:  # the last axis of x first
            sample = sample @ shares(at, sample.shape[-1], *rule)
        out[(image, slice(None), *point)] = sample
    return out


def drawn(axes: int, samples: int = 9) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(axes)
    return rng.standard_normal((2, 3, *SIZES[-axes:])), rng.uniform(-2.5, 2.5, (2, samples, *(8, 1)[: axes - 1], axes))


@pytest.mark.parametrize("case, rule", diagonals(CASES, RULES, 2, others=pytest.mark.fuzz))
def test_values(case: tuple[str, int], rule: tuple[str, bool]) -> None:
    (mode, axes), (padding, corners) = case, rule
    x, grid = drawn(axes)  # 72 samples: more than one run
    actual = F.grid_sample(numod.tensor(x), numod.tensor(grid), mode, padding, corners)
    np.testing.assert_allclose(actual.numpy(), expected(x, grid, mode, padding, corners), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    "mode, axes, padding, corners, twice",
    second_orders(2, [(*case, *RULES[k]) for k, case in zip((4, 0, 5, 3), CASES[1:])], others=pytest.mark.fuzz),
)
def test_differences(mode: str, axes: int, padding: str, corners: bool, twice: bool) -> None:
    x, grid = drawn(axes, 2)
    x, grid = numod.tensor(x[:1, :2], requires_grad=True), numod.tensor(grid[:1, :, :2], requires_grad=True)
    sample = lambda x, grid: F.grid_sample(x, grid, mode, padding, corners) ** 2  # noqa: E731
    assert gradcheck(sample, (x, grid))
    assert not twice or gradgradcheck(sample, (x, grid))


def test_strided_inputs_and_float32() -> None:
    x, grid = drawn(2)
    transposed = numod.tensor(np.ascontiguousarray(x.transpose(2, 0, 3, 1)).astype("float32")).permute(1, 3, 0, 2)
    sparse = numod.tensor(np.repeat(grid, 2, 1).astype("float32"))[:, ::2]
    actual = F.grid_sample(transposed, sparse, padding_mode="border", align_corners=False)
    np.testing.assert_allclose(actual.numpy(), expected(x, grid, "bilinear", "border", False), rtol=1e-4, atol=1e-5)
    half = F.grid_sample(transposed.half(), sparse.half(), padding_mode="border", align_corners=False)
    assert half.dtype is numod.float16
    np.testing.assert_allclose(half.float().numpy(), actual.numpy(), atol=0.05)


def test_the_gradient_by_the_image_does_not_depend_on_the_threads() -> None:
    results, before = [], numod.get_num_threads()
    g, grid = numod.randn(1, 16, 64, 65), numod.randn(1, 64, 65, 2)
    try:
        for threads in (1, 2):
            numod.set_num_threads(threads)
            x = numod.zeros(1, 16, 40, 41, requires_grad=True)
            F.grid_sample(x, grid, align_corners=False).backward(g)
            results.append(x.grad)
    finally:
        numod.set_num_threads(before)
    assert results[0].equal(results[1]) and results[0].abs().sum() > 0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 5e9])
def test_coordinates_far_away(value: float) -> None:
    x = numod.arange(1.0, 13.0, dtype=numod.float64).reshape(1, 1, 3, 4).requires_grad_()
    grid = numod.tensor([[[[value, 0.0], [0.0, value]]]], dtype=numod.float64, requires_grad=True)
    for mode, (padding, corners) in itertools.product(("nearest", "bilinear", "bicubic"), RULES):
        out = F.grid_sample(x, grid, mode, padding, corners)
        if not np.isfinite(value) and (mode == "bicubic" or (mode, padding) == ("bilinear", "zeros")):
            assert out.isnan().all()
        elif padding == "zeros":
            assert (out == 0).all()
        elif padding == "reflection":
            assert ((out > 0) & (out < 13)).all()
        elif mode == "bilinear":
            assert out.flatten().tolist() == ([8.0, 10.5] if value > 0 else [5.0, 2.5])
        if mode == "bilinear":
            x.grad = grid.grad = None
            out.sum().backward()
            assert padding == "zeros" or (
                x.grad.sum().item() == 2 and (padding == "reflection" or grid.grad[0, 0, :, 0].tolist()[0] == 0)
            )


def test_a_nan_outside_is_not_seen() -> None:
    x = numod.ones(1, 1, 3, 3)
    x[0, 0, 0, 0] = float("nan")
    assert F.grid_sample(x, numod.tensor([[[[-3.0, -3.0], [0.5, 0.5]]]]), align_corners=True).flatten().tolist() == [
        0.0,
        1.0,
    ]


def test_empty_and_refused() -> None:
    for x, grid in (((0, 3, 4, 4), (0, 2, 2, 2)), ((2, 0, 4, 4), (2, 2, 2, 2)), ((2, 3, 4, 4), (2, 0, 2, 2))):
        image, places = numod.ones(x, requires_grad=True), numod.zeros(grid, requires_grad=True)
        out = F.grid_sample(image, places, align_corners=False)
        out.sum().backward()
        assert out.shape == (*x[:2], *grid[1:3]) and (image.grad == 0).all() and (places.grad == 0).all()
    for x, grid, error, text in (
        (numod.ones(1, 1, 0, 2), numod.zeros(1, 1, 1, 2), RuntimeError, "non-empty spatial dimensions"),
        (numod.ones(1, 1, 2, 2), numod.zeros(2, 1, 1, 2), RuntimeError, "expected a 4D or 5D input"),
        (numod.ones(1, 1, 2, 2), numod.zeros(1, 1, 1, 2).double(), RuntimeError, "of one dtype"),
        (numod.ones(1, 1, 2, 2).long(), numod.zeros(1, 1, 1, 2).long(), NotImplementedError, "not implemented for"),
    ):
        with pytest.raises(error, match=text):
            F.grid_sample(x, grid, align_corners=False)
