"""Points in the plane in classes that no line divides: half moons and spirals."""

from __future__ import annotations

import math

from ..core.create.creation import full
from ..core.create.ranges import arange
from ..core.create.random import Generator, randn, randperm
from ..core.shape.joining import cat, stack
from ..core.tensor import Tensor
from ..dtypes import int64


def make_moons(
    n_samples: int = 100, *, noise: float = 0.0, shuffle: bool = True, generator: Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Two half circles that reach into each other: points float32 (n_samples, 2), labels int64 (n_samples,).

    `noise` is the standard deviation of what is added to the points.
    """
    _check(n_samples, noise)
    outer = n_samples // 2
    inner = n_samples - outer
    first, second = (_steps(count) * math.pi for count in (outer, inner))
    points = cat([stack([first.cos(), first.sin()], 1), stack([1 - second.cos(), 0.5 - second.sin()], 1)])
    return _finished(points, [outer, inner], noise, shuffle, generator)


def make_spirals(
    n_samples: int = 100,
    *,
    n_classes: int = 2,
    turns: float = 1.5,
    noise: float = 0.0,
    shuffle: bool = True,
    generator: Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """`n_classes` spirals around the origin, of radius up to 1: points float32 (n_samples, 2), labels int64
    (n_samples,).
    """
    _check(n_samples, noise)
    if n_classes < 1:
        raise ValueError(f"make_spirals: n_classes must be positive, got {n_classes}")
    counts = [n_samples // n_classes + (k < n_samples % n_classes) for k in range(n_classes)]
    arms = []
    for number, count in enumerate(counts):
        radius = _steps(count) * 0.95 + 0.05
        angle = radius * (2 * math.pi * turns) + 2 * math.pi * number / n_classes
        arms.append(stack([radius * angle.cos(), radius * angle.sin()], 1))
    return _finished(cat(arms), counts, noise, shuffle, generator)


def _check(n_samples: int, noise: float) -> None:
    if n_samples < 1 or noise < 0:
        raise ValueError(f"expected n_samples > 0 and noise >= 0, got {n_samples} and {noise}")


def _steps(count: int) -> Tensor:
    """From 0 to 1."""
    return arange(count) / max(count - 1, 1)


def _finished(
    points: Tensor, counts: list[int], noise: float, shuffle: bool, generator: Generator | None
) -> tuple[Tensor, Tensor]:
    labels = cat([full((count,), number, dtype=int64) for number, count in enumerate(counts)])
    if noise:
        points = points + noise * randn(points.shape, generator=generator)
    if shuffle:
        order = randperm(len(points), generator=generator)
        points, labels = points[order], labels[order]
    return points, labels
