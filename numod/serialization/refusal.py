"""CheckpointError, and how a file is refused: which file, which tensor, which rule. Not the rules: each format holds its own."""

from __future__ import annotations

import pickle
import reprlib
from typing import NoReturn


class _Excerpt(reprlib.Repr):
    """`repr` of the first few members of the first few levels: what a file describes in a kilobyte may print as a terabyte."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxlong = 3, 80, 80

    def repr_instance(self, value: object, level: int) -> str:
        return repr(value) if isinstance(value, (float, bool, type(None))) else f"a {type(value).__name__}"


_excerpt = _Excerpt()


class CheckpointError(RuntimeError, pickle.UnpicklingError):
    """A file that cannot be loaded: damaged, hostile, or holding what numod has not. The message names the file and the reason.

    It is both kinds of error that PyTorch raises for such files, so that handlers written for either go on working.
    """


def refuse(path: object, reason: str, name: str | None = None) -> NoReturn:
    """Raise the CheckpointError for a file that breaks a rule, naming the file and, where one is at fault, the tensor."""
    where = "" if name is None else f", tensor {shorten(name)}"
    raise CheckpointError(f"load: {str(path)!r}{where}: {reason}")


def shorten(value: object) -> str:
    """`repr` of something from a file, cut to one line of a message and made in a short time whatever it is."""
    try:
        text = _excerpt.repr(value)
    except ValueError:  # an int of more digits than Python prints
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."
