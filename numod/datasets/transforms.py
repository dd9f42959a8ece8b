"""Transforms of images that are tensors (…, C, H, W), with the names and arguments of torchvision's `transforms.v2`.

Random ones draw from numod's default generator once per call: a batch that is given at once is transformed as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..core.create.random import rand, randint
from ..core.create.values import tensor
from ..core.tensor import Tensor
from ..nn import functional as F


class Compose:
    """Transforms one after another."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image


class Normalize:
    """(image - mean) / std, with a number for each channel."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        if 0 in std:
            raise ValueError(f"std evaluated to zero, leading to division by zero: {std}")
        self.mean, self.std = tensor(mean).reshape(-1, 1, 1), tensor(std).reshape(-1, 1, 1)

    def __call__(self, image: Tensor) -> Tensor:
        if not image.is_floating_point():
            raise TypeError(f"Input tensor should be a float tensor. Got {image.dtype}.")
        return (image - self.mean.to(image)) / self.std.to(image)


class RandomCrop:
    """A part of `size` at a random place, after padding with `fill`.

    `padding` is one number for all sides, (left and right, top and bottom), or (left, top, right, bottom).
    """

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        fill: float = 0.0,
        padding_mode: str = "constant",
    ) -> None:
        self.size = _pair(size)
        sides = (0, 0, 0, 0) if padding is None else (padding,) * 4 if isinstance(padding, int) else tuple(padding)
        left, top, right, bottom = sides * 2 if len(sides) == 2 else sides
        self._pads, self.fill = (left, right, top, bottom), fill
        self.padding_mode = {"edge": "replicate", "symmetric": "reflect"}.get(padding_mode, padding_mode)

    def __call__(self, image: Tensor) -> Tensor:
        if any(self._pads):
            options = {"value": self.fill} if self.padding_mode == "constant" else {}
            image = F.pad(image, self._pads, self.padding_mode, **options)
        (height, width), (rows, columns) = image.shape[-2:], self.size
        if height < rows or width < columns:
            raise ValueError(
                f"Required crop size {self.size} is larger than (padded) input image size {(height, width)}."
            )
        top, left = _random_offset(height - rows), _random_offset(width - columns)
        return image[..., top : top + rows, left : left + columns]


class RandomHorizontalFlip:
    """Mirror left and right with probability `p`."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = _probability(p)

    def __call__(self, image: Tensor) -> Tensor:
        return image.flip(-1) if _happens(self.p) else image


class RandomVerticalFlip:
    """Mirror top and bottom with probability `p`."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = _probability(p)

    def __call__(self, image: Tensor) -> Tensor:
        return image.flip(-2) if _happens(self.p) else image


class RandomAffine:
    """Turn, move, scale and shear around the centre.

    `degrees` is a largest angle or a range; `translate` the largest shares of width and height to move; `scale` a range
    of factors; `shear` a largest angle or a range. `interpolation` is "nearest" or "bilinear"; what comes from outside
    is `fill`.
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: str = "nearest",
        fill: float = 0.0,
    ) -> None:
        self.degrees, self.shear = _range(degrees), None if shear is None else _range(shear)
        if translate is not None and not all(0 <= fraction <= 1 for fraction in translate):
            raise ValueError("translation values should be between 0 and 1")
        if scale is not None and min(scale) <= 0:
            raise ValueError("scale values should be positive")
        self.translate, self.scale, self.interpolation, self.fill = translate, scale, interpolation, fill

    def __call__(self, image: Tensor) -> Tensor:
        height, width = image.shape[-2:]
        angle = _between(*self.degrees)
        across, down = [_between(-limit, limit) for limit in self.translate or (0.0, 0.0)]
        factor = 1.0 if self.scale is None else _between(*self.scale)
        shear = 0.0 if self.shear is None else _between(*self.shear)
        return affine(
            image, angle, (round(across * width), round(down * height)), factor, shear, self.interpolation, self.fill
        )


def affine(
    image: Tensor,
    angle: float,
    translate: Sequence[float] = (0, 0),
    scale: float = 1.0,
    shear: float = 0.0,
    interpolation: str = "nearest",
    fill: float = 0.0,
) -> Tensor:
    """The image turned by `angle` degrees clockwise, moved by `translate` pixels (right, down), scaled and sheared."""
    height, width = image.shape[-2:]
    turn, lean = math.radians(angle), math.radians(shear)
    # the inverse of rotation · shear · scale, in pixels around the centre
    sine, cosine, skew = math.sin(turn), math.cos(turn), math.tan(lean)
    a, b = (cosine - skew * sine) / scale, (sine + skew * cosine) / scale
    c, d = -sine / scale, cosine / scale
    dx, dy = translate
    rows = [
        [a, b * height / width, -(a * dx + b * dy) * 2 / width],
        [c * width / height, d, -(c * dx + d * dy) * 2 / height],
    ]
    batch = image.reshape(-1, *image.shape[-3:])
    grid = F.affine_grid(tensor([rows]).to(image).expand(len(batch), 2, 3), list(batch.shape), align_corners=False)
    moved = F.grid_sample(batch - fill, grid, mode=interpolation, padding_mode="zeros", align_corners=False) + fill
    return moved.reshape(image.shape)


class RandomErasing:
    """With probability `p`, set a rectangle of a share in `scale` of the area and an aspect in `ratio` to `value`."""

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float = 0.0,
    ) -> None:
        self.p, self.scale, self.ratio, self.value = _probability(p), tuple(scale), tuple(ratio), value

    def __call__(self, image: Tensor) -> Tensor:
        if not _happens(self.p):
            return image
        height, width = image.shape[-2:]
        for _ in range(10):
            area = height * width * _between(*self.scale)
            aspect = math.exp(_between(math.log(self.ratio[0]), math.log(self.ratio[1])))
            rows, columns = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < rows < height and 0 < columns < width:
                top, left = _random_offset(height - rows), _random_offset(width - columns)
                erased = image.clone()
                erased[..., top : top + rows, left : left + columns] = self.value
                return erased
        return image


def _pair(size: int | Sequence[int]) -> tuple[int, int]:
    sizes = (size, size) if isinstance(size, int) else tuple(size)
    return sizes * 2 if len(sizes) == 1 else sizes


def _range(value: float | Sequence[float]) -> tuple[float, float]:
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"If degrees is a single number, it must be positive, got {value}.")
        return -float(value), float(value)
    low, high = value
    return float(low), float(high)


def _probability(p: float) -> float:
    if not 0 <= p <= 1:
        raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")
    return p


def _happens(p: float) -> bool:
    return rand(()).item() < p


def _between(low: float, high: float) -> float:
    return low + (high - low) * rand(()).item()


def _random_offset(room: int) -> int:
    return int(randint(0, room + 1, ()).item())
