"""The zoo's networks and those of the examples as ONNX models: checked, and run by ONNX Runtime at two batch sizes.

About 20 s on two cores with compiled kernels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import zoo

import numod as torch
from numod import nn
from numod.examples import (
    character_model, classify_digits, fine_tune, learner_digits, serve_over_http, sorting_transformer,
    variational_autoencoder,
)  # fmt: skip

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.onnx

BATCH_DIMENSION = {"lstm_language_model": 1}  # of the others, 0


def _leaves(results: object) -> list[torch.Tensor]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def _larger(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Three times the batch, with other elements."""
    return torch.cat([x, x.flip(dim), x * 2 if x.is_floating_point() else x], dim)


def _agrees_at_two_sizes(net: nn.Module, inputs: tuple, dim: int, tmp_path: object) -> onnx.ModelProto:
    names = [f"x{k}" for k in range(len(inputs))]
    file = tmp_path / "net.onnx"
    program = torch.onnx.export(
        net, inputs, file, input_names=names, dynamic_axes={name: {dim: "batch"} for name in names}, verify=True
    )
    onnx.checker.check_model(file, full_check=True)
    larger = tuple([_larger(x, dim) for x in inputs])
    for size in (larger, tuple([x.narrow(dim, 0, 1) for x in inputs])):
        with torch.no_grad():
            expected = _leaves(net(*size))
        for ours, theirs in zip(expected, program(*size), strict=True):
            assert ours.shape == theirs.shape
            assert np.abs(ours.numpy() - theirs.numpy()).max() < 1e-4
    return program.model_proto


def _check_names(proto: onnx.ModelProto, net: nn.Module) -> None:
    """Initializers have the state dict's names."""
    known = set(net.state_dict())
    parameter_names = [
        initializer.name for initializer in proto.graph.initializer if "constant" not in initializer.name
    ]
    assert parameter_names and set(parameter_names) <= known


@pytest.mark.parametrize("name", [name for name in zoo.MODELS if name not in ("alexnet", "gcn")])
def test_a_network_of_the_zoo(name: str, tmp_path: object) -> None:
    torch.manual_seed(0)
    net, inputs, _ = zoo.MODELS[name](torch)
    net.eval()
    proto = _agrees_at_two_sizes(net, tuple(inputs), BATCH_DIMENSION.get(name, 0), tmp_path)
    _check_names(proto, net)


def test_alexnet() -> None:
    """It has 60 million weights: with a fixed size, and in no file."""
    net, inputs, _ = zoo.MODELS["alexnet"](torch)
    program = torch.onnx.export(net.eval(), tuple(inputs), verify=True)
    operators = [node.op_type for node in program.model_proto.graph.node]
    assert operators.count("Conv") == 5 and operators.count("Gemm") == 3


def test_a_graph_network_with_any_number_of_nodes_and_edges() -> None:
    net, (x, edges), _ = zoo.MODELS["gcn"](torch)
    axes = {"x": {0: "nodes"}, "edges": {1: "edges"}}
    program = torch.onnx.export(net.eval(), (x, edges), input_names=["x", "edges"], dynamic_axes=axes, verify=True)
    onnx.checker.check_model(program.model_proto, full_check=True)
    more = torch.cat([x, x + 1]), torch.cat([edges, edges + 9, edges + 3], 1)
    with torch.no_grad():
        assert np.abs(net(*more).numpy() - program(*more)[0].numpy()).max() < 1e-4


class Means(nn.Module):
    """What the autoencoder makes of an image, without drawing a code."""

    def __init__(self) -> None:
        super().__init__()
        self.model = variational_autoencoder.Autoencoder()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.model.decoder(self.model.encoder(images).chunk(2, dim=-1)[0])


TEXT = torch.tensor([[1, 2, 3], [0, 4, 2]])
EXAMPLES: dict[str, tuple[Callable, tuple]] = {
    "character_model": (lambda: character_model.CharacterModel(5, 8), (TEXT,)),
    "classify_digits": (classify_digits.Network, (torch.ones(2, 1, 8, 8),)),
    "fine_tune": (fine_tune.make_features, (torch.ones(2, 64),)),
    "learner_digits": (lambda: learner_digits.block(1, 4, 2), (torch.ones(2, 1, 8, 8),)),
    "serve_over_http": (lambda: serve_over_http.model, (torch.ones(2, 4),)),
    "sorting_transformer": (lambda: sorting_transformer.Sorter(16, 2, 1), (TEXT,)),
    "variational_autoencoder": (Means, (torch.ones(2, 64),)),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_network_of_the_examples(name: str, tmp_path: object) -> None:
    build, inputs = EXAMPLES[name]
    _agrees_at_two_sizes(build().eval(), inputs, 0, tmp_path)
