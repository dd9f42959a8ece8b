"""The bound on the cache folder (NUMOD_CACHE_SIZE): the kernels that were unused for longest are removed.

Loading an entry sets its time, at most once a day. A small file has the size of the folder, to which each process adds
what it writes. The folder is listed only when that passes the limit, and once a day. The daily listing corrects the
size and also removes entries of other versions of numod that were unused for a week (several versions may share the
folder), and what a killed process left.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from .. import config
from .entry import SUFFIX, version_of
from .trust import Folder

UNUSED = 7 * 86400.0  # seconds after which an entry of another version is removed
SIZE = "size"  # the file with the folder's size in bytes, and the time when it was last listed
_DAY = 86400.0
_ROOM = 16  # a removal leaves this part of the limit free, so that the next entries need none


def written(folder: Folder, size: int, version: str) -> None:
    """Keep the bound after an entry of `size` bytes was written."""
    now, limit = time.time(), config.cache_size()
    total, listed = _known(folder)
    is_due = abs(now - listed) > _DAY
    if is_due:
        sweep(folder, version)
    if is_due or total + size > limit:
        total, listed = shrink(folder, limit), now
    else:
        total += size
    with suppress(OSError):
        folder.write(SIZE, f"{total} {listed:.0f}".encode())


def _known(folder: Folder) -> tuple[int, float]:
    """The folder's size in bytes and the time when it was last listed; 0 if it never was."""
    try:
        total, listed = folder.read(SIZE, 100).split()
        return int(total), float(int(listed))
    except (OSError, ValueError):
        return 0, 0.0


def shrink(folder: Folder, limit: int) -> int:
    """Remove the entries that were unused for longest if the folder holds more than `limit` bytes.

    Returns the bytes that it holds then.
    """
    files = sorted((state.st_mtime, state.st_size, name) for name, state in _files(folder) if name.endswith(SUFFIX))
    total = sum(size for _, size, _ in files)
    if total <= limit:
        return total
    for _, size, name in files:
        if total <= limit - limit // _ROOM:
            break
        with suppress(OSError):  # another process may have removed it
            folder.remove(name)
        total -= size
    return total


def sweep(folder: Folder, version: str, unused: float = UNUSED) -> int:
    """Remove the entries of other versions that were unused for so many seconds; returns their number."""
    now, removed = time.time(), 0
    for name, state in _files(folder):
        age = now - state.st_mtime
        if name.endswith(".tmp") and age > _DAY:
            with suppress(OSError):
                folder.remove(name)
        elif name.endswith(SUFFIX) and age >= unused and version_of(folder.start_of(name, 1 << 12)) != version:
            with suppress(OSError):
                folder.remove(name)
                removed += 1
    return removed


def _files(folder: Folder) -> list[tuple[str, os.stat_result]]:
    files = []
    with suppress(OSError), os.scandir(folder.path) as found:
        for file in found:
            with suppress(OSError):
                if file.is_file(follow_symlinks=False):
                    files.append((file.name, file.stat(follow_symlinks=False)))
    return files
