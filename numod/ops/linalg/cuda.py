"""Which kernels make a factorisation on a GPU: of the few in `factorization_team`, `factorization_panels` and
`jacobi_team`, of `solve_triangular` and of products. LAPACK's part on the CPU is in `factorization`.
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

# columns factored before the rest of a matrix follows, which is then read and written so many times less often
_PANEL = 16
_WIDE, _FEW = 128, 32  # columns of a matrix, and matrices at most, for which several blocks work on each
# rows of a run of Jacobi's rotations, and threads of two rows: of 32 the sums would be read longer than the rows
_RUN, _LANES = 16, 16
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


def launch(name: str, inputs: tuple[Layout, ...], results: tuple[Layout, ...], parameters: tuple) -> Callable | None:
    """A function of the buffers of inputs and results that fills the results; None where there is no kernel.

    It returns None, or where a factorisation may fail an array on the device: for each matrix 0, or the place at which
    it failed.
    """
    make = MAKERS.get(name)
    return make and make(*inputs, results, *parameters)


def _team(
    a: Layout, name: str, kernel: Callable, signature: str, matrices: int, work: int, lanes: int = 32
) -> Callable:
    """The launcher of a kernel with a block for each matrix; `work`: elements of one."""
    threads = a.device.backend.team(work, 256)
    lanes = min(lanes, threads // 2)
    sizes = {"PANEL": min(_PANEL, threads // 2)} if has(kernel, "PANEL") else {}
    return block_reduce.launcher(a, name, partial(typed(kernel, a), **sizes), signature, matrices, threads, lanes=lanes)


def _wide(a: Layout, name: str, kernel: Callable, signature: str, tasks: int, threads: int) -> Callable:
    """The launcher of a kernel with a block of so many threads for each task."""
    return block_reduce.launcher(a, name, typed(kernel, a), signature, tasks, threads)


def _panel(
    a: Layout, name: str, kernel: Callable, signature: str, tasks: int, threads: int = block_reduce.PANEL_THREADS
) -> Callable:
    return block_reduce.panel(a, name, typed(kernel, a), signature, tasks, threads)


def _flat(a: Layout, name: str, kernel: Callable, signature: str, work: int) -> Callable:
    return bind.launcher(a.device, name, specialized(typed(kernel, a)), signature, a.dtype, work)


def _batch(a: Layout) -> int:
    return a.size // (a.shape[-2] * a.shape[-1])


def _panels(a: Layout) -> list[tuple[int, int]]:
    """Where the panels of a matrix begin and end that one block alone would factor for long; none of others."""
    simulated, least = a.device.backend.SIMULATED, min(a.shape[-2:])
    if least < (4 if simulated else _WIDE) or _batch(a) > (1 if simulated else _FEW):
        return []
    width = block_reduce.panel_columns(a)
    return [(first, min(first + width, least)) for first in range(0, least, width)]


def _rest(a: Layout) -> Callable:
    """A function of a's buffer, where a panel begins and ends, and whether the matrix is lower: `rest_kernel`."""
    (m, n), matrices = a.shape[-2:], _batch(a)
    run = _flat(a, "rest", panel_kernels.rest_kernel, bind.signature(a, numbers=6), a.size)

    def rest(x: object, first: int, end: int, lower: int) -> None:
        if min(m, n) > end:
            run(x, matrices * (m - end) * (n - end), m, n, first, end, lower)

    return rest


def _cholesky(a: Layout, results: tuple) -> Callable:
    n, matrices, panels, empty = a.shape[-1], _batch(a), _panels(a), a.device.empty
    if not panels:
        run = _team(a, "cholesky", kernels.cholesky_team, bind.signature(a, a, _INT32, numbers=2), matrices, n * n)

        def cholesky(x: object, out: object) -> object:
            info = empty(matrices, _INT32)
            run(x, out, info, matrices, n)
            return info

        return cholesky
    rows = 2 if a.device.backend.SIMULATED else block_reduce.PANEL_THREADS // block_reduce.PANEL
    run = _panel(
        a,
        "cholesky_panel",
        panel_kernels.cholesky_panel_team,
        bind.signature(a, a, _INT32, numbers=5),
        matrices * -(-n // rows),
    )
    rest, lower = _rest(a), band.prepare((a,), (-n, 0))

    def by_panels(x: object, out: object) -> object:
        info, work = empty(matrices, _INT32), empty(a.size, a.storage)
        for each in (work, out):
            lower.launch(x, each, *lower.constants)
        for first, end in panels:
            parts = max(-(-(n - end) // rows), 1)
            run(work, out, info, matrices * parts, parts, n, first, end)
            rest(work, first, end, 1)
        return info

    return by_panels


def _lu(a: Layout, results: tuple, pivoted: bool = True) -> Callable:
    (m, n), matrices, panels, empty = a.shape[-2:], _batch(a), _panels(a), a.device.empty
    if not panels:
        run = _team(a, "lu", kernels.lu_team, bind.signature(a, a, _INT32, _INT32, _INT64, numbers=4), matrices, m * n)
        return lambda x, packed, pivots, info, order: run(x, packed, pivots, info, order, matrices, m, n, int(pivoted))
    width = block_reduce.panel_columns(a)
    parts = -(-n // width)
    signature = bind.signature(a, a, _INT32, _INT32, _INT64, _INT64, numbers=6)
    run = _panel(a, "lu_panel", panel_kernels.lu_panel_team, signature, matrices, a.device.backend.team(m, 512, 1))
    beside = _panel(
        a, "lu_beside", panel_kernels.lu_beside_team, bind.signature(a, _INT32, _INT64, numbers=6), matrices * parts
    )
    rest, copy = _rest(a), band.prepare((a,), (-m, n))

    def by_panels(x: object, packed: object, pivots: object, info: object, order: object) -> None:
        scratch, sources = empty(matrices * width * m, a.storage), empty(matrices * m, _INT64)
        copy.launch(x, packed, *copy.constants)
        for first, end in panels:
            run(packed, scratch, pivots, info, order, sources, matrices, m, n, int(pivoted), first, end)
            beside(packed, pivots, sources, matrices * parts, parts, m, n, first, end)
            rest(packed, first, end, 0)

    return by_panels


def _factored(a: Layout) -> Callable:
    """A function of a's buffer that gives those of its LU factors, pivots, infos, and orders of rows."""
    n, matrices, empty, factor = a.shape[-1], _batch(a), a.device.empty, _lu(a, ())

    def factored(x: object) -> tuple:
        found = (
            empty(a.size, a.storage),
            empty(matrices * n, _INT32),
            empty(matrices, _INT32),
            empty(matrices * n, _INT64),
        )
        factor(x, *found)
        return found

    return factored


def _solve(a: Layout, b: Layout, results: tuple) -> Callable:
    """By LU: the rows of b reordered, then two substitutions. Of an inverse b is the unit matrix, and has no buffer."""
    out, n, columns, empty = results[0], a.shape[-1], b.shape[-1], a.device.empty
    factored, reorder = (
        _factored(a),
        _flat(a, "reordered", kernels.reordered_kernel, bind.signature(_INT64, a, a, numbers=4), b.size),
    )
    forward, backward = (solve_triangular.prepare((a, out), each) for each in ((False, True), (True, False)))

    def solve(x: object, *rest: object) -> object:
        packed, _, info, order = factored(x)
        one, other = empty(out.size, a.storage), empty(out.size, a.storage)
        reorder(order, rest[0], one, b.size, n, columns, int(len(rest) == 1))
        forward.launch(packed, one, other, *forward.constants)
        backward.launch(packed, other, rest[-1], *backward.constants)
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
    n, matrices, factored, last = a.shape[-1], _batch(a), _factored(a), results[-1]
    run = _flat(a, "det", kernels.det_kernel, bind.signature(a, _INT32, a, last, numbers=3), 16 * matrices * n)

    def det(x: object, *found: object) -> None:
        packed, pivots, *_ = factored(x)
        run(packed, pivots, found[0], found[-1], matrices, n, len(found) - 1)

    return det


def _geqrf(a: Layout, results: tuple) -> Callable:
    (m, n), matrices = a.shape[-2:], _batch(a)
    run, kind = (
        _team(a, "qr", kernels.qr_team, bind.signature(a, a, a, numbers=3, others=("float64",)), matrices, m * n),
        dtypes.finfo(a.dtype),
    )
    return lambda x, packed, tau: run(x, packed, tau, matrices, m, n, kind.tiny / kind.eps)


def _orthonormal(a: Layout, columns: int, positive: bool) -> Callable:
    """A function of buffers of what `_geqrf` makes of a, and of Q with so many columns."""
    (m, n), matrices = a.shape[-2:], _batch(a)
    run = _team(a, "q", kernels.q_team, bind.signature(a, a, a, numbers=6), matrices, m * columns)
    return lambda packed, tau, q: run(packed, tau, q, matrices, m, n, min(m, n), columns, int(positive))


def _qr(a: Layout, results: tuple, mode: str) -> Callable:
    (q, r), (m, n), empty, factor = results, a.shape[-2:], a.device.empty, _geqrf(a, ())
    upper = _flat(a, "upper", kernels.upper_kernel, bind.signature(a, a, numbers=4), r.size)
    form = _orthonormal(a, q.shape[-1], False) if mode != "r" else None

    def qr(x: object, q_out: object, r_out: object) -> None:
        packed, tau = empty(a.size, a.storage), empty(_batch(a) * min(m, n), a.storage)
        factor(x, packed, tau)
        upper(packed, r_out, r.size, m, n, r.shape[-2])
        if form is not None:
            form(packed, tau, q_out)

    return qr


def _rounds(a: Layout, count: int, length: int) -> tuple[Callable, int]:
    """A function that rotates `count` rows of the buffer w, of so many elements, until they are orthogonal, as
    `jacobi_team` says; and how many pairs of runs a matrix has.
    """
    device, matrices, width = a.device, _batch(a), 2 if a.device.backend.SIMULATED else _RUN
    pairs, lanes = -(-count // (2 * width)), 2 if device.backend.SIMULATED else _LANES
    kernel = partial(typed(jacobi.jacobi_team, a), WIDTH=width)
    signature = bind.signature(a, a, _INT32, numbers=6, others=("float64",))
    run = block_reduce.launcher(a, "jacobi", kernel, signature, matrices * pairs, width * lanes, lanes=lanes)

    def rounds(w: object, v: object, vectors: int, least: float) -> object:
        turned = device.empty(matrices * pairs, _INT32)
        for _ in range(60):
            for turn in range(2 * pairs - 1):
                run(w, v, turned, matrices * pairs, pairs, count, length, vectors, turn, least)
            if not device.backend.download(turned).any():
                break
        return turned

    return rounds, pairs


def _eigh(a: Layout, results: tuple, lower: bool) -> Callable:
    n, matrices, empty, real = a.shape[-1], _batch(a), a.device.empty, results[0].storage
    least = dtypes.finfo(a.dtype).eps
    if _panels(a):
        return _large_eigh(a, results, int(lower))
    signature = bind.signature(a, a, a, a, a, real, a, _INT32, numbers=4, others=("float64",))
    run = _team(a, "eigh", jacobi.eigh_team, signature, matrices, n * n)

    def eigh(x: object, values: object, vectors: object = None) -> object:
        work = *(empty(a.size, a.storage) for _ in range(2)), *(empty(matrices * n, a.storage) for _ in range(2))
        info = empty(matrices, _INT32)
        run(
            x,
            *work,
            values,
            work[0] if vectors is None else vectors,
            info,
            matrices,
            n,
            int(lower),
            int(vectors is not None),
            least,
        )
        return info

    return eigh


def _large_eigh(a: Layout, results: tuple, lower: int) -> Callable:
    """As the singular values of a matrix that is positive, which `hermitian_begin_team` makes of a."""
    n, matrices, empty, real, team = a.shape[-1], _batch(a), a.device.empty, results[0].storage, a.device.backend.team
    begin = _wide(
        a,
        "eigh_begin",
        jacobi.hermitian_begin_team,
        bind.signature(a, a, a, real, numbers=3),
        matrices,
        team(n * n, 512),
    )
    values_of = _wide(
        a, "eigh_values", jacobi.rayleigh_team, bind.signature(a, a, real, numbers=2), matrices * n, team(n, 256, 2)
    )
    (rounds, pairs), order, least = _rounds(a, n, n), _in_order(a, n, n), _orthogonal(a, n)

    def eigh(x: object, values: object, vectors: object = None) -> object:
        work, w, scales, found = (
            empty(a.size, a.storage),
            empty(a.size, a.storage),
            empty(matrices, real),
            empty(matrices * n, real),
        )
        info = empty(matrices, _INT32)
        begin(x, work, w, scales, matrices, n, lower)
        turned = rounds(w, w, 0, least)
        values_of(work, w, found, matrices * n, n)
        order(
            w,
            w,
            found,
            scales,
            turned,
            values,
            w if vectors is None else vectors,
            w,
            info,
            matrices * n,
            pairs,
            n,
            n,
            int(vectors is not None),
            1,
        )
        return info

    return eigh


def _in_order(a: Layout, count: int, length: int) -> Callable:
    """`in_order_team`, for so many rows of so many elements."""
    real, matrices = dtypes.dtype.to_real(a.dtype).storage, _batch(a)
    signature = bind.signature(a, a, real, real, _INT32, real, a, a, _INT32, numbers=6)
    return _wide(
        a, "in_order", jacobi.in_order_team, signature, matrices * count, a.device.backend.team(length, 256, 4)
    )


def _orthogonal(a: Layout, length: int) -> float:
    """The cosine of columns of so many elements that counts as 0: as LAPACK's gesvj, as sums of so many products have
    no less.
    """
    return dtypes.finfo(a.dtype).eps * max(length**0.5, 2.0)


def _svdvals(a: Layout, results: tuple, vectors: bool = False) -> Callable:
    """A function of the buffers of a and its singular values, and for `vectors` of what `svd_team` calls long and
    short.
    """
    (m, n), matrices, empty, real = a.shape[-2:], _batch(a), a.device.empty, dtypes.dtype.to_real(a.dtype).storage
    count, length, least = min(m, n), max(m, n), _orthogonal(a, max(m, n))
    if _panels(a):
        begin = _wide(
            a,
            "svd_begin",
            jacobi.svd_begin_team,
            bind.signature(a, a, a, real, numbers=3),
            matrices,
            a.device.backend.team(m * n, 512),
        )
        lengths = _wide(
            a,
            "svd_lengths",
            jacobi.svd_lengths_team,
            bind.signature(a, real, numbers=2),
            matrices * count,
            a.device.backend.team(length, 256, 4),
        )
        (rounds, pairs), order = _rounds(a, count, length), _in_order(a, count, length)

        def large(x: object, values: object, *found: object) -> object:
            w, v, scales, norms = (
                empty(a.size, a.storage),
                empty(matrices * count * count, a.storage),
                empty(matrices, real),
                empty(matrices * count, real),
            )
            info, (long, short) = empty(matrices, _INT32), found or (w, v)
            begin(x, w, v, scales, matrices, m, n)
            turned = rounds(w, v, int(vectors), least)
            lengths(w, norms, matrices * count, length)
            order(
                w,
                v,
                norms,
                scales,
                turned,
                values,
                long,
                short,
                info,
                matrices * count,
                pairs,
                count,
                length,
                2 * int(vectors),
                0,
            )
            return info

        return large
    signature = bind.signature(a, a, a, real, a, real, a, _INT32, numbers=4, others=("float64",))
    run = _team(a, "svd", jacobi.svd_team, signature, matrices, m * n, 16)

    def svdvals(x: object, values: object, *found: object) -> object:
        work = empty(a.size, a.storage), empty(matrices * count * count, a.storage), empty(matrices * count, real)
        info, (long, short) = empty(matrices, _INT32), found or work[:2]
        run(x, *work, long, values, short, info, matrices, m, n, int(vectors), least)
        return info

    return svdvals


def _svd(a: Layout, results: tuple, full: bool) -> Callable:
    """Of what the rotations leave the longer vectors by QR: they are orthonormal, and complete, whatever the rank."""
    (m, n), matrices, empty = a.shape[-2:], _batch(a), a.device.empty
    length, count = max(m, n), min(m, n)
    columns = length if full else count
    tall = layout((*a.shape[:-2], length, count), a.dtype, a.device)
    rotate, factor, form = _svdvals(a, (), True), _geqrf(tall, ()), _orthonormal(tall, columns, True)
    turn = _flat(a, "adjoint", kernels.adjoint_kernel, bind.signature(a, a, numbers=3), a.size)

    def svd(x: object, u: object, s: object, vh: object) -> object:
        long, packed, tau = empty(a.size, a.storage), empty(a.size, a.storage), empty(matrices * count, a.storage)
        short, q = (
            (vh, u)
            if m >= n
            else (empty(matrices * count * count, a.storage), empty(matrices * length * columns, a.storage))
        )
        info = rotate(x, s, long, short)
        factor(long, packed, tau)
        form(packed, tau, q)
        if m < n:
            turn(short, u, matrices * count * count, count, count)
            turn(q, vh, matrices * length * columns, length, columns)
        return info

    return svd


def _pinv(a: Layout, results: tuple, atol: float, rtol: float, hermitian: bool = False) -> Callable:
    """By the singular values; a third buffer, if it is given, is told the ranks."""
    (m, n), matrices, empty, real = a.shape[-2:], _batch(a), a.device.empty, dtypes.dtype.to_real(a.dtype).storage
    count, decompose = min(m, n), _svd(a, (), False)
    run = _flat(
        a,
        "pinv",
        kernels.pinv_kernel,
        bind.signature(a, real, a, a, _INT64, numbers=4, others=("float64", "float64")),
        4 * a.size * count,
    )

    def pinv(x: object, out: object, rank: object = None) -> object:
        u, s, vh = (
            empty(matrices * m * count, a.storage),
            empty(matrices * count, real),
            empty(matrices * count * n, a.storage),
        )
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
        between = empty(a.size, a.storage)
        info = invert(x, between, rank)
        product.launch(between, right, out, *product.constants)
        return info

    return lstsq


def _order(pivots: Layout, results: tuple, rows: int) -> Callable:
    count = pivots.shape[-1]
    matrices = pivots.size // count
    signature = bind.signature(pivots, _INT64, numbers=3)
    run = bind.launcher(
        pivots.device, "order", specialized(kernels.order_kernel), signature, dtypes.float64, 16 * pivots.size
    )
    return lambda given, out: run(given, out, matrices, count, rows)


def _ldl(a: Layout, results: tuple) -> Callable:
    """By the processor's kernel, with a thread for each matrix: its exchanges wait for one another."""
    n, matrices = a.shape[-1], _batch(a)
    lower = band.prepare((a,), (-n, 0))
    run = _flat(
        a, "ldl", lu_cpu.ldl_kernel, bind.signature(a, _INT32, _INT32, numbers=2, others=("float64",)), a.size * n
    )

    def ldl(x: object, packed: object, pivots: object, info: object) -> None:
        lower.launch(x, packed, *lower.constants)
        run(packed, pivots, info, matrices, n, lu_cpu.GROWTH)

    return ldl


def _ldl_solve(a: Layout, pivots: Layout, b: Layout, results: tuple) -> Callable:
    n, columns = b.shape[-2:]
    tasks = b.size // n
    run = _flat(a, "ldl_solve", kernels.ldl_solve_kernel, bind.signature(a, pivots, a, a, numbers=3), n * b.size)
    return lambda *buffers: run(*buffers, tasks, n, columns)


MAKERS: dict[str, Callable] = {
    "cholesky": _cholesky, "lu": _lu, "solve": _solve, "inv": _inv, "inv_or_infinite": _inv_or_infinite, "det": _det,
    "slogdet": _det, "order": _order, "geqrf": _geqrf, "qr": _qr, "eigh": _eigh, "eigvalsh": _eigh, "svd": _svd,
    "svd_or_nan": lambda a, results: _svd(a, results, True), "svdvals": _svdvals, "pinv": _pinv, "lstsq": _lstsq,
    "ldl": _ldl, "ldl_solve": _ldl_solve,
}  # fmt: skip
