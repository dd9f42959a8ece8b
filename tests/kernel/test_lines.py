"""Gates over lines of memory beside NumPy: whole registers, the rest of one, and states written over themselves;
nothing is written beyond.
"""

from __future__ import annotations

import numpy as np
import pytest

from numod.device import cpu
from numod.kernel import build, lines


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm_gates(x, y, cell):
    i, f, g, o = x + y
    new = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(new)
    return [sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)], new, new, h, h


def lstm_gate_gradients(d_out_h, d_out_c, d_h, d_c, gates, c, c_before):
    (i, f, g, o), tanh_c, d_h_total = gates, np.tanh(c), d_out_h + d_h
    of_c = d_out_c + d_c + d_h_total * o * (1 - tanh_c**2)
    d_x = [
        of_c * g * i * (1 - i),
        of_c * c_before * f * (1 - f),
        of_c * i * (1 - g**2),
        d_h_total * tanh_c * o * (1 - o),
    ]
    return d_x, d_x, of_c * f


def gru_gates(x, y, bias, state):
    y = y + bias
    r, z = sigmoid(x[0] + y[0]), sigmoid(x[1] + y[1])
    new = np.tanh(x[2] + r * y[2])
    h = (1 - z) * new + z * state
    return [r, z, new, y[2]], h, h


def gru_gate_gradients(d_out, d_h, direct, gates, h_before):
    (r, z, new, y), g = gates, d_out + d_h + direct
    d_new = g * (1 - z) * (1 - new**2)
    d_r, d_z = d_new * y * r * (1 - r), g * (h_before - new) * z * (1 - z)
    return [d_r, d_z, d_new], [d_r, d_z, d_new * r], [d_r, d_z, d_new * r], g * z


REFERENCES = {
    "lstm_gates": lstm_gates, "lstm_gate_gradients": lstm_gate_gradients, "gru_gates": gru_gates, "gru_gate_gradients": gru_gate_gradients,
    "rnn_gates": lambda x, y: (np.tanh(x + y),) * 2, "rnn_relu_gates": lambda x, y: (np.maximum(x + y, 0),) * 2,
    "log_sums": lambda highs, totals: (highs + np.log(totals),),
    "rnn_gate_gradients": lambda d_out, d_h, h: ((d_out + d_h) * (1 - h**2),) * 2, "rnn_relu_gate_gradients": lambda d_out, d_h,
    h: ((d_out + d_h) * (h > 0),) * 2,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "name", [name for name, formula in lines.formulas.items() if not formula.numbers and not formula.joined]
)
def test_lines_are_the_formulas_of_numpy(name, dtype):
    formula = lines.formulas[name]
    names = [*formula.reads, *formula.writes]
    text = f"def kernel({', '.join(names)}, n):\n    {name}({', '.join(f'{one}, 1' for one in names)}, n)\n"
    run = build.build(
        cpu,
        "lines",
        f"from numod.kernel.vectorised import {name}\n{text}",
        ", ".join([f"{dtype}[]"] * len(names) + ["int64"]),
    ).launch
    for n in (0, 1, 5, 16, 37):

        def draw(k, shape):
            return (
                np.random.default_rng(k).uniform(0.1, 1, shape)
                if name == "log_sums"
                else np.random.default_rng(k).standard_normal(shape)
            )

        inputs = [
            draw(k, (count, n) if count > 1 else n).astype(dtype) for k, count in enumerate(formula.reads.values())
        ]
        arrays = [np.concatenate([[0], one.ravel(), [7]]).astype(dtype) for one in inputs] + [
            np.full(count * n + 2, 7, dtype) for count in formula.writes.values()
        ]
        over = {
            "lstm_gates": ("cell", "new_cell"),
            "gru_gates": ("state", "new_state"),
            "gru_gate_gradients": ("direct", "new_direct"),
            "lstm_gate_gradients": ("d_c", "new_d_c"),
        }.get(name)
        if over:
            arrays[names.index(over[1])] = arrays[names.index(over[0])]
        run(*arrays, n)
        for expected, actual in zip(REFERENCES[name](*inputs), arrays[len(inputs) :], strict=True):
            np.testing.assert_allclose(
                actual[1:-1],
                np.asarray(expected).ravel(),
                rtol=2e-5 if dtype == "float32" else 1e-12,
                atol=1e-6 if dtype == "float32" else 1e-13,
            )
            assert actual[-1] == 7


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scores_become_attention_weights(dtype):
    text = "from numod.kernel.vectorised import exp_scores, greatest_score, scale_line, log_sums\n"
    text += (
        "def kernel(x, found, n, factor):\n    found[0] = greatest_score(x, 1, n, factor)\n    found[1] = "
        "exp_scores(x, 1, x, 1, n, factor, found[0])\n"
    )
    text += "    log_sums(found, 0, found, 1, found, 2, 1)\n    scale_line(x, 1, x, 1, n, 1 / found[1])\n"
    run = build.build(cpu, "chances", text, f"{dtype}[], {dtype}[], int64, {dtype}").launch
    for n in (1, 5, 16, 37):
        x, actual = np.random.default_rng(n).standard_normal(n + 2).astype(dtype) * 9, np.empty(3, dtype)
        scores = -2.0 * x[1:-1].astype("float64")
        expected, ends = np.exp(scores - scores.max()), x[[0, -1]].copy()
        run(x, actual, n, -2.0)
        np.testing.assert_allclose(
            actual, [scores.max(), expected.sum(), scores.max() + np.log(expected.sum())], rtol=1e-5
        )
        np.testing.assert_allclose(x[1:-1], expected / expected.sum(), rtol=1e-5, atol=1e-36)
        np.testing.assert_array_equal(x[[0, -1]], ends)
    x = np.array([7, 1, np.nan, 2, 7], dtype)
    run(x, actual, 3, 1.0)
    assert actual[0] == 2 and np.isnan(actual[1]) and np.isnan(x[1:-1]).all()
    x, actual[:] = np.array([7, 1, -np.inf, -300 if dtype == "float32" else -3000, 7], dtype), 7
    run(x, actual, 3, 1.0)
    np.testing.assert_array_equal(x, np.array([7, 1, 0, 0, 7], dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lines_become_exponentials(dtype):
    text = "from numod.kernel.vectorised import greatest_of_line, lift_line, scale_line, sum_lifted\n"
    text += (
        "def kernel(x, out, found, n):\n    found[0] = greatest_of_line(x, 1, n)\n    found[1] = sum_lifted(x, 1, "
        "n, found[0])\n"
    )
    text += "    found[2] = lift_line(x, 1, out, 1, n, found[0])\n    scale_line(out, 1, out, 1, n, 1 / found[2])\n"
    run = build.build(cpu, "lifted", text, f"{dtype}[], {dtype}[], {dtype}[], int64").launch
    for n in (1, 7, 16, 31, 32, 33, 63, 64, 65, 130, 200):  # a turn may have up to four registers
        x = np.random.default_rng(n).standard_normal(n + 2).astype(dtype) * 9
        out = np.full(n + 2, 7, dtype)
        actual = np.empty(3, dtype)
        x[[0, -1]] = 1e3
        expected = np.exp(x[1:-1].astype("float64") - x[1:-1].max())
        run(x, out, actual, n)
        assert actual[0] == x[1:-1].max() and actual[1] == actual[2]
        np.testing.assert_allclose(
            actual[1] / 2.0 ** (25 if dtype == "float32" else 55),
            expected.sum(),
            rtol=1e-5 if dtype == "float32" else 1e-13,
        )
        np.testing.assert_allclose(
            out[1:-1], expected / expected.sum(), rtol=1e-5 if dtype == "float32" else 1e-13, atol=1e-44
        )
        assert out[0] == out[-1] == 7


def test_gates_far_out_are_0_and_1_and_nan_stays():
    x = np.array([-1e38, -100.0, -88.0, -0.0, 0.0, 88.0, 1e38, np.inf, -np.inf, np.nan], "float32")
    out = np.empty_like(x)
    text = (
        "from numod.kernel.vectorised import sigmoid_of\ndef kernel(x, out):\n    for k in range(x.size):\n        "
        "out[k] = sigmoid_of(x[k])\n"
    )
    build.build(cpu, "sigmoid", text, "float32[], float32[]").launch(x, out)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(out, sigmoid(x.astype("float64")), rtol=3e-7, atol=2e-38)
