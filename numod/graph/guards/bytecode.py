"""What a function can reach by name, and what its code mentions: read off its closure, globals, defaults and
bytecode.
"""

from __future__ import annotations

import dis
import functools
import inspect
import re
import types
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any


_NEAR = 20  # instructions between a call of type() and what its result is compared with
_CALL = "PRECALL" if "PRECALL" in dis.opmap else "CALL"  # of Python 3.11, and of later ones
_JUMPS = {*dis.hasjrel, *dis.hasjabs}
OPTIONAL_ACCESS = {"getattr", "hasattr"}
_ASK_FOR_ALL = {
    "vars", "__dict__", "__getattribute__", "attrgetter", "asdict", "astuple", "eval", "exec", "dir", "getmembers",
}  # fmt: skip
_TAKE_TEXT = {"globals", "eval", "exec"}  # which find globals by names in texts
# of Python's library, which take nothing else for a number
_TAKE_NUMBERS = {"json", "dumps", "Decimal", "sqlite3", "executemany", "statistics"}


def written(function: Callable) -> Callable:
    """The function or method that a callable object runs; a partial, and what is not written in Python, is itself."""
    if hasattr(function, "__code__") or hasattr(function, "__func__") or isinstance(function, functools.partial):
        return function
    method = inspect.getattr_static(type(function), "__call__", None)
    return types.MethodType(method, function) if isinstance(method, types.FunctionType) else function


def sees_order(function: Callable) -> bool:
    """Whether a function may see in which order arguments are named: it takes any names, or is no code of Python's."""
    function = written(function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is None or bool(code.co_flags & inspect.CO_VARKEYWORDS)


def names_of(function: Callable) -> Iterator[tuple[str, Any, str, Any]]:
    """(expression, its object {0}, name, value) of everything a function's code can reach by name: its object, closure,
    globals, defaults.
    """
    function = written(function)
    if isinstance(function, functools.partial):
        yield from ((f"{{0}}.{name}", function, name, getattr(function, name)) for name in ("func", "args", "keywords"))
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        yield "", None, "self", owner
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        try:
            yield "{0}.cell_contents", cell, name, cell.cell_contents
        except ValueError:
            pass  # not yet assigned
    space = function.__globals__
    for name, stored in global_uses(code).items():
        if name in space:
            yield f"{{0}}[{name!r}]", space, name, space[name]
        elif stored:
            yield f"{{0}}.get({name!r})", space, name, None
    for k, value in enumerate(function.__defaults__ or ()):
        yield f"{{0}}.__defaults__[{k}]", function, f"default {k}", value
    for name, value in (function.__kwdefaults__ or {}).items():
        yield f"{{0}}.__kwdefaults__[{name!r}]", function, name, value


@cache
def global_uses(code: types.CodeType) -> dict[str, bool]:
    """Names that a code, and those it defines, use as globals (not as attributes), and whether they assign them."""
    found: dict[str, bool] = {}
    for get_instruction in dis.get_instructions(code):
        if get_instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"):
            found[get_instruction.argval] = found.get(
                get_instruction.argval, False
            ) or not get_instruction.opname.startswith("LOAD")
    if not _TAKE_TEXT.isdisjoint(found):
        found.update((name, found.get(name, False)) for text in strings_in(code) for name in re.findall(r"\w+", text))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update((name, stored or found.get(name, False)) for name, stored in global_uses(constant).items())
    return found


@cache
def computes_text(code: types.CodeType) -> bool:
    """Whether a code, or one it defines, finds globals by names in texts that do not stand there as constants:

    `eval(text)`, `globals()[name]`.
    """
    steps = [
        get_instruction
        for get_instruction in dis.get_instructions(code)
        if get_instruction.opname not in ("CACHE", "PUSH_NULL", "PRECALL")
    ]
    for k, each in enumerate(steps):
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME") and each.argval in _TAKE_TEXT:
            found = [step for step in steps[k + 1 : k + 4] if step.opname != "CALL" or step.arg != 0][:2]
            constant = len(found) == 2 and found[0].opname == "LOAD_CONST" and isinstance(found[0].argval, str)
            if not (
                constant
                and (
                    found[1].opname == "CALL"
                    if each.argval != "globals"
                    else found[1].opname.startswith(("BINARY", "STORE_SUBSCR"))
                )
            ):
                return True
    return any(computes_text(co_const) for co_const in code.co_consts if isinstance(co_const, types.CodeType))


def global_names(code: types.CodeType) -> list[str]:
    """Names, of globals and attributes, in a code and in those it defines."""
    found = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(dict.fromkeys(global_names(constant)))
    return list(found)


def strings_in(code: types.CodeType) -> Iterator[str]:
    """The strings in a code and in those it defines."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from strings_in(constant)
        else:
            yield from (
                each for each in (constant if isinstance(constant, tuple) else (constant,)) if isinstance(each, str)
            )


@cache
def imports_in(code: types.CodeType) -> tuple[str, ...]:
    """The modules that a code, and those it defines, import by themselves: ".utils" is relative."""
    steps = list(dis.get_instructions(code))
    found = ["." * steps[k - 2].argval + step.argval for k, step in enumerate(steps) if step.opname == "IMPORT_NAME"]
    return tuple(
        dict.fromkeys(
            [
                *found,
                *(
                    name
                    for co_const in code.co_consts
                    if isinstance(co_const, types.CodeType)
                    for name in imports_in(co_const)
                ),
            ]
        )
    )


@cache
def optional_attributes(code: types.CodeType) -> frozenset[str] | None:
    """Names of attributes that a code asks for with `getattr` or `hasattr`, where they need not be there; None if it
    computes the names, or takes all.
    """
    found: set[str] = set()
    steps = list(dis.get_instructions(code))
    for k, step in enumerate(steps):
        if step.opname.startswith("LOAD") and step.argval in OPTIONAL_ACCESS:
            name = _second_argument(steps[k + 1 :])
            if not isinstance(name, str):
                return None
            found.add(name)
    inner = [optional_attributes(co_const) for co_const in code.co_consts if isinstance(co_const, types.CodeType)]
    return None if None in inner or not _ASK_FOR_ALL.isdisjoint(code.co_names) else frozenset(found.union(*inner))


def _second_argument(steps: list[dis.Instruction]) -> object:
    """The constant that is the second argument of a call whose function lies on the stack, or None: also where it may
    be another one (`name or "x"`).
    """
    depth, second = 0, None
    for step in steps:
        if step.opname == _CALL and step.arg == depth:
            return second
        before, depth = depth, depth + dis.stack_effect(step.opcode, step.arg, jump=False)
        if depth < 0 or step.opcode in _JUMPS:
            return None
        if depth == 2:
            second = step.argval if step.opname == "LOAD_CONST" and before == 1 else None
    return None


@cache
def checks_number_types(code: types.CodeType) -> bool:
    """Whether a code, or one it defines, may tell numbers from what stands for them: by `type(x) is float`, or by what
    writes them in its own way.
    """
    steps = list(dis.get_instructions(code))
    calls = [k for k, step in enumerate(steps) if step.opname == "LOAD_GLOBAL" and step.argval == "type"]
    for k in calls:
        if any(step.argval in ("__name__", "__qualname__") for step in steps[k + 1 : k + _NEAR]):
            return True
        end = next(
            (
                n
                for n, step in enumerate(steps[k : k + _NEAR], k)
                if step.opname in ("IS_OP", "COMPARE_OP", "CONTAINS_OP")
            ),
            k,
        )
        if any(step.argval in ("int", "float", "type") for step in steps[k + 1 : end]):
            return True
    return not _TAKE_NUMBERS.isdisjoint(code.co_names) or any(
        checks_number_types(co_const) for co_const in code.co_consts if isinstance(co_const, types.CodeType)
    )


@cache
def checks_classes(code: types.CodeType) -> bool:
    """Whether a code, or one it defines, asks for the class of something: with `isinstance`, or by `match`."""
    if not {"isinstance", "issubclass", "singledispatch"}.isdisjoint(code.co_names):
        return True
    if any(get_instruction.opname.startswith("MATCH_") for get_instruction in dis.get_instructions(code)):
        return True
    return any(checks_classes(co_const) for co_const in code.co_consts if isinstance(co_const, types.CodeType))


def mentions(function: Callable, part: str) -> bool:
    """Whether a name in the function's own code has `part` in it."""
    if isinstance(function, functools.partial):
        return mentions(function.func, part)
    function = written(function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is not None and any(part in name for name in global_names(code))
