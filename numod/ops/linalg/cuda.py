"""Factorisations on a GPU, composed of the kernels in `cuda_block_kernels`, `cuda_panel_kernels` and `cuda_jacobi`, of
`solve_triangular` and of products. The CPU's, by LAPACK, are in `factorization`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind
from ...kernel.specialize import has, specialized
from . import lu_cpu, cuda_panel_kernels as panel_kernels, cuda_block_kernels as kernels, cuda_jacobi as jacobi
from ..reduce import block_reduce
from ..matmul.matmul import matmul
from .triangular_solve import solve_triangular, typed
from .tril_triu import band

# columns factored before the rest of a matrix is updated, which divides its loads and stores by this number
_PANEL = 16
# columns from which, and matrices up to which, several blocks share a matrix
_SHARED_COLUMNS, _SHARED_MATRICES = 128, 32
# rows of a run of Jacobi rotations; threads per pair of rows (with 32, partial sums would take longer than the rows)
_JACOBI_ROWS, _JACOBI_LANES = 16, 16
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


def launch(name: str, inputs: tuple[Layout, ...], results: tuple[Layout, ...], attributes: tuple) -> Callable | None:
    """Return a function that takes the buffers of inputs and results and fills the results; None if there is no kernel.

    The function returns None, or if a factorisation can fail, an array on the device: for each matrix 0, or the
    position at which it failed.
    """
    make = MAKERS.get(name)
    return make and make(*inputs, results, *attributes)


def _block_per_matrix(
    a: Layout, name: str, kernel: Callable, signature: str, matrices: int, work: int, lanes: int = 32
) -> Callable:
    """The launcher of a kernel with one block per matrix of `work` elements."""
    threads = a.device.backend.threads_per_row(work, 256)
    lanes = min(lanes, threads // 2)
    sizes = {"PANEL": min(_PANEL, threads // 2)} if has(kernel, "PANEL") else {}
    return block_reduce.launcher(a, name, partial(typed(kernel, a), **sizes), signature, matrices, threads, lanes=lanes)


def _block_per_task(a: Layout, name: str, kernel: Callable, signature: str, tasks: int, threads: int) -> Callable:
    """The launcher of a kernel with one block of `threads` threads per task."""
    return block_reduce.launcher(a, name, typed(kernel, a), signature, tasks, threads)


def _panel_launcher(
    a: Layout, name: str, kernel: Callable, signature: str, tasks: int, threads: int = block_reduce.PANEL_THREADS
) -> Callable:
    return block_reduce.panel(a, name, typed(kernel, a), signature, tasks, threads)


def _thread_launcher(a: Layout, name: str, kernel: Callable, signature: str, work: int) -> Callable:
    return bind.launcher(a.device, name, specialized(typed(kernel, a)), signature, a.dtype, work)


def _batch(a: Layout) -> int:
    return a.size // (a.shape[-2] * a.shape[-1])


def _large_panels(a: Layout) -> list[tuple[int, int]]:
    """Begin and end of the panels of a large matrix; an empty list if one block should factor the matrix."""
    simulated, size = a.device.backend.SIMULATED, min(a.shape[-2:])
    if size < (4 if simulated else _SHARED_COLUMNS) or _batch(a) > (1 if simulated else _SHARED_MATRICES):
        return []
    width = block_reduce.panel_columns(a)
    return [(first, min(first + width, size)) for first in range(0, size, width)]


def _trailing_update(a: Layout) -> Callable:
    """A function (buffer of a, begin and end of a panel, lower) that runs `trailing_update_kernel`."""
    (m, n), matrices = a.shape[-2:], _batch(a)
    run = _thread_launcher(
        a, "trailing_update", panel_kernels.trailing_update_kernel, bind.signature(a, numbers=6), a.size
    )

    def update(x: object, first: int, end: int, lower: int) -> None:
        if min(m, n) > end:
            run(x, matrices * (m - end) * (n - end), m, n, first, end, lower)

    return update


def _cholesky(a: Layout, results: tuple) -> Callable:
    """A function that factors matrices: one block for each small one, panels over many blocks for large ones."""
    n, matrices, panels, empty = a.shape[-1], _batch(a), _large_panels(a), a.device.empty
    if not panels:
        run = _block_per_matrix(
            a, "cholesky", kernels.cholesky_kernel, bind.signature(a, a, _INT32, numbers=2), matrices, n * n
        )

        def cholesky(x: object, out: object) -> object:
            info = empty(matrices, _INT32)
            run(x, out, info, matrices, n)
            return info

        return cholesky
    rows = 2 if a.device.backend.SIMULATED else block_reduce.PANEL_THREADS // block_reduce.PANEL
    run = _panel_launcher(
        a,
        "cholesky_panel",
        panel_kernels.cholesky_panel_kernel,
        bind.signature(a, a, _INT32, numbers=5),
        matrices * -(-n // rows),
    )
    update_trailing, lower = _trailing_update(a), band.prepare((a,), (-n, 0))

    def cholesky_by_panels(x: object, out: object) -> object:
        info, trailing = empty(matrices, _INT32), empty(a.size, a.storage)
        for target in (trailing, out):
            lower.launch(x, target, *lower.constants)
        for first, end in panels:
            parts = max(-(-(n - end) // rows), 1)
            run(trailing, out, info, matrices * parts, parts, n, first, end)
            update_trailing(trailing, first, end, 1)
        return info

    return cholesky_by_panels


def _lu(a: Layout, results: tuple, pivoted: bool = True) -> Callable:
    """A function that computes LU: one block for each small matrix, panels over many blocks for large ones."""
    (m, n), matrices, panels, empty = a.shape[-2:], _batch(a), _large_panels(a), a.device.empty
    if not panels:
        run = _block_per_matrix(
            a, "lu", kernels.lu_kernel, bind.signature(a, a, _INT32, _INT32, _INT64, numbers=4), matrices, m * n
        )
        return lambda x, packed, pivots, info, order: run(x, packed, pivots, info, order, matrices, m, n, int(pivoted))
    width = block_reduce.panel_columns(a)
    parts = -(-n // width)
    signature = bind.signature(a, a, _INT32, _INT32, _INT64, _INT64, numbers=6)
    run = _panel_launcher(
        a, "lu_panel", panel_kernels.lu_panel_kernel, signature, matrices, a.device.backend.threads_per_row(m, 512, 1)
    )
    update_rows = _panel_launcher(
        a, "lu_update", panel_kernels.lu_update_kernel, bind.signature(a, _INT32, _INT64, numbers=6), matrices * parts
    )
    update_trailing, copy = _trailing_update(a), band.prepare((a,), (-m, n))

    def lu_by_panels(x: object, packed: object, pivots: object, info: object, order: object) -> None:
        scratch, sources = empty(matrices * width * m, a.storage), empty(matrices * m, _INT64)
        copy.launch(x, packed, *copy.constants)
        for first, end in panels:
            run(packed, scratch, pivots, info, order, sources, matrices, m, n, int(pivoted), first, end)
            update_rows(packed, pivots, sources, matrices * parts, parts, m, n, first, end)
            update_trailing(packed, first, end, 0)

    return lu_by_panels


def _lu_factors(a: Layout) -> Callable:
    """A function of a's buffer that returns buffers of its LU factors, pivots, infos and row orders."""
    n, matrices, empty, factor = a.shape[-1], _batch(a), a.device.empty, _lu(a, ())

    def factor_into_scratch(x: object) -> tuple:
        factors = (
            empty(a.size, a.storage),
            empty(matrices * n, _INT32),
            empty(matrices, _INT32),
            empty(matrices * n, _INT64),
        )
        factor(x, *factors)
        return factors

    return factor_into_scratch


def _solve(a: Layout, b: Layout, results: tuple) -> Callable:
    """Solve by LU: reorder the rows of b, then substitute twice. For an inverse, b is the identity (no buffer)."""
    out, n, columns, empty = results[0], a.shape[-1], b.shape[-1], a.device.empty
    factor = _lu_factors(a)
    reorder = _thread_launcher(
        a, "reordered", kernels.reordered_kernel, bind.signature(_INT64, a, a, numbers=4), b.size
    )
    forward, backward = (solve_triangular.prepare((a, out), flags) for flags in ((False, True), (True, False)))

    def solve(x: object, *buffers: object) -> object:
        packed, _, info, order = factor(x)
        reordered, between = empty(out.size, a.storage), empty(out.size, a.storage)
        reorder(order, buffers[0], reordered, b.size, n, columns, int(len(buffers) == 1))
        forward.launch(packed, reordered, between, *forward.constants)
        backward.launch(packed, between, buffers[-1], *backward.constants)
        return info

    return solve


def _inv(a: Layout, results: tuple) -> Callable:
    return _solve(a, a, results)


def _inv_or_infinite(a: Layout, results: tuple) -> Callable:
    invert = _inv(a, results)

    def inverted(x: object, out: object) -> None:
        invert(x, out)

    return inverted


def _det(a: Layout, results: tuple) -> Callable:
    n, matrices, factor, last_result = a.shape[-1], _batch(a), _lu_factors(a), results[-1]
    run = _thread_launcher(
        a, "det", kernels.det_kernel, bind.signature(a, _INT32, a, last_result, numbers=3), 16 * matrices * n
    )

    def det(x: object, *results_out: object) -> None:
        packed, pivots, *_ = factor(x)
        run(packed, pivots, results_out[0], results_out[-1], matrices, n, len(results_out) - 1)

    return det


def _geqrf(a: Layout, results: tuple) -> Callable:
    (m, n), matrices = a.shape[-2:], _batch(a)
    run = _block_per_matrix(
        a, "qr", kernels.qr_kernel, bind.signature(a, a, a, numbers=3, others=("float64",)), matrices, m * n
    )
    float_info = dtypes.finfo(a.dtype)
    return lambda x, packed, tau: run(x, packed, tau, matrices, m, n, float_info.tiny / float_info.eps)


def _orthonormal(a: Layout, columns: int, positive: bool) -> Callable:
    """A function (packed, tau, q) that forms Q with `columns` columns from the results of `_geqrf`."""
    (m, n), matrices = a.shape[-2:], _batch(a)
    run = _block_per_matrix(a, "q", kernels.q_kernel, bind.signature(a, a, a, numbers=6), matrices, m * columns)
    return lambda packed, tau, q: run(packed, tau, q, matrices, m, n, min(m, n), columns, int(positive))


def _qr(a: Layout, results: tuple, mode: str) -> Callable:
    (q, r), (m, n), empty, factor = results, a.shape[-2:], a.device.empty, _geqrf(a, ())
    upper = _thread_launcher(a, "upper", kernels.upper_kernel, bind.signature(a, a, numbers=4), r.size)
    form_q = _orthonormal(a, q.shape[-1], False) if mode != "r" else None

    def qr(x: object, q_out: object, r_out: object) -> None:
        packed, tau = empty(a.size, a.storage), empty(_batch(a) * min(m, n), a.storage)
        factor(x, packed, tau)
        upper(packed, r_out, r.size, m, n, r.shape[-2])
        if form_q is not None:
            form_q(packed, tau, q_out)

    return qr


def _jacobi_rounds(a: Layout, count: int, length: int) -> tuple[Callable, int]:
    """A function that rotates `count` rows of `length` elements of the buffer w until they are orthogonal, by
    `jacobi_kernel`, and the number of pairs of runs per matrix.
    """
    device, matrices, width = a.device, _batch(a), 2 if a.device.backend.SIMULATED else _JACOBI_ROWS
    pairs, lanes = -(-count // (2 * width)), 2 if device.backend.SIMULATED else _JACOBI_LANES
    kernel = partial(typed(jacobi.jacobi_kernel, a), WIDTH=width)
    signature = bind.signature(a, a, _INT32, numbers=6, others=("float64",))
    run = block_reduce.launcher(a, "jacobi", kernel, signature, matrices * pairs, width * lanes, lanes=lanes)

    def rounds(w: object, v: object, vectors: int, tolerance: float) -> object:
        rotations = device.empty(matrices * pairs, _INT32)
        for _ in range(60):
            for turn in range(2 * pairs - 1):
                run(w, v, rotations, matrices * pairs, pairs, count, length, vectors, turn, tolerance)
            if not device.backend.download(rotations).any():
                break
        return rotations

    return rounds, pairs


def _eigh(a: Layout, results: tuple, lower: bool) -> Callable:
    """A function that computes eigenvalues and eigenvectors of Hermitian matrices by Jacobi rotations."""
    n, matrices, empty, real = a.shape[-1], _batch(a), a.device.empty, results[0].storage
    tolerance = dtypes.finfo(a.dtype).eps
    if _large_panels(a):
        return _large_eigh(a, results, int(lower))
    signature = bind.signature(a, a, a, a, a, real, a, _INT32, numbers=4, others=("float64",))
    run = _block_per_matrix(a, "eigh", jacobi.eigh_kernel, signature, matrices, n * n)

    def eigh(x: object, values: object, vectors: object = None) -> object:
        scratch = *(empty(a.size, a.storage) for _ in range(2)), *(empty(matrices * n, a.storage) for _ in range(2))
        info = empty(matrices, _INT32)
        run(
            x, *scratch, values, scratch[0] if vectors is None else vectors, info, matrices, n, int(lower),
            int(vectors is not None), tolerance,
        )  # fmt: skip
        return info

    return eigh


def _large_eigh(a: Layout, results: tuple, lower: int) -> Callable:
    """Eigenvalues and -vectors by the SVD of the positive definite matrix that `hermitian_begin_kernel` makes."""
    n = a.shape[-1]
    matrices = _batch(a)
    empty = a.device.empty
    real = results[0].storage
    threads_per_row = a.device.backend.threads_per_row
    begin = _block_per_task(
        a,
        "eigh_begin",
        jacobi.hermitian_begin_kernel,
        bind.signature(a, a, a, real, numbers=3),
        matrices,
        threads_per_row(n * n, 512),
    )
    rayleigh = _block_per_task(
        a,
        "eigh_values",
        jacobi.rayleigh_kernel,
        bind.signature(a, a, real, numbers=2),
        matrices * n,
        threads_per_row(n, 256, 2),
    )
    (rounds, pairs), order, tolerance = _jacobi_rounds(a, n, n), _sorter(a, n, n), _orthogonality(a, n)

    def eigh(x: object, values: object, vectors: object = None) -> object:
        work = empty(a.size, a.storage)
        w = empty(a.size, a.storage)
        scales = empty(matrices, real)
        unsorted = empty(matrices * n, real)
        info = empty(matrices, _INT32)
        begin(x, work, w, scales, matrices, n, lower)
        rotations = rounds(w, w, 0, tolerance)
        rayleigh(work, w, unsorted, matrices * n, n)
        order(
            w, w, unsorted, scales, rotations, values, w if vectors is None else vectors, w, info, matrices * n, pairs,
            n, n, int(vectors is not None), 1,
        )  # fmt: skip
        return info

    return eigh


def _sorter(a: Layout, count: int, length: int) -> Callable:
    """The launcher of `sort_kernel` for `count` rows of `length` elements."""
    real, matrices = dtypes.dtype.to_real(a.dtype).storage, _batch(a)
    signature = bind.signature(a, a, real, real, _INT32, real, a, a, _INT32, numbers=6)
    return _block_per_task(
        a, "in_order", jacobi.sort_kernel, signature, matrices * count, a.device.backend.threads_per_row(length, 256, 4)
    )


def _orthogonality(a: Layout, length: int) -> float:
    """The cosine between columns of `length` elements below which they count as orthogonal, as in LAPACK's gesvj: the
    rounding error of such a dot product.
    """
    return dtypes.finfo(a.dtype).eps * max(length**0.5, 2.0)


def _svdvals(a: Layout, results: tuple, vectors: bool = False) -> Callable:
    """A function of the buffers of a and its singular values; with `vectors`, also of `long` and `short` of
    `svd_kernel`.
    """
    (m, n), matrices, empty, real = a.shape[-2:], _batch(a), a.device.empty, dtypes.dtype.to_real(a.dtype).storage
    count, length, tolerance = min(m, n), max(m, n), _orthogonality(a, max(m, n))
    if _large_panels(a):
        begin = _block_per_task(
            a,
            "svd_begin",
            jacobi.svd_begin_kernel,
            bind.signature(a, a, a, real, numbers=3),
            matrices,
            a.device.backend.threads_per_row(m * n, 512),
        )
        lengths = _block_per_task(
            a,
            "svd_lengths",
            jacobi.row_norms_kernel,
            bind.signature(a, real, numbers=2),
            matrices * count,
            a.device.backend.threads_per_row(length, 256, 4),
        )
        (rounds, pairs), order = _jacobi_rounds(a, count, length), _sorter(a, count, length)

        def large(x: object, values: object, *vectors_out: object) -> object:
            w = empty(a.size, a.storage)
            v = empty(matrices * count * count, a.storage)
            scales = empty(matrices, real)
            norms = empty(matrices * count, real)
            info, (long, short) = empty(matrices, _INT32), vectors_out or (w, v)
            begin(x, w, v, scales, matrices, m, n)
            rotations = rounds(w, v, int(vectors), tolerance)
            lengths(w, norms, matrices * count, length)
            order(
                w, v, norms, scales, rotations, values, long, short, info, matrices * count, pairs, count, length,
                2 * int(vectors), 0,
            )  # fmt: skip
            return info

        return large
    signature = bind.signature(a, a, a, real, a, real, a, _INT32, numbers=4, others=("float64",))
    run = _block_per_matrix(a, "svd", jacobi.svd_kernel, signature, matrices, m * n, 16)

    def svdvals(x: object, values: object, *vectors_out: object) -> object:
        scratch = empty(a.size, a.storage), empty(matrices * count * count, a.storage), empty(matrices * count, real)
        info, (long, short) = empty(matrices, _INT32), vectors_out or scratch[:2]
        run(x, *scratch, long, values, short, info, matrices, m, n, int(vectors), tolerance)
        return info

    return svdvals


def _svd(a: Layout, results: tuple, full: bool) -> Callable:
    """A function that computes u, s and vh. The longer vectors come from QR: they are orthonormal for any rank."""
    (m, n), matrices, empty = a.shape[-2:], _batch(a), a.device.empty
    length, count = max(m, n), min(m, n)
    columns = length if full else count
    tall = layout((*a.shape[:-2], length, count), a.dtype, a.device)
    decompose, factor, form_q = _svdvals(a, (), True), _geqrf(tall, ()), _orthonormal(tall, columns, True)
    transpose = _thread_launcher(a, "adjoint", kernels.adjoint_kernel, bind.signature(a, a, numbers=3), a.size)

    def svd(x: object, u: object, s: object, vh: object) -> object:
        long, packed, tau = empty(a.size, a.storage), empty(a.size, a.storage), empty(matrices * count, a.storage)
        short, q = (
            (vh, u)
            if m >= n
            else (empty(matrices * count * count, a.storage), empty(matrices * length * columns, a.storage))
        )
        info = decompose(x, s, long, short)
        factor(long, packed, tau)
        form_q(packed, tau, q)
        if m < n:
            transpose(short, u, matrices * count * count, count, count)
            transpose(q, vh, matrices * length * columns, length, columns)
        return info

    return svd


def _pinv(a: Layout, results: tuple, atol: float, rtol: float, hermitian: bool = False) -> Callable:
    """The pseudoinverse by the singular values; a third buffer, if given, receives the ranks."""
    (m, n), matrices, empty, real = a.shape[-2:], _batch(a), a.device.empty, dtypes.dtype.to_real(a.dtype).storage
    count, decompose = min(m, n), _svd(a, (), False)
    run = _thread_launcher(
        a,
        "pinv",
        kernels.pinv_kernel,
        bind.signature(a, real, a, a, _INT64, numbers=4, others=("float64", "float64")),
        4 * a.size * count,
    )

    def pinv(x: object, out: object, rank: object = None) -> object:
        u = empty(matrices * m * count, a.storage)
        s = empty(matrices * count, real)
        vh = empty(matrices * count * n, a.storage)
        info = decompose(x, u, s, vh)
        run(u, s, vh, out, empty(matrices, _INT64) if rank is None else rank, a.size, m, n, count, atol, rtol)
        return info

    return pinv


def _lstsq(a: Layout, b: Layout, results: tuple, rtol: float) -> Callable:
    """The pseudoinverse times b."""
    empty = a.device.empty
    inverse = layout((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype, a.device)
    invert, product = _pinv(a, (), 0.0, rtol), matmul.prepare((inverse, b), (False, False))

    def lstsq(x: object, right: object, out: object, rank: object) -> object:
        pseudoinverse = empty(a.size, a.storage)
        info = invert(x, pseudoinverse, rank)
        product.launch(pseudoinverse, right, out, *product.constants)
        return info

    return lstsq


def _order(pivots: Layout, results: tuple, rows: int) -> Callable:
    count = pivots.shape[-1]
    matrices = pivots.size // count
    signature = bind.signature(pivots, _INT64, numbers=3)
    run = bind.launcher(
        pivots.device, "order", specialized(kernels.order_kernel), signature, dtypes.float64, 16 * pivots.size
    )
    return lambda pivot_data, out: run(pivot_data, out, matrices, count, rows)


def _ldl(a: Layout, results: tuple) -> Callable:
    """LDL with the CPU's kernel, one thread per matrix: its exchanges are sequential."""
    n, matrices = a.shape[-1], _batch(a)
    lower = band.prepare((a,), (-n, 0))
    run = _thread_launcher(
        a, "ldl", lu_cpu.ldl_kernel, bind.signature(a, _INT32, _INT32, numbers=2, others=("float64",)), a.size * n
    )

    def ldl(x: object, packed: object, pivots: object, info: object) -> None:
        lower.launch(x, packed, *lower.constants)
        run(packed, pivots, info, matrices, n, lu_cpu.GROWTH)

    return ldl


def _ldl_solve(a: Layout, pivots: Layout, b: Layout, results: tuple) -> Callable:
    n, columns = b.shape[-2:]
    tasks = b.size // n
    run = _thread_launcher(
        a, "ldl_solve", kernels.ldl_solve_kernel, bind.signature(a, pivots, a, a, numbers=3), n * b.size
    )
    return lambda *buffers: run(*buffers, tasks, n, columns)


MAKERS: dict[str, Callable] = {
    "cholesky": _cholesky, "lu": _lu, "solve": _solve, "inv": _inv, "inv_or_infinite": _inv_or_infinite, "det": _det,
    "slogdet": _det, "order": _order, "geqrf": _geqrf, "qr": _qr, "eigh": _eigh, "eigvalsh": _eigh, "svd": _svd,
    "svd_or_nan": lambda a, results: _svd(a, results, True), "svdvals": _svdvals, "pinv": _pinv, "lstsq": _lstsq,
    "ldl": _ldl, "ldl_solve": _ldl_solve,
}  # fmt: skip
