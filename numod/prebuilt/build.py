"""Building packs: a process for each level runs the cases with an empty cache, which becomes the pack."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence

from ..device import target
from ..kernel import packs, store, trust

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # the folder of numod


def build(path: str, levels: Sequence[str] = (), report: Callable[[str], None] = print) -> dict[str, int]:
    """Compile the kernels for each level (none: this processor's) and write them to a pack.

    Returns the number of kernels by level. Raises ValueError for a level that cannot be compiled here.
    """
    levels = tuple(dict.fromkeys(levels)) or (target.level() or "",)
    for level in levels:
        if level not in buildable():
            raise ValueError(
                f"{level or 'no level'} cannot be compiled here; expected "
                f"{', '.join(buildable()) or 'a processor that has one of ' + ', '.join(target.LEVELS)}"
            )
    parent = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(parent):
        raise ValueError(f"there is no folder {parent}")
    _check_writable(parent)
    with tempfile.TemporaryDirectory() as folder:
        entries = {level: _compiled(level, os.path.join(folder, level), report) for level in levels}
        return packs.write(path, entries)


def _check_writable(folder: str) -> None:
    """Raise ValueError, before minutes of compiling, if no pack can be written or used there."""
    try:
        trust.Folder(folder).close()
    except trust.Untrusted as error:
        raise ValueError(f"a pack in {folder} would not be used, since {error}; choose a folder of your own") from None
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{folder} cannot be written; choose a folder that can")
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        raise ValueError(
            "no folder for temporary files can be written; set TMPDIR, or build the pack where the image is built"
        ) from None


def runnable() -> list[str]:
    """The levels of which this processor has all instructions, the least first."""
    names = set(target.features().split(","))
    this_level = target.level()
    return [
        level
        for level, needed in target.LEVELS.items()
        if this_level is not None
        and (level == "aarch64") == (this_level == "aarch64")
        and all(name in names for name in needed.split(",") if name.startswith("+"))
    ]


def buildable() -> list[str]:
    """The levels that can be compiled here: on Linux all, on other systems those that this processor runs.

    The cases run meanwhile, on this processor, which must be of some level: others lack conversions of float16.
    """
    return [*target.LEVELS] if "linux" in target.triple() and target.level() else runnable()


def _compiled(level: str, folder: str, report: Callable[[str], None]) -> list:
    """The entries that a process for the level, with an empty cache and no packs, compiles.

    Kernels for a level that this processor runs are those that run meanwhile; others are compiled beside them.
    """
    settings = {
        "NUMOD_CACHE_DIR": folder, "NUMOD_CACHE_SIZE": "1T", "NUMOD_KERNEL_PATH": "", "NUMOD_NUM_THREADS": "2",
    }  # fmt: skip
    foreign = [] if level in runnable() else [level]
    if not foreign:
        features = ",".join(name for name in target.LEVELS[level].split(",") if name.startswith("+"))
        settings |= {"NUMBA_CPU_NAME": target.level_processor(level), "NUMBA_CPU_FEATURES": features}
    paths = [_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
    settings["PYTHONPATH"] = os.pathsep.join(paths)
    with subprocess.Popen(
        [sys.executable, "-m", "numod.prebuilt", *foreign],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            for line in process.stdout:
                report(f"{level}: {line.strip()}")
        except BaseException:  # an interrupt, or a closed output: nobody would use what is compiled
            process.terminate()
            raise
    if process.returncode:
        raise RuntimeError(f"the process that compiles for {level} ended with code {process.returncode}")
    return store.kernels(folder)
