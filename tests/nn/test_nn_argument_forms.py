"""Arguments of layers and functions: refused values, `out`, inputs without a batch, infinite norms."""

import pytest

import numod
from numod import nn


def test_refusals():
    for wrong, error, words in (
        (lambda: nn.PixelShuffle(2)(numod.ones(4)), RuntimeError, "at least 3 dimensions"),
        (lambda: nn.functional.group_norm(numod.ones(1, 4), 4), ValueError, "more than 1 value per channel"),
        (lambda: nn.functional.pad(numod.ones(0, 2), (1, 1), mode="reflect"), RuntimeError, "Expected 2D or 3D"),
        (lambda: nn.GRU(3, 4, proj_size=2), ValueError, "only supported for LSTM"),
        (lambda: nn.Linear(2, 2).to("cpu", copy=True), RuntimeError, "copy argument"),
        (
            lambda: nn.functional.interpolate(numod.ones(1, 1, 2, 2), size=(2.0, 2.0)),
            TypeError,
            "argument 'size' must be int or tuple of ints",
        ),
        (
            lambda: nn.functional.interpolate(numod.ones(1, 1, 2, 2), size=(numod.tensor(2.5), 2)),
            TypeError,
            "argument 'size' must be int or tuple of ints",
        ),
        (
            lambda: nn.functional.affine_grid(numod.ones(1, 2, 3), (1, 2, 0, 1), align_corners=False),
            ValueError,
            "positive output size",
        ),
        (lambda: nn.PixelUnshuffle(2)(numod.ones(4)), RuntimeError, "at least 3 dimensions"),
        (lambda: nn.ChannelShuffle(2)(numod.ones(2, 2)), RuntimeError, "at least 3 dimensions"),
    ):
        with pytest.raises(error, match=words):
            wrong()


def test_losses_and_windows_without_a_batch():
    assert numod.nn.functional.kl_div(numod.tensor(0.5), numod.tensor(1.0), reduction="batchmean").item() == -0.5
    assert nn.FractionalMaxPool3d(2, output_ratio=0.5, _random_samples=numod.rand(2, 4, 3))(
        numod.rand(4, 5, 5, 5)
    ).shape == (4, 2, 2, 2)


def test_results_written_out():
    F = nn.functional
    x, w, out = numod.tensor([[-1.0, 2.0]]), numod.eye(2), numod.empty(1, 2)
    for call in (
        lambda **o: F.linear(x, w, **o),
        lambda **o: F.gelu(x, **o),
        lambda **o: F.softplus(x, **o),
        lambda **o: F.logsigmoid(x, **o),
        lambda **o: F.softshrink(x, **o),
    ):
        assert call(out=out) is out and out.tolist() == call().tolist()
    pooled = numod.empty(1, 1, 1)
    assert F.avg_pool2d(x.reshape(1, 1, 2), (1, 2), out=pooled) is pooled and pooled.item() == 0.5
    assert x.prelu(numod.tensor([0.25])).tolist() == [[-0.25, 2.0]]
    assert [tensor.shape for tensor in numod.unravel_index(numod.tensor([5], dtype=numod.uint8), (2, 3))] == [(1,)] * 2


def test_the_greatest_norm_of_windows():
    x = numod.arange(16.0).reshape(1, 1, 4, 4) - 8
    for pool in (nn.functional.lp_pool2d, lambda *args: nn.LPPool2d(*args[1:])(args[0])):
        assert pool(x, float("inf"), 2).tolist() == [[[[8, 6], [5, 7]]]] and pool(x, -float("inf"), 2).tolist() == [
            [[[3, 1], [0, 2]]]
        ]
