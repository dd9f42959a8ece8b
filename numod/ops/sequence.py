"""Recurrent layers over whole sequences of one length, on the CPU: one kernel runs all steps, one their gradients. The weight's is a single product.

The gates of the input come ready, (T N, gates), from one product; steps are blocks of N rows, walked from the last where `reverse`. Elsewhere, and for
gradients of gradients, layers go step by step through `recurrent`.
"""

from __future__ import annotations

from collections.abc import Callable

from ..device import Layout, blas
from ..device.layout import layout
from ..kernel import bind
from ..kernel.scalar import scalar
from .join import cat
from .op import Op, Plan, single_device
from .recurrent import gru_cell, lstm_cell


@scalar
def add_product(a, a_at, b, c, c_at, n, columns, inner):
    """c (n, columns) += a (n, inner) @ b (inner, columns), all dense, for few rows of a, whose b BLAS would rearrange first.

    Eight rows of b at a time meet all of a, so that b comes from memory once and c is read and written an eighth as often as it is added to.
    """
    whole = inner - inner % 8
    for k in range(0, whole, 8):
        base = k * columns
        for row in range(n):
            at = c_at + row * columns
            start = a_at + row * inner + k
            a0 = a[uintp(start)]
            a1 = a[uintp(start + 1)]
            a2 = a[uintp(start + 2)]
            a3 = a[uintp(start + 3)]
            a4 = a[uintp(start + 4)]
            a5 = a[uintp(start + 5)]
            a6 = a[uintp(start + 6)]
            a7 = a[uintp(start + 7)]
            for j in range(columns):
                low = a0 * b[uintp(base + j)] + a1 * b[uintp(base + columns + j)] + a2 * b[uintp(base + 2 * columns + j)] + a3 * b[uintp(base + 3 * columns + j)]
                high = a4 * b[uintp(base + 4 * columns + j)] + a5 * b[uintp(base + 5 * columns + j)] + a6 * b[uintp(base + 6 * columns + j)]
                c[uintp(at + j)] += low + (high + a7 * b[uintp(base + 7 * columns + j)])
    for k in range(whole, inner):
        for row in range(n):
            value = a[uintp(a_at + row * inner + k)]
            for j in range(columns):
                c[uintp(c_at + row * columns + j)] += value * b[uintp(k * columns + j)]


@scalar
def turn_matrix(source, target, rows, columns):
    """target (columns, rows) = source (rows, columns) transposed, in tiles of 16 so that both stay in cache."""
    for top in range(0, rows, 16):
        for left in range(0, columns, 16):
            for j in range(left, min(left + 16, columns)):
                for i in range(top, min(top + 16, rows)):
                    target[uintp(j * rows + i)] = source[uintp(i * columns + j)]


def lstm_kernel(x, h, c, weight, out, cells, gates, turned, n, size, steps, reverse, address):
    """out, cells (T N, H); gates (T N, 4 H) after their functions, for the gradient. h, c (N, H) begin; weight (4 H, H), turned (H, 4 H) for few rows."""
    wide = 4 * size
    few = turned.size > 0
    if few:
        turn_matrix(weight, turned, wide, size)
    for turn in range(steps):
        first = (steps - 1 - turn if reverse else turn) * n
        before = first + n if reverse else first - n
        for k in range(first * wide, (first + n) * wide):
            gates[uintp(k)] = x[uintp(k)]
        if few and turn == 0:
            add_product(h, 0, turned, gates, first * wide, n, wide, size)
        elif few:
            add_product(out, before * size, turned, gates, first * wide, n, wide, size)
        elif turn == 0:
            gemm(address, h, 0, weight, 0, gates, first * wide, n, wide, size, 0, 1, size, size, wide, 1.0)
        else:
            gemm(address, out, before * size, weight, 0, gates, first * wide, n, wide, size, 0, 1, size, size, wide, 1.0)
        for row in range(n):
            at = (first + row) * wide
            place = (first + row) * size
            source = row * size if turn == 0 else (before + row) * size
            for k in range(at, at + 2 * size):  # a loop for each stretch of memory, or LLVM would not vectorise them
                gates[uintp(k)] = sigmoid_of(gates[uintp(k)])
            for k in range(at + 2 * size, at + 3 * size):
                gates[uintp(k)] = tanh(gates[uintp(k)])
            for k in range(at + 3 * size, at + wide):
                gates[uintp(k)] = sigmoid_of(gates[uintp(k)])
            for k in range(size):
                cells[uintp(place + k)] = gates[uintp(at + k)] * gates[uintp(at + 2 * size + k)]
            if turn == 0:
                for k in range(size):
                    cells[uintp(place + k)] += gates[uintp(at + size + k)] * c[uintp(source + k)]
            else:
                for k in range(size):
                    cells[uintp(place + k)] += gates[uintp(at + size + k)] * cells[uintp(source + k)]
            for k in range(size):
                out[uintp(place + k)] = gates[uintp(at + 3 * size + k)] * tanh(cells[uintp(place + k)])


def lstm_gradient_kernel(given, given_cells, h, c, weight, out, cells, gates, d_x, d_h, d_c, d_weight, n, size, steps, reverse, address):
    """Gradients of x, h, c and weight from those of out and cells. d_h and d_c carry what comes from the later step."""
    wide = 4 * size
    for k in range(n * size):
        d_h[uintp(k)] = 0.0
        d_c[uintp(k)] = 0.0
    for turn in range(steps - 1, -1, -1):
        first = (steps - 1 - turn if reverse else turn) * n
        before = first + n if reverse else first - n
        for row in range(n):
            at = (first + row) * wide
            place = (first + row) * size
            source = row * size if turn == 0 else (before + row) * size
            for k in range(size):
                i = gates[uintp(at + k)]
                f = gates[uintp(at + size + k)]
                g = gates[uintp(at + 2 * size + k)]
                o = gates[uintp(at + 3 * size + k)]
                level = tanh(cells[uintp(place + k)])
                dh = given[uintp(place + k)] + d_h[uintp(row * size + k)]
                cell = given_cells[uintp(place + k)] + d_c[uintp(row * size + k)] + dh * o * (1.0 - level * level)
                last = c[uintp(source + k)] if turn == 0 else cells[uintp(source + k)]
                d_x[uintp(at + k)] = cell * g * i * (1.0 - i)
                d_x[uintp(at + size + k)] = cell * last * f * (1.0 - f)
                d_x[uintp(at + 2 * size + k)] = cell * i * (1.0 - g * g)
                d_x[uintp(at + 3 * size + k)] = dh * level * o * (1.0 - o)
                d_c[uintp(row * size + k)] = cell * f
        if n <= 32:
            for k in range(n * size):
                d_h[uintp(k)] = 0.0
            add_product(d_x, first * wide, weight, d_h, 0, n, size, wide)
        else:
            gemm(address, d_x, first * wide, weight, 0, d_h, 0, n, size, wide, 0, 0, wide, size, size, 0.0)
    begin = (steps - 1) * n if reverse else 0
    gemm(address, d_x, begin * wide, h, 0, d_weight, 0, wide, size, n, 1, 0, wide, size, size, 0.0)
    if steps > 1:
        later = 0 if reverse else n
        gemm(address, d_x, later * wide, out, (n - later) * size, d_weight, 0, wide, size, (steps - 1) * n, 1, 0, wide, size, size, 1.0)


def gru_kernel(x, h, weight, bias, out, gates, inner, turned, n, size, steps, reverse, address):
    """out (T N, H); gates (T N, 3 H) after their functions; inner (T N, 3 H), the state's share. weight (3 H, H), turned (H, 3 H) for few rows; bias (3 H)."""
    wide = 3 * size
    few = turned.size > 0
    if few:
        turn_matrix(weight, turned, wide, size)
    for turn in range(steps):
        first = (steps - 1 - turn if reverse else turn) * n
        before = first + n if reverse else first - n
        for row in range(first, first + n):
            for k in range(wide):
                inner[uintp(row * wide + k)] = bias[uintp(k)]
        if few and turn == 0:
            add_product(h, 0, turned, inner, first * wide, n, wide, size)
        elif few:
            add_product(out, before * size, turned, inner, first * wide, n, wide, size)
        elif turn == 0:
            gemm(address, h, 0, weight, 0, inner, first * wide, n, wide, size, 0, 1, size, size, wide, 1.0)
        else:
            gemm(address, out, before * size, weight, 0, inner, first * wide, n, wide, size, 0, 1, size, size, wide, 1.0)
        for row in range(n):
            at = (first + row) * wide
            place = (first + row) * size
            source = row * size if turn == 0 else (before + row) * size
            for k in range(2 * size):
                gates[uintp(at + k)] = sigmoid_of(x[uintp(at + k)] + inner[uintp(at + k)])
            for k in range(size):
                new = tanh(x[uintp(at + 2 * size + k)] + gates[uintp(at + k)] * inner[uintp(at + 2 * size + k)])
                last = h[uintp(source + k)] if turn == 0 else out[uintp(source + k)]
                gates[uintp(at + 2 * size + k)] = new
                out[uintp(place + k)] = new + gates[uintp(at + size + k)] * (last - new)


def gru_gradient_kernel(given, h, weight, out, gates, inner, d_x, d_inner, d_h, d_weight, n, size, steps, reverse, address):
    """Gradients of x, the state's share, h and weight from that of out."""
    wide = 3 * size
    for k in range(n * size):
        d_h[uintp(k)] = 0.0
    for turn in range(steps - 1, -1, -1):
        first = (steps - 1 - turn if reverse else turn) * n
        before = first + n if reverse else first - n
        for row in range(n):
            at = (first + row) * wide
            place = (first + row) * size
            source = row * size if turn == 0 else (before + row) * size
            for k in range(size):
                r = gates[uintp(at + k)]
                z = gates[uintp(at + size + k)]
                new = gates[uintp(at + 2 * size + k)]
                g = given[uintp(place + k)] + d_h[uintp(row * size + k)]
                last = h[uintp(source + k)] if turn == 0 else out[uintp(source + k)]
                d_new = g * (1.0 - z) * (1.0 - new * new)
                d_r = d_new * inner[uintp(at + 2 * size + k)] * r * (1.0 - r)
                d_z = g * (last - new) * z * (1.0 - z)
                d_x[uintp(at + k)] = d_r
                d_inner[uintp(at + k)] = d_r
                d_x[uintp(at + size + k)] = d_z
                d_inner[uintp(at + size + k)] = d_z
                d_x[uintp(at + 2 * size + k)] = d_new
                d_inner[uintp(at + 2 * size + k)] = d_new * r
                d_h[uintp(row * size + k)] = g * z
        if n <= 32:
            add_product(d_inner, first * wide, weight, d_h, 0, n, size, wide)
        else:
            gemm(address, d_inner, first * wide, weight, 0, d_h, 0, n, size, wide, 0, 0, wide, size, size, 1.0)
    begin = (steps - 1) * n if reverse else 0
    gemm(address, d_inner, begin * wide, h, 0, d_weight, 0, wide, size, n, 1, 0, wide, size, size, 0.0)
    if steps > 1:
        later = 0 if reverse else n
        gemm(address, d_inner, later * wide, out, (n - later) * size, d_weight, 0, wide, size, (steps - 1) * n, 1, 0, wide, size, size, 1.0)


class Sequence(Op):
    """A layer over T steps, or its gradient: dense inputs of one floating dtype. `shapes` gives each result's in terms of rows T N, batch N, size H."""

    parameters = ("steps", "reverse")

    def __init__(self, name: str, kernel: Callable, inputs: tuple[str, ...], outputs: tuple[str, ...], shapes: Callable) -> None:
        super().__init__(name)
        self.kernel, self.inputs, self.outputs, self.shapes = kernel, inputs, outputs, shapes

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        steps, reverse = parameters
        device, dtype = single_device(self.name, list(arguments)), arguments[0].dtype
        n, size = arguments[self.inputs.index("h")].shape
        address = blas.gemm_address(dtype.storage)
        results = tuple(layout(shape, dtype, device) for shape in self.shapes(steps * n, n, size))
        signature = ", ".join([f"{dtype.storage.name}[]"] * (len(arguments) + len(results)) + ["int64"] * 5)
        run = bind.launcher(device, self.name, bind.source_of(self.kernel), signature, dtype, 1)
        work = 4 * n * size * size

        def launch(*arguments: object) -> None:
            blas.prepare(work)
            run(*arguments)

        return Plan(results, launch, (n, size, steps, int(reverse), address))


def _turned(n: int, size: int, wide: int) -> tuple[int, int]:
    """The weight transposed, where few rows are multiplied with it step by step."""
    return (size, wide) if n <= 32 else (0, wide)


def fits(x: Layout, steps: int, state: Layout) -> bool:
    """Whether a layer can go this way."""
    return x.device.type == "cpu" and state.size > 0 and steps > 0 and bool(blas.gemm_address(x.storage))


lstm = Sequence("lstm", lstm_kernel, ("x", "h", "c", "weight"), ("out", "cells", "gates", "turned"),
                lambda rows, n, size: ((rows, size), (rows, size), (rows, 4 * size), _turned(n, size, 4 * size)))
lstm_gradient = Sequence(
    "lstm_gradient", lstm_gradient_kernel, ("given", "given_cells", "h", "c", "weight", "out", "cells", "gates"), ("d_x", "d_h", "d_c", "d_weight"),
    lambda rows, n, size: ((rows, 4 * size), (n, size), (n, size), (4 * size, size)),
)  # fmt: skip
gru = Sequence("gru", gru_kernel, ("x", "h", "weight", "bias"), ("out", "gates", "inner", "turned"),
               lambda rows, n, size: ((rows, size), (rows, 3 * size), (rows, 3 * size), _turned(n, size, 3 * size)))
gru_gradient = Sequence(
    "gru_gradient", gru_gradient_kernel, ("given", "h", "weight", "out", "gates", "inner"), ("d_x", "d_inner", "d_h", "d_weight"),
    lambda rows, n, size: ((rows, 3 * size), (rows, 3 * size), (n, size), (3 * size, size)),
)  # fmt: skip


def _blocks(x: object, steps: int, reverse: bool) -> list:
    """The rows of each step, in the order they are walked."""
    parts = list(x.chunk(steps, 0))
    return parts[::-1] if reverse else parts


def _joined(parts: list, reverse: bool) -> object:
    """The reverse."""
    return cat.apply(tuple(parts[::-1] if reverse else parts), (0,))


def _lstm_gradients(grads: list, x: object, h: object, c: object, weight: object, out: object, cells: object, gates: object, steps: int, reverse: bool, recording: bool) -> tuple:
    given, given_cells = (out.new_zeros(out.shape) if each is None else each.contiguous() for each in grads[:2])
    if not recording:
        return lstm_gradient.apply((given, given_cells, h, c, weight, out, cells, gates), (steps, reverse))
    states, wholes = [(h, c)], []
    for part in _blocks(x, steps, reverse):  # again in ops that can be differentiated
        wholes.append(part + states[-1][0] @ weight.t())
        states.append(lstm_cell.apply((wholes[-1], states[-1][1])))
    d_h, d_c, d_weight, d_x = h * 0, c * 0, weight * 0, []
    step_back = lstm_cell.gradients["gates", "c"]
    for k, (g, g_cells) in reversed(list(enumerate(zip(_blocks(given, steps, reverse), _blocks(given_cells, steps, reverse))))):
        d_gates, d_c = step_back([g + d_h, g_cells + d_c], wholes[k], states[k][1], states[k + 1][1], True)
        d_h, d_weight = d_gates @ weight, d_weight + d_gates.t() @ states[k][0]
        d_x.append(d_gates)
    return _joined(d_x[::-1], reverse), d_h, d_c, d_weight


def _gru_gradients(grads: list, x: object, h: object, weight: object, bias: object, out: object, gates: object, inner: object, steps: int, reverse: bool, recording: bool) -> tuple:
    given = grads[0].contiguous()
    if not recording:
        d_x, d_inner, d_h, d_weight = gru_gradient.apply((given, h, weight, out, gates, inner), (steps, reverse))
        return d_x, d_h, d_weight, d_inner.sum(0)
    states, parts, shares = [h], _blocks(x, steps, reverse), []
    for part in parts:
        shares.append(states[-1] @ weight.t() + bias)
        states.append(gru_cell.apply((part, shares[-1], states[-1])))
    d_h, d_weight, d_bias, d_x = h * 0, weight * 0, bias * 0, []
    step_back = gru_cell.gradients["x", "y", "h"]
    for k, g in reversed(list(enumerate(_blocks(given, steps, reverse)))):
        d_gates, d_inner, d_state = step_back(g + d_h, parts[k], shares[k], states[k], True)
        d_h, d_weight, d_bias = d_state + d_inner @ weight, d_weight + d_inner.t() @ states[k], d_bias + d_inner.sum(0)
        d_x.append(d_gates)
    return _joined(d_x[::-1], reverse), d_h, d_weight, d_bias


lstm.gradients = {("x", "h", "c", "weight"): _lstm_gradients}
gru.gradients = {("x", "h", "weight", "bias"): _gru_gradients}
for _op in (lstm_gradient, gru_gradient):
    _op.differentiable = False
