"""X with A X = B for triangular A, by forward or backward substitution. Dense batches: A (..., N, N), B (..., N, K). Its gradient is in
`factorization_gradients`."""

from __future__ import annotations

from ..device import Layout
from ..device.layout import layout
from ..kernel import bind, build
from .op import Op, Plan, single_device

_COLUMNS = 128  # right-hand sides a task has on the CPU: 512 rows of them stay in the second cache


def substitution_kernel(a, b, out, matrices, n, columns, upper, unit, width, blocks):
    """out (matrices, n, columns) with a (matrices, n, n) @ out = b (matrices, n, columns); a task has one of `blocks` runs of `width` columns.

    A few columns are sums in registers. Of more, four rows that are known are subtracted at a time, from each of the next four, so that they are read less
    often.
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
                out[uintp((matrix + i) * columns + first)] = total if unit else total / pivot
        else:
            for done in range(0, n, 4):
                rows = min(int64(4), n - done)
                top = n - done - rows if upper else done
                for i in range(top, top + rows):
                    target = (matrix + i) * columns
                    for k in range(first, last):
                        out[uintp(target + k)] = b[uintp(target + k)]
                for past in range(0, done, 4):
                    j = n - 4 - past if upper else past
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
                            out[uintp(target + k)] = total / pivot


class Substitution(Op):
    """X of the inputs A and B, whose batches are equal; parameters: whether A is `upper`, and whether its diagonal counts as ones. The other triangle is not
    read."""

    inputs, parameters = ("a", "b"), ("upper", "unit")

    def prepare(self, arguments: tuple[Layout, Layout], parameters: tuple) -> Plan:
        a, b = arguments
        out = layout(tuple(b.shape), b.dtype, single_device(self.name, [a, b]))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        n, columns = b.shape[-2:]
        width, signature = 1 if b.device.backend.FLAT else min(columns, _COLUMNS), bind.signature(b, b, b, numbers=7)
        source = bind.source_of(substitution_kernel)
        if b.dtype.is_complex:  # of which Numba's quotient raises an error where the divisor is 0
            source = source.replace("total / pivot", "complex_quotient(total, pivot)")
        launch = bind.launcher(b.device, self.name, source, signature, b.dtype, n * b.size, build.FAST_REDUCTION)
        return Plan(out, launch, (b.size // (n * columns), n, columns, *map(int, parameters), width, -(-columns // width)))


solve_triangular: Substitution = Substitution("solve_triangular")
