"""Kernel sources where there are no .py files."""

from __future__ import annotations

import types
from pathlib import Path

import pytest

import numod
from numod.kernel import bind, scalar, sources

PACKAGE = Path(numod.__file__).parent


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The archive of a wheel, in the place of none."""
    sources.write(PACKAGE, tmp_path / sources.ARCHIVE)
    monkeypatch.setattr(sources, "__file__", str(tmp_path / "sources.py"))
    sources._archived.cache_clear()
    yield tmp_path / sources.ARCHIVE
    sources._archived.cache_clear()


def without_file(function: types.FunctionType) -> types.FunctionType:
    """The function as a .pyc file has it whose .py file is gone."""
    code = function.__code__.replace(co_filename="/no/such/file.py")
    return types.FunctionType(code, {"__name__": function.__module__}, function.__name__)


def test_the_archive_has_the_lines_of_every_kernel(archive: Path) -> None:
    functions = [function for function in scalar.functions.values() if isinstance(function, types.FunctionType)]
    assert len(functions) > 50
    for function in functions:
        assert sources.lines_of(without_file(function)) == sources.lines_of(function)


def test_the_archive_is_the_same_each_time(archive: Path, tmp_path: Path) -> None:
    sources.write(PACKAGE, tmp_path / "again.zip")
    assert archive.read_bytes() == (tmp_path / "again.zip").read_bytes()
    text = PACKAGE.joinpath("kernel", "bind.py").read_text(encoding="utf-8")
    assert sources.text_of(bind) == sources._archived("numod.kernel.bind") == text


def test_missing_text_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "__file__", str(tmp_path / "sources.py"))
    sources._archived.cache_clear()
    kernel = next(function for function in scalar.functions.values() if function.__module__.startswith("numod.kernel"))
    with pytest.raises(
        RuntimeError, match=r"that of the module numod\.kernel\.\S+ is not here\. Keep numod's \.py files"
    ):
        sources.lines_of(without_file(kernel))
    exec("def scale(x): return 2 * x", namespace := {"__name__": "application"})
    with pytest.raises(
        RuntimeError, match="that of the module application is not here. Keep the .py file of that module"
    ):
        sources.lines_of(namespace["scale"])
    sources._archived.cache_clear()
