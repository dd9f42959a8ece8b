"""Recurrent layers over whole sequences: one kernel from the input's gates to all states, and one for its gradient.

Single steps are in `rnn_cell`.

The rows of all sequences are stored step by step, `counts[k]` of them at step k, the longest sequences first, as in a
PackedSequence; `reverse` runs from the last step. A step is a product by register tiles and a pass over the gates
(`kernel.lines`). Weights are packed once. `state`, and what else the next step needs, stays in scratch memory that fits
the L1 cache, with extra rows at the end so that tiles need no edges. A sequence that has not begun, or has ended, keeps
its rows there: results of a tile for them are not used. Workers share the sequences.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator

from ...device import threads
from ...device.layout import layout
from ...kernel import bind
from ...kernel.any_size import for_all_sizes
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.library.panels import pack_columns
from ...kernel.registers import primitives, tiles
from ...kernel.registers.primitives import (
    copy_line,
    gru_gates,
    gru_gate_gradients,
    lstm_gates,
    lstm_gate_gradients,
    rnn_gates,
    rnn_relu_gates,
    rnn_relu_gate_gradients,
    rnn_gate_gradients,
)
from ...kernel.scalar import scalar
from ...kernel.specialize import has, specialized
from ..index.concat import cat
from ..matmul.matmul import matmul
from ..op import Op, Plan, single_device
from .rnn_cell import gru_cell, gru_gradients, lstm_cell, lstm_gradients


def forward(
    arrays, rows, steps, size, batch, reverse, keeps, padded, workers, *, COUNT, ROWS, PANEL, LANES, tile,
    cell_load_state, cell_forward, cell_clear_state,
):  # fmt: skip
    """Compute all states with the functions of a cell.

    `arrays` are the inputs, the results and scratch memory. Gates are stored after their activations; without `keeps`,
    only those of one step. Results have `rows` rows; those beyond the sum of the counts are 0.
    """
    wide, total = COUNT * size, int64(0)
    for step in range(steps):
        total += arrays.counts[uintp(step)]
    pack_columns(arrays.weight, 0, 1, size, size, wide, arrays.panels, 0, PANEL, LANES)
    for worker in parallel_range(workers):
        low, high = int64(worker) * batch // workers, (int64(worker) + 1) * batch // workers
        scratch_row = low + int64(worker) * ROWS
        for e in range((high - low) * size):
            arrays.state[uintp(scratch_row * size + e)] = arrays.h0[uintp(low * size + e)]
            cell_load_state(arrays, e, scratch_row, low, size)
        for e in range((scratch_row + high - low) * size, (scratch_row + high - low + ROWS) * size):
            arrays.state[uintp(e)] = 0
        step_row = total if reverse else int64(0)
        for step in range(steps):
            n = arrays.counts[uintp(steps - 1 - step)] if reverse else arrays.counts[uintp(step)]
            step_row = step_row - n if reverse else step_row
            active_rows = min(n, high) - low
            for j in range(0, padded, PANEL):
                for i in range(0, active_rows, ROWS):
                    tile(
                        arrays.state, (scratch_row + i) * size, size, arrays.panels, j * size, arrays.product,
                        (scratch_row + i) * padded + j, padded, size,
                    )  # fmt: skip
            for i in range(active_rows):
                row, scratch_at = step_row + low + i, (scratch_row + i) * size
                gates_row = row if keeps else low + i
                cell_forward(arrays, row, scratch_at, gates_row, scratch_row + i, wide, size, padded)
            step_row = step_row if reverse else step_row + n
    for e in range(total * size, rows * size):
        cell_clear_state(arrays, e)


def backward(
    arrays, rows, steps, size, batch, reverse, keeps, padded, workers, *, COUNT, ROWS, PANEL, LANES, tile,
    cell_clear_carried, cell_load_previous, cell_load_initial, cell_backward, cell_store_initial, cell_clear_gradient,
):  # fmt: skip
    """Compute the gradients of gates and initial states with the functions of a cell.

    d_h is the gradient of a state from the next step, h_before the previous state of each row.
    """
    wide, total = COUNT * size, int64(0)
    for step_index in range(steps):
        total += arrays.counts[uintp(step_index)]
    pack_columns(arrays.weight, 0, size, 1, wide, size, arrays.panels, 0, PANEL, LANES)
    for worker in parallel_range(workers):
        low, high = int64(worker) * batch // workers, (int64(worker) + 1) * batch // workers
        scratch_row = low + int64(worker) * ROWS
        for e in range(scratch_row * padded, (scratch_row + high - low + ROWS) * padded):
            arrays.d_h[uintp(e)] = 0
        for e in range(scratch_row * size, (scratch_row + high - low) * size):
            cell_clear_carried(arrays, e)
        for e in range(scratch_row * wide, (scratch_row + high - low + ROWS) * wide):
            arrays.d_gates[uintp(e)] = 0
        step_row = int64(0) if reverse else total
        for step_index in range(steps):
            step = step_index if reverse else steps - 1 - step_index
            n, previous_rows = arrays.counts[uintp(step)], rows_before(arrays.counts, step, steps, reverse)
            step_row = step_row if reverse else step_row - n
            previous_step_row = step_row + n if reverse else step_row - previous_rows
            active_rows = min(n, high) - low
            for i in range(active_rows):
                row, scratch_at, previous_row = (
                    step_row + low + i,
                    (scratch_row + i) * size,
                    previous_step_row + low + i,
                )
                if low + i < min(n, previous_rows):
                    copy_line(arrays.h, previous_row * size, 0, size, arrays.h_before, row * size, size)
                    cell_load_previous(arrays, previous_row, scratch_at, size)
                else:
                    copy_line(arrays.h0, (low + i) * size, 0, size, arrays.h_before, row * size, size)
                    cell_load_initial(arrays, low + i, scratch_at, size)
                cell_backward(arrays, row, scratch_at, scratch_row + i, wide, size, padded)
            for j in range(0, padded, PANEL):
                for i in range(0, active_rows, ROWS):
                    tile(
                        arrays.d_gates, (scratch_row + i) * wide, wide, arrays.panels, j * wide, arrays.d_h,
                        (scratch_row + i) * padded + j, padded, wide,
                    )  # fmt: skip
            step_row = step_row + n if reverse else step_row
        for i in range(high - low):
            for k in range(size):
                arrays.d_h0[uintp((low + i) * size + k)] = arrays.d_h[uintp((scratch_row + i) * padded + k)]
                cell_store_initial(arrays, low + i, scratch_row + i, k, size)
    for e in range(total * wide, rows * wide):
        cell_clear_gradient(arrays, e)
    for e in range(total * size, rows * size):
        arrays.h_before[uintp(e)] = 0


# The functions of each cell that the kernels above call. The gates of an LSTM are input, forget, output and cell; those
# of a GRU are reset, update, new, and the product of the state for new. `row` is a row of all sequences, `scratch_row`
# its number in scratch memory, where it begins at `scratch_at`.


def do_nothing(arrays, *rest):
    pass


def lstm_load_state(arrays, e, scratch_row, low, size):
    arrays.cell[uintp(scratch_row * size + e)] = arrays.c0[uintp(low * size + e)]


def lstm_forward(arrays, row, scratch_at, gates_row, scratch_row, wide, size, padded):
    lstm_gates(
        arrays.x, row * wide, arrays.product, scratch_row * padded, arrays.cell, scratch_at, arrays.gates,
        gates_row * wide, arrays.cell, scratch_at, arrays.c, row * size, arrays.h, row * size, arrays.state, scratch_at,
        size,
    )  # fmt: skip


def lstm_clear_state(arrays, e):
    arrays.h[uintp(e)] = arrays.c[uintp(e)] = 0


def clear_gradient(arrays, e):
    arrays.d_x[uintp(e)] = 0


def lstm_clear_carried(arrays, e):
    arrays.d_c[uintp(e)] = 0


def lstm_load_previous(arrays, previous_row, scratch_at, size):
    copy_line(arrays.c, previous_row * size, 0, size, arrays.c_before, scratch_at, size)


def lstm_load_initial(arrays, sequence, scratch_at, size):
    copy_line(arrays.c0, sequence * size, 0, size, arrays.c_before, scratch_at, size)


def lstm_backward(arrays, row, scratch_at, scratch_row, wide, size, padded):
    lstm_gate_gradients(
        arrays.given_h, row * size, arrays.given_c, row * size, arrays.d_h, scratch_row * padded, arrays.d_c,
        scratch_at, arrays.gates, row * wide, arrays.c, row * size, arrays.c_before, scratch_at, arrays.d_x, row * wide,
        arrays.d_gates, scratch_row * wide, arrays.d_c, scratch_at, size,
    )  # fmt: skip


def lstm_store_initial(arrays, sequence, scratch_row, k, size):
    arrays.d_c0[uintp(sequence * size + k)] = arrays.d_c[uintp(scratch_row * size + k)]


def gru_forward(arrays, row, scratch_at, gates_row, scratch_row, wide, size, padded):
    gru_gates(
        arrays.x, row * wide, arrays.product, scratch_row * padded, arrays.bias, 0, arrays.state, scratch_at,
        arrays.gates, gates_row * 4 * size, arrays.h, row * size, arrays.state, scratch_at, size,
    )  # fmt: skip


def clear_state(arrays, e):
    arrays.h[uintp(e)] = 0


def gru_clear_gradient(arrays, e):
    arrays.d_x[uintp(e)] = arrays.d_y[uintp(e)] = 0


def gru_clear_carried(arrays, e):
    """`d_direct` is the gradient of a state from the next step that does not pass through the product."""
    arrays.d_direct[uintp(e)] = 0


def gru_backward(arrays, row, scratch_at, scratch_row, wide, size, padded):
    gru_gate_gradients(
        arrays.given_h, row * size, arrays.d_h, scratch_row * padded, arrays.d_direct, scratch_at, arrays.gates,
        row * 4 * size, arrays.h_before, row * size, arrays.d_x, row * wide, arrays.d_y, row * wide, arrays.d_gates,
        scratch_row * wide, arrays.d_direct, scratch_at, size,
    )  # fmt: skip


def gru_store_initial(arrays, sequence, scratch_row, k, size):
    arrays.d_h0[uintp(sequence * size + k)] += arrays.d_direct[uintp(scratch_row * size + k)]


def rnn_forward(arrays, row, scratch_at, gates_row, scratch_row, wide, size, padded):
    rnn_gates(
        arrays.x, row * size, arrays.product, scratch_row * padded, arrays.h, row * size, arrays.state, scratch_at, size
    )


def rnn_backward(arrays, row, scratch_at, scratch_row, wide, size, padded):
    rnn_gate_gradients(
        arrays.given_h, row * size, arrays.d_h, scratch_row * padded, arrays.h, row * size, arrays.d_x, row * size,
        arrays.d_gates, scratch_row * size, size,
    )  # fmt: skip


def rnn_relu_forward(arrays, row, scratch_at, gates_row, scratch_row, wide, size, padded):
    rnn_relu_gates(
        arrays.x, row * size, arrays.product, scratch_row * padded, arrays.h, row * size, arrays.state, scratch_at, size
    )


def rnn_relu_backward(arrays, row, scratch_at, scratch_row, wide, size, padded):
    rnn_relu_gate_gradients(
        arrays.given_h, row * size, arrays.d_h, scratch_row * padded, arrays.h, row * size, arrays.d_x, row * size,
        arrays.d_gates, scratch_row * size, size,
    )  # fmt: skip


# COUNT is the number of gates
LSTM = {
    "COUNT": 4, "cell_load_state": lstm_load_state, "cell_forward": lstm_forward, "cell_clear_state": lstm_clear_state,
    "cell_clear_carried": lstm_clear_carried, "cell_load_previous": lstm_load_previous,
    "cell_load_initial": lstm_load_initial, "cell_backward": lstm_backward, "cell_store_initial": lstm_store_initial,
    "cell_clear_gradient": clear_gradient,
}  # fmt: skip
GRU = {
    **dict.fromkeys(("cell_load_state", "cell_load_previous", "cell_load_initial"), do_nothing),
    "COUNT": 3, "cell_forward": gru_forward, "cell_clear_state": clear_state, "cell_clear_carried": gru_clear_carried,
    "cell_backward": gru_backward, "cell_store_initial": gru_store_initial, "cell_clear_gradient": gru_clear_gradient,
}  # fmt: skip
RNN = {
    **dict.fromkeys(("cell_load_state", "cell_clear_carried", "cell_load_previous", "cell_load_initial"), do_nothing),
    "COUNT": 1, "cell_forward": rnn_forward, "cell_clear_state": clear_state, "cell_backward": rnn_backward,
    "cell_store_initial": do_nothing, "cell_clear_gradient": clear_gradient,
}  # fmt: skip
RNN_RELU = {**RNN, "cell_forward": rnn_relu_forward, "cell_backward": rnn_relu_backward}


@scalar
def rows_before(counts, k, steps, reverse):
    """The number of rows of the step that precedes step k in time."""
    previous = k + 1 if reverse else k - 1
    return counts[uintp(previous)] if 0 <= previous < steps else int64(0)


_TAKES = {  # of each input, as in `contract`
    "x": "x[rows wide]:f", "weight": "weight[wide size]:f", "bias": "bias[wide]:f", "counts": "counts[steps]:int64",
    "gates": "gates[rows four]:f",
    **{name: f"{name}[batch size]:f" for name in ("h0", "c0")},
    **{name: f"{name}[rows size]:f" for name in ("given_h", "given_c", "h", "c")},
}  # fmt: skip


def room(steps: int, batch: int) -> tuple[int, ...]:
    """The attribute `counted` with room for all sequences at each step, for counts that only their tensor has."""
    return (-batch,) * steps


def is_room(counted: tuple[int, ...]) -> bool:
    """Whether `counted` is the room for rows instead of their number."""
    return min(counted, default=0) < 0


_NAMES = {"x": "the product with weight_ih", "weight": "weight_hh", "bias": "bias_hh"}


class Layer(Op):
    """A layer of cells in one direction, or its gradient.

    Dense inputs, CPU only (see `runs`). `results` has the dimensions of each result, `scratch` the width of each array
    of scratch memory; the first is the product.
    """

    parameters = ("counted", "reverse")  # rows of each step (or `room` for them), and the direction
    upcasts_half = False

    def __init__(
        self,
        name: str,
        kernel: Callable,
        cell: dict[str, object],
        inputs: str,
        results: dict[str, tuple],
        scratch: dict[str, str],
    ) -> None:
        super().__init__(name)
        self.kernel, self.cell, self.inputs, self.results, self.scratch = (
            kernel,
            cell,
            tuple(inputs.split()),
            results,
            scratch,
        )
        self.outputs = tuple(results)
        if "gates" in results:
            self.parameters = (*self.parameters, "keeps")  # whether a backward pass needs the gates

    @property
    def takes(self) -> str:
        """As `Op.takes`."""
        return (
            f"{' '.join(map(_TAKES.__getitem__, self.inputs))}; counted=..^steps "
            f"reverse=flag{' keeps=flag' * ('keeps' in self.parameters)}"
        )

    def check(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """As `Op.check`."""
        counted, gates, batch = parameters[0], self.cell["COUNT"], sizes["batch"]
        is_decreasing = all(0 < n <= previous for previous, n in zip((batch, *counted), counted))
        if not (is_decreasing or counted == room(len(counted), batch)) or sum(map(abs, counted)) != sizes["rows"]:
            return (
                f"attribute 'counted' must be the rows of each step, {sizes['rows']} in all and never more than "
                "before, "
                f"or {-batch} for each step, got {reprlib.repr(counted)}"
            )
        widths = {"wide": gates * sizes["size"], "four": 4 * sizes["size"]}
        wrong = next((name for name, n in widths.items() if sizes.get(name, n) != n), None)
        return wrong and f"gates of a state of {sizes['size']} must be {widths[wrong]} wide, got {sizes[wrong]}"

    def known_values(self, parameters: tuple) -> dict[int, tuple[int, ...]]:
        """As `Op.known_values`."""
        return {} if is_room(parameters[0]) else {self.inputs.index("counts"): parameters[0]}

    def further_limits(self, arguments: tuple, parameters: tuple, sizes: dict) -> dict[int, int]:
        """As `Op.further_limits`: counts from 0 to the batch keep the kernels within the room."""
        return {self.inputs.index("counts"): sizes["batch"] + 1} if is_room(parameters[0]) else {}

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        layouts, (counted, reverse, *keeps) = dict(zip(self.inputs, arguments)), parameters
        device, weight = single_device(self.name, list(arguments)), layouts["weight"]
        (batch, size), rows, dtype = layouts["h0"].shape, sum(map(abs, counted)), weight.dtype
        wide, lanes = self.cell["COUNT"] * size, tiles.host().lanes(dtype.itemsize)
        for name, shape in {"x": (rows, wide), "weight": (wide, size), "bias": (wide,), "c0": (batch, size)}.items():
            # replaced weights: the kernel would read beyond their memory
            if name in layouts and tuple(layouts[name].shape) != shape:
                raise RuntimeError(
                    f"{self.name}: expected {_NAMES.get(name, name)} of shape {shape} for a state of {size}, got "
                    f"{tuple(layouts[name].shape)}"
                )
        inner, columns = (size, wide) if self.kernel is forward else (wide, size)
        height = _height(batch)
        panel, padded = tiles.panel(columns, lanes, tiles.widest(height))
        sizes = {
            "rows": rows,
            "gates_rows": batch if keeps == [False] else rows,
            "batch": batch,
            "size": size,
            "wide": wide,
            "four": 4 * size,
            "padded": padded,
        }
        results = tuple(
            layout(tuple(sizes[dimension] for dimension in shape), dtype, device) for shape in self.results.values()
        )
        arrays = (*self.inputs, *self.outputs, "panels", *self.scratch)
        kinds = [f"{'int64' if name == 'counts' else dtype.storage.name}[]" for name in arrays]
        constants = (rows, len(counted), size, batch, int(reverse), int(keeps != [False]), padded)
        values = {name: value for name, value in self.cell.items() if has(self.kernel, name)}
        tile = getattr(primitives, f"tile{height}x{panel // lanes}")
        source = specialized(self.kernel, arrays=arrays, ROWS=height, PANEL=panel, LANES=lanes, tile=tile, **values)
        useful_workers = batch // (2 * tiles.host().rows)  # workers with enough work
        work = rows * size * wide // 4 if useful_workers > 1 else 1
        run = bind.launcher(
            device, self.name, source, ", ".join([*kinds, *["int64"] * (len(constants) + 1)]), dtype, work
        )

        def launch(*buffers: object) -> None:
            workers = max(1, min(threads.get_num_threads(), useful_workers))
            scratch_sizes = (
                (padded * inner, dtype.storage),
                *[((batch + workers * height) * sizes[value], dtype.storage) for value in self.scratch.values()],
            )
            run(*buffers, *device.backend.scratch(scratch_sizes), *constants, workers)

        return Plan(results, launch)


def _height(batch: int) -> int:
    """The rows of a tile for `batch` sequences."""
    tallest = tiles.host().rows
    if for_all_sizes.get():
        return tallest
    return next((height for height in tiles.HEIGHTS if height >= min(batch, tallest)), tallest)


def runs(x: object, *others: object) -> bool:
    """Whether the kernels support these tensors: not empty, on the CPU, of one floating dtype of at least 32 bits."""
    tensor_dtypes = {tensor.dtype for tensor in (x, *others)}
    return (
        x.device.type == "cpu"
        and len(tensor_dtypes) == 1
        and x.dtype.is_floating_point
        and x.dtype.itemsize >= 4
        and x.numel() > 0
    )


def _steps_in_time(counted: tuple[int, ...], reverse: bool) -> Iterator[tuple[int, int, int]]:
    """(first row, rows, rows that continue from the previous step) of each step, in order of time."""
    at, previous = sum(counted) if reverse else 0, 0
    for n in reversed(counted) if reverse else counted:
        at -= n if reverse else 0
        yield at, n, min(n, previous)
        at, previous = at if reverse else at + n, n


def _step_by_step(
    forward: Callable,
    backward: Callable,
    grads: list,
    x: object,
    weight: object,
    bias: object,
    starts: tuple,
    counts: object,
    counted: tuple,
    reverse: bool,
) -> tuple:
    """(d_x, d_weight, d_bias, *d_starts) in tensor operations, which can be differentiated again.

    Recomputes all states, then runs backward through them.
    """
    if is_room(counted):
        observed = tuple(n for state in counts if (n := int(state._observe())))
        used, rest = sum(observed), x.new_zeros((x.shape[0] - sum(observed), x.shape[1]))
        d_x, *d_others = _step_by_step(
            forward, backward, [g[:used] for g in grads], x[:used], weight, bias, starts, counts, observed, reverse
        )
        return cat.apply((d_x, rest), (0,)), *d_others
    steps, last = list(_steps_in_time(counted, reverse)), tuple(state[:0] for state in starts)
    recorded = []
    for at, n, continuing in steps:
        before = tuple(
            cat.apply((state[:continuing], start[continuing:n]), (0,)) if continuing < n else state[:n]
            for state, start in zip(last, starts)
        )
        y = before[0] @ weight.mT + (0 if bias is None else bias)
        last = forward(x[at : at + n], y, before)
        recorded.append((x[at : at + n], y, before, last))
    carried, d_x_steps, d_weight, d_bias, started = [state[:0] for state in starts], {}, 0, 0, []
    for (at, n, continuing), (x_step, y, before, after) in zip(reversed(steps), reversed(recorded)):
        d_after = [
            g[at : at + n] + cat.apply((rest, rest.new_zeros((n - rest.shape[0], *rest.shape[1:]))), (0,))
            for g, rest in zip(grads, carried)
        ]
        d_x_steps[at], d_y, d_before = backward(d_after, x_step, y, before, after)
        d_weight, d_bias = d_weight + d_y.mT @ before[0], d_bias + d_y.sum(0)
        d_before = [d_y @ weight + d_before[0], *d_before[1:]]
        carried = [state[:continuing] for state in d_before]
        started.append([state[continuing:] for state in d_before])
    d_starts = [cat.apply(tuple(reversed(parts)), (0,)) for parts in zip(*started)]
    return cat.apply(tuple(d_x_steps[at] for at in sorted(d_x_steps)), (0,)), d_weight, d_bias, *d_starts


def _dense(grads: list, results: tuple) -> list:
    return [like.new_zeros(like.shape) if grad is None else grad.contiguous() for grad, like in zip(grads, results)]


def _lstm_back(d_states: list, x: object, y: object, before: tuple, after: tuple) -> tuple:
    d_gates, d_c = lstm_gradients(d_states, x + y, before[1], after[1], True)
    return d_gates, d_gates, [0, d_c]


def _lstm_layer_gradients(
    grads: list,
    x: object,
    weight: object,
    h0: object,
    c0: object,
    counts: object,
    h: object,
    c: object,
    gates: object,
    counted: tuple,
    reverse: bool,
    recording: bool,
) -> tuple:
    d_states = _dense(grads[:2], (h, c))
    if not recording:
        if gates.shape[0] < h.shape[0]:  # the gates of one step only: a backward pass was not expected
            gates = lstm_layer.apply((x, weight, h0, c0, counts), (counted, reverse, True))[2]
        d_x, d_h0, d_c0, h_before = lstm_layer_gradient.apply(
            (*d_states, weight, h0, c0, counts, h, c, gates), (counted, reverse)
        )
        return d_x, matmul.apply((d_x, h_before), (True, False)), d_h0, d_c0
    forward = lambda x, y, before: lstm_cell.apply((x + y, before[1]))  # noqa: E731
    d_x, d_weight, _, d_h, d_c = _step_by_step(
        forward, _lstm_back, d_states, x, weight, None, (h0, c0), counts, counted, reverse
    )
    return d_x, d_weight, d_h, d_c


def _gru_back(d_states: list, x: object, y: object, before: tuple, after: tuple) -> tuple:
    d_x, d_y, d_h = gru_gradients(d_states[0], x, y, before[0], True)
    return d_x, d_y, [d_h]


def _gru_layer_gradients(
    grads: list,
    x: object,
    weight: object,
    bias: object,
    h0: object,
    counts: object,
    h: object,
    gates: object,
    counted: tuple,
    reverse: bool,
    recording: bool,
) -> tuple:
    d_states = _dense(grads[:1], (h,))
    if not recording:
        if gates.shape[0] < h.shape[0]:
            gates = gru_layer.apply((x, weight, bias, h0, counts), (counted, reverse, True))[1]
        d_x, d_y, d_h0, h_before = gru_layer_gradient.apply(
            (*d_states, weight, h0, counts, h, gates), (counted, reverse)
        )
        return d_x, matmul.apply((d_y, h_before), (True, False)), d_y.sum(0), d_h0
    forward = lambda x, y, before: (gru_cell.apply((x.contiguous(), y, before[0].contiguous())),)  # noqa: E731
    return _step_by_step(forward, _gru_back, d_states, x, weight, bias, (h0,), counts, counted, reverse)


def _rnn_gradients(relu: bool) -> Callable:
    """The gradient of the layer with relu, or tanh."""

    def back(d_states: list, x: object, y: object, before: tuple, after: tuple) -> tuple:
        d_gates = d_states[0] * (after[0] > 0).to(x.dtype) if relu else d_states[0] * (1 - after[0] * after[0])
        return d_gates, d_gates, [0]

    def gradients(
        grads: list,
        x: object,
        weight: object,
        h0: object,
        counts: object,
        h: object,
        counted: tuple,
        reverse: bool,
        recording: bool,
    ) -> tuple:
        d_states = _dense(grads, (h,))
        if not recording:
            d_x, d_h0, h_before = (rnn_relu_layer_gradient if relu else rnn_layer_gradient).apply(
                (*d_states, weight, h0, counts, h), (counted, reverse)
            )
            return d_x, matmul.apply((d_x, h_before), (True, False)), d_h0
        forward = lambda x, y, before: ((x + y).relu() if relu else (x + y).tanh(),)  # noqa: E731
        d_x, d_weight, _, d_h = _step_by_step(forward, back, d_states, x, weight, None, (h0,), counts, counted, reverse)
        return d_x, d_weight, d_h

    return gradients


_STATES, _GATES, _SAVED_GATES, _START = ("rows", "size"), ("rows", "wide"), ("gates_rows", "four"), ("batch", "size")
_BEFORE = {"d_h0": _START, "h_before": _STATES}
lstm_layer = Layer(
    "lstm_layer",
    forward,
    LSTM,
    "x weight h0 c0 counts",
    {"h": _STATES, "c": _STATES, "gates": _SAVED_GATES},
    {"product": "padded", "state": "size", "cell": "size"},
)
lstm_layer_gradient = Layer(
    "lstm_layer_gradient", backward, LSTM, "given_h given_c weight h0 c0 counts h c gates",
    {"d_x": _GATES, "d_h0": _START, "d_c0": _START, "h_before": _STATES},
    {"d_h": "padded", "d_gates": "wide", "d_c": "size", "c_before": "size"},
)  # fmt: skip
gru_layer = Layer(
    "gru_layer",
    forward,
    GRU,
    "x weight bias h0 counts",
    {"h": _STATES, "gates": _SAVED_GATES},
    {"product": "padded", "state": "size"},
)
gru_layer_gradient = Layer(
    "gru_layer_gradient", backward, GRU, "given_h weight h0 counts h gates", {"d_x": _GATES, "d_y": _GATES, **_BEFORE},
    {"d_h": "padded", "d_gates": "wide", "d_direct": "size"},
)  # fmt: skip
(rnn_layer, rnn_layer_gradient), (rnn_relu_layer, rnn_relu_layer_gradient) = (
    (
        Layer(name, forward, cell, "x weight h0 counts", {"h": _STATES}, {"product": "padded", "state": "size"}),
        Layer(
            f"{name}_gradient",
            backward,
            cell,
            "given_h weight h0 counts h",
            {"d_x": _STATES, **_BEFORE},
            {"d_h": "padded", "d_gates": "wide"},
        ),
    )
    for name, cell in (("rnn_layer", RNN), ("rnn_relu_layer", RNN_RELU))
)
lstm_layer.gradients = {("x", "weight", "h0", "c0"): _lstm_layer_gradients}
gru_layer.gradients = {("x", "weight", "bias", "h0"): _gru_layer_gradients}
rnn_layer.gradients, rnn_relu_layer.gradients = (
    {("x", "weight", "h0"): _rnn_gradients(relu)} for relu in (False, True)
)
for _op in (lstm_layer_gradient, gru_layer_gradient, rnn_layer_gradient, rnn_relu_layer_gradient):
    _op.differentiable = False
