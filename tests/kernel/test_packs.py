"""Packs of kernels: lookup by key, and verification of all contents. One kernel is compiled."""

from __future__ import annotations

import hashlib
import os
import random
import warnings

import pytest

from numod.device import cpu, target
from numod.kernel import build, cache, entry, packs, trust

KEYS = [hashlib.sha256(f"{k}".encode()).hexdigest() for k in range(9)]


@pytest.fixture(autouse=True)
def fresh():
    """Nothing is remembered of a path, or of warnings."""
    yield
    packs._usable.cache_clear()
    packs._warned.cache_clear()


def an_entry(key: str, size: int = 100) -> entry.Entry:
    return entry.Entry("code", key, f"add_{key[:16]}", "float32[]", "1", ("f", "g"), ((bytes(size), ("f",)),))


@pytest.fixture
def pack(tmp_path, monkeypatch):
    """The path of a pack, which is on the path of kernels."""
    path = tmp_path / "some.pack"
    entries = [an_entry(key, 50 + k) for k, key in enumerate(KEYS)]
    assert packs.write(str(path), {"x86-64-v3": entries[:4], "x86-64-v4": entries[4:]}) == {
        "x86-64-v3": 4,
        "x86-64-v4": 5,
    }
    monkeypatch.setenv("NUMOD_KERNEL_PATH", str(tmp_path))
    return path


def test_entries_are_found_by_key(pack):
    opened = packs.Pack(str(pack))
    assert opened.is_usable and opened.levels == {"x86-64-v3": 4, "x86-64-v4": 5}
    for k, key in enumerate(KEYS):
        assert opened.find(key) == packs.find(key) == an_entry(key, 50 + k)
    for key in ("0" * 64, "f" * 64, hashlib.sha256(b"absent").hexdigest()):
        assert opened.find(key) is None and packs.find(key) is None


def test_several_packs_on_a_path(pack, tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    more = hashlib.sha256(b"more").hexdigest()
    packs.write(str(tmp_path / "other" / "x"), {"aarch64": [an_entry(more), an_entry(KEYS[0], 9)]})
    monkeypatch.setenv("NUMOD_KERNEL_PATH", os.pathsep.join([str(pack), str(tmp_path / "other" / "x")]))
    assert packs.find(more) == an_entry(more) and packs.find(KEYS[0]) == an_entry(KEYS[0], 50)


def test_a_missing_pack_is_warned_about_once(pack, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMOD_KERNEL_PATH", str(tmp_path / "absent.pack"))
    with pytest.warns(UserWarning, match="absent.pack is not used: No such file") as record:
        assert packs.find(KEYS[0]) is None and packs.find(KEYS[1]) is None
    assert len(record) == 1


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_a_pack_that_others_can_write_is_not_used(pack):
    pack.chmod(0o666)
    with pytest.warns(UserWarning, match="other users can write to it"):
        assert packs.find(KEYS[0]) is None
    pack.chmod(0o644)
    pack.parent.chmod(0o777)
    packs._usable.cache_clear()
    with pytest.warns(UserWarning, match="other users can write to it"):
        assert packs.find(KEYS[0]) is None


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_a_link_is_not_followed(pack, tmp_path):
    pack.rename(tmp_path / "real")
    pack.symlink_to(tmp_path / "real")
    with pytest.warns(UserWarning, match="symbolic link"):
        assert packs.find(KEYS[0]) is None


def test_a_pack_of_another_version_is_ignored(pack, monkeypatch):
    monkeypatch.setattr(packs, "versions", lambda: "another")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert packs.find(KEYS[0]) is None


def test_a_cut_pack_is_a_miss_with_a_warning(pack):
    whole = pack.read_bytes()
    for size in (0, 1, 15, 19, 30, 100, len(whole) // 2, len(whole) - 1):
        pack.write_bytes(whole[:size])
        packs._usable.cache_clear()
        packs._warned.cache_clear()
        with pytest.warns(UserWarning, match="is not used"):
            assert [packs.find(key) for key in KEYS].count(None)


def test_a_cut_pack_is_not_opened(pack):
    whole = pack.read_bytes()
    for content in (whole[:-1], whole[:-100], whole + b"x"):
        pack.write_bytes(content)
        with pytest.raises(entry.Malformed, match="cut short, or longer"):
            packs.Pack(str(pack))


@pytest.mark.skipif(os.name != "posix", reason="an open file is cut")
def test_a_pack_that_is_cut_while_it_is_open(pack):
    opened = packs.Pack(str(pack))
    os.truncate(pack, 200)
    with pytest.raises(entry.Malformed, match="has become shorter"):
        opened.find(KEYS[0])


def test_index_contents_are_verified(pack):
    whole = bytearray(pack.read_bytes())
    index = packs.Pack(str(pack)).index
    for start, length in (
        (0, 100),
        (index, 1 << 60),
        (1 << 63, 1),
        (index, 0),
        (len(whole) - 10, 100),
        (1 << 63, 1 << 63),
    ):
        changed = whole[:]
        changed[index + 32 : index + 48] = start.to_bytes(8, "little") + length.to_bytes(8, "little")
        pack.write_bytes(changed)
        with pytest.raises(entry.Malformed):
            packs.Pack(str(pack)).find(min(KEYS))
    other = whole[:]  # the place of another kernel
    other[index + 32 : index + 48] = whole[index + packs._ROW_BYTES + 32 : index + packs._ROW_BYTES + 48]
    pack.write_bytes(other)
    with pytest.raises(entry.Malformed, match="another kernel"):
        packs.Pack(str(pack)).find(min(KEYS))


@pytest.mark.parametrize(
    "header",
    [b"", b"[]", b"{}", b'{"made": 1, "levels": {}}', b'{"made": "", "levels": []}', b'{"made": "", "levels": {"a": -1}}',
     b'{"made": "", "levels": {"a": true}}', b'{"made": "", "levels": {"a": 4000000000}}', b"[" * 60000, b"\xff"],
)  # fmt: skip
def test_wrong_headers(pack, header):
    pack.write_bytes(packs.MAGIC + len(header).to_bytes(4, "little") + header + bytes(100))
    with pytest.raises(entry.Malformed):
        packs.Pack(str(pack))


def test_changed_packs_never_yield_other_code(pack):
    whole, random_ = pack.read_bytes(), random.Random(0)
    for _ in range(300):
        changed = bytearray(whole)
        for _ in range(random_.choice((1, 1, 4))):
            changed[random_.randrange(len(changed))] = random_.randrange(256)
        pack.write_bytes(changed)
        try:
            opened = packs.Pack(str(pack))
            results = [opened.find(key) for key in KEYS]
        except entry.Malformed:
            continue
        assert all(
            loaded is None or loaded == an_entry(key, 50 + k) for k, (key, loaded) in enumerate(zip(KEYS, results))
        )


def test_a_kernel_comes_from_a_pack_and_the_cache_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMOD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(trust, "_open_folder", None)
    monkeypatch.setattr(build, "_built", {})
    source = "def kernel(x):\n    x[0] = 2718.0\n"
    compiled = build.build(cpu, "one", source, "float32[]")
    (path,) = (tmp_path / "cache").glob("*.kernel")
    saved = entry.parse(path.read_bytes())
    for key in (compiled.key, build._level_key(cpu, compiled, build.FAST_POINTWISE, False)):
        if key is None:
            continue
        moved = saved._replace(key=key, name=f"other_{key[:16]}")
        packs.write(str(tmp_path / "k.pack"), {target.level() or "none": [moved]})
        monkeypatch.setenv("NUMOD_KERNEL_PATH", str(tmp_path / "k.pack"))
        for name, why in (("cache", cache.FOUND), ("empty", cache.FOUND_IN_PACK)):
            packs._usable.cache_clear()
            monkeypatch.setattr(build, "_built", {})
            monkeypatch.setenv("NUMOD_CACHE_DIR", str(tmp_path / name))
            kernel = build.build(cpu, "one", source, "float32[]")
            assert kernel.cached and kernel.why == why
    assert not (tmp_path / "empty").exists()


def test_levels_of_processors(monkeypatch):
    monkeypatch.setattr(target, "triple", lambda: "x86_64-unknown-linux-gnu")
    v3, v4 = (target.LEVELS[f"x86-64-v{k}"] for k in (3, 4))
    for features, level in (
        (v3, "x86-64-v3"), (f"{v4},+avx512vnni", "x86-64-v4"), ("+sse2", None), (f"{v3},+avx512f", None), ("", None),
    ):  # fmt: skip
        monkeypatch.setattr(target, "features", lambda features=features: features)
        assert target.level() == level
    monkeypatch.setattr(target, "triple", lambda: "arm64-apple-darwin")
    monkeypatch.setattr(target, "features", lambda: target.LEVELS["aarch64"])
    assert target.level() == "aarch64"
