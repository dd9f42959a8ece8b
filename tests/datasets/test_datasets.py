"""Datasets that are made on the spot, readers of files, and transforms of images."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import numod
from numod.datasets import (
    CSV,
    Characters,
    ImageFolder,
    load_docstrings,
    make_moons,
    make_spirals,
    transforms,
)

IMAGE = numod.arange(16.0).reshape(1, 4, 4)


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


def test_docstrings_are_text_of_the_standard_library() -> None:
    text = load_docstrings(5000)
    assert len(text) == 5000 and text == load_docstrings(5000)
    data = Characters(text, length=16)
    x, y = data[3]
    assert (
        data.decode(x) == text[48:64]
        and data.decode(y) == text[49:65]
        and numod.equal(data[-1][0], data[len(data) - 1][0])
    )
    assert len(data) == (5000 - 17) // 16 + 1
    with pytest.raises(ValueError, match="not in the vocabulary"):
        data.encode("\x00")
    with pytest.raises(IndexError):
        data[len(data)]


def test_csv(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    (tmp_path / "a.csv").write_text("size,colour,kind\n1.5,red,cat\n,blue,dog\n2.5,red,cat\n")
    data = CSV(tmp_path / "a.csv", target="kind")
    assert data.classes == ["cat", "dog"] and data.columns == ["size", "colour"]
    assert data[1][0].tolist() == [2.0, 0.0] and data.tensors[1].tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="there is no column 'weight'; there are size, colour, kind"):
        CSV(tmp_path / "a.csv", target="weight")
    with pytest.raises(ValueError, match="the target 'size' is missing in row 1"):
        CSV(tmp_path / "a.csv", target="size")


def test_image_folder(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for name, level in (("dark", 0), ("light", 255)):
        (tmp_path / name).mkdir()
        image.new("RGB", (3, 2), (level, level, 0)).save(tmp_path / name / "one.png")
    data = ImageFolder(tmp_path)
    pixels, label = data[1]
    assert data.classes == ["dark", "light"] and label == 1 and pixels.shape == (3, 2, 3)
    assert pixels[:, 0, 0].tolist() == [1.0, 1.0, 0.0] and ImageFolder(tmp_path, mode="L", size=(4, 4))[0][0].shape == (
        1,
        4,
        4,
    )
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="class folder"):
        ImageFolder(tmp_path / "empty")


def test_readers_say_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match=r"needs pandas, which is not installed: pip install 'numod\[data\]'"):
        CSV(tmp_path / "a.csv", "x")


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
