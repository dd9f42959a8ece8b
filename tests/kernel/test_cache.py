"""The cache of one kernel, without a compiler: texts (PTX), entries of the wrong kind, no writes without a home."""

import hashlib
import os
import warnings

import pytest

from numod.kernel import cache, entry, seal, trust
from numod.kernel.build import Kernel

KEY = hashlib.sha256(b"text").hexdigest()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMOD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(trust, "_open_folder", None)
    cache._warn_once.cache_clear()
    return tmp_path / "cache"


def new(signature="float32[]"):
    return cache.KernelCache(Kernel(f"add_{KEY[:16]}", "", signature, False, KEY), "1")


def fail(*arguments):
    raise AssertionError("it was to be found")


def test_a_text_is_made_once(folder):
    first, second = new(), new()
    assert first.text(lambda: ".version 8.0 é") == ".version 8.0 é" and not first.hit and first.kernel.why == "no entry"
    assert second.text(fail) == ".version 8.0 é" and second.hit and second.kernel.why == "found on the disk"


def test_an_entry_of_another_kind_or_signature_is_not_taken(folder):
    new().text(lambda: "text")
    assert new().load(fail) is None
    assert new("float64[]").text(lambda: "other") == "other"
    new().save(lambda *arguments: arguments, ((b"code", ("f",)),), "wrapper", "environment")
    result = new()
    assert (
        result.text(lambda: "text") == "text"
        and not result.hit
        and result.kernel.why == "entry not used: it is another kernel's"
    )


def test_a_text_that_is_not_utf8_is_made_again(folder):
    new().text(lambda: "text")
    (path,) = folder.glob("*.kernel")
    bad = entry.parse(path.read_bytes())._replace(parts=((b"\xff", ()),))
    path.write_bytes(entry.dump(bad, (folder / seal.NAME).read_bytes()))
    again = new()
    assert again.text(lambda: "text") == "text" and not again.hit and again.kernel.why.startswith("entry does not load")


def test_code_that_does_not_load_is_a_miss_with_a_reason(folder):
    new().save(lambda *arguments: arguments, ((b"code", ("f",)),), "wrapper", "environment")
    result = new()
    assert result.load(fail) is None and not result.hit and result.kernel.why == "entry does not load: AssertionError"
    made = result.load(lambda name, module, *rest: rest)
    assert made == (((b"code", ("f",)),), "wrapper", "environment") and result.hit and result.kernel.symbols == ("f",)


def test_without_a_home_it_says_that_nothing_is_kept(folder, monkeypatch):
    for name in ("NUMOD_CACHE_DIR", "HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # nor does passwd know one
    with pytest.warns(
        UserWarning, match="cannot be kept on the disk, .*: this process has no home folder: HOME is not set"
    ) as warned:
        assert new().text(lambda: "text") == new().text(lambda: "text") == "text"
    assert len(warned) == 1
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache._warn_once.cache_clear()
        assert new().text(lambda: "text") == "text"  # as the user chose


def test_a_relative_xdg_folder_is_ignored(folder, monkeypatch):
    monkeypatch.delenv("NUMOD_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(folder))
    assert new().folder == str(folder / ".cache" / "numod")
