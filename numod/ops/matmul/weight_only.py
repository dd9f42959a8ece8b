"""Products of floats with packed weights of 8 or 4 bits: a row of a batch is bound by memory, and reads fewer bytes.

A weight (n, k) is stored as integers with a scale and a zero point for each group of `group` columns:
w = scale * (integer - zero). Of 4-bit weights, byte i of a group holds column i in its low half and column
i + group / 2 in its high half, so that both halves meet contiguous inputs.
"""

from __future__ import annotations

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, build
from ...kernel.language import float32, int64, parallel_range, uintp
from ...kernel.specialize import specialized
from ..op import Op, Plan, single_device


def byte_dots(x, weight, scale, zero, out, rows, columns, inner, group):
    """out (rows, columns) = x (rows, inner) @ weight (columns, inner; bytes).T, scaled by groups."""
    groups = inner // group
    for task in parallel_range(columns):
        j = int64(task)
        for i in range(rows):
            total = float32(0.0)
            for g in range(groups):
                part, shift = float32(0.0), zero[uintp(j * groups + g)]
                left, right = i * inner + g * group, j * inner + g * group
                for k in range(group):
                    part += x[uintp(left + k)] * (float32(weight[uintp(right + k)]) - shift)
                total += part * scale[uintp(j * groups + g)]
            out[uintp(i * columns + j)] = total


def nibble_dots(x, weight, scale, zero, out, rows, columns, inner, group):
    """As `byte_dots`, for a weight (columns, inner / 2) of two 4-bit numbers in a byte."""
    groups, half = inner // group, group // 2
    for task in parallel_range(columns):
        j = int64(task)
        for i in range(rows):
            total = float32(0.0)
            for g in range(groups):
                part, shift = float32(0.0), zero[uintp(j * groups + g)]
                left, right = i * inner + g * group, (j * groups + g) * half
                for k in range(half):
                    byte = weight[uintp(right + k)]
                    part += x[uintp(left + k)] * (float32(byte & 15) - shift)
                    part += x[uintp(left + half + k)] * (float32(byte >> 4) - shift)
                total += part * scale[uintp(j * groups + g)]
            out[uintp(i * columns + j)] = total


class WeightOnlyProduct(Op):
    """x (m, k) @ w (n, k).T -> (m, n) in float32, for a weight of int8, or of uint8 that holds two 4-bit numbers."""

    takes = "x[m k]:float32 w[n _]:iu scale[n g]:float32 zero[n g]:float32; group=1.."
    inputs, attributes, differentiable = ("x", "w", "scale", "zero"), ("group",), False

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        x, w = arguments[:2]
        (group,) = attributes
        if w.dtype not in (dtypes.int8, dtypes.uint8):
            return f"input 'w' must be of int8, or of uint8 with two numbers in a byte, got {w.dtype}"
        columns = w.shape[1] * (1 if w.dtype is dtypes.int8 else 2)
        if columns != x.shape[1] or columns != group * sizes["g"] or (w.dtype is dtypes.uint8 and group % 2):
            return f"weights of {columns} columns in {sizes['g']} groups of {group} do not fit inputs of {x.shape[1]}"
        return None

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        x, w = arguments[:2]
        out = layout((x.shape[0], w.shape[0]), dtypes.float32, single_device(self.name, list(arguments)))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        return Plan(out, _launcher(x, w, out), (*out.shape, x.shape[1], attributes[0]))


def _launcher(x: Layout, w: Layout, out: Layout) -> object:
    function = byte_dots if w.dtype is dtypes.int8 else nibble_dots
    signature = bind.signature(x, w, *["float32"] * 3, numbers=4)
    work = out.size * x.shape[1] // 8
    name = f"weight_only_{w.dtype.name}"
    return bind.launcher(x.device, name, specialized(function), signature, dtypes.float32, work, build.FAST_REDUCTION)


weight_only_product = WeightOnlyProduct("weight_only_product")
