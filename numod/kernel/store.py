"""The folder of compiled kernels as files: list it, empty it, and pack it for another machine.

`cache` reads and writes entries.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from .. import config
from . import archive as archives
from . import cache, entry
from .build import Kernel, version
from .entry import MAX_ENTRY_BYTES, SUFFIX, Malformed, dump, parse
from .trust import Folder


@dataclass(frozen=True)
class Stored:
    """One file: the kernel's name, its size in bytes, and when it was written or last used (to a day)."""

    path: str
    name: str
    size: int
    written: float


def entries(folder: str | None = None) -> list[Stored]:
    """The folder's entries, largest first. Files that are removed meanwhile are left out."""
    return sorted(_entries(folder or config.cache_dir()), key=lambda stored: (-stored.size, stored.name))


def _entries(folder: str | None) -> Iterator[Stored]:
    try:
        files = list(os.scandir(folder)) if folder else []
    except OSError:
        return
    for file in files:
        if file.name.endswith(SUFFIX):
            try:
                state = file.stat(follow_symlinks=False)
            except OSError:
                continue
            if not stat.S_ISDIR(state.st_mode):
                yield Stored(file.path, file.name[: -len(SUFFIX)].rpartition("_")[0], state.st_size, state.st_mtime)


def of_other_versions(folder: str) -> int:
    """The number of entries of other versions of numod in the folder."""
    with contextlib.suppress(OSError), Folder(folder) as opened:
        starts = (opened.start_of(os.path.basename(stored.path), 1 << 12) for stored in entries(folder))
        return sum(entry.version_of(start) != version() for start in starts)
    return 0


def size_of(kernel: Kernel) -> int:
    """Bytes of a kernel's entry; 0 if it has none."""
    try:
        return os.path.getsize(os.path.join(config.cache_dir() or "", entry.file_name(kernel.name, kernel.key)))
    except OSError:
        return 0


def clear(folder: str | None = None) -> int:
    """Remove all entries and return their number. Running programs keep their loaded kernels."""
    removed = 0
    for stored in entries(folder):
        try:
            os.unlink(stored.path)
            removed += 1
        except OSError:
            continue
    return removed


def pack(archive: str, folder: str | None = None) -> int:
    """Write all valid entries into one archive and return their number.

    Only machines with the same processor and versions can use it; others compile their own kernels. The archive does
    not contain the folder's key, so that its user must decide to trust the code.
    """
    temporary = f"{archive}.{os.getpid()}.tmp"
    if not os.path.isdir(os.path.dirname(os.path.abspath(archive))):
        raise FileNotFoundError(f"there is no folder {os.path.dirname(os.path.abspath(archive))}")
    try:
        count = archives.write(temporary, _valid(folder or config.cache_dir()))
        os.replace(temporary, archive)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return count


def _valid(path: str | None) -> Iterator[tuple[str, bytes]]:
    """The entries of a folder that a process would load, (file name in an archive, content).

    The archive's file names have no kernel name: a long one would not fit into a plain tar header. Kernels of several
    names may have one key; these are numbered.
    """
    stored = entries(path)
    if not stored:
        return
    with Folder(path) as folder:
        key, repeats = None if folder.is_roots else cache.secret(folder), Counter()
        for file in stored:
            with contextlib.suppress(OSError, Malformed):
                data = folder.read(os.path.basename(file.path), MAX_ENTRY_BYTES)
                kernel_key = parse(data, key).key
                repeats[kernel_key] += 1
                number = f"-{repeats[kernel_key]}" if repeats[kernel_key] > 1 else ""
                yield f"{kernel_key}{number}{SUFFIX}", data


def kernels(folder: str) -> list[entry.Entry]:
    """The valid entries of a folder."""
    return [parse(data) for _, data in _valid(folder)]


def unpack(archive: str, folder: str | None = None, trust: bool = False) -> tuple[int, int]:
    """Add an archive's entries to the folder. Returns (accepted, rejected).

    Entries without the seal of this folder are rejected. With `trust` all are accepted and sealed: they are native
    code, so trust only archives that you made.

    Raises ValueError for a file that is not such an archive. The whole archive is checked before anything is written.
    """
    folder = folder or config.cache_dir()
    if folder is None:
        raise ValueError(f"there is no cache folder: {config.why_no_cache_dir()}")
    for _ in _entries_of(archive):
        pass
    accepted = refused = 0
    with Folder(folder, make=True) as target:
        key = cache.secret(target)
        for kernel_entry, data in _entries_of(archive):
            if trust or _is_sealed(data, key):
                target.write(kernel_entry.file, dump(kernel_entry, key))
                accepted += 1
            else:
                refused += 1
    return accepted, refused


def _entries_of(archive: str) -> Iterator[tuple[entry.Entry, bytes]]:
    """The entries in an archive, sealed or not, each with its bytes. Raises ValueError if one is malformed."""
    for name, data in archives.read(archive):
        try:
            yield parse(data), data
        except Malformed as error:
            raise ValueError(f"{name!a} in {archive} is not a kernel of this version: {error}") from None


def _is_sealed(data: bytes, key: bytes) -> bool:
    try:
        parse(data, key)
    except Malformed:
        return False
    return True
