"""Which kernels make a factorisation on a GPU: of the few in `factorization_team`, of `solve_triangular` and of products. LAPACK's part on the CPU is in
`factorization`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import dtypes
from ..device import Layout
from ..kernel import bind
from . import factorization_team as kernels, teams
from .substitution import solve_triangular

_PANEL = 16  # columns factored before the rest of a matrix follows, which is then read and written so many times less often
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


def launch(name: str, inputs: tuple[Layout, ...], results: tuple[Layout, ...], parameters: tuple) -> Callable | None:
    """A function of the buffers of inputs and results that fills the results; None where there is no kernel. It returns None, or where a factorisation may
    fail an array on the device: for each matrix 0, or the place at which it failed."""
    make = MAKERS.get(name)
    return make and make(*inputs, results, *parameters)


def _team(a: Layout, name: str, kernel: Callable, signature: str, matrices: int, work: int, lanes: int = 32) -> Callable:
    """The launcher of a kernel with a block for each matrix; `work`: elements of one."""
    threads = a.device.backend.team(work, 256)
    lanes = min(lanes, threads // 2)
    text = bind.source_of(kernel).replace("PANEL", str(min(_PANEL, threads // 2))).replace("LANES", str(lanes)).replace("GROUPS", str(threads // lanes))
    return teams.launcher(a, name, _typed(text, a), signature, matrices, threads)


def _flat(a: Layout, name: str, kernel: Callable, signature: str, work: int) -> Callable:
    return bind.launcher(a.device, name, _typed(bind.source_of(kernel), a), signature, a.dtype, work)


def _typed(text: str, a: Layout) -> str:
    """A kernel's text for the elements of `a`. Numba's quotient of complex numbers raises an error where the divisor is 0."""
    return (text.replace("value / pivot", "complex_quotient(value, pivot)") if a.dtype.is_complex else text).replace("NUMBER", a.storage.name)


def _batch(a: Layout) -> int:
    return a.size // (a.shape[-2] * a.shape[-1])


def _cholesky(a: Layout, results: tuple) -> Callable:
    n, matrices = a.shape[-1], _batch(a)
    run = _team(a, "cholesky", kernels.cholesky_team, bind.signature(a, a, _INT32, numbers=2), matrices, n * n)

    def cholesky(x: object, out: object) -> object:
        info = a.device.empty(matrices, _INT32)
        run(x, out, info, matrices, n)
        return info

    return cholesky


def _lu(a: Layout, results: tuple, pivoted: bool = True) -> Callable:
    (m, n), matrices = a.shape[-2:], _batch(a)
    run = _team(a, "lu", kernels.lu_team, bind.signature(a, a, _INT32, _INT32, _INT64, numbers=4), matrices, m * n)
    return lambda x, packed, pivots, info, order: run(x, packed, pivots, info, order, matrices, m, n, int(pivoted))


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


def _order(pivots: Layout, results: tuple, rows: int) -> Callable:
    count = pivots.shape[-1]
    matrices = pivots.size // count
    signature = bind.signature(pivots, _INT64, numbers=3)
    run = bind.launcher(pivots.device, "order", bind.source_of(kernels.order_kernel), signature, dtypes.float64, 16 * pivots.size)
    return lambda given, out: run(given, out, matrices, count, rows)


MAKERS: dict[str, Callable] = {
    "cholesky": _cholesky, "lu": _lu, "solve": _solve, "inv": _inv, "inv_or_infinite": _inv_or_infinite, "det": _det, "slogdet": _det,
    "order": _order,
}  # fmt: skip
