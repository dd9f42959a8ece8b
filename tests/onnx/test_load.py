"""numod.onnx.load: names, training, modes, old versions, control flow, functions, shape arithmetic."""

from __future__ import annotations

import copy
import io
import pickle
import sys

import numpy as np
import pytest
from onnx_models import floats, model, node

import numod
from numod import nn

onnx = pytest.importorskip("onnx")
x23 = numod.tensor([[1.0, -2.0, 3.0], [0.5, 0.0, -1.0]])


def two_layers() -> object:
    return model(
        [
            node("Gemm", "x layer1.weight layer1.bias", "h", transB=1),
            node("Relu", "h", "r"),
            node("MatMul", "r onnx::MatMul_7", "out"),
        ],
        {"x": ["batch", 3]},
        ["out"],
        {"layer1.weight": floats(4, 3), "layer1.bias": floats(4, seed=1), "onnx::MatMul_7": floats(4, 2, seed=2)},
    )


def run(nodes: list, *inputs: numod.Tensor, **others: object) -> object:
    """The first outputs of a graph of the nodes, of inputs a, b, c."""
    names = "abc"[: len(inputs)]
    made = model(nodes, {name: None for name in names}, nodes[-1].output[:1], **others)
    return numod.onnx.load(made)(*inputs)


def test_weights_are_parameters_at_the_paths_that_their_names_spell() -> None:
    loaded = numod.onnx.load(two_layers())
    shapes = {name: tuple(value.shape) for name, value in loaded.named_parameters()}
    assert shapes == {"layer1.weight": (4, 3), "layer1.bias": (4,), "onnx__MatMul_7.weight": (2, 4)}
    hidden = np.maximum(x23.numpy() @ floats(4, 3).T + floats(4, seed=1), 0)
    np.testing.assert_allclose(loaded(x23).detach().numpy(), hidden @ floats(4, 2, seed=2), rtol=1e-5, atol=1e-5)
    assert not loaded.training and "x: float[batch, 3]" in repr(loaded)


def test_a_path_bytes_a_file_and_a_proto_are_read(tmp_path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(two_layers(), path)
    expected = numod.onnx.load(two_layers())(x23)
    for source in (path, str(path), path.read_bytes(), io.BytesIO(path.read_bytes())):
        assert numod.equal(numod.onnx.load(source)(x23), expected)
    with pytest.raises(TypeError, match="not list"):
        numod.onnx.load([])


def test_weights_outside_the_file_are_read_from_its_folder(tmp_path) -> None:
    onnx.save(two_layers(), tmp_path / "net.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    expected = numod.onnx.load(two_layers())(x23)
    assert numod.equal(numod.onnx.load(tmp_path / "net.onnx")(x23), expected)
    with pytest.raises(ValueError, match="load the model by its path"):
        numod.onnx.load((tmp_path / "net.onnx").read_bytes())


def test_constants_of_nodes_outside_the_file_are_read_too(tmp_path) -> None:
    value = onnx.numpy_helper.from_array(floats(3), "value")
    made = model([node("Constant", "", "c", value=value), node("Add", "x c", "y")], {"x": [2, 3]}, ["y"])
    onnx.save(
        made,
        tmp_path / "net.onnx",
        save_as_external_data=True,
        location="c.bin",
        size_threshold=0,
        convert_attribute=True,
    )
    assert (tmp_path / "c.bin").stat().st_size == 12
    assert numod.equal(numod.onnx.load(tmp_path / "net.onnx")(x23), x23 + numod.from_numpy(floats(3)))


def test_inputs_have_names() -> None:
    loaded = numod.onnx.load(model([node("Sub", "input.1 b", "out")], {"input.1": [2], "b": [2]}, ["out"]))
    a, b = numod.tensor([5.0, 6.0]), numod.tensor([1.0, 2.0])
    assert loaded(a, b).tolist() == loaded(b=b, input_1=a).tolist() == loaded(**{"input.1": a}, b=b).tolist() == [4, 4]
    with pytest.raises(TypeError, match="missing inputs: b"):
        loaded(a)
    with pytest.raises(TypeError, match="no input 'c'; its inputs are input.1, b"):
        loaded(a, b, c=a)
    with pytest.raises(TypeError, match="twice"):
        loaded(a, b, b=b)
    with pytest.raises(TypeError, match="takes 2 inputs"):
        loaded(a, b, b)


def test_an_input_is_found_by_its_exact_name_first() -> None:
    loaded = numod.onnx.load(model([node("Sub", "a_b a.b", "out")], {"a_b": [2], "a.b": [2]}, ["out"]))
    first, second = numod.tensor([5.0, 6.0]), numod.tensor([1.0, 2.0])
    assert loaded(**{"a_b": first, "a.b": second}).tolist() == [4, 4]


def test_a_loaded_model_trains_and_its_state_is_saved() -> None:
    loaded = numod.onnx.load(two_layers())
    reference = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))
    values = [floats(4, 3), floats(4, seed=1), floats(4, 2, seed=2).T.copy()]
    with numod.no_grad():
        for parameter, value in zip(reference.parameters(), values):
            parameter.copy_(numod.from_numpy(value))
    optimizers = [numod.optim.SGD(module.parameters(), lr=0.1) for module in (loaded, reference)]
    for _ in range(3):
        for module, optimizer in zip((loaded, reference), optimizers):
            optimizer.zero_grad()
            module(x23).square().mean().backward()
            optimizer.step()
    assert numod.allclose(loaded(x23), reference(x23), atol=1e-5)
    other = numod.onnx.load(two_layers())
    other.load_state_dict(loaded.state_dict())
    for same in (other, copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded))):
        assert numod.equal(same(x23), loaded(x23))


def test_compiled_and_exported_models_give_the_same() -> None:
    loaded = numod.onnx.load(two_layers())
    expected = loaded(x23)
    assert numod.allclose(numod.compile(loaded, fullgraph=True)(x23), expected)
    program = numod.export.export(loaded, (x23,), dynamic_shapes=({0: numod.export.Dim("batch")},))
    assert numod.allclose(program.module()(numod.cat([x23, x23])), numod.cat([expected, expected]))


def test_products_with_weights_are_layers_that_quantization_replaces() -> None:
    loaded = numod.onnx.load(two_layers())
    expected = loaded(x23)
    layers = [name for name, module in loaded.named_modules() if isinstance(module, nn.Linear)]
    assert layers == ["layer1", "onnx__MatMul_7"]
    numod.ao.quantization.quantize_(loaded, numod.ao.quantization.Int8WeightOnlyConfig())
    assert not any(isinstance(module, nn.Linear) for module in loaded.modules())
    assert numod.allclose(loaded(x23), expected, atol=0.1) and not numod.equal(loaded(x23), expected)


def test_a_bias_that_is_added_belongs_to_its_layer_and_shared_weights_to_none() -> None:
    weights = {"fc.bias": floats(2), "val_1": floats(3, 2), "both": floats(2, 2)}
    nodes = [node("MatMul", "x val_1", "p"), node("Add", "fc.bias p", "q")]
    nodes += [node("MatMul", "q both", "r"), node("MatMul", "r both", "y")]
    loaded = numod.onnx.load(model(nodes, {"x": [2, 3]}, ["y"], weights))
    assert {name: tuple(value.shape) for name, value in loaded.state_dict().items()} == {
        "fc.weight": (2, 3), "fc.bias": (2,), "both": (2, 2),
    }  # fmt: skip
    expected = (x23.numpy() @ weights["val_1"] + weights["fc.bias"]) @ weights["both"] @ weights["both"]
    np.testing.assert_allclose(loaded(x23).detach().numpy(), expected, rtol=1e-4, atol=1e-4)


def test_weights_and_products_that_a_branch_returns_are_no_layers() -> None:
    def returned(name: str) -> object:
        return onnx.helper.make_graph([], name, [], [onnx.helper.make_tensor_value_info(name, 1, None)])

    choice = {"then_branch": returned("w"), "else_branch": returned("p")}
    nodes = [node("MatMul", "a w", "p"), node("Add", "p bias", "q"), node("If", "c", "r", **choice)]
    nodes += [node("Add", "q r", "y")]
    constants = {"w": floats(3, 3), "bias": floats(3), "c": np.array(True)}
    a = numod.from_numpy(floats(3, 3, seed=1))
    for condition in (True, False):
        result = run(nodes, a, initializers={**constants, "c": np.array(condition)}).detach().numpy()
        product = a.numpy() @ constants["w"]
        expected = product + constants["bias"] + (constants["w"] if condition else product)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_batch_norm_and_dropout_follow_the_modules_mode() -> None:
    statistics = {"scale": np.ones(3, np.float32), "bias": np.zeros(3, np.float32)}
    statistics |= {"mean": np.zeros(3, np.float32), "var": np.ones(3, np.float32)}
    made = model([node("BatchNormalization", "x scale bias mean var", "out")], {"x": [2, 3]}, ["out"], statistics)
    loaded = numod.onnx.load(made)
    assert [name for name, _ in loaded.named_parameters()] == ["scale", "bias"]
    assert numod.allclose(loaded(x23), x23, atol=1e-4)
    assert abs(float(loaded.train()(x23).mean())) < 1e-6
    assert numod.allclose(loaded.mean, 0.1 * x23.mean(0))
    loaded = numod.onnx.load(model([node("Dropout", "x", "out")], {"x": [2, 3]}, ["out"]))
    assert numod.equal(loaded(x23), x23)
    assert float((loaded.train()(numod.ones(1000)) == 0).float().mean()) == pytest.approx(0.5, abs=0.1)


def test_constants_that_the_exporter_computed_are_not_trained() -> None:
    constants = {"val_3": np.float32(2.0), "zeros_1": np.zeros(3, np.float32), "scale": np.float32(3.0)}
    nodes = [node("Mul", "x val_3", "a"), node("Add", "a zeros_1", "b"), node("Mul", "b scale", "out")]
    loaded = numod.onnx.load(model(nodes, {"x": [2, 3]}, ["out"], constants))
    assert [name for name, _ in loaded.named_parameters()] == ["scale"]
    assert {name for name, _ in loaded.named_buffers()} == {"val_3", "zeros_1"}


def test_names_that_a_module_has_get_a_number() -> None:
    weights = {"forward": floats(3), "a": floats(3), "a.b": floats(3)}
    nodes = [node("Add", "x forward", "p"), node("Add", "p a", "q"), node("Add", "q a.b", "out")]
    loaded = numod.onnx.load(model(nodes, {"x": [2, 3]}, ["out"], weights))
    assert sorted(name for name, _ in loaded.named_parameters()) == ["a", "a_1.b", "forward_1"]


@pytest.mark.parametrize(
    "opset, nodes, expected",
    [
        (12, [node("Softmax", "a", "y", axis=1)], "of all behind the axis"),
        (13, [node("Softmax", "a", "y", axis=1)], "of the axis"),
        (6, [node("Clip", "a", "y", min=-1.0, max=1.0)], "clip"),
        (9, [node("Slice", "a", "y", starts=[1], ends=[2], axes=[2])], "slice"),
        (2, [node("Pad", "a", "y", pads=[0, 0, 1, 0, 0, 0])], "pad"),
        (11, [node("Squeeze", "a", "u", axes=[0]), node("Unsqueeze", "u", "y", axes=[1])], "squeeze"),
        (11, [node("ReduceSum", "a", "y", axes=[1], keepdims=0)], "sum"),
    ],
    ids=["softmax 12", "softmax 13", "clip", "slice", "pad", "squeeze", "reduce sum"],
)  # fmt: skip
def test_an_old_version_means_what_it_meant(opset: int, nodes: list, expected: str) -> None:
    a = numod.from_numpy(floats(1, 2, 3))
    meanings = {
        "of all behind the axis": lambda: a.reshape(1, 6).softmax(1).reshape(1, 2, 3),
        "of the axis": lambda: a.softmax(1),
        "clip": lambda: a.clamp(-1, 1),
        "slice": lambda: a[:, :, 1:2],
        "pad": lambda: nn.functional.pad(a, (1, 0)),
        "squeeze": lambda: a.permute(1, 0, 2),
        "sum": lambda: a.sum(1),
    }
    assert numod.allclose(run(nodes, a, opset=opset), meanings[expected]())


def test_broadcasting_along_an_axis_of_version_6() -> None:
    a, b = numod.from_numpy(floats(2, 3, 2)), numod.from_numpy(floats(3))
    added = run([node("Add", "a b", "y", broadcast=1, axis=1)], a, b, opset=6)
    assert numod.equal(added, a + b.reshape(3, 1))


def test_shape_arithmetic_is_not_recorded() -> None:
    nodes = [
        node("Shape", "a", "s"),
        node("Gather", "s zero", "rows"),
        node("Unsqueeze", "rows first", "row"),
        node("Concat", "row minus", "shape", axis=0),
        node("Reshape", "a shape", "y"),
    ]
    constants = {"zero": np.int64(0), "first": np.array([0]), "minus": np.array([-1])}
    made = model(nodes, {"a": ["n", 2, 3]}, ["y"], constants)
    loaded = numod.onnx.load(made)
    program = numod.export.export(loaded, (numod.ones(4, 2, 3),), dynamic_shapes=({0: numod.export.Dim("n")},))
    assert str(program).count("view(") == 1 and "gather" not in str(program)
    assert tuple(program.module()(numod.ones(5, 2, 3)).shape) == (5, 6)


def branch(name: str, kind: str) -> object:
    return onnx.helper.make_graph(
        [node(kind, "a b", name)], name, [], [onnx.helper.make_tensor_value_info(name, 1, None)]
    )


def test_if_reads_values_around_it() -> None:
    nodes = [
        node("ReduceSum", "a", "total", keepdims=0),
        node("Greater", "total zero", "positive"),
        node("If", "positive", "y", then_branch=branch("added", "Add"), else_branch=branch("less", "Sub")),
    ]
    one, two = numod.ones(2), 2 * numod.ones(2)
    constants = {"zero": np.float32(0)}
    assert run(nodes, one, two, initializers=constants).tolist() == [3, 3]
    assert run(nodes, -one, two, initializers=constants).tolist() == [-3, -3]


def test_loop_carries_values_and_stacks_others() -> None:
    values = [("i", 7, []), ("again", 9, []), ("x", 1, None)]
    body = onnx.helper.make_graph(
        [node("Add", "x a", "next"), node("Identity", "again", "go"), node("Neg", "next", "out")],
        "body",
        [onnx.helper.make_tensor_value_info(*value) for value in values],
        [onnx.helper.make_tensor_value_info(name, kind, None) for name, kind in (("go", 9), ("next", 1), ("out", 1))],
    )
    nodes = [node("Loop", "count - a", "last all", body=body)]
    made = model(nodes, {"a": [2]}, ["last", "all"], {"count": np.array(3)})
    last, stacked = numod.onnx.load(made)(numod.ones(2))
    assert last.tolist() == [4, 4] and stacked[:, 0].tolist() == [-2, -3, -4]
    compiled = numod.compile(numod.onnx.load(made), fullgraph=True)  # unrolled
    assert compiled(numod.ones(2))[0].tolist() == [4, 4]


def test_a_loop_without_trips_stacks_nothing_in_the_declared_dtype_and_shape() -> None:
    values = [("i", 7, []), ("again", 9, [])]
    outputs = [("go", 9, []), ("rows", 7, ["n", 4]), ("flags", 9, []), ("any", 1, None)]
    kinds = {"go": "again", "rows": "i", "flags": "again", "any": "a"}
    body = onnx.helper.make_graph(
        [node("Identity", source, name) for name, source in kinds.items()],
        "body",
        [onnx.helper.make_tensor_value_info(*value) for value in values],
        [onnx.helper.make_tensor_value_info(*value) for value in outputs],
    )
    nodes = [node("Loop", "count -", "rows_0 flags_0 any_0", body=body)]
    made = model(nodes, {"a": [2]}, ["rows_0", "flags_0", "any_0"], {"count": np.array(0)})
    results = numod.onnx.load(made)(numod.ones(2))
    assert [(result.dtype, tuple(result.shape)) for result in results] == [
        (numod.int64, (0, 0, 4)), (numod.bool, (0,)), (numod.float32, (0,)),
    ]  # fmt: skip


def test_functions_of_the_file_take_attributes_of_their_caller() -> None:
    helper = onnx.helper
    scaled = helper.make_node("LeakyRelu", ["x"], ["y"])
    scaled.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    function = helper.make_function(
        "custom", "Slanted", ["x"], ["y"], [scaled], [helper.make_opsetid("", 18)], attributes=["slope"]
    )
    nodes = [
        node("Slanted", "a", "h", domain="custom", slope=0.25),
        node("Slanted", "h", "y", domain="custom", slope=0.5),
    ]
    result = run(nodes, numod.tensor([-8.0, 8.0]), functions=[function], custom=1)
    assert result.tolist() == [-1, 8]


def test_all_that_is_not_supported_is_listed_at_once() -> None:
    nodes = [
        node("Mystery", "a", "p", name="first"),
        node("Relu", "p", "q"),
        node("StringNormalizer", "q", "r", name="second"),
        node("Mystery", "r", "y", name="third"),
    ]
    with pytest.raises(NotImplementedError, match=r"Mystery, version 18: first, third\n.*StringNormalizer.*: second"):
        run(nodes, x23)


@pytest.mark.parametrize("form", ["initializer", "constant", "function", "branch"])
def test_constants_in_a_wider_dtype_are_for_operators_that_give_the_same(form: str) -> None:
    """A uint4 zero point is held as uint8, whose limits are others."""
    helper, kind = onnx.helper, onnx.TensorProto.UINT4
    zero = helper.make_tensor("zero", kind, [], [3])
    read = node("DequantizeLinear", "stored scale zero", "d")
    stored = helper.make_tensor("stored", kind, [2], [3, 15])
    made = model([read, node("Add", "d a", "y")], {"a": [2]}, ["y"], {"scale": np.float32(2)}, opset=21)
    made.graph.initializer.extend([stored, zero])
    assert numod.onnx.load(made)(numod.zeros(2)).tolist() == [0, 24]

    nodes = [node("QuantizeLinear", "a scale zero", "q"), node("DequantizeLinear", "q scale zero", "y")]
    outputs = [helper.make_tensor_value_info("y", 1, None)]
    functions = []
    if form == "constant":
        nodes = [node("Constant", "", "zero", value=zero), *nodes]
    elif form == "function":
        opsets = [helper.make_opsetid("", 21)]
        functions = [helper.make_function("custom", "f", ["a", "scale", "zero"], ["y"], nodes, opsets)]
        nodes = [node("f", "a scale zero", "y", domain="custom")]
    elif form == "branch":
        branches = {name: helper.make_graph(nodes, name, [], outputs) for name in ("then_branch", "else_branch")}
        nodes = [node("If", "c", "z", **branches)]
    constants = {"scale": np.float32(2), "c": np.array(True)}
    made = model(nodes, {"a": [2]}, nodes[-1].output[:1], constants, opset=21, functions=functions, custom=1)
    if form != "constant":
        made.graph.initializer.append(zero)
    with pytest.raises(NotImplementedError, match="QuantizeLinear with constants of type uint4: node 'q'"):
        numod.onnx.load(made)


def test_constants_of_operators_are_part_of_a_recording() -> None:
    """Loaded models compile without a break, and are exported again."""
    one = onnx.numpy_helper.from_array(np.float32([1]))
    nodes = [
        node("Shape", "x", "shape"), node("ConstantOfShape", "shape", "ones", value=one),
        node("Gather", "shape zero", "count"), node("Range", "zero count one", "places"),
        node("Cast", "places", "p", to=1),
        node("Unsqueeze", "p one_axis", "column"), node("Add", "x ones", "a"), node("Mul", "a column", "y"),
    ]  # fmt: skip
    numbers = {"zero": np.array(0), "one": np.array(1), "one_axis": np.array([1])}
    loaded = numod.onnx.load(model(nodes, {"x": ["batch", 2]}, ["y"], numbers))
    program = numod.onnx.export(loaded, (numod.zeros(3, 2),), dynamic_axes={"x": {0: "batch"}}, input_names=["x"])
    assert program(numod.ones(4, 2))[0].tolist() == [[0, 0], [2, 2], [4, 4], [6, 6]]
    assert numod.compile(loaded, fullgraph=True)(numod.zeros(3, 2)).tolist() == [[0, 0], [1, 1], [2, 2]]


def test_a_loaded_model_is_exported_with_the_names_of_its_inputs() -> None:
    made = model([node("Sub", "in.a b", "y")], {"in.a": ["batch", 2], "b": [2]}, ["y"])
    loaded = numod.onnx.load(made)
    program = numod.onnx.export(loaded, (numod.ones(3, 2), numod.zeros(2)), dynamic_axes={"in_a": {0: "batch"}})
    assert [value.name for value in program.model_proto.graph.input] == ["in_a", "b"]
    shapes = {"in_a": {0: numod.export.Dim("batch")}, "b": None}
    captured = numod.export.export(
        pickle.loads(pickle.dumps(loaded)), (numod.ones(3, 2), numod.zeros(2)), dynamic_shapes=shapes
    )
    assert captured.module()(numod.ones(5, 2), numod.zeros(2)).shape == (5, 2)


def test_without_the_package_an_error_has_the_line_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'numod\[onnx\]'"):
        numod.onnx.load("net.onnx")


def test_the_command_describes_a_file(tmp_path, capsys) -> None:
    from numod.__main__ import main

    onnx.save(two_layers(), tmp_path / "net.onnx")
    assert main(["onnx", str(tmp_path / "net.onnx")]) == 0
    text = capsys.readouterr().out
    assert "x: float[batch, 3]" in text and "24 in 3 parameters" in text and "1 Gemm" in text
    assert text.endswith("numod supports all of it\n")
    onnx.save(model([node("Mystery", "x", "y")], {"x": [1]}, ["y"]), tmp_path / "other.onnx")
    assert main(["onnx", str(tmp_path / "other.onnx")]) == 0
    assert "missing   operator Mystery, version 18: y" in capsys.readouterr().out
    layers = two_layers()
    layers.producer_name, layers.graph.name = "\x1b[31mred", "two\nlines"
    onnx.save(layers, tmp_path / "named.onnx")
    assert main(["onnx", str(tmp_path / "named.onnx")]) == 0
    assert "model     two?lines, by ?[31mred\n" in capsys.readouterr().out
    onnx.save(model([node("Relu", "\x1b[31mx", "y")], {"x": [1]}, ["y"]), tmp_path / "damaged.onnx")
    assert main(["onnx", str(tmp_path / "damaged.onnx")]) == 1 and "input '?[31mx'" in capsys.readouterr().err
    assert main(["onnx", str(tmp_path / "none.onnx")]) == 1 and "none.onnx" in capsys.readouterr().err
