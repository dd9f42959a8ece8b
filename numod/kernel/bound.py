"""The bound on the cache folder (NUMOD_CACHE_SIZE): the kernels that were unused for longest are removed.

Loading an entry sets its time, at most once a day. The folder is listed when a process first writes to it, and when it
may have passed the limit. A folder of many entries has a file with its size instead, to which each process adds what it
writes; it is listed once a day. A listing also removes entries of other versions of numod that were unused for a week
(several versions may share the folder), and temporary files of killed processes. A time in the future was written by a
clock that was wrong, or another machine's: the file counts as unused.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from .. import config
from .entry import SUFFIX, version_of
from .trust import Folder

UNUSED = 7 * 86400.0  # seconds after which an entry of another version is removed
SIZE = "size"  # the file with the size of a folder in bytes, and the time when it was last listed
_LARGE_FOLDER = 2000  # entries of a folder that has the file
_DAY = 86400.0
_FREED_SHARE = 16  # a removal leaves this part of the limit free, so that the next entries need none
_sizes: dict[str, tuple[int, float]] = {}  # the content of the file, for folders without one


def note_written(folder: Folder, size: int, version: str) -> None:
    """Keep the bound after an entry of `size` bytes was written."""
    now, limit, in_file = time.time(), config.cache_size(), _size_in_file(folder)
    total, listed = in_file or _sizes.get(folder.path, (0, 0.0))
    is_due, is_large = abs(now - listed) > _DAY, in_file is not None
    if is_due:
        sweep(folder, version)
    if is_due or total + size > limit:
        total, count = shrink(folder, limit)
        listed, is_large = now, count > _LARGE_FOLDER
    else:
        total += size
    _sizes[folder.path] = total, listed
    if is_large:
        with suppress(OSError):
            folder.write(SIZE, f"{total} {listed:.0f}".encode())


def _size_in_file(folder: Folder) -> tuple[int, float] | None:
    """(size, time of the last listing) in the folder's file; None without one."""
    try:
        total, listed = folder.read(SIZE, 100).split()
        return int(total), float(int(listed))
    except (OSError, ValueError):
        return None


def shrink(folder: Folder, limit: int) -> tuple[int, int]:
    """Remove the entries that were unused for longest if the folder holds more than `limit` bytes.

    Returns the bytes that it holds then, and the number of its entries before.
    """
    now = time.time()
    files = sorted(
        (state.st_mtime <= now + _DAY, state.st_mtime, state.st_size, name)
        for name, state in _files(folder)
        if name.endswith(SUFFIX)
    )
    total = sum(size for *_, size, _ in files)
    if total <= limit:
        return total, len(files)
    for *_, size, name in files:
        if total <= limit - limit // _FREED_SHARE:
            break
        with suppress(OSError):  # another process may have removed it
            folder.remove(name)
        total -= size
    return total, len(files)


def sweep(folder: Folder, version: str, unused: float = UNUSED) -> int:
    """Remove the entries of other versions that were unused for so many seconds; returns their number."""
    now, removed = time.time(), 0
    for name, state in _files(folder):
        age = abs(now - state.st_mtime)
        if name.endswith(".tmp") and age > _DAY:
            with suppress(OSError):
                folder.remove(name)
        elif name.endswith(SUFFIX) and age >= unused and version_of(folder.start_of(name, 1 << 12)) != version:
            with suppress(OSError):
                folder.remove(name)
                removed += 1
    return removed


def _files(folder: Folder) -> list[tuple[str, os.stat_result]]:
    """The regular files of a folder, with their sizes and times."""
    files = []
    with suppress(OSError), os.scandir(folder.path) as entries:
        for file in entries:
            with suppress(OSError):
                if file.is_file(follow_symlinks=False):
                    files.append((file.name, file.stat(follow_symlinks=False)))
    return files
