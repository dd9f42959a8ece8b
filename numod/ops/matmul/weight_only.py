"""Products of floats with packed weights of 8 or 4 bits: a row of a batch is bound by memory, and reads fewer bytes.

A weight (n, k) is stored as integers with a scale and a zero point for each group of `group` columns:
w = scale * (integer - zero). Of 4-bit weights, byte i of a group holds column i in its low half and column
i + group / 2 in its high half, so that both halves meet contiguous inputs.
"""

from __future__ import annotations

import numpy as np

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, build
from ...kernel.language import bits32, float32, float_of_bits32, floor, int32, int64, parallel_range, uint32, uintp
from ...kernel.registers import limb_dots as limbs_of
from ...kernel.registers.limb_dots import ROWS
from ...kernel.registers.primitives.integers import limb_dots, limb_dots4
from ...kernel.registers.vectors import host
from ...kernel.scalar import scalar
from ...kernel.specialize import specialized
from ..op import Op, Plan, single_device


_LIMIT = 127 * (1 + 256 + 65536)  # the greatest number of three signed digits of base 256


@scalar
def byte_dot(x, x_at, weight, at, scale, zero, factors_at, groups, group):
    """The dot product of a row of x with a row of weights of a byte."""
    total = float32(0.0)
    for g in range(groups):
        part, shift = float32(0.0), zero[uintp(factors_at + g)]
        left, right = x_at + g * group, at + g * group
        for k in range(group):
            part += x[uintp(left + k)] * (float32(weight[uintp(right + k)]) - shift)
        total += part * scale[uintp(factors_at + g)]
    return total


@scalar
def nibble_dot(x, x_at, weight, at, scale, zero, factors_at, groups, group):
    """As `byte_dot`, for a row with two 4-bit numbers in a byte."""
    total, half = float32(0.0), group // 2
    for g in range(groups):
        part, shift = float32(0.0), zero[uintp(factors_at + g)]
        left, right = x_at + g * group, at + g * half
        for k in range(half):
            byte = weight[uintp(right + k)]
            part += x[uintp(left + k)] * (float32(byte & 15) - shift)
            part += x[uintp(left + half + k)] * (float32(byte >> 4) - shift)
        total += part * scale[uintp(factors_at + g)]
    return total


def dots_of_rows(x, weight, scale, zero, out, rows, columns, inner, group, *, row_dot, SHARE):
    """out (rows, columns) = x (rows, inner) @ weight (columns, inner / SHARE bytes).T, scaled by groups."""
    groups = inner // group
    for task in parallel_range(columns):
        j = int64(task)
        for i in range(rows):
            out[uintp(i * columns + j)] = row_dot(
                x, i * inner, weight, j * (inner // SHARE), scale, zero, j * groups, groups, group
            )


@scalar
def balanced_digit(number):
    """The last digit of base 256, in -128 ... 127."""
    return ((number + int32(128)) & int32(255)) - int32(128)


def dots_of_limbs(
    x, weight, scale, zero, out, limbs, starts, sums, steps, rows, columns, inner, group,
    *, row_dot, vector_dot, SHARE, SHIFT,
):  # fmt: skip
    """As `dots_of_rows`, with x as integers of 24 bits: as exact as float32, by products of bytes (VNNI).

    Rows with infinite, NaN or very small numbers are multiplied as floats. SHIFT is added to the weights.
    Scratch: limbs (rows, 3, inner), starts (rows, groups, 3), sums (rows, groups), steps (rows).
    """
    groups = inner // group
    for task in parallel_range(rows):
        i, greatest = int64(task), int32(0)
        for k in range(inner):
            greatest = max(greatest, int32(bits32(x[uintp(i * inner + k)]) & uint32(0x7FFFFFFF)))
        magnitude = float_of_bits32(uint32(greatest))
        # a power of two, so that numbers of few bits stay exact: 2^-22 or 2^-21 times the power of two of the greatest
        step = float_of_bits32(uint32(greatest) & uint32(0x7F800000)) * float32(2.384185791015625e-07)
        step = step if magnitude <= step * float32(_LIMIT) else step * float32(2.0)
        step = step if 1e-25 < magnitude < 1e30 else float32(0.0)
        factor = float32(1.0) / step if step > 0.0 else float32(0.0)
        steps[uintp(i)] = step
        for g in range(groups):
            total = float32(0.0)
            for k in range(g * group, g * group + group if factor > 0.0 else 0):
                value = x[uintp(i * inner + k)] * factor
                total += value
                number = int32(floor(value + float32(0.5)))
                first = balanced_digit(number)
                number = (number - first) >> int32(8)
                second = balanced_digit(number)
                limbs[uintp(i * 3 * inner + k)] = first
                limbs[uintp((i * 3 + 1) * inner + k)] = second
                limbs[uintp((i * 3 + 2) * inner + k)] = (number - second) >> int32(8)
            sums[uintp(i * groups + g)] = total
            for q in range(3):
                count = int32(0)
                for k in range(g * group, g * group + group if factor > 0.0 else 0):
                    count += int32(limbs[uintp((i * 3 + q) * inner + k)])
                starts[uintp((i * groups + g) * 3 + q)] = -SHIFT * count
    line = inner // SHARE
    for task in parallel_range((columns + ROWS - 1) // ROWS):
        first = int64(task) * ROWS
        count = min(ROWS, columns - first)
        for i in range(rows):
            at = i * columns + first
            if steps[uintp(i)] > 0.0:
                vector_dot(
                    weight, first * line, line, limbs, i * 3 * inner, inner, starts, i * groups * 3, scale,
                    first * groups, zero, first * groups, sums, i * groups, out, at, count, groups, group,
                )  # fmt: skip
                for j in range(count):
                    out[uintp(at + j)] = out[uintp(at + j)] * steps[uintp(i)]
            else:
                for j in range(count):
                    row = first + j
                    out[uintp(at + j)] = row_dot(
                        x, i * inner, weight, row * line, scale, zero, row * groups, groups, group
                    )


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
        run, group = _launcher(x, w, out, attributes[0]), attributes[0]
        return Plan(out, run, (*out.shape, x.shape[1], group))


def _launcher(x: Layout, w: Layout, out: Layout, group: int) -> object:
    is_byte, (rows, inner) = w.dtype is dtypes.int8, x.shape
    share = 1 if is_byte else 2
    constants = {"row_dot": byte_dot if is_byte else nibble_dot, "SHARE": share}
    work = out.size * inner // 8
    fills_registers = group // share % host().width == 0
    if x.device.type != "cpu" or not limbs_of.runs() or not fills_registers:
        source = specialized(dots_of_rows, **constants)
        signature = bind.signature(x, w, *["float32"] * 3, numbers=4)
        name = f"weight_only_{w.dtype.name}"
        return bind.launcher(x.device, name, source, signature, dtypes.float32, work, build.FAST_REDUCTION)
    constants |= {"vector_dot": limb_dots if is_byte else limb_dots4, "SHIFT": 128 if is_byte else 0}
    source = specialized(dots_of_limbs, **constants)
    signature = bind.signature(x, w, *["float32"] * 3, "int8", "int32", *["float32"] * 2, numbers=4)
    name = f"weight_only_limbs_{w.dtype.name}"
    run = bind.launcher(x.device, name, source, signature, dtypes.float32, work, build.FAST_REDUCTION)
    scratch, groups = x.device.backend.scratch, inner // group
    real = np.dtype("float32")
    parts = (
        (rows * 3 * inner, np.dtype("int8")),
        (rows * groups * 3, np.dtype("int32")),
        (rows * groups, real),
        (rows, real),
    )

    def launch(x_data: object, w_data: object, scale: object, zero: object, out_data: object, *sizes: int) -> None:
        run(x_data, w_data, scale, zero, out_data, *scratch(parts), *sizes)

    return launch


weight_only_product = WeightOnlyProduct("weight_only_product")
