"""Reading and writing by index tensors and masks, along a dimension. `x[...]` is in `indexing`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ... import dtypes
from ...device import Layout, Storage
from ...device.layout import layout
from ...errors import SINGLE_INT, every_dim, normalize_dim, normalize_dims, plain, warn_caller_once
from ...ops.index import flip_roll as reverse, indexing as ix
from ...ops.reduce import reduction as r, scan
from ...ops import table as t
from ...ops.pointwise import broadcast_shapes
from ..apply import apply, apply_into, observed
from ..arguments import expect_ints
from ..create.creation import constant, full, zeros
from ..convert.copies import contiguous, copy_, to
from ..math.in_place import memory_of
from ..resolve import resolved
from ..shape.joining import stack
from ..shape.parts import narrow, select
from ..shape.shapes import channels_last_order, expand, memory_order, permute, reshape, unsqueeze
from ..tensor import Tensor, wrap

BOTH = "flip roll gather index_select masked_select nonzero argwhere=nonzero"
METHODS = "index_add_ index_copy_ index_fill_ scatter_ scatter_add_"
NEVER = -(1 << 62)  # an index that no tensor has
COPYING = "index_add index_copy index_fill scatter scatter_add"


def check_bounds(
    name: str, index: Tensor, size: int, dim: int, negative: bool = False, error: type = IndexError
) -> Tensor:
    """`index`, dense, with negative indices counted from the front.

    Raises `error`, before any launch, if one is out of range; on a GPU once that is known.
    """
    index_layout, name = index._layout, f"{name}: " if name else ""
    if not index_layout.size:  # numod.tensor([]) is a float tensor
        return contiguous(index.to(dtypes.int64))
    if index_layout.dtype.kind not in "iu":
        raise RuntimeError(f"{name}Expected dtype int64 for index, got {index.dtype}; convert with .long()")
    index = contiguous(index.to(dtypes.int64) if index_layout.dtype is dtypes.int32 else index)
    if index_layout.device.type == "meta":
        return index
    if size and index_layout.device.backend.is_gpu:
        return bounded(
            index,
            -size if negative else 0,
            size,
            error,
            f"{name}index {{}} is out of bounds for dimension {dim} with size {size}",
        )
    violations = observed(r.fused_map_reduce(t.bounds), (index, -size if negative else 0, size), (1,))
    if violations >= 1 << 32:
        low, high = index.min()._observe(), index.max()._observe()
        raise error(
            f"{name}index {high if high >= size else low} is out of bounds for dimension {dim} with size {size}"
        )
    return t.where(index < 0, index + size, index) if violations else index


def observed_total(op: r.Reduction, input: Tensor) -> float | int:
    """A reduction of all elements, as a number, for checks before a launch."""
    return observed(op, (input,), (every_dim(input.ndim), False, None))


def bounded(index: Tensor, low: int, size: int, error: type, text: str, ignored: int = NEVER) -> Tensor:
    """A copy of GPU indices, with 0 in place of indices outside [low, size).

    The host raises `error` later, with `text` in which {} is the index.
    """
    reports = index.device.backend.reports()
    report = wrap(Storage(reports.buffer), layout((reports.buffer.size,), dtypes.int64, index.device), 0)
    result = apply(ix.bounded, (contiguous(index), report), (low, size, ignored, reports.slot(error, text)))
    reports.raise_reported()
    return result


def require_all(condition: Tensor, error: type, text: str) -> None:
    """Raise `error` with `text` unless no element is zero or False; on a GPU when that is known."""
    holds = condition.all()
    if holds.device.backend.is_gpu:
        bounded(holds.to(dtypes.int64), 1, 2, error, text)
    elif not holds._observe():
        raise error(text)


def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """out[i][j] = input[index[i][j]][j] for dim 0, and so on: shaped like `index`, which may not exceed input in other
    dimensions.

    Example:

        >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0, 0], [1, 0]]))
        tensor([[1, 1],
                [4, 3]])
    """
    input_layout, places = input._layout, index._layout
    if not places.size and places.ndim <= 1:
        return reshape(narrow(reshape(input, -1), 0, 0, 0), index.shape).clone()
    if not input_layout.ndim or places.ndim != input_layout.ndim:
        normalize_dim(dim, input_layout.ndim)
        if input_layout.ndim <= 1 and places.ndim <= 1:
            return gather(reshape(input, -1), 0, reshape(index, -1)).reshape(index.shape)
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    dim, size, cuts = _aligned("gather", input_layout, places, dim)
    if (line := _line(index, dim)) is not None:
        return index_select(_cut(input, cuts), dim, check_bounds("gather()", line, size, dim, error=RuntimeError))
    return apply(
        ix.gather,
        (contiguous(_cut(input, cuts)), check_bounds("gather()", index, size, dim, error=RuntimeError)),
        (dim,),
    )


def _like_index(tensor: Tensor, index: Tensor, dim: int) -> Tensor:
    """`tensor` cut to the sizes of `index` in all dimensions but `dim`."""
    return _cut(tensor, _aligned("scatter_reduce", tensor._layout, index._layout, dim)[2])


def _cut(tensor: Tensor, cuts: tuple[tuple[int, int], ...]) -> Tensor:
    for d, m in cuts:
        tensor = narrow(tensor, d, 0, m)
    return tensor


@resolved
def _aligned(name: str, input_layout: Layout, index: Layout, dim: int) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """(normalised dimension, its size, the other dimensions cut to the sizes of `index`, each with its new size)."""
    dim, cuts = normalize_dim(dim, input_layout.ndim), []
    for d, (n, m) in enumerate(zip(input_layout.shape, index.shape)):
        if m > n and d != dim:
            raise RuntimeError(
                f"{name}: Size does not match at dimension {d} expected index {list(index.shape)} "
                f"to be no larger than self {list(input_layout.shape)} apart from dimension {dim}"
            )
        if m < n and d != dim:
            cuts.append((d, m))
    return dim, input_layout.shape[dim] if input_layout.ndim else 1, tuple(cuts)


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices of a dimension selected by a vector of indices.

    Example:

        >>> torch.index_select(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([1]))
        tensor([[2],
                [4]])
    """
    if index.ndim > 1:
        raise IndexError(f"index_select(): Index is supposed to be a vector, got shape {tuple(index.shape)}")
    dim = normalize_dim(dim, input.ndim)
    index = contiguous(check_bounds("index_select()", index, input.shape[dim] if input.ndim else 1, dim))
    index = index if index.ndim else reshape(index, 1)
    return read(input, dim, index) if input.ndim else reshape(read(reshape(input, 1), 0, index), ())


def read(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Slices of a dimension at valid indices of any shape, which replaces the dimension in the result's shape."""
    return apply(ix.index_select, (contiguous(input), contiguous(index)), (dim,))


def write(op: ix.Scatter, self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Run a write at indices known to be in range on a dense tensor; for any other by way of a dense copy."""
    index, source = contiguous(index), contiguous(source)
    if self._layout.dense:
        apply_into(op, (self, index, source), (self,), (dim,))
        return self
    dense = apply(t.row_major, (self,))
    apply_into(op, (dense, index, source), (dense,), (dim,))
    return copy_(self, dense)


def index_add_(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """self[index[k]] += alpha * source[k] along a dimension, in order.

    Example:

        >>> torch.zeros(3).index_add_(0, torch.tensor([0, 2, 0]), torch.tensor([1.0, 2.0, 3.0]))
        tensor([4., 0., 2.])
    """
    if not self.ndim and source.ndim == 0:
        normalize_dim(dim, 0)
        return _of_scalar(index_add_, self, index, source, alpha=alpha)
    dim = normalize_dim(dim, self.ndim)
    index = check_bounds("index_add_()", _vector("index_add_", self, dim, index, source), self._layout.shape[dim], dim)
    return write(
        ix.index_add,
        self,
        dim,
        index,
        source if alpha == 1 else source * (alpha if source.dtype.differentiable else int(alpha)),
    )


def index_copy_(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """self[index[k]] = source[k] along a dimension, in order.

    Example:

        >>> torch.zeros(3).index_copy_(0, torch.tensor([2, 0]), torch.tensor([1.0, 2.0]))
        tensor([2., 0., 1.])
    """
    dim = normalize_dim(dim, self.ndim)
    if self.ndim + source.ndim <= 1:
        return _of_scalar(index_copy_, self, index, source)
    index = check_bounds(
        "index_copy_()", _vector("index_copy_", self, dim, index, source), self._layout.shape[dim], dim
    )
    return write(ix.index_copy, self, dim, index, source)


def index_fill_(self: Tensor, dim: int, index: Tensor, value: Tensor | float) -> Tensor:
    """self[index[k]] = value along a dimension.

    Example:

        >>> torch.zeros(3).index_fill_(0, torch.tensor([0, 2]), 7.0)
        tensor([7., 0., 7.])
    """
    dim = normalize_dim(dim, self.ndim)
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    if not self.ndim:
        index_fill_(reshape(self, -1), 0, index, value)
        return self
    index = check_bounds("index_fill_()", index, self.shape[dim], dim, negative=True)
    if self._layout.overlapping:
        memory, places = memory_of(self, "index_fill_")
        index_fill_(memory, 0, reshape(index_select(places, dim, reshape(index, -1)), -1), value)
        return self
    shape = *self.shape[:dim], index.numel(), *self.shape[dim + 1 :]
    # an index that occurs twice counts once in the value's gradient
    if isinstance(value, Tensor) and value.requires_grad:
        line = full((self.shape[dim],), False, dtype=dtypes.bool_, device=self.device)
        chosen = reshape(
            index_fill_(line, 0, reshape(index, -1), True), [-1 if d == dim else 1 for d in range(self.ndim)]
        )
        return copy_(self, t.where(chosen, to(value, self.dtype), self.clone()))
    value = value.item() if isinstance(value, Tensor) else value
    if isinstance(value, complex) and not self.dtype.is_complex:
        raise RuntimeError(
            f"value cannot be converted to type {self.dtype.name} without overflow: it is complex; take its .real, "
            ".imag or abs()"
        )
    return index_copy_(self, dim, index, full(shape, value, dtype=self.dtype, device=self.device))


def _of_scalar(write: Callable, self: Tensor, index: Tensor, source: Tensor, **kwargs: object) -> Tensor:
    """Write with tensors without dimensions treated as vectors of one element."""
    write(reshape(self, -1), 0, reshape(index, -1), reshape(source, -1), **kwargs)
    return self


def _vector(name: str, self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`index` as a vector. Raises an error unless `source` has the shape that it requires."""
    _require_source(name, self._layout, dim, index._layout, source._layout)
    return index if index._layout.ndim else reshape(index, 1)


@resolved
def _require_source(name: str, self_layout: Layout, dim: int, index: Layout, source: Layout) -> None:
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, got shape {tuple(index.shape)}")
    expected = (*self_layout.shape[:dim], index.size, *self_layout.shape[dim + 1 :]) if self_layout.ndim else ()
    if source.shape != expected:
        if name == "index_add_":
            shapes = f"Got self.shape = {list(self_layout.shape)} source.shape = {list(source.shape)}"
            raise RuntimeError(
                f"source tensor shape must match self tensor shape, excluding the specified dimension. {shapes}"
            )
        slices_differ = (
            source.ndim == self_layout.ndim and (*source.shape[:dim], index.size, *source.shape[dim + 1 :]) != expected
        )
        raise (RuntimeError if slices_differ else IndexError)(
            f"{name}(): expected source of shape {expected} for self {tuple(self_layout.shape)} and {index.size} "
            f"indices at dim {dim}, got {tuple(source.shape)}"
        )


def scatter_(
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | float | None = None,
    *,
    value: float | None = None,
    reduce: str | None = None,
) -> Tensor:
    """self[index[i][j]][j] = src[i][j] for dim 0, and so on; `reduce` "add" or "multiply" combines.

    A number is written everywhere.

    Example:

        >>> torch.zeros(3).scatter_(0, torch.tensor([2, 0]), torch.tensor([1.0, 2.0]))
        tensor([2., 0., 1.])
    """
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError(f"reduce argument must be either add or multiply, got {reduce!r}")
    if isinstance(value, Tensor):  # which is a number
        if value.ndim or value.requires_grad:
            raise TypeError(
                "scatter_(): argument 'value' must be Number, not Tensor; pass a tensor as `src`, with the shape of "
                "`index`"
            )
        value = expand(to(value, self.dtype), index.shape)
    if reduce is not None and isinstance(src, Tensor):
        warn_caller_once("The reduce argument of scatter with Tensor src is deprecated; use scatter_reduce instead.")
    src = value if src is None else src
    if src is None:
        raise TypeError("scatter_() needs src, a tensor or a number, or value")
    src = (
        src
        if isinstance(src, Tensor)
        else constant(t.fill, (dtypes.fitting(src, self.dtype),), index.shape, self.dtype, self.device)
    )
    if reduce == "multiply":
        return copy_(self, self.scatter_reduce(dim, index, src, "prod"))
    return _scatter(ix.scatter if reduce is None else ix.scatter_add, self, dim, index, src)


def scatter_add_(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """self[index[i][j]][j] += src[i][j] for dim 0, and so on, in order.

    Example:

        >>> torch.zeros(3).scatter_add_(0, torch.tensor([2, 2]), torch.tensor([1.0, 2.0]))
        tensor([0., 0., 3.])
    """
    return _scatter(ix.scatter_add, self, dim, index, src)


def _scatter(op: ix.Scatter, self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Check and run an op that writes `src` at `index` along `dim` of self."""
    places = index._layout
    # nothing to write, nor a source whose gradient is 0
    if not places.size and not (src.requires_grad and places.ndim == self.ndim == src.ndim):
        normalize_dim(dim, self.ndim)
        return self
    if not places.ndim == self._layout.ndim == src._layout.ndim:
        if (
            max(places.ndim, self.ndim, src.ndim) == 1
        ):  # a tensor without dimensions is treated as a vector of one element
            _scatter(op, reshape(self, -1), dim, reshape(index, -1), reshape(src, -1))
            return self
        name = "self" if index.ndim != self.ndim else "src"
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as {name} tensor, got {index.ndim}, {self.ndim} "
            f"and src {src.ndim}"
        )
    dim, size, cuts = _aligned(op.name, self._layout, places, dim)
    if src._layout.shape != places.shape:
        if any(m > n for m, n in zip(index.shape, src.shape)):
            raise RuntimeError(f"Expected index {list(index.shape)} to be no larger than src {list(src.shape)}")
        for d, n in enumerate(index.shape):
            src = src if src.shape[d] == n else narrow(src, d, 0, n)
    line = _line(index, dim) if op is ix.scatter_add else None
    index = check_bounds(f"{op.name}()", index if line is None else line, size, dim, error=RuntimeError)
    write(op if line is None else ix.index_add, _cut(self, cuts), dim, index, src)
    return self


def _line(index: Tensor, dim: int) -> Tensor | None:
    """The vector that was expanded to `index`, if all other dimensions repeat it.

    None where it was none.
    """
    index_layout = index._layout
    if (
        not index_layout.overlapping
        or any([step for d, step in enumerate(index_layout.strides) if d != dim])
        or index_layout.size == index_layout.shape[dim]
    ):
        return None
    for d in reversed(range(index.ndim)):
        index = index if d == dim else select(index, d, 0)
    return index


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where mask is true, in one dimension.

    Example:

        >>> torch.masked_select(torch.tensor([1, 2, 3]), torch.tensor([True, False, True]))
        tensor([1, 3])
    """
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(
            f"masked_select: expected BoolTensor for mask, got {mask.dtype.short}; compare first, for example mask != 0"
        )
    shape = broadcast_shapes("masked_select", [input.shape, mask.shape])
    return read(reshape(expand(input, shape), -1), 0, _places_of(expand(mask, shape)))


def _places_of(mask: Tensor) -> Tensor:
    """Flat indices of the true elements."""
    flat = mask if mask.ndim == 1 and mask._layout.dense else reshape(contiguous(mask), -1)
    before = apply(scan.cumsum, (flat,), (0,)) if flat.device.backend.is_gpu else None
    total = 0 if not flat._layout.size else observed_total(r.sum, flat) if before is None else before[-1]._observe()
    return apply(ix.nonzero, (flat, before), (total,))


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """Indices of the nonzero elements, (count, ndim), or with `as_tuple` a vector per dimension.

    Example:

        >>> torch.nonzero(torch.tensor([1, 0, 2]))
        tensor([[0],
                [2]])
    """
    places = _places_of(input if input.dtype is dtypes.bool_ else input != 0)
    columns = []
    for n in reversed(input.shape[1:]):
        columns.append(t.remainder(places, n or 1))  # nothing is found in an empty tensor
        places = t.floor_divide(places, n or 1)
    columns = [places, *reversed(columns)] if input.ndim or as_tuple else []
    if as_tuple:
        return tuple(columns)
    if len(columns) == 1:
        return unsqueeze(places, 1)
    return stack(columns, 1) if columns else zeros(places.shape[0], 0, dtype=dtypes.int64, device=input.device)


def flip(input: Tensor, *order: int, dims: Sequence[int] | int | None = None) -> Tensor:
    """Elements in reverse order along dimensions; a copy that keeps the memory order of a transposed tensor.

    Example:

        >>> torch.flip(torch.tensor([1, 2, 3]), dims=[0])
        tensor([3, 2, 1])
    """
    order = order if dims is None else (dims,)
    if not order:
        raise TypeError('flip() missing 1 required positional arguments: "dims"')
    dims = order[0] if len(order) == 1 and isinstance(order[0], Sequence) else order
    dims = tuple(sorted(normalize_dims(tuple(dims), input.ndim)))
    if not dims or not input.ndim:
        return input.clone()
    if (orders := memory_order(input._layout)) is not None:
        order, back = orders
        return permute(_flipped(permute(input, *order), tuple(sorted([back[dim] for dim in dims]))), *back)
    return _flipped(input, dims)


def _flipped(input: Tensor, dims: tuple[int, ...]) -> Tensor:
    for run in (dims,) if dims[-1] - dims[0] < len(dims) else [(dim,) for dim in dims]:
        input = apply(reverse.flip, (contiguous(input),), (run,))
    return input


def roll(input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """Elements shifted cyclically along dimensions; without dims, along the flattened tensor.

    Example:

        >>> torch.roll(torch.tensor([1, 2, 3]), 1)
        tensor([3, 1, 2])
    """
    original, ndim = input, input.ndim
    expect_ints("roll", "shifts", shifts)
    shifts, dims = (
        tuple([plain(value)] if isinstance(value, SINGLE_INT) else value)
        for value in (shifts, () if dims is None else dims)
    )
    if not shifts:
        raise RuntimeError("`shifts` required")
    if dims and not ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if len(shifts) != len(dims) and (dims or len(shifts) != 1):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if dims and (orders := channels_last_order(input._layout)) is not None:
        rolled = roll(permute(input, orders[0]), shifts, [orders[0].index(normalize_dim(dim, ndim)) for dim in dims])
        return permute(rolled, orders[1])
    for shift, along in zip(shifts, [(normalize_dim(dim, ndim),) for dim in dims] if dims else [tuple(range(ndim))]):
        n = prod([input.shape[dim] for dim in along])
        if n and shift % n:
            input = apply(reverse.roll, (contiguous(input),), (along, -shift % n))
    return input.clone() if input is original else input
