"""`numod.version`: the version of the PyTorch interface that numod follows, with numod's own behind it.

Nothing is built, so there is no CUDA version.
"""

from __future__ import annotations

import re
from typing import Any

from . import __version__ as release

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "release"]
# the PyTorch release whose interface numod follows: libraries ask for it by `packaging.version`, or by splitting the
# text
_NAMES = (2, 13)


def _numbers(version: Any) -> tuple[int, ...]:
    """`"2.4.0+cpu"`, `(2, 4)` or a Version as numbers, without zeros at the end."""
    text = ".".join(map(str, version)) if isinstance(version, tuple) else str(version)
    numbers = [int(word) for word in re.match(r"[\d.]*", text).group().split(".") if word]
    while numbers and not numbers[-1]:
        del numbers[-1]
    return tuple(numbers)


class Release(str):
    """PyTorch's release with numod's as its local part.

    Its order is that of PyTorch's whose names it has: model files ask `torch.__version__ >= "1.5"` and mean those.
    """

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        return _NAMES < _numbers(other)

    def __le__(self, other: Any) -> bool:
        return _NAMES <= _numbers(other)

    def __gt__(self, other: Any) -> bool:
        return _NAMES > _numbers(other)

    def __ge__(self, other: Any) -> bool:
        return _NAMES >= _numbers(other)


__version__ = Release(f"{_NAMES[0]}.{_NAMES[1]}.0+numod.{release}")
cuda: str | None = None
hip: str | None = None
git_version: str | None = None
debug = False
