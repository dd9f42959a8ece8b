"""Recurrent layers as ONNX's LSTM, GRU and RNN, and single cells by their formulas.

A layer's op reads the gates that a linear layer computed of the inputs. ONNX's operators take the inputs and both
weights, so that linear step becomes part of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..symbols import Call, Repeated, Size
from .graph import Unsupported
from .rules import rule

if TYPE_CHECKING:
    from ...graph.ir.program import Value
    from .translate import Translation

# positions of ONNX's gates in numod's: input, output, forget, cell of (i, f, g, o); update, reset, new of (r, z, n)
_ORDERS = {"lstm_layer": (0, 3, 1, 2), "gru_layer": (1, 0, 2), "rnn_layer": (0,), "rnn_relu_layer": (0,)}
_OPERATORS = {"lstm_layer": "LSTM", "gru_layer": "GRU", "rnn_layer": "RNN", "rnn_relu_layer": "RNN"}


@rule("lstm_layer", "gru_layer", "rnn_layer", "rnn_relu_layer")
def recurrent_layer(translation: Translation, call: Call) -> tuple:
    """One direction of one layer, over all steps."""
    kind = call.op.name
    gates, weight, *states = call.inputs[:-1]
    bias = states.pop(0) if kind == "gru_layer" else None
    steps, batch = _steps(translation, call)
    size = translation.shape(weight)[1]
    graph, order = translation.graph, _ORDERS[kind]
    x, input_weight, input_bias = _inputs(translation, gates, steps, batch)
    blocks = [_ordered(translation, name, order) for name in (input_weight, translation.name(weight))]
    biases = [
        graph.constant(np.zeros(len(order) * size), translation.dtype(weight)) if name is None
        else _ordered(translation, name, order)
        for name in (input_bias, None if bias is None else translation.name(bias))
    ]  # fmt: skip
    initial = [graph.unsqueeze(translation.name(state), [0]) for state in states]
    reverse = call.attributes[1]
    y, *last = graph.node(
        _OPERATORS[kind], x, *[graph.unsqueeze(block, [0]) for block in blocks],
        graph.unsqueeze(graph.node("Concat", *biases, axis=0), [0]), "", *initial, outputs=1 + len(states) ,
        hidden_size=size, direction="reverse" if reverse else "forward",
        linear_before_reset=1 if kind == "gru_layer" else None,
        activations=["Relu"] if kind == "rnn_relu_layer" else None,
    )  # fmt: skip
    first = 0 if reverse else batch * steps - batch
    for value, name in zip(call.results, last):
        translation.last_steps[value] = first, graph.squeeze(name, [0])
    rows = graph.node("Reshape", y, graph.constant([-1, size]))
    return rows, *[None] * (len(call.results) - 1)


def _steps(translation: Translation, call: Call) -> tuple:
    """(the number of steps, the batch size). Raises Unsupported for sequences of different lengths."""
    counted, counts = call.attributes[0], translation.producers.get(call.inputs[-1])
    if counts is None or counts.op.name != "fill":
        raise Unsupported("packed sequences of different lengths have no ONNX form; pass padded tensors")
    if isinstance(counted, Repeated):
        return counted.count, counted.item
    if not counted or any(count != counted[0] for count in counted):
        raise Unsupported("packed sequences of different lengths have no ONNX form; pass padded tensors")
    return len(counted), counted[0]


def _inputs(translation: Translation, gates: Value, steps: object, batch: object) -> tuple[str, str, str | None]:
    """(the layer's inputs (steps, batch, width), the weight and bias that make gates of them)."""
    graph, producer = translation.graph, translation.producers.get(gates)
    if producer is not None and producer.op.name == "linear" and gates not in translation.written:
        x, weight, bias = producer.inputs
        width = translation.shape(weight)[1]
        names = translation.name(weight), None if bias is None else translation.name(bias)
        if translation.rank(x) == 2:
            return graph.reshape(translation.name(x), translation.shape(x), (steps, batch, width)), *names
    wide = translation.shape(gates)[1]
    if isinstance(wide, Size):
        raise Unsupported("a recurrent layer of a dynamic width; export it with a fixed size")
    unit = graph.constant(np.eye(wide), translation.dtype(gates))
    return graph.reshape(translation.name(gates), translation.shape(gates), (steps, batch, wide)), unit, None


def _ordered(translation: Translation, name: str, order: tuple[int, ...]) -> str:
    """A weight or bias with its blocks of rows in ONNX's order."""
    graph = translation.graph
    if len(order) == 1:
        return name
    if graph.opset >= 18:
        parts = graph.node("Split", name, outputs=len(order), axis=0, num_outputs=len(order))
    else:
        parts = graph.node("Split", name, outputs=len(order), axis=0)
    return graph.node("Concat", *[parts[k] for k in order], axis=0)


@rule("lstm_cell")
def lstm_cell(translation: Translation, call: Call) -> tuple[str, str]:
    """A step of an LSTM, from gates."""
    graph, (gates, cell) = translation.graph, map(translation.name, call.inputs)
    i, f, g, o = _parts(translation, gates, 4)
    node = graph.node
    remembered = node("Mul", node("Sigmoid", f), cell)
    new_cell = node("Add", remembered, node("Mul", node("Sigmoid", i), node("Tanh", g)))
    return node("Mul", node("Sigmoid", o), node("Tanh", new_cell)), new_cell


@rule("gru_cell")
def gru_cell(translation: Translation, call: Call) -> str:
    """A step of a GRU, from the gates of the input and of the state."""
    graph, (x, y, state) = translation.graph, map(translation.name, call.inputs)
    node, of_input, of_state = graph.node, _parts(translation, x, 3), _parts(translation, y, 3)
    reset, update = (node("Sigmoid", node("Add", of_input[k], of_state[k])) for k in range(2))
    new = node("Tanh", node("Add", of_input[2], node("Mul", reset, of_state[2])))
    return node("Add", new, node("Mul", update, node("Sub", state, new)))


def _parts(translation: Translation, name: str, count: int) -> tuple[str, ...]:
    how = {"num_outputs": count} if translation.graph.opset >= 18 else {}
    return translation.graph.node("Split", name, outputs=count, axis=1, **how)
