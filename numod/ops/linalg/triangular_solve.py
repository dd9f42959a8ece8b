"""Solve A X = B for triangular A by forward or backward substitution.

Dense batches: A (..., N, N), B (..., N, K). The gradient is in `gradients`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, build
from ...kernel.language import cuda, int64, parallel_range, SHARED, shared_array, uintp
from ...kernel.library.complexes import complex_quotient
from ...kernel.specialize import has, specialized
from ..reduce import block_reduce
from ..op import Op, Plan, single_device
from .tril_triu import band

_COLUMNS = 128  # right-hand sides per task on the CPU: 512 rows of them fit the L2 cache


def substitution_kernel(a, b, out, matrices, n, columns, upper, unit, width, blocks, *, ratio):
    """Solve a (matrices, n, n) @ out = b for out (matrices, n, columns).

    Each task solves one of `blocks` runs of `width` columns.

    A single column is a sum in a register. With more columns, four solved rows at a time are subtracted from each of
    the next four, so that they are read less often.
    """
    for task in parallel_range(matrices * blocks):
        matrix, first = int64(task) // blocks * n, int64(task) % blocks * width
        last = min(first + width, columns)
        if width == 1:
            for step in range(n):
                i = n - 1 - step if upper else step
                row, total = (matrix + i) * n, b[uintp((matrix + i) * columns + first)]
                if columns == 1:
                    for j in range(i + 1 if upper else 0, n if upper else i):
                        total -= a[uintp(row + j)] * out[uintp(matrix + j)]
                else:
                    for j in range(i + 1 if upper else 0, n if upper else i):
                        total -= a[uintp(row + j)] * out[uintp((matrix + j) * columns + first)]
                pivot = a[uintp(row + i)]
                out[uintp((matrix + i) * columns + first)] = total if unit else ratio(total, pivot)
        else:
            for solved in range(0, n, 4):
                rows = min(int64(4), n - solved)
                top = n - solved - rows if upper else solved
                for i in range(top, top + rows):
                    target = (matrix + i) * columns
                    for k in range(first, last):
                        out[uintp(target + k)] = b[uintp(target + k)]
                for solved_row in range(0, solved, 4):
                    j = n - 4 - solved_row if upper else solved_row
                    source = (matrix + j) * columns
                    for i in range(top, top + rows):
                        row, target = (matrix + i) * n + j, (matrix + i) * columns
                        f0, f1, f2, f3 = a[uintp(row)], a[uintp(row + 1)], a[uintp(row + 2)], a[uintp(row + 3)]
                        for k in range(first, last):
                            out[uintp(target + k)] -= (
                                f0 * out[uintp(source + k)] + f1 * out[uintp(source + columns + k)]
                                + f2 * out[uintp(source + 2 * columns + k)] + f3 * out[uintp(source + 3 * columns + k)]
                            )  # fmt: skip
                for step in range(rows):
                    i = top + rows - 1 - step if upper else top + step
                    row, target = (matrix + i) * n, (matrix + i) * columns
                    for j in range(i + 1 if upper else top, top + rows if upper else i):
                        factor, source = a[uintp(row + j)], (matrix + j) * columns
                        for k in range(first, last):
                            out[uintp(target + k)] -= factor * out[uintp(source + k)]
                    if not unit:
                        pivot = a[uintp(row + i)]
                        for k in range(first, last):
                            total = out[uintp(target + k)]
                            out[uintp(target + k)] = ratio(total, pivot)


def corner_kernel(a, out, tasks, parts, n, columns, upper, unit, first, last, *, GROUPS, LANES, NUMBER, ratio):
    """Solve rows `first` to `last` of out (matrices, n, columns), from which the solved rows are subtracted already.

    A block keeps LANES columns of these rows and the corner of a in shared memory. All its threads subtract a solved
    row from the others.
    """
    corner = shared_array(LANES * LANES, NUMBER, SHARED)
    tile = shared_array(LANES * LANES, NUMBER, SHARED)
    thread = int64(cuda.threadIdx.x)
    lane, group, width = thread % LANES, thread // LANES, last - first
    for task in range(int64(cuda.blockIdx.x), tasks, int64(cuda.gridDim.x)):
        matrix, column = int64(task) // parts * n, int64(task) % parts * LANES + lane
        for i in range(group, width, GROUPS):
            if column < columns:
                tile[uintp(i * LANES + lane)] = out[uintp((matrix + first + i) * columns + column)]
            if (lane < width) & ((lane >= i) if upper else (lane <= i)):
                corner[uintp(i * LANES + lane)] = a[uintp((matrix + first + i) * n + first + lane)]
        cuda.syncthreads()
        for step in range(width):
            k = width - 1 - step if upper else step
            total, pivot = (
                tile[uintp(k * LANES + lane)] if column < columns else NUMBER(0),
                NUMBER(1) if unit else corner[uintp(k * LANES + k)],
            )
            solution = total if unit else ratio(total, pivot)
            for i in range(group if upper else k + 1 + group, k if upper else width, GROUPS):
                if column < columns:
                    tile[uintp(i * LANES + lane)] -= corner[uintp(i * LANES + k)] * solution
            if (group == k % GROUPS) & (column < columns):
                out[uintp((matrix + first + k) * columns + column)] = solution
            cuda.syncthreads()


def remaining_kernel(a, out, total, n, columns, first, last, top, rows):
    """Subtract the contributions of rows `first` to `last` from `rows` rows of out, from `top` on."""
    for task in parallel_range(total):
        matrix, column = int64(task) // (rows * columns) * n, int64(task) % columns
        i = matrix + top + int64(task) // columns % rows
        value = out[uintp(i * columns + column)]
        for j in range(first, last):
            value -= a[uintp(i * n + j)] * out[uintp((matrix + j) * columns + column)]
        out[uintp(i * columns + column)] = value


class Substitution(Op):
    """X with A X = B, for equal batches. `upper`: A is upper triangular. `unit`: its diagonal counts as ones. The other
    triangle is not read.
    """

    takes = "a[*b n n]:fc b[*b n _]; upper=flag unit=flag"
    inputs, attributes = ("a", "b"), ("upper", "unit")

    def prepare(self, arguments: tuple[Layout, Layout], attributes: tuple) -> Plan:
        a, b = arguments
        out = layout(tuple(b.shape), b.dtype, single_device(self.name, [a, b]))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        n, columns = b.shape[-2:]
        if b.device.backend.is_gpu and n > block_reduce.panel_columns(b):
            return Plan(out, self._launch_by_blocks(b, *map(int, attributes)))
        width, signature = 1 if b.device.backend.is_gpu else min(columns, _COLUMNS), bind.signature(b, b, b, numbers=7)
        launch = bind.launcher(
            b.device,
            self.name,
            specialized(typed(substitution_kernel, b)),
            signature,
            b.dtype,
            n * b.size,
            build.FAST_REDUCTION,
        )
        return Plan(
            out, launch, (b.size // (n * columns), n, columns, *map(int, attributes), width, -(-columns // width))
        )

    def _launch_by_blocks(self, b: Layout, upper: int, unit: int) -> Callable:
        """The launch on a GPU: solve a block of rows, then subtract it from the remaining rows at once."""
        n, columns = b.shape[-2:]
        matrices, block = b.size // (n * columns), block_reduce.panel_columns(b)
        parts = -(-columns // block)
        blocks = [(first, min(first + block, n)) for first in range(0, n, block)][:: -1 if upper else 1]
        solve = block_reduce.panel(
            b, f"{self.name}_corner", typed(corner_kernel, b), bind.signature(b, b, numbers=8), matrices * parts
        )
        subtract = bind.launcher(
            b.device,
            f"{self.name}_remaining",
            specialized(typed(remaining_kernel, b)),
            bind.signature(b, b, numbers=7),
            b.dtype,
            b.size,
        )
        copy = band.prepare((layout((matrices, n, columns), b.dtype, b.device),), (-n, columns))

        def launch(a_data: object, b_data: object, out_data: object) -> None:
            copy.launch(b_data, out_data, *copy.constants)
            for first, last in blocks:
                solve(a_data, out_data, matrices * parts, parts, n, columns, upper, unit, first, last)
                top, rows = (0, first) if upper else (last, n - last)
                if rows:
                    subtract(a_data, out_data, matrices * rows * columns, n, columns, first, last, top, rows)

        return launch


def plain_ratio(x, y):
    """x / y"""
    return x / y


def typed(kernel: Callable, a: Layout) -> Callable:
    """A kernel for the dtype of `a`. Numba's complex quotient raises for a divisor of 0, so it is not used."""
    types = {"NUMBER": a.storage, "ratio": complex_quotient if a.dtype.is_complex else plain_ratio}
    return partial(kernel, **{name: value for name, value in types.items() if has(kernel, name)})


solve_triangular: Substitution = Substitution("solve_triangular")
