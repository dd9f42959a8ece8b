"""Reductions over dimensions, with PyTorch's arguments; those composed of others (variance, logsumexp, norms); running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ..dtypes import dtype as DType
from ..errors import normalize_dim, normalize_dims
from ..ops import reduction as r, scan, table as t
from .apply import apply
from .elementwise import contiguous, masked_fill, to
from .selection import gather
from .shapes import squeeze
from .tensor import Tensor

BOTH = "sum mean amax amin argmax argmin max min var std var_mean std_mean logsumexp norm count_nonzero cumsum prod=prod_ any=any_ all=all_"
IN_PLACE = "cumsum"

Dims = int | Sequence[int] | None


def _reduce(op: r.Reduction, input: Tensor, dim: Dims, keepdim: bool, dtype: DType | None = None) -> Tensor:  # noqa: A002
    if dim.__class__ is int and input._layout.ndim:
        dims = (normalize_dim(dim, input._layout.ndim),)
    else:
        dims = tuple(sorted(normalize_dims(None if dim is None or dim == () or dim == [] else dim, input._layout.ndim)))
    if not input._layout.size and op.identity.__class__ is str:
        for d in dims:
            if input.shape[d] == 0:
                raise IndexError(f"{op.name}(): Expected reduction dim {d} to have non-zero size.")
    return apply(op, (input,), (dims, keepdim, dtype))


def sum(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:  # noqa: A001, A002
    """Sum over dimensions (all by default); integers and bool give int64."""
    return _reduce(r.sum, input, dim, keepdim, dtype)


def mean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:  # noqa: A002
    """Mean over dimensions (all by default) of a floating tensor."""
    return _reduce(r.mean, input, dim, keepdim, dtype)


def prod_(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:  # noqa: A002
    """Product over a dimension (all by default); integers and bool give int64."""
    return _reduce(r.prod_, input, dim, keepdim, dtype)


def amax(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:  # noqa: A002
    """Maximum over dimensions; the gradient is shared evenly between equal ones."""
    return _reduce(r.amax, input, dim, keepdim)


def amin(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:  # noqa: A002
    """Minimum over dimensions; the gradient is shared evenly between equal ones."""
    return _reduce(r.amin, input, dim, keepdim)


def any_(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:  # noqa: A002
    """Whether any element is true (not zero)."""
    return _reduce(r.any_, input, dim, keepdim)


def all_(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:  # noqa: A002
    """Whether all elements are true (not zero)."""
    return _reduce(r.all_, input, dim, keepdim)


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:  # noqa: A002
    """Index of the greatest element along a dimension, or in the flattened tensor."""
    return _arg(scan.argmax, input, dim, keepdim)


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:  # noqa: A002
    """Index of the least element along a dimension, or in the flattened tensor."""
    return _arg(scan.argmin, input, dim, keepdim)


def _arg(op: scan.ArgExtremum, input: Tensor, dim: int | None, keepdim: bool) -> Tensor:  # noqa: A002
    if dim is None:
        if not input.numel():
            raise IndexError(f"{op.name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.")
        flat = apply(op, (contiguous(input).reshape(-1),), (0, False))
        return flat.reshape([1] * input.ndim) if keepdim else flat
    return apply(op, (contiguous(input),), (normalize_dim(dim, input.ndim), keepdim))


class ValuesIndices(tuple):
    """A pair of tensors, `values` and `indices`."""

    __slots__ = ()
    values = property(lambda self: self[0])
    indices = property(lambda self: self[1])

    def __repr__(self) -> str:
        return f"numod.return_types.max(\nvalues={self[0]!r},\nindices={self[1]!r})"


def max(input: Tensor, dim: int | Tensor | None = None, keepdim: bool = False) -> Tensor | ValuesIndices:  # noqa: A001, A002
    """The greatest element; with `dim`, (values, indices) along it; with a tensor, the elementwise maximum."""
    return _extremum(r.amax, argmax, t.maximum, input, dim, keepdim)


def min(input: Tensor, dim: int | Tensor | None = None, keepdim: bool = False) -> Tensor | ValuesIndices:  # noqa: A001, A002
    """The least element; with `dim`, (values, indices) along it; with a tensor, the elementwise minimum."""
    return _extremum(r.amin, argmin, t.minimum, input, dim, keepdim)


def _extremum(whole: r.Reduction, place: Callable, pointwise: object, input: Tensor, dim: object, keepdim: bool) -> Tensor | ValuesIndices:  # noqa: A002
    if isinstance(dim, Tensor):
        return pointwise(input, dim)
    if dim is None:
        if not input.numel():
            raise RuntimeError(f"{whole.name[1:]}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.")
        return _reduce(whole, input, None, False)
    indices = place(input, dim, True)
    values = gather(input, dim, indices) if input.ndim else input
    return ValuesIndices((values, indices) if keepdim or not input.ndim else (squeeze(values, dim), squeeze(indices, dim)))


def var(input: Tensor, dim: Dims = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None) -> Tensor:  # noqa: A002
    """Variance over dimensions, divided by n - correction (1 by default); two passes, so that a large mean does no harm."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    correction = (1 if unbiased in (None, True) else 0) if correction is None else correction
    dims = normalize_dims(None if dim is None or dim == () or dim == [] else dim, input.ndim)
    count = prod(input.shape[d] for d in dims)
    total = sum(t.square(input - mean(input, dims, True)), dims, keepdim)
    rest = count - correction
    return total / (rest if rest > 0 else 0.0)


def std(input: Tensor, dim: Dims = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None) -> Tensor:  # noqa: A002
    """Square root of `var`."""
    return t.deviation(var(input, dim, unbiased, keepdim, correction=correction))


def var_mean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, correction: float = 1) -> tuple[Tensor, Tensor]:  # noqa: A002
    """(variance, mean)."""
    return var(input, dim, keepdim=keepdim, correction=correction), mean(input, dim, keepdim)


def std_mean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, correction: float = 1) -> tuple[Tensor, Tensor]:  # noqa: A002
    """(standard deviation, mean)."""
    return std(input, dim, keepdim=keepdim, correction=correction), mean(input, dim, keepdim)


def logsumexp(input: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:  # noqa: A002
    """log(sum(exp(x))) over dimensions, shifted by the maximum so that nothing overflows."""
    dims = normalize_dims(dim, input.ndim)
    if prod(input.shape[d] for d in dims) == 0:
        return t.log(sum(t.exp(input), dims, keepdim))
    high = amax(input, dims, True).detach()
    high = masked_fill(high, t.isinf(high), 0.0)
    result = t.log(sum(t.exp(input - high), dims, True)) + high
    return result if keepdim else squeeze(result, dims)


def norm(input: Tensor, p: float | str | None = "fro", dim: Dims = None, keepdim: bool = False) -> Tensor:  # noqa: A002
    """Vector norm over dimensions: (sum |x|^p)^(1/p), p = inf the greatest, p = 0 the number of nonzeros."""
    p = 2.0 if p in (None, "fro", 2) else float(p)
    if not input.is_floating_point():
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point tensor as input. Got {input.dtype.short}")
    if p == 2.0:
        return _reduce(r.norm2, input, dim, keepdim)
    if p == 1.0:
        return _reduce(r.norm1, input, dim, keepdim)
    if p in (float("inf"), float("-inf")):
        return (amax if p > 0 else amin)(t.abs(input), dim, keepdim)
    if p == 0.0:
        return sum((input != 0).to(input.dtype), dim, keepdim)
    total = sum(t.pow(t.abs(input), p), dim, keepdim)
    return t.where(total == 0, 0.0, t.pow(t.where(total == 0, 1.0, total), 1.0 / p))  # where all is zero the gradient is too


def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:  # noqa: A002
    """Number of elements that are not zero."""
    return sum(input != 0, dim)


def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:  # noqa: A002
    """Running sum along a dimension; integers and bool give int64."""
    input = input if dtype is None else to(input, dtype)  # noqa: A001
    return apply(scan.cumsum, (contiguous(input),), (normalize_dim(dim, input.ndim),))
