"""Recurrent layers over whole sequences: one kernel from the input's gates to all states, and one for its gradient. Single steps are `recurrent`'s.

Rows of all sequences lie step by step: `counts[k]` of them at step k, the longest sequences first, as in a PackedSequence; `reverse` runs from the last step.
A kernel keeps `at` and `n`, the step's first row and its rows, and `before` and `kept`: where the step before it began, and how many of its sequences go on here.
Sequences that begin at a step take their state from h0. A step is one product and one pass over the gates; the gradient of the weight is one product over all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..device import blas
from ..device.layout import layout
from ..kernel import bind
from ..kernel.scalar import scalar
from .join import cat
from .op import Op, Plan, single_device
from .recurrent import gru_cell, gru_gradients, lstm_cell, lstm_gradients


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


@scalar
def add_state_product(address, state, state_at, weight, turned, out, at, n, wide, size):
    """out (n, wide) += state (n, size) @ weight (wide, size) transposed, which is `turned` for few rows."""
    if turned.size > 0:
        add_product(state, state_at, turned, out, at, n, wide, size)
    else:
        gemm(address, state, state_at, weight, 0, out, at, n, wide, size, 0, 1, size, size, wide, 1.0)


@scalar
def add_state_gradient(address, few, g, g_at, weight, out, at, n, wide, size):
    """out (n, size) += g (n, wide) @ weight (wide, size)."""
    if few:
        add_product(g, g_at, weight, out, at, n, size, wide)
    else:
        gemm(address, g, g_at, weight, 0, out, at, n, size, wide, 0, 0, wide, size, size, 1.0)


def lstm_layer_kernel(x, weight, h0, c0, counts, h, c, gates, turned, rows, steps, size, reverse, address):
    """Gates (rows, 4 size) are kept as they act: sigmoid of input, forget and output, tanh of cell."""
    wide = 4 * size
    if turned.size > 0:
        turn_matrix(weight, turned, wide, size)
    at = int64(rows) if reverse else int64(0)
    before = at
    last = int64(0)
    for turn in range(steps):
        n = counts[uintp(steps - 1 - turn)] if reverse else counts[uintp(turn)]
        at = at - n if reverse else at
        kept = min(n, last)
        for e in range(n * wide):
            gates[uintp(at * wide + e)] = x[uintp(at * wide + e)]
        add_state_product(address, h, before * size, weight, turned, gates, at * wide, kept, wide, size)
        add_state_product(address, h0, kept * size, weight, turned, gates, (at + kept) * wide, n - kept, wide, size)
        for e in range(kept * size):
            c[uintp(at * size + e)] = c[uintp(before * size + e)]
        for e in range(kept * size, n * size):
            c[uintp(at * size + e)] = c0[uintp(e)]
        for row in range(at, at + n):
            for k in range(row * wide, row * wide + 2 * size):  # a loop for each stretch of memory, or LLVM would not vectorise them
                gates[uintp(k)] = sigmoid_of(gates[uintp(k)])
            for k in range(row * wide + 2 * size, row * wide + 3 * size):
                gates[uintp(k)] = tanh(gates[uintp(k)])
            for k in range(row * wide + 3 * size, row * wide + wide):
                gates[uintp(k)] = sigmoid_of(gates[uintp(k)])
            for k in range(size):
                c[uintp(row * size + k)] = gates[uintp(row * wide + size + k)] * c[uintp(row * size + k)] + gates[uintp(row * wide + k)] * gates[uintp(row * wide + 2 * size + k)]
            for k in range(size):
                h[uintp(row * size + k)] = gates[uintp(row * wide + 3 * size + k)] * tanh(c[uintp(row * size + k)])
        before = at
        last = n
        at = at if reverse else at + n


def lstm_layer_gradient_kernel(given_h, given_c, weight, h0, c0, counts, h, c, gates, d_x, d_weight, d_h0, d_c0, dh, dc, h_before, c_before, rows, steps, size, reverse, address):
    """dh and dc collect what states receive from their step and from the next; h_before and c_before are the states each row began with."""
    wide = 4 * size
    few = h0.size <= 32 * size
    for e in range(rows * size):
        dh[uintp(e)] = given_h[uintp(e)]
        dc[uintp(e)] = given_c[uintp(e)]
    for e in range(d_h0.size):
        d_h0[uintp(e)] = 0.0
    at = int64(0) if reverse else int64(rows)
    for turn in range(steps):
        n = counts[uintp(turn)] if reverse else counts[uintp(steps - 1 - turn)]
        at = at if reverse else at - n
        last = int64(0)
        if turn + 1 < steps:
            last = counts[uintp(turn + 1)] if reverse else counts[uintp(steps - 2 - turn)]
        before = at + n if reverse else at - last
        kept = min(n, last)
        for e in range(kept * size):
            h_before[uintp(at * size + e)] = h[uintp(before * size + e)]
            c_before[uintp(at * size + e)] = c[uintp(before * size + e)]
        for e in range(kept * size, n * size):
            h_before[uintp(at * size + e)] = h0[uintp(e)]
            c_before[uintp(at * size + e)] = c0[uintp(e)]
        for row in range(at, at + n):
            at_x = row * wide
            base = row * size
            for k in range(size):
                d_x[uintp(at_x + 3 * size + k)] = tanh(c[uintp(base + k)])
            for k in range(size):
                level = d_x[uintp(at_x + 3 * size + k)]
                dc[uintp(base + k)] += dh[uintp(base + k)] * gates[uintp(at_x + 3 * size + k)] * (1.0 - level * level)
            for k in range(size):
                o = gates[uintp(at_x + 3 * size + k)]
                d_x[uintp(at_x + 3 * size + k)] *= dh[uintp(base + k)] * o * (1.0 - o)
            for k in range(size):
                i = gates[uintp(at_x + k)]
                d_x[uintp(at_x + k)] = dc[uintp(base + k)] * gates[uintp(at_x + 2 * size + k)] * i * (1.0 - i)
            for k in range(size):
                f = gates[uintp(at_x + size + k)]
                d_x[uintp(at_x + size + k)] = dc[uintp(base + k)] * c_before[uintp(base + k)] * f * (1.0 - f)
            for k in range(size):
                g = gates[uintp(at_x + 2 * size + k)]
                d_x[uintp(at_x + 2 * size + k)] = dc[uintp(base + k)] * gates[uintp(at_x + k)] * (1.0 - g * g)
            for k in range(size):
                dc[uintp(base + k)] *= gates[uintp(at_x + size + k)]
        for e in range(kept * size):
            dc[uintp(before * size + e)] += dc[uintp(at * size + e)]
        for e in range(kept * size, n * size):
            d_c0[uintp(e)] = dc[uintp(at * size + e)]
        add_state_gradient(address, few, d_x, at * wide, weight, dh, before * size, kept, wide, size)
        add_state_gradient(address, few, d_x, (at + kept) * wide, weight, d_h0, kept * size, n - kept, wide, size)
        at = at + n if reverse else at
    gemm(address, d_x, 0, h_before, 0, d_weight, 0, wide, size, rows, 1, 0, wide, size, size, 0.0)


def gru_layer_kernel(x, weight, bias, h0, counts, h, gates, y, turned, rows, steps, size, reverse, address):
    """Gates (rows, 3 size) are kept as they act: reset, update, new; y (rows, 3 size) is the state's product."""
    wide = 3 * size
    if turned.size > 0:
        turn_matrix(weight, turned, wide, size)
    at = int64(rows) if reverse else int64(0)
    before = at
    last = int64(0)
    for turn in range(steps):
        n = counts[uintp(steps - 1 - turn)] if reverse else counts[uintp(turn)]
        at = at - n if reverse else at
        kept = min(n, last)
        for row in range(at, at + n):
            for k in range(wide):
                y[uintp(row * wide + k)] = bias[uintp(k)]
        add_state_product(address, h, before * size, weight, turned, y, at * wide, kept, wide, size)
        add_state_product(address, h0, kept * size, weight, turned, y, (at + kept) * wide, n - kept, wide, size)
        for e in range(kept * size):
            h[uintp(at * size + e)] = h[uintp(before * size + e)]
        for e in range(kept * size, n * size):
            h[uintp(at * size + e)] = h0[uintp(e)]
        for row in range(at, at + n):
            for k in range(row * wide, row * wide + 2 * size):
                gates[uintp(k)] = sigmoid_of(x[uintp(k)] + y[uintp(k)])
            for k in range(size):
                place = row * wide + 2 * size + k
                gates[uintp(place)] = tanh(x[uintp(place)] + gates[uintp(row * wide + k)] * y[uintp(place)])
            for k in range(size):
                new = gates[uintp(row * wide + 2 * size + k)]
                h[uintp(row * size + k)] = new + gates[uintp(row * wide + size + k)] * (h[uintp(row * size + k)] - new)
        before = at
        last = n
        at = at if reverse else at + n


def gru_layer_gradient_kernel(given_h, weight, h0, counts, h, gates, y, d_x, d_weight, d_bias, d_h0, d_y, dh, h_before, rows, steps, size, reverse, address):
    """Gradients of the input's gates, and d_y of the state's."""
    wide = 3 * size
    few = h0.size <= 32 * size
    for e in range(rows * size):
        dh[uintp(e)] = given_h[uintp(e)]
    for k in range(wide):
        d_bias[uintp(k)] = 0
    at = int64(0) if reverse else int64(rows)
    for turn in range(steps):
        n = counts[uintp(turn)] if reverse else counts[uintp(steps - 1 - turn)]
        at = at if reverse else at - n
        last = int64(0)
        if turn + 1 < steps:
            last = counts[uintp(turn + 1)] if reverse else counts[uintp(steps - 2 - turn)]
        before = at + n if reverse else at - last
        kept = min(n, last)
        for e in range(kept * size):
            h_before[uintp(at * size + e)] = h[uintp(before * size + e)]
        for e in range(kept * size, n * size):
            h_before[uintp(at * size + e)] = h0[uintp(e)]
        for row in range(at, at + n):
            for k in range(size):
                r = gates[uintp(row * wide + k)]
                z = gates[uintp(row * wide + size + k)]
                new = gates[uintp(row * wide + 2 * size + k)]
                g = dh[uintp(row * size + k)]
                d_new = g * (1.0 - z) * (1.0 - new * new)
                d_r = d_new * y[uintp(row * wide + 2 * size + k)] * r * (1.0 - r)
                d_z = g * (h_before[uintp(row * size + k)] - new) * z * (1.0 - z)
                d_x[uintp(row * wide + k)] = d_r
                d_y[uintp(row * wide + k)] = d_r
                d_x[uintp(row * wide + size + k)] = d_z
                d_y[uintp(row * wide + size + k)] = d_z
                d_x[uintp(row * wide + 2 * size + k)] = d_new
                d_y[uintp(row * wide + 2 * size + k)] = d_new * r
                dh[uintp(row * size + k)] = g * z
            for k in range(wide):
                d_bias[uintp(k)] += d_y[uintp(row * wide + k)]
        for e in range(kept * size):
            dh[uintp(before * size + e)] += dh[uintp(at * size + e)]
        for e in range(kept * size, n * size):
            d_h0[uintp(e)] = dh[uintp(at * size + e)]
        add_state_gradient(address, few, d_y, at * wide, weight, dh, before * size, kept, wide, size)
        add_state_gradient(address, few, d_y, (at + kept) * wide, weight, d_h0, kept * size, n - kept, wide, size)
        at = at + n if reverse else at
    gemm(address, d_y, 0, h_before, 0, d_weight, 0, wide, size, rows, 1, 0, wide, size, size, 0.0)


def rnn_layer_kernel(x, weight, h0, counts, h, turned, rows, steps, size, reverse, relu, address):
    """h = tanh, or relu, of the input's gates and the state's product."""
    if turned.size > 0:
        turn_matrix(weight, turned, size, size)
    at = int64(rows) if reverse else int64(0)
    before = at
    last = int64(0)
    for turn in range(steps):
        n = counts[uintp(steps - 1 - turn)] if reverse else counts[uintp(turn)]
        at = at - n if reverse else at
        kept = min(n, last)
        for e in range(at * size, (at + n) * size):
            h[uintp(e)] = x[uintp(e)]
        add_state_product(address, h, before * size, weight, turned, h, at * size, kept, size, size)
        add_state_product(address, h0, kept * size, weight, turned, h, (at + kept) * size, n - kept, size, size)
        if relu:
            for e in range(at * size, (at + n) * size):
                h[uintp(e)] = 0.0 if h[uintp(e)] < 0.0 else h[uintp(e)]
        else:
            for e in range(at * size, (at + n) * size):
                h[uintp(e)] = tanh(h[uintp(e)])
        before = at
        last = n
        at = at if reverse else at + n


def rnn_layer_gradient_kernel(given_h, weight, h0, counts, h, d_x, d_weight, d_h0, dh, h_before, rows, steps, size, reverse, relu, address):
    """Its gradient."""
    few = h0.size <= 32 * size
    for e in range(rows * size):
        dh[uintp(e)] = given_h[uintp(e)]
    for e in range(d_h0.size):
        d_h0[uintp(e)] = 0.0
    at = int64(0) if reverse else int64(rows)
    for turn in range(steps):
        n = counts[uintp(turn)] if reverse else counts[uintp(steps - 1 - turn)]
        at = at if reverse else at - n
        last = int64(0)
        if turn + 1 < steps:
            last = counts[uintp(turn + 1)] if reverse else counts[uintp(steps - 2 - turn)]
        before = at + n if reverse else at - last
        kept = min(n, last)
        for e in range(kept * size):
            h_before[uintp(at * size + e)] = h[uintp(before * size + e)]
        for e in range(kept * size, n * size):
            h_before[uintp(at * size + e)] = h0[uintp(e)]
        for e in range(at * size, (at + n) * size):
            value = h[uintp(e)]
            slope = (1.0 if value > 0.0 else 0.0) if relu else 1.0 - value * value
            d_x[uintp(e)] = dh[uintp(e)] * slope
        add_state_gradient(address, few, d_x, at * size, weight, dh, before * size, kept, size, size)
        add_state_gradient(address, few, d_x, (at + kept) * size, weight, d_h0, kept * size, n - kept, size, size)
        at = at + n if reverse else at
    gemm(address, d_x, 0, h_before, 0, d_weight, 0, size, size, rows, 1, 0, size, size, size, 0.0)


class Layer(Op):
    """A layer in one direction, or its gradient. Dense inputs; `shapes` gives each result's from (rows, batch, size). CPU with BLAS only: ask `runs`."""

    parameters = ("counted", "reverse")  # rows of each step, and the direction
    widens = False

    def __init__(self, name: str, kernel: Callable, inputs: str, results: dict[str, tuple], gates: int, relu: bool | None = None) -> None:
        super().__init__(name)
        self.kernel, self.inputs, self.results, self.gates, self.relu = kernel, tuple(inputs.split()), results, gates, relu
        self.outputs = tuple(results)

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        named, (counted, reverse) = dict(zip(self.inputs, arguments)), parameters
        device, weight = single_device(self.name, list(arguments)), named["weight"]
        size, rows, batch, dtype = weight.shape[1], sum(counted), named["h0"].shape[0], weight.dtype
        sizes = {"rows": rows, "batch": batch, "size": size, "wide": self.gates * size, "few": size if batch <= 32 else 0}
        results = tuple(layout(tuple(sizes[each] for each in shape), dtype, device) for shape in self.results.values())
        constants = (rows, len(counted), size, int(reverse), *(() if self.relu is None else (int(self.relu),)), blas.gemm_address(dtype.storage))
        arrays = [*("int64[]" if name == "counts" else f"{dtype.storage.name}[]" for name in self.inputs), *(f"{dtype.storage.name}[]" for _ in results)]
        run = bind.launcher(device, self.name, bind.source_of(self.kernel), ", ".join([*arrays, *["int64"] * len(constants)]), dtype, 1)

        def launch(*arguments: object) -> None:
            blas.prepare(batch * size * size * self.gates)
            run(*arguments)

        return Plan(results, launch, constants)


def runs(x: object, *others: object) -> bool:
    """Whether these tensors are of one dtype that layers have kernels for, on a device that has them, and not empty."""
    kinds = {each.dtype for each in (x, *others)}
    return x.device.type == "cpu" and len(kinds) == 1 and bool(blas.gemm_address(x.dtype.storage)) and x.dtype.is_floating_point and x.numel() > 0


def _walk(counted: tuple[int, ...], reverse: bool) -> Iterator[tuple[int, int, int]]:
    """(first row, rows, rows that go on from the step before), in order of time."""
    at, last = sum(counted) if reverse else 0, 0
    for n in reversed(counted) if reverse else counted:
        at -= n if reverse else 0
        yield at, n, min(n, last)
        at, last = at if reverse else at + n, n


def _step_by_step(forward: Callable, backward: Callable, grads: list, x: object, weight: object, bias: object, starts: tuple, counted: tuple, reverse: bool) -> tuple:
    """(d_x, d_weight, d_bias, *d_starts) in tensor operations that can be differentiated again: all states once more, then back through them."""
    steps, last = list(_walk(counted, reverse)), tuple(each[:0] for each in starts)
    known = []
    for at, n, kept in steps:
        before = tuple(cat.apply((each[:kept], first[kept:n]), (0,)) if kept < n else each[:n] for each, first in zip(last, starts))
        y = before[0] @ weight.mT + (0 if bias is None else bias)
        last = forward(x[at : at + n], y, before)
        known.append((x[at : at + n], y, before, last))
    carried, places, d_weight, d_bias, begun = [each[:0] for each in starts], {}, 0, 0, []
    for (at, n, kept), (x_step, y, before, after) in zip(reversed(steps), reversed(known)):
        here = [g[at : at + n] + cat.apply((rest, rest.new_zeros((n - rest.shape[0], *rest.shape[1:]))), (0,)) for g, rest in zip(grads, carried)]
        places[at], d_y, back = backward(here, x_step, y, before, after)
        d_weight, d_bias = d_weight + d_y.mT @ before[0], d_bias + d_y.sum(0)
        back = [d_y @ weight + back[0], *back[1:]]
        carried = [each[:kept] for each in back]
        begun.append([each[kept:] for each in back])
    d_starts = [cat.apply(tuple(reversed(parts)), (0,)) for parts in zip(*begun)]
    return cat.apply(tuple(places[at] for at in sorted(places)), (0,)), d_weight, d_bias, *d_starts


def _dense(grads: list, results: tuple) -> list:
    return [like.new_zeros(like.shape) if each is None else each.contiguous() for each, like in zip(grads, results)]


def _lstm_back(given: list, x: object, y: object, before: tuple, after: tuple) -> tuple:
    d_gates, d_c = lstm_gradients(given, x + y, before[1], after[1], True)
    return d_gates, d_gates, [0, d_c]


def _lstm_layer_gradients(grads: list, x: object, weight: object, h0: object, c0: object, counts: object, h: object, c: object, gates: object, counted: tuple, reverse: bool, recording: bool) -> tuple:
    given = _dense(grads, (h, c))
    if not recording:
        return lstm_layer_gradient.apply((*given, weight, h0, c0, counts, h, c, gates), (counted, reverse))[:4]
    forward = lambda x, y, before: lstm_cell.apply((x + y, before[1]))  # noqa: E731
    d_x, d_weight, _, d_h, d_c = _step_by_step(forward, _lstm_back, given, x, weight, None, (h0, c0), counted, reverse)
    return d_x, d_weight, d_h, d_c


def _gru_back(given: list, x: object, y: object, before: tuple, after: tuple) -> tuple:
    d_x, d_y, d_h = gru_gradients(given[0], x, y, before[0], True)
    return d_x, d_y, [d_h]


def _gru_layer_gradients(grads: list, x: object, weight: object, bias: object, h0: object, counts: object, h: object, gates: object, y: object, counted: tuple, reverse: bool, recording: bool) -> tuple:
    given = _dense(grads[:1], (h,))
    if not recording:
        return gru_layer_gradient.apply((*given, weight, h0, counts, h, gates, y), (counted, reverse))[:4]
    forward = lambda x, y, before: (gru_cell.apply((x.contiguous(), y, before[0].contiguous())),)  # noqa: E731
    return _step_by_step(forward, _gru_back, given, x, weight, bias, (h0,), counted, reverse)


def _rnn_gradients(relu: bool) -> Callable:
    """The gradient of the layer with relu, or tanh."""

    def back(given: list, x: object, y: object, before: tuple, after: tuple) -> tuple:
        d_gates = given[0] * (after[0] > 0).to(x.dtype) if relu else given[0] * (1 - after[0] * after[0])
        return d_gates, d_gates, [0]

    def gradients(grads: list, x: object, weight: object, h0: object, counts: object, h: object, counted: tuple, reverse: bool, recording: bool) -> tuple:
        given = _dense(grads, (h,))
        if not recording:
            return (rnn_relu_layer_gradient if relu else rnn_layer_gradient).apply((*given, weight, h0, counts, h), (counted, reverse))[:3]
        forward = lambda x, y, before: ((x + y).relu() if relu else (x + y).tanh(),)  # noqa: E731
        d_x, d_weight, _, d_h = _step_by_step(forward, back, given, x, weight, None, (h0,), counted, reverse)
        return d_x, d_weight, d_h

    return gradients


_STATES, _GATES, _WEIGHT, _START, _TURNED = ("rows", "size"), ("rows", "wide"), ("wide", "size"), ("batch", "size"), ("few", "wide")
lstm_layer = Layer("lstm_layer", lstm_layer_kernel, "x weight h0 c0 counts", {"h": _STATES, "c": _STATES, "gates": _GATES, "turned": _TURNED}, 4)
lstm_layer_gradient = Layer("lstm_layer_gradient", lstm_layer_gradient_kernel, "given_h given_c weight h0 c0 counts h c gates", {
    "d_x": _GATES, "d_weight": _WEIGHT, "d_h0": _START, "d_c0": _START, "dh": _STATES, "dc": _STATES, "h_before": _STATES, "c_before": _STATES}, 4)  # fmt: skip
gru_layer = Layer("gru_layer", gru_layer_kernel, "x weight bias h0 counts", {"h": _STATES, "gates": _GATES, "y": _GATES, "turned": _TURNED}, 3)
gru_layer_gradient = Layer("gru_layer_gradient", gru_layer_gradient_kernel, "given_h weight h0 counts h gates y", {
    "d_x": _GATES, "d_weight": _WEIGHT, "d_bias": ("wide",), "d_h0": _START, "d_y": _GATES, "dh": _STATES, "h_before": _STATES}, 3)  # fmt: skip
_RNN = {"d_x": _STATES, "d_weight": _WEIGHT, "d_h0": _START, "dh": _STATES, "h_before": _STATES}
rnn_layer, rnn_relu_layer = (Layer(name, rnn_layer_kernel, "x weight h0 counts", {"h": _STATES, "turned": _TURNED}, 1, relu) for name, relu in (("rnn_layer", False), ("rnn_relu_layer", True)))
rnn_layer_gradient, rnn_relu_layer_gradient = (
    Layer(f"{name}_gradient", rnn_layer_gradient_kernel, "given_h weight h0 counts h", _RNN, 1, relu) for name, relu in (("rnn_layer", False), ("rnn_relu_layer", True))
)
lstm_layer.gradients = {("x", "weight", "h0", "c0"): _lstm_layer_gradients}
gru_layer.gradients = {("x", "weight", "bias", "h0"): _gru_layer_gradients}
rnn_layer.gradients, rnn_relu_layer.gradients = ({("x", "weight", "h0"): _rnn_gradients(relu)} for relu in (False, True))
for _op in (lstm_layer_gradient, gru_layer_gradient, rnn_layer_gradient, rnn_relu_layer_gradient):
    _op.differentiable = False
