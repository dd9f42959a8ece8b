"""Networks that are exported and loaded again: the same results, the same parameters, the same training."""

from __future__ import annotations

import sys

import pytest
import zoo

import numod as torch
from numod import nn

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.onnx


def _leaves(results: object) -> list[torch.Tensor]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


@pytest.mark.parametrize("name", [name for name in zoo.MODELS if name != "alexnet"])
def test_three_steps_of_training(name: str) -> None:
    torch.manual_seed(0)
    net, inputs, loss_of = zoo.MODELS[name](torch)
    loaded = torch.onnx.load(torch.onnx.export(net.eval(), tuple(inputs)).model_proto)
    with torch.no_grad():
        for ours, theirs in zip(_leaves(net(*inputs)), _leaves(loaded(*inputs)), strict=True):
            assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    for model in (net, loaded):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(model(*inputs)).backward()
            optimizer.step()
    parameters = dict(loaded.named_parameters())
    for key, parameter in net.named_parameters():
        assert torch.allclose(parameter, parameters[key], rtol=1e-5, atol=1e-5), key


def test_verify_without_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    program = torch.onnx.export(net, (torch.randn(2, 4),), dynamic_axes={"input": {0: "batch"}}, verify=True)
    x = torch.randn(5, 4)
    assert abs(program(x)[0] - net(x).detach().numpy()).max() < 1e-6
