"""Linear layers whose weight is stored without its zeros: compressed rows of blocks, for exported programs.

A row's blocks are `block` neighbouring columns that are not all zeros: their elements are in `values`, the number of
each block in `columns`. The blocks of row j are those from starts[j] to starts[j + 1]. This form is the same for all
processors, which the packed form of `sparse` is not. Indices are limited to the data: they may come from a file.
"""

from __future__ import annotations

import numpy as np

from ... import dtypes
from ...device import Layout, target
from ...device.layout import layout
from ...kernel import bind, build
from ...kernel.language import float32, int32, int64, parallel_range, uintp
from ...kernel.library.requantize import scaled_by_float, scaled_by_integers
from ...kernel.scalar import scalar
from ...kernel.specialize import specialized
from ..op import Op, Plan, single_device

BLOCKS = 1, 2, 4, 8, 16
_MIN_BATCH = 4  # rows of x from which a product runs along them
_FLOAT = np.dtype("float32")
COLUMNS = dtypes.uint8, dtypes.uint16


def float_rows(
    x, values, columns, starts, bias, out, batch, rows, inner, stored,
    *, BLOCK, HAS_BIAS,
):  # fmt: skip
    """out (batch, rows) = x (batch, inner) @ weight.T + bias."""
    for task in parallel_range(rows):
        j = int64(task)
        first, last = max(int64(starts[uintp(j)]), 0), min(int64(starts[uintp(j + 1)]), stored)
        for i in range(batch):
            total = float32(0.0)
            for e in range(first, last):
                x_at = i * inner + min(int64(columns[uintp(e)]), inner // BLOCK - 1) * BLOCK
                for q in range(BLOCK):
                    total += x[uintp(x_at + q)] * values[uintp(e * BLOCK + q)]
            out[uintp(i * rows + j)] = total + bias[uintp(j)] if HAS_BIAS else total


@scalar
def column_of(columns, element, block, most):
    """The column of a stored element: its block's, and its place in the block."""
    return min(int64(columns[uintp(element // block)]), most) * block + element % block


def float_columns(
    x, values, columns, starts, bias, out, x_columns, product, batch, rows, inner, stored,
    *, BLOCK, HAS_BIAS,
):  # fmt: skip
    """As `float_rows`, by vectors of the batch. Scratch: x_columns (inner, batch) and product (rows, batch)."""
    for task in parallel_range(inner):
        for i in range(batch):
            x_columns[uintp(int64(task) * batch + i)] = x[uintp(i * inner + int64(task))]
    most = inner // BLOCK - 1
    for task in parallel_range(rows):
        j = int64(task)
        first, last = max(int64(starts[uintp(j)]), 0) * BLOCK, min(int64(starts[uintp(j + 1)]), stored) * BLOCK
        for i in range(batch):
            product[uintp(j * batch + i)] = bias[uintp(j)] if HAS_BIAS else float32(0.0)
        fours = first + max(last - first, 0) // 4 * 4
        for e in range(first, fours, 4):  # four elements for each read and write of the product
            at0, at1 = column_of(columns, e, BLOCK, most) * batch, column_of(columns, e + 1, BLOCK, most) * batch
            at2, at3 = column_of(columns, e + 2, BLOCK, most) * batch, column_of(columns, e + 3, BLOCK, most) * batch
            a, b, c, d = values[uintp(e)], values[uintp(e + 1)], values[uintp(e + 2)], values[uintp(e + 3)]
            for i in range(batch):
                product[uintp(j * batch + i)] += (
                    a * x_columns[uintp(at0 + i)] + b * x_columns[uintp(at1 + i)]
                    + c * x_columns[uintp(at2 + i)] + d * x_columns[uintp(at3 + i)]
                )  # fmt: skip
        for e in range(fours, last):
            at = column_of(columns, e, BLOCK, most) * batch
            for i in range(batch):
                product[uintp(j * batch + i)] += values[uintp(e)] * x_columns[uintp(at + i)]
    for task in parallel_range(batch):
        for j in range(rows):
            out[uintp(int64(task) * rows + j)] = product[uintp(j * batch + int64(task))]


def integer_rows(
    x, values, columns, starts, offset, multiplier, out, batch, rows, inner, stored, zero, low, high,
    *, BLOCK, scaled,
):  # fmt: skip
    """out (batch, rows) = round((x @ weight.T + offset) * multiplier) + zero in [low, high]."""
    for task in parallel_range(rows):
        j = int64(task)
        first, last = max(int64(starts[uintp(j)]), 0), min(int64(starts[uintp(j + 1)]), stored)
        for i in range(batch):
            total = int32(offset[uintp(j)])
            for e in range(first, last):
                x_at = i * inner + min(int64(columns[uintp(e)]), inner // BLOCK - 1) * BLOCK
                for q in range(BLOCK):
                    total += int32(x[uintp(x_at + q)]) * int32(values[uintp(e * BLOCK + q)])
            out[uintp(i * rows + j)] = scaled(total, multiplier[uintp(j)], low - zero, high - zero) + int32(zero)


def compressed(
    weight: np.ndarray, sizes: tuple[int, ...] = BLOCKS
) -> tuple[int, np.ndarray, np.ndarray, np.ndarray] | None:
    """(block, values, columns, starts) of a weight (rows, inner), for the one of the block sizes with the fewest bytes.

    None if none takes fewer than the weight, or its columns do not fit in 16 bits.
    """
    rows, inner = weight.shape
    best, fewest = None, weight.nbytes
    for block in sizes:
        if inner % block or not inner or inner // block > 1 << 16:
            continue
        blocks = weight.reshape(rows, inner // block, block)
        nonzero = blocks.any(2)
        columns = np.nonzero(nonzero)[1].astype("uint8" if inner // block <= 256 else "uint16")
        starts = np.concatenate([[0], np.cumsum(nonzero.sum(1))]).astype("int32")
        values = blocks[nonzero].reshape(-1)
        if values.nbytes + columns.nbytes + starts.nbytes < fewest:
            best, fewest = (block, values, columns, starts), values.nbytes + columns.nbytes + starts.nbytes
    return best


class _Compressed(Op):
    """Base: the checks and the sizes. Columns may be of uint16."""

    differentiable, wide_unsigned = False, True

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        x, _, columns = arguments[:3]
        if columns.dtype not in COLUMNS:
            return f"input 'columns' must be of uint8 or uint16, got {columns.dtype}"
        block = attributes[0]
        if block not in BLOCKS or not x.shape[-1] or x.shape[-1] % block:
            return f"block must be one of {BLOCKS} and divide the {x.shape[-1]} columns, got {block}"
        if sizes["v"] != sizes["e"] * block or sizes["s"] < 1:
            return f"expected {sizes['e'] * block} values for {sizes['e']} blocks, got {sizes['v']}"
        return None

    def result(self, arguments: tuple) -> Layout:
        """The layout of the result: as x, with a column for each row of the weight."""
        x, _, _, starts = arguments[:4]
        device = single_device(self.name, [argument for argument in arguments if isinstance(argument, Layout)])
        return layout((*x.shape[:-1], starts.size - 1), x.dtype, device)


class CompressedLinear(_Compressed):
    """x (..., k) of float32 @ compressed weight (n, k).T + bias (n) -> (..., n). bias may be None."""

    takes = "x[*l k]:float32 values[v]:float32 columns[e]:any starts[s]:int32 bias?[n]:float32; block=1.."
    inputs, attributes = ("x", "values", "columns", "starts", "bias"), ("block",)

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        if isinstance(arguments[4], Layout) and sizes["n"] != sizes["s"] - 1:
            return f"expected a bias of {sizes['s'] - 1} elements, got {sizes['n']}"
        return super().check(arguments, attributes, sizes)

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        x, values, columns, _, bias = arguments
        out, has_bias = self.result(arguments), isinstance(bias, Layout)
        if not out.size:
            return Plan(out, lambda *_: None)
        rows, inner, batch = out.shape[-1], x.shape[-1], out.size // out.shape[-1]
        by_columns = batch >= _MIN_BATCH
        kernel, work = float_columns if by_columns else float_rows, batch * values.size
        parts = ((inner * batch, _FLOAT), (rows * batch, _FLOAT)) if by_columns else ()
        names = "float32", "float32", columns, "int32", *["float32"] * (2 + len(parts))
        source = specialized(kernel, BLOCK=attributes[0], HAS_BIAS=has_bias)
        name = f"{self.name}_columns" if by_columns else self.name
        signature = bind.signature(*names, numbers=4)
        run = bind.launcher(x.device, name, source, signature, dtypes.float32, work, build.FAST_REDUCTION)
        sizes, scratch = (batch, rows, inner, columns.size), x.device.backend.scratch

        def launch(x: object, values: object, columns: object, starts: object, *others: object) -> None:
            bias, result = others if has_bias else (x, *others)
            run(x, values, columns, starts, bias, result, *scratch(parts), *sizes)

        return Plan(out, launch)


class CompressedByteLinear(_Compressed):
    """x (m, k) of int8 or uint8 @ compressed weight (n, k).T of int8 -> (m, n) of x's dtype, as `byte_linear`."""

    takes = (
        "x[m k]:any values[v]:int8 columns[e]:any starts[s]:int32 offset[n]:int32 multiplier[n]:float32; "
        "block=1.. zero=int low=int high=int"
    )
    inputs = "x", "values", "columns", "starts", "offset", "multiplier"
    attributes = "block", "zero", "low", "high"

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        dtype, numbers = arguments[0].dtype, attributes[1:]
        if dtype not in (dtypes.int8, dtypes.uint8):
            return f"input 'x' must be of int8 or uint8, got {dtype}"
        limits = dtypes.iinfo(dtype)
        if any(not limits.min <= number <= limits.max for number in numbers):
            return f"zero, low and high must be integers of {dtype}, got {numbers}"
        if sizes["n"] != sizes["s"] - 1:
            return f"expected {sizes['s'] - 1} offsets, got {sizes['n']}"
        return super().check(arguments, attributes, sizes)

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x, values, columns), (block, *limits), out = arguments[:3], attributes, self.result(arguments)
        if not out.size:
            return Plan(out, lambda *_: None)
        scaled = scaled_by_float if target.has_floats() else scaled_by_integers
        source = specialized(integer_rows, BLOCK=block, scaled=scaled)
        signature = bind.signature(x, "int8", columns, "int32", "int32", "float32", x, numbers=7)
        run = bind.launcher(x.device, self.name, source, signature, dtypes.float32, out.shape[0] * values.size)
        return Plan(out, run, (*out.shape, x.shape[1], columns.size, *limits))


compressed_linear, compressed_byte_linear = (
    CompressedLinear("compressed_linear"),
    CompressedByteLinear("compressed_byte_linear"),
)
