"""Convolutions, products, batch norms and recurrent nodes of a file become layers, which quantization replaces."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_models import floats, model, node

import numod as torch
from numod import nn
from numod.ao import quantization

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.onnx

image = torch.from_numpy(floats(2, 2, 8, 8))


def kinds(module: nn.Module) -> dict[str, str]:
    """The layers of a loaded model, by path."""
    layers = [(name, type(layer).__name__) for name, layer in module.named_modules()]
    return {name: kind for name, kind in layers if name and kind != "Scope"}


def reloaded(net: nn.Module, *inputs: torch.Tensor) -> nn.Module:
    """The network as numod writes and reads it; its results are the same."""
    loaded = torch.onnx.load(torch.onnx.export(net.eval(), inputs).model_proto)
    with torch.no_grad():
        for ours, theirs in zip(_leaves(net(*inputs)), _leaves(loaded(*inputs)), strict=True):
            assert torch.allclose(ours, theirs, atol=1e-6)
    return loaded


def _leaves(results: object) -> list[torch.Tensor]:
    if isinstance(results, torch.Tensor):
        return [results]
    return [leaf for part in results for leaf in _leaves(part)]


def scripted(kind: str, direction: str = "bidirectional", layers: int = 2, layout: int = 0) -> object:
    """Recurrent nodes as PyTorch's exporter writes those of a module `net.rnn`, with weights under other names."""
    gates, count = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 2 if direction == "bidirectional" else 1
    nodes, weights, x = [], {}, "x"
    for number in range(layers):
        width = 3 if number == 0 else 4 * count
        shapes = {"w": (count, 4 * gates, width), "r": (count, 4 * gates, 4), "b": (count, 8 * gates)}
        weights |= {f"onnx::{n}_{number}": floats(*shape, seed=number) / 2 for n, shape in shapes.items()}
        inputs = f"{x} onnx::w_{number} onnx::r_{number} onnx::b_{number}"
        options = {"hidden_size": 4, "direction": direction, "layout": layout}
        options |= {"linear_before_reset": 1} if kind == "GRU" else {}
        end = f"_{number}" if number else ""
        nodes.append(node(kind, inputs, f"y{number} h{number}", name=f"/net/net.rnn/{kind}{end}", **options))
        nodes.append(node("Transpose", f"y{number}", f"t{number}", perm=[0, 1, 2, 3] if layout else [0, 2, 1, 3]))
        nodes.append(node("Reshape", f"t{number} rows", f"z{number}"))
        x = f"z{number}"
    return model(nodes, {"x": [5, 2, 3]}, [x, "h0"], {**weights, "rows": np.array([0, 0, -1])}, opset=14)


def run_by_onnxruntime(made: object, *inputs: np.ndarray) -> list[np.ndarray]:
    runtime = pytest.importorskip("onnxruntime")
    made.ir_version = 8
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {value.name: array for value, array in zip(session.get_inputs(), inputs)})


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_nodes_of_pytorchs_exporters_are_one_layer_with_the_names_of_the_original(
    kind: str, direction: str
) -> None:
    made, x = scripted(kind, direction), floats(5, 2, 3)
    loaded = torch.onnx.load(made)
    assert kinds(loaded) == {"net.rnn": kind}
    original = getattr(nn, kind)(3, 4, num_layers=2, bidirectional=direction == "bidirectional")
    expected = {f"net.rnn.{name}": value.shape for name, value in original.state_dict().items()}
    assert {name: value.shape for name, value in loaded.state_dict().items()} == expected
    for ours, theirs in zip(loaded(torch.from_numpy(x)), run_by_onnxruntime(made, x), strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs, atol=1e-5)
    original.load_state_dict(loaded.net.rnn.state_dict())
    assert torch.allclose(original(torch.from_numpy(x))[0], loaded(torch.from_numpy(x))[0], atol=1e-6)


def test_recurrent_nodes_whose_weights_are_shared_or_made_otherwise_run_as_they_are() -> None:
    x = floats(5, 2, 3)
    reverse = scripted("LSTM", "reverse", layers=1)
    shared = scripted("GRU", "forward", layers=1)
    shared.graph.node.append(node("GRU", "x onnx::w_0 onnx::r_0 onnx::b_0", "again", hidden_size=4))
    shared.graph.output[1].name = "again"
    uneven = scripted("RNN", "forward", layers=1)
    uneven.graph.node[0].attribute.append(onnx.helper.make_attribute("activations", ["Softsign"]))
    for made in (reverse, shared, uneven):
        loaded = torch.onnx.load(made)
        assert kinds(loaded) == {}
        for ours, theirs in zip(loaded(torch.from_numpy(x)), run_by_onnxruntime(made, x), strict=True):
            np.testing.assert_allclose(ours.detach().numpy(), theirs, atol=1e-5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_networks_that_numod_wrote_are_layers_again(kind: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = getattr(nn, kind)(3, 4, num_layers=2, bidirectional=True, bias=kind != "RNN")

        def forward(self, x: torch.Tensor) -> tuple:
            return self.rnn(x)

    net, x = Net(), torch.randn(5, 2, 3)
    loaded = reloaded(net, x)
    assert kinds(loaded) == {"rnn": kind}
    assert set(net.state_dict()) <= set(loaded.state_dict())
    steps = [step.operator.name for step in loaded._program.steps]
    assert "Split" not in steps and steps.count("a recurrent layer") == 4
    assert torch.allclose(torch.compile(loaded)(x)[0], net(x)[0], atol=1e-6)


def test_dynamic_quantization_replaces_recurrent_layers() -> None:
    made, x = scripted("LSTM"), torch.from_numpy(floats(5, 2, 3))
    loaded = torch.onnx.load(made)
    expected = loaded(x)[0]
    quantized = quantization.quantize_dynamic(loaded, {nn.LSTM})
    assert type(quantized.net.rnn) is nn.quantized.dynamic.LSTM
    result = quantized(x)[0]
    assert torch.allclose(result, expected, atol=0.1) and not torch.equal(result, expected)


@pytest.mark.filterwarnings("ignore:Please use quant_min")
def test_static_quantization_replaces_convolutions_and_fuses_batch_norms() -> None:
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.ConvTranspose2d(4, 3, 2),
        nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2),
    )  # fmt: skip
    loaded = reloaded(net, image)
    assert kinds(loaded) == {"0": "Conv2d", "1": "BatchNorm2d", "4": "ConvTranspose2d", "8": "Linear"}
    assert loaded.get_submodule("1").extra_repr() == net[1].extra_repr()
    prepared = quantization.quantize_fx.prepare_fx(loaded, quantization.get_default_qconfig_mapping(), (image,))
    prepared(image)
    converted = quantization.quantize_fx.convert_fx(prepared)
    names = [type(module).__name__ for module in converted.modules() if "quantized" in type(module).__module__]
    assert names == ["ConvReLU2d", "ConvTranspose2d", "Linear", "LinearPackedParams"]
    assert torch.allclose(converted(image), net(image), atol=0.1)


def test_a_loaded_batch_norm_trains_as_the_original() -> None:
    net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4))
    loaded = reloaded(net, image)
    assert torch.allclose(net.train()(image), loaded.train()(image), atol=1e-6)
    for name in ("1.running_mean", "1.running_var"):
        assert torch.allclose(net.state_dict()[name], loaded.state_dict()[name], atol=1e-6)


@pytest.mark.parametrize(
    "attributes",
    [
        {"pads": [1, 1, 0, 0]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "VALID"},
        {"pads": [1, 0, 1, 0], "group": 2},
        {"strides": [2, 1], "dilations": [1, 2]},
    ],
    ids=str,
)
@pytest.mark.parametrize("bias", [False, True])
def test_convolutions_give_what_onnx_runtime_gives(attributes: dict, bias: bool) -> None:
    group = attributes.get("group", 1)
    constants = {"conv.weight": floats(4, 2 // group, 3, 3)} | ({"conv.bias": floats(4)} if bias else {})
    made = model([node("Conv", f"x {' '.join(constants)}", "y", **attributes)], {"x": [2, 2, 8, 8]}, ["y"], constants)
    loaded = torch.onnx.load(made)
    is_layer = "SAME" not in attributes.get("auto_pad", "") and attributes.get("pads") != [1, 1, 0, 0]
    assert kinds(loaded) == ({"conv": "Conv2d"} if is_layer else {})
    assert set(loaded.state_dict()) == set(constants)
    (expected,) = run_by_onnxruntime(made, image.numpy())
    np.testing.assert_allclose(loaded(image).detach().numpy(), expected, atol=1e-5)


@pytest.mark.parametrize(
    "attributes, message",
    [
        ({"strides": [1]}, "strides needs 2 numbers"),
        ({"strides": [0, 1]}, "must be positive"),
        ({"pads": [1, 1]}, "pads needs 4 numbers"),
        ({"kernel_shape": [2, 2]}, "kernel_shape is"),
    ],
    ids=str,
)
def test_wrong_attributes_of_convolutions_are_errors_of_the_call(attributes: dict, message: str) -> None:
    made = model([node("Conv", "x w", "y", **attributes)], {"x": [2, 2, 8, 8]}, ["y"], {"w": floats(4, 2, 3, 3)})
    with pytest.raises(ValueError, match=message):
        torch.onnx.load(made)(image)


def test_weights_that_the_exporter_renamed_go_where_it_says_the_node_is_from() -> None:
    weights = {"onnx::Conv_1": floats(4, 2, 3, 3), "onnx::Conv_2": floats(4), "onnx::Conv_3": floats(4, 4, 1, 1)}
    weights["body.head.scale"] = floats(4, 1, 1)
    nodes = [
        node("Conv", "x onnx::Conv_1 onnx::Conv_2", "a", name="/body/body.0/Conv"),
        node("Mul", "a body.head.scale", "b", name="/body/head/Mul"),
        node("Conv", "b onnx::Conv_3", "y", name="/body/head/Conv"),
    ]
    loaded = torch.onnx.load(model(nodes, {"x": [2, 2, 8, 8]}, ["y"], weights))
    assert kinds(loaded) == {"body.0": "Conv2d", "onnx__Conv_3": "Conv2d"}  # body.head has names of the file
    nodes[0].name = "node_conv"
    scopes = "['', 'model', 'model.first', 'conv']"
    nodes[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    loaded = torch.onnx.load(model(nodes, {"x": [2, 2, 8, 8]}, ["y"], weights))
    assert kinds(loaded) == {"model.first": "Conv2d", "onnx__Conv_3": "Conv2d"}


@pytest.mark.parametrize("is_stored", [True, False], ids=["as a layer", "as a node"])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_initial_states_have_a_row_for_each_sequence(kind: str, is_stored: bool) -> None:
    """One row serves all sequences. Kernels would read beyond the memory of other numbers of rows."""
    gates, names = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind], ["h", "c"] if kind == "LSTM" else ["h"]
    weights = {"w": floats(1, 4 * gates, 3), "r": floats(1, 4 * gates, 4)}
    options = {"linear_before_reset": 1} if kind == "GRU" else {}
    inputs = {"x": [5, 3, 3]} | {name: None for name in names}
    inputs |= {} if is_stored else {name: list(weight.shape) for name, weight in weights.items()}
    made = node(kind, f"x w r - - {' '.join(names)}", "y", **options)
    made = model([made], inputs, ["y"], weights if is_stored else {}, opset=14)
    loaded, x = torch.onnx.load(made), torch.from_numpy(floats(5, 3, 3))
    others = [] if is_stored else [torch.from_numpy(weight) for weight in weights.values()]

    def run(*shape: int) -> torch.Tensor:
        states = [torch.from_numpy(floats(*shape, seed=number)) for number in range(len(names))]
        return loaded(x, *states, *others)

    states = [torch.from_numpy(floats(1, 1, 4, seed=number)).expand(1, 3, 4) for number in range(len(names))]
    assert torch.equal(run(1, 1, 4), loaded(x, *states, *others))
    for shape in ((1, 2, 4), (1, 7, 4), (1, 3, 5), (2, 3, 4)):
        with pytest.raises(
            ValueError, match=r"an initial state must be \(directions, batch, hidden\), here \(1, 3, 4\)"
        ):
            run(*shape)


def test_a_node_with_a_long_name_loads() -> None:
    made = node("Conv", "x onnx::w", "y", name="/" + "a/" * 100 + "Conv")
    loaded = torch.onnx.load(model([made], {"x": [2, 2, 8, 8]}, ["y"], {"onnx::w": floats(3, 2, 3, 3)}))
    assert kinds(loaded) == {"onnx__w": "Conv2d"}
