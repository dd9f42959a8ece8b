"""Records when kernels are compiled or loaded, and how long each compiler pass takes. `kernel.build` compiles them."""

from __future__ import annotations

import sys
from collections.abc import Callable

from ..device import compiler, signals
from ..kernel import bind, build
from .exchange import Exchange


def watch_compiler(exchange: Exchange, note: Callable, clock: Callable, passes: bool) -> None:
    """Record every kernel built (compiled, or loaded from disk) and, optionally, the passes of Numba and LLVM."""
    waiting = passes

    def watch_make(plain: Callable) -> Callable:
        def make(backend: object, kernel: build.Kernel, *rest: object) -> build.Kernel:
            nonlocal waiting
            if waiting:
                waiting = False
                _watch_numba(exchange, note, clock)
            start = clock()
            try:
                return plain(backend, kernel, *rest)
            finally:
                note(start, "load" if kernel.cached else "compile", kernel, None)

        return make

    exchange.replace(build, "_make", watch_make)
    for module, name in ((build, "build"), (bind, "_built")):  # the text of a kernel already needs Numba
        exchange.replace(module, name, lambda plain: _after_import(plain, note, clock))


def _after_import(plain: Callable, note: Callable, clock: Callable) -> Callable:
    """Record the import of Numba and the initialization of its compiler as a slice, not as part of the first kernel."""

    def watched(*arguments: object, **kwargs: object) -> object:
        if "numba" not in sys.modules:
            start = clock()
            with signals.waiting():
                from numba.core.registry import cpu_target

                cpu_target.typing_context.refresh()
                cpu_target.target_context.refresh()
            note(start, "import", "import numba", None)
        return plain(*arguments, **kwargs)

    return watched


def _watch_numba(exchange: Exchange, note: Callable, clock: Callable) -> None:
    """Watch Numba's passes. Called when Numba is being imported, since the profiler does not import it itself."""
    from numba.core import event
    from numba.core.codegen import CPUCodeLibrary

    passes = _Passes(note, clock)
    event.Listener.register(_Passes)
    event.register("numba:run_pass", passes)
    exchange.later(lambda: event.unregister("numba:run_pass", passes))
    exchange.replace(
        CPUCodeLibrary,
        "_optimize_final_module",
        lambda plain: _around(plain, note, clock, "LLVM: optimise", lambda library: library.name),
    )
    exchange.replace(
        compiler, "emit", lambda plain: _around(plain, note, clock, "LLVM: emit object", lambda library: library.name)
    )
    exchange.replace(
        compiler, "entry", lambda plain: _around(plain, note, clock, "LLVM: link object", lambda name, *_: name)
    )


def _around(plain: Callable, note: Callable, clock: Callable, stage: str, owner: Callable[..., str]) -> Callable:
    """Record a stage of LLVM for the function named by `owner`."""

    def watched(*arguments: object) -> object:
        start = clock()
        result = plain(*arguments)
        note(start, "pass", stage, owner(*arguments))
        return result

    return watched


class _Passes:
    """Receives Numba's events at the start and end of each pass (a `Listener` without importing Numba)."""

    def __init__(self, note: Callable, clock: Callable) -> None:
        self.note, self.clock = note, clock
        self.open: list[int] = []  # Numba compiles one function at a time, with callees nested in it

    def notify(self, event: object) -> None:
        """Numba's callback for both kinds of events."""
        if event.is_start:
            self.open.append(self.clock())
        elif event.is_end and self.open:
            name, _, function = event.data["name"].partition(" [")
            self.note(self.open.pop(), "pass", name, function.rstrip("]"))
