"""RNN, GRU and LSTM, one or two directions, any of the activations of the standard.

Weights are (directions, gates * H, …); the input is (T, N, I), or (N, T, I) with layout 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numod
import numod.nn.functional as F

from ...core import Tensor
from ...nn.recurrent import run_direction
from ..registry import operator

State = tuple[Tensor, ...]


def _activation(name: str, alpha: float | None, beta: float | None) -> Callable[[Tensor], Tensor]:
    """The activation function of this ONNX name and coefficients."""

    def with_default(value: float | None, default: float) -> float:
        return default if value is None else value

    functions = {
        "relu": F.relu,
        "tanh": numod.tanh,
        "sigmoid": numod.sigmoid,
        "softsign": F.softsign,
        "softplus": F.softplus,
        "affine": lambda x: with_default(alpha, 1.0) * x + with_default(beta, 0.0),
        "leakyrelu": lambda x: F.leaky_relu(x, with_default(alpha, 0.01)),
        "thresholdedrelu": lambda x: F.threshold(x, with_default(alpha, 1.0), 0.0),
        "scaledtanh": lambda x: with_default(alpha, 1.0) * numod.tanh(with_default(beta, 1.0) * x),
        "hardsigmoid": lambda x: numod.clamp(with_default(alpha, 0.2) * x + with_default(beta, 0.5), 0.0, 1.0),
        "elu": lambda x: F.elu(x, with_default(alpha, 1.0)),
    }
    if name.lower() not in functions:
        raise ValueError(f"unknown activation {name}")
    return functions[name.lower()]


def _activations(
    names: Sequence[str], alphas: Sequence[float] | None, betas: Sequence[float] | None
) -> list[Callable[[Tensor], Tensor]]:
    """The activation functions. Alphas and betas are in the order of the names; missing ones have defaults."""
    alphas, betas = list(alphas or ()), list(betas or ())
    functions = []
    for position, name in enumerate(names):
        alpha = alphas[position] if position < len(alphas) else None
        beta = betas[position] if position < len(betas) else None
        functions.append(_activation(name, alpha, beta))
    return functions


def _clipped(x: Tensor, clip: float | None) -> Tensor:
    return x if clip is None else numod.clamp(x, -clip, clip)


def _run(
    x: Tensor,
    lengths: Tensor | None,
    states: list[Tensor],
    step: Callable[[int, Tensor, State], State],
    direction: str,
    layout: int,
) -> tuple[Tensor, ...]:
    """Outputs (T, directions, N, H) and last states of `step(direction, x_t, states)`."""
    if direction not in ("forward", "reverse", "bidirectional"):
        raise ValueError(f"direction must be forward, reverse or bidirectional, got {direction}")
    outputs, lasts = [], []
    for number in range(2 if direction == "bidirectional" else 1):
        reverse = direction == "reverse" or number == 1
        state, results = tuple(row[number] for row in states), []
        order = range(x.shape[0])
        for time in order[::-1] if reverse else order:
            new = step(number, x[time], state)
            if lengths is not None:
                runs = (lengths > time).reshape(-1, 1)
                results.append(numod.where(runs, new[0], numod.zeros_like(new[0])))
                new = tuple(numod.where(runs, after, before) for after, before in zip(new, state))
            else:
                results.append(new[0])
            state = new
        outputs.append(numod.stack(results[::-1] if reverse else results))
        lasts.append(state)
    out = numod.stack(outputs, 1)
    ends = tuple(numod.stack(parts) for parts in zip(*lasts))
    return in_layout(out, ends, {"layout": layout})


def _begin(x: Tensor, count: int, hidden: int, initial: Sequence[Tensor | None], layout: int) -> list[Tensor]:
    shape = count, x.shape[1], hidden
    return [
        numod.zeros(*shape, dtype=x.dtype)
        if value is None
        else initial_state(value.permute(1, 0, 2) if layout else value, shape)
        for value in initial
    ]


def initial_state(value: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """An initial state (directions, N, H), for all sequences where it has one row. Raises ValueError for other shapes:
    kernels would read beyond its memory.
    """
    if tuple(value.shape) == shape:
        return value
    if tuple(value.shape) != (shape[0], 1, shape[2]):
        raise ValueError(
            f"an initial state must be (directions, batch, hidden), here {shape}, got {tuple(value.shape)}"
        )
    return value.expand(shape)


# positions in ONNX's weights of the gates as numod orders them: (i, f, g, o) of (i, o, f, c); (r, z, n) of (z, r, h)
GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
_DEFAULTS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}


def layer_mode(kind: str, directions: int, attributes: dict[str, object]) -> str:
    """The mode of the nn.RNNBase that computes what a node with these attributes does; "" if there is none."""
    names = [name.lower() for name in attributes.get("activations") or _DEFAULTS[kind] * directions]
    is_relu = kind == "RNN" and names == ["relu"] * directions
    is_plain = (
        (is_relu or names == list(_DEFAULTS[kind]) * directions)
        and attributes.get("clip") is None
        and not attributes.get("input_forget")
        and (kind != "GRU" or attributes.get("linear_before_reset"))
        and attributes.get("layout", 0) in (0, 1)
        and directions == (2 if attributes.get("direction") == "bidirectional" else 1)
        and attributes.get("direction", "forward") in ("forward", "reverse", "bidirectional")
    )
    return "" if not is_plain else "RNN_RELU" if is_relu else "RNN_TANH" if kind == "RNN" else kind


def ordered(blocks: Tensor, kind: str) -> Tensor:
    """A weight or bias of one direction, with its gates in numod's order."""
    parts = blocks.chunk(len(GATES[kind]), 0)
    return numod.cat([parts[k] for k in GATES[kind]]) if len(parts) > 1 else blocks


def _fused(
    kind: str,
    x: Tensor,
    weights: tuple[Tensor, Tensor, Tensor | None],
    states: list[Tensor],
    attributes: dict[str, object],
) -> tuple[Tensor, ...] | None:
    """As `_run` with the kernels of numod's layers, one call for each direction; None where they do not fit."""
    w, r, b = weights
    mode = layer_mode(kind, w.shape[0], attributes)
    if not mode or w.ndim != 3 or not x.shape[0] or not r.shape[-1] or r.shape[-2] != w.shape[-2]:
        return None
    (steps, batch), count = x.shape[:2], w.shape[0]
    rows, outputs, lasts = x.reshape(steps * batch, -1), [], []
    for number in range(count):
        named_weights = {"weight_ih": ordered(w[number], kind), "weight_hh": ordered(r[number], kind)}
        if b is not None:
            halves = b[number].chunk(2)
            named_weights |= {name: ordered(half, kind) for name, half in zip(("bias_ih", "bias_hh"), halves)}
        reverse = number == 1 or attributes.get("direction") == "reverse"
        out, last = run_direction(
            mode, rows, [batch] * steps, tuple([state[number] for state in states]), named_weights, reverse
        )
        outputs.append(out.reshape(steps, batch, -1))
        lasts.append(last)
    return in_layout(numod.stack(outputs, 1), [numod.stack(list(ends)) for ends in zip(*lasts)], attributes)


def in_layout(out: Tensor, ends: Sequence[Tensor], attributes: dict[str, object]) -> tuple[Tensor, ...]:
    """Outputs (T, directions, N, H) and last states (directions, N, H) in the layout that a node asks for."""
    if attributes.get("layout"):
        return out.permute(2, 0, 1, 3), *(end.permute(1, 0, 2) for end in ends)
    return out, *ends


def _gates(x: Tensor, h: Tensor, w: Tensor, r: Tensor, b: Tensor | None) -> Tensor:
    size = w.shape[0]
    return F.linear(x, w, None if b is None else b[:size]) + F.linear(h, r, None if b is None else b[size:])


@operator("RNN")
def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    output_sequence: int = 0,
) -> tuple:
    """h' = f(W x + R h + b)."""
    x = x.permute(1, 0, 2) if layout else x
    states = _begin(x, w.shape[0], r.shape[-1], [initial_h], layout)
    attributes = {"activations": activations, "clip": clip, "direction": direction, "layout": layout}
    if lengths is None and (fused := _fused("RNN", x, (w, r, b), states, attributes)) is not None:
        return fused
    functions = _activations(activations or ["Tanh"] * w.shape[0], activation_alpha, activation_beta)

    def step(number: int, x_t: Tensor, state: State) -> State:
        gates = _gates(x_t, state[0], w[number], r[number], None if b is None else b[number])
        return (functions[number](_clipped(gates, clip)),)

    return _run(x, lengths, states, step, direction, layout)


@operator("GRU")
def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> tuple:
    """Gates update, reset and candidate; the reset gate acts before or after the candidate's product."""
    x = x.permute(1, 0, 2) if layout else x
    size = r.shape[-1]
    states = _begin(x, w.shape[0], size, [initial_h], layout)
    attributes = {"activations": activations, "clip": clip, "direction": direction, "layout": layout}
    attributes["linear_before_reset"] = linear_before_reset
    if lengths is None and (fused := _fused("GRU", x, (w, r, b), states, attributes)) is not None:
        return fused
    functions = _activations(activations or ["Sigmoid", "Tanh"] * w.shape[0], activation_alpha, activation_beta)

    def step(number: int, x_t: Tensor, state: State) -> State:
        (h,), gate, candidate = state, functions[2 * number], functions[2 * number + 1]
        weight, inner = w[number], r[number]
        bias = None if b is None else b[number][: 3 * size]
        inner_bias = None if b is None else b[number][3 * size :]
        from_x = F.linear(x_t, weight, bias)
        from_h = F.linear(h, inner[: 2 * size], None if b is None else inner_bias[: 2 * size])
        both = gate(_clipped(from_x[:, : 2 * size] + from_h, clip))
        update, reset = both[:, :size], both[:, size:]
        last_bias = None if b is None else inner_bias[2 * size :]
        if linear_before_reset:
            new = reset * F.linear(h, inner[2 * size :], last_bias)
        else:
            new = F.linear(reset * h, inner[2 * size :], last_bias)
        new = candidate(_clipped(from_x[:, 2 * size :] + new, clip))
        return ((1 - update) * new + update * h,)

    return _run(x, lengths, states, step, direction, layout)


@operator("LSTM")
def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    peephole: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 0,
) -> tuple:
    """Gates input, output, forget and cell; peepholes are weights of the cell in the gates."""
    x = x.permute(1, 0, 2) if layout else x
    size = r.shape[-1]
    states = _begin(x, w.shape[0], size, [initial_h, initial_c], layout)
    attributes = {"activations": activations, "clip": clip, "direction": direction, "layout": layout}
    attributes["input_forget"] = input_forget
    is_plain = lengths is None and peephole is None
    if is_plain and (fused := _fused("LSTM", x, (w, r, b), states, attributes)) is not None:
        return fused
    names = activations or ["Sigmoid", "Tanh", "Tanh"] * w.shape[0]
    functions = _activations(names, activation_alpha, activation_beta)

    def step(number: int, x_t: Tensor, state: State) -> State:
        (h, c), (gate, to_cell, to_hidden) = state, functions[3 * number : 3 * number + 3]
        gates = _gates(x_t, h, w[number], r[number], None if b is None else b[number])
        i, o, f, new = (gates[:, k * size : (k + 1) * size] for k in range(4))
        weights = None if peephole is None else [peephole[number][k * size : (k + 1) * size] for k in range(3)]
        i = gate(_clipped(i if weights is None else i + weights[0] * c, clip))
        f = 1 - i if input_forget else gate(_clipped(f if weights is None else f + weights[2] * c, clip))
        c = f * c + i * to_cell(_clipped(new, clip))
        o = gate(_clipped(o if weights is None else o + weights[1] * c, clip))
        return o * to_hidden(c), c

    return _run(x, lengths, states, step, direction, layout)
