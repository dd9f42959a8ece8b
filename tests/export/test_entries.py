"""Several entry points in one library: their functions, the weights that they share, tied parameters.

Marker `export`: needs cc. Two libraries are compiled, which takes about half a minute on two idle cores.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import numod as torch
from numod import nn
from numod.export import Artifact, Dim, aot_compile, export, load_native
from numod.serialization import load_file

TARGETS = ("native", "wasm") if shutil.which("wasm-ld") else ("native",)
compiles = [pytest.mark.export, pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")]


class Speaker(nn.Module):
    """A recurrent network whose state is an input and an output; its output layer is tied to its table."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.cell, self.out = nn.Embedding(9, 6), nn.GRUCell(6, 6), nn.Linear(6, 9, bias=False)
        self.out.weight = self.table.weight

    def encode(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.table(tokens).sum(1)

    def forward(self, token: torch.Tensor, state: torch.Tensor) -> tuple:
        state = self.cell(self.table(token), state)
        return self.out(state), state


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Speaker, Artifact]:
    torch.manual_seed(0)
    net = Speaker().eval()
    programs = {
        "encode": export(net.encode, (torch.tensor([[1, 2, 3]]),), dynamic_shapes=({0: Dim("batch", max=4)},)),
        "step": export(net, (torch.tensor([4]), torch.zeros(1, 6))),
    }
    return net, aot_compile(programs, tmp_path_factory.mktemp("entries"), weights="file", targets=TARGETS)


class TestCompiled:
    pytestmark = compiles

    def test_the_weights_are_there_once(self, written: tuple) -> None:
        net, artifact = written
        stored = load_file(artifact.folder / "net.safetensors")
        assert sum(tensor.numel() for tensor in stored.values()) == sum(tensor.numel() for tensor in net.parameters())
        assert torch.equal(stored["table.weight"], net.table.weight)

    def test_each_has_its_functions_and_all_have_one_header(self, written: tuple) -> None:
        _, artifact = written
        listed = subprocess.run(
            ["nm", "-g", str(artifact.path("native", library=False))], capture_output=True, text=True, check=True
        ).stdout
        defined = {line.split()[-1] for line in listed.split("\n") if " T " in line}
        functions = {
            f"net_{entry}_{function}" for entry in ("encode", "step") for function in ("run", "arena_bytes", "selftest")
        }
        assert defined == functions | {"net_error", "net_check"}
        warnings = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
        command = [
            "cc",
            "-O2",
            "-std=c99",
            "-Wpedantic",
            *warnings,
            "example.c",
            "net-native.o",
            "-lm",
            "-o",
            "example",
        ]
        subprocess.run(command, cwd=artifact.folder, check=True)
        done = subprocess.run(["./example"], cwd=artifact.folder, capture_output=True, text=True)
        assert done.returncode == 0 and "output0" in done.stdout, done.stderr

    def test_python_calls_each_by_its_name(self, written: tuple) -> None:
        net, artifact = written
        network = load_native(artifact.folder)
        tokens, token, state = torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([7]), torch.randn(1, 6)
        with torch.no_grad():
            np.testing.assert_allclose(network.encode(tokens.numpy()), net.encode(tokens).numpy(), rtol=1e-5)
            for _ in range(3):
                got = network.step(token.numpy(), state.numpy())
                logits, state = net(token, state)
                np.testing.assert_allclose(got[0], logits.numpy(), rtol=1e-4, atol=1e-5)
                np.testing.assert_allclose(got[1], state.numpy(), rtol=1e-4, atol=1e-5)
        with pytest.raises(AttributeError, match="functions: encode, step"):
            network.decode(tokens.numpy())
        assert (artifact.folder / "net.py").read_text().count("\n") <= 200

    @pytest.mark.skipif(not (shutil.which("node") and shutil.which("wasm-ld")), reason="needs node and wasm-ld")
    def test_javascript_calls_each_by_its_name(self, written: tuple) -> None:
        net, artifact = written
        script = """
import { load } from "./net.js";
const net = await load();
console.log([...net.encode([[1, 2, 3]]), ...net.step([7], new Float32Array(6))[1]].join(" "));
"""
        (artifact.folder / "use.mjs").write_text(script)
        done = subprocess.run(["node", "use.mjs"], cwd=artifact.folder, capture_output=True, text=True)
        with torch.no_grad():
            want = [*net.encode(torch.tensor([[1, 2, 3]]))[0].tolist()]
            want += net(torch.tensor([7]), torch.zeros(1, 6))[1][0].tolist()
        np.testing.assert_allclose([*map(float, done.stdout.split())], want, rtol=1e-4, err_msg=done.stderr)

    def test_training_and_prediction_share_the_state(self, tmp_path: Path) -> None:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)

        def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        x, y = torch.randn(2, 3), torch.randn(2, 1)
        aot_compile({"train": export(train, (x, y)), "predict": export(net, (x,))}, tmp_path)
        network = load_native(tmp_path)
        for _ in range(4):
            np.testing.assert_allclose(network.train(x.numpy(), y.numpy()), train(x, y).numpy(), rtol=1e-4)
        with torch.no_grad():
            np.testing.assert_allclose(network.predict(x.numpy()), net(x).numpy(), rtol=1e-4)


def test_entry_points_need_names_and_programs(tmp_path: Path) -> None:
    captured = export(nn.Linear(2, 2), (torch.ones(1, 2),))
    for programs in ({}, {"a b": captured}, {"": captured}):
        with pytest.raises(ValueError, match="names of entry points"):
            aot_compile(programs, tmp_path)
    with pytest.raises(TypeError, match="expected an ExportedProgram, got int"):
        aot_compile({"a": captured, "b": 3}, tmp_path)
