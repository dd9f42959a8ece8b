"""Matrix products: batched `matmul` and `linear`.

Shapes of one dimension and their squeezing are the caller's (`core.functions`).

Products of floats are made of register tiles (`product_tiles`), those with a vector read the matrix once
(`product_vectors`); here stand the plain loops of the smallest, of integers and of matrices that lie anyhow, and which
kernel does which product.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, block, build, emit, tensor_cores
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.specialize import specialized
from .linear_backward import joined
from ..op import Op, Packing, Plan, on_tensor_cores, single_device
from .split_k import BUSY, divisor, in_parts
from ..pointwise import broadcast_shapes
from .tiled import finished, panel_packer, takes_panels, tiled
from .gemv import vector_product

_RUN = 256  # terms that a block of GPU threads sums at least
# matrices in a batch, and rows and columns of each, for which a kernel of their sizes is worth compiling
_MANY, _LITTLE = 64, 8


def product_rows(a, b, out, bias, batches, rows, columns, inner, a_batch, a_row, b_batch, b_row):
    """out (batches, rows, columns) = bias (columns or none) + a (rows, inner; steps a_row, 1) @ b (inner, columns;
    steps b_row, 1), a row at a time.
    """
    for task in parallel_range(batches * rows):
        place = int64(task)
        batch = place // rows
        a_base = batch * a_batch + (place % rows) * a_row
        b_base = batch * b_batch
        base = place * columns
        if bias.size > 0:
            for j in range(columns):
                out[uintp(base + j)] = bias[uintp(j)]
        else:
            for j in range(columns):
                out[uintp(base + j)] = 0
        for k in range(inner):
            value = a[uintp(a_base + k)]
            for j in range(columns):
                out[uintp(base + j)] += value * b[uintp(b_base + k * b_row + j)]


def product_dots(a, b, out, bias, batches, rows, columns, inner, a_batch, a_row, b_batch, b_column):
    """The same where b steps by 1 along `inner` (a transposed matrix): a dot product per element."""
    for task in parallel_range(batches * rows):
        place = int64(task)
        batch = place // rows
        a_base = batch * a_batch + (place % rows) * a_row
        for j in range(columns):
            b_base = batch * b_batch + j * b_column
            total = a.dtype.type(0)
            for k in range(inner):
                total += a[uintp(a_base + k)] * b[uintp(b_base + k)]
            out[uintp(place * columns + j)] = total + bias[uintp(j)] if bias.size > 0 else total


def product_strided(a, b, out, bias, batches, rows, columns, inner, a_batch, a_row, a_column, b_batch, b_row, b_column):
    """The same for any steps, each element by itself."""
    for task in parallel_range(batches * rows * columns):
        place = int64(task)
        j = place % columns
        i = (place // columns) % rows
        batch = place // (columns * rows)
        a_base = batch * a_batch + i * a_row
        b_base = batch * b_batch + j * b_column
        total = a.dtype.type(0)
        for k in range(inner):
            total += a[uintp(a_base + k * a_column)] * b[uintp(b_base + k * b_row)]
        out[uintp(place)] = total + bias[uintp(j)] if bias.size > 0 else total


def _blocks(
    name: str, a: Layout, b: Layout, sizes: tuple[int, ...], a_steps: tuple[int, ...], b_steps: tuple[int, ...]
) -> tuple[Callable, tuple]:
    """Launcher and constants of the GPU's product, by blocks of threads, for a batch of at most two dimensions with
    these steps. One with too few tiles to occupy it is a batch of runs of terms.
    """
    (rows, inner), columns, number, batches = a.shape[-2:], b.shape[-1], a.storage.name, prod(sizes)
    (a_run, a_batch), (b_run, b_batch) = ((0,) * (2 - len(each)) + tuple(each) for each in (a_steps, b_steps))
    most = max(inner // (4 if a.device.backend.SIMULATED else _RUN), 1) if batches == 1 else 1
    orders = _order(a.strides[-1], a.strides[-2]), _order(b.strides[-2], b.strides[-1])
    tile = tensor_cores.choose(a, rows, columns, batches * most, exact=False)
    parts = divisor(inner, min(BUSY // block.tiles(tile, batches, rows, columns), most))
    if parts > 1:
        sizes, batches, inner = (parts,), parts, inner // parts
        a_batch, b_batch = inner * a.strides[-1], inner * b.strides[-2]
    constants = (
        batches,
        rows,
        columns,
        inner,
        sizes[-1],
        a_run,
        a_batch,
        *a.strides[-2:],
        b_run,
        b_batch,
        *b.strides[-2:],
    )
    summed = number if parts == 1 else a.dtype.compute.storage
    signature = bind.signature(number, number, summed, number, numbers=len(constants))
    team = block.tiles(tile, batches, rows, columns), tile.threads
    runs = batches // sizes[-1]
    ends = ((a_run, a_batch, rows, inner, a), (b_run, b_batch, inner, columns, b))
    most = max(
        runs * run + sizes[-1] * step + down * each.strides[-2] + across * each.strides[-1]
        for run, step, down, across, each in ends
    )
    product = block.matrices(*orders, "int32" if most < block.SHORT else "int64", tile)
    source = block.source(product, tile, number, rounded=parts == 1)
    run = bind.launcher(
        a.device, f"{name}_blocks", source, signature, a.dtype, batches * rows * columns * inner // 4, team=team
    )
    nothing = a.device.empty(0, a.storage)
    if parts == 1:
        return run, (nothing, *constants)
    return in_parts(run, constants, layout((rows, columns), a.dtype, a.device), parts), (nothing,)


def _order(inner: int, outer: int) -> str:
    """Along which index a matrix's memory runs, by its steps: "inner", "outer", or "neither"."""
    return "inner" if inner == 1 else "outer" if outer == 1 else "neither"


def _loops(name: str, a: Layout, b: Layout, batches: int, a_batch: int, b_batch: int) -> tuple[Callable, tuple]:
    """Launcher and constants for matrices a and b (last two dimensions) with one batch step each."""
    if a.device.backend.is_gpu:
        return _blocks(name, a, b, (batches,), (a_batch,), (b_batch,))
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    little = batches >= _MANY and max(rows, columns, inner) <= _LITTLE
    fast = (
        None
        if little
        else vector_product(name, a, b, batches, a_batch, b_batch) or tiled(name, a, b, batches, a_batch, b_batch)
    )
    if fast is not None:
        return fast
    (a_row, a_column), (b_row, b_column) = a.strides[-2:], b.strides[-2:]
    constants = (batches, rows, columns, inner, a_batch, a_row)
    if a_column == 1 and b_column == 1:
        function, constants = product_rows, (*constants, b_batch, b_row)
    elif a_column == 1 and b_row == 1:
        function, constants = product_dots, (*constants, b_batch, b_column)
    else:
        function, constants = product_strided, (*constants, a_column, b_batch, b_row, b_column)
    signature = bind.signature(*[a] * 4, numbers=len(constants))
    work = batches * rows * columns * inner // 4
    # LLVM unrolls loops over sizes that it knows
    known = {"rows": rows, "columns": columns, "inner": inner} if little else {}
    source = specialized(function, **{size: np.int64(n) for size, n in known.items()})
    run = bind.launcher(a.device, f"{name}_{function.__name__}", source, signature, a.dtype, work, build.FAST_REDUCTION)
    return run, (a.device.empty(0, a.storage), *constants)  # no bias; `linear` puts its own there


def _product(a: object, b: object, transpose_a: bool, transpose_b: bool) -> object:
    """The op itself on tensors, for its gradients: flags instead of transposed views."""
    return matmul.apply((a, b), (transpose_a, transpose_b))


def _gradient_a(g: object, b: object, transpose_a: bool, transpose_b: bool, layout: Layout) -> object:
    """Of A B with A = a or a.mT: dA = g B.mT, and dA.mT = B g.mT."""
    g, b = (g.unsqueeze(-1), b.unsqueeze(-1)) if b.ndim == 1 else (g, b)
    if layout.ndim == 1:
        return _product(g.unsqueeze(-2), b, False, True).squeeze(-2)
    return _product(b, g, transpose_b, True) if transpose_a else _product(g, b, False, not transpose_b)


def _gradient_b(g: object, a: object, transpose_a: bool, transpose_b: bool, layout: Layout) -> object:
    g = g.unsqueeze(-1) if layout.ndim == 1 else g
    g, a = (g.unsqueeze(-2), a.unsqueeze(-2)) if a.ndim == 1 else (g, a)
    # a sum over all rows, not of products of each matrix
    if layout.ndim <= 2 and g.ndim > 2 and a.ndim == g.ndim and not transpose_a:
        g, a = _rows(g), _rows(a)
    made = _product(g, a, True, transpose_a) if transpose_b else _product(a, g, not transpose_a, False)
    return made.squeeze(-1) if layout.ndim == 1 else made


def _rows(x: object) -> object:
    """A tensor as a matrix of its rows."""
    return x.reshape((prod(x.shape[:-1]), x.shape[-1])) if x.ndim != 2 else x


class Matmul(Op):
    """Batched product, (..., M, K) @ (..., K, N) -> (..., M, N); leading dimensions broadcast; either matrix may be
    given transposed, or be a vector (K).

    Raises RuntimeError for shapes or dtypes that differ.
    """

    takes = "a[*a _]~:buifc b[*b _]~; transpose_a=flag transpose_b=flag"
    inputs, parameters = ("a", "b"), ("transpose_a", "transpose_b")
    gradients = {"a": _gradient_a, "b": _gradient_b}

    def supports_half(self, arguments: tuple, parameters: tuple) -> bool:
        """As `Op.supports_half`."""
        return on_tensor_cores(arguments)

    def factors(self, arguments: tuple, parameters: tuple) -> tuple[Layout, Layout, None]:
        """The matrices as they are multiplied, and no bias."""
        a, b = _matrices(arguments, parameters)
        return _joined_rows(a) if b.ndim == 2 else a, b, None

    def shape(self, arguments: tuple, parameters: tuple) -> tuple[int, ...]:
        """The shape of the product. Raises RuntimeError where the shapes or dtypes of its factors do not fit."""
        a, b = _matrices(arguments, parameters)
        _check("matmul", a, b, b.shape[-2])
        rows, columns = (each[:1] if x.ndim > 1 else () for each, x in zip((a.shape[-2:], b.shape[-1:]), arguments))
        return *broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]]), *rows, *columns

    def prepack(self, arguments: tuple, parameters: tuple) -> Packing | None:
        """Second matrices, of two dimensions, that tiles would turn or pack at every call."""
        a, b, _ = self.factors(arguments, parameters)
        return (
            Packing(1, pack_columns, (parameters[1],), packed_matmul)
            if a.ndim == b.ndim == 2 and takes_panels(a, b)
            else None
        )

    def finished(self, name: str, arguments: tuple, parameters: tuple, *end: object) -> Callable | None:
        """As `Op.finished`.

        None where tiles do not make the product, or the tensors' elements do not follow its rows in equal steps.
        """
        return (
            None
            if arguments[0].ndim == 1 or arguments[1].ndim == 1
            else finished(name, self.factors(arguments, parameters), *end)
        )

    def misfit(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """As `Op.misfit`."""
        wrong = next(
            (
                name
                for name, argument, flag in zip(self.parameters, arguments, parameters)
                if flag and argument.ndim < 2
            ),
            None,
        )
        return wrong and f"attribute {wrong!r} must be False for a vector"

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        out = layout(self.shape(arguments, parameters), arguments[0].dtype, single_device("matmul", arguments))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        a, b, _ = self.factors(arguments, parameters)
        return Plan(out, *_batched(self.name, a, b, broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]])))


def _matrices(arguments: tuple, parameters: tuple) -> tuple[Layout, Layout]:
    """The factors as they are multiplied: transposed where the flags say so, a vector as a row on the left and a column
    on the right.
    """
    a, b = (_transposed(argument) if flag else argument for argument, flag in zip(arguments, parameters))
    a = a if a.ndim > 1 else layout((1, *a.shape), a.dtype, a.device, (a.size * a.strides[0], *a.strides))
    return a, b if b.ndim > 1 else layout((*b.shape, 1), b.dtype, b.device, (*b.strides, 1))


def _transposed(x: Layout) -> Layout:
    """The last two dimensions exchanged."""
    return layout(
        (*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype, x.device, (*x.strides[:-2], x.strides[-1], x.strides[-2])
    )


def _joined_rows(x: Layout) -> Layout:
    """The rows of all matrices as one matrix, where they lie in equal steps."""
    sizes, (steps,) = emit.collapse(x.shape[:-1], [x.strides[:-1]])
    if x.ndim == 2 or x.size == 0 or len(sizes) > 1:
        return x
    return layout((sizes[0], x.shape[-1]), x.dtype, x.device, None if x.dense else (steps[0], x.strides[-1]))


def _batched(name: str, a: Layout, b: Layout, batch: tuple) -> tuple[Callable, tuple]:
    """Our loops over batches: one launch where a single step leads from batch to batch, on a GPU also two, else a
    launch for each.
    """

    def steps(each: Layout) -> list[int]:
        missing = len(batch) - (each.ndim - 2)
        return [0] * missing + [0 if n == 1 else s for n, s in zip(each.shape[:-2], each.strides[:-2])]

    sizes, (a_steps, b_steps) = emit.collapse(batch, [steps(a), steps(b)])
    if a.device.backend.is_gpu:
        inside = min(len(sizes), 2)
        run, constants = _blocks(name, a, b, *(tuple(each[-inside:]) for each in (sizes, a_steps, b_steps)))
    else:
        inside = 1
        run, constants = _loops(name, a, b, sizes[-1], a_steps[-1], b_steps[-1])
    outer = [range(n) for n in sizes[:-inside]]
    each_out = prod(sizes[-inside:]) * a.shape[-2] * b.shape[-1]
    if not outer:
        return run, constants

    def launch(a_data: object, b_data: object, out_data: object) -> None:
        for number, place in enumerate(np.ndindex(*map(len, outer))):
            a_at, b_at = (sum(i * s for i, s in zip(place, step)) for step in (a_steps, b_steps))
            run(a_data[a_at:], b_data[b_at:], out_data[number * each_out :], *constants)

    return launch, ()


class Linear(Op):
    """Dense x (..., in) @ weight (out, in) transposed + bias (out) -> (..., out), of at least two dimensions. bias may
    be None.
    """

    takes = "x[*l i]:buifc weight[o i]~ bias?[o];"
    inputs = ("x", "weight", "bias")
    gradients = {
        "x": lambda g, weight: matmul.apply((g, weight), (False, False)),
        "weight": lambda g, x: matmul.apply((_rows(g), _rows(x)), (True, False)),
        "bias": lambda g: _rows(g).sum(0),
    }
    joint = joined(gradients)
    supports_half, finished = Matmul.supports_half, Matmul.finished

    def factors(self, arguments: tuple, parameters: tuple) -> tuple[Layout, Layout, Layout | None]:
        """The matrices as they are multiplied, and the bias."""
        x, weight, bias = arguments
        return _joined_rows(x), _transposed(weight), bias if isinstance(bias, Layout) else None

    def shape(self, arguments: tuple, parameters: tuple) -> tuple[int, ...]:
        """As `Matmul.shape`."""
        x, weight, bias = arguments
        _check("linear", x, weight, weight.shape[1], "; weight is (out_features, in_features)")
        if isinstance(bias, Layout) and (bias.shape != weight.shape[:1] or bias.dtype is not x.dtype):
            raise RuntimeError(
                f"linear: bias is {tuple(bias.shape)} {bias.dtype}, expected ({weight.shape[0]},) {x.dtype}"
            )
        return *x.shape[:-1], weight.shape[0]

    def prepack(self, arguments: tuple, parameters: tuple) -> Packing | None:
        """Weights that tiles would turn or pack at every call."""
        return (
            Packing(1, pack_columns, (True,), packed_linear)
            if takes_panels(*self.factors(arguments, parameters)[:2])
            else None
        )

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        device = single_device("linear", [argument for argument in arguments if isinstance(argument, Layout)])
        out = layout(self.shape(arguments, parameters), arguments[0].dtype, device)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        x, weight, bias = self.factors(arguments, parameters)
        return Plan(out, *_linear_loops(x, weight, bias is not None))


class PackColumns(Op):
    """The panels, one after the other, in which a product by tiles reads a matrix (inner, columns), or the transpose of
    one. Chosen for the CPU's floats.
    """

    inputs, parameters = ("matrix",), ("transpose",)
    differentiable = portable = False

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (matrix,), (transpose,) = arguments, parameters
        run, constants, size = panel_packer(_transposed(matrix) if transpose else matrix)
        return Plan(layout((size,), matrix.dtype, matrix.device), run, constants)


class Packed:
    """A product that is given its second matrix packed too, by `pack_columns`, and reads that.

    The first has its rows in equal steps.
    """

    takes = None  # on memory packed for this processor, which no file holds

    differentiable = portable = False
    gradients, joint = {}, {}

    def prepack(self, arguments: tuple, parameters: tuple) -> None:
        """Nothing is left to pack."""

    def finished(self, name: str, arguments: tuple, parameters: tuple, *end: object) -> Callable | None:
        """As `Op.finished`."""
        made = finished(name, self.factors(arguments[:-1], parameters), *end, packed=True)
        return made and (lambda given, *rest: made([given[0], given[-1], *given[2:-1]], *rest))

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        a, b, bias = self.factors(arguments[:-1], parameters)
        run, (nothing, *constants) = tiled(self.name, a, b, 1, 0, 0, packed=True)
        out = layout(self.shape(arguments[:-1], parameters), a.dtype, a.device)
        if bias is not None:
            return Plan(
                out, lambda a_data, _, bias_data, packed, out_data: run(a_data, packed, out_data, bias_data, *constants)
            )
        return Plan(out, lambda a_data, _, packed, out_data: run(a_data, packed, out_data, nothing, *constants))


class PackedMatmul(Packed, Matmul):
    """`matmul` of a packed matrix."""

    inputs = (*Matmul.inputs, "packed")


class PackedLinear(Packed, Linear):
    """`linear` of a packed weight."""

    inputs = (*Linear.inputs, "packed")


def _linear_loops(x: Layout, weight: Layout, has_bias: bool) -> tuple[Callable, tuple]:
    run, (no_bias, *constants) = _loops("linear", x, weight, 1, 0, 0)
    if not has_bias:
        return run, (no_bias, *constants)
    return (
        lambda x_data, weight_data, bias_data, out_data: run(x_data, weight_data, out_data, bias_data, *constants)
    ), ()


def _check(name: str, a: Layout, b: Layout, inner: int, hint: str = "") -> None:
    if a.shape[-1] != inner:
        swapped = b.ndim >= 2 and name == "matmul" and b.shape[-1] == a.shape[-1]
        hint = "; did you mean b.mT?" if swapped else hint
        raise RuntimeError(
            f"{name}: inner sizes differ, mat1 and mat2 shapes cannot be multiplied: {tuple(a.shape)} @ "
            f"{tuple(b.shape)}{hint}"
        )
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"{name}: expected m1 and m2 to have the same dtype, but got: {a.dtype} != {b.dtype}; convert one with "
            ".to()"
        )
    if a.dtype is dtypes.bool_:
        raise NotImplementedError(
            f"\"{name}\" not implemented for 'Bool'; convert first, for example with .to(numod.float32)"
        )


matmul = Matmul("matmul")
linear = Linear("linear")
pack_columns, packed_matmul, packed_linear = (
    PackColumns("pack_columns"),
    PackedMatmul("packed_matmul"),
    PackedLinear("packed_linear"),
)
