"""Matrix products by blocks of GPU threads: source text of one tiled kernel, whatever the matrices are. A convolution is such a product too (implicit GEMM).

A block computes a tile of the result, DEPTH steps along the inner dimension at a time. Why it is laid out so:
- Shared memory holds a slice of both matrices, the inner index outermost: `left[k, row]`, `right[k, column]`, so that every step of the inner loop
  reads one line of each. Two slices of each are kept: while one is multiplied the next is on its way in registers, and one barrier a slice is enough.
- A thread owns ROWS neighbouring rows and COLUMNS columns, in runs of four that lie `4 * across` apart (`across`: threads side by side). It reads them
  four words at a time: the threads of a warp read neighbouring runs of `right`, every bank as often, and one or two runs of `left`, which are broadcast.
  So (ROWS + COLUMNS) / 4 reads feed ROWS * COLUMNS multiply-adds, and neighbouring threads write neighbouring runs of the result.
- A matrix is read in the order of its memory: neighbouring threads take neighbouring inner indices ("inner"), or neighbouring rows or columns ("outer").
  Lines of shared memory are PAD words longer than the tile, so that threads that write along the inner index do not meet in a bank (4 k mod 32 differs).
- Local arrays are registers here: every loop over one has constant bounds and is unrolled.
- ptxas 13.0 for sm_90 gives a product of float32 128 registers a thread and 16.5 KiB shared with the large tile (two blocks on a multiprocessor), 70 and
  8.5 KiB with the small one; of float64 96 and 17 KiB. Convolutions take 135 to 160 registers. Nothing is spilled, also for sm_75.
Sums run along the inner dimension in order, so that a result does not depend on the grid.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .scalar import scalar

PAD = 4


@scalar
def quotient32(x, y):
    """x // y of numbers from 0 to 2^31 - 1, in 32 bits: a GPU divides 64-bit numbers several times slower."""
    return int64(uint32(x) // uint32(y))


@scalar
def rest32(x, y):
    """x % y likewise."""
    return int64(uint32(x) % uint32(y))


@dataclass(frozen=True)
class Tile:
    """A block's share: threads (down, across), results of each (rows, columns), inner steps a slice."""

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


LARGE, SMALL = Tile(16, 16, 8, 8, 8), Tile(16, 16, 4, 4, 8)  # 128 x 128 and 64 x 64, 256 threads
TINY = Tile(2, 2, 2, 2, 2)  # for the simulator, where every thread is one of Python's


@dataclass(frozen=True)
class Operand:
    """How elements of a matrix are read: `value` is element (o, k), o its row (left) or column (right), k its inner index.

    `order` says along which of the two memory runs. `outer` and `inner` name, in order, what depends on o or on k alone and is worth keeping; such
    numbers fit in 32 bits. `inside` is a further condition without which the element is 0.
    """

    order: str
    value: str
    outer: dict[str, str] = field(default_factory=dict)
    inner: dict[str, str] = field(default_factory=dict)
    inside: str = ""


@dataclass(frozen=True)
class Product:
    """A batch of products of (rows, inner) and (inner, columns) matrices.

    `lines` are first in the kernel, `batch` in a batch's turn. Element (i, o) of the result, `value`, goes where `store` says; `column` names what
    depends on its column o alone.
    """

    arguments: tuple[str, ...]  # arrays, then numbers, among them batches, rows, columns and inner
    left: Operand
    right: Operand
    store: str
    column: dict[str, str]
    batch: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


def tiles(tile: Tile, batches: int, rows: int, columns: int) -> int:
    """How many blocks compute a batch of products."""
    return batches * -(-rows // tile.height) * -(-columns // tile.width)


def choose(rows: int, columns: int, batches: int, itemsize: int, simulated: bool) -> Tile:
    """The tile for a product: the large one where there is enough work for it. Of float64 it would need more registers than a thread has."""
    if simulated:
        return TINY
    return LARGE if itemsize <= 4 and tiles(LARGE, batches, rows, columns) >= 64 else SMALL


def source(each: Product, tile: Tile, number: str) -> str:
    """The kernel's text, for elements of type `number`. `SHARED` ends a shared array's declaration as the target says."""
    left, right = _Side("left", each.left, tile, number, tile.height, "rows", "top"), _Side("right", each.right, tile, number, tile.width, "columns", "first")
    vector = min(tile.columns, 4)
    return f"""
def kernel({", ".join(each.arguments)}):
    left = shared_array({2 * tile.depth * left.line}, {number}, SHARED)
    right = shared_array({2 * tile.depth * right.line}, {number}, SHARED)
    totals = cuda.local.array({tile.rows * tile.columns}, {number})
    a, b = cuda.local.array({tile.rows}, {number}), cuda.local.array({tile.columns}, {number})
    zero, thread = {number}(0), int64(cuda.threadIdx.x)
    row, column = thread // {tile.across} * {tile.rows}, thread % {tile.across} * {vector}
    tiles_down, tiles_across = (rows + {tile.height - 1}) // {tile.height}, (columns + {tile.width - 1}) // {tile.width}
    slices = (inner + {tile.depth - 1}) // {tile.depth}{_block(each.lines, 1)}{_block(left.declare() + right.declare(), 1)}
    for task in range(int64(cuda.blockIdx.x), batches * tiles_down * tiles_across, int64(cuda.gridDim.x)):
        batch, place = task // (tiles_down * tiles_across), task % (tiles_down * tiles_across)
        top, first = place // tiles_across * {tile.height}, place % tiles_across * {tile.width}{_block(each.batch, 2)}
        for s in range({tile.rows * tile.columns}):
            totals[s] = zero{_block(left.prepare() + right.prepare(), 2)}
        for turn in range(slices + 1):  # a slice is read while the one before is multiplied
            half = turn % 2
            if turn < slices:{_block(left.fetch() + right.fetch(), 4)}
            if turn > 0:
                for step in range({tile.depth}):
                    for i in range({tile.rows}):
                        a[i] = left[uintp(((1 - half) * {tile.depth} + step) * {left.line} + row + i)]
                    for j in range({tile.columns}):
                        b[j] = right[uintp(((1 - half) * {tile.depth} + step) * {right.line} + column + j // {vector} * {vector * tile.across} + j % {vector})]
                    for i in range({tile.rows}):
                        for j in range({tile.columns}):
                            totals[i * {tile.columns} + j] += a[i] * b[j]
            if turn < slices:{_block(left.put() + right.put(), 4)}
            cuda.syncthreads()
        for j in range({tile.columns}):
            o = first + column + j // {vector} * {vector * tile.across} + j % {vector}
            if o < columns:{_block(_named(each.column), 4)}
                for s in range({tile.rows}):
                    i, value = top + row + s, totals[s * {tile.columns} + j]
                    if i < rows:
                        {each.store}
"""[1:]


class _Side:
    """How the threads of a block bring a slice of one matrix into shared memory: each has `slots` of its elements, `step` apart."""

    def __init__(self, name: str, operand: Operand, tile: Tile, number: str, size: int, limit: str, origin: str) -> None:
        self.name, self.operand, self.number, self.depth, self.limit, self.origin = name, operand, number, tile.depth, limit, origin
        self.line, self.along_inner = size + PAD, operand.order == "inner"
        self.fast = tile.depth if self.along_inner else size  # threads beside each other take these
        self.step, self.slots = tile.threads // self.fast, size * tile.depth // tile.threads
        self.near = f"thread // {self.fast} + slot * {self.step}" if self.along_inner else f"thread % {self.fast}"
        self.deep = f"thread % {self.fast}" if self.along_inner else f"thread // {self.fast} + slot * {self.step}"
        if tile.threads % self.fast or size * tile.depth % tile.threads:
            raise ValueError(f"a block of {tile.threads} threads cannot share a slice of {size} x {tile.depth}")

    def declare(self) -> list[str]:
        """Registers for the next slice and for what is kept."""
        kept = [f"{self.name}_{each} = cuda.local.array({self.slots if self.along_inner else 1}, int32)" for each in self.operand.outer]
        return [f"{self.name}_held = cuda.local.array({self.slots}, {self.number})", *kept]

    def prepare(self) -> list[str]:
        """What does not change along the inner dimension."""
        if not self.operand.outer:
            return []
        kept = [f"{self.name}_{each}[slot] = {each}" for each in self.operand.outer]
        return [f"for slot in range({self.slots if self.along_inner else 1}):", *_indented([f"o = {self.origin} + {self.near}", *_named(self.operand.outer), *kept])]

    def fetch(self) -> list[str]:
        """Read the slice into registers, 0 where it leaves the matrix."""
        kept = [f"{each} = int64({self.name}_{each}[{'slot' if self.along_inner else 0}])" for each in self.operand.outer]
        step = [f"k = turn * {self.depth} + {self.deep}", *_named(self.operand.inner)]
        inside = f"(o < {self.limit}) & (k < inner)" + (f" & {self.operand.inside}" if self.operand.inside else "")
        read = [f"o = {self.origin} + {self.near}", *kept, f"{self.name}_held[slot] = {self.operand.value} if {inside} else zero"]
        loop = f"for slot in range({self.slots}):"
        return [*step, loop, *_indented(read)] if self.along_inner else [loop, *_indented(step + read)]

    def put(self) -> list[str]:
        """Write the registers to this slice's half of the shared memory."""
        place = f"(half * {self.depth} + {self.deep}) * {self.line} + {self.near}"
        return [f"for slot in range({self.slots}):", f"    {self.name}[uintp({place})] = {self.name}_held[slot]"]


def _named(values: dict[str, str]) -> list[str]:
    return [f"{name} = {value}" for name, value in values.items()]


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def _block(lines: tuple[str, ...] | list[str], levels: int) -> str:
    return "".join(f"\n{'    ' * levels}{line}" for line in lines)


# ---- which products there are

_SHAPE = ("batches", "rows", "columns", "inner")


def matrices(a_order: str, b_order: str) -> Product:
    """out (batches, rows, columns) = bias (columns, or none) + a @ b, with any steps. `a_order` and `b_order`: where their memory runs on."""
    steps = ("a_batch", "a_row", "a_column", "b_batch", "b_row", "b_column")
    left = Operand(a_order, "x[uintp(batch * a_batch + o * a_row + k * a_column)]")
    right = Operand(b_order, "y[uintp(batch * b_batch + o * b_column + k * b_row)]")
    store = "out[uintp((batch * rows + i) * columns + o)] = value + added"
    return Product(("x", "y", "out", "bias", *_SHAPE, *steps), left, right, store, {"added": "bias[uintp(o)] if bias.size > 0 else zero"})


_SIZES = ("taps = kernel_d * kernel_h * kernel_w", "positions = out_d * out_h * out_w", "places = depth * height * width")
_ELEMENT = "x[uintp(((image * groups + group) * channels + channel) * places + ((at_d + tap_d) * height + at_h + tap_h) * width + at_w + tap_w)]"
_WITHIN = "(at_d + tap_d >= 0) & (at_d + tap_d < depth) & (at_h + tap_h >= 0) & (at_h + tap_h < height) & (at_w + tap_w >= 0) & (at_w + tap_w < width)"


def _tap(index: str, channel: str) -> dict[str, str]:
    """Of an element of a patch: its channel, and its shift from the first tap."""
    return {
        channel: f"quotient32({index}, taps)", "tap_w": f"rest32({index}, kernel_w) * step_w", "tap_h": f"rest32(quotient32({index}, kernel_w), kernel_h) * step_h",
        "tap_d": f"quotient32(rest32({index}, taps), kernel_w * kernel_h) * step_d",
    }  # fmt: skip


def _patch(index: str) -> dict[str, str]:
    """Of an output position: its image, and the input element under the kernel's first tap."""
    return {
        "image": f"quotient32({index}, positions)", "at_w": f"rest32({index}, out_w) * stride_w - pad_w",
        "at_h": f"rest32(quotient32({index}, out_w), out_h) * stride_h - pad_h", "at_d": f"quotient32(rest32({index}, positions), out_w * out_h) * stride_d - pad_d",
    }  # fmt: skip


def convolution(geometry: tuple[str, ...]) -> Product:
    """out = weight (features, channels * taps) @ patches (channels * taps, images * positions), a product for each group."""
    left = Operand("inner", "weight[uintp((batch * features + o) * inner + k)]")
    right = Operand("outer", _ELEMENT, _patch("o"), _tap("k", "channel"), _WITHIN)
    column = {"image": "quotient32(o, positions)", "target": "(image * groups + group) * features * positions + o - image * positions"}
    return Product(("x", "weight", "out", *_SHAPE, *geometry), left, right, "out[uintp(target + i * positions)] = value", column, ("group = batch",), _SIZES)


def convolution_input(geometry: tuple[str, ...]) -> Product:
    """out = weight turned (channels, features * taps) @ g at the outputs that a tap leads to (features * taps, images * input places), for each group."""
    left = Operand(
        "inner", "weight[uintp(((group * features + feature) * channels + o) * taps + tap)]", {}, {"feature": "quotient32(k, taps)", "tap": "k - feature * taps"}
    )  # fmt: skip
    place = {
        "image": "quotient32(o, places)", "at_w": "rest32(o, width) + pad_w", "at_h": "rest32(quotient32(o, width), height) + pad_h",
        "at_d": "quotient32(rest32(o, places), width * height) + pad_d",
    }  # fmt: skip
    shift = {each: f"max(at_{each[-1]} - tap_{each[-1]}, 0)" for each in ("from_d", "from_h", "from_w")}
    value = "g[uintp(((image * groups + group) * features + feature) * positions + (TO_d * out_h + TO_h) * out_w + TO_w)]"
    inside = " & ".join(f"(at_{c} >= tap_{c}) & (rest32(FROM_{c}, stride_{c}) == 0) & (TO_{c} < out_{c})" for c in "dhw")
    for c in "dhw":
        value, inside = (text.replace(f"TO_{c}", f"quotient32(FROM_{c}, stride_{c})").replace(f"FROM_{c}", shift[f"from_{c}"]) for text in (value, inside))
    right = Operand("outer", value, place, _tap("k", "feature"), inside)
    column = {"image": "quotient32(o, places)", "target": "(image * groups + group) * channels * places + o - image * places"}
    return Product(("g", "weight", "out", *_SHAPE, *geometry), left, right, "out[uintp(target + i * places)] = value", column, ("group = batch",), _SIZES)


def convolution_weight(geometry: tuple[str, ...]) -> Product:
    """out (parts, groups, features, channels * taps) = g (features, images * positions) @ patches turned; each part has a run of `inner` positions."""
    here, valid = "part * inner + k", "(part * inner + k < images * positions)"
    spot = {"image": f"quotient32({here}, positions)", "position": f"{here} - image * positions"}
    left = Operand("inner", "g[uintp(((image * groups + group) * features + o) * positions + position)]", {}, spot, valid)
    right = Operand("inner", _ELEMENT, _tap("o", "channel"), _patch(here), f"{valid} & {_WITHIN}")
    store = "out[uintp((batch * rows + i) * columns + o)] = value"
    return Product(("g", "x", "out", *_SHAPE, *geometry), left, right, store, {}, ("part, group = batch // groups, batch % groups",), _SIZES)
