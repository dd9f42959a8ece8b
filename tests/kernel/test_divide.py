"""Parallel loops as separate functions: their arguments; every iteration runs once for any number of threads."""

from __future__ import annotations

import re

import numpy as np
import pytest

import numod
from numod import dtypes
from numod.device import cpu
from numod.kernel import build, emit, inspection
from numod.kernel.divide import divided
from numod.kernel.expression import Symbol
from numod.kernel.writer import Input, Loop, Output
from numod.ops import table

LOOPS = """
def kernel(x, out, n, scale, twice):
    shift = int64(2)
    for i in parallel_range(n):
        found = x[i] * scale
        for _ in range(shift):
            found += shift
        out[i] = found
    if twice > 0:
        for j in parallel_range(out.shape[0] // 2):
            place = 2 * j
            out[place] = out[place] + 1
"""


def test_a_part_gets_the_variables_that_it_reads_and_does_not_set() -> None:
    text = divided(LOOPS)
    assert "def part_of_a_loop_0(_first_iteration, _last_iteration, out, scale, shift, x):" in text
    assert "    for i in range(uint64(_first_iteration), uint64(_last_iteration)):" in text
    assert "def part_of_a_loop_1(_first_iteration, _last_iteration, out):" in text
    assert "def kernel(x, out, n, scale, twice, _threads):" in text
    assert "divide(part_of_a_loop_0, int64(n), _threads, (out, scale, shift, x))" in text
    assert "        divide(part_of_a_loop_1, int64(out.shape[0] // 2), _threads, (out,))" in text


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 1001])
def test_every_turn_is_done_once(n: int, threads: int) -> None:
    kernel = build.build(
        cpu, "loops", divided(LOOPS), "float32[], float32[], int64, float32, int64, int64", parallel=True
    )
    x, out = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    kernel.launch(x, out, n, 3.0, 1, threads)
    expected = x * 3 + 4
    expected[: n // 2 * 2 : 2] += 1
    assert (out == expected).all()


def test_text_without_parallel_loops_only_takes_the_number_of_threads() -> None:
    assert divided("def kernel(x):\n    x[0] = 1\n") == "def kernel(x, _threads):\n    x[0] = 1\n"


def test_a_turn_may_stand_behind_the_colon() -> None:
    assert (
        divided("def kernel(x):\n    for i in parallel_range(x.size): x[i] = 1; x[i] += 2\n").count(
            "\n        x[i] = 1; x[i] += 2\n"
        )
        == 1
    )


def test_helpers_stay_in_front() -> None:
    text = divided(
        "@device_function\ndef f(x):\n    return x\ndef kernel(x, n):\n    for i in parallel_range(n):\n        x[i] "
        "= f(i)\n"
    )
    assert (
        text.index("def f(")
        < text.index("def part_of_a_loop_0(_first_iteration, _last_iteration, x)")
        < text.index("def kernel(")
    )


def test_turns_that_share_a_sum_are_refused() -> None:
    with pytest.raises(
        ValueError, match="must be independent, but these accumulate into total; let each write its own element"
    ):
        divided("def kernel(x, n):\n    total = 0\n    for i in parallel_range(n):\n        total += x[i]\n")


@pytest.mark.parametrize("parallel", [False, True])
def test_cheap_loops_use_half_registers(parallel: bool) -> None:
    loop = "def kernel(x, out, n):\n    for index in parallel_range(n):\n        _t0 = {}\n        out[index] = _t0\n"
    cheap, costly = (
        emit.by_half_registers(loop.format(text)) for text in ("float32(x[index] + x[index])", "float32(exp(x[index]))")
    )
    assert "half_registers()" in cheap and costly == loop.format("float32(exp(x[index]))")
    remainder = loop.format("float32(modulus(x[index], x[index]))")  # else LLVM calls it for one number at a time
    assert emit.by_half_registers(remainder) == remainder
    rounding, sums = (
        f"{loop.format(text).replace('= _t0', '= to_float16(_t0)')}"
        for text in ("float32(x[index])", "float32(from_float16(x[index]))")
    )
    assert emit.by_half_registers(rounding) == rounding and "half_registers()" in emit.by_half_registers(sums)
    text, numbers = (
        (divided(cheap), "int64, int64") if parallel else (cheap.replace("parallel_range", "range"), "int64")
    )
    kernel = build.build(cpu, "cheap", text, f"float32[], float32[], {numbers}", parallel)
    x, out = np.arange(1001, dtype=np.float32), np.zeros(1001, np.float32)
    kernel.launch(x, out, 1001, *([2] if parallel else []))
    assert (out == 2 * x).all()
    widths = [bits for bits, _ in inspection.machine_code(kernel).loops]
    assert 0 < max(widths) <= 256  # 0: not a vector


def test_selected_values_are_stored_whole() -> None:
    numbers = [-2.0, -0.0, 0.0, 3.0, np.nan, np.inf, -np.inf, 1e-40] * 5
    loop = Loop((Input("x", dtypes.float32),), (Output(table.relu(Symbol("x")), dtypes.float32, "x"),), dtypes.float32)
    text, signature = emit.pointwise(loop, "1", 1, False)
    assert "x[_index] = whole(_t" in text and "whole(" not in emit.pointwise(loop, "1", 1, True)[0]
    kernel = build.build(cpu, "over", text.replace("parallel_range", "range"), signature)
    result = np.array(numbers, np.float32)
    kernel.launch(result, len(numbers))
    assert result.tobytes() == numod.tensor(numbers).relu().numpy().tobytes()
    assert not re.search(r"vp?maskmov\w*\s.*\)$", inspection.machine_code(kernel).assembly, re.M)
