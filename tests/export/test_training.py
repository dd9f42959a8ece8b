"""Exported training steps: captured, run by numod and by native code, written to files and read again.

Those with the marker `export` need cc, and for microcontrollers a cross compiler and an emulator.
"""

from __future__ import annotations

import ctypes
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from selection import every

import numod as torch
from numod import nn
from numod.device import helpers
from numod.export import ExportError, aot_compile, export, load, read_state, save
from numod.serialization import load_file, save_file

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


class Net(nn.Module):
    """Buffers that a step writes, and random numbers."""

    def __init__(self, hard: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 3), nn.Linear(3, 1)
        self.middle = nn.Sequential(nn.BatchNorm1d(3), nn.Tanh(), nn.Dropout(0.5)) if hard else nn.Tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.middle(self.first(x)))


def training(kind: str, hard: bool = False, rows: int = 8, **options: float) -> tuple:
    """(network, optimizer, step, inputs)."""
    torch.manual_seed(0)
    net = Net(hard)
    optimizer = getattr(torch.optim, kind)(net.parameters(), lr=0.1, **options)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return net, optimizer, step, (torch.randn(rows, 4), torch.randn(rows, 1))


def losses(step: Callable, inputs: tuple, count: int) -> list[float]:
    return [step(*inputs).item() for _ in range(count)]


def test_capture_leaves_everything_as_it_was() -> None:
    net, optimizer, step, inputs = training("Adam", hard=True)
    before, stream = {name: tensor.clone() for name, tensor in net.state_dict().items()}, torch.get_rng_state()
    captured = export(step, inputs)
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), stream) and not optimizer.state
    assert all(parameter.grad is None for parameter in net.parameters())
    assert {"first.weight", "optimizer.state.0.exp_avg", "optimizer.param_groups.0.lr"} <= captured.state_dict.keys()


@pytest.mark.parametrize("kind, options", every(2, [
    ("SGD", {}), ("SGD", {"momentum": 0.9, "nesterov": True}), ("AdamW", {}),
    ("SGD", {"momentum": 0.9, "dampening": 0.5}), ("NAdam", {}), ("RAdam", {}), ("ASGD", {}),
], others=pytest.mark.fuzz), ids=str)  # fmt: skip
def test_a_loaded_step_trains_as_the_function_does(kind: str, options: dict, tmp_path: Path) -> None:
    net, _, step, inputs = training(kind, **options)
    save(export(step, inputs), tmp_path / "step")
    loaded = load(tmp_path / "step")
    assert np.allclose(losses(loaded.module(), inputs, 7), losses(step, inputs, 7), rtol=1e-5, atol=1e-7)
    state = loaded.state_dict
    assert all(torch.allclose(tensor, state[name], rtol=1e-4, atol=1e-5) for name, tensor in net.state_dict().items())


def test_muon_is_captured_with_its_initial_state() -> None:
    torch.manual_seed(0)
    net, x = nn.Linear(6, 4, bias=False), torch.randn(5, 6)
    optimizer = torch.optim.Muon(net.parameters(), lr=0.02)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    captured = export(step, (x,))
    weight, state = net.weight.detach().clone(), captured.state_dict
    assert not state["optimizer.state.0.momentum_buffer"].any() and torch.equal(state["weight"], weight)
    step(x)
    with torch.no_grad():
        after, net.weight.data = net.weight.clone(), weight
    captured.program(x)
    torch.testing.assert_close(captured.state_dict["weight"].detach(), after.detach(), rtol=1e-6, atol=1e-7)


def test_what_cannot_be_captured_is_in_one_report() -> None:
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def adding(x: torch.Tensor) -> torch.Tensor:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return torch.linalg.inv(x)

    with pytest.raises(ExportError) as caught:
        export(adding, (torch.eye(4),))
    adds, inverse = caught.value.problems
    assert "zero_grad" in adds and "inv is computed by NumPy, with LAPACK" in inverse
    assert all(line.startswith("test_training.py:") for line in (adds, inverse))


@pytest.mark.parametrize("kind", ["LBFGS", "SparseAdam"])
def test_optimizers_that_values_steer_are_named(kind: str) -> None:
    _, _, step, inputs = training(kind)
    with pytest.raises(ExportError, match=f"optimizer: steps of {kind} depend on values"):
        export(step, inputs)


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_the_learning_rate_can_be_an_input(kind: str, tmp_path: Path) -> None:
    def stepping() -> tuple:
        _, optimizer, step, inputs = training(kind)

        def with_rate(x: torch.Tensor, y: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
            for group in optimizer.param_groups:
                group["lr"] = rate
            return step(x, y)

        return optimizer, with_rate, inputs

    optimizer, step, inputs = stepping()
    captured = export(step, (*inputs, torch.tensor(0.3)))
    assert optimizer.param_groups[0]["lr"] == 0.1
    save(captured, tmp_path / "step")
    loaded, (_, eager, _) = load(tmp_path / "step").module(), stepping()
    rates = [torch.tensor(rate) for rate in (0.0, 0.0, 0.2, 0.05, 0.0)]
    got = [loaded(*inputs, rate).item() for rate in rates]
    assert np.allclose(got, [eager(*inputs, rate).item() for rate in rates], rtol=1e-5)
    assert got[0] == got[1] == got[2] != got[3]


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_a_step_may_remove_the_gradients_at_its_end(kind: str) -> None:
    def at_end(optimizer: torch.optim.Optimizer, net: nn.Module) -> Callable:
        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        return step

    options = {"momentum": 0.9, "dampening": 0.5} if kind == "SGD" else {}
    net, optimizer, _, inputs = training(kind, **options)
    captured, (_, _, step, _) = export(at_end(optimizer, net), inputs).module(), training(kind, **options)
    np.testing.assert_allclose(losses(captured, inputs, 6), losses(step, inputs, 6), rtol=1e-5)


def test_learning_rates_that_python_computes_are_refused() -> None:
    _, optimizer, step, inputs = training("SGD")
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)

    def scheduled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = step(x, y)
        scheduler.step()
        return loss

    def computed(x: torch.Tensor, y: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
        optimizer.param_groups[0]["lr"] = rate * 2
        return step(x, y)

    def falling(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.param_groups[0]["lr"] *= 0.9
        return step(x, y)

    with pytest.raises(ExportError, match="the function refers to a StepLR"):
        export(scheduled, inputs)
    with pytest.raises(ExportError, match=r"changes the learning rate of param_groups\[0\]"):
        export(falling, inputs)
    with pytest.raises(RuntimeError, match="takes a step with a rate or metric that the function computes"):
        export(computed, (*inputs, torch.tensor(0.1)))
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_gradients_that_add_up_from_call_to_call_are_refused() -> None:
    net, optimizer, _, (x, _) = training("SGD")

    def step(x: torch.Tensor) -> None:
        net(x).sum().backward()
        optimizer.step()

    with pytest.raises(RuntimeError, match="zero_grad"):
        export(step, (x,))


def test_a_damaged_update_is_refused(tmp_path: Path) -> None:
    from numod.graph.ir.program import Step
    from numod.ops.update import Update
    from numod.serialization.program import load_program, save_program

    _, _, step, inputs = training("SGD")
    program = export(step, inputs).program
    number = next(k for k, step in enumerate(program.steps) if isinstance(step, Step) and isinstance(step.op, Update))
    update = program.steps[number]
    for inputs_, parameters, results in (
        (update.inputs[:-1], update.attributes, update.results),
        (update.inputs, (None, 0, (0.0, 0.0)), update.results),
        (update.inputs, update.attributes, update.results[::-1]),
        ((*update.inputs[:-2], update.inputs[0], 0.0), update.attributes, update.results),
    ):
        program.steps[number] = Step(update.op, inputs_, parameters, results, True, update.location)
        save_program(program, tmp_path / "bad")
        with pytest.raises(ValueError, match="step"):
            load_program(tmp_path / "bad")


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@needs_cc
@pytest.mark.export
@pytest.mark.parametrize("kind, hard, weights", [("SGD", False, "embedded"), ("Adam", True, "file")])
def test_native_steps_are_those_of_compile_bit_by_bit(kind: str, hard: bool, weights: str, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        net, optimizer, step, inputs = training(kind, hard)
        fast = torch.compile(step)
        losses(fast, inputs, 4)
        artifact = aot_compile(export(step, inputs), tmp_path, weights=weights)
        library = ctypes.CDLL(str(artifact.path("native")))
        state = np.zeros(artifact.weights_bytes // 8 + 1, np.int64)
        arena = np.zeros(artifact.arena_bytes // 8 + 1, np.int64)
        if weights == "embedded":
            assert library.net_state_init(pointer(state)) == 0
        else:
            assert library.net_state_init(pointer(state)) == 1
            data = (tmp_path / "net.safetensors").read_bytes()
            data = data[8 + int.from_bytes(data[:8], "little") :]
            state.view(np.uint8)[: len(data)] = np.frombuffer(data, np.uint8)
        loss, got = np.zeros((), np.float32), []
        arrays = [pointer(array) for array in (*(input.numpy() for input in inputs), loss)]
        for _ in range(30):
            assert library.net_run(pointer(state), pointer(arena), ctypes.c_size_t(arena.nbytes), *arrays) == 0
            got.append(loss.item())
        assert got == losses(fast, inputs, 30)
    finally:
        torch.set_num_threads(threads)
    assert library.net_run(None, pointer(arena), ctypes.c_size_t(arena.nbytes), *arrays) == 1

    library.net_state_header.restype, size = ctypes.c_void_p, ctypes.c_size_t()
    header = ctypes.string_at(library.net_state_header(ctypes.byref(size)), size.value)
    (tmp_path / "after.safetensors").write_bytes(header + state.tobytes()[: artifact.weights_bytes])
    read = read_state(tmp_path / "after.safetensors")
    want = {name: tensor.clone() for name, tensor in net.state_dict().items() if name in read["net"]}
    assert want.keys() >= {"first.weight", "last.bias"}
    assert all(torch.equal(tensor, read["net"][name]) for name, tensor in want.items())
    net.load_state_dict(read["net"], strict=False)
    optimizer.load_state_dict(read["optimizer"])
    if kind == "Adam":
        assert optimizer.state[net.first.weight]["step"] == 34 and optimizer.state[net.last.bias]["step"] == 34
        assert load_file(tmp_path / "after.safetensors")["generator"][1].item() > 0
    assert step(*inputs).item() == pytest.approx(fast(*inputs).item(), rel=0.5)


@needs_cc
@pytest.mark.export
def test_a_step_for_microcontrollers_is_small_and_needs_nothing(tmp_path: Path) -> None:
    _, _, step, inputs = training("SGD", rows=1)
    names = ("cortex-m0", "cortex-m4", "riscv32", "windows-x86-64")
    artifact = aot_compile(export(step, inputs), tmp_path, targets=names, optimize="size")
    for name in names[:3]:
        code = artifact.path(name, library=False).read_bytes()
        assert not helpers.undefined_symbols(code), name
    windows = artifact.path("windows-x86-64", library=False).read_bytes()
    assert helpers.undefined_symbols(windows) <= helpers.MEMORY | helpers.MATH
    assert len(artifact.path("cortex-m4", library=False).read_bytes()) < 12_000  # with the object file's tables


def test_read_state_leaves_non_persistent_buffers_out(tmp_path: Path) -> None:
    net = nn.Linear(2, 2)
    net.register_buffer("mask", torch.ones(2), persistent=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = (net(x) * net.mask).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    program = export(step, (torch.ones(1, 2),))
    assert "mask" in program.constants and "mask" not in program.state_dict
    save_file(program.named_tensors(), tmp_path / "net.safetensors", {"numod.state": json.dumps(program.state)})
    net.load_state_dict(read_state(tmp_path / "net.safetensors")["net"])
    save(program, tmp_path / "step.pt2")
    assert load(tmp_path / "step.pt2").state == program.state
