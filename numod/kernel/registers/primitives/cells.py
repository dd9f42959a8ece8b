"""The gates of recurrent cells and their gradients, in plain Python."""

from __future__ import annotations

import math


def lstm_gates(
    x, x_at, y, y_at, cell, cell_at, gates, gates_at, new_cell, new_cell_at, c, c_at, h, h_at, state, state_at, n
):
    """A step of an LSTM cell. x + y are the gates' pre-activations; new_cell, c, h and state are the results."""
    for k in range(n):
        i, f, g, o = (x[x_at + q * n + k] + y[y_at + q * n + k] for q in range(4))
        i, f, g, o = _sigmoid(i), _sigmoid(f), math.tanh(g), _sigmoid(o)
        value = f * cell[cell_at + k] + i * g
        for q, gate in enumerate((i, f, g, o)):
            gates[gates_at + q * n + k] = gate
        new_cell[new_cell_at + k] = c[c_at + k] = value
        h[h_at + k] = state[state_at + k] = o * math.tanh(value)


def lstm_gate_gradients(
    d_out_h, d_out_h_at, d_out_c, d_out_c_at, d_h, d_h_at, d_c, d_c_at, gates, gates_at, c, c_at, c_before, c_before_at,
    d_x, d_x_at, d_gates, d_gates_at, new_d_c, new_d_c_at, n,
):  # fmt: skip
    """The gradients of a step of an LSTM cell."""
    for k in range(n):
        i, f, g, o = (gates[gates_at + q * n + k] for q in range(4))
        tanh_c, total_d_h = math.tanh(c[c_at + k]), d_out_h[d_out_h_at + k] + d_h[d_h_at + k]
        total_d_c = total_d_h * o * (1 - tanh_c * tanh_c) + d_out_c[d_out_c_at + k] + d_c[d_c_at + k]
        sums = (
            total_d_c * g * i * (1 - i),
            total_d_c * c_before[c_before_at + k] * f * (1 - f),
            total_d_c * i * (1 - g * g),
            total_d_h * tanh_c * o * (1 - o),
        )
        for q, value in enumerate(sums):
            d_x[d_x_at + q * n + k] = d_gates[d_gates_at + q * n + k] = value
        new_d_c[new_d_c_at + k] = total_d_c * f


def gru_gates(x, x_at, y, y_at, bias, bias_at, before, before_at, gates, gates_at, h, h_at, state, state_at, n):
    """A step of a GRU cell from the state `before`."""
    for k in range(n):
        a, b = ([values[at + q * n + k] for q in range(3)] for values, at in ((x, x_at), (y, y_at)))
        b = [value + bias[bias_at + q * n + k] for q, value in enumerate(b)]
        r, z = _sigmoid(a[0] + b[0]), _sigmoid(a[1] + b[1])
        new = math.tanh(r * b[2] + a[2])
        for q, gate in enumerate((r, z, new, b[2])):
            gates[gates_at + q * n + k] = gate
        h[h_at + k] = state[state_at + k] = z * (before[before_at + k] - new) + new


def gru_gate_gradients(
    d_out, d_out_at, d_h, d_h_at, direct, direct_at, gates, gates_at, h_before, h_before_at,
    d_x, d_x_at, d_y, d_y_at, d_gates, d_gates_at, new_direct, new_direct_at, n,
):  # fmt: skip
    """The gradients of a step of a GRU cell.

    `direct` is the part of the state's gradient that bypasses the matrix product of the next step.
    """
    for k in range(n):
        r, z, new, y = (gates[gates_at + q * n + k] for q in range(4))
        g = d_out[d_out_at + k] + d_h[d_h_at + k] + direct[direct_at + k]
        d_new = g * (1 - z) * (1 - new * new)
        sums = d_new * y * r * (1 - r), g * (h_before[h_before_at + k] - new) * z * (1 - z), d_new
        for q, value in enumerate(sums):
            d_x[d_x_at + q * n + k] = value
            d_y[d_y_at + q * n + k] = d_gates[d_gates_at + q * n + k] = value * r if q == 2 else value
        new_direct[new_direct_at + k] = g * z


def _rnn(act, derivative, name):
    def gates(x, x_at, y, y_at, h, h_at, state, state_at, n):
        """A step of an RNN cell."""
        for k in range(n):
            h[h_at + k] = state[state_at + k] = act(x[x_at + k] + y[y_at + k])

    def gradients(d_out, d_out_at, d_h, d_h_at, h, h_at, d_x, d_x_at, d_y, d_y_at, n):
        """The gradients of a step of an RNN cell."""
        for k in range(n):
            d_x[d_x_at + k] = d_y[d_y_at + k] = (d_out[d_out_at + k] + d_h[d_h_at + k]) * derivative(h[h_at + k])

    gates.__name__, gradients.__name__ = f"{name}_gates", f"{name}_gate_gradients"
    return gates, gradients


def _sigmoid(x):
    return 1 / (1 + math.exp(-x))


rnn_gates, rnn_gate_gradients = _rnn(math.tanh, lambda h: 1 - h * h, "rnn")


rnn_relu_gates, rnn_relu_gate_gradients = _rnn(lambda x: max(x, 0), lambda h: h > 0, "rnn_relu")
