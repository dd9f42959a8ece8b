"""SummaryWriter: what it writes with either package, and what it says without."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import numod
from numod import nn
from numod.utils.model_graph import nodes_of
from numod.utils.tensorboard import SummaryWriter

PACKAGES = "tensorboardX", "tensorboard"
PROTOS = {"tensorboardX": "tensorboardX.proto", "tensorboard": "tensorboard.compat.proto"}


def test_without_a_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [*PACKAGES, *[module for module in sys.modules if module.startswith(PACKAGES)]]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'numod\[tensorboard\]'"):
        SummaryWriter(tmp_path)


CALLS = (
    'w.add_scalar("a", torch.tensor(2.5), 1)\nw.add_scalars("b", {"x": torch.tensor(1.0)}, 1)\n'
    'w.add_histogram("h", nn.Parameter(torch.arange(9.0)), 1)\nw.add_pr_curve("p", torch.tensor([0, 1]), torch.tensor([0.2, 0.9]), 1)\n'
    'w.add_embedding(torch.zeros(4, 3))\nw.add_hparams({"lr": torch.tensor(0.1)}, {"acc": torch.tensor(0.5)})\n'
)


@pytest.mark.parametrize("numod_first", [True, False])
def test_tensorboardx_itself_takes_tensors(numod_first: bool, tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    imports = ["import numod as torch; from numod import nn", "from tensorboardX import SummaryWriter"]
    program = "\n".join([*(imports if numod_first else imports[::-1]), f"w = SummaryWriter({str(tmp_path)!r})", CALLS])
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert not ended.returncode, ended.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_scalars_are_written(package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip(package)
    if package == "tensorboard":
        monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", numod.tensor(0.5), 3)
        writer.add_scalars("both", {"a": numod.tensor(1.0), "b": 2.0}, 3)
        writer.add_text("note", "hello", 3)
        writer.flush()
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*tfevents*"))
    assert b"loss" in written and b"hello" in written and numod.tensor(0.5).numpy().tobytes() in written


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU())
        self.head = nn.Linear(4, 2)
        self.head.weight = nn.Parameter(numod.zeros(2, 4))

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        return self.head(self.body(x) + self.body(x))


def test_nodes_are_named_by_module_and_joined() -> None:
    model = Residual().train()
    nodes = {node.name: node for node in nodes_of(model, numod.ones(1, 4))}
    assert nodes["Residual/body/0/linear"].inputs == (
        "input/0", "Residual/body/0/weight", "Residual/body/0/bias",
    )  # fmt: skip
    assert nodes["Residual/body/0/linear_1"].shapes == ((1, 4),)
    assert nodes["Residual/add"].inputs == ("Residual/body/2/relu", "Residual/body/2/relu_1")
    assert nodes["output/0"].inputs == ("Residual/head/linear",)
    assert not any("dropout" in name for name in nodes)  # evaluation mode
    assert all(module.training for module in model.modules())


def events(folder: Path, package: str) -> Iterator[object]:
    """The events of a log: records of a length, its checksum, the event and its checksum."""
    kind = import_module(f"{PROTOS[package]}.event_pb2").Event
    data = next(folder.glob("*tfevents*")).read_bytes()
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        yield kind.FromString(data[12 : 12 + size])
        data = data[16 + size :]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_graph_is_written(
    package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(package)
    if package == "tensorboard":
        monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(Residual(), (numod.ones(1, 4),), verbose=True)
        with pytest.raises(ValueError, match="needs input_to_model"):
            writer.add_graph(Residual())
    (graph,) = [event.graph_def for event in events(tmp_path, package) if event.graph_def]
    definition = import_module(f"{PROTOS[package]}.graph_pb2").GraphDef.FromString(graph)
    linear = next(node for node in definition.node if node.name == "Residual/head/linear")
    assert linear.input[0] == "Residual/add" and linear.op == "linear"
    assert [dim.size for dim in linear.attr["_output_shapes"].list.shape[0].dim] == [1, 2]
    assert "Residual/head/linear" in capsys.readouterr().out
