"""Images: resizing and sampling."""

from __future__ import annotations

import math

import numpy as np

import numod
import numod.nn.functional as F

from ...core import Tensor
from ..registry import operator
from .shape import sizes


@operator("Upsample", since=7)
def upsample_in_old_version(x: Tensor, *, scales: list[float], mode: str = "nearest") -> Tensor:
    """Before version 9 the scales are an attribute."""
    return upsample(x, np.array(scales), mode=mode)


@operator("Upsample", since=9, host="scales")
def upsample(x: Tensor, scales: np.ndarray, *, mode: str = "nearest") -> Tensor:
    """Resize before version 10: places are multiplied, the nearest is the one before."""
    return resize_in_old_version(x, scales, mode=mode)


@operator("Resize", since=10, host="scales")
def resize_in_old_version(x: Tensor, scales: np.ndarray, *, mode: str = "nearest") -> Tensor:
    """In version 10, as Upsample; where an axis shrinks, the nearest place is the one after, as in ONNX Runtime."""
    form = Form(mode, "asymmetric", "simple")
    return _resized(x, list(range(x.ndim)), [float(scale) for scale in scales], None, form, None)


class Form:
    """How Resize maps places of the output to the input, and weighs the elements around them."""

    def __init__(
        self,
        mode: str = "nearest",
        coordinates: str = "half_pixel",
        nearest: str = "round_prefer_floor",
        cubic_a: float = -0.75,
        excludes_outside: bool = False,
        extrapolation: float = 0.0,
        antialias: bool = False,
    ) -> None:
        self.mode, self.coordinates, self.nearest, self.cubic_a = mode, coordinates, nearest, cubic_a
        self.excludes_outside, self.extrapolation, self.antialias = excludes_outside, extrapolation, antialias
        if mode not in ("nearest", "linear", "cubic", "bilinear", "trilinear"):
            raise ValueError(f"mode must be nearest, linear or cubic, got {mode}")


@operator("Resize", since=11, host="roi scales lengths")
def resize(
    x: Tensor,
    roi: np.ndarray | None = None,
    scales: np.ndarray | None = None,
    lengths: np.ndarray | None = None,
    *,
    antialias: int = 0,
    axes: list[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """To sizes, or by scales, along some axes."""
    places = list(range(x.ndim)) if axes is None else [axis % x.ndim for axis in axes]
    form = Form(
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
        extrapolation_value,
        bool(antialias),
    )
    roi = None if roi is None or not roi.size else roi
    if lengths is None or not lengths.size:
        if scales is None or not scales.size:
            raise ValueError("Resize needs scales or sizes")
        return _resized(x, places, [float(scale) for scale in scales], None, form, roi)
    targets = list(sizes(lengths))
    factors = [target / x.shape[axis] for target, axis in zip(targets, places)]
    if keep_aspect_ratio_policy != "stretch":
        factor = min(factors) if keep_aspect_ratio_policy == "not_larger" else max(factors)
        targets = [math.floor(factor * x.shape[axis] + 0.5) for axis in places]
        factors = [factor] * len(places)
    return _resized(x, places, factors, targets, form, roi)


def _resized(
    x: Tensor, axes: list[int], scales: list[float], targets: list[int] | None, form: Form, roi: np.ndarray | None
) -> Tensor:
    targets = targets or [math.floor(x.shape[axis] * scale) for axis, scale in zip(axes, scales)]
    changed = [
        axis
        for axis, scale, target in zip(axes, scales, targets)
        if scale != 1 or target != x.shape[axis] or roi is not None
    ]
    if (fast := _by_interpolate(x, changed, dict(zip(axes, scales)), dict(zip(axes, targets)), form)) is not None:
        return fast
    for position, (axis, scale, target) in enumerate(zip(axes, scales, targets)):
        region = None if roi is None else (float(roi[position]), float(roi[position + len(axes)]))
        if scale != 1 or target != x.shape[axis] or region is not None:
            x = _resized_axis(x, axis, scale, target, form, region)
    return x


def _by_interpolate(x: Tensor, axes: list[int], scales: dict, targets: dict, form: Form) -> Tensor | None:
    """numod's own interpolation, where it has the case: an image whose last axes are resized in one of its modes."""
    count = x.ndim - 2
    wanted = {
        ("nearest", "asymmetric"): ("nearest", None),
        ("linear", "half_pixel"): ("linear", False),
        ("linear", "align_corners"): ("linear", True),
        ("cubic", "half_pixel"): ("bicubic", False),
        ("cubic", "align_corners"): ("bicubic", True),
    }.get((form.mode, form.coordinates))
    exact = all(scales[axis] == targets[axis] / x.shape[axis] for axis in axes)
    if wanted is None or form.excludes_outside or form.antialias or not exact or not x.dtype.is_floating_point:
        return None
    is_floor = form.nearest == "floor" or (form.nearest == "simple" and all(scales[axis] >= 1 for axis in axes))
    if not axes or min(axes) < 2 or not 1 <= count <= 3 or (form.mode == "nearest" and not is_floor):
        return None
    if form.mode == "cubic" and (count != 2 or form.cubic_a != -0.75):
        return None
    mode = {"linear": {1: "linear", 2: "bilinear", 3: "trilinear"}[count]}.get(wanted[0], wanted[0])
    shape = [targets.get(axis, x.shape[axis]) for axis in range(2, x.ndim)]
    return F.interpolate(x, shape, mode=mode, align_corners=wanted[1])


def _resized_axis(
    x: Tensor, axis: int, scale: float, target: int, form: Form, region: tuple[float, float] | None
) -> Tensor:
    """x resized along one axis."""
    size = x.shape[axis]
    places = _places(size, scale, target, form.coordinates, region)
    outside = (places < 0) | (places > size - 1) if form.coordinates == "tf_crop_and_resize" else np.zeros(target, bool)
    if form.mode == "nearest":
        index = _nearest(places, form.nearest, scale).clip(0, size - 1).astype(np.int64)
        out = x.index_select(axis, numod.tensor(index.tolist(), dtype=numod.int64))
    else:
        weights = numod.tensor(_weights(places, size, scale, form).tolist(), dtype=numod.float32)
        wide = x.movedim(axis, -1)
        weights = weights.to(x.dtype) if x.dtype.is_floating_point else weights
        out = (wide.to(weights.dtype) @ weights.T).movedim(-1, axis)
        out = out if x.dtype.is_floating_point else out.round().to(x.dtype)
    if outside.any():
        shape = [-1 if k == axis else 1 for k in range(x.ndim)]
        mask = numod.tensor(outside.tolist()).reshape(shape)
        out = numod.where(mask, numod.full((), form.extrapolation, dtype=out.dtype), out)
    return out


def _places(size: int, scale: float, target: int, coordinates: str, region: tuple[float, float] | None) -> np.ndarray:
    """The place in the input of each element of the output along one axis.

    In float32, as in other runtimes: with a scale of 0.6, the nearest place depends on the rounding.
    """
    y, scale = np.arange(target, dtype=np.float32), np.float32(scale)
    length = scale * np.float32(size)
    if coordinates == "align_corners":
        return np.zeros(target, np.float32) if length == 1 else y * (size - 1) / (length - 1)
    if coordinates == "asymmetric":
        return y / scale
    if coordinates == "tf_crop_and_resize":
        if region is None:
            raise ValueError("tf_crop_and_resize needs roi")
        start, end = map(np.float32, region)
        if length == 1:
            return np.full(target, (end - start) * np.float32(size - 1) / 2 + start * np.float32(size - 1))
        return y * (end - start) * (size - 1) / (length - 1) + start * (size - 1)
    if coordinates == "pytorch_half_pixel" and length == 1:
        return np.full(target, -0.5, np.float32)
    places = (y + np.float32(0.5)) / scale
    if coordinates == "tf_half_pixel_for_nn":  # in versions 11 and 12
        return places
    if coordinates == "half_pixel_symmetric":
        return np.float32(size / 2) * (1 - np.float32(target) / length) + places - np.float32(0.5)
    if coordinates not in ("half_pixel", "pytorch_half_pixel"):
        raise ValueError(f"unknown coordinate_transformation_mode {coordinates}")
    return places - np.float32(0.5)


def _nearest(places: np.ndarray, mode: str, scale: float) -> np.ndarray:
    functions = {
        "simple": np.floor if scale >= 1 else np.ceil,
        "round_prefer_floor": lambda x: np.ceil(x - np.float32(0.5)),
        "round_prefer_ceil": lambda x: np.floor(x + np.float32(0.5)),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    if mode not in functions:
        raise ValueError(f"unknown nearest_mode {mode}")
    return functions[mode](places)


def _weights(places: np.ndarray, size: int, scale: float, form: Form) -> np.ndarray:
    """The weight of each input element in each output element, (target, size). Beyond the ends the last one repeats."""
    a = form.cubic_a
    stretch = min(scale, 1.0) if form.antialias else 1.0
    reach = math.ceil((2 if form.mode == "cubic" else 1) / stretch) + 1
    weights = np.zeros((len(places), size))
    for row, coordinate in enumerate(places):
        taps = np.arange(math.floor(coordinate) - reach, math.floor(coordinate) + reach + 1)
        distance = np.abs(taps - coordinate) * stretch
        if form.mode == "cubic":
            near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
            far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
            values = np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
        else:
            values = np.maximum(1 - distance, 0.0)
        if form.excludes_outside:
            values[(taps < 0) | (taps >= size)] = 0
        values = values / values.sum() if form.antialias or form.excludes_outside else values
        np.add.at(weights[row], taps.clip(0, size - 1), values)
    return weights


@operator("GridSample", since=16)
def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    """Samples at places of a grid, whose last axis is (x, y) or (x, y, z) from -1 to 1."""
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return F.grid_sample(x, grid, mode, padding_mode, bool(align_corners))


@operator("AffineGrid", since=20, host="size")
def affine_grid(theta: Tensor, size: np.ndarray, *, align_corners: int = 0) -> Tensor:
    """The grid of an affine map for outputs of a size."""
    return F.affine_grid(theta, list(sizes(size)), bool(align_corners))
