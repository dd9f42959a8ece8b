"""Python's parser, for one thread at a time."""

from __future__ import annotations

import ast
import os
import threading

_lock = threading.RLock()
_TRIES = 20  # attempts, since other threads of the program may parse at the same time


def parsed(text: str) -> ast.Module:
    """The syntax tree of a Python text.

    CPython counts the depth of the tree it makes in a variable that all threads share. Where another one parses
    meanwhile (the garbage collector may have let it run), CPython raises SystemError or RecursionError, depending on
    its version.
    """
    with _lock:
        for _ in range(_TRIES):
            try:
                return ast.parse(text)
            except (SystemError, RecursionError):
                continue
        return ast.parse(text)


def _enter_child() -> None:
    global _lock
    _lock = threading.RLock()  # a thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enter_child)
