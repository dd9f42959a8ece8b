"""Short LLVM IR for divisions, calls and arrays: the results and errors of Numba's longer code."""

from __future__ import annotations

import re

import numpy as np
import pytest
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils, compiler_lock
from numba.extending import intrinsic

from numod.device import compiler, cpu
from numod.kernel import build

DIVISIONS = """
def kernel(x, y, out, n):
    for i in range(n):
        out[8 * i], out[8 * i + 1] = x[i] // y[i], x[i] % y[i]
        out[8 * i + 2], out[8 * i + 3] = x[i] // {kind}(7), x[i] % {kind}(7)
        out[8 * i + 4], out[8 * i + 5] = x[i] // {kind}(16), x[i] % {kind}(16)
        out[8 * i + 6], out[8 * i + 7] = x[i] // {kind}(-3), x[i] % {kind}(-3)
"""


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_divisions_round_as_pythons(kind: str) -> None:
    limits = np.iinfo(kind)
    numbers = [limits.min, limits.min + 1, -17, -16, -7, -1, 0, 1, 6, 7, 16, 33, limits.max]
    x, y = (np.array(grid.reshape(-1), kind) for grid in np.meshgrid(numbers, numbers))
    out = np.ones((x.size, 8), kind)
    signature = f"{kind}[], {kind}[], {kind}[], int64"
    build.build(cpu, "divisions", DIVISIONS.format(kind=kind), signature).launch(x, y, out.reshape(-1), x.size)
    for row, a, b in zip(out.tolist(), x.tolist(), y.tolist()):
        # a processor would raise an exception; int32 is divided as int64
        undefined = b == 0 or (kind == "int64" and (a, b) == (limits.min, -1))
        expected = [(0, 0) if undefined else divmod(a, b), *(divmod(a, constant) for constant in (7, 16, -3))]
        assert row == np.array(expected).astype(kind).reshape(-1).tolist(), (a, b)


CALLS = """
@device_function
def stepped(x, n, step):
    total = 0
    for i in range(0, n, step):
        total += x[i]
    return total

@device_function
def twice(x, y, n, step):
    return stepped(x, n, step), 10 * stepped(y, n, step)

def kernel(x, y, out, n, step):
    either = x if n > 2 else y
    pair = x, y
    first, second = twice(pair[0], either, n, step)
    out[0], out[1], out[-1] = first, second, min(n, step) - max(step, n)
"""
SIGNATURE = "int64[], int64[], int64[], int64, int64"


def test_arrays_and_errors_are_passed_on() -> None:
    launch = build.build(cpu, "calls", CALLS, SIGNATURE).launch
    x, y, out = np.arange(5), np.arange(5) + 100, np.zeros(3, np.int64)
    launch(x, y, out, 5, 2)
    assert out.tolist() == [6, 60, -3]
    launch(x, y, out, 2, 1)
    assert out.tolist() == [1, 2010, -1]
    with pytest.raises(RuntimeError, match="a kernel failed"):
        launch(x, y, out, 5, 0)


def test_what_nothing_reads_is_not_written(modules: list[str]) -> None:
    """Neither the structs of arrays of which only elements are read, nor a cast of a pointer."""
    cpu.translate(build.function(cpu, "calls", CALLS), SIGNATURE, frozenset())
    assert len(modules) == 3
    results = [re.findall(r"(%\S+) = (?:insertvalue|bitcast)", text) for text in modules]
    assert all(text.count(name) > 1 for text, names in zip(modules, results) for name in names)
    assert [bool(names) for names in results].count(True) <= 2  # `stepped` makes none


@njit
def added(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x[0] > y[0]:
        raise ValueError
    return x + y


def test_other_functions_that_are_compiled_meanwhile_mean_the_same() -> None:
    """Those that signal handlers compile: results of failed calls are freed, and memory is read as another type."""

    @intrinsic
    def bits(context: object, value: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            memory = cgutils.alloca_once_value(builder, values[0])
            return builder.load(builder.bitcast(memory, ir.IntType(64).as_pointer()))

        return types.int64(types.float64), generate

    @njit
    def added_or_zero(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        try:
            return added(x, y)
        except Exception:
            return np.zeros(1)

    @njit
    def bits_of(x: float) -> int:
        return bits(x)

    one, two = np.ones(1), np.full(1, 2.0)
    with compiler_lock.global_compiler_lock, compiler.quickly():
        assert added_or_zero(one, two).tolist() == [3.0]
        assert added_or_zero(two, one).tolist() == [0.0]
        assert bits_of(1.0) == 0x3FF0000000000000
