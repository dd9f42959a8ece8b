"""A pack of kernels is built as a user builds it; networks of other kinds and sizes find their kernels in it.

`-m packs`: the build compiles for two minutes, that for another architecture for four. AARCH64_PYTHON is a command that
starts a Python for aarch64 with NumPy, Numba and llvmlite of this Python's versions; it gets PYTHONPATH. On another
processor it can be a script that adds the folder of their wheels (`pip download --platform manylinux_2_28_aarch64`,
unpacked) to PYTHONPATH, and runs Debian's `python3.11` for arm64 (`dpkg -x`) by `qemu-aarch64 -L`.
"""

from __future__ import annotations

import importlib
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from llvmlite.binding import ObjectFileRef

from numod.device import target
from numod.kernel import store
from numod.prebuilt import build, buildable

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
FOREIGN = """
import sys
import numod as torch
from numod.device import target
from numod.kernel import cache
from numod.prebuilt import __main__ as prebuilt

def case():
    x = torch.arange(6.0).view(2, 3).requires_grad_()
    ((x @ x.mT).half().float().relu() / 4).sum().backward()
    assert x.grad.tolist() == [[1.5, 2.5, 3.5]] * 2
    assert (x.detach() > 2).nonzero().tolist() == [[1, 0], [1, 1], [1, 2]]

class Cache(cache.KernelCache):
    def __init__(self, kernel, version, level_key):
        super().__init__(kernel, version, level_key)
        print(level_key())

cache.KernelCache = Cache
prebuilt.CASES = {"one": case}
prebuilt.target.level_machine = lambda level: target.Machine(*sys.argv[2:])
prebuilt.main(sys.argv[1])
"""
NETWORKS = (
    "lenet", "resnet18", "mobilenet", "unet", "lstm_language_model", "gru_classifier", "gpt", "vit", "vae",
    "actor_critic",
)  # fmt: skip
EMULATED = "vae"  # has few kernels: an emulator compiles one in seconds


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack for this processor's level."""
    path = tmp_path_factory.mktemp("packs") / "kernels.pack"
    if target.level() is None:
        pytest.skip("this processor has no level")
    printed = run("-m", "numod", "cache", "build", "-o", str(path))
    assert printed.splitlines()[0].endswith("1/18 networks of linear layers") and f"written to {path}" in printed
    return path


def run(*arguments: str, python: tuple[str, ...] = (sys.executable,), **environment: str) -> str:
    """What Python prints with these arguments."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "shared")])
    environment = {**os.environ, "PYTHONPATH": paths, "NUMOD_NUM_THREADS": "2", **environment}
    command = [*python, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True).stdout


@pytest.mark.packs
def test_networks_find_their_kernels_and_results_are_those_of_kernels_compiled_for_the_level(
    pack: Path, tmp_path: Path
) -> None:
    packed = json.loads(run("-c", RUN, *NETWORKS, NUMOD_CACHE_DIR="", NUMOD_KERNEL_PATH=str(pack)))
    compiled = json.loads(run("-c", RUN, *NETWORKS, **compiled_for(target.level()), NUMOD_CACHE_DIR=str(tmp_path)))
    for name in NETWORKS:
        (missing, bits), (_, expected_bits) = packed[name], compiled[name]
        assert bits == expected_bits, name
        assert len(missing) <= 1, (name, missing)


def compiled_for(level: str) -> dict[str, str]:
    """The environment in which kernels are compiled for a level."""
    features = target.LEVELS[level].replace(",-prefer-256-bit", "")
    return {"NUMBA_CPU_NAME": target.level_processor(level), "NUMBA_CPU_FEATURES": features}


@pytest.mark.packs
def test_machine_code_for_another_level_is_that_which_a_processor_of_it_compiles(tmp_path: Path) -> None:
    """Here for a level that this processor runs, as if it did not."""
    level = target.level()
    if level not in buildable():
        pytest.skip("this processor has no level")
    machine = target.level_machine(level)
    foreign, native = tmp_path / "foreign", tmp_path / "native"
    run("-c", FOREIGN, level, machine.triple, machine.processor, machine.features, NUMOD_CACHE_DIR=str(foreign))
    run("-c", FOREIGN, "", NUMOD_CACHE_DIR=str(native), **compiled_for(level))
    expected = instructions(native)
    assert expected and instructions(foreign) == expected


def instructions(folder: Path) -> dict[str, list[bytes]]:
    """The instructions of the kernels in a folder, by key."""
    return {
        entry.key: [
            section.data()
            for code, _ in entry.parts
            for section in ObjectFileRef.from_data(bytes(code)).sections()
            if section.is_text()
        ]
        for entry in store.kernels(str(folder))
    }


@pytest.mark.packs
def test_a_pack_for_aarch64_is_used_there_and_results_are_those_of_kernels_compiled_there(tmp_path: Path) -> None:
    python = tuple(shlex.split(os.environ.get("AARCH64_PYTHON", "")))
    if not python:
        pytest.skip("AARCH64_PYTHON is not set")
    path = tmp_path / "kernels.pack"
    run("-m", "numod", "cache", "build", "--target", "aarch64", "-o", str(path))
    level = compiled_for("aarch64")
    # an emulator may not tell what the processor has
    richer = {"NUMBA_CPU_NAME": "cortex-a72", "NUMBA_CPU_FEATURES": f"{level['NUMBA_CPU_FEATURES']},+crc"}
    settings = {"NUMOD_CACHE_DIR": "", "NUMOD_KERNEL_PATH": str(path), **richer}
    packed = json.loads(run("-c", RUN, *NETWORKS, python=python, **settings))
    for name, (missing, _) in packed.items():
        assert len(missing) <= 1, (name, missing)
    settings = {"NUMOD_CACHE_DIR": str(tmp_path / "cache"), **level}
    compiled = json.loads(run("-c", RUN, EMULATED, python=python, **settings))
    assert packed[EMULATED][1] == compiled[EMULATED][1]


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


@pytest.mark.packs
def test_kernels_for_another_architecture_are_compiled_and_have_the_keys_that_a_processor_of_it_looks_for(
    tmp_path: Path,
) -> None:
    """The cases run on this processor meanwhile. The second process is one for a processor with more features."""
    if "aarch64" not in buildable():
        pytest.skip("no processor, or no system, that compiles for aarch64")
    level = target.level_machine("aarch64")
    features = f"{level.features},+dotprod,+fullfp16,+lse,+crc"
    machines = {"level": (level.processor, level.features), "more": ("cortex-a76", features)}
    keys = {}
    for name, machine in machines.items():
        printed = run("-c", FOREIGN, "aarch64", level.triple, *machine, NUMOD_CACHE_DIR=str(tmp_path / name))
        *keys[name], line = printed.splitlines()
        assert line == "1/1 one"
    entries = {name: store.kernels(str(tmp_path / name)) for name in machines}
    assert {entry.key for entry in entries["level"]} == {*keys["level"]} == {*keys["more"]} != set()
    assert {*keys["level"]}.isdisjoint(entry.key for entry in entries["more"])
    objects = [bytes(code[:20]) for entry in entries["level"] for code, _ in entry.parts]
    assert {(code[:4], int.from_bytes(code[18:], "little")) for code in objects} == {(b"\x7fELF", 183)}


def test_levels_that_can_be_compiled_on_other_systems_and_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = {"x86_64": target.LEVELS["x86-64-v3"], "arm64": target.LEVELS["aarch64"]}
    for triple, levels in (
        ("x86_64-unknown-linux-gnu", list(target.LEVELS)), ("aarch64-unknown-linux-gnu", []),
        ("x86_64-pc-windows-msvc", ["x86-64-v3"]), ("arm64-apple-darwin23.1.0", ["aarch64"]),
    ):  # fmt: skip
        monkeypatch.setattr(target, "triple", lambda triple=triple: triple)
        monkeypatch.setattr(target, "features", lambda triple=triple: features.get(triple.partition("-")[0], ""))
        assert buildable() == levels
    with pytest.raises(ValueError, match="x86-64-v3 cannot be compiled here; expected aarch64$"):
        build(str(tmp_path / "some.pack"), ["aarch64", "x86-64-v3"])
