"""The backend that einops finds for tensors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import numod


ROOT = Path(numod.__file__).parents[1]


BACKENDS = """
class TorchBackend:
    def __init__(self):
        raise ImportError("no torch here")

    def is_appropriate_type(self, tensor):
        return isinstance(tensor, self.torch.Tensor)
"""


@pytest.mark.parametrize("first", ["numod", "einops._backends"])
def test_einops_has_a_backend_for_tensors(first: str, tmp_path) -> None:
    (tmp_path / "einops").mkdir()
    (tmp_path / "einops" / "__init__.py").write_text("")
    (tmp_path / "einops" / "_backends.py").write_text(BACKENDS)
    program = (
        f"import {first}, numod; from einops import _backends; own = _backends.TorchBackend.__subclasses__(); "
        "print([each.framework_name for each in own], own[0]().is_appropriate_type(numod.ones(1)), "
        "own[0]().is_appropriate_type(1))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
    )
    assert finished.stdout == "['numod'] True False\n", finished.stderr
