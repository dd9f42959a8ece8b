"""SummaryWriter: what it writes with either package, and what it says without."""

from __future__ import annotations

import subprocess
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


CALLS = (
    'w.add_scalar("a", torch.tensor(2.5), 1)\nw.add_scalars("b", {"x": torch.tensor(1.0)}, 1)\n'
    'w.add_histogram("h", nn.Parameter(torch.arange(9.0)), 1)\nw.add_pr_curve("p", torch.tensor([0, 1]), torch.tensor([0.2, 0.9]), 1)\n'
    'w.add_embedding(torch.zeros(4, 3))\nw.add_hparams({"lr": torch.tensor(0.1)}, {"acc": torch.tensor(0.5)})\n'
)


@pytest.mark.parametrize("numod_first", [True, False])
def test_tensorboardx_itself_takes_tensors(numod_first: bool, tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    imports = ["import numod as torch; from numod import nn", "from tensorboardX import SummaryWriter"]
    program = "\n".join([*(imports if numod_first else imports[::-1]), f"w = SummaryWriter({str(tmp_path)!r})", CALLS])
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert not ended.returncode, ended.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_scalars_are_written(package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
