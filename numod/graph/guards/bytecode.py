"""The objects that a function can reach by name, and the names that its code mentions.

They are read from its closure, globals, defaults and bytecode.
"""

from __future__ import annotations

import dis
import functools
import inspect
import re
import types
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple


_COMPARISON_DISTANCE = 20  # instructions between a call of type() and the comparison of its result
_CALL = "PRECALL" if "PRECALL" in dis.opmap else "CALL"  # in Python 3.11; in later versions
_JUMPS = {*dis.hasjrel, *dis.hasjabs}
# instructions that leave the value which was loaded last
_NO_VALUE = {"CACHE", "PUSH_NULL", "POP_TOP", "SWAP", "ROT_TWO", "COPY", "NOP", "EXTENDED_ARG", "RESUME"}
OPTIONAL_ACCESS = {"getattr", "hasattr"}
_READS_ALL_ATTRIBUTES = {
    "vars", "__dict__", "__getattribute__", "attrgetter", "asdict", "astuple", "eval", "exec", "dir", "getmembers",
}  # fmt: skip
_TAKE_TEXT = {"globals", "eval", "exec"}  # find globals by names in strings
# in Python's library: accept nothing but real numbers, no lazy scalars
_TAKE_NUMBERS = {"json", "dumps", "Decimal", "sqlite3", "executemany", "statistics"}


def underlying_function(function: Callable) -> Callable:
    """The function or method that a callable object runs. Partials, and callables in C, are returned as they are."""
    if hasattr(function, "__code__") or hasattr(function, "__func__") or isinstance(function, functools.partial):
        return function
    method = inspect.getattr_static(type(function), "__call__", None)
    return types.MethodType(method, function) if isinstance(method, types.FunctionType) else function


def sees_order(function: Callable) -> bool:
    """Whether a function may see the order of keyword arguments: it has `**kwargs`, or is not written in Python."""
    function = underlying_function(function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is None or bool(code.co_flags & inspect.CO_VARKEYWORDS)


def names_of(function: Callable) -> Iterator[tuple[str, Any, str, Any]]:
    """(expression, its object {0}, name, value) of everything that a function's code can reach by name.

    These are the object that a method is bound to, the closure, globals and defaults.
    """
    function = underlying_function(function)
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
    for number, value in enumerate(function.__defaults__ or ()):
        yield f"{{0}}.__defaults__[{number}]", function, f"default {number}", value
    for name, value in (function.__kwdefaults__ or {}).items():
        yield f"{{0}}.__kwdefaults__[{name!r}]", function, name, value


@cache
def global_uses(code: types.CodeType) -> dict[str, bool]:
    """The names of globals that a code object and its inner ones use, and whether they assign them."""
    uses: dict[str, bool] = {}
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"):
            uses[step.argval] = uses.get(step.argval, False) or not step.opname.startswith("LOAD")
    if not _TAKE_TEXT.isdisjoint(uses):
        uses.update((name, uses.get(name, False)) for text in strings_in(code) for name in re.findall(r"\w+", text))
    for inner in _inner(code):
        uses.update((name, stored or uses.get(name, False)) for name, stored in global_uses(inner).items())
    return uses


def _inner(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code objects of functions that a code object defines."""
    return (constant for constant in code.co_consts if isinstance(constant, types.CodeType))


@cache
def computes_text(code: types.CodeType) -> bool:
    """Whether code finds globals by names in strings that are not constants: `eval(text)`, `globals()[name]`."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "PUSH_NULL", "PRECALL")]
    for position, step in enumerate(steps):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval in _TAKE_TEXT:
            following = [
                other for other in steps[position + 1 : position + 4] if other.opname != "CALL" or other.arg != 0
            ]
            if not _uses_constant(step.argval, following[:2]):
                return True
    return any(map(computes_text, _inner(code)))


def _uses_constant(function: str, steps: list[dis.Instruction]) -> bool:
    """Whether the two instructions after `eval`, `exec` or `globals()` are a constant string and its use."""
    if len(steps) < 2 or steps[0].opname != "LOAD_CONST" or not isinstance(steps[0].argval, str):
        return False
    return (
        steps[1].opname.startswith(("BINARY", "STORE_SUBSCR")) if function == "globals" else steps[1].opname == "CALL"
    )


def global_names(code: types.CodeType) -> list[str]:
    """The names of globals and attributes in a code object and its inner ones."""
    names = dict.fromkeys(code.co_names)
    for inner in _inner(code):
        names.update(dict.fromkeys(global_names(inner)))
    return list(names)


class _Local(NamedTuple):
    """A local variable, as the receiver of an attribute."""

    name: str


@cache
def attribute_loads(code: types.CodeType) -> frozenset[tuple[str, str]]:
    """(receiver, attribute) of the attributes that code loads: ("path", "exists") for `os.path.exists`.

    The receiver is the name of a global, an imported module or an attribute, also if a local variable holds it. It is
    "local" for other variables, such as arguments, and "" for other values, such as results of calls.
    """
    loads: set[tuple[str | _Local, str]] = set()
    sources: dict[_Local, set] = {}
    _collect_loads(code, frozenset(), loads, sources)
    return frozenset((name, attribute) for receiver, attribute in loads for name in _origins(receiver, sources))


def _origins(receiver: str | _Local, sources: dict[_Local, set], around: tuple = ()) -> set[str]:
    """The names from which a receiver was loaded, by the values that local variables are set to."""
    if isinstance(receiver, str):
        return {receiver}
    origins = [
        _origins(source, sources, (*around, receiver)) for source in sources.get(receiver, {"local"}) - {*around}
    ]
    return set().union(*origins)


def _collect_loads(code: types.CodeType, outer: frozenset[str], loads: set, sources: dict[_Local, set]) -> None:
    """Add the attributes that code and inner code load, and the values of their local variables."""
    variables = outer.union(code.co_varnames, code.co_cellvars)
    receiver, module, is_getattr = "", "", False
    steps = [step for step in dis.get_instructions(code) if step.opname not in _NO_VALUE]
    for position, step in enumerate(steps):
        operation, names = step.opname, step.argval if type(step.argval) is tuple else (step.argval,)
        if operation == "LOAD_CONST":
            loads.update([(receiver, step.argval)] if is_getattr and isinstance(step.argval, str) else ())
            receiver = ""
        elif operation == "IMPORT_NAME":  # `import a.b` gives `a`, and `from a.b import c` gives `a.b`
            has_names = steps[position - 1].argval is not None
            receiver = module = step.argval.split(".")[-1 if has_names else 0]
        elif operation in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"):
            loads.add((module if operation == "IMPORT_FROM" else receiver, step.argval))
            receiver = step.argval
        elif operation.startswith(("STORE_FAST", "STORE_DEREF")):
            sources.setdefault(_Local(names[0]), set()).add(receiver or "local")
            receiver = _Local(names[-1]) if operation.endswith("LOAD_FAST") else ""
        elif operation.startswith("LOAD_") and isinstance(names[-1], str):
            is_getattr = receiver in OPTIONAL_ACCESS
            receiver = _Local(names[-1]) if names[-1] in variables else names[-1]
        else:
            receiver = ""
    for inner in _inner(code):
        _collect_loads(inner, variables, loads, sources)


def strings_in(code: types.CodeType) -> Iterator[str]:
    """The strings in a code object and its inner ones."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from strings_in(constant)
        else:
            items = constant if isinstance(constant, tuple) else (constant,)
            yield from (item for item in items if isinstance(item, str))


@cache
def imports_in(code: types.CodeType) -> tuple[str, ...]:
    """The modules that a code object and its inner ones import: ".utils" is relative."""
    steps = list(dis.get_instructions(code))
    names = [
        "." * steps[position - 2].argval + step.argval
        for position, step in enumerate(steps)
        if step.opname == "IMPORT_NAME"
    ]
    names += [name for inner in _inner(code) for name in imports_in(inner)]
    return tuple(dict.fromkeys(names))


@cache
def optional_attributes(code: types.CodeType) -> frozenset[str] | None:
    """The attributes that code reads with `getattr` or `hasattr`; None if it computes names, or reads all."""
    names: set[str] = set()
    steps = list(dis.get_instructions(code))
    for position, step in enumerate(steps):
        if step.opname.startswith("LOAD") and step.argval in OPTIONAL_ACCESS:
            name = _second_argument(steps[position + 1 :])
            if not isinstance(name, str):
                return None
            names.add(name)
    inner_names = [*map(optional_attributes, _inner(code))]
    reads_all = not _READS_ALL_ATTRIBUTES.isdisjoint(code.co_names)
    return None if None in inner_names or reads_all else frozenset(names.union(*inner_names))


def _second_argument(steps: list[dis.Instruction]) -> object:
    """The constant second argument of the call whose function is on the stack.

    None if it is not constant, or may be another one (`name or "x"`).
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
    """Whether code may distinguish numbers from lazy scalars: by `type(x) is float`, or by serialising them."""
    steps = list(dis.get_instructions(code))
    for position, step in enumerate(steps):
        if step.opname == "LOAD_GLOBAL" and step.argval == "type":
            following = steps[position + 1 : position + _COMPARISON_DISTANCE]
            if any(other.argval in ("__name__", "__qualname__") for other in following):
                return True
            comparisons = ("IS_OP", "COMPARE_OP", "CONTAINS_OP")
            end = next((count for count, other in enumerate(following) if other.opname in comparisons), 0)
            if any(other.argval in ("int", "float", "type") for other in following[:end]):
                return True
    return not _TAKE_NUMBERS.isdisjoint(code.co_names) or any(map(checks_number_types, _inner(code)))


@cache
def checks_classes(code: types.CodeType) -> bool:
    """Whether code checks the class of something: with `isinstance`, or by `match`."""
    if not {"isinstance", "issubclass", "singledispatch"}.isdisjoint(code.co_names):
        return True
    if any(step.opname.startswith("MATCH_") for step in dis.get_instructions(code)):
        return True
    return any(map(checks_classes, _inner(code)))


def mentions(function: Callable, part: str) -> bool:
    """Whether a name in the function's code contains `part`."""
    if isinstance(function, functools.partial):
        return mentions(function.func, part)
    function = underlying_function(function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is not None and any(part in name for name in global_names(code))
