"""Padding of the last dimensions: constant, reflected, replicated or circular."""

from __future__ import annotations

from collections.abc import Sequence

from ...core import functions as f
from ...core.resolve import whole_number
from ...core.shape.joining import padded
from ...core.tensor import Tensor
from ...ops.index.pad import PLACES

__all__ = ["pad"]


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: complex | None = None) -> Tensor:
    """Pad by (left, right, top, bottom, ...), starting from the last dimension; negative sizes crop.

    Modes are "constant" (with `value`), "reflect", "replicate" and "circular". Raises RuntimeError for invalid sizes.

    Example:

        >>> F.pad(torch.tensor([[1.0, 2.0]]), (1, 2))
        tensor([[0., 1., 2., 0., 0.]])
    """
    if mode == "constant":
        return f.pad_constant(input, pad, 0.0 if value is None else value)
    if value:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in PLACES:
        raise NotImplementedError(
            f"Unrecognised padding mode {mode}; expected 'constant', 'reflect', 'replicate' or 'circular'"
        )
    pad = tuple([whole_number("pad", "pad", number) for number in pad])
    if len(pad) % 2 or len(pad) // 2 not in (1, 2, 3) or input.ndim not in (len(pad) // 2 + 1, len(pad) // 2 + 2):
        raise NotImplementedError(
            f"Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now: got padding of {len(pad)} "
            f"numbers for {input.ndim} dimensions"
        )
    ndim = len(pad) // 2
    if mode != "circular" and 0 in input.shape[input.ndim - ndim - 1 if input.ndim == ndim + 1 else 1 :]:
        raise RuntimeError(
            f"Expected {ndim + 1}D or {ndim + 2}D (batch mode) tensor with possibly 0 "
            f"batch size and other non-zero dimensions for input, but got: {list(input.shape)}"
        )
    before, after = ([*(0,) * (input.ndim - ndim), *pad[-2 + k :: -2]] for k in (0, 1))
    result = input
    for dim in range(input.ndim - ndim, input.ndim):
        if mode == "circular":  # cropped elements do not reappear on the other side
            left, right = max(-before[dim], 0), max(-after[dim], 0)
            result = f.narrow(result, dim, left, max(result.shape[dim] - left - right, 0)) if left or right else result
            before[dim], after[dim] = max(before[dim], 0), max(after[dim], 0)
        _check(mode, result.shape[dim], before[dim], after[dim], dim)
    result = padded(result, before, after, mode)
    return f.clone(result) if result._storage is input._storage else result


def _check(mode: str, n: int, before: int, after: int, dim: int) -> None:
    limit = {"reflect": n - 1, "circular": n, "replicate": before + after + n}[mode]
    if before > limit or after > limit:
        raise RuntimeError(
            f"Padding size should be less than the corresponding input dimension, but got: padding ({before}, "
            f"{after}) at dimension {dim} of input of size {n}"
        )
    if n + before + after <= 0:
        raise RuntimeError(f"padding ({before}, {after}) at dimension {dim} leaves nothing of size {n}")
