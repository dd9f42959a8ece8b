"""Applications without numod's .py files: a tree of .pyc files, and a PyInstaller bundle. Two minutes."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import numod
from numod.kernel import sources

PACKAGE = Path(numod.__file__).parent
SCRIPT = """
import numod as torch
from numod import nn, optim
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(16, 4), torch.randn(16, 1)
for _ in range(3):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
print("finite", torch.isfinite(loss).item())
"""
pytestmark = pytest.mark.frozen


def run(*command: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, **environment})


@pytest.fixture
def compiled_tree(tmp_path: Path) -> Path:
    """A folder with numod as .pyc files."""
    target = tmp_path / "numod"
    shutil.copytree(PACKAGE, target, ignore=shutil.ignore_patterns("__pycache__", "examples"))
    assert compileall.compile_dir(target, quiet=1, legacy=True, workers=2, stripdir=tmp_path)
    for path in target.rglob("*.py"):
        path.unlink()
    (tmp_path / "application.py").write_text(SCRIPT)
    return tmp_path


def test_a_tree_of_pyc_files_runs_with_the_archive_of_sources(compiled_tree: Path) -> None:
    archive = compiled_tree / "numod" / "kernel" / sources.ARCHIVE
    archive.unlink(missing_ok=True)
    command, cache = (sys.executable, str(compiled_tree / "application.py")), str(compiled_tree / "cache")
    without = run(*command, PYTHONPATH=str(compiled_tree), NUMOD_CACHE_DIR=cache)
    assert without.returncode == 1
    assert "numod compiles kernels from their Python source" in without.stderr.splitlines()[-1]
    sources.write(PACKAGE, archive)
    complete = run(*command, PYTHONPATH=str(compiled_tree), NUMOD_CACHE_DIR=cache)
    assert (complete.returncode, complete.stdout) == (0, "finite True\n"), complete.stderr


def test_a_pyinstaller_bundle_runs(tmp_path: Path) -> None:
    pytest.importorskip("PyInstaller")
    (tmp_path / "application.py").write_text(SCRIPT)
    others = [f"--exclude-module={name}" for name in ("torch", "jax", "matplotlib", "scipy", "pandas", "PIL")]
    places = [f"--{name}path={tmp_path / name}" for name in ("dist", "work", "spec")]
    hooks = f"--additional-hooks-dir={PACKAGE / '_pyinstaller'}"  # as the entry point says, if numod is installed
    command = [sys.executable, "-m", "PyInstaller", "--log-level=ERROR", hooks, *places, *others]
    built = run(*command, f"--paths={PACKAGE.parent}", str(tmp_path / "application.py"))
    assert built.returncode == 0, built.stderr
    program = str(tmp_path / "dist" / "application" / "application")
    finished = run(program, PYTHONPATH="", NUMOD_CACHE_DIR=str(tmp_path / "cache"))
    assert (finished.returncode, finished.stdout) == (0, "finite True\n"), finished.stderr
