"""The replaced functions of Numba return what the originals return, and a compilation restores them."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import numpy as np
import pytest

from numod.device import compiler, cpu, replacements
from numod.kernel import build


@pytest.mark.parametrize(("package", "gpu"), [("numba", False), ("numba", True), ("numba.cuda", True)])
def test_numba_and_the_collector_are_as_before(package: str, gpu: bool) -> None:
    if package == "numba.cuda":
        pytest.importorskip("numba_cuda", reason="needs the extra: pip install -e '.[cuda]'")
    replaced = replacements.all_replacements(package, gpu)
    usual = [replacements.own_attribute(owner, name) for owner, name, _ in replaced]
    assert gc.isenabled()
    with compiler.quickly(gpu=gpu, package=package):
        assert not gc.isenabled()
        assert all(replacements.own_attribute(owner, name) is function for owner, name, function in replaced)
    assert gc.isenabled()
    assert [replacements.own_attribute(owner, name) for owner, name, _ in replaced] == usual


def test_what_stands_in_for_numba_answers_as_it_does() -> None:
    from numba.core import compiler as of_numba
    from numba.core import ir

    flags = of_numba.Flags()
    flags.release_gil, flags.fastmath = True, {"contract"}
    assert replacements._values(flags) == flags.values()
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
        assert replacements._variables(ir)(statement, vars(statement)) == usual


def test_questions_about_types_and_functions_have_the_usual_answers() -> None:
    from llvmlite import ir as llvm
    from numba.core import base, registry, types

    context, asked = registry.cpu_target.target_context, []
    sized = replacements._known_sizes(lambda self, kind: (asked.append(kind), kind.get_abi_size(self.target_data))[1])
    kinds = [
        llvm.IntType(64),
        llvm.LiteralStructType([llvm.IntType(8), llvm.FloatType()]),
        llvm.ArrayType(llvm.DoubleType(), 3),
    ]
    assert [sized(context, kind) for kind in kinds * 2] == [8, 8, 24] * 2 and asked == kinds
    packer = replacements._known_packers(base.BaseContext.get_arg_packer)
    for arguments in ((types.int64, types.float32[::1]), (types.int64,), ()):
        usual = context.get_arg_packer(arguments).argument_types
        assert packer(context, arguments) is packer(context, [*arguments])
        assert packer(context, arguments).argument_types == usual
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
        [replacements._reads_loc(base._has_loc)(function) for function in functions]
        == [base._has_loc(function) for function in functions]
        == [True, True, False, False, False, False]
    )


def test_variables_are_accessed_where_the_kernel_does_and_an_error_names_its_line(modules: list[str]) -> None:
    """Numba would also load a variable before each store, and clear it at the end of its life."""
    text = "def kernel(x):\n    total = 0\n    for i in range(x.size):\n        total += i\n    x[0] = total\n"
    cpu.translate(build.function(cpu, "kernel", text), "int64[]", frozenset())
    lines = [line for module in modules for line in module.splitlines() if 'load i64, i64* %"total' in line]
    assert len(lines) == 2  # where it is increased, and where it is read
    with pytest.raises(Exception, match=r"During: typing of intrinsic-call at <numod kernel> \(2\)"):
        cpu.translate(build.function(cpu, "kernel", "def kernel(x):\n    x[0] = x + 'a'\n"), "int64[]", frozenset())


def test_elements_of_flat_arrays_are_those_that_numba_reads_and_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    text = "def kernel(x, n, out):\n    out[n] = x[n]\n    out[0] = x[uint32(1)] + x[-3]\n    out[1] = n\n"
    x, out = np.array([1.5, 2.5, -0.0], np.float32), np.full(3, 7.0)
    build.build(cpu, "elements", text, "float32[], int64, float64[]").launch(x, -1, out)
    assert out.tolist() == [4.0, -1.0, 0.0] and np.signbit(out[2])


def test_functions_that_numba_learns_of_meanwhile_are_found() -> None:
    registry, met = type("Registry", (), {"functions": []}), []
    context = SimpleNamespace(_registries={registry: SimpleNamespace(registry_items=("functions",))})
    refresh = replacements._when_registered(
        lambda self: met.append(len(registry.functions)), lambda self: met.append(None)
    )
    for more in ([], [], [1], []):
        registry.functions += more
        refresh(context)
    assert met == [0, None, 1, None]
