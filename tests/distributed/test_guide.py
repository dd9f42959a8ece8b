"""The programs of the guide's page on several processes, run as the page says (about 20 s)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ranks import ROOT, SECONDS, started

import numod

PAGE = Path(numod.__file__).parent / "guide" / "distributed.md"
TRAINING, INFERENCE = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)


@pytest.mark.mpi
def test_training(tmp_path, monkeypatch) -> None:
    if not numod.distributed.is_available():
        pytest.skip('needs MPI: pip install -e ".[mpi]"')
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAINING)
    ended = started(["train.py"])
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", ended.stdout)]
    assert ended.returncode == 0 and len(losses) == 5 and losses[4] < losses[0], ended.stdout + ended.stderr
    assert (tmp_path / "model.pt").exists()


@pytest.mark.mpi
def test_inference(tmp_path) -> None:
    pytest.importorskip("distributed", reason='needs Dask: pip install -e ".[dask]"')
    (tmp_path / "infer.py").write_text(INFERENCE)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(tmp_path / "infer.py")]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert ended.stdout == "(10000, 3)\n", ended.stderr
