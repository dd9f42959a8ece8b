"""Matrix products: batched `matmul` and `linear`.

The caller (`core.functions`) adds and removes dimensions of vectors.

Floating-point products use register tiles (`tiled`), products with a vector read the matrix once (`gemv`). This module
selects the kernel, and has the plain loops for tiny products, integers and arbitrary strides.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, block, block_products, build, emit, tensor_cores
from ...kernel.any_size import for_all_sizes
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.specialize import specialized
from .linear_backward import joint_gradients
from ..op import Op, Packing, Plan, on_tensor_cores, single_device
from .split_k import FULL_GPU_BLOCKS, divisor, launch_in_parts
from ..pointwise import broadcast_shapes
from .tiled import tiled_with_epilogue, panel_packer, takes_panels, tiled
from .gemv import vector_product

_MIN_TERMS = 256  # least terms of a sum of a thread block
# least matrices in a batch, and greatest size of each, for which a kernel with constant sizes pays
_MIN_BATCH, _MAX_BATCH_SIZE = 64, 8


def product_rows(a, b, out, bias, batches, rows, columns, inner, a_batch, a_row, b_batch, b_row):
    """out (batches, rows, columns) = bias (columns or none) + a (rows, inner; steps a_row, 1) @ b (inner, columns;
    steps b_row, 1), a row at a time.
    """
    for task in parallel_range(batches * rows):
        index = int64(task)
        batch = index // rows
        a_base = batch * a_batch + (index % rows) * a_row
        b_base = batch * b_batch
        base = index * columns
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
    """As `product_rows`, for b (inner, columns; steps 1, b_column), a transposed matrix: a dot product per element."""
    for task in parallel_range(batches * rows):
        index = int64(task)
        batch = index // rows
        a_base = batch * a_batch + (index % rows) * a_row
        for j in range(columns):
            b_base = batch * b_batch + j * b_column
            total = a.dtype.type(0)
            for k in range(inner):
                total += a[uintp(a_base + k)] * b[uintp(b_base + k)]
            out[uintp(index * columns + j)] = total + bias[uintp(j)] if bias.size > 0 else total


def product_strided(a, b, out, bias, batches, rows, columns, inner, a_batch, a_row, a_column, b_batch, b_row, b_column):
    """As `product_rows`, for any steps, element by element."""
    for task in parallel_range(batches * rows * columns):
        index = int64(task)
        j = index % columns
        i = (index // columns) % rows
        batch = index // (columns * rows)
        a_base = batch * a_batch + i * a_row
        b_base = batch * b_batch + j * b_column
        total = a.dtype.type(0)
        for k in range(inner):
            total += a[uintp(a_base + k * a_column)] * b[uintp(b_base + k * b_row)]
        out[uintp(index)] = total + bias[uintp(j)] if bias.size > 0 else total


def _gpu_product(
    name: str, a: Layout, b: Layout, sizes: tuple[int, ...], a_steps: tuple[int, ...], b_steps: tuple[int, ...]
) -> tuple[Callable, tuple]:
    """Launcher and constants of a GPU product by thread blocks, for a batch of up to two dimensions with these steps.

    A product with too few tiles to occupy the GPU is split along `inner` (`split_k`).
    """
    (rows, inner), columns, number, batches = a.shape[-2:], b.shape[-1], a.storage.name, prod(sizes)
    (a_run, a_batch), (b_run, b_batch) = ((0,) * (2 - len(factor)) + tuple(factor) for factor in (a_steps, b_steps))
    limit = max(inner // (4 if a.device.backend.SIMULATED else _MIN_TERMS), 1) if batches == 1 else 1
    orders = _memory_order(a.strides[-1], a.strides[-2]), _memory_order(b.strides[-2], b.strides[-1])
    tile = tensor_cores.choose(a, rows, columns, batches * limit, exact=False)
    parts = divisor(inner, min(FULL_GPU_BLOCKS // block.tiles(tile, batches, rows, columns), limit))
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
    sum_storage = number if parts == 1 else a.dtype.compute.storage
    signature = bind.signature(number, number, sum_storage, number, numbers=len(constants))
    blocks = block.tiles(tile, batches, rows, columns), tile.threads
    runs = batches // sizes[-1]
    ends = ((a_run, a_batch, rows, inner, a), (b_run, b_batch, inner, columns, b))
    limit = max(
        runs * run + sizes[-1] * step + down * factor.strides[-2] + across * factor.strides[-1]
        for run, step, down, across, factor in ends
    )
    product = block_products.matrices(*orders, "int32" if limit < block.OFFSET32_LIMIT else "int64", tile)
    source = block.source(product, tile, number, rounded=parts == 1)
    run = bind.launcher(
        a.device, f"{name}_blocks", source, signature, a.dtype, batches * rows * columns * inner // 4, blocks=blocks
    )
    no_bias = a.device.empty(0, a.storage)
    if parts == 1:
        return run, (no_bias, *constants)
    return launch_in_parts(run, constants, layout((rows, columns), a.dtype, a.device), parts), (no_bias,)


def _memory_order(inner: int, outer: int) -> str:
    """The index along which a matrix is contiguous, by its steps: "inner", "outer" or "neither"."""
    return "inner" if inner == 1 else "outer" if outer == 1 else "neither"


def _product_kernel(
    name: str, a: Layout, b: Layout, batches: int, a_batch: int, b_batch: int
) -> tuple[Callable, tuple]:
    """Launcher and constants for matrices a and b (last two dimensions) with one batch step each."""
    if a.device.backend.is_gpu:
        return _gpu_product(name, a, b, (batches,), (a_batch,), (b_batch,))
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    is_tiny = batches >= _MIN_BATCH and max(rows, columns, inner) <= _MAX_BATCH_SIZE and not for_all_sizes.get()
    tiled_or_vector = (
        None
        if is_tiny
        else vector_product(name, a, b, batches, a_batch, b_batch) or tiled(name, a, b, batches, a_batch, b_batch)
    )
    if tiled_or_vector is not None:
        return tiled_or_vector
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
    # LLVM unrolls loops over constant sizes
    constant_sizes = {"rows": rows, "columns": columns, "inner": inner} if is_tiny else {}
    source = specialized(function, **{size: np.int64(n) for size, n in constant_sizes.items()})
    run = bind.launcher(a.device, f"{name}_{function.__name__}", source, signature, a.dtype, work, build.FAST_REDUCTION)
    return run, (a.device.empty(0, a.storage), *constants)  # no bias; `linear` replaces it


def _product(a: object, b: object, transpose_a: bool, transpose_b: bool) -> object:
    """Apply the op to tensors, for its gradients, with flags instead of transposed views."""
    return matmul.apply((a, b), (transpose_a, transpose_b))


def _gradient_a(g: object, b: object, transpose_a: bool, transpose_b: bool, layout: Layout) -> object:
    """The gradient of A B by A: dA = g B.mT; for A = a.mT, da = B g.mT."""
    g, b = (g.unsqueeze(-1), b.unsqueeze(-1)) if b.ndim == 1 else (g, b)
    if layout.ndim == 1:
        return _product(g.unsqueeze(-2), b, False, True).squeeze(-2)
    return _product(b, g, transpose_b, True) if transpose_a else _product(g, b, False, not transpose_b)


def _gradient_b(g: object, a: object, transpose_a: bool, transpose_b: bool, layout: Layout) -> object:
    """The gradient of A B by B: dB = A.mT g; for B = b.mT, db = g.mT A."""
    g = g.unsqueeze(-1) if layout.ndim == 1 else g
    g, a = (g.unsqueeze(-2), a.unsqueeze(-2)) if a.ndim == 1 else (g, a)
    # one product of all rows, instead of a sum of products
    if layout.ndim <= 2 and g.ndim > 2 and a.ndim == g.ndim and not transpose_a:
        g, a = _as_rows(g), _as_rows(a)
    product = _product(g, a, True, transpose_a) if transpose_b else _product(a, g, not transpose_a, False)
    return product.squeeze(-1) if layout.ndim == 1 else product


def _as_rows(x: object) -> object:
    """A tensor as a matrix of all its rows."""
    return x.reshape((prod(x.shape[:-1]), x.shape[-1])) if x.ndim != 2 else x


class Matmul(Op):
    """Batched product, (..., M, K) @ (..., K, N) -> (..., M, N); leading dimensions broadcast; either matrix may be
    given transposed, or be a vector (K).

    Raises RuntimeError for shapes or dtypes that differ.
    """

    takes = "a[*a _]~:buifc b[*b _]~; transpose_a=flag transpose_b=flag"
    inputs, attributes = ("a", "b"), ("transpose_a", "transpose_b")
    gradients = {"a": _gradient_a, "b": _gradient_b}

    def supports_half(self, arguments: tuple, attributes: tuple) -> bool:
        """See `Op.supports_half`."""
        return on_tensor_cores(arguments)

    def factors(self, arguments: tuple, attributes: tuple) -> tuple[Layout, Layout, None]:
        """The layouts of the factors, with transposes applied, and no bias."""
        a, b = _matrices(arguments, attributes)
        return _with_joined_rows(a) if b.ndim == 2 else a, b, None

    def shape(self, arguments: tuple, attributes: tuple) -> tuple[int, ...]:
        """The shape of the product. Raises RuntimeError if shapes or dtypes of its factors do not fit."""
        a, b = _matrices(arguments, attributes)
        _check_factors("matmul", a, b, b.shape[-2])
        rows, columns = (size[:1] if x.ndim > 1 else () for size, x in zip((a.shape[-2:], b.shape[-1:]), arguments))
        return *broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]]), *rows, *columns

    def prepack(self, arguments: tuple, attributes: tuple) -> Packing | None:
        """Pack a second matrix of two dimensions that tiles would transpose or pack at every call."""
        a, b, _ = self.factors(arguments, attributes)
        return (
            Packing(1, pack_columns, (attributes[1],), packed_matmul)
            if a.ndim == b.ndim == 2 and takes_panels(a, b)
            else None
        )

    def with_epilogue(self, name: str, arguments: tuple, attributes: tuple, *end: object) -> Callable | None:
        """See `Op.with_epilogue`.

        None if the product does not use tiles, or the tensors do not have constant steps along its rows.
        """
        return (
            None
            if arguments[0].ndim == 1 or arguments[1].ndim == 1
            else tiled_with_epilogue(name, self.factors(arguments, attributes), *end)
        )

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        wrong_flag = next(
            (
                name
                for name, argument, flag in zip(self.attributes, arguments, attributes)
                if flag and argument.ndim < 2
            ),
            None,
        )
        return wrong_flag and f"attribute {wrong_flag!r} must be False for a vector"

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        out = layout(self.shape(arguments, attributes), arguments[0].dtype, single_device("matmul", arguments))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        a, b, _ = self.factors(arguments, attributes)
        return Plan(out, *_batched_product(self.name, a, b, broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]])))


def _matrices(arguments: tuple, attributes: tuple) -> tuple[Layout, Layout]:
    """The factors with the transposes of the flags applied, a vector as a row on the left or a column on the right."""
    a, b = (_transposed(argument) if flag else argument for argument, flag in zip(arguments, attributes))
    a = a if a.ndim > 1 else layout((1, *a.shape), a.dtype, a.device, (a.size * a.strides[0], *a.strides))
    return a, b if b.ndim > 1 else layout((*b.shape, 1), b.dtype, b.device, (*b.strides, 1))


def _transposed(x: Layout) -> Layout:
    """Exchange the last two dimensions."""
    return layout(
        (*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype, x.device, (*x.strides[:-2], x.strides[-1], x.strides[-2])
    )


def _with_joined_rows(x: Layout) -> Layout:
    """All matrices as one matrix, if their rows have a constant step."""
    sizes, (steps,) = emit.collapse(x.shape[:-1], [x.strides[:-1]])
    if x.ndim == 2 or x.size == 0 or len(sizes) > 1:
        return x
    return layout((sizes[0], x.shape[-1]), x.dtype, x.device, None if x.dense else (steps[0], x.strides[-1]))


def _batched_product(name: str, a: Layout, b: Layout, batch: tuple) -> tuple[Callable, tuple]:
    """One launch for batch dimensions that collapse into one (on a GPU two), else a loop of launches."""

    def steps(factor: Layout) -> list[int]:
        missing = len(batch) - (factor.ndim - 2)
        any_size = for_all_sizes.get()  # as in `broadcast_strides`
        sizes = zip(factor.shape[:-2], batch[missing:], factor.strides[:-2])
        return [0] * missing + [0 if n == 1 and (wanted > 1 or not any_size) else s for n, wanted, s in sizes]

    sizes, (a_steps, b_steps) = emit.collapse(batch, [steps(a), steps(b)])
    if a.device.backend.is_gpu:
        inner_dims = min(len(sizes), 2)
        run, constants = _gpu_product(
            name, a, b, *(tuple(factor[-inner_dims:]) for factor in (sizes, a_steps, b_steps))
        )
    else:
        inner_dims = 1
        run, constants = _product_kernel(name, a, b, sizes[-1], a_steps[-1], b_steps[-1])
    outer = [range(n) for n in sizes[:-inner_dims]]
    out_size = prod(sizes[-inner_dims:]) * a.shape[-2] * b.shape[-1]
    if not outer:
        return run, constants

    def launch(a_data: object, b_data: object, out_data: object) -> None:
        for number, index in enumerate(np.ndindex(*map(len, outer))):
            a_at, b_at = (sum(i * s for i, s in zip(index, step)) for step in (a_steps, b_steps))
            run(a_data[a_at:], b_data[b_at:], out_data[number * out_size :], *constants)

    return launch, ()


class Linear(Op):
    """Dense x (..., in) @ weight (out, in) transposed + bias (out) -> (..., out), of at least two dimensions. bias may
    be None.
    """

    takes = "x[*l i]:buifc weight[o i]~ bias?[o];"
    inputs = ("x", "weight", "bias")
    gradients = {
        "x": lambda g, weight: matmul.apply((g, weight), (False, False)),
        "weight": lambda g, x: matmul.apply((_as_rows(g), _as_rows(x)), (True, False)),
        "bias": lambda g: _as_rows(g).sum(0),
    }
    joint = joint_gradients(gradients)
    supports_half, with_epilogue = Matmul.supports_half, Matmul.with_epilogue

    def factors(self, arguments: tuple, attributes: tuple) -> tuple[Layout, Layout, Layout | None]:
        """The layouts of the factors, the weight transposed, and the bias."""
        x, weight, bias = arguments
        return _with_joined_rows(x), _transposed(weight), bias if isinstance(bias, Layout) else None

    def shape(self, arguments: tuple, attributes: tuple) -> tuple[int, ...]:
        """As `Matmul.shape`."""
        x, weight, bias = arguments
        features = f"; expected {weight.shape[1]} input features, got {x.shape[-1]}"
        _check_factors("linear", x, weight, weight.shape[1], f"{features}; weight is (out_features, in_features)")
        if isinstance(bias, Layout) and (bias.shape != weight.shape[:1] or bias.dtype is not x.dtype):
            raise RuntimeError(
                f"linear: bias is {tuple(bias.shape)} {bias.dtype}, expected ({weight.shape[0]},) {x.dtype}"
            )
        return *x.shape[:-1], weight.shape[0]

    def prepack(self, arguments: tuple, attributes: tuple) -> Packing | None:
        """Pack a weight that tiles would transpose or pack at every call."""
        return (
            Packing(1, pack_columns, (True,), packed_linear)
            if takes_panels(*self.factors(arguments, attributes)[:2])
            else None
        )

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        device = single_device("linear", [argument for argument in arguments if isinstance(argument, Layout)])
        out = layout(self.shape(arguments, attributes), arguments[0].dtype, device)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        x, weight, bias = self.factors(arguments, attributes)
        return Plan(out, *_linear_loops(x, weight, bias is not None))


class PackColumns(Op):
    """Pack a matrix (inner, columns), or its transpose, in panels for a product by tiles. CPU floats only."""

    inputs, attributes = ("matrix",), ("transpose",)
    differentiable = portable = False

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (matrix,), (transpose,) = arguments, attributes
        run, constants, size = panel_packer(_transposed(matrix) if transpose else matrix)
        return Plan(layout((size,), matrix.dtype, matrix.device), run, constants)


class Packed:
    """A product with a further input, the second matrix packed by `pack_columns`, which the kernel reads."""

    takes = None  # the packed layout depends on the processor, so it is not saved in files

    differentiable = portable = False
    gradients, joint = {}, {}

    def prepack(self, arguments: tuple, attributes: tuple) -> None:
        """The matrix is packed already."""

    def with_epilogue(self, name: str, arguments: tuple, attributes: tuple, *end: object) -> Callable | None:
        """See `Op.with_epilogue`."""
        run = tiled_with_epilogue(name, self.factors(arguments[:-1], attributes), *end, packed=True)
        return run and (lambda factors, *others: run([factors[0], factors[-1], *factors[2:-1]], *others))

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        a, b, bias = self.factors(arguments[:-1], attributes)
        run, (no_bias, *constants) = tiled(self.name, a, b, 1, 0, 0, packed=True)
        out = layout(self.shape(arguments[:-1], attributes), a.dtype, a.device)
        if bias is not None:
            return Plan(
                out, lambda a_data, _, bias_data, packed, out_data: run(a_data, packed, out_data, bias_data, *constants)
            )
        return Plan(out, lambda a_data, _, packed, out_data: run(a_data, packed, out_data, no_bias, *constants))


class PackedMatmul(Packed, Matmul):
    """`matmul` of a packed matrix."""

    inputs = (*Matmul.inputs, "packed")


class PackedLinear(Packed, Linear):
    """`linear` of a packed weight."""

    inputs = (*Linear.inputs, "packed")


def _linear_loops(x: Layout, weight: Layout, has_bias: bool) -> tuple[Callable, tuple]:
    """Launcher and constants of `linear` for sizes and dtypes that tiles do not support."""
    run, (no_bias, *constants) = _product_kernel("linear", x, weight, 1, 0, 0)
    if not has_bias:
        return run, (no_bias, *constants)
    return (
        lambda x_data, weight_data, bias_data, out_data: run(x_data, weight_data, out_data, bias_data, *constants)
    ), ()


def _check_factors(name: str, a: Layout, b: Layout, inner: int, hint: str = "") -> None:
    """Raise unless two matrices can be multiplied."""
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
pack_columns = PackColumns("pack_columns")
packed_matmul = PackedMatmul("packed_matmul")
packed_linear = PackedLinear("packed_linear")
