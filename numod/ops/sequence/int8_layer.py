"""Layers of LSTM and GRU cells with a recurrent weight of int8, over sequences of one length: all steps in one kernel.

At each step the state is quantized with the scale of its range, as in `matmul.int8_linear`, multiplied by the packed
weight, and given to the cell. Without gradients. Layers of floats are in `rnn_layer`.
"""

from __future__ import annotations

import numpy as np

from ... import dtypes
from ...device import Layout, target
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import bits32, float32, int32, uintp
from ...kernel.registers import byte_tiles
from ...kernel.registers.primitives.cells import gru_gates, lstm_gates
from ...kernel.registers.primitives.integers import byte_float_row, byte_floats
from ...kernel.specialize import specialized
from ..matmul.int8_linear import (
    float_of_order,
    nearest_integer,
    ordered,
    packer_of_each_call,
    packing_of_bytes,
    tile_shape,
    usable_scale,
    zero_point_of,
)
from .rnn_layer_kernels import do_nothing
from ..op import Op, Packing, Plan, single_device
from ..packed_weights import with_packed_weight


def lstm_step(arrays, row, i, wide, size):
    lstm_gates(
        arrays.x, row * wide, arrays.product, i * wide, arrays.cell, i * size, arrays.gates, 0, arrays.cell, i * size,
        arrays.c, row * size, arrays.h, row * size, arrays.state, i * size, size,
    )  # fmt: skip


def lstm_load(arrays, e):
    arrays.cell[uintp(e)] = arrays.c0[uintp(e)]


def gru_step(arrays, row, i, wide, size):
    gru_gates(
        arrays.x, row * wide, arrays.product, i * wide, arrays.bias, 0, arrays.state, i * size, arrays.gates, 0,
        arrays.h, row * size, arrays.state, i * size, size,
    )  # fmt: skip


def dynamic_steps(
    arrays,
    steps,
    batch,
    size,
    last,
    reverse,
    *,
    COUNT,
    GROUP,
    HAS_CELL,
    PANEL,
    TILE_ROWS,
    load_cell,
    part,
    tile,
    step_of_cell,
):
    """Compute all states. `arrays` are the inputs, the results and scratch memory, as in `DynamicLayer`."""
    wide, words = COUNT * size, (size + GROUP - 1) // GROUP
    line, panels = words * GROUP, (wide + PANEL - 1) // PANEL
    for j in range(panels * PANEL):
        arrays.scales[uintp(j)] = arrays.scale[uintp(j)] if j < wide else 0.0
        arrays.shifts[uintp(j)] = arrays.bias[uintp(j)] if HAS_CELL and j < wide else 0.0
    for e in range(batch * line):
        arrays.left[uintp(e)] = 0
    for e in range(batch * size):
        arrays.state[uintp(e)] = arrays.h0[uintp(e)]
        load_cell(arrays, e)
    for number in range(steps):
        first_row = (steps - 1 - number if reverse else number) * batch
        low, high = int32(0), int32(0)
        for e in range(batch * size):
            order = ordered(bits32(arrays.state[uintp(e)]))
            low, high = min(low, order), max(high, order)
        least = float_of_order(low)
        step = usable_scale((float_of_order(high) - least) / float32(last))
        zero, inverse, top = zero_point_of(least, step, last), float32(1.0) / step, float32(last)
        for i in range(batch):
            arrays.factors[uintp(i)] = step
            for k in range(size):
                value = arrays.state[uintp(i * size + k)] * inverse + zero
                arrays.left[uintp(i * line + k)] = part(nearest_integer(value, float32(0.0), top))
        for j in range(panels * PANEL):
            arrays.added[uintp(j)] = -int32(zero) * arrays.packed[uintp(panels * words * PANEL + j)]
        for panel in range(panels):
            for i in range(0, batch, TILE_ROWS):
                tile(
                    arrays.left, i * line, line, arrays.packed, panel * words * PANEL, arrays.added, panel * PANEL,
                    arrays.scales, panel * PANEL, arrays.shifts, panel * PANEL, arrays.factors, i, arrays.product,
                    i * wide + panel * PANEL, wide, words, min(TILE_ROWS, batch - i), min(PANEL, wide - panel * PANEL),
                )  # fmt: skip
        for i in range(batch):
            step_of_cell(arrays, first_row + i, i, wide, size)


class DynamicLayer(Op):
    """A layer in one direction. `x` (steps * batch, gates) is the input's part of the gates, as floats.

    The weight (gates, size) is int8, with a scale for each row. `last` is the greatest integer of a quantized state.
    Results are all states h, and c of an LSTM.
    """

    differentiable = upcasts_half = False
    attributes = ("last", "reverse")

    def __init__(self, name: str, gates: int, packed: bool = False) -> None:
        super().__init__(name)
        self.gates, self.has_cell, self.packed = gates, gates == 4, packed
        self.outputs = ("h", "c")[: 1 + self.has_cell]
        self.inputs = ("x", "weight", "scale", "bias", "h0", *(("c0",) if self.has_cell else ()))
        self.portable = not packed
        if packed:
            self.inputs = (*self.inputs, "packed")
        else:
            states = " c0[batch size]:float32" * self.has_cell
            self.takes = (
                "x[rows wide]:float32 weight[wide size]:int8 scale[wide]:float32 bias[wide]:float32 "
                f"h0[batch size]:float32{states}; last=1..255 reverse=flag"
            )

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        if not sizes["batch"] or not sizes["rows"] or sizes["rows"] % sizes["batch"]:
            return f"{sizes['rows']} rows are not steps of {sizes['batch']} sequences"
        wide = self.gates * sizes["size"]
        return None if sizes["wide"] == wide else f"gates must be {wide} wide, got {sizes['wide']}"

    def prepack(self, arguments: tuple, attributes: tuple) -> Packing | None:
        """Pack the weight."""
        if self.packed:
            return None
        product = packed_dynamic_lstm if self.has_cell else packed_dynamic_gru
        return packing_of_bytes(product, arguments[1].shape[0], compact=True)

    def packing_attributes(self, weight: Layout, attributes: tuple, machine: target.Machine) -> tuple:
        """See `Op.packing_attributes`."""
        return byte_tiles.packed_format(weight.shape[0], compact=True, machine=machine)

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        layouts = dict(zip(self.inputs, arguments))
        x, weight, (batch, size) = layouts["x"], layouts["weight"], layouts["h0"].shape
        device, wide, (last, reverse) = single_device(self.name, list(arguments)), weight.shape[0], attributes
        group, shape, is_row = byte_tiles.group(compact=True), tile_shape(wide, not self.packed), batch == 1
        panel = shape.panel
        padded, real, number = -(-wide // panel) * panel, np.dtype("float32"), np.dtype("int32")
        part = byte_tiles.number_type(compact=True)
        scratch = {
            "left": (batch * -(-size // group) * group, part), "added": (padded, number), "scales": (padded, real),
            "shifts": (padded, real), "factors": (batch, real), "product": (batch * wide, real),
            "state": (batch * size, real), "cell": (batch * size, real), "gates": (4 * size, real),
        }  # fmt: skip
        inputs = tuple(name for name in self.inputs if name not in ("weight", "packed"))
        arrays = (*inputs, "packed", *self.outputs, *scratch)
        kinds = dict.fromkeys((*inputs, *self.outputs), "float32") | {"packed": "int32"}
        kinds |= {name: dtype.name for name, (_, dtype) in scratch.items()}
        source = specialized(
            dynamic_steps, arrays=arrays, COUNT=self.gates, GROUP=group, HAS_CELL=self.has_cell, PANEL=panel,
            TILE_ROWS=1 if is_row else shape.rows, part=part,
            tile=(byte_float_row if is_row else byte_floats)[shape.vectors],
            load_cell=lstm_load if self.has_cell else do_nothing,
            step_of_cell=lstm_step if self.has_cell else gru_step,
        )  # fmt: skip
        types = [kinds[name] for name in arrays]
        run = bind.launcher(device, self.name, source, bind.signature(*types, numbers=5), dtypes.float32, 1)
        states = layout((x.shape[0], size), dtypes.float32, device)
        results = (states,) * len(self.outputs)
        numbers = x.shape[0] // batch, batch, size, last, int(reverse)
        parts = tuple(scratch.values())

        def launch(*arrays: object) -> None:
            run(*arrays, *numbers)

        pack = None if self.packed else packer_of_each_call(weight, compact=True)
        return Plan(results, with_packed_weight(launch, lambda: parts, device, pack, len(results)))


dynamic_lstm, dynamic_gru = DynamicLayer("dynamic_lstm", 4), DynamicLayer("dynamic_gru", 3)
packed_dynamic_lstm = DynamicLayer("packed_dynamic_lstm", 4, packed=True)
packed_dynamic_gru = DynamicLayer("packed_dynamic_gru", 3, packed=True)
