"""Factorisations of matrices: by NumPy's LAPACK on the CPU, by the kernels of `cuda` on a GPU.

Batches (..., M, N); float32 stays float32. The gradients are in `gradients`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ... import dtypes
from ...device import blas, device
from ...device.layout import layout
from ...dtypes import dtype as DType
from ...errors import LinAlgError, OutOfMemoryError
from . import lu_cpu, cuda as gpu
from ..op import Op, Plan, single_device
from .triangular_solve import solve_triangular

_KINDS = {  # dtypes of results that differ from the matrix's
    **{name: lambda dtype: dtypes.int32 for name in ("lu.pivots", "lu.info", "ldl.pivots", "ldl.info")},
    **{name: lambda dtype: dtypes.int64 for name in ("lu.order", "order.order", "lstsq.rank")},
    **{name: DType.to_real for name in ("eigh.values", "slogdet.logabsdet", "svd.s", "svd_or_nan.s", "svdvals.svdvals",
        "eigvalsh.eigvalsh")},
    "eig.values": DType.to_complex, "eig.vectors": DType.to_complex,
}  # fmt: skip


_INPUT, _ATTRIBUTE = re.compile(r"(\w+)\["), re.compile(r"(\w+)=")  # the patterns of their names in `takes`


class Factorization(Op):
    """`compute(*arrays, *attributes)` returns an array or a tuple, `shapes(*shapes, *attributes)` their shapes.

    `failure`, for a factorisation that can fail, is the error message and a function of a matrix that returns the
    position of the failure. Inputs are dense, with equal batches.
    """

    upcasts_half = False

    def __init__(
        self,
        name: str,
        takes: str,
        outputs: str,
        compute: Callable,
        shapes: Callable,
        failure: tuple[str, Callable] | None = None,
    ) -> None:
        super().__init__(name)
        self.inputs, self.attributes = (tuple(pattern.findall(takes)) for pattern in (_INPUT, _ATTRIBUTE))
        self.takes, self.outputs = takes, tuple(outputs.split())
        self.compute, self.shapes, self.failure = compute, shapes, failure

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        first = arguments[0]
        device = single_device(f"linalg.{self.name}", arguments)
        shapes = self.shapes(*(tuple(argument.shape) for argument in arguments), *attributes)
        shapes = dict(zip(self.outputs, shapes)) if self.outputs else {self.name: shapes}
        results = tuple(
            layout(shape, _KINDS.get(f"{self.name}.{name}", lambda dtype: dtype)(first.dtype), device)
            for name, shape in shapes.items()
        )
        if device.type != "cpu":
            return Plan(results if self.outputs else results[0], self._gpu_launch(arguments, results, attributes))

        def launch(*buffers: np.ndarray) -> None:
            arrays = [data[: argument.size].reshape(argument.shape) for argument, data in zip(arguments, buffers)]
            values = self.run(arrays, attributes)
            for result, data, value in zip(results, buffers[len(arrays) :], values if self.outputs else (values,)):
                data[: result.size].reshape(result.shape)[...] = value

        return Plan(results if self.outputs else results[0], launch)

    def _gpu_launch(self, arguments: tuple, results: tuple, attributes: tuple) -> Callable:
        """The launch on a GPU. If the factorisation can fail, it waits for the result, as PyTorch does.

        Raises NotImplementedError if there is no kernel for the device.
        """
        device = results[0].device
        run = (
            gpu.launch(self.name, arguments, results, attributes)
            if device.type == "cuda" and arguments[0].size
            else None
        )
        if run is None and arguments[0].size:
            raise NotImplementedError(
                f"linalg.{self.name}: there is no kernel for {device}; move the matrix with .cpu() first"
            )

        def launch(*buffers: object) -> None:
            # raises for the placeholders of the graph compiler, which then calls this op eagerly, since it waits
            buffers[0].dtype  # noqa: B018
            if run is None:  # an empty matrix
                values = self.run([np.empty(argument.shape, argument.storage) for argument in arguments], attributes)
                for result, data, value in zip(
                    results, buffers[len(arguments) :], values if self.outputs else (values,)
                ):
                    if result.size:
                        data.copy_to_device(np.ascontiguousarray(value, result.storage).reshape(-1))
                return
            if (infos := run(*buffers)) is not None and (infos := device.backend.download(infos)).any():
                number = int(infos.nonzero()[0][0])
                raise self.refusal(number if arguments[0].ndim > 2 else None, int(infos[number]))

        return launch

    def run(self, arrays: list[np.ndarray], attributes: tuple) -> object:
        """Run the factorisation. If LAPACK fails, raises LinAlgError with the position as `info`."""
        try:
            with np.errstate(all="ignore"):
                return blas.limited(self.compute, arrays, attributes)
        except np.linalg.LinAlgError:
            raise self._first_failure(arrays, attributes) from None
        except MemoryError as error:
            raise OutOfMemoryError(f"linalg.{self.name}: {error}") from None

    def _first_failure(self, arrays: list[np.ndarray], attributes: tuple) -> LinAlgError:
        """The error for the first matrix of the batch for which LAPACK fails."""
        for number, index in enumerate(np.ndindex(*arrays[0].shape[:-2])):  # noqa: B007  used below
            try:
                blas.limited(self.compute, [array[index] for array in arrays], attributes)
            except np.linalg.LinAlgError:
                break
        return self.refusal(number if index else None, blas.limited(self.failure[1], [arrays[0][index]]))

    def refusal(self, number: int | None, info: int) -> LinAlgError:
        """The error for a matrix, with its number in the batch, if any, and the position of the failure."""
        error = LinAlgError(
            f"linalg.{self.name}: "
            f"{f'(Batch element {number}): ' if number is not None else ''}{self.failure[0].format(info)}"
        )
        error.info = info
        return error


def _smaller_size(shape: tuple) -> int:
    return min(shape[-2:])


def _rows_of_r(shape: tuple, mode: str) -> int:
    """Rows of R."""
    return shape[-2] if mode == "complete" else _smaller_size(shape)


def _solved(a: np.ndarray, b: np.ndarray, upper: bool, unit: bool) -> np.ndarray:
    """X with a X = b, by the kernel of `solve_triangular`."""
    x, plan = np.empty(b.shape, b.dtype), _substitution(a.shape, b.shape, b.dtype, upper, unit)
    plan.launch(a.ravel(), b.ravel(), x.ravel(), *plan.constants)
    return x


@lru_cache(256)
def _substitution(a: tuple, b: tuple, dtype: np.dtype, upper: bool, unit: bool) -> Plan:
    """The plan of `solve_triangular` for these shapes."""
    kind, cpu = dtypes.from_numpy(dtype), device("cpu")
    return solve_triangular.prepare((layout(a, kind, cpu), layout(b, kind, cpu)), (upper, unit))


def _row_order(pivots: np.ndarray, rows: int) -> np.ndarray:
    """The permutation of rows that the successive row exchanges make.

    Raises RuntimeError for pivots out of range.
    """
    if pivots.size and not 1 <= pivots.min() <= pivots.max() <= rows:
        raise RuntimeError(
            f"pivots must be between 1 and LU.size(-2) = {rows} inclusive. Did you properly pass the result of "
            "lu_factor?"
        )
    order = np.empty((*pivots.shape[:-1], rows), np.int64)
    for index in np.ndindex(*pivots.shape[:-1]):
        permutation = list(range(rows))
        for k, other in enumerate(pivots[index].tolist()):
            permutation[k], permutation[other - 1] = permutation[other - 1], permutation[k]
        order[index] = permutation
    return order


def _zero_pivot(a: np.ndarray) -> int:
    """Which diagonal element of U is zero, counted from 1."""
    return int(lu_cpu.lu(a, True)[2]) or a.shape[-1]


def _cholesky(a: np.ndarray) -> np.ndarray:
    """The lower factor. OpenBLAS accepts a NaN pivot, which LAPACK rejects."""
    factor = np.linalg.cholesky(a)
    if np.isnan(np.diagonal(factor, axis1=-2, axis2=-1)).any():
        raise np.linalg.LinAlgError
    return factor


def _order_of_failing_minor(a: np.ndarray) -> int:
    """The order of the first leading minor that is not positive."""
    for n in range(1, a.shape[-1]):
        try:
            _cholesky(a[:n, :n])
        except np.linalg.LinAlgError:
            return n
    return a.shape[-1]


def _eig(a: np.ndarray) -> tuple:
    """Eigenvalues and normalised eigenvectors."""
    if not np.isfinite(a).all():
        raise RuntimeError("linalg.eig: input tensor should not contain infs or NaNs.")
    return np.linalg.eig(a)


def _pinv(a: np.ndarray, atol: float, rtol: float, hermitian: bool) -> np.ndarray:
    """The pseudoinverse, from the singular values that exceed the tolerances."""
    return _pinv_and_rank(a, atol, rtol, hermitian)[0]


def _pinv_and_rank(a: np.ndarray, atol: float, rtol: float, hermitian: bool) -> tuple:
    """(pseudoinverse, number of singular values that exceed the tolerances)."""
    if a.size == 0:
        return np.zeros_like(a.swapaxes(-1, -2)), np.zeros(a.shape[:-2], np.int64)
    u, s, vh = np.linalg.svd(a, full_matrices=False, hermitian=hermitian)
    significant = s > np.maximum(atol, rtol * s.max(-1, keepdims=True))
    inverse = (_adjoint(vh) * np.divide(1, s, out=np.zeros_like(s), where=significant)[..., None, :]) @ _adjoint(u)
    return inverse, significant.sum(-1)


def _adjoint(a: np.ndarray) -> np.ndarray:
    return a.conj().swapaxes(-1, -2)


def _lstsq(a: np.ndarray, b: np.ndarray, rtol: float) -> tuple:
    """(X, rank), by QR if the norms of R and of its inverse show that no singular value is below the tolerance, else by
    the pseudoinverse.
    """
    tall, size = a.shape[-2] >= a.shape[-1], _smaller_size(a.shape)
    # the QR of [a, b] contains Q^H b
    q, r = (None, np.linalg.qr(np.concatenate([a, b], -1), "r")) if tall else np.linalg.qr(_adjoint(a))
    r, right_side = r[..., :size, :size], r[..., :size, size:]
    inverse = _solved(r, np.broadcast_to(np.eye(size, dtype=a.dtype), r.shape), True, False)
    if (np.linalg.norm(r, axis=(-2, -1)) * np.linalg.norm(inverse, axis=(-2, -1)) * rtol < 1).all():
        solution = _solved(r, right_side, True, False) if tall else q @ (_adjoint(inverse) @ b)
        return solution, np.full(a.shape[:-2], size)
    inverse, rank = _pinv_and_rank(a, 0.0, rtol, False)
    return inverse @ b, rank


def _geqrf(a: np.ndarray) -> tuple:
    """(R above the Householder vectors, their factors)."""
    packed, tau = np.linalg.qr(a, "raw")
    return packed.swapaxes(-1, -2), tau


def _ldl_solve(ld: np.ndarray, pivots: np.ndarray, b: np.ndarray) -> np.ndarray:
    """X with A X = B, from `lu_cpu.ldl` of A."""
    x = np.array(b)
    for index in np.ndindex(*b.shape[:-2]):
        _ldl_solve_one(ld[index], pivots[index], x[index])
    return x


def _ldl_solve_one(ld: np.ndarray, pivots: np.ndarray, x: np.ndarray) -> None:
    """Solve (L D L^T) x = b in place of x, with blocks of D of one or two rows."""
    n, k, blocks = len(ld), 0, []
    while k < n:
        size, row = (1, pivots[k] - 1) if pivots[k] > 0 else (2, -pivots[k] - 1)
        block_rows, rest = slice(k, k + size), slice(k + size, n)
        x[[k + size - 1, row]] = x[[row, k + size - 1]]
        x[rest] -= ld[rest, block_rows] @ x[block_rows]
        block = np.tril(ld[block_rows, block_rows])
        x[block_rows] = np.linalg.solve(block + np.tril(block, -1).T, x[block_rows])
        blocks.append((block_rows, rest, k + size - 1, row))
        k += size
    for block_rows, rest, last, row in reversed(blocks):
        x[block_rows] -= ld[rest, block_rows].T @ x[rest]
        x[[last, row]] = x[[row, last]]


def _inv_or_infinite(a: np.ndarray) -> np.ndarray:
    """The inverses, for gradients, which must not raise: singular matrices yield infinities and NaN, the quotients by
    their zero pivots.
    """
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        packed, _, _, order = lu_cpu.lu(a, True)
        rows = (order[..., None, :] == np.arange(a.shape[-1])[:, None]).swapaxes(-1, -2).astype(a.dtype)
        return _solved(packed, _solved(packed, rows, False, True), True, False)


def _propagating_nan(compute: Callable) -> Callable:
    """`compute` with NaN results for square matrices with a NaN, which OpenBLAS may take for 0 or fail on."""

    def run(a: np.ndarray, *rest: object) -> object:
        has_nan = np.isnan(a)
        if not has_nan.any():
            return compute(a, *rest)
        has_nan = has_nan.any((-2, -1))
        results = compute(np.where(has_nan[..., None, None], np.eye(a.shape[-1], dtype=a.dtype), a), *rest)
        return (
            tuple([_filled_with_nan(result, has_nan) for result in results])
            if isinstance(results, tuple)
            else _filled_with_nan(results, has_nan)
        )

    return run


def _filled_with_nan(result: np.ndarray, has_nan: np.ndarray) -> np.ndarray:
    """The result, filled with NaN for the matrices with `has_nan`."""
    nan = complex(np.nan, np.nan) if result.dtype.kind == "c" else np.nan
    return np.where(
        np.reshape(has_nan, has_nan.shape + (1,) * (np.ndim(result) - has_nan.ndim)), result.dtype.type(nan), result
    )


def _slogdet(a: np.ndarray) -> tuple:
    """The sign and log |det|. As in PyTorch, the sign is 0 if a real determinant is NaN."""
    sign, logarithm = _propagating_nan(lambda x: tuple(np.linalg.slogdet(x)))(a)
    return sign if sign.dtype.kind == "c" else np.where(np.isnan(sign), sign.dtype.type(0), sign), logarithm


def _convergence_error(values: str) -> tuple[str, Callable]:
    return (
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
        f"{values} (error code: {{0}}).",
        lambda a: a.shape[-1],
    )


inv = Factorization(
    "inv",
    "a[*b n n]:fc;",
    "",
    _propagating_nan(np.linalg.inv),
    lambda a: a,
    (
        "The diagonal element {0} is zero, the inversion could not be completed because the input matrix is singular.",
        _zero_pivot,
    ),
)
inv_or_infinite = Factorization("inv_or_infinite", "a[*b n n]:fc;", "", _propagating_nan(_inv_or_infinite), lambda a: a)
solve = Factorization(
    "solve",
    "a[*b n n]:fc b[*b n _];",
    "",
    _propagating_nan(np.linalg.solve),
    lambda a, b: b,
    ("The solver failed because the input matrix is singular.", _zero_pivot),
)
cholesky = Factorization("cholesky", "a[*b n n]:fc;", "", _cholesky, lambda a: a, (
    "The factorization could not be completed because the input is not positive-definite "
    "(the leading minor of order {0} is not positive-definite).", _order_of_failing_minor,
))  # fmt: skip
slogdet = Factorization("slogdet", "a[*b n n]:fc;", "sign logabsdet", _slogdet, lambda a: (a[:-2], a[:-2]))
det = Factorization("det", "a[*b n n]:fc;", "", _propagating_nan(np.linalg.det), lambda a: a[:-2])
qr = Factorization(
    "qr",
    "a[*b m n]:fc; mode=reduced|complete|r",
    "q r",
    lambda a, mode: (np.empty(0), np.linalg.qr(a, "r")) if mode == "r" else np.linalg.qr(a, mode),
    lambda a, mode: ((0,) if mode == "r" else (*a[:-1], _rows_of_r(a, mode)), (*a[:-2], _rows_of_r(a, mode), a[-1])),
)
geqrf = Factorization("geqrf", "a[*b m n]:fc;", "a tau", _geqrf, lambda a: (a, (*a[:-2], _smaller_size(a))))
svd = Factorization(
    "svd",
    "a[*b m n]:fc; full=flag",
    "u s vh",
    lambda a, full: np.linalg.svd(a, full_matrices=full),
    lambda a, full: (
        (*a[:-1], a[-2] if full else _smaller_size(a)),
        (*a[:-2], _smaller_size(a)),
        (*a[:-2], a[-1] if full else _smaller_size(a), a[-1]),
    ),
    _convergence_error("singular values"),
)
# for gradients
svd_or_nan = Factorization(
    "svd_or_nan",
    "a[*b n n]:fc;",
    "u s vh",
    _propagating_nan(lambda a: tuple(np.linalg.svd(a))),
    lambda a: (a, a[:-1], a),
)
svdvals = Factorization(
    "svdvals",
    "a[*b m n]:fc;",
    "",
    lambda a: np.linalg.svd(a, compute_uv=False),
    lambda a: (*a[:-2], _smaller_size(a)),
    _convergence_error("singular values"),
)
eigh = Factorization(
    "eigh",
    "a[*b n n]:fc; lower=flag",
    "values vectors",
    lambda a, lower: np.linalg.eigh(a, "L" if lower else "U"),
    lambda a, lower: (a[:-1], a),
    _convergence_error("eigenvalues"),
)
eigvalsh = Factorization(
    "eigvalsh",
    "a[*b n n]:fc; lower=flag",
    "",
    lambda a, lower: np.linalg.eigvalsh(a, "L" if lower else "U"),
    lambda a, lower: a[:-1],
    _convergence_error("eigenvalues"),
)
eig = Factorization(
    "eig", "a[*b n n]:fc;", "values vectors", _eig, lambda a: (a[:-1], a), _convergence_error("eigenvalues")
)
pinv = Factorization(
    "pinv",
    "a[*b m n]:fc; atol=number rtol=number hermitian=flag",
    "",
    _pinv,
    lambda a, *_: (*a[:-2], a[-1], a[-2]),
    _convergence_error("singular values"),
)
lstsq = Factorization(
    "lstsq",
    "a[*b m n]:fc b[*b m _]; rtol=number",
    "solution rank",
    _lstsq,
    lambda a, b, rtol: ((*a[:-2], a[-1], b[-1]), a[:-2]),
    _convergence_error("singular values"),
)
lu = Factorization(
    "lu",
    "a[*b m n]:fc; pivoted=flag",
    "lu pivots info order",
    lu_cpu.lu,
    lambda a, pivoted: (a, (*a[:-2], _smaller_size(a)), a[:-2], a[:-1]),
)
ldl = Factorization("ldl", "a[*b n n]:fc;", "ld pivots info", lu_cpu.ldl, lambda a: (a, a[:-1], a[:-2]))
ldl_solve = Factorization(
    "ldl_solve", "ld[*b n n]:fc pivots[*b n]:any b[*b n _];", "", _ldl_solve, lambda ld, pivots, b: b
)
order = Factorization("order", "pivots[*b _]:any; rows=0..", "", _row_order, lambda pivots, rows: (*pivots[:-1], rows))
geqrf.differentiable = order.differentiable = ldl.differentiable = ldl_solve.differentiable = False
