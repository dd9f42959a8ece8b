"""Reports on a compiled function: steps, loops, costs, memory, code, and a graph."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

import numod
from numod import nn
from numod.nn import functional as F


def compiled_step() -> object:
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    optimizer = numod.optim.SGD(model.parameters(), lr=0.1)

    @numod.compile
    def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step(numod.randn(8, 4), numod.randn(8, 1))
    return step


def test_the_story_of_a_step() -> None:
    step = compiled_step()
    report = step.explain()
    assert re.search(r"test_explain.py:\d+ +%4 = linear\(%0, %2, %3\)  float32\[8, 3\]  216 flops, 284 bytes", report)
    assert (
        "one native function" in report
        and "sgd" in report
        and "grad = %" in report
        and "arena that holds them, the peak" in report
    )
    assert re.search(r"Program: \d+ steps, of \d+ recorded", report) and "floating-point operations" in report
    assert all(len(line) <= 240 for line in report.splitlines())


def test_a_fused_loop_shows_its_rows_source_and_machine_code() -> None:
    with numod.no_grad():
        compiled = numod.compile(lambda x: (x * 2 + 1).abs())
        assert "nothing recorded yet" in compiled.explain()
        compiled(numod.randn(64))
        report = compiled.explain(source=True, assembly=True, llvm=True)
    assert "| r1 = add(r0, 1)" in report and "def kernel(address" in report and "rounded_product" in report
    assert re.search(r"vectors of \d+ bits in the hot loop", report) and "define" in report and "ret" in report


def test_kernels_in_turn_have_source_too() -> None:
    with numod.no_grad():
        compiled = numod.compile(lambda x: x.exp().sum(0), options={"linked": False})
        compiled(numod.randn(4, 3))
        assert compiled.explain(source=True).count("def kernel(") == 2


def test_the_backward_pass_is_marked() -> None:
    weight = numod.randn(3, requires_grad=True)
    compiled = numod.compile(lambda x: (x * weight).exp().sum(), options={"linked": False})
    compiled(numod.randn(3))
    assert "-- backward --" in compiled.explain()


def test_a_graph_can_be_printed_and_drawn() -> None:
    step = compiled_step()
    assert str(step.graph).startswith("inputs %0 float32[8, 4]")
    drawn = step.graph.dot()
    assert drawn.startswith("digraph program {") and drawn.endswith("}\n") and drawn.count("{") == drawn.count("}")
    nodes = set(re.findall(r"^  (\w+) \[", drawn, re.M)) - {"node", "edge"}
    assert {end for line in re.findall(r"^  (\w+) -> (\w+)", drawn, re.M) for end in line} <= nodes
    assert "style=bold" in drawn and 'label="gradient"' in drawn
    model = numod.compile(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="nothing recorded yet"):
        _ = model.graph
    model(numod.ones(1, 2))
    assert "linear" in str(model.graph)


def causes(compiled: object) -> list[str]:
    return [line.partition("recorded: ")[2] for line in compiled.explain().splitlines() if "Why it was" in line]


def test_explain_says_why_each_version_was_recorded() -> None:
    module = nn.Linear(2, 2)
    step = numod.compile(lambda x: module(x) if module.training else x)
    for size in (2, 3):
        step(numod.ones(size, 2))
    module.eval()
    step(numod.ones(2, 2))
    first, sizes, mode = causes(step)
    assert first == "the first call" and "(2, 2) was recorded, got float32 (3, 2)" in sizes.replace("numod.", "")
    assert "training" in mode


def test_the_cause_names_the_argument_where_state_is_passed() -> None:
    counter = SimpleNamespace(calls=0)

    def count(x: numod.Tensor) -> numod.Tensor:
        counter.calls += 1
        return x * counter.calls

    step = numod.compile(count)
    for size in (2, 2, 2, 3):
        step(numod.ones(size))
    assert causes(step)[-1].startswith("argument 0: ")
