"""The part of matrices between two diagonals, and the indices of the elements of a triangle.

The number of a diagonal is column - row.
"""

from __future__ import annotations

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.scalar import scalar
from ...kernel.specialize import specialized
from ..op import Op, Plan


def band_rows(x, out, rows, m, n, low, high):
    """out (rows, n) = x where low <= column - row <= high, else 0. Matrices have m rows each.

    Each task computes a row.
    """
    for task in parallel_range(rows):
        index = int64(task)
        base, row = index * n, index % m
        first = min(max(row + low, 0), n)
        last = min(max(row + high + 1, first), n)
        for j in range(base, base + first):
            out[uintp(j)] = 0
        for j in range(base + first, base + last):
            out[uintp(j)] = x[uintp(j)]
        for j in range(base + last, base + n):
            out[uintp(j)] = 0


def band_elements(x, out, rows, m, n, low, high):
    """As `band_rows`, with one GPU thread per element, which coalesces loads and stores."""
    for task in parallel_range(rows * n):
        index = int64(task)
        diagonal = index % n - index // n % m
        out[uintp(index)] = x[uintp(index)] if (diagonal >= low) & (diagonal <= high) else 0


@scalar
def elements_of_triangle(rows, columns):
    """The number of elements in `rows` rows of 1, 2, 3, ... elements, at most `columns` each; 0 if rows <= 0."""
    full_rows = min(max(rows, 0), columns)
    return full_rows * (full_rows + 1) // 2 + (max(rows, 0) - full_rows) * columns


def triangle_kernel(out, rows, columns, offset, upper, count):
    """out (2, count) = rows and columns of the elements up to the diagonal `offset`, or if `upper`, beyond it.

    Each task computes a row.
    """
    for task in parallel_range(rows):
        row = int64(task)
        limit = min(max(row + offset + 1, 0), columns)
        index = elements_of_triangle(offset + row, columns) - elements_of_triangle(offset, columns)
        index = row * columns - index if upper else index
        for column in range(limit if upper else 0, columns if upper else limit):
            out[uintp(index)] = row
            out[uintp(count + index)] = column
            index += 1


class Band(Op):
    """Dense matrices (..., M, N) with 0 outside of the diagonals from `low` to `high`. The gradient is masked alike."""

    takes = "x[*b m n]:buifc; low=int high=int"
    inputs, attributes, upcasts_half = ("x",), ("low", "high"), False
    gradients = {"x": lambda g, low, high: band.apply((g.contiguous(),), (low, high))}

    def prepare(self, arguments: tuple[Layout], attributes: tuple) -> Plan:
        (x,) = arguments
        out = layout(tuple(x.shape), x.dtype, x.device)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        m, n = x.shape[-2:]
        kernel = band_elements if x.device.backend.is_gpu else band_rows
        launch = bind.launcher(
            x.device, self.name, specialized(kernel), bind.signature(x, x, numbers=5), x.dtype, x.size
        )
        return Plan(out, launch, (x.size // n, m, n, *(min(max(attribute, -m), n) for attribute in attributes)))


class Triangle(Op):
    """Indices (2, count) of the elements of a matrix up to a diagonal, or if `upper`, beyond it, row by row.

    The attributes are dtype, device, rows, columns, diagonal and `upper`.
    """

    takes = "; dtype=dtype device=device rows=0.. columns=0.. diagonal=int upper=flag"
    attributes, gradients, differentiable = ("dtype", "device", "rows", "columns", "diagonal", "upper"), {}, False

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        return None if attributes[0].kind in "ui" else f"attribute 'dtype' must be of integers, got {attributes[0]}"

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        dtype, device, rows, columns, offset, upper = attributes
        offset = min(max(offset, -rows - 1), columns)
        count = elements_of_triangle(offset + rows, columns) - elements_of_triangle(offset, columns)
        count = rows * columns - count if upper else count
        out = layout((2, count), dtype, device)
        if count == 0:
            return Plan(out, lambda *_: None)
        launch = bind.launcher(
            device, self.name, specialized(triangle_kernel), bind.signature(dtype, numbers=5), dtypes.float64, 2 * count
        )
        return Plan(out, launch, (rows, columns, offset, int(upper), count))


band, triangle = Band("band"), Triangle("triangle_indices")
