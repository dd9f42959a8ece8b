"""The examples of the guide's page on ONNX."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import check_page

import numod

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.onnx


def test_examples_run_and_give_the_outputs_shown(tmp_path: Path) -> None:
    check_page(Path(numod.__file__).parent / "guide" / "onnx.md", tmp_path)
