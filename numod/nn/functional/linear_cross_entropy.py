"""Cross-entropy of a linear layer's scores: the head of a classifier and its loss in one call."""

from __future__ import annotations

from dataclasses import dataclass

from ... import dtypes
from ...core import functions as f
from ...core.tensor import Tensor
from .linear import linear
from .loss import cross_entropy

__all__ = ["linear_cross_entropy"]


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """PyTorch's options for splitting the batch to save memory.

    They do not affect the loss. numod validates and stores them, and computes all scores at once.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: dtypes.dtype | None = None

    def __post_init__(self) -> None:
        size, method, dtype = self.batch_chunk_size, self.chunking_method, self.acc_dtype
        if size is not None and (not isinstance(size, int) or size <= 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if not (method is None or method == "auto" or method.startswith("aspect_ratio:")):
            raise ValueError(f"invalid chunking_method: {method!r}")
        if self.acc_policy not in ("accurate", "balanced", "compact", "auto"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if dtype is not None and not dtype.is_floating_point:
            raise ValueError(
                f"acc_dtype must be None or a floating point dtype, got {dtype}; None picks it automatically"
            )


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """cross_entropy of input (N, in) or (in,) times linear_weight (C, ..., in), with target classes or probabilities.

    target is (N, ...) with classes or (N, C, ...) with probabilities. `options` have no effect. Raises RuntimeError for
    shapes that do not match.

    Example:

        >>> F.linear_cross_entropy(torch.ones(2, 3), torch.zeros(4, 3), torch.tensor([0, 1]))
        tensor(1.3863)
    """
    _check(input, linear_weight, linear_bias)
    scores = linear(
        input,
        f.reshape(linear_weight, (-1, linear_weight.shape[-1])),
        None if linear_bias is None else f.reshape(linear_bias, (-1,)),
    )
    if linear_weight.ndim > 2:
        scores = f.reshape(scores, (input.shape[0], *linear_weight.shape[:-1]))
    if target.dtype.is_floating_point and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    return cross_entropy(
        scores,
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def _check(x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """Raise for arguments that do not fit, as PyTorch does."""
    if x.ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {x.ndim}")
    if weight.ndim < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {weight.ndim}")
    if x.shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            f"expected equal input and linear_weight last dimensions (in_features), got {x.shape[-1]} and "
            f"{weight.shape[-1]}, respectively"
        )
    if weight.ndim > 2 and x.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(weight.shape)} requires "
            f"batched input, (N, {x.shape[0]}), got unbatched input with shape {tuple(x.shape)}"
        )
    if bias is not None and bias.shape != weight.shape[:-1]:
        raise RuntimeError(f"expected linear_bias shape {tuple(weight.shape[:-1])}, got {tuple(bias.shape)}")
