"""Recurrent layers over whole sequences: one kernel from the input's gates to all states, and one for its gradient.

Single steps are `recurrent`'s.

Rows of all sequences lie step by step: `counts[k]` of them at step k, the longest sequences first, as in a
PackedSequence; `reverse` runs from the last step. A step is a product by register tiles and a pass over the gates
(`kernel.lines`). Weights are packed once; `state`, and what else the next step needs of this one, stays in scratch
memory that a core's first cache holds, with rows beyond the last so that tiles need no edges. A sequence that has not
begun, or has ended, keeps its rows there as they are: what a tile computes for them is not used, or what was there.
Workers share the sequences.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator

from ...device import threads
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.library.panels import pack_columns
from ...kernel.registers import primitives, tiles
from ...kernel.registers.primitives import (
    copy_line,
    gru_gates,
    gru_slopes,
    lstm_gates,
    lstm_slopes,
    rnn_gates,
    rnn_relu_gates,
    rnn_relu_slopes,
    rnn_slopes,
)
from ...kernel.scalar import scalar
from ...kernel.specialize import has, specialized
from ..index.concat import cat
from ..matmul.matmul import matmul
from ..op import Op, Plan, single_device
from .rnn_cell import gru_cell, gru_gradients, lstm_cell, lstm_gradients


def forward(
    arrays, rows, steps, size, batch, reverse, keeps, padded, workers, *, COUNT, ROWS, PANEL, LANES, tile, cell_start, cell_gates, cell_no_state,
):  # fmt: skip
    """All states, by the functions of a cell.

    `arrays` are the inputs, the results and scratch memory. Gates are stored as they act, those of one step where they
    are not needed later.

    There is room for `rows` rows; those beyond the counts' total are 0.
    """
    wide, total = COUNT * size, int64(0)
    for turn in range(steps):
        total += arrays.counts[uintp(turn)]
    pack_columns(arrays.weight, 0, 1, size, size, wide, arrays.panels, 0, PANEL, LANES)
    for worker in parallel_range(workers):
        low, high = int64(worker) * batch // workers, (int64(worker) + 1) * batch // workers
        own = low + int64(worker) * ROWS
        for e in range((high - low) * size):
            arrays.state[uintp(own * size + e)] = arrays.h0[uintp(low * size + e)]
            cell_start(arrays, e, own, low, size)
        for e in range((own + high - low) * size, (own + high - low + ROWS) * size):
            arrays.state[uintp(e)] = 0
        at = total if reverse else int64(0)
        for turn in range(steps):
            n = arrays.counts[uintp(steps - 1 - turn)] if reverse else arrays.counts[uintp(turn)]
            at = at - n if reverse else at
            held = min(n, high) - low
            for j in range(0, padded, PANEL):
                for i in range(0, held, ROWS):
                    tile(
                        arrays.state,
                        (own + i) * size,
                        size,
                        arrays.panels,
                        j * size,
                        arrays.product,
                        (own + i) * padded + j,
                        padded,
                        size,
                    )
            for i in range(held):
                row, place = at + low + i, (own + i) * size
                kept = row if keeps else low + i
                cell_gates(arrays, row, place, kept, own + i, wide, size, padded)
            at = at if reverse else at + n
    for e in range(total * size, rows * size):
        cell_no_state(arrays, e)


def backward(
    arrays, rows, steps, size, batch, reverse, keeps, padded, workers,
    *, COUNT, ROWS, PANEL, LANES, tile, cell_nothing_yet, cell_goes_on, cell_begins, cell_slopes, cell_end, cell_no_slope,
):  # fmt: skip
    """Gradients of gates and first states, by the functions of a cell. d_h is what states receive from the next step,
    h_before what each row began with.
    """
    wide, total = COUNT * size, int64(0)
    for turn in range(steps):
        total += arrays.counts[uintp(turn)]
    pack_columns(arrays.weight, 0, size, 1, wide, size, arrays.panels, 0, PANEL, LANES)
    for worker in parallel_range(workers):
        low, high = int64(worker) * batch // workers, (int64(worker) + 1) * batch // workers
        own = low + int64(worker) * ROWS
        for e in range(own * padded, (own + high - low + ROWS) * padded):
            arrays.d_h[uintp(e)] = 0
        for e in range(own * size, (own + high - low) * size):
            cell_nothing_yet(arrays, e)
        for e in range(own * wide, (own + high - low + ROWS) * wide):
            arrays.slopes[uintp(e)] = 0
        at = int64(0) if reverse else total
        for turn in range(steps):
            k = turn if reverse else steps - 1 - turn  # the step, and the rows of the one before it
            n, last = arrays.counts[uintp(k)], rows_before(arrays.counts, k, steps, reverse)
            at = at if reverse else at - n
            before = at + n if reverse else at - last
            held = min(n, high) - low
            for i in range(held):
                row, place, former = at + low + i, (own + i) * size, before + low + i
                if low + i < min(n, last):
                    copy_line(arrays.h, former * size, 0, size, arrays.h_before, row * size, size)
                    cell_goes_on(arrays, former, place, size)
                else:
                    copy_line(arrays.h0, (low + i) * size, 0, size, arrays.h_before, row * size, size)
                    cell_begins(arrays, low + i, place, size)
                cell_slopes(arrays, row, place, own + i, wide, size, padded)
            for j in range(0, padded, PANEL):
                for i in range(0, held, ROWS):
                    tile(
                        arrays.slopes,
                        (own + i) * wide,
                        wide,
                        arrays.panels,
                        j * wide,
                        arrays.d_h,
                        (own + i) * padded + j,
                        padded,
                        wide,
                    )
            at = at + n if reverse else at
        for i in range(high - low):
            for k in range(size):
                arrays.d_h0[uintp((low + i) * size + k)] = arrays.d_h[uintp((own + i) * padded + k)]
                cell_end(arrays, low + i, own + i, k, size)
    for e in range(total * wide, rows * wide):
        cell_no_slope(arrays, e)
    for e in range(total * size, rows * size):
        arrays.h_before[uintp(e)] = 0


# The functions of each cell, where the kernels above call them: an LSTM's gates are input, forget, output and cell; a
# GRU's are reset, update, new, and the
# state's product for new. `row` is a row of all sequences, `place` where it begins in scratch memory, `own` its number
# there.


def nothing(arrays, *rest):
    pass


def lstm_start(arrays, e, own, low, size):
    arrays.cell[uintp(own * size + e)] = arrays.c0[uintp(low * size + e)]


def lstm_gates_of_row(arrays, row, place, kept, own, wide, size, padded):
    lstm_gates(
        arrays.x, row * wide, arrays.product, own * padded, arrays.cell, place, arrays.gates, kept * wide, arrays.cell,
        place, arrays.c, row * size,
        arrays.h, row * size, arrays.state, place, size,
    )  # fmt: skip


def lstm_no_state(arrays, e):
    arrays.h[uintp(e)] = arrays.c[uintp(e)] = 0


def no_slope(arrays, e):
    arrays.d_x[uintp(e)] = 0


def lstm_nothing_yet(arrays, e):
    arrays.d_c[uintp(e)] = 0


def lstm_goes_on(arrays, former, place, size):
    copy_line(arrays.c, former * size, 0, size, arrays.c_before, place, size)


def lstm_begins(arrays, sequence, place, size):
    copy_line(arrays.c0, sequence * size, 0, size, arrays.c_before, place, size)


def lstm_slopes_of_row(arrays, row, place, own, wide, size, padded):
    lstm_slopes(
        arrays.given_h, row * size, arrays.given_c, row * size, arrays.d_h, own * padded, arrays.d_c, place,
        arrays.gates, row * wide, arrays.c, row * size,
        arrays.c_before, place, arrays.d_x, row * wide, arrays.slopes, own * wide, arrays.d_c, place, size,
    )  # fmt: skip


def lstm_end(arrays, sequence, own, k, size):
    arrays.d_c0[uintp(sequence * size + k)] = arrays.d_c[uintp(own * size + k)]


def gru_gates_of_row(arrays, row, place, kept, own, wide, size, padded):
    gru_gates(
        arrays.x, row * wide, arrays.product, own * padded, arrays.bias, 0, arrays.state, place, arrays.gates,
        kept * 4 * size, arrays.h, row * size,
        arrays.state, place, size,
    )  # fmt: skip


def no_state(arrays, e):
    arrays.h[uintp(e)] = 0


def gru_no_slope(arrays, e):
    arrays.d_x[uintp(e)] = arrays.d_y[uintp(e)] = 0


def gru_nothing_yet(arrays, e):
    """`direct` is what states receive from the next step besides the product."""
    arrays.direct[uintp(e)] = 0


def gru_slopes_of_row(arrays, row, place, own, wide, size, padded):
    gru_slopes(
        arrays.given_h, row * size, arrays.d_h, own * padded, arrays.direct, place, arrays.gates, row * 4 * size,
        arrays.h_before, row * size,
        arrays.d_x, row * wide, arrays.d_y, row * wide, arrays.slopes, own * wide, arrays.direct, place, size,
    )  # fmt: skip


def gru_end(arrays, sequence, own, k, size):
    arrays.d_h0[uintp(sequence * size + k)] += arrays.direct[uintp(own * size + k)]


def rnn_gates_of_row(arrays, row, place, kept, own, wide, size, padded):
    rnn_gates(arrays.x, row * size, arrays.product, own * padded, arrays.h, row * size, arrays.state, place, size)


def rnn_slopes_of_row(arrays, row, place, own, wide, size, padded):
    rnn_slopes(
        arrays.given_h, row * size, arrays.d_h, own * padded, arrays.h, row * size, arrays.d_x, row * size,
        arrays.slopes, own * size, size,
    )  # fmt: skip


def rnn_relu_gates_of_row(arrays, row, place, kept, own, wide, size, padded):
    rnn_relu_gates(arrays.x, row * size, arrays.product, own * padded, arrays.h, row * size, arrays.state, place, size)


def rnn_relu_slopes_of_row(arrays, row, place, own, wide, size, padded):
    rnn_relu_slopes(
        arrays.given_h, row * size, arrays.d_h, own * padded, arrays.h, row * size, arrays.d_x, row * size,
        arrays.slopes, own * size, size,
    )  # fmt: skip


# COUNT is the number of gates
LSTM = {
    "COUNT": 4, "cell_start": lstm_start, "cell_gates": lstm_gates_of_row, "cell_no_state": lstm_no_state,
    "cell_no_slope": no_slope, "cell_nothing_yet": lstm_nothing_yet, "cell_goes_on": lstm_goes_on,
    "cell_begins": lstm_begins, "cell_slopes": lstm_slopes_of_row, "cell_end": lstm_end,
}  # fmt: skip
GRU = {
    "COUNT": 3, "cell_start": nothing, "cell_gates": gru_gates_of_row, "cell_no_state": no_state,
    "cell_no_slope": gru_no_slope, "cell_nothing_yet": gru_nothing_yet, "cell_goes_on": nothing, "cell_begins": nothing,
    "cell_slopes": gru_slopes_of_row, "cell_end": gru_end,
}  # fmt: skip
RNN = {
    **dict.fromkeys(("cell_start", "cell_nothing_yet", "cell_goes_on", "cell_begins", "cell_end"), nothing),
    "COUNT": 1, "cell_gates": rnn_gates_of_row, "cell_no_state": no_state, "cell_no_slope": no_slope,
    "cell_slopes": rnn_slopes_of_row,
}  # fmt: skip
RNN_RELU = {**RNN, "cell_gates": rnn_relu_gates_of_row, "cell_slopes": rnn_relu_slopes_of_row}


@scalar
def rows_before(counts, k, steps, reverse):
    """How many rows the step before step k has, in the order of time."""
    former = k + 1 if reverse else k - 1
    return counts[uintp(former)] if 0 <= former < steps else int64(0)


_TAKES = {  # of each input, as in `contract`
    "x": "x[rows wide]:f", "weight": "weight[wide size]:f", "bias": "bias[wide]:f", "counts": "counts[steps]:int64",
    "gates": "gates[rows four]:f",
    **{name: f"{name}[batch size]:f" for name in ("h0", "c0")},
    **{name: f"{name}[rows size]:f" for name in ("given_h", "given_c", "h", "c")},
}  # fmt: skip


def room(steps: int, batch: int) -> tuple[int, ...]:
    """The attribute `counted` of a layer with room for all sequences at each step, where only the tensor of counts
    knows how many there are.
    """
    return (-batch,) * steps


def is_room(counted: tuple[int, ...]) -> bool:
    """Whether `counted` is the room for rows, not their number."""
    return min(counted, default=0) < 0


_NAMES = {"x": "the product with weight_ih", "weight": "weight_hh", "bias": "bias_hh"}


class Layer(Op):
    """A layer of cells in one direction, or its gradient.

    Dense inputs; `shapes` gives each result's from (rows, batch, size). CPU only: ask `runs`.

    `scratch` names the arrays of a sequence's scratch memory with their widths, the first of them that of the product.
    """

    parameters = ("counted", "reverse")  # rows of each step (or `room` for them), and the direction
    upcasts_half = False

    def __init__(
        self,
        name: str,
        walk: Callable,
        cell: dict[str, object],
        inputs: str,
        results: dict[str, tuple],
        scratch: dict[str, str],
    ) -> None:
        super().__init__(name)
        self.walk, self.cell, self.inputs, self.results, self.scratch = (
            walk,
            cell,
            tuple(inputs.split()),
            results,
            scratch,
        )
        self.outputs = tuple(results)
        if "gates" in results:
            self.parameters = (*self.parameters, "keeps")  # whether gates will be asked for

    @property
    def takes(self) -> str:
        """As `Op.takes`."""
        return (
            f"{' '.join(map(_TAKES.__getitem__, self.inputs))}; counted=..^steps "
            f"reverse=flag{' keeps=flag' * ('keeps' in self.parameters)}"
        )

    def misfit(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """As `Op.misfit`."""
        counted, gates, batch = parameters[0], self.cell["COUNT"], sizes["batch"]
        falling = all(0 < n <= before for before, n in zip((batch, *counted), counted))
        if not (falling or counted == room(len(counted), batch)) or sum(map(abs, counted)) != sizes["rows"]:
            return (
                f"attribute 'counted' must be the rows of each step, {sizes['rows']} in all and never more than "
                "before, "
                f"or {-batch} for each step, got {reprlib.repr(counted)}"
            )
        wanted = {"wide": gates * sizes["size"], "four": 4 * sizes["size"]}
        wrong = next((name for name, n in wanted.items() if sizes.get(name, n) != n), None)
        return wrong and f"gates of a state of {sizes['size']} must be {wanted[wrong]} wide, got {sizes[wrong]}"

    def known_values(self, parameters: tuple) -> dict[int, tuple[int, ...]]:
        """As `Op.known_values`."""
        return {} if is_room(parameters[0]) else {self.inputs.index("counts"): parameters[0]}

    def further_limits(self, arguments: tuple, parameters: tuple, sizes: dict) -> dict[int, int]:
        """As `Op.further_limits`: counts from 0 to the batch keep the kernels within the room."""
        return {self.inputs.index("counts"): sizes["batch"] + 1} if is_room(parameters[0]) else {}

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        named, (counted, reverse, *keeps) = dict(zip(self.inputs, arguments)), parameters
        device, weight = single_device(self.name, list(arguments)), named["weight"]
        (batch, size), rows, dtype = named["h0"].shape, sum(map(abs, counted)), weight.dtype
        wide, lanes = self.cell["COUNT"] * size, tiles.host().lanes(dtype.itemsize)
        for name, shape in {"x": (rows, wide), "weight": (wide, size), "bias": (wide,), "c0": (batch, size)}.items():
            # weights that were replaced: the kernel would go beyond their memory
            if name in named and tuple(named[name].shape) != shape:
                raise RuntimeError(
                    f"{self.name}: expected {_NAMES.get(name, name)} of shape {shape} for a state of {size}, got "
                    f"{tuple(named[name].shape)}"
                )
        inner, columns = (size, wide) if self.walk is forward else (wide, size)
        height = _height(batch)
        panel, padded = tiles.panel(columns, lanes, tiles.widest(height))
        sizes = {
            "rows": rows,
            "kept": batch if keeps == [False] else rows,
            "batch": batch,
            "size": size,
            "wide": wide,
            "four": 4 * size,
            "padded": padded,
        }
        results = tuple(layout(tuple(sizes[each] for each in shape), dtype, device) for shape in self.results.values())
        arrays = (*self.inputs, *self.outputs, "panels", *self.scratch)
        kinds = [f"{'int64' if name == 'counts' else dtype.storage.name}[]" for name in arrays]
        constants = (rows, len(counted), size, batch, int(reverse), int(keeps != [False]), padded)
        values = {name: value for name, value in self.cell.items() if has(self.walk, name)}
        tile = getattr(primitives, f"tile{height}x{panel // lanes}")
        source = specialized(self.walk, arrays=arrays, ROWS=height, PANEL=panel, LANES=lanes, tile=tile, **values)
        shared = batch // (2 * tiles.host().rows)  # workers that have enough to do
        work = rows * size * wide // 4 if shared > 1 else 1
        run = bind.launcher(
            device, self.name, source, ", ".join([*kinds, *["int64"] * (len(constants) + 1)]), dtype, work
        )

        def launch(*buffers: object) -> None:
            workers = max(1, min(threads.get_num_threads(), shared))
            needed = (
                (padded * inner, dtype.storage),
                *[((batch + workers * height) * sizes[value], dtype.storage) for value in self.scratch.values()],
            )
            run(*buffers, *device.backend.scratch(needed), *constants, workers)

        return Plan(results, launch)


def _height(batch: int) -> int:
    """Rows of the tiles for so many sequences."""
    most = tiles.host().rows
    return next((height for height in tiles.HEIGHTS if height >= min(batch, most)), most)


def runs(x: object, *others: object) -> bool:
    """Whether the layers' kernels can take these tensors: not empty, on the CPU, and of one floating dtype of at least
    32 bits.
    """
    kinds = {each.dtype for each in (x, *others)}
    return (
        x.device.type == "cpu"
        and len(kinds) == 1
        and x.dtype.is_floating_point
        and x.dtype.itemsize >= 4
        and x.numel() > 0
    )


def _walk(counted: tuple[int, ...], reverse: bool) -> Iterator[tuple[int, int, int]]:
    """(first row, rows, rows that go on from the step before), in order of time."""
    at, last = sum(counted) if reverse else 0, 0
    for n in reversed(counted) if reverse else counted:
        at -= n if reverse else 0
        yield at, n, min(n, last)
        at, last = at if reverse else at + n, n


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
    """(d_x, d_weight, d_bias, *d_starts) in tensor operations that can be differentiated again: all states once more,
    then back through them.
    """
    if is_room(counted):
        found = tuple(n for each in counts if (n := int(each._observe())))
        used, rest = sum(found), x.new_zeros((x.shape[0] - sum(found), x.shape[1]))
        d_x, *others = _step_by_step(
            forward, backward, [g[:used] for g in grads], x[:used], weight, bias, starts, counts, found, reverse
        )
        return cat.apply((d_x, rest), (0,)), *others
    steps, last = list(_walk(counted, reverse)), tuple(each[:0] for each in starts)
    known = []
    for at, n, kept in steps:
        before = tuple(
            cat.apply((each[:kept], first[kept:n]), (0,)) if kept < n else each[:n] for each, first in zip(last, starts)
        )
        y = before[0] @ weight.mT + (0 if bias is None else bias)
        last = forward(x[at : at + n], y, before)
        known.append((x[at : at + n], y, before, last))
    carried, places, d_weight, d_bias, begun = [each[:0] for each in starts], {}, 0, 0, []
    for (at, n, kept), (x_step, y, before, after) in zip(reversed(steps), reversed(known)):
        here = [
            g[at : at + n] + cat.apply((rest, rest.new_zeros((n - rest.shape[0], *rest.shape[1:]))), (0,))
            for g, rest in zip(grads, carried)
        ]
        places[at], d_y, back = backward(here, x_step, y, before, after)
        d_weight, d_bias = d_weight + d_y.mT @ before[0], d_bias + d_y.sum(0)
        back = [d_y @ weight + back[0], *back[1:]]
        carried = [each[:kept] for each in back]
        begun.append([each[kept:] for each in back])
    d_starts = [cat.apply(tuple(reversed(parts)), (0,)) for parts in zip(*begun)]
    return cat.apply(tuple(places[at] for at in sorted(places)), (0,)), d_weight, d_bias, *d_starts


def _dense(grads: list, results: tuple) -> list:
    return [like.new_zeros(like.shape) if grad is None else grad.contiguous() for grad, like in zip(grads, results)]


def _lstm_back(given: list, x: object, y: object, before: tuple, after: tuple) -> tuple:
    d_gates, d_c = lstm_gradients(given, x + y, before[1], after[1], True)
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
    given = _dense(grads[:2], (h, c))
    if not recording:
        if gates.shape[0] < h.shape[0]:  # nobody was expected to ask
            gates = lstm_layer.apply((x, weight, h0, c0, counts), (counted, reverse, True))[2]
        d_x, d_h0, d_c0, h_before = lstm_layer_gradient.apply(
            (*given, weight, h0, c0, counts, h, c, gates), (counted, reverse)
        )
        return d_x, matmul.apply((d_x, h_before), (True, False)), d_h0, d_c0
    forward = lambda x, y, before: lstm_cell.apply((x + y, before[1]))  # noqa: E731
    d_x, d_weight, _, d_h, d_c = _step_by_step(
        forward, _lstm_back, given, x, weight, None, (h0, c0), counts, counted, reverse
    )
    return d_x, d_weight, d_h, d_c


def _gru_back(given: list, x: object, y: object, before: tuple, after: tuple) -> tuple:
    d_x, d_y, d_h = gru_gradients(given[0], x, y, before[0], True)
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
    given = _dense(grads[:1], (h,))
    if not recording:
        if gates.shape[0] < h.shape[0]:
            gates = gru_layer.apply((x, weight, bias, h0, counts), (counted, reverse, True))[1]
        d_x, d_y, d_h0, h_before = gru_layer_gradient.apply((*given, weight, h0, counts, h, gates), (counted, reverse))
        return d_x, matmul.apply((d_y, h_before), (True, False)), d_y.sum(0), d_h0
    forward = lambda x, y, before: (gru_cell.apply((x.contiguous(), y, before[0].contiguous())),)  # noqa: E731
    return _step_by_step(forward, _gru_back, given, x, weight, bias, (h0,), counts, counted, reverse)


def _rnn_gradients(relu: bool) -> Callable:
    """The gradient of the layer with relu, or tanh."""

    def back(given: list, x: object, y: object, before: tuple, after: tuple) -> tuple:
        d_gates = given[0] * (after[0] > 0).to(x.dtype) if relu else given[0] * (1 - after[0] * after[0])
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
        given = _dense(grads, (h,))
        if not recording:
            d_x, d_h0, h_before = (rnn_relu_layer_gradient if relu else rnn_layer_gradient).apply(
                (*given, weight, h0, counts, h), (counted, reverse)
            )
            return d_x, matmul.apply((d_x, h_before), (True, False)), d_h0
        forward = lambda x, y, before: ((x + y).relu() if relu else (x + y).tanh(),)  # noqa: E731
        d_x, d_weight, _, d_h = _step_by_step(forward, back, given, x, weight, None, (h0,), counts, counted, reverse)
        return d_x, d_weight, d_h

    return gradients


_STATES, _GATES, _KEPT, _START = ("rows", "size"), ("rows", "wide"), ("kept", "four"), ("batch", "size")
_BEFORE = {"d_h0": _START, "h_before": _STATES}
lstm_layer = Layer(
    "lstm_layer",
    forward,
    LSTM,
    "x weight h0 c0 counts",
    {"h": _STATES, "c": _STATES, "gates": _KEPT},
    {"product": "padded", "state": "size", "cell": "size"},
)
lstm_layer_gradient = Layer(
    "lstm_layer_gradient", backward, LSTM, "given_h given_c weight h0 c0 counts h c gates",
    {"d_x": _GATES, "d_h0": _START, "d_c0": _START, "h_before": _STATES},
    {"d_h": "padded", "slopes": "wide", "d_c": "size", "c_before": "size"},
)  # fmt: skip
gru_layer = Layer(
    "gru_layer",
    forward,
    GRU,
    "x weight bias h0 counts",
    {"h": _STATES, "gates": _KEPT},
    {"product": "padded", "state": "size"},
)
gru_layer_gradient = Layer(
    "gru_layer_gradient", backward, GRU, "given_h weight h0 counts h gates", {"d_x": _GATES, "d_y": _GATES, **_BEFORE},
    {"d_h": "padded", "slopes": "wide", "direct": "size"},
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
            {"d_h": "padded", "slopes": "wide"},
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
