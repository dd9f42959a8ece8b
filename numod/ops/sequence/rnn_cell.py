"""Cells of recurrent layers: one kernel from gates to state, and one for its gradient.

`linear` computes the gates. Their order is PyTorch's: input, forget, cell, output for an LSTM (N, 4 H); reset, update,
new for a GRU (N, 3 H).
"""

from __future__ import annotations

from collections.abc import Callable
from math import tanh

from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.library.arithmetic import sigmoid_of
from ...kernel.specialize import specialized
from ..index.concat import cat
from ..op import Op, Plan, single_device


def lstm_kernel(gates, c, h_out, c_out, n, size):
    """c_out = f * c + i * g, h_out = o * tanh(c_out)."""
    for task in parallel_range(n):
        row = int64(task)
        for k in range(size):
            at = row * 4 * size + k
            keep = sigmoid_of(gates[uintp(at + size)])
            cell = keep * c[uintp(row * size + k)] + sigmoid_of(gates[uintp(at)]) * tanh(gates[uintp(at + 2 * size)])
            c_out[uintp(row * size + k)] = cell
            h_out[uintp(row * size + k)] = sigmoid_of(gates[uintp(at + 3 * size)]) * tanh(cell)


def lstm_gradient_kernel(d_h_out, d_c_out, gates, c, c_out, d_gates, d_c, n, size):
    """The gradients of gates and c, from those of h_out and c_out."""
    for task in parallel_range(n):
        row = int64(task)
        for k in range(size):
            at = row * 4 * size + k
            i = sigmoid_of(gates[uintp(at)])
            f = sigmoid_of(gates[uintp(at + size)])
            g = tanh(gates[uintp(at + 2 * size)])
            o = sigmoid_of(gates[uintp(at + 3 * size)])
            tanh_c = tanh(c_out[uintp(row * size + k)])
            d_h = d_h_out[uintp(row * size + k)]
            d_cell = d_c_out[uintp(row * size + k)] + d_h * o * (1.0 - tanh_c * tanh_c)
            d_gates[uintp(at)] = d_cell * g * i * (1.0 - i)
            d_gates[uintp(at + size)] = d_cell * c[uintp(row * size + k)] * f * (1.0 - f)
            d_gates[uintp(at + 2 * size)] = d_cell * i * (1.0 - g * g)
            d_gates[uintp(at + 3 * size)] = d_h * tanh_c * o * (1.0 - o)
            d_c[uintp(row * size + k)] = d_cell * f


def gru_kernel(x, y, h, out, n, size):
    """out = (1 - z) * tanh(x_n + r * y_n) + z * h, with gates x of the input and y of the state."""
    for task in parallel_range(n):
        row = int64(task)
        for k in range(size):
            at = row * 3 * size + k
            r = sigmoid_of(x[uintp(at)] + y[uintp(at)])
            z = sigmoid_of(x[uintp(at + size)] + y[uintp(at + size)])
            new = tanh(x[uintp(at + 2 * size)] + r * y[uintp(at + 2 * size)])
            out[uintp(row * size + k)] = new + z * (h[uintp(row * size + k)] - new)


def gru_gradient_kernel(d_out, x, y, h, d_x, d_y, d_h, n, size):
    """The gradients of x, y and h."""
    for task in parallel_range(n):
        row = int64(task)
        for k in range(size):
            at = row * 3 * size + k
            r = sigmoid_of(x[uintp(at)] + y[uintp(at)])
            z = sigmoid_of(x[uintp(at + size)] + y[uintp(at + size)])
            new = tanh(x[uintp(at + 2 * size)] + r * y[uintp(at + 2 * size)])
            g = d_out[uintp(row * size + k)]
            d_new = g * (1.0 - z) * (1.0 - new * new)
            d_r = d_new * y[uintp(at + 2 * size)] * r * (1.0 - r)
            d_z = g * (h[uintp(row * size + k)] - new) * z * (1.0 - z)
            d_x[uintp(at)] = d_r
            d_y[uintp(at)] = d_r
            d_x[uintp(at + size)] = d_z
            d_y[uintp(at + size)] = d_z
            d_x[uintp(at + 2 * size)] = d_new
            d_y[uintp(at + 2 * size)] = d_new * r
            d_h[uintp(row * size + k)] = g * z


class Cell(Op):
    """A cell or its gradient. Inputs (N, ...) are dense and of one dtype; results have the shapes of the inputs in
    `like`.
    """

    def __init__(
        self,
        name: str,
        kernel: Callable,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        like: tuple[str, ...],
        gates: int,
    ) -> None:
        super().__init__(name)
        self.kernel = kernel
        self.inputs = inputs
        self.outputs = outputs if len(outputs) > 1 else ()
        self.like = like
        self.gates = gates

    @property
    def takes(self) -> str:
        """See `Op.takes`."""
        return " ".join(f"{input}[_ _]:f" for input in self.inputs) + ";"

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        layouts = dict(zip(self.inputs, arguments))
        device, dtype = single_device(self.name, list(arguments)), arguments[0].dtype
        if any(argument.dtype is not dtype for argument in arguments) or not dtype.is_floating_point:
            raise RuntimeError(
                f"{self.name}: expected tensors of one floating dtype, got "
                f"{', '.join(str(argument.dtype) for argument in arguments)}; convert with .to()"
            )
        results = tuple(layout(layouts[name].shape, dtype, device) for name in self.like)
        n, size = layouts[self.wide].shape[0], layouts[self.wide].shape[1] // self.gates
        for name, argument in layouts.items():
            width = size * self.gates if name in ("gates", "x", "y") else size
            if tuple(argument.shape) != (n, width):
                raise RuntimeError(
                    f"{self.name}: expected {name} of shape {(n, width)}, got {tuple(argument.shape)}; do "
                    "weight_ih and weight_hh fit the state?"
                )
        if n * size == 0:
            return Plan(results if self.outputs else results[0], lambda *_: None)
        signature = bind.signature(*arguments, *results, numbers=2)
        launch = bind.launcher(device, self.name, specialized(self.kernel), signature, dtype, 32 * n * size)
        return Plan(results if self.outputs else results[0], launch, (n, size))

    @property
    def wide(self) -> str:
        """The input that holds gates."""
        return "gates" if "gates" in self.inputs else "x"


lstm_cell = Cell("lstm_cell", lstm_kernel, ("gates", "c"), ("h_out", "c_out"), ("c", "c"), 4)
lstm_cell_gradient = Cell(
    "lstm_cell_gradient",
    lstm_gradient_kernel,
    ("dh", "dc", "gates", "c", "c_out"),
    ("d_gates", "d_c"),
    ("gates", "c"),
    4,
)
gru_cell = Cell("gru_cell", gru_kernel, ("x", "y", "h"), ("out",), ("h",), 3)
gru_cell_gradient = Cell(
    "gru_cell_gradient", gru_gradient_kernel, ("d_out", "x", "y", "h"), ("d_x", "d_y", "d_h"), ("x", "y", "h"), 3
)


def lstm_gradients(grads: list, gates: object, c: object, c_out: object, recording: bool) -> tuple:
    dh, dc = (c.new_zeros(c.shape) if grad is None else grad.contiguous() for grad in grads)
    if not recording:
        return lstm_cell_gradient.apply((dh, dc, gates, c, c_out))
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    tanh_c = (f * c + i * g).tanh()
    d_cell = dc + dh * o * (1 - tanh_c * tanh_c)
    parts = (d_cell * g * i * (1 - i), d_cell * c * f * (1 - f), d_cell * i * (1 - g * g), dh * tanh_c * o * (1 - o))
    return cat.apply(parts, (1,)), d_cell * f


def gru_gradients(g: object, x: object, y: object, h: object, recording: bool) -> tuple:
    if not recording:
        return gru_cell_gradient.apply((g.contiguous(), x, y, h))
    (x_r, x_z, x_n), (y_r, y_z, y_n) = x.chunk(3, 1), y.chunk(3, 1)
    r, z = (x_r + y_r).sigmoid(), (x_z + y_z).sigmoid()
    new = (x_n + r * y_n).tanh()
    d_new = g * (1 - z) * (1 - new * new)
    d_r, d_z = d_new * y_n * r * (1 - r), g * (h - new) * z * (1 - z)
    return cat.apply((d_r, d_z, d_new), (1,)), cat.apply((d_r, d_z, d_new * r), (1,)), g * z


lstm_cell.gradients = {("gates", "c"): lstm_gradients}
gru_cell.gradients = {("x", "y", "h"): gru_gradients}
for _op in (lstm_cell_gradient, gru_cell_gradient):
    _op.differentiable = False
