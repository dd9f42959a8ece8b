"""Functions that kernels share are compiled once, and the compiler leaves the user's own use of Numba alone."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from numod.device import compiler, cpu, division, wrapper
from numod.kernel import build, inspection, specialize

HELPER = "@device_function\ndef {name}(x):\n    return x * {factor}\n"
KERNEL = "def kernel(x, out):\n    for i in range(out.size):\n        out[i] = {name}(x[i]) + {more}\n"


def helper(name: str, factor: str, **more: object) -> object:
    space = {**cpu.namespace(), "__name__": __name__, **more}
    exec(HELPER.format(name=name, factor=factor), space)  # our own text
    return space[name]


def test_equal_helpers_are_one() -> None:
    assert helper("thrice", "3") is helper("thrice", "3")
    assert helper("thrice", "3") is not helper("thrice", "4")
    assert helper("thrice", "3", device_function=compiler.device_function(shared=True)) is not helper("thrice", "3")
    fast = compiler.device_function(fastmath={"contract"})
    assert (
        helper("thrice", "3", device_function=fast)
        is helper("thrice", "3", device_function=fast)
        is not helper("thrice", "3")
    )
    assert helper("scaled", "scale", scale=cpu.namespace()["float32"]) is not helper(
        "scaled", "scale", scale=cpu.namespace()["float64"]
    )


def test_helpers_of_names_that_come_later_are_their_own() -> None:
    assert helper("later", "unknown") is not helper("later", "unknown")


def test_kernels_with_helpers_of_one_name_compute_their_own() -> None:
    x, out = np.arange(3, dtype=np.float32), np.empty(3, np.float32)
    for factor, more, expected in (("3", "1", [1, 4, 7]), ("5", "1", [1, 6, 11]), ("3", "2", [2, 5, 8])):
        text = HELPER.format(name="times", factor=factor) + KERNEL.format(name="times", more=more)
        build.build(cpu, "times", text, "float32[], float32[]").launch(x, out)
        assert out.tolist() == expected


def test_machine_code_of_shared_functions_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    text = HELPER.replace("device", "shared").format(name="doubled", factor="2")
    kernels = [
        build.build(cpu, "doubling", text + KERNEL.format(name="doubled", more=more), "float64[], float64[]")
        for more in ("11", "13")
    ]
    assert {*kernels[0].shared} == {*kernels[1].shared} and not {*kernels[0].symbols} & {*kernels[1].symbols}
    assert wrapper.TAKE_ARGUMENTS in kernels[0].shared and any("doubled" in name for name in kernels[0].shared)
    x, out = np.arange(3.0), np.empty(3)
    for kernel, more in zip(kernels, (11, 13)):
        kernel.launch(x, out)
        assert out.tolist() == [more, more + 2, more + 4]
        code = inspection.machine_code(kernel)
        assert "doubled" in code.assembly and code.llvm.count("define") > 2


def test_users_compile_their_own_functions_before_and_after() -> None:
    script = """
import numpy as np
from numba import njit
assert njit(lambda x: x + 1)(2) == 3
import numod
assert numod.ones(3).exp().sum() > 8
assert njit(lambda n: np.arange(n)[::-1].copy())(3).tolist() == [2, 1, 0]
"""
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "NUMOD_CACHE_DIR": ""})


def test_kernels_and_their_parts_share_helpers() -> None:
    text = "@device_function\ndef of_both(x):\n    return x + 1\n"
    loop = (
        "def {name}(first_turn, last_turn, out):\n    for i in range(first_turn, last_turn):\n        out[i] = "
        "of_both(out[i])\n"
    )
    main = "def kernel(out):\n    out[0] = of_both(out[0])\n    divide({name}, out.size, 1, (out,))\n"
    name, x = f"{division.LOOP_PREFIX}_0", np.zeros(3, np.float32)
    made = []
    from numba.core.typing import templates

    before = templates._OverloadFunctionTemplate._build_impl
    templates._OverloadFunctionTemplate._build_impl = lambda self, *args: (
        made.append(getattr(self.key, "__name__", "")),
        before(self, *args),
    )[1]
    try:
        build.build(cpu, "shares", text + loop.format(name=name) + main.format(name=name), "float32[]", True).launch(x)
    finally:
        templates._OverloadFunctionTemplate._build_impl = before
    assert x.tolist() == [2, 1, 1] and made.count("of_both") <= 1


def test_texts_end_where_functions_do() -> None:
    def several(
        x: object,
    ) -> object:  # a comment

        # and one
        return [
            x,
        ]

    assert specialize._source_of(several).rstrip().endswith("]")
    assert specialize._source_of(several).startswith("def several(\n")


DEEP = """
import numod
def deep(levels):
    return deep(levels - 1) if levels else (numod.ones(3) + 1).sum().item()
for levels in (990, 960, 930, 900, 870, 840):
    try:
        deep(levels)
        break
    except RecursionError:
        pass
print((numod.ones(3) + 1).sum().item())
"""


def test_a_first_call_deep_in_a_recursion_does_not_spoil_numba(tmp_path) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", DEEP],
        env={**os.environ, "NUMOD_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert finished.stdout.strip() == "6.0", finished.stderr
