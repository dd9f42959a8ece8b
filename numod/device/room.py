"""Memory limits of this process: of its address space (`ulimit -v`) and its control group (containers).

LLVM aborts the process when an allocation fails, so the room for a compilation is checked before it begins, and some of
a limited address space is kept free for it: tensors cannot take that.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache

from ..errors import OutOfMemoryError

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None

RESERVE = 160 << 20  # bytes of a limited address space that are kept for compilation, at most an eighth of it
IMPORT = 290 << 20  # addresses that Numba and LLVM take
# addresses that LLVM takes for a kernel, and more for each byte of its bytecode. About half of them are used
COMPILE, PER_INSTRUCTION = 48 << 20, 20_000
LOAD = 8 << 20  # addresses that it takes to load a compiled kernel
_GROUPS = "/sys/fs/cgroup"
_releases: list[Callable[[], None]] = []
_reserve: mmap.mmap | None = None
_compiling = 0  # compilations that are under way


def address_limit() -> int | None:
    """The limit on this process's address space in bytes; None without one."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0] if resource else -1
    return None if limit in (-1, getattr(resource, "RLIM_INFINITY", -1)) else limit


def addresses_left() -> int | None:
    """Bytes of address space that the process may still map; None without a limit."""
    limit, pages = address_limit(), _read("/proc/self/statm")
    return max(limit - int(pages.split()[0]) * mmap.PAGESIZE, 0) if limit is not None and pages else None


def group_limit() -> int | None:
    """The lowest limit on the memory of this process's control group and those around it; None without one."""
    return min((limit for limit, _ in _groups()), default=None)


def group_left() -> int | None:
    """Bytes that the process's control groups may still take; None without a limit.

    Clean pages of files count as free, since the system drops them first.
    """
    return min((max(limit - used, 0) for limit, used in _groups()), default=None)


def _groups() -> Iterator[tuple[int, int]]:
    """(limit, bytes in use) of each control group around this process that has a limit."""
    for folder, limit_file, used_file, cached in _group_folders():
        limit = _read(f"{folder}/{limit_file}")
        if limit and limit.isdecimal() and int(limit) < 1 << 60:  # "max", or version 1's largest number, is none
            used, statistics = _read(f"{folder}/{used_file}"), _read(f"{folder}/memory.stat")
            counts = dict(line.split() for line in statistics.splitlines()) if statistics else {}
            yield int(limit), int(used or 0) - sum(int(counts.get(name, 0)) for name in cached)


@cache
def _group_folders() -> list[tuple[str, str, str, tuple[str, ...]]]:
    """(folder, limit file, usage file, statistics of reclaimable memory) of the control groups around this process.

    Version 2 or 1.
    """
    for line in (_read("/proc/self/cgroup") or "").splitlines():
        number, kinds, path = line.split(":", 2)
        if "memory" in kinds.split(","):
            root = f"{_GROUPS}/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file"))
        elif number == "0":
            root = _GROUPS
            names = ("memory.max", "memory.current", ("active_file", "inactive_file", "slab_reclaimable"))
        else:
            continue
        # a container may see its own group as the root
        parts = [part for part in path.split("/") if part not in ("", "..")]
        folders = ["/".join([root, *parts[:k]]) for k in range(len(parts), -1, -1)]
        group_folders = [(folder, *names) for folder in folders if os.path.exists(f"{folder}/{names[0]}")]
        if group_folders:
            return group_folders
    return []


def _read(path: str) -> str | None:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None


def on_shortage(release: Callable[[], None]) -> None:
    """Register a function to call when memory is short; it frees caches."""
    _releases.append(release)


def release() -> None:
    """Give back all that is kept for later."""
    for release in _releases:
        release()


def require(size: int, purpose: str) -> None:
    """Raise OutOfMemoryError unless `size` bytes of address space are left, and half as many of memory.

    What is kept for later is given back before.
    """
    wrong = _shortage(size)
    if wrong:
        release()
        wrong = _shortage(size)
    if wrong:
        raise OutOfMemoryError(
            f"not enough memory to {purpose}: {wrong}. Free tensors, raise the limit, or run the program once without "
            "it, "
            "so that its kernels are found compiled in the cache folder (NUMOD_CACHE_DIR)"
        )


def _shortage(size: int) -> str | None:
    """Which limit does not allow `size` bytes, as part of a sentence."""
    addresses, memory = addresses_left(), group_left()
    if addresses is not None and addresses < size:
        return (
            f"about {_mb(size)} are needed, {_mb(addresses)} are left of the {_mb(address_limit())} that the "
            "process may address (ulimit -v)"
        )
    if memory is not None and memory < size // 2:
        return (
            f"about {_mb(size // 2)} are needed, {_mb(memory)} are left of the {_mb(group_limit())} of the control "
            "group (a container's limit)"
        )
    return None


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


@contextmanager
def compiling(size: int, purpose: str) -> Iterator[None]:
    """Context of a compilation that takes about `size` bytes of address space, for which the reserve is given up.

    Raises OutOfMemoryError without room.
    """
    global _reserve, _compiling
    _reserve, _compiling = None, _compiling + 1
    try:
        require(size, purpose)
        yield
    except Exception as error:
        if isinstance(error, OutOfMemoryError) or not any(isinstance(cause, MemoryError) for cause in _chain(error)):
            raise
        # Numba wraps exceptions raised while it compiles
        raise OutOfMemoryError(f"not enough memory to {purpose}") from error
    finally:
        _compiling -= 1
        if not _compiling:  # a kernel may load functions while it is compiled
            _keep_reserve()


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _keep_reserve() -> None:
    """Where the address space is limited, keep some of it for the next compilation: it is mapped and never touched."""
    global _reserve
    limit = address_limit()
    if limit is not None and _reserve is None:
        with suppress(OSError, ValueError, OverflowError, MemoryError):
            _reserve = mmap.mmap(
                -1, max(min(RESERVE, limit // 8), mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            )
