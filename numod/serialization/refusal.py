"""CheckpointError and its messages, which name the file, the tensor and the rule. The formats define the rules."""

from __future__ import annotations

import pickle
import reprlib
from typing import NoReturn


class _Excerpt(reprlib.Repr):
    """`repr` limited to a few members and levels, since a small file can describe an object with a huge repr."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxlong = 3, 80, 80

    def repr_instance(self, value: object, level: int) -> str:
        return repr(value) if isinstance(value, (float, bool, type(None))) else f"a {type(value).__name__}"


_excerpt = _Excerpt()


class CheckpointError(RuntimeError, pickle.UnpicklingError):
    """A file cannot be loaded: it is damaged, malicious, or contains something numod does not support.

    The message names the file and the reason. This class derives from both errors that PyTorch raises for such files,
    so that handlers for either work.
    """


def refuse(path: object, reason: str, name: str | None = None) -> NoReturn:
    """Raise CheckpointError with the file, the broken rule and, if given, the tensor's name."""
    where = "" if name is None else f", tensor {shorten(name)}"
    raise CheckpointError(f"load: {str(path)!r}{where}: {reason}")


def shorten(value: object) -> str:
    """`repr` of a value from a file, limited in length and in time."""
    try:
        text = _excerpt.repr(value)
    except ValueError:  # an int with more digits than Python converts to text
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."
