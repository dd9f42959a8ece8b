"""Packs: read-only files of kernels that were compiled ahead of time for instruction-set levels.

    16 bytes  MAGIC, which ends in the number of the format
     4 bytes  length of the header, little-endian
              header: a JSON object in ASCII, {"made": `versions()`, "levels": {level: number of kernels}}
              index: for each kernel its key (32 bytes), start and length (8 bytes each, little-endian), by key
              entries without seals, as `kernel.entry` describes them

A pack is code, so it is used only where the user has put it: on NUMOD_KERNEL_PATH, in the folder `packs` of
numod, or in the package `numod_kernels`; and only if `kernel.trust` accepts it and its folder. Nothing that a data file
says leads to a pack.

A damaged pack costs a warning, and its kernels are compiled. Every position is checked against the file before it is
read. The file's size is read each time, since reading a mapped file past its end would end the process.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import mmap
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress

from ..errors import warn_caller
from .. import config
from .entry import Entry, Malformed, dump, parse
from .trust import Folder, Untrusted

MAGIC = b"numod pack\0\0\0\0\0\1"
SUFFIX = ".pack"
INSTALLED = "numod_kernels"  # the package of the wheel
_HEAD_BYTES = len(MAGIC) + 4
_HEADER_LIMIT = 1 << 16
_ROW_BYTES = 32 + 8 + 8
_SIZE_LIMIT = 1 << 40


def versions() -> str:
    """The versions that are part of every key: a pack is used only with the versions that made it."""
    import llvmlite
    import numba

    from .build import version

    return (
        f"numod {version()}, {sys.implementation.cache_tag}, numba {numba.__version__}, llvmlite {llvmlite.__version__}"
    )


class Pack:
    """An open pack. Raises OSError (Untrusted if others could have written it) or Malformed."""

    def __init__(self, path: str) -> None:
        self.path = path
        with Folder(os.path.dirname(os.path.abspath(path))) as folder:
            self.descriptor = folder.open_file(os.path.basename(path), _SIZE_LIMIT)
        try:
            self.size = os.fstat(self.descriptor).st_size
            if self.size < _HEAD_BYTES:
                raise Malformed("it is not a pack of this format")
            self.memory = mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_READ)
            self._read_head()
        except BaseException:
            os.close(self.descriptor)
            raise

    def _read_head(self) -> None:
        if self.memory[: len(MAGIC)] != MAGIC:
            raise Malformed("it is not a pack of this format")
        length = int.from_bytes(self.memory[len(MAGIC) : _HEAD_BYTES], "little")
        if length > min(_HEADER_LIMIT, self.size - _HEAD_BYTES):
            raise Malformed("its header is longer than the file")
        self.versions, self.levels = _header(self.memory[_HEAD_BYTES : _HEAD_BYTES + length])
        self.index, self.count = _HEAD_BYTES + length, sum(self.levels.values())
        if self.count > (self.size - self.index) // _ROW_BYTES:
            raise Malformed("its index is longer than the file")
        if self.count and sum(self._extent(self._row(self.count - 1))) != self.size:
            raise Malformed("it is cut short, or longer than its index says")

    @property
    def is_usable(self) -> bool:
        """Whether this version of numod, Python, Numba and llvmlite made it."""
        return self.versions == versions()

    def find(self, key: str) -> Entry | None:
        """The entry with this key. Raises Malformed."""
        if os.fstat(self.descriptor).st_size < self.size:
            raise Malformed("it has become shorter")
        wanted, low, high = bytes.fromhex(key), 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self._row(middle)[:32] < wanted:
                low = middle + 1
            else:
                high = middle
        row = self._row(low) if low < self.count else b""
        return self._entry(row, key) if row[:32] == wanted else None

    def _row(self, number: int) -> bytes:
        start = self.index + number * _ROW_BYTES
        return self.memory[start : start + _ROW_BYTES]

    @staticmethod
    def _extent(row: bytes) -> tuple[int, int]:
        """Start and length of a kernel."""
        return int.from_bytes(row[32:40], "little"), int.from_bytes(row[40:], "little")

    def _entry(self, row: bytes, key: str) -> Entry:
        start, length = self._extent(row)
        if start < self.index or length > self.size - start:
            raise Malformed("a kernel's place is outside the file")
        entry = parse(self.memory[start : start + length])
        if entry.key != key:
            raise Malformed("it holds another kernel than its index says")
        return entry


def _header(text: bytes) -> tuple[str, dict[str, int]]:
    try:
        header = json.loads(text.decode("ascii"))
        pack_versions, levels = header["made"], header["levels"]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise Malformed("its header is not the header of a pack") from None
    if not (
        type(pack_versions) is str
        and type(levels) is dict
        and all(type(count) is int and 0 <= count < 1 << 32 for count in levels.values())
    ):
        raise Malformed("its header has other fields")
    return pack_versions, levels


def write(path: str, levels: dict[str, Iterable[Entry]]) -> dict[str, int]:
    """Write a pack of the entries of each level; returns their number. The file appears when it is whole."""
    entries = {entry.key: dump(entry) for level in levels.values() for entry in level}
    counts = dict.fromkeys(levels, 0)
    for level, members in levels.items():
        counts[level] = len(list(members))
    header = json.dumps({"made": versions(), "levels": counts}).encode()
    start, index = _HEAD_BYTES + len(header) + _ROW_BYTES * len(entries), []
    for key in sorted(entries):
        index.append(bytes.fromhex(key) + start.to_bytes(8, "little") + len(entries[key]).to_bytes(8, "little"))
        start += len(entries[key])
    with Folder(os.path.dirname(os.path.abspath(path))) as folder:
        data = [MAGIC, len(header).to_bytes(4, "little"), header, *index, *(entries[key] for key in sorted(entries))]
        folder.write(os.path.basename(path), b"".join(data))
    return counts


def find(key: str) -> Entry | None:
    """The entry with this key in the packs on the path, the first one that has it."""
    for pack in _usable(tuple(config.kernel_path())):
        try:
            if entry := pack.find(key):
                return entry
        except (OSError, Malformed) as error:
            _warn(pack.path, error)
    return None


@functools.cache
def _usable(path: tuple[str, ...]) -> tuple[Pack, ...]:
    """The packs on the path that this version made. Those that cannot be read are warned about."""
    packs = []
    for file, pack, error in listed(path):
        if error is not None:
            _warn(file, error)
        elif pack.is_usable:
            packs.append(pack)
    return tuple(packs)


def listed(path: Iterable[str]) -> Iterator[tuple[str, Pack | None, Exception | None]]:
    """The packs on the path and in the package: (file, the open pack or None, the reason why it is not used)."""
    for file in _files(path):
        try:
            yield file, Pack(file), None
        except (OSError, Malformed) as error:
            yield file, None, error


def _files(path: Iterable[str]) -> Iterator[str]:
    """The files of packs: those of the folders in `path`, of this package, and of the installed wheel."""
    folders = [*path, os.path.join(os.path.dirname(os.path.dirname(__file__)), "packs")]
    with suppress(ImportError, ValueError):
        installed = importlib.util.find_spec(INSTALLED)
        folders += (installed.submodule_search_locations or []) if installed else []
    for folder in folders:
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX))
            yield from (os.path.join(folder, name) for name in names)
        except NotADirectoryError:
            yield folder
        except OSError:
            if folder in path:
                yield folder  # opening it says why


@functools.cache
def _warned(path: str, reason: str) -> None:
    with suppress(UserWarning):  # where warnings are errors, the kernel is compiled nevertheless
        warn_caller(f"the pack of kernels {path} is not used: {reason}; its kernels are compiled")


def _warn(path: str, error: Exception) -> None:
    _warned(path, reason(error))


def reason(error: Exception) -> str:
    """Why a pack is not used."""
    return str(error) if isinstance(error, (Malformed, Untrusted)) else getattr(error, "strerror", "") or str(error)
