"""Records when kernels are compiled or loaded, and how long each step takes. `kernel.build` compiles them, and
`device.phases` reports the steps.
"""

from __future__ import annotations

from collections.abc import Callable

from ..device import phases
from ..kernel import build
from .exchange import Exchange


def watch_compiler(exchange: Exchange, note: Callable, clock: Callable, passes: bool) -> None:
    """Record every kernel built (compiled, or loaded from disk) and, optionally, the passes of Numba and LLVM.

    The import of Numba and the start of its compiler are slices of their own, not part of the first kernel.
    """

    def watch_make(plain: Callable) -> Callable:
        def make(backend: object, kernel: build.Kernel, *rest: object) -> build.Kernel:
            start = clock()
            try:
                return plain(backend, kernel, *rest)
            finally:
                note(start, "load" if kernel.cached else "compile", kernel, None)

        return make

    def note_span(start: int, phase: str, name: str, owner: str) -> None:
        if phase == "import":
            note(start, "import", name, None)
        elif passes:
            note(start, "pass", name, owner)

    exchange.replace(build, "_make", watch_make)
    phases.listeners.append(note_span)
    exchange.later(lambda: phases.listeners.remove(note_span))
