"""Attention and transformers beside PyTorch's: masks, heads, projections, gradients, reprs, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from parity import compare_modules, random, same_error, torch, twins

import numod

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]


def data(t, *shape: int, seed: int = 0):
    return t.tensor(random(*shape, seed=seed), requires_grad=True)


@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"scale": 0.3}, {"mask": "bool"}, {"mask": "float"}], ids=str
)
@pytest.mark.parametrize("lead", [(2, 3), (2,), ()])
def test_scaled_dot_product_attention(options: dict, lead: tuple) -> None:
    options = dict(options)
    kind = options.pop("mask", None)
    mask = np.random.default_rng(9).random((4, 5)) > 0.4
    mask[:, 0] = True

    def call(t, _):
        q, k, v = data(t, *lead, 4, 6), data(t, *lead, 5, 6, seed=1), data(t, *lead, 5, 7, seed=2)
        mask_argument = (
            None if kind is None else t.tensor(mask) if kind == "bool" else t.tensor(np.where(mask, 0.5, -1.0))
        )
        return t.nn.functional.scaled_dot_product_attention(q, k, v, mask_argument, **options), [q, k, v]

    compare_modules((numod.nn.Identity(), torch.nn.Identity()), call)


def test_grouped_queries() -> None:
    def call(t, _):
        q, k, v = data(t, 2, 4, 3, 6), data(t, 2, 2, 5, 6, seed=1), data(t, 2, 2, 5, 6, seed=2)
        return t.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True), [q, k, v]

    compare_modules((numod.nn.Identity(), torch.nn.Identity()), call)


MHA = [
    {},
    {"bias": False},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"kdim": 5, "vdim": 7},
    {"batch_first": True},
    {"add_bias_kv": True, "add_zero_attn": True, "kdim": 5},
]


@pytest.mark.parametrize(
    "options, masks", list(itertools.product(MHA, ("none", "attn", "attn3", "bool", "padding", "both"))), ids=str
)
def test_multihead_attention(options: dict, masks: str) -> None:
    made = twins(lambda n: n.MultiheadAttention(8, 2, **options))
    first = options.get("batch_first", False)

    def call(t, model):
        q = data(t, *((3, 4) if first else (4, 3)), 8)
        k = data(t, *((3, 5) if first else (5, 3)), options.get("kdim", 8), seed=1)
        v = data(t, *((3, 5) if first else (5, 3)), options.get("vdim", 8), seed=2)
        rng = np.random.default_rng(7)
        attn = {
            "attn": rng.standard_normal((4, 5)),
            "both": rng.standard_normal((4, 5)),
            "attn3": rng.standard_normal((6, 4, 5)),
            "bool": rng.random((4, 5)) > 0.7,
        }.get(masks)
        padding = (
            np.array([[False] * 5, [False] * 4 + [True], [False] * 3 + [True] * 2])
            if masks in ("padding", "both")
            else None
        )
        mixed = padding if masks != "both" else np.where(padding, -np.inf, 0.0)
        mask_arguments = {
            "attn_mask": None if attn is None else t.tensor(attn),
            "key_padding_mask": None if padding is None else t.tensor(mixed),
        }
        return model(q, k, v, average_attn_weights=masks != "attn", **mask_arguments), [q, k, v]

    compare_modules(made, call)


def test_self_attention_and_unbatched() -> None:
    made = twins(lambda n: n.MultiheadAttention(8, 2))
    compare_modules(made, lambda t, model: (lambda x: (model(x, x, x, need_weights=False)[0], [x]))(data(t, 4, 3, 8)))
    compare_modules(made, lambda t, model: (lambda x: (model(x, x, x), [x]))(data(t, 4, 8)))


@pytest.mark.parametrize(
    "options", [{}, {"norm_first": True}, {"activation": "gelu", "batch_first": True}, {"bias": False}], ids=str
)
def test_transformer_layers(options: dict) -> None:
    compare_modules(
        twins(lambda n: n.TransformerEncoderLayer(8, 2, 16, dropout=0.0, **options)),
        lambda t, m: (lambda x: (m(x), [x]))(data(t, 4, 3, 8)),
    )
    compare_modules(
        twins(lambda n: n.TransformerDecoderLayer(8, 2, 16, dropout=0.0, **options)),
        lambda t, m: (lambda x, y: (m(x, y), [x, y]))(
            data(t, 4, 3, 8), data(t, *((4, 5) if options.get("batch_first") else (5, 3)), 8, seed=1)
        ),
    )


def test_transformer() -> None:
    made = twins(lambda n: n.Transformer(8, 2, 2, 2, 16, dropout=0.0))

    def call(t, model):
        x, y = data(t, 5, 3, 8), data(t, 4, 3, 8, seed=1)
        mask = t.nn.Transformer.generate_square_subsequent_mask(4, dtype=t.float64)
        return model(
            x,
            y,
            tgt_mask=mask,
            src_key_padding_mask=t.tensor([[False] * 5, [False] * 4 + [True], [False] * 5]),
            tgt_is_causal=True,
        ), [x, y]

    compare_modules(made, call)


def test_a_stack_with_a_mask() -> None:
    made = twins(
        lambda n: n.TransformerEncoder(
            n.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
            2,
            n.LayerNorm(8),
            enable_nested_tensor=False,
        )
    )
    compare_modules(
        made,
        lambda t, m: (lambda x: (m(x, mask=t.nn.Transformer.generate_square_subsequent_mask(4, dtype=t.float64)), [x]))(
            data(t, 3, 4, 8)
        ),
    )


@pytest.mark.parametrize("call", [
    lambda t: t.nn.MultiheadAttention(7, 2), lambda t: t.nn.MultiheadAttention(0, 2), lambda t: t.nn.MultiheadAttention(8, 2)(t.zeros(4, 3, 6), t.zeros(4, 3, 6), t.zeros(4, 3, 6)), lambda t: t.nn.TransformerEncoderLayer(8, 2, activation="other"),
    lambda t: t.nn.Transformer(8, 2)(t.zeros(4, 3, 8), t.zeros(4, 2, 8)), lambda t: t.nn.MultiheadAttention(8, 2)(*[t.zeros(4, 3, 8)] * 3, attn_mask=t.zeros(3, 3)),
])  # fmt: skip
def test_errors(call) -> None:
    same_error(call)
