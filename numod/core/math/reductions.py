"""Reductions over dimensions, with PyTorch's arguments, and those composed of others (variance, logsumexp, norms).

Running totals are in `cumulative`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ... import dtypes
from ...device import Layout
from ...dtypes import dtype as DType
from ...errors import every_dim, normalize_dim, normalize_dims, SINGLE_INT, warn_caller
from ...ops.reduce import argmax as ex, reduction as r
from ...ops import table as t
from .. import return_types
from ..arguments import plain_number
from ..apply import apply, with_shared_node
from ..convert.copies import contiguous, to
from .elementwise import masked_fill
from ..resolve import resolved
from ..shape.shapes import squeeze
from ..tensor import Tensor

BOTH = (
    "sum nansum mean amax amin argmax argmin max min var std var_mean std_mean logsumexp count_nonzero prod=prod_ "
    "any=any_ all=all_"
)
OUT = "sum nansum mean amax amin argmax argmin max min var std logsumexp prod any all"

Dims = int | Sequence[int] | None


def _reduce(op: r.Reduction, input: Tensor, dim: Dims, keepdim: bool, dtype: DType | None = None) -> Tensor:
    """Run a reduction over dimensions, given as an int, several ints or None."""
    if dtype is not None and input._layout.dtype.is_complex and not dtype.is_complex:
        input = to(input, dtype)
    if dim.__class__ is int and input._layout.ndim:
        dims = (normalize_dim(dim, input._layout.ndim),)
    elif dim is None:
        dims = every_dim(input._layout.ndim)
    else:
        dims = _sorted(dim, input._layout.ndim)
    if not input._layout.size and op.identity.__class__ is str:
        if dim is None or isinstance(dim, tuple) and not dim:
            raise RuntimeError(
                f"{op.name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "
                "dim with the 'dim' argument."
            )
        for d in dims:
            if input.shape[d] == 0:
                raise IndexError(f"{op.name}(): Expected reduction dim {d} to have non-zero size.")
    return apply(op, (input,), (dims, keepdim, dtype if dtype is None else dtypes.as_dtype(dtype)))


def _sorted(dim: Dims, ndim: int) -> tuple[int, ...]:
    """The dimensions in their order; no dimensions mean all of them."""
    return tuple(sorted(normalize_dims(None if isinstance(dim, (tuple, list)) and not dim else dim, ndim)))


def sum(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Sum over dimensions (all by default); integers and bool give int64.

    Example:

        >>> torch.sum(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
        tensor([4., 6.])
    """
    return _reduce(r.sum, input, dim, keepdim, dtype)


def nansum(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Sum over dimensions (all by default) of the elements that are not NaN.

    Example:

        >>> torch.nansum(torch.tensor([1.0, torch.nan, 3.0]))
        tensor(4.)
    """
    return _reduce(r.nansum if input.is_floating_point() else r.sum, input, dim, keepdim, dtype)


def mean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Mean over dimensions (all by default) of a floating tensor.

    Example:

        >>> torch.mean(torch.tensor([[1.0, 3.0], [2.0, 6.0]]), dim=1)
        tensor([2., 4.])
    """
    return _reduce(r.mean, input, dim, keepdim, dtype)


def prod_(input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Product over a dimension (all by default); integers and bool give int64.

    Example:

        >>> torch.prod(torch.tensor([2.0, 3.0, 4.0]))
        tensor(24.)
    """
    if dim is not None and not hasattr(dim, "__index__"):
        raise TypeError(
            f"prod(): argument 'dim' must be int, not {type(dim).__name__}; reduce one dimension after the other"
        )
    return _reduce(r.prod_, input, dim, keepdim, dtype)


def amax(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Maximum over dimensions; the gradient is shared evenly between equal ones.

    Example:

        >>> torch.amax(torch.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=1)
        tensor([4., 3.])
    """
    return _reduce(r.amax, input, dim, keepdim)


def amin(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Minimum over dimensions; the gradient is shared evenly between equal ones.

    Example:

        >>> torch.amin(torch.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=1)
        tensor([1., 2.])
    """
    return _reduce(r.amin, input, dim, keepdim)


def any_(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether any element is true (not zero).

    Example:

        >>> torch.any(torch.tensor([[False, False], [True, False]]), dim=1)
        tensor([False,  True])
    """
    return _truth_of(r.any_, input, dim, keepdim)


def all_(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether all elements are true (not zero).

    Example:

        >>> torch.all(torch.tensor([[True, False], [True, True]]), dim=1)
        tensor([False,  True])
    """
    return _truth_of(r.all_, input, dim, keepdim)


def _truth_of(op: r.Reduction, input: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """bool, but uint8 for uint8, as in PyTorch."""
    truth = (
        _reduce(op, input, dim, keepdim)
        if dim is None or isinstance(dim, SINGLE_INT) or len(dim) or not input.ndim
        else input != 0
    )
    return to(truth, input.dtype) if input.dtype is dtypes.uint8 else truth


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the greatest element along a dimension, or in the flattened tensor.

    Example:

        >>> torch.argmax(torch.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=1)
        tensor([1, 0])
    """
    return _arg(ex.argmax, input, dim, keepdim)


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the least element along a dimension, or in the flattened tensor.

    Example:

        >>> torch.argmin(torch.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=1)
        tensor([0, 1])
    """
    return _arg(ex.argmin, input, dim, keepdim)


def _arg(op: ex.ArgExtremum, input: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if input.dtype is dtypes.bool_:
        raise RuntimeError(f"{op.name}(): does not support bool input; convert first, for example with .byte()")
    if dim is None:
        if not input.numel():
            raise IndexError(
                f"{op.name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "
                "dim with the 'dim' argument."
            )
        flat = apply(op, (contiguous(input if input.ndim == 1 else input.reshape(-1)),), (0, False))
        return flat.reshape([1] * input.ndim) if keepdim else flat
    return _along(op, input, dim, keepdim)


def _along(op: ex.Extremum, input: Tensor, dim: int, keepdim: bool) -> Tensor | tuple[Tensor, Tensor]:
    dim, moves_dim, readable = _lying(input._layout, dim)
    if moves_dim:
        results = apply(op, (contiguous(input.movedim(dim, -1)),), (input.ndim - 1, bool(keepdim)))
        back = (lambda result: result.movedim(-1, dim)) if keepdim else (lambda result: result)
        return tuple(map(back, results)) if isinstance(results, tuple) else back(results)
    return apply(op, (input if readable else contiguous(input),), (dim, bool(keepdim)))


@resolved
def _lying(input_layout: Layout, dim: int) -> tuple[int, bool, bool]:
    """(normalised dimension, whether to move it last so that columns are compared as vectors, whether the ops can read
    the tensor without a copy).
    """
    dim = normalize_dim(dim, input_layout.ndim)
    return dim, ex.prefers_transposed(input_layout, dim), ex.readable(input_layout, dim)


def max(
    input: Tensor, dim: int | Tensor | None = None, keepdim: bool = False, *, other: Tensor | None = None
) -> Tensor | return_types.max:
    """The greatest element; with `dim`, (values, indices) along it; with a tensor, the elementwise maximum.

    Example:

        >>> torch.max(torch.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=1)
        numod.return_types.max(
        values=tensor([4., 3.]),
        indices=tensor([1, 0]))
    """
    return _extremum(r.amax, ex.max_, t.maximum, return_types.max, input, dim if other is None else other, keepdim)


def min(
    input: Tensor, dim: int | Tensor | None = None, keepdim: bool = False, *, other: Tensor | None = None
) -> Tensor | return_types.min:
    """The least element; with `dim`, (values, indices) along it; with a tensor, the elementwise minimum.

    Example:

        >>> torch.min(torch.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=1)
        numod.return_types.min(
        values=tensor([1., 2.]),
        indices=tensor([0, 1]))
    """
    return _extremum(r.amin, ex.min_, t.minimum, return_types.min, input, dim if other is None else other, keepdim)


def _extremum(
    whole: r.Reduction, along: ex.Extremum, pointwise: object, kind: type, input: Tensor, dim: object, keepdim: bool
) -> Tensor | tuple:
    """The extremum of all elements, (values, indices) along a dimension, or of two tensors elementwise."""
    if isinstance(dim, Tensor) and not (keepdim and not dim.ndim):
        return pointwise(input, dim)
    if dim is None:
        if keepdim:
            raise TypeError(
                f"{whole.name[1:]}(): argument 'keepdim' needs a 'dim'; use {whole.name}() to keep all dimensions"
            )
        if not input.numel():
            raise RuntimeError(
                f"{whole.name[1:]}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
                "reduction dim with the 'dim' argument."
            )
        return _reduce(whole, input, None, False)
    return kind(_along(along, input, dim, keepdim))


def _unbiased(dim: Dims | bool, unbiased: bool | None, correction: float | None) -> tuple[Dims, float]:
    """(dimensions, correction) from the overloads (unbiased), (dim, unbiased) and (dim, correction=...)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and not isinstance(unbiased, bool):
        raise TypeError(
            f"argument 'unbiased' must be bool, not {type(unbiased).__name__}; several dimensions are one tuple"
        )
    if unbiased is not None and correction is not None:
        raise TypeError("variance takes `unbiased` or `correction`, not both")
    return dim, (1 if unbiased in (None, True) else 0) if correction is None else correction


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Variance over dimensions, divided by n - correction (1 by default).

    Mean and squares are of float64, so that a large mean costs no accuracy.

    Example:

        >>> torch.var(torch.tensor([1.0, 3.0]))
        tensor(2.)
    """
    return to(_var_mean(input, dim, unbiased, keepdim, correction)[0], input.dtype.to_real())


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Square root of `var`, also of one beyond the dtype's range.

    Example:

        >>> torch.std(torch.tensor([1.0, 3.0]))
        tensor(1.4142)
    """
    return to(t.deviation(_var_mean(input, dim, unbiased, keepdim, correction)[0]), input.dtype.to_real())


def var_mean(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(variance, mean) over dimensions.

    Example:

        >>> torch.var_mean(torch.tensor([1.0, 3.0]))
        (tensor(2.), tensor(2.))
    """
    variance, middle, dims = _var_mean(input, dim, unbiased, keepdim, correction)
    return with_shared_node(
        "var_mean", to(variance, input.dtype.to_real()), to(middle if keepdim else squeeze(middle, dims), input.dtype)
    )


def std_mean(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(standard deviation, mean) over dimensions.

    Example:

        >>> torch.std_mean(torch.tensor([1.0, 3.0]))
        (tensor(1.4142), tensor(2.))
    """
    variance, middle, dims = _var_mean(input, dim, unbiased, keepdim, correction)
    return with_shared_node(
        "std_mean",
        to(t.deviation(variance), input.dtype.to_real()),
        to(middle if keepdim else squeeze(middle, dims), input.dtype),
    )


def _var_mean(
    input: Tensor, dim: Dims, unbiased: bool | None, keepdim: bool, correction: float | None
) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """(variance in float64, mean in float64 or complex128 with all dimensions, dimensions)."""
    dim, correction = _unbiased(dim, unbiased, correction)
    if not input.dtype.differentiable:
        raise RuntimeError(
            f"std and var only support floating point and complex dtypes, got {input.dtype}; convert first, for "
            "example with .float()"
        )
    dims = _sorted(dim, input.ndim)
    rest = prod([input.shape[d] for d in dims]) - correction
    if rest <= 0:
        warn_caller(
            "var(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input "
            "numel divided by output numel)."
        )
    middle = apply(r.mean, (input,), (dims, True, dtypes.complex128 if input.is_complex() else dtypes.float64))
    squares = t.square(t.abs(input - middle)) if input.is_complex() else apply(t.squared_error, (input, middle))
    return (
        apply(t.div, (apply(r.sum, (squares,), (dims, bool(keepdim), None)), rest if rest > 0 else 0.0)),
        middle,
        dims,
    )


def logsumexp(input: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over dimensions, shifted by the maximum so that nothing overflows.

    Example:

        >>> torch.logsumexp(torch.tensor([[0.0, 0.0]]), dim=1)
        tensor([0.6931])
    """
    dims = normalize_dims(dim, input.ndim)
    input = input if input.dtype.differentiable else to(input, dtypes.get_default_dtype())
    if prod(input.shape[d] for d in dims) == 0:
        return t.log(sum(t.exp(input), dims, keepdim))
    high = amax(input.detach().real, dims, True)
    high = masked_fill(high, t.isinf(high), 0.0)
    result = t.log(sum(t.exp(input - high), dims, True)) + high
    return result if keepdim else squeeze(result, dims)


def norm(
    input: Tensor, p: float | str | None = "fro", dim: Dims = None, keepdim: bool = False, dtype: DType | None = None
) -> Tensor:
    """Vector norm over dimensions: (sum |x|^p)^(1/p), p = inf the greatest, p = 0 the number of nonzeros."""
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(
            f"norm: p must be a number or 'fro', got {p!r}; numod.linalg.matrix_norm has the norms of matrices"
        )
    if isinstance(p, Tensor):
        p = plain_number("norm", "p", p)
    p = 2.0 if p in (None, "fro", 2) else float(p)
    if not input.dtype.differentiable:
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {input.dtype.short}"
        )
    if dtype is not None:
        input = to(input, dtype)
    input = t.abs(input) if input.is_complex() else input
    if (
        (p < 0.0 or p == float("inf"))
        and not input.numel()
        and not all(input.shape[d] for d in normalize_dims(dim, input.ndim) or every_dim(input.ndim))
    ):
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {p:g} norm on an empty tensor because the operation does not have "
            "an identity"
        )
    if p == 2.0:
        return _reduce(r.norm2, input, dim, keepdim)
    if p == 1.0:
        return _reduce(r.norm1, input, dim, keepdim)
    if p in (float("inf"), float("-inf")):
        return (amax if p > 0 else amin)(t.abs(input), dim, keepdim)
    if p == 0.0:
        # a step function: its gradient is zero
        return sum(masked_fill(t.sign(t.abs(input)), t.isnan(input), 1.0), dim, keepdim)
    magnitude = t.abs(input)
    if p < 1.0:  # the slope at a zero is infinite, and taken as zero
        zero = magnitude == 0
        powers = masked_fill(t.pow(masked_fill(magnitude, zero, 1.0), p), zero, 0.0 if p > 0.0 else float("inf"))
    else:
        powers = t.pow(magnitude, p)
    total = sum(powers, dim, keepdim)
    # at zero the gradient is zero too
    return t.where(total == 0, 0.0 if p > 0.0 else float("inf"), t.pow(t.where(total == 0, 1.0, total), 1.0 / p))


def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """Number of elements that are not zero.

    Example:

        >>> torch.count_nonzero(torch.tensor([0, 1, 2]))
        tensor(2)
    """
    return sum(input != 0, dim)
