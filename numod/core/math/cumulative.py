"""Cumulative functions along a dimension, and functions of neighbouring elements: diff, trapezoid, gradient."""

from __future__ import annotations

from collections.abc import Sequence

from ... import dtypes
from ...dtypes import dtype as DType
from ...errors import SINGLE_INT, normalize_dim, normalize_dims
from ...ops.reduce import scan
from ...ops import table as t
from ...ops.op import Op
from .. import return_types
from ..apply import apply
from ..convert.copies import contiguous, to
from .reductions import sum as total
from ..shape.joining import cat
from ..shape.parts import narrow
from ..shape.shapes import movedim, unsqueeze
from ..tensor import Tensor

BOTH = "cumsum cumprod cummax cummin logcumsumexp diff"
FUNCTIONS = "gradient trapezoid trapz=trapezoid cumulative_trapezoid"
IN_PLACE = "cumsum cumprod"
OUT = "cumsum cumprod cummax cummin logcumsumexp diff"


def _running(op: Op, input: Tensor, dim: int, dtype: DType | None = None) -> Tensor | tuple[Tensor, ...]:
    input = input if dtype is None else to(input, dtype)
    result = apply(op, (contiguous(input),), (normalize_dim(dim, input.ndim),))
    return result if dtype is None else to(result, dtype)


def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Running sum along a dimension; integers and bool give int64.

    Example:

        >>> torch.cumsum(torch.tensor([1.0, 2.0, 3.0]), dim=0)
        tensor([1., 3., 6.])
    """
    return _running(scan.cumsum, input, dim, dtype)


def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Running product along a dimension; integers and bool give int64.

    Example:

        >>> torch.cumprod(torch.tensor([1.0, 2.0, 3.0]), dim=0)
        tensor([1., 2., 6.])
    """
    return _running(scan.cumprod, input, dim, dtype)


def cummax(input: Tensor, dim: int) -> return_types.cummax:
    """(values, indices): the greatest element so far along a dimension, and its last place.

    Example:

        >>> torch.cummax(torch.tensor([1.0, 3.0, 2.0]), dim=0)
        numod.return_types.cummax(
        values=tensor([1., 3., 3.]),
        indices=tensor([0, 1, 1]))
    """
    return return_types.cummax(_running(scan.cummax, input, dim))


def cummin(input: Tensor, dim: int) -> return_types.cummin:
    """(values, indices): the least element so far along a dimension, and its last place.

    Example:

        >>> torch.cummin(torch.tensor([3.0, 1.0, 2.0]), dim=0)
        numod.return_types.cummin(
        values=tensor([3., 1., 1.]),
        indices=tensor([0, 1, 1]))
    """
    return return_types.cummin(_running(scan.cummin, input, dim))


def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """Logarithm of the running sum of exponentials along a dimension, without overflow.

    Example:

        >>> torch.logcumsumexp(torch.tensor([0.0, 0.0, 0.0]), dim=0)
        tensor([0.0000, 0.6931, 1.0986])
    """
    if input.is_complex():
        dim = normalize_dim(dim, input.ndim)
        n, width = input.shape[dim] if input.ndim else 1, 1
        while width < n:  # each element is combined with the one 1, 2, 4 ... places before it
            first, later = narrow(input, dim, 0, width), narrow(input, dim, width, n - width)
            input, width = cat([first, t.logaddexp(later, narrow(input, dim, 0, n - width))], dim), 2 * width
        return input.clone()
    if not input.is_floating_point():
        raise NotImplementedError(
            f"\"logcumsumexp_out_cpu\" not implemented for '{input.dtype.short}'; convert first, for example with "
            ".to(numod.float32)"
        )
    return _running(scan.logcumsumexp, input, dim)


def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """n-th differences of neighbours along a dimension; `prepend` and `append` are concatenated first.

    Of bool: whether neighbours differ.

    Example:

        >>> torch.diff(torch.tensor([1, 3, 2]))
        tensor([ 2, -1])
    """
    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    dim = normalize_dim(dim, input.ndim)
    if not n:
        return input.clone()
    for tensor in (prepend, append):
        if tensor is not None:
            _expect_beside(input, tensor, dim)
    parts = [tensor for tensor in (prepend, input, append) if tensor is not None]
    input = cat(parts, dim) if len(parts) > 1 else input
    for _ in range(min(n, input.shape[dim])):
        later, earlier = narrow(input, dim, 1, input.shape[dim] - 1), narrow(input, dim, 0, input.shape[dim] - 1)
        input = t.logical_xor(later, earlier) if input.dtype is dtypes.bool_ else later - earlier
    return input


def _expect_beside(input: Tensor, other: Tensor, dim: int) -> None:
    """Raise RuntimeError unless `other` can be concatenated to the input along `dim`."""
    if other.ndim != input.ndim:
        raise RuntimeError(
            f"diff expects prepend or append to be the same dimension as input, got {other.ndim} and {input.ndim} "
            "dimensions"
        )
    for d, (n, m) in enumerate(zip(input.shape, other.shape)):
        if d != dim and n != m:
            raise RuntimeError(
                "diff expects the shape of tensor to prepend or append to match that of input except along the "
                "differencing dimension; "
                f"input.size({d}) = {n}, but got tensor.size({d}) = {m}"
            )


def _areas(name: str, y: Tensor, x: Tensor | None, dx: float | None, dim: int) -> Tensor:
    """Areas of the trapezoids between neighbours along a dimension."""
    if x is not None and dx is not None:
        raise TypeError(f"{name}() takes the points `x` or their distance `dx`, not both")
    dim = normalize_dim(dim, y.ndim)
    if not y.ndim or (x is not None and not x.ndim):
        raise IndexError(f"{name}: expected at least one dimension, got a scalar")
    n = y.shape[dim]
    if x is not None and x.shape[-1 if x.ndim == 1 else dim - y.ndim] != n:
        raise RuntimeError(f"{name}(): There must be one `x` value for each sample point")
    if n == 0:
        return narrow(y, dim, 0, 0)
    step = (1.0 if dx is None else dx) if x is None else _steps(x, dim, y.ndim)
    return (narrow(y, dim, 1, n - 1) + narrow(y, dim, 0, n - 1)) * step / 2


def _steps(x: Tensor, dim: int, ndim: int) -> Tensor:
    """Distances between the points, shaped to broadcast with values of `ndim` dimensions."""
    if x.ndim > 1:
        return diff(x, dim=dim - ndim)
    result = diff(x)
    for _ in range(ndim - 1 - dim):
        result = unsqueeze(result, -1)
    return result


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """Area under y along a dimension by the trapezoidal rule, at points `x` or in steps of `dx` (1).

    Example:

        >>> torch.trapezoid(torch.tensor([1.0, 2.0, 3.0]))
        tensor(4.)
    """
    return total(_areas("trapezoid", y, x, dx, dim), dim)


def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """Running area under y along a dimension by the trapezoidal rule.

    Example:

        >>> torch.cumulative_trapezoid(torch.tensor([1.0, 2.0, 3.0]))
        tensor([1.5000, 4.0000])
    """
    return cumsum(_areas("cumulative_trapezoid", y, x, dx, dim), dim)


def gradient(
    input: Tensor, *, spacing: float | Sequence = 1, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Estimated derivatives along dimensions (all by default): second-order accurate inside, of order `edge_order` at
    the ends.

    `spacing` is a step, one per dimension, or the coordinates along each. Raises RuntimeError where a dimension has
    fewer than edge_order + 1 elements.

    Example:

        >>> torch.gradient(torch.tensor([1.0, 4.0, 9.0, 16.0]))
        (tensor([3., 4., 6., 7.]),)
    """
    dims = list(range(input.ndim)) if dim is None else [dim] if isinstance(dim, SINGLE_INT) else list(dim)
    spacing = 1 if spacing is None else spacing
    steps = [spacing] * len(dims) if not isinstance(spacing, (list, tuple)) else list(spacing)
    if edge_order not in (1, 2):
        raise RuntimeError(f"torch.gradient only supports edge_order=1 and edge_order=2, got {edge_order}.")
    if len(steps) != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or a list of length equal to 'dim' "
            f"({len(dims)}), but got {len(steps)}"
        )
    dims = normalize_dims(tuple(dims), input.ndim)
    if any(input.shape[d] < edge_order + 1 for d in dims):
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    x = input if input.dtype.differentiable else input.to(dtypes.get_default_dtype())
    return tuple(_slopes(x, step, d, edge_order).contiguous() for step, d in zip(steps, dims))


def _slopes(y: Tensor, step: float | Tensor, dim: int, edge_order: int) -> Tensor:
    """The derivative of the parabola through three neighbours (Fornberg, 1988).

    At the ends, of the parabola there or, for `edge_order` 1, of a line.

    The middle one of three equally distant points has no weight, which matters where it is infinite.
    """
    y, n = movedim(y, dim, -1), y.shape[dim]
    even = not (isinstance(step, Tensor) and step.ndim)
    gaps = [step] * (n - 1) if even else diff(step)
    parts = []
    if n > 2:
        low, middle, high = (narrow(y, -1, k, n - 2) for k in range(3))
        a, b = gaps[:-1], gaps[1:]
        parts = [
            (high - low) / (2 * step)
            if even
            else high * (a / (b * (a + b))) + middle * ((b - a) / (a * b)) - low * (b / (a * (a + b)))
        ]
    first, last = ((narrow(y, -1, k + 1, 1) - narrow(y, -1, k, 1)) / gaps[k] for k in (0, n - 2))
    if edge_order == 2:
        (a, b), (low, middle, high) = gaps[:2], (narrow(y, -1, k, 1) for k in range(3))
        first = middle * ((a + b) / (a * b)) - low * ((2 * a + b) / (a * (a + b))) - high * (a / (b * (a + b)))
        (a, b), (low, middle, high) = gaps[-2:], (narrow(y, -1, k, 1) for k in range(n - 3, n))
        last = high * ((a + 2 * b) / (b * (a + b))) - middle * ((a + b) / (a * b)) + low * (b / (a * (a + b)))
    return movedim(cat([first, *parts, last], -1), -1, dim)
