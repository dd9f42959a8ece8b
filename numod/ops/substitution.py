"""X with A X = B for triangular A, by forward or backward substitution. Dense batches: A (..., N, N), B (..., N, K). Its gradient is in `factorization_gradients`."""

from __future__ import annotations

from ..device import Layout
from ..device.layout import layout
from ..kernel import bind
from .op import Op, Plan, single_device

_COLUMNS = 64  # right-hand sides a task has on the CPU: 512 rows of them stay in the second cache


def substitution_kernel(a, b, out, matrices, n, columns, upper, unit, width, blocks):
    """out (matrices, n, columns) with a (matrices, n, n) @ out = b (matrices, n, columns); a task has one of `blocks` runs of `width` columns."""
    for task in parallel_range(matrices * blocks):
        matrix, first = int64(task) // blocks * n, int64(task) % blocks * width
        last = min(first + width, columns)
        for step in range(n):
            i = n - 1 - step if upper else step
            row, target = (matrix + i) * n, (matrix + i) * columns
            known, end = (i + 1 if upper else 0), (n if upper else i)
            if width == 1:  # in a register
                total = b[uintp(target + first)]
                for j in range(known, end):
                    total -= a[uintp(row + j)] * out[uintp((matrix + j) * columns + first)]
                out[uintp(target + first)] = total if unit else total / a[uintp(row + i)]
            else:
                for k in range(first, last):
                    out[uintp(target + k)] = b[uintp(target + k)]
                for j in range(known, end):
                    factor, source = a[uintp(row + j)], (matrix + j) * columns
                    for k in range(first, last):
                        out[uintp(target + k)] -= factor * out[uintp(source + k)]
                if not unit:
                    pivot = a[uintp(row + i)]
                    for k in range(first, last):
                        out[uintp(target + k)] = out[uintp(target + k)] / pivot


class Substitution(Op):
    """X of the inputs A and B, whose batches are equal; parameters: whether A is `upper`, and whether its diagonal counts as ones. The other triangle is not read."""

    inputs, parameters = ("a", "b"), ("upper", "unit")

    def prepare(self, arguments: tuple[Layout, Layout], parameters: tuple) -> Plan:
        a, b = arguments
        out = layout(tuple(b.shape), b.dtype, single_device(self.name, [a, b]))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        n, columns = b.shape[-2:]
        width, array = 1 if b.device.backend.FLAT else min(columns, _COLUMNS), f"{b.storage.name}[]"
        launch = bind.launcher(b.device, self.name, bind.source_of(substitution_kernel), f"{array}, {array}, {array}" + 7 * ", int64", b.dtype, n * b.size)
        return Plan(out, launch, (b.size // (n * columns), n, columns, *map(int, parameters), width, -(-columns // width)))


solve_triangular: Substitution = Substitution("solve_triangular")
