"""The folder of compiled kernels as files: what is in it, how to empty it, and how to carry it to another machine. `build` reads and writes entries."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass

from .. import config
from .build import Kernel

SUFFIX = ".kernel"


@dataclass(frozen=True)
class Entry:
    """One file: the kernel's name, its size in bytes, and when it was written."""

    path: str
    name: str
    size: int
    written: float


def entries(folder: str | None = None) -> list[Entry]:
    """What the folder holds, the largest first. Files that vanish meanwhile are left out."""
    return sorted(_entries(folder or config.cache_dir()), key=lambda each: (-each.size, each.name))


def _entries(folder: str | None) -> Iterator[Entry]:
    try:
        found = list(os.scandir(folder)) if folder else []
    except OSError:
        return
    for each in found:
        if each.name.endswith(SUFFIX):
            try:
                state = each.stat()
            except OSError:
                continue
            yield Entry(each.path, each.name[: -len(SUFFIX)].rpartition("_")[0], state.st_size, state.st_mtime)


def size_of(kernel: Kernel) -> int:
    """Bytes of a kernel's entry; 0 where it has none."""
    try:
        return os.path.getsize(os.path.join(config.cache_dir() or "", f"{kernel.name}_{kernel.key[16:]}{SUFFIX}"))
    except OSError:
        return 0


def clear(folder: str | None = None) -> int:
    """Remove all entries and return their number. Running programs keep what they have loaded."""
    removed = 0
    for each in entries(folder):
        try:
            os.unlink(each.path)
            removed += 1
        except OSError:
            continue
    return removed


def pack(archive: str, folder: str | None = None) -> int:
    """Write all entries into one archive and return their number. It is of use to machines with the same processor and versions; others compile anew."""
    found, temporary = entries(folder), f"{archive}.{os.getpid()}.tmp"
    if not os.path.isdir(os.path.dirname(os.path.abspath(archive))):
        raise FileNotFoundError(f"there is no folder {os.path.dirname(os.path.abspath(archive))}")
    try:
        with tarfile.open(temporary, "w:gz") as target:
            for each in found:
                target.add(each.path, os.path.basename(each.path))
        os.replace(temporary, archive)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return len(found)


def unpack(archive: str, folder: str | None = None) -> int:
    """Put an archive's entries into the folder and return their number. Raises ValueError for a file that is no such archive, or has entries outside the
    folder.

    Entries are native code: unpack only archives you trust.
    """
    folder = folder or config.cache_dir()
    if folder is None:
        raise ValueError("there is no cache folder: NUMOD_CACHE_DIR is empty")
    try:
        with tarfile.open(archive, "r:gz") as source:
            contents = [(each.name, source.extractfile(each)) for each in source.getmembers() if each.isfile() or _refuse(each.name)]
            contents = [(name, io.BytesIO(file.read())) for name, file in contents]
    except (tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"{archive} is no archive of kernels: {error}") from None
    for name, _ in contents:
        if os.path.basename(name) != name or not name.endswith(SUFFIX):
            _refuse(name)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for name, data in contents:
        temporary = os.path.join(folder, f"{name}.{os.getpid()}.tmp")
        with open(temporary, "wb") as target:
            target.write(data.getvalue())
        os.replace(temporary, os.path.join(folder, name))
    return len(contents)


def _refuse(name: str) -> None:
    raise ValueError(f"the archive holds {name!r}, which is no kernel's file")
