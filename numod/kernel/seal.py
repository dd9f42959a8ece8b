"""The key that seals the entries of a kernel cache: a random file in the cache folder that only the user can read.

The key is in the same folder as the entries, so a cache works in any folder: in a container's volume, or without a
home directory.
Only the whole folder, copied with its key, is trusted elsewhere. `python -m numod cache pack` leaves the key out, and
`cache unpack` takes no key: entries from another folder have no valid seal here until the user accepts them with
`--trust`. Other users read a folder that root filled without the key (`Folder.is_roots`): only root can have written
there.
"""

from __future__ import annotations

import contextlib
import os

from .trust import Folder, Untrusted

NAME = "seal.key"
_SIZE = 32


def read(folder: Folder) -> bytes:
    """The folder's key.

    Raises FileNotFoundError if it has none, and Untrusted if others could read or change it, or if it is damaged.
    """
    if folder.secret:
        return folder.secret
    try:
        secret = folder.read(NAME, _SIZE, private=True)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Untrusted(f"{NAME} is not used: {error.strerror or error}") from None
    if len(secret) != _SIZE:
        raise Untrusted(f"{NAME} is damaged: it has {len(secret)} bytes instead of {_SIZE}")
    folder.secret = secret
    return secret


def make(folder: Folder, replace: bool = False) -> bytes:
    """The folder's key; created if missing.

    Of several processes that make one at once, all get the same. `replace` makes another in any case.
    """
    with contextlib.suppress(FileExistsError):
        folder.write(NAME, os.urandom(_SIZE), mode=0o600, replace=replace)
    return read(folder)
