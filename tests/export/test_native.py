"""Exported code in use: built, called from C and Python, compared with `numod.compile`; what is in the object files.

Marker `export`: needs cc.

The networks are compiled once for all tests, which takes about 20 seconds on two idle cores.
"""

from __future__ import annotations

import ctypes
import os
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
from numod.export import Artifact, aot_compile, export
from numod.serialization import load_file

pytestmark = [pytest.mark.export, pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")]
ALLOWED = {
    "memcpy",
    "memmove",
    "memset",
    "exp",
    "expf",
    "log",
    "logf",
    "pow",
    "powf",
    "fmod",
    "fmodf",
    "ldexp",
    "ldexpf",
    "fma",
    "fmaf",
}  # fmt: skip


class Ops(nn.Module):
    """Sorting, indices, reductions."""

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple:
        return x.sort(-1)[0], x.topk(3, -1)[1], x.cumsum(0), x[i], torch.logsumexp(x, 1), (x > 0).sum(), i % 3, x.t()


class Small(nn.Module):
    """One of each kind of layer, and a check of an index."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 6)
        self.recurrent = nn.LSTM(6, 8, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.out = nn.Linear(8, 3)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> tuple:
        states, _ = self.recurrent(self.table(tokens))
        logits = self.out(self.norm(states) * mask[..., None])
        return torch.softmax(logits, -1), logits.argmax(-1), logits > 0


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(),
        nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[nn.Module, tuple, Artifact]]:
    """(network, inputs, what was written) by name, each compiled once."""
    made: dict[str, tuple] = {}

    def get(name: str) -> tuple:
        if name not in made:
            torch.manual_seed(0)
            net = {"small": Small, "lenet": lenet}[name]().eval()
            inputs = (
                (torch.randn(2, 1, 28, 28),)
                if name == "lenet"
                else (torch.randint(0, 7, (2, 5)), torch.ones(2, 5, dtype=torch.bool))
            )
            folder = tmp_path_factory.mktemp(name)
            made[name] = (
                net,
                inputs,
                aot_compile(export(net, inputs), folder, weights="file" if name == "lenet" else "embedded"),
            )
        return made[name]

    return get


def pointer(array: np.ndarray | None) -> ctypes.c_void_p | None:
    return None if array is None else array.ctypes.data_as(ctypes.c_void_p)


class Library:
    """`net_run` and its friends, by ctypes."""

    def __init__(self, artifact: Artifact) -> None:
        self.library, self.artifact = ctypes.CDLL(str(artifact.path("native"))), artifact
        self.library.net_error.restype = ctypes.c_char_p
        self.library.net_arena_bytes.restype = ctypes.c_size_t
        self.weights = None
        if "net.safetensors" in artifact.files:
            data = (artifact.folder / "net.safetensors").read_bytes()
            self.weights = np.frombuffer(data[8 + int.from_bytes(data[:8], "little") :], np.uint8).copy()

    def arena(self) -> np.ndarray:
        return np.full(self.artifact.arena_bytes // 8 + 1, -1, np.int64)

    def run(self, inputs: tuple, outputs: tuple, arena: np.ndarray | None = None, size: int | None = None) -> int:
        arena = self.arena() if arena is None else arena
        size = arena.nbytes if size is None else size
        arrays = [pointer(array.numpy() if isinstance(array, torch.Tensor) else array) for array in (*inputs, *outputs)]
        return self.library.net_run(pointer(self.weights), pointer(arena), ctypes.c_size_t(size), *arrays)


def compiled_results(net: nn.Module, inputs: tuple) -> list[np.ndarray]:
    """What `numod.compile` gives with one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        fast = torch.compile(net)
        with torch.no_grad():
            fast(*inputs)
            results = fast(*inputs)
    finally:
        torch.set_num_threads(threads)
    return [result.numpy() for result in (results if isinstance(results, tuple) else (results,))]


class Packed(nn.Module):
    """A recurrent layer over packed sequences, which numod.compile runs kernel by kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(8, 16, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3, 2]), batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0]


def encoder() -> nn.Module:
    """Two layers: their attention and norms are each called several times."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


OTHERS = {  # the last two are run kernel by kernel by numod.compile
    "transformer": lambda: (nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), (torch.randn(2, 5, 16),)),
    "ops": lambda: (Ops(), (torch.randn(6, 9), torch.tensor([1, 3, 5]))),
    "encoder": lambda: (encoder(), (torch.randn(2, 17, 64),)),
    "packed": lambda: (Packed(), (torch.randn(3, 5, 8),)),
    "wide": lambda: (nn.Sequential(nn.Linear(300, 500), nn.ReLU(), nn.LayerNorm(500)), (torch.randn(64, 300),)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_results_of_other_networks_are_those_of_compile(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, inputs = OTHERS[name]()
    artifact = aot_compile(export(net.eval(), inputs), tmp_path)
    want = [np.ascontiguousarray(compiled_result) for compiled_result in compiled_results(net, inputs)]
    got = tuple(np.full_like(expected, 7) for expected in want)
    assert Library(artifact).run(inputs, got) == 0
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["small", "lenet"])
def test_results_are_those_of_compile_bit_by_bit(name: str, exported: Callable) -> None:
    net, inputs, artifact = exported(name)
    want = compiled_results(net, inputs)
    got = tuple(np.full_like(expected, 7) for expected in want)
    assert Library(artifact).run(inputs, got) == 0
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["small", "lenet"])
def test_the_object_needs_nothing_and_has_nothing_writable(name: str, exported: Callable) -> None:
    _, _, artifact = exported(name)
    code = artifact.path("native", library=False)
    symbols = subprocess.run(["nm", "-u", str(code)], capture_output=True, text=True, check=True).stdout.split()
    assert {symbol for symbol in symbols if symbol != "U"} <= ALLOWED
    public = subprocess.run(
        ["nm", "-g", "--defined-only", str(code)], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    assert {line.split()[-1] for line in public if line} == {
        f"net_{name}" for name in ("run", "error", "arena_bytes", "selftest", "check")
    }
    sections = subprocess.run(["readelf", "-SW", str(code)], capture_output=True, text=True, check=True).stdout
    writable = [line for line in sections.split("\n") if " WA " in line and int(line.split("]")[1].split()[4], 16)]
    assert not writable


@pytest.mark.parametrize("name", ["small", "lenet"])
def test_the_example_builds_without_warnings_and_runs(name: str, exported: Callable) -> None:
    _, _, artifact = exported(name)
    command = [
        "cc",
        "-O2",
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-pedantic",
        "-Werror",
        "example.c",
        "net-native.o",
        "-lm",
        "-o",
        "example",
    ]  # fmt: skip
    subprocess.run(command, cwd=artifact.folder, check=True)
    done = subprocess.run(["./example"], cwd=artifact.folder, capture_output=True, text=True)
    assert done.returncode == 0 and "output" in done.stdout, done.stderr


def test_each_fault_has_its_code(exported: Callable) -> None:
    net, (tokens, mask), artifact = exported("small")
    library = Library(artifact)
    outputs = tuple(np.zeros_like(compiled_result) for compiled_result in compiled_results(net, (tokens, mask)))
    arena = library.arena()
    text = lambda code: library.library.net_error(code).decode()  # noqa: E731
    assert library.run((None, mask), outputs) == 1 and "NULL" in text(1)
    assert (
        library.library.net_run(
            None,
            None,
            ctypes.c_size_t(arena.nbytes),
            *[pointer(array) for array in (tokens.numpy(), mask.numpy(), *outputs)],
        )
        == 1
    )
    assert library.run((tokens, mask), outputs, arena.view(np.uint8)[1:-7]) == 2 and "aligned" in text(2)
    assert library.run((np.zeros(81, np.uint8)[1:], mask), outputs) == 2
    needed = library.library.net_arena_bytes(ctypes.c_int64(2))
    assert needed == artifact.arena_bytes
    assert library.run((tokens, mask), outputs, arena, needed - 1) == 3 and "too small" in text(3)
    assert library.run((tokens + 100, mask), outputs) == 16 and "test_native.py" in text(16)
    assert library.run((tokens, mask), outputs, arena, needed) == 0
    assert text(999) == text(-1) == "unknown code"
    assert library.library.net_check(0) == 5


def test_nothing_is_written_outside_the_arena_and_the_outputs(exported: Callable) -> None:
    net, inputs, artifact = exported("small")
    library, guard = Library(artifact), 64
    arena = np.full(artifact.arena_bytes // 8 + 2 * guard, 0x5A5A5A5A, np.int64)
    want = compiled_results(net, inputs)
    rooms = [np.full(expected.nbytes + 2 * guard, 0x5A, np.uint8) for expected in want]
    assert library.run(inputs, tuple(room[guard:] for room in rooms), arena[guard:], artifact.arena_bytes) == 0
    assert (arena[:guard] == 0x5A5A5A5A).all() and (arena[guard + -(-artifact.arena_bytes // 8) :] == 0x5A5A5A5A).all()
    for room, expected in zip(rooms, want):
        assert (room[:guard] == 0x5A).all() and (room[guard + expected.nbytes :] == 0x5A).all()
        assert room[guard : guard + expected.nbytes].tobytes() == expected.tobytes()


def test_threads_share_the_code_and_the_weights(exported: Callable) -> None:
    net, inputs, artifact = exported("lenet")
    library, (want,) = Library(artifact), compiled_results(net, inputs)
    outputs = [np.zeros_like(want) for _ in range(4)]

    def work(out: np.ndarray) -> None:
        arena = library.arena()
        for _ in range(50):
            out.fill(0)
            library.run(inputs, (out,), arena)

    threads = [threading.Thread(target=work, args=(output,)) for output in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(output, want) for output in outputs)


def test_the_file_of_weights_is_the_block_of_weights(exported: Callable) -> None:
    net, inputs, artifact = exported("lenet")
    weights = load_file(artifact.folder / "net.safetensors")
    assert weights.keys() == net.state_dict().keys() and all(
        torch.equal(weight, net.state_dict()[name]) for name, weight in weights.items()
    )
    library = Library(artifact)
    assert library.weights.nbytes == artifact.weights_bytes
    library.weights[:] = 0
    out = np.ones((2, 10), np.float32)
    assert library.run(inputs, (out,)) == 0 and not out.any()


def test_the_same_program_gives_the_same_bytes(exported: Callable, tmp_path: Path) -> None:
    net, inputs, artifact = exported("small")
    again = aot_compile(export(net, inputs), tmp_path)
    for name in ("net-native.o", "net.h", "net.json"):
        assert (tmp_path / name).read_bytes() == (artifact.folder / name).read_bytes()
    assert again.files == artifact.files


def test_other_processes_write_the_same_bytes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    torch.export.save(export(nn.Sequential(nn.Linear(3, 2), nn.Tanh()), (torch.ones(1, 3),)), tmp_path / "net.pt2")
    folders = tmp_path / "a", tmp_path / "b"
    for k, folder in enumerate(folders):
        command = [sys.executable, "-m", "numod", "export", str(tmp_path / "net.pt2"), "--target", "x86-64-v3"]
        variables = {**os.environ, "PYTHONHASHSEED": str(k + 1), "TZ": f"UTC{k}", "LANG": "C"}
        subprocess.run([*command, "-o", str(folder)], check=True, capture_output=True, env=variables)
    names = sorted(path.name for path in folders[0].iterdir())
    assert names == sorted(path.name for path in folders[1].iterdir()) and "net.py" in names
    assert all((folders[0] / name).read_bytes() == (folders[1] / name).read_bytes() for name in names)


def test_embedded_weights_of_convolutions_are_transformed_ahead(tmp_path: Path) -> None:
    """For speed, where Winograd's method pays on every processor; results are those of `numod.compile`."""
    net, x = (
        nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 8, 1)).eval(),
        torch.randn(1, 32, 16, 16),
    )
    program = export(net, (x,))
    plain = sum(tensor.numel() for tensor in net.parameters()) * 4
    taps = 16 * 2 * (16 * 32 + 16) * 4
    assert aot_compile(program, tmp_path / "speed").weights_bytes == plain + taps
    for changed in ({"weights": "file"}, {"optimize": "size"}, {"targets": ("cortex-m4",)}):
        assert aot_compile(program, tmp_path / "plain", **changed).weights_bytes == plain
    native, compiled = torch.export.load_native(tmp_path / "speed"), torch.compile(net)
    with torch.no_grad():
        assert torch.tensor(native.run(x.numpy())).equal(compiled(x))
        x[0, 0, 0, 0] = torch.inf  # computed by the definition, which reads the weight itself
        assert torch.tensor(native.run(x.numpy())).isnan().equal(compiled(x).isnan())


def test_a_trained_weight_is_not_transformed_ahead(tmp_path: Path) -> None:
    net, x = nn.Conv2d(32, 32, 3, padding=1), torch.randn(1, 32, 16, 16)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    programs = {"predict": export(net, (x,)), "step": export(step, (x,))}
    aot_compile(programs, tmp_path)
    native = torch.export.load_native(tmp_path)
    before = native.predict(x.numpy())
    native.step(x.numpy())
    step(x)
    expected = net(x).detach().numpy()
    assert np.abs(native.predict(x.numpy()) - expected).max() < 1e-5 < np.abs(before - expected).max()


class Transposed(nn.Module):
    """Two copies of a transposed tensor: from 4096 elements on, blocks are transposed in registers."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.transpose(1, 2).contiguous(), x.transpose(1, 2).reshape(2, -1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.bool, torch.int64, torch.complex64], ids=str)
def test_transposed_copies_of_all_widths_are_exported(dtype: torch.dtype, tmp_path: Path) -> None:
    """Kernels that move elements as those of another dtype run in native code too."""
    torch.manual_seed(0)
    net, x = Transposed(), torch.randn(2, 50, 60).mul(50).to(dtype)
    aot_compile(export(net, (x,)), tmp_path)
    for result, expected in zip(torch.export.load_native(tmp_path).run(x.numpy()), net(x), strict=True):
        np.testing.assert_array_equal(result, expected.numpy())
