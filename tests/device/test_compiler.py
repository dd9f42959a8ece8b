"""What two kernels share is compiled once, and a compilation leaves Numba and the collector of garbage as they were."""

from __future__ import annotations

import gc

import numpy as np

from numod.device import compiler, cpu
from numod.kernel import bind, build

HELPER = "@device_function\ndef {name}(x):\n    return x * {factor}\n"
KERNEL = "def kernel(x, out):\n    for i in range(out.size):\n        out[i] = {name}(x[i]) + {more}\n"


def helper(name: str, factor: str, **more: object) -> object:
    space = {**cpu.namespace(), "__name__": __name__, **more}
    exec(HELPER.format(name=name, factor=factor), space)  # noqa: S102  our own text
    return space[name]


def test_equal_helpers_are_one() -> None:
    assert helper("thrice", "3") is helper("thrice", "3")
    assert helper("thrice", "3") is not helper("thrice", "4")
    assert helper("scaled", "scale", scale=cpu.namespace()["float32"]) is not helper("scaled", "scale", scale=cpu.namespace()["float64"])


def test_helpers_of_names_that_come_later_are_their_own() -> None:
    assert helper("later", "unknown") is not helper("later", "unknown")


def test_kernels_with_helpers_of_one_name_compute_their_own() -> None:
    x, out = np.arange(3, dtype=np.float32), np.empty(3, np.float32)
    for factor, more, expected in (("3", "1", [1, 4, 7]), ("5", "1", [1, 6, 11]), ("3", "2", [2, 5, 8])):
        text = HELPER.format(name="times", factor=factor) + KERNEL.format(name="times", more=more)
        build.build(cpu, "times", text, "float32[], float32[]").launch(x, out)
        assert out.tolist() == expected


def test_numba_and_the_collector_are_as_before() -> None:
    from numba.core import registry

    assert gc.isenabled()
    with compiler.quickly():
        assert not gc.isenabled()
        assert "resolve_function_type" in vars(registry.cpu_target.typing_context)
    assert gc.isenabled()
    assert "resolve_function_type" not in vars(registry.cpu_target.typing_context)


def test_texts_end_where_functions_do() -> None:
    def several(
        x: object,
    ) -> object:  # a comment

        # and one
        return [
            x,
        ]

    assert bind._text(several).rstrip().endswith("]")
    assert bind._text(several).startswith("def several(\n")
