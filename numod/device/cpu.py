"""The CPU back end: NumPy buffers, and the project's only use of `njit`."""

from __future__ import annotations

import functools
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np

from . import code_library, compiler, division, host_memory, progress, room, signals, target, threads, workers
from .phases import Span
from .signature import numba_types

empty, allocator = host_memory.empty, host_memory.allocator
LOOP, is_gpu = "range({0})", False
ROUNDING = "numpy"  # the module from which kernels import floor, ceil and trunc, as functions from float to float
MATH = "math"  # the module from which they import other functions
VECTORISED = True  # whether kernels use `kernel.vector_math` and `kernel.registers`
CONSTANTS = "numod_constants"  # the symbol of an exported program's constant array
_MOST_SCRATCH = 1 << 26  # bytes of scratch memory a thread keeps at most
_thread_memory = threading.local()
_ready = False  # whether compiled functions are numbered from a random start


def scratch(parts: tuple[tuple[int, np.dtype], ...]) -> list[np.ndarray]:
    """Flat uninitialised buffers, (count, dtype) each, for one launch.

    This thread's next launch reuses the memory: mapping and clearing fresh pages takes longer than most kernels.
    """
    if len(parts) == 1:
        count, dtype = parts[0]
        views = _memory(count * dtype.itemsize)
        if dtype not in views:
            views[dtype] = views[None].view(dtype)
        return [views[dtype][:count]]
    total = 0
    for count, dtype in parts:  # this runs at every launch
        total += count * dtype.itemsize
    if total < 1 << 15:
        try:
            return [np.empty(*part) for part in parts]
        except MemoryError:
            return [empty(*part) for part in parts]
    sizes = [-(-count * dtype.itemsize // 64) * 64 for count, dtype in parts]
    total = sum(sizes)
    memory, offsets = _memory(total)[None], list(itertools.accumulate(sizes))
    return [
        memory[end - size : end - size + count * dtype.itemsize].view(dtype)
        for end, size, (count, dtype) in zip(offsets, sizes, parts)
    ]


def _memory(size: int) -> dict:
    """Views of this thread's scratch memory, of at least `size` bytes: as bytes (None) and by dtype."""
    views = getattr(_thread_memory, "views", None)
    if views is None or views[None].size < size:
        memory = host_memory.by_numpy(max(-(-size // 64) * 64, 1 << 15) + 64, np.dtype(np.uint8))
        # aligned to a cache line, so that no vector straddles two
        views = {None: memory[-memory.ctypes.data % 64 :][: memory.size - 64]}
        if size <= _MOST_SCRATCH:
            _thread_memory.views = views
    return views


def further_math() -> tuple[str, ...]:
    """None: `kernel.vector_math` has all functions."""
    return ()


def upload(host: np.ndarray) -> np.ndarray:
    """The buffer of a flat host array: itself."""
    return host


def synchronize() -> None:
    """Return at once: a launch returns when its kernel has finished."""


def lengthened(buffer: np.ndarray, count: int) -> np.ndarray:
    """A copy of a buffer, extended to `count` elements by uninitialised ones."""
    extended = empty(count, buffer.dtype)
    extended[: buffer.size] = buffer
    return extended


def download(buffer: np.ndarray) -> np.ndarray:
    """The host array of a buffer: itself."""
    return buffer


@functools.cache
def identity() -> str:
    """What compiled code depends on: Python (its entry point unpacks Python objects), Numba, llvmlite, and the CPU."""
    return _identity(target.processor(), target.features())


@functools.cache
def level_identity() -> str | None:
    """`identity` of code for this processor's instruction-set level, which packs hold; None without a level."""
    level = target.level()
    return None if level is None else _identity(target.level_processor(level), target.LEVELS[level])


def _identity(processor: str, features: str) -> str:
    numba = target.numba()
    import llvmlite

    python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
    versions = f"{python} numba {numba.__version__} llvmlite {llvmlite.__version__}"
    return f"cpu {versions} {target.triple()} {processor} {features} opt {numba.config.OPT}"


def namespace() -> dict[str, object]:
    """Names that a kernel's source may use: types that cast, bit casts, views, `divide`, and decorators of helpers."""
    from numba import types

    type_names = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 uintp float32 float64 complex64 complex128"
    names = {name: getattr(types, name) for name in type_names.split()}
    return {
        **names, **_bit_views(), **_views(),
        "boolean": types.boolean, "rounded_product": _rounded_product(), "divide": division.divide(),
        "device_function": compiler.device_function, "inlined_function": compiler.device_function(forceinline=True),
        "shared_function": compiler.device_function(shared=True),
        "rolled_function": compiler.device_function(shared=True, rolled=True),
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
    """rounded_product(x, y): x * y, never contracted with an addition into a fused multiply-add."""
    from numba.extending import intrinsic

    @intrinsic
    def rounded_product(context: object, x: object, y: object) -> tuple:
        # Numba adds the kernel's fast-math flags to every instruction without flags
        return x(x, x), lambda context, builder, signature, values: builder.fmul(*values, flags=("arcp",))

    return rounded_product


@functools.cache
def _views() -> dict[str, Callable]:
    """Functions for memory addresses.

    view_float32(address, size) and so on: memory as a flat array without reference counting. address_of(array): the
    address of an array's first element. constant_address(): the address of an exported program's constants.
    opaque(address): the same address, but LLVM does not know what it points to.
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
            constants = module.globals.get(CONSTANTS) or ir.GlobalVariable(module, byte, CONSTANTS)
            constants.global_constant = True
            return builder.ptrtoint(constants, ir.IntType(64))

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
    """The intrinsic that makes a flat array of a memory address and a size."""
    from numba import types
    from numba.extending import intrinsic

    array_type = types.Array(number, 1, "C")

    @intrinsic
    def view(context: object, address: object, size: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            position = context.data_model_manager[array_type].get_field_position
            data = builder.inttoptr(values[0], context.get_data_type(number).as_pointer())
            step = context.get_constant(types.intp, number.bitwidth // 8)
            # without an owner; Numba's own helper takes four times as long to compile
            array = context.get_constant_null(array_type)
            for name, value in (("nitems", values[1]), ("itemsize", step), ("data", data)):
                array = builder.insert_value(array, value, position(name))
            for name, value in (("shape", values[1]), ("strides", step)):
                array = builder.insert_value(array, value, [position(name), 0])
            return array

        return array_type(types.int64, types.int64), generate

    return view


def choose(make: Callable[[bool], Callable], work: int, divisible: bool, long: bool) -> Callable:
    """The launcher for `work` elements of the kernel that `make(parallel)` builds: serial, or divided among threads.

    A kernel with a `long` source, which takes seconds to compile, is always divided, so that it is compiled only once.
    """

    def serial() -> Callable:
        return threads.alone(make(True)) if divisible and long else make(False)

    return threads.Gated(lambda: make(True), serial) if divisible and work >= threads.MIN_PARALLEL_WORK else serial()


def compile(
    make: Callable[[], Callable],
    signature: str,
    parallel: bool,
    fastmath: frozenset[str],
    cache: object,
    alone: bool = False,
) -> Callable:
    """The native form of the function that `make` returns, for a signature such as `float32[], int64`.

    It is loaded from the cache if there is an entry.

    The result is the compiled entry point: it takes exactly these types, in half the time of Numba's dispatcher. It
    releases the GIL while it runs, unless it must run `alone`. Only machine code is kept: Numba's and LLVM's
    intermediate results are ten times as large.
    """
    return begin(make, signature, parallel, fastmath, cache, alone, ahead=False)()


def begin(
    make: Callable[[], Callable],
    signature: str,
    parallel: bool,
    fastmath: frozenset[str],
    cache: object,
    alone: bool = False,
    ahead: bool = True,
) -> Callable[[], Callable]:
    """Begin to `compile`; the function that it returns waits for LLVM, whose part goes on in background threads."""
    _prepare()
    if parallel:
        workers.team()
    with Span("load", "read the cache"):
        loaded = None if target.is_foreign() else cache.load(code_library.entry)
    if loaded is not None:
        progress.loaded()
        return lambda: loaded
    with Span("source", "run the text"):
        function = make()
    result = translate(function, signature, fastmath, alone, ahead=ahead)

    def finish() -> Callable:
        with Span("link", "collect object files"):
            code = code_library.machine_code(result)
            make = functools.partial(code_library.entry_here, result) if target.is_foreign() else code_library.entry
        with Span("load", "write the cache"):
            return cache.save(make, *code)

    return finish


def translate(
    function: Callable,
    signature: str,
    fastmath: frozenset[str],
    alone: bool = False,
    lines: bool = False,
    library: Callable = code_library.library_class,
    ahead: bool = False,
) -> object:
    """Numba's compile result for a function: LLVM code in a library that is not loaded.

    With `lines` the code has line numbers of the source. `library()` is the class of code libraries, which decides what
    is optimised; `ahead`: by background threads, until the object file is read.
    """
    compiler.prepare()
    loops = division.prepare(function.__globals__)
    from numba import config, njit

    if config.DISABLE_JIT:
        raise RuntimeError("NUMBA_DISABLE_JIT is set, but numod's kernels need Numba's compiler: unset it")
    options = {
        "error_model": "numpy",
        "boundscheck": False,
        "no_cfunc_wrapper": True,
        "_nrt": False,
        "pipeline_class": compiler.pipeline(apart=True),
    }
    dispatcher = njit(nogil=not alone, fastmath=set(fastmath), **options)(function)
    if lines:
        for dispatched in (dispatcher, *loops):
            dispatched._compiler._customize_flags = _with_lines
        dispatcher.targetctx.DIBuilder = _line_builder()
    with (
        _room(function),
        signals.waiting(),
        progress.compiling(function.__name__),
        _unloaded(library()),
        compiler.quickly(ahead=ahead),
        Span("typing", "call Numba's compiler", function.__name__),  # time that is in none of its passes
    ):
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
    """Numba's builder of debug info, which keeps parallel loops as functions of their own.

    The function that threads call, into which they would be inlined, has no line numbers.
    """
    from numba.core.debuginfo import DIBuilder

    class LineBuilder(DIBuilder):
        def mark_subprogram(self, function: object, *arguments: object, **options: object) -> None:
            super().mark_subprogram(function, *arguments, **options)
            if division.LOOP_PREFIX in function.name:
                function.attributes.add("noinline")

    return LineBuilder


@contextmanager
def _unloaded(library: type) -> Iterator[None]:
    """Context in which Numba loads no code that it compiles."""
    from numba.core import compiler_lock

    with signals.locked(compiler_lock.global_compiler_lock._lock):
        codegen = code_library.codegen()
        codegen._library_class = library
        codegen.set_env = lambda key, environment: None
        try:
            yield
        finally:
            _load_everything()


def _load_everything() -> None:
    """Let Numba load every function again."""
    overrides = vars(code_library.codegen())
    overrides.pop("_library_class", None)
    overrides.pop("set_env", None)


def _prepare() -> None:
    """Number this process's compiled functions from a random start.

    Numba's symbol names contain a counter that forked processes inherit: two of them could cache different functions
    under one name.
    """
    global _ready
    if not _ready:
        _ready = True
        _renumber()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_enter_child)


def _enter_child() -> None:
    """After a fork: renew the start of symbol names, and the locks of Numba and LLVM, which other threads may hold.

    This thread holds them where a signal's handler forks in the middle of a kernel. The child then goes on with it.
    """
    from llvmlite.binding import ffi
    from numba.core import compiler_lock

    for lock in compiler_lock.global_compiler_lock, ffi.lib._lock:
        if not lock._lock._is_owned():
            lock._lock = threading.RLock()
    _load_everything()  # a thread of the parent may have been compiling
    compiler.restore()
    _renumber()


def _renumber() -> None:
    from numba.core.bytecode import FunctionIdentity

    FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(6), "little"))
