"""Matrix products by blocks of GPU threads: the source text of a tiled kernel. `block_products` has what it computes.

A block computes a tile of the result, DEPTH steps along the inner dimension at a time:
- Shared memory holds a slice of both matrices, the inner index outermost: `left[k, row]`, `right[k, column]`, so that
  every step of the inner loop reads one line of each. There are two slices of each matrix: while one is multiplied the
  next is loaded into registers, and one barrier a slice is enough. Matrices that are copied without registers have
  three slices, two of them being loaded.
- A thread computes ROWS neighbouring rows and COLUMNS columns, in runs of four that are `4 * across` apart (`across`:
  threads side by side). It reads four words at a time: the threads of a warp read neighbouring runs of `right`, which
  uses all banks equally, and one or two runs of `left`, which are broadcast. So (ROWS + COLUMNS) / 4 reads feed ROWS *
  COLUMNS multiply-adds, and neighbouring threads write neighbouring runs of the result.
- A matrix is read in the order of its memory: neighbouring threads read neighbouring inner indices ("inner"), or
  neighbouring rows or columns ("outer"). Lines of shared memory are PAD words longer than the tile, so that threads
  that write along the inner index use different banks (4 k mod 32 differs).
- Local arrays are registers: every loop over one has constant bounds and is unrolled. The steps of a slice are unrolled
  in the source, so that offsets in shared memory are constants. Offsets in global memory are incremented
  (`Operand.jumps`); divisions in the loop are done by multiplication.
- With ptxas 13.0 for sm_90, a product of float32 with the large tile takes 128 registers a thread and 16.5 KiB shared
  memory, so that two blocks fit a multiprocessor (`RESIDENT`); with the broad tile, for few rows, 128 and 20.5 KiB. Of
  the instructions of a slice 77 % are multiply-adds (512 of 665); for a convolution 64 % (1 x 1: 77 %), with the broad
  tile 52 % (74 %), for the gradient of a weight 63 %. At most some forty words are spilled, each used once a slice.
Sums run along the inner dimension in order, so that a result does not depend on the grid. Split sums
(`ops.matmul.split_k`) are a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

PAD = 4
OFFSET32_LIMIT = 1 << 30  # elements below which offsets have 32 bits


@dataclass(frozen=True)
class Tile:
    """The work of a block: threads (down, across), results of each thread (rows, columns), inner steps of a slice."""

    down: int
    across: int
    rows: int
    columns: int
    depth: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.down * self.across

    @property
    def height(self) -> int:
        """Rows of the tile."""
        return self.down * self.rows

    @property
    def width(self) -> int:
        """Columns of the tile."""
        return self.across * self.columns

    @property
    def vector(self) -> int:
        """Neighbouring columns of a thread, which it reads at once."""
        return min(self.columns, 4)

    @property
    def results(self) -> int:
        """Results of a thread."""
        return self.rows * self.columns

    @property
    def thread_columns(self) -> int:
        """Columns of a thread."""
        return self.columns

    def sums(self, number: str) -> str:
        """The type that products of elements are summed in."""
        return number

    def read(self, element: str) -> str:
        """The text that converts an element to the type of sums."""
        return element

    def stored(self, value: str) -> str:
        """The text of a result in its storage type."""
        return value

    def side(self, name: str, operand: Operand, number: str) -> Side:
        """The `Side` that copies slices of one matrix into shared memory."""
        return Side(name, operand, self, number)

    def declare(self, left: Side, right: Side, number: str, buffers: int) -> list[str]:
        """Shared memory for `buffers` slices, registers, and the numbers that depend on the thread."""
        return [
            f"left = shared_array({buffers * self.depth * left.line}, {number}, SHARED)",
            f"right = shared_array({buffers * self.depth * right.line}, {number}, SHARED)",
            f"a, b = cuda.local.array({self.rows}, {number}), cuda.local.array({self.columns}, {number})",
            f"row, column = thread // {self.across} * {self.rows}, thread % {self.across} * {self.vector}",
        ]

    def multiply(self, left: Side, right: Side) -> list[str]:
        """The steps of a slice, unrolled: a loop would add a third to the instructions."""
        runs = [f"uintp({j // self.vector * self.vector * self.across + j % self.vector})" for j in range(self.columns)]
        lines = [
            f"{side.name}_from = uintp(compute_buffer * {self.depth * side.line} + {first})"
            for side, first in ((left, "row"), (right, "column"))
        ]
        for step in range(self.depth):
            lines += [f"for i in range({self.rows}):", f"    a[i] = left[left_from + uintp({step * left.line} + i)]"]
            lines += [f"b[{j}] = right[right_from + uintp({step * right.line}) + {run}]" for j, run in enumerate(runs)]
            lines += [
                f"for i in range({self.rows}):",
                f"    for j in range({self.columns}):",
                f"        totals[i * {self.columns} + j] += a[i] * b[j]",
            ]
        return lines

    def places(self) -> tuple[str, str, str]:
        """A thread's j-th column, its s-th row, and the index of their result."""
        column = f"column + j // {self.vector} * {self.vector * self.across} + j % {self.vector}"
        return column, "row + s", f"s * {self.columns} + j"


# 128 x 128, 64 x 256 and 64 x 64, 256 threads
SQUARE_TILE, BROAD_TILE, SMALL_TILE = Tile(16, 16, 8, 8, 8), Tile(8, 32, 8, 8, 8), Tile(16, 16, 4, 4, 8)
SIMULATOR_TILE = Tile(2, 2, 2, 2, 2)  # for the simulator, where every thread is one of Python's


@dataclass(frozen=True)
class Operand:
    """How elements of a matrix are read.

    Element (o, k) is `array[at + shift]`; o is its row (left) or column (right), k its inner index.

    `order` is the contiguous dimension, "inner" or "outer"; "neither" is read like "outer". `at` depends on o only and
    `shift` on k only. `jumps` are the strides along o and k if they are constant: offsets are then incremented.
    `outer` and `inner` are further assignments that depend on o only or on k only, in order. `inside` is a condition on
    both (the element is 0 where it is false) and `joint` a further offset that depends on both. `places` is the integer
    type of offsets.
    """

    order: str
    array: str
    at: str
    shift: str = ""
    jumps: tuple[str, str] = ("", "")
    outer: dict[str, str] = field(default_factory=dict)
    inner: dict[str, str] = field(default_factory=dict)
    inside: str = ""
    joint: str = ""
    places: str = "int32"


@dataclass(frozen=True)
class Product:
    """A batch of products of (rows, inner) and (inner, columns) matrices.

    The kernel begins with `lines`, the loop over batches with `batch`. Element (i, o) of the result is the expression
    `value` of the sum `value`, stored to `target`; `column` are assignments that depend on its column o only.
    """

    arguments: tuple[str, ...]  # arrays, then numbers, among them batches, rows, columns and inner
    left: Operand
    right: Operand
    target: str
    column: dict[str, str]
    batch: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    value: str = "value"


def tiles(tile: Tile, batches: int, rows: int, columns: int) -> int:
    """The number of blocks that compute a batch of products."""
    return batches * -(-rows // tile.height) * -(-columns // tile.width)


def covered(tile: Tile, rows: int, columns: int) -> int:
    """The elements of the tiles that cover a matrix."""
    return tiles(tile, 1, rows, columns) * tile.height * tile.width


def suits(large: Tile, small: Tile, batches: int, rows: int, columns: int) -> bool:
    """Whether to use the large tile: it reads less per result, but needs enough tiles that lie within the matrix."""
    return tiles(large, batches, rows, columns) >= 64 and 2 * covered(large, rows, columns) < 3 * covered(
        small, rows, columns
    )


def choose(rows: int, columns: int, batches: int, itemsize: int, simulated: bool) -> Tile:
    """The tile for a product: of the two large tiles the one that wastes less, if it suits; else the small one.

    For float64 the large tiles would need more registers than a thread has.
    """
    if simulated:
        return SIMULATOR_TILE
    least = min((SQUARE_TILE, BROAD_TILE), key=lambda tile: covered(tile, rows, columns))
    return least if itemsize <= 4 and suits(least, SMALL_TILE, batches, rows, columns) else SMALL_TILE


def source(product: Product, tile: Tile, number: str, rounded: bool = True) -> str:
    """The kernel's text for elements of type `number`. Results have that type if `rounded`, else the type of sums.

    The target replaces `SHARED` in the declarations of shared arrays.
    """
    left, right = tile.side("left", product.left, number), tile.side("right", product.right, number)
    # slices in shared memory: one is multiplied while the others are loaded
    buffers = 3 if left.copied or right.copied else 2
    put = left.put() + right.put()
    after_compute = [
        *(["if stage < slices:", *indented(put)] if put else []),
        *(["await_copies()"] if buffers > 2 else []),
    ]
    tile_declarations = tile.declare(left, right, number, buffers)
    declarations = _block(product.lines, 1) + _block(left.declare() + right.declare(), 1)
    # for a large tile two blocks of a multiprocessor, which limits a thread to 128 registers
    is_large = tile.height * tile.width >= SQUARE_TILE.height * SQUARE_TILE.width
    bounds = f"RESIDENT = {tile.threads}, 2" if is_large else ""
    return f"""
{bounds}
def kernel({", ".join(product.arguments)}):
    zero, thread = {tile.sums(number)}(0), int64(cuda.threadIdx.x)
    totals = cuda.local.array({tile.results}, {tile.sums(number)}){_block(tile_declarations, 1)}
    tiles_down, tiles_across = (rows + {tile.height - 1}) // {tile.height}, (columns + {tile.width - 1}) // {tile.width}
    slices = (inner + {tile.depth - 1}) // {tile.depth}{declarations}
    for task in range(int64(cuda.blockIdx.x), batches * tiles_down * tiles_across, int64(cuda.gridDim.x)):
        batch, tile = task // (tiles_down * tiles_across), task % (tiles_down * tiles_across)
        top, first = tile // tiles_across * {tile.height}, tile % tiles_across * {tile.width}{_block(product.batch, 2)}
        for s in range({tile.results}):
            totals[s] = zero{_block(left.prepare() + right.prepare(), 2)}
        for stage in range(int32(slices + {buffers - 1})):  # loads a slice while an earlier one is multiplied
            load_buffer, compute_buffer = uint32(stage) % uint32({buffers}), uint32(stage + 1) % uint32({buffers})
            if stage < slices:
                steps = int32(min(inner - stage * {tile.depth}, {tile.depth})){_block(left.fetch() + right.fetch(), 4)}
            if stage >= {buffers - 1}:{_block(tile.multiply(left, right), 4)}{_block(after_compute, 3)}
            cuda.syncthreads()
{_store_results(product, tile, rounded)}"""[1:]


def _store_results(product: Product, tile: Tile, rounded: bool) -> str:
    """Store a thread's results."""
    column, row, result = tile.places()
    return f"""        for j in range({tile.thread_columns}):
            o = first + {column}
            if o < columns:{_block(assignments(product.column), 4)}
                for s in range({tile.results // tile.thread_columns}):
                    i, value = top + {row}, totals[{result}]
                    if i < rows:
                        {product.target} = {tile.stored(product.value) if rounded else product.value}
"""


class Side:
    """How a block loads a slice of one matrix into shared memory: `slots` elements per thread, `step` apart."""

    copied = False  # whether slices are copied asynchronously, without registers

    def __init__(self, name: str, operand: Operand, tile: Tile, number: str) -> None:
        self.name, self.operand, self.number, self.depth = name, operand, number, tile.depth
        size, self.limit, self.origin = (
            (tile.height, "rows", "top") if name == "left" else (tile.width, "columns", "first")
        )
        self.line, self.along_inner, self.size = size + PAD, operand.order == "inner", size
        # this many neighbouring threads load neighbouring elements
        self.threads_across = tile.depth if self.along_inner else size
        self.step, self.slots = tile.threads // self.threads_across, size * tile.depth // tile.threads
        down = f"thread // {self.threads_across} + slot * {self.step}"
        self.outer_index, self.inner_index = (
            (down, f"thread % {self.threads_across}") if self.along_inner else (f"thread % {self.threads_across}", down)
        )
        # strides between slots and between slices, if constant
        self.slot_stride, self.slice_stride = operand.jumps[0 if self.along_inner else 1], operand.jumps[1]
        # offsets kept in registers: one per slot, or one if the others follow from it
        self.offset_count = self.slots if self.along_inner and not (self.slot_stride and not operand.outer) else 1
        if tile.threads % self.threads_across or size * tile.depth % tile.threads:
            raise ValueError(f"a block of {tile.threads} threads cannot share a slice of {size} x {tile.depth}")

    def declare(self) -> list[str]:
        """Registers for the next slice and for offsets."""
        outer_values = [
            f"{self.name}_{name} = cuda.local.array({self.offset_count}, int32)" for name in self.operand.outer
        ]
        return [
            f"{self.name}_registers = cuda.local.array({self.slots}, {self.number})",
            f"{self.name}_at = cuda.local.array({self.offset_count}, {self.operand.places})",
            *outer_values,
        ]

    def prepare(self) -> list[str]:
        """The values that are constant along the inner dimension."""
        outer_values = [f"{self.name}_{name}[slot] = {name}" for name in self.operand.outer]
        begin = f" + ({self.inner_index.replace('slot', '0')}) * {self.slice_stride}" if self.slice_stride else ""
        slot_lines = [
            f"o = {self.origin} + {self.outer_index}",
            *assignments(self.operand.outer),
            f"{self.name}_at[slot] = {self.operand.at}{begin}",
            *outer_values,
        ]
        return [
            f"{self.name}_limit = int32(min({self.limit} - {self.origin}, {self.size}))",
            f"for slot in range({self.offset_count}):",
            *indented(slot_lines),
        ]

    def fetch(self) -> list[str]:
        """Load the slice into registers; 0 outside the matrix."""
        offset = f"{self.name}_at[{'slot' if self.offset_count > 1 else 0}]"
        terms = [
            offset,
            *([f"slot * {self.step} * {self.slot_stride}"] if self.slot_stride and self.offset_count == 1 else []),
            *(["k_shift"] if not self.slice_stride else []),
        ]
        terms += [f"({self.operand.joint})"] if self.operand.joint else []
        outer_values = [
            f"{name} = {self.name}_{name}[{'slot' if self.offset_count > 1 else 0}]" for name in self.operand.outer
        ]
        inside = f"(int32({self.outer_index}) < {self.name}_limit) & (int32({self.inner_index}) < steps)" + (
            f" & {self.operand.inside}" if self.operand.inside else ""
        )
        index = f"uintp({self.operand.places}({' + '.join(terms)}))"
        read = [*outer_values, f"{self.name}_registers[slot] = {self.operand.array}[{index}] if {inside} else zero"]
        step = (
            []
            if self.slice_stride
            else [
                f"k = stage * {self.depth} + {self.inner_index}",
                *assignments(self.operand.inner),
                f"k_shift = {self.operand.shift}",
            ]
        )
        loop = f"for slot in range({self.slots}):"
        lines = [*step, loop, *indented(read)] if self.along_inner else [loop, *indented(step + read)]
        return lines + (
            [
                f"for slot in range({self.offset_count}):",
                f"    {self.name}_at[slot] += {self.depth} * {self.slice_stride}",
            ]
            if self.slice_stride
            else []
        )

    def put(self) -> list[str]:
        """Write the registers to the buffer of the slice in shared memory."""
        index = f"(load_buffer * {self.depth} + {self.inner_index}) * {self.line} + {self.outer_index}"
        return [f"for slot in range({self.slots}):", f"    {self.name}[uintp({index})] = {self.name}_registers[slot]"]


def assignments(values: dict[str, str]) -> list[str]:
    return [f"{name} = {value}" for name, value in values.items()]


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def _block(lines: tuple[str, ...] | list[str], levels: int) -> str:
    return "".join(f"\n{'    ' * levels}{line}" for line in lines)
