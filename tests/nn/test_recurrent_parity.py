"""Recurrent layers and cells beside PyTorch's: repr, parameters, outputs, states, gradients, packed sequences,
errors.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from parity import compare_modules, random, same_error, torch, twins

import numod
from numod import nn

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:dropout option"),
    pytest.mark.filterwarnings("ignore:.*LSTM with projections"),
]

LAYERS = [
    ("LSTM", {}),
    ("LSTM", {"num_layers": 2, "bidirectional": True}),
    ("LSTM", {"proj_size": 2}),
    ("LSTM", {"num_layers": 2, "bidirectional": True, "proj_size": 3, "bias": False}),
    ("GRU", {}),
    ("GRU", {"num_layers": 2, "bidirectional": True, "bias": False}),
    ("RNN", {}),
    ("RNN", {"nonlinearity": "relu", "num_layers": 3}),
    ("RNN", {"bidirectional": True}),
    ("GRU", {"batch_first": True}),
    ("LSTM", {"batch_first": True, "num_layers": 2}),
]


def data(t, *shape: int, seed: int = 0):
    return t.tensor(random(*shape, seed=seed), requires_grad=True)


@pytest.mark.parametrize("name, options", LAYERS, ids=str)
@pytest.mark.parametrize("with_state", [False, True])
def test_layers(name: str, options: dict, with_state: bool) -> None:
    made = twins(lambda nn: getattr(nn, name)(4, 5, **options))
    directions, count = 2 if options.get("bidirectional") else 1, options.get("num_layers", 1)

    def call(t, model):
        x = data(t, 6, 3, 4)
        if not with_state:
            return model(x), [x]
        steps = 6 if options.get("batch_first") else 3
        states = [
            data(t, count * directions, steps, size, seed=k + 1)
            for k, size in enumerate([options.get("proj_size") or 5, *([5] if name == "LSTM" else [])])
        ]
        return model(x, tuple(states) if name == "LSTM" else states[0]), [x, *states]

    compare_modules(made, call)
    compare_modules(made, lambda t, model: (lambda x: (model(x), [x]))(data(t, 6, 4)))


@pytest.mark.parametrize("name, options", [layer for layer in LAYERS if not layer[1].get("batch_first")], ids=str)
@pytest.mark.parametrize("ordered", [True, False])
def test_packed(name: str, options: dict, ordered: bool) -> None:
    lengths = [5, 3, 3, 1] if ordered else [3, 1, 5, 3]

    def call(t, model):
        rnn, x = t.nn.utils.rnn, data(t, 5, 4, 4)
        packed, last = model(rnn.pack_padded_sequence(x, t.tensor(lengths), enforce_sorted=ordered))
        padded, sizes = rnn.pad_packed_sequence(packed)
        assert sizes.tolist() == lengths
        return (packed.data, padded, last), [x]

    compare_modules(twins(lambda nn: getattr(nn, name)(4, 5, **options)), call)


@pytest.mark.parametrize(
    "name, options",
    [
        ("LSTMCell", {}),
        ("GRUCell", {}),
        ("RNNCell", {}),
        ("RNNCell", {"nonlinearity": "relu"}),
        ("GRUCell", {"bias": False}),
    ],
    ids=str,
)
def test_cells(name: str, options: dict) -> None:
    made = twins(lambda nn: getattr(nn, name)(4, 5, **options))

    def call(t, model):
        x, h, c = data(t, 3, 4), data(t, 3, 5, seed=1), data(t, 3, 5, seed=2)
        return model(x, (h, c) if name == "LSTMCell" else h), [x, h, *([c] if name == "LSTMCell" else [])]

    compare_modules(made, call)
    compare_modules(made, lambda t, model: (lambda x: (model(x), [x]))(data(t, 4)))


def test_padding_and_packing() -> None:
    for side, first in itertools.product(("right", "left"), (False, True)):
        results = [
            t.nn.utils.rnn.pad_sequence([t.ones(2, 3), t.ones(4, 3), t.ones(1, 3)], first, -1.0, side).numpy()
            for t in (numod, torch)
        ]
        np.testing.assert_array_equal(*results)
    for t in (numod, torch):
        parts = [t.arange(3), t.arange(5), t.arange(1)]
        packed = t.nn.utils.rnn.pack_sequence(parts, enforce_sorted=False)
        assert (
            packed.data.tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 4]
            and packed.batch_sizes.tolist() == [3, 2, 2, 1, 1]
            and packed.sorted_indices.tolist() == [1, 0, 2]
        )
        assert [tensor.tolist() for tensor in t.nn.utils.rnn.unpack_sequence(packed)] == [
            [0, 1, 2],
            [0, 1, 2, 3, 4],
            [0],
        ]
        padded, lengths = t.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True, padding_value=9, total_length=6)
        assert padded.view(-1).tolist()[:6] == [0, 1, 2, 9, 9, 9] and lengths.tolist() == [3, 5, 1]


@pytest.mark.parametrize("call", [
    lambda t: t.nn.LSTM(4, 0), lambda t: t.nn.LSTM(4, 5, 0), lambda t: t.nn.LSTM(4, 5, dropout=2), lambda t: t.nn.LSTM(4, 5, proj_size=5), lambda t: t.nn.RNN(4, 5, nonlinearity="other"), lambda t: t.nn.GRU(4, 5)(t.zeros(2, 3, 6)),
    lambda t: t.nn.GRU(4, 5)(t.zeros(2, 3, 4), t.zeros(1, 2, 5)), lambda t: t.nn.LSTM(4, 5)(t.zeros(4)), lambda t: t.nn.LSTMCell(4, 5)(t.zeros(2, 3)), lambda t: t.nn.utils.rnn.pack_padded_sequence(t.zeros(3, 2, 1), [1, 2]),
    lambda t: t.nn.utils.rnn.pack_padded_sequence(t.zeros(3, 2, 1), [2, 0]), lambda t: t.nn.utils.rnn.pad_sequence([t.zeros(2)], padding_side="other"), lambda t: t.nn.LSTM(4, 5)(t.zeros(2, 3, 4), (t.zeros(3, 5), t.zeros(3, 5))),
])  # fmt: skip
def test_errors(call) -> None:
    same_error(call)


@pytest.mark.parametrize("name", ["LSTMCell", "GRUCell"])
def test_second_order(name: str) -> None:
    cell = getattr(nn, name)(2, 3).double()
    numod.manual_seed(0)
    inputs = [
        numod.randn(2, size, dtype=numod.float64, requires_grad=True)
        for size in ((2, 3, 3) if name == "LSTMCell" else (2, 3))
    ]
    function = (lambda x, h, c: cell(x, (h, c))) if name == "LSTMCell" else (lambda x, h: cell(x, h))
    assert numod.autograd.gradcheck(function, inputs) and numod.autograd.gradgradcheck(function, inputs)
