"""Points that form moons and spirals."""

from __future__ import annotations

import pytest

import numod
from numod.datasets import make_moons, make_spirals


def test_moons_lie_on_two_half_circles() -> None:
    points, labels = make_moons(9)
    assert points.shape == (9, 2) and labels.bincount().tolist() == [4, 5]
    outer, inner = points[labels == 0], points[labels == 1]
    assert numod.allclose(outer.norm(dim=1), numod.ones(4)) and outer[:, 1].min() > -1e-6
    assert numod.allclose((inner - numod.tensor([1.0, 0.5])).norm(dim=1), numod.ones(5))
    first, second = (make_moons(9, noise=0.1, generator=numod.Generator().manual_seed(1))[0] for _ in range(2))
    assert numod.equal(first, second)


def test_spirals_turn_around_the_origin() -> None:
    points, labels = make_spirals(30, n_classes=3, shuffle=False)
    assert labels.bincount().tolist() == [10, 10, 10]
    radius = points.norm(dim=1).reshape(3, 10)
    assert (
        numod.allclose(radius[0], radius[2]) and (radius.diff() > 0).all() and radius[0, -1].item() == pytest.approx(1)
    )
    with pytest.raises(ValueError, match="n_samples > 0"):
        make_spirals(0)
