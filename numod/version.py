"""`numod.version`: the version of numod, and of the PyTorch interface it follows. Nothing is built, so there is no CUDA version."""

from __future__ import annotations

import re
from typing import Any

from . import __version__ as _release

__all__ = ["__version__", "cuda", "debug", "git_version", "hip"]
_NAMES = (2, 13)  # the PyTorch release whose interface numod follows


def _numbers(version: Any) -> tuple[int, ...]:
    """`"2.4.0+cpu"`, `(2, 4)` or a Version as numbers, without zeros at the end."""
    text = ".".join(map(str, version)) if isinstance(version, tuple) else str(version)
    numbers = [int(each) for each in re.match(r"[\d.]*", text).group().split(".") if each]
    while numbers and not numbers[-1]:
        del numbers[-1]
    return tuple(numbers)


class Release(str):
    """numod's release. Its order is that of PyTorch's whose names it has: model files ask `torch.__version__ >= "1.5"` and mean those."""

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        return _NAMES < _numbers(other)

    def __le__(self, other: Any) -> bool:
        return _NAMES <= _numbers(other)

    def __gt__(self, other: Any) -> bool:
        return _NAMES > _numbers(other)

    def __ge__(self, other: Any) -> bool:
        return _NAMES >= _numbers(other)


__version__ = Release(_release)
cuda: str | None = None
hip: str | None = None
git_version: str | None = None
debug = False
