"""Builds the guards of a function: conditions on Python objects that its code can reach by name.

Modules, parameters and buffers count their changes (`core.changes`). Closures, globals, containers, plain objects,
classes and helper functions do not, so each of their values that the code may use gets a guard here. What no guard can
check, such as the next value of an iterator, is refused.

`GuardBuilder.visit` adds guards for the contents of an object that is known to be the same one. `guard_value` adds the
guard for that, and visits the object.
"""

from __future__ import annotations

import array
import contextvars
import functools
import gc
import importlib.util
import inspect
import operator
import os
import sys
import types
import weakref
from abc import ABCMeta, get_cache_token
from collections import ChainMap, UserDict, UserList, defaultdict, deque
from collections.abc import Callable, ItemsView, KeysView, Sequence, ValuesView
from contextlib import nullcontext, suppress
from typing import Any

import numpy as np

from ...core import changes
from ...core.tensor import Tensor
from . import optimizers
from ..values import objects, pytree
from .definitions import (
    METHODS,
    OS_RANDOM,
    UNREPEATABLE_MODULES,
    called_names,
    class_attribute,
    functions_of,
    has_module_getattr,
    implicit_methods,
    is_autograd_function,
    is_fixed,
    is_unrepeatable,
    random_streams,
    runs_code,
    unrepeatable,
    user_classes,
)
from .guard import Guard, entry, sized, unwritten
from ..values.kinds import (
    PACKAGE,
    attributes_of,
    is_compiled,
    is_library,
    is_module,
    is_optimizer,
    is_plain_key,
    is_schedule,
    is_simple,
    methods_put_into,
    of_library,
    package_of,
    parameters_of,
    step_hooks,
    worded,
)
from ..values.lazy_scalar import STAND_INS
from ..values.source_location import CannotRepeat
from .bytecode import (
    OPTIONAL_ACCESS,
    checks_classes,
    checks_number_types,
    computes_text,
    global_names,
    global_uses,
    imports_in,
    names_of,
    optional_attributes,
    strings_in,
    written,
)

_FILE_NAMES = {
    "read_text", "read_bytes", "iterdir", "is_file", "is_dir", "isfile", "isdir", "getsize", "getmtime", "listdir",
    "scandir", "getcwd", "loadtxt", "genfromtxt", "fromfile", "memmap", "check_output",
}  # fmt: skip
_REGISTRIES = ("_parameters", "_buffers", "_modules")
_NOTED_ATTRIBUTE = "_non_persistent_buffers_set"  # changes only when the buffers do
_OPTIMIZER_ATTRIBUTES = {"param_groups", "state"}  # guarded by `optimizers`
# attributes of one tensor or one call, which no guard compares
_CALL_SPECIFIC_NAMES = {
    "is_leaf", "grad_fn", "_base", "_is_view", "_version", "storage_offset", "data_ptr", "is_shared", "_getframe",
    "currentframe", "initial_seed",
}  # fmt: skip
_ARGUMENT_ATTRIBUTES = {
    "requires_grad": "{}.requires_grad",
    "grad": "{}._grad is None",
    "is_inference": "{}._inference",
    "retains_grad": "{}._retains_grad",
}
_UNREPEATABLE_BUILTINS = {"id", "open", "input"}
_CATCHING_NAMES = {"AttributeError", "Exception", "BaseException"}
_WRAPPERS = {  # containers written in Python, and the attribute that holds their contents
    **dict.fromkeys((UserDict, UserList, weakref.WeakValueDictionary, weakref.WeakKeyDictionary, weakref.WeakSet),
        "data"), ChainMap: "maps",
}  # fmt: skip
_VIEWS = (types.MappingProxyType, KeysView, ValuesView, ItemsView)
_FORMULA_MODULES = tuple(f"{PACKAGE}.{name}" for name in ("distributions", "fft", "linalg", "nn", "special"))
_AUTOGRAD_METHODS = ("backward", "vjp", "jvp", "setup_context")  # of autograd.Function, which `apply` calls


def build_guards(function: Callable, roots: Sequence = (), excluded: frozenset = frozenset()) -> GuardBuilder:
    """Build the guards of a function and of its arguments (`roots`), except for the `excluded` places.

    Raises CannotRepeat for what the function uses and no guard can check.
    """
    builder = GuardBuilder(excluded)
    while not builder.complete:
        builder.begin()
        builder.visit_function(function, "")
        for number, root in enumerate(roots):
            builder.visit_weakly(f"argument object {number}", root)
        builder.guard_library_class("Tensor", Tensor)
        for hook in [hook for hooks in changes.everywhere for hook in hooks.values()]:
            builder.visit("a global hook of modules or optimizers", hook)
        for name, optimizer in builder.optimizers:
            optimizers.guard(builder, name, optimizer)
        for name, schedule in builder.schedules:
            optimizers.guard_schedule(builder, name, schedule)
        if builder.abstract and builder.checks_classes:
            builder.guards.append(
                Guard(
                    "the classes registered with an abstract class",
                    "{0}() == {1}",
                    (get_cache_token, get_cache_token()),
                )
            )
        for space, names in builder.missing_globals.values():
            builder.guards.append(
                Guard("a global that hides a builtin", "{0}.keys().isdisjoint({1})", (space, frozenset(names)))
            )
    for guard in builder.guards:
        guard.loosen(builder.weak_ids)
    return builder


class GuardBuilder:
    """Visits everything that a function reaches, and adds guards.

    Code that is found late may name attributes of an object that was visited early. So visits are repeated until no new
    names are found.
    """

    def __init__(self, excluded: frozenset) -> None:
        self.excluded = excluded  # (id of the holder, key) of places whose values are arguments
        self.mentioned: set[str] = set()  # names in the code
        self.strings: set[str] = set()  # keys that the code may use
        self.optional: set[str] = set()  # attributes that may be absent: there is a default, or an error is caught
        self.any_name = False  # whether the code computes names of attributes
        self._extent_before: tuple | None = None  # the number of names when this round of visits began

    def begin(self) -> None:
        """Begin a round of visits."""
        self._extent_before = self._extent()
        self.guards: list[Guard] = []
        self.seen: set[Any] = set()
        # ids of objects that guards do not keep alive: arguments, and referents of weak references
        self.weak_ids: set[int] = set()
        self.is_weak = False
        self.overrides: dict[type, set[str]] = {}  # by user class: see `overriding_methods`
        self.optimizers: list[tuple[str, Any]] = []  # visited last, when all names in the code are known
        self.schedules: list[tuple[str, Any]] = []
        # namespaces, and names that they lack, so that code gets Python's builtins
        self.missing_globals: dict[int, tuple[dict, set[str]]] = {}
        # whether code checks for the types of numbers, or for classes; whether abstract classes are reached
        self.checks_number_types = self.checks_classes = self.abstract = False
        # where the math module and its functions are found
        self.math_places: list[tuple[Any, Any]] = []

    @property
    def complete(self) -> bool:
        """Whether the round found no new names."""
        return self._extent_before == self._extent()

    def input_expressions(self) -> list[str]:
        """Expressions over an input for what the code reads of tensors beside their layouts."""
        texts = [text for name, text in _ARGUMENT_ATTRIBUTES.items() if name in self.mentioned or self.any_name]
        missing = {name for name in self.optional if not hasattr(Tensor, name)}
        return texts + ([f"{{}}.__dict__.keys().isdisjoint({sorted(missing)})"] if missing else [])

    def refuse_attributes(self, tensors: Sequence[Tensor]) -> None:
        """Raise CannotRepeat if the code mentions an attribute that the user has added to an argument."""
        for name in (
            key for tensor in tensors for key, _ in attributes_of(tensor) if key in self.mentioned or self.any_name
        ):
            raise CannotRepeat(
                f"compile: an argument has an attribute, {name}, which may have another value at the next call; pass "
                "it as an argument"
            )

    def _extent(self) -> tuple:
        return len(self.mentioned), len(self.strings), len(self.optional), self.any_name

    def visit_function(self, function: Callable, prefix: str) -> None:
        """Visit everything that the code of a function reaches."""
        function = written(function)
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is not None:
            self.read_code(code)
            space = getattr(getattr(function, "__func__", function), "__globals__", {})
            for module in imports_in(code):
                self.visit_import(module, space.get("__package__"))
            if missing := [name for name, stored in global_uses(code).items() if not stored and name not in space]:
                self.missing_globals.setdefault(id(space), (space, set()))[1].update(missing)
        for text, owner, name, value in names_of(function):
            self.abstract |= issubclass(type(value), ABCMeta)
            if id(value) in STAND_INS and isinstance(owner, (dict, types.CellType)):
                self.math_places.append((owner, name))
            if owner is None:
                self.visit(prefix + name, value)  # the object that a method is bound to
            elif is_fixed(name, value):
                self.visit(prefix + name, value if issubclass(type(value), types.ModuleType) else None)
                self.guard_library_class(name, value)
            elif (id(owner), name) not in self.excluded:
                self.guard_value(prefix + name, text, (owner,), value)
        plain = getattr(function, "__func__", function)
        self.visit(f"{prefix}registry", getattr(plain, "registry", None))  # of functools.singledispatch
        if code is not None and code is getattr(plain, "__code__", None):
            # notebooks replace the code of functions
            self.guards.append(Guard(f"{prefix}{plain.__name__}", "{0}.__code__ is {1}", (plain, code)))
        for key in sorted(self.mentioned & getattr(plain, "__dict__", {}).keys()):
            self.guard_value(f"{prefix}{plain.__name__}.{key}", f"{{0}}.{key}", (plain,), plain.__dict__[key])

    def read_code(self, code: types.CodeType) -> None:
        """Note the names in a code object."""
        names, optional = global_names(code), optional_attributes(code)
        if computes_text(code):
            raise CannotRepeat(
                f"compile: {code.co_name} computes names of globals (eval, exec, globals), which a compiled function "
                "cannot follow"
            )
        for name in names:
            if name in _CALL_SPECIFIC_NAMES | _FILE_NAMES or (
                name in _UNREPEATABLE_BUILTINS and name in global_uses(code)
            ):
                raise CannotRepeat(
                    f"compile: {code.co_name} uses {name}, which may have another value at the next call; use it "
                    "outside the compiled function"
                )
        self.mentioned.update(names, optional or ())
        self.optional.update(names if not _CATCHING_NAMES.isdisjoint(names) else (), optional or ())
        self.strings.update(strings_in(code))
        self.any_name |= optional is None
        self.checks_number_types |= checks_number_types(code)
        self.checks_classes |= checks_classes(code)

    def visit_import(self, name: str, package: str | None) -> None:
        """Visit a module that code imports, and its packages, once they have been imported."""
        full_name = importlib.util.resolve_name(name, package) if package or name[0] != "." else ""
        parts = full_name.split(".")
        for module in [".".join(parts[:count]) for count in range(1, len(parts) + 1)]:
            if module in sys.modules:
                self.visit(module, sys.modules[module])

    def guard_value(self, name: str, text: str, objects: tuple, value: Any) -> None:
        """Guard that `text` over `objects` evaluates to this value, and visit the value."""
        expected = f"{{{len(objects)}}}"
        if is_simple(value):
            self.strings.update([value] if issubclass(type(value), str) else ())
            self.guards.append(Guard(name, f"{text} is {expected} or equal({text}, {expected})", (*objects, value)))
            return
        self.guards.append(Guard(name, f"{text} is {expected}", (*objects, value)))
        self.visit(name, value)

    def visit(self, name: str, value: Any) -> None:
        """Add guards for the contents of an object that is known to be the same one.

        Types are compared by `issubclass(type(value), ...)`: `isinstance` reads `__class__`, which may run user code.
        """
        kind = type(value)
        if id(value) in self.seen or is_simple(value):
            return
        if issubclass(kind, random_streams()) or is_unrepeatable(value):
            raise unrepeatable(name)
        self.seen.add(id(value))
        self.weak_ids.update([id(value)] if self.is_weak and type(value) is not types.FunctionType else ())
        if issubclass(kind, Tensor):
            self.visit_hooks(name, value)
            for key, attribute in attributes_of(value):
                if key in self.mentioned or self.any_name:
                    self.guard_value(f"{name}.{key}", f"{{0}}.{key}", (value,), attribute)
            return
        if issubclass(kind, types.ModuleType):
            self.visit_namespace(name, value)
        elif issubclass(kind, (types.FunctionType, types.MethodType)):
            if value is os.getenv:
                self.visit("os.environ", os.environ)
            if not of_library(value):
                self.visit_function(value, f"{name}: ")
            else:
                self.guard_namespaces(value)
                self.visit(f"{name}.__self__", getattr(value, "__self__", None))
        elif is_compiled(value):
            self.visit_function(value.function, f"{name}: ")
        elif issubclass(kind, functools.partial):
            self.visit_function(value, f"{name}: ")
        elif issubclass(kind, (list, tuple, dict, deque)):
            self.visit_container(name, value)
            self.visit_attributes(name, value, kind)
        elif issubclass(kind, tuple(_WRAPPERS)):
            key = next(_WRAPPERS[base] for base in kind.__mro__ if base in _WRAPPERS)
            self.guard_value(
                f"{name}.{key}", f"attribute({{0}}, {key!r})", (value,), objects.read_attribute(value, key)
            )
            self.visit_attributes(name, value, kind)
        elif issubclass(kind, _VIEWS) and of_library(kind):
            for referent in gc.get_referents(value):
                self.visit(name, referent)
        elif issubclass(kind, functools._lru_cache_wrapper):
            self.visit_cache(name, value)
        elif issubclass(kind, weakref.ref):
            self.visit_weak_reference(name, value)
        elif issubclass(kind, contextvars.ContextVar):
            self.guard_value(name, "{0}.get({1})", (value, None), value.get(None))
        elif issubclass(kind, (operator.attrgetter, operator.methodcaller)):
            self.mentioned.update(
                part for path in value.__reduce__()[1] if isinstance(path, str) for part in path.split(".")
            )
        elif issubclass(kind, (set, frozenset)):
            self.guard_members(name, value)
            self.visit_attributes(name, value, kind)
        elif issubclass(kind, (np.ndarray, array.array, bytearray, memoryview)):
            self.guard_buffer(name, value)
            self.visit_attributes(name, value, kind)
        elif value is os.environ:
            self.guards.append(Guard(name, "dict({0}) == {1}", (value, dict(value))))
        elif is_schedule(value):
            self.schedules.append((name, value))
        elif is_optimizer(value):
            self.optimizers.append((name, value))
            for parameter in parameters_of(value):
                self.visit(f"{name}'s parameter", parameter)
            for hook in [*step_hooks(value).values(), *methods_put_into(value).values()]:
                self.visit(f"{name}'s hooks", hook)
            self.visit_object(name, value)
        elif hasattr(kind, "__next__"):
            raise unrepeatable(name)
        elif issubclass(kind, type):
            self.abstract |= issubclass(kind, ABCMeta)
            self.visit_attributes(name, value, value)
            if not of_library(kind):  # its metaclass
                self.visit_attributes(name, value, kind)
        elif issubclass(kind, types.BuiltinFunctionType):
            self.any_name |= value.__name__ in OPTIONAL_ACCESS  # getattr under another name
            self.visit(f"{name}.__self__", None if isinstance(value.__self__, types.ModuleType) else value.__self__)
        elif issubclass(kind, types.MethodWrapperType):
            self.visit(f"{name}.__self__", value.__self__)
        else:
            self.visit_object(name, value)

    def visit_cache(self, name: str, value: Any) -> None:
        """Visit a function with a cache of results (functools.cache)."""
        tables = [
            referent for referent in gc.get_referents(value) if type(referent) is dict and referent is not vars(value)
        ]
        if any(
            isinstance(part, Tensor)
            for table in tables
            for key in table
            for part in (key if isinstance(key, (tuple, list)) else [key])
        ):
            raise CannotRepeat(
                f"compile: {name} caches results by the identity of tensors (functools.cache), and the next call has "
                "other tensors"
            )
        # after cache_clear() the count is 0
        self.guards.append(
            Guard(f"the cached results of {name}", "{0}.cache_info().misses >= {1}", (value, value.cache_info().misses))
        )
        self.visit_function(value.__wrapped__, f"{name}: ")

    def visit_namespace(self, name: str, module: types.ModuleType) -> None:
        """Visit the names of an imported module that the code mentions."""
        root = module.__name__.partition(".")[0]
        members = [vars(module)[key] for key in self.mentioned & vars(module).keys()]
        members += [
            vars(member)[key]
            for member in members
            if isinstance(member, types.ModuleType)
            for key in self.mentioned & vars(member).keys()
        ]
        self.abstract |= any(isinstance(member, ABCMeta) for member in members)
        if root in UNREPEATABLE_MODULES or (
            root == "numpy" and ("random" in self.mentioned or module.__name__.startswith("numpy.random"))
        ):
            raise unrepeatable(module.__name__)
        if module is os and not self.mentioned.isdisjoint(OS_RANDOM):
            raise unrepeatable(module.__name__)
        if module is os and self.mentioned & {"environ", "getenv"}:
            self.visit("os.environ", os.environ)
        if module is sys and "argv" in self.mentioned:
            self.guard_value("sys.argv", "{0}.argv", (sys,), sys.argv)
        if not is_library(root):
            self.visit_attributes(name, module, module)
        elif root == PACKAGE:
            for key in sorted(self.mentioned & vars(module).keys()):
                member = vars(module)[key]
                if isinstance(member, types.ModuleType):
                    self.visit(f"{name}.{key}", member)
                elif isinstance(member, (types.FunctionType, type)):  # a user may replace it
                    self.guard_value(f"{name}.{key}", f"{{0}}.{key}", (module,), member)

    def visit_hooks(self, name: str, tensor: Tensor) -> None:
        """Visit the hooks of a tensor. A change is noted when it gets its first one."""
        for table in (tensor._hooks, tensor._after_hooks):
            if table is not None:
                self.visit_container(f"{name}'s hooks", table)

    def visit_container(self, name: str, value: list | tuple | dict | deque) -> None:
        """Guard the length and the items of a container."""
        is_immutable, base = issubclass(type(value), tuple), objects.base_of(type(value))
        is_subclass = type(value) is not base or base is defaultdict  # it may override methods
        excluded = {key for holder, key in self.excluded if holder == id(value) and type(key) is not objects.Attribute}
        if issubclass(type(value), dict) and all(dict.__contains__(value, key) for key in excluded):
            self.guard_members(f"len({name})", value)
        elif not is_immutable:
            count = len(objects.members_of(value)) - (
                sum(key in excluded for key in objects.members_of(value)) if issubclass(type(value), dict) else 0
            )
            length = "{2}({0})" if is_subclass else "len({0})"
            text = (
                f"{length} - sum({{4}}({{0}}, key) for key in {{3}})"
                if issubclass(type(value), dict) and excluded
                else length
            )
            self.guards.append(
                Guard(
                    f"len({name})",
                    f"{text} == {{1}}",
                    (value, count, base.__len__, excluded, getattr(base, "__contains__", None)),
                )
            )
        if issubclass(type(value), defaultdict):
            factory = objects.DEFAULT.__get__(value)
            self.guard_value(f"the default factory of {name}", "{1}.__get__({0})", (value, objects.DEFAULT), factory)
        for position, (key, item) in enumerate(objects.items_of(value)):
            if is_immutable:
                self.visit(f"{name}[{key}]", item)
            elif not excluded or key not in excluded:
                # comparing other keys may run user code
                is_safe = is_plain_key(key) or of_library(type(key))
                text = (
                    f"value_at({{0}}, {position})" if not is_safe else "item({0}, {1})" if is_subclass else "{0}[{1}]"
                )
                self.guard_value(f"{name}[{worded(key)}]", text, (value, key), item)

    def guard_members(self, name: str, value: set | frozenset | dict) -> None:
        """Guard the members of a set or the keys of a dictionary, in order: by value if plain, else by identity."""
        members, base = tuple(objects.members_of(value)), objects.base_of(type(value))
        iterable = "{0}" if type(value) is base else "{2}({0})"
        are_plain = all(map(is_plain_key, members))
        if are_plain and issubclass(type(value), dict):
            self.guards.append(Guard(name, f"tuple({iterable}) == {{1}}", (value, members, base.__iter__)))
            return
        text = f"{{3}}({{0}}) == len({{1}}) and all(map({'equal' if are_plain else '{4}'}, {iterable}, {{1}}))"
        self.guards.append(Guard(name, text, (value, members, base.__iter__, base.__len__, operator.is_)))
        for member in members if not are_plain else ():
            self.visit(f"a member of {name}", member)

    def guard_buffer(self, name: str, value: Any) -> None:
        """Guard the bytes of an array, its shape and its dtype."""
        if issubclass(type(value), bytearray):
            self.guards.append(Guard(name, "{2}({0}, {1})", (value, bytes(value), bytearray.__eq__)))
            return
        kind = next(base for base in (np.ndarray, array.array, memoryview) if issubclass(type(value), base))
        self.guards.append(Guard(name, "{2}({0}) == {1}", (value, kind.tobytes(value), kind.tobytes)))
        if kind is np.ndarray:
            plain = np.ndarray.view(value, np.ndarray)
            layout = [vars(np.ndarray)[name].__get__ for name in ("shape", "dtype")]
            self.guards.append(Guard(name, "({2}({0}), {3}({0})) == {1}", (value, (plain.shape, plain.dtype), *layout)))
            for position, item in enumerate(plain.flat if plain.dtype.hasobject else ()):
                self.visit(f"{name}[{position}]", item)

    def visit_weak_reference(self, name: str, value: weakref.ref) -> None:
        """Guard whether the referent of a weak reference still exists. Guards do not keep it alive."""
        referent = value()
        if isinstance(referent, Tensor):
            raise CannotRepeat(
                f"compile: {name} is a weak reference to a tensor, which code may compare with arguments; pass the "
                "tensor as an argument"
            )
        self.guards.append(
            Guard(name, f"{{1}}({{0}}) is {'not ' if referent is not None else ''}None", (value, weakref.ref.__call__))
        )
        self.visit_weakly(name, referent)

    def visit_weakly(self, name: str, value: Any) -> None:
        """Visit an object that the function does not keep alive, so that guards do not either."""
        before, self.is_weak = self.is_weak, True
        self.weak_ids.update([id(value)] if id(value) not in self.seen else ())
        try:
            self.visit(name, value)
        finally:
            self.is_weak = before

    def visit_object(self, name: str, value: Any) -> None:
        """Visit the parts of a module whose changes are not counted, or the attributes of a plain object."""
        if is_module(value):
            self.guards.append(Guard(f"the class of {name}", "type({0}) is {1}", (value, type(value))))
            excluded = {key for holder, key in self.excluded if holder == id(value)}
            # with excluded places the guard reads each attribute, and this library's classes count their changes
            if not (excluded and of_library(type(value))):
                self.guards.append(sized(f"the attributes of {name}", value, excluded))
            for key, attribute in list(objects.dictionary(value).items()):
                if key in _REGISTRIES:
                    for entry_name, registered in list(attribute.items()):
                        self.visit(f"{name}.{entry_name}", registered)
                elif key in ("_forward_hooks", "_forward_pre_hooks"):
                    for hook in attribute.values():
                        self.visit(f"{name}.{key}", hook)
                elif "_hooks" not in key and key != _NOTED_ATTRIBUTE:
                    if (
                        pytree.is_structure(attribute)
                        and not of_library(type(attribute))
                        and (id(value), key) not in self.excluded
                    ):
                        self.guards.append(entry(name, value, key))
                    self.visit(f"{name}.{key}", attribute)
        elif package_of(type(value)) == PACKAGE:
            self.visit_library_object(name, value)
        self.visit_attributes(name, value, type(value))

    def visit_library_object(self, name: str, value: Any) -> None:
        """Guard numbers and tensors of an object of this library, such as a loss scale, and containers.

        Numbers and tensors are those that methods use which the code mentions, containers those that it mentions.
        """
        used = called_names(type(value), self.mentioned)
        for key, attribute in objects.attributes(value).items():
            if (key in used and (issubclass(type(attribute), Tensor) or is_simple(attribute))) or (
                key in self.mentioned - _OPTIMIZER_ATTRIBUTES and isinstance(attribute, (list, dict))
            ):
                self.guard_value(f"{name}.{key}", f"{{0}}.{key}", (value,), attribute)

    def visit_attributes(self, name: str, value: Any, kind: type | types.ModuleType) -> None:
        """Guard the attributes that the code mentions, and visit the code of methods.

        For an object of a library, guard the contents of its dictionary.
        """
        if not is_module(value) and value is not kind:
            self.guard_dictionary(name, value)
        if isinstance(kind, type):
            self.guard_library_class(name, kind)
        if of_library(kind):
            return
        if not is_module(value) and value is not kind:
            self.guards.append(Guard(f"the class of {name}", "type({0}) is {1}", (value, kind)))
        for holder in user_classes(kind):
            self.guard_absence(name, holder)
        visited, present = set(), {} if value is kind else objects.attributes(value)
        implicit = {
            "forward",
            *implicit_methods(kind, value is kind),
            *self.overriding_methods(kind),
            *(_AUTOGRAD_METHODS if is_autograd_function(kind) else ()),
        }
        while new := [
            key
            for key in self.mentioned | implicit
            if key not in visited and (not key.startswith("__") or key in implicit)
        ]:
            visited.update(new)
            for key in sorted(new):
                self.visit_attribute(name, value, kind, key, present)
        if isinstance(kind, type):
            self.guard_inherited(kind, {*visited, "__call__"})
            self.guards.append(Guard(f"the bases of {kind.__name__}", "{0}.__mro__ is {1}", (kind, kind.__mro__)))

    def overriding_methods(self, kind: type | types.ModuleType) -> set[str]:
        """The methods and properties of a user class that override those of this library, and that it calls."""
        if kind not in self.overrides:
            library = [base for base in kind.__mro__ if package_of(base) == PACKAGE] if isinstance(kind, type) else []
            keys = {key for holder in user_classes(kind) for key in vars(holder)} if library else set()
            keys = {key for key in keys if any(key in vars(base) for base in library)}
            self.overrides[kind] = keys & called_names(kind, self.mentioned | {"forward", "step"}) if keys else keys
        return self.overrides[kind]

    def guard_inherited(self, kind: type, names: set[str]) -> None:
        """Guard that no user class gets a method that hides an inherited one."""
        methods = {
            key
            for key in names
            if isinstance(inspect.getattr_static(kind, key, None), (*METHODS, property, functools.cached_property))
        }
        for holder in user_classes(kind):
            methods -= vars(holder).keys()
            if methods and (id(holder), *sorted(methods)) not in self.seen:
                self.seen.add((id(holder), *sorted(methods)))
                self.guards.append(
                    Guard(
                        f"a method of {holder.__name__}",
                        "{0}.keys().isdisjoint({1})",
                        (vars(holder), frozenset(methods)),
                    )
                )

    def guard_namespaces(self, definition: Any) -> None:
        """Guard the namespaces of functions of this library that call other ones: a function's, or those of a class."""
        functions = vars(definition).values() if isinstance(definition, type) else [definition]
        for function in functions:
            if not isinstance(function, types.FunctionType):
                continue
            space = inspect.unwrap(function).__globals__
            if space["__name__"].startswith(_FORMULA_MODULES) and (id(space), None) not in self.seen:
                self.seen.add((id(space), None))
                self.guards.append(unwritten(space["__name__"], space))

    def guard_library_class(self, name: str, kind: Any) -> None:
        """Guard that a class of this library, or the base of a user class, is not changed.

        Visits functions that the user has put among its methods.
        """
        bases = kind.__mro__ if isinstance(kind, type) else ()
        base = next((base for base in bases if package_of(base) == PACKAGE), None)
        if base is None or (id(base), None) in self.seen:
            return
        self.seen.add((id(base), None))
        self.guards.append(unwritten(f"the class {base.__name__}", base))
        self.guard_namespaces(base)
        user_functions = [
            (key, function)
            for holder in base.__mro__[:-1]
            for key, function in vars(holder).items()
            if isinstance(function, types.FunctionType) and not of_library(function)
        ]
        if user_functions:
            used = called_names(base, self.mentioned | {"forward", "__call__"})
            for key, function in user_functions:
                if key in used:
                    self.visit(f"{name}.{key}", function)
        functional = vars(sys.modules[f"{PACKAGE}.nn.functional"])  # layers call its functions
        if hasattr(base, "register_buffer") and (id(functional), None) not in self.seen:
            self.seen.add((id(functional), None))
            self.guards.append(unwritten(functional["__name__"], functional))

    def guard_dictionary(self, name: str, value: Any) -> None:
        """Guard the dictionary of a plain object: the values that the code may use, and names that it must not have.

        These are all values if the code computes names. For an object of a library they are the values that the code
        mentions, and plain values, which its methods may use.
        """
        fields, present = objects.dictionary(value), objects.attributes(value)
        for key in sorted(key for key in self.optional & objects.slots_of(type(value)).keys() if key not in present):
            self.guards.append(Guard(f"{name}.{key}", f"lacks({{0}}, {key!r})", (value,)))
        if fields is None or package_of(type(value)) == PACKAGE or is_optimizer(value):
            return
        has_methods = any(
            key[0] != "_" and isinstance(member, types.FunctionType)
            for base in type(value).__mro__
            for key, member in vars(base).items()
        )
        used = (
            {key for key, field in fields.items() if key in self.mentioned or (has_methods and is_simple(field))}
            if of_library(type(value))
            else ()
        )
        for key in sorted(fields if self.any_name else used):
            if (
                not key.startswith("__")
                and (id(value), objects.place_of(value, key)) not in self.excluded
                and not is_fixed(key, fields[key])
            ):
                with nullcontext() if key in self.mentioned else suppress(CannotRepeat):
                    self.guard_value(f"{name}.{key}", f"attribute({{0}}, {key!r})", (value,), fields[key])
        if self.any_name and not of_library(type(value)):
            self.guards.append(
                Guard(f"the attributes of {name}", "dictionary({0}).keys() == {1}", (value, frozenset(fields)))
            )
        # __getattr__ returns attributes that are absent
        optional = self.mentioned | self.optional if class_attribute(type(value), "__getattr__") else self.optional
        missing = frozenset(key for key in optional if key not in fields and class_attribute(type(value), key) is None)
        if missing:
            self.guards.append(Guard(f"an attribute of {name}", "{1}.isdisjoint(dictionary({0}))", (value, missing)))

    def guard_absence(self, name: str, holder: type | types.ModuleType) -> None:
        """Guard that a user's class or module has no attribute that the code would use if it existed."""
        names = self.mentioned | self.optional if has_module_getattr(holder) else self.optional
        missing = frozenset(names - vars(holder).keys())
        if missing and (id(holder), None) not in self.seen:
            self.seen.add((id(holder), None))
            self.guards.append(Guard(f"an attribute of {name}", "{1}.isdisjoint({0}.__dict__)", (holder, missing)))

    def visit_attribute(
        self, name: str, value: Any, kind: type | types.ModuleType, key: str, present: dict[str, Any]
    ) -> None:
        """Guard an attribute: its value in the object (`present`) or its class, and the code of a descriptor.

        It runs no user code.
        """
        descriptor = class_attribute(kind, key)
        if is_compiled(descriptor):
            self.visit(f"{name}.{key}", descriptor)
            return
        if runs_code(descriptor) and (is_module(value) or key not in present or hasattr(type(descriptor), "__set__")):
            self.visit_descriptor(name, value, kind, key, descriptor)
        is_guarded = is_module(value) and any(key in objects.dictionary(value)[registry] for registry in _REGISTRIES)
        if is_guarded and present.get(key) is not None and (id(value), key) not in self.excluded:
            self.guards.append(entry(name, value, key))
        is_guarded = is_guarded or (is_optimizer(value) and key in _OPTIMIZER_ATTRIBUTES)
        if key in present:
            is_excluded = (id(value), objects.place_of(value, key)) in self.excluded
            if not (is_guarded or is_excluded or is_fixed(key, present[key])):
                text = f"{{0}}.{key}" if objects.reads_plainly(type(value), key) else f"attribute({{0}}, {key!r})"
                self.guard_value(f"{name}.{key}", text, (value,), present[key])
        elif (
            not (is_guarded or runs_code(descriptor))
            and any(key in vars(holder) for holder in user_classes(kind))
            and not is_fixed(key, descriptor)
        ):
            if not isinstance(descriptor, types.MemberDescriptorType):
                self.visit_class_attribute(name, value, kind, key, descriptor)

    def visit_class_attribute(
        self, name: str, value: Any, kind: type | types.ModuleType, key: str, inherited: Any
    ) -> None:
        """Guard an attribute that an object has from its class."""
        if (id(value), objects.place_of(value, key)) in self.excluded:
            return
        if objects.reads_plainly(type(value), key) and key.isidentifier():
            self.guard_value(f"{name}.{key}", f"{{0}}.{key}", (value,), inherited)
            return
        self.guard_definition(name, kind, key)
        self.guard_not_in_dictionary(name, value, kind, key)
        self.visit(f"{name}.{key}", inherited)

    def visit_descriptor(self, name: str, value: Any, kind: type | types.ModuleType, key: str, descriptor: Any) -> None:
        """Visit the code that runs when an attribute is read or called."""
        self.guard_definition(name, kind, key)
        self.guard_not_in_dictionary(name, value, kind, key)
        for code in functions_of(descriptor):
            self.visit(f"{name}.{key}", code)
        if "super" in self.mentioned:
            self.visit_overridden(name, kind, key)

    def guard_not_in_dictionary(self, name: str, value: Any, kind: type | types.ModuleType, key: str) -> None:
        """Guard that an object has no attribute of its own that hides the one of its class."""
        if (
            not is_module(value)
            and value is not kind
            and objects.dictionary(value) is not None
            and key not in objects.dictionary(value)
        ):
            self.guards.append(Guard(f"{name}.{key}", f"{key!r} not in dictionary({{0}})", (value,)))

    def visit_overridden(self, name: str, kind: type | types.ModuleType, key: str) -> None:
        """Visit the methods of this name in further user classes, which `super()` finds."""
        for holder in [holder for holder in user_classes(kind) if key in vars(holder)][1:]:
            self.guard_definition(f"{name}: {holder.__name__}", holder, key)
            for code in functions_of(vars(holder)[key]):
                self.visit(f"{name}: {holder.__name__}.{key}", code)

    def guard_definition(self, name: str, kind: type | types.ModuleType, key: str) -> None:
        """Guard that a user's class or module still has the function of this name."""
        holder = next(holder for holder in user_classes(kind) if key in vars(holder))
        if (id(holder), key) not in self.seen:
            self.seen.add((id(holder), key))
            namespace = vars(holder)  # faster than reading `__dict__` of a class, which makes a new proxy
            self.guards.append(Guard(f"{name}.{key}", f"{{0}}[{key!r}] is {{1}}", (namespace, namespace[key])))
