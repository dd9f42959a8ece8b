"""The bound on the cache folder (NUMOD_CACHE_SIZE): the kernels that were unused for longest are removed.

Loading an entry sets its time, at most once a day. The folder is listed only by processes that write entries: at their
first one, and when what they wrote since may have passed the limit. Once a day that also removes entries of other
versions of numod that were unused for a week (several versions may share the folder), and what a killed process left.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from .. import config
from .entry import SUFFIX, version_of
from .trust import Folder

UNUSED = 7 * 86400.0  # seconds after which an entry of another version is removed
SWEPT = "swept"  # the file whose time is that of the last removal of entries of other versions
_DAY = 86400.0
_ROOM = 16  # a removal leaves this part of the limit free, so that the next entries need none
_left: dict[str, int] = {}  # bytes that this process may write until the folder is listed again


def written(folder: Folder, size: int, version: str) -> None:
    """Keep the bound after an entry of `size` bytes was written."""
    left = _left.get(folder.path, 0) - size
    if left < 0:
        with suppress(OSError):
            if _is_due(folder):
                sweep(folder, version)
        left = shrink(folder, config.cache_size())
    _left[folder.path] = left


def shrink(folder: Folder, limit: int) -> int:
    """Remove the entries that were unused for longest if the folder holds more than `limit` bytes.

    Returns the bytes that it may still grow by.
    """
    files = sorted((state.st_mtime, state.st_size, name) for name, state in _files(folder) if name.endswith(SUFFIX))
    total = sum(size for _, size, _ in files)
    if total <= limit:
        return limit - total
    for _, size, name in files:
        if total <= limit - limit // _ROOM:
            break
        with suppress(OSError):  # another process may have removed it
            folder.remove(name)
        total -= size
    return max(limit - total, 0)


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
    with suppress(OSError):
        folder.write(SWEPT, b"")
    return removed


def _is_due(folder: Folder) -> bool:
    try:
        return abs(time.time() - os.stat(os.path.join(folder.path, SWEPT)).st_mtime) > _DAY
    except FileNotFoundError:
        return True


def _files(folder: Folder) -> list[tuple[str, os.stat_result]]:
    files = []
    with suppress(OSError), os.scandir(folder.path) as found:
        for file in found:
            with suppress(OSError):
                if file.is_file(follow_symlinks=False):
                    files.append((file.name, file.stat(follow_symlinks=False)))
    return files
