"""Linear layers of integers: x @ weight.T with the scales, the bias and the limits applied to each tile of sums.

Two ops take a weight (n, k) of int8. `byte_linear` multiplies int8 or uint8 matrices and returns their dtype. For
`dynamic_linear` x is float32: it is quantized here, by the range of the whole matrix or of each row, and the result is
float32. Weights are packed into panels of words (`pack_bytes`); the packed forms of both ops read these. Products that
return the 32-bit sums are in `int8`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ... import dtypes
from ...device import Layout, target, threads
from ...device.layout import layout
from ...kernel import bind
from ...kernel.any_size import for_all_sizes
from ...kernel.language import bits32, float32, float_of_bits32, int32, int64, parallel_range, uint32, uintp
from ...kernel.library.arithmetic import larger, round_small
from ...kernel.library.panels import pack_words
from ...kernel.library.requantize import scaled_by_float, scaled_by_integers
from ...kernel.registers import byte_tiles
from ...kernel.registers.primitives.integers import byte_float_row, byte_floats, byte_row, byte_rows
from ...kernel.scalar import scalar
from ...kernel.specialize import specialized
from ..op import Op, Packing, Plan, single_device
from ..packed_weights import with_packed_weight

_CACHE = 1 << 19  # bytes of rows of x that a panel of weights is multiplied by at a time


def plain_linear(x, weight, offset, multiplier, out, rows, columns, inner, zero, low, high):
    """out (rows, columns) = round((x @ weight.T + offset) * multiplier) + zero in [low, high], element by element."""
    for task in parallel_range(rows * columns):
        index, total = int64(task), int32(0)
        for k in range(inner):
            total += int32(x[index // columns * inner + k]) * int32(weight[index % columns * inner + k])
        value = float32(total + offset[index % columns]) * multiplier[index % columns]
        out[index] = int32(round_small(min(max(value, float32(low - zero)), float32(high - zero)))) + int32(zero)


def row_dots(x, weight, offset, multiplier, out, rows, columns, inner, zero, low, high, *, number, scaled):
    """As `plain_linear`, for a few rows: each row of the weight is read once, where it is. `number`: of indices."""
    for task in parallel_range(columns):
        j = int64(task)
        for i in range(rows):
            total = int32(0)
            for k in range(number(inner)):
                total += int32(x[uintp(number(i * inner + k))]) * int32(weight[uintp(number(j * inner + k))])
            total = int32(total + offset[uintp(j)])
            out[uintp(i * columns + j)] = scaled(total, multiplier[uintp(j)], low - zero, high - zero) + int32(zero)


def pack_panels(weight, packed, columns, inner, *, GROUP, MASK, PANEL):
    """Pack weight (columns, inner) into panels (panels, words, PANEL), followed by the sums of its rows."""
    words, panels = (inner + GROUP - 1) // GROUP, (columns + PANEL - 1) // PANEL
    for task in parallel_range(panels * PANEL):
        j, total = int64(task), int32(0)
        start = j // PANEL * words * PANEL + j % PANEL
        if j < columns:
            pack_words(weight, j * inner, 1, inner, packed, start, PANEL, GROUP, MASK, 0)
            for k in range(inner):
                total += int32(weight[uintp(j * inner + k)])
        else:
            for k in range(words):
                packed[uintp(start + k * PANEL)] = 0
        packed[uintp(panels * words * PANEL + j)] = total


def tiled_linear(
    x, offset, multiplier, packed, out, left, added, scales, rows, columns, inner, zero, low, high, block, workers,
    *, FLIP, GROUP, PANEL, TILE_ROWS, part, tile,
):  # fmt: skip
    """As `plain_linear`, for a packed weight. FLIP is added to the bytes of x, and taken back from the sums.

    Scratch: left (rows, words * GROUP), added and scales (panels * PANEL).
    """
    words, panels = (inner + GROUP - 1) // GROUP, (columns + PANEL - 1) // PANEL
    for task in parallel_range(rows):
        start, source = int64(task) * words * GROUP, int64(task) * inner
        for k in range(inner):
            left[uintp(start + k)] = part(int32(x[uintp(source + k)]) + FLIP)
        for k in range(inner, words * GROUP):
            left[uintp(start + k)] = 0
    for j in range(columns):
        added[uintp(j)] = offset[uintp(j)] - FLIP * packed[uintp(panels * words * PANEL + j)]
        scales[uintp(j)] = multiplier[uintp(j)]
    for j in range(columns, panels * PANEL):
        added[uintp(j)], scales[uintp(j)] = 0, 0.0
    for worker in parallel_range(workers):
        for first in range(0, rows, block):
            end = min(first + block, rows)
            for panel in range(int64(worker) * panels // workers, (int64(worker) + 1) * panels // workers):
                for i in range(first, end, TILE_ROWS):
                    tile(
                        left, i * words * GROUP, words * GROUP, 0, packed, panel * words * PANEL, added,
                        panel * PANEL, scales, panel * PANEL, out, i * columns + panel * PANEL, columns,
                        words, 1, min(TILE_ROWS, end - i),
                        min(PANEL, columns - panel * PANEL), low - zero, high - zero, zero,
                    )  # fmt: skip


@scalar
def ordered(bits):
    """An integer that is ordered as the float32 of these bits; NaN is outside of the infinities."""
    return int32(bits ^ (uint32(int32(bits) >> int32(31)) & uint32(0x7FFFFFFF)))


@scalar
def float_of_order(order):
    """The reverse of `ordered`."""
    return float_of_bits32(uint32(order) ^ (uint32(int32(order) >> int32(31)) & uint32(0x7FFFFFFF)))


@scalar
def usable_scale(scale):
    """A scale that has a reciprocal: 0.1 for zeros, as in `ops.quantize`."""
    return larger(scale, float32(6.1e-5)) if scale > 1e-38 else float32(0.1)


@scalar
def zero_point_of(least, step, last):
    """The integer in 0 ... last that stands for zero, as a float."""
    zero = float32(0.0) - least / step
    zero = zero if zero < float32(last) else float32(last)
    return round_small(zero if zero > 0.0 else float32(0.0))


@scalar
def nearest_integer(value, bottom, top):
    """The integer nearest to a value, in [bottom, top]; NaN is `top`."""
    value = value if value < top else top
    return int32(round_small(value if value > bottom else bottom))


def dynamic_tiles(
    x, scale, bias, packed, out, left, added, scales, shifts, factors, extremes, rows, columns, inner, last, block,
    workers,
    *, GROUP, PANEL, SHIFT, TILE_ROWS, part, tile,
):  # fmt: skip
    """out (rows, columns) = x @ weight.T + bias for a packed weight with a scale for each column.

    x becomes integers in 0 ... last, with a zero point, or if `last` is 0 those in -127 ... 127 of each row plus SHIFT.
    Scratch: left (rows, words * GROUP), added, scales and shifts (panels * PANEL), factors (rows), extremes (2, rows).
    """
    words, panels = (inner + GROUP - 1) // GROUP, (columns + PANEL - 1) // PANEL
    for task in parallel_range(rows):
        source, low, high = int64(task) * inner, int32(0), int32(0)
        for k in range(inner):
            order = ordered(bits32(x[uintp(source + k)]))
            low, high = min(low, order), max(high, order)
        extremes[uintp(int64(task))], extremes[uintp(rows + int64(task))] = low, high
    zero = float32(0.0)
    if last > 0:
        low, high = int32(0), int32(0)
        for i in range(rows):
            low, high = min(low, extremes[uintp(i)]), max(high, extremes[uintp(rows + i)])
        least = float_of_order(low)
        step = usable_scale((float_of_order(high) - least) / float32(last))
        zero = zero_point_of(least, step, last)
        for i in range(rows):
            factors[uintp(i)] = step
    else:
        for i in range(rows):
            factors[uintp(i)] = max(
                larger(-float_of_order(extremes[uintp(i)]), float_of_order(extremes[uintp(rows + i)])) / float32(127.0),
                float32(1e-12),
            )
        zero = float32(SHIFT)
    top, bottom = float32(last if last > 0 else SHIFT + 127), float32(0 if last > 0 else SHIFT - 127)
    for task in parallel_range(rows):
        start, source = int64(task) * words * GROUP, int64(task) * inner
        inverse = float32(1.0) / factors[uintp(int64(task))]
        for k in range(inner):
            left[uintp(start + k)] = part(nearest_integer(x[uintp(source + k)] * inverse + zero, bottom, top))
        for k in range(inner, words * GROUP):
            left[uintp(start + k)] = 0
    for j in range(columns):
        added[uintp(j)] = -int32(zero) * packed[uintp(panels * words * PANEL + j)]
        scales[uintp(j)], shifts[uintp(j)] = scale[uintp(j)], bias[uintp(j)]
    for j in range(columns, panels * PANEL):
        added[uintp(j)], scales[uintp(j)], shifts[uintp(j)] = 0, 0.0, 0.0
    for worker in parallel_range(workers):
        for first in range(0, rows, block):
            end = min(first + block, rows)
            for panel in range(int64(worker) * panels // workers, (int64(worker) + 1) * panels // workers):
                for i in range(first, end, TILE_ROWS):
                    tile(
                        left, i * words * GROUP, words * GROUP, packed, panel * words * PANEL, added,
                        panel * PANEL, scales, panel * PANEL, shifts, panel * PANEL, factors, i, out,
                        i * columns + panel * PANEL,
                        columns, words, min(TILE_ROWS, end - i), min(PANEL, columns - panel * PANEL),
                    )  # fmt: skip


class PackBytes(Op):
    """Pack a weight (n, k) of int8 in panels, in a `byte_tiles.packed_format`. CPU only."""

    inputs, attributes, differentiable, portable = ("weight",), ("group", "panel"), False, False

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        run, sizes, count = packer(arguments[0], attributes)
        return Plan(layout((count,), dtypes.int32, arguments[0].device), run, sizes)


pack_bytes = PackBytes("pack_bytes")


@functools.cache
def packing_of_bytes(product: Op, columns: int, compact: bool, needs_vectors: bool = False) -> Packing:
    """How a weight of so many rows is packed for a product. Each call of an eager layer asks for it."""
    form = byte_tiles.packed_format(columns, compact)
    return Packing(1, pack_bytes, form, product, needs_vectors=needs_vectors)


def tile_shape(columns: int, packs_weight: bool) -> byte_tiles.Shape:
    """The tile for a weight of so many rows: the widest if all sizes may change, which those of packed weights do not.

    Packing and multiplying have to choose the same one.
    """
    return byte_tiles.shape(None if packs_weight and for_all_sizes.get() else columns)


def packer_of_each_call(weight: Layout, compact: bool) -> tuple:
    """The `packer` of an op that packs its weight at each call."""
    return packer(weight, (byte_tiles.group(compact), tile_shape(weight.shape[0], packs_weight=True).panel))


def packer(weight: Layout, form: tuple[int, int]) -> tuple:
    """The launcher of `pack_bytes`, its numbers, and the words that it fills, in a `packed_format`."""
    columns, inner = weight.shape
    group, panel = form
    constants = {"GROUP": group, "MASK": byte_tiles.number_mask(group), "PANEL": panel}
    signature, work = bind.signature("int8", "int32", numbers=2), max(weight.size, 1) // 4
    run = bind.launcher(
        weight.device, "pack_bytes", specialized(pack_panels, **constants), signature, dtypes.float32, work
    )
    return run, weight.shape, -(-columns // panel) * panel * (-(-inner // group) + 1)


class _ByteLayer(Op):
    """Base: the shapes, and the choice of a kernel."""

    differentiable, packs_weight = False, True
    compact: bool  # the words, as in `kernel.registers.byte_tiles`
    result: dtypes.dtype | None  # None: the dtype of x
    tile: dict[int, Callable]  # the functions of tiles and of one row, by the vectors of a panel
    tile_of_row: dict[int, Callable]

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        x, weight, *rows = arguments[:4]
        if x.shape[1:] != weight.shape[1:]:
            raise RuntimeError(f"quantized linear: expected {weight.shape[1]} input features, got {x.shape[1]}")
        for name, row in zip(self.inputs[2:], rows):
            if row.shape != weight.shape[:1]:
                raise RuntimeError(
                    f"quantized linear: expected {name} of shape {tuple(weight.shape[:1])}, got {tuple(row.shape)}"
                )
        out = layout((x.shape[0], weight.shape[0]), self.result or x.dtype, single_device(self.name, list(arguments)))
        return self.planned(x, weight, out, attributes) if out.size else Plan(out, lambda *_: None)

    def planned(self, x: Layout, weight: Layout, out: Layout, attributes: tuple) -> Plan:
        """The plan of a result that is not empty."""
        run, scratch = self.tiles(x, weight, out, attributes)
        pack = packer_of_each_call(weight, self.compact) if self.packs_weight else None
        return Plan(out, with_packed_weight(run, lambda: scratch, x.device, pack))

    def tiles(self, x: Layout, weight: Layout, out: Layout, attributes: tuple) -> tuple:
        """(launcher of the product, its scratch memory as (size, dtype) pairs).

        The launcher takes x, the inputs after the weight, the packed weight, out, and the scratch memory.
        """
        raise NotImplementedError(f"{type(self).__name__} must define tiles(x, weight, out, attributes)")

    def launcher(
        self, kernel: object, types: tuple, scratch: tuple, x: Layout, weight: Layout, sizes: tuple, **constants: int
    ) -> object:
        """The launcher of a kernel that computes tiles.

        The kernel takes arrays of these types, then the scratch memory, `sizes`, the rows of a block, and the workers.
        """
        group, (columns, inner) = byte_tiles.group(self.compact), weight.shape
        shape = tile_shape(columns, self.packs_weight)
        rows, is_row = x.shape[0], self.is_by_rows(x)
        constants |= {"GROUP": group, "PANEL": shape.panel, "TILE_ROWS": 1 if is_row else shape.rows}
        constants |= {
            "part": byte_tiles.number_type(self.compact),
            "tile": (self.tile_of_row if is_row else self.tile)[shape.vectors],
        }
        block = max(_CACHE // max(inner * 4 // group, 1) // shape.rows, 1) * shape.rows
        work = rows * columns * inner // 16
        signature = bind.signature(*types, *(dtype.name for _, dtype in scratch), numbers=len(sizes) + 2)
        run = bind.launcher(x.device, self.name, specialized(kernel, **constants), signature, dtypes.float32, work)
        panels = -(-columns // shape.panel)
        return lambda *arrays: run(*arrays, *sizes, block, min(threads.get_num_threads(), panels))

    def is_by_rows(self, x: Layout) -> bool:
        """Whether rows are computed one by one, which needs compact words."""
        is_row = x.shape[0] == 1 and not for_all_sizes.get()
        return is_row and byte_tiles.group(self.compact) == byte_tiles.group(compact=True)

    def word_rows(self, x: Layout, weight: Layout) -> tuple:
        """The scratch memory of x as rows of words, and the number of padded columns."""
        group, (columns, inner) = byte_tiles.group(self.compact), weight.shape
        panel = tile_shape(columns, self.packs_weight).panel
        part = byte_tiles.number_type(self.compact)
        return (x.shape[0] * -(-inner // group) * group, part), -(-columns // panel) * panel


class ByteLinear(_ByteLayer):
    """x (m, k) of int8 or uint8 @ weight (n, k).T of int8 -> (m, n) of x's dtype.

    The result is round((sum + offset) * multiplier) + zero in [low, high], for the exact sum of products of integers.
    `offset` has the bias and the products with zero points.
    """

    takes = "x[m k]:any weight[n k]:int8 offset[n]:int32 multiplier[n]:float32; zero=int low=int high=int"
    inputs, attributes = ("x", "weight", "offset", "multiplier"), ("zero", "low", "high")
    result, tile, tile_of_row, compact = None, byte_rows, byte_row, False

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        dtype = arguments[0].dtype
        if dtype not in (dtypes.int8, dtypes.uint8):
            return f"input 'x' must be of int8 or uint8, got {dtype}"
        limits = dtypes.iinfo(dtype)
        if any(not limits.min <= number <= limits.max for number in attributes):
            return f"zero, low and high must be integers of {dtype}, got {attributes}"
        return None

    def prepack(self, arguments: tuple, attributes: tuple) -> Packing | None:
        """Pack the weight. A single row reads it once, in compact words."""
        x, weight = arguments[:2]
        if x.device.type != "cpu":
            return None
        is_row = x.shape[0] == 1 and not for_all_sizes.get()
        return (packed_byte_row if is_row else packed_byte_linear).packing(weight)

    def planned(self, x: Layout, weight: Layout, out: Layout, attributes: tuple) -> Plan:
        """See `_ByteLayer`. A row needs no packing."""
        is_row, is_plain = x.shape[0] == 1 and not for_all_sizes.get(), x.device.type != "cpu"
        has_vectors = target.has_vectors()
        if has_vectors and (not self.packs_weight or (not is_row and not is_plain)):
            return super().planned(x, weight, out, attributes)
        signature, work = bind.signature(x, "int8", "int32", "float32", x, numbers=6), out.size * weight.shape[1]
        constants = {
            "scaled": scaled_by_float if target.has_floats() else scaled_by_integers,
            "number": np.dtype("int64" if has_vectors else "int32"),
        }
        source = specialized(plain_linear) if is_plain else specialized(row_dots, **constants)
        name = "plain_byte_linear" if is_plain else "byte_linear_rows"
        run = bind.launcher(x.device, name, source, signature, dtypes.float32, work // (4 if is_plain else 8))
        return Plan(out, run, (*out.shape, weight.shape[1], *attributes))

    def tiles(self, x: Layout, weight: Layout, out: Layout, attributes: tuple) -> tuple:
        """See `_ByteLayer`."""
        left, padded = self.word_rows(x, weight)
        scratch = left, (padded, np.dtype("int32")), (padded, np.dtype("float32"))
        flip = 128 if byte_tiles.group(self.compact) == 4 and x.dtype is dtypes.int8 else 0
        sizes = *out.shape, weight.shape[1], *attributes
        types = x, "int32", "float32", "int32", x
        return self.launcher(tiled_linear, types, scratch, x, weight, sizes, FLIP=flip), scratch


class DynamicLinear(_ByteLayer):
    """x (m, k) of float32 @ weight (n, k).T of int8 with a scale for each row, plus a bias -> (m, n) of float32.

    x is quantized to the integers 0 ... last with the scale and the zero point of its range, or if `last` is 0 to
    -127 ... 127 with a scale for each row.
    """

    takes = "x[m k]:float32 weight[n k]:int8 scale[n]:float32 bias[n]:float32; last=0..255"
    inputs, attributes = ("x", "weight", "scale", "bias"), ("last",)
    result, tile, tile_of_row, compact = dtypes.float32, byte_floats, byte_float_row, True

    def prepack(self, arguments: tuple, attributes: tuple) -> Packing | None:
        """Pack the weight."""
        x, weight = arguments[:2]
        return packed_dynamic_linear.packing(weight) if x.device.type == "cpu" else None

    def tiles(self, x: Layout, weight: Layout, out: Layout, attributes: tuple) -> tuple:
        """See `_ByteLayer`."""
        (left, padded), rows, number, real = (
            self.word_rows(x, weight),
            x.shape[0],
            np.dtype("int32"),
            np.dtype("float32"),
        )
        scratch = left, (padded, number), (padded, real), (padded, real), (rows, real), (2 * rows, number)
        types, sizes = (*["float32"] * 3, "int32", "float32"), (*out.shape, weight.shape[1], *attributes)
        shift = 128 if byte_tiles.group(self.compact) == 4 else 0
        return self.launcher(dynamic_tiles, types, scratch, x, weight, sizes, SHIFT=shift), scratch


class _Packed:
    """A layer with a further input, the weight packed by `pack_bytes`, which the kernel reads."""

    takes = None  # the packed layout depends on the processor, so it is not saved in files
    portable = packs_weight = False
    compact: bool

    def prepack(self, arguments: tuple, attributes: tuple) -> None:
        """The weight is packed already."""

    def packing(self, weight: Layout) -> Packing:
        """How a weight is packed for this op."""
        return packing_of_bytes(self, weight.shape[0], self.compact, isinstance(self, ByteLinear))

    def packing_attributes(self, weight: Layout, attributes: tuple, machine: target.Machine) -> tuple:
        """See `Op.packing_attributes`."""
        return byte_tiles.packed_format(weight.shape[0], self.compact, machine)


class PackedByteLinear(_Packed, ByteLinear):
    """`byte_linear` of a packed weight."""

    inputs = (*ByteLinear.inputs, "packed")


class PackedByteRow(PackedByteLinear):
    """`packed_byte_linear` of a weight in compact words, which is faster for a single row and right for more."""

    compact = True

    def is_by_rows(self, x: Layout) -> bool:
        """See `_ByteLayer`."""
        return True


class PackedDynamicLinear(_Packed, DynamicLinear):
    """`dynamic_linear` of a packed weight."""

    inputs = (*DynamicLinear.inputs, "packed")


byte_linear, dynamic_linear = ByteLinear("byte_linear"), DynamicLinear("dynamic_linear")
packed_byte_linear = PackedByteLinear("packed_byte_linear")
packed_byte_row = PackedByteRow("packed_byte_row")
packed_dynamic_linear = PackedDynamicLinear("packed_dynamic_linear")
