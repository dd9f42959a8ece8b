"""The disk cache of one kernel: loads its entry, or saves it.

Every failure is a miss with a reason; the reason why kernels cannot be saved is warned about once.

Threat model: someone who cannot act as the user or as root, but can write to the cache folder, to a folder above it, or
to an archive that is unpacked, must not get code into a process. Therefore
- a folder or file that others can write to is not used (`kernel.trust`), and a warning says so;
- an entry must have the seal of the folder's own key (`kernel.seal`), except in a folder that root filled for other
  users;
- an entry is data, whose lengths are checked (`kernel.entry`), and it must be for this kernel: its key, signature and
  kind are compared.
It does not protect against someone who can run programs as the user, and so can change programs, too.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import warn_caller
from .. import config
from . import bound, packs, seal
from .entry import MAX_ENTRY_BYTES, Entry, Malformed, dump, file_name, parse
from .trust import Folder, opened

if TYPE_CHECKING:
    from .build import Kernel

FOUND, FOUND_IN_PACK = "found on the disk", "found in a pack"


class KernelCache:
    """The entry of one kernel. `version` is stored in it; `hit` is whether it was found.

    `level_key()` is the kernel's key in packs, or None.
    """

    def __init__(self, kernel: Kernel, version: str, level_key: Callable[[], str | None] = lambda: None) -> None:
        self.kernel, self.version, self.level_key, self.hit = kernel, version, level_key, False
        self.folder = config.cache_dir()

    def load(self, make: Callable[..., Callable]) -> Callable | None:
        """The entry point of the saved machine code, as `make(name, module, parts, *names)` returns it; or None."""
        entry_point = None
        for find in (lambda: self._find("code"), self._find_in_packs):
            try:
                entry = find()
                entry_point = self._entry_point(make, entry.parts, entry.names) if entry else None
            except Exception as error:  # an entry that does not load is compiled again
                self.kernel.why = f"entry does not load: {type(error).__name__}"
            if entry_point is not None:
                break
        self.hit = entry_point is not None
        return entry_point

    def save(
        self, make: Callable[..., Callable], parts: tuple[tuple[bytes, tuple[str, ...]], ...], *names: str
    ) -> Callable:
        """Save new machine code and return its entry point."""
        self._write_entry("code", parts, names)
        return self._entry_point(make, parts, names)

    def text(self, make: Callable[[], str]) -> str:
        """The text that `make` returns, or its saved copy: for targets whose driver compiles it further (PTX)."""
        entry = self._find("text")
        try:
            text = entry.parts[0][0].decode() if entry else None
        except UnicodeDecodeError:
            self.kernel.why, text = "entry does not load: UnicodeDecodeError", None
        self.hit = text is not None
        if text is None:
            text = make()
            self._write_entry("text", ((text.encode(), ()),))
        return text

    def _entry_point(
        self, make: Callable[..., Callable], parts: tuple[tuple[bytes, tuple[str, ...]], ...], names: tuple[str, ...]
    ) -> Callable:
        *shared, (_, symbols) = parts
        entry_point = make(self.kernel.name, sys.modules[f"{__package__}.build"], parts, *names)
        self.kernel.symbols, self.kernel.shared = symbols, tuple(name for _, functions in shared for name in functions)
        return entry_point

    def _find(self, kind: str) -> Entry | None:
        """The kernel's entry, or None; sets the kernel's `why` to the reason."""
        entry, self.kernel.why = None, "no entry"
        if self.folder is None:
            self.kernel.why = "no cache folder"
            return None
        try:
            entry = self._read(opened(self.folder), kind)
        except FileNotFoundError:  # the folder is created when the kernel is saved
            return None
        except OSError as error:
            self.kernel.why = f"cache folder not used: {reason(error)}"
            _warn(self.folder, reason(error))
            return None
        self.kernel.why = FOUND if entry else self.kernel.why
        return entry

    def _find_in_packs(self) -> Entry | None:
        """The kernel's entry in a pack, compiled for this processor or for its instruction-set level."""
        for key in (self.kernel.key, self.level_key()):
            entry = packs.find(key) if key else None
            if entry and (entry.signature, entry.kind) == (self.kernel.signature, "code"):
                self.kernel.why = FOUND_IN_PACK
                return entry
        return None

    def _read(self, folder: Folder, kind: str) -> Entry | None:
        """The kernel's entry in a folder; None without a valid one (`kernel.why` says why)."""
        kernel = self.kernel
        try:
            data = folder.read(file_name(kernel.name, kernel.key), MAX_ENTRY_BYTES, used=True)
        except FileNotFoundError:
            return None
        except OSError as error:
            kernel.why = f"entry not used: {reason(error)}"
            return None
        try:
            entry = parse(data, None if folder.is_roots else seal.read(folder))
        except (OSError, Malformed) as error:
            kernel.why = f"entry not used: {reason(error)}"
            return None
        if (entry.key, entry.name, entry.signature, entry.kind) != (kernel.key, kernel.name, kernel.signature, kind):
            kernel.why = "entry not used: it is another kernel's"
            return None
        return entry

    def _write_entry(
        self, kind: str, parts: tuple[tuple[bytes, tuple[str, ...]], ...], names: tuple[str, ...] = ()
    ) -> None:
        """Write the entry. Warns once on failure, unless root filled the folder for users who only read it.

        Windows does not replace a file that another process has open; its content is equally valid.
        """
        if self.folder is None:
            if not config.cache_is_off():
                _warn(None, config.why_no_cache_dir())
            return
        kernel = self.kernel
        entry = Entry(kind, kernel.key, kernel.name, kernel.signature, self.version, names, parts)
        try:
            folder = opened(self.folder, make=True)
            if not folder.is_roots:
                data = dump(entry, secret(folder))
                folder.write(entry.file, data)
                bound.note_written(folder, len(data), self.version)
        except (OSError, Malformed) as error:
            if os.name != "nt" or not isinstance(error, PermissionError):
                _warn(self.folder, reason(error))


def secret(folder: Folder) -> bytes:
    """The key of the user's cache folder; created if missing.

    A key that is damaged, or that others could read, is replaced with a warning.
    """
    try:
        return seal.read(folder)
    except FileNotFoundError:
        return seal.make(folder)
    except OSError as error:
        key = seal.make(folder, replace=True)
        _warn_once(
            f"the key of the kernel cache {folder.path} is replaced, and its kernels are compiled once more: "
            f"{reason(error)}"
        )
        return key


def obstacle(path: str) -> str:
    """The reason why kernels cannot be saved in a folder, which is created if missing; "" if they can.

    Also "" for a folder that root filled for other users.
    """
    try:
        with Folder(path, make=True) as folder:
            if folder.is_roots or os.access(folder.path, os.W_OK):
                return ""
            return "it cannot be written to"
    except OSError as error:
        return reason(error)


def reason(error: Exception) -> str:
    """The system's message without its number, or the exception's message."""
    return getattr(error, "strerror", None) or str(error)


def _warn(folder: str | None, reason: str) -> None:
    _warn_once(
        f"compiled kernels cannot be kept {f'in {folder}' if folder else 'on the disk'}, so every process compiles "
        f"them again: {reason}; "
        'set NUMOD_CACHE_DIR to a folder of your own, or to "" where none is wanted'
    )


@functools.cache
def _warn_once(message: str) -> None:
    """Warn once. If warnings are errors, the kernel is built nevertheless."""
    with contextlib.suppress(UserWarning):
        warn_caller(message)
