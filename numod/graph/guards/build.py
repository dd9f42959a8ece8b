"""Builds the guards of a function: conditions on Python objects that its code can reach by name.

Modules, parameters and buffers count their changes (`core.changes`). Closures, globals, containers, plain objects,
classes and helper functions do not, so each of their values that the code may use gets a guard here. What no guard can
check, such as the next value of an iterator, is refused.

`GuardBuilder.visit` adds guards for the contents of an object that is known to be the same one. `guard_value` adds the
guard for that, and visits the object.
"""

from __future__ import annotations

import contextvars
import functools
import gc
import importlib.util
import operator
import os
import sys
import types
import weakref
from abc import ABCMeta, get_cache_token
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, ItemsView, KeysView, Sequence, ValuesView
from typing import Any

from ...core import changes
from ...core.tensor import Tensor
from ..values import objects, pytree
from ..values.kinds import (
    PACKAGE,
    attributes_of,
    is_compiled,
    is_library,
    is_module,
    is_optimizer,
    is_schedule,
    is_simple,
    methods_put_into,
    of_library,
    package_of,
    parameters_of,
    step_hooks,
)
from ..values.lazy_scalar import STAND_INS
from ..values.source_location import CannotRepeat
from . import optimizers
from .attributes import (
    OPTIMIZER_ATTRIBUTES,
    REGISTRIES,
    guard_library_class,
    guard_namespaces,
    visit_attributes,
)
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
from .containers import BUFFERS, guard_buffer, guard_members, visit_container
from .definitions import (
    OS_RANDOM,
    UNREPEATABLE_MODULES,
    called_names,
    has_hidden_state,
    is_fixed,
    is_unrepeatable,
    random_streams,
    unrepeatable,
)
from .guard import Guard, entry, sized

_FILE_NAMES = {
    "read_text", "read_bytes", "iterdir", "is_file", "is_dir", "isfile", "isdir", "getsize", "getmtime", "listdir",
    "scandir", "getcwd", "loadtxt", "genfromtxt", "fromfile", "memmap", "check_output",
}  # fmt: skip
_NOTED_ATTRIBUTE = "_non_persistent_buffers_set"  # changes only when the buffers do
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
        guard_library_class(builder, "Tensor", Tensor)
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
                guard_library_class(self, name, value)
            elif (id(owner), name) not in self.excluded:
                self.guard_value(prefix + name, text, (owner,), value)
        plain = getattr(function, "__func__", function)
        self.visit(f"{prefix}registry", getattr(plain, "registry", None))  # of functools.singledispatch
        if code is not None and code is getattr(plain, "__code__", None):
            # notebooks replace the code of functions
            self.guards.append(Guard(f"{prefix}{plain.__name__}", "{0}.__code__ is {1}", (plain, code)))
        for key in sorted(self.mentioned & getattr(plain, "__dict__", {}).keys()):
            called = getattr(plain, "__name__", type(plain).__name__)  # a partial function has no name
            self.guard_value(f"{prefix}{called}.{key}", f"{{0}}.{key}", (plain,), plain.__dict__[key])

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
        if has_hidden_state(kind):
            raise CannotRepeat(
                f"compile: {name} keeps its values where a compiled function cannot compare them from call to call; "
                "pass them as arguments"
            )
        self.seen.add(id(value))
        self.weak_ids.update([id(value)] if self.is_weak and type(value) is not types.FunctionType else ())
        for kinds, visit in _VISITS:
            if issubclass(kind, kinds):
                visit(self, name, value)
                return
        self.visit_other(name, value)

    def visit_tensor(self, name: str, value: Tensor) -> None:
        """Visit the hooks of a tensor and the attributes that the user has added."""
        self.visit_hooks(name, value)
        for key, attribute in attributes_of(value):
            if key in self.mentioned or self.any_name:
                self.guard_value(f"{name}.{key}", f"{{0}}.{key}", (value,), attribute)

    def visit_routine(self, name: str, value: Any) -> None:
        """Visit a Python function or method. For one of a library, guard its namespace and visit its object."""
        if value is os.getenv:
            self.visit("os.environ", os.environ)
        if not of_library(value):
            self.visit_function(value, f"{name}: ")
        else:
            guard_namespaces(self, value)
            self.visit(f"{name}.__self__", getattr(value, "__self__", None))

    def visit_partial(self, name: str, value: functools.partial) -> None:
        """Visit a partial function."""
        self.visit_function(value, f"{name}: ")

    def visit_wrapper(self, name: str, value: Any) -> None:
        """Visit a container written in Python, such as UserDict."""
        kind = type(value)
        key = next(_WRAPPERS[base] for base in kind.__mro__ if base in _WRAPPERS)
        self.guard_value(f"{name}.{key}", f"attribute({{0}}, {key!r})", (value,), objects.read_attribute(value, key))
        visit_attributes(self, name, value, kind)

    def visit_view(self, name: str, value: Any) -> None:
        """Visit the container that a view, such as `keys()`, refers to."""
        if not of_library(type(value)):
            self.visit_other(name, value)
            return
        for referent in gc.get_referents(value):
            self.visit(name, referent)

    def visit_context_variable(self, name: str, value: contextvars.ContextVar) -> None:
        """Guard the value of a context variable."""
        self.guard_value(name, "{0}.get({1})", (value, None), value.get(None))

    def read_getter(self, name: str, value: Any) -> None:
        """Note the names in an `attrgetter` or `methodcaller`."""
        paths = (path for path in value.__reduce__()[1] if isinstance(path, str))
        self.mentioned.update(part for path in paths for part in path.split("."))

    def visit_class(self, name: str, value: type) -> None:
        """Visit the attributes of a class, and of a user's metaclass."""
        self.abstract |= issubclass(type(value), ABCMeta)
        visit_attributes(self, name, value, value)
        if not of_library(type(value)):
            visit_attributes(self, name, value, type(value))

    def visit_builtin(self, name: str, value: types.BuiltinFunctionType) -> None:
        """Visit the object that a method written in C is bound to."""
        self.any_name |= value.__name__ in OPTIONAL_ACCESS  # getattr under another name
        self.visit(f"{name}.__self__", None if isinstance(value.__self__, types.ModuleType) else value.__self__)

    def visit_optimizer(self, name: str, value: Any) -> None:
        """Visit the parameters and hooks of an optimizer. Its guards are added at the end of the round."""
        self.optimizers.append((name, value))
        for parameter in parameters_of(value):
            self.visit(f"{name}'s parameter", parameter)
        for hook in [*step_hooks(value).values(), *methods_put_into(value).values()]:
            self.visit(f"{name}'s hooks", hook)
        self.visit_object(name, value)

    def visit_other(self, name: str, value: Any) -> None:
        """Visit an object whose class is not in `_VISITS`."""
        kind = type(value)
        if is_compiled(value):
            self.visit_function(value.function, f"{name}: ")
        elif value is os.environ:
            self.guards.append(Guard(name, "dict({0}) == {1}", (value, dict(value))))
        elif is_schedule(value):
            self.schedules.append((name, value))
        elif is_optimizer(value):
            self.visit_optimizer(name, value)
        elif hasattr(kind, "__next__"):
            raise unrepeatable(name)
        elif issubclass(kind, type):
            self.visit_class(name, value)
        elif issubclass(kind, types.BuiltinFunctionType):
            self.visit_builtin(name, value)
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
            visit_attributes(self, name, module, module)
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
                visit_container(self, f"{name}'s hooks", table)

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
                if key in REGISTRIES:
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
        visit_attributes(self, name, value, type(value))

    def visit_library_object(self, name: str, value: Any) -> None:
        """Guard numbers and tensors of an object of this library, such as a loss scale, and containers.

        Numbers and tensors are those that methods use which the code mentions, containers those that it mentions.
        """
        used = called_names(type(value), self.mentioned)
        for key, attribute in objects.attributes(value).items():
            if (key in used and (issubclass(type(attribute), Tensor) or is_simple(attribute))) or (
                key in self.mentioned - OPTIMIZER_ATTRIBUTES and isinstance(attribute, (list, dict))
            ):
                self.guard_value(f"{name}.{key}", f"{{0}}.{key}", (value,), attribute)


def _visit_with_attributes(visit_contents: Callable) -> Callable:
    """A visit of an object's contents by a function of (builder, name, value), and then of its attributes."""

    def visit(builder: GuardBuilder, name: str, value: Any) -> None:
        visit_contents(builder, name, value)
        visit_attributes(builder, name, value, type(value))

    return visit


# classes, and how their instances are visited; the first entry that matches is used
_VISITS: tuple[tuple[type | tuple[type, ...], Callable[[GuardBuilder, str, Any], None]], ...] = (
    (Tensor, GuardBuilder.visit_tensor),
    (types.ModuleType, GuardBuilder.visit_namespace),
    ((types.FunctionType, types.MethodType), GuardBuilder.visit_routine),
    (functools.partial, GuardBuilder.visit_partial),
    ((list, tuple, dict, deque), _visit_with_attributes(visit_container)),
    (tuple(_WRAPPERS), GuardBuilder.visit_wrapper),
    (_VIEWS, GuardBuilder.visit_view),
    (functools._lru_cache_wrapper, GuardBuilder.visit_cache),
    (weakref.ref, GuardBuilder.visit_weak_reference),
    (contextvars.ContextVar, GuardBuilder.visit_context_variable),
    ((operator.attrgetter, operator.methodcaller), GuardBuilder.read_getter),
    ((set, frozenset), _visit_with_attributes(guard_members)),
    (BUFFERS, _visit_with_attributes(guard_buffer)),
)
