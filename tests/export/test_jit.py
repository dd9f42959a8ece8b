"""`numod.jit`: trace, script, save, load, freeze."""

from __future__ import annotations

import copy
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import numod as torch
from numod import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.layer(x))


def test_a_traced_module_is_saved_and_runs_without_its_class(tmp_path: Path) -> None:
    net = Net().eval()
    traced = torch.jit.trace(net, torch.ones(2, 4))
    assert isinstance(traced, torch.jit.ScriptModule) and not traced.training
    assert "sigmoid" in traced.code and "sigmoid" in str(traced.graph)
    traced.save(tmp_path / "net.pt")
    code = "import sys, numod as torch; print(torch.jit.load(sys.argv[1]).program_(torch.ones(2, 4)).tolist())".replace(
        ".program_", "._exported.program"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "net.pt")], capture_output=True, text=True, check=True
    )
    assert torch.allclose(torch.tensor(json.loads(done.stdout)), net(torch.ones(2, 4)))
    loaded = torch.jit.load(tmp_path / "net.pt")
    assert torch.allclose(loaded(torch.ones(2, 4)), net(torch.ones(2, 4)))
    assert loaded.state_dict().keys() == net.state_dict().keys()


def test_a_traced_module_trains_and_takes_other_sizes_where_its_original_is() -> None:
    net = Net()
    traced = torch.jit.trace(net, torch.ones(2, 4))
    traced(torch.ones(2, 4)).sum().backward()
    assert net.layer.weight.grad is not None and traced.layer.weight is net.layer.weight
    with torch.no_grad():
        assert traced(torch.ones(7, 4)).shape == (7, 3)


def test_a_function_is_traced() -> None:
    traced = torch.jit.trace(lambda x, y: x * y + 1, (torch.ones(3), torch.ones(3)))
    assert traced(torch.full((3,), 2.0), torch.full((3,), 5.0)).tolist() == [11.0] * 3


def test_tracing_a_branch_on_values_names_the_line() -> None:
    def steered(x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x

    with pytest.raises(RuntimeError, match=r"test_jit\.py:\d+"):
        torch.jit.trace(steered, torch.ones(2))


def test_a_scripted_module_is_saved_once_it_was_called(tmp_path: Path) -> None:
    net = torch.jit.script(Net())
    assert isinstance(net, Net) and torch.jit.script(net) is net
    with pytest.raises(RuntimeError, match="has not been called yet"):
        torch.jit.save(net, tmp_path / "net.pt")
    x = torch.randn(2, 4)
    want = net(x)
    net.save(tmp_path / "net.pt")
    assert torch.allclose(torch.jit.load(tmp_path / "net.pt")(x), want)
    again = copy.deepcopy(net)
    assert torch.equal(again(x), want) and again.layer.weight is not net.layer.weight
    torch.jit.save(torch.jit.script(Net(), example_inputs=[(x,)]), tmp_path / "other.pt")
    with pytest.raises(TypeError, match="from trace or script"):
        torch.jit.save(Net(), tmp_path / "net.pt")


def test_load_reads_checkpoints_too_and_freeze_wants_evaluation(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "checkpoint.pt")
    assert torch.jit.load(tmp_path / "checkpoint.pt")["a"].tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="eval mode"):
        torch.jit.freeze(torch.jit.trace(Net(), torch.ones(2, 4)))
    frozen = torch.jit.freeze(torch.jit.trace(Net().eval(), torch.ones(2, 4)))
    assert frozen(torch.ones(2, 4)).shape == (2, 3)


def test_a_scripted_function_is_saved_once_it_was_called(tmp_path: Path) -> None:
    @torch.jit.script
    def scaled(x: torch.Tensor, by: int = 2) -> torch.Tensor:
        return x * by + 1

    with pytest.raises(RuntimeError, match="scaled has not been called yet"):
        scaled.save(tmp_path / "scaled.pt")
    x = torch.randn(3)
    fast = torch.compile(scaled, fullgraph=True)
    assert torch.equal(fast(x), x * 2 + 1) and torch.equal(fast(x), x * 2 + 1)
    assert torch.equal(scaled(x), x * 2 + 1) and torch.jit.script(scaled) is scaled and scaled.__name__ == "scaled"
    scaled.save(tmp_path / "scaled.pt")
    assert torch.equal(torch.jit.load(tmp_path / "scaled.pt")(x), x * 2 + 1)


def test_freezing_makes_weights_constants(tmp_path: Path) -> None:
    net, x = nn.Sequential(nn.Linear(4, 3), nn.Dropout()).eval(), torch.randn(2, 4)
    want = net(x).detach()
    frozen = torch.jit.freeze(torch.jit.trace(net, x))
    preserving = torch.jit.freeze(torch.jit.trace(net, x), preserved_attrs=["0.bias"])
    assert not list(frozen.parameters()) and list(preserving.state_dict()) == ["0.bias"]
    with torch.no_grad():
        net[0].weight.zero_()
    assert torch.allclose(frozen(x), want) and "dropout" not in frozen.code
    torch.jit.save(frozen, tmp_path / "frozen.pt")
    assert torch.allclose(torch.jit.load(tmp_path / "frozen.pt")(x), want)


class Normed(nn.Module):
    """Batch norms after each kind of layer, a scale, and a weight that is computed from others."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
            nn.Conv2d(4, 4, 3, groups=2), nn.BatchNorm2d(4, affine=False),
            nn.ConvTranspose2d(4, 6, 2, groups=2), nn.BatchNorm2d(6), nn.Flatten(),
            nn.Linear(54, 8), nn.BatchNorm1d(8), nn.utils.parametrizations.weight_norm(nn.Linear(8, 3)),
        )  # fmt: skip
        self.scale = nn.Parameter(torch.rand(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x) * self.scale


def normed() -> Normed:
    torch.manual_seed(0)
    net = Normed().eval()
    for name, buffer in net.named_buffers():
        if "running" in name:
            buffer.copy_(torch.rand(buffer.shape) + 0.5)
    return net


def test_freezing_folds_batch_norms_and_computes_constants() -> None:
    net, x = normed(), torch.randn(2, 1, 6, 6)
    frozen = torch.jit.freeze(torch.jit.trace(net, x))
    unfrozen = torch.jit.freeze(torch.jit.trace(net, x), preserved_attrs=["layers.1.weight"])
    torch.testing.assert_close(frozen(x), net(x).detach(), rtol=1e-5, atol=1e-5)
    assert not {"inverse_deviation", "addcmul", "norm2", "mul", "div"} & {step.op.name for step in frozen.graph.steps}
    assert "inverse_deviation" in unfrozen.code and list(unfrozen.state_dict()) == ["layers.1.weight"]


def test_freezing_a_program_with_a_dynamic_batch_keeps_the_batch_dynamic(tmp_path: Path) -> None:
    net, x = normed(), torch.randn(2, 1, 6, 6)
    flexible = torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim("batch", max=4)},))
    torch.export.save(flexible, tmp_path / "net.pt")
    frozen = torch.jit.freeze(torch.jit.load(tmp_path / "net.pt").eval())
    assert not list(frozen.state_dict())
    torch.jit.save(frozen, tmp_path / "frozen.pt")
    again = torch.jit.load(tmp_path / "frozen.pt")
    for batch in (2, 4):
        x = torch.randn(batch, 1, 6, 6)
        torch.testing.assert_close(again(x), net(x).detach(), rtol=1e-5, atol=1e-5)


def test_freezing_leaves_constants_that_depend_on_a_dynamic_size() -> None:
    def masked(x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(x.shape[0], 3).cumsum(0) * torch.ones(3).cumsum(0)

    rows = torch.export.Dim("rows", max=5)
    frozen = torch.export.export(masked, (torch.zeros(2, 3),), dynamic_shapes=({0: rows},)).frozen()
    assert [step.op.name for step in frozen.graph.steps].count("cumsum") == 1
    assert torch.equal(frozen.module()(torch.zeros(4, 3)), masked(torch.zeros(4, 3)))


def test_file_objects_and_extra_files() -> None:
    file, x = io.BytesIO(b"head"), torch.ones(2, 4)
    file.seek(4)
    traced = torch.jit.trace(Net().eval(), x)
    torch.jit.save(traced, file, _extra_files={"labels": "a, b", "raw": b"\xff\0"})
    file.seek(4)
    extra = {"labels": "", "raw": "", "absent": ""}
    loaded = torch.jit.load(file, map_location="cpu", _extra_files=extra)
    assert torch.equal(loaded(x), traced(x))
    assert extra == {"labels": b"a, b", "raw": b"\xff\0", "absent": ""}
    assert torch.jit.load(io.BytesIO(traced.save_to_buffer())).original_name == "Net"


def test_a_function_knows_that_it_is_traced() -> None:
    seen = []
    torch.jit.trace(lambda x: seen.append(torch.jit.is_tracing()) or x + 1, torch.ones(2))
    assert seen == [True, True] and not torch.jit.is_tracing()


def test_a_copy_of_a_traced_module_has_its_own_weights() -> None:
    x = torch.ones(2, 4)
    for traced in (
        torch.jit.trace(Net().eval(), x),
        torch.jit.load(io.BytesIO(torch.jit.trace(Net().eval(), x).save_to_buffer())),
    ):
        duplicate, before = copy.deepcopy(traced), traced(x)
        assert torch.equal(duplicate(x), before)
        with torch.no_grad():
            duplicate.layer.weight.zero_()
        assert torch.equal(traced(x), before) and not torch.equal(duplicate(x), before)


def test_optimize_for_inference_freezes() -> None:
    x, net = torch.ones(2, 4), Net().eval()
    optimised = torch.jit.optimize_for_inference(torch.jit.trace(net, x))
    assert not optimised.state_dict() and torch.allclose(optimised(x), net(x))
