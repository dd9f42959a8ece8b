"""Tiles of `kernel.block` that tensor cores multiply: a warp's instruction makes a (16, 8) part of the result from (16,
16) and (16, 8) numbers of 16 bits.

The instructions and what each thread of a warp gives them are in `device.cuda_tensor_cores`. Why it is laid out so:
- `ldmatrix` reads four matrices of eight runs of 16 bytes, whose addresses the threads give, and leaves them where the
  products' instruction wants them: of 16 rows for a step, and of 8 columns for two, in registers that are side by side.
  So the inner index is walked in order, whatever the sides are, and of each matrix a warp reads every word once a
  slice.
- A slice lies in shared memory as lines of 64 bytes, the inner index innermost: 4 runs of each row of the left matrix
  and each column of the right. Run c of line o lies in place c ^ (o / 2 mod 4). Memory serves eight threads at a time,
  and they meet all banks once, be they eight lines' of one run (reading, and writing what memory holds anyhow) or two
  lines' (writing what it holds along the inner index).
- A matrix of 16-bit numbers whose memory runs along rows (left) or columns (right) is not turned on its way: it lies as
  in memory, a line for each inner index, of runs of eight rows or columns, and `ldmatrix` turns it. Run c of line k
  lies in place c ^ (k mod 8): eight lines' of one run (reading) or eight neighbouring runs of one line (writing) meet
  all banks once again. Threads beside each other read neighbouring runs of memory.
- What is neither of patches nor rounded is copied to shared memory by `cp.async`, two slices ahead, while nobody waits
  and no register holds it. Parts of runs that leave the matrix are filled with 0. All runs of a thread are aligned as
  its first is; if that is not, it reads them by element.
- ptxas 13.0 for sm_90 gives the great tile 128 registers a thread and 48 KiB shared: two blocks on a multiprocessor. Of
  the 160 instructions of a slice within the matrix (sm_80: 140) 32 are products, for which tensor cores take some four
  cycles each. Places of patches take 600 more.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..device import Layout
from ..dtypes import float32
from . import block
from .block import Operand, Side, Tile, indented, named

_LINE = 64  # bytes of a row or column in shared memory: four runs of 16
# of products of float32; whoever changes it has plans forgotten, as `numod.set_float32_matmul_precision` does
precision = "highest"


@dataclass(frozen=True)
class WarpTile(Tile):
    """A block's share: warps (down, across), results of each (rows, columns), inner steps a slice, and the numbers:

    "float16", "bfloat16" or "tf32".
    """

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

    def declare(self, left: Side, right: Side, number: str, kept: int) -> list[str]:
        return [
            f"left = shared_array({kept * 4 * self.height}, complex128, SHARED)",  # elements of 16 bytes
            f"right = shared_array({kept * 4 * self.width}, complex128, SHARED)",
            "lane, warp = thread % 32, thread // 32",
            f"row, column = warp // {self.across} * {self.rows} + lane // 4, warp % {self.across} * {self.columns} + "
            "lane % 4 * 2",
            f"near_left = {left.lane(f'warp // {self.across} * {self.rows}')}",
            f"near_right = {right.lane(f'warp % {self.across} * {self.columns}')}",
        ]

    def multiply(self, left: Side, right: Side) -> list[str]:
        down, across = self.rows // 16, self.columns // 8
        lines = [
            f"left_from = uintp(taken * {4 * self.height} + near_left)",
            f"right_from = uintp(taken * {4 * self.width} + near_right)",
        ]
        lines += [f"b{j} = {right.words(j)}" for j in range(across)]
        for pair in range(0, down, 2):  # two at a time: more would take registers that are not there
            each = [(step, i, f"a{i}_{step}") for step in range(2) for i in (pair, pair + 1)]
            lines += [f"{a} = {left.words(i, step)}" for step, i, a in each]
            for step, i, a in each:
                for j in range(across):
                    given = ", ".join(f"{a}[{k}]" for k in range(4))
                    lines.append(
                        f"multiply_{self.kind}(totals, uintp({4 * (i * across + j)}), {given}, b{j}[{2 * step}], "
                        f"b{j}[{2 * step + 1}])"
                    )
        return lines

    def places(self) -> tuple[str, str, str]:
        return (
            "column + j // 2 * 8 + j % 2",
            "row + s * 8",
            f"(s // 2 * {self.columns // 8} + j // 2) * 4 + s % 2 * 2 + j % 2",
        )


class RunSide(Side):
    """How the threads of a block bring a slice of one matrix into shared memory: each has `slots` runs of 16 bytes.

    They are along the inner index; those of a side that is `turned` along rows (left) or columns (right), as in memory.
    """

    def __init__(self, name: str, operand: Operand, tile: WarpTile, number: str) -> None:
        super().__init__(name, operand, tile, number)
        threads, self.run = tile.threads, tile.run
        self.turned = operand.order == "outer" and operand.jumps[0] == "1" and tile.kind != "tf32"
        # threads beside each other take these
        self.fast = 4 if self.along_inner else self.size // self.run if self.turned else self.size
        # rows or columns that are read together
        self.slots, self.together = 4 * self.size // threads, 16 if name == "left" else 8
        fast, slow = f"thread % {self.fast}", f"thread // {self.fast} + slot * {threads // self.fast}"
        self.near, self.place = (slow, fast) if self.along_inner else (fast, slow)
        self.deep = f"({self.place}) * {self.run}"
        if self.turned:
            self.near, self.place, self.deep = f"{fast} * {self.run}", fast, slow
        self.step = threads // self.fast * (1 if self.along_inner or self.turned else self.run)
        if threads % self.fast or 4 * self.size % threads:
            raise ValueError(f"a block of {threads} threads cannot share {4 * self.size} runs")
        self.kept = self.slots if self.along_inner and not (self.even and not operand.outer) else 1
        plain = self.added and not (operand.outer or operand.inside or operand.joint) and tile.kind != "tf32"
        self.copied = bool(plain and (self.along_inner or self.turned))

    def declare(self) -> list[str]:
        kept = [f"{self.name}_{each} = cuda.local.array({self.kept}, int32)" for each in self.operand.outer]
        at = f"{self.name}_at = cuda.local.array({self.kept}, {self.operand.places})"
        return [
            f"{self.name}_held, {self.name}_run = cuda.local.array({4 * self.slots}, uint32), "
            f"cuda.local.array({self.run}, {self.number})",
            at,
            *kept,
        ]

    def prepare(self) -> list[str]:
        """What does not change along the inner dimension.

        All runs of a thread lie as the first does towards places of 16 bytes.
        """
        aligned = (
            [f"{self.name}_aligned = begins_run({self.operand.array}, uintp({self.name}_at[0]))"] if self.copied else []
        )
        return super().prepare() + aligned

    def fetch(self) -> list[str]:
        """Read the slice into registers, 0 where it leaves the matrix, or begin to copy it."""
        name, operand, kept = self.name, self.operand, "slot" if self.kept > 1 else "0"
        terms = [f"{name}_at[{kept}]", *([f"slot * {self.step} * {self.even}"] if self.even and self.kept == 1 else [])]
        terms.append(("r" if self.turned else f"r * {self.added}") if self.added else "moved")
        terms += [f"({operand.joint})"] if operand.joint else []
        inside = self._within("r") + (f" & {operand.inside}" if operand.inside else "")
        element = (
            []
            if self.added
            else [f"k = turn * {self.depth} + deep + r", *named(operand.inner), f"moved = {operand.shift}"]
        )
        read = f"{name}_run[r] = {operand.array}[uintp({operand.places}({' + '.join(terms)}))]"
        words = (
            f"bits32({name}_run[w])"
            if self.run == 4
            else f"uint32({name}_run[2 * w]) | uint32({name}_run[2 * w + 1]) << uint32(16)"
        )
        held = ", ".join(f"{name}_held[slot * 4 + {w}]" for w in range(4))
        joined = ["for w in range(4):", f"    {name}_held[slot * 4 + w] = {words}"]
        found = [
            f"for r in range({self.run}):",
            *indented([*element, f"{read} if {inside} else {self.number}(0)"]),
            *joined,
        ]
        first = f"{operand.array}, uintp({operand.places}({' + '.join(terms[:-1])}))"
        if self.copied:
            rest, there = (
                (f"{name}_near - near", "deep < steps") if self.turned else ("steps - deep", f"near < {name}_near")
            )
            copy = (
                f"copy_run({name}, {self._where()}, {first}, max(min(int32({rest}), int32({self.run})), int32(0)) "
                f"if {there} else int32(0))"
            )
            found = [f"if {name}_aligned:", f"    {copy}", "else:", *indented([*found, self._store()])]
            copies = [
                f"for slot in range({self.slots}):",
                f"    copy_run({name}, {self._where()}, {first}, int32({self.run}))",
            ]
        elif self.added:  # most runs are whole
            whole = (
                [f"{held} = load_run({first})"]
                if self.along_inner
                else [f"for r in range({self.run}):", f"    {read}", *joined]
            )
            found = [f"if {self._within(self.run - 1)}:", *indented(whole), "else:", *indented(found)]
        slot = [
            f"near, deep = int32({self.near}), int32({self.deep})",
            *[f"{each} = {name}_{each}[{kept}]" for each in operand.outer],
            *found,
        ]
        lines = [f"for slot in range({self.slots}):", *indented(slot)]
        if self.copied:
            lines = [
                f"if {name}_aligned and {name}_near == {self.size} and steps == {self.depth}:",
                *indented(copies),
                "else:",
                *indented(lines),
            ]
        return lines + (
            [f"for slot in range({self.kept}):", f"    {name}_at[slot] += {self.depth} * {self.added}"]
            if self.added
            else []
        )

    def put(self) -> list[str]:
        """Write the registers to this slice's part of the shared memory."""
        return [] if self.copied else [f"for slot in range({self.slots}):", f"    {self._store()}"]

    def _store(self) -> str:
        held = [f"{self.name}_held[slot * 4 + {w}]" for w in range(4)]
        values = [f"tf32_bits({each})" for each in held] if self.run == 4 else held
        return f"store_words({self.name}, {self._where()}, {', '.join(values)})"

    def _where(self) -> str:
        """The place of a slot's run."""
        line, runs = (f"({self.deep})", self.fast) if self.turned else (f"({self.near})", 4)
        turned = f"{line} % 8" if self.turned else f"{line} // 2 % 4"
        return f"uintp(arriving * {4 * self.size} + {line} * {runs} + ({self.place} ^ {turned}))"

    def lane(self, begin: str) -> str:
        """The place of the first line whose address a thread gives, for a warp whose share begins at row or column
        `begin`.
        """
        line, run = f"lane % {self.together}", f"lane // {self.together}"
        if self.turned:
            return f"({run} * 8 + lane % 8) * {self.fast} + ({begin} // 8 + {line} // 8 ^ lane % 8)"
        return f"({begin} + {line}) * 4 + ({run} ^ lane % 8 // 2)"

    def words(self, group: int, step: int = 0) -> str:
        """Four words from the group-th 16 rows in a warp's share for one step, or from the group-th 8 columns for
        both.
        """
        moved, added = (
            (self.together // 8 * group, 16 * self.fast * step)
            if self.turned
            else (2 * step, 4 * self.together * group)
        )
        return (
            f"load_{'turned' if self.turned else 'matrices'}({self.name}, ({self.name}_from ^ uintp({moved})) + "
            f"uintp({added}))"
        )

    def _within(self, r: object) -> str:
        """Whether the r-th element of a run is in the matrix."""
        return (
            f"(near + {r} < {self.name}_near) & (deep < steps)"
            if self.turned
            else f"(near < {self.name}_near) & (deep + {r} < steps)"
        )


def choose(numbers: Layout, rows: int, columns: int, batches: int, exact: bool = True) -> Tile:
    """The tile for a product of matrices like `numbers`: of 16-bit floats one of tensor cores, the great one where
    there is enough work for it.

    So of float32, rounded to tf32, where the product need not be `exact` and the user wants less precision.
    """
    backend, dtype = numbers.device.backend, numbers.dtype
    rounded = dtype is float32 and not exact and precision != "highest" and backend.tensor_cores()
    if dtype.compute is dtype and not rounded:
        return block.choose(rows, columns, batches, numbers.storage.itemsize, backend.SIMULATED)
    # 128 x 128 by 256 threads, 64 x 64 by 128
    great, small = (
        WarpTile(*sizes, _LINE // numbers.storage.itemsize, "tf32" if rounded else dtype.name)
        for sizes in ((2, 4, 64, 32), (2, 2, 32, 32))
    )
    return great if block.suits(great, small, batches, rows, columns) else small
