"""SummaryWriter: what it writes with either package, and what it says without."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import numod
from numod.utils.tensorboard import SummaryWriter

PACKAGES = "tensorboardX", "tensorboard"


def test_without_a_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [*PACKAGES, *[module for module in sys.modules if module.startswith(PACKAGES)]]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'numod\[tensorboard\]'"):
        SummaryWriter(tmp_path)


@pytest.mark.parametrize("package", PACKAGES)
def test_it_writes_scalars(package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip(package)
    if package == "tensorboard":
        monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", numod.tensor(0.5), 3)
        writer.add_scalars("both", {"a": numod.tensor(1.0), "b": 2.0}, 3)
        writer.add_text("note", "hello", 3)
        writer.flush()
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*tfevents*"))
    assert b"loss" in written and b"hello" in written and numod.tensor(0.5).numpy().tobytes() in written
