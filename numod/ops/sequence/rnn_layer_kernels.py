"""Kernels of recurrent layers over whole sequences (see `rnn_layer`), and the functions of each cell that they call."""

from __future__ import annotations

from ...kernel.language import int64, parallel_range, uintp
from ...kernel.library.panels import pack_columns
from ...kernel.registers.primitives.cells import (
    gru_gates,
    gru_gate_gradients,
    lstm_gates,
    lstm_gate_gradients,
    rnn_gates,
    rnn_relu_gates,
    rnn_relu_gate_gradients,
    rnn_gate_gradients,
)
from ...kernel.registers.primitives.tiles import copy_line
from ...kernel.scalar import scalar


@scalar
def rows_before(counts, k, steps, reverse):
    """The number of rows of the step that precedes step k in time."""
    previous = k + 1 if reverse else k - 1
    return counts[uintp(previous)] if 0 <= previous < steps else int64(0)


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
        arrays.d_out_h, row * size, arrays.d_out_c, row * size, arrays.d_h, scratch_row * padded, arrays.d_c,
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
        arrays.d_out_h, row * size, arrays.d_h, scratch_row * padded, arrays.d_direct, scratch_at, arrays.gates,
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
        arrays.d_out_h, row * size, arrays.d_h, scratch_row * padded, arrays.h, row * size, arrays.d_x, row * size,
        arrays.d_gates, scratch_row * size, size,
    )  # fmt: skip


def rnn_relu_forward(arrays, row, scratch_at, gates_row, scratch_row, wide, size, padded):
    rnn_relu_gates(
        arrays.x, row * size, arrays.product, scratch_row * padded, arrays.h, row * size, arrays.state, scratch_at, size
    )


def rnn_relu_backward(arrays, row, scratch_at, scratch_row, wide, size, padded):
    rnn_relu_gate_gradients(
        arrays.d_out_h, row * size, arrays.d_h, scratch_row * padded, arrays.h, row * size, arrays.d_x, row * size,
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
