"""The product of int8 or uint8 matrices with 32-bit sums, for quantised networks. Others are in `matmul`."""

from __future__ import annotations

import numpy as np

from ... import dtypes
from ...device import Layout, threads
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import int32, int64, parallel_range, uint32, uintp
from ...kernel.library.panels import pack_words
from ...kernel.registers import byte_tiles
from ...kernel.registers.primitives.integers import byte_tile
from ...kernel.specialize import specialized
from ..op import Op, Plan, single_device

_LOOP_WORK = 1 << 12  # multiply-adds up to which packing does not pay
_UNPACKED_ROWS = 4  # rows up to which b is read once, without packing


def plain_product(a, b, out, rows, columns, inner, a_row, a_column, b_row, b_column):
    """out (rows, columns) = a (rows, inner; any steps) @ b (inner, columns; any steps), element by element."""
    for task in parallel_range(rows * columns):
        index, total = int64(task), int64(0)
        for k in range(inner):
            total += int64(a[index // columns * a_row + k * a_column]) * int64(
                b[k * b_row + index % columns * b_column]
            )
        out[index] = int32(total)


def row_dots(a, b, out, rows, columns, inner, a_row, b_column):
    """out (rows, columns) = a (rows, inner; steps a_row, 1) @ b (inner, columns; steps 1, b_column), by dots."""
    for task in parallel_range(columns):
        j = int64(task)
        for i in range(rows):
            total = int32(0)
            for k in range(inner):
                total += int32(a[uintp(i * a_row + k)]) * int32(b[uintp(j * b_column + k)])
            out[uintp(i * columns + j)] = total


def tiled_product(
    a, b, out, left, right, sums, tile, rows, columns, inner, a_row, a_column, b_row, b_column, workers,
    *, BITS, FLIP, GROUP, MASK, OFFSET, PANEL, TILE_ROWS,
):  # fmt: skip
    """As `plain_product`, by register tiles of words that pack GROUP elements along `inner`, padded with zeros.

    Scratch: left (rows, groups), and for each worker right (groups, PANEL), tile (TILE_ROWS, PANEL) and sums (PANEL),
    the correction for flipping the sign bits of a.
    """
    groups, strips, panels = (
        (inner + GROUP - 1) // GROUP,
        (rows + TILE_ROWS - 1) // TILE_ROWS,
        (columns + PANEL - 1) // PANEL,
    )
    for task in parallel_range(strips):
        for i in range(int64(task) * TILE_ROWS, int64(task) * TILE_ROWS + TILE_ROWS):
            pack_words(a, min(i, rows - 1) * a_row, a_column, inner, left, i * groups, 1, GROUP, MASK, FLIP)
    for worker in parallel_range(workers):
        right_at, sums_at, tile_at = (
            int64(worker) * groups * PANEL,
            int64(worker) * PANEL,
            int64(worker) * TILE_ROWS * PANEL,
        )
        for panel in range(int64(worker) * panels // workers, (int64(worker) + 1) * panels // workers):
            first = panel * PANEL
            width = min(PANEL, columns - first)
            for j in range(PANEL):
                sums[uintp(sums_at + j)] = 0
            if b_row == 1:
                for j in range(width):
                    pack_words(b, (first + j) * b_column, 1, inner, right, right_at + j, PANEL, GROUP, MASK, 0)
                    total = int32(0)
                    for k in range(inner):
                        total += int32(b[uintp((first + j) * b_column + k)])
                    sums[uintp(sums_at + j)] = OFFSET * total
            else:
                for g in range(groups):
                    for j in range(PANEL):
                        right[uintp(right_at + g * PANEL + j)] = 0
                    for q in range(min(GROUP, inner - g * GROUP)):
                        base, shift = (g * GROUP + q) * b_row + first * b_column, uint32(q * BITS)
                        for j in range(width):
                            value = b[uintp(base + j * b_column)]
                            right[uintp(right_at + g * PANEL + j)] |= (uint32(value) & uint32(MASK)) << shift
                            sums[uintp(sums_at + j)] += OFFSET * int32(value)
            for i in range(0, rows, TILE_ROWS):
                byte_tile(left, i * groups, groups, right, right_at, PANEL, tile, tile_at, PANEL, groups)
                for row in range(i, min(rows, i + TILE_ROWS)):
                    for j in range(width):
                        out[uintp(row * columns + first + j)] = (
                            tile[uintp(tile_at + (row - i) * PANEL + j)] - sums[uintp(sums_at + j)]
                        )


class ByteProduct(Op):
    """a (M, K) of int8 or uint8 @ b (K, N) of int8 -> (M, N) of int32. Exact; sums beyond int32 wrap around."""

    takes = "a[m k]~:any b[k n]~:int8;"
    inputs, differentiable = ("a", "b"), False

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        a, b = arguments
        _check(a, b)
        out = layout((a.shape[0], b.shape[1]), dtypes.int32, single_device("_int_mm", [a, b]))
        sizes = (*out.shape, a.shape[1], *a.strides, *b.strides)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        is_row = a.shape[0] <= _UNPACKED_ROWS and a.strides[1] == b.strides[0] == 1
        if is_row and a.device.type == "cpu":
            sizes = (*out.shape, a.shape[1], a.strides[0], b.strides[1])
            signature = bind.signature(a, "int8", "int32", numbers=len(sizes))
            work = out.size * a.shape[1] // 8
            source = specialized(row_dots)
            return Plan(out, bind.launcher(a.device, "byte_rows", source, signature, dtypes.float32, work), sizes)
        if a.device.type != "cpu" or out.size * a.shape[1] <= _LOOP_WORK:
            signature = bind.signature(a, "int8", "int32", numbers=len(sizes))
            return Plan(
                out,
                bind.launcher(
                    a.device,
                    "plain_bytes",
                    specialized(plain_product),
                    signature,
                    dtypes.float32,
                    out.size * a.shape[1] // 4,
                ),
                sizes,
            )
        return Plan(out, _tiled(a, out, sizes))


def _tiled(a: Layout, out: Layout, sizes: tuple) -> object:
    """The launcher of `tiled_product`."""
    registers, group = byte_tiles.shape(), byte_tiles.group()
    (rows, columns), inner, panel = out.shape, a.shape[1], registers.panel
    flipped = group == 4 and a.dtype is dtypes.int8  # signed bytes are multiplied as unsigned bytes, 128 greater
    constants = {
        "TILE_ROWS": registers.rows,
        "PANEL": panel,
        "GROUP": group,
        "BITS": 32 // group,
        "MASK": byte_tiles.number_mask(group),
    }
    constants |= {"FLIP": 0x80808080 if flipped else 0, "OFFSET": 128 if flipped else 0}
    source = specialized(tiled_product, **constants)
    signature = bind.signature(a, "int8", "int32", "uint32", "uint32", "int32", "int32", numbers=len(sizes) + 1)
    run = bind.launcher(a.device, "bytes", source, signature, dtypes.float32, rows * columns * inner // 16)
    groups = -(-inner // group)
    padded_rows = -(-rows // registers.rows) * registers.rows
    word = np.dtype("uint32")
    number = np.dtype("int32")
    scratch = a.device.backend.scratch

    def launch(a_data: object, b_data: object, out_data: object) -> None:
        workers = min(threads.get_num_threads(), -(-columns // panel))
        parts = (
            (padded_rows * groups, word),
            (workers * groups * panel, word),
            (workers * panel, number),
            (workers * registers.rows * panel, number),
        )
        run(a_data, b_data, out_data, *scratch(parts), *sizes, workers)

    return launch


def _check(a: Layout, b: Layout) -> None:
    for name, matrix in (("self", a), ("mat2", b)):
        if matrix.ndim != 2:
            raise RuntimeError(f"_int_mm: Expected {name} to be of dimension 2 but got {matrix.ndim}")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(f"_int_mm: self.size(1) needs to match mat2.size(0) but got {a.shape[1]} and {b.shape[0]}")
    if a.dtype not in (dtypes.int8, dtypes.uint8):
        raise RuntimeError(f"_int_mm: Expected self dtype to be int8 or uint8 but got {a.dtype}")
    if b.dtype is not dtypes.int8:
        raise RuntimeError(f"_int_mm: Expected mat2 dtype to be of type int8 but got {b.dtype}")


byte_product = ByteProduct("_int_mm")
