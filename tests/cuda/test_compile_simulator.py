"""Compiled functions on a CUDA device, in the simulator: the values of eager ones, and chains of pointwise steps as one
kernel.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest

import numod
from numod import nn, optim
from numod.nn import functional as F

pytestmark = [
    pytest.mark.cudasim,
    pytest.mark.cuda,
    pytest.mark.skipif(not numod.cuda.is_available(), reason="needs a GPU, or NUMBA_ENABLE_CUDASIM=1"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def test_a_chain_is_one_kernel() -> None:
    def chain(x: numod.Tensor, y: numod.Tensor) -> tuple[numod.Tensor, numod.Tensor]:
        middle = (x * 2 + 1).tanh() * y
        return middle, (middle - x).relu()

    numod.manual_seed(0)
    x, y = numod.randn(5, 7), numod.randn(7)
    compiled = numod.compile(chain)
    for is_transposed in (False, True, False):
        moved_inputs = [tensor.cuda().t().contiguous().t() if is_transposed else tensor.cuda() for tensor in (x, y)]
        for actual, expected in zip(compiled(*moved_inputs), chain(x, y)):
            assert actual.is_cuda
            np.testing.assert_allclose(actual.cpu().numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    assert "1 launches" in compiled.explain() and "mul_add_tanh" in compiled.explain()


def test_a_training_step() -> None:
    numod.manual_seed(0)
    model, results = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Dropout(0.5), nn.Linear(3, 2)), []
    x, y = numod.randn(5, 4), numod.tensor([0, 1, 1, 0, 1])
    for device in ("cpu", "cuda"):
        network = copy.deepcopy(model).to(device)
        optimizer = optim.Adam(network.parameters(), lr=0.1)

        @numod.compile
        def step(x, y, network=network, optimizer=optimizer):
            optimizer.zero_grad()
            loss = F.nll_loss(network(x).log_softmax(1), y)
            loss.backward()
            optimizer.step()
            return loss

        numod.manual_seed(1)
        results.append(
            [step(x.to(device), y.to(device)).item() for _ in range(3)]
            + [parameter.detach().cpu().numpy() for parameter in network.parameters()]
        )
    for here, there in zip(*results):
        np.testing.assert_allclose(here, there, rtol=1e-4, atol=1e-5)


def test_a_compiled_model_whose_loss_is_outside() -> None:
    """Backward reads what the forward pass left on the device, twice where the graph is kept."""
    numod.manual_seed(0)
    model, x, results = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)), numod.randn(4, 2), []
    for device in ("cpu", "cuda"):
        network = copy.deepcopy(model).to(device)
        forward = numod.compile(network) if device == "cuda" else network
        for _ in range(3):
            loss = forward(x.to(device)).square().mean()
            loss.backward(retain_graph=True)
            loss.backward()
        results.append([parameter.grad.cpu().numpy() for parameter in network.parameters()])
    for here, there in zip(*results):
        np.testing.assert_allclose(here, there, rtol=1e-4, atol=1e-5)


def test_python_s_values_made_on_the_device_are_constants() -> None:
    def function(x: numod.Tensor) -> tuple:
        y = numod.tensor([1.0, 2.0], device="cuda")
        y += x
        z = numod.tensor([3.0, 4.0])
        on_device = z.to("cuda")
        z *= 2.0
        shown = numod.nn.functional.interpolate(x.reshape(1, 1, 2), scale_factor=2, mode="linear")
        return (
            y * numod.tensor(2.0),
            numod.full((2,), 3.0, device="cuda") + on_device,
            shown,
            x * numod.as_tensor([5, 6], device=x.device),
        )

    compiled = numod.compile(function, fullgraph=True)
    for k in range(4):
        x = numod.tensor([float(k), 1.0], device="cuda")
        for actual, expected in zip(compiled(x), function(x)):
            assert actual.is_cuda and actual.tolist() == expected.tolist()

    weight = numod.tensor([1.0, 2.0])  # it may change
    with pytest.raises(RuntimeError, match="copies a tensor to another device"):
        numod.compile(lambda x: x * weight.cuda(), fullgraph=True)(x)
    with pytest.raises(RuntimeError, match="copies a tensor to another device"):
        numod.compile(lambda x: x * (numod.tensor([1.0, 2.0]) + weight).cuda(), fullgraph=True)(x)
