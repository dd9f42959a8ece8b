"""A pack of kernels is built as a user builds it; networks of other kinds and sizes find their kernels in it.

`-m packs`: the build compiles for two minutes.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from numod.device import target

ROOT = Path(__file__).parents[2]
RUN = """
import hashlib, json, sys
import numod as torch, zoo
from numod.kernel import build
results = {}
for name in sys.argv[1:]:
    torch.manual_seed(0)
    count = len(build.kernels())
    model, inputs, loss_of = zoo.MODELS[name](torch)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        loss = loss_of(model(*inputs))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    bits = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    missing = [kernel.name for kernel in build.kernels()[count:] if not kernel.cached]
    results[name] = missing, hashlib.sha256(bits).hexdigest()
print(json.dumps(results))
"""
NETWORKS = (
    "lenet", "resnet18", "mobilenet", "unet", "lstm_language_model", "gru_classifier", "gpt", "vit", "vae",
    "actor_critic",
)  # fmt: skip


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack for this processor's level."""
    path = tmp_path_factory.mktemp("packs") / "kernels.pack"
    if target.level() is None:
        pytest.skip("this processor has no level")
    printed = run("-m", "numod", "cache", "build", "-o", str(path))
    assert printed.splitlines()[0].endswith("1/18 networks of linear layers") and f"written to {path}" in printed
    return path


def run(*arguments: str, **environment: str) -> str:
    """What Python prints with these arguments."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "shared")])
    environment = {**os.environ, "PYTHONPATH": paths, "NUMOD_NUM_THREADS": "2", **environment}
    command = [sys.executable, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True).stdout


@pytest.mark.packs
def test_networks_find_their_kernels_and_results_are_those_of_kernels_compiled_for_the_level(
    pack: Path, tmp_path: Path
) -> None:
    packed = json.loads(run("-c", RUN, *NETWORKS, NUMOD_CACHE_DIR="", NUMOD_KERNEL_PATH=str(pack)))
    level = target.level()
    settings = {
        "NUMBA_CPU_NAME": target.level_processor(level),
        "NUMBA_CPU_FEATURES": target.LEVELS[level].replace(",-prefer-256-bit", ""),
        "NUMOD_CACHE_DIR": str(tmp_path / "cache"),
    }
    compiled = json.loads(run("-c", RUN, *NETWORKS, **settings))
    for name in NETWORKS:
        (missing, bits), (_, expected_bits) = packed[name], compiled[name]
        assert bits == expected_bits, name
        assert len(missing) <= 1, (name, missing)


@pytest.mark.skipif(not hasattr(signal, "pause"), reason="needs signals of POSIX")
def test_an_interrupted_build_ends_the_process_that_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, processes = subprocess.Popen, []

    def start(command: list[str], **options: object) -> subprocess.Popen:
        script = "import signal; print('1/18 networks', flush=True); signal.pause()"
        processes.append(usual([sys.executable, "-c", script], **options))
        return processes[-1]

    def interrupt(line: str) -> None:
        assert line == "x86-64-v3: 1/18 networks"
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module("numod.prebuilt.build")._compiled("x86-64-v3", str(tmp_path), interrupt)
    assert processes[0].returncode == -signal.SIGTERM
