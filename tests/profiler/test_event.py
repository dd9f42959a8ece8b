"""What the profiler finds: nested slices, gradients with their forward ops, memory, on every thread; and times that add
up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from profiled import Net, ancestors, find, training_step

import numod
from numod import nn
from numod.profiler import profile
from numod.profiler.report import kinds
from numod.utils.data import DataLoader, TensorDataset


def test_slices_nest_from_the_users_own_down_to_the_kernel(profiled: profile) -> None:
    (convolution,) = find(profiled, "numod::convolution")
    (kernel,) = [cpu_child for cpu_child in convolution.cpu_children if cpu_child.category == "kernel"]
    assert ancestors(kernel)[1:] == [
        "numod::convolution", "nn.Module: net.layer1.conv", "nn.Module: net.layer1", "nn.Module: net", "training",
        "profile",
    ]  # fmt: skip
    assert "convolution" in kernel.name


def test_every_slice_lies_inside_its_parent(profiled: profile) -> None:
    for event in profiled.events():
        assert event.self_duration >= 0
        for inner in event.cpu_children:
            assert event.start <= inner.start <= inner.end <= event.end and inner.cpu_parent is event


def test_self_times_add_up_to_the_wall_time() -> None:
    step = training_step()
    before = time.perf_counter()
    with profile() as prof:
        start = time.perf_counter()
        for _ in range(20):
            step()
        inside = 1e6 * (time.perf_counter() - start)
    around = 1e6 * (time.perf_counter() - before)
    total = sum(key_average.self_cpu_time_total for key_average in prof.key_averages())
    (whole,) = find(prof, "profile")
    assert inside <= total <= around
    assert total == pytest.approx(whole.cpu_time_total, rel=1e-6) == pytest.approx(prof.events().self_cpu_time_total)
    assert sum(microseconds for _, microseconds in kinds(prof.events())) == pytest.approx(total)


def test_time_outside_of_ops_counts_as_python() -> None:
    with profile() as prof:
        start = time.perf_counter()
        sum(range(100_000))
        inside = 1e6 * (time.perf_counter() - start)
    assert dict(kinds(prof.events()))["Python"] >= inside


def test_gradients_belong_to_their_op_its_module_and_its_line(profiled: profile) -> None:
    (convolution,) = find(profiled, "numod::convolution")
    (gradient,) = find(profiled, "ConvolutionBackward0")
    assert gradient.forward is convolution and gradient.module == convolution.module == "net.layer1.conv"
    assert gradient.sequence_nr == convolution.sequence_nr > 0
    assert "profiled.py" in gradient.stack[0] and gradient.stack == convolution.stack
    assert ancestors(gradient)[1:] == ["backward", "training", "profile"]
    weight = next(event for event in profiled.events() if event.name == "numod::convolution_weight")
    assert weight.module == "net.layer1.conv"


class Doubled(numod.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: numod.Tensor) -> numod.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: object, gradient: numod.Tensor) -> numod.Tensor:
        return gradient * 2


class Doubling(nn.Module):
    def forward(self, x: numod.Tensor) -> numod.Tensor:
        return Doubled.apply(x)


def test_gradients_of_the_users_own_functions_belong_to_them() -> None:
    net, x = nn.Sequential(Doubling()), numod.ones(3, requires_grad=True)
    with profile(with_stack=True) as prof:
        net(x).sum().backward()
    ((forward,), (gradient,)) = find(prof, "Doubled"), find(prof, "DoubledBackward")
    assert (
        gradient.forward is forward
        and gradient.module == forward.module == "net.0"
        and forward.sequence_nr == gradient.sequence_nr > 0
    )
    assert gradient.stack == forward.stack and "test_event.py" in forward.stack[0]
    ops = [cpu_child.name for cpu_child in forward.cpu_children if cpu_child.category != "gc"]
    assert ops == ["numod::mul"]


def test_gradients_of_what_was_written_in_place() -> None:
    x = numod.ones(4, requires_grad=True)
    with profile() as prof:
        y = x * 1.0
        y.sin_()
        y[:2].cos_()
        y.sum().backward()
    ((sin,), (cos,)) = find(prof, "numod::sin"), find(prof, "numod::cos")[:1]
    ((gradient,), (part,)) = find(prof, "SinBackward0"), find(prof, "CopySlices")
    assert gradient.forward is sin and part.forward is cos


def profiled_threads(call: Callable) -> profile:
    """50 calls on each of three threads, of which one is this."""
    together = threading.Barrier(3)  # numbers of threads that have ended are used again

    def work() -> None:
        together.wait(timeout=60)
        for _ in range(50):
            call()
        together.wait(timeout=60)

    with profile() as prof:
        with ThreadPoolExecutor(2) as pool:
            others = [pool.submit(work) for _ in range(2)]
            work()
        assert [other.result() for other in others] == [None, None]
    return prof


def test_ops_know_their_nodes_on_every_thread() -> None:
    prof = profiled_threads(lambda: numod.ones(3, requires_grad=True).exp().sum().backward())
    gradients = find(prof, "ExpBackward0")
    assert len(gradients) == 150 and all(
        gradient.forward.name == "numod::exp" and gradient.forward.thread == gradient.thread for gradient in gradients
    )


def test_other_threads_have_slices_of_their_own() -> None:
    prof = profiled_threads(lambda: numod.ones(3).exp())
    exps = find(prof, "numod::exp")
    assert len(exps) == 150 and len({exp.thread for exp in exps}) == 3
    assert all(event.cpu_parent is None or event.cpu_parent.thread == event.thread for event in prof.events())


def test_a_module_reached_through_another_is_found_by_its_path() -> None:
    net = Net()
    with profile() as prof:
        net.layer1(numod.randn(1, 1, 8, 8))
    assert {event.module for event in prof.events() if event.category == "module"} == {"net.layer1", "net.layer1.conv"}


def test_optimizer_steps_have_pytorchs_names(profiled: profile) -> None:
    assert (
        len(find(profiled, "Optimizer.step#SGD.step")) == len(find(profiled, "Optimizer.zero_grad#SGD.zero_grad")) == 1
    )
    (update,) = find(profiled, "numod::sgd_momentum")
    assert ancestors(update)[1] == "Optimizer.step#SGD.step"


def test_loading_data_is_a_slice() -> None:
    loader = DataLoader(TensorDataset(numod.arange(6.0)), batch_size=2)
    with profile() as prof:
        batches = list(loader)
    # the last finds the end
    assert (
        len(batches) == 3
        and len([event for event in prof.events() if event.name.startswith("enumerate(DataLoader)#")]) == 4
    )


def test_shapes_and_memory(profiled: profile) -> None:
    (convolution,) = find(profiled, "numod::convolution")
    assert convolution.input_shapes == [[4, 1, 8, 8], [2, 1, 3, 3]]
    assert convolution.self_cpu_memory_usage == 4 * 4 * 2 * 6 * 6
    (whole,) = find(profiled, "profile")
    assert whole.cpu_memory_usage == sum(change.size for change in profiled.memory())


def test_memory_that_is_freed_is_counted_off() -> None:
    with profile(profile_memory=True) as prof:
        x = numod.zeros(1000)
        del x
    assert [change.size for change in prof.memory()] == [4000, -4000]


def test_memory_of_ops_made_of_ops_is_counted_once() -> None:
    x = numod.ones(4, 4, dtype=numod.float16)
    for _ in range(2):
        with profile(profile_memory=True) as prof:
            y = x @ x
    changes = [change.size for change in prof.memory()]
    assert sorted(changes) == [-64, -64, -64, 32, 64, 64, 64] and sum(changes) == y.nbytes == sum(
        event.self_cpu_memory_usage for event in prof.events()
    )
