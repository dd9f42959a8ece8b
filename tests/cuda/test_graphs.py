"""Compiled functions whose kernels are started as one of the driver's graphs, by `ptx_machine`, which runs those that
need not wait for each other in turned order.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import numod
from numod import config, graph, nn, optim
from numod.nn import functional as F

pytest.importorskip("numba_cuda", reason="needs the extra: pip install -e '.[cuda]'")
from ptx_machine import Machine

pytestmark = [
    pytest.mark.ptx,
    pytest.mark.skipif(config.cuda_simulator(), reason="the simulator has no driver"),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.usefixtures("machine"),
]


def trained(device: str, wrap: Callable) -> tuple[list, dict]:
    """Losses, the first weight's gradients, and the state after eight steps at changing rates, on changing memory."""
    numod.manual_seed(0)
    layers = (
        nn.Conv2d(1, 2, 3, bias=False),
        nn.BatchNorm2d(2),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(18, 7),
        nn.Tanh(),
        nn.Linear(7, 3),
    )
    model = nn.Sequential(*layers).to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    x, target = numod.randn(4, 1, 5, 5).to(device), numod.tensor([0, 2, 1, 1]).to(device)

    @wrap
    def step(x: numod.Tensor, target: numod.Tensor) -> numod.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    losses = []
    for k in range(8):
        optimizer.param_groups[0]["lr"] = 0.05 / (k + 1) if k != 4 else -0.0
        loss = step(x if k % 2 else x.clone(), target)
        losses.append((loss, model[0].weight.grad))  # which must stay as they are
    return [(loss.item(), gradient.tolist()) for loss, gradient in losses], {
        name: tensor.cpu().numpy() for name, tensor in model.state_dict().items()
    }


def test_a_step_is_one_graph_that_is_told_only_what_changes(machine: Machine) -> None:
    expected, state = trained("cpu", lambda step: step)
    before, made = machine.calls.copy(), []
    actual, replayed = trained("cuda", lambda step: made.append(numod.compile(step)) or made[0])
    calls = machine.calls - before
    for (loss, gradient), (other, slope) in zip(expected, actual):
        np.testing.assert_allclose(other, loss, rtol=1e-5)
        np.testing.assert_allclose(slope, gradient, rtol=1e-3, atol=1e-5)
    for name, tensor in state.items():
        np.testing.assert_allclose(replayed[name], tensor, rtol=1e-4, atol=1e-5, err_msg=name)
    kernels = calls["cuGraphAddKernelNode"] // calls["cuGraphInstantiateWithFlags"]
    assert f"{kernels} launches as one graph" in made[0].explain()
    assert calls["cuGraphInstantiateWithFlags"] == 4 and calls["cuGraphLaunch"] == 6  # as all results are kept here
    assert calls["cuGraphExecKernelNodeSetParams"] < calls["cuGraphLaunch"] * kernels / 3


def test_memory_that_comes_again_is_not_told_again(machine: Machine) -> None:
    model = nn.Sequential(*[layer for _ in range(3) for layer in (nn.Linear(4, 4), nn.Tanh())]).cuda()
    optimizer, x = optim.SGD(model.parameters(), lr=0.1, momentum=0.9), numod.randn(3, 4, device="cuda")

    @numod.compile
    def step(x: numod.Tensor) -> numod.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(8):
        loss = step(x)  # while the last one, and its gradients, are still there
    before = machine.calls.copy()
    for _ in range(6):
        loss = step(x)
    calls = machine.calls - before
    assert (
        calls["cuGraphLaunch"] == 6
        and not calls["cuGraphExecKernelNodeSetParams"]
        and not calls["cuGraphInstantiateWithFlags"]
    )
    assert loss.isfinite()


def test_memory_that_several_tensors_hold(machine: Machine) -> None:
    b = numod.arange(12.0, device="cuda")
    bits, bits_on_host = b.view(numod.int32), b.detach().view(numod.int32)  # storages of their own over its memory

    def function(x: numod.Tensor, y: numod.Tensor) -> tuple:
        b.add_(x.cumsum(0))
        c = bits.cumsum(0)
        bits.fill_(0)
        d = b.cumsum(0)
        y.fill_(7)
        return c, d, b.sum(), bits.cumsum(0)

    x, results, compiled = numod.ones(12, device="cuda"), [], numod.compile(function)
    for call in (function, compiled):
        b.copy_(numod.arange(12.0))
        results.append([[tensor.tolist() for tensor in call(x, bits_on_host)] for _ in range(4)])
    assert results[0] == results[1]


def test_without_room_for_a_graph_kernels_run_in_turn(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    x, layer = numod.ones(3, 4, device="cuda"), nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2)).cuda()
    step = numod.compile(lambda x: layer(x).softmax(1).cumsum(0))
    with numod.no_grad():
        for _ in range(3):
            numod.manual_seed(1), step(x)
        monkeypatch.setattr(
            x.device.backend, "graph", lambda *_: (_ for _ in ()).throw(RuntimeError("CUDA error: out of memory"))
        )
        earlier = []
        for _ in range(5):  # other memory each time
            numod.manual_seed(1)
            earlier.append(step(x))
        numod.manual_seed(1)
        expected = step.function(x).tolist()
    assert all(tensor.tolist() == expected for tensor in earlier)


def test_kernels_of_one_graph_wait_for_what_they_read_and_overwrite(machine: Machine) -> None:
    x, y = numod.arange(6.0, device="cuda"), numod.ones(6, device="cuda")

    @numod.compile
    def chain(x: numod.Tensor, y: numod.Tensor) -> tuple:
        y.add_(x.sum())  # a read, a write, and reads and writes behind it
        a = y.cumsum(0)
        y.mul_(a.max())
        x.sub_(y.sum())
        return a, x * y, y.flip(0).sum()

    expected = [(a.cpu(), b.cpu(), c.cpu()) for a, b, c in [chain.function(x.clone(), y.clone())]]
    for _ in range(4):
        actual = chain(x.clone(), y.clone())
        assert all(a.tolist() == b.tolist() for a, b in zip(expected[0], actual))
    assert "as one graph" in chain.explain()


def test_models_whose_loss_is_outside(machine: Machine) -> None:
    numod.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)).cuda()
    compiled, before = numod.compile(model), machine.calls.copy()
    for _ in range(4):
        x = numod.randn(5, 3, device="cuda", requires_grad=True)
        slopes = []
        for callee in (compiled, model):
            model.zero_grad()
            callee(x).square().sum().backward()
            slopes.append([x.grad.tolist(), *(parameter.grad.tolist() for parameter in model.parameters())])
            x.grad = None
        for a, b in zip(*slopes):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert 2 <= (machine.calls - before)["cuGraphInstantiateWithFlags"] <= 6  # forward and backward


def test_threads_and_streams_share_no_memory(machine: Machine) -> None:
    weight = numod.randn(4, 4, device="cuda")

    @numod.compile
    def function(x: numod.Tensor) -> numod.Tensor:
        return ((x @ weight).softmax(1) @ weight).cumsum(0)

    def use(k: int) -> bool:
        x = numod.full((3, 4), float(k), device="cuda")
        with numod.cuda.stream(numod.cuda.Stream() if k % 2 else numod.cuda.default_stream()):
            return all(function(x).tolist() == function.function(x).tolist() for _ in range(3))

    assert use(0) and use(1)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(use, range(8)))


def test_separate_launches_on_request_or_when_timed(machine: Machine) -> None:
    x = numod.ones(3, 4, device="cuda")

    def function(x: numod.Tensor) -> numod.Tensor:
        return (x.cumsum(0) @ x.T).softmax(1).sum(0)

    for options in ({"linked": False}, {}):
        compiled, before = numod.compile(function, options=options), machine.calls.copy()
        with numod.profiler.profile(with_jit=True):
            compiled(x), compiled(x), compiled(x)
        assert not (machine.calls - before)["cuGraphLaunch"]
        assert compiled(x).tolist() == compiled(x).tolist() == function(x).tolist()
        assert bool((machine.calls - before)["cuGraphLaunch"]) is not bool(options)
    with numod.profiler.profile(with_jit=True) as prof:
        made = graph.Executable(graph.trace(function, x))
        compiled(x), made(x)
    assert made(x).tolist() == function(x).tolist()
    assert any("cumsum" in kernel.kernel.name for kernel in prof.kernels())
