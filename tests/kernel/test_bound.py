"""The size limit of the cache folder: which entries are removed, and when. No kernel is compiled."""

from __future__ import annotations

import hashlib
import os
import time

import pytest

from numod import config
from numod.kernel import bound, cache, entry, trust
from numod.kernel.build import Kernel

DAY = 86400


def keep(number: int, version: str = "1") -> None:
    """Write an entry of 1000 bytes and a little more."""
    key = hashlib.sha256(f"{number}".encode()).hexdigest()
    kernel = Kernel(f"add{number}_{key[:16]}", "", "float32[]", False, key)
    cache.KernelCache(kernel, version).save(
        lambda *arguments: arguments, ((bytes(1000), ("f",)),), "wrapper", "variable"
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMOD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(trust, "_open_folder", None)
    bound._sizes.clear()
    return tmp_path / "cache"


def numbers(folder) -> set[int]:
    return {int(path.name.split("_")[0].removeprefix("add")) for path in folder.glob("*.kernel")}


def set_age(folder, number: int, days: float) -> None:
    (path,) = folder.glob(f"add{number}_*")
    os.utime(path, (time.time() - days * DAY,) * 2)


def test_least_recently_used_entries_are_removed(folder, monkeypatch):
    for number in range(8):
        keep(number)
        set_age(folder, number, 5 - abs(number - 3))  # 3 is the oldest
    size = sum(path.stat().st_size for path in folder.glob("*.kernel")) // 8
    monkeypatch.setenv("NUMOD_CACHE_SIZE", str(5 * size))
    keep(8)
    assert numbers(folder) == {0, 6, 7, 8}  # a sixteenth of the limit stays free
    for number in range(10, 30):
        keep(number)
        assert sum(path.stat().st_size for path in folder.glob("*.kernel")) <= 5 * (size + 9)


def test_a_time_in_the_future_counts_as_unused(folder, monkeypatch):
    """A clock was wrong, or the folder comes from another machine."""
    for number, days in enumerate((1.5, 5, -400, 3, -2000)):
        keep(number)
        set_age(folder, number, days)
    keep(9, version="0")
    set_age(folder, 9, -30)
    left_over = folder / "0123456789abcdef.tmp"
    left_over.write_bytes(b"")
    os.utime(left_over, (time.time() + 9 * DAY,) * 2)
    with trust.Folder(str(folder)) as opened:
        assert bound.sweep(opened, "1") == 1 and numbers(folder) == {0, 1, 2, 3, 4} and not left_over.exists()
    (path,) = folder.glob("add2_*")
    with trust.Folder(str(folder)) as opened:
        opened.read(path.name, 1 << 20, used=True)
    assert abs(path.stat().st_mtime - time.time()) < 60
    monkeypatch.setenv("NUMOD_CACHE_SIZE", str(4 * path.stat().st_size + 8))
    keep(10)
    assert numbers(folder) == {0, 2, 10}


def test_the_folder_is_listed_once(folder, monkeypatch):
    calls, usual = [], bound._files
    monkeypatch.setattr(bound, "_files", lambda folder: calls.append(1) or usual(folder))
    for number in range(5):
        keep(number)
    assert len(calls) == 2 and not (folder / bound.SIZE).exists()  # to sweep, and for the size


def test_a_large_folder_has_a_file_with_its_size(folder, monkeypatch):
    monkeypatch.setattr(bound, "_LARGE_FOLDER", 0)
    for number in range(5):
        keep(number)
        total = sum(path.stat().st_size for path in folder.glob("*.kernel"))
        assert (folder / bound.SIZE).read_text().split()[0] == str(total)
        bound._sizes.clear()  # as another process
    for text in ("x", "1 2 3", "", f"{total} 5"):  # damaged, or old
        (folder / bound.SIZE).write_text(text)
        keep(4)
        assert (folder / bound.SIZE).read_text().split()[0] == str(total)
        bound._sizes.clear()


def test_loading_sets_the_time_once_a_day(folder):
    keep(1)
    for days, is_set in ((3, True), (0.5, False)):
        set_age(folder, 1, days)
        (path,) = folder.glob("add1_*")
        key = hashlib.sha256(b"1").hexdigest()
        result = cache.KernelCache(Kernel(f"add1_{key[:16]}", "", "float32[]", False, key), "1")
        assert result.load(lambda *arguments: arguments) and (time.time() - path.stat().st_mtime < DAY / 4) == is_set


def test_entries_of_other_versions_go_when_unused(folder):
    for number, (version, days) in enumerate((("0", 8), ("0", 6), ("1", 30), ("2", 8), ("1", 0))):
        keep(number, version)
        set_age(folder, number, days)
    (folder / "0.tmp").write_bytes(b"cut off")
    os.utime(folder / "0.tmp", (0, 0))
    bound._sizes.clear()
    keep(9)
    assert numbers(folder) == {1, 2, 4, 9} and not (folder / "0.tmp").exists()


def test_version_of_what_is_no_entry():
    for start in (b"", b"other", entry.MAGIC, entry.MAGIC + bytes(200), entry.MAGIC + bytes(80) + b'"version": "\xff"'):
        assert entry.version_of(start) != "1"


@pytest.mark.parametrize(
    "text, size",
    [("", 1 << 30), ("500M", 500 << 20), ("2g", 2 << 30), ("2GiB", 2 << 30), ("10kb", 10 << 10), ("7", 7), ("x", 1 << 30),
     ("-1", 1 << 30), ("1T", 1 << 40), ("9" * 30, 1 << 30), ("2.5G", 5 << 29), ("500 M", 500 << 20), (" 1 KiB", 1 << 10),
     ("1e9", 1 << 30), ("1.G", 1 << 30), (".5G", 1 << 30), ("G", 1 << 30), ("\u0661M", 1 << 30), ("0", 0)],
)  # fmt: skip
def test_sizes(monkeypatch, text, size):
    monkeypatch.setenv("NUMOD_CACHE_SIZE", text)
    assert config.cache_size() == size
    assert bool(config.why_default_cache_size()) == (size == 1 << 30 and text != "")


def test_a_tilde_is_the_home_in_all_paths(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("NUMOD_CACHE_DIR", os.path.join("~", "kernels"))
    monkeypatch.setenv("NUMOD_KERNEL_PATH", os.pathsep.join([os.path.join("~", "a.pack"), "b"]))
    assert config.cache_dir() == str(tmp_path / "kernels")
    assert config.kernel_path() == [str(tmp_path / "a.pack"), "b"]
