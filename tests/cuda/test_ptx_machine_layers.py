"""Layers, losses and their gradients as PTX (see `test_ptx_machine`)."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest

import numod
from numod import nn
from numod.kernel import block
from numod.nn import functional as F

from machine_checks import PTX, check, made, same

pytestmark = PTX


CONVOLUTIONS = [  # shapes of x and weight, and settings
    ((2, 3, 15, 14), (4, 3, 3, 2), {"padding": 1, "stride": 2}),
    ((1, 4, 14, 9), (70, 2, 3, 3), {"padding": (1, 0), "stride": (1, 2), "dilation": (2, 1), "groups": 2}),
    ((2, 3, 77), (4, 3, 3), {"padding": 2, "stride": 3}),
    ((1, 1, 5, 6, 5), (2, 1, 2, 2, 2), {"padding": 1, "dilation": 2}),
    ((2, 3, 13, 14), (3, 1, 3, 3), {"groups": 3, "padding": 1}),
    ((2, 5, 9, 9), (67, 5, 1, 1), {"stride": 2}),
    # few positions: in three parts, of the channels, and in two, of the features
    ((1, 60, 5, 4), (58, 60, 3, 3), {"padding": 1, "stride": 2}),
]


@pytest.mark.parametrize(("x", "weight", "settings"), CONVOLUTIONS, ids=str)
def test_convolutions(x: tuple, weight: tuple, settings: dict) -> None:
    check(lambda x, w: getattr(F, f"conv{len(weight) - 2}d")(x, w, **settings), made(*x), made(*weight), tolerance=1e-4)


@pytest.mark.parametrize("name", ["SQUARE_TILE", "BROAD_TILE"])
def test_great_tiles(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of products too large for this machine, of sizes that no other test has: plans are kept."""
    tile = getattr(block, name)
    monkeypatch.setattr(block, "choose", lambda *_: tile)
    n = tile.width
    check(lambda a, w, c: F.linear(a, w, c), made(67, n + 1), made(5, n + 1), made(5), tolerance=1e-4, gradients=False)
    check(lambda x, w: F.conv2d(x, w, padding=1), made(2, 3, 11, n // 16), made(5, 3, 3, 3), tolerance=1e-4)


def test_transposed_convolutions() -> None:
    check(
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
        made(2, 5, 7, 6),
        made(5, 3, 3, 3),
        tolerance=1e-4,
    )


LAYERS = {
    "max_pool": lambda x: F.max_pool2d(x, 3, 2, 1), "avg_pool": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (3, 2)), "max_pool dilated": lambda x: F.max_pool2d(x, 2, 1, 1, 3),
    "adaptive max": lambda x: F.adaptive_max_pool2d(x, (4, 5)),
    "avg_pool inside": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "global": lambda x: F.adaptive_avg_pool2d(x, 1),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2.5, mode="bilinear"),
    "batch_norm": lambda x: F.batch_norm(x, None, None, x[0, :, 0, 0], x[1, :, 0, 0], True),
    "layer_norm": lambda x: F.layer_norm(x, (13,), x[0, 0, 0], x[0, 1, 0]),
    "group_norm": lambda x: F.group_norm(x, 3, x[0, :, 0, 0], x[1, :, 0, 0]),
    "instance_norm": lambda x: F.instance_norm(x), "rms_norm": lambda x: F.rms_norm(x, (13,), x[0, 0, 0]),
    "softmax": lambda x: x.softmax(1), "log_softmax": lambda x: x.log_softmax(-1),
    "pad": lambda x: F.pad(x, (2, 3, 1, 2), mode="reflect"), "unfold": lambda x: F.unfold(x, 3, padding=1),
    "gelu": lambda x: F.gelu(x) + F.silu(x) * F.softplus(x),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x[:, :4], 2), "cdist": lambda x: numod.cdist(x[0], x[1], 1.5),
    "cumsum": lambda x: x.cumsum(2) + x.cumsum(1),
    "grid_sample": lambda x: F.grid_sample(x, x.permute(0, 2, 3, 1)[..., :2].tanh()),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_and_their_gradients(name: str) -> None:
    check(LAYERS[name], made(3, 6, 11, 13), tolerance=1e-3)


@pytest.mark.parametrize("depth, width, mask, dropped", [(20, 32, "allowed", 0.2), (100, 128, "causal", 0.0)])
def test_attention_by_tiles(depth: int, width: int, mask: str, dropped: float) -> None:
    heads = made(2, 70, 2, depth), made(2, 90, 2, depth), made(2, 90, 2, width)  # as layers have them
    allowed = numod.tensor(np.arange(70 * 90).reshape(70, 90) % 7 > 1) if mask == "allowed" else None

    def attend(query: numod.Tensor, key: numod.Tensor, value: numod.Tensor) -> numod.Tensor:
        numod.manual_seed(0)
        query, key, value = (tensor.transpose(1, 2) for tensor in (query, key, value))
        moved_mask = allowed if allowed is None else allowed.to(query.device)
        return F.scaled_dot_product_attention(query, key, value, moved_mask, dropped, mask == "causal")

    check(attend, *heads, tolerance=1e-4)


POOLS = [  # windows of which four neighbours lie in one, some, or more than are read at once
    lambda x: F.max_pool2d(x, 3, 2, 1), lambda x: F.max_pool2d(x, 2), lambda x: F.max_pool2d(x, (2, 5), 1, (1, 2)),
    lambda x: F.max_pool2d(x, 2, 3), lambda x: F.max_pool2d(x, 3, (3, 1), 1, 2),
    lambda x: F.adaptive_max_pool2d(x, (4, 30)), lambda x: F.max_pool1d(x[0], 3, 2, 1),
    lambda x: F.max_pool3d(x, (2, 3, 3), (1, 2, 2), (1, 1, 0)),
]  # fmt: skip


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("width", [12, 3])
def test_gradients_of_max_pooling(pool: Callable, width: int) -> None:
    x = made(3, 6, 11, width).round()  # of many the first
    check(pool, x, tolerance=0)
    check(pool, x.double(), tolerance=0)


@pytest.mark.parametrize("n", [5, 100, 1000, 5000])
def test_rows_shared_by_teams(n: int) -> None:
    x, w, b = made(3, n), made(n) * 0.1 + 1, made(n)
    check(lambda x: (x.softmax(1), x.log_softmax(1)), x, tolerance=1e-4)
    check(lambda x, w, b: F.layer_norm(x, (n,), w, b), x, w, b, tolerance=1e-3)
    # fours that begin anywhere
    check(
        lambda x, w, b: (x[0, 1:].softmax(0), F.layer_norm(x[0, 1 : n - 3], (n - 4,), w[4:], b[: n - 4])),
        x,
        w,
        b,
        tolerance=1e-3,
    )
    check(
        lambda x: F.cross_entropy(x, numod.tensor([1, -100, n - 1], device=x.device), label_smoothing=0.1),
        x,
        tolerance=1e-4,
    )
    check(lambda x: (x.max(1)[0], x.logsumexp(1), x.cumsum(1)), x, tolerance=1e-3)


def test_batch_norms() -> None:
    for shape in ((2, 3, 900), (64, 5, 3, 3), (300, 7)):
        channels = made(shape[1]), made(shape[1])
        check(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), made(*shape), *channels, tolerance=1e-3)


LOSSES = {
    "mse": lambda x: F.mse_loss(x, x.detach().flip(0)), "l1": lambda x: F.l1_loss(x, x.detach().flip(0)),
    "huber": lambda x: F.huber_loss(x, x.detach().flip(0)),
    "kl": lambda x: F.kl_div(x.log_softmax(1), x.detach().softmax(1), reduction="batchmean"),
    "bce": lambda x: F.binary_cross_entropy_with_logits(x, x.detach().sigmoid()),
    "nll": lambda x: F.nll_loss(x.log_softmax(1), (x[:, 0] > 0).long()),
    "cross_entropy": lambda x: F.cross_entropy(x, (x[:, 0] > 0).long(), x[0].detach().exp(), label_smoothing=0.1),
    "soft": lambda x: F.cross_entropy(x, x.detach().flip(0).softmax(1)),
    "hinge": lambda x: F.multi_margin_loss(x, (x[:, 0] > 0).long()),
    "cosine": lambda x: F.cosine_similarity(x, x.detach().flip(0)).sum(),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    check(LOSSES[name], made(37, 19), tolerance=1e-4)


def test_ctc() -> None:
    targets, x = numod.tensor([[1, 2], [3, 3]]), made(9, 2, 5)
    check(
        lambda x: F.ctc_loss(x.log_softmax(2), targets.to(x.device), [9, 7], [2, 1], reduction="none"),
        x,
        tolerance=1e-4,
    )


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN", "LSTMCell", "GRUCell"])
def test_recurrent(name: str) -> None:
    numod.manual_seed(0)
    layer = getattr(nn, name)(5, 9)
    moved = copy.deepcopy(layer).cuda()
    x = made(3, 5) if name.endswith("Cell") else made(4, 3, 5)
    actual, expected = moved(x.cuda()), layer(x)
    first = [result[0] if isinstance(result, tuple) else result for result in (actual, expected)]
    same(*first, 1e-5)
    for result in first:
        (result * result).sum().backward()
    for here, there in zip(moved.parameters(), layer.parameters()):
        same(here.grad, there.grad, 1e-4)
