"""Compilation with Numba: passes that kernels do not need are skipped, and functions that kernels share are compiled
once.

Most of the compile time is spent in Python, on type inference and on generating LLVM IR. Kernels are loops over flat
arrays and numbers, without closures, array expressions, generators or reference counting, so half of Numba's passes do
nothing. `front_end` replaces most of the others by one walk over the syntax tree. `replacements` has faster forms of
some of Numba's functions, `code_library` LLVM's part.
"""

from __future__ import annotations

import builtins
import dis
import functools
import gc
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from . import code_library, front_end, phases, replacements, signals, target
from .phases import Span

_SKIPPED_PASSES = (  # skipped passes: array expressions, closures, `with`, literal_unroll, inlining by Numba
    "with_lifting", "inline_closure_likes", "rewrite_dynamic_raises", "make_function_op_code_to_jit_function",
    "inline_inlinables", "find_literally", "literal_unroll", "inline_overloads", "nopython_rewrites",
)  # fmt: skip
_ENDS_LIVES = "ir_legalization"  # the pass that ends the lives of variables, which only reference counting needs
_OVERRIDES = "_library_class", "set_env"  # attributes of Numba's code generator that `cpu` sets for kernels
_helpers: dict[tuple, Callable] = {}
_gc_suspended = False  # whether garbage collection is suspended


@functools.cache
def prepare() -> None:
    """Import the parts of Numba that compile, in a thread (see `target.in_thread`)."""

    def refresh() -> None:
        from numba.core.compiler_lock import global_compiler_lock
        from numba.core.registry import cpu_target

        with global_compiler_lock:  # another thread may compile a function of the user's
            _leave_scipy()
            cpu_target.typing_context.refresh()
            cpu_target.target_context.refresh()

    with Span("import", "start Numba's compiler"), target.making_lasting_objects():
        target.in_thread(refresh)
        phases.watch_passes()


def _leave_scipy() -> None:
    """Keep Numba from importing SciPy to see whether it has BLAS, which takes as long as Numba's own start."""
    from numba.np import linalg

    if "numba.np.arraymath" in sys.modules:  # the module that looks, as it is imported
        return
    usual, linalg.ensure_blas = linalg.ensure_blas, lambda: None
    try:
        from numba.np import arraymath
    finally:
        linalg.ensure_blas = usual
    arraymath.ensure_blas, arraymath._HAVE_BLAS = usual, _Blas()


class _Blas:
    """Numba's value for whether SciPy has BLAS, which is found when a function of the user's needs it."""

    def __bool__(self) -> bool:
        from numba.np import arraymath

        return arraymath._check_blas()


def device_function(
    function: Callable | None = None, shared: bool = False, rolled: bool = False, **options: object
) -> Callable:
    """Decorator for a function that kernels call.

    Functions with equal code and globals in several kernels become one function. A `shared` function is
    compiled separately and called by all kernels; others are part of each kernel, where LLVM may inline them. The loops
    of a `rolled` function are not unrolled.
    """
    if function is None:
        return functools.partial(device_function, shared=shared, rolled=rolled, **options)
    function.__rolled__ = rolled
    options |= {"pipeline_class": pipeline(shared), "no_cfunc_wrapper": True}
    key = _key(function, options)
    if key is None:
        return _registered(function, options)
    if key not in _helpers:
        _helpers[key] = _registered(function, options)
    return _helpers[key]


def _registered(function: Callable, options: dict) -> Callable:
    from numba.extending import register_jitable

    return register_jitable(**options)(function)


def _key(function: Callable, options: dict) -> tuple | None:
    """The identity of a helper function: its code and the values of its globals; None if a global is not defined."""
    code, namespace = function.__code__, function.__globals__
    undefined = any(
        name not in namespace and not hasattr(builtins, name) and name in _globals_read(code) for name in code.co_names
    )
    if undefined or any(isinstance(co_const, types.CodeType) for co_const in code.co_consts):
        return None
    global_ids = tuple((name, id(namespace[name])) for name in code.co_names if name in namespace)
    return (
        function.__name__,
        code.co_code,
        repr(code.co_consts),
        code.co_names,
        code.co_varnames,
        global_ids,
        options["pipeline_class"],
        repr(options),
    )


def _globals_read(code: types.CodeType) -> set[str]:
    """The globals that a code object reads; `co_names` also has attribute names."""
    return {instruction.argval for instruction in dis.get_instructions(code) if instruction.opname == "LOAD_GLOBAL"}


@functools.cache
def pipeline(apart: bool = False) -> type:
    """Numba's compiler without the passes that kernels do not need; `apart` for functions compiled separately."""
    from numba.core.compiler import Compiler, DefaultPassBuilder
    from numba.core import bytecode
    from numba.core.targetconfig import ConfigStack

    class KernelCompiler(Compiler):
        def compile_extra(self, function: Callable) -> object:
            self.state.func_id = bytecode.FunctionIdentity.from_function(function)
            self.state.lifted, self.state.lifted_from = (), None
            self._choose_library()
            with ConfigStack().enter(self.state.flags.copy()):
                result = front_end.compiled(self.state)
            return super().compile_extra(function) if result is None else result

        def _choose_library(self) -> None:
            if apart:
                rolled = getattr(self.state.func_id.func, "__rolled__", False)
                self.state.library = code_library.separate_library(self.state.func_id.func_qualname, rolled)

        def define_pipelines(self) -> list:
            self._choose_library()
            builder = DefaultPassBuilder.define_nopython_pipeline(self.state)
            skipped = _SKIPPED_PASSES if self.state.flags.nrt else (*_SKIPPED_PASSES, _ENDS_LIVES)
            builder.passes = [entry for entry in builder.passes if entry[0].name() not in skipped]
            return [builder]

    return KernelCompiler


@contextmanager
def quickly(ahead: bool = False, gpu: bool = False, package: str = "numba") -> Iterator[None]:
    """Context for compiling kernels, for one thread at a time: slow functions of Numba are replaced by faster ones, and
    garbage collection is suspended. At its end, LLVM's background work is done, unless it is `ahead`.

    `package` has the target for a `gpu`.
    """
    global _gc_suspended
    replacements.install(package, gpu)
    _gc_suspended = gc.isenabled()
    gc.disable()
    if threading.current_thread() is threading.main_thread():  # no other thread calls handlers
        signals.around = suspended
    try:
        with code_library.optimising_in_background(ahead):
            yield
    finally:
        with Span("lowering", "collect garbage"):
            if restore():
                # the next collection, run here since signals are blocked: their handlers could leave LLVM's lock
                # taken when a module is freed
                gc.collect(0)


def restore() -> bool:
    """Restore Numba's functions and garbage collection. Returns whether garbage collection is enabled."""
    global _gc_suspended
    replacements.restore()
    signals.around = nullcontext
    if _gc_suspended:
        gc.enable()
    _gc_suspended = False
    return gc.isenabled()


@contextmanager
def suspended() -> Iterator[None]:
    """Context in which this thread's compilation is suspended: the handler of a signal runs in the middle of it.

    The handler is the user's code: it may compile functions with Numba, or need other kernels. Numba then finds its own
    functions, loads what it compiles, and does not take the handler's functions for callees of the kernel.
    """
    global _gc_suspended
    codegen, queue = vars(code_library.codegen()), code_library.current_queue()
    overrides = {name: codegen.pop(name) for name in _OVERRIDES if name in codegen}
    stacks = [(stack, stack[:]) for stack in _stacks()]
    replaced = replacements.restore()
    restore()
    for stack, _ in stacks:
        stack.clear()
    try:
        with phases.collected(phases.outside):
            yield
    finally:
        for stack, content in stacks:
            stack[:] = content
        codegen.update(overrides)
        code_library.set_queue(queue)
        replacements.replace(replaced)
        signals.around, _gc_suspended = suspended, gc.isenabled()  # as the handler left it
        gc.disable()


def _stacks() -> Iterator[list]:
    """Numba's lists of what is being compiled, and that of `front_end`."""
    from numba.core import registry
    from numba.core.utils import ThreadLocalStack

    yield front_end.walking
    yield registry.cpu_target.typing_context.callstack._stack
    yield from [kind()._stack for kind in ThreadLocalStack._registered.values()]
