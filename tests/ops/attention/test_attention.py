"""Attention by blocks of keys against NumPy, one row at a time: masks, steps, groups, dropout, gradients to second
order, memory, extreme scores.
"""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from selection import second_orders

import numod
from numod.autograd import gradcheck, gradgradcheck
from numod.nn.functional import scaled_dot_product_attention as attention
from numod.ops.attention import attention as op

pytestmark = pytest.mark.on_cuda(simulator=False)


@pytest.fixture(autouse=True)
def by_blocks(monkeypatch):
    """However small, and however few the queries."""
    monkeypatch.setattr(op, "_COMPOSED_WORK", 1)
    monkeypatch.setattr(op, "_COMPOSED_QUERIES", 0)


def data(*shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def tensors(*shapes, dtype=np.float64):
    return [numod.tensor(data(*shape, seed=k, dtype=dtype)) for k, shape in enumerate(shapes)]


def reference(q, k, v, mask=None, causal=False, scale=None):
    """Row by row, in float64; `mask` is added."""
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    q, k, v = (np.broadcast_to(x.astype(np.float64), lead + x.shape[-2:]) for x in (q, k, v))
    mask = np.broadcast_to(0.0 if mask is None else mask, (*lead, q.shape[-2], k.shape[-2]))
    out = np.zeros((*lead, q.shape[-2], v.shape[-1]))
    for index in np.ndindex(*lead, q.shape[-2]):
        head, row = index[:-1], index[-1]
        visible = row + 1 if causal else k.shape[-2]
        scores = (k[head] @ q[index] * (1 / math.sqrt(q.shape[-1]) if scale is None else scale) + mask[index])[:visible]
        if np.isneginf(scores).all():
            continue
        attention_weights = np.exp(scores - scores.max())
        out[index] = attention_weights @ v[head][:visible] / attention_weights.sum()
    return out


SIZES = [(1, 1, 1, 1), (5, 7, 3, 2), (33, 200, 8, 50), (260, 47, 17, 16)]


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 2e-6), (np.float64, 1e-13)])
@pytest.mark.parametrize("rows, count, depth, width", SIZES)
def test_values(rows, count, depth, width, dtype, tolerance):
    q, k, v = inputs = [
        data(2, n, m, seed=s, dtype=dtype) for s, (n, m) in enumerate([(rows, depth), (count, depth), (count, width)])
    ]
    added = data(2, rows, count, dtype=dtype)
    added[:, :, ::3] = -np.inf
    added[:, 0] = -np.inf
    allowed = added > 0
    wrapped = [numod.tensor(x) for x in inputs]
    for options, expected in (
        ({}, reference(q, k, v)), ({"is_causal": True}, reference(q, k, v, causal=True)), ({"scale": -0.3}, reference(q, k, v, scale=-0.3)),
        ({"attn_mask": numod.tensor(added)}, reference(q, k, v, added)), ({"attn_mask": numod.tensor(allowed[:1])}, reference(q, k, v, np.where(allowed[:1], 0.0, -np.inf))),
        ({"attn_mask": numod.tensor(added[0, :1])}, reference(q, k, v, added[0, :1])),
    ):  # fmt: skip
        results = attention(*wrapped, **options)
        assert results.dtype is wrapped[0].dtype
        np.testing.assert_allclose(results.numpy(), expected, atol=tolerance * max(1, np.abs(expected).max()))


def test_any_steps():
    q, k, v = (data(20, 3, 2, 6, seed=s) for s in range(3))
    wrapped = [numod.tensor(x) for x in (q, k, v)]
    results = attention(*(x.permute(2, 1, 0, 3) for x in wrapped))
    np.testing.assert_allclose(results.numpy(), reference(*(x.transpose(2, 1, 0, 3) for x in (q, k, v))), atol=1e-13)
    q, k, v = (x[:, 0, 0] for x in wrapped)
    np.testing.assert_allclose(
        attention(q.T, k.T, v.T[:, ::2]).numpy(), reference(q.T.numpy(), k.T.numpy(), v.T[:, ::2].numpy()), atol=1e-13
    )


def test_leading_dimensions_broadcast():
    q, k, v, mask = tensors((2, 1, 3, 1, 4, 5), (3, 1, 6, 5), (2, 3, 1, 2, 6, 5), (2, 1, 6))
    results = attention(q, k, v, mask)
    assert results.shape == (2, 3, 3, 2, 4, 5)
    np.testing.assert_allclose(results.numpy(), reference(*(x.numpy() for x in (q, k, v, mask))), atol=1e-13)


def test_grouped_queries():
    q, k, v, mask = tensors((2, 6, 5, 4), (2, 3, 7, 4), (2, 1, 7, 4), (6, 5, 7))
    expected = reference(q.numpy(), np.repeat(k.numpy(), 2, 1), v.numpy(), mask.numpy())
    np.testing.assert_allclose(attention(q, k, v, mask, enable_gqa=True).numpy(), expected, atol=1e-13)
    with pytest.raises(RuntimeError, match="must divide the number of heads"):
        attention(q, k[:, :2][:, [0, 1, 1, 0]], v, enable_gqa=True)


CASES = {
    "plain": ({}, None), "causal": ({"is_causal": True}, None), "scaled": ({"scale": 0.7}, None),
    "added": ({}, np.where(data(6, 5, seed=9) > 1, -np.inf, data(6, 5))), "bool": ({}, data(2, 1, 6, 5) > 0),
    "nobody": ({}, np.arange(6)[:, None] > np.arange(5)),
}  # fmt: skip


@pytest.mark.parametrize("name, twice", second_orders(3, CASES, others=pytest.mark.fuzz))
def test_gradients(name, twice):
    options, mask = CASES[name]
    options = options if mask is None else {**options, "attn_mask": numod.tensor(mask)}
    inputs = [tensor.requires_grad_() for tensor in tensors((2, 2, 6, 3), (2, 2, 5, 3), (2, 1, 5, 4))]
    assert gradcheck(lambda *x: attention(*x, **options), inputs)
    assert not twice or gradgradcheck(lambda *x: attention(*x, **options), inputs)


@pytest.mark.cpu_only
def test_gradients_across_blocks(monkeypatch):
    """Sizes beyond a block, by the gradient of the composed form."""
    q, k, v, g = tensors((1, 2, 300, 18), (1, 2, 250, 18), (1, 2, 250, 20), (1, 2, 300, 20))
    for options in ({}, {"is_causal": True}, {"attn_mask": numod.tensor(data(300, 250) > 0)}):
        results = []
        for blocks in (True, False):
            monkeypatch.setattr(op, "suits", lambda *_, blocks=blocks: blocks)
            inputs = [x.clone().requires_grad_() for x in (q, k, v)]
            results.append(numod.autograd.grad(attention(*inputs, **options), inputs, g))
        for actual, composed in zip(*results):
            np.testing.assert_allclose(actual.numpy(), composed.numpy(), atol=1e-12)


def test_a_mask_may_have_a_gradient():
    assert gradcheck(attention, [tensor.requires_grad_() for tensor in tensors((4, 3), (5, 3), (5, 2), (4, 5))])


def test_dropout_is_that_of_the_composed_form(monkeypatch):
    q, k, v = [tensor.requires_grad_() for tensor in tensors((2, 2, 6, 3), (2, 2, 5, 3), (2, 2, 5, 4))]
    results = []
    for limit in (1, 1 << 60):
        monkeypatch.setattr(op, "_COMPOSED_WORK", limit)
        numod.manual_seed(3)
        out = attention(q, k, v, dropout_p=0.4)
        results.append([out, *numod.autograd.grad((out * out).sum(), (q, k, v), create_graph=True)])
        results[-1] += numod.autograd.grad(sum((x * x).sum() for x in results[-1][1:]), (q, k, v))
        numod.manual_seed(3)
        out = attention(q, k, v, dropout_p=0.4)
        results[-1] += numod.autograd.grad((out * out).sum(), (q, k, v))
    for actual, composed in zip(*results):
        np.testing.assert_allclose(actual.detach().numpy(), composed.detach().numpy(), rtol=1e-10, atol=1e-12)
    assert (attention(q, k, v, dropout_p=1.0) == 0).all()


def test_compiled():
    q, k, v = tensors((2, 2, 6, 3), (2, 2, 5, 3), (2, 2, 5, 4))

    def step(q, k, v):
        inputs = [x.detach().requires_grad_() for x in (q, k, v)]
        return numod.autograd.grad(attention(*inputs, dropout_p=0.3).sin().sum(), inputs)

    compiled = numod.compile(step)
    for _ in range(3):
        numod.manual_seed(1)
        expected = step(q, k, v)
        numod.manual_seed(1)
        for actual, eager in zip(compiled(q, k, v), expected):
            np.testing.assert_allclose(actual.numpy(), eager.numpy(), atol=1e-13)


def test_extreme_scores():
    q = numod.tensor([[1000.0], [-1000.0], [3e38]])
    v = numod.tensor([[1.0], [2.0]])
    assert attention(q, numod.tensor([[1.0], [-1.0]]), v).tolist() == [[1.0], [2.0], [1.0]]
    assert attention(q, numod.tensor([[math.nan], [1.0]]), v).isnan().all()
    assert attention(numod.tensor([[math.nan], [1.0]]), v, v).isnan().tolist() == [[True], [False]]


def test_nan_of_any_bits():
    q, k = numod.zeros(1, 1, 3, 8), numod.zeros(1, 1, 40, 8)
    q[0, 0, 1] = numod.tensor(-1, dtype=numod.int32).view(numod.float32)
    results = attention(q, k, numod.ones(1, 1, 40, 8))
    assert results.isnan()[0, 0, :, 0].tolist() == [False, True, False]


def test_half_precision():
    q, k, v = (tensor.to(numod.bfloat16) for tensor in tensors((2, 9, 4), (2, 8, 4), (2, 8, 4)))
    results = attention(q, k, v)
    assert results.dtype is numod.bfloat16
    np.testing.assert_allclose(results.float().numpy(), reference(*(x.double().numpy() for x in (q, k, v))), atol=0.02)


def test_empty():
    assert attention(numod.zeros(2, 0, 3), numod.zeros(2, 4, 3), numod.zeros(2, 4, 3)).shape == (2, 0, 3)
    assert (
        attention(numod.zeros(2, 3, 4), numod.zeros(2, 0, 4), numod.zeros(2, 0, 5)).tolist()
        == numod.zeros(2, 3, 5).tolist()
    )


@pytest.mark.parametrize("causal", [False, True])
def test_memory(causal):
    """Far from the 16 MB that all scores would take, forward and backward."""
    q, k, v = [tensor.requires_grad_() for tensor in tensors((2048, 8), (2048, 8), (2048, 8), dtype=np.float32)]
    attention(q, k, v, is_causal=causal).sum().backward()  # compile
    tracemalloc.start()
    attention(q, k, v, is_causal=causal).sum().backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6


@pytest.mark.cpu_only
def test_errors():
    q = numod.zeros(2, 4, 3)
    for call, message in {
        lambda: attention(
            q, q, q, numod.ones(4, 4, dtype=numod.bool), is_causal=True
        ): "Explicit attn_mask should not be set when is_causal=True",
        lambda: attention(q[0, 0], q, q): "at least 2 dimensional",
        lambda: attention(q, q.double(), q): "same dtype",
        lambda: attention(q, q, q, numod.ones(4, 4, dtype=numod.int64)): "Expected attn_mask dtype to be bool or float",
        lambda: attention(q, q, q, dropout_p=1.5): "dropout probability has to be between 0 and 1",
        lambda: attention(q, q[:, :, :2], q): "sizes differ",
        lambda: attention(q, q[:, :2], q): "sizes differ",
        lambda: attention(q, q, q, numod.zeros(3, 4)): "must match",
    }.items():
        with pytest.raises(RuntimeError, match=message):
            call()


@pytest.mark.parametrize("masked, causal", [(False, False), (True, False), (False, True)])
def test_few_queries_of_many_keys(monkeypatch, masked, causal):
    q, k, v = [tensor.requires_grad_() for tensor in tensors((2, 2, 3, 8), (2, 2, 50, 8), (2, 2, 50, 4))]
    mask = numod.from_numpy(data(3, 50, seed=9) > 0) if masked else None
    results = []
    for few in (0, 4):
        monkeypatch.setattr(op, "_COMPOSED_QUERIES", few)
        out = attention(q, k, v, mask, is_causal=causal)
        results.append([out, *numod.autograd.grad((out * out).sum(), (q, k, v))])
    for blocked, composed in zip(*results):
        np.testing.assert_allclose(blocked.detach().numpy(), composed.detach().numpy(), rtol=1e-10, atol=1e-12)
