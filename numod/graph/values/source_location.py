"""Finds the line of user code that did something a compiled function cannot repeat: as seen by the recorder, or by
searching the bytecode.
"""

from __future__ import annotations

import dis
import inspect
import os
import re
import types
from collections.abc import Callable, Iterator

_CALLS = ("LOAD_METHOD", "CALL", "CALL_FUNCTION_EX", "CALL_METHOD", "CALL_FUNCTION", "CALL_KW")


class CannotRepeat(RuntimeError):
    """What a function does and no recorded program can do again. The call that meets it can go on eagerly."""


def subject(change: str) -> str:
    """The name of what changed, without its values."""
    return re.split(r" was |\[", change)[0]


def where(change: str, seen: dict[str, str], function: Callable) -> str:
    """Where something changed: the line that the recorder has `seen` assign an attribute of this name, or the one in
    the code that looks like it.
    """
    line = seen.get(subject(change).partition(" ")[0].rpartition(".")[2])
    function = inspect.unwrap(function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if line is not None or code is None:
        return f"at {line}" if line is not None else ""
    return f"in {code.co_name}, {os.path.basename(code.co_filename)}:{_likely(change, code) or code.co_firstlineno},"


def _likely(change: str, code: types.CodeType) -> int | None:
    """The first line that stores to one of the names in a change, the last name first; else the first that uses one and
    calls something.
    """
    uses = list(_uses(code))
    names = re.findall(r"[^\W\d]\w*", change.partition(" ")[0])[::-1]
    stored = (line for name in names for line, used, stores, _ in uses if name in used and stores)
    called = (line for name in names for line, used, _, calls in uses if name in used and calls)
    return next(stored, None) or next(called, None)


def _uses(code: types.CodeType) -> Iterator[tuple[int, set[str], bool, bool]]:
    """Of each line of a code, and of those it defines: its number, the names in it, whether it stores to one of them or
    to an item, whether it calls.
    """
    starts = dict(dis.findlinestarts(code))
    found: dict[int, list] = {}
    line = code.co_firstlineno
    for get_instruction in dis.get_instructions(code):
        line = starts.get(get_instruction.offset) or line
        entry = found.setdefault(line, [set(), False, False])
        entry[0].update([get_instruction.argval] if isinstance(get_instruction.argval, str) else ())
        entry[1] |= get_instruction.opname in (
            "STORE_SUBSCR",
            "STORE_ATTR",
            "STORE_GLOBAL",
            "STORE_DEREF",
            "DELETE_SUBSCR",
        )
        entry[2] |= get_instruction.opname in _CALLS
    yield from ((number, *entry) for number, entry in found.items())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _uses(constant)
