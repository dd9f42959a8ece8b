"""Finds the line of user code that did something a compiled function cannot repeat.

The recorder may have seen it. Otherwise the bytecode is searched.
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
    """A function did something that a recorded program cannot repeat. The call can continue eagerly."""


def subject(change: str) -> str:
    """The name of what changed, without its values."""
    return re.split(r" was |\[", change)[0]


def where(change: str, assigned_at: dict[str, str], function: Callable) -> str:
    """The position of a change: the line in `assigned_at`, by the attribute's name, or the most likely line."""
    line = assigned_at.get(subject(change).partition(" ")[0].rpartition(".")[2])
    function = inspect.unwrap(function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if line is not None or code is None:
        return f"at {line}" if line is not None else ""
    return (
        f"in {code.co_name}, {os.path.basename(code.co_filename)}:{_likely_line(change, code) or code.co_firstlineno},"
    )


def _likely_line(change: str, code: types.CodeType) -> int | None:
    """The first line that stores to a name of the change (last name first), or that uses one in a line with a call."""
    uses = list(_line_uses(code))
    names = re.findall(r"[^\W\d]\w*", change.partition(" ")[0])[::-1]
    storing_lines = (line for name in names for line, used, stores, _ in uses if name in used and stores)
    calling_lines = (line for name in names for line, used, _, calls in uses if name in used and calls)
    return next(storing_lines, None) or next(calling_lines, None)


def _line_uses(code: types.CodeType) -> Iterator[tuple[int, set[str], bool, bool]]:
    """(line number, names, whether it stores, whether it calls) of each line of a code object and of nested ones."""
    starts = dict(dis.findlinestarts(code))
    entries: dict[int, list] = {}
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        line = starts.get(instruction.offset) or line
        entry = entries.setdefault(line, [set(), False, False])
        entry[0].update([instruction.argval] if isinstance(instruction.argval, str) else ())
        entry[1] |= instruction.opname in (
            "STORE_SUBSCR",
            "STORE_ATTR",
            "STORE_GLOBAL",
            "STORE_DEREF",
            "DELETE_SUBSCR",
        )
        entry[2] |= instruction.opname in _CALLS
    yield from ((number, *entry) for number, entry in entries.items())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _line_uses(constant)
