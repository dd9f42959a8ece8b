"""The CUDA driver's interface without a driver:

`ptx_machine` pretends to be one, and the back end runs on it in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from numod import config
from numod.device import cuda, cuda_driver
from numod.device.cuda_driver import words

from ptx_machine import Machine

HERE = Path(__file__).parent


def test_arguments_are_words():
    layout, values = words(["float32[]", "uint8[]", "float64", "int64"])
    assert layout.size == 8 * (3 + 7 + 7 + 1 + 1) and layout.format == "=Q16x16xqqQqq16xqqQqqdq"
    assert values == "a0.size, 4, a0.address, a0.size, 4, a1.size, 1, a1.address, a1.size, 1, a2, a3"


@pytest.mark.parametrize(("functions", "message"), [
    ({"cuInit": lambda flags: 802}, "the NVIDIA driver is installed, but reports: CUDA error: .*cuInit.*Check that "
                                    "nvidia-smi"),
    ({"cuDeviceGetCount": lambda out: 0}, "no CUDA-capable device is detected.*CUDA_VISIBLE_DEVICES"),
], ids=["broken", "without a GPU"])  # fmt: skip
@pytest.mark.skipif(config.cuda_simulator(), reason="the simulator has no driver")
def test_a_driver_without_a_gpu_says_so(functions: dict, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(1 << 12)
    vars(machine).update(functions)
    monkeypatch.setattr(cuda_driver, "_open", machine.library)
    cuda.driver.cache_clear()
    assert not cuda.is_available()
    with pytest.raises(RuntimeError, match=message):
        cuda.driver()


def test_a_driver_too_old_for_the_text_says_so() -> None:
    machine = Machine(1 << 12)
    machine.cuModuleLoadDataEx, machine.cuDriverGetVersion = (lambda *_: 222), (lambda out: out.__setitem__(0, 11040))
    with pytest.raises(RuntimeError, match=r"the driver is for CUDA 11.4; install a driver for CUDA 11.8 or newer"):
        cuda_driver.Driver(machine.library()).load("", "kernel")


@pytest.mark.ptx
@pytest.mark.skipif(config.cuda_simulator(), reason="the simulator has no driver")
def test_the_back_end_on_a_pretended_driver():
    pytest.importorskip("numba_cuda", reason="needs the extra: pip install -e '.[cuda]'")
    completed = subprocess.run(
        [sys.executable, str(HERE / "on_pretended_driver.py")], capture_output=True, text=True, timeout=300
    )
    assert completed.returncode == 0 and "all right" in completed.stdout, completed.stderr
