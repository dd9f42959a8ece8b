"""The text of kernels, which numod compiles from: from their .py files, or from `sources.zip` where there are none.

A wheel brings `sources.zip`, so that an installation of .pyc files alone works. A copy of a checkout gets it by

    python numod/kernel/sources.py FOLDER_OF_NUMOD
"""

from __future__ import annotations

import inspect
import linecache
import sys
import zipfile
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import NoReturn

ARCHIVE = "sources.zip"
FOLDERS = ("kernel", "ops")  # where kernels are defined


def write(package: Path, archive: Path) -> None:
    """Write the sources of kernels in `package` (the folder `numod`) to `archive`."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(path for folder in FOLDERS for path in (package / folder).rglob("*.py")):
            entry = zipfile.ZipInfo(path.relative_to(package.parent).as_posix())  # without a time: the same each time
            file.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


def lines_of(function: FunctionType) -> list[str]:
    """The lines of the file that defines a function. Raises RuntimeError if its text is nowhere."""
    module = function.__globals__.get("__name__", "")
    lines = linecache.getlines(function.__code__.co_filename, function.__globals__)
    return lines or _archived(module).splitlines(True) or _refuse(module)


def text_of(module: ModuleType) -> str:
    """The text of a module of numod."""
    try:
        return inspect.getsource(module)
    except OSError:
        return _archived(module.__name__) or _refuse(module.__name__)


@cache
def _archived(module: str) -> str:
    """The text of a module in the archive; empty if there is no archive or it has no such module."""
    archive, name = Path(__file__).with_name(ARCHIVE), module.replace(".", "/")
    if not archive.is_file():
        return ""
    with zipfile.ZipFile(archive) as file:
        entry = next((entry for entry in (f"{name}.py", f"{name}/__init__.py") if entry in file.NameToInfo), None)
        return file.read(entry).decode() if entry else ""


def _refuse(module: str) -> NoReturn:
    hint = (
        f"Keep numod's .py files, or write {ARCHIVE} with `python numod/kernel/sources.py FOLDER_OF_NUMOD` (a wheel "
        "has it; PyInstaller's hook of numod keeps the .py files)"
        if module.startswith("numod.")
        else "Keep the .py file of that module beside the application"
    )
    raise RuntimeError(
        f"numod compiles kernels from their Python source, and that of the module {module} is not here. {hint}."
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[1]) / "kernel" / ARCHIVE)
