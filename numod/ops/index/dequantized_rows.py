"""Rows of a table of small integers, read at indices and turned into floats: the lookup of quantized embeddings.

A row has a scale and a zero point of its own. Integers of 4 or 2 bits are packed, the first one in the low bits of a
byte, and rows begin at whole bytes.
"""

from __future__ import annotations

from ... import dtypes
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import float32, int32, int64, parallel_range, uintp
from ...kernel.specialize import specialized
from ..op import Op, Plan, single_device


def rows_kernel(table, scale, zero, index, out, count, width, *, BITS, MASK, SHARE):
    """out (count, width * SHARE) = (integers of row index[i] - zero) * scale, for rows of `width` bytes."""
    for task in parallel_range(count):
        row = index[uintp(int64(task))]
        step, middle = scale[uintp(row)], zero[uintp(row)]
        source, target = row * width, int64(task) * width * SHARE
        for k in range(width):
            byte = int32(table[uintp(source + k)])
            for part in range(SHARE):
                integer = byte >> int32(part * BITS) & int32(MASK)
                out[uintp(target + k * SHARE + part)] = (float32(integer) - middle) * step


class DequantizedRows(Op):
    """(table[index] - zero[index]) * scale[index] in float32, for a table of `bits` of 8, 4 or 2: (n, integers)."""

    takes = "table[r b]:iu scale[r]:float32 zero[r]:float32 index[n]:int64<r; bits=2..8"
    inputs, attributes, differentiable = ("table", "scale", "zero", "index"), ("bits",), False

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        (bits,), dtype = attributes, arguments[0].dtype
        if bits not in (2, 4, 8):
            return f"bits must be 2, 4 or 8, got {bits}"
        return None if bits == 8 or dtype is dtypes.uint8 else f"integers of {bits} bits are in uint8, got {dtype}"

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (table, _, _, index), (bits,) = arguments, attributes
        count, width, share = index.shape[0], table.shape[1], 8 // bits
        out = layout((count, width * share), dtypes.float32, single_device(self.name, list(arguments)))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        constants = {"BITS": bits, "MASK": -1 if bits == 8 else (1 << bits) - 1, "SHARE": share}
        signature = bind.signature(table, "float32", "float32", "int64", "float32", numbers=2)
        source = specialized(rows_kernel, **constants)
        return Plan(
            out, bind.launcher(table.device, self.name, source, signature, dtypes.float32, out.size), (count, width)
        )


dequantized_rows = DequantizedRows("dequantized_rows")
