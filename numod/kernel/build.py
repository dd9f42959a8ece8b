"""Build kernels: from source text to native code, once per machine.

A kernel's cache key is the sha256 of its whole source (which includes all constants), its signature, its flags, the
versions of numod, Numba and llvmlite, and the processor's features. (Numba's own key omits flags, constants, globals
and callees.) `kernel.cache` stores entries as files, which are written under a temporary name and renamed, so that any
number of processes can share a folder. Without a usable folder, kernels are cached in memory only.
"""

from __future__ import annotations

import linecache

# imported here, so that a fork takes its lock after `unforked`, as an import of Numba does
import logging  # noqa: F401
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ..device import front_end, phases, progress, signals
from ..device.phases import Span
from . import registers, scalar

if TYPE_CHECKING:
    from ..device.backend import Backend

VERSION = "24"  # raise it when anything changes that affects compiled kernels without changing their text
FAST_POINTWISE = frozenset({"contract"})
FAST_REDUCTION = frozenset({"contract", "reassoc", "nsz", "arcp"})
_lock = threading.RLock()
# held while modules are imported and kernels compiled: a child that is forked then would inherit their locks
unforked = threading.RLock()
_built: dict[str, Kernel] = {}
_unfinished: list[Kernel] = []  # those that LLVM still works on


@dataclass
class Statistics:
    """Counts of the kernels that this process compiled and loaded, and the seconds that it took."""

    compiled: int = 0
    compile_seconds: float = 0.0
    loaded: int = 0
    load_seconds: float = 0.0


statistics = Statistics()
listeners: list[Callable[[Kernel], None]] = []


@dataclass(slots=True)
class Kernel:
    """A built kernel: call `launch(*flat arrays, *numbers)`.

    `source`: the text that was compiled. `cached`: whether it was loaded from disk.
    """

    name: str
    source: str
    signature: str
    parallel: bool
    key: str
    launch: Callable | None = None
    cached: bool = False
    why: str = ""  # the reason why it was compiled, or not cached
    seconds: float = 0.0
    spent: phases.Spent = field(default_factory=phases.Spent)  # of which, by phase
    symbols: tuple[str, ...] = ()  # the names of its functions in the machine code
    shared: tuple[str, ...] = ()  # the names of shared functions that it calls
    # (lines=False): Numba's compile result, for inspection, on the CPU
    translate: Callable | None = field(default=None, repr=False)
    # waits for LLVM and returns the entry point; None when the kernel is complete
    finish: Callable[[], Callable] | None = field(default=None, repr=False)


class _Ahead(threading.local):
    """The kernels that this thread asks for while it compiles ahead; None when it does not."""

    asked: list[Kernel] | None = None


_ahead = _Ahead()


@contextmanager
def ahead() -> Iterator[list[Kernel]]:
    """Context in which new kernels are returned while LLVM works on them; their first launch waits for it.

    It yields the list of kernels that this thread asks for.
    """
    before, _ahead.asked = _ahead.asked, []
    try:
        yield _ahead.asked
    finally:
        _ahead.asked = before


def build(
    backend: Backend,
    name: str,
    source: str,
    signature: str,
    parallel: bool = False,
    fastmath: frozenset = FAST_POINTWISE,
    alone: bool = False,
) -> Kernel:
    """The kernel of `source`, which defines a function `kernel`, compiled for `signature` (`float32[], int64`) on
    `backend`.

    An `alone` kernel holds the GIL while it runs.
    """
    with signals.waiting():
        with signals.locked(unforked):  # this imports Numba
            key = _key(backend.identity(), source, signature, parallel, fastmath, alone)
        with _locked(_lock):
            if key not in _built:
                kernel = Kernel(f"{name}_{key[:16]}", source, signature, parallel, key)
                try:
                    _built[key] = _make(backend, kernel, fastmath, alone)
                except Exception as error:
                    # Numba's errors, such as for numbers without an order
                    if "complex" in signature and type(error).__name__ in ("TypingError", "LoweringError"):
                        raise NotImplementedError(
                            f"{name} is not implemented for complex numbers; take a part first, with .real, .imag or "
                            ".abs()"
                        ) from error
                    raise
            kernel = _built[key]
    return asked_for(kernel)


def asked_for(kernel: Kernel) -> Kernel:
    """The kernel, complete unless this thread compiles ahead."""
    if _ahead.asked is None:
        complete(kernel)
    else:
        _ahead.asked.append(kernel)
    return kernel


def complete(kernel: Kernel) -> None:
    """Wait for LLVM's part of a kernel, and load it."""
    if kernel.finish is None:
        return
    with signals.waiting(), _locked(_lock):
        if kernel.finish is not None:
            with _timed(kernel), signals.locked(unforked), progress.compiling(kernel.name, again=True):
                kernel.launch = kernel.finish()
            if kernel.finish is not None:  # a signal's handler may have completed it meanwhile
                _note(kernel)


def complete_all() -> None:
    """Complete all kernels."""
    for kernel in unfinished():
        complete(kernel)


def unfinished() -> list[Kernel]:
    """The kernels that LLVM still works on, in the order they were built."""
    return [*_unfinished]


@contextmanager
def _timed(kernel: Kernel) -> Iterator[None]:
    """Context whose time is part of the kernel's build."""
    start = time.perf_counter()
    try:
        with phases.collected(kernel.spent):
            yield
    finally:
        kernel.seconds += time.perf_counter() - start


@contextmanager
def _locked(lock: threading.RLock) -> Iterator[None]:
    """Context that holds the lock. Another thread that builds a kernel is waited for."""
    with ExitStack() as stack:
        if not lock.acquire(blocking=False):
            with Span("wait", "for another thread's kernel"):
                stack.enter_context(signals.locked(lock))
        else:
            stack.callback(lock.release)
        yield


def kernels() -> list[Kernel]:
    """All kernels of this process, in the order they were built."""
    complete_all()
    return begun()


def begun() -> list[Kernel]:
    """All kernels of this process, also those that LLVM still works on."""
    return list(_built.values())


def _make(backend: Backend, kernel: Kernel, fastmath: frozenset, alone: bool) -> Kernel:
    """Compile the kernel, or load it from the cache, and note how long it took."""
    with _timed(kernel), signals.locked(unforked):
        with Span("load", "find the cache", kernel.name):
            from .cache import KernelCache  # here, since it imports hashlib

            level_key = partial(_level_key, backend, kernel, fastmath, alone)
            entry = KernelCache(kernel, version(), level_key)
        function = partial(_function, backend, kernel)
        if hasattr(backend, "translate"):
            kernel.translate = lambda lines=False: _translated(
                backend, function, kernel.signature, fastmath, alone, lines
            )
        arguments = function, kernel.signature, kernel.parallel, fastmath, entry, alone
        if not (_ahead.asked is not None and hasattr(backend, "begin")):
            kernel.launch = backend.compile(*arguments)
        else:
            kernel.finish = backend.begin(*arguments)
            if entry.hit:
                kernel.launch, kernel.finish = kernel.finish(), None
            else:
                kernel.launch = partial(_launch, kernel)
                _unfinished.append(kernel)
    kernel.cached = entry.hit
    if kernel.finish is None:
        _note(kernel)
    return kernel


def _launch(kernel: Kernel, *arguments: object) -> None:
    """Launch a kernel that was returned while LLVM worked on it."""
    complete(kernel)
    kernel.launch(*arguments)


def _note(kernel: Kernel) -> None:
    """Count a complete kernel and call the listeners."""
    if kernel in _unfinished:
        _unfinished.remove(kernel)
    kernel.finish = None
    if kernel.cached:
        statistics.loaded += 1
        statistics.load_seconds += kernel.seconds
    else:
        statistics.compiled += 1
        statistics.compile_seconds += kernel.seconds
    for listener in tuple(listeners):
        listener(kernel)


def version() -> str:
    """The version of entries: they can be of use to this version of numod only."""
    return f"{VERSION} {_package_version()}"


def _key(identity: str, source: str, signature: str, parallel: bool, fastmath: frozenset, alone: bool) -> str:
    import hashlib

    flags = f"{signature}|{parallel}|{sorted(fastmath)}{'|alone' if alone else ''}"
    return hashlib.sha256("\n".join((VERSION, _package_version(), identity, flags, source)).encode()).hexdigest()


def _level_key(backend: Backend, kernel: Kernel, fastmath: frozenset, alone: bool) -> str | None:
    """The kernel's key when compiled for this processor's instruction-set level, as in packs; None without one."""
    identity = backend.level_identity() if hasattr(backend, "level_identity") else None
    return identity and _key(identity, kernel.source, kernel.signature, kernel.parallel, fastmath, alone)


def _translated(backend: Backend, function: Callable[[], Callable], *options: object) -> object:
    """Numba's compile result for a kernel, for inspection. Like a build, this registers helper functions."""
    with _lock:
        return backend.translate(function(), *options)


def function(backend: Backend, name: str, source: str) -> Callable:
    """The kernel of a source as an uncompiled Python function, for `device.ahead`."""
    return _function(backend, Kernel(name, source, "", False, ""))


def _function(backend: Backend, kernel: Kernel) -> Callable:
    """The kernel as an uncompiled Python function."""
    text = kernel.source.replace("def kernel(", f"def {kernel.name}(", 1)
    namespace = {**_provided(backend), "__name__": __name__, front_end.TEXT: text}
    filename = f"<numod {kernel.name}>"
    # tracebacks and profilers can show the source
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec"), namespace)
    return namespace[kernel.name]


def _provided(backend: Backend) -> dict[str, object]:
    """The names that the back end provides to kernels. Raises NameError if a name has a second meaning.

    Text of a function of the registry is copied into kernels, where it would replace the back end's function.
    """
    names, vector_functions = backend.namespace(), registers.functions() if backend.VECTORISED else {}
    twice = (names.keys() & vector_functions.keys()) | ((names | vector_functions).keys() & scalar.functions.keys())
    if twice:
        raise NameError(f"{backend.__name__} provides {', '.join(sorted(twice))} to kernels already; rename the other")
    return {**names, **vector_functions}


def _package_version() -> str:
    from .. import __version__

    return str(__version__)


def _leave_parent() -> None:
    """Before a fork: the child has no threads that could complete kernels."""
    complete_all()
    unforked.acquire()
    while _unfinished:  # another thread has begun one meanwhile
        unforked.release()
        complete_all()
        unforked.acquire()


def _enter_child() -> None:
    """After a fork: replace the locks, which a thread of the parent may have held."""
    global _lock, unforked
    _lock, unforked = threading.RLock(), threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_leave_parent, after_in_parent=lambda: unforked.release(), after_in_child=_enter_child)
