"""Matrix-vector products on the CPU: the matrix is read once, in memory order. Shapes are as in `matmul`."""

from __future__ import annotations

from collections.abc import Callable

from ...device import Layout, threads
from ...kernel import bind, build
from ...kernel.any_size import for_all_sizes
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.registers.primitives.tiles import dots
from ...kernel.specialize import specialized

# multiply-adds up to which plain loops are best, and up to which `vector_groups` is
_LOOP_WORK, _GROUP_WORK = 1 << 11, 1 << 18
_REGISTER_ELEMENTS = 8  # elements below which a vector fills no register
_MAX_PARTS, _MIN_PART_SIZE = 8, 1 << 16  # parts of a matrix, elements of a part
_MIN_PART_COLUMNS = 512


def vector_rows(factors, out, bias, batches, count, inner, v_batch, v_step, m_batch, m_step, bias_step, parts):
    """out (batches, count) = bias + vector (inner) @ matrix (inner, count; steps m_step, 1), four rows at a time."""
    for task in parallel_range(batches * parts):
        batch, part = int64(task) // parts, int64(task) % parts
        first, last = part * count // parts, (part + 1) * count // parts
        base, v, m = batch * count, batch * v_batch, batch * m_batch
        for j in range(first, last):
            out[uintp(base + j)] = bias[uintp(j * bias_step)] if bias.size > 0 else 0
        fours = inner - inner % 4
        for k in range(0, fours, 4):
            row = m + k * m_step
            v0, v1, v2, v3 = (
                factors.vector[v + k * v_step], factors.vector[v + (k + 1) * v_step],
                factors.vector[v + (k + 2) * v_step], factors.vector[v + (k + 3) * v_step],
            )  # fmt: skip
            for j in range(first, last):
                total = v0 * factors.matrix[uintp(row + j)] + v1 * factors.matrix[uintp(row + m_step + j)]
                out[uintp(base + j)] += total + (
                    v2 * factors.matrix[uintp(row + 2 * m_step + j)] + v3 * factors.matrix[uintp(row + 3 * m_step + j)]
                )
        for k in range(fours, inner):
            value = factors.vector[v + k * v_step]
            for j in range(first, last):
                out[uintp(base + j)] += value * factors.matrix[uintp(m + k * m_step + j)]


def vector_dots(factors, out, bias, batches, count, inner, v_batch, v_step, m_batch, m_step, bias_step, parts):
    """out (batches, count) = bias + matrix (count, inner; steps m_step, 1) @ vector (inner), by dot products."""
    for task in parallel_range(batches * parts):
        batch, part = int64(task) // parts, int64(task) % parts
        v = batch * v_batch
        for j in range(part * count // parts, (part + 1) * count // parts):
            row = batch * m_batch + j * m_step
            total = factors.vector.dtype.type(0)
            if v_step == 1:
                for k in range(inner):
                    total += factors.vector[uintp(v + k)] * factors.matrix[uintp(row + k)]
            else:
                for k in range(inner):
                    total += factors.vector[uintp(v + k * v_step)] * factors.matrix[uintp(row + k)]
            out[uintp(batch * count + j)] = total + bias[uintp(j * bias_step)] if bias.size > 0 else total


def vector_groups(factors, out, bias, batches, count, inner, v_batch, v_step, m_batch, m_step, bias_step, parts):
    """As `vector_dots`, for a dense vector and a matrix that fits the caches: a dot product per lane of a register."""
    for task in parallel_range(batches):
        batch = int64(task)
        base = batch * count
        dots(factors.matrix, batch * m_batch, m_step, factors.vector, batch * v_batch, inner, out, base, count)
        if bias.size > 0:
            for j in range(count):
                out[uintp(base + j)] += bias[uintp(j * bias_step)]


def vector_product(
    name: str, a: Layout, b: Layout, batches: int, a_batch: int, b_batch: int
) -> tuple[Callable, tuple] | None:
    """Launcher and constants of a product with a vector; None for other products and small ones."""
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    any_size = for_all_sizes.get()  # the vector is b then, since rows may be more than one
    if a.device.backend.is_gpu or (columns if any_size else min(rows, columns)) > 1:
        return None
    # the matrix's steps along inner, outer and batch; the vector's along batch and inner
    if rows == 1 and not any_size:
        steps = (*b.strides[-2:], b_batch)
        count = columns
        vector = (a_batch, a.strides[-1])
        order = ("vector", "matrix")
    else:
        steps = (a.strides[-1], a.strides[-2], a_batch)
        count = rows
        vector = (b_batch, b.strides[-2])
        order = ("matrix", "vector")
    if 1 not in steps[:2]:
        return None
    function, step = (vector_dots, steps[1]) if steps[0] == 1 else (vector_rows, steps[0])
    if (
        function is vector_dots
        and not any_size
        and vector[1] == 1
        and count * inner <= _GROUP_WORK
        and inner >= _REGISTER_ELEMENTS
        and a.dtype.is_floating_point
    ):
        function = vector_groups
    elif rows * inner * columns <= _LOOP_WORK and not any_size:
        return None
    parts = max(
        1,
        min(
            _MAX_PARTS,
            count * inner // _MIN_PART_SIZE,
            count // _MIN_PART_COLUMNS if function is vector_rows else count,
        ),
    )
    constants = (batches, count, inner, *vector, steps[2], step, int(order[0] == "vector"))
    signature = bind.signature(*[a] * 4, numbers=len(constants) + 1)
    source = specialized(function, factors=order)
    run = bind.launcher(
        a.device,
        f"{name}_{function.__name__}",
        source,
        signature,
        a.dtype,
        batches * count * inner // 4,
        build.FAST_REDUCTION,
    )
    empty = a.device.empty(0, a.storage)
    if parts == 1 or function is not vector_rows:
        return run, (empty, *constants, parts)
    # a single thread reads whole rows, in memory order
    return (lambda *arguments: run(*arguments, parts if threads.get_num_threads() > 1 else 1)), (empty, *constants)
