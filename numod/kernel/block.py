"""Matrix products by blocks of GPU threads: the source text of a tiled kernel, also for convolutions (implicit GEMM).

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
  (`Operand.jumps`), and divisions in the loop are multiplications.
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
SHORT = 1 << 30  # elements below which offsets have 32 bits


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
        """The text of an element as it is summed."""
        return element

    def stored(self, value: str) -> str:
        """The text of a result in its storage type."""
        return value

    def side(self, name: str, operand: Operand, number: str) -> Side:
        """The `Side` that copies slices of one matrix into shared memory."""
        return Side(name, operand, self, number)

    def declare(self, left: Side, right: Side, number: str, kept: int) -> list[str]:
        """Shared memory for `kept` slices, registers, and the numbers that depend on the thread."""
        return [
            f"left = shared_array({kept * self.depth * left.line}, {number}, SHARED)",
            f"right = shared_array({kept * self.depth * right.line}, {number}, SHARED)",
            f"a, b = cuda.local.array({self.rows}, {number}), cuda.local.array({self.columns}, {number})",
            f"row, column = thread // {self.across} * {self.rows}, thread % {self.across} * {self.vector}",
        ]

    def multiply(self, left: Side, right: Side) -> list[str]:
        """A slice's steps, written out: in a loop, a quarter of the instructions would be its own."""
        runs = [f"uintp({j // self.vector * self.vector * self.across + j % self.vector})" for j in range(self.columns)]
        lines = [
            f"{side.name}_from = uintp(taken * {self.depth * side.line} + {first})"
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
        """Where the j-th column of a thread is, where its s-th row, and their result."""
        column = f"column + j // {self.vector} * {self.vector * self.across} + j % {self.vector}"
        return column, "row + s", f"s * {self.columns} + j"


# 128 x 128, 64 x 256 and 64 x 64, 256 threads
LARGE, BROAD, SMALL = Tile(16, 16, 8, 8, 8), Tile(8, 32, 8, 8, 8), Tile(16, 16, 4, 4, 8)
TINY = Tile(2, 2, 2, 2, 2)  # for the simulator, where every thread is one of Python's


@dataclass(frozen=True)
class Operand:
    """How elements of a matrix are read:

    (o, k) is `array[at + shift]`, o its row (left) or column (right), k its inner index.

    `order` says along which of the two memory runs, "inner" or "outer" (or "neither": it is read as if along the outer
    one). `at` depends on o alone and `shift` on k alone. `jumps` are the distances of neighbours along o and k where
    they are the same everywhere: places are then only added up. `outer` and `inner` name, in order, what else depends
    on o or on k alone; `inside` and `joint` on both: a condition without which the element is 0, and a further
    distance. All fit in 32 bits where `places` do.
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

    `lines` are first in the kernel, `batch` in a batch's turn. Element (i, o) of the result becomes `value`, of its sum
    `value`, and goes to `target`; `column` names what depends on its column o alone.
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


def suits(great: Tile, small: Tile, batches: int, rows: int, columns: int) -> bool:
    """Whether there is enough work for a great tile, which reads less for each result, and not much of it hangs over
    the matrix.
    """
    return tiles(great, batches, rows, columns) >= 64 and 2 * covered(great, rows, columns) < 3 * covered(
        small, rows, columns
    )


def choose(rows: int, columns: int, batches: int, itemsize: int, simulated: bool) -> Tile:
    """The tile for a product: that of the two great ones which hangs over less, where it suits.

    Of float64 they would need more registers than a thread has.
    """
    if simulated:
        return TINY
    least = min((LARGE, BROAD), key=lambda tile: covered(tile, rows, columns))
    return least if itemsize <= 4 and suits(least, SMALL, batches, rows, columns) else SMALL


def source(each: Product, tile: Tile, number: str, rounded: bool = True) -> str:
    """The kernel's text, for elements of type `number`; results are of that type, unless they are to be sums that are
    not `rounded`.

    `SHARED` ends a shared array's declaration as the target says.
    """
    left, right = tile.side("left", each.left, number), tile.side("right", each.right, number)
    # slices in shared memory: one is multiplied while the others are on their way
    kept = 3 if left.copied or right.copied else 2
    put = left.put() + right.put()
    behind = [*(["if turn < slices:", *indented(put)] if put else []), *(["await_copies()"] if kept > 2 else [])]
    # 128 registers a thread
    declarations = _block(each.lines, 1) + _block(left.declare() + right.declare(), 1)
    bounds = f"RESIDENT = {tile.threads}, 2" if tile.height * tile.width >= LARGE.height * LARGE.width else ""
    return f"""
{bounds}
def kernel({", ".join(each.arguments)}):
    zero, thread = {tile.sums(number)}(0), int64(cuda.threadIdx.x)
    totals = cuda.local.array({tile.results}, {tile.sums(number)}){_block(tile.declare(left, right, number, kept), 1)}
    tiles_down, tiles_across = (rows + {tile.height - 1}) // {tile.height}, (columns + {tile.width - 1}) // {tile.width}
    slices = (inner + {tile.depth - 1}) // {tile.depth}{declarations}
    for task in range(int64(cuda.blockIdx.x), batches * tiles_down * tiles_across, int64(cuda.gridDim.x)):
        batch, place = task // (tiles_down * tiles_across), task % (tiles_down * tiles_across)
        top, first = place // tiles_across * {tile.height}, place % tiles_across * {tile.width}{_block(each.batch, 2)}
        for s in range({tile.results}):
            totals[s] = zero{_block(left.prepare() + right.prepare(), 2)}
        for turn in range(int32(slices + {kept - 1})):  # a slice is read while one before is multiplied
            arriving, taken = uint32(turn) % uint32({kept}), uint32(turn + 1) % uint32({kept})  # which of them
            if turn < slices:
                steps = int32(min(inner - turn * {tile.depth}, {tile.depth})){_block(left.fetch() + right.fetch(), 4)}
            if turn >= {kept - 1}:{_block(tile.multiply(left, right), 4)}{_block(behind, 3)}
            cuda.syncthreads()
{_finish(each, tile, rounded)}"""[1:]


def _finish(each: Product, tile: Tile, rounded: bool) -> str:
    """Store a thread's results."""
    column, row, place = tile.places()
    return f"""        for j in range({tile.thread_columns}):
            o = first + {column}
            if o < columns:{_block(named(each.column), 4)}
                for s in range({tile.results // tile.thread_columns}):
                    i, value = top + {row}, totals[{place}]
                    if i < rows:
                        {each.target} = {tile.stored(each.value) if rounded else each.value}
"""


class Side:
    """How the threads of a block bring a slice of one matrix into shared memory: each has `slots` of its elements,
    `step` apart.
    """

    copied = False  # whether a slice goes there by itself, not by registers

    def __init__(self, name: str, operand: Operand, tile: Tile, number: str) -> None:
        self.name, self.operand, self.number, self.depth = name, operand, number, tile.depth
        size, self.limit, self.origin = (
            (tile.height, "rows", "top") if name == "left" else (tile.width, "columns", "first")
        )
        self.line, self.along_inner, self.size = size + PAD, operand.order == "inner", size
        self.fast = tile.depth if self.along_inner else size  # threads beside each other take these
        self.step, self.slots = tile.threads // self.fast, size * tile.depth // tile.threads
        slow = f"thread // {self.fast} + slot * {self.step}"
        self.near, self.deep = (slow, f"thread % {self.fast}") if self.along_inner else (f"thread % {self.fast}", slow)
        # whether slots are evenly apart, and slices
        self.even, self.added = operand.jumps[0 if self.along_inner else 1], operand.jumps[1]
        # slots whose places are kept
        self.kept = self.slots if self.along_inner and not (self.even and not operand.outer) else 1
        if tile.threads % self.fast or size * tile.depth % tile.threads:
            raise ValueError(f"a block of {tile.threads} threads cannot share a slice of {size} x {tile.depth}")

    def declare(self) -> list[str]:
        """Registers for the next slice and for constants."""
        kept = [f"{self.name}_{each} = cuda.local.array({self.kept}, int32)" for each in self.operand.outer]
        return [
            f"{self.name}_held = cuda.local.array({self.slots}, {self.number})",
            f"{self.name}_at = cuda.local.array({self.kept}, {self.operand.places})",
            *kept,
        ]

    def prepare(self) -> list[str]:
        """The values that are constant along the inner dimension."""
        kept = [f"{self.name}_{each}[slot] = {each}" for each in self.operand.outer]
        begin = f" + ({self.deep.replace('slot', '0')}) * {self.added}" if self.added else ""
        found = [
            f"o = {self.origin} + {self.near}",
            *named(self.operand.outer),
            f"{self.name}_at[slot] = {self.operand.at}{begin}",
            *kept,
        ]
        return [
            f"{self.name}_near = int32(min({self.limit} - {self.origin}, {self.size}))",
            f"for slot in range({self.kept}):",
            *indented(found),
        ]

    def fetch(self) -> list[str]:
        """Load the slice into registers; 0 outside the matrix."""
        place = f"{self.name}_at[{'slot' if self.kept > 1 else 0}]"
        terms = [
            place,
            *([f"slot * {self.step} * {self.even}"] if self.even and self.kept == 1 else []),
            *(["moved"] if not self.added else []),
        ]
        terms += [f"({self.operand.joint})"] if self.operand.joint else []
        kept = [f"{each} = {self.name}_{each}[{'slot' if self.kept > 1 else 0}]" for each in self.operand.outer]
        inside = f"(int32({self.near}) < {self.name}_near) & (int32({self.deep}) < steps)" + (
            f" & {self.operand.inside}" if self.operand.inside else ""
        )
        place = f"uintp({self.operand.places}({' + '.join(terms)}))"
        read = [*kept, f"{self.name}_held[slot] = {self.operand.array}[{place}] if {inside} else zero"]
        step = (
            []
            if self.added
            else [f"k = turn * {self.depth} + {self.deep}", *named(self.operand.inner), f"moved = {self.operand.shift}"]
        )
        loop = f"for slot in range({self.slots}):"
        lines = [*step, loop, *indented(read)] if self.along_inner else [loop, *indented(step + read)]
        return lines + (
            [f"for slot in range({self.kept}):", f"    {self.name}_at[slot] += {self.depth} * {self.added}"]
            if self.added
            else []
        )

    def put(self) -> list[str]:
        """Write the registers to this slice's part of the shared memory."""
        place = f"(arriving * {self.depth} + {self.deep}) * {self.line} + {self.near}"
        return [f"for slot in range({self.slots}):", f"    {self.name}[uintp({place})] = {self.name}_held[slot]"]


def named(values: dict[str, str]) -> list[str]:
    return [f"{name} = {value}" for name, value in values.items()]


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def _block(lines: tuple[str, ...] | list[str], levels: int) -> str:
    return "".join(f"\n{'    ' * levels}{line}" for line in lines)


# ---- which products there are

_SHAPE = ("batches", "rows", "columns", "inner")
_IN_ORDER = "out[uintp((batch * rows + i) * columns + o)]"


def matrices(a_order: str, b_order: str, places: str, tile: Tile) -> Product:
    """out (batches, rows, columns) = bias (columns, or none) + a @ b, with any steps.

    Batches are runs of `together`, with steps from run to run and from one to the next. `a_order` and `b_order`: along
    what their memory runs, if it does.
    """
    steps = ("together", "a_run", "a_batch", "a_row", "a_column", "b_run", "b_batch", "b_row", "b_column")
    a_at, b_at = "run * a_run + one * a_batch + o * a_row", "run * b_run + one * b_batch + o * b_column"
    left = Operand(a_order, "x", a_at, jumps=("1" if a_order == "outer" else "a_row", "a_column"), places=places)
    right = Operand(b_order, "y", b_at, jumps=("1" if b_order == "outer" else "b_column", "b_row"), places=places)
    # a product with a bias is one, or its parts
    added = {"added": f"{tile.read('bias[uintp(o)]')} if (bias.size > 0) & (batch == 0) else zero"}
    batch = ("run, one = batch // together, batch % together",)
    return Product(
        ("x", "y", "out", "bias", *_SHAPE, *steps), left, right, _IN_ORDER, added, batch, value="value + added"
    )


class _Geometry:
    """Texts about the numbers of a convolution that its products have in common.

    Of the dimensions d, h and w those that do nothing are left out.

    `moves`: where the kernel has several taps, or hangs over; `spans` and `extends`: where there are several outputs,
    or inputs.
    """

    def __init__(self, sizes: dict[str, int]) -> None:
        self.names = (*_SHAPE, *sizes)
        self.moves = [c for c in "dhw" if sizes[f"kernel_{c}"] > 1 or sizes[f"pad_{c}"] > 0]
        self.spans = [c for c in "dhw" if c in self.moves or sizes[f"out_{c}"] > 1]
        self.extends = [c for c in "dhw" if c in self.moves or sizes[_SIZES[c]] > 1]
        self.strided = [c for c in self.extends if sizes[f"stride_{c}"] > 1]
        self.lines = (
            "taps = kernel_d * kernel_h * kernel_w",
            "positions = out_d * out_h * out_w",
            "places = depth * height * width",
        )
        divisors = ["taps", *(f"{name}_{c}" for c in "dhw" for name in ("kernel", "stride", "out")), *_SIZES.values()]
        self.lines += tuple(f"by_{divisor} = reciprocal32({divisor})" for divisor in divisors)
        self.batch = ("part, group = batch // groups, batch % groups",)  # a batch is a part of the sums of a group

    def tap(self, index: str, channel: str) -> dict[str, str]:
        """Of an element of a patch: its channel, and its shift from the first tap."""
        return _split(index, channel, {c: f"kernel_{c}" for c in self.moves}, "tap", "* step_{}")

    def patch(self, index: str) -> dict[str, str]:
        """Of an output position: its image, and the input element under the kernel's first tap."""
        return _split(index, "image", {c: f"out_{c}" for c in self.spans}, "at", "* stride_{0} - pad_{0}")

    def within(self) -> str:
        """Whether a tap is on the input: an index less than 0 is a great one without its sign."""
        return "".join(f" & (uint32(at_{c} + tap_{c}) < uint32({_SIZES[c]}))" for c in self.moves)[3:]

    @staticmethod
    def input(name: str, letters: list[str]) -> str:
        """The distance of an input element from the first of its channel."""
        return (
            " + ".join(
                {"d": f"{name}_d * height * width", "h": f"{name}_h * width", "w": f"{name}_w"}[c] for c in letters
            )
            or "0"
        )

    @staticmethod
    def output(terms: dict[str, str]) -> str:
        """The distance of an output from the first of its feature, by its places along some dimensions."""
        return (
            " + ".join(
                {"d": "({}) * out_h * out_w", "h": "({}) * out_w", "w": "{}"}[c].format(term)
                for c, term in terms.items()
            )
            or "0"
        )


_SIZES = {"d": "depth", "h": "height", "w": "width"}


def _split(index: str, last: str, sizes: dict[str, str], name: str, then: str) -> dict[str, str]:
    """What an index says along each dimension, from the innermost on, and in `last` the quotient that is left."""
    found, rest = {}, index
    for c in reversed(sizes):
        found[f"over_{c}"] = f"quotient_by({rest}, by_{sizes[c]})"
        found[f"{name}_{c}"] = f"int32(({rest} - over_{c} * {sizes[c]}) {then.format(c)})"
        rest = f"over_{c}"
    return {**found, last: f"int32({rest})"}


def convolution(sizes: dict[str, int]) -> Product:
    """out (parts, ...) = weight (features, channels * taps) @ patches (channels * taps, images * positions), a product
    for each group; a part has a run of `inner`, whole channels.
    """
    of = _Geometry(sizes)
    left = Operand("inner", "weight", "(group * features + o) * terms + part * inner", jumps=("terms", "1"))
    at = f"((image * groups + group) * channels + part * run) * places + {of.input('at', of.spans)}"
    if of.moves:
        right = Operand(
            "outer",
            "x",
            at,
            f"channel * places + {of.input('tap', of.moves)}",
            outer=of.patch("o"),
            inner=of.tap("k", "channel"),
            inside=of.within(),
        )
    else:
        right = Operand("outer", "x", at, jumps=("", "places"), outer=of.patch("o"))
    column = {
        "image": "quotient32(o, positions)",
        "target": "((part * images + image) * groups + group) * features * positions + o - image * positions",
    }
    lines = (*of.lines, "terms, run = channels * taps, inner // taps")
    return Product(
        ("x", "weight", "out", *of.names), left, right, "out[uintp(target + i * positions)]", column, of.batch, lines
    )


def convolution_input(sizes: dict[str, int]) -> Product:
    """out (parts, ...) = weight turned (channels, features * taps) @ g at the outputs that a tap leads to (features *
    taps, images * input places), for each group; a part has a run of `inner`, whole features.
    """
    of = _Geometry(sizes)
    places = _split("o", "image", {c: _SIZES[c] for c in of.extends}, "at", "+ pad_{}")
    taps = {"feature": "quotient_by(k, by_taps)", "tap": "k - feature * taps"}
    at = "((group * features + part * run) * channels + o) * taps"
    left = Operand("inner", "weight", at, "feature * channels * taps + tap", ("taps", ""), inner=taps)
    even, moved = [c for c in of.extends if c not in of.strided], [c for c in of.moves if c not in of.strided]
    at = f"((image * groups + group) * features + part * run) * positions + {of.output({c: f'at_{c}' for c in even})}"
    shift = f"feature * positions - ({of.output({c: f'tap_{c}' for c in moved})})"
    from_ = {c: f"at_{c} - tap_{c}" if c in of.moves else f"at_{c}" for c in of.extends}
    found = {c: f"quotient_by(max({from_[c]}, 0), by_stride_{c})" for c in of.strided}
    inside = [f"(uint32({from_[c]}) < uint32(out_{c}))" for c in moved]
    inside += [f"({from_[c]} == {found[c]} * stride_{c}) & ({found[c]} < out_{c})" for c in of.strided]
    joint = of.output(found) if found else ""
    right = Operand(
        "outer", "g", at, shift, outer=places, inner=of.tap("k", "feature"), inside=" & ".join(inside), joint=joint
    )
    column = {
        "image": "quotient32(o, places)",
        "target": "((part * images + image) * groups + group) * channels * places + o - image * places",
    }
    lines = (*of.lines, "run = inner // taps")
    return Product(
        ("g", "weight", "out", *of.names), left, right, "out[uintp(target + i * places)]", column, of.batch, lines
    )


def convolution_weight(sizes: dict[str, int]) -> Product:
    """out (parts, groups, features, channels * taps) = g (features, images * positions) @ patches turned; each part has
    a run of `inner` positions.
    """
    of, here, valid = _Geometry(sizes), "part * inner + k", "(part * inner + k < images * positions)"
    spot = {
        "over": f"int32({here})",
        "image": "quotient_by(over, by_positions)",
        "position": "over - image * positions",
    }
    left = Operand(
        "inner",
        "g",
        "o * positions",
        "(image * groups + group) * features * positions + position",
        ("positions", ""),
        inner=spot,
        inside=valid,
    )
    shift = f"(image * groups + group) * channels * places + {of.input('at', of.spans)}"
    inside = " & ".join(each for each in (valid, of.within()) if each)
    right = Operand(
        "inner",
        "x",
        f"channel * places + {of.input('tap', of.moves)}",
        shift,
        outer=of.tap("o", "channel"),
        inner={"here": f"int32({here})", **of.patch("here")},
        inside=inside,
    )
    lines = (*of.lines, "by_positions = reciprocal32(positions)")
    return Product(("g", "x", "out", *of.names), left, right, _IN_ORDER, {}, of.batch, lines)
