"""Kernels compute what Python would: their loops, variables and divisions are lowered by numod, not by Numba."""

from __future__ import annotations

import numpy as np
import pytest

from numod.device import cpu
from numod.kernel import build


def run(name: str, body: str, *arguments: object) -> list[int]:
    """What a kernel with `body` writes into `out`, eight integers that are -1 before, for integers a, b, c."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    out = np.full(8, -1, np.int64)
    build.build(cpu, name, f"def kernel(out, a, b, c):\n{lines}\n", "int64[], int64, int64, int64").launch(out, *arguments)
    return out.tolist()


@pytest.mark.parametrize("bounds", [(0, 5), (3, 3), (5, 2), (-4, 3), (-7, -2)])
def test_loops_take_the_numbers_of_python(bounds: tuple[int, int]) -> None:
    for text in ("range(a, b)", "range(a, b, 3)", "range(a, b, c)", "range(b, a, -2)", "range(b)"):
        body = f"k = 0\nfor i in {text}:\n    out[k] = i\n    k += 1"
        a, b = bounds
        expected = list(eval(text, {"a": a, "b": b, "c": 2}))
        assert run("numbers", body, a, b, 2) == expected + [-1] * (8 - len(expected)), text


def test_a_range_keeps_its_bounds_and_a_loop_its_numbers() -> None:
    body = "b = 3\nnumbers = range(a, b)\nb = 7\nk = 0\nfor i in numbers:\n    i += 10\n    a = 5\n    out[k] = i\n    k += 1\nout[k] = b\nout[k + 1] = a"
    assert run("kept", body, 1, 0, 0) == [11, 12, 7, 5, -1, -1, -1, -1]


def test_a_step_of_zero_is_an_error() -> None:
    with pytest.raises(ValueError, match="must not be zero"):
        run("standing", "for i in range(a, b, c):\n    out[0] = i", 0, 3, 0)


def test_variables_of_branches_and_loops_reach_what_comes_after() -> None:
    body = "last = a\nfor i in range(b):\n    last = i\n    if i == c:\n        break\nlow = last if a > 2 else b\nout[0] = last\nout[1] = low\nout[2] = a * 2 + c"
    assert run("reach", body, 9, 0, 4)[:3] == [9, 9, 22]
    assert run("reach", body, 9, 8, 4)[:3] == [4, 4, 22]
    assert run("reach", body, 1, 3, 4)[:3] == [2, 3, 6]


def test_division_rounds_down_and_is_zero_where_there_is_no_quotient() -> None:
    body = "out[0] = a // b\nout[1] = a % b\nout[2] = a // 7\nout[3] = a % 7\nout[4] = a // -7\nout[5] = a % -7\nout[6], out[7] = divmod(a, b)"
    least = -(2**63)
    for a, b in ((17, 5), (-17, 5), (17, -5), (-17, -5), (15, 5), (-15, 5), (0, 3), (least, 3), (least, 1), (2**63 - 1, -2)):
        assert run("divided", body, a, b, 0) == [a // b, a % b, a // 7, a % 7, a // -7, a % -7, *divmod(a, b)]
    assert run("divided", body, 5, 0, 0)[:2] == run("divided", body, least, -1, 0)[:2] == [0, 0]
    unsigned = "out[0] = int64(uint64(a) // uint64(b))\nout[1] = int64(uint64(a) % uint64(b))\nout[2] = int64(int32(a) // int32(b))\nout[3] = int64(int32(a) % int32(b))"
    assert run("unsigned", unsigned, -2, 3, 0)[:4] == [(2**64 - 2) // 3, (2**64 - 2) % 3, -1, 1]
    assert run("unsigned", unsigned, 5, 0, 0)[:4] == [0, 0, 0, 0]
