"""NAME.py and `load_native`: an exported network called from Python, with and without NumPy.

Marker `export`: one small network is compiled for all tests, which takes about ten seconds on two idle cores.
"""

from __future__ import annotations

import array
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import numod as torch
from numod import nn
from numod.device import target as machine
from numod.export import Artifact, aot_compile, export, load_native, native, targets
from numod.export.loader import python_file, where_it_runs

compiles = pytest.mark.export
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import net
network = net.load()
assert not {"numpy", "numod"} & set(sys.modules)
x, k, keep, half, small, z = eval(sys.stdin.read())
print(network.run(x, k, keep, half, small, z))
"""


class Kinds(nn.Module):
    """An output for each kind of number."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(
        self,
        x: torch.Tensor,
        k: torch.Tensor,
        keep: torch.Tensor,
        half: torch.Tensor,
        small: torch.Tensor,
        z: torch.Tensor,
    ) -> tuple:
        return torch.exp(self.layer(x)), k // 3 + 1, ~keep, half * 2, small * 2, z * 2, x.sum()


X = [[1.0, 2.0, 3.0], [0.5, 0.25, -1.0]]
K = [7, -8, 1 << 40]
KEEP = [True, False]
HALF = [0.5, -1.5]
Z = [[1.0, 2.0], [3.0, -4.0]]
LISTS = (X, K, KEEP, HALF, HALF, Z)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kinds, Artifact]:
    torch.manual_seed(0)
    net = Kinds().eval()
    inputs = (
        torch.tensor(X), torch.tensor(K), torch.tensor(KEEP), torch.tensor(HALF, dtype=torch.bfloat16),
        torch.tensor(HALF, dtype=torch.float16), torch.tensor([1 + 2j, 3 - 4j]),
    )  # fmt: skip
    return net, aot_compile(export(net, inputs), tmp_path_factory.mktemp("kinds"), weights="file")


def _wanted(net: Kinds) -> list:
    return [torch.exp(net.layer(torch.tensor(X))).tolist(), [3, -2, (1 << 40) // 3 + 1], [False, True], [1.0, -3.0],
        [1.0, -3.0], [[2.0, 4.0], [6.0, -8.0]], 5.75]  # fmt: skip


def _check(got: list, net: Kinds) -> None:
    want = _wanted(net)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-5)
    assert [*got[1:]] == want[1:]


@compiles
@pytest.mark.parametrize("linked", [True, False], ids=["library", "object"])
def test_lists_in_lists_out_in_a_process_without_anything(linked: bool, written: tuple, tmp_path: Path) -> None:
    net, artifact = written
    folder = tmp_path / "copy"
    shutil.copytree(artifact.folder, folder, ignore=None if linked else shutil.ignore_patterns("*.so"))
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(folder)]
    done = subprocess.run(command, input=repr(LISTS), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    _check(eval(done.stdout), net)


@compiles
@pytest.mark.parametrize("linked", [True, False], ids=["library", "object"])
def test_arrays_in_arrays_out(linked: bool, written: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    net, artifact = written
    if not linked:
        monkeypatch.setattr(native.os.path, "exists", lambda path: not str(path).endswith(".so"))
    network = load_native(artifact.folder)
    assert isinstance(network._library, native.Mapped) != linked
    bits = torch.tensor(HALF, dtype=torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    z = np.array([1 + 2j, 3 - 4j], np.complex64)
    x = np.asfortranarray(np.array(X, np.float32))
    got = network.run(x, np.array(K), np.array(KEEP), bits, np.array(HALF, np.float16), z)
    assert [output.dtype.name for output in got] == ["float32", "int64", "bool", "uint16", "float16", "complex64",
        "float32"]  # fmt: skip
    np.testing.assert_allclose(got[0], _wanted(net)[0], rtol=1e-5)
    assert np.array_equal(got[5], z * 2) and got[6].shape == () and got[6] == 5.75


@compiles
def test_buffers_in_buffers_out(written: tuple) -> None:
    net, artifact = written
    x, k = array.array("f", sum(X, [])), array.array("q", K)
    half = np.array(HALF, np.float16).tobytes()
    got = load_native(artifact.folder).run(x, k, b"\1\0", HALF, half, array.array("f", sum(Z, [])).tobytes())
    assert isinstance(got[0], memoryview) and got[0].shape == (2, 2) and got[5].shape == (2, 2)
    np.testing.assert_allclose(np.array(got[0]), _wanted(net)[0], rtol=1e-5)
    assert got[1].tolist() == _wanted(net)[1] and got[4].tobytes() == np.array([1.0, -3.0], np.float16).tobytes()


@compiles
def test_threads_share_a_network(written: tuple) -> None:
    net, artifact = written
    network, outputs = load_native(artifact.folder), []
    work = lambda: outputs.extend(network.run(*LISTS) for _ in range(50))  # noqa: E731
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outputs) == 200 and all(output == outputs[0] for output in outputs)
    _check(outputs[0], net)


@compiles
@pytest.mark.parametrize("position, value, error, text", [
    (0, [[1.0, 2.0, 3.0]], ValueError, r"x must have the shape \(2, 3\), got 1 items in the place of 2 items"),
    (0, [[1.0, 2.0], [3.0, 4.0]], ValueError, "got 2 items in the place of 3 items"),
    (0, [1.0, 2.0], ValueError, "got 1.0 in the place of 3 items"),
    (0, [["a", "b", "c"], X[0]], TypeError, "x must hold numbers of float32"),
    (0, np.zeros((2, 3)), TypeError, r"x must hold float32, got float64; .*astype\('float32'\)"),
    (0, np.zeros((3, 2), np.float32), ValueError, r"x must have the shape \(2, 3\), got \(3, 2\)"),
    (0, object(), TypeError, "x must be an array, a buffer or a list, got object"),
    (1, [1.5, 2, 3], TypeError, "k must hold numbers of int64"),
    (1, [1 << 70, 2, 3], TypeError, "k must hold numbers of int64"),
    (1, np.zeros(3, np.float64), TypeError, "k must hold int64, got float64"),
    (1, np.zeros(3, ">i8"), TypeError, "k must hold int64, got >i8"),
    (2, np.zeros(2, np.uint8), TypeError, "keep must hold bool, got uint8"),
    (5, np.zeros(2, np.complex128), TypeError, "z must hold complex64, got complex128"),
])  # fmt: skip
def test_wrong_inputs_are_told_in_plain_words(
    position: int, value: object, error: type, text: str, written: tuple
) -> None:
    _, artifact = written
    network = load_native(artifact.folder)
    with pytest.raises(error, match=text):
        network.run(*[value if k == position else value_given for k, value_given in enumerate(LISTS)])


@compiles
def test_the_number_of_inputs_is_checked(written: tuple) -> None:
    with pytest.raises(TypeError, match=r"run takes 6 inputs \(x, k, keep, half, small, z\), got 1"):
        load_native(written[1].folder).run(X)


@compiles
def test_files_of_other_exports_are_refused(written: tuple, tmp_path: Path) -> None:
    _, artifact = written
    shutil.copytree(artifact.folder, tmp_path, dirs_exist_ok=True)
    about = json.loads((tmp_path / "net.json").read_text())
    with pytest.raises(OSError, match="no library in .* fits wasm, only native"):
        load_native(tmp_path, "wasm")
    (tmp_path / "net.json").write_text(json.dumps(about | {"abi": 1}))
    with pytest.raises(RuntimeError, match="the header belongs to another version"):
        load_native(tmp_path)
    (tmp_path / "net.json").write_text(json.dumps(about))
    weights = (tmp_path / "net.safetensors").read_bytes()
    for wrong in (weights + b"more", weights[:-4], weights.replace(b"weight", b"height")):
        (tmp_path / "net.safetensors").write_bytes(wrong)
        with pytest.raises(ValueError, match="belongs to another network"):
            load_native(tmp_path)
    with pytest.raises(FileNotFoundError, match="expected a folder with the NAME.json"):
        load_native(tmp_path / "none")


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., dict]:
    """Makes a description of targets whose files exist, with nothing in them."""

    def make(*names: str) -> dict:
        rows = {name: where_it_runs(targets.target(name)) for name in names}
        for name, row in rows.items():
            for suffix in row["suffixes"]:
                (tmp_path / f"net-{name}{suffix}").touch()
        return {"name": "net", "targets": rows}

    return make


@pytest.mark.parametrize("level, flags",
    [("x86-64-v2", set()), ("x86-64-v3", {"avx2"}), ("x86-64-v4", {"avx2", "avx512f"})])  # fmt: skip
def test_the_best_target_for_the_processor_is_chosen(
    level: str, flags: set, folder: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = folder(
        "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "windows-x86-64", "macos-arm64", "wasm", "cortex-m4"
    )
    needs = about["targets"]["x86-64-v4"]["needs"]
    new = {name for name in needs if name.startswith("avx512")} if "avx512f" not in flags else set()
    old = set(about["targets"]["x86-64-v3"]["needs"]) - set(about["targets"]["x86-64-v2"]["needs"])
    able = set(needs) - new - (old if not flags else set())
    monkeypatch.setattr(native, "abilities", lambda: able)
    monkeypatch.setattr(native.sys, "platform", "linux")
    monkeypatch.setattr(native.os, "uname", lambda: type("name", (), {"machine": "x86_64"}))
    assert native.choice(about, tmp_path) == (level, f"{tmp_path}/net-{level}.so")
    (tmp_path / f"net-{level}.so").unlink()
    assert native.choice(about, tmp_path) == (level, f"{tmp_path}/net-{level}.o")
    for system, processor, name, file in (
        ("linux", "aarch64", "aarch64", "net-aarch64.so"),
        ("darwin", "arm64", "macos-arm64", "net-macos-arm64.dylib"),
    ):
        monkeypatch.setattr(native.sys, "platform", system)
        monkeypatch.setattr(native.os, "uname", lambda processor=processor: type("name", (), {"machine": processor}))
        assert native.choice(about, tmp_path) == (name, f"{tmp_path}/{file}")


def test_this_machine_can_run_what_it_calls_native() -> None:
    row = where_it_runs(targets.target("native"))
    assert set(row["needs"]) <= native.abilities()
    if "x86_64" in machine.triple() and "linux" in machine.triple():
        assert row["system"] == ["linux", "x86_64"] and "sse2" in row["needs"]


def test_the_file_is_short_and_needs_the_standard_library_only(folder: Callable) -> None:
    about = folder("x86-64-v3") | {"version": 1, "abi": 1, "weights": [1], "checks": ["\n"]}
    text = python_file(about)
    assert text.count("\n") <= 200 and "DESCRIPTION = {'name': 'net'" in text and "weights': [1]" not in text
    lines = [line for line in text.split("\n") if line.startswith(("import ", "from "))]
    imported = {name.strip(",") for line in lines for name in line.split()[1:]}
    assert imported == {"ctypes", "math", "mmap", "os", "struct", "sys"}
