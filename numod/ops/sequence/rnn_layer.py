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
from ...kernel.registers import tiles
from ...kernel.registers.primitives import tiles as tile_primitives
from ...kernel.specialize import has, specialized
from ..index.concat import cat
from ..matmul.matmul import matmul
from ..op import Op, Plan, single_device
from .rnn_cell import gru_cell, gru_gradients, lstm_cell, lstm_gradients
from .rnn_layer_kernels import GRU, LSTM, RNN, RNN_RELU, backward, forward


# the notation of each input (see `contract`); wide: the columns of all gates; four: four times the state's size
_TAKES = {
    "x": "x[rows wide]:f", "weight": "weight[wide size]:f", "bias": "bias[wide]:f", "counts": "counts[steps]:int64",
    "gates": "gates[rows four]:f",
    **{name: f"{name}[batch size]:f" for name in ("h0", "c0")},
    **{name: f"{name}[rows size]:f" for name in ("d_out_h", "d_out_c", "h", "c")},
}  # fmt: skip


def room(steps: int, batch: int) -> tuple[int, ...]:
    """The attribute `counted` if the rows of each step are known only at run time, from the tensor `counts`.

    Each entry is -batch, so each step has room for all sequences.
    """
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

    attributes = ("counted", "reverse")  # rows of each step (or `room` for them), and the direction
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
        self.kernel = kernel
        self.cell = cell
        self.inputs = tuple(inputs.split())
        self.results = results
        self.scratch = scratch
        self.outputs = tuple(results)
        if "gates" in results:
            self.attributes = (*self.attributes, "keeps")  # whether a backward pass needs the gates

    @property
    def takes(self) -> str:
        """See `Op.takes`."""
        return (
            f"{' '.join(map(_TAKES.__getitem__, self.inputs))}; counted=..^steps "
            f"reverse=flag{' keeps=flag' * ('keeps' in self.attributes)}"
        )

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        counted, gates, batch = attributes[0], self.cell["COUNT"], sizes["batch"]
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

    def known_values(self, attributes: tuple) -> dict[int, tuple[int, ...]]:
        """See `Op.known_values`."""
        return {} if is_room(attributes[0]) else {self.inputs.index("counts"): attributes[0]}

    def further_limits(self, arguments: tuple, attributes: tuple, sizes: dict) -> dict[int, int]:
        """See `Op.further_limits`: counts from 0 to the batch keep the kernels within the room."""
        return {self.inputs.index("counts"): sizes["batch"] + 1} if is_room(attributes[0]) else {}

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        layouts, (counted, reverse, *keeps) = dict(zip(self.inputs, arguments)), attributes
        device, weight = single_device(self.name, list(arguments)), layouts["weight"]
        (batch, size), rows, dtype = layouts["h0"].shape, sum(map(abs, counted)), weight.dtype
        gate_columns, lanes = self.cell["COUNT"] * size, tiles.host().lanes(dtype.itemsize)
        for name, shape in {
            "x": (rows, gate_columns),
            "weight": (gate_columns, size),
            "bias": (gate_columns,),
            "c0": (batch, size),
        }.items():
            # a user may have replaced the weights by smaller ones, and the kernel would read beyond their memory
            if name in layouts and tuple(layouts[name].shape) != shape:
                raise RuntimeError(
                    f"{self.name}: expected {_NAMES.get(name, name)} of shape {shape} for a state of {size}, got "
                    f"{tuple(layouts[name].shape)}"
                )
        if max(map(abs, counted), default=0) > batch:
            raise RuntimeError(
                f"{self.name}: expected initial states of {max(map(abs, counted))} sequences, got {batch}"
            )
        inner, columns = (size, gate_columns) if self.kernel is forward else (gate_columns, size)
        height = _height(batch)
        panel, padded = tiles.panel(columns, lanes, tiles.widest(height))
        sizes = {
            "rows": rows,
            "gates_rows": batch if keeps == [False] else rows,
            "batch": batch,
            "size": size,
            "wide": gate_columns,
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
        tile = getattr(tile_primitives, f"tile{height}x{panel // lanes}")
        source = specialized(self.kernel, arrays=arrays, ROWS=height, PANEL=panel, LANES=lanes, tile=tile, **values)
        useful_workers = batch // (2 * tiles.host().rows)  # workers with enough work
        work = rows * size * gate_columns // 4 if useful_workers > 1 else 1
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
    """The gradients of the results as dense tensors; zeros where there is none."""
    return [like.new_zeros(like.shape) if grad is None else grad.contiguous() for grad, like in zip(grads, results)]


def _lstm_step_backward(d_states: list, x: object, y: object, before: tuple, after: tuple) -> tuple:
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
    """Gradients of an LSTM layer: by the kernel, or step by step if they will be differentiated."""
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
        forward, _lstm_step_backward, d_states, x, weight, None, (h0, c0), counts, counted, reverse
    )
    return d_x, d_weight, d_h, d_c


def _gru_step_backward(d_states: list, x: object, y: object, before: tuple, after: tuple) -> tuple:
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
    """Gradients of a GRU layer: by the kernel, or step by step if they will be differentiated."""
    d_states = _dense(grads[:1], (h,))
    if not recording:
        if gates.shape[0] < h.shape[0]:
            gates = gru_layer.apply((x, weight, bias, h0, counts), (counted, reverse, True))[1]
        d_x, d_y, d_h0, h_before = gru_layer_gradient.apply(
            (*d_states, weight, h0, counts, h, gates), (counted, reverse)
        )
        return d_x, matmul.apply((d_y, h_before), (True, False)), d_y.sum(0), d_h0
    forward = lambda x, y, before: (gru_cell.apply((x.contiguous(), y, before[0].contiguous())),)  # noqa: E731
    return _step_by_step(forward, _gru_step_backward, d_states, x, weight, bias, (h0,), counts, counted, reverse)


def _rnn_gradients(relu: bool) -> Callable:
    """The gradient of the layer with relu, or tanh."""

    def step_backward(d_states: list, x: object, y: object, before: tuple, after: tuple) -> tuple:
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
        d_x, d_weight, _, d_h = _step_by_step(
            forward, step_backward, d_states, x, weight, None, (h0,), counts, counted, reverse
        )
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
    "lstm_layer_gradient", backward, LSTM, "d_out_h d_out_c weight h0 c0 counts h c gates",
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
    "gru_layer_gradient", backward, GRU, "d_out_h weight h0 counts h gates", {"d_x": _GATES, "d_y": _GATES, **_BEFORE},
    {"d_h": "padded", "d_gates": "wide", "d_direct": "size"},
)  # fmt: skip
(rnn_layer, rnn_layer_gradient), (rnn_relu_layer, rnn_relu_layer_gradient) = (
    (
        Layer(name, forward, cell, "x weight h0 counts", {"h": _STATES}, {"product": "padded", "state": "size"}),
        Layer(
            f"{name}_gradient",
            backward,
            cell,
            "d_out_h weight h0 counts h",
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
