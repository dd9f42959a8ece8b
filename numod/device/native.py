"""Native functions from LLVM IR, for the few that Numba cannot compile: those that read the clock around others.

Not kernels.
"""

from __future__ import annotations

import ctypes
import re

from . import room

_CLOCKS = {  # the function behind `time.perf_counter_ns`: public since Python 3.13, before that under another name
    "PyTime_PerfCounterRaw": """
declare i32 @PyTime_PerfCounterRaw(ptr)
define internal i64 @now() alwaysinline {
  %place = alloca i64
  %failed = call i32 @PyTime_PerfCounterRaw(ptr %place)
  %now = load i64, ptr %place
  ret i64 %now
}""",
    "_PyTime_GetPerfCounter": """
declare i64 @_PyTime_GetPerfCounter()
define internal i64 @now() alwaysinline {
  %now = call i64 @_PyTime_GetPerfCounter()
  ret i64 %now
}""",
}


def build(text: str) -> object:
    """The engine with the compiled functions of `text`, which may call `now()` (nanoseconds) and Python's C API."""
    with room.compiling(room.COMPILE // 2, "compile native functions"):
        return _engine(text)


def _engine(text: str) -> object:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name = next(clock for clock in _CLOCKS if hasattr(ctypes.pythonapi, clock))
    for symbol in (name, *re.findall(r"@(_?Py\w+)", text)):
        llvm.add_symbol(symbol, ctypes.cast(getattr(ctypes.pythonapi, symbol), ctypes.c_void_p).value)
    module = llvm.parse_assembly(_CLOCKS[name] + text)
    machine = llvm.Target.from_default_triple().create_target_machine(opt=3)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine
