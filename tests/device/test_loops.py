"""Loops that LLVM does not unroll: the same results, and one node of properties for each loop."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from numod.device import cpu, loops
from numod.kernel import build

TEXT = """
@{kind}_function
def odd_sum(x, n):
    total = 0
    for i in range(n):
        if x[i] % 2 == 0:
            continue
        k = x[i]
        while k > 0:
            total += 1
            k -= 1
    return total

def kernel(x, out, n):
    out[0] = odd_sum(x, n)
"""


def _module(rolled: bool) -> str:
    """A function with two loops, of which the first has two jumps back to its start."""
    module = ir.Module()
    bit = ir.IntType(1)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [bit]), "f")
    if rolled:
        loops.keep_rolled(function)
    blocks = [function.append_basic_block() for _ in range(6)]
    builder = ir.IRBuilder(blocks[0])
    builder.branch(blocks[1])
    builder.position_at_end(blocks[1])
    builder.cbranch(function.args[0], blocks[2], blocks[3])
    builder.position_at_end(blocks[2])
    properties = loops.mark(builder.branch(blocks[1]), function)
    builder.position_at_end(blocks[3])
    assert loops.mark(builder.cbranch(function.args[0], blocks[1], blocks[4]), function, properties) is properties
    builder.position_at_end(blocks[4])
    loops.mark(builder.cbranch(function.args[0], blocks[4], blocks[5]), function)
    builder.position_at_end(blocks[5])
    builder.ret_void()
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    return str(parsed)


def test_each_loop_has_one_node() -> None:
    text = _module(rolled=True)
    first, second, third = re.findall(r"!llvm\.loop (!\d+)", text)
    assert first == second != third
    assert all(f"{node} = distinct !{{{node}, " in text for node in (first, third))
    assert "llvm.loop.unroll.runtime.disable" in text


def test_other_functions_have_none() -> None:
    assert "llvm.loop" not in _module(rolled=False)


@pytest.mark.parametrize("kind", ["rolled", "shared"])
def test_results(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    x, out = np.arange(50), np.empty(1, np.int64)
    build.build(cpu, "odd", TEXT.format(kind=kind), "int64[], int64[], int64").launch(x, out, x.size)
    assert out[0] == x[x % 2 == 1].sum()
