"""Statistics: quantiles, reductions that leave NaN out, covariance.

Sums and variances are in `reductions`, medians in `sorting`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import dtypes
from ...dtypes import dtype as DType
from ...errors import normalize_dim, warn_caller
from ...ops import table as t
from . import reductions
from .. import return_types
from .complexes import complex_
from .elementwise import clamp, where
from ..convert.copies import to
from ..linalg.products import matmul
from .reductions import amax, amin, nansum, norm
from ..index.selection import gather
from ..shape.shapes import movedim, reshape, squeeze, transpose, unsqueeze
from ..search.sorting import sort
from ..tensor import Tensor
from ..create.values import tensor

BOTH = "quantile nanquantile nanmean aminmax cov corrcoef renorm dist"
IN_PLACE = "renorm"
OUT = "quantile nanquantile nanmean aminmax renorm"

Dims = int | Sequence[int] | None
_RANKS: dict[str, Callable] = {
    "linear": lambda ranks: ranks,
    "midpoint": lambda ranks: ranks,
    "lower": t.floor,
    "higher": t.ceil,
    "nearest": t.round,
}


def quantile(
    input: Tensor, q: float | Tensor, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Quantiles `q` (in [0, 1]) along a dimension or of all elements; NaN if any of these is NaN.

    A vector q adds a first dimension.

    Example:

        >>> torch.quantile(torch.tensor([0.0, 1.0, 2.0, 3.0]), 0.5)
        tensor(1.5000)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


def nanquantile(
    input: Tensor, q: float | Tensor, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """`quantile` of the elements that are not NaN.

    Example:

        >>> torch.nanquantile(torch.tensor([1.0, float("nan"), 3.0]), 0.5)
        tensor(2.)
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


def _quantile(
    name: str, input: Tensor, q: float | Tensor, dim: int | None, keepdim: bool, interpolation: str, ignores_nan: bool
) -> Tensor:
    q = _fractions(name, input, q, interpolation)
    shape = _reduced_shape(input, dim, keepdim)
    rows = reshape(input, -1) if dim is None or not input.ndim else movedim(input, dim, -1)
    ordered = sort(rows).values
    present = to(reductions.sum(t.logical_not(t.isnan(ordered.detach())), -1, True), input.dtype)
    last = ordered.shape[-1] - 1.0
    fractions = reshape(q, -1)
    ranks = (
        t.clamp_min(fractions * (present - 1.0), 0.0)
        if ignores_nan
        else where(present == last + 1.0, fractions * last, last)
    )
    ranks = _RANKS[interpolation](ranks)
    below = gather(ordered, -1, to(t.floor(ranks.detach()), dtypes.int64))
    if interpolation in ("linear", "midpoint"):
        above = gather(ordered, -1, to(t.ceil(ranks.detach()), dtypes.int64))
        result = t.lerp(below, above, 0.5 if interpolation == "midpoint" else ranks - t.floor(ranks))
    else:
        result = below
    return reshape(movedim(result, -1, 0), (*q.shape, *shape))


def _fractions(name: str, input: Tensor, q: float | Tensor, interpolation: str) -> Tensor:
    """`q` as a tensor, after PyTorch's checks of the arguments."""
    if interpolation not in _RANKS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    if not input.numel():
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if input.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        return tensor(float(q), dtype=input.dtype, device=input.device)
    if q.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if q.dtype is not input.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if not ((q >= 0) & (q <= 1)).all()._observe():
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")
    return q


def _reduced_shape(input: Tensor, dim: int | None, keepdim: bool) -> tuple[int, ...]:
    """The shape after reducing a dimension, or all of them."""
    if dim is None:
        return (1,) * input.ndim if keepdim else ()
    dim = normalize_dim(dim, input.ndim)
    return (*input.shape[:dim], *([1] if keepdim and input.ndim else []), *input.shape[dim + 1 :])


def nanmean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Mean over dimensions (all by default) of the elements that are not NaN.

    Example:

        >>> torch.nanmean(torch.tensor([1.0, torch.nan, 3.0]))
        tensor(2.)
    """
    if not input.is_floating_point() and dtype is None:
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {input.dtype.short}"
        )
    count = reductions.sum(t.logical_not(t.isnan(input.detach())), dim, keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / count


def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> return_types.aminmax:
    """(min, max) along a dimension, or of all; gradients are shared evenly between equal elements.

    Example:

        >>> torch.aminmax(torch.tensor([1.0, 4.0, 2.0]))
        numod.return_types.aminmax(
        min=tensor(1.),
        max=tensor(4.))
    """
    if dim is None and not input.numel():
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    return return_types.aminmax((amin(input, dim, keepdim), amax(input, dim, keepdim)))


def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """Covariance matrix of variables (rows) by observations (columns), with whole-number and real weights of
    observations.

    Example:

        >>> torch.cov(torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    if input.dtype is dtypes.bool_:
        raise RuntimeError("cov(): bool dtype is not supported for inputs")
    rows = reshape(input, (1, -1)) if input.ndim < 2 else input
    n = rows.shape[1]
    weights = _observation_weights(n, fweights, aweights)
    total = n if weights is None else weights.sum()
    if weights is not None and not (n == 0 or total._observe() != 0):
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    mean = (rows if weights is None else rows * weights).sum(1) / total
    if weights is None or aweights is None or correction == 0:
        freedom = total - correction
    else:
        freedom = total - correction * (weights * aweights).sum() / total
    if (freedom._observe() if isinstance(freedom, Tensor) else freedom) <= 0:
        warn_caller(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations."
        )
        freedom = 0
    centred = rows - unsqueeze(mean, 1)
    return squeeze(
        matmul(centred, transpose((centred if weights is None else centred * weights).conj(), 0, 1)) / freedom
    )


def _observation_weights(n: int, fweights: Tensor | None, aweights: Tensor | None) -> Tensor | None:
    """The product of both weights. Raises RuntimeError for invalid shapes, dtypes and values."""
    for name, weights, integral in (("fweights", fweights, True), ("aweights", aweights, False)):
        if weights is None:
            continue
        if weights.ndim > 1:
            raise RuntimeError(
                f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.ndim} dimensions"
            )
        if (weights.dtype.kind in "iu") is not integral:
            raise RuntimeError(
                f"cov(): expected {name} to have {'integral' if integral else 'floating point'} dtype but got {name} "
                f"with {weights.dtype.short} dtype"
            )
        if weights.numel() != n:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the input but got "
                f"{weights.numel()} != {n}"
            )
        if n and weights.min()._observe() < 0:
            raise RuntimeError(f"cov(): {name} cannot be negative")
    present = [weights for weights in (fweights, aweights) if weights is not None]
    return present[0] * present[1] if len(present) == 2 else present[0] if present else None


def corrcoef(input: Tensor) -> Tensor:
    """Pearson correlation coefficients of variables (rows) by observations (columns).

    Example:

        >>> torch.corrcoef(torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    correlation = cov(input)
    if not correlation.ndim:
        return correlation / correlation
    deviation = t.sqrt(correlation.diagonal().real)
    correlation = correlation / unsqueeze(deviation, 1) / unsqueeze(deviation, 0)
    return (
        complex_(clamp(correlation.real, -1, 1), clamp(correlation.imag, -1, 1))
        if correlation.is_complex()
        else clamp(correlation, -1, 1)
    )


def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Slices of a dimension whose p-norm exceeds `maxnorm` scaled down to it.

    Example:

        >>> torch.renorm(torch.tensor([[3.0, 4.0]]), p=2, dim=0, maxnorm=1.0)
        tensor([[0.6000, 0.8000]])
    """
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    dim = normalize_dim(dim, input.ndim)
    length = norm(input, p, [d for d in range(input.ndim) if d != dim], True)
    return input * where(length > maxnorm, maxnorm / (length + 1e-7), 1.0)


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of input - other.

    Example:

        >>> torch.dist(torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0]))
        tensor(5.)
    """
    return norm(input - other, p)
