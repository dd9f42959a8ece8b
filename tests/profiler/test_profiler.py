"""The profiler: structure of what it finds, totals that add up, operations counted, kernels compiled and loaded, nothing left behind."""

from __future__ import annotations

import ctypes
import gzip
import json
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import numod
import numod.nn.functional as F
from numod import nn, optim
from numod.autograd import engine
from numod.core import apply as waist
from numod.kernel import bind, build, inspection
from numod.ops.op import Op
from numod.profiler import JitDump, ProfilerAction, ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler, write_perf_map
from numod.profiler import perf_map
from numod.profiler.recorder import recorder
from numod.profiler.report import kinds
from numod.utils import summary
from numod.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        return self.conv(x).relu()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer1 = Block()
        self.head = nn.Linear(72, 3)

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        return self.head(self.layer1(x).flatten(1))


def training_step() -> Callable[[], None]:
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x, y = numod.randn(4, 1, 8, 8), numod.tensor([0, 1, 2, 0])

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

    step()
    return step


@pytest.fixture(scope="module")
def profiled() -> profile:
    """A training step of `net`, profiled with everything on."""
    step = training_step()
    with profile(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True, with_jit=True) as prof:
        with record_function("training"):
            step()
    return prof


def find(prof: profile, name: str) -> list:
    return [each for each in prof.events() if each.name == name]


def ancestors(event: object) -> list[str]:
    return [event.name, *ancestors(event.cpu_parent)] if event.cpu_parent is not None else [event.name]


# ---- structure


def test_slices_nest_from_the_users_own_down_to_the_kernel(profiled: profile) -> None:
    (convolution,) = find(profiled, "numod::convolution")
    (kernel,) = [each for each in convolution.cpu_children if each.category == "kernel"]
    assert ancestors(kernel)[1:] == [
        "numod::convolution", "nn.Module: net.layer1.conv", "nn.Module: net.layer1", "nn.Module: net", "training", "profile",
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
    total = sum(each.self_cpu_time_total for each in prof.key_averages())
    (whole,) = find(prof, "profile")
    assert inside <= total <= around
    assert total == pytest.approx(whole.cpu_time_total, rel=1e-6) == pytest.approx(prof.events().self_cpu_time_total)
    assert sum(microseconds for _, microseconds in kinds(prof.events())) == pytest.approx(total)


def test_what_is_outside_of_ops_is_pythons_time() -> None:
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
    assert "test_profiler.py" in gradient.stack[0] and gradient.stack == convolution.stack
    assert ancestors(gradient)[1:] == ["backward", "training", "profile"]
    weight = next(each for each in profiled.events() if each.name == "numod::convolution_weight")
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
    assert gradient.forward is forward and gradient.module == forward.module == "net.0" and forward.sequence_nr == gradient.sequence_nr > 0
    assert gradient.stack == forward.stack and "test_profiler.py" in forward.stack[0]
    assert [each.name for each in forward.cpu_children] == ["numod::mul"]


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


def test_ops_know_their_nodes_on_every_thread() -> None:
    together = threading.Barrier(3)

    def work() -> None:
        together.wait(timeout=60)
        for _ in range(50):
            numod.ones(3, requires_grad=True).exp().sum().backward()
        together.wait(timeout=60)

    with profile() as prof:
        threads = [threading.Thread(target=work) for _ in range(2)]
        for each in threads:
            each.start()
        work()
        for each in threads:
            each.join()
    gradients = find(prof, "ExpBackward0")
    assert len(gradients) == 150 and all(each.forward.name == "numod::exp" and each.forward.thread == each.thread for each in gradients)


def test_optimizer_steps_have_pytorchs_names(profiled: profile) -> None:
    assert len(find(profiled, "Optimizer.step#SGD.step")) == len(find(profiled, "Optimizer.zero_grad#SGD.zero_grad")) == 1
    (update,) = find(profiled, "numod::sgd_momentum")
    assert ancestors(update)[1] == "Optimizer.step#SGD.step"


def test_shapes_and_memory(profiled: profile) -> None:
    (convolution,) = find(profiled, "numod::convolution")
    assert convolution.input_shapes == [[4, 1, 8, 8], [2, 1, 3, 3]]
    assert convolution.self_cpu_memory_usage == 4 * 4 * 2 * 6 * 6
    (whole,) = find(profiled, "profile")
    assert whole.cpu_memory_usage == sum(each.size for each in profiled.memory())


def test_memory_that_is_freed_is_counted_off() -> None:
    with profile(profile_memory=True) as prof:
        x = numod.zeros(1000)
        del x
    assert [each.size for each in prof.memory()] == [4000, -4000]


def test_memory_of_ops_made_of_ops_is_counted_once() -> None:
    x = numod.ones(4, 4, dtype=numod.float16)
    for _ in range(2):
        with profile(profile_memory=True) as prof:
            y = x @ x
    changes = [each.size for each in prof.memory()]
    assert sorted(changes) == [-64, -64, -64, 32, 64, 64, 64] and sum(changes) == y.nbytes == sum(each.self_cpu_memory_usage for each in prof.events())


def test_a_module_reached_through_another_is_found_by_its_path() -> None:
    net = Net()
    with profile() as prof:
        net.layer1(numod.randn(1, 1, 8, 8))
    assert {each.module for each in prof.events() if each.category == "module"} == {"net.layer1", "net.layer1.conv"}


def test_other_threads_have_slices_of_their_own() -> None:
    together = threading.Barrier(3)  # numbers of threads that have ended are used again

    def work() -> None:
        together.wait(timeout=60)
        for _ in range(50):
            numod.ones(3).exp()
        together.wait(timeout=60)

    with profile() as prof:
        threads = [threading.Thread(target=work) for _ in range(2)]
        for each in threads:
            each.start()
        work()
        for each in threads:
            each.join()
    exps = find(prof, "numod::exp")
    assert len(exps) == 150 and len({each.thread for each in exps}) == 3
    assert all(each.cpu_parent is None or each.cpu_parent.thread == each.thread for each in prof.events())


def test_an_error_passes_through() -> None:
    with profile() as prof:
        with pytest.raises(RuntimeError, match="inner sizes differ"):
            nn.Linear(3, 4)(numod.ones(2, 5))
        numod.ones(2).exp()
    assert len(find(prof, "numod::exp")) == 1


def test_results_are_the_same() -> None:
    x = numod.randn(5, 6, requires_grad=True)

    def compute() -> tuple[numod.Tensor, numod.Tensor]:
        out = (x.sort(1)[0].softmax(1) @ x.t()).sum()
        return out, numod.autograd.grad(out, x)[0]

    expected = compute()
    with profile(with_jit=True, profile_memory=True, with_flops=True, with_stack=True):
        found = compute()
    assert all(numod.equal(a, b) for a, b in zip(expected, found))


# ---- the recorder


def test_notes_are_kept_in_order_and_given_once() -> None:
    clock, note, take, _ = recorder()
    take()
    begin, thing = clock(), object()
    references = sys.getrefcount(thing)
    for k in range(10_000):  # more than the first piece of memory holds
        note(k, "op", thing, None, k + 1)
    note(begin, "user", "mine", 7)
    assert sys.getrefcount(thing) == references + 10_000
    notes = take()
    assert notes[:12] == [0, 1, threading.get_ident(), "op", thing, None, 1, 2, threading.get_ident(), "op", thing, None]
    assert len(notes) == 6 * 10_001 and notes[-6] == begin <= notes[-5] <= time.perf_counter_ns() and notes[-4:] == [threading.get_ident(), "user", "mine", 7]
    del notes
    assert sys.getrefcount(thing) == references and take() == []


def test_a_place_is_a_stack_of_calls() -> None:
    *_, place = recorder()

    def here() -> int:
        return place()

    def there() -> int:
        return here()

    found = [(here(), there(), place()) for _ in range(3)]
    assert len({each for row in found for each in row}) == 3
    assert len({there() for _ in range(3)} | {there()}) == 2  # another line


# ---- nothing is left behind


def test_off_is_as_if_it_had_never_been_on() -> None:
    before = (waist.apply.__code__, waist.apply_into.__code__, waist.apply_updates.__code__, engine._walk, nn.Module.__call__, bind._built, numod.Tensor.item.__code__, Op.plan.__code__, waist.record)
    step = training_step()
    runs = lambda: [plan.run for plan in numod.ops.table.relu.plans.values() if getattr(plan, "run", None) is not None]  # noqa: E731  plans in place have none
    kernels = {id(cell.cell_contents) for run in runs() for cell in run.__closure__ or ()}
    with profile(with_jit=True):
        assert waist.apply.__code__ is not before[0]
        step()
    assert (waist.apply.__code__, waist.apply_into.__code__, waist.apply_updates.__code__, engine._walk, nn.Module.__call__, bind._built, numod.Tensor.item.__code__, Op.plan.__code__, waist.record) == before
    assert kernels <= {id(cell.cell_contents) for run in runs() for cell in run.__closure__ or ()}
    step()


def test_two_at_once_are_refused() -> None:
    with profile(), pytest.raises(RuntimeError, match="another profiler is on"):
        profile().start()
    with profile():
        pass


def test_record_function_without_a_profiler_does_nothing() -> None:
    @record_function("twice")
    def twice(x: float) -> float:
        return 2 * x

    assert twice(2.0) == 4.0
    with profile() as prof:
        assert twice(3.0) == 6.0
    assert len(find(prof, "twice")) == 1 and find(prof, "twice")[0].is_user_annotation


# ---- flops


LENET = 28 * 28 * 6 * 25 + 10 * 10 * 16 * 6 * 25 + 400 * 120 + 120 * 84 + 84 * 10  # multiply-adds


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def test_multiply_adds_of_lenet() -> None:
    net = lenet()
    with profile(with_flops=True) as prof, numod.no_grad():
        net(numod.randn(1, 1, 28, 28))
    assert sum(each.multiply_adds for each in prof.events()) == LENET == 416_520
    assert prof.key_averages().total_average().multiply_adds == LENET


def test_gradients_of_lenet_cost_twice_its_forward_but_for_the_first_input() -> None:
    net = lenet()
    with profile(with_flops=True) as prof:
        net(numod.randn(1, 1, 28, 28)).sum().backward()
    assert sum(each.multiply_adds for each in prof.events()) == 3 * LENET - 28 * 28 * 6 * 25


@pytest.mark.parametrize(("size", "batch"), [(4, 1), (6, 5), (300, 70)])
def test_gradients_of_linear_layers_of_every_size_are_counted(size: int, batch: int) -> None:
    net = nn.Sequential(nn.Linear(size, size), nn.Linear(size, size))
    with profile(with_flops=True) as prof:
        net(numod.randn(batch, size)).sum().backward()
    assert sum(each.multiply_adds for each in prof.events()) == 5 * batch * size * size


@pytest.mark.parametrize(("layer", "gates"), [(nn.RNN, 1), (nn.GRU, 3), (nn.LSTM, 4)])
def test_gradients_of_recurrent_layers_cost_twice_their_forward(layer: type, gates: int) -> None:
    rows, size, hidden = 5 * 3, 4, 8
    net = layer(size, hidden)
    with profile(with_flops=True) as prof:
        net(numod.randn(5, 3, size))[0].sum().backward()
    assert sum(each.multiply_adds for each in prof.events()) == rows * gates * hidden * (2 * size + 3 * hidden)


def test_multiply_adds_of_alexnet() -> None:
    convolutions = ((3, 64, 11, 4, 2), (64, 192, 5, 1, 2), (192, 384, 3, 1, 1), (384, 256, 3, 1, 1), (256, 256, 3, 1, 1))
    with numod.device("meta"):  # shapes and no values, as no more is asked
        layers = [[nn.Conv2d(*each), nn.ReLU(), *([nn.MaxPool2d(3, 2)] if k in (0, 1, 4) else [])] for k, each in enumerate(convolutions)]
        net = nn.Sequential(*sum(layers, []), nn.Flatten(), nn.Linear(9216, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))
        x = numod.empty(1, 3, 224, 224)
    with profile(with_flops=True) as prof, numod.no_grad():
        assert net(x).shape == (1, 1000)
    assert sum(each.multiply_adds for each in prof.events()) == summary(net, input_data=x, verbose=0).total_mult_adds == 714_188_480


def test_flops_of_pointwise_ops_reductions_and_products() -> None:
    x, y = numod.ones(3, 4), numod.ones(4, 5)
    with profile(with_flops=True) as prof:
        x + x
        x.sum()
        x @ y
        x.t()
    found = {each.name: (each.flops, each.bytes_moved) for each in prof.events() if each.category == "op"}
    assert found["numod::add"] == (12, 3 * 48)
    assert found["numod::sum"] == (12, 48 + 4)
    assert found["numod::matmul"] == (2 * 3 * 4 * 5, 4 * (12 + 20 + 15))
    assert all(flops == 0 for name, (flops, _) in found.items() if "add" not in name and "sum" not in name and "matmul" not in name)


# ---- the compiler


COMPILES = """
import numod
from numod.profiler import profile
with profile(with_jit=True) as prof:
    (numod.ones(3) * 2).exp()
counts = {name: sum(each.category == name for each in prof.events()) for name in ("compile", "load", "pass", "kernel")}
report = next(each for each in prof.kernels() if "exp" in each.kernel.name)
print(counts["compile"], counts["load"], counts["pass"] > 20, counts["kernel"], report.built, report.kernel.why, any("LLVM: emit" in name for name, _ in report.passes))
"""


def test_compilations_are_seen_when_they_happen_and_not_when_kernels_are_cached(tmp_path: Path) -> None:
    def run() -> list[str]:
        environment = {**os.environ, "NUMOD_CACHE_DIR": str(tmp_path)}
        finished = subprocess.run([sys.executable, "-c", COMPILES], capture_output=True, text=True, env=environment, check=True)
        return finished.stdout.split()

    assert run() == ["3", "0", "True", "3", "compile", "no", "entry", "True"]
    assert run() == ["0", "3", "False", "3", "load", "found", "on", "the", "disk", "False"]


def test_a_kernels_report(profiled: profile) -> None:
    report = next(each for each in profiled.kernels() if each.kernel.name.startswith("relu_") and "grad" not in each.kernel.name)
    assert report.calls == 1 and report.time > 0 and report.dispatch > 0 and "numod::relu" in report.ops
    assert report.flops == 4 * 2 * 6 * 6 and report.bytes_moved == 2 * 4 * report.flops
    assert report.gflops == pytest.approx(report.flops / report.time / 1e3)
    assert report.modules == {"net.layer1": None} and report.kernel.name in str(report)
    assert "def kernel" in report.kernel.source


def test_machine_code_of_a_kernel() -> None:
    with profile(with_jit=True) as prof:
        numod.ones(100).add(1.5)
    code = next(each.machine_code for each in prof.kernels() if each.kernel.name.startswith("add_"))
    assert code.code_bytes > 100 and "ret" in code.assembly
    if "%xmm" in code.assembly:  # an x86 processor
        assert code.vector_bits in (128, 256, 512) and code.unroll >= 1 and code.hot_loop


def test_instructions_know_their_lines_of_the_source() -> None:
    with profile(with_jit=True) as prof:
        numod.ones(100).mul(1.5)
    kernel = next(each.kernel for each in prof.kernels() if each.kernel.name.startswith("mul_"))
    plain, lined = inspection.machine_code(kernel), inspection.machine_code(kernel, lines=True)
    assert lined.assembly.splitlines()[1:] == plain.assembly.splitlines()[1:] and plain.lines == ()  # the same instructions but for the function's name
    source = [""] + kernel.source.splitlines()
    assert len(lined.lines) == len(lined.assembly.splitlines())
    texts = " ".join(source[line] for line in lined.hot_lines)
    assert "* y_" in texts and "out0[index] =" in texts
    for text, line in zip(lined.assembly.splitlines(), lined.lines):
        if "vmulps" in text:
            assert "* y_" in source[line]


def test_the_bodies_of_parallel_loops_are_shown() -> None:
    before = numod.get_num_threads()
    numod.set_num_threads(2)
    try:
        with profile(with_jit=True) as prof:
            numod.ones(1 << 18) * 3.5
    finally:
        numod.set_num_threads(before)
    report = next(each for each in prof.kernels() if each.kernel.name.startswith("mul_") and each.kernel.parallel)
    code = report.machine_code
    texts = " ".join(report.kernel.source.splitlines()[line - 1] for line in code.hot_lines)
    assert "out0[index] =" in texts and code.hot_loop
    if "%xmm" in code.assembly:
        assert code.vector_bits in (128, 256, 512) and code.unroll >= 1


def test_every_kernel_of_many_ops_is_timed() -> None:
    x = numod.randn(16, 16)
    calls = [
        lambda: x.sort(), lambda: x.softmax(1), lambda: x @ x, lambda: x.cumsum(0), lambda: x.sum(), lambda: x[:, 0].exp(), lambda: x.gather(1, numod.zeros(16, 1).long()),
        lambda: F.layer_norm(x, (16,)), lambda: x.argmax(1), lambda: x.add_(1), lambda: numod.cat([x, x]), lambda: F.max_pool2d(x[None, None], 2),
    ]  # fmt: skip
    for call in calls:
        call()
        with profile(with_jit=True) as prof:
            call()
        assert any(each.category == "kernel" for each in prof.events()), prof.events()


def test_a_compiled_step_is_one_slice_with_its_kernel() -> None:
    net = nn.Linear(3, 2)

    @numod.compile
    def forward(x: numod.Tensor) -> numod.Tensor:
        return net(x).tanh()

    x = numod.randn(4, 3)
    for _ in range(3):
        forward(x)
    with profile(with_jit=True) as prof:
        forward(x)
        expected = forward(x)
    compiled = find(prof, "compiled forward")
    assert len(compiled) == 2 and all(each.category == "kernel" for event in compiled for each in event.cpu_children) and compiled[1].cpu_children
    assert numod.equal(forward(x), expected)


def test_a_compiled_training_step_is_the_same_when_timed() -> None:
    def losses(timed: bool) -> list[float]:
        numod.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
        optimizer = optim.SGD(net.parameters(), lr=0.1)
        x, y = numod.randn(5, 6), numod.tensor([0, 1, 2, 0, 1])

        @numod.compile
        def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        found = [step(x, y).item() for _ in range(3)]
        with profile(with_jit=timed, with_flops=True) as prof:
            found += [step(x, y).item() for _ in range(3)]
        steps = find(prof, "compiled step")
        assert len(steps) == 3 and all(len(each.cpu_children) == timed for each in steps)
        assert all(f"{each.flops:,} floating-point operations, {each.bytes_moved:,} bytes" in step.explain() for each in steps) and steps[0].flops > 5 * 6 * 8 * 2 * 3
        assert not timed or next(each for each in prof.kernels() if each.calls).flops == 3 * steps[0].flops
        return found + [step(x, y).item()]

    assert losses(True) == losses(False)


# ---- the table


def test_the_table_fits_100_columns_and_is_sorted(profiled: profile) -> None:
    averages = profiled.key_averages()
    for options in ({}, {"header": "steps"}, {"row_limit": 3}):
        lines = averages.table(sort_by="self_cpu_time_total", **options).splitlines()
        assert max(map(len, lines)) <= 100
    assert len(averages.table(row_limit=3).splitlines()) == 8
    wide = profiled.key_averages(group_by_input_shape=True, group_by_stack_n=2).table(sort_by="count", max_name_column_width=20)
    assert max(map(len, wide.splitlines())) <= 100 and "[4, 1, 8, 8]"[:6] in wide and "test_profiler.py" in wide
    with pytest.raises(AttributeError):
        averages.table(sort_by="bogus")


def test_averages_add_up(profiled: profile) -> None:
    for each in profiled.key_averages():
        events = find(profiled, each.key)
        assert each.count == len(events)
        assert each.self_cpu_time_total == pytest.approx(sum(event.self_cpu_time_total for event in events))
        assert each.cpu_time == pytest.approx(each.cpu_time_total / each.count)
        assert each.cuda_time_total == each.device_time_total == 0


def test_shapes_and_lines_part_the_averages() -> None:
    with profile(record_shapes=True, with_stack=True) as prof:
        numod.zeros(2).exp()
        numod.zeros(3).exp()
    def count(**options: object) -> int:
        return sum(each.key == "numod::exp" for each in prof.key_averages(**options))

    assert (count(), count(group_by_input_shape=True), count(group_by_stack_n=1)) == (1, 2, 2)


# ---- schedules and files


def test_a_schedule_is_pytorchs() -> None:
    plan = schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    N, W, R, S = ProfilerAction.NONE, ProfilerAction.WARMUP, ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE
    assert [plan(step) for step in range(7)] == [N, N, W, R, S, N, N]
    assert [schedule(wait=2, warmup=1, active=1, skip_first_wait=1)(step) for step in range(6)] == [W, S, N, N, W, S]
    with pytest.raises(AssertionError, match="Invalid profiler schedule"):
        schedule(wait=0, warmup=1, active=0)
    with pytest.warns(UserWarning, match="warmup"):
        schedule(wait=0, warmup=0, active=1)


def test_steps_are_recorded_as_scheduled() -> None:
    ready = []

    def trace_ready(prof: profile) -> None:
        ready.append((prof.step_num, sorted({each.name for each in prof.events() if each.category == "step"}), len(find(prof, "numod::exp"))))

    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=trace_ready) as prof:
        for _ in range(9):
            numod.ones(2).exp()
            prof.step()
    assert ready == [(4, ["ProfilerStep#2", "ProfilerStep#3"], 2), (8, ["ProfilerStep#6", "ProfilerStep#7"], 2)]


def test_steps_without_a_schedule() -> None:
    with profile() as prof:
        for _ in range(3):
            numod.ones(2).exp()
            prof.step()
    assert [each.name for each in prof.events() if each.category == "step"][:3] == ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"]
    assert all(ancestors(each)[1].startswith("ProfilerStep#") for each in find(prof, "numod::exp"))


def test_a_chrome_trace_has_nested_slices_flows_and_memory(profiled: profile, tmp_path: Path) -> None:
    profiled.add_metadata("run", "test")
    profiled.export_chrome_trace(str(tmp_path / "trace.json"))
    document = json.loads((tmp_path / "trace.json").read_text())
    assert document["run"] == "test"
    slices = [each for each in document["traceEvents"] if each["ph"] == "X"]
    assert len(slices) == len(profiled.events()) and all(each["dur"] >= 0 for each in slices)
    begins = {each["id"]: each["ts"] for each in document["traceEvents"] if each["ph"] == "s"}
    ends = {each["id"]: each["ts"] for each in document["traceEvents"] if each["ph"] == "f"}
    nodes = [each for each in profiled.events() if each.category == "node"]
    assert begins.keys() == ends.keys() and len(begins) == len(nodes) and all(begins[k] < ends[k] for k in begins)
    counters = [each["args"]["bytes"] for each in document["traceEvents"] if each["ph"] == "C" and "bytes" in each["args"]]
    assert counters and counters[-1] == sum(each.size for each in profiled.memory())
    convolution = next(each for each in slices if each["name"] == "numod::convolution")
    assert convolution["args"]["Module"] == "net.layer1.conv" and convolution["args"]["Input Dims"] == [[4, 1, 8, 8], [2, 1, 3, 3]]


def test_a_traces_slices_nest_on_every_thread(profiled: profile, tmp_path: Path) -> None:
    profiled.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    named = {each["tid"] for each in events if each["ph"] == "M" and each["name"] == "thread_name"}
    open_: dict[int, list[dict]] = {}
    for each in sorted((each for each in events if each["ph"] == "X"), key=lambda each: (each["ts"], -each["dur"])):
        stack = open_.setdefault(each["tid"], [])
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= each["ts"]:
            stack.pop()
        assert not stack or each["ts"] + each["dur"] <= stack[-1]["ts"] + stack[-1]["dur"] + 2e-3, (stack[-1]["name"], each["name"])
        stack.append(each)
    assert set(open_) == named and [each["args"]["name"] for each in events if each["ph"] == "M" and each["name"] == "thread_name"] == ["MainThread"]
    places = {(each["tid"], each["ts"]) for each in events if each["ph"] == "X"}
    assert all((each["tid"], each["ts"]) in places for each in events if each["ph"] in "sf")  # an arrow begins and ends where a slice does
    for name in {each["name"] for each in events if each["ph"] == "C"}:
        moments = [each["ts"] for each in events if each["ph"] == "C" and each["name"] == name]
        assert moments == sorted(moments)


def test_traces_for_tensorboard_and_stacks(profiled: profile, tmp_path: Path) -> None:
    tensorboard_trace_handler(str(tmp_path / "log"), "worker", use_gzip=True)(profiled)
    (path,) = (tmp_path / "log").iterdir()
    assert path.name.startswith("worker.") and path.name.endswith(".pt.trace.json.gz")
    with gzip.open(path, "rt") as file:
        assert json.load(file)["traceEvents"]
    profiled.export_stacks(str(tmp_path / "stacks"))
    lines = (tmp_path / "stacks").read_text().splitlines()
    assert lines and all(line.rsplit(" ", 1)[1].isdigit() for line in lines) and any("test_profiler.py" in line for line in lines)
    with pytest.raises(ValueError, match="with_stack"):
        profile().export_stacks("nowhere")
    with pytest.raises(AssertionError, match="initialized"):
        profile().key_averages()


def test_a_map_names_kernels_for_perf(tmp_path: Path) -> None:
    numod.ones(100).exp()
    path = write_perf_map(str(tmp_path / "perf.map"))
    lines = [line.split(" ", 2) for line in Path(path).read_text().splitlines()]
    begins = [int(begin, 16) for begin, _, _ in lines]
    assert begins == sorted(begins) and all(0 < int(size, 16) for _, size, _ in lines)
    assert all(a + int(size, 16) <= b for a, (_, size, _), b in zip(begins, lines, begins[1:]))
    assert any(name.startswith("numod::exp_") for _, _, name in lines)


def test_helpers_of_kernels_have_names_for_perf() -> None:
    numod.ones(64, 64) @ numod.ones(64, 64)
    F.conv2d(numod.ones(1, 2, 8, 8), numod.ones(3, 2, 3, 3))
    roles = {name.partition(" (")[2].rstrip(")") for _, _, name in perf_map.functions(build.kernels())}
    assert {"", "wrapper"} < roles and all(each.isidentifier() or each in ("", "wrapper", "a thread's part") for each in roles), roles


def records(dump: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(kind, timestamp, rest) of each record of a jitdump, read as perf's specification says."""
    at = struct.unpack_from("<IIIIIIQQ", dump)[2]
    while at < len(dump):
        kind, size, when = struct.unpack_from("<IIQ", dump, at)
        yield kind, when, dump[at + 16 : at + size]
        at += size


@pytest.mark.skipif(sys.platform != "linux", reason="perf is Linux's")
def test_a_jitdump_holds_the_code_of_kernels_old_and_new(tmp_path: Path) -> None:
    numod.ones(100).exp()
    with JitDump(str(tmp_path)) as dump:
        middle = time.monotonic_ns()
        numod.ones(7, 5).t().mul(2.125).cos()
    dump.close()
    text = Path(dump.path).read_bytes()
    magic, version, size, machine, _, process, when, flags = struct.unpack_from("<IIIIIIQQ", text)
    assert (magic, version, size, process, flags) == (0x4A695444, 1, 40, os.getpid(), 0) and machine in (62, 183) and Path(dump.path).name == f"jit-{process}.dump"
    *loads, last = records(text)
    assert last[0] == 3 and last[2] == b"" and {kind for kind, _, _ in loads} == {0}
    assert when <= loads[0][1] <= middle and [each for _, each, _ in loads] == sorted(each for _, each, _ in loads)
    indices, named = set(), {}
    for _, _, rest in loads:
        process, thread, address, begin, size, index = struct.unpack_from("<IIQQQQ", rest)
        name, _, code = rest[40:].partition(b"\0")
        assert process == os.getpid() and thread == threading.get_native_id() and address == begin and len(code) == size > 0
        indices.add(index)
        named[name.decode()] = code, address
    assert len(indices) == len(loads)
    exp = next(kernel for kernel in build.kernels() if kernel.name.startswith("exp_"))
    code, address = named[f"numod::{exp.name}"]
    assert ctypes.string_at(address, len(code)) == code
    (result,) = exp.dispatcher.overloads.values()
    assert address == result.library.get_pointer_to_function(result.fndesc.llvm_func_name) and f"numod::{exp.name} (wrapper)" in named


def test_loading_data_is_a_slice() -> None:
    loader = DataLoader(TensorDataset(numod.arange(6.0)), batch_size=2)
    with profile() as prof:
        batches = list(loader)
    assert len(batches) == 3 and len([each for each in prof.events() if each.name.startswith("enumerate(DataLoader)#")]) == 4  # the last finds the end


def test_half_precision_is_counted_once() -> None:
    x = numod.ones(4, 4, dtype=numod.float16)
    with profile(with_flops=True) as prof:
        x @ x
    assert sum(each.multiply_adds for each in prof.events()) == 64


def test_threads_of_a_parallel_kernel(tmp_path: Path) -> None:
    before = numod.get_num_threads()
    numod.set_num_threads(2)
    try:
        x = numod.ones(1 << 18)
        with profile(with_jit=True) as prof:
            x * 2.5
        reports = [each for each in prof.kernels() if each.calls]
        assert [(each.kernel.parallel, each.threads) for each in reports] == [(True, 2)]
        (launch,) = [each for each in prof.events() if each.category == "kernel"]
        assert len(launch.parts.chunks) == len(launch.parts.busy) == 2 and launch.thread in launch.parts.busy
        assert all(launch.start <= start <= end <= launch.end for start, end, _ in launch.parts.chunks)
        busy = launch.parts.busy.values()
        assert reports[0].imbalance == pytest.approx(2 * max(busy) / sum(busy)) and 1 <= reports[0].imbalance <= 2
        assert reports[0].waiting == pytest.approx(1 - max(busy) / launch.duration) and f"the busiest {reports[0].imbalance:.2f} of the mean" in str(reports[0])
        prof.export_chrome_trace(str(tmp_path / "trace.json"))
        trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        assert [each["args"]["threads"] for each in trace if each["name"] == "threads in kernels"] == [2, 0]
        (kernel,), (part,) = ([each for each in trace if each["ph"] == "X" and each["name"] == name] for name in (launch.name, f"part of {launch.name}"))
        assert part["tid"] != kernel["tid"] and kernel["ts"] <= part["ts"] and len(kernel["args"]["us by thread"]) == 2
    finally:
        numod.set_num_threads(before)


def test_the_older_names() -> None:
    with numod.autograd.profiler.profile(record_shapes=True) as prof, numod.autograd.profiler.record_function("mine"):
        numod.ones(3).exp()
    assert [each.input_shapes for each in prof.function_events if each.name == "numod::exp"] == [[[3]]]
    assert "mine" in prof.table() and prof.total_average().count == len(prof.function_events)
    assert prof.self_cpu_time_total == pytest.approx(sum(each.self_cpu_time_total for each in prof.key_averages()))
    with numod.autograd.profiler.profile(enabled=False) as off:
        numod.ones(3).exp()
    assert off.function_events is None
    with pytest.raises(AttributeError, match="no attribute 'profilers'"):
        numod.autograd.profilers  # noqa: B018
