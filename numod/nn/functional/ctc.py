"""The loss of connectionist temporal classification, with PyTorch's formats of targets and lengths."""

from __future__ import annotations

from collections.abc import Sequence

from ... import dtypes
from ...core import functions as f
from ...core.create.ranges import arange
from ...core.tensor import Tensor
from ...core.create.values import tensor
from ...ops.sequence import ctc as op
from ...ops import table as t
from .reduction import reduced

__all__ = ["ctc_loss"]


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability of the targets under log_probs (T, N, C) or (T, C).

    targets are (N, S) or concatenated. The reduction "mean" divides each loss by its target length first. Raises
    RuntimeError for lengths or labels that do not match. Graves et al., 2006.

    Example:

        >>> log_probs = torch.zeros(4, 1, 3).log_softmax(-1)
        >>> F.ctc_loss(log_probs, torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2]))
        tensor(0.8432)
    """
    single = log_probs.ndim == 2
    x = log_probs.unsqueeze(1) if single else log_probs
    if x.ndim != 3:
        raise RuntimeError(f"ctc_loss: expected log_probs (T, N, C) or (T, C), got {list(log_probs.shape)}")
    steps, batch, classes = x.shape
    lengths, sizes = (
        _lengths(name, value, batch)
        for name, value in (("input_lengths", input_lengths), ("target_lengths", target_lengths))
    )
    if not 0 <= blank < classes:
        raise RuntimeError(f"blank must be in label range, 0 to {classes - 1}, got {blank}")
    if any(n < 0 for n in sizes):
        raise RuntimeError(
            f"Expected target_lengths to have value at least 0, but got value {min(sizes)} (while checking arguments "
            "for ctc_loss)"
        )
    if any(not 0 <= n <= steps for n in lengths):
        raise RuntimeError(
            f"Expected input_lengths to have value at most {steps}, but got value {max(lengths)} (while checking "
            "arguments for ctc_loss)"
        )
    padded = _padded(targets.reshape(1, -1) if single and targets.ndim == 1 else targets, sizes, batch)
    padded = f.check_bounds("ctc_loss", padded, classes, 0, error=RuntimeError)
    where, extent = tensor(lengths, dtype=dtypes.int64), tensor(sizes, dtype=dtypes.int64)
    arguments = (f.contiguous(x), f.contiguous(padded), where.to(device=x.device), extent.to(device=x.device))
    loss, _ = op.ctc.apply(arguments, (blank, bool(zero_infinity)))
    if zero_infinity:
        loss = f.where(loss == float("inf"), loss.new_zeros(()), loss)
    if reduction == "mean":
        return f.mean(loss / t.clamp_min(arguments[3], 1).to(loss.dtype))
    loss = reduced(loss, reduction)
    return loss.squeeze(0) if single and loss.ndim else loss


def _lengths(name: str, value: Tensor | Sequence[int], batch: int) -> list[int]:
    if isinstance(value, Tensor) and value.dtype.differentiable:
        raise RuntimeError(f"{name} must be integral, got {value.dtype}")
    lengths = (
        value.reshape(-1).tolist()
        if isinstance(value, Tensor)
        else [int(n) for n in (value if isinstance(value, (tuple, list)) else (value,))]
    )
    if len(lengths) != batch:
        raise RuntimeError(f"{name} must be of size batch_size: expected {batch} values, got {len(lengths)}")
    return lengths


def _padded(targets: Tensor, sizes: list[int], batch: int) -> Tensor:
    """Targets as (N, S), int64, padded with 0."""
    if targets.is_floating_point():
        raise RuntimeError(f"ctc_loss: expected integer targets, got {targets.dtype}")
    targets = targets.to(dtypes.int64)
    longest = max([*sizes, 1])
    if targets.ndim == 1:
        if sum(sizes) != targets.numel():
            raise RuntimeError(
                f"Expected targets of {sum(sizes)} labels, the sum of target_lengths, but got {targets.numel()}"
            )
        parts = f.split(targets, sizes) if batch else []
        rows = [f.pad_constant(part, (0, longest - part.numel()), 0) for part in parts]
        return f.stack(rows, 0)
    if targets.shape[0] != batch or targets.shape[1] < max(sizes, default=0):
        raise RuntimeError(
            f"Expected targets to have size at least {max(sizes, default=0)} at dimension 1 and {batch} at dimension "
            f"0, but got size {list(targets.shape)}"
        )
    targets = f.pad_constant(targets, (0, longest - targets.shape[1]), 0) if targets.shape[1] < longest else targets
    is_label = arange(targets.shape[1], device=targets.device) < tensor(sizes, dtype=dtypes.int64).to(
        device=targets.device
    ).unsqueeze(1)
    return f.masked_fill(targets, ~is_label, 0)
