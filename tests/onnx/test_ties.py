"""Tensors that an exporter stored once because they are equal: each layer trains its own."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_models import floats, model, node

import numod

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.onnx
ZEROS, ONES = np.zeros(3, np.float32), np.ones(3, np.float32)


def norm(x: str, names: str, y: str, scope: str = "") -> object:
    made = node("BatchNormalization", f"{x} {names}", y)
    if scope:
        made.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=str(["", scope, "batch_norm"]))
    return made


def stored_once(form: str) -> object:
    """Two batch norms of a new network, whose weights are equal, as the two exporters of PyTorch write them."""
    tensors = {"a.weight": ONES, "a.bias": ZEROS}
    if form == "aliases":
        names = {f"{path}.{leaf}" for path in "ab" for leaf in ("weight", "bias", "running_mean", "running_var")}
        aliases = [
            node("Identity", "a.weight" if name.endswith(("weight", "var")) else "a.bias", name)
            for name in sorted(names - set(tensors))
        ]
        norms = [
            norm(x, f"{path}.weight {path}.bias {path}.running_mean {path}.running_var", y)
            for path, x, y in (("a", "x", "h"), ("b", "h", "y"))
        ]
        return model([*aliases, *norms], {"x": [4, 3, 5]}, ["y"], tensors)
    shared = "a.weight a.bias a.bias a.weight"
    scopes = ("a", "b") if form == "scopes" else ("", "")
    return model(
        [norm("x", shared, "h", scopes[0]), norm("h", shared, "y", scopes[1])], {"x": [4, 3, 5]}, ["y"], tensors
    )


def train(net: numod.nn.Module, x: numod.Tensor) -> numod.Tensor:
    net.train()
    optimizer = numod.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        ((net(x) - 1) ** 2).mean().backward()
        optimizer.step()
    return net.eval()(x)


@pytest.mark.parametrize("form", ["aliases", "scopes"])
def test_batch_norms_with_equal_weights_train_as_the_original(form: str) -> None:
    loaded, x = numod.onnx.load(stored_once(form)), numod.from_numpy(floats(4, 3, 5))
    original = numod.nn.Sequential(numod.nn.BatchNorm1d(3), numod.nn.BatchNorm1d(3))
    assert numod.allclose(loaded(x), original.eval()(x), atol=1e-6)
    assert numod.allclose(train(loaded, x), train(original, x), atol=1e-5)
    assert numod.allclose(loaded.b.running_mean, original[1].running_mean, atol=1e-5)
    assert sorted(loaded.state_dict()) == sorted(
        f"{path}.{leaf}" for path in "ab" for leaf in ("weight", "bias", "running_mean", "running_var")
    )


def test_statistics_share_memory_with_no_weight() -> None:
    """In files that do not say from which modules the nodes are."""
    loaded, x = numod.onnx.load(stored_once("plain")), numod.from_numpy(floats(4, 3, 5))
    train(loaded, x)
    assert sorted(name for name, _ in loaded.named_parameters()) == ["a.bias", "a.weight"]


def test_a_layer_that_is_called_twice_has_one_set_of_tensors() -> None:
    tensors = {"a.weight": ONES, "a.bias": ZEROS, "a.running_mean": ZEROS, "a.running_var": ONES}
    shared = " ".join(tensors)
    made = model([norm("x", shared, "h", "a"), norm("h", shared, "y", "a")], {"x": [4, 3, 5]}, ["y"], tensors)
    loaded = numod.onnx.load(made)
    assert sorted(loaded.state_dict()) == sorted(tensors) and len(list(loaded.parameters())) == 2


def test_shared_matrices_stay_shared() -> None:
    """They are shared on purpose: an embedding that is the weight of the last layer, too."""
    nodes = [node("Gemm", "x w.weight", "h"), node("Gemm", "h w.weight", "y")]
    for made, scope in zip(nodes, "wh"):
        made.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=str(["", scope, "linear"]))
    loaded = numod.onnx.load(model(nodes, {"x": [2, 3]}, ["y"], {"w.weight": floats(3, 3)}))
    assert [name for name, _ in loaded.named_parameters()] == ["w.weight"]


def test_an_alias_that_is_an_output_stays_a_step() -> None:
    loaded = numod.onnx.load(
        model([node("Identity", "w", "out.put"), node("Add", "x w", "y")], {"x": [3]}, ["y", "out.put"], {"w": ONES})
    )
    assert [result.tolist() for result in loaded(numod.zeros(3))] == [[1, 1, 1]] * 2
