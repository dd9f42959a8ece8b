"""Code that two kernels share is compiled once; a compilation restores Numba and the garbage collector."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from types import SimpleNamespace

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
    assert wrapper.TAKE in kernels[0].shared and any("doubled" in name for name in kernels[0].shared)
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


@pytest.mark.parametrize("cuda", [False, True])
def test_numba_and_the_collector_are_as_before(cuda: bool) -> None:
    if cuda:
        pytest.importorskip("numba_cuda", reason="needs the extra: pip install -e '.[cuda]'")
    usual = [compiler.own_attribute(owner, name) for owner, name, _ in compiler._replacements(cuda)]
    assert gc.isenabled()
    with compiler.quickly(cuda):
        assert not gc.isenabled()
        assert all(
            compiler.own_attribute(owner, name) is function for owner, name, function in compiler._replacements(cuda)
        )
    assert gc.isenabled()
    assert [compiler.own_attribute(owner, name) for owner, name, _ in compiler._replacements(cuda)] == usual


def test_replacements_of_numba_functions_agree_with_them() -> None:
    from numba.core import compiler as of_numba
    from numba.core import ir

    flags = of_numba.Flags()
    flags.release_gil, flags.fastmath = True, {"contract"}
    assert compiler._values(flags) == flags.values()
    location = ir.Loc("file", 1)
    x, y = (ir.Var(ir.Scope(None, location), name, location) for name in "xy")
    call = ir.Expr.call(x, [y, x], {"named": y}, location)
    for statement in (
        ir.Assign(call, y, location),
        ir.SetItem(x, y, x, location),
        ir.Return(x, location),
        ir.Jump(1, location),
    ):
        usual = statement._rec_list_vars(vars(statement))
        assert compiler._variables(ir)(statement, vars(statement)) == usual


def test_questions_about_types_and_functions_have_the_usual_answers() -> None:
    from llvmlite import ir as llvm
    from numba.core import base, registry

    context, asked = registry.cpu_target.target_context, []
    sized = compiler._known_sizes(lambda self, kind: (asked.append(kind), kind.get_abi_size(self.target_data))[1])
    kinds = [
        llvm.IntType(64),
        llvm.LiteralStructType([llvm.IntType(8), llvm.FloatType()]),
        llvm.ArrayType(llvm.DoubleType(), 3),
    ]
    assert [sized(context, kind) for kind in kinds * 2] == [8, 8, 24] * 2 and asked == kinds
    inside = 1
    functions = [
        lambda x, loc: x,
        lambda x, *, loc=None: x,
        lambda x: (loc := x) and loc,
        lambda loc_of: inside + loc_of,
        compiler.quickly,
        len,
    ]
    assert (
        [compiler._reads_loc(base._has_loc)(function) for function in functions]
        == [base._has_loc(function) for function in functions]
        == [True, True, False, False, False, False]
    )


def test_kernels_and_their_parts_share_helpers() -> None:
    text = "@device_function\ndef of_both(x):\n    return x + 1\n"
    loop = (
        "def {name}(first_turn, last_turn, out):\n    for i in range(first_turn, last_turn):\n        out[i] = "
        "of_both(out[i])\n"
    )
    main = "def kernel(out):\n    out[0] = of_both(out[0])\n    divide({name}, out.size, 1, (out,))\n"
    name, x = f"{division.MARK}_0", np.zeros(3, np.float32)
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


def test_variables_are_accessed_where_the_kernel_does_and_an_error_names_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Numba would also load a variable before each store, and clear it at the end of its life."""
    text = "def kernel(x):\n    total = 0\n    for i in range(x.size):\n        total += i\n    x[0] = total\n"
    modules: list[str] = []
    add = compiler.library_class().add_ir_module

    def keep(library: object, module: object) -> None:
        modules.append(str(module))
        add(library, module)

    monkeypatch.setattr(compiler.library_class(), "add_ir_module", keep)
    cpu.translate(build.function(cpu, "kernel", text), "int64[]", frozenset())
    lines = [line for module in modules for line in module.splitlines() if 'load i64, i64* %"total' in line]
    assert len(lines) == 2  # where it is increased, and where it is read
    with pytest.raises(Exception, match=r"During: typing of intrinsic-call at <numod kernel> \(2\)"):
        cpu.translate(build.function(cpu, "kernel", "def kernel(x):\n    x[0] = x + 'a'\n"), "int64[]", frozenset())


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


def test_elements_of_flat_arrays_are_those_that_numba_reads_and_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    text = "def kernel(x, n, out):\n    out[n] = x[n]\n    out[0] = x[uint32(1)] + x[-3]\n    out[1] = n\n"
    x, out = np.array([1.5, 2.5, -0.0], np.float32), np.full(3, 7.0)
    build.build(cpu, "elements", text, "float32[], int64, float64[]").launch(x, -1, out)
    assert out.tolist() == [4.0, -1.0, 0.0] and np.signbit(out[2])


def test_functions_that_numba_learns_of_meanwhile_are_found() -> None:
    registry, met = type("Registry", (), {"functions": []}), []
    context = SimpleNamespace(_registries={registry: SimpleNamespace(registry_items=("functions",))})
    refresh = compiler._when_registered(lambda self: met.append(len(registry.functions)), lambda self: met.append(None))
    for more in ([], [], [1], []):
        registry.functions += more
        refresh(context)
    assert met == [0, None, 1, None]


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
