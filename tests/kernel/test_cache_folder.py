"""The folder of the kernel cache: unusable, writable by others, removed or missing."""

import shutil
import stat
import warnings

import pytest

from numod.kernel import cache, seal

from fresh_cache import RIGHT, SOURCE, Fresh, result


def test_the_folder_is_private_and_holds_no_leftovers(fresh):
    fresh.build()
    assert stat.S_IMODE(fresh.folder.stat().st_mode) & 0o077 == 0
    assert sorted(path.suffix for path in fresh.folder.iterdir()) == [".kernel", ".key"]
    assert stat.S_IMODE((fresh.folder / seal.NAME).stat().st_mode) == 0o600


@pytest.mark.parametrize("case", ["below_a_file", "a_file", "proc", "too_deep", "gone", "readonly"])
def test_an_unusable_folder_means_memory_only(monkeypatch, tmp_path, case):
    (tmp_path / "file").write_text("")
    folder = {
        "below_a_file": tmp_path / "file" / "cache",
        "a_file": tmp_path / "file",
        "proc": "/proc/numod",
        "too_deep": f"{tmp_path}/{'a/' * 3000}",
        "gone": tmp_path / "gone",
        "readonly": tmp_path / "readonly",
    }[case]
    fresh = Fresh(monkeypatch, folder)
    if case == "readonly":
        fresh.folder.mkdir(mode=0o500)
    if case == "gone":  # between the look at the folder and the writing
        usual = cache.KernelCache._read
        monkeypatch.setattr(
            cache.KernelCache, "_read", lambda *arguments: (usual(*arguments), shutil.rmtree(folder))[0]
        )
        fresh.folder.mkdir(mode=0o700)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert result(fresh.build()) == RIGHT
    assert case != "gone" or len(fresh.files()) == 1  # made again
    assert not (tmp_path / "a").exists()


def test_an_unusable_folder_is_told_of_once(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    fresh = Fresh(monkeypatch, tmp_path / "file" / "cache")
    with pytest.warns(UserWarning, match="file/cache, so every process .* NUMOD_CACHE_DIR") as warned:
        assert result(fresh.build()) == RIGHT and result(fresh.build(SOURCE.replace("+ 1", "+ 3"))) != RIGHT
    assert len(warned) == 1


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o702, 0o1777], ids=oct)
def test_a_folder_others_can_write_is_refused_with_a_warning(fresh, mode):
    fresh.build()
    fresh.folder.chmod(mode)
    before = {path: path.stat().st_mtime_ns for path in fresh.folder.iterdir()}
    fresh.forget()
    with pytest.warns(
        UserWarning,
        match=rf"cannot be kept in .*/cache, .*other users can write to it \(mode {mode:04o}; try chmod go-w\)",
    ) as warned:
        kernel = fresh.build()
        fresh.build(SOURCE.replace("+ 1", "+ 3"))
    assert not kernel.cached and result(kernel) == RIGHT and len(warned) == 1
    assert {path: path.stat().st_mtime_ns for path in fresh.folder.iterdir()} == before
    fresh.folder.chmod(0o755)
    fresh.forget()
    assert fresh.build().cached


def test_the_folder_may_be_removed_and_the_variable_changed_meanwhile(fresh, monkeypatch, tmp_path):
    fresh.build()
    shutil.rmtree(fresh.folder)
    fresh.build(SOURCE.replace("+ 1", "+ 2"))
    assert len(fresh.files()) == 1
    monkeypatch.setenv("NUMOD_CACHE_DIR", str(tmp_path / "another"))
    fresh.build(SOURCE.replace("+ 1", "+ 3"))
    assert len(fresh.files()) == 1 and len(list((tmp_path / "another").glob("*.kernel"))) == 1


def test_a_missing_folder_is_made_with_its_parents(monkeypatch, tmp_path):
    fresh = Fresh(monkeypatch, tmp_path / "a" / "b" / "c")
    fresh.build()
    assert len(fresh.files()) == 1
