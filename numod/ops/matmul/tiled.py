"""Products of floats on the CPU by register tiles: which matrices are packed for them, and the division among threads.

The tile itself is `kernel.registers.tiles`.

A weight that stays as it is can be packed once (`pack_columns` in `matmul`). Shapes of the kernels are those of
`matmul`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ...device import Layout, threads
from ...kernel import bind, emit, writer
from ...kernel.language import FINISH, int64, parallel_range, uintp
from ...kernel.library.panels import multiply_run, pack_columns, pack_rows
from ...kernel.registers import dots, tiles
from ...kernel.registers.primitives import copy_line, dot_tile
from ...kernel.specialize import specialized
from .epilogue import Epilogue, unfinished
from ..pointwise import broadcast_shapes, broadcast_strides

# multiply-adds from which register tiles beat plain loops; where a matrix is packed for them
_TILED, _TURNED = 1 << 10, 1 << 13
_DIRECT = 1 << 15  # bytes of a matrix that tiles read as it lies, again and again: it stays in the first-level cache
# where tiles of dot products beat turning a matrix: rows, bytes of them, and registers of a sum that pay for adding it
# up
_DOTTED, _NEAR, _LONG = 24, 1 << 16, 4
_COLUMN_RUN = 64  # columns of a share of theirs
_DEPTH, _PANELS = 512, 8  # a packed block's rows and panels: it fits the second-level cache
_ROW_RUN = 64  # rows that are packed together, whole tiles on every processor
_PART_ROWS, _PART_PANELS = 128, 4  # a part's rows and panels at least
_WORKERS = 8  # parts of the parallel loop at most


def product_dot_tiles(
    a, b, out, bias, batches, rows, columns, inner, a_batch, a_row, b_batch, b_column, parts,
    *, COLUMN_RUN, TILE_ROWS, TILE_COLUMNS, BIASED,
):  # fmt: skip
    """out (batches, rows, columns) = bias (columns or none) + a (rows, inner; steps a_row, 1) @ b (inner, columns;
    steps 1, b_column).

    By tiles of dot products, some rows with some at a time: neither matrix is turned or packed. A few rows of b meet
    all of a.
    """
    for task in parallel_range(batches * parts):
        batch, part = int64(task) // parts, int64(task) % parts
        first, last = part * COLUMN_RUN, min(columns, (part + 1) * COLUMN_RUN)
        base = batch * rows * columns
        for j in range(first, last, TILE_COLUMNS):
            b_at, wide = batch * b_batch + j * b_column, min(TILE_COLUMNS, last - j)
            for i in range(0, rows, TILE_ROWS):
                dot_tile(
                    a,
                    batch * a_batch + i * a_row,
                    a_row,
                    b,
                    b_at,
                    b_column,
                    inner,
                    out,
                    base + i * columns + j,
                    columns,
                    min(TILE_ROWS, rows - i),
                    wide,
                )
        for row in range(rows):
            if BIASED and bias.size > 0:
                for j in range(first, last):
                    out[uintp(base + row * columns + j)] += bias[uintp(j)]
            FINISH(batch, row, base + row * columns, first, last)


def product_tiles(
    a, b, out, bias, packed, workers, row_parts, column_parts, share, rows_at, batches, rows, columns, inner, a_batch, a_row, a_column, b_batch, b_row,
    b_column, block, panel, widest, pack_a, pack_b, *, TILE_ROWS, ROW_RUN, RUN, LANES, SIZE, LEVEL, BIASED, turns,
):  # fmt: skip
    """The same for any steps, by register tiles: blocks of b, packed where that pays, each against all rows of a.

    Sums run along `inner` alike in all parts.
    """
    tasks = batches * row_parts * column_parts
    tiles_down, tiles_across = (rows + TILE_ROWS - 1) // TILE_ROWS, (columns + panel - 1) // panel
    for turn in turns(workers):
        own, own_a = int64(turn) * share, int64(turn) * share + rows_at
        for task in range(turn * tasks // workers, (turn + 1) * tasks // workers):
            batch, part, share_across = (
                task // (row_parts * column_parts),
                task // column_parts % row_parts,
                task % column_parts,
            )
            top, bottom = (
                part * tiles_down // row_parts * TILE_ROWS,
                min(rows, (part + 1) * tiles_down // row_parts * TILE_ROWS),
            )
            begin, end = (
                share_across * tiles_across // column_parts * panel,
                min(columns, (share_across + 1) * tiles_across // column_parts * panel),
            )
            blocks = (end - begin + widest - 1) // widest
            # columns of a block: the last is not left with few
            wide = ((end - begin + panel - 1) // panel + blocks - 1) // blocks * panel
            base = batch * rows * columns
            for k in range(0, inner, block):
                depth, keep = min(block, inner - k), int64(k > 0 or (BIASED and bias.size > 0))
                for first in range(begin, end, wide):
                    width = min(wide, end - first)
                    b_at = batch * b_batch + k * b_row + first * (depth if pack_b == 2 else b_column)
                    if pack_b == 1:
                        pack_columns(b, b_at, b_row, b_column, depth, width, packed, own, panel, LANES)
                    for i in range(top, bottom, RUN):
                        held, strip = min(RUN, bottom - i), (i - top) % ROW_RUN
                        a_at, target = batch * a_batch + i * a_row + k * a_column, base + i * columns + first
                        if pack_a and strip == 0:
                            pack_rows(
                                a, a_at, a_row, a_column, depth, min(ROW_RUN, bottom - i), packed, own_a, TILE_ROWS
                            )
                        # the tiles' sums are added to it: loops that add it later cost as much as a tenth of a tile
                        if BIASED and k == 0 and bias.size > 0:
                            for row in range(held):
                                copy_line(bias, first, 0, width, out, target + row * columns, width)
                        multiply_run(
                            a, a_at, a_row, a_column, b, b_at, b_row, packed, own, own_a + strip * depth, out, target,
                            columns, depth, keep, held, width, panel, pack_a, pack_b, RUN, TILE_ROWS, LANES, SIZE,
                        )  # fmt: skip
                        if k + depth == inner:
                            at_once = held if LEVEL and width == columns else 1
                            for row in range(i, i + held, at_once):
                                FINISH(batch, row, base + row * columns, first, first + at_once * width)


def pack_matrix(b, packed, inner, columns, b_row, b_column, block, panel, padded, *, LANES):
    """packed (blocks, panels, block, panel) = b (inner, columns)."""
    for k in range(0, inner, block):
        pack_columns(b, k * b_row, b_row, b_column, min(block, inner - k), columns, packed, k * padded, panel, LANES)


def tiled(
    name: str, a: Layout, b: Layout, batches: int, a_batch: int, b_batch: int, packed: bool = False
) -> tuple[Callable, tuple] | None:
    """Launcher and constants of a product by tiles, where tiles are the best form."""
    kernel = _tile_kernel(name, a, b, batches, a_batch, b_batch, packed=packed)
    if kernel is None:
        return None
    (run, divided), nothing = kernel, a.device.empty(0, a.storage)
    parts, numbers = divided(_WORKERS)
    if not parts:
        return run, (nothing, *numbers)
    return (
        (run, (nothing, nothing, *numbers))
        if parts[0][0] == 0 and numbers[0] == 1
        else (_launch(a, *kernel), (nothing,))
    )


def tiled_launcher(
    name: str,
    a: Layout,
    b: Layout,
    batches: int,
    a_batch: int,
    b_batch: int,
    finish: Epilogue | None = None,
    has_bias: bool = False,
    packed: bool = False,
) -> Callable | None:
    """A launch of such a product that takes a, b, the result, the bias (or nothing) and what `finish` adds."""
    kernel = _tile_kernel(name, a, b, batches, a_batch, b_batch, finish, has_bias, packed)
    return kernel and _launch(a, *kernel)


def _launch(a: Layout, run: Callable, divided: Callable[[int], tuple]) -> Callable:
    nothing, scratch = a.device.empty(0, a.storage), a.device.backend.scratch

    def launch(a_data: object, b_data: object, out_data: object, bias: object, *further: object) -> None:
        parts, numbers = divided(threads.get_num_threads())
        run(
            a_data,
            b_data,
            out_data,
            bias,
            *(scratch(parts) if not parts or parts[0][0] else (nothing,)),
            *numbers,
            *further,
        )

    return launch


def finished(
    name: str,
    factors: tuple[Layout, Layout, Layout | None],
    loop: writer.Loop,
    product: str,
    shape: tuple,
    tensors: list[Layout],
    packed: bool = False,
) -> Callable | None:
    a, b, bias = factors
    steps = [broadcast_strides(tensor, shape) for tensor in tensors]
    batch = broadcast_shapes(name, [a.shape[:-2], b.shape[:-2]])
    if batch:
        sizes, ends = emit.collapse(
            batch,
            [
                *(broadcast_strides(each, (*batch, *each.shape[-2:]))[:-2] for each in (a, b)),
                *(step[:-2] for step in steps),
            ],
        )
        (a_batch, b_batch), places = (
            (end[-1] for end in ends[:2]),
            [(end[-1], *step[-2:]) for end, step in zip(ends[2:], steps)],
        )
    else:
        sizes, ends = emit.collapse(shape[:-1], [step[:-1] for step in steps])
        a_batch, b_batch, places = 0, 0, [(0, end[-1], step[-1]) for end, step in zip(ends, steps)]
    finish = Epilogue(loop, product, tuple(places))
    run = (
        tiled_launcher(name, a, b, sizes[0] if batch else 1, a_batch, b_batch, finish, bias is not None, packed)
        if len(sizes) == 1
        else None
    )
    if run is None:
        return None
    nothing = a.device.empty(0, a.storage)

    def launch(given: list, out: object, arrays: list, numbers: list) -> None:
        a_data, b_data, bias_data = given if len(given) == 3 else (*given, nothing)
        run(a_data, b_data, out, bias_data, *arrays, *finish.sizes(), *numbers)

    return launch


def _tile_kernel(
    name: str,
    a: Layout,
    b: Layout,
    batches: int,
    a_batch: int,
    b_batch: int,
    finish: Epilogue | None = None,
    has_bias: bool = False,
    packed: bool = False,
) -> tuple[Callable, Callable[[int], tuple]] | None:
    """The kernel by register tiles, and a function of the number of threads that gives the scratch memory it takes, if
    any, and its constants.

    None where the product is so small that plain loops are as fast, or not of floats on the CPU. `packed`: b is given
    in `_panels`.
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
    pack_b = _packs(a, b)
    pack_a = a_column != 1 and not (rows * inner * storage.itemsize <= _DIRECT)
    deep = deep if pack_a or pack_b or packed or rows > tile_rows else inner
    widest = min(_PANELS, -(-columns // panel)) * panel
    b_row, pack_b = (padded, 2) if packed else (b_row, int(pack_b))
    rows_at = (pack_b == 1) * deep * widest
    share = rows_at + pack_a * deep * _ROW_RUN
    constants = (
        share, rows_at, batches, rows, columns, inner, a_batch, a_row, a_column, b_batch, b_row, b_column, deep, panel,
        widest, int(pack_a), pack_b,
    )  # fmt: skip
    # others read the product once, with the bias
    level = finish is not None and finish.costly() and finish.level(columns)

    @cache
    def divided(count: int) -> tuple:
        parts = _divided(count, batches, rows, columns, panel)
        return ((parts[0] * share, storage),), (*parts, *constants)

    source = specialized(
        product_tiles, TILE_ROWS=tile_rows, ROW_RUN=_ROW_RUN, RUN=_run(host), LANES=lanes, SIZE=storage.itemsize,
        LEVEL=int(level),
        BIASED=int(level or finish is None), turns=range if divided(_WORKERS)[1][0] == 1 else parallel_range,
    )  # fmt: skip
    signature = bind.signature(*[storage] * 5, numbers=3 + len(constants), others=finish.types() if finish else ())
    source = _with_finish(source, finish, has_bias and not level)
    run = bind.launcher(a.device, f"{name}_tiles", source, signature, a.dtype, batches * rows * columns * inner // 4)
    return run, divided


def _dot_tile_kernel(
    name: str,
    a: Layout,
    b: Layout,
    batches: int,
    a_batch: int,
    b_batch: int,
    finish: Epilogue | None = None,
    has_bias: bool = False,
) -> tuple[Callable, Callable[[int], tuple]] | None:
    """As `_tile_kernel`, by `product_dot_tiles`."""
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
    signature = bind.signature(*[storage] * 4, numbers=len(constants), others=finish.types() if finish else ())
    source = specialized(
        product_dot_tiles,
        TILE_ROWS=dots.tile_rows(),
        TILE_COLUMNS=dots.COLUMNS,
        COLUMN_RUN=_COLUMN_RUN,
        BIASED=int(finish is None),
    )
    source = _with_finish(source, finish, has_bias)
    run = bind.launcher(
        a.device, f"{name}_dot_tiles", source, signature, a.dtype, batches * rows * columns * inner // 4
    )
    return run, lambda count: ((), constants)


def _with_finish(source: str, finish: Epilogue | None, has_bias: bool) -> str:
    """A kernel's text with its end.

    That adds the bias too, as it reads the product, unless a BIASED kernel has added it.
    """
    return finish.joined(source, " + bias[uintp(_j)]" if has_bias else "") if finish else unfinished(source)


def _run(host: tiles.Registers) -> int:
    """Rows that meet a panel before the next one: those of a tile whose registers take a line of the cache at once,
    else as many as are packed together.

    A panel of wide registers is far larger than the first-level cache, which holds most of a narrow one: on a Zen 3
    products took 0.95 to 0.98 of their time.
    """
    return host.rows if host.width == 64 else _ROW_RUN


def _panels(inner: int, columns: int, lanes: int) -> tuple[int, int, int]:
    """The columns of a panel, those of all panels, and the rows of a block, of a packed matrix (inner, columns): blocks
    (panels, rows, columns of a panel).
    """
    vectors = -(-columns // lanes)
    panel = lanes * -(-vectors // -(-vectors // tiles.VECTORS))  # panels of equal width
    return panel, -(-columns // panel) * panel, -(-inner // -(-inner // _DEPTH) // lanes) * lanes


def _divided(threads: int, batches: int, rows: int, columns: int, panel: int) -> tuple[int, int, int]:
    """How many workers share products, and in how many parts of rows and of columns.

    Parts of rows pack the same columns, each for itself.
    """
    wanted = 1 if batches % threads == 0 or batches >= _WORKERS * threads else threads
    across = max(1, min(wanted, columns // (_PART_PANELS * panel)))
    down = max(1, min(-(-wanted // across), rows // _PART_ROWS))
    return min(threads, batches * down * across), down, across


def _dotted(a: Layout, b: Layout) -> bool:
    """Whether tiles of dot products are best, of rows of both matrices: few long sums for each time b would be turned,
    or so few sums that it would not be.
    """
    (rows, inner), columns, lanes = a.shape[-2:], b.shape[-1], tiles.host().lanes(a.storage.itemsize)
    if not a.strides[-1] == b.strides[-2] == 1 != b.strides[-1] or inner < lanes:
        return False
    few = rows <= min(_DOTTED, _LONG * (inner // lanes)) and rows * inner * a.storage.itemsize <= _NEAR
    return few or rows * inner * columns < _TURNED or (columns <= lanes and inner >= _LONG * lanes)


def _packs(a: Layout, b: Layout) -> bool:
    """Whether tiles pack b, and do not read it as it lies."""
    (rows, inner), columns, host = a.shape[-2:], b.shape[-1], tiles.host()
    direct = inner * columns * b.storage.itemsize <= _DIRECT or rows <= 2 * host.rows
    return b.strides[-1] != 1 or not direct or (columns % host.lanes(b.storage.itemsize) != 0 and not host.masks)


def takes_panels(a: Layout, b: Layout) -> bool:
    """Whether a product gains where b is given packed: tiles would pack it at every call, or take dot products of rows
    that fill panels.
    """
    (rows, inner), columns, host = a.shape[-2:], b.shape[-1], tiles.host()
    if (
        a.device.type != "cpu"
        or not a.dtype.is_floating_point
        or rows < host.rows
        or columns < 2
        or rows * inner * columns < _TURNED
    ):
        return False
    return columns > 2 * host.lanes(a.storage.itemsize) if _dotted(a, b) else _packs(a, b)


def panel_packer(b: Layout) -> tuple[Callable, tuple, int]:
    """The launcher that packs b (inner, columns), its constants, and how many elements it writes."""
    (inner, columns), lanes, number = b.shape, tiles.host().lanes(b.storage.itemsize), b.storage.name
    panel, padded, deep = _panels(inner, columns, lanes)
    constants = (inner, columns, *b.strides, deep, panel, padded)
    signature = bind.signature(number, number, numbers=len(constants))
    return (
        bind.launcher(b.device, "pack_columns", specialized(pack_matrix, LANES=lanes), signature, b.dtype, b.size),
        constants,
        inner * padded,
    )
