"""Checks of files and folders that hold code for this process: the kernel cache, its entries, packs and their folders.

The rule is one function, `objection`: the user or root owns the file or folder, and nobody else can write to it. Each
parent folder is checked as well (`checked_path`), since a user who can rename one could replace it. A path is checked
and resolved, then the folder is opened and the open folder is checked. Its files are opened relative to its descriptor,
without following links, and the open files are checked. So renames and links made in between have no effect.

`opened` keeps a folder open. Each call checks that the path still leads to it and that the rule still holds. So it
detects a folder that was removed and created again, a change of its mode, and a program that closed all descriptors. A
child process inherits the descriptor on fork.

Windows has no such owner and mode, no O_NOFOLLOW, and cannot open files relative to a folder. There `objection` and
`checked_path` accept everything, and paths are joined. The folder's access lists keep other users out, as they do in
the user's profile, the default place of the cache.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
import time
from types import TracebackType

_RELATIVE = (
    os.name == "posix"
    and {os.open, os.rename, os.unlink, os.link} <= os.supports_dir_fd
    and hasattr(os, "O_DIRECTORY")
    and hasattr(os, "O_NOFOLLOW")
)
# O_NONBLOCK: opening a named pipe returns at once
_FLAGS = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
# O_PATH: a folder that may be entered but not listed
_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _FLAGS
_DAY = 86400.0  # seconds
_LINKS = 40  # symbolic links in a path, as in Linux
_open_folder: Folder | None = None  # the last folder of `opened`


class Untrusted(PermissionError):
    """A file or folder is not used, since other users could have written to it. The message is the reason."""


def objection(state: os.stat_result) -> str:
    """Why code in an open file or folder (`os.fstat`) is not used; "" if the user or root owns it and nobody else can
    write to it.
    """
    if not hasattr(os, "geteuid"):
        return ""
    if state.st_uid not in (os.geteuid(), 0):
        return f"it belongs to another user (uid {state.st_uid})"
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users can write to it (mode {stat.S_IMODE(state.st_mode):04o}; try chmod go-w)"
    return ""


def checked_path(path: str) -> str:
    """The absolute path with links resolved, as far as it exists.

    Raises Untrusted if another user could rename or replace a folder or link in it.
    """
    path = os.path.abspath(path)
    if not _RELATIVE:
        return path
    pending, resolved, links = path.split("/")[::-1], "", 0
    while pending:
        part = pending.pop()
        if part in ("", ".", ".."):
            resolved = resolved.rpartition("/")[0] if part == ".." else resolved
            continue
        following = f"{resolved}/{part}"
        try:
            state = os.lstat(following)
        except FileNotFoundError:
            return "/".join([following, *pending[::-1]])
        _check_ancestor(following, state, last=not any(pending))
        if not stat.S_ISLNK(state.st_mode):
            resolved = following
            continue
        links += 1
        if links > _LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink(following)
        resolved = "" if target.startswith("/") else resolved
        pending += target.split("/")[::-1]
    return resolved or "/"


def _check_ancestor(path: str, state: os.stat_result, last: bool) -> None:
    """Raises Untrusted if another user could change a folder or link on the path.

    The last folder is checked when it is open. In a folder with the sticky bit, such as /tmp, other users can add files
    but not rename or remove files that they do not own.
    """
    if state.st_uid not in (os.geteuid(), 0, _owner_of_root()):
        raise Untrusted(f"{path} belongs to another user (uid {state.st_uid})")
    if last or stat.S_ISLNK(state.st_mode) or state.st_mode & stat.S_ISVTX:
        return
    if state.st_mode & stat.S_IWOTH or (state.st_mode & stat.S_IWGRP and not _is_private_group(state.st_gid)):
        raise Untrusted(f"other users can write to {path} (mode {stat.S_IMODE(state.st_mode):04o}; try chmod go-w)")


@functools.cache
def _owner_of_root() -> int:
    """The owner of /: root, or the user that a container maps root to."""
    return os.stat("/").st_uid


def _is_private_group(group: int) -> bool:
    """Whether the user is the only member of the group.

    Many systems create such a group for each user, and folders of the user are then writable by the group.
    """
    import grp
    import pwd

    try:
        user, entry = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return (
        user.pw_uid != 0
        and user.pw_gid == group
        and entry.gr_name == user.pw_name
        and not set(entry.gr_mem) - {user.pw_name}
    )


def opened(path: str, make: bool = False) -> Folder:
    """The folder, which stays open until another is requested. Not thread-safe."""
    global _open_folder
    folder, _open_folder = _open_folder, None
    if folder is None or not folder.is_still(path):
        if folder is not None:
            folder.close()
        folder = Folder(path, make)
    _open_folder = folder
    return folder


class Folder:
    """An open folder that only the user and root can change; a context manager that closes it.

    With `make` a missing folder is created, accessible to the user only. Raises Untrusted if others can change the
    folder, and OSError if it cannot be opened.
    """

    def __init__(self, path: str, make: bool = False) -> None:
        self.requested_path, self.path, self.secret = os.path.abspath(path), checked_path(path), b""
        if make:
            _make_folders(self.path)
        self.descriptor = os.open(self.path, _FOLDER_FLAGS) if _RELATIVE else None
        self._at = {"dir_fd": self.descriptor} if _RELATIVE else {}
        state = os.fstat(self.descriptor) if _RELATIVE else os.stat(self.path)
        self.identity, self.owner = (state.st_dev, state.st_ino), state.st_uid
        reason = objection(state)
        if reason or not stat.S_ISDIR(state.st_mode):
            self.close()
            raise (
                Untrusted(reason)
                if reason
                else NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self.path)
            )

    @property
    def is_roots(self) -> bool:
        """Whether the folder belongs to root and the user is not root, so it is read-only."""
        return _RELATIVE and self.owner != os.geteuid()

    def is_still(self, path: str) -> bool:
        """Whether the path leads to this open folder and only the user and root can change it."""
        try:
            if not _RELATIVE or os.path.abspath(path) != self.requested_path:
                return False
            state, path_state = os.fstat(self.descriptor), os.stat(self.requested_path)
        except OSError:
            return False
        return self.identity == (state.st_dev, state.st_ino) == (
            path_state.st_dev,
            path_state.st_ino,
        ) and not objection(state)

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor, unless the program has closed it and the number now belongs to another file."""
        with contextlib.suppress(OSError):
            state = os.fstat(self.descriptor) if _RELATIVE else None
            if state and self.identity == (state.st_dev, state.st_ino):
                os.close(self.descriptor)

    def read(self, name: str, limit: int, private: bool = False, used: bool = False) -> bytes:
        """The content of a file of the folder. `used` sets the file's time to now if the two differ by more than a day.

        Raises Untrusted if others can write to it, or if it is `private` and they can read it.
        """
        descriptor = self.open_file(name, limit, private)
        try:
            state = os.fstat(descriptor)
            if used and abs(time.time() - state.st_mtime) > _DAY and os.utime in os.supports_fd:
                with contextlib.suppress(OSError):  # a folder that is only read
                    os.utime(descriptor)
            return _read(descriptor, state.st_size)
        finally:
            os.close(descriptor)

    def start_of(self, name: str, count: int) -> bytes:
        """The first bytes of a file of the folder; none if it cannot be read."""
        try:
            descriptor = self._open(name, os.O_RDONLY | _FLAGS)
        except OSError:
            return b""
        try:
            return os.read(descriptor, count)
        except OSError:
            return b""
        finally:
            os.close(descriptor)

    def remove(self, name: str) -> None:
        """Remove a file of the folder. Raises OSError on failure."""
        os.unlink(self._name_at(name), **self._at)

    def open_file(self, name: str, limit: int, private: bool = False) -> int:
        """The descriptor of a file of the folder, open for reading. Raises as `read` does."""
        try:
            descriptor = self._open(name, os.O_RDONLY | _FLAGS)
        except OSError as error:
            raise Untrusted("it is a symbolic link") if error.errno == errno.ELOOP else error from None
        state = os.fstat(descriptor)
        reason = "it is not a file" if not stat.S_ISREG(state.st_mode) else objection(state)
        if private and not reason and hasattr(os, "geteuid") and state.st_mode & (stat.S_IRGRP | stat.S_IROTH):
            reason = f"other users can read it (mode {stat.S_IMODE(state.st_mode):04o})"
        if reason or state.st_size > limit:
            os.close(descriptor)
            raise Untrusted(reason or f"it is larger than {limit} bytes")
        return descriptor

    def write(self, name: str, data: bytes, mode: int = 0o644, replace: bool = True) -> None:
        """Write a file atomically: readers see all of it or nothing.

        An existing file is replaced with `replace`; otherwise FileExistsError is raised. Raises OSError on failure.
        """
        temporary = f"{os.urandom(8).hex()}.tmp"
        descriptor = self._open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, mode)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
            if replace or not self._hard_link(temporary, name):
                os.replace(self._name_at(temporary), self._name_at(name), **self._descriptors_of_both)
        finally:
            with contextlib.suppress(FileNotFoundError):  # it has been renamed
                os.unlink(self._name_at(temporary), **self._at)

    def _open(self, name: str, flags: int, mode: int = 0o600) -> int:
        return os.open(self._name_at(name), flags, mode, **self._at)

    def _name_at(self, name: str) -> str:
        return name if _RELATIVE else os.path.join(self.path, name)

    def _hard_link(self, source: str, target: str) -> bool:
        """Hard-link a file to another name. Raises FileExistsError if that exists.

        Returns False on a file system without hard links.
        """
        try:
            os.link(self._name_at(source), self._name_at(target), **self._descriptors_of_both)
        except FileExistsError:
            raise
        except OSError:
            if os.path.lexists(os.path.join(self.path, target)):
                raise
            return False
        return True

    @property
    def _descriptors_of_both(self) -> dict[str, int]:
        """Arguments of `os.link` and `os.replace` by which both names are relative to the open folder."""
        return {"src_dir_fd": self.descriptor, "dst_dir_fd": self.descriptor} if _RELATIVE else {}


def _make_folders(path: str) -> None:
    """Create a folder and its missing parents with mode 0o700 (`os.makedirs` would apply the umask to the parents)."""
    missing = []
    while not _exists(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, mode=0o700)


def _exists(path: str) -> bool:
    """Whether the path exists. Raises OSError for an invalid path, so that no parent is created."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    return True


def _read(descriptor: int, size: int) -> bytes:
    """Read `size` bytes, or fewer if the file has become shorter."""
    data = os.read(descriptor, size)
    while len(data) < size and (more := os.read(descriptor, size - len(data))):
        data += more
    return data
