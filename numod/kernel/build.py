"""Build kernels: source text to native code, once per machine. The only place that caches compiled code.

Numba's own cache key omits flags, constants, globals and callees. Here a kernel's key is the sha256 of its whole source (all constants are
in it), its signature, its flags, the versions of numod, Numba and llvmlite and the processor's features. An entry is one file, written to a
temporary name and renamed, with a digest of its content in front; so any number of processes can fill one folder, and a torn or damaged
entry is compiled again. Where no folder is writable, kernels live in memory.
"""

from __future__ import annotations

import contextlib
import linecache
import logging  # noqa: F401  # a fork takes its lock, and Numba imports it: imported here, its lock is taken after `unforked`, not before
import os
import pickle
import stat
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial

from .. import config
from ..device import signals

VERSION = "14"  # of this file's format and of everything a kernel's text does not show; raise it when either changes
FAST_POINTWISE = frozenset({"contract"})
FAST_REDUCTION = frozenset({"contract", "reassoc", "nsz", "arcp"})
_lock = threading.RLock()
unforked = threading.RLock()  # held while modules are imported and kernels compiled: a child forked meanwhile would wait for their locks for ever
_built: dict[str, Kernel] = {}


@dataclass
class Statistics:
    """Kernels this process compiled and loaded, and the seconds each took."""

    compiled: int = 0
    compile_seconds: float = 0.0
    loaded: int = 0
    load_seconds: float = 0.0


statistics = Statistics()
listeners: list[Callable[[Kernel], None]] = []


@dataclass(slots=True)
class Kernel:
    """A built kernel: call `launch(*flat arrays, *numbers)`. `source` is what was compiled, `cached` whether it was loaded from disk."""

    name: str
    source: str
    signature: str
    parallel: bool
    key: str
    launch: Callable | None = None
    cached: bool = False
    why: str = ""  # it was compiled, or not
    seconds: float = 0.0
    symbols: tuple[str, ...] = ()  # the names of its functions in the machine code
    shared: tuple[str, ...] = ()  # and of those that it calls and other kernels share
    translate: Callable | None = field(default=None, repr=False)  # (lines=False): what Numba makes of it, for inspection, on the CPU


def build(backend: object, name: str, source: str, signature: str, parallel: bool = False, fastmath: frozenset = FAST_POINTWISE, alone: bool = False) -> Kernel:
    """The kernel of `source`, which defines a function `kernel`, compiled for `signature` (`float32[], int64`) on `backend`.

    An `alone` kernel holds the GIL while it runs.
    """
    flags = f"{signature}|{parallel}|{sorted(fastmath)}{'|alone' if alone else ''}"
    with signals.waiting():
        with unforked:  # this imports Numba
            import hashlib

            identity = backend.identity()
        key = hashlib.sha256("\n".join((VERSION, _package_version(), identity, flags, source)).encode()).hexdigest()
        with _lock:
            if key not in _built:
                try:
                    _built[key] = _make(backend, Kernel(f"{name}_{key[:16]}", source, signature, parallel, key), fastmath, alone)
                except Exception as error:
                    if "complex" in signature and type(error).__name__ in ("TypingError", "LoweringError"):  # Numba's, of numbers without an order, say
                        raise NotImplementedError(f"{name} is not implemented for complex numbers; take a part first, with .real, .imag or .abs()") from error
                    raise
            return _built[key]


def kernels() -> list[Kernel]:
    """All kernels of this process, in the order they were built."""
    return list(_built.values())


def _make(backend: object, kernel: Kernel, fastmath: frozenset, alone: bool) -> Kernel:
    start = time.perf_counter()
    folder = _folder()
    if folder is None and config.cache_dir() is not None:
        _tell_of_memory_only(config.cache_dir())
    entry = _Cache(kernel, folder)
    function = partial(_function, backend, kernel)
    if hasattr(backend, "translate"):
        kernel.translate = lambda lines=False: _translated(backend, function, kernel.signature, fastmath, alone, lines)
    with unforked:
        kernel.launch = backend.compile(function, kernel.signature, kernel.parallel, fastmath, entry, alone)
    kernel.cached, kernel.seconds = entry.hit, time.perf_counter() - start
    if kernel.cached:
        statistics.loaded += 1
        statistics.load_seconds += kernel.seconds
    else:
        statistics.compiled += 1
        statistics.compile_seconds += kernel.seconds
    for listener in tuple(listeners):
        listener(kernel)
    return kernel


def _translated(backend: object, function: Callable[[], Callable], *options: object) -> object:
    """What Numba makes of a kernel, for inspection. Helper functions are registered meanwhile, as in a build."""
    with _lock:
        return backend.translate(function(), *options)


def _function(backend: object, kernel: Kernel) -> Callable:
    """The kernel as a Python function, to be compiled."""
    namespace = {**backend.namespace(), "__name__": __name__}
    text = kernel.source.replace("def kernel(", f"def {kernel.name}(", 1)
    filename = f"<numod {kernel.name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)  # tracebacks and profilers can show the source
    exec(compile(text, filename, "exec"), namespace)  # this is the compiler
    return namespace[kernel.name]


class _Cache:
    """One file per kernel. Any failure to read or write is a miss, never an error."""

    def __init__(self, kernel: Kernel, folder: str | None) -> None:
        self.kernel = kernel
        self.path = folder and os.path.join(folder, f"{kernel.name}_{kernel.key[16:]}.kernel")
        self.hit = False

    def load(self, entry: Callable[..., Callable]) -> Callable | None:
        """The entry point of the machine code that was saved, if any was: what `entry(name, module, code, *names)` returns."""
        payload = _read(self.path, self.kernel.key) if self.path else None
        if payload is None:
            self.kernel.why = "no cache folder" if not self.path else "damaged entry" if os.access(self.path, os.R_OK) else "no entry"
            return None
        try:
            made = self._entered(entry, *pickle.loads(payload))  # our own digest, our own folder
        except Exception as error:  # an entry that does not load is compiled again, whatever is wrong with it
            self.kernel.why = f"entry does not load: {type(error).__name__}"
            return None
        self.hit, self.kernel.why = True, "found on the disk"
        return made

    def save(self, entry: Callable[..., Callable], *compiled: object) -> Callable:
        """The entry point of machine code that was just made, which is saved."""
        if self.path:
            _write(self.path, self.kernel.key, pickle.dumps(compiled))
        return self._entered(entry, *compiled)

    def _entered(self, entry: Callable[..., Callable], objects: tuple[tuple[bytes, tuple[str, ...]], ...], *names: str) -> Callable:
        *shared, (_, self.kernel.symbols) = objects
        self.kernel.shared = tuple(name for _, functions in shared for name in functions)
        return entry(self.kernel.name, sys.modules[__name__], objects, *names)

    def text(self, make: Callable[[], str]) -> str:
        """The text that `make` returns, or its cached copy: for targets whose driver compiles it further (PTX)."""
        payload = _read(self.path, self.kernel.key) if self.path else None
        self.hit, self.kernel.why = payload is not None, "found on the disk" if payload is not None else "no cache folder" if not self.path else "no entry"
        if payload is not None:
            return payload.decode()
        text = make()
        if self.path:
            _write(self.path, self.kernel.key, text.encode())
        return text


def _read(path: str, key: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            digest, payload = file.read(32), file.read()
    except OSError:
        return None
    return payload if _digest(key, payload) == digest else None


def _digest(key: str, payload: bytes) -> bytes:
    """The header of an entry, which the entry of another kernel or a damaged one does not match."""
    import hashlib

    return hashlib.sha256(key.encode() + payload).digest()


def _write(path: str, key: str, payload: bytes) -> None:
    temporary = os.path.join(os.path.dirname(path), f"{os.urandom(8).hex()}.tmp")
    try:
        with open(temporary, "xb") as file:  # with the usual permissions, so that root can open a folder that it filled to other users
            file.write(_digest(key, payload) + payload)
        os.replace(temporary, path)
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _folder() -> str | None:
    """The cache folder, created if missing. None if it cannot be used, or if other users could plant code in it."""
    folder = config.cache_dir()
    if folder is None:
        return None
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        state = os.stat(folder)
    except OSError:
        return None
    if hasattr(os, "getuid") and (state.st_uid not in (os.getuid(), 0) or state.st_mode & stat.S_IWOTH):
        return None
    return folder


@cache
def _tell_of_memory_only(folder: str) -> None:
    """Warn once. Where warnings are errors the kernel is built all the same."""
    with contextlib.suppress(UserWarning):
        warnings.warn(
            f"compiled kernels cannot be kept in {folder}, so every process compiles them again: the folder cannot be written to, or other users could "
            'write to it; set NUMOD_CACHE_DIR to a folder of your own, or to "" where none is wanted',
            stacklevel=2,
        )


def _package_version() -> str:
    from .. import __version__

    return __version__.rpartition("+numod.")[2]


def _enter_child() -> None:
    """After a fork: another thread of the parent may have held the lock."""
    global _lock, unforked
    _lock, unforked = threading.RLock(), threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lambda: unforked.acquire(), after_in_parent=lambda: unforked.release(), after_in_child=_enter_child)
