"""Files of a Learner that were damaged or written to do harm."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import numod
from numod.learner import load_learner
from small_training import X, learner


def test_damaged_files(tmp_path: Path) -> None:
    learn = learner(path=tmp_path, valid=[])
    content, draw = learn.export("net.pt").read_bytes(), random.Random(0)
    damaged = tmp_path / "damaged.pt"
    for number in range(20):
        broken = bytearray(content)
        if number % 2:
            del broken[draw.randrange(len(broken)) :]
        else:
            for _ in range(20):
                broken[draw.randrange(len(broken))] = draw.randrange(256)
        damaged.write_bytes(broken)
        with pytest.raises((ValueError, RuntimeError)):
            load_learner(damaged)
    assert load_learner(tmp_path / "net.pt").model(X[:2]).shape == (2, 3)


@pytest.mark.parametrize(
    ("entry", "value"),
    [("program", 3), ("weights", 3), ("loss", ["mse_loss"]), ("vocab", 3), ("n_inp", "two"), ("numod.learner", 99)],
)
def test_files_with_other_content(entry: str, value: object, tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    numod.save({"numod.learner": 1, "weights": {}, entry: value}, path)
    with pytest.raises(ValueError, match=f"is damaged: {entry}" if entry != "numod.learner" else "was not written by"):
        load_learner(path)


def test_a_full_disk_leaves_the_file_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learn = learner(path=tmp_path)
    path = learn.save("net")
    before = path.read_bytes()

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        learn.save("net")
    assert path.read_bytes() == before and [file.name for file in path.parent.iterdir()] == ["net.pth"]
