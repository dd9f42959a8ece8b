"""Which kernels make a factorisation on a GPU: of the few in `factorization_team`, of `solve_triangular` and of products. LAPACK's part on the CPU is in
`factorization`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import dtypes
from ..device import Layout
from ..device.layout import layout
from ..kernel import bind
from . import elimination, factorization_team as kernels, teams
from .matmul import matmul
from .substitution import solve_triangular
from .triangle import band

_PANEL = 16  # columns factored before the rest of a matrix follows, which is then read and written so many times less often
_WIDE, _FEW, _PANELS = 128, 32, 32  # columns of a matrix, unless there are many, for which other blocks do the rest, and the columns of a panel then
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


def launch(name: str, inputs: tuple[Layout, ...], results: tuple[Layout, ...], parameters: tuple) -> Callable | None:
    """A function of the buffers of inputs and results that fills the results; None where there is no kernel. It returns None, or where a factorisation may
    fail an array on the device: for each matrix 0, or the place at which it failed."""
    make = MAKERS.get(name)
    return make and make(*inputs, results, *parameters)


def _team(a: Layout, name: str, kernel: Callable, signature: str, matrices: int, work: int, lanes: int = 32, panel: int = _PANEL) -> Callable:
    """The launcher of a kernel with a block for each matrix; `work`: elements of one."""
    threads = a.device.backend.team(work, 256)
    lanes = min(lanes, threads // 2)
    text = bind.source_of(kernel).replace("PANEL", str(min(panel, threads // 2))).replace("LANES", str(lanes)).replace("GROUPS", str(threads // lanes))
    return teams.launcher(a, name, _typed(text, a), signature, matrices, threads)


def _flat(a: Layout, name: str, kernel: Callable, signature: str, work: int) -> Callable:
    return bind.launcher(a.device, name, _typed(bind.source_of(kernel), a), signature, a.dtype, work)


def _typed(text: str, a: Layout) -> str:
    """A kernel's text for the elements of `a`. Numba's quotient of complex numbers raises an error where the divisor is 0."""
    return (text.replace("value / pivot", "complex_quotient(value, pivot)") if a.dtype.is_complex else text).replace("NUMBER", a.storage.name)


def _batch(a: Layout) -> int:
    return a.size // (a.shape[-2] * a.shape[-1])


def _panels(a: Layout) -> list[tuple[int, int]]:
    """Where the panels of a matrix begin and end that one block alone would factor for long; none of others."""
    simulated, least = a.device.backend.SIMULATED, min(a.shape[-2:])
    if least < (4 if simulated else _WIDE) or _batch(a) > (1 if simulated else _FEW):
        return []
    width = 2 if simulated else _PANELS
    return [(first, min(first + width, least)) for first in range(0, least, width)]


def _rest(a: Layout) -> Callable:
    """A function of a's buffer, where a panel begins and ends, and whether the matrix is lower: `rest_kernel`."""
    (m, n), matrices = a.shape[-2:], _batch(a)
    run = _flat(a, "rest", kernels.rest_kernel, bind.signature(a, numbers=6), a.size)

    def rest(x: object, first: int, end: int, lower: int) -> None:
        if min(m, n) > end:
            run(x, matrices * (m - end) * (n - end), m, n, first, end, lower)

    return rest


def _cholesky(a: Layout, results: tuple) -> Callable:
    n, matrices, panels, empty = a.shape[-1], _batch(a), _panels(a), a.device.empty
    run = _team(a, "cholesky", kernels.cholesky_team, bind.signature(a, a, _INT32, numbers=4), matrices, _PANELS * _PANELS if panels else n * n)
    below, rest = _flat(a, "cholesky_below", kernels.cholesky_below_kernel, bind.signature(a, numbers=4), a.size // n), _rest(a)
    lower = band.prepare((a,), (-n, 0))

    def cholesky(x: object, out: object) -> object:
        info = empty(matrices, _INT32)
        if not panels:
            run(x, out, info, matrices, n, 0, n)
            return info
        work = empty(a.size, a.storage)
        lower.launch(x, work, *lower.constants)
        for first, end in panels:
            run(work, work, info, matrices, n, first, end - first)
            if end < n:
                below(work, matrices * (n - end), n, first, end)
                rest(work, first, end, 1)
        lower.launch(work, out, *lower.constants)
        return info

    return cholesky


def _lu(a: Layout, results: tuple, pivoted: bool = True) -> Callable:
    (m, n), matrices, panels = a.shape[-2:], _batch(a), _panels(a)
    signature, work = bind.signature(a, a, _INT32, _INT32, _INT64, numbers=7), m * n
    run = _team(a, "lu", kernels.lu_team, signature, matrices, work, panel=_PANELS if panels else _PANEL)
    if not panels:
        return lambda x, packed, pivots, info, order: run(x, packed, pivots, info, order, matrices, m, n, int(pivoted), 0, min(m, n), 1)
    beside, rest = _flat(a, "lu_beside", kernels.lu_beside_kernel, bind.signature(a, _INT32, numbers=5), matrices * n), _rest(a)
    copy = band.prepare((a,), (-m, n))

    def lu(x: object, packed: object, pivots: object, info: object, order: object) -> None:
        copy.launch(x, packed, *copy.constants)
        for first, end in panels:
            run(packed, packed, pivots, info, order, matrices, m, n, int(pivoted), first, end, 0)
            beside(packed, pivots, matrices * n, m, n, first, end)
            rest(packed, first, end, 0)

    return lu


def _factored(a: Layout) -> Callable:
    """A function of a's buffer that gives those of its LU factors, pivots, infos, and orders of rows."""
    n, matrices, empty, factor = a.shape[-1], _batch(a), a.device.empty, _lu(a, ())

    def factored(x: object) -> tuple:
        found = empty(a.size, a.storage), empty(matrices * n, _INT32), empty(matrices, _INT32), empty(matrices * n, _INT64)
        factor(x, *found)
        return found

    return factored


def _solve(a: Layout, b: Layout, results: tuple) -> Callable:
    """By LU: the rows of b reordered, then two substitutions. Of an inverse b is the unit matrix, and has no buffer."""
    out, n, columns, empty = results[0], a.shape[-1], b.shape[-1], a.device.empty
    factored, reorder = _factored(a), _flat(a, "reordered", kernels.reordered_kernel, bind.signature(_INT64, a, a, numbers=4), b.size)
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
    run, kind = _team(a, "qr", kernels.qr_team, bind.signature(a, a, a, numbers=3, others=("float64",)), matrices, m * n), dtypes.finfo(a.dtype)
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


def _eigh(a: Layout, results: tuple, lower: bool) -> Callable:
    n, matrices, empty, real = a.shape[-1], _batch(a), a.device.empty, results[0].storage
    signature = bind.signature(a, a, a, real, a, real, a, _INT32, numbers=4, others=("float64",))
    run = _team(a, "eigh", kernels.eigh_team, signature, matrices, n * n)
    least = dtypes.finfo(a.dtype).eps

    def eigh(x: object, values: object, vectors: object = None) -> object:
        work = empty(a.size, a.storage), empty(a.size, a.storage), empty(matrices * n, real), empty(matrices * n, a.storage)
        info = empty(matrices, _INT32)
        run(x, *work, values, work[0] if vectors is None else vectors, info, matrices, n, int(lower), int(vectors is not None), least)
        return info

    return eigh


def _svdvals(a: Layout, results: tuple, vectors: bool = False) -> Callable:
    """A function of the buffers of a and its singular values, and for `vectors` of what `svd_team` calls long and short."""
    (m, n), matrices, empty, real = a.shape[-2:], _batch(a), a.device.empty, dtypes.dtype.to_real(a.dtype).storage
    count = min(m, n)
    signature = bind.signature(a, a, a, real, a, real, a, _INT32, numbers=4, others=("float64",))
    run = _team(a, "svd", kernels.svd_team, signature, matrices, m * n, 16)
    least = dtypes.finfo(a.dtype).eps * max(max(m, n) ** 0.5, 2.0)  # as LAPACK's gesvj: sums of so many products have no less

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
        short, q = (vh, u) if m >= n else (empty(matrices * count * count, a.storage), empty(matrices * length * columns, a.storage))
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
    run = _flat(a, "pinv", kernels.pinv_kernel, bind.signature(a, real, a, a, _INT64, numbers=4, others=("float64", "float64")), 4 * a.size * count)

    def pinv(x: object, out: object, rank: object = None) -> object:
        u, s, vh = empty(matrices * m * count, a.storage), empty(matrices * count, real), empty(matrices * count * n, a.storage)
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
    run = bind.launcher(pivots.device, "order", bind.source_of(kernels.order_kernel), signature, dtypes.float64, 16 * pivots.size)
    return lambda given, out: run(given, out, matrices, count, rows)


def _ldl(a: Layout, results: tuple) -> Callable:
    """By the processor's kernel, with a thread for each matrix: its exchanges wait for one another."""
    n, matrices = a.shape[-1], _batch(a)
    lower = band.prepare((a,), (-n, 0))
    run = _flat(a, "ldl", elimination.ldl_kernel, bind.signature(a, _INT32, _INT32, numbers=2, others=("float64",)), a.size * n)

    def ldl(x: object, packed: object, pivots: object, info: object) -> None:
        lower.launch(x, packed, *lower.constants)
        run(packed, pivots, info, matrices, n, elimination.GROWTH)

    return ldl


def _ldl_solve(a: Layout, pivots: Layout, b: Layout, results: tuple) -> Callable:
    n, columns = b.shape[-2:]
    tasks = b.size // n
    run = _flat(a, "ldl_solve", kernels.ldl_solve_kernel, bind.signature(a, pivots, a, a, numbers=3), n * b.size)
    return lambda *buffers: run(*buffers, tasks, n, columns)


MAKERS: dict[str, Callable] = {
    "cholesky": _cholesky, "lu": _lu, "solve": _solve, "inv": _inv, "inv_or_infinite": _inv_or_infinite, "det": _det, "slogdet": _det,
    "order": _order, "geqrf": _geqrf, "qr": _qr, "eigh": _eigh, "eigvalsh": _eigh, "svd": _svd, "svdvals": _svdvals, "pinv": _pinv, "lstsq": _lstsq,
    "ldl": _ldl, "ldl_solve": _ldl_solve,
}  # fmt: skip
