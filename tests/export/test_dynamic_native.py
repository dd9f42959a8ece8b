"""Native code for dynamic dimensions: from C, Python and JavaScript, with sizes in and out of range.

Marker `export`: needs cc. Three small networks are compiled, which takes about half a minute on two idle cores.
"""

from __future__ import annotations

import array
import ctypes
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import numod as torch
from numod import nn
from numod.ao import quantization
from numod.export import Artifact, Dim, ExportedProgram, ExportError, aot_compile, export, load_native, native

pytestmark = [pytest.mark.export, pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")]
MOST, GUARD = 19, 64


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, x: torch.Tensor) -> tuple:
        hidden = torch.relu(self.first(x))
        return torch.softmax(self.second(hidden), -1), hidden.mean(0), x.flatten()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Net, Artifact]:
    torch.manual_seed(0)
    net, folder = Net().eval(), tmp_path_factory.mktemp("dynamic")
    captured = export(net, (torch.randn(3, 5),), dynamic_shapes={"x": {0: Dim("batch", max=MOST)}})
    return net, aot_compile(captured, folder, targets=("native", "wasm") if shutil.which("wasm-ld") else ("native",))


def _run(artifact: Artifact, x: np.ndarray, outputs: list[np.ndarray], arena: np.ndarray, size: int) -> int:
    library = ctypes.CDLL(str(artifact.path("native")))
    arrays = [array.ctypes.data_as(ctypes.c_void_p) for array in (arena, x, *outputs)]
    return library.net_run(None, arrays[0], ctypes.c_size_t(size), ctypes.c_int64(len(x)), *arrays[1:])


def _arena_bytes(artifact: Artifact, batch: int) -> int:
    function = ctypes.CDLL(str(artifact.path("native"))).net_arena_bytes
    function.restype = ctypes.c_size_t
    return function(ctypes.c_int64(batch))


@pytest.mark.parametrize("batch", [1, 2, 3, 8, 17, MOST])
def test_results_are_those_of_eager_and_nothing_else_is_written(batch: int, written: tuple) -> None:
    net, artifact = written
    x = torch.randn(batch, 5)
    with torch.no_grad():
        want = [expected.numpy() for expected in net(x)]
    rooms = [np.full(expected.nbytes + 2 * GUARD, 0x5A, np.uint8) for expected in want]
    size = _arena_bytes(artifact, batch)
    arena = np.full(size + 2 * GUARD, 0x5A, np.uint8)
    assert _run(artifact, x.numpy(), [room[GUARD:] for room in rooms], arena[GUARD:], size) == 0
    for room, expected in zip(rooms, want):
        got = room[GUARD : GUARD + expected.nbytes].view(expected.dtype).reshape(expected.shape)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
        assert (room[:GUARD] == 0x5A).all() and (room[GUARD + expected.nbytes :] == 0x5A).all()
    assert (arena[:GUARD] == 0x5A).all() and (arena[GUARD + size :] == 0x5A).all()


def test_faults_have_their_codes_and_memory_grows_with_the_batch(written: tuple) -> None:
    _, artifact = written
    x, arena = np.zeros((3, 5), np.float32), np.zeros(artifact.arena_bytes // 8 + 8, np.int64)
    outputs = [np.zeros((30, 5), np.float32) for _ in range(3)]
    needed = _arena_bytes(artifact, 3)
    assert _run(artifact, x, outputs, arena, needed) == 0 and _run(artifact, x, outputs, arena, needed - 1) == 3
    assert _run(artifact, x[:0], outputs, arena, arena.nbytes) == 4
    assert _run(artifact, np.zeros((MOST + 1, 5), np.float32), outputs, arena, arena.nbytes) == 4
    assert 0 < _arena_bytes(artifact, 1) < _arena_bytes(artifact, MOST) == artifact.arena_bytes
    assert _arena_bytes(artifact, -7) == _arena_bytes(artifact, 1)
    assert _arena_bytes(artifact, 1 << 40) == artifact.arena_bytes


def test_the_header_has_the_range_and_the_example_runs(written: tuple) -> None:
    _, artifact = written
    header = (artifact.folder / "net.h").read_text()
    assert re.search(r"int64_t batch, const float \*x, (.|\n)*", header) and f"#define NET_BATCH_MAX {MOST}" in header
    assert "#define NET_X_COUNT(batch) ((size_t)(batch) * 5)" in header and "x: float32[batch, 5]" in header
    warnings = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
    command = ["cc", "-O2", "-std=c99", *warnings, "example.c", "net-native.o", "-lm", "-o", "example"]
    subprocess.run(command, cwd=artifact.folder, check=True)
    done = subprocess.run(["./example"], cwd=artifact.folder, capture_output=True, text=True)
    assert done.returncode == 0 and "output0" in done.stdout, done.stderr


@pytest.mark.parametrize("linked", [True, False], ids=["library", "object"])
def test_python_takes_any_batch(linked: bool, written: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    net, artifact = written
    if not linked:
        monkeypatch.setattr(native.os.path, "exists", lambda path: not str(path).endswith(".so"))
    network = load_native(artifact.folder)
    for batch in (1, 4, MOST):
        x = torch.randn(batch, 5)
        with torch.no_grad():
            want = net(x)[0].numpy()
        got, mean, flat = network.run(x.numpy())
        assert got.shape == (batch, 3) and mean.shape == (7,) and flat.shape == (batch * 5,)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(network.run(x.tolist())[0], want, rtol=1e-5, atol=1e-6)
        numbers = array.array("f", x.numpy().ravel().tolist())
        np.testing.assert_allclose(network.run(numbers)[0], want, rtol=1e-5, atol=1e-6)
    for wrong in (np.zeros((MOST + 1, 5), np.float32), np.zeros((0, 5), np.float32), [], 3.0):
        with pytest.raises(ValueError, match=f"batch must be from 1 to {MOST}"):
            network.run(wrong)
    with pytest.raises(ValueError, match=r"must have the shape \(2, 5\)"):
        network.run(np.zeros((2, 6), np.float32))
    assert (artifact.folder / "net.py").read_text().count("\n") <= 200


@pytest.mark.skipif(not (shutil.which("node") and shutil.which("wasm-ld")), reason="needs node and wasm-ld")
def test_javascript_takes_any_batch(written: tuple) -> None:
    net, artifact = written
    script = """
import { load } from "./net.js";
const net = await load();
const one = net.run(new Float32Array([1, 2, 3, 4, 5]))[0], two = net.run([[1, 2, 3, 4, 5], [0, 0, 0, 0, 0]])[0];
let message = "";
try { net.run(new Float32Array(5 * 20)); } catch (error) { message = error.message; }
console.log([...one, ...two].join(" "), "|", message);
"""
    (artifact.folder / "use.mjs").write_text(script)
    done = subprocess.run(["node", "use.mjs"], cwd=artifact.folder, capture_output=True, text=True)
    numbers, _, message = done.stdout.partition("|")
    with torch.no_grad():
        want = net(torch.tensor([[1.0, 2, 3, 4, 5], [1, 2, 3, 4, 5], [0, 0, 0, 0, 0]]))[0].numpy().ravel()
    np.testing.assert_allclose([*map(float, numbers.split())], want, rtol=1e-4, err_msg=done.stderr)
    assert f"batch must be from 1 to {MOST}, got 20" in message


def test_a_training_step_takes_any_batch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    batch = Dim("batch", max=6)
    captured = export(step, (torch.randn(2, 4), torch.randn(2, 1)), dynamic_shapes=({0: batch}, {0: batch}))
    aot_compile(captured, tmp_path)
    network = load_native(tmp_path)
    for size in (2, 5, 1, 6):
        x, y = torch.randn(size, 4), torch.randn(size, 1)
        np.testing.assert_allclose(network.run(x.numpy(), y.numpy()), step(x, y).numpy(), rtol=1e-4)


class Recurrent(nn.Module):
    """A convolution, a recurrent layer and causal attention, whose sizes come from `x.shape`."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.conv, self.norm = nn.Embedding(9, 4), nn.Conv1d(4, 8, 3, padding=1), nn.BatchNorm1d(8)
        self.lstm, self.head = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        batch, length = ids.shape
        x = torch.relu(self.norm(self.conv(self.embedding(ids).transpose(1, 2)))).transpose(1, 2)
        heads = self.lstm(x)[0].view(batch, length, 2, 4).transpose(1, 2)
        x = nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        return self.head(x.transpose(1, 2).reshape(batch, length, 8))


def test_a_network_of_many_kinds_of_layers_takes_any_batch_of_tensors(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = Recurrent().eval()
    captured = export(net, (torch.randint(0, 9, (3, 6)),), dynamic_shapes=({0: Dim("batch", min=1, max=3)},))
    network = load_native(aot_compile(captured, tmp_path, targets=("native",)).folder)
    for batch in (1, 2, 3):
        ids = torch.randint(0, 9, (batch, 6))
        np.testing.assert_allclose(network.run(ids), net(ids).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_deep_network_finds_its_constants(tmp_path: Path) -> None:
    net = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(12, 12), nn.Tanh())])
    x = torch.randn(2, 12)
    aot_compile(export(net, (x,)), tmp_path)
    with torch.no_grad():
        np.testing.assert_allclose(load_native(tmp_path).run(x.numpy()), net(x).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("most", "message"), [(None, r"Dim\('batch', max=64\)"), (5000, "at most 1024")])
def test_ranges_that_native_code_cannot_have_are_reported(most: int | None, message: str, tmp_path: Path) -> None:
    captured = export(nn.Linear(4, 3), (torch.ones(3, 4),), dynamic_shapes=({0: Dim("batch", max=most)},))
    with pytest.raises(ExportError, match=message):
        aot_compile(captured, tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("dynamic_shapes", [None, ({0: Dim("batch", max=5)},)])
def test_a_program_may_have_no_kernels(dynamic_shapes: tuple | None, tmp_path: Path) -> None:
    class NoRows(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:0]

    captured = export(NoRows(), (torch.randn(3, 2),), dynamic_shapes=dynamic_shapes)
    aot_compile(captured, tmp_path)
    assert np.asarray(load_native(tmp_path).run(torch.randn(3, 2))).shape == (0, 2)


def test_a_quantized_network_has_its_offsets_in_the_code(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Flatten(), nn.Linear(64, 5))
    model = quantization.QuantWrapper(layers).eval()
    model.qconfig = quantization.get_default_qconfig("onednn")
    prepared, x = quantization.prepare(model), torch.randn(3, 3, 8, 8)
    prepared(x)
    converted = quantization.convert(prepared)
    for shapes, sizes in ((None, (3,)), (({0: Dim("batch", min=1, max=4)},), (1, 2, 4))):
        program = export(converted, (x,), dynamic_shapes=shapes)
        assert not sums_of_weights(program.with_byte_constants()) and sums_of_weights(program)
        artifact = aot_compile(program, tmp_path / str(len(sizes)))
        assert is_packed(artifact)
        net = load_native(artifact.folder)
        for size in sizes:
            images = torch.randn(size, 3, 8, 8)
            np.testing.assert_array_equal(net.run(images.numpy()), converted(images).numpy())


def is_packed(artifact: Artifact) -> bool:
    """Whether the block of weights has none of single bytes: packed ones are constants of the code."""
    weights = json.loads((artifact.folder / "net.json").read_text())["weights"]
    return "int8" not in {weight["dtype"] for weight in weights}


@pytest.mark.parametrize("batch", [1, 3])
def test_a_dynamic_layer_has_its_packed_weights_in_the_code(batch: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(33, 16), nn.ReLU(), nn.Linear(16, 5)).eval()
    converted, x = quantization.quantize_dynamic(model, {nn.Linear}), torch.randn(batch, 33)
    program = export(converted, (x,))
    for name, options, packed in (
        ("speed", {}, True),
        ("size", {"optimize": "size"}, False),
        ("file", {"weights": "file"}, False),
        ("levels", {"targets": ("native", "x86-64")}, True),
        ("bare", {"targets": ("native", "cortex-m4")}, True),
    ):
        artifact = aot_compile(program, tmp_path / name, **options)
        assert is_packed(artifact) == packed
        if name != "file":
            np.testing.assert_array_equal(load_native(artifact.folder).run(x.numpy()), converted(x).numpy())


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64"])
def test_weights_are_packed_for_each_target(target: str, tmp_path: Path) -> None:
    """Also for several sizes and entry points: as many columns as fill no panel, one panel and several."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(33, 70), nn.ReLU(), nn.Linear(70, 16), nn.ReLU(), nn.Linear(16, 5)).eval()
    converted, x = quantization.quantize_dynamic(model, {nn.Linear}), torch.randn(2, 33)
    programs = {
        "all": export(converted, (x,), dynamic_shapes=({0: Dim("batch", max=3)},)), "first": export(converted[:2], (x,))
    }  # fmt: skip
    artifact = aot_compile(programs, tmp_path, targets=(target,))
    assert is_packed(artifact)
    net = load_native(tmp_path, target=target)
    for batch in (1, 2, 3):
        x = torch.randn(batch, 33)
        np.testing.assert_allclose(net.all(x.numpy()), converted(x).numpy(), rtol=1e-5, atol=1e-6)
    x = torch.randn(2, 33)
    np.testing.assert_allclose(net.first(x.numpy()), converted[:2](x).numpy(), rtol=1e-5, atol=1e-6)


class RowsAndRow(nn.Module):
    """A quantized product with some rows, and with one of them, of two features, which fill one word of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.linear = quantization.QuantStub(), nn.Linear(2, 21)
        self.all, self.first = quantization.DeQuantStub(), quantization.DeQuantStub()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q = self.quant(x)
        return self.all(self.linear(q)), self.first(self.linear(q[:1]))


@pytest.mark.parametrize("target", ["native", "x86-64-v2", "x86-64-v3"])
def test_a_row_and_rows_may_read_different_words(target: str, tmp_path: Path) -> None:
    """With AVX2 a single row reads words of bytes, several rows words of 16-bit numbers; other processors one format."""
    torch.manual_seed(0)
    model, x = RowsAndRow().eval(), torch.randn(9, 2)
    model.qconfig = quantization.get_default_qconfig("onednn")
    prepared = quantization.prepare(model)
    prepared(x)
    converted = quantization.convert(prepared)
    programs = {
        "rows": export(converted, (x[:3],)), "row": export(converted, (x[:1],)),
        "any": export(converted, (x[:2],), dynamic_shapes=({0: Dim("batch", max=4)},)),
    }  # fmt: skip
    assert is_packed(aot_compile(programs, tmp_path, targets=(target,)))
    net = load_native(tmp_path, target=target)
    for run, batch in ((net.rows, 3), (net.row, 1), (net.any, 1), (net.any, 4)):
        for result, expected in zip(run(x[-batch:].numpy()), converted(x[-batch:]), strict=True):
            np.testing.assert_array_equal(result, expected.numpy())


def sums_of_weights(program: ExportedProgram) -> list[str]:
    return [step.op.name for step in program.program.steps if "sum" in step.op.name]


class Table(nn.Module):
    """A product with integers that become floats, before a quantized layer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randint(-128, 128, (400, 16), dtype=torch.int8))
        self.linear = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x @ (self.table.float() * 0.01))


def test_integers_are_not_stored_as_floats(tmp_path: Path) -> None:
    torch.manual_seed(0)
    converted, x = quantization.quantize_dynamic(Table().eval(), {nn.Linear}), torch.randn(2, 400)
    artifact = aot_compile(export(converted, (x,)), tmp_path)
    assert artifact.weights_bytes < 1.2 * 400 * 16
    np.testing.assert_allclose(load_native(artifact.folder).run(x.numpy()), converted(x).numpy(), rtol=1e-5, atol=1e-5)
