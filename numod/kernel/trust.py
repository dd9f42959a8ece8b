"""Which files and folders may hold code that this process runs, and how they are opened so that they are what was
checked.

The rule is one function, `objection`: the user or root owns the file or folder, and nobody else can write to it. It
holds for the folder of the kernel cache, for each of its entries, and for a pack and its folder. Every folder on the
way to it is checked as well (`checked_path`): who can rename one of them could put another in its place. A path is
checked and resolved, the folder is opened, and the open folder is checked; its files are opened relative to its
descriptor, without following links, and the open files are checked. So it does not matter what is renamed or linked
meanwhile.

`opened` keeps a folder open, and looks each time whether the path still leads there and the rule still holds. So it
notices a folder that was removed and made again, a change of its mode, and a program that closed all descriptors; a
child after a fork has the descriptor as well.

Windows has no owner and mode of this kind, no O_NOFOLLOW, and opens no file relative to a folder. There `objection` and
`checked_path` accept everything, and paths are joined: the access lists of the folder are what keeps other users out,
as they do in the user's profile, where the cache is by default.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
from types import TracebackType

_RELATIVE = (
    os.name == "posix"
    and {os.open, os.rename, os.unlink, os.link} <= os.supports_dir_fd
    and hasattr(os, "O_DIRECTORY")
    and hasattr(os, "O_NOFOLLOW")
)
# not blocked by a named pipe
_FLAGS = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
# O_PATH: a folder that may be entered but not listed
_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _FLAGS
_LINKS = 40  # symbolic links in a path, as in Linux
_held: Folder | None = None  # by `opened`


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
    pending, place, links = path.split("/")[::-1], "", 0
    while pending:
        part = pending.pop()
        if part in ("", ".", ".."):
            place = place.rpartition("/")[0] if part == ".." else place
            continue
        following = f"{place}/{part}"
        try:
            state = os.lstat(following)
        except FileNotFoundError:
            return "/".join([following, *pending[::-1]])
        _check_ancestor(following, state, last=not any(pending))
        if not stat.S_ISLNK(state.st_mode):
            place = following
            continue
        links += 1
        if links > _LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink(following)
        place = "" if target.startswith("/") else place
        pending += target.split("/")[::-1]
    return place or "/"


def _check_ancestor(path: str, state: os.stat_result, last: bool) -> None:
    """Raises Untrusted if a folder or link on the way could be changed by another user.

    The last folder is checked when it is open.

    In a folder with the sticky bit, such as /tmp, others can add files but cannot rename or remove what is not theirs.
    """
    if state.st_uid not in (os.geteuid(), 0, _owner_of_everything()):
        raise Untrusted(f"{path} belongs to another user (uid {state.st_uid})")
    if last or stat.S_ISLNK(state.st_mode) or state.st_mode & stat.S_ISVTX:
        return
    if state.st_mode & stat.S_IWOTH or (state.st_mode & stat.S_IWGRP and not _is_private_group(state.st_gid)):
        raise Untrusted(f"other users can write to {path} (mode {stat.S_IMODE(state.st_mode):04o}; try chmod go-w)")


@functools.cache
def _owner_of_everything() -> int:
    """Who owns /: root, or the user that a container shows in its place."""
    return os.stat("/").st_uid


def _is_private_group(group: int) -> bool:
    """Whether a group has the user as its only member, as many systems make one for each user; folders made by the user
    are then writable by the group.
    """
    import grp
    import pwd

    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return (
        user.pw_uid != 0
        and user.pw_gid == group
        and found.gr_name == user.pw_name
        and not set(found.gr_mem) - {user.pw_name}
    )


def opened(path: str, make: bool = False) -> Folder:
    """The folder, which stays open until another is asked for. For one thread at a time."""
    global _held
    held, _held = _held, None
    if held is None or not held.is_still(path):
        if held is not None:
            held.close()
        held = Folder(path, make)
    _held = held
    return held


class Folder:
    """An open folder that only the user and root can change, as a context.

    `make` makes it if it is missing, for the user alone.

    Raises Untrusted if others can change it, and OSError if it cannot be opened.
    """

    def __init__(self, path: str, make: bool = False) -> None:
        self.given, self.path, self.secret = os.path.abspath(path), checked_path(path), b""
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
        """Whether it is root's and the user is another, who can only read."""
        return _RELATIVE and self.owner != os.geteuid()

    def is_still(self, path: str) -> bool:
        """Whether the path leads to this folder, the descriptor is still its own, and only the user and root can change
        it.
        """
        try:
            if not _RELATIVE or os.path.abspath(path) != self.given:
                return False
            state, there = os.fstat(self.descriptor), os.stat(self.given)
        except OSError:
            return False
        return self.identity == (state.st_dev, state.st_ino) == (there.st_dev, there.st_ino) and not objection(state)

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor, unless the program has closed it, and its number is now another file's."""
        with contextlib.suppress(OSError):
            state = os.fstat(self.descriptor) if _RELATIVE else None
            if state and self.identity == (state.st_dev, state.st_ino):
                os.close(self.descriptor)

    def read(self, name: str, limit: int, private: bool = False) -> bytes:
        """The content of a file of the folder.

        Raises Untrusted if others can write to it, or if it is `private` and they can read it.
        """
        try:
            descriptor = self._open(name, os.O_RDONLY | _FLAGS)
        except OSError as error:
            raise Untrusted("it is a symbolic link") if error.errno == errno.ELOOP else error from None
        try:
            state = os.fstat(descriptor)
            reason = "it is not a file" if not stat.S_ISREG(state.st_mode) else objection(state)
            if private and not reason and hasattr(os, "geteuid") and state.st_mode & (stat.S_IRGRP | stat.S_IROTH):
                reason = f"other users can read it (mode {stat.S_IMODE(state.st_mode):04o})"
            if reason or state.st_size > limit:
                raise Untrusted(reason or f"it is larger than {limit} bytes")
            return _read(descriptor, state.st_size)
        finally:
            os.close(descriptor)

    def write(self, name: str, data: bytes, mode: int = 0o644, replace: bool = True) -> None:
        """Write a file: readers see all of it or nothing.

        If it exists it is replaced, or FileExistsError raised. Raises OSError if that fails.
        """
        temporary = f"{os.urandom(8).hex()}.tmp"
        descriptor = self._open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, mode)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
            if replace or not self._linked(temporary, name):
                os.replace(self._place(temporary), self._place(name), **self._between)
        finally:
            with contextlib.suppress(FileNotFoundError):  # it has been renamed
                os.unlink(self._place(temporary), **self._at)

    def _open(self, name: str, flags: int, mode: int = 0o600) -> int:
        return os.open(self._place(name), flags, mode, **self._at)

    def _place(self, name: str) -> str:
        return name if _RELATIVE else os.path.join(self.path, name)

    def _linked(self, source: str, target: str) -> bool:
        """Give a file another name, unless that exists.

        False on a file system without hard links, if the name is free.
        """
        try:
            os.link(self._place(source), self._place(target), **self._between)
        except FileExistsError:
            raise
        except OSError:
            if os.path.lexists(os.path.join(self.path, target)):
                raise
            return False
        return True

    @property
    def _between(self) -> dict[str, int]:
        return {"src_dir_fd": self.descriptor, "dst_dir_fd": self.descriptor} if _RELATIVE else {}


def _make_folders(path: str) -> None:
    """Make a folder and its missing parents for the user alone (`os.makedirs` would let the umask decide about the
    parents).
    """
    missing = []
    while not _exists(path):
        missing.append(path)
        path = os.path.dirname(path)
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(each, mode=0o700)


def _exists(path: str) -> bool:
    """Raises OSError for a path that cannot be, so that none of its parents is made."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    return True


def _read(descriptor: int, size: int) -> bytes:
    """`size` bytes, or fewer if the file has become shorter."""
    data = os.read(descriptor, size)
    while len(data) < size and (more := os.read(descriptor, size - len(data))):
        data += more
    return data
