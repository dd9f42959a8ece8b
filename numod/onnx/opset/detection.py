"""Boxes: regions of interest and non-maximum suppression."""

from __future__ import annotations

import numpy as np

import numod

from ...core import Tensor
from ..registry import operator

_MOST_WEIGHTS = 1 << 26  # of a box along an axis, which files and boxes choose


@operator("NonMaxSuppression", since=10, host="boxes scores most overlap least")
def non_max_suppression(
    boxes: np.ndarray,
    scores: np.ndarray,
    most: np.ndarray | None = None,
    overlap: np.ndarray | None = None,
    least: np.ndarray | None = None,
    *,
    center_point_box: int = 0,
) -> Tensor:
    """(batch, class, box) of the boxes of highest score that overlap no better one too much.

    Its size depends on the numbers, so Python runs it.
    """
    limit = 0 if most is None else int(most.reshape(()))
    threshold = 0.0 if overlap is None else float(overlap.reshape(()))
    floor = None if least is None else float(least.reshape(()))
    rows = []
    for batch in range(scores.shape[0]):
        corners = _corners(boxes[batch], center_point_box)
        for label in range(scores.shape[1]):
            rows += [(batch, label, box) for box in _chosen(corners, scores[batch, label], limit, threshold, floor)]
    return numod.tensor(rows, dtype=numod.int64).reshape(-1, 3)


def _corners(boxes: np.ndarray, centred: int) -> np.ndarray:
    """Boxes as (lowest y, lowest x, highest y, highest x)."""
    if centred:
        half = boxes[:, 2:] / 2
        boxes = np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], 1)
    return np.concatenate([np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])], 1)


def _chosen(boxes: np.ndarray, scores: np.ndarray, limit: int, threshold: float, floor: float | None) -> list[int]:
    remaining = np.argsort(-scores, kind="stable")
    remaining = remaining if floor is None else remaining[scores[remaining] > floor]
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], 1)
    chosen: list[int] = []
    while remaining.size and len(chosen) < limit:
        best, remaining = remaining[0], remaining[1:]
        chosen.append(int(best))
        low = np.maximum(boxes[best, :2], boxes[remaining, :2])
        high = np.minimum(boxes[best, 2:], boxes[remaining, 2:])
        common = np.prod(np.maximum(high - low, 0), 1)
        union = areas[best] + areas[remaining] - common
        remaining = remaining[common <= threshold * np.maximum(union, 1e-30)]
    return chosen


def _roi_align(
    x: Tensor,
    boxes: np.ndarray,
    batches: np.ndarray,
    half_pixel: bool,
    mode: str,
    height: int,
    width: int,
    sampling_ratio: int,
    scale: float,
) -> Tensor:
    """The features of each box, by average or maximum over samples of each of its bins."""
    if min(height, width) < 1 or sampling_ratio < 0:
        raise ValueError(
            "output_height and output_width must be positive and sampling_ratio not negative, got "
            f"{height}, {width} and {sampling_ratio}"
        )
    rows = []
    for box, batch in zip(boxes, batches):
        shift = 0.5 if half_pixel else 0.0
        left, top, right, bottom = (float(value) * scale - shift for value in box)
        w, h = right - left, bottom - top
        if not half_pixel:
            w, h = max(w, 1.0), max(h, 1.0)
        image = x[int(batch)]
        across = _axis_weights(x.shape[3], left, w / width, width, sampling_ratio or int(np.ceil(w / width)))
        down = _axis_weights(x.shape[2], top, h / height, height, sampling_ratio or int(np.ceil(h / height)))
        rows.append(_pooled(image, down, across, height, width, mode))
    return numod.stack(rows) if rows else numod.zeros(0, x.shape[1], height, width, dtype=x.dtype)


def _axis_weights(size: int, start: float, bin_size: float, bins: int, samples: int) -> np.ndarray:
    """Weights (bins, samples, size) by which samples along an axis interpolate between its elements."""
    samples = max(samples, 1)
    if bins * samples * size > _MOST_WEIGHTS:
        raise ValueError(f"{bins} bins of {samples} samples of {size} elements need more than {_MOST_WEIGHTS} weights")
    places = start + bin_size * (np.arange(bins)[:, None] + (np.arange(samples) + 0.5) / samples)
    inside = (places >= -1) & (places <= size)
    places = places.clip(0, size - 1)
    low = np.minimum(np.floor(places), size - 1).astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    weight = np.where(low >= size - 1, 0.0, places - low)
    one = np.eye(size)
    return (one[low] * (1 - weight)[..., None] + one[high] * weight[..., None]) * inside[..., None]


def _pooled(image: Tensor, down: np.ndarray, across: np.ndarray, height: int, width: int, mode: str) -> Tensor:
    if mode == "avg":
        rows, columns = (numod.tensor(value.mean(1).tolist(), dtype=image.dtype) for value in (down, across))
        return rows @ image @ columns.T
    # the maximum of the four weighted neighbours of all samples, as the standard has it
    best = None
    for row_weights in _corner_weights(down):
        for column_weights in _corner_weights(across):
            rows, columns = (
                numod.tensor(tensor.reshape(-1, tensor.shape[-1]).tolist(), dtype=image.dtype)
                for tensor in (row_weights, column_weights)
            )
            values = (rows @ image @ columns.T).reshape(image.shape[0], height, down.shape[1], width, across.shape[1])
            best = values if best is None else numod.maximum(best, values)
    return best.amax((2, 4))


def _corner_weights(weights: np.ndarray) -> list[np.ndarray]:
    """The weights of the lower and of the higher neighbour."""
    first = weights.argmax(-1)
    nonzero = weights > 0
    low = np.where(nonzero.any(-1), nonzero.argmax(-1), first)
    lower = np.zeros_like(weights)
    np.put_along_axis(lower, low[..., None], np.take_along_axis(weights, low[..., None], -1), -1)
    return [lower, weights - lower]


@operator("RoiAlign", since=10, host="boxes batches")
def roi_align_in_old_version(
    x: Tensor,
    boxes: np.ndarray,
    batches: np.ndarray,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Before version 16 without the shift of half a pixel."""
    size = output_height, output_width
    return _roi_align(x, boxes, batches, False, mode, *size, sampling_ratio, spatial_scale)


@operator("RoiAlign", since=16, host="boxes batches")
def roi_align(
    x: Tensor,
    boxes: np.ndarray,
    batches: np.ndarray,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Regions of images, pooled to one size."""
    shifts = coordinate_transformation_mode == "half_pixel"
    return _roi_align(x, boxes, batches, shifts, mode, output_height, output_width, sampling_ratio, spatial_scale)
