"""The CPU back end: NumPy buffers and the project's only `njit`. Not what kernels do, nor when they are built."""

from __future__ import annotations

import functools
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np

from . import (
    butterflies, byte_tiles, compiler, depthwise_fma, division, dots, extremes, host_memory, pool_rows, room, signals,
    target, threads, tiles, vectors, winograd, workers,
)  # fmt: skip
from .signature import numba_types

# of functions that are written in vector registers
_HOMES = (tiles, butterflies, byte_tiles, dots, extremes, pool_rows, depthwise_fma, winograd)
empty, allocator = host_memory.empty, host_memory.allocator
LOOP, is_gpu = "range({0})", False
ROUNDING = "numpy"  # the module from which kernels import floor, ceil and trunc, as functions from float to float
MATH = "math"  # the module from which they import other functions
VECTORISED = True  # whether kernels import exp, tanh and the like from `kernel.vector_math`
CONSTANTS = "numod_constants"  # the symbol of an exported program's constant array
_SCRATCH = 1 << 26  # bytes of scratch memory a thread keeps at most
_kept = threading.local()
_ready = False  # whether compiled functions are numbered from a random start


def scratch(parts: tuple[tuple[int, np.dtype], ...]) -> list[np.ndarray]:
    """Flat uninitialised buffers, (count, dtype) each, for one launch: this thread's next launch reuses the memory.

    Fresh pages cost more than most kernels, since the system has to map and clear them.
    """
    if len(parts) == 1:
        count, dtype = parts[0]
        views = _memory(count * dtype.itemsize)
        if dtype not in views:
            views[dtype] = views[None].view(dtype)
        return [views[dtype][:count]]
    sizes = [-(-count * dtype.itemsize // 64) * 64 for count, dtype in parts]
    total = sum(sizes)
    if total < 1 << 15:
        return [empty(*part) for part in parts]
    memory, ends = _memory(total)[None], list(itertools.accumulate(sizes))
    return [
        memory[end - size : end - size + count * dtype.itemsize].view(dtype)
        for end, size, (count, dtype) in zip(ends, sizes, parts)
    ]


def _memory(size: int) -> dict:
    """This thread's memory of at least so many bytes: as bytes (None), and as the dtypes it was asked for."""
    found = getattr(_kept, "views", None)
    if found is None or found[None].size < size:
        memory = host_memory.by_numpy(max(-(-size // 64) * 64, 1 << 15) + 64, np.dtype(np.uint8))
        # aligned to a cache line, so that no vector straddles two
        found = {None: memory[-memory.ctypes.data % 64 :][: memory.size - 64]}
        if size <= _SCRATCH:
            _kept.views = found
    return found


def further_math() -> tuple[str, ...]:
    """Functions of `math` that this target has and kernels need no text for; all of them are `vector_math`'s here."""
    return ()


def upload(host: np.ndarray) -> np.ndarray:
    """The buffer of a flat host array: itself."""
    return host


def lengthened(buffer: np.ndarray, count: int) -> np.ndarray:
    """A copy of a buffer with uninitialised elements behind, `count` in all."""
    found = empty(count, buffer.dtype)
    found[: buffer.size] = buffer
    return found


def download(buffer: np.ndarray) -> np.ndarray:
    """The host array of a buffer: itself."""
    return buffer


@functools.cache
def identity() -> str:
    """What compiled code depends on: the versions of Python (whose objects its entry unpacks), Numba and llvmlite, the
    CPU's name and features.
    """
    import llvmlite
    import numba

    flags = f"{target.processor()} {target.features()}"
    python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
    return f"cpu {python} numba {numba.__version__} llvmlite {llvmlite.__version__} {flags} opt {numba.config.OPT}"


def namespace() -> dict[str, object]:
    """Names a kernel's source may use: types that cast, views of a float's bits, `divide`, and the decorators of helper
    functions.
    """
    from numba import types

    kinds = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 uintp float32 float64 complex64 complex128"
    names = {name: getattr(types, name) for name in kinds.split()}
    return {
        **names, **_bit_views(), **_views(),
        **{name: function for home in _HOMES for name, function in home.functions().items()},
        "boolean": types.boolean, "rounded_product": _rounded_product(), "divide": division.divide(),
        "half_registers": vectors.half_registers(),
        "either": vectors.either(), "whole": vectors.whole(), "stack_words": vectors.stack_words(),
        "device_function": compiler.device_function, "inlined_function": compiler.device_function(forceinline=True),
        "shared_function": compiler.device_function(shared=True),
    }  # fmt: skip


@functools.cache
def _bit_views() -> dict[str, Callable]:
    """bits32, bits64: the bits of a float as an unsigned integer. float_of_bits32, float_of_bits64: the reverse."""
    from numba import types

    pairs = {"bits32": (types.float32, types.uint32), "bits64": (types.float64, types.uint64)}
    pairs |= {f"float_of_{name}": (target, source) for name, (source, target) in pairs.items()}
    return {name: _bitcast(*pair) for name, pair in pairs.items()}


def _bitcast(source: object, target: object) -> Callable:
    from numba.extending import intrinsic

    @intrinsic
    def cast(context: object, value: object) -> tuple:
        return target(source), lambda context, builder, signature, values: builder.bitcast(
            values[0], context.get_value_type(target)
        )

    return cast


@functools.cache
def _rounded_product() -> Callable:
    """rounded_product(x, y): x * y rounded, never contracted with an addition into an FMA."""
    from numba.extending import intrinsic

    @intrinsic
    def rounded_product(context: object, x: object, y: object) -> tuple:
        # Numba adds the kernel's fast-math flags to every instruction without flags
        return x(x, x), lambda context, builder, signature, values: builder.fmul(*values, flags=("arcp",))

    return rounded_product


@functools.cache
def _views() -> dict[str, Callable]:
    """view_float32(address, size) and the like: memory as a flat array without reference counting. address_of(array):
    the address of its first element. constant_address(): that of the constant array of an exported program.
    opaque(address): the address, of which LLVM does not know whose it is.
    """
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def address_of(context: object, array: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            data = builder.extract_value(values[0], context.data_model_manager[array].get_field_position("data"))
            return builder.ptrtoint(data, context.get_value_type(types.int64))

        return types.int64(array), generate

    @intrinsic
    def constant_address(context: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            byte, module = ir.IntType(8), builder.module
            found = module.globals.get(CONSTANTS) or ir.GlobalVariable(module, byte, CONSTANTS)
            found.global_constant = True
            return builder.ptrtoint(found, ir.IntType(64))

        return types.int64(), generate

    @intrinsic
    def opaque(context: object, address: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            kind = ir.FunctionType(values[0].type, [values[0].type])
            return builder.asm(kind, "", "=r,0", values, side_effect=True)

        return address(address), generate

    names = (
        "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "complex64",
        "complex128",
    )  # fmt: skip
    return {
        "address_of": address_of,
        "constant_address": constant_address,
        "opaque": opaque,
        **{f"view_{name}": _view_of(getattr(types, name)) for name in names},
    }


def _view_of(number: object) -> Callable:
    from numba import types
    from numba.extending import intrinsic

    kind = types.Array(number, 1, "C")

    @intrinsic
    def view(context: object, address: object, size: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            position = context.data_model_manager[kind].get_field_position
            data = builder.inttoptr(values[0], context.get_data_type(number).as_pointer())
            step = context.get_constant(types.intp, number.bitwidth // 8)
            # without an owner; Numba's own way to fill in the rest takes four times as long
            array = context.get_constant_null(kind)
            for name, value in (("nitems", values[1]), ("itemsize", step), ("data", data)):
                array = builder.insert_value(array, value, position(name))
            for name, value in (("shape", values[1]), ("strides", step)):
                array = builder.insert_value(array, value, [position(name), 0])
            return array

        return kind(types.int64, types.int64), generate

    return view


def choose(make: Callable[[bool], Callable], work: int, divisible: bool, long: bool) -> Callable:
    """The launcher for `work` elements of a kernel that `make(parallel)` builds: serial, or divided and behind the
    threads' gate.

    A kernel with a `long` text, which takes seconds to compile, is always divided, so that it is compiled only once.
    """

    def serial() -> Callable:
        return threads.alone(make(True)) if divisible and long else make(False)

    return threads.Gated(lambda: make(True), serial) if divisible and work >= threads.THRESHOLD else serial()


def compile(
    make: Callable[[], Callable],
    signature: str,
    parallel: bool,
    fastmath: frozenset[str],
    cache: object,
    alone: bool = False,
) -> Callable:
    """The native function of flat arrays and numbers for what `make` returns, for one signature such as `float32[],
    int64`. What the cache has is not made.

    The result is the compiled entry point itself: it takes exactly those types, in half the time of Numba's dispatcher.
    It releases the GIL while it runs, unless it must be `alone`. Only its machine code is kept: what Numba and LLVM
    made on the way is ten times as large.
    """
    _prepare()
    if parallel:
        workers.team()
    return cache.load(compiler.entry) or cache.save(
        compiler.entry, *compiler.machine_code(translate(make(), signature, fastmath, alone))
    )


def translate(
    function: Callable,
    signature: str,
    fastmath: frozenset[str],
    alone: bool = False,
    lines: bool = False,
    library: Callable = compiler.library_class,
) -> object:
    """Numba's result for a function: optimised LLVM code in a library that is not loaded.

    With `lines` it has line numbers of the source.

    `library` gives the class of code libraries, which decides what is optimised.
    """
    compiler.prepare()
    parts = division.prepare(function.__globals__)
    from numba import config, njit

    if config.DISABLE_JIT:
        raise RuntimeError(
            "NUMBA_DISABLE_JIT is set, and numod's kernels are nothing without Numba's compiler: unset it"
        )
    options = {
        "error_model": "numpy",
        "boundscheck": False,
        "no_cfunc_wrapper": True,
        "_nrt": False,
        "pipeline_class": compiler.pipeline(apart=True),
    }
    dispatcher = njit(nogil=not alone, fastmath=set(fastmath), **options)(function)
    if lines:
        for each in (dispatcher, *parts):
            each._compiler._customize_flags = _with_lines
        dispatcher.targetctx.DIBuilder = _line_builder()
    with _room(function), signals.waiting(), _unloaded(library()), compiler.quickly():
        dispatcher.compile(numba_types(signature))
    (result,) = dispatcher.overloads.values()
    return result


def _room(function: Callable) -> AbstractContextManager[None]:
    return room.compiling(
        room.COMPILE + room.PER_INSTRUCTION * len(function.__code__.co_code), f"compile the kernel {function.__name__}"
    )


def _with_lines(flags: object) -> object:
    """Numba's flags with debug line numbers only, which do not change the generated code."""
    flags.debuginfo = flags.dbg_directives_only = True
    return flags


@functools.cache
def _line_builder() -> type:
    """Numba's builder of debug info, except that outlined parallel loops are not inlined into the function the threads
    call, which has no line numbers.
    """
    from numba.core.debuginfo import DIBuilder

    class LineBuilder(DIBuilder):
        def mark_subprogram(self, function: object, *arguments: object, **named: object) -> None:
            super().mark_subprogram(function, *arguments, **named)
            if division.MARK in function.name:
                function.attributes.add("noinline")

    return LineBuilder


@contextmanager
def _unloaded(library: type) -> Iterator[None]:
    """Context in which Numba loads nothing that it compiles."""
    from numba.core import compiler_lock

    with compiler_lock.global_compiler_lock:
        codegen = compiler.codegen()
        codegen._library_class = library
        codegen.set_env = lambda key, environment: None
        try:
            yield
        finally:
            _load_again()


def _load_again() -> None:
    """Let Numba load every function again."""
    own = vars(compiler.codegen())
    own.pop("_library_class", None)
    own.pop("set_env", None)


def _prepare() -> None:
    """Number this process's compiled functions from a random start.

    Numba's symbol names contain a counter that forked processes share, so that two of them could cache different bodies
    under one name.
    """
    global _ready
    if not _ready:
        _ready = True
        _renumber()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_enter_child)


def _enter_child() -> None:
    """After a fork: a new random start for symbol names, and new locks of Numba's and LLVM's, which a thread of the
    parent may have held.
    """
    from llvmlite.binding import ffi
    from numba.core import compiler_lock

    compiler_lock.global_compiler_lock._lock = threading.RLock()
    ffi.lib._lock._lock = threading.RLock()
    _load_again()  # a thread of the parent may have been compiling
    compiler.forget()
    _renumber()


def _renumber() -> None:
    from numba.core.bytecode import FunctionIdentity

    FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(6), "little"))
