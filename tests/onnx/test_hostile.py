"""Damaged and hostile ONNX files: a clear error that names the place, in little memory and time."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from onnx_models import floats, model, node

import numod
from numod.onnx.registry import HOST

onnx = pytest.importorskip("onnx")


def refused(made: object, message: str, kind: type[Exception] = ValueError) -> None:
    with pytest.raises(kind, match=message):
        numod.onnx.load(made)


def with_tensor(**fields: object) -> object:
    """A model whose only initializer has other fields than its data."""
    made = model([node("Add", "x w", "y")], {"x": [2, 3]}, ["y"], {"w": floats(2, 3)})
    tensor = made.graph.initializer[0]
    for name, value in fields.items():
        if name == "dims":
            tensor.dims[:] = value
        else:
            setattr(tensor, name, value)
    return made


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"dims": [2**40, 2**40]}, "'w' of shape .* needs .* bytes, the file has 24"),
        ({"dims": [-1, 3]}, "'w' has a negative size"),
        ({"dims": [2, 2]}, "needs 16 bytes, the file has 24"),
        ({"raw_data": b""}, "needs 24 bytes, the file has 0"),
        ({"name": ""}, "initializer has no name"),
    ],
    ids=str,
)
def test_sizes_of_tensors_are_those_of_their_data(fields: dict, message: str) -> None:
    refused(with_tensor(**fields), message)


def test_types_of_tensors_are_known_ones() -> None:
    refused(with_tensor(data_type=77), "number 77", NotImplementedError)


def test_listed_numbers_are_counted() -> None:
    made = with_tensor()
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.float_data[:] = [1.0, 2.0]
    refused(made, "needs 6 elements, the file has 2")


@pytest.mark.parametrize("location", ["/etc/passwd", "../secret", "a/../../secret", "..\\secret", "", "link", "."])
def test_external_data_lies_in_the_files_own_folder(location: str, tmp_path) -> None:
    (tmp_path / "secret").write_bytes(bytes(24))
    folder = tmp_path / "models"
    folder.mkdir()
    os.symlink(tmp_path / "secret", folder / "link")
    made = with_tensor(data_location=onnx.TensorProto.EXTERNAL)
    made.graph.initializer[0].external_data.add(key="location", value=location)
    (folder / "net.onnx").write_bytes(made.SerializeToString())
    refused(folder / "net.onnx", "own folder")


@pytest.mark.parametrize(
    "entries, message",
    [
        ({"offset": "8"}, "bytes 8 to 32 of 'w.bin', which has 24"),
        ({"offset": "-8"}, "bytes -8"),
        ({"length": "99999999999"}, "needs 24 bytes"),
        ({"offset": "much"}, "must be integers"),
    ],
    ids=str,
)
def test_external_data_is_as_long_as_it_says(entries: dict, message: str, tmp_path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(24))
    made = with_tensor(data_location=onnx.TensorProto.EXTERNAL)
    for key, value in {"location": "w.bin", **entries}.items():
        made.graph.initializer[0].external_data.add(key=key, value=value)
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    refused(tmp_path / "net.onnx", message)


@pytest.mark.parametrize(
    "nodes, message",
    [
        ([node("Add", "x b", "a"), node("Relu", "a", "b")], "input 'b' is made later: a cycle"),
        ([node("Relu", "a", "a")], "input 'a' is made later: a cycle"),
        ([node("Add", "x nothing", "y")], "input 'nothing' is made nowhere"),
        ([node("Relu", "x", "x")], "output 'x' is the name of another value"),
        ([node("Relu", "x", "other")], "output 'y' is computed by no node"),
        ([node("Relu", "x x", "y")], "has 2 inputs, expected 1 to 1"),
        ([node("Relu", "-", "y")], "input 'x' is missing"),
        ([node("Relu", "x", "")], "has no output"),
        ([node("Relu", "x", "y z")], "has 2 outputs, expected at most 1"),
        ([node("Constant", "", "c d", value_float=1.0), node("Add", "x c", "y")], "has 2 outputs, expected at most 1"),
        ([node("Relu", "x", "a\0tensor")], "null character"),
        ([node("Elu", "x", "y", alpha="much")], "'alpha' must be of type FLOAT, got STRING"),
        ([node("Transpose", "x", "y", perm=1)], "'perm' must be of type INTS, got INT"),
        ([node("Gelu", "x", "y", other=1)], "attribute 'other' is unknown"),
        ([node("LRN", "x", "y")], "attribute 'size' is missing"),
        ([node("Relu", "x", "y", domain="elsewhere")], "does not import the domain 'elsewhere'"),
    ],
)
def test_graphs_are_checked(nodes: list, message: str) -> None:
    refused(model(nodes, {"x": [2, 3]}, ["y"], opset=20), message)


def test_names_have_no_null_characters_and_few_parts() -> None:
    """numod's own keys among the values have them."""
    refused(model([node("Relu", "x", "y")], {"\0training": [1], "x": [1]}, ["y"]), "null character")
    refused(with_tensor(name="w\0tensor"), "null character")
    helper = onnx.helper
    body = helper.make_function("custom", "f", ["a\0"], ["b"], [node("Relu", "-", "b")], [helper.make_opsetid("", 18)])
    refused(model([node("f", "x", "y", domain="custom")], {"x": [1]}, ["y"], functions=[body], custom=1), "null char")
    deep = "." * 5000
    refused(model([node("Add", f"x {deep}", "y")], {"x": [3]}, ["y"], {deep: floats(3)}), "has 5001 parts, at most 64")


def test_a_function_has_as_many_outputs_as_it_declares() -> None:
    made = model(
        [node("f0", "x", "y z", domain="custom")], {"x": [1]}, ["y"], functions=[calls("f0", "f1", 1)], custom=1
    )
    made.functions[0].node[0].CopyFrom(node("Relu", "x", "y0"))
    refused(made, "has 2 outputs, function 'f0' has 1")


def test_outputs_that_an_operator_does_not_give_name_the_node() -> None:
    """ONNX Runtime's operators have no description in the package, so the call counts."""
    nodes = [node("QuickGelu", "x", "y z", name="many", domain="com.microsoft")]
    loaded = numod.onnx.load(model(nodes, {"x": [2]}, ["y"], com_microsoft=1))
    with pytest.raises(ValueError, match="names 2 outputs, but the operator returns 1") as problem:
        loaded(numod.ones(2))
    assert "'many'" in problem.value.__notes__[0]


def test_weights_of_a_product_need_not_be_matrices() -> None:
    made = model([node("Gemm", "x w", "y")], {"x": [2, 3]}, ["y"], {"w": floats(3)})
    assert tuple(numod.onnx.load(made).w.shape) == (3,)


def test_opsets_are_known_ones() -> None:
    refused(model([node("Relu", "x", "y")], {"x": [1]}, ["y"], opset=999), "opset 999")
    refused(model([node("Relu", "x", "y")], {"x": [1]}, ["y"], opset=0), "opset 0")


def calls(name: str, callee: str, count: int) -> object:
    nodes = [node(callee, "x", f"y{k}", domain="custom") for k in range(count)]
    return onnx.helper.make_function(
        "custom", name, ["x"], ["y0"], nodes, [onnx.helper.make_opsetid("custom", 1), onnx.helper.make_opsetid("", 18)]
    )


def test_functions_do_not_call_themselves_or_grow_without_bound() -> None:
    node_of = [node("f0", "x", "y", domain="custom")]
    refused(model(node_of, {"x": [1]}, ["y"], functions=[calls("f0", "f0", 1)], custom=1), "function 'f0' calls itself")
    leaf = onnx.helper.make_function(
        "custom", "f30", ["x"], ["y"], [node("Relu", "x", "y")], [onnx.helper.make_opsetid("", 18)]
    )
    functions = [*(calls(f"f{k}", f"f{k + 1}", 2) for k in range(30)), leaf]
    refused(model(node_of, {"x": [1]}, ["y"], functions=functions, custom=1), "more than 100000 nodes")


def test_constants_are_not_blown_up_when_a_file_is_loaded() -> None:
    shape = {"shape": np.array([2**40, 2**40])}
    nodes = [node("Expand", "one shape", "big"), node("Add", "x big", "y")]
    loaded = numod.onnx.load(model(nodes, {"x": [1]}, ["y"], {**shape, "one": np.array([1])}))
    with pytest.raises((RuntimeError, MemoryError, OverflowError, ValueError)) as problem:
        loaded(numod.ones(1))
    assert any("'big' (Expand)" in note or "'y' (Add)" in note for note in problem.value.__notes__)


def test_tensor_operators_do_not_run_when_a_file_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node("ConstantOfShape", "shape", "big"), node("Add", "x big", "y")]
    made = model(nodes, {"x": [1]}, ["y"], {"shape": np.array([3])})
    shapes = []
    with monkeypatch.context() as patch:
        patch.setattr(numod, "zeros", lambda shape, **options: shapes.append(shape))
        loaded = numod.onnx.load(made)
    assert not shapes and loaded(numod.ones(1)).tolist() == [1, 1, 1]


def test_constants_are_not_broadcast_to_a_large_one_when_a_file_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    monkeypatch.setitem(HOST, "Add", lambda a, b: sizes.append((a.size, b.size)) or a)
    column = np.zeros((4096, 1), np.int64)
    nodes = [node("Add", "column row", "big"), node("Cast", "big", "cast", to=1), node("Mul", "x cast", "y")]
    numod.onnx.load(model(nodes, {"x": [1]}, ["y"], {"column": column, "row": column.T.copy()}))
    assert not sizes
    numod.onnx.load(model(nodes, {"x": [1]}, ["y"], {"column": column[:3], "row": column[:2].T.copy()}))
    assert sizes == [(3, 2)]


def test_errors_of_a_call_name_the_node() -> None:
    loaded = numod.onnx.load(model([node("Add", "x w", "y", name="sum")], {"x": None}, ["y"], {"w": floats(3)}))
    with pytest.raises(RuntimeError) as problem:
        loaded(numod.ones(2))
    assert "in node 'sum' (Add), inputs: x float32[2], w float32[3]" in problem.value.__notes__


def test_truncated_and_changed_bytes_are_refused_or_load() -> None:
    data = model([node("Add", "x w", "y")], {"x": [2, 3]}, ["y"], {"w": floats(2, 3)}).SerializeToString()
    draw = random.Random(0)
    damaged = [data[:length] for length in range(0, len(data), 3)]
    for _ in range(300):
        changed = bytearray(data)
        changed[draw.randrange(len(data))] = draw.randrange(256)
        damaged.append(bytes(changed))
    errors = 0
    for content in damaged:
        try:
            numod.onnx.load(content)
        except (ValueError, NotImplementedError):
            errors += 1
    assert errors > 50
    refused(b"", "not an ONNX model")
    refused(b"\x80" * 50, "not an ONNX model")


def test_a_chain_of_functions_is_as_deep_as_graphs_may_be() -> None:
    leaf = onnx.helper.make_function(
        "custom", "f40", ["x"], ["y"], [node("Relu", "x", "y")], [onnx.helper.make_opsetid("", 18)]
    )
    functions = [*(calls(f"f{k}", f"f{k + 1}", 1) for k in range(40)), leaf]
    made = model([node("f0", "x", "y", domain="custom")], {"x": [1]}, ["y"], functions=functions, custom=1)
    refused(made, "deeper than 32")


def test_names_of_attributes_are_text() -> None:
    data = model([node("Elu", "x", "y", alpha=1.0)], {"x": [2]}, ["y"]).SerializeToString()
    refused(data.replace(b"alpha", b"\xfflpha"), "is not UTF-8|not an ONNX model")


def test_a_graph_gets_all_its_inputs() -> None:
    declared = [onnx.helper.make_tensor_value_info(name, 1, None) for name in "abc"]
    body = onnx.helper.make_graph([node("Add", "a b", "c")], "body", declared[:2], declared[2:])
    made = model([node("Scan", "x", "y", body=body, num_scan_inputs=1)], {"x": [2, 2]}, ["y"])
    with pytest.raises(ValueError, match="has 2 inputs, the node gives it 1"):
        numod.onnx.load(made)(numod.ones(2, 2))


def test_notes_of_nodes_are_text() -> None:
    noted = node("Relu", "x", "y")
    noted.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'scope']")
    data = model([noted], {"x": [2]}, ["y"]).SerializeToString()
    refused(data.replace(b"'scope'", b"'\xffcope'"), "is not UTF-8|not an ONNX model")


def test_locations_of_external_data_are_no_longer_than_paths_may_be(tmp_path) -> None:
    made = with_tensor(data_location=onnx.TensorProto.EXTERNAL)
    made.graph.initializer[0].external_data.add(key="location", value="a" * 5000)
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    refused(tmp_path / "net.onnx", "is no file")


@pytest.mark.parametrize(
    "attributes, message",
    [
        ({"sampling_ratio": 2**40}, "need more than"),
        ({"output_height": 0}, "must be positive"),
        ({"sampling_ratio": -1}, "not negative"),
    ],
    ids=str,
)
def test_samples_of_boxes_are_bounded(attributes: dict, message: str) -> None:
    boxes = {"boxes": np.array([[0, 0, 2, 2]], np.float32), "batches": np.array([0])}
    made = model([node("RoiAlign", "x boxes batches", "y", **attributes)], {"x": [1, 1, 4, 4]}, ["y"], boxes)
    with pytest.raises(ValueError, match=message):
        numod.onnx.load(made)(numod.ones(1, 1, 4, 4))


def test_axes_and_numbers_of_sequences_are_checked() -> None:
    made = model([node("Gather", "x index", "y", axis=2)], {"x": [2, 2]}, ["y"], {"index": np.array([0])})
    with pytest.raises(ValueError, match="axis must be from -2 to 1"):
        numod.onnx.load(made)(numod.ones(2, 2))
    body = onnx.helper.make_graph(
        [node("Identity", "a", "b")],
        "body",
        [onnx.helper.make_tensor_value_info("a", 1, None)],
        [onnx.helper.make_tensor_value_info("b", 1, None)],
    )
    for count in (-5, 0, 2**40):
        made = model([node("Scan", "x", "y", body=body, num_scan_inputs=count)], {"x": [2, 2]}, ["y"])
        with pytest.raises(ValueError, match="num_scan_inputs must be from 1 to 1"):
            numod.onnx.load(made)(numod.ones(2, 2))
