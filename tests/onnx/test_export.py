"""numod.onnx.export: its arguments, dynamic dimensions, names, files, and what it refuses."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import numod as torch
from numod import nn
from numod.export import Dim, ExportError
from numod.onnx import TrainingMode, VerificationError, is_in_onnx_export
from numod.version import release

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.onnx
F = nn.functional


class Net(nn.Module):
    """A network with reshapes that name the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
        self.head = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor, scale: float = 1.0, shift: torch.Tensor | None = None) -> torch.Tensor:
        x = self.body(x).view(x.shape[0], 2, 3).transpose(0, 1).reshape(2 * x.shape[0], 3)
        x = self.head(x).view(2, -1, 2).sum(0) * scale
        return x if shift is None else x + shift


X = torch.arange(12.0).reshape(3, 4) / 7


def _shapes(variables: object) -> dict[str, list]:
    return {
        variable.name: [size.dim_param or size.dim_value for size in variable.type.tensor_type.shape.dim]
        for variable in variables
    }


def _operators(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node]


# ---- arguments


def test_the_arguments_of_pytorchs_exporter(tmp_path: Path) -> None:
    net = Net()
    file = tmp_path / "net.onnx"
    torch.onnx.export(
        net,
        X,
        str(file),
        export_params=True,
        opset_version=18,
        do_constant_folding=True,
        input_names=["in"],
        output_names=["out"],
        dynamic_axes={"in": {0: "batch size"}, "out": {0: "batch size"}},
        dynamo=False,
        verbose=False,
    )
    proto = onnx.load(file)
    onnx.checker.check_model(proto, full_check=True)
    assert net.training
    assert _shapes(proto.graph.input) == {"in": ["batch size", 4]}
    assert _shapes(proto.graph.output) == {"out": ["batch size", 2]}
    assert (proto.producer_name, proto.producer_version) == ("numod", release)
    assert proto.ir_version == 8 and proto.opset_import[0].version == 18


def test_keywords_and_constants() -> None:
    shift = torch.ones(3, 2)
    for options in (
        {"args": (X,), "kwargs": {"scale": 2.0, "shift": shift}},
        {"args": (X, {"shift": shift, "scale": 2.0})},
    ):
        program = torch.onnx.export(Net(), **options, verify=True)
        assert set(program.input_names) == {"x", "shift"}
        assert _shapes(program.model_proto.graph.input)["shift"] == [3, 2]


def test_dynamic_shapes_take_names_and_dims() -> None:
    net = Net().eval()
    for shapes in ({"x": {0: "batch"}}, ({0: Dim("batch", max=64)},), [{0: "batch"}]):
        program = torch.onnx.export(net, (X,), dynamic_shapes=shapes)
        assert _shapes(program.model_proto.graph.output) == {"output": ["batch", 2]}
        assert np.allclose(program(torch.cat([X, X]))[0].numpy(), net(torch.cat([X, X])).detach().numpy(), atol=1e-5)


def test_no_size_is_baked_in() -> None:
    """The batch size of the example occurs in no constant: it is read from the input, or is Reshape's -1."""
    example = torch.ones(7, 4)
    proto = torch.onnx.export(Net(), (example,), dynamic_axes={"x": {0: "batch"}}).model_proto
    numbers = [
        index
        for tensor in proto.graph.initializer
        if tensor.data_type == 7
        for index in onnx.numpy_helper.to_array(tensor).reshape(-1)
    ]
    assert numbers and 7 not in numbers and 14 not in numbers
    assert _operators(proto).count("Shape") <= 1


def test_sizes_that_depend_on_others() -> None:
    half = Dim("half")
    program = torch.onnx.export(lambda x: x.view(-1, 2).sum(1), (torch.ones(6),), dynamic_shapes=({0: 2 * half},))
    assert _shapes(program.model_proto.graph.input) == {"x": ["2*half"]}
    assert _shapes(program.model_proto.graph.output) == {"output": ["half"]}
    assert program(torch.ones(10))[0].tolist() == [2.0] * 5


def test_a_mean_over_the_batch_divides_by_its_size() -> None:
    program = torch.onnx.export(lambda x: (x.mean(), x.sum() / x.shape[0]), (X,), dynamic_axes={"x": [0]})
    assert program.model_proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "x_dynamic_axes_1"
    assert np.allclose([*map(float, program(torch.ones(5, 4)))], [1.0, 4.0])


def test_exported_programs_and_functions() -> None:
    captured = torch.export.export(Net().eval(), (X,), dynamic_shapes=({0: Dim("n")},))
    program = torch.onnx.export(captured, output_names=["y"], verify=True)
    assert program.exported_program is captured and program.output_names == ["y"]
    with pytest.raises(ValueError, match="numod.export.export"):
        torch.onnx.export(captured, dynamic_axes={"x": [0]})


def test_a_loaded_program_is_exported_too(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 2))
    tokens = torch.tensor([[1, 2, 4], [0, 3, 3]])
    captured = torch.export.export(net, (tokens,), dynamic_shapes=({0: Dim("n")},))
    torch.export.save(captured, tmp_path / "net.pt2")
    program = torch.onnx.export(torch.export.load(tmp_path / "net.pt2"), verify=True)
    assert _shapes(program.model_proto.graph.output) == {"output": ["n", 3, 2]}


def test_training_mode() -> None:
    net = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2))
    evaluated = torch.onnx.export(net, (X,), verify=True)
    trained = torch.onnx.export(net, (X,), training=TrainingMode.TRAINING, verify=True)
    assert net.training and net[0].num_batches_tracked == 0 and net[0].momentum == 0.1
    axes = {"input": {0: "batch"}}
    trained = torch.onnx.export(net, (X,), training=TrainingMode.TRAINING, dynamic_axes=axes, verify=True)
    assert np.allclose(trained(torch.cat([X, -X]))[0].numpy(), net(torch.cat([X, -X])).detach().numpy(), atol=1e-5)
    assert "BatchNormalization" in _operators(evaluated.model_proto)
    assert "ReduceMean" in _operators(trained.model_proto)
    net.eval()
    torch.onnx.export(net, (X,), training=TrainingMode.TRAINING)
    assert not net.training


def test_a_forward_can_ask_whether_it_is_exported() -> None:
    seen = []

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.append(is_in_onnx_export())
        return x + 1

    torch.onnx.export(function, (X,))
    assert seen == [True] and not is_in_onnx_export()


def test_bad_arguments() -> None:
    net = Net()
    with pytest.raises(ValueError, match="opset_version must be from 17 to 23, got 9"):
        torch.onnx.export(net, (X,), opset_version=9)
    with pytest.raises(ValueError, match="input_names has 2 names, but there are 1"):
        torch.onnx.export(net, (X,), input_names=["a", "b"])
    with pytest.raises(ValueError, match="different names"):
        torch.onnx.export(net, (X,), input_names=["a"], output_names=["a"])
    with pytest.raises(TypeError, match="argument 'export_param'. Did you mean: 'export_params'?"):
        torch.onnx.export(net, (X,), export_param=True)
    with pytest.raises(TypeError, match="argument 'opset'"):
        torch.onnx.export(net, (X,), opset=20)
    with pytest.raises(TypeError, match="list of texts"):
        torch.onnx.export(net, (X,), input_names="x")
    with pytest.raises(FileNotFoundError, match="no folder"):
        torch.onnx.export(net, (X,), "/nowhere/net.onnx")
    with pytest.warns(UserWarning, match="no inputs or outputs"):
        torch.onnx.export(net, (X,), dynamic_axes={"image": {0: "batch"}})


# ---- what is written


def test_names_lines_and_weights() -> None:
    net = Net()
    proto = torch.onnx.export(net, (X,)).model_proto
    weights = {initializer.name: onnx.numpy_helper.to_array(initializer) for initializer in proto.graph.initializer}
    for name, tensor in net.state_dict().items():
        assert np.array_equal(weights[name], tensor.numpy())
    first = next(node for node in proto.graph.node if node.op_type == "Gemm")
    assert first.name == "body.0/Gemm" and first.doc_string.startswith("test_export.py:")
    assert not any("/" in node.doc_string for node in proto.graph.node)
    assert [node.name for node in proto.graph.node if node.op_type == "Relu"] == ["body.1/Relu"]


def test_tied_weights_are_written_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.out = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
            self.out.weight = self.table.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(self.table(x))

    proto = torch.onnx.export(Tied(), (torch.tensor([1, 2]),), verify=True).model_proto
    assert [initializer.name for initializer in proto.graph.initializer if initializer.dims == [5, 4]] == [
        "table.weight"
    ]


def test_weights_as_inputs() -> None:
    net = nn.Linear(4, 2)
    apart = torch.onnx.export(net, (X,), export_params=False).model_proto
    assert [value.name for value in apart.graph.input] == ["input", "weight", "bias"] and not apart.graph.initializer
    both = torch.onnx.export(net, (X,), keep_initializers_as_inputs=True).model_proto
    assert len(both.graph.input) == 3 and len(both.graph.initializer) == 2
    with pytest.raises(ValueError, match="pass export_params=False"):
        torch.onnx.export(net, (X,)).save("net.onnx", include_initializers=False)


def test_models_with_their_weights_as_inputs_are_verified() -> None:
    net = nn.Linear(4, 2)
    apart = torch.onnx.export(net, (X,), export_params=False, verify=True)
    assert apart.verify()["output"] < 1e-4
    weights = [weight.detach() for weight in (net.weight, net.bias)]
    assert np.allclose(apart(X, *weights)[0].numpy(), net(X).detach().numpy(), atol=1e-5)
    with pytest.raises(TypeError, match=r"takes 3 inputs \(input, weight, bias\), got 1"):
        apart(X)
    both = torch.onnx.export(net, (X,), keep_initializers_as_inputs=True, verify=True)
    assert np.array_equal(both(X, *weights)[0].numpy(), both(X)[0].numpy())


def test_a_weight_that_is_called_like_an_argument_is_an_input_too() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(X + 1)

        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            return weight * self.weight

    apart = torch.onnx.export(Scaled(), (X,), export_params=False, verify=True)
    assert apart.input_names == ["weight", "weight_1"] and not apart.model_proto.graph.initializer


def test_a_call_takes_as_many_inputs_as_the_model() -> None:
    program = torch.onnx.export(lambda x: x + 1, (X,))
    for inputs in ((), (X, X)):
        with pytest.raises(TypeError, match=rf"takes 1 inputs \(x\), got {len(inputs)}"):
            program(*inputs)


def test_results_that_are_inputs_or_equal() -> None:
    def function(x: torch.Tensor) -> tuple:
        y = x + 1
        return x, y, y, y.view(4, 3)

    program = torch.onnx.export(function, (X,), verify=True)
    assert len(set(program.output_names)) == 4


@pytest.mark.parametrize("opset", range(17, 24))
def test_every_opset(opset: int) -> None:
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3)
    )
    net = nn.Sequential(net, nn.LayerNorm(3), nn.Softmax(1))
    axes = {"input": {0: "batch"}}
    program = torch.onnx.export(net, (torch.ones(2, 1, 8, 8),), opset_version=opset, dynamic_axes=axes, verify=True)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert program.model_proto.opset_import[0].version == opset


def test_bfloat16() -> None:
    """ONNX Runtime's CPU has no kernels for it; the onnx package's reference has."""
    x = X.bfloat16()
    proto = torch.onnx.export(lambda x: x * 2 + torch.full((4,), 0.3, dtype=torch.bfloat16), (x,)).model_proto
    onnx.checker.check_model(proto, full_check=True)
    constant = next(
        initializer
        for initializer in proto.graph.initializer
        if initializer.data_type == 16 and 0x3E9A in np.frombuffer(initializer.raw_data, np.uint16)
    )
    assert constant is not None and proto.graph.output[0].type.tensor_type.elem_type == 16
    with pytest.raises(VerificationError, match="ONNX Runtime cannot run the model"):
        torch.onnx.export(lambda x: x * 2, (x,), verify=True)


def test_double_precision_of_recurrent_networks_is_valid_onnx() -> None:
    """ONNX Runtime has no kernels for it either."""
    net, x = nn.GRU(3, 4).double(), torch.ones(2, 1, 3, dtype=torch.float64)
    program = torch.onnx.export(net, (x,))
    onnx.checker.check_model(program.model_proto, full_check=True)
    with pytest.raises(VerificationError, match="does not support double"):
        program.verify()


# ---- recurrent networks and attention


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_networks_take_any_batch_and_length(kind: str) -> None:
    net = getattr(nn, kind)(3, 5, 2, batch_first=True, bidirectional=True).eval()
    program = torch.onnx.export(
        net, (torch.ones(2, 4, 3),), dynamic_axes={"input": {0: "batch", 1: "time"}}, verify=True
    )
    assert _operators(program.model_proto).count(kind) == 4 and "Loop" not in _operators(program.model_proto)
    x = torch.linspace(-1, 1, 5 * 7 * 3).reshape(5, 7, 3)
    expected, states = net(x)
    results = [tensor.numpy() for tensor in program(x)]
    assert np.allclose(results[0], expected.detach().numpy(), atol=1e-5)
    assert results[1].shape == tuple(states[0].shape if kind == "LSTM" else states.shape)


def test_attention_is_an_operator_from_opset_23_on() -> None:
    q = torch.linspace(-1, 1, 2 * 3 * 16 * 32).reshape(2, 3, 16, 32)
    for opset, operators in ((18, "Softmax"), (23, "Attention")):
        program = torch.onnx.export(
            lambda q: F.scaled_dot_product_attention(q, q, q),
            (q,),
            opset_version=opset,
            dynamic_axes={"q": [0]},
            verify=True,
        )
        assert operators in _operators(program.model_proto)


# ---- files


def test_external_data(tmp_path: Path) -> None:
    net = nn.Linear(64, 32)
    x = torch.ones(1, 64)
    torch.onnx.export(net, (x,), tmp_path / "net.onnx", external_data=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.onnx", "net.onnx.data"]
    assert (tmp_path / "net.onnx").stat().st_size < 2000
    onnx.checker.check_model(tmp_path / "net.onnx", full_check=True)
    weights = {
        initializer.name: onnx.numpy_helper.to_array(initializer)
        for initializer in onnx.load(tmp_path / "net.onnx").graph.initializer
    }
    assert np.array_equal(weights["weight"], net.weight.detach().numpy())


def test_large_models_have_their_weights_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numod.onnx.writer.proto.MAX_MESSAGE_BYTES", 5000)
    torch.onnx.export(nn.Linear(64, 32), (torch.ones(1, 64),), tmp_path / "net.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.onnx", "net.onnx.data"]


def test_file_objects() -> None:
    buffer = io.BytesIO()
    torch.onnx.export(Net(), (X,), buffer)
    onnx.checker.check_model(onnx.load_from_string(buffer.getvalue()), full_check=True)
    with pytest.raises(ValueError, match="needs a path"):
        torch.onnx.export(Net(), (X,), io.BytesIO(), external_data=True)


def test_a_failure_leaves_the_file_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "net.onnx"
    torch.onnx.export(Net(), (X,), file)
    before = file.read_bytes()
    with pytest.raises(ExportError):
        torch.onnx.export(lambda x: torch.linalg.inv(x[:, :3]), (X,), file)
    monkeypatch.setattr("numod.onnx.writer.proto.os.fsync", lambda _: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space left"):
        torch.onnx.export(nn.Linear(4, 1), (X,), file)
    assert file.read_bytes() == before and [path.name for path in tmp_path.iterdir()] == ["net.onnx"]


def test_a_program_can_be_saved_later(tmp_path: Path) -> None:
    program = torch.onnx.export(Net(), (X,))
    program.save(tmp_path / "net.onnx")
    program.save(tmp_path / "apart.onnx", external_data=True)
    assert (tmp_path / "net.onnx").read_bytes() == program.model_proto.SerializeToString()
    assert "Gemm" in str(program) and "output output: [3, 2]" in str(program)


def test_the_same_bytes_again() -> None:
    net = Net()
    first, second = (torch.onnx.export(net, (X,)).model_proto.SerializeToString() for _ in range(2))
    assert first == second


# ---- what cannot be exported


def test_all_problems_are_reported_at_once() -> None:
    def function(x: torch.Tensor) -> tuple:
        inverse = torch.linalg.inv(x[:, :3])
        positive = x[x > 0]
        counts = torch.poisson(x.detach().abs())
        spectrum = torch.fft.rfft(x).abs()
        return inverse, positive, counts, spectrum

    with pytest.raises(ExportError) as error:
        torch.onnx.export(function, (X,))
    line = function.__code__.co_firstlineno
    text = str(error.value)
    for offset, words in (
        (1, "inv: no ONNX operator"),
        (2, "depends on the values"),
        (3, "call model.eval()"),
        (4, "complex"),
    ):
        assert f"test_export.py:{line + offset}: " in text and words in text
    assert text.startswith("onnx.export: ") and len(error.value.problems) >= 4


def test_the_order_of_uint64_is_refused() -> None:  # runtimes sort int64, in which numbers from 2**63 on are negative
    x = torch.tensor([2**63 + 1, 2], dtype=torch.uint64)
    with pytest.raises(ExportError, match="the order of uint64"):
        torch.onnx.export(lambda x: x.sort().values, (x,))


def test_steps_without_effect_on_the_results_are_no_problems() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        torch.linalg.inv(x[:, :3])
        return x + 1

    assert _operators(torch.onnx.export(function, (X,)).model_proto) == ["Add"]


def test_complex_inputs_are_refused() -> None:
    with pytest.raises(ExportError, match="x: .*complex64 is no type of ONNX"):
        torch.onnx.export(lambda x: x * 2, (X.to(torch.complex64),))


def test_newer_operators_say_which_opset_they_need() -> None:
    with pytest.raises(ExportError, match="fold needs opset_version=18"):
        torch.onnx.export(lambda x: F.fold(x, (4, 5), 2), (torch.ones(2, 8, 12),), opset_version=17)


def test_packed_sequences_are_refused() -> None:
    net = nn.GRU(4, 2)

    def function(x: torch.Tensor) -> torch.Tensor:
        return net(nn.utils.rnn.pack_padded_sequence(x[:, None].expand(3, 2, 4), [3, 1]))[0].data

    with pytest.raises(ExportError, match="packed sequences of different lengths"):
        torch.onnx.export(function, (X,))


def test_a_size_that_the_function_fixes_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Constraints violated"):
        torch.onnx.export(lambda x: x.reshape(3, 2, 2), (X,), dynamic_axes={"x": {0: "batch"}})


def test_verify_names_the_output_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    program = torch.onnx.export(lambda x: (x + 1, x * 2), (X,), output_names=["sum", "double"])
    node = next(node for node in program._model.graph.nodes if node.op == "Mul")
    node.op = "Sub"
    with pytest.raises(VerificationError, match=r"double: largest difference 3\.57"):
        program.verify()


def test_without_the_onnx_package() -> None:
    code = (
        "import sys; sys.modules['onnx'] = None\n"
        "import numod, numod.onnx\n"
        "try:\n    numod.onnx.export(lambda x: x, (numod.ones(1),))\n"
        "except ImportError as error:\n    print(error)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "numod[onnx]" in result.stdout


def test_numod_does_not_import_onnx() -> None:
    code = "import sys, numod, numod.onnx; print([name for name in ('onnx', 'onnxruntime') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("opset", [17, 23])
def test_interpolation_of_dynamic_images(mode: str, opset: int) -> None:
    def resized(x: torch.Tensor) -> tuple:
        half = nn.functional.interpolate(x, size=(4, 6), mode=mode)
        return nn.functional.interpolate(x, scale_factor=2, mode=mode), half

    axes = {"x": {0: "batch", 2: "height", 3: "width"}}
    image = torch.randn(2, 3, 6, 8)
    program = torch.onnx.export(
        resized, (image,), input_names=["x"], dynamic_axes=axes, opset_version=opset, verify=True
    )
    onnx.checker.check_model(program.model_proto, full_check=True)
    for shape in ((1, 3, 5, 9), (3, 3, 7, 7)):
        x = torch.randn(*shape)
        for ours, theirs in zip(resized(x), program(x), strict=True):
            assert torch.allclose(ours, theirs, atol=1e-5)
