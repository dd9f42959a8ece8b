"""Windows over spatial axes, which convolution and pooling share: padding as attributes say it, and sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numod.nn.functional as F

from ...core import Tensor


def spatial_pads(
    shape: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    auto_pad: str,
    pads: Sequence[int] | None,
) -> list[tuple[int, int]]:
    """The padding before and after each spatial axis. `shape` is that of the spatial axes."""
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        totals = [
            max((-(-size // stride) - 1) * stride + (length - 1) * dilation + 1 - size, 0)
            for size, length, stride, dilation in zip(shape, kernel, strides, dilations)
        ]
        halves = [total // 2 for total in totals]
        ends = [(half, total - half) for half, total in zip(halves, totals)]
        return ends if auto_pad == "SAME_UPPER" else [(high, low) for low, high in ends]
    if auto_pad not in ("NOTSET", "VALID", ""):
        raise ValueError(f"auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, got {auto_pad}")
    if auto_pad == "VALID" or pads is None:
        return [(0, 0)] * len(shape)
    check_count("pads", pads, 2 * len(shape))
    return list(zip(pads[: len(shape)], pads[len(shape) :]))


def check_count(name: str, values: Sequence[int], count: int) -> None:
    """Raises ValueError unless an attribute has `count` numbers."""
    if len(values) != count:
        raise ValueError(f"{name} needs {count} numbers, got {list(values)}")


def per_axis(name: str, values: Sequence[int] | None, count: int) -> list[int]:
    """An attribute with a positive number for each axis, 1 by default."""
    values = [1] * count if values is None else list(values)
    check_count(name, values, count)
    if any(value < 1 for value in values):
        raise ValueError(f"{name} must be positive, got {values}")
    return values


def padded(x: Tensor, ends: Sequence[tuple[int, int]], value: float = 0.0) -> Tensor:
    """`x` with more elements at the ends of its last axes."""
    flat = [size for pair in reversed(ends) for size in pair]
    return F.pad(x, flat, value=value) if any(flat) else x


def is_symmetric(ends: Sequence[tuple[int, int]]) -> bool:
    """Whether each axis has equal padding before and after."""
    return all(low == high for low, high in ends)
