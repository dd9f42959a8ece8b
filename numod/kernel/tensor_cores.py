"""Tiles of `kernel.block` that tensor cores multiply: a warp's instruction makes a (16, 8) part of the result from (16, 16) and (16, 8) numbers of 16 bits.

The instructions and what each thread of a warp gives them are in `device.cuda_tensor_cores`. Why it is laid out so:
- Shared memory holds lines of 64 bytes, the inner index innermost: 4 runs of 16 bytes of each row of the left matrix and each column of the right. Thread t
  of four reads run t whole: its words 0 and 1 are what the instruction takes for words t and t + 4 of the first step, 2 and 3 for those of the second.
  So the inner index is walked in another order, the same for both matrices, and an access of 16 bytes feeds two instructions, as `ldmatrix` would.
- Run c of line o lies in place c ^ (o / 2 mod 4): eight threads, which memory serves at a time, meet all banks once, be they two lines' (reading, and
  writing what memory holds along the inner index) or one run's of eight lines (writing what it holds along rows or columns).
- A matrix whose memory runs along the inner index is read 16 bytes at a time where it can be.
- ptxas 13.0 for sm_90 gives the great tile 128 registers a thread and 32 KiB shared: two blocks on a multiprocessor. In a slice's 650 instructions are 32
  products, for which tensor cores take about as many cycles; half of the others are for runs that leave the matrix. Places of patches take 600 more.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..device import Layout
from ..dtypes import float32
from . import block
from .block import Operand, Side, Tile, indented, named

_LINE = 64  # bytes of a row or column in shared memory: four runs of 16
precision = "highest"  # of products of float32; whoever changes it has plans forgotten, as `numod.set_float32_matmul_precision` does


@dataclass(frozen=True)
class WarpTile(Tile):
    """A block's share: warps (down, across), results of each (rows, columns), inner steps a slice, and the numbers: "float16", "bfloat16" or "tf32"."""

    kind: str = "float16"

    @property
    def threads(self) -> int:
        return 32 * self.down * self.across

    @property
    def results(self) -> int:
        return self.rows * self.columns // 32

    @property
    def thread_columns(self) -> int:
        return self.columns // 4

    @property
    def run(self) -> int:
        """Elements of 16 bytes."""
        return self.depth // 4

    def sums(self, number: str) -> str:
        return "float32"

    def read(self, element: str) -> str:
        return element if self.kind == "tf32" else f"from_{self.kind}({element})"

    def stored(self, value: str) -> str:
        return value if self.kind == "tf32" else f"rounded_{self.kind}({value})"

    def side(self, name: str, operand: Operand, number: str) -> Side:
        return RunSide(name, operand, self, number)

    def declare(self, left: Side, right: Side, number: str) -> list[str]:
        return [
            f"left = shared_array({8 * self.height}, complex128, SHARED)",  # elements of 16 bytes
            f"right = shared_array({8 * self.width}, complex128, SHARED)",
            "lane, warp = thread % 32, thread // 32",
            f"row, column = warp // {self.across} * {self.rows} + lane // 4, warp % {self.across} * {self.columns} + lane % 4 * 2",
            "near_left = row * 4 + (lane % 4 ^ lane // 8)",
            "near_right = (column - lane % 4 * 2 + lane // 4) * 4 + (lane % 4 ^ lane // 8)",
        ]

    def multiply(self, left: Side, right: Side) -> list[str]:
        down, across = self.rows // 16, self.columns // 8
        lines = [f"left_from = uintp((turn - 1 & 1) * {4 * self.height} + near_left)", f"right_from = uintp((turn - 1 & 1) * {4 * self.width} + near_right)"]
        for pair in range(0, down, 2):  # two at a time: more would take registers that are not there
            for i in range(2):
                lines += [
                    f"a{i} = load_words(left, left_from + uintp({64 * (pair + i)}))",
                    f"c{i} = load_words(left, left_from + uintp({64 * (pair + i) + 32}))",
                ]
            for j in range(across):
                lines.append(f"b = load_words(right, right_from + uintp({32 * j}))")
                for k, i in ((0, 0), (0, 1), (2, 0), (2, 1)):
                    place = 4 * ((pair + i) * across + j)
                    lines.append(f"multiply_{self.kind}(totals, uintp({place}), a{i}[{k}], c{i}[{k}], a{i}[{k + 1}], c{i}[{k + 1}], b[{k}], b[{k + 1}])")
        return lines

    def places(self) -> tuple[str, str, str]:
        return "column + j // 2 * 8 + j % 2", "row + s * 8", f"(s // 2 * {self.columns // 8} + j // 2) * 4 + s % 2 * 2 + j % 2"


class RunSide(Side):
    """How the threads of a block bring a slice of one matrix into shared memory: each has `slots` runs of 16 bytes along the inner index."""

    def __init__(self, name: str, operand: Operand, tile: WarpTile, number: str) -> None:
        super().__init__(name, operand, tile, number)
        threads, self.run = tile.threads, tile.run
        self.fast = 4 if self.along_inner else self.size  # threads beside each other take these
        self.slots = 4 * self.size // threads
        slow = f"thread // {self.fast} + slot * {threads // self.fast}"
        self.near, self.place = (slow, "thread % 4") if self.along_inner else (f"thread % {self.fast}", slow)
        self.deep = f"({self.place}) * {self.run}"
        self.step = threads // self.fast * (1 if self.along_inner else self.run)
        if threads % self.fast or 4 * self.size % threads:
            raise ValueError(f"a block of {threads} threads cannot share {4 * self.size} runs")
        self.kept = self.slots if self.along_inner and not (self.even and not operand.outer) else 1

    def declare(self) -> list[str]:
        kept = [f"{self.name}_{each} = cuda.local.array({self.kept}, int32)" for each in self.operand.outer]
        at = f"{self.name}_at = cuda.local.array({self.kept}, {self.operand.places})"
        return [f"{self.name}_held, {self.name}_run = cuda.local.array({4 * self.slots}, uint32), cuda.local.array({self.run}, {self.number})", at, *kept]

    def fetch(self) -> list[str]:
        """Read the slice into registers, 0 where it leaves the matrix."""
        name, operand, kept = self.name, self.operand, "slot" if self.kept > 1 else "0"
        terms = [f"{name}_at[{kept}]", *([f"slot * {self.step} * {self.even}"] if self.even and self.kept == 1 else [])]
        terms.append(f"r * {self.added}" if self.added else "moved")
        terms += [f"({operand.joint})"] if operand.joint else []
        inside = f"(near < {name}_near) & (deep + r < steps)" + (f" & {operand.inside}" if operand.inside else "")
        element = [] if self.added else [f"k = turn * {self.depth} + deep + r", *named(operand.inner), f"moved = {operand.shift}"]
        read = f"{name}_run[r] = {operand.array}[uintp({operand.places}({' + '.join(terms)}))]"
        words = f"bits32({name}_run[w])" if self.run == 4 else f"uint32({name}_run[2 * w]) | uint32({name}_run[2 * w + 1]) << uint32(16)"
        held = ", ".join(f"{name}_held[slot * 4 + {w}]" for w in range(4))
        joined = ["for w in range(4):", f"    {name}_held[slot * 4 + w] = {words}"]
        found = [f"for r in range({self.run}):", *indented([*element, f"{read} if {inside} else {self.number}(0)"]), *joined]
        if self.added:  # most runs are whole
            together = f"{held} = load_run({operand.array}, uintp({operand.places}({' + '.join(terms[:-1])})))"
            whole = [together] if self.along_inner else [f"for r in range({self.run}):", f"    {read}", *joined]
            found = [f"if (near < {name}_near) & (deep + {self.run} <= steps):", *indented(whole), "else:", *indented(found)]
        slot = [f"near, deep = int32({self.near}), int32({self.deep})", *[f"{each} = {name}_{each}[{kept}]" for each in operand.outer], *found]
        lines = [f"for slot in range({self.slots}):", *indented(slot)]
        return lines + ([f"for slot in range({self.kept}):", f"    {name}_at[slot] += {self.depth} * {self.added}"] if self.added else [])

    def put(self) -> list[str]:
        """Write the registers to this slice's half of the shared memory."""
        held = [f"{self.name}_held[slot * 4 + {w}]" for w in range(4)]
        values = [f"tf32_bits({each})" for each in held] if self.run == 4 else held
        line, place = f"({self.near})", f"({self.place})"
        where = f"((turn & 1) * {self.size} + {line}) * 4 + ({place} ^ {line} // 2 % 4)"
        return [f"for slot in range({self.slots}):", f"    store_words({self.name}, uintp({where}), {', '.join(values)})"]


def choose(numbers: Layout, rows: int, columns: int, batches: int, exact: bool = True) -> Tile:
    """The tile for a product of matrices like `numbers`: of 16-bit floats one of tensor cores, the great one where there is enough work for it.

    So of float32, rounded to tf32, where the product need not be `exact` and the user wants less precision.
    """
    backend, dtype = numbers.device.backend, numbers.dtype
    rounded = dtype is float32 and not exact and precision != "highest" and backend.tensor_cores()
    if dtype.compute is dtype and not rounded:
        return block.choose(rows, columns, batches, numbers.storage.itemsize, backend.SIMULATED)
    # 128 x 128 by 256 threads, 64 x 64 by 128
    great, small = (WarpTile(*sizes, _LINE // numbers.storage.itemsize, "tf32" if rounded else dtype.name) for sizes in ((2, 4, 64, 32), (2, 2, 32, 32)))
    return great if block.suits(great, small, batches, rows, columns) else small
