"""Readers of CSV files and folders of images."""

from __future__ import annotations

from pathlib import Path

import pytest

from numod.datasets import CSV, ImageFolder


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
