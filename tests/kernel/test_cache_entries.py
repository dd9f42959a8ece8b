"""Entries of the kernel cache that are damaged, foreign or readable by others, and the key that seals them."""

import errno
import hashlib
import os
import pickle
import shutil
import stat

import pytest

from numod.kernel import entry, seal, trust

from fresh_cache import RIGHT, SOURCE, result


def cut(path):
    path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2])


def cut_short(path):
    path.write_bytes(path.read_bytes()[:20])


def empty(path):
    path.write_bytes(b"")


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def foreign(path):
    path.write_bytes(b"not a kernel at all" * 100)


def a_pickle(path):
    """As older versions wrote them: a digest of the key and the pickle in front. It must not be read."""
    payload = pickle.dumps(Planted())
    path.write_bytes(hashlib.sha256(path.stem.rpartition("_")[2].encode() + payload).digest() + payload)


class Planted:
    def __reduce__(self):
        return os._exit, (3,)


def without_a_seal(path):
    path.write_bytes(entry.dump(entry.parse(path.read_bytes())))


def with_another_seal(path):
    path.write_bytes(entry.dump(entry.parse(path.read_bytes()), os.urandom(32)))


def writable_by_others(path):
    path.chmod(0o666)


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def a_folder(path):
    path.unlink()
    path.mkdir()


def a_link(path):
    path.symlink_to(path.rename(path.with_name("elsewhere")))


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        cut_short,
        empty,
        flip,
        foreign,
        a_pickle,
        without_a_seal,
        with_another_seal,
        writable_by_others,
        a_pipe,
        a_folder,
        a_link,
    ],
    ids=lambda function: function.__name__,
)
def test_a_damaged_entry_is_compiled_again(fresh, damage):
    fresh.build()
    (path,) = fresh.files()
    damage(path)
    fresh.forget()
    kernel = fresh.build()
    assert not kernel.cached and result(kernel) == RIGHT and kernel.why.startswith("entry not used: ")
    if damage is not a_folder:
        fresh.forget()
        assert fresh.build().cached


def test_the_entry_of_another_kernel_is_not_taken(fresh):
    fresh.build()
    (first,) = fresh.files()
    other = SOURCE.replace("+ 1", "+ 2")
    fresh.build(other)
    (second,) = set(fresh.files()) - {first}
    shutil.copy(first, second)
    fresh.forget()
    kernel = fresh.build(other)
    assert result(kernel) == [2.0, 3.0, 4.0, 5.0, 6.0] and kernel.why == "entry not used: it is another kernel's"


def unreadable(path):
    path.chmod(0o644)


def too_long(path):
    path.write_bytes(bytes(33))


def a_link_elsewhere(path):
    path.symlink_to(path.rename(path.with_name("elsewhere")))


@pytest.mark.parametrize(
    "damage", [cut, empty, too_long, unreadable, a_link_elsewhere], ids=lambda function: function.__name__
)
def test_an_unusable_key_is_replaced_with_a_warning(fresh, damage):
    fresh.build()
    key = fresh.folder / seal.NAME
    before = key.read_bytes()
    damage(key)
    fresh.forget()
    with pytest.warns(UserWarning, match=r"the key of the kernel cache .*/cache is replaced.*seal\.key") as warned:
        kernel = fresh.build()
    assert not kernel.cached and result(kernel) == RIGHT and "seal.key" in kernel.why and len(warned) == 1
    assert stat.S_IMODE(key.lstat().st_mode) == 0o600 and key.read_bytes() not in (before, bytes(32))
    fresh.forget()
    assert fresh.build().cached


def test_without_the_key_nothing_is_loaded_and_another_is_made(fresh):
    fresh.build()
    (fresh.folder / seal.NAME).unlink()
    fresh.forget()
    kernel = fresh.build()
    assert not kernel.cached and result(kernel) == RIGHT and kernel.why.startswith("entry not used")
    fresh.forget()
    assert fresh.build().cached


def test_a_key_that_cannot_be_replaced_means_memory_only(fresh):
    fresh.folder.mkdir(mode=0o700)
    (fresh.folder / seal.NAME).mkdir()
    with pytest.warns(UserWarning, match="compiled kernels cannot be kept in .*/cache"):
        assert result(fresh.build()) == RIGHT
    assert fresh.files() == []


def test_a_full_disk_is_told_once(fresh, monkeypatch):
    def full(self, *arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(trust.Folder, "write", full)
    with pytest.warns(
        UserWarning, match="cannot be kept in .*/cache, so every process compiles them again: No space left on device"
    ) as warned:
        assert result(fresh.build()) == RIGHT and result(fresh.build(SOURCE.replace("+ 1", "+ 3"))) != RIGHT
    assert len(warned) == 1


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX users")
def test_a_folder_that_root_filled_serves_other_users(fresh, monkeypatch):
    """They cannot read the key: that root owns the folder and the file, and that nobody else can write, is enough.

    What is missing is not kept, silently.
    """
    if os.geteuid() != 0:
        pytest.skip("needs root")
    fresh.build()
    (path,) = fresh.files()
    (fresh.folder / seal.NAME).unlink()
    fresh.forget()
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    kernel = fresh.build()
    assert kernel.cached and result(kernel) == RIGHT
    assert result(fresh.build(SOURCE.replace("+ 1", "+ 3"))) != RIGHT and fresh.files() == [path]
    os.chown(path, 54322, -1)
    fresh.forget()
    assert fresh.build().why == "entry not used: it belongs to another user (uid 54322)"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX permissions")
def test_entries_serve_other_users(fresh):
    before = os.umask(0o022)
    try:
        fresh.build()
    finally:
        os.umask(before)
    assert {oct(path.stat().st_mode & 0o777) for path in fresh.files()} == {"0o644"}  # once they may enter the folder


def test_strange_files_beside_the_entries_do_no_harm(fresh):
    fresh.folder.mkdir(mode=0o700)
    (fresh.folder / "readme.txt").write_text("mine")
    (fresh.folder / "left.tmp").write_bytes(b"torn")
    assert result(fresh.build()) == RIGHT and (fresh.folder / "readme.txt").read_text() == "mine"
