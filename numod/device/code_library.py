"""Libraries of compiled code: LLVM's part of a compilation, machine code, and loading it.

A library holds the LLVM IR of a function and of the functions that it calls. Those that kernels share have a library of
their own, which is optimised and loaded once.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from . import background, room, signals, target
from .phases import Span

_shared: dict[str, object] = {}  # libraries of shared functions that are written as LLVM IR, by name
_queue = background.Queue()  # LLVM's part of the current compilation
_loaded: set[str] = set()  # names of the functions whose machine code is loaded


@contextmanager
def optimising_in_background(ahead: bool = False) -> Iterator[None]:
    """Context in which libraries are optimised by background threads; at its end their work is done.

    If it is `ahead`, the work goes on until a library's object file is read.
    """
    global _queue
    _queue = queue = background.Queue(ahead)
    try:
        yield
    except signals.Stopped:
        queue.abandon()
        raise
    except BaseException:
        ahead = False
        raise
    finally:
        if not ahead:
            queue.finish()


def current_queue() -> background.Queue:
    """LLVM's part of the current compilation."""
    return _queue


def set_queue(queue: background.Queue) -> None:
    """Continue with another compilation."""
    global _queue
    _queue = queue


def codegen() -> object:
    """Numba's code generator for this processor."""
    from numba.core import registry

    return registry.cpu_target.target_context.codegen()


@functools.cache
def library_class() -> type:
    """A subclass of Numba's code library that does not load code, and optimises only separately compiled functions
    (kernels, and functions that they share), in the background.

    For every kernel, Numba would optimise each function that it calls, generate machine code that is never run, and
    optimise the function again as part of the kernel: half of the compile time.
    """
    import llvmlite.binding as llvm
    from numba.core.codegen import JITCodeLibrary

    class Library(JITCodeLibrary):
        apart, rolled, machine_code, queue, task = False, False, None, None, None
        code_here = None  # machine code for this processor, where `machine_code` is for another

        def _optimize_functions(self, module: object) -> None:
            module.data_layout = self._codegen._data_layout

        def _optimize_final_module(self) -> None:
            if self.apart:
                self.task = functools.partial(self._complete, background.copied(self._final_module))
                self.queue = _queue
                _queue.put(self.task)

        def _complete(self, module: object, generator: object) -> Callable[[], None]:
            """Optimise a module and generate its machine code; returns a function that stores both in the library."""
            here = None
            if generator.here:
                here = self._emitted(background.copied(module), generator.here)
                module.triple, module.data_layout = generator._tm.triple, str(generator._tm.target_data)
            code = self._emitted(module, generator)

            def take() -> None:
                names = tuple(function.name for function in module.functions if not function.is_declaration)
                self._final_module, self.machine_code, self.code_here = module, (code, names), (here or code, names)
                self.task = None

            return take

        def _emitted(self, module: object, generator: object) -> bytes:
            """The machine code of a module, which is optimised in place."""
            part = copy.copy(self)
            part._final_module, part._codegen = module, _simply(generator) if self.rolled else generator
            with Span("optimise", "LLVM: optimise", self.name):
                super(Library, part)._optimize_final_module()
            return emit(part)

        def finalize(self) -> None:
            with Span("link", "LLVM: link", self.name):
                super().finalize()

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

        def _get_module_for_linking(self) -> object:
            return llvm.parse_assembly("") if self.apart else super()._get_module_for_linking()

        def hasten(self) -> None:
            """Let the machine code be generated before that which nobody waits for."""
            if (task := self.task) is not None:  # another thread that waits may take the code meanwhile
                self.queue.hasten(task)

        def object_file(self) -> tuple[bytes, tuple[str, ...]]:
            """The machine code, and the names of the functions in it; generated now if the background work failed."""
            if (task := self.task) is not None:
                self.queue.finish(task)
            if self.machine_code is None:
                self._complete(background.copied(self._final_module), target.code_generator())()
            return self.machine_code

    return Library


@functools.cache
def unoptimised_library_class() -> type:
    """A subclass of Numba's code library for `ahead`: it does not optimise, and links a kernel with all its callees."""
    from numba.core.codegen import JITCodeLibrary

    class Library(JITCodeLibrary):
        apart = False

        def _optimize_functions(self, module: object) -> None:
            module.data_layout = self._codegen._data_layout

        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            self._finalized = True

    return Library


def emit(library: object) -> bytes:
    """The object file of an optimised library."""
    with Span("emit", "LLVM: emit object", library.name):
        return library._codegen._tm.emit_object(library._final_module)


def parts(library: object) -> list:
    """The libraries of shared functions that a library calls, callees first, and the library itself if it is one.

    Other libraries that it calls belong to a user's Numba functions.
    """
    called = [part for linking_library in library._linking_libraries for part in parts(linking_library)]
    return list(dict.fromkeys([*called, library] if getattr(library, "apart", False) else called))


def separate_library(name: str, rolled: bool = False) -> object:
    """A library for a function that is compiled separately; if it is `rolled`, without copies of its loops."""
    library = codegen().create_library(name)
    library.apart, library.rolled = True, rolled
    return library


def _simply(generator: object) -> object:
    """A code generator that makes no copies of loops for conditions that stay the same in them (as LLVM's O3 does)."""
    generator = copy.copy(generator)
    generator._module_pass_manager = functools.partial(generator._module_pass_manager, opt=2)
    return generator


def shared_instructions(name: str, write: Callable[[object], None] | str) -> object:
    """The library of the shared function `name`, created on first use.

    `write` is its LLVM IR, or a function that appends it to a module.
    """
    if name not in _shared:
        library = separate_library(name)
        if isinstance(write, str):
            from llvmlite.binding import parse_assembly

            library.add_llvm_module(parse_assembly(write))
        else:
            module = library.create_ir_module(name)
            write(module)
            library.add_ir_module(module)
        library.finalize()
        _shared[name] = library
    return _shared[name]


def machine_code(result: object) -> tuple[tuple[tuple[bytes, tuple[str, ...]], ...], str, str]:
    """(object files, each with the names of its functions; name of the entry point; name of the environment's variable)
    of a function that Numba translated.
    """
    libraries = parts(result.library)
    for library in libraries:
        library.hasten()
    return (
        tuple([library.object_file() for library in libraries]),
        result.fndesc.llvm_cpython_wrapper_name,
        result.fndesc.env_name,
    )


def entry(
    name: str, module: object, objects: tuple[tuple[bytes, tuple[str, ...]], ...], wrapper: str, variable: str
) -> Callable:
    """A Python function that calls machine code.

    Numba would create a module, a library and a dispatcher, in twice the time. Every kernel's object files include the
    shared functions that it calls, which are loaded once.
    """
    from llvmlite.binding import ObjectFileRef
    from numba import _dynfunc
    from numba.core import compiler_lock

    lock = signals.locked(compiler_lock.global_compiler_lock._lock)
    needed = room.LOAD + 2 * sum(len(code) for code, _ in objects)
    room_needed = room.compiling(needed, f"load the kernel {name}")
    with Span("load", "LLVM: link object", name), room_needed, lock:
        engine = codegen()._engine
        for code, functions in objects:
            if not _loaded.issuperset(functions):
                engine._ee.add_object_file(ObjectFileRef.from_data(code))
                _loaded.update(functions)
        engine.finalize_object()
        codegen().set_env(variable, _environment())
        return _dynfunc.make_function(module, name, "", engine.get_function_address(wrapper), _environment(), ())


def entry_here(result: object, name: str, module: object, objects: tuple, wrapper: str, variable: str) -> Callable:
    """As `entry`, where `objects` are for another machine: calls the code for this one, which was compiled beside."""
    return entry(name, module, tuple(part.code_here for part in parts(result.library)), wrapper, variable)


@functools.cache
def _environment() -> object:
    """Numba's environment of functions that use no Python objects."""
    from numba.core.environment import Environment

    return Environment({})


def address(name: str) -> int:
    """The address of a compiled function, by its name in the machine code."""
    return codegen()._engine.get_function_address(name)
