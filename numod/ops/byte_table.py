"""Functions of one byte as tables: the result for each of the 256 bytes, computed ahead.

Networks of bytes for processors without floating point consist of these where they are not sums of products.
"""

from __future__ import annotations

from .. import dtypes
from ..device.layout import layout
from ..kernel import bind
from ..kernel.language import int32, int64, parallel_range, uintp
from ..kernel.specialize import specialized
from .op import Op, Plan

_BYTES = dtypes.int8, dtypes.uint8


def look_up(x, table, out, count, *, LOW):
    """out = table[x - LOW], for the least byte LOW."""
    for task in parallel_range(count):
        index = uintp(task)
        out[index] = table[uintp(int32(x[index]) - LOW)]


def look_up_rows(x, table, out, count, inner, rows, *, LOW):
    """As `look_up`, with a row of the table for each channel: `rows` channels of `inner` neighbours."""
    for task in parallel_range(count):
        index, row = uintp(task), int64(task) // inner % rows
        out[index] = table[uintp(row * 256 + int32(x[index]) - LOW)]


class ByteTable(Op):
    """table[row, x - least byte] for each element of x, of int8 or uint8; the result has the table's dtype.

    `axis`: the dimension of x with a row of the table for each index, or None if the table has one row.
    """

    takes = "x[*s]~:any table[r 256]:any; axis=axis?"
    inputs, attributes, differentiable = ("x", "table"), ("axis",), False

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        for name, argument in zip(self.inputs, arguments):
            if argument.dtype not in _BYTES:
                return f"input {name!r} must be of int8 or uint8, got {argument.dtype}"
        if not arguments[0].packed:
            return f"input 'x' must be without gaps, got strides {arguments[0].strides}"
        rows = 1 if attributes[0] is None else arguments[0].shape[attributes[0]]
        return None if sizes["r"] == rows else f"the table must have {rows} rows, got {sizes['r']}"

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x, table), (axis,) = arguments, attributes
        out = layout(x.shape, table.dtype, x.device, x.strides)
        if not out.size:
            return Plan(out, lambda *_: None)
        sizes = (x.size,) if axis is None else (x.size, max(x.strides[axis], 1), x.shape[axis])
        kernel = specialized(look_up if axis is None else look_up_rows, LOW=dtypes.RANGES[x.dtype][0])
        signature = bind.signature(x, table, out, numbers=len(sizes))
        return Plan(out, bind.launcher(x.device, self.name, kernel, signature, dtypes.float32, x.size), sizes)


byte_table = ByteTable("byte_table")
