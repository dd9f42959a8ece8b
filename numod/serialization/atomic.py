"""Atomic writing of files: to a temporary file next to the target, which is then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from typing import BinaryIO

from .source import checked_path


@contextlib.contextmanager
def written(f: object) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces the file `f` when the block ends without an error.

    A file object `f` is written to directly. If the process stops midway, the old file is intact. Permissions are kept,
    and symbolic links are followed.
    """
    if hasattr(f, "write"):
        yield f
        return
    target = _checked_target(f)
    temporary = os.path.join(os.path.dirname(target), f".numod-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:  # mode "x", so that no existing file is overwritten
            yield file
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(target):
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    _sync_folder(os.path.dirname(target))


def _checked_target(path: object) -> str:
    """The file to replace, with symbolic links resolved.

    Raises if its folder does not exist, or if it is a device such as /dev/null.
    """
    target = os.path.realpath(checked_path("save", path))
    if not os.path.isdir(os.path.dirname(target)):
        raise FileNotFoundError(errno.ENOENT, "save: the folder does not exist", os.path.dirname(target))
    if os.path.exists(target) and not os.path.isfile(target):
        raise RuntimeError(f"save: {target!r} is a folder or a device; give the path of a file")
    return target


def _sync_folder(folder: str) -> None:
    """Make the rename durable (fsync of the folder), where the system supports it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
