"""Functions of the top namespace: each is that of `nn.functional` with its arguments in another order."""

from __future__ import annotations

import pytest

import numod
import numod.nn.functional as F

numod.manual_seed(0)
X, ROW, Y = numod.randn(3, 4), numod.rand(4), numod.rand(3, 4)
IMAGE = numod.randn(1, 2, 5, 5)
KERNEL = numod.randn(3, 2, 3, 3)
TABLE = numod.randn(5, 3)
INDEX = numod.tensor([1, 2, 4])
LOGS = numod.randn(6, 2, 4).log_softmax(-1)
TARGETS = numod.tensor([[1, 2], [2, 3]])
LENGTHS = numod.tensor([6, 5])
SIZES = numod.tensor([2, 1])


@pytest.mark.parametrize("mine, expected", [
    (lambda: numod.batch_norm(X, ROW, ROW, ROW, ROW, False, 0.1, 1e-5, True), lambda: F.batch_norm(X, ROW, ROW, ROW, ROW)), (lambda: numod.instance_norm(IMAGE, None, None, None, None, True, 0.1, 1e-5, True), lambda: F.instance_norm(IMAGE)),
    (lambda: numod.embedding(TABLE, INDEX), lambda: TABLE[INDEX]), (lambda: numod.embedding_bag(TABLE, INDEX, numod.tensor([0, 2]), mode=1)[0], lambda: numod.stack([TABLE[INDEX[:2]].mean(0), TABLE[4]])),
    (lambda: numod.binary_cross_entropy_with_logits(X, Y, reduction=1), lambda: F.binary_cross_entropy_with_logits(X, Y)), (lambda: numod.binary_cross_entropy_with_logits(X, Y), lambda: F.binary_cross_entropy_with_logits(X, Y, reduction="none")),
    (lambda: numod.kl_div(X, Y, 2), lambda: F.kl_div(X, Y, reduction="sum")), (lambda: numod.cosine_embedding_loss(X, Y, numod.tensor([1, -1, 1]), reduction=2), lambda: F.cosine_embedding_loss(X, Y, numod.tensor([1, -1, 1]), reduction="sum")),
    (lambda: numod.triplet_margin_loss(X, Y, -X), lambda: F.triplet_margin_loss(X, Y, -X, reduction="none")), (lambda: numod.ctc_loss(LOGS, TARGETS, LENGTHS, SIZES, 0, 1), lambda: F.ctc_loss(LOGS, TARGETS, LENGTHS, SIZES)),
    (lambda: numod.constant_pad_nd(X, (1, 2), 5.0), lambda: F.pad(X, (1, 2), value=5.0)), (lambda: numod.grid_sampler(IMAGE, IMAGE[:, :2, :3, :2].permute(0, 2, 3, 1)[..., :2], 1, 1, False), lambda: F.grid_sample(IMAGE, IMAGE[:, :2, :3, :2].permute(0, 2, 3, 1)[..., :2], "nearest", "border", False)),
    (lambda: numod.affine_grid_generator(numod.ones(1, 2, 3), (1, 1, 2, 2), False), lambda: F.affine_grid(numod.ones(1, 2, 3), (1, 1, 2, 2), False)),
    (lambda: numod.convolution(IMAGE, KERNEL, None, (2, 2), (1, 1), (1, 1), False, (0, 0), 1), lambda: F.conv2d(IMAGE, KERNEL, None, 2, 1)), (lambda: numod.convolution(IMAGE, KERNEL.transpose(0, 1), None, (2, 2), (1, 1), (1, 1), True, (1, 1), 1), lambda: F.conv_transpose2d(IMAGE, KERNEL.transpose(0, 1), None, 2, 1, 1)),
    (lambda: numod.adaptive_max_pool1d(X[None], 2)[0], lambda: F.adaptive_max_pool1d(X[None], 2)), (lambda: numod.max_pool1d_with_indices(X[None], 2)[1], lambda: F.max_pool1d(X[None], 2, return_indices=True)[1]),
    (lambda: numod.norm_except_dim(X, 2, 1), lambda: X.norm(dim=0, keepdim=True)), (lambda: numod.norm_except_dim(X, 2, -1), lambda: X.norm()), (lambda: numod.dropout_(X.clone(), 0.0, True), lambda: X), (lambda: numod.feature_dropout(IMAGE, 0.0, True), lambda: IMAGE),
    (lambda: numod.rrelu_(X.clone()), lambda: F.rrelu(X)), (lambda: numod.alpha_dropout_(X.clone(), 0.5, False), lambda: X), (lambda: numod.feature_alpha_dropout_(X.clone(), 0.5, False), lambda: X), (lambda: numod.feature_dropout_(X.clone(), 0.5, False), lambda: X),
])  # fmt: skip
def test_same_as_in_functional(mine, expected) -> None:
    numod.testing.assert_close(mine(), expected())


def test_channels_are_dropped_whole() -> None:
    result = numod.feature_dropout(numod.ones(8, 8, 3), 0.5, True)
    assert set(result.sum(-1).flatten().tolist()) == {0.0, 6.0}


@pytest.mark.parametrize(
    "cell, name",
    [
        (numod.nn.LSTMCell, "lstm_cell"),
        (numod.nn.GRUCell, "gru_cell"),
        (numod.nn.RNNCell, "rnn_tanh_cell"),
        (lambda *sizes: numod.nn.RNNCell(*sizes, nonlinearity="relu"), "rnn_relu_cell"),
    ],
)
def test_cells(cell, name: str) -> None:
    layer, h, c = cell(4, 2), numod.randn(3, 2), numod.randn(3, 2)
    state = (h, c) if name == "lstm_cell" else h
    numod.testing.assert_close(
        getattr(numod, name)(X, state, layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh), layer(X, state)
    )
