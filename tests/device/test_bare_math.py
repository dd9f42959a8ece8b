"""The mathematics that objects for bare processors bring along, run on this machine and compared with Python's."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable

import pytest

from numod.device import bare_math

llvm = pytest.importorskip("llvmlite.binding")
DOUBLE = ("rint", "floor", "ceil", "trunc", "sin", "cos", "tan")
NAMES = (*DOUBLE, *(f"{name}f" for name in DOUBLE))


@pytest.fixture(scope="module")
def function() -> Callable[[str], Callable[[float], float]]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    lines, declared = [], set()
    for line in "\n".join(map(bare_math.text_of, NAMES)).replace("weak hidden ", "").split("\n"):
        line = re.sub(rf"@({'|'.join(DOUBLE)})(f?)\(", r"@own_\1\2(", line)  # or the C library's would be found
        name = re.search(r"@[\w.]+", line)
        if line.startswith("declare"):
            if name[0] in declared or name[0].startswith("@own_"):
                continue
            declared.add(name[0])
        lines.append(line)
    module = llvm.parse_assembly("\n".join(lines))
    engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine())
    engine.finalize_object()

    def get(name: str) -> Callable[[float], float]:
        kind = ctypes.c_float if name.endswith("f") else ctypes.c_double
        made = ctypes.CFUNCTYPE(kind, kind)(engine.get_function_address(f"own_{name}"))
        made.engine = engine
        return made

    return get


@pytest.mark.parametrize("suffix", ["", "f"])
@pytest.mark.parametrize("name, reference", [("rint", round), ("floor", math.floor), ("ceil", math.ceil),
    ("trunc", math.trunc)])  # fmt: skip
def test_rounding(name: str, reference: Callable, suffix: str, function: Callable) -> None:
    got = function(name + suffix)
    for x in (0.5, 1.5, 2.5, 0.25, 7.75, 0.0, 8388607.5, 8388609.0, *([2.0**52 + 1, 1e300] if not suffix else [])):
        for signed in (x, -x):
            assert got(signed) == reference(signed) and math.copysign(1, got(signed)) == math.copysign(1, signed)
    assert got(math.inf) == math.inf and math.isnan(got(math.nan))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles(name: str, function: Callable) -> None:
    got, narrow, reference = function(name), function(f"{name}f"), getattr(math, name)
    for k in range(1, 400):
        for x in (k * 0.0517, -k * 3.337, k * 12345.678, k * 1e9 + 0.1):
            assert math.isclose(got(x), reference(x), rel_tol=2e-15, abs_tol=1e-16)
    assert math.isclose(narrow(1.25), reference(1.25), rel_tol=1e-7)
    assert math.isnan(got(math.inf)) and math.isnan(got(math.nan)) and got(0.0) == reference(0.0)
