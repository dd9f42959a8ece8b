"""Kernels: compiled or loaded, timed and reported with their machine code, in parallel and as compiled functions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from profiled import find

import numod
import numod.nn.functional as F
from numod import nn, optim
from numod.device import chunks, threads, workers
from numod.kernel import inspection
from numod.profiler import profile


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
        finished = subprocess.run(
            [sys.executable, "-c", COMPILES], capture_output=True, text=True, env=environment, check=True
        )
        return finished.stdout.split()

    assert run() == ["3", "0", "True", "3", "compile", "no", "entry", "True"]
    assert run() == ["0", "3", "False", "3", "load", "found", "on", "the", "disk", "False"]


def test_a_kernels_report(profiled: profile) -> None:
    report = next(
        kernel
        for kernel in profiled.kernels()
        if kernel.kernel.name.startswith("relu_") and "grad" not in kernel.kernel.name
    )
    assert report.calls == 1 and report.time > 0 and report.dispatch > 0 and "numod::relu" in report.ops
    assert report.flops == 4 * 2 * 6 * 6 and report.bytes_moved == 2 * 4 * report.flops
    assert report.gflops == pytest.approx(report.flops / report.time / 1e3)
    assert report.modules == {"net.layer1": None} and report.kernel.name in str(report)
    assert "def kernel" in report.kernel.source


def test_machine_code_of_a_kernel() -> None:
    with profile(with_jit=True) as prof:
        numod.ones(100).add(1.5)
    code = next(kernel.machine_code for kernel in prof.kernels() if kernel.kernel.name.startswith("add_"))
    assert code.code_bytes > 100 and "ret" in code.assembly
    if "%xmm" in code.assembly:  # an x86 processor
        assert code.vector_bits in (128, 256, 512) and code.unroll >= 1 and code.hot_loop


def test_instructions_know_their_lines_of_the_source() -> None:
    with profile(with_jit=True) as prof:
        numod.ones(100).mul(1.5)
    kernel = next(kernel.kernel for kernel in prof.kernels() if kernel.kernel.name.startswith("mul_"))
    plain, lined = inspection.machine_code(kernel), inspection.machine_code(kernel, lines=True)
    # the same instructions but for the function's name
    assert lined.assembly.splitlines()[1:] == plain.assembly.splitlines()[1:] and plain.lines == ()
    source = [""] + kernel.source.splitlines()
    assert len(lined.lines) == len(lined.assembly.splitlines())
    texts = " ".join(source[line] for line in lined.hot_lines)
    assert "* _number_in_y" in texts and "out0[_index] =" in texts
    for text, line in zip(lined.assembly.splitlines(), lined.lines):
        if "vmulps" in text:
            assert "* _number_in_y" in source[line]


def test_the_bodies_of_parallel_loops_are_shown() -> None:
    before = numod.get_num_threads()
    numod.set_num_threads(2)
    try:
        with profile(with_jit=True) as prof:
            numod.ones(1 << 18) * 3.5
    finally:
        numod.set_num_threads(before)
    report = next(
        kernel for kernel in prof.kernels() if kernel.kernel.name.startswith("mul_") and kernel.kernel.parallel
    )
    code = report.machine_code
    texts = " ".join(report.kernel.source.splitlines()[line - 1] for line in code.hot_lines)
    assert "out0[_index] =" in texts and code.hot_loop
    if "%xmm" in code.assembly:
        assert code.vector_bits in (128, 256, 512) and code.unroll >= 1


def test_every_kernel_of_many_ops_is_timed() -> None:
    x = numod.randn(16, 16)
    calls = [
        lambda: x.sort(), lambda: x.softmax(1), lambda: x @ x, lambda: x.cumsum(0), lambda: x.sum(),
        lambda: x[:, 0].exp(), lambda: x.gather(1, numod.zeros(16, 1).long()),
        lambda: F.layer_norm(x, (16,)), lambda: x.argmax(1), lambda: x.add_(1), lambda: numod.cat([x, x]),
        lambda: F.max_pool2d(x[None, None], 2),
    ]  # fmt: skip
    for call in calls:
        call()
        with profile(with_jit=True) as prof:
            call()
        assert any(event.category == "kernel" for event in prof.events()), prof.events()


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches by two threads, which do every other share, whatever else runs on this machine."""
    take = chunks.take
    monkeypatch.setattr(
        chunks, "take", lambda: [(*times, threading.get_ident() + k % 2) for k, (*times, _) in enumerate(take())]
    )
    monkeypatch.setattr(threads, "_crew", threads.Crew())
    monkeypatch.setattr(threads.Crew, "LATE", 1 << 62)
    monkeypatch.setattr(threads, "_threads", 2)


def test_threads_of_a_parallel_kernel(tmp_path: Path, two_threads: None) -> None:
    x = numod.ones(1 << 18)
    with profile(with_jit=True) as prof:
        x * 2.5
    reports = [kernel for kernel in prof.kernels() if kernel.calls]
    assert [(report.kernel.parallel, report.threads) for report in reports] == [(True, 2)]
    (launch,) = [event for event in prof.events() if event.category == "kernel"]
    shares = 2 * workers.SHARES_PER_THREAD
    assert len(launch.parts.chunks) == shares and len(launch.parts.busy) == 2 and launch.thread in launch.parts.busy
    assert all(launch.start <= start <= end <= launch.end for start, end, _ in launch.parts.chunks)
    busy = launch.parts.busy.values()
    assert reports[0].imbalance == pytest.approx(2 * max(busy) / sum(busy)) and 1 <= reports[0].imbalance <= 2
    assert reports[0].waiting == pytest.approx(
        max(1 - max(busy) / launch.duration, 0)
    ) and f"the busiest {reports[0].imbalance:.2f} of the mean" in str(reports[0])
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [event["args"]["threads"] for event in trace if event["name"] == "threads in kernels"] == [2, 0]
    (kernel,), parts = (
        [event for event in trace if event["ph"] == "X" and event["name"] == name]
        for name in (launch.name, f"part of {launch.name}")
    )
    assert len(parts) == shares // 2 and all(
        part["tid"] != kernel["tid"] and kernel["ts"] <= part["ts"] for part in parts
    )
    assert len(kernel["args"]["us by thread"]) == 2


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
    assert (
        len(compiled) == 2
        and {cpu_child.category for event in compiled for cpu_child in event.cpu_children} - {"gc"} == {"kernel"}
        and compiled[1].cpu_children
    )
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

        results = [step(x, y).item() for _ in range(3)]
        with profile(with_jit=timed, with_flops=True) as prof:
            results += [step(x, y).item() for _ in range(3)]
        steps = find(prof, "compiled step")
        launches = [[child for child in step.cpu_children if child.category != "gc"] for step in steps]
        assert len(steps) == 3 and all(len(children) == timed for children in launches)
        assert (
            all(
                f"{step_event.flops:,} floating-point operations, {step_event.bytes_moved:,} bytes" in step.explain()
                for step_event in steps
            )
            and steps[0].flops > 5 * 6 * 8 * 2 * 3
        )
        assert not timed or next(kernel for kernel in prof.kernels() if kernel.calls).flops == 3 * steps[0].flops
        return results + [step(x, y).item()]

    assert losses(True) == losses(False)
