"""Rows of a table by index, sums of such rows by bag, and the reverse of an index: one-hot vectors."""

from __future__ import annotations

from ... import dtypes
from ...autograd import no_grad
from ...core import creation, functions as f
from ...core.tensor import Tensor
from ...ops import table as t

__all__ = ["embedding", "embedding_bag", "one_hot"]


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,  # noqa: A002
    sparse: bool = False,
) -> Tensor:
    """Rows of weight (count, size) at indices of any shape -> (..., size). Row `padding_idx` gets no gradient.

    `max_norm` shortens the rows that are read, in place; `scale_grad_by_freq` divides gradients by how often an index occurs. Gradients are
    dense, also where `sparse` is asked for. Raises IndexError for indices outside.
    """
    if not weight.ndim == 2:
        raise RuntimeError("'weight' must be 2-D")
    padding_idx = _row(padding_idx, weight.shape[0])
    flat = f.check_bounds("embedding()", _indices(input), weight.shape[0], 0)
    if max_norm is not None:
        _shorten(weight, flat, max_norm, norm_type)
    rows = f.index_select(weight, 0, flat)
    if padding_idx is not None:
        rows = f.where((flat == padding_idx).unsqueeze(1), rows.detach(), rows)
    return f.reshape(_by_frequency(rows, flat, weight.shape[0]) if scale_grad_by_freq else rows, (*input.shape, weight.shape[1]))


def _row(index: int | None, count: int) -> int | None:
    if index is not None and not -count <= index < count:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return None if index is None else index % count


def _indices(input: Tensor) -> Tensor:  # noqa: A002
    if input.dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(f"Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got numod.{input.dtype.short}Tensor instead")
    return f.reshape(input, -1).to(dtypes.int64)


@no_grad()
def _shorten(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> None:
    """Rows longer than `max_norm` become that long."""
    rows = f.index_select(weight, 0, indices)
    norms = f.norm(rows, norm_type, 1, True)
    scale = f.where(norms > max_norm, max_norm / (norms + 1e-7), norms.new_ones(()))
    weight.index_copy_(0, indices, rows * scale)  # an index that occurs twice is written twice with the same row


def _by_frequency(rows: Tensor, indices: Tensor, count: int) -> Tensor:
    """The same rows, whose gradient is divided by how often their index occurs."""
    counts = rows.new_zeros(count).index_add(0, indices, rows.new_ones(indices.numel()))
    share = rows / f.index_select(counts, 0, indices).unsqueeze(1)
    return share + (rows - share).detach()


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2, scale_grad_by_freq: bool = False,  # noqa: A002
    mode: str = "mean", sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or greatest of the rows of each bag -> (bags, size). input (bags, n), or all indices in a row with the `offsets` where bags begin.

    Indices of `padding_idx` do not count. Raises ValueError for shapes that do not fit.
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub.")
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the same shape as the input ({input.shape})")
    bags, count = _bags(input, offsets, include_last_offset)
    flat = f.check_bounds("embedding_bag()", _indices(input), weight.shape[0], 0)
    padding_idx = _row(padding_idx, weight.shape[0])
    if max_norm is not None:
        _shorten(weight, flat, max_norm, norm_type)
    if padding_idx is not None:
        used = f.reshape(f.nonzero(flat != padding_idx), -1)
        flat, bags = f.index_select(flat, 0, used), f.index_select(bags, 0, used)
        per_sample_weights = None if per_sample_weights is None else f.index_select(f.reshape(per_sample_weights, -1), 0, used)
    rows = f.index_select(weight, 0, flat)
    rows = _by_frequency(rows, flat, weight.shape[0]) if scale_grad_by_freq else rows
    if mode == "max":
        start = rows.new_zeros((count, weight.shape[1]))
        return start.scatter_reduce(0, bags.unsqueeze(1).expand(rows.shape), rows, "amax", include_self=False)
    if per_sample_weights is not None:
        rows = rows * f.reshape(per_sample_weights, (-1, 1))
    total = rows.new_zeros((count, weight.shape[1])).index_add(0, bags, rows)
    if mode == "sum":
        return total
    sizes = rows.new_zeros(count).index_add(0, bags, rows.new_ones(bags.numel()))
    return total / t.clamp_min(sizes, 1.0).unsqueeze(1)


def _bags(input: Tensor, offsets: Tensor | None, include_last: bool) -> tuple[Tensor, int]:  # noqa: A002
    """The bag of each index, and the number of bags."""
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("If input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. However, found offsets of type " + type(offsets).__name__)
        return f.reshape(creation.arange(input.shape[0], device=input.device).unsqueeze(1).expand(input.shape), -1), input.shape[0]
    if input.ndim != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    places = offsets.tolist()
    if places and places[0] != 0:
        raise RuntimeError(f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {places[0]}")
    if places and (places[-1] > input.numel() or places != sorted(places)):
        raise RuntimeError(f"offsets have to rise and end within the input's length of {input.numel()}, got {places}")
    ends = [*places[1:], *([] if include_last else [input.numel()])]
    bags = [k for k, (start, end) in enumerate(zip(places, ends)) for _ in range(start, end)]
    return creation.tensor(bags, dtype=dtypes.int64, device=input.device), len(ends)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 (..., num_classes): 1 at the index, else 0."""
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError(f"one_hot is only applicable to index tensor of type LongTensor, got {tensor.dtype}")
    if tensor.numel() and (tensor.min() < 0)._observe():
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        num_classes = tensor.max()._observe() + 1 if tensor.numel() else 0
    elif tensor.numel() and (tensor.max() >= num_classes)._observe():
        raise RuntimeError("Class values must be smaller than num_classes.")
    return (tensor.unsqueeze(-1) == tensor.new_arange(num_classes)).to(dtypes.int64)
