"""Layers with kernels of their own against plain NumPy, and their gradients by finite differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from selection import second_orders

import numod
from numod import nn
from numod.autograd import gradcheck, gradgradcheck
from numod.nn import functional as F

pytestmark = pytest.mark.on_cuda(simulator=False)


def normal(*shape: int, seed: int = 0, gradient: bool = True) -> numod.Tensor:
    return numod.tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=gradient)


def convolved(x: np.ndarray, w: np.ndarray, stride: int, padding: int, dilation: int, groups: int) -> np.ndarray:
    """The definition, an output element at a time."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    reach = [dilation * (k - 1) + 1 for k in w.shape[2:]]
    sizes = [(n - r) // stride + 1 for n, r in zip(x.shape[2:], reach)]
    out, per = np.zeros((x.shape[0], w.shape[0], *sizes)), w.shape[0] // groups
    for n, o, i, j in itertools.product(*map(range, out.shape)):
        first = o // per * w.shape[1]
        patch = x[
            n,
            first : first + w.shape[1],
            i * stride : i * stride + reach[0] : dilation,
            j * stride : j * stride + reach[1] : dilation,
        ]
        out[n, o, i, j] = (patch * w[o]).sum()
    return out


@pytest.mark.parametrize(
    "stride, padding, dilation, groups, channels", [(1, 0, 1, 1, 3), (2, 1, 1, 1, 3), (1, 2, 2, 2, 4), (2, 1, 1, 4, 4)]
)
def test_convolution(stride: int, padding: int, dilation: int, groups: int, channels: int) -> None:
    x, w = normal(2, channels, 7, 6), normal(4, channels // groups, 3, 2, seed=1)
    result = F.conv2d(x, w, None, stride, padding, dilation, groups)
    np.testing.assert_allclose(
        result.detach().numpy(),
        convolved(x.detach().numpy(), w.detach().numpy(), stride, padding, dilation, groups),
        atol=1e-12,
    )


GRADIENTS = {
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, 2, 1), ((1, 2, 4, 5), (3, 2, 3, 2), (3,))),
    "depthwise": (lambda x, w: F.conv1d(x, w, groups=2), ((2, 2, 5), (2, 1, 3))),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
        ((1, 2, 3, 2), (2, 2, 3, 3))), "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), ((1, 2, 5, 4),)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), ((1, 2, 4, 4),)),
    "adaptive": (lambda x: F.adaptive_avg_pool1d(x, 3), ((2, 2, 7),)),
    "unfold": (lambda x: F.unfold(x, 2, padding=1), ((1, 2, 3, 3),)),
    "interpolate": (lambda x: F.interpolate(x, size=(5, 3), mode="bicubic"), ((1, 1, 3, 4),)),
    "reflect": (lambda x: F.pad(x, (1, 2), "reflect"), ((1, 2, 4),)),
    "bilinear": (F.bilinear, ((2, 3), (2, 2), (2, 3, 2))),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        ((2, 3, 4), (2, 3, 4), (2, 3, 4))),
        "grid_sample": (lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False), ((1, 2, 3, 3), (1, 2, 2, 2))),
    "embedding_bag": (lambda w: F.embedding_bag(numod.tensor([0, 2, 1, 2]), w, numod.tensor([0, 3])), ((3, 2),)),
    "einsum": (lambda a, b: numod.einsum("bij,bkj->ik", a, b), ((2, 3, 4), (2, 2, 4))),
    "triplet": (F.triplet_margin_loss, ((3, 4), (3, 4), (3, 4))),
    "solve": (lambda a, b: numod.linalg.solve(a + 4 * numod.eye(3, dtype=a.dtype), b), ((3, 3), (3, 2))),
}  # fmt: skip


@pytest.mark.parametrize("name, twice", second_orders(3, GRADIENTS, others=pytest.mark.fuzz))
def test_gradients(name: str, twice: bool) -> None:
    function, shapes = GRADIENTS[name]
    inputs = tuple(normal(*shape, seed=k) for k, shape in enumerate(shapes))
    assert gradcheck(function, inputs)
    if twice and name not in ("max_pool2d", "triplet", "grid_sample"):
        assert gradgradcheck(function, inputs)


def test_an_lstm_step_by_step() -> None:
    numod.manual_seed(0)
    cell, x = nn.LSTMCell(3, 2).double(), normal(4, 3, gradient=False).numpy()
    w = cell.weight_ih.detach().numpy()
    u = cell.weight_hh.detach().numpy()
    b = (cell.bias_ih + cell.bias_hh).detach().numpy()
    h, c = normal(4, 2, seed=1, gradient=False).numpy(), normal(4, 2, seed=2, gradient=False).numpy()
    i, f, g, o = np.split(x @ w.T + h @ u.T + b, 4, axis=1)
    sigmoid = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    expected_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    found_h, found_c = cell(numod.tensor(x), (numod.tensor(h), numod.tensor(c)))
    np.testing.assert_allclose(found_c.detach().numpy(), expected_c, atol=1e-12)
    np.testing.assert_allclose(found_h.detach().numpy(), sigmoid(o) * np.tanh(expected_c), atol=1e-12)


def test_ctc_sums_over_all_alignments() -> None:
    x = normal(4, 1, 3).log_softmax(2)
    attention_weights, target = np.exp(x.detach().numpy()[:, 0]), [1, 2]
    collapse = lambda path: [label for label, _ in itertools.groupby(path) if label != 0]  # noqa: E731
    total = sum(
        np.prod([attention_weights[step, label] for step, label in enumerate(path)])
        for path in itertools.product(range(3), repeat=4)
        if collapse(path) == target
    )
    loss = F.ctc_loss(x, numod.tensor([target]), [4], [2], reduction="sum")
    assert loss.item() == pytest.approx(-np.log(total))


def test_a_written_result_of_a_norm_does_not_harm_its_gradient() -> None:
    x = normal(4, 3, 2)
    out = F.batch_norm(x, None, None, training=True)
    out += 1.0  # as residual networks do
    (out * out.detach()).sum().backward()
    assert x.grad.isfinite().all()


def test_optimizers_lower_a_loss() -> None:
    for name in (
        "SGD",
        "Adam",
        "AdamW",
        "RMSprop",
        "Adagrad",
        "Adadelta",
        "Adamax",
        "NAdam",
        "RAdam",
        "Rprop",
        "ASGD",
        "Adafactor",
        "Muon",
        "LBFGS",
    ):
        weight = nn.Parameter(numod.tensor([[1.0, -2.0], [0.5, 3.0]]))
        optimizer = getattr(numod.optim, name)([weight], lr=0.05)

        def closure(weight=weight, optimizer=optimizer) -> numod.Tensor:
            optimizer.zero_grad()
            loss = (weight**2).sum()
            loss.backward()
            return loss

        first = closure().item()
        for _ in range(10):
            optimizer.step(closure)
        assert (weight**2).sum().item() < first, name


def test_schedules_and_distributions() -> None:
    optimizer = numod.optim.SGD([nn.Parameter(numod.zeros(1))], lr=1.0)
    schedule = numod.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            numod.optim.lr_scheduler.LinearLR(optimizer, 0.5, 1.0, 2),
            numod.optim.lr_scheduler.ExponentialLR(optimizer, 0.5),
        ],
        [2],
    )
    rates = []
    for _ in range(5):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates == [0.5, 0.75, 1.0, 0.5, 0.25]
    d = numod.distributions
    x = numod.tensor([0.3, 2.0])
    np.testing.assert_allclose(
        d.Normal(1.0, 2.0).log_prob(x).numpy(), -((x.numpy() - 1) ** 2) / 8 - np.log(2 * np.sqrt(2 * np.pi)), rtol=1e-6
    )
    assert d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 1.0)).item() == pytest.approx(0.5)
    assert d.Categorical(numod.tensor([0.0, 1.0])).sample((5,)).tolist() == [1] * 5


@pytest.mark.parametrize("need_weights", [False, True])
def test_attention_projects_to_the_size_of_its_weight(need_weights: bool) -> None:
    numod.manual_seed(0)
    x, inner, bias, outer = numod.randn(5, 2, 8), numod.randn(24, 8), numod.randn(24), numod.randn(8, 8)
    whole, part = (
        F.multi_head_attention_forward(
            x[:1], x, x, 8, 2, inner, bias, None, None, False, 0.0, weight, None, need_weights=need_weights
        )[0]
        for weight in (outer, outer[:3])
    )
    assert part.shape == (1, 2, 3) and np.allclose(part, whole[..., :3], atol=1e-5)


def test_spmm_of_dense_matrices_is_their_product() -> None:
    x, y = numod.randn(3, 4), numod.randn(4, 2)
    assert np.allclose(numod.spmm(x, y), x.numpy() @ y.numpy(), atol=1e-6)
