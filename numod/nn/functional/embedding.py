"""Embedding lookup, reductions of embeddings by bag, and one-hot vectors."""

from __future__ import annotations


from ...errors import warn_caller
from ... import dtypes
from ...autograd import no_grad
from ...core import functions as f
from ...core.apply import observed
from ...core.create.ranges import arange
from ...core.tensor import Tensor
from ...ops.reduce import reduction as r
from ...ops import table as t
from ...ops.index.indexing import bag, bag_bounds, index_select

__all__ = ["embedding", "embedding_bag", "one_hot"]


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of weight (count, size) at indices of any shape -> (..., size). Row `padding_idx` gets no gradient.

    `max_norm` renormalizes the rows that are read, in place. `scale_grad_by_freq` divides gradients by the number of
    occurrences of an index. Gradients are dense, even with `sparse`. Raises IndexError for indices out of range.

    Example:

        >>> F.embedding(torch.tensor([1, 0]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[3., 4.],
                [1., 2.]])
    """
    if not weight.ndim == 2:
        raise RuntimeError("'weight' must be 2-D")
    padding_idx = _row(padding_idx, weight.shape[0], AssertionError("Padding_idx must be within num_embeddings"))
    flat = f.check_bounds("index out of range in self, embedding()", _indices(input), weight.shape[0], 0)
    if max_norm is not None:
        _renormalize_rows(weight, flat, max_norm, norm_type)
    rows = index_select.apply((f.contiguous(weight), flat), (0,))
    if padding_idx is not None and rows.requires_grad:
        rows = f.where((flat == padding_idx).unsqueeze(1), rows.detach(), rows)
    rows = _by_frequency(rows, flat, weight.shape[0]) if scale_grad_by_freq else rows
    return rows if input.ndim == 1 else f.in_shape(rows, *input.shape, weight.shape[1])


def _row(index: int | None, count: int, error: Exception) -> int | None:
    if index is not None and not -count <= index < count:
        raise error
    return None if index is None else index % count


def _indices(input: Tensor) -> Tensor:
    if not isinstance(input, Tensor):
        raise TypeError(f"embedding(): argument 'indices' must be Tensor, not {type(input).__name__}")
    if input.dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"numod.{input.dtype.short}Tensor instead"
        )
    flat = f.contiguous(input if input.ndim == 1 else f.reshape(input, -1))
    return flat if flat.dtype is dtypes.int64 else flat.to(dtypes.int64)


@no_grad()
def _renormalize_rows(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale rows whose norm exceeds `max_norm` down to it."""
    rows = f.index_select(weight, 0, indices)
    norms = f.norm(rows, norm_type, 1, True)
    scale = f.where(norms > max_norm, max_norm / (norms + 1e-7), norms.new_ones(()))
    weight.index_copy_(0, indices, rows * scale)  # an index that occurs twice writes the same row twice


def _by_frequency(rows: Tensor, indices: Tensor, count: int) -> Tensor:
    """The rows, with gradients divided by the number of occurrences of their index."""
    counts = rows.new_zeros(count).index_add(0, indices, rows.new_ones(indices.numel()))
    share = rows / f.index_select(counts, 0, indices).unsqueeze(1)
    return share + (rows - share).detach()


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of the rows of each bag -> (bags, size).

    input is (bags, n), or a vector with the `offsets` at which bags begin. Indices equal to `padding_idx` are ignored.
    With `include_last_offset` the last bag ends at the last offset; as in PyTorch it extends to the input's end with
    mode "max", with a `padding_idx`, and for float64 weights. Raises ValueError for shapes that do not match.

    Example:

        >>> F.embedding_bag(torch.tensor([0, 1]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([0]), mode="sum")
        tensor([[4., 6.]])
    """
    if weight.dtype is dtypes.int64 and input.is_floating_point():
        warn_caller(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated."
        )
        weight, input = input, weight
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"mode has to be one of sum, mean or max, got {mode!r}")
    if weight.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    _check_sample_weights(per_sample_weights, input, weight, mode)
    flat, bounds = _bags(
        input, offsets, include_last_offset, mode == "max" or padding_idx is not None or weight.dtype is dtypes.float64
    )
    count = bounds.numel() - 1
    flat = f.check_bounds("embedding_bag()", flat, weight.shape[0], 0, error=RuntimeError)
    shares = None if per_sample_weights is None else f.reshape(per_sample_weights, -1)[: flat.numel()]
    padding_idx = _row(
        padding_idx, weight.shape[0], RuntimeError("padding_idx must be within the number of embeddings")
    )
    if max_norm is not None:
        _renormalize_rows(weight, flat, max_norm, norm_type)
    if mode != "max" and padding_idx is None and not scale_grad_by_freq:
        return bag.apply(
            (f.contiguous(weight), flat, bounds, shares if shares is None else f.contiguous(shares)), (mode == "mean",)
        )
    bags = f.searchsorted(bounds[:-1], arange(flat.numel(), device=flat.device), right=True) - 1
    if padding_idx is not None:
        used = f.reshape(f.nonzero(flat != padding_idx), -1)
        flat, bags, shares = (
            None if tensor is None else f.index_select(tensor, 0, used) for tensor in (flat, bags, shares)
        )
    rows = f.index_select(weight, 0, flat)
    if mode == "max" and flat.numel():
        start = rows.new_zeros((count, weight.shape[1]))
        return start.scatter_reduce(0, bags.unsqueeze(1).expand(rows.shape), rows, "amax", include_self=False)
    rows = _by_frequency(rows, flat, weight.shape[0]) if scale_grad_by_freq else rows
    rows = rows if shares is None else rows * shares.unsqueeze(1)
    total = rows.new_zeros((count, weight.shape[1])).index_add(0, bags, rows)
    if mode != "mean":
        return total
    sizes = rows.new_zeros(count).index_add(0, bags, rows.new_ones(bags.numel()))
    return total / t.clamp_min(sizes, 1.0).unsqueeze(1)


def _check_sample_weights(shares: Tensor | None, input: Tensor, weight: Tensor, mode: str) -> None:
    if shares is None:
        return
    if mode != "sum":
        raise NotImplementedError(f"embedding_bag: per_sample_weights are only for mode='sum' (got mode='{mode}')")
    if shares.shape != input.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({shares.shape}) is not None, then it must have the same shape as "
            f"the input ({input.shape})"
        )
    if shares.dtype is not weight.dtype:
        raise RuntimeError(
            f"embedding_bag: expected per_sample_weights of weight's dtype {weight.dtype}, got {shares.dtype}; "
            "convert them with .to(weight.dtype)"
        )


def _bags(input: Tensor, offsets: Tensor | None, include_last: bool, to_end: bool) -> tuple[Tensor, Tensor]:
    """(the indices as a vector, the positions where the bags begin, followed by the end).

    With `to_end` the last bag extends to the end, even if a last offset is included.
    """
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "If input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                "sequences. However, found offsets of type " + type(offsets).__name__
            )
        return _indices(input), arange(input.shape[0] + 1, device=input.device) * input.shape[1]
    if input.ndim != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    flat, starts = _indices(input), _indices(offsets)
    length = flat.numel()
    if not include_last and not starts.numel():
        return flat[:0], starts.new_zeros(1)  # no bags
    bounds = bag_bounds.apply((starts,), (length, include_last))
    if not bounds.numel() or observed(r.fused_map_reduce(t.bounds), (bounds, 0, length + 1), (1,)):
        _refuse_offsets(starts, length, include_last)
    if not include_last:
        return flat, bounds
    last = starts[-1]._observe()
    if last < length and to_end:
        return flat, f.cat([bounds[:-1], bounds.new_full((1,), length)])
    return flat[:last], bounds


def _refuse_offsets(starts: Tensor, length: int, include_last: bool) -> None:
    """Raise RuntimeError for offsets that do not start at 0, increase, and end within the input."""
    if not starts.numel():
        raise RuntimeError(
            f"offsets: expected at least 1 for {length} indices with include_last_offset={include_last}, got none"
        )
    if first := starts[0]._observe():
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
            f"However, got {first}"
        )
    raise RuntimeError(
        f"offsets have to increase and end within the input's length of {length}, got the last offset "
        f"{starts[-1]._observe()}"
    )


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 (..., num_classes): 1 at the index, otherwise 0.

    Example:

        >>> F.one_hot(torch.tensor([0, 2]), num_classes=3)
        tensor([[1, 0, 0],
                [0, 0, 1]])
    """
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError(f"one_hot is only applicable to index tensor of type LongTensor, got {tensor.dtype}")
    if not tensor.numel():
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
    elif num_classes < 1 or observed(r.fused_map_reduce(t.bounds), (tensor.contiguous(), 0, num_classes), (1,)):
        low, high = f.observed_total(r.amin, tensor), f.observed_total(r.amax, tensor)
        if low < 0:
            raise RuntimeError("Class values must be non-negative.")
        num_classes = high + 1 if num_classes == -1 else num_classes
        if high >= num_classes:
            raise RuntimeError(
                f"Class values must be smaller than num_classes. The largest is {high}, num_classes is {num_classes}."
            )
    return (tensor.contiguous().unsqueeze(-1) == arange(num_classes, device=tensor.device)).to(dtypes.int64)
