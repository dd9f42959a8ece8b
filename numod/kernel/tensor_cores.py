"""Tiles of `kernel.block` for tensor cores: a warp multiplies (16, 16) by (16, 8) numbers of 16 bits per instruction.

The instructions and their operands are described in `device.cuda_tensor_cores`. The layout of shared memory:
- `ldmatrix` reads four matrices of eight runs of 16 bytes at the threads' addresses, into the registers that `mma`
  reads: 16 rows for one step, or 8 columns for two. So the inner index advances in order for all tile sizes, and a warp
  reads each word of a slice once.
- A slice is stored as lines of 64 bytes, the inner index innermost: 4 runs of 16 bytes for each row of the left matrix
  and each column of the right. Run c of line o is at c ^ (o / 2 mod 4). Shared memory serves eight threads at a time:
  the same run of eight lines (all reads, and writes of a matrix that is contiguous along the outer index) or the runs
  of two lines (writes of a matrix that is contiguous along the inner index). Both use every bank once.
- A matrix of 16-bit numbers that is contiguous along rows (left) or columns (right) is stored as it is in memory: a
  line for each inner index, with runs of eight rows or columns. `ldmatrix` transposes it. Run c of line k is at c ^ (k
  mod 8): the same run of eight lines (reads) or eight neighbouring runs of one line (writes) use every bank once.
  Neighbouring threads read neighbouring runs of memory.
- Matrices that need no patches and no rounding are copied to shared memory by `cp.async`, two slices ahead, without
  registers. Parts of runs outside the matrix are filled with 0. All runs of a thread have the alignment of its first;
  if that is not aligned, they are read by element.
- ptxas 13.0 for sm_90 gives the large tile 128 registers a thread and 48 KiB shared memory: two blocks on a
  multiprocessor. Of the 160 instructions of a slice within the matrix (sm_80: 140) 32 are `mma`, some four cycles each.
  Offsets of patches take 600 more.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..device import Layout
from ..dtypes import float32
from . import block
from .block import Operand, Side, Tile, indented, assignments

_LINE = 64  # bytes of a row or column in shared memory: four runs of 16
# of float32 products; a change must clear the plans (see `numod.set_float32_matmul_precision`)
precision = "highest"


@dataclass(frozen=True)
class WarpTile(Tile):
    """A block's tile: warps (down, across), results per warp (rows, columns), inner steps per slice.

    `kind` is "float16", "bfloat16" or "tf32".
    """

    kind: str = "float16"

    @property
    def threads(self) -> int:
        """Threads of a block: 32 per warp."""
        return 32 * self.down * self.across

    @property
    def results(self) -> int:
        """Results of a thread."""
        return self.rows * self.columns // 32

    @property
    def thread_columns(self) -> int:
        """Columns of a thread."""
        return self.columns // 4

    @property
    def run(self) -> int:
        """The number of elements in a run of 16 bytes."""
        return self.depth // 4

    def sums(self, number: str) -> str:
        """The type that products of elements are summed in."""
        return "float32"

    def read(self, element: str) -> str:
        """The text that converts an element to the type of sums."""
        return element if self.kind == "tf32" else f"from_{self.kind}({element})"

    def stored(self, value: str) -> str:
        """The text of a result in its storage type."""
        return value if self.kind == "tf32" else f"rounded_{self.kind}({value})"

    def side(self, name: str, operand: Operand, number: str) -> Side:
        return RunSide(name, operand, self, number)

    def declare(self, left: Side, right: Side, number: str, buffers: int) -> list[str]:
        return [
            f"left = shared_array({buffers * 4 * self.height}, complex128, SHARED)",  # elements of 16 bytes
            f"right = shared_array({buffers * 4 * self.width}, complex128, SHARED)",
            "lane, warp = thread % 32, thread // 32",
            f"row, column = warp // {self.across} * {self.rows} + lane // 4, warp % {self.across} * {self.columns} + "
            "lane % 4 * 2",
            f"lane_left = {left.lane(f'warp // {self.across} * {self.rows}')}",
            f"lane_right = {right.lane(f'warp % {self.across} * {self.columns}')}",
        ]

    def multiply(self, left: Side, right: Side) -> list[str]:
        """The lines that multiply one pair of tiles in shared memory."""
        down, across = self.rows // 16, self.columns // 8
        lines = [
            f"left_from = uintp(compute_buffer * {4 * self.height} + lane_left)",
            f"right_from = uintp(compute_buffer * {4 * self.width} + lane_right)",
        ]
        lines += [f"b{j} = {right.words(j)}" for j in range(across)]
        for pair in range(0, down, 2):  # two at a time: there are no registers for more
            operands = [(step, i, f"a{i}_{step}") for step in range(2) for i in (pair, pair + 1)]
            lines += [f"{a} = {left.words(i, step)}" for step, i, a in operands]
            for step, i, a in operands:
                for j in range(across):
                    words = ", ".join(f"{a}[{k}]" for k in range(4))
                    lines.append(
                        f"multiply_{self.kind}(totals, uintp({4 * (i * across + j)}), {words}, b{j}[{2 * step}], "
                        f"b{j}[{2 * step + 1}])"
                    )
        return lines

    def places(self) -> tuple[str, str, str]:
        """A thread's j-th column, its s-th row, and the index of their result."""
        return (
            "column + j // 2 * 8 + j % 2",
            "row + s * 8",
            f"(s // 2 * {self.columns // 8} + j // 2) * 4 + s % 2 * 2 + j % 2",
        )


class RunSide(Side):
    """How a block's threads load a slice of one matrix into shared memory: `slots` runs of 16 bytes per thread.

    Runs are along the inner index or, if `transposed`, along rows (left) or columns (right), as in memory.
    """

    def __init__(self, name: str, operand: Operand, tile: WarpTile, number: str) -> None:
        super().__init__(name, operand, tile, number)
        threads, self.run = tile.threads, tile.run
        self.transposed = operand.order == "outer" and operand.jumps[0] == "1" and tile.kind != "tf32"
        # this many neighbouring threads load neighbouring runs
        self.threads_across = 4 if self.along_inner else self.size // self.run if self.transposed else self.size
        # rows or columns that are read together
        self.slots, self.together = 4 * self.size // threads, 16 if name == "left" else 8
        across, down = (
            f"thread % {self.threads_across}",
            f"thread // {self.threads_across} + slot * {threads // self.threads_across}",
        )
        self.outer_index, self.run_index = (down, across) if self.along_inner else (across, down)
        self.inner_index = f"({self.run_index}) * {self.run}"
        if self.transposed:
            self.outer_index, self.run_index, self.inner_index = f"{across} * {self.run}", across, down
        self.step = threads // self.threads_across * (1 if self.along_inner or self.transposed else self.run)
        if threads % self.threads_across or 4 * self.size % threads:
            raise ValueError(f"a block of {threads} threads cannot share {4 * self.size} runs")
        self.offset_count = self.slots if self.along_inner and not (self.slot_stride and not operand.outer) else 1
        plain = self.slice_stride and not (operand.outer or operand.inside or operand.joint) and tile.kind != "tf32"
        self.copied = bool(plain and (self.along_inner or self.transposed))

    def declare(self) -> list[str]:
        outer_values = [
            f"{self.name}_{value} = cuda.local.array({self.offset_count}, int32)" for value in self.operand.outer
        ]
        at = f"{self.name}_at = cuda.local.array({self.offset_count}, {self.operand.places})"
        return [
            f"{self.name}_registers, {self.name}_run = cuda.local.array({4 * self.slots}, uint32), "
            f"cuda.local.array({self.run}, {self.number})",
            at,
            *outer_values,
        ]

    def prepare(self) -> list[str]:
        """The values that are constant along the inner dimension.

        All runs of a thread have the alignment of its first.
        """
        aligned = (
            [f"{self.name}_aligned = begins_run({self.operand.array}, uintp({self.name}_at[0]))"] if self.copied else []
        )
        return super().prepare() + aligned

    def fetch(self) -> list[str]:
        """Load the slice into registers, or start to copy it; 0 outside the matrix."""
        name, operand, slot_or_0 = self.name, self.operand, "slot" if self.offset_count > 1 else "0"
        terms = [
            f"{name}_at[{slot_or_0}]",
            *([f"slot * {self.step} * {self.slot_stride}"] if self.slot_stride and self.offset_count == 1 else []),
        ]
        terms.append(("r" if self.transposed else f"r * {self.slice_stride}") if self.slice_stride else "k_shift")
        terms += [f"({operand.joint})"] if operand.joint else []
        inside = self._within("r") + (f" & {operand.inside}" if operand.inside else "")
        element = (
            []
            if self.slice_stride
            else [f"k = stage * {self.depth} + inner_at + r", *assignments(operand.inner), f"k_shift = {operand.shift}"]
        )
        read = f"{name}_run[r] = {operand.array}[uintp({operand.places}({' + '.join(terms)}))]"
        words = (
            f"bits32({name}_run[w])"
            if self.run == 4
            else f"uint32({name}_run[2 * w]) | uint32({name}_run[2 * w + 1]) << uint32(16)"
        )
        registers = ", ".join(f"{name}_registers[slot * 4 + {w}]" for w in range(4))
        pack = ["for w in range(4):", f"    {name}_registers[slot * 4 + w] = {words}"]
        lines = [
            f"for r in range({self.run}):",
            *indented([*element, f"{read} if {inside} else {self.number}(0)"]),
            *pack,
        ]
        first = f"{operand.array}, uintp({operand.places}({' + '.join(terms[:-1])}))"
        if self.copied:
            rest, condition = (
                (f"{name}_limit - outer_at", "inner_at < steps")
                if self.transposed
                else ("steps - inner_at", f"outer_at < {name}_limit")
            )
            copy = (
                f"copy_run({name}, {self._run_offset()}, {first}, max(min(int32({rest}), int32({self.run})), int32(0)) "
                f"if {condition} else int32(0))"
            )
            lines = [f"if {name}_aligned:", f"    {copy}", "else:", *indented([*lines, self._store()])]
            copies = [
                f"for slot in range({self.slots}):",
                f"    copy_run({name}, {self._run_offset()}, {first}, int32({self.run}))",
            ]
        elif self.slice_stride:  # most runs are whole
            whole = (
                [f"{registers} = load_run({first})"]
                if self.along_inner
                else [f"for r in range({self.run}):", f"    {read}", *pack]
            )
            lines = [f"if {self._within(self.run - 1)}:", *indented(whole), "else:", *indented(lines)]
        slot = [
            f"outer_at, inner_at = int32({self.outer_index}), int32({self.inner_index})",
            *[f"{value} = {name}_{value}[{slot_or_0}]" for value in operand.outer],
            *lines,
        ]
        lines = [f"for slot in range({self.slots}):", *indented(slot)]
        if self.copied:
            lines = [
                f"if {name}_aligned and {name}_limit == {self.size} and steps == {self.depth}:",
                *indented(copies),
                "else:",
                *indented(lines),
            ]
        return lines + (
            [f"for slot in range({self.offset_count}):", f"    {name}_at[slot] += {self.depth} * {self.slice_stride}"]
            if self.slice_stride
            else []
        )

    def put(self) -> list[str]:
        """Write the registers to the buffer of the slice in shared memory."""
        return [] if self.copied else [f"for slot in range({self.slots}):", f"    {self._store()}"]

    def _store(self) -> str:
        registers = [f"{self.name}_registers[slot * 4 + {w}]" for w in range(4)]
        values = [f"tf32_bits({register})" for register in registers] if self.run == 4 else registers
        return f"store_words({self.name}, {self._run_offset()}, {', '.join(values)})"

    def _run_offset(self) -> str:
        """The index of a slot's run in shared memory."""
        line, runs = (f"({self.inner_index})", self.threads_across) if self.transposed else (f"({self.outer_index})", 4)
        swizzle = f"{line} % 8" if self.transposed else f"{line} // 2 % 4"
        return f"uintp(load_buffer * {4 * self.size} + {line} * {runs} + ({self.run_index} ^ {swizzle}))"

    def lane(self, begin: str) -> str:
        """The index of the first run that a thread addresses, for a warp whose tile begins at row or column `begin`."""
        line, run = f"lane % {self.together}", f"lane // {self.together}"
        if self.transposed:
            return f"({run} * 8 + lane % 8) * {self.threads_across} + ({begin} // 8 + {line} // 8 ^ lane % 8)"
        return f"({begin} + {line}) * 4 + ({run} ^ lane % 8 // 2)"

    def words(self, group: int, step: int = 0) -> str:
        """Four words: of 16 rows for one step, or of 8 columns for both; `group` counts them within the warp's tile."""
        step_offset, group_offset = (
            (self.together // 8 * group, 16 * self.threads_across * step)
            if self.transposed
            else (2 * step, 4 * self.together * group)
        )
        load = "load_matrices_transposed" if self.transposed else "load_matrices"
        return f"{load}({self.name}, ({self.name}_from ^ uintp({step_offset})) + uintp({group_offset}))"

    def _within(self, r: object) -> str:
        """The condition that the r-th element of a run is in the matrix."""
        return (
            f"(outer_at + {r} < {self.name}_limit) & (inner_at < steps)"
            if self.transposed
            else f"(outer_at < {self.name}_limit) & (inner_at + {r} < steps)"
        )


def choose(numbers: Layout, rows: int, columns: int, batches: int, exact: bool = True) -> Tile:
    """The tile for a product of matrices like `numbers`: for 16-bit floats a tensor-core tile, large if it suits.

    float32 is rounded to tf32 if the product need not be `exact` and the user has lowered the matmul precision.
    """
    backend, dtype = numbers.device.backend, numbers.dtype
    rounded = dtype is float32 and not exact and precision != "highest" and backend.tensor_cores()
    if dtype.compute is dtype and not rounded:
        return block.choose(rows, columns, batches, numbers.storage.itemsize, backend.SIMULATED)
    # 128 x 128 by 256 threads, 64 x 64 by 128
    large, small = (
        WarpTile(*sizes, _LINE // numbers.storage.itemsize, "tf32" if rounded else dtype.name)
        for sizes in ((2, 4, 64, 32), (2, 2, 32, 32))
    )
    return large if block.suits(large, small, batches, rows, columns) else small
