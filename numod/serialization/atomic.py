"""Writing that is whole or not at all: a file beside the target, then a rename. Not what is written."""

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
    """A file to write to, which replaces the file `f` when the block ends without an error; a file object `f` is written to as it is.

    Whatever stops the process on the way, the old file is whole. The new one keeps its permissions and stands where a symbolic link points.
    """
    if hasattr(f, "write"):
        yield f
        return
    target = _checked_target(f)
    temporary = os.path.join(os.path.dirname(target), f".numod-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:  # "x", so that nobody else's file is touched
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
    """The file that will be replaced: behind symbolic links, in a folder that exists, and no device such as /dev/null."""
    target = os.path.realpath(checked_path("save", path))
    if not os.path.isdir(os.path.dirname(target)):
        raise FileNotFoundError(errno.ENOENT, "save: the folder does not exist", os.path.dirname(target))
    if os.path.exists(target) and not os.path.isfile(target):
        raise RuntimeError(f"save: {target!r} is a folder or a device; give the path of a file")
    return target


def _sync_folder(folder: str) -> None:
    """Make the rename last through a power failure, where the system lets folders be synced."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
