"""`numod.export.export`: capture, its errors, saving and loading."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import numod as torch
from numod import nn
from numod.export import ExportedProgram, export, load, save


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.register_buffer("shift", torch.ones(3))
        self.second = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> dict:
        hidden = torch.tanh(self.first(x) * scale + self.shift)
        return {"out": self.second(hidden), "hidden": hidden}


def _equal(got: dict, want: dict) -> bool:
    return got.keys() == want.keys() and all(torch.allclose(got[key], want[key], rtol=1e-5, atol=1e-6) for key in want)


def test_a_captured_module_gives_the_same_and_has_the_same_state() -> None:
    net, x = Net(), torch.randn(5, 4)
    captured = export(net, (x,), {"scale": 2.0})
    module = captured.module()
    assert isinstance(captured, ExportedProgram)
    assert _equal(module(x, scale=2.0), net(x, scale=2.0))
    assert module.state_dict().keys() == net.state_dict().keys() == captured.state_dict.keys()
    assert {name for name, _ in module.named_parameters()} == {name for name, _ in net.named_parameters()}
    assert "tanh" in str(captured.graph)
    args, kwargs = captured.example_inputs
    assert torch.equal(args[0], x) and kwargs == {"scale": 2.0}


def test_the_module_reads_its_parameters_at_every_call() -> None:
    net, other, x = Net(), Net(), torch.randn(2, 4)
    module = export(net, (x,)).module()
    module.load_state_dict(other.state_dict())
    assert _equal(module(x), other(x))


def test_a_program_comes_back_from_a_file(tmp_path: Path) -> None:
    net, x = Net(), torch.randn(2, 4)
    save(export(net, (x,)), tmp_path / "net.pt2")
    again = load(tmp_path / "net.pt2")
    assert _equal(again.module()(x), net(x))
    assert again.state_dict.keys() == net.state_dict().keys() and again.input_names == ("x",) and again.title == "Net"
    assert [name for name, _ in again.named_parameters()] == [name for name, _ in net.named_parameters()]


def test_a_file_that_holds_no_exported_program_is_refused(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "other.pt")
    torch.serialization.save_file({"a": torch.ones(2)}, tmp_path / "weights.safetensors")
    for name in ("other.pt", "weights.safetensors"):
        with pytest.raises((ValueError, RuntimeError)):
            load(tmp_path / name)
    program = torch.graph.trace(lambda x: x + 1, torch.ones(2))
    torch.serialization.save_program(program, tmp_path / "bare")
    with pytest.raises(ValueError, match="without a description"):
        load(tmp_path / "bare")


def test_arguments_of_another_form_are_refused() -> None:
    module = export(Net(), (torch.ones(2, 4),)).module()
    with pytest.raises(RuntimeError, match="expected 1 items, as captured, got 2"):
        module(torch.ones(2, 4), 3.0)
    with pytest.raises(RuntimeError, match="expected a Tensor, got int"):
        module(3)
    with pytest.raises(RuntimeError, match=r"recorded as \(2, 4\)"):
        module(torch.ones(3, 4))
    with pytest.raises(TypeError, match="tuple of example positional inputs"):
        export(Net(), torch.ones(2, 4))
    with pytest.raises(RuntimeError, match="Unable to call ExportedProgram directly"):
        export(Net(), (torch.ones(2, 4),))(torch.ones(2, 4))


def test_a_branch_on_a_value_is_an_error_with_its_line() -> None:
    def steered(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x

    with pytest.raises(RuntimeError, match=r"test_capture\.py:\d+"):
        export(steered, (torch.ones(3),))


def test_capture_leaves_running_statistics_alone() -> None:
    net = nn.Sequential(nn.BatchNorm1d(3))
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    export(net, (torch.randn(4, 3),))
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


@pytest.mark.parametrize("function", [
    lambda x, y: x, lambda x, y: (x + y, x.t() * 2, (x + y)[0]), lambda x, y: [x.view(-1), y.expand(2, 3), (x * y).t(), x * y], lambda x, y: (x + 1, 3, "a"),
], ids=["input", "views", "aliases", "constants"])  # fmt: skip
def test_outputs_have_memory_of_their_own(function: object) -> None:
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    program = export(function, (x, y)).program
    got, want = program(x, y), function(x, y)
    results = [got] if isinstance(got, torch.Tensor) else [output for output in got if isinstance(output, torch.Tensor)]
    expected = (
        [want] if isinstance(want, torch.Tensor) else [output for output in want if isinstance(output, torch.Tensor)]
    )
    assert type(got) is type(want) and all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))
    assert all(result.is_contiguous() and result.storage_offset() == 0 for result in results)
    assert len({output.untyped_storage().data_ptr() for output in (*results, x, y)}) == len(results) + 2


def test_loading_needs_no_class(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, x = Net(), torch.ones(2, 4)
    save(export(net, (x,)), tmp_path / "net")
    code = "import sys, numod as torch; print(torch.export.load(sys.argv[1]).program(torch.ones(2, 4))['out'].tolist())"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "net")], capture_output=True, text=True, check=True
    )
    assert torch.allclose(torch.tensor(json.loads(done.stdout)), net(x)["out"])


def test_named_results_come_back_from_a_file(tmp_path: Path) -> None:
    save(export(lambda x: (x.topk(2), x.max(0)), (torch.tensor([3.0, 1, 2]),)), tmp_path / "net")
    top, largest = load(tmp_path / "net").module()(torch.tensor([1.0, 2, 3]))
    assert type(top) is torch.return_types.topk and top.values.tolist() == [3, 2]
    assert largest.indices.item() == 2


def test_results_of_other_classes_are_refused(tmp_path: Path) -> None:
    class Pair(NamedTuple):
        first: torch.Tensor
        second: torch.Tensor

    captured = export(lambda x: Pair(x + 1, x + 2), (torch.ones(2),))
    with pytest.raises(ValueError, match="a Pair cannot be written to a file, which holds tensors"):
        save(captured, tmp_path / "net")


def test_tensors_without_a_name_are_constants_and_no_state() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.constant0 = nn.Parameter(torch.ones(3))
            self.factor = [torch.full((3,), 2.0)]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.constant0 * self.factor[0]

    captured = export(Scaled(), (torch.ones(3),))
    assert list(captured.state_dict) == ["constant0"] and captured.module()(torch.ones(3)).tolist() == [2.0] * 3


@pytest.mark.parametrize("change", [
    {"version": 99}, {"version": 1.5}, {"names": [[0, "a"]]}, {"inputs": []}, {"inputs": [3]}, {"spec": 1}, {"parameters": ["nothing"]}, {"non_persistent": ["first.weight"]}, {"title": "a\nb"}, {"title": 3},
], ids=str)  # fmt: skip
def test_a_description_that_does_not_fit_is_refused(change: dict, tmp_path: Path) -> None:
    from numod.serialization.program import read_program, save_program

    save(export(Net(), (torch.ones(2, 4),)), tmp_path / "good")
    program, about, tensors = read_program(tmp_path / "good")
    examples = {name: tensor for name, tensor in tensors.items() if name.startswith("example")}
    save_program(program, tmp_path / "bad", about | change, examples)
    with pytest.raises(ValueError, match="load: .* is not an exported program, or damaged"):
        load(tmp_path / "bad")


def test_a_file_of_version_1_loads() -> None:
    # written when the format was new; a later version must read it
    captured = load(Path(__file__).parent / "data" / "program-1.pt2")
    got = captured.module()(torch.ones(1, 2))
    assert torch.allclose(got, torch.tensor([[-0.46211716532707214, 0.9918597340583801]]), atol=1e-6)
    assert [*captured.state_dict] == ["0.weight", "0.bias"] and captured.input_names == ("input",)


def test_a_network_of_version_1_gives_what_it_gave() -> None:
    # its file names some fifty ops: convolution, norms, LSTM, attention, topk, scans; a renamed op breaks it
    folder = Path(__file__).parent / "data"
    captured, stored = load(folder / "network-1.pt2"), np.load(folder / "network-1.npz")
    results = captured.module()(torch.tensor(stored["ids"]), torch.tensor(stored["s"]))
    for k, result in enumerate(results):
        np.testing.assert_allclose(result.numpy(), stored[f"out{k}"], rtol=1e-5, atol=1e-6)


def test_other_sizes_and_other_files_say_what_to_do(tmp_path: Path) -> None:
    module = export(nn.Linear(3, 2), (torch.ones(2, 3),)).module()
    with pytest.raises(AssertionError, match=r"recorded as \(2, 3\), got \(4, 3\); for other sizes, export with dyn"):
        module(torch.ones(4, 3))
    with zipfile.ZipFile(tmp_path / "net.pt2", "w") as archive:
        archive.writestr("data.pkl", b"")
    with pytest.raises(RuntimeError, match="it is a zip archive, as torch.save and PyTorch's exporters write"):
        load(tmp_path / "net.pt2")


def test_the_signature_names_what_values_stand_for() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.table = nn.Linear(2, 3), torch.arange(3.0)
            self.register_buffer("calls", torch.zeros(()))
            self.register_buffer("shift", torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return self.layer(x) + self.shift + self.table

    program = torch.export.export(Counter(), (torch.ones(1, 2),))
    signature = program.graph_signature
    assert signature.parameters == ("layer.weight", "layer.bias")
    assert {*signature.buffers} == {"calls", "shift"} == {name for name, _ in program.named_buffers()}
    assert signature.user_inputs == ("x",) and len(signature.user_outputs) == 1
    assert [*signature.buffers_to_mutate.values()] == ["calls"]
    assert all(value in str(program.graph) for value in signature.inputs_to_parameters)
    assert signature.inputs_to_lifted_tensor_constants == {"c_constant0": "constant0"}
    assert [tensor.tolist() for tensor in program.constants.values()] == [[0.0, 1.0, 2.0]]
    assert program.run_decompositions({}) is program


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.layer.register_buffer("mask", torch.tensor([1.0, 0.0]), persistent=False)
        self.register_buffer("shift", torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * self.layer.mask + self.shift


def test_non_persistent_buffers_are_constants_and_no_state(tmp_path: Path) -> None:
    net, x = Masked(), torch.ones(1, 2)
    save(export(net, (x,)), tmp_path / "net.pt2")
    for program in (export(net, (x,)), load(tmp_path / "net.pt2")):
        assert program.state_dict.keys() == net.state_dict().keys() == program.module().state_dict().keys()
        assert (
            {name for name, _ in program.named_buffers()}
            == {"layer.mask", "shift"}
            == {*program.graph_signature.buffers}
        )
        assert [*program.constants] == ["layer.mask"]
        assert torch.equal(program.module()(x), net(x))
    module = export(net, (x,)).module()
    module.load_state_dict(Masked().state_dict())


def test_a_file_of_version_2_has_persistent_buffers_only(tmp_path: Path) -> None:
    from numod.serialization.program import read_program, save_program

    save(export(Masked(), (torch.ones(1, 2),)), tmp_path / "new")
    program, about, tensors = read_program(tmp_path / "new")
    about = {key: entry for key, entry in about.items() if key != "non_persistent"} | {"version": 2}
    save_program(program, tmp_path / "old", about, {"example0": tensors["example0"]})
    assert {*load(tmp_path / "old").state_dict} == {"layer.weight", "layer.bias", "layer.mask", "shift"}


def test_extra_files_are_texts() -> None:
    file = io.BytesIO()
    torch.export.save(torch.export.export(nn.ReLU(), (torch.ones(2),)), file, extra_files={"note": "größer"})
    file.seek(0)
    extra = {"note": "", "absent": ""}
    torch.export.load(file, extra_files=extra)
    assert extra == {"note": "größer", "absent": ""}


def test_dims_by_words_or_one_by_one() -> None:
    assert [dim.__name__ for dim in torch.export.dims("a", "b c", max=4)] == ["a", "b", "c"]


def test_what_numod_does_not_have_says_what_to_use() -> None:
    from numod.export.exported_program import ExportedProgram as by_path
    from numod.export.graph_signature import ExportGraphSignature

    program = export(nn.Linear(2, 2), (torch.ones(1, 2),))
    assert by_path is ExportedProgram and isinstance(program.graph_signature, ExportGraphSignature)
    assert program.run_decompositions(torch.export.default_decompositions()) is program
    for use, advice in (
        (lambda: torch.export.unflatten(program), "calls of submodules are not recorded"),
        (
            lambda: torch.export.draft_export(nn.Linear(2, 2), (torch.ones(1, 2),)),
            "names the line that it cannot capture",
        ),
        (lambda: torch.export.CustomDecompTable(), "have no decompositions"),
    ):
        with pytest.raises(NotImplementedError, match=advice):
            use()
    assert not isinstance(program.module(), torch.export.UnflattenedModule)


def test_inputs_by_keyword_are_named_in_their_order() -> None:
    def minus(x: torch.Tensor, y: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
        return x - y + more["z"]

    program = export(minus, (), {"z": torch.ones(2), "y": torch.ones(3, 2), "x": torch.ones(1)})
    shapes = [tuple(program.program.layouts[value].shape) for value in program.program.inputs]
    assert dict(zip(program.input_names, shapes)) == {"z": (2,), "y": (3, 2), "x": (1,)}
    assert program.graph_signature.user_inputs == ("z", "y", "x")


def test_scales_of_quantized_inputs_and_results_are_saved(tmp_path: Path) -> None:
    q = torch.quantize_per_tensor(torch.ones(3), 0.5, 7, torch.quint8)
    program = export(lambda x, y: {"y": y + 1, "x": torch.relu(x)}, (q, torch.ones(3)))
    assert program.scales == {"input0": (0.5, 7), "output1": (0.5, 7)}
    torch.export.save(program, tmp_path / "net.pt2")
    assert torch.export.load(tmp_path / "net.pt2").scales == program.scales == program.frozen().scales
    for wrong in ({"input0": (float("inf"), 7)}, {"input0": (-1.0, 7)}, {"input0": (0.5, "7")}, {"*/": (0.5, 7)}):
        program.scales = wrong
        torch.export.save(program, tmp_path / "net.pt2")
        with pytest.raises(ValueError, match="its scales are invalid"):
            torch.export.load(tmp_path / "net.pt2")


def test_an_exported_module_is_recorded_by_its_steps() -> None:
    """Its first result was a constant of compiled functions, programs and traces."""
    torch.manual_seed(0)
    x, layer = torch.randn(3, 2, 4), nn.Linear(4, 2).eval()
    batch = {"input": {0: torch.export.Dim("batch", max=8)}}
    for module in (export(layer, (x[0],)).module(), export(layer, (x[0],), dynamic_shapes=batch).module()):
        compiled = torch.compile(module)
        traced, exported = torch.jit.trace(module, (x[0],)), export(module, (x[0],)).module()
        for rows in x:
            for function in (compiled, traced, exported):
                torch.testing.assert_close(function(rows), layer(rows))
