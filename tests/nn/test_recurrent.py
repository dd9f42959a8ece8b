"""Recurrent layers, run by one kernel, beside the same steps in NumPy; gradients by finite differences; compiled and
eager.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest
from selection import diagonals, pairwise

import numod
from numod import nn
from numod.autograd import gradcheck, gradgradcheck
from numod.nn.recurrent import run_direction
from numod.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence, unpack_sequence
from numod.ops.sequence import rnn_layer

pytestmark = pytest.mark.on_cuda(simulator=False)

LAYERS = {"LSTM": {}, "GRU": {}, "RNN": {}, "RNN relu": {"nonlinearity": "relu"}}


def made(name: str, **options) -> nn.Module:
    numod.manual_seed(0)
    return getattr(nn, name.split()[0])(3, 2, **LAYERS[name], **options).double()


def step_by_numpy(
    name: str, x: np.ndarray, state: list, w: np.ndarray, u: np.ndarray, b: np.ndarray, d: np.ndarray
) -> list:
    """The next state (h, or h and c) of one sequence."""
    sigmoid = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    left, right = x @ w.T + b, state[0] @ u.T + d
    if name == "LSTM":
        i, f, g, o = np.split(left + right, 4)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        return [sigmoid(o) * np.tanh(c), c]
    if name == "GRU":
        (x_r, x_z, x_n), (y_r, y_z, y_n) = np.split(left, 3), np.split(right, 3)
        z = sigmoid(x_z + y_z)
        return [(1 - z) * np.tanh(x_n + sigmoid(x_r + y_r) * y_n) + z * state[0]]
    return [np.maximum(left + right, 0) if "relu" in name else np.tanh(left + right)]


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("lengths", [(4, 4, 4), (4, 2, 1)], ids=["equal", "packed"])
def test_both_directions_by_numpy(name: str, lengths: tuple) -> None:
    layer, states = made(name, bidirectional=True), 2 if name == "LSTM" else 1
    x, starts = numod.randn(4, 3, 3).double(), [numod.randn(2, 3, 2).double() for _ in range(states)]
    with numod.no_grad():
        starting_state = tuple(starts) if states == 2 else starts[0]
        result, last = layer(x if min(lengths) == 4 else pack_padded_sequence(x, lengths), starting_state)
        result = result if min(lengths) == 4 else pad_packed_sequence(result)[0]
    last = last if states == 2 else (last,)
    for direction, suffix in enumerate(("_l0", "_l0_reverse")):
        weights = [
            getattr(layer, name + suffix).detach().numpy() for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        ]
        for k, length in enumerate(lengths):
            state = [start[direction, k].numpy() for start in starts]
            for t in range(length)[:: -1 if direction else 1]:
                state = step_by_numpy(name, x[t, k].numpy(), state, *weights)
                np.testing.assert_allclose(
                    result[t, k, 2 * direction : 2 * direction + 2].numpy(), state[0], atol=1e-12
                )
            for mine, expected in zip(last, state):
                np.testing.assert_allclose(mine[direction, k].numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("name, packed", diagonals(list(LAYERS), [False, True], 2, others=pytest.mark.fuzz))
def test_gradients_to_second_order(name: str, packed: bool) -> None:
    layer, states = made(name, bidirectional=packed), 2 if name == "LSTM" else 1
    count = 2 if packed else 1

    def run(x: numod.Tensor, *args: numod.Tensor) -> tuple:
        weights, starts = args[:-states], args[-states:]
        shown = pack_padded_sequence(x, (3, 1)) if packed else x
        result, last = numod.func.functional_call(
            layer, dict(zip(names, weights)), (shown, tuple(starts) if states == 2 else starts[0])
        )
        return result.data if packed else result, *(last if states == 2 else (last,))

    names = [parameter for parameter, _ in layer.named_parameters()]
    inputs = [
        numod.randn(3, 2, 3).double(),
        *[parameter.detach().clone() for parameter in layer.parameters()],
        *[numod.randn(count, 2, 2).double() for _ in range(states)],
    ]
    inputs = [input.requires_grad_() for input in inputs]
    assert gradcheck(run, inputs)
    assert (
        gradgradcheck(run, inputs, fast_mode=True) if name in ("LSTM", "GRU") and not packed or name == "RNN" else True
    )


@pytest.mark.parametrize("name, dynamic", diagonals(list(LAYERS), [False, True], 4, others=pytest.mark.fuzz))
def test_compiled_is_eager(name: str, dynamic: bool) -> None:
    layer = made(name)

    def gradient(x: numod.Tensor) -> list[numod.Tensor]:
        result = layer(x)[0]
        return [result, *numod.autograd.grad(result.square().sum(), list(layer.parameters()))]

    compiled = numod.compile(gradient, dynamic=dynamic)
    for shape in ((4, 2, 3), (4, 2, 3), (5, 3, 3), (2, 1, 3)) if dynamic else ((4, 2, 3), (4, 2, 3)):
        x = numod.randn(*shape).double()
        for mine, expected in zip(compiled(x), gradient(x)):
            np.testing.assert_allclose(mine.detach().numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12)


def test_compiled_packed_sequences_follow_their_lengths() -> None:
    layer, x = made("GRU"), numod.randn(4, 2, 3).double()

    def run(x, lengths):
        return pad_packed_sequence(layer(pack_padded_sequence(x, lengths, enforce_sorted=False))[0], total_length=4)[0]

    compiled = numod.compile(run)
    for lengths in ([2, 4], [2, 4], [4, 1]):
        lengths = numod.tensor(lengths)
        np.testing.assert_allclose(compiled(x, lengths).detach().numpy(), run(x, lengths).detach().numpy(), atol=1e-12)


@pytest.mark.parametrize("name", LAYERS)
def test_many_sequences_and_few_agree(name: str) -> None:
    layer, x = made(name), numod.randn(3, 40, 3).double()
    weights = list(layer.parameters())
    many = layer(x)[0]
    few = numod.cat([layer(part)[0] for part in x.split(20, 1)], 1)
    np.testing.assert_allclose(many.detach().numpy(), few.detach().numpy(), atol=1e-12)
    for a, b in zip(
        numod.autograd.grad(many.square().sum(), weights), numod.autograd.grad(few.square().sum(), weights)
    ):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-10)


def results(layer: nn.Module, x: numod.Tensor, states: tuple) -> list[np.ndarray]:
    """The outputs, last states and all gradients."""
    leaves = [tensor.clone().requires_grad_() for tensor in (x, *states)]
    out, last = layer(leaves[0], tuple(leaves[1:]) if len(states) == 2 else leaves[1])
    last = last if isinstance(last, tuple) else (last,)
    total = (out * out).sum() + sum((state_part * (k + 1)).sum() for k, state_part in enumerate(last))
    layer.zero_grad()
    total.backward()
    return [
        tensor.detach().numpy()
        for tensor in (
            out,
            *last,
            *(leaf.grad for leaf in leaves),
            *(parameter.grad for parameter in layer.parameters()),
        )
    ]


def test_threads_share_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = made("LSTM"), numod.randn(3, 40, 3).double()
    packed = pack_padded_sequence(x, [3] * 20 + [2] * 15 + [1] * 5)
    alone = [layer(layer_input)[0] for layer_input in (x, packed)]
    grads = [
        numod.autograd.grad(tensor.square().sum(), list(layer.parameters())) for tensor in (alone[0], alone[1].data)
    ]
    monkeypatch.setattr(rnn_layer.threads, "get_num_threads", lambda: 2)  # so many workers, whoever runs them
    shared = [layer(layer_input)[0] for layer_input in (x, packed)]
    for one, many, expected in zip((alone[0], alone[1].data), (shared[0], shared[1].data), grads):
        np.testing.assert_allclose(many.detach().numpy(), one.detach().numpy(), atol=1e-14)
        for a, b in zip(numod.autograd.grad(many.square().sum(), list(layer.parameters())), expected):
            np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-12)


def test_gates_that_nobody_kept_are_computed_again() -> None:
    x = numod.randn(6, 4, dtype=numod.float64)
    weight = numod.randn(4, 1, dtype=numod.float64)
    start = numod.zeros(2, 1, dtype=numod.float64)
    counts = numod.tensor([2, 2, 2])
    results = []
    for keeps in (True, False):
        leaf = x.clone().requires_grad_()
        rnn_layer.lstm_layer.apply((leaf, weight, start, start, counts), ((2, 2, 2), False, keeps))[0].sum().backward()
        results.append(leaf.grad.numpy())
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    "kind, case",
    diagonals(
        ["LSTM", "GRU", "RNN"],
        [(5, 3, 9, True, False), (1, 1, 4, True, True), (4, 40, 6, False, True), (3, 2, 17, False, False)],
        2,
        others=pytest.mark.fuzz,
    ),
)
def test_at_once_and_step_by_step_agree(kind: str, case: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, batch, size, bias, both = case
    numod.manual_seed(0)
    layer = getattr(nn, kind)(7, size, num_layers=2, bias=bias, bidirectional=both, dtype=numod.float64)
    x = numod.randn(steps, batch, 7, dtype=numod.float64)
    states = tuple(
        numod.randn(4 if both else 2, batch, size, dtype=numod.float64) for _ in range(2 if kind == "LSTM" else 1)
    )
    result = results(layer, x, states)
    monkeypatch.setattr(rnn_layer, "runs", lambda *_: False)
    for a, b in zip(result, results(layer, x, states), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"])
def test_replaced_weights_of_another_size_are_refused(kind):
    for name, shape in (("weight_ih", (9, 3)), ("weight_hh", (9, 2)), ("weight_hh", (2, 5)), ("bias_hh", (5,))):
        layer = getattr(nn, kind)(3, 2)
        setattr(layer, name if "Cell" in kind else f"{name}_l0", nn.Parameter(numod.zeros(shape)))
        with pytest.raises(RuntimeError, match="expected|sizes differ|must match"):
            layer(numod.ones(4, 3))


LENGTHS = [[7, 2, 5, 1], [3, 7, 1, 6], [7, 7, 7, 7], [1, 1, 7, 2], [2, 7, 4, 4]]


@pytest.mark.parametrize(
    "case, inside, enforce_sorted",
    pairwise([("LSTM", 1, 8), ("GRU", 2, 9), ("RNN", 2, None)], [False, True], [False, True], others=pytest.mark.fuzz),
)
def test_a_compiled_program_takes_sequences_of_all_lengths(case: tuple, inside: bool, enforce_sorted: bool) -> None:
    name, layers, total_length = case
    numod.manual_seed(0)
    layer = getattr(nn, name)(3, 4, num_layers=layers, bidirectional=layers == 2)

    def function(x: numod.Tensor, lengths: numod.Tensor, first: numod.Tensor) -> list:
        packed = pack_padded_sequence(x, lengths, enforce_sorted=enforce_sorted)
        result, last = layer(packed, (first, first * 2) if name == "LSTM" else first)
        results = [
            *pad_packed_sequence(result, padding_value=0.5, total_length=total_length),
            *(last if name == "LSTM" else (last,)),
        ]
        loss = sum(tensor.square().sum() for tensor in (results[0], *results[2:]))
        return (
            [*results, *numod.autograd.grad(loss, [x, first, *layer.parameters()])] if inside else [*results[:2], loss]
        )

    compiled = numod.compile(function, options={"linked": False}, fullgraph=True)
    for new_lengths in LENGTHS:
        lengths = numod.tensor(sorted(new_lengths, reverse=True) if enforce_sorted else new_lengths)
        x = numod.randn(8, 4, 3, requires_grad=True)
        first = numod.randn(layers * (2 if layers == 2 else 1), 4, 4, requires_grad=True)
        actual, expected = compiled(x, lengths, first), function(x, lengths, first)
        if not inside:
            actual, expected = (
                [*outcome[:2], *numod.autograd.grad(outcome[2], [x, *layer.parameters()])]
                for outcome in (actual, expected)
            )
        assert all(
            numod.allclose(one, other, atol=1e-6) and one.shape == other.shape
            for one, other in zip(actual, expected, strict=True)
        )
    assert compiled.recorded == 1


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("use", [
    lambda packed: packed.data * 2, lambda packed: [sequence * 2 for sequence in packed], lambda packed: packed, lambda packed: packed[0] * 2,
    lambda packed: [packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices], lambda packed: packed.double().data,
    lambda packed: packed._replace(data=packed.data * 3), lambda packed: unpack_sequence(packed),
    lambda packed: pad_packed_sequence(PackedSequence(packed.data.relu(), *packed[1:]), batch_first=True),
    lambda packed: pad_packed_sequence(packed, total_length=6),
])  # fmt: skip
def test_packed_sequences_in_a_compiled_function(use: Callable) -> None:
    function = lambda x, lengths: use(pack_padded_sequence(x, lengths, enforce_sorted=False))  # noqa: E731
    compiled = numod.compile(function, options={"linked": False})
    x = numod.randn(8, 4, 3)
    for lengths in (*LENGTHS, [0, 1, 1, 1], [9, 1, 1, 1], [1, 2]):
        results = []
        for call in (function, compiled):
            try:
                results.append(call(x, numod.tensor(lengths)))
            except (RuntimeError, ValueError) as error:
                results.append(str(error))
        assert type(results[0]) is type(results[1]) and str(results[0]) == str(results[1])


def test_lengths_in_a_list_are_numbers_that_change() -> None:
    layer = nn.GRU(3, 4)

    def function(x, lengths):
        return pad_packed_sequence(layer(pack_padded_sequence(x, lengths, enforce_sorted=False))[0], total_length=8)[0]

    compiled = numod.compile(function, options={"linked": False}, fullgraph=True)
    x, draw = numod.randn(8, 4, 3), np.random.default_rng(0)
    for _ in range(12):
        lengths = draw.integers(1, 8, 4).tolist()
        assert numod.allclose(compiled(x, lengths), function(x, lengths), atol=1e-6)
    before = compiled.recorded
    for lengths in LENGTHS:
        assert numod.allclose(compiled(x, lengths), function(x, lengths), atol=1e-6)
    assert compiled.recorded == before


def test_gradients_of_gradients_over_lengths_that_are_data() -> None:
    layer = nn.GRU(3, 4)

    def function(x: numod.Tensor, lengths: numod.Tensor) -> numod.Tensor:
        result = pad_packed_sequence(layer(pack_padded_sequence(x, lengths, enforce_sorted=False))[0])[0]
        (slope,) = numod.autograd.grad(result.square().sum(), x, create_graph=True)
        return numod.autograd.grad(slope.square().sum(), x)[0]

    compiled = numod.compile(function, options={"linked": False})
    x = numod.randn(8, 4, 3, requires_grad=True)
    for length in LENGTHS[:3]:
        assert numod.allclose(compiled(x, numod.tensor(length)), function(x, numod.tensor(length)), atol=1e-5)


def test_states_of_too_few_sequences_are_refused() -> None:
    """The kernel would read beyond their memory."""
    layer = made("RNN")
    weights = {name: getattr(layer, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    x, start = numod.randn(12, 3, dtype=numod.float64), (numod.zeros(2, 2, dtype=numod.float64),)
    with pytest.raises(RuntimeError, match="expected initial states of 4 sequences, got 2"):
        run_direction("RNN_TANH", x, [4, 4, 4], start, weights, False)


def test_names_of_flat_weights() -> None:
    """Initialisers of public code go through these names."""
    layer = nn.GRU(3, 4, num_layers=2, bidirectional=True)
    assert layer._flat_weights_names[:3] == ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0"]
    assert all(map(operator.is_, map(layer._parameters.get, layer._flat_weights_names), layer._flat_weights))
