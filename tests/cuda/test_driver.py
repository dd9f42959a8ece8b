"""The CUDA driver's interface without a driver: `ptx_machine` pretends to be one, and the back end runs on it in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from numod import config
from numod.device.cuda_driver import words

HERE = Path(__file__).parent


def test_arguments_are_words():
    layout, values = words(["float32[]", "uint8[]", "float64", "int64"])
    assert layout.size == 8 * (7 + 7 + 1 + 1) and layout.format == "=qqqqQqqqqqqQqqdq"
    assert values == "0, 0, a0.size, 4, a0.address, a0.size, 4, 0, 0, a1.size, 1, a1.address, a1.size, 1, a2, a3"


@pytest.mark.ptx
@pytest.mark.skipif(config.cuda_simulator(), reason="the simulator has no driver")
def test_the_back_end_on_a_pretended_driver():
    pytest.importorskip("numba_cuda", reason="needs the extra: pip install -e '.[cuda]'")
    found = subprocess.run([sys.executable, str(HERE / "on_pretended_driver.py")], capture_output=True, text=True, timeout=300)
    assert found.returncode == 0 and "all right" in found.stdout, found.stderr
