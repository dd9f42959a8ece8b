"""Epilogues of convolutions: which loops are fused, and that results equal eager's bit for bit.

This holds for all shapes and numbers of threads.
"""

from __future__ import annotations

import numpy as np
import pytest
from selection import diagonals, every

import numod
from numod.graph import trace
from numod.graph import verify
from numod.graph.passes.fuse_epilogue import WithEpilogue
from numod.graph.passes.pipeline import optimise
from numod.nn import functional as F

from fused import epilogues_of_training


def data(*shape: int, seed: int = 0, dtype: type = np.float32) -> numod.Tensor:
    return numod.tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


X, W, B, R = data(2, 6, 11, 9), data(8, 6, 3, 3, seed=1), data(8, seed=2), data(2, 8, 11, 9, seed=3)
SCALE, SHIFT, DEEP, LINE = data(8, 1, 1, seed=4), data(1, 8, 1, 1, seed=5), data(8, 6, 1, 1, seed=6), data(9, seed=7)
GATES, NARROW = data(2, 8, 1, 1, seed=8), data(6, 1, 3, 3, seed=9)


def same(actual: object, expected: object) -> None:
    pairs = zip(*(result if isinstance(result, tuple) else (result,) for result in (actual, expected)), strict=True)
    for a, b in pairs:
        assert a.dtype is b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def names(function: object, *inputs: numod.Tensor) -> list[str]:
    """The names of the optimised program's ops without views.

    With one thread and with two, its results must equal the function's bit for bit.
    """
    with numod.no_grad():
        smaller, _ = optimise(trace(function, *inputs))
        verify(smaller)
        expected, compiled = function(*inputs), numod.compile(function)
        same(smaller(*inputs), expected)
        before = numod.get_num_threads()
        try:
            for threads in (1, 2, 2):
                numod.set_num_threads(threads)
                same(compiled(*inputs), expected)
        finally:
            numod.set_num_threads(before)
    return [step.op.name for step in smaller.steps if not step.op.is_view]


def reference(x: np.ndarray, w: np.ndarray, stride: int, padding: int) -> np.ndarray:
    """A convolution over (N, C, H, W) in float64, by definition."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("nchwab,ocab->nohw", windows, w.astype(np.float64))


@pytest.mark.parametrize(
    "settings, images",
    diagonals(
        [
            (1, 1, 3, 8),
            (2, 0, 3, 8),
            (1, 0, 1, 8),
            (2, 2, 5, 8),
            (1, 1, 3, 64),
            (1, 3, 7, 70),
            (1, 2, 3, 64),
            (1, 5, 11, 64),
        ],
        [1, 2],
        2,
        others=pytest.mark.fuzz,
    ),
)
def test_against_numpy(settings: tuple, images: int) -> None:
    """Narrow images with many features are copied for each column of the kernel."""
    stride, padding, size, features = settings
    x = X[:images].contiguous()
    w = data(features, 6, size, size, seed=1)
    bias = data(features, seed=2)
    scale = data(features, 1, 1, seed=4)
    plain = reference(x.numpy(), w.numpy(), stride, padding)
    residual = data(*plain.shape, seed=3)
    call = numod.compile(lambda x: F.relu(F.conv2d(x, w, bias, stride, padding) * scale + residual))
    with numod.no_grad():
        call(x)
        actual = call(x).numpy()
    expected = (plain + bias.numpy().reshape(-1, 1, 1)) * scale.numpy() + residual.numpy()
    np.testing.assert_allclose(actual, np.maximum(expected, 0), rtol=1e-4, atol=2e-4)
    assert any(isinstance(step.op, WithEpilogue) for step in call.graph.steps)


CASES = {
    "bias": (lambda x: F.conv2d(x, W, B, padding=1), ["convolution_add"]),
    "relu": (lambda x: F.relu(F.conv2d(x, W)), ["convolution_relu"]),
    "scale_and_shift": (lambda x: F.conv2d(x, W, padding=1) * SCALE + SHIFT, ["convolution_mul_add"]),
    "residual": (lambda x: F.relu(F.conv2d(x, W, B, padding=1) + R), ["convolution_add_relu"]),
    "residual_of_another": (lambda x: F.relu(F.conv2d(x, W, B, padding=1) + F.conv2d(x, DEEP)),
        ["convolution", "convolution_add_relu"]),
    "gates_by_image": (lambda x: F.conv2d(x, W, padding=1) * GATES, ["convolution_mul"]),
    "number": (lambda x: (F.conv2d(x, W, stride=2, padding=1) * 0.5).tanh(), ["convolution_mul_tanh"]),
    "groups": (lambda x: F.gelu(F.conv2d(x, W[:, :3], B, padding=1, groups=2)), ["row_major", "convolution_add_gelu"]),
    "dilation": (lambda x: F.silu(F.conv2d(x, W, B, padding=2, dilation=2)), ["convolution_add_silu"]),
    "depthwise": (lambda x: F.relu(F.conv2d(x, NARROW, padding=1, groups=6) + x), ["convolution_add_relu"]),
    "of_one_element": (lambda x: F.relu(F.conv2d(x, DEEP, B)), ["convolution_add_relu"]),
    "of_one_element_in_groups": (lambda x: F.relu(F.conv2d(x, DEEP[:, :3].contiguous(), B, groups=2) + R), None),
    "one_dimension": (lambda x: F.relu(F.conv1d(x.flatten(2), W[..., 0].contiguous(), B, padding=1)), None),
    "three_dimensions": (lambda x: F.relu(F.conv3d(x.reshape(1, 12, 1, 11, 9), W.reshape(4, 12, 1, 3, 3), B[:4],
        padding=(0, 1, 1))), ["convolution_add_relu"]),
    "a_few_features": (lambda x: F.relu(F.conv2d(x, W[:2].contiguous(), B[:2], padding=1)), None),
    "two_results": (lambda x: (F.relu(y := F.conv2d(x, W, B)).add(1), y > 0), ["convolution_add_relu_gt"]),
    "the_convolution_is_a_result": (lambda x: (y := F.conv2d(x, W), F.relu(y)), ["convolution_relu"]),
    "used_later": (lambda x: (F.max_pool2d((y := F.conv2d(x, W)).relu(), 2), y.amax((2, 3))),
        ["convolution_relu", "max_pool_values", "amax"]),
    "used_before": (lambda x: ((y := F.conv2d(x, W)).amax((2, 3)), y.relu()), ["convolution", "amax", "relu"]),
}  # fmt: skip


@pytest.mark.parametrize("case", every(2, CASES, others=pytest.mark.fuzz))
def test_loops_that_join(case: str) -> None:
    function, expected = CASES[case]
    actual = names(function, X)
    assert expected is None or actual == expected


KEPT_APART = {
    "along_a_line": lambda x: F.conv2d(x, W, padding=1) + LINE,
    "a_transposed_view": lambda x: F.conv2d(x, W).transpose(2, 3).relu(),
    "a_transposed_residual": lambda x: F.conv2d(x[:, :, :9].contiguous(), W, padding=1) + R[:, :, :9].transpose(2, 3),
    "truths_only": lambda x: F.conv2d(x, W) > 1,
    "integers": lambda x: F.conv2d(x.int(), W.int()).relu(),
    "a_wider_result": lambda x: F.conv2d(x, W, padding=1) + R.double(),
}


@pytest.mark.parametrize("case", KEPT_APART)
def test_loops_that_stay_apart(case: str) -> None:
    assert all("convolution_" not in name for name in names(KEPT_APART[case], X))


def test_float64() -> None:
    x = data(2, 6, 11, 9, dtype=np.float64)
    w = data(8, 6, 3, 3, seed=1, dtype=np.float64)
    r = data(2, 8, 11, 9, seed=3, dtype=np.float64)
    assert names(lambda x: F.relu(F.conv2d(x, w, padding=1) * 0.1 + r), x) == ["convolution_mul_add_relu"]


@pytest.mark.parametrize("shape", [(1, 64, 18, 18), (3, 16, 40, 40), (9, 4, 8, 8)])
def test_features_or_rows_or_images_are_shared_out(shape: tuple) -> None:
    """Inputs large enough to be split by features, by output rows and by images."""
    w, b, r = data(64, shape[1], 3, 3, seed=1), data(64, seed=2), data(shape[0], 64, *shape[2:], seed=3)
    assert names(lambda x: F.relu(F.conv2d(x, w, b, padding=1) + r), data(*shape)) == ["convolution_add_relu"]


def test_infinities_and_nans() -> None:
    """Infinite weights are not multiplied by padding zeros: border elements are corrected before the epilogue."""
    x, w = X.numpy().copy(), W.numpy().copy()
    x[0, 2, 0, 4], x[1, 1, 5, 5], w[3, 1, 0, 0], w[5, 0, 2, 2] = np.inf, np.nan, np.inf, -np.inf
    w = numod.tensor(w)
    assert names(lambda x: (F.conv2d(x, w, B, padding=1) * 0.5 + R).sigmoid(), numod.tensor(x)) == [
        "convolution_add_mul_sigmoid"
    ]
    with numod.no_grad():
        assert np.isfinite(F.conv2d(X, w, padding=1)[:, 3, 0].numpy()).any()


class Block(numod.nn.Module):
    """A residual block with a convolution in its shortcut."""

    def __init__(self) -> None:
        super().__init__()
        nn = numod.nn
        self.first, self.second, self.short = (
            nn.Conv2d(6, 8, 3, 2, 1, bias=False),
            nn.Conv2d(8, 8, 3, 1, 1, bias=False),
            nn.Conv2d(6, 8, 1, 2, bias=False),
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(3))

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        a, b, c = self.norms
        return F.relu(b(self.second(F.relu(a(self.first(x))))) + c(self.short(x)))


def test_batch_norm_is_folded_in() -> None:
    model = Block()
    for _ in range(3):
        model(X)  # so that the running statistics are something
    model.eval()
    ops = names(model, X)
    assert [op for op in ops if "convolution" in op] == [
        "convolution_addcmul_relu",
        "convolution_addcmul",
        "convolution_addcmul_add_relu",
    ]


def test_a_write_between_convolution_and_loop_keeps_them_apart() -> None:
    state = W.clone()

    def function(x: numod.Tensor) -> numod.Tensor:
        y = F.conv2d(x, state)
        state.mul_(0.5)
        return y.relu()

    compiled = numod.compile(function)
    with numod.no_grad():
        for scale in (1, 0.5, 0.25):
            same(compiled(X), F.conv2d(X, W * scale).relu())


def test_a_training_step_is_eagers() -> None:
    def model() -> numod.nn.Module:
        nn = numod.nn
        convolutions = nn.Conv2d(6, 8, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(8, 4, 3), nn.ReLU()
        return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(24, 3))

    assert epilogues_of_training(model, X) == ["convolution_add_tanh", "convolution_add_relu"]


def test_explain_shows_the_end() -> None:
    compiled = numod.compile(lambda x: F.relu(F.conv2d(x, W, B)))
    with numod.no_grad():
        compiled(X)
    assert "add(the product" in compiled.explain() and "convolution_add_relu" in compiled.graph.dot()
