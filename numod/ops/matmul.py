"""Matrix products: batched `matmul` and `linear`. Shapes of one dimension and their squeezing are the caller's (`core.functions`).

Products of floats are made of register tiles, the smallest and those of integers of plain loops; one with a vector reads its matrix once, in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import numpy as np

from .. import dtypes
from ..device import Layout, dots, threads, tiles
from ..device.layout import layout
from ..kernel import bind, block, build, emit
from .finish import Finish
from .linear_gradient import joined
from .op import Op, Packing, Plan, single_device
from .pointwise import broadcast_shapes, broadcast_strides

_SMALL, _GROUPED = 1 << 11, 1 << 18  # multiply-adds up to which plain loops multiply a vector by columns; up to which it meets one in groups
_MANY, _LITTLE = 64, 8  # matrices in a batch, and rows and columns of each, for which a kernel of their sizes is worth compiling
_PARTS, _PART = 8, 1 << 16  # a matrix that meets a vector is cut into so many parts at most, of so many elements at least,
_RUN = 512  # and in runs of so many
_TILED, _TURNED = 1 << 10, 1 << 13  # multiply-adds from which register tiles beat plain loops; where a matrix is packed for them
_DIRECT = 1 << 15  # bytes of a matrix that tiles read as it lies, again and again: it stays in the first-level cache
_DOTTED, _NEAR, _LONG = 24, 1 << 16, 4  # where tiles of dot products beat turning a matrix: rows, bytes of them, and registers of a sum that pay for adding it up
_COLUMN_RUN = 64  # columns of a share of theirs
_DEPTH, _PANELS = 512, 8  # a packed block's rows and panels: it fits the second-level cache
_ROW_RUN = 64  # rows that are packed together, whole tiles on every processor
_PART_ROWS, _PART_PANELS = 128, 4  # a part's rows and panels at least


def product_rows(a, b, out, bias, batches, rows, columns, inner, a_batch, a_row, b_batch, b_row):
    """out (batches, rows, columns) = bias (columns or none) + a (rows, inner; steps a_row, 1) @ b (inner, columns; steps b_row, 1), a row at a time."""
    for task in parallel_range(batches * rows):
        place = int64(task)
        batch = place // rows
        a_base = batch * a_batch + (place % rows) * a_row
        b_base = batch * b_batch
        base = place * columns
        if bias.size > 0:
            for j in range(columns):
                out[uintp(base + j)] = bias[uintp(j)]
        else:
            for j in range(columns):
                out[uintp(base + j)] = 0
        for k in range(inner):
            value = a[uintp(a_base + k)]
            for j in range(columns):
                out[uintp(base + j)] += value * b[uintp(b_base + k * b_row + j)]


def product_dots(a, b, out, bias, batches, rows, columns, inner, a_batch, a_row, b_batch, b_column):
    """The same where b steps by 1 along `inner` (a transposed matrix): a dot product per element."""
    for task in parallel_range(batches * rows):
        place = int64(task)
        batch = place // rows
        a_base = batch * a_batch + (place % rows) * a_row
        for j in range(columns):
            b_base = batch * b_batch + j * b_column
            total = a.dtype.type(0)
            for k in range(inner):
                total += a[uintp(a_base + k)] * b[uintp(b_base + k)]
            out[uintp(place * columns + j)] = total + bias[uintp(j)] if bias.size > 0 else total


def vector_rows(vector, matrix, out, bias, batches, count, inner, v_batch, v_step, m_batch, m_step, bias_step, parts):
    """out (batches, count) = bias + vector (inner) @ matrix (inner, count; steps m_step, 1), four rows at a time: it is read once, in order."""
    for task in parallel_range(batches * parts):
        batch, part = int64(task) // parts, int64(task) % parts
        first, last = part * count // parts, (part + 1) * count // parts
        base, v, m = batch * count, batch * v_batch, batch * m_batch
        for j in range(first, last):
            out[uintp(base + j)] = bias[uintp(j * bias_step)] if bias.size > 0 else 0
        fours = inner - inner % 4
        for k in range(0, fours, 4):
            row = m + k * m_step
            v0, v1, v2, v3 = vector[v + k * v_step], vector[v + (k + 1) * v_step], vector[v + (k + 2) * v_step], vector[v + (k + 3) * v_step]
            for j in range(first, last):
                total = v0 * matrix[uintp(row + j)] + v1 * matrix[uintp(row + m_step + j)]
                out[uintp(base + j)] += total + (v2 * matrix[uintp(row + 2 * m_step + j)] + v3 * matrix[uintp(row + 3 * m_step + j)])
        for k in range(fours, inner):
            value = vector[v + k * v_step]
            for j in range(first, last):
                out[uintp(base + j)] += value * matrix[uintp(m + k * m_step + j)]


def vector_dots(vector, matrix, out, bias, batches, count, inner, v_batch, v_step, m_batch, m_step, bias_step, parts):
    """The same for matrix (count, inner; steps m_step, 1): a dot product per element."""
    for task in parallel_range(batches * parts):
        batch, part = int64(task) // parts, int64(task) % parts
        v = batch * v_batch
        for j in range(part * count // parts, (part + 1) * count // parts):
            row = batch * m_batch + j * m_step
            total = vector.dtype.type(0)
            if v_step == 1:
                for k in range(inner):
                    total += vector[uintp(v + k)] * matrix[uintp(row + k)]
            else:
                for k in range(inner):
                    total += vector[uintp(v + k * v_step)] * matrix[uintp(row + k)]
            out[uintp(batch * count + j)] = total + bias[uintp(j * bias_step)] if bias.size > 0 else total


def vector_groups(vector, matrix, out, bias, batches, count, inner, v_batch, v_step, m_batch, m_step, bias_step, parts):
    """The same for a dense vector and a matrix that caches hold: as many dot products at a time as a register has lanes."""
    for task in parallel_range(batches):
        batch = int64(task)
        base = batch * count
        dots(matrix, batch * m_batch, m_step, vector, batch * v_batch, inner, out, base, count)
        if bias.size > 0:
            for j in range(count):
                out[uintp(base + j)] += bias[uintp(j * bias_step)]


def product_dot_tiles(a, b, out, bias, batches, rows, columns, inner, a_batch, a_row, b_batch, b_column, parts):
    """The same by tiles of dot products, some rows with some at a time: neither matrix is turned or packed. A few rows of b meet all of a."""
    for task in parallel_range(batches * parts):
        batch, part = int64(task) // parts, int64(task) % parts
        first, last = part * COLUMN_RUN, min(columns, (part + 1) * COLUMN_RUN)
        base = batch * rows * columns
        for j in range(first, last, TILE_COLUMNS):
            b_at, wide = batch * b_batch + j * b_column, min(TILE_COLUMNS, last - j)
            for i in range(0, rows, TILE_ROWS):
                dot_tile(a, batch * a_batch + i * a_row, a_row, b, b_at, b_column, inner, out, base + i * columns + j, columns, min(TILE_ROWS, rows - i), wide)
        for row in range(rows):
            if bias.size > 0:
                for j in range(first, last):
                    out[uintp(base + row * columns + j)] += bias[uintp(j)]


def product_strided(a, b, out, bias, batches, rows, columns, inner, a_batch, a_row, a_column, b_batch, b_row, b_column):
    """The same for any steps, each element by itself."""
    for task in parallel_range(batches * rows * columns):
        place = int64(task)
        j = place % columns
        i = (place // columns) % rows
        batch = place // (columns * rows)
        a_base = batch * a_batch + i * a_row
        b_base = batch * b_batch + j * b_column
        total = a.dtype.type(0)
        for k in range(inner):
            total += a[uintp(a_base + k * a_column)] * b[uintp(b_base + k * b_row)]
        out[uintp(place)] = total + bias[uintp(j)] if bias.size > 0 else total


def product_tiles(
    a, b, out, bias, packed, workers, row_parts, column_parts, share, rows_at, batches, rows, columns, inner, a_batch, a_row, a_column, b_batch, b_row, b_column,
    block, panel, widest, pack_a, pack_b,
):  # fmt: skip
    """The same by register tiles: blocks of b, packed where that pays, each against all rows of a. Sums run along `inner` alike in all parts."""
    tasks = batches * row_parts * column_parts
    tiles_down, tiles_across = (rows + TILE_ROWS - 1) // TILE_ROWS, (columns + panel - 1) // panel
    for turn in parallel_range(workers):
        own, own_a = int64(turn) * share, int64(turn) * share + rows_at
        for task in range(turn * tasks // workers, (turn + 1) * tasks // workers):
            batch, part, share_across = task // (row_parts * column_parts), task // column_parts % row_parts, task % column_parts
            top, bottom = part * tiles_down // row_parts * TILE_ROWS, min(rows, (part + 1) * tiles_down // row_parts * TILE_ROWS)
            begin, end = share_across * tiles_across // column_parts * panel, min(columns, (share_across + 1) * tiles_across // column_parts * panel)
            blocks = (end - begin + widest - 1) // widest
            wide = ((end - begin + panel - 1) // panel + blocks - 1) // blocks * panel  # columns of a block: the last is not left with few
            base = batch * rows * columns
            for k in range(0, inner, block):
                depth, keep = min(block, inner - k), int64(k > 0)
                for first in range(begin, end, wide):
                    width = min(wide, end - first)
                    b_at = batch * b_batch + k * b_row + first * (depth if pack_b == 2 else b_column)
                    if pack_b == 1:
                        pack_columns(b, b_at, b_row, b_column, depth, width, packed, own, panel, LANES)
                    for i in range(top, bottom, TILE_ROWS):
                        held, strip = min(TILE_ROWS, bottom - i), (i - top) % ROW_RUN
                        a_at = batch * a_batch + i * a_row + k * a_column
                        if pack_a and strip == 0:
                            pack_rows(a, a_at, a_row, a_column, depth, min(ROW_RUN, bottom - i), packed, own_a, TILE_ROWS)
                        target = base + i * columns + first
                        multiply_strip(
                            a, a_at, a_row, a_column, b, b_at, b_row, packed, own, own_a + strip * depth, out, target, columns, depth, keep, held, width, panel, pack_a, pack_b,
                            TILE_ROWS, LANES, SIZE,
                        )  # fmt: skip
                        if k + depth == inner:
                            for row in range(i, i + held):
                                if bias.size > 0:
                                    for j in range(first, first + width):
                                        out[uintp(base + row * columns + j)] += bias[uintp(j)]


def pack_matrix(b, packed, inner, columns, b_row, b_column, block, panel, padded):
    """packed (blocks, panels, block, panel) = b (inner, columns)."""
    for k in range(0, inner, block):
        pack_columns(b, k * b_row, b_row, b_column, min(block, inner - k), columns, packed, k * padded, panel, LANES)


def _dot_tile_kernel(
    name: str, a: Layout, b: Layout, batches: int, a_batch: int, b_batch: int, finish: Finish | None = None, has_bias: bool = False,
) -> tuple[Callable, Callable[[int], tuple]] | None:  # fmt: skip
    """As `_tile_kernel`, by `product_dot_tiles`."""
    (rows, inner), columns, storage = a.shape[-2:], b.shape[-1], a.storage
    constants = (batches, rows, columns, inner, a_batch, a.strides[-2], b_batch, b.strides[-1], -(-columns // _COLUMN_RUN))
    signature = ", ".join([f"{storage.name}[]"] * 4 + ["int64"] * len(constants) + (finish.types() if finish else []))
    source = _sized(product_dot_tiles, TILE_ROWS=dots.tile_rows(), TILE_COLUMNS=dots.COLUMNS, COLUMN_RUN=_COLUMN_RUN)
    source = _with_finish(source, finish, has_bias, "FINISH(batch, row, base + row * columns, first, last)")
    run = bind.launcher(a.device, f"{name}_dot_tiles", source, signature, a.dtype, batches * rows * columns * inner // 4)
    return run, lambda count: ((), constants)


def _sized(function: Callable, **sizes: int) -> str:
    """A kernel's text with its constants."""
    return re.sub(rf"\b({'|'.join(sizes)})\b", lambda found: str(sizes[found[1]]), bind.source_of(function))


def _with_finish(source: str, finish: Finish | None, has_bias: bool, place: str) -> str:
    """A kernel's text with an end, if there is one, in the place of that which adds the bias, its last."""
    if finish is None:
        return source
    head, _, _ = source.rpartition("if bias.size")
    return finish.joined(f"{head}{place}\n", " + bias[uintp(j)]" if has_bias else "")


def _tile_kernel(
    name: str, a: Layout, b: Layout, batches: int, a_batch: int, b_batch: int, finish: Finish | None = None, has_bias: bool = False, packed: bool = False,
) -> tuple[Callable, Callable[[int], tuple]] | None:  # fmt: skip
    """The kernel by register tiles, and a function of the number of threads that gives the scratch memory it takes, if any, and its constants.

    None where the product is so small that plain loops are as fast, or not of floats on the CPU. `packed`: b is given in `_panels`.
    """
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    if a.device.type != "cpu" or not a.dtype.is_floating_point or min(rows, columns) < 2:
        return None
    if _dotted(a, b) and not packed:
        return _dot_tile_kernel(name, a, b, batches, a_batch, b_batch, finish, has_bias)
    if rows * inner * columns < (_TILED if b.strides[-1] == 1 else _TURNED):
        return None
    host, storage, (a_row, a_column), (b_row, b_column) = tiles.host(), a.storage, a.strides[-2:], b.strides[-2:]
    lanes, tile_rows = host.lanes(storage.itemsize), host.rows
    panel, padded, deep = _panels(inner, columns, lanes)
    small = inner * columns * storage.itemsize <= _DIRECT
    pack_b = b_column != 1 or not (small or rows <= 2 * tile_rows) or (columns % lanes != 0 and not host.masks)
    pack_a = a_column != 1 and not (rows * inner * storage.itemsize <= _DIRECT)
    deep = deep if pack_a or pack_b or packed or rows > tile_rows else inner
    widest = min(_PANELS, -(-columns // panel)) * panel
    b_row, pack_b = (padded, 2) if packed else (b_row, int(pack_b))
    rows_at = (pack_b == 1) * deep * widest
    share = rows_at + pack_a * deep * _ROW_RUN
    constants = (
        share, rows_at, batches, rows, columns, inner, a_batch, a_row, a_column, b_batch, b_row, b_column, deep, panel, widest, int(pack_a), pack_b,
    )  # fmt: skip
    source = _sized(product_tiles, TILE_ROWS=tile_rows, ROW_RUN=_ROW_RUN, LANES=lanes, SIZE=storage.itemsize)
    signature = ", ".join([f"{storage.name}[]"] * 5 + ["int64"] * (3 + len(constants)) + (finish.types() if finish else []))
    source = _with_finish(source, finish, has_bias, "FINISH(batch, row, base + row * columns, first, first + width)")

    @cache
    def divided(count: int) -> tuple:
        parts = _divided(count, batches, rows, columns, panel)
        return ((parts[0] * share, storage),), (*parts, *constants)

    if divided(_PARTS)[1][0] == 1:
        source = source.replace("parallel_range(", "range(")
    run = bind.launcher(a.device, f"{name}_tiles", source, signature, a.dtype, batches * rows * columns * inner // 4)
    return run, divided


def _panels(inner: int, columns: int, lanes: int) -> tuple[int, int, int]:
    """The columns of a panel, those of all panels, and the rows of a block, of a packed matrix (inner, columns): blocks (panels, rows, columns of a panel)."""
    vectors = -(-columns // lanes)
    panel = lanes * -(-vectors // -(-vectors // tiles.VECTORS))  # panels of equal width
    return panel, -(-columns // panel) * panel, -(-inner // -(-inner // _DEPTH) // lanes) * lanes


def _divided(threads: int, batches: int, rows: int, columns: int, panel: int) -> tuple[int, int, int]:
    """How many workers share products, and in how many parts of rows and of columns. Parts of rows pack the same columns, each for itself."""
    wanted = 1 if batches % threads == 0 or batches >= _PARTS * threads else threads
    across = max(1, min(wanted, columns // (_PART_PANELS * panel)))
    down = max(1, min(-(-wanted // across), rows // _PART_ROWS))
    return min(threads, batches * down * across), down, across


def _tiled(name: str, a: Layout, b: Layout, batches: int, a_batch: int, b_batch: int, packed: bool = False) -> tuple[Callable, tuple] | None:
    """Launcher and constants of a product by tiles, where tiles are the best form."""
    kernel = _tile_kernel(name, a, b, batches, a_batch, b_batch, packed=packed)
    if kernel is None:
        return None
    (run, divided), nothing, scratch = kernel, a.device.empty(0, a.storage), a.device.backend.scratch
    parts, numbers = divided(_PARTS)
    if not parts:
        return run, (nothing, *numbers)
    if parts[0][0] == 0 and numbers[0] == 1:
        return run, (nothing, nothing, *numbers)

    def launch(a_data: object, b_data: object, out_data: object, bias: object) -> None:
        parts, numbers = divided(threads.get_num_threads())
        run(a_data, b_data, out_data, bias, *scratch(parts), *numbers)

    return launch, (nothing,)


def _finished(
    name: str, factors: tuple[Layout, Layout, Layout | None], loop: emit.Loop, product: str, shape: tuple, tensors: list[Layout], packed: bool = False
) -> Callable | None:
    a, b, bias = factors
    steps = [broadcast_strides(each, shape) for each in tensors]
    batch = broadcast_shapes(name, [a.shape[:-2], b.shape[:-2]])
    if batch:
        sizes, ends = emit.collapse(batch, [*(broadcast_strides(each, (*batch, *each.shape[-2:]))[:-2] for each in (a, b)), *(each[:-2] for each in steps)])
        (a_batch, b_batch), places = (each[-1] for each in ends[:2]), [(end[-1], *each[-2:]) for end, each in zip(ends[2:], steps)]
    else:
        sizes, ends = emit.collapse(shape[:-1], [each[:-1] for each in steps])
        a_batch, b_batch, places = 0, 0, [(0, end[-1], each[-1]) for end, each in zip(ends, steps)]
    finish = Finish(loop, product, tuple(places))
    kernel = _tile_kernel(name, a, b, sizes[0] if batch else 1, a_batch, b_batch, finish, bias is not None, packed) if len(sizes) == 1 else None
    if kernel is None:
        return None
    (run, divided), nothing, scratch = kernel, a.device.empty(0, a.storage), a.device.backend.scratch

    def launch(given: list, out: object, arrays: list, numbers: list) -> None:
        parts, constants = divided(threads.get_num_threads())
        a_data, b_data, bias_data = given if len(given) == 3 else (*given, nothing)
        run(a_data, b_data, out, bias_data, *(scratch(parts) if not parts or parts[0][0] else (nothing,)), *constants, *arrays, *finish.sizes(), *numbers)

    return launch


def _vector(name: str, a: Layout, b: Layout, batches: int, a_batch: int, b_batch: int) -> tuple[Callable, tuple] | None:
    """Launcher and constants of the products with a vector, which go through the matrix once; None for others, and for small ones."""
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    if a.device.backend.FLAT or min(rows, columns) > 1:
        return None
    if rows == 1:  # (its steps along inner and outer, the vector's step), each with its batch's
        steps, count, vector, order = (*b.strides[-2:], b_batch), columns, (a_batch, a.strides[-1]), "vector, matrix"
    else:
        steps, count, vector, order = (a.strides[-1], a.strides[-2], a_batch), rows, (b_batch, b.strides[-2]), "matrix, vector"
    if 1 not in steps[:2]:
        return None
    function, step = (vector_dots, steps[1]) if steps[0] == 1 else (vector_rows, steps[0])
    if function is vector_dots and vector[1] == 1 and count * inner <= _GROUPED and a.dtype.is_floating_point:
        function = vector_groups
    elif rows * inner * columns <= _SMALL:
        return None
    parts = max(1, min(_PARTS, count * inner // _PART, count // _RUN if function is vector_rows else count))
    constants = (batches, count, inner, *vector, steps[2], step, int(rows == 1))
    signature = ", ".join([f"{a.storage.name}[]"] * 4 + ["int64"] * (len(constants) + 1))
    source = bind.source_of(function).replace("def kernel(vector, matrix,", f"def kernel({order},")
    run = bind.launcher(a.device, f"{name}_{function.__name__}", source, signature, a.dtype, batches * count * inner // 4, build.FAST_REDUCTION)
    nothing = a.device.empty(0, a.storage)
    if parts == 1 or function is not vector_rows:
        return run, (nothing, *constants, parts)
    return (lambda *given: run(*given, parts if threads.get_num_threads() > 1 else 1)), (nothing, *constants)  # one thread reads whole rows: memory in order


def _dotted(a: Layout, b: Layout) -> bool:
    """Whether tiles of dot products are best, of rows of both matrices: few long sums for each time b would be turned, or so few sums that it would not be."""
    (rows, inner), columns, lanes = a.shape[-2:], b.shape[-1], tiles.host().lanes(a.storage.itemsize)
    if not a.strides[-1] == b.strides[-2] == 1 != b.strides[-1] or inner < lanes:
        return False
    few = rows <= min(_DOTTED, _LONG * (inner // lanes)) and rows * inner * a.storage.itemsize <= _NEAR
    return few or rows * inner * columns < _TURNED or (columns <= lanes and inner >= _LONG * lanes)


def _blocks(name: str, a: Layout, b: Layout, batches: int, a_batch: int, b_batch: int) -> tuple[Callable, tuple]:
    """Launcher and constants of the GPU's product, by blocks of threads."""
    (rows, inner), columns, number = a.shape[-2:], b.shape[-1], a.storage.name
    orders = "inner" if a.strides[-1] == 1 else "outer", "inner" if b.strides[-2] == 1 and b.strides[-1] != 1 else "outer"
    tile = block.choose(rows, columns, batches, a.storage.itemsize, a.device.backend.SIMULATED)
    constants = (batches, rows, columns, inner, a_batch, *a.strides[-2:], b_batch, *b.strides[-2:])
    signature = ", ".join([f"{number}[]"] * 4 + ["int64"] * len(constants))
    team = block.tiles(tile, batches, rows, columns), tile.threads
    run = bind.launcher(a.device, f"{name}_blocks", block.source(block.matrices(*orders), tile, number), signature, a.dtype, batches * rows * columns * inner // 4, team=team)
    return run, (a.device.empty(0, a.storage), *constants)


def _loops(name: str, a: Layout, b: Layout, batches: int, a_batch: int, b_batch: int) -> tuple[Callable, tuple]:
    """Launcher and constants for matrices a and b (last two dimensions) with one batch step each."""
    if a.device.backend.FLAT:
        return _blocks(name, a, b, batches, a_batch, b_batch)
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    little = batches >= _MANY and max(rows, columns, inner) <= _LITTLE
    fast = None if little else _vector(name, a, b, batches, a_batch, b_batch) or _tiled(name, a, b, batches, a_batch, b_batch)
    if fast is not None:
        return fast
    (a_row, a_column), (b_row, b_column) = a.strides[-2:], b.strides[-2:]
    constants = (batches, rows, columns, inner, a_batch, a_row)
    if a_column == 1 and b_column == 1:
        function, constants = product_rows, (*constants, b_batch, b_row)
    elif a_column == 1 and b_row == 1:
        function, constants = product_dots, (*constants, b_batch, b_column)
    else:
        function, constants = product_strided, (*constants, a_column, b_batch, b_row, b_column)
    array = f"{a.storage.name}[]"
    signature = ", ".join([array] * 4 + ["int64"] * len(constants))
    work = batches * rows * columns * inner // 4
    source = bind.source_of(function)
    if little:  # sizes that the compiler knows are loops without turns
        source = source.replace("):\n", f"):\n    rows, columns, inner = {rows}, {columns}, {inner}\n", 1)
    run = bind.launcher(a.device, f"{name}_{function.__name__}", source, signature, a.dtype, work, build.FAST_REDUCTION)
    return run, (a.device.empty(0, a.storage), *constants)  # no bias; `linear` puts its own there


def _product(a: object, b: object, transpose_a: bool, transpose_b: bool) -> object:
    """The op itself on tensors, for its gradients: flags instead of transposed views."""
    return matmul.apply((a, b), (transpose_a, transpose_b))


def _gradient_a(g: object, b: object, transpose_a: bool, transpose_b: bool) -> object:
    """Of A B with A = a or a.mT: dA = g B.mT, and dA.mT = B g.mT."""
    return _product(b, g, transpose_b, True) if transpose_a else _product(g, b, False, not transpose_b)


def _gradient_b(g: object, a: object, transpose_a: bool, transpose_b: bool) -> object:
    return _product(g, a, True, transpose_a) if transpose_b else _product(a, g, not transpose_a, False)


class Matmul(Op):
    """Batched product, (..., M, K) @ (..., K, N) -> (..., M, N); leading dimensions broadcast; either matrix may be given transposed.

    Raises RuntimeError for shapes or dtypes that differ.
    """

    inputs, parameters = ("a", "b"), ("transpose_a", "transpose_b")
    gradients = {"a": _gradient_a, "b": _gradient_b}

    def factors(self, arguments: tuple, parameters: tuple) -> tuple[Layout, Layout, None]:
        """The matrices as they are multiplied, and no bias."""
        a, b = (_transposed(each) if flag else each for each, flag in zip(arguments, parameters))
        return a, b, None

    def finished(self, name: str, arguments: tuple, parameters: tuple, *end: object) -> Callable | None:
        """As `Op.finished`. None where tiles do not make the product, or the tensors' elements do not follow its rows in equal steps."""
        return _finished(name, self.factors(arguments, parameters), *end)

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        a, b, _ = self.factors(arguments, parameters)
        _check("matmul", a, b, b.shape[-2])
        batch = broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]])
        out = layout((*batch, a.shape[-2], b.shape[-1]), a.dtype, single_device("matmul", [a, b]))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        return Plan(out, *_batched(self.name, a, b, out, batch))


def _transposed(x: Layout) -> Layout:
    """The last two dimensions exchanged."""
    return layout((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype, x.device, (*x.strides[:-2], x.strides[-1], x.strides[-2]))


def _batched(name: str, a: Layout, b: Layout, out: Layout, batch: tuple) -> tuple[Callable, tuple]:
    """Our loops over batches: one launch where a single step leads from batch to batch, else a launch for each."""
    def steps(each: Layout) -> list[int]:
        missing = len(batch) - (each.ndim - 2)
        return [0] * missing + [0 if n == 1 else s for n, s in zip(each.shape[:-2], each.strides[:-2])]

    sizes, (a_steps, b_steps) = emit.collapse(batch, [steps(a), steps(b)])
    run, constants = _loops(name, a, b, sizes[-1], a_steps[-1], b_steps[-1])
    outer = [range(n) for n in sizes[:-1]]
    each_out = sizes[-1] * out.shape[-2] * out.shape[-1]
    if not outer:
        return run, constants

    def launch(a_data: object, b_data: object, out_data: object) -> None:
        for number, place in enumerate(np.ndindex(*map(len, outer))):
            a_at, b_at = (sum(i * s for i, s in zip(place, step)) for step in (a_steps, b_steps))
            run(a_data[a_at:], b_data[b_at:], out_data[number * each_out :], *constants)

    return launch, ()


class Linear(Op):
    """Dense x (rows, in) @ weight (out, in) transposed + bias (out) -> (rows, out). bias may be None."""

    inputs = ("x", "weight", "bias")
    gradients = {
        "x": lambda g, weight: matmul.apply((g, weight), (False, False)),
        "weight": lambda g, x: matmul.apply((g, x), (True, False)),
        "bias": lambda g: g.sum(0),
    }
    joint = joined(gradients)
    finished = Matmul.finished

    def factors(self, arguments: tuple, parameters: tuple) -> tuple[Layout, Layout, Layout | None]:
        """The matrices as they are multiplied, and the bias."""
        x, weight, bias = arguments
        return x, _transposed(weight), bias if isinstance(bias, Layout) else None

    def prepack(self, arguments: tuple, parameters: tuple) -> Packing | None:
        """Weights that tiles would turn or pack at every call."""
        x, weight, _ = arguments
        suits = x.device.type == "cpu" and x.dtype.is_floating_point and x.shape[0] >= tiles.host().rows and weight.shape[0] > 1 and x.size * weight.shape[0] >= _TURNED
        return Packing(1, pack_columns, (), packed_linear) if suits else None

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        x, weight, bias = arguments
        _check("linear", x, weight, weight.shape[1], "; weight is (out_features, in_features)")
        if isinstance(bias, Layout) and (bias.shape != weight.shape[:1] or bias.dtype is not x.dtype):
            raise RuntimeError(f"linear: bias is {tuple(bias.shape)} {bias.dtype}, expected ({weight.shape[0]},) {x.dtype}")
        device = single_device("linear", [each for each in arguments if isinstance(each, Layout)])
        out = layout((x.shape[0], weight.shape[0]), x.dtype, device)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        return Plan(out, *_linear_loops(x, _transposed(weight), isinstance(bias, Layout)))


class PackColumns(Op):
    """The panels, one after the other, in which a product's kernel reads a matrix (inner, columns). Packs the transpose of weight (columns, inner)."""

    inputs = ("weight",)
    differentiable = False

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (weight,) = arguments
        (columns, inner), lanes, number = weight.shape, tiles.host().lanes(weight.storage.itemsize), weight.storage.name
        panel, padded, deep = _panels(inner, columns, lanes)
        constants = (inner, columns, weight.strides[1], weight.strides[0], deep, panel, padded)
        signature = ", ".join([f"{number}[]"] * 2 + ["int64"] * len(constants))
        run = bind.launcher(weight.device, "pack_columns", _sized(pack_matrix, LANES=lanes), signature, weight.dtype, weight.size)
        return Plan(layout((inner * padded,), weight.dtype, weight.device), run, constants)


class PackedLinear(Linear):
    """`linear` of floats on the CPU with the weight packed too, by `pack_columns`: the packed one is read."""

    inputs = (*Linear.inputs, "packed")
    gradients, joint, differentiable = {}, {}, False

    def prepack(self, arguments: tuple, parameters: tuple) -> None:
        """Nothing is left to pack."""

    def finished(self, name: str, arguments: tuple, parameters: tuple, *end: object) -> Callable | None:
        """As `Op.finished`."""
        made = _finished(name, self.factors(arguments[:3], parameters), *end, packed=True)
        return made and (lambda given, *rest: made([given[0], given[-1], *given[2:-1]], *rest))

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        x, weight, bias, _ = arguments
        out = layout((x.shape[0], weight.shape[0]), x.dtype, x.device)
        run, constants = _tiled(self.name, x, _transposed(weight), 1, 0, 0, packed=True)
        if isinstance(bias, Layout):
            return Plan(out, lambda x_data, _, bias_data, packed, out_data: run(x_data, packed, out_data, bias_data, *constants[1:]))
        return Plan(out, lambda x_data, _, packed, out_data: run(x_data, packed, out_data, *constants))


def _linear_loops(x: Layout, weight: Layout, has_bias: bool) -> tuple[Callable, tuple]:
    run, (no_bias, *constants) = _loops("linear", x, weight, 1, 0, 0)
    if not has_bias:
        return run, (no_bias, *constants)
    return (lambda x_data, weight_data, bias_data, out_data: run(x_data, weight_data, out_data, bias_data, *constants)), ()


def _check(name: str, a: Layout, b: Layout, inner: int, hint: str = "") -> None:
    if a.shape[-1] != inner:
        swapped = b.ndim >= 2 and name == "matmul" and b.shape[-1] == a.shape[-1]
        hint = "; did you mean b.mT?" if swapped else hint
        raise RuntimeError(f"{name}: inner sizes differ, mat1 and mat2 shapes cannot be multiplied: {tuple(a.shape)} @ {tuple(b.shape)}{hint}")
    if a.dtype is not b.dtype:
        raise RuntimeError(f"{name}: expected m1 and m2 to have the same dtype, but got: {a.dtype} != {b.dtype}; convert one with .to()")
    if a.dtype is dtypes.bool_:
        raise NotImplementedError(f'\"{name}\" not implemented for \'Bool\'; convert first, for example with .to(numod.float32)')


matmul = Matmul("matmul")
linear = Linear("linear")
pack_columns, packed_linear = PackColumns("pack_columns"), PackedLinear("packed_linear")
