"""Layers of cells with an int8 weight, against steps in float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from selection import diagonals, pairwise

import numod
from numod import nn
from numod.ao import quantization
from numod.core.apply import apply
from numod.nn.recurrent import run_by_step
from numod.kernel.registers.byte_tiles import packed_format
from numod.ops.matmul.int8_linear import pack_bytes
from numod.ops.sequence import int8_layer


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference(kind, x, weight, scale, bias, h, c, reverse):
    """All states, with the state quantized to 0 ... 127 by its range at each step."""
    steps, states, size = len(x) // len(h), {}, h.shape[1]
    for step in range(steps)[:: -1 if reverse else 1]:
        low, high = min(h.min(), 0), max(h.max(), 0)
        unit = (high - low) / 127 if high > low else 0.1
        zero = round(-low / unit)
        rounded = (np.clip(np.round(h / unit + zero), 0, 127) - zero) * unit
        y = rounded @ (weight * scale[:, None]).T + bias
        row = x[step * len(h) : (step + 1) * len(h)]
        a, b = (np.split(value, value.shape[1] // size, 1) for value in (row, y))
        if kind == "lstm":
            i, f, g, o = (left + right for left, right in zip(a, b))
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        else:
            r, z = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
            new = np.tanh(a[2] + r * b[2])
            h = new + z * (h - new)
        states[step] = h, c
    return [np.concatenate([states[step][k] for step in range(steps)]) for k in range(2 if kind == "lstm" else 1)]


@pytest.mark.parametrize("kind, sizes, reverse, packed", pairwise(
    ["lstm", "gru"], [(1, 5), (3, 34), (8, 16)], [False, True], [False, True], others=pytest.mark.fuzz
))  # fmt: skip
def test_states_are_those_of_the_steps(kind, sizes, reverse, packed):
    batch, size = sizes
    random, gates = np.random.default_rng(size), 4 if kind == "lstm" else 3
    wide = gates * size
    x, bias = random.standard_normal((6 * batch, wide)), random.standard_normal(wide)
    weight, scale = random.integers(-128, 128, (wide, size)), random.random(wide) / 100
    h, c = random.uniform(-1, 1, (2, batch, size))
    floats = [numod.tensor(part.astype("float32")) for part in (x, scale, bias, h, c)]
    integers = numod.tensor(weight.astype("int8"))
    inputs = floats[0], integers, *floats[1 : 5 if kind == "lstm" else 4]
    op = getattr(int8_layer, f"{'packed_' if packed else ''}dynamic_{kind}")
    inputs = (*inputs, apply(pack_bytes, (integers,), packed_format(wide, compact=True))) if packed else inputs
    results = apply(op, inputs, (127, reverse))
    expected = reference(
        kind, *(part.astype("float32").astype("float64") for part in (x, weight, scale, bias, h, c)), reverse
    )
    for result, value in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.numpy(), value, atol=0.02)
        assert np.median(np.abs(result.numpy() - value)) < 1e-5  # a tie may round to the other integer


@pytest.mark.parametrize("options, kind", diagonals(
    [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True}, {"bias": False}], ["LSTM", "GRU"], 2,
    others=pytest.mark.fuzz,
))  # fmt: skip
def test_layers_of_modules_run_as_steps(kind, options, monkeypatch):
    numod.manual_seed(0)
    layer = getattr(nn, kind)(12, 20, **options)
    quantized = quantization.quantize_dynamic(nn.Sequential(layer), {type(layer)})[0]
    x = numod.randn(4, 3, 12)
    result, last = quantized(x)
    compiled = numod.compile(lambda x: quantized(x)[0], fullgraph=True, options={"freezing": True})
    assert (compiled(x) - result).abs().max() < 1e-6
    called = []
    monkeypatch.setattr(type(quantized), "_run", lambda self, x, sizes, start, suffix, reverse: called.append(0) or run_by_step(self.mode, x, sizes, start, self._weights(suffix), reverse))  # fmt: skip
    expected, expected_last = quantized(x)
    assert called and (result - expected).abs().max() < 1e-5
    pairs = zip(last, expected_last) if kind == "LSTM" else [(last, expected_last)]
    assert all((a - b).abs().max() < 1e-5 for a, b in pairs)


def test_calls_that_do_not_fit_are_refused_in_programs():
    from numod.ops import contract

    x, weight = numod.zeros(6, 8), numod.zeros(8, 2, dtype=numod.int8)
    parts = [part._layout for part in (x, weight, numod.ones(8), numod.ones(8), numod.zeros(4, 2), numod.zeros(4, 2))]
    with pytest.raises(ValueError, match="6 rows are not steps of 4"):
        contract.check(int8_layer.dynamic_lstm, parts, (127, False))
    with pytest.raises(ValueError, match="gates must be 6 wide"):
        contract.check(int8_layer.dynamic_gru, [*parts[:4], numod.zeros(3, 2)._layout], (127, False))
