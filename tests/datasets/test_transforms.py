"""Transforms of images."""

from __future__ import annotations

import math

import pytest

import numod
from numod.datasets import transforms


IMAGE = numod.arange(16.0).reshape(1, 4, 4)


def test_normalize_and_flips() -> None:
    assert numod.equal(transforms.Normalize([1.0], [2.0])(IMAGE), (IMAGE - 1) / 2)
    assert numod.equal(transforms.RandomHorizontalFlip(1.0)(IMAGE), IMAGE.flip(-1))
    assert numod.equal(transforms.RandomVerticalFlip(1.0)(IMAGE), IMAGE.flip(-2))
    assert transforms.RandomHorizontalFlip(0.0)(IMAGE) is IMAGE
    with pytest.raises(TypeError, match="should be a float tensor"):
        transforms.Normalize([1.0], [2.0])(IMAGE.long())


def test_crops_are_parts_of_the_padded_image() -> None:
    crop = transforms.RandomCrop(3, padding=1, fill=-1.0)
    padded = numod.nn.functional.pad(IMAGE, (1, 1, 1, 1), value=-1.0)
    parts = [padded[..., i : i + 3, j : j + 3] for i in range(4) for j in range(4)]
    for cropped in [crop(IMAGE) for _ in range(10)]:
        assert any(numod.equal(cropped, part) for part in parts)
    with pytest.raises(ValueError, match="Required crop size"):
        transforms.RandomCrop(9)(IMAGE)


def test_affine_moves_turns_scales_and_shears() -> None:
    assert numod.equal(transforms.affine(IMAGE, 0), IMAGE)
    assert numod.equal(transforms.affine(IMAGE, 0, (1, 0))[0, :, 1:], IMAGE[0, :, :-1])
    assert numod.equal(transforms.affine(IMAGE, 90), IMAGE.rot90(-1, (-2, -1)))  # clockwise
    assert numod.equal(transforms.affine(IMAGE, 180), IMAGE.flip(-1, -2))
    assert numod.equal(transforms.affine(IMAGE, 0, scale=2.0)[0, 1:3, 1:3], IMAGE[0, 1:3, 1:3])
    sheared = transforms.affine(IMAGE, 0, shear=45.0, fill=-1.0)  # rows move left below the centre, right above
    assert sheared.shape == IMAGE.shape and not numod.equal(sheared, IMAGE)
    assert transforms.RandomAffine(10, (0.1, 0.1), (0.9, 1.1), 5, "bilinear")(IMAGE.expand(2, 3, 4, 4)).shape == (
        2,
        3,
        4,
        4,
    )


def test_erasing_sets_a_rectangle() -> None:
    numod.manual_seed(0)
    image = numod.ones(2, 8, 8)
    for _ in range(5):
        erased = transforms.RandomErasing(1.0, value=7.0)(image)
        rows, columns = (erased[0] == 7).any(1), (erased[0] == 7).any(0)
        area = rows.sum().item() * columns.sum().item()
        assert (erased == 7).sum().item() == 2 * area and 0 < area < 64 and numod.equal(erased[0], erased[1])
    assert (image == 1).all() and math.isclose(transforms.RandomErasing(0.0)(image).sum().item(), 128)
