"""`numod.version`: numod's release (`release`), and the PyTorch release whose interface it follows (`torch`).

`__version__` is both: see `Release`. Nothing is built, so there is no CUDA version.
"""

from __future__ import annotations

import re
from typing import Any

from . import __version__ as release

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "release", "torch"]
_NAMES = (2, 13)
torch = f"{_NAMES[0]}.{_NAMES[1]}.0"


def _numbers(version: Any) -> tuple[int, ...]:
    """`"2.4.0+cpu"`, `(2, 4)` or a Version as numbers, without zeros at the end."""
    text = ".".join(map(str, version)) if isinstance(version, tuple) else str(version)
    numbers = [int(word) for word in re.findall(r"^[\d.]*", text)[0].split(".") if word]
    while numbers and not numbers[-1]:
        del numbers[-1]
    return tuple(numbers)


class Release(str):
    """numod's release where it is shown, and PyTorch's where code takes it apart or compares it.

    Model files ask `torch.__version__ >= "1.5"`, split the text at "." or "+", or parse it with `packaging.version`,
    and mean PyTorch's release. So the characters are those of `2.13.0+numod.0.1.0`, while `str`, `print` and f-strings
    show `0.1.0`, as `pip show numod` does, which it equals.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return release

    def __repr__(self) -> str:
        return repr(release)

    def __format__(self, spec: str) -> str:
        return format(release, spec)

    def __eq__(self, other: object) -> bool:
        return str(other) == release if isinstance(other, str) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(release)

    def __lt__(self, other: Any) -> bool:
        return _NAMES < _numbers(other)

    def __le__(self, other: Any) -> bool:
        return _NAMES <= _numbers(other)

    def __gt__(self, other: Any) -> bool:
        return _NAMES > _numbers(other)

    def __ge__(self, other: Any) -> bool:
        return _NAMES >= _numbers(other)


TorchVersion = Release  # PyTorch's name
__version__ = Release(f"{torch}+numod.{release}")
cuda: str | None = None
hip: str | None = None
git_version: str | None = None
debug = False
