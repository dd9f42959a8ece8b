"""State that only functions of Python's library and of NumPy can read: of objects in C, and of the process.

The result of a function without arguments (`sys.getrecursionlimit`) is compared by calling it. Objects in C whose state
cannot be compared, and functions that read the file system or set something of the process, are refused.
"""

from __future__ import annotations

import datetime
import io
import logging
import os
import re
import sys
import threading
import types
import warnings
import weakref
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..values import objects
from ..values.kinds import PACKAGE, is_plain_key, is_struct_sequence, of_library, package_of
from ..values.source_location import CannotRepeat
from .bytecode import global_names
from .definitions import CREATING_METHODS, IGNORED_METHODS, is_unrepeatable
from .file_names import PATH_MODULES, READS_FILES, unrepeatable_read
from .guard import Guard

if TYPE_CHECKING:
    from .build import GuardBuilder

# modules whose functions read and set the state of the process, with those that contain their functions in C
_PROCESS_MODULES = {
    "sys", "os", "posix", "nt", "gc", "threading", "_thread", "locale", "_locale", "socket", "_socket", "decimal",
    "_decimal", "signal", "_signal", "tracemalloc", "_tracemalloc", "logging", "calendar", "csv", "_csv", "numpy",
    "faulthandler", "resource", "multiprocessing.process", "multiprocessing",
}  # fmt: skip
_GETTER = re.compile(r"_?(get|is|current_|active_|main_|list_|enumerate|first|field_size_limit)\w*$")
_SETTER = re.compile(r"(set|chdir|fchdir|umask|putenv|unsetenv|addLevelName|disable|enable|register|unregister)\w*$")
_NUMPY_GETTERS = {"geterr", "geterrcall", "getbufsize", "get_printoptions"}
_NUMPY_SETTERS = {"seterr", "seterrcall", "setbufsize", "set_printoptions"}
_WRITES = {"write", "writelines", "flush", "close"}  # output, which is not repeated
_OUTPUTS = ("stdout", "stderr", "__stdout__", "__stderr__")  # of sys
_STREAM_READS = {
    "read", "readline", "readlines", "read1", "readinto", "peek", "seek", "tell", "truncate", "getvalue", "getbuffer",
    "buffer", "detach",
}  # fmt: skip
# of classes in C that other guards compare, or whose instances do not change
_COMPARED = (
    type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.SimpleNamespace,
    types.MethodWrapperType, types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType,
    types.MemberDescriptorType, types.ClassMethodDescriptorType, property, staticmethod, classmethod,
    types.MappingProxyType, types.CellType, re.Match, weakref.ref, list, dict, set, bytearray,
)  # fmt: skip
_COMPARED_MODULES = ("functools", "collections", "operator", "_operator", "numpy", "array", "_ctypes", "_struct",
    "_contextvars", "builtins", "_abc", "decimal", "datetime", "zoneinfo", "types", "typing")  # fmt: skip
_ACCESS = {"__getitem__", "__len__", "__contains__", "__iter__"}


def is_opaque(kind: type, names: set[str]) -> bool:
    """Whether code that uses these names may read state of an instance that lies in C, and that no guard compares."""
    used = _opaque_names(kind)
    return not used.isdisjoint(names) or not _ACCESS.isdisjoint(used)


@lru_cache(maxsize=4096)
def _opaque_names(kind: type) -> frozenset[str]:
    """The methods and attributes of a class that read such state."""
    return frozenset(
        name
        for base in kind.__mro__
        if base.__flags__ & objects.IMMUTABLE and not _is_compared(base)
        for name, member in vars(base).items()
        if name not in _WRITES and (not name.startswith("__") or name in _ACCESS or _is_field(name, member))
    )


def _is_field(name: str, member: Any) -> bool:
    """Whether it is an attribute in C with a special name, such as `__cause__` of an exception."""
    is_member = isinstance(member, (types.GetSetDescriptorType, types.MemberDescriptorType))
    return is_member and name not in ("__dict__", "__weakref__", "__class__", "__doc__")


def _is_compared(base: type) -> bool:
    """Whether guards compare the state of a class's instances in C, or it never changes, as a `__hash__` shows."""
    if base is object or base in _COMPARED or is_struct_sequence(base) or package_of(base) in (PACKAGE, "numba"):
        return True
    if base.__module__ == "_contextvars":
        return base.__name__ == "ContextVar"
    if issubclass(base, BaseException):
        return False
    return base.__module__ in _COMPARED_MODULES or callable(vars(base).get("__hash__"))


def library_fields(builder: GuardBuilder, kind: type, fields: dict[str, Any]) -> set[str]:
    """The names of an object's attributes that methods of a library use which the code may call."""
    names = _names_used(builder, kind) | builder.called if _library_bases(kind) else set()
    used = fields.keys() if reads_all_fields(builder, kind) else names & fields.keys()
    return {key for key in used if "cache" not in key}


def reads_all_fields(builder: GuardBuilder, kind: type) -> bool:
    """Whether code may read attributes of a library's class without their names, as by comparing namespaces."""
    reads_any = not _names_used(builder, kind).isdisjoint(("__dict__", "vars", "getattr"))
    return reads_any or issubclass(kind, types.SimpleNamespace)


def visit_library_slots(builder: GuardBuilder, name: str, value: Any) -> None:
    """Guard the slots of a library's classes that methods use which the code may call."""
    for base in _library_bases(type(value)):
        for key in sorted(_names_used(builder, type(value)) & vars(base).keys()):
            slot = vars(base)[key]
            if isinstance(slot, types.MemberDescriptorType) and "cache" not in key and _is_set(slot, value):
                builder.guard_inside(f"{name}.{key}", "{1}.__get__({0})", (value, slot), slot.__get__(value))


def _is_set(slot: types.MemberDescriptorType, value: Any) -> bool:
    try:
        slot.__get__(value)
    except AttributeError:
        return False
    return True


def visit_class_fields(builder: GuardBuilder, name: str, kind: type) -> None:
    """Guard the attributes of a library's classes that hold objects which methods use, such as a registry."""
    for base in _library_bases(kind):
        space = vars(base)
        for key in sorted(_names_used(builder, kind) & space.keys()):
            value = space[key]
            is_state = objects.base_of(type(value)) in (object, dict, list, set) and not callable(value)
            if is_state and not hasattr(type(value), "__get__") and (id(base), key) not in builder.seen:
                builder.seen.add((id(base), key))
                builder.guard_unless_refused(f"{name}.{key}", f"{{0}}[{key!r}]", (space,), value)


def _library_bases(kind: type) -> list[type]:
    """The classes among the bases that a library defines in Python."""
    return [
        base
        for base in kind.__mro__
        if not base.__flags__ & objects.IMMUTABLE and of_library(base) and package_of(base) != PACKAGE
    ]


def _names_used(builder: GuardBuilder, kind: type) -> set[str]:
    """The names in methods of a library's classes that the code calls, also those that operators call."""
    if kind not in builder.library_names:
        methods = {
            key: code
            for base in reversed(_library_bases(kind))
            for key, member in vars(base).items()
            if (code := _code_of(member)) is not None
        }
        operators = {key for key in methods if key.startswith("__")}.difference(CREATING_METHODS, IGNORED_METHODS)
        pending, used = [*((builder.mentioned | builder.called) & methods.keys() | operators)], set()
        while pending:
            key = pending.pop()
            if key not in used:
                used.add(key)
                pending += global_names(methods[key]) if key in methods else ()
        builder.library_names[kind] = used
        builder.called.update(used)
    return builder.library_names[kind]


def _code_of(member: Any) -> types.CodeType | None:
    function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    return getattr(function, "__code__", None)


def visit_definition(builder: GuardBuilder, name: str, value: Any) -> None:
    """Guard the state of the process that a function or class of a library reads, or refuse it; the code uses it."""
    module, own_name = getattr(value, "__module__", None), getattr(value, "__name__", "")
    if module in PATH_MODULES and own_name in READS_FILES:
        raise unrepeatable_read(own_name)
    if isinstance(value, type):
        if module == "decimal":
            visit_decimal(builder, name, value)
        elif module == "pathlib":
            builder.files.paths.append((name, value))
        return
    if module not in _PROCESS_MODULES or not callable(value) or value in (os.getenv, sys.exc_info):
        return
    if value is logging.getLogger:
        _visit_loggers(builder)
    elif value is logging.getLevelName:
        names = logging._levelToName, logging._nameToLevel
        builder.guards.append(Guard("the names of levels", "{0} == {1}", (names, tuple(map(dict, names)))))
    elif own_name in _NUMPY_SETTERS if module == "numpy" else _SETTER.match(own_name):
        raise CannotRepeat(
            f"compile: {own_name} sets something of the process, which a compiled function does not repeat; call it "
            "outside the compiled function"
        )
    elif own_name in _NUMPY_GETTERS if module == "numpy" else _GETTER.match(own_name) and not is_unrepeatable(value):
        _guard_result(builder, name, value)


def _guard_result(builder: GuardBuilder, name: str, function: Any) -> None:
    """Guard the result of a function, unless it takes arguments."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function()
    except TypeError:
        return
    except (ValueError, OSError):
        raise unrepeatable_read(name) from None
    items = result.values() if type(result) is dict else result if type(result) is list else ()
    if items and all(issubclass(type(item), threading.Thread) for item in items):
        references = [*map(weakref.ref, items)]
        builder.guards.append(Guard(f"{name}()", "[*map({2}, {0}())] == {1}", (function, references, weakref.ref)))
    elif is_plain_key(result) or (type(result) in (dict, list) and all(map(is_plain_key, items))):
        builder.guards.append(Guard(f"{name}()", "{0}() == {1}", (function, result)))
    else:
        if issubclass(type(result), threading.Thread):
            builder.weak_ids.add(id(result))
        builder.guard_value(f"{name}()", "{0}()", (function,), result)


def _visit_loggers(builder: GuardBuilder) -> None:
    """Guard the loggers whose names the code may pass to `logging.getLogger`."""
    loggers = logging.root.manager.loggerDict
    builder.visit("the root logger", logging.root)
    for name in sorted(builder.strings & loggers.keys()):
        if isinstance(loggers[name], logging.Logger):
            builder.guard_value(f"the logger {name}", "{0}.get({1})", (loggers, name), loggers[name])


def visit_log_manager(builder: GuardBuilder, name: str, value: logging.Manager) -> None:
    """Guard the attributes of a manager that a logger reads.

    The other loggers count only if the code names them: any part of a program may create some.
    """
    builder.guards.append(Guard(f"{name}.disable", "{0}.disable == {1}", (value, value.disable)))
    if "loggerDict" in builder.mentioned:
        loggers = value.loggerDict
        builder.guards.append(Guard(f"{name}.loggerDict", "tuple({0}) == {1}", (loggers, tuple(loggers))))


def visit_value(builder: GuardBuilder, name: str, value: Any) -> None:
    """Guard the state that operations of an immutable object depend on: a decimal context, a time zone, the disk."""
    modules = {base.__module__.partition(".")[0] for base in type(value).__mro__}
    if "decimal" in modules:
        visit_decimal(builder, name, value)
    elif "pathlib" in modules:
        builder.files.paths.append((name, value))
    for base in (datetime.datetime, datetime.time):
        if issubclass(type(value), base):
            builder.mentioned.update(("utcoffset", "dst", "tzname", "fromutc"))  # C code calls them
            builder.visit(f"{name}.tzinfo", vars(base)["tzinfo"].__get__(value))


def visit_decimal(builder: GuardBuilder, name: str, value: Any) -> None:
    """Guard the settings of the current decimal context, on which all operations depend, and those of a context."""
    if type(value).__name__ == "Context":
        _guard_context(builder, name, "{0}", value)
    _guard_context(builder, "the current decimal context", "{0}()", sys.modules["decimal"].getcontext)


def _guard_context(builder: GuardBuilder, name: str, text: str, value: Any) -> None:
    context = value() if text == "{0}()" else value
    count = None if "flags" in builder.mentioned else 6  # operations set flags
    settings = context.__reduce__()[1][:count], context.traps.copy()
    builder.guards.append(
        Guard(name, f"({text}.__reduce__()[1][:{{2}}], {text}.traps) == {{1}}", (value, settings, count))
    )


def visit_finalizer(builder: GuardBuilder, name: str, value: weakref.finalize) -> None:
    """Guard whether a finalizer is alive, and the function and the arguments of its call."""
    registry = weakref.finalize._registry
    entry = registry.get(value)
    builder.guards.append(Guard(name, "{0}.get({1}) is {2}", (registry, value, entry)))
    if entry is not None:
        builder.guards.append(Guard(f"{name}.atexit", "{0}.atexit is {1}", (value, value.atexit)))
        builder.visit(f"{name}.peek()", entry.weakref)
        for part in (entry.func, entry.args, entry.kwargs):
            builder.visit(f"{name}.peek()", part)


def visit_members(builder: GuardBuilder, module: types.ModuleType) -> None:
    """Guard the settings that the code loads from a library's module, and the results of functions that it loads."""
    if module.__name__ not in _PROCESS_MODULES | {"warnings", *PATH_MODULES}:
        return
    loaded = builder.loaded_from(module)
    if module.__name__ == "pathlib":
        builder.files.paths.append((module.__name__, module))
    elif module.__name__ in PATH_MODULES and (names := sorted(READS_FILES & loaded)):
        raise unrepeatable_read(f"{names[0]} of {module.__name__}")
    if missing := frozenset(builder.optional - vars(module).keys()):
        builder.guards.append(
            Guard(f"an attribute of {module.__name__}", "{1}.isdisjoint({0})", (vars(module), missing))
        )
    for key in sorted(loaded & vars(module).keys()):
        name, value = f"{module.__name__}.{key}", vars(module)[key]
        if value is sys.modules:
            _guard_imports(builder)
        elif value is os.path:
            builder.visit(name, value)
        elif module is sys and key in _OUTPUTS and isinstance(value, io.IOBase):
            _guard_output(builder, name, key)
        elif module.__name__ == "numpy":
            visit_definition(builder, name, value)
        elif not isinstance(value, (types.ModuleType, type)) and value is not os.environ:
            builder.guard_value(name, f"{{0}}[{key!r}]", (vars(module),), value)


def _guard_output(builder: GuardBuilder, name: str, key: str) -> None:
    """Guard which stream `sys.stdout` is, if the code does more than write to it; refuse reads."""
    loaded = {attribute for receiver, attribute in builder.loads if receiver == key}
    if not loaded.isdisjoint(_STREAM_READS):
        raise unrepeatable_read(name)
    if not loaded <= _WRITES:
        builder.guards.append(Guard(name, f"{{0}}[{key!r}] is {{1}}", (vars(sys), vars(sys)[key])))


def _guard_imports(builder: GuardBuilder) -> None:
    """Guard which of the modules that the code names have been imported."""
    names = frozenset(builder.strings)
    builder.guards.append(
        Guard("sys.modules", "{0}.keys() & {1} == {2}", (sys.modules, names, sys.modules.keys() & names))
    )
