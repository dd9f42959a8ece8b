"""The processor that kernels are compiled for, as LLVM names it, and Numba, which compiles them.

Its vector registers are described by `kernel.registers.vectors`.
"""

from __future__ import annotations

import copy
import functools
import gc
import importlib
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from . import room, signals
from .phases import Span

# LLVM's attribute of a function whose loops use 256-bit vectors
HALF_REGISTERS = '"prefer-vector-width"="256"'
_V3 = (
    "+cx16,+popcnt,+sahf,+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
)
# features of instruction-set levels; of those of one architecture, the least first
LEVELS = {
    "x86-64-v3": _V3,
    "x86-64-v4": f"{_V3},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,-prefer-256-bit",
    "aarch64": "+neon,+fp-armv8",
}


@dataclass(frozen=True)
class Machine:
    """A processor to compile for, as LLVM names it.

    `bits`: size of an address. `alignment`: bytes to which memory of the arena is aligned. `shares`: whether its code
    goes into shared libraries. `floats`: whether it has instructions for floating point; `vectors`: whether it has
    vector registers, or memory for kernels that copy their inputs to make the most of many scalar ones.
    """

    triple: str
    processor: str
    features: str = ""
    bits: int = 64
    alignment: int = 64
    shares: bool = True
    abi: str = ""
    floats: bool = True
    vectors: bool = True

    @property
    def is_elf(self) -> bool:
        """Whether its object files have sections by any name, as ELF's do."""
        return not any(name in self.triple for name in ("windows", "apple", "macosx", "darwin", "wasm"))


_machine: Machine | None = None  # another machine than this process's


def compile_for(machine: Machine) -> None:
    """Compile all kernels for another machine from now on.

    Only processes that compile for others call this, before they build any kernel: the exporter's worker, and
    `prebuilt`, where kernels are compiled for this processor as well and run (`code_generator`).
    """
    global _machine
    _machine = machine


def is_foreign() -> bool:
    """Whether kernels are compiled for another machine than this process's."""
    return _machine is not None


def has_floats() -> bool:
    """Whether the processor has instructions for floating point."""
    return _machine is None or _machine.floats


def has_vectors() -> bool:
    """Whether the processor has vector registers."""
    return _machine is None or _machine.vectors


def numba() -> types.ModuleType:
    """Numba, imported in a new thread: deep in a recursion, the import would fail half-way, for good."""
    if "numba" not in sys.modules:
        room.require(room.IMPORT, "import Numba and LLVM")
        with Span("import", "import numba"), making_lasting_objects():
            in_thread(lambda: importlib.import_module("numba"))
        signals.deliver()  # the compiler takes as long again to start
    return importlib.import_module("numba")


@contextmanager
def making_lasting_objects() -> Iterator[None]:
    """Context of an import: automatic garbage collections would find nothing, and take a tenth of a cold start.

    Its objects, and those of the program, are then in the oldest generation. Not where the program has frozen objects,
    which would be unfrozen.
    """
    if not gc.isenabled() or gc.get_freeze_count():
        yield
        return
    gc.collect(1)  # the program's young garbage, which would become old
    try:
        gc.disable()
        yield
    finally:
        if not gc.get_freeze_count():  # another thread may have frozen objects meanwhile
            gc.freeze()
            gc.unfreeze()
        gc.enable()


def in_thread(function: Callable[[], object]) -> None:
    """Run a function in a new thread, with a fresh stack, or in this one if no thread can be started.

    Exceptions in the thread are ignored: the caller's next step raises them again.
    """

    def run_quietly() -> None:
        with suppress(Exception):
            function()

    try:
        thread = threading.Thread(target=run_quietly)
        thread.start()
    except RuntimeError:
        function()
    else:
        thread.join()


def processor() -> str:
    """LLVM's name of the processor: this one's, or NUMBA_CPU_NAME."""
    return _processor_here() if _machine is None else _machine.processor


def _processor_here() -> str:
    name = numba().config.CPU_NAME
    import llvmlite.binding as llvm

    return name or llvm.get_host_cpu_name()


def features() -> str:
    """LLVM's names of features, separated by commas: this processor's, or NUMBA_CPU_FEATURES, even if that is empty.

    For Intel processors with AVX-512, LLVM prefers 256-bit loops, which would call the functions of `vector_math` for
    one element at a time, since these take whole registers. Loops that are faster with 256 bits have the attribute
    HALF_REGISTERS.
    """
    return _features_here() if _machine is None else _machine.features


def _features_here() -> str:
    configured = numba().config.CPU_FEATURES
    from numba.core.codegen import get_host_cpu_features

    names = get_host_cpu_features() if configured is None else configured
    wide = "+avx512f" in names.split(",") and "-prefer-256-bit" not in names.split(",")
    return f"{names},-prefer-256-bit" if wide else names


def level_processor(level: str) -> str:
    """LLVM's name of the processor of an instruction-set level."""
    return "generic" if level == "aarch64" else level


def level_machine(level: str) -> Machine:
    """A machine of an instruction-set level, with the system of this process."""
    architecture = "aarch64" if level == "aarch64" else "x86_64"
    return Machine(f"{architecture}-{triple().partition('-')[2]}", level_processor(level), LEVELS[level])


def level() -> str | None:
    """The highest instruction-set level that the processor has.

    None if it has none of `LEVELS`, or vector registers that the level has not: kernels' callers depend on them.
    """
    names, architecture = set(features().split(",")), triple().partition("-")[0]
    architecture = {"arm64": "aarch64", "x86_64": "x86-64"}.get(architecture, architecture)
    levels = [
        level
        for level, needed in LEVELS.items()
        if level.startswith(architecture) and all(name in names for name in needed.split(",") if name.startswith("+"))
    ]
    if not levels or ("+avx512f" in names) != ("+avx512f" in LEVELS[levels[-1]].split(",")):
        return None
    return levels[-1]


def triple() -> str:
    """LLVM's name of architecture, system and object format."""
    import llvmlite.binding as llvm

    return llvm.get_process_triple() if _machine is None else _machine.triple


def code_generator() -> object:
    """A copy of Numba's code generator with a target machine that has these features.

    It makes a builder of LLVM's passes once, not for each module: a background thread waits for Python at each call of
    LLVM. Where kernels are compiled for another machine, its `here` is the code generator for this processor, on which
    they run meanwhile; otherwise None.
    """
    import llvmlite.binding as llvm

    if _machine is None:
        return _code_generator(llvm.get_process_triple(), cpu=processor(), features=features())
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    # as Numba chooses it there
    reloc = "static" if _machine.triple.startswith("x86") else "default"
    generator = _code_generator(_machine.triple, cpu=processor(), features=features(), reloc=reloc)
    generator.here = _code_generator(llvm.get_process_triple(), cpu=_processor_here(), features=_features_here())
    return generator


def _code_generator(triple: str, **further: str) -> object:
    import llvmlite.binding as llvm
    from numba import config
    from numba.core import registry

    generator = copy.copy(registry.cpu_target.target_context.codegen())
    options = {"opt": config.OPT}
    generator._customize_tm_options(options)
    generator._tm = llvm.Target.from_triple(triple).create_target_machine(**{**options, **further})
    generator._pass_builder = functools.cache(generator._pass_builder)
    generator.here = None
    return generator
