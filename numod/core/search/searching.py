"""Binary search, bucketing, histograms and membership."""

from __future__ import annotations

import math
from collections.abc import Sequence

from numpy import generic

from ... import dtypes
from ...errors import normalize_dims
from ...ops.index import indexing as ix
from ...ops.reduce import reduction as r
from ...ops.sort import searchsorted as search
from ...ops import table as t
from .. import return_types
from ..apply import apply, apply_into, without_derivative
from ..create.creation import full, ones, scalar_tensor, zeros
from ..convert.copies import contiguous, to
from ..create.ranges import linspace
from ..index.selection import check_bounds, observed_total
from ..shape.joining import cat
from ..shape.parts import narrow
from ..shape.shapes import reshape, squeeze
from .sorting import sort
from ..tensor import Tensor
from ..create.values import tensor

BOTH = "histc histogram bincount hash_tensor"
FUNCTIONS = "histogramdd searchsorted bucketize isin"
OUT = "histc histogram searchsorted bucketize isin hash_tensor"
# elements counted at a time: their indices of 8 bytes stay in the processor's cache, and never take 16 times the memory
# of bytes
_BLOCK = 1 << 16


def searchsorted(
    sorted_sequence: Tensor,
    input: Tensor | float,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Insertion points in sorted rows: how many elements are less than the value or, with `right`, not greater.

    `sorter` gives the order of unsorted rows.

    Example:

        >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 4]))
        tensor([1, 2])
    """
    if side not in (None, "left", "right"):
        raise RuntimeError(f"numod.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            "numod.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    value_dtype = (
        sorted_sequence.dtype if sorted_sequence.is_floating_point() or not isinstance(input, float) else dtypes.float64
    )
    values = (
        input if isinstance(input, Tensor) else scalar_tensor(input, dtype=value_dtype, device=sorted_sequence.device)
    )
    _check_search(sorted_sequence, values, sorter)
    dtype = dtypes.promote_types(values.dtype, sorted_sequence.dtype)
    if sorter is not None:
        sorter = contiguous(
            check_bounds("numod.searchsorted()", sorter, sorted_sequence.shape[-1], -1, error=RuntimeError)
        )
    order = zeros(1, dtype=dtypes.int64, device=sorted_sequence.device) if sorter is None else sorter
    operands = (contiguous(to(operand.detach(), dtype)) for operand in (values, sorted_sequence))
    indices = apply(search.searchsorted, (*operands, order), (right or side == "right", sorter is not None))
    return to(indices, dtypes.int32) if out_int32 else indices


def _check_search(edges: Tensor, values: Tensor, sorter: Tensor | None) -> None:
    """Raise for arguments of searchsorted that do not fit, as PyTorch does."""
    if not edges.ndim:
        raise RuntimeError(
            "numod.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension"
        )
    if edges.ndim > 1 and (values.ndim != edges.ndim or values.shape[:-1] != edges.shape[:-1]):
        raise RuntimeError(
            "numod.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            "tensor and input value tensor must match, "
            f"but we got boundaries tensor {list(edges.shape)} and input value tensor {list(values.shape)}"
        )
    if sorter is not None and sorter.shape != edges.shape:
        raise RuntimeError(
            "numod.searchsorted(): boundary and sorter must have the same size, but got "
            f"boundary tensor {list(edges.shape)} and got sorter tensor {list(sorter.shape)}"
        )
    if sorter is not None and sorter.dtype is not dtypes.int64:
        raise RuntimeError(f"numod.searchsorted(): sorter must be a tensor of long dtype but got dtype {sorter.dtype}")


def bucketize(input: Tensor | float, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The index of the bucket each value falls into, for sorted boundaries; with `right` a value equal to a boundary
    belongs above it.

    Example:

        >>> torch.bucketize(torch.tensor([3, 6, 9]), torch.tensor([1, 3, 5, 7]))
        tensor([1, 3, 4])
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def isin(
    elements: Tensor | float, test_elements: Tensor | float, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Whether each element is among `test_elements`.

    Example:

        >>> torch.isin(torch.tensor([1, 2, 3]), torch.tensor([2, 3]))
        tensor([False,  True,  True])
    """
    arguments = elements, test_elements
    if not any(isinstance(argument, Tensor) for argument in arguments) or not all(
        isinstance(argument, (Tensor, int, float, generic)) and not isinstance(argument, bool) for argument in arguments
    ):
        raise TypeError(
            f"isin() takes tensors or numbers, one of them a tensor; got {type(elements).__name__} and "
            f"{type(test_elements).__name__}"
        )
    if not isinstance(test_elements, Tensor):
        equal = elements == test_elements
        return t.logical_not(equal) if invert else equal
    elements = elements if isinstance(elements, Tensor) else tensor(elements, device=test_elements.device)
    if not test_elements.numel():
        return full(elements.shape, bool(invert), dtype=dtypes.bool_, device=elements.device)
    dtype = dtypes.promote_types(elements.dtype, test_elements.dtype)
    edges = sort(reshape(to(test_elements.detach(), dtype), -1)).values
    elements = to(elements.detach(), dtype)
    positions = t.clamp_max(searchsorted(edges, elements), edges.numel() - 1)
    nearest = reshape(apply(ix.index_select, (edges, reshape(contiguous(positions), -1)), (0,)), elements.shape)
    return nearest != elements if invert else nearest == elements


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Number of occurrences of each value in a vector of non-negative integers, or their sums of weights; of at least
    `minlength` bins.

    Example:

        >>> torch.bincount(torch.tensor([0, 1, 1, 3]))
        tensor([1, 2, 0, 1])
    """
    if minlength < 0:
        raise RuntimeError(f"minlength should be >= 0, got {minlength}")
    if input.dtype.kind not in "iu":
        raise NotImplementedError(
            f"\"bincount_cpu\" not implemented for '{input.dtype.short}'; convert first, for example with .long()"
        )
    if input.ndim != 1 or (input.numel() and observed_total(r.amin, input) < 0):
        raise RuntimeError(
            "bincount only supports 1-d non-negative integral inputs, got "
            f"{f'{input.ndim} dimensions' if input.ndim != 1 else input.min()._observe()}"
        )
    if weights is not None and input.numel() and weights.shape != input.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if not input.numel():
        return zeros(minlength, dtype=dtypes.int64, device=input.device)
    kind = dtypes.int64 if weights is None else dtypes.float32 if weights.dtype is dtypes.float32 else dtypes.float64
    size = max(int(observed_total(r.amax, input)) + 1, minlength)
    counts = _counted(input, weights, size, kind)
    return counts if weights is None else without_derivative("bincount", counts, weights)


def hash_tensor(input: Tensor, dim: int | Sequence[int] = (), *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """The exclusive or of the bits of all elements, or along dimensions, as float64 or int64.

    PyTorch's uint64 is an int64 of the same bits here.

    Example:

        >>> torch.equal(torch.hash_tensor(torch.ones(3)), torch.hash_tensor(torch.ones(3)))
        True
    """
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if input.is_complex():
        raise NotImplementedError(
            f"\"xor_sum_cpu\" not implemented for '{input.dtype.short}'; hash its parts, view_as_real(input)"
        )
    bits = (
        contiguous(to(input.detach(), dtypes.float64)).view(dtypes.int64)
        if input.is_floating_point()
        else to(input, dtypes.int64)
    )
    dims = normalize_dims(dim, bits.ndim) or tuple(range(bits.ndim))
    if any(bits.shape[d] == 0 for d in dims):
        raise IndexError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
            "with the 'dim' argument."
            if dim == ()
            else f"hash_tensor: Expected reduction dim {next(d for d in dims if not bits.shape[d])} to have non-zero "
            "size."
        )
    for d in dims:
        while (n := bits.shape[d]) > 1:  # the second half onto the first
            half = n // 2
            paired = t.bitwise_xor(narrow(bits, d, 0, half), narrow(bits, d, half, half))
            bits = paired if n % 2 == 0 else cat([paired, narrow(bits, d, n - 1, 1)], d)
    return bits.clone() if keepdim else squeeze(bits, dims).clone()


def _counted(indices: Tensor, weights: Tensor | None, size: int, kind: dtypes.dtype) -> Tensor:
    """Sums of weights, by default 1, by index (N,), of dtype `kind`. The indices are known to be in range."""
    counts = zeros(size, dtype=kind, device=indices.device)
    if size:
        for start in range(0, indices.numel(), _BLOCK):
            some = contiguous(to(indices[start : start + _BLOCK], dtypes.int64))
            values = (
                ones(some.shape, dtype=kind, device=indices.device)
                if weights is None
                else contiguous(to(weights[start : start + _BLOCK].detach(), kind))
            )
            apply_into(ix.index_add, (counts, some, values), (counts,), (0,))
    return counts


def _limits(
    name: str, input: Tensor, low: float, high: float, around: float, equal_allowed: bool = False
) -> tuple[float, float]:
    """The range of a histogram: the given one, or the range of the data if its ends are equal (unless `equal_allowed`).

    A single point is widened by `around` on both sides.
    """
    if low == high and not equal_allowed and input.numel():
        low, high = observed_total(r.amin, input), observed_total(r.amax, input)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"{name}: range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"{name}: max must be larger than min")
    return (low - around, high + around) if low == high else (low, high)


def _check_bins(name: str, input: Tensor, bins: int) -> None:
    if not input.is_floating_point():
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{input.dtype.short}'; convert first, for example with .to(numod.float32)"
        )
    if bins <= 0:
        raise RuntimeError(f"{name}(): bins must be > 0, but got {bins}")


def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Histogram of `bins` equal bins over [min, max], by default the data's range; elements outside are not counted.

    Example:

        >>> torch.histc(torch.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
        tensor([0., 2., 1., 0.])
    """
    _check_bins("histc", input, bins)
    low, high = _limits("numod.histc", input, min, max, around=1.0)
    flat = reshape(input.detach(), -1)
    bin_indices = t.clamp_max(to((flat - low) * bins / (high - low), dtypes.int64), bins - 1)
    bin_indices = t.where((flat >= low) & (flat <= high), bin_indices, bins)  # an extra bin for elements outside
    return to(_counted(bin_indices, None, bins + 1, dtypes.int64)[:bins], input.dtype)


def histogram(
    input: Tensor,
    bins: int | Tensor = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> return_types.histogram:
    """(hist, bin_edges): counts, or sums of weights, between edges or in `bins` equal parts of `range`.

    With `density` the integral is 1.

    Example:

        >>> torch.histogram(torch.tensor([1.0, 2.0, 1.0]), 4, range=(0.0, 3.0)).hist
        tensor([0., 2., 1., 0.])
    """
    _check_bins("histogram", input, bins.numel() - 1 if isinstance(bins, Tensor) else bins)
    if weight is not None and weight.shape != input.shape:
        raise RuntimeError(
            "numod.histogramdd: if weight tensor is provided it should have the same shape "
            f"as the input tensor excluding its innermost dimension, got {list(weight.shape)}"
        )
    points, weight = reshape(input.detach(), (-1, 1)), weight if weight is None else reshape(weight, -1)
    hist, (edges,) = _histogram(points, [bins], range, weight, density)
    return return_types.histogram(
        (without_derivative("histogram", hist, input), edges.clone() if edges is bins else edges)
    )


def histogramdd(
    input: Tensor,
    bins: int | Sequence[int] | Sequence[Tensor],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> return_types.histogramdd:
    """(hist, bin_edges) of points (..., D): a D-dimensional histogram and D vectors of edges.

    Edges are given, or `bins` equal parts of the D pairs in `range`.

    Example:

        >>> torch.histogramdd(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), [2, 2]).hist
        tensor([[0., 1.],
                [1., 0.]])
    """
    if input.ndim < 2:
        raise RuntimeError(f"numod.histogramdd: input tensor should have at least 2 dimensions, but got {input.ndim}")
    count = input.shape[-1]
    bins = [bins] * count if isinstance(bins, int) else list(bins)
    if len(bins) != count:
        raise RuntimeError(
            f"numod.histogramdd: expected {count} sequences of bin edges, or numbers of bins, for a "
            f"{count}-dimensional histogram but got {len(bins)}"
        )
    for bins_of_dim in bins:
        _check_bins("histogramdd", input, bins_of_dim.numel() - 1 if isinstance(bins_of_dim, Tensor) else bins_of_dim)
    if range is not None and len(range) != 2 * count:
        raise RuntimeError(
            f"numod.histogramdd: for a {count}-dimensional histogram range should have {2 * count} elements, but got "
            f"{len(range)}"
        )
    if weight is not None and weight.shape != input.shape[:-1]:
        raise RuntimeError(
            "numod.histogramdd: if weight tensor is provided it should have the same shape "
            f"as the input tensor excluding its innermost dimension, got {list(weight.shape)}"
        )
    points, weight = reshape(input.detach(), (-1, count)), weight if weight is None else reshape(weight, -1)
    hist, edges = _histogram(points, bins, range, weight, density)
    return return_types.histogramdd((hist, tuple(edges)))


def _histogram(
    points: Tensor,
    bins: Sequence[int | Tensor],
    range: Sequence[float] | None,
    weight: Tensor | None,
    density: bool,
) -> tuple[Tensor, list[Tensor]]:
    """The histogram of points (N, D), weighted by (N,), and the edges of its bins in each dimension."""
    columns = points.unbind(1)
    edges = [
        bin_edges if isinstance(bin_edges, Tensor) else _equal_parts(x, bin_edges, range and range[2 * d : 2 * d + 2])
        for d, (x, bin_edges) in enumerate(zip(columns, bins))
    ]
    sizes = [edge.numel() - 1 for edge in edges]
    total, bin_index, inside = math.prod(sizes), 0, None
    for x, edge, size in zip(columns, edges, sizes):
        between = (x >= edge[0]) & (x <= edge[-1])
        inside = between if inside is None else inside & between
        bin_index = t.clamp_max(searchsorted(edge, contiguous(x), right=True) - 1, size - 1) + bin_index * size
    kind = points.dtype if weight is None else weight.dtype
    hist = reshape(contiguous(_counted(t.where(inside, bin_index, total), weight, total + 1, kind)[:total]), sizes)
    if density:
        hist = hist / hist.sum()
        for d, bin_edges in enumerate(edges):
            hist = hist / reshape(bin_edges[1:] - bin_edges[:-1], (-1,) + (1,) * (len(sizes) - 1 - d))
    return hist, edges


def _equal_parts(x: Tensor, bins: int, range: Sequence[float] | None) -> Tensor:
    """Edges of equal bins over a range, by default the range of the data."""
    low, high = _limits(
        "numod.histogramdd",
        x,
        *(range or (0.0, 0.0 if x.numel() else 1.0)),
        around=0.5,
        equal_allowed=range is not None,
    )
    return linspace(low, high, bins + 1, dtype=x.dtype, device=x.device)
