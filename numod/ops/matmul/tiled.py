"""Floating-point products on the CPU by register tiles: which matrices are packed, and the division among threads.

The tile itself is in `kernel.registers.tiles`. A constant weight can be packed once (`pack_columns` in `matmul`). The
kernels have the shapes of those in `matmul`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ...device import Layout, threads
from ...kernel import bind, emit, writer
from ...kernel.any_size import for_all_sizes
from ...kernel.language import EPILOGUE, int64, parallel_range, uintp
from ...kernel.library.panels import multiply_run, pack_columns, pack_rows
from ...kernel.registers import dots, tiles
from ...kernel.registers.vectors import Registers
from ...kernel.registers.primitives.tiles import copy_line, dot_tile
from ...kernel.specialize import specialized
from .epilogue import Epilogue, without_epilogue
from ..pointwise import broadcast_shapes, broadcast_strides

# multiply-adds from which register tiles beat plain loops, without and with packing a matrix
_TILE_WORK, _PACK_WORK = 1 << 10, 1 << 13
_IN_PLACE_BYTES = 1 << 15  # bytes of a matrix that tiles read in place repeatedly, since it stays in the L1 cache
# limits up to which tiles of dot products beat packing a transposed matrix: rows, their bytes, and rows per register of
# a sum
_DOT_ROWS, _DOT_BYTES, _DOT_REGISTERS = 24, 1 << 16, 4
_COLUMN_RUN = 64  # columns of a task of dot tiles
_DEPTH, _PANELS = 512, 8  # rows and panels of a packed block: it fits the L2 cache
_ROW_RUN = 64  # rows that are packed together: whole tiles on every processor
_PART_ROWS, _PART_PANELS = 128, 4  # least rows and panels of a part
_WORKERS = 8  # parts of the parallel loop at most


def product_dot_tiles(
    a, b, out, bias, batches, rows, columns, inner, a_batch, a_row, b_batch, b_column, parts,
    *, COLUMN_RUN, TILE_ROWS, TILE_COLUMNS, BIASED,
):  # fmt: skip
    """out (batches, rows, columns) = bias (columns or none) + a (rows, inner; steps a_row, 1) @ b (inner, columns;
    steps 1, b_column).

    By tiles of dot products: neither matrix is transposed or packed. A few columns of b are multiplied by all of a.
    """
    for task in parallel_range(batches * parts):
        batch, part = int64(task) // parts, int64(task) % parts
        first, last = part * COLUMN_RUN, min(columns, (part + 1) * COLUMN_RUN)
        base = batch * rows * columns
        for j in range(first, last, TILE_COLUMNS):
            b_at, tile_columns = batch * b_batch + j * b_column, min(TILE_COLUMNS, last - j)
            for i in range(0, rows, TILE_ROWS):
                dot_tile(
                    a, batch * a_batch + i * a_row, a_row, b, b_at, b_column, inner, out, base + i * columns + j,
                    columns, min(TILE_ROWS, rows - i), tile_columns,
                )  # fmt: skip
        for row in range(rows):
            if BIASED and bias.size > 0:
                for j in range(first, last):
                    out[uintp(base + row * columns + j)] += bias[uintp(j)]
            EPILOGUE(batch, row, base + row * columns, first, last)


def product_tiles(
    a, b, out, bias, packed, workers, row_parts, column_parts, scratch_size, rows_at, batches, rows, columns, inner,
    a_batch, a_row, a_column, b_batch, b_row, b_column, block, panel, widest, pack_a, pack_b, *, TILE_ROWS, ROW_RUN,
    RUN, LANES, SIZE, JOINS_ROWS, BIASED, worker_range,
):  # fmt: skip
    """out = bias + a @ b for any steps, by register tiles: blocks of b, packed where that pays, by all rows of a.

    The order of sums along `inner` does not depend on the division into parts.
    """
    tasks = batches * row_parts * column_parts
    tiles_down, tiles_across = (rows + TILE_ROWS - 1) // TILE_ROWS, (columns + panel - 1) // panel
    for worker in worker_range(workers):
        packed_at, packed_a_at = int64(worker) * scratch_size, int64(worker) * scratch_size + rows_at
        for task in range(worker * tasks // workers, (worker + 1) * tasks // workers):
            batch, part, column_part = (
                task // (row_parts * column_parts),
                task // column_parts % row_parts,
                task % column_parts,
            )
            top, bottom = (
                part * tiles_down // row_parts * TILE_ROWS,
                min(rows, (part + 1) * tiles_down // row_parts * TILE_ROWS),
            )
            begin, end = (
                column_part * tiles_across // column_parts * panel,
                min(columns, (column_part + 1) * tiles_across // column_parts * panel),
            )
            blocks = (end - begin + widest - 1) // widest
            # columns of a block: blocks of nearly equal width
            block_width = ((end - begin + panel - 1) // panel + blocks - 1) // blocks * panel
            base = batch * rows * columns
            for k in range(0, inner, block):
                depth, adds = min(block, inner - k), int64(k > 0 or (BIASED and bias.size > 0))
                for first in range(begin, end, block_width):
                    width = min(block_width, end - first)
                    b_at = batch * b_batch + k * b_row + first * (depth if pack_b == 2 else b_column)
                    if pack_b == 1:
                        pack_columns(b, b_at, b_row, b_column, depth, width, packed, packed_at, panel, LANES)
                    for i in range(top, bottom, RUN):
                        run_rows, strip_row = min(RUN, bottom - i), (i - top) % ROW_RUN
                        a_at, target = batch * a_batch + i * a_row + k * a_column, base + i * columns + first
                        if pack_a and strip_row == 0:
                            pack_rows(
                                a, a_at, a_row, a_column, depth, min(ROW_RUN, bottom - i), packed, packed_a_at,
                                TILE_ROWS,
                            )  # fmt: skip
                        # the tiles add to the bias: a loop that adds it later takes up to a tenth of a tile's time
                        if BIASED and k == 0 and bias.size > 0:
                            for row in range(run_rows):
                                copy_line(bias, first, 0, width, out, target + row * columns, width)
                        multiply_run(
                            a, a_at, a_row, a_column, b, b_at, b_row, packed, packed_at,
                            packed_a_at + strip_row * depth, out, target, columns, depth, adds, run_rows, width, panel,
                            pack_a, pack_b, RUN, TILE_ROWS, LANES, SIZE,
                        )  # fmt: skip
                        if k + depth == inner:
                            at_once = run_rows if JOINS_ROWS and width == columns else 1
                            for row in range(i, i + run_rows, at_once):
                                EPILOGUE(batch, row, base + row * columns, first, first + at_once * width)


def pack_matrix(b, packed, inner, columns, b_row, b_column, block, panel, padded, *, LANES):
    """packed (blocks, panels, block, panel) = b (inner, columns)."""
    for k in range(0, inner, block):
        pack_columns(b, k * b_row, b_row, b_column, min(block, inner - k), columns, packed, k * padded, panel, LANES)


def tiled(
    name: str, a: Layout, b: Layout, batches: int, a_batch: int, b_batch: int, packed: bool = False
) -> tuple[Callable, tuple] | None:
    """Launcher and constants of a product by tiles; None if another form is better."""
    kernel = _tile_kernel(name, a, b, batches, a_batch, b_batch, packed=packed)
    if kernel is None:
        return None
    (run, division), empty = kernel, a.device.empty(0, a.storage)
    parts, numbers = division(_WORKERS)
    if not parts:
        return run, (empty, *numbers)
    return (run, (empty, empty, *numbers)) if parts[0][0] == 0 and numbers[0] == 1 else (_launch(a, *kernel), (empty,))


def tiled_launcher(
    name: str,
    a: Layout,
    b: Layout,
    batches: int,
    a_batch: int,
    b_batch: int,
    epilogue: Epilogue | None = None,
    has_bias: bool = False,
    packed: bool = False,
) -> Callable | None:
    """A launch of a product by tiles. It takes a, b, the result, the bias or nothing, and the epilogue's arguments."""
    kernel = _tile_kernel(name, a, b, batches, a_batch, b_batch, epilogue, has_bias, packed)
    return kernel and _launch(a, *kernel)


def _launch(a: Layout, run: Callable, division: Callable[[int], tuple]) -> Callable:
    empty, scratch = a.device.empty(0, a.storage), a.device.backend.scratch

    def launch(a_data: object, b_data: object, out_data: object, bias: object, *further: object) -> None:
        parts, numbers = division(threads.get_num_threads())
        run(
            a_data, b_data, out_data, bias, *(scratch(parts) if not parts or parts[0][0] else (empty,)), *numbers,
            *further,
        )  # fmt: skip

    return launch


def tiled_with_epilogue(
    name: str,
    factors: tuple[Layout, Layout, Layout | None],
    loop: writer.Loop,
    product: str,
    shape: tuple,
    tensors: list[Layout],
    packed: bool = False,
) -> Callable | None:
    """A launch (factors, out, arrays, numbers) of a product by tiles with epilogue `loop` (see `Op.with_epilogue`).

    None if tiles do not fit.
    """
    a, b, bias = factors
    steps = [broadcast_strides(tensor, shape) for tensor in tensors]
    batch = broadcast_shapes(name, [a.shape[:-2], b.shape[:-2]])
    if batch:
        sizes, ends = emit.collapse(
            batch,
            [
                *(broadcast_strides(factor, (*batch, *factor.shape[-2:]))[:-2] for factor in (a, b)),
                *(step[:-2] for step in steps),
            ],
        )
        a_batch, b_batch = (end[-1] for end in ends[:2])
        epilogue_steps = [(end[-1], *step[-2:]) for end, step in zip(ends[2:], steps)]
    else:
        sizes, ends = emit.collapse(shape[:-1], [step[:-1] for step in steps])
        a_batch, b_batch, epilogue_steps = 0, 0, [(0, end[-1], step[-1]) for end, step in zip(ends, steps)]
    epilogue = Epilogue(loop, product, tuple(epilogue_steps))
    run = (
        tiled_launcher(name, a, b, sizes[0] if batch else 1, a_batch, b_batch, epilogue, bias is not None, packed)
        if len(sizes) == 1
        else None
    )
    if run is None:
        return None
    empty = a.device.empty(0, a.storage)

    def launch(factor_data: list, out: object, arrays: list, numbers: list) -> None:
        a_data, b_data, bias_data = factor_data if len(factor_data) == 3 else (*factor_data, empty)
        run(a_data, b_data, out, bias_data, *arrays, *epilogue.sizes(), *numbers)

    return launch


def _tile_kernel(
    name: str,
    a: Layout,
    b: Layout,
    batches: int,
    a_batch: int,
    b_batch: int,
    epilogue: Epilogue | None = None,
    has_bias: bool = False,
    packed: bool = False,
) -> tuple[Callable, Callable[[int], tuple]] | None:
    """The kernel by register tiles, and a function (number of threads) that returns its scratch sizes and constants.

    None if the product is so small that plain loops are as fast, or not of floats on the CPU. `packed`: b is packed in
    `_panels`.
    """
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    any_size = for_all_sizes.get()
    if a.device.type != "cpu" or not a.dtype.is_floating_point or columns < 2 or (rows < 2 and not any_size):
        return None
    if _prefers_dot_tiles(a, b) and not packed:
        return _dot_tile_kernel(name, a, b, batches, a_batch, b_batch, epilogue, has_bias)
    if rows * inner * columns < (_TILE_WORK if b.strides[-1] == 1 else _PACK_WORK) and not any_size:
        return None
    host, storage, (a_row, a_column), (b_row, b_column) = tiles.host(), a.storage, a.strides[-2:], b.strides[-2:]
    lanes, tile_rows = host.lanes(storage.itemsize), host.rows
    panel, padded, block_depth = _panels(inner, columns, lanes)
    pack_b = _packs(a, b)
    pack_a = a_column != 1 and not (rows * inner * storage.itemsize <= _IN_PLACE_BYTES)
    block_depth = block_depth if pack_a or pack_b or packed or rows > tile_rows else inner
    widest = min(_PANELS, -(-columns // panel)) * panel
    b_row, pack_b = (padded, 2) if packed else (b_row, int(pack_b))
    rows_at = (pack_b == 1) * block_depth * widest
    share = rows_at + pack_a * block_depth * _ROW_RUN
    constants = (
        share, rows_at, batches, rows, columns, inner, a_batch, a_row, a_column, b_batch, b_row, b_column, block_depth,
        panel, widest, int(pack_a), pack_b,
    )  # fmt: skip
    # other epilogues add the bias when they read the product
    joins_rows = epilogue is not None and epilogue.costly() and epilogue.rows_are_adjacent(columns)

    @cache
    def division(count: int) -> tuple:
        parts = _divided_among(count, batches, rows, columns, panel)
        return ((parts[0] * share, storage),), (*parts, *constants)

    source = specialized(
        product_tiles, TILE_ROWS=tile_rows, ROW_RUN=_ROW_RUN, RUN=_run(host), LANES=lanes, SIZE=storage.itemsize,
        JOINS_ROWS=int(joins_rows), BIASED=int(joins_rows or epilogue is None),
        worker_range=range if division(_WORKERS)[1][0] == 1 and not any_size else parallel_range,
    )  # fmt: skip
    signature = bind.signature(*[storage] * 5, numbers=3 + len(constants), others=epilogue.types() if epilogue else ())
    source = _with_epilogue(source, epilogue, has_bias and not joins_rows)
    run = bind.launcher(a.device, f"{name}_tiles", source, signature, a.dtype, batches * rows * columns * inner // 4)
    return run, division


def _dot_tile_kernel(
    name: str,
    a: Layout,
    b: Layout,
    batches: int,
    a_batch: int,
    b_batch: int,
    epilogue: Epilogue | None = None,
    has_bias: bool = False,
) -> tuple[Callable, Callable[[int], tuple]] | None:
    """As `_tile_kernel`, with `product_dot_tiles`."""
    (rows, inner), columns, storage = a.shape[-2:], b.shape[-1], a.storage
    constants = (
        batches,
        rows,
        columns,
        inner,
        a_batch,
        a.strides[-2],
        b_batch,
        b.strides[-1],
        -(-columns // _COLUMN_RUN),
    )
    signature = bind.signature(*[storage] * 4, numbers=len(constants), others=epilogue.types() if epilogue else ())
    source = specialized(
        product_dot_tiles,
        TILE_ROWS=dots.tile_rows(),
        TILE_COLUMNS=dots.COLUMNS,
        COLUMN_RUN=_COLUMN_RUN,
        BIASED=int(epilogue is None),
    )
    source = _with_epilogue(source, epilogue, has_bias)
    run = bind.launcher(
        a.device, f"{name}_dot_tiles", source, signature, a.dtype, batches * rows * columns * inner // 4
    )
    return run, lambda count: ((), constants)


def _with_epilogue(source: str, epilogue: Epilogue | None, has_bias: bool) -> str:
    """The source of a kernel with its epilogue, if any.

    The epilogue adds the bias, too, unless the kernel is BIASED.
    """
    return (
        epilogue.inlined_into(source, " + bias[uintp(_j)]" if has_bias else "")
        if epilogue
        else without_epilogue(source)
    )


def _run(host: Registers) -> int:
    """Rows that are multiplied by a panel before the next panel: one tile for registers of a cache line, else all rows
    that are packed together.

    A panel of wide registers is far larger than the L1 cache, which holds most of a narrow one: this saved 2 to 5 % of
    a product's time on a Zen 3.
    """
    return host.rows if host.width == 64 else _ROW_RUN


def _panels(inner: int, columns: int, lanes: int) -> tuple[int, int, int]:
    """The columns of a panel, of all panels together, and the rows of a block, of a packed matrix (inner, columns).

    A block is (panels, rows, columns of a panel).
    """
    vectors = -(-columns // lanes)
    panel = lanes * -(-vectors // -(-vectors // tiles.VECTORS))  # panels of equal width
    return panel, -(-columns // panel) * panel, -(-inner // -(-inner // _DEPTH) // lanes) * lanes


def _divided_among(threads: int, batches: int, rows: int, columns: int, panel: int) -> tuple[int, int, int]:
    """The number of workers, and of parts of rows and of columns.

    Each part of rows packs the columns again.
    """
    workers = 1 if batches % threads == 0 or batches >= _WORKERS * threads else threads
    across = max(1, min(workers, columns // (_PART_PANELS * panel)))
    down = max(1, min(-(-workers // across), rows // _PART_ROWS))
    return min(threads, batches * down * across), down, across


def _prefers_dot_tiles(a: Layout, b: Layout) -> bool:
    """Whether tiles of dot products of rows of both matrices are best: too few sums to pay for transposing b."""
    (rows, inner), columns, lanes = a.shape[-2:], b.shape[-1], tiles.host().lanes(a.storage.itemsize)
    if not a.strides[-1] == b.strides[-2] == 1 != b.strides[-1] or inner < lanes or for_all_sizes.get():
        return False
    is_short = (
        rows <= min(_DOT_ROWS, _DOT_REGISTERS * (inner // lanes)) and rows * inner * a.storage.itemsize <= _DOT_BYTES
    )
    return is_short or rows * inner * columns < _PACK_WORK or (columns <= lanes and inner >= _DOT_REGISTERS * lanes)


def _packs(a: Layout, b: Layout) -> bool:
    """Whether tiles pack b instead of reading it in place."""
    (rows, inner), columns, host = a.shape[-2:], b.shape[-1], tiles.host()
    direct = inner * columns * b.storage.itemsize <= _IN_PLACE_BYTES or rows <= 2 * host.rows
    return b.strides[-1] != 1 or not direct or (columns % host.lanes(b.storage.itemsize) != 0 and not host.masks)


def takes_panels(a: Layout, b: Layout) -> bool:
    """Whether a product is faster with a pre-packed b: tiles would pack it at every call, or would use dot products of
    rows that fill panels.
    """
    (rows, inner), columns, host = a.shape[-2:], b.shape[-1], tiles.host()
    if (
        a.device.type != "cpu"
        or not a.dtype.is_floating_point
        or rows < host.rows
        or columns < 2
        or rows * inner * columns < _PACK_WORK
    ):
        return False
    return columns > 2 * host.lanes(a.storage.itemsize) if _prefers_dot_tiles(a, b) else _packs(a, b)


def panel_packer(b: Layout) -> tuple[Callable, tuple, int]:
    """The launcher that packs b (inner, columns), its constants, and the size of the result."""
    (inner, columns), lanes, number = b.shape, tiles.host().lanes(b.storage.itemsize), b.storage.name
    panel, padded, block_depth = _panels(inner, columns, lanes)
    constants = (inner, columns, *b.strides, block_depth, panel, padded)
    signature = bind.signature(number, number, numbers=len(constants))
    return (
        bind.launcher(b.device, "pack_columns", specialized(pack_matrix, LANES=lanes), signature, b.dtype, b.size),
        constants,
        inner * padded,
    )
