"""Which folders and files may hold code.

A patched `os.geteuid`, or `chown` when the tests run as root, plays other users."""

import os
import stat
import threading

import pytest

from numod.kernel import build, seal, trust
from numod.kernel.trust import Folder, Untrusted, checked_path, objection, opened

pytestmark = pytest.mark.skipif(not trust._RELATIVE, reason="needs POSIX permissions")
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, to give files to other users"
)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(trust, "_open_folder", None)
    tmp_path.chmod(0o700)
    (tmp_path / "cache").mkdir(mode=0o700)
    return tmp_path


def with_state(uid, mode):
    return os.stat_result((stat.S_IFREG | mode, 1, 1, 1, uid, 0, 0, 0, 0, 0))


def test_the_rule(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for uid in (0, 1000):
        assert [objection(with_state(uid, mode)) for mode in (0o600, 0o644, 0o755, 0o400)] == [""] * 4
        assert all("can write to it" in objection(with_state(uid, mode)) for mode in (0o620, 0o602, 0o666, 0o664))
    assert objection(with_state(1001, 0o600)) == "it belongs to another user (uid 1001)"


def test_without_users_everything_holds(monkeypatch):
    monkeypatch.delattr(os, "geteuid")  # as on Windows
    assert objection(with_state(1001, 0o666)) == ""


def test_on_windows_paths_are_joined(root, monkeypatch):
    """There is no descriptor of a folder; reading, writing and the key are the same."""
    monkeypatch.setattr(trust, "_RELATIVE", False)
    monkeypatch.delattr(os, "geteuid")
    with Folder(str(root / "a" / "b"), make=True) as folder:
        folder.write("x.kernel", b"text")
        assert (
            folder.read("x.kernel", 9) == b"text" and not folder.is_roots and not folder.is_still(str(root / "a" / "b"))
        )
        assert seal.make(folder) == seal.read(opened(str(root / "a" / "b")))


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702], ids=oct)
def test_a_folder_above_that_others_can_write_to_is_refused(root, mode):
    above = root / "above"
    (above / "cache").mkdir(mode=0o700, parents=True)
    assert checked_path(str(above / "cache")) == str(above / "cache")
    above.chmod(mode)
    for name in ("cache", "missing"):
        with pytest.raises(Untrusted, match=rf"other users can write to {above} \(mode {mode:04o}; try chmod go-w\)"):
            Folder(str(above / name), make=True)
    assert not (above / "missing").exists()
    above.chmod(mode | stat.S_ISVTX)  # as /tmp
    Folder(str(above / "cache")).close()


@needs_root
def test_a_folder_or_link_of_another_user_is_refused(root):
    (root / "link").symlink_to(root / "cache")
    (root / "other").mkdir()
    (root / "other" / "cache").mkdir(mode=0o700)
    os.chown(root / "other", 54321, -1)
    os.chown(root / "link", 54321, -1, follow_symlinks=False)
    for path in ("other/cache", "link", "other"):
        with pytest.raises(Untrusted, match="belongs to another user"):
            Folder(str(root / path))


def test_the_group_of_one_user_is_no_other_user(root, monkeypatch):
    """Where each user has a group, folders are often writable by it. That of the cache is not: it is made by numod."""
    import grp
    import pwd

    user = pwd.struct_passwd(("me", "x", os.geteuid() or 1000, root.stat().st_gid, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: user)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("me", "x", gid, members)))
    root.chmod(0o770)
    members = []
    assert checked_path(str(root / "cache")) == str(root / "cache")
    members = ["me", "other"]
    with pytest.raises(Untrusted):
        checked_path(str(root / "cache"))


def test_links_are_followed_where_only_the_user_can_make_them(root):
    (root / "x").mkdir()
    (root / "one").symlink_to("x/../two")
    (root / "two").symlink_to(root)
    assert checked_path(str(root / "one" / "." / "cache")) == str(root / "cache")
    assert checked_path(str(root / "one" / "missing" / "cache")) == str(root / "missing" / "cache")
    with Folder(str(root / "one" / "cache")) as folder:
        assert folder.path == str(root / "cache")
    (root / "circle").symlink_to("circle")
    with pytest.raises(OSError, match="symbolic links"):
        checked_path(str(root / "circle" / "cache"))


def test_a_link_put_in_the_place_of_the_folder_is_not_followed(root, monkeypatch):
    """After the path was checked: the folder is opened without following links."""
    (root / "elsewhere").mkdir(mode=0o700)
    (root / "cache").rmdir()
    (root / "cache").symlink_to("elsewhere")
    monkeypatch.setattr(trust, "checked_path", lambda path: path)
    with pytest.raises(OSError):
        Folder(str(root / "cache"))


def test_files_are_those_of_the_open_folder(root):
    """Whatever is put in its place meanwhile."""
    with Folder(str(root / "cache")) as folder:
        folder.write("a", b"mine")
        (root / "cache").rename(root / "moved")
        (root / "cache").mkdir()
        (root / "cache" / "a").write_bytes(b"theirs")
        assert folder.read("a", 10) == b"mine"
        folder.write("b", b"mine")
    assert (root / "moved" / "b").exists() and not (root / "cache" / "b").exists()


def test_unsafe_files_are_not_read(root):
    with Folder(str(root / "cache")) as folder:
        inside = root / "cache"
        (inside / "folder").mkdir()
        (inside / "link").symlink_to("text")
        os.mkfifo(inside / "pipe")
        folder.write("text", b"12345")
        for name, reason in (("folder", "not a file"), ("link", "symbolic link"), ("pipe", "not a file")):
            with pytest.raises(Untrusted, match=reason):
                folder.read(name, 10)
        with pytest.raises(Untrusted, match="larger than 4"):
            folder.read("text", 4)
        with pytest.raises(Untrusted, match="can read it"):
            folder.read("text", 5, private=True)
        (inside / "text").chmod(0o664)
        with pytest.raises(Untrusted, match="can write to it"):
            folder.read("text", 5)


def test_a_missing_folder_and_its_parents_are_made_for_the_user_alone(root):
    before = os.umask(0)
    try:
        Folder(str(root / "a" / "b"), make=True).close()
    finally:
        os.umask(before)
    assert {stat.S_IMODE((root / name).stat().st_mode) for name in ("a", "a/b")} == {0o700}


def test_files_are_writable_by_the_user_alone_whatever_the_umask(root):
    before = os.umask(0o002)
    try:
        with Folder(str(root / "cache")) as folder:
            folder.write("text", b"1")
            assert folder.read("text", 1) == b"1"
            seal.make(folder)
    finally:
        os.umask(before)
    assert stat.S_IMODE((root / "cache" / seal.NAME).stat().st_mode) == 0o600


def test_a_write_that_fails_leaves_nothing(root):
    with Folder(str(root / "cache")) as folder:
        (root / "cache" / "taken").mkdir()
        with pytest.raises(OSError):
            folder.write("taken", b"1")
        folder.write("text", b"1")
        with pytest.raises(FileExistsError):
            folder.write("text", b"2", replace=False)
        assert folder.read("text", 1) == b"1"
    assert sorted(path.name for path in (root / "cache").iterdir()) == ["taken", "text"]


def test_a_file_system_without_hard_links(root, monkeypatch):
    def link(*arguments, **options):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with Folder(str(root / "cache")) as folder:
        secret = seal.make(folder)
        assert len(secret) == 32 and seal.read(folder) == secret


def test_concurrent_key_creation_yields_one_key(root):
    keys, barrier = [], threading.Barrier(8)

    def make():
        with Folder(str(root / "cache")) as folder:
            barrier.wait()
            keys.append(seal.make(folder))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 8 and len(set(keys)) == 1 and [path.name for path in (root / "cache").iterdir()] == [seal.NAME]


# ---- the folder that stays open


def test_one_folder_stays_open(root):
    path = str(root / "cache")
    first = opened(path)
    assert opened(path) is first and opened(os.path.relpath(path)) is first
    other = opened(str(root / "other"), make=True)
    assert opened(other.path) is other and opened(path) is not first


@pytest.mark.parametrize("change", ["removed", "mode", "closed", "reused"])
def test_a_change_is_noticed(root, change):
    path = str(root / "cache")
    first = opened(path)
    if change == "removed":
        (root / "cache").rename(root / "gone")
        (root / "cache").mkdir(mode=0o700)
    if change == "mode":
        (root / "cache").chmod(0o777)
        with pytest.raises(Untrusted):
            opened(path)
        return
    if change == "closed":  # as a daemon does that closes all descriptors
        os.close(first.descriptor)
    if change == "reused":
        other = os.open(root, os.O_RDONLY)
        os.dup2(other, first.descriptor)
    again = opened(path)
    again.write("x", b"1")
    assert (root / "cache" / "x").exists()
    if change == "reused":
        assert os.path.samestat(os.fstat(first.descriptor), os.fstat(other))  # not closed
        os.close(other)
        os.close(first.descriptor)


def test_a_relative_path_follows_the_working_directory(root, monkeypatch):
    monkeypatch.chdir(root)
    first = opened("cache")
    (root / "below" / "cache").mkdir(parents=True, mode=0o700)
    monkeypatch.chdir(root / "below")
    assert opened("cache").identity != first.identity


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_child_uses_the_folder_of_its_parent(root):
    build.complete_all()  # a fork completes the kernels that were begun, and writes them to their folder
    folder = opened(str(root / "cache"))
    child = os.fork()
    if child == 0:
        try:
            opened(folder.path).write("child", b"1")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert opened(folder.path) is folder and folder.read("child", 1) == b"1"
