"""Builds the guards of a function: conditions on Python objects that its code can reach by name.

Modules, parameters and buffers count their changes (`core.changes`). Closures, globals, containers, plain objects,
classes and helper functions do not, so each of their values that the code may use gets a guard here. What no guard can
check, such as the next value of an iterator, is refused.

`GuardBuilder.visit` adds guards for the contents of an object that is known to be the same one. `guard_value` adds the
guard for that, and visits the object.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import types
from abc import ABCMeta, get_cache_token
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Any

from ...core import changes
from ...core.tensor import Tensor
from ..values.kinds import attributes_of, is_simple
from ..values.lazy_scalar import STAND_INS
from ..values.source_location import CannotRepeat
from . import optimizers
from .attributes import guard_library_class
from .bytecode import (
    attribute_loads,
    checks_classes,
    checks_number_types,
    computes_text,
    global_names,
    global_uses,
    imports_in,
    names_of,
    optional_attributes,
    strings_in,
    underlying_function,
)
from .definitions import has_hidden_state, is_fixed, is_unrepeatable, random_streams, unrepeatable
from .guard import Guard
from .definition_names import visit_names
from .file_names import FileNames, file_names_of, refuse_file_names
from .library_state import is_opaque, visit_definition
from .visits import visit_contents

_FILE_NAMES = {
    "read_text", "read_bytes", "iterdir", "is_file", "is_dir", "isfile", "isdir", "getsize", "getmtime", "listdir",
    "scandir", "getcwd", "loadtxt", "genfromtxt", "fromfile", "memmap", "check_output",
}  # fmt: skip
# attributes of one tensor or one call, which no guard compares
_CALL_SPECIFIC_NAMES = {
    "is_leaf", "grad_fn", "_base", "_is_view", "_version", "storage_offset", "data_ptr", "is_shared", "_getframe",
    "currentframe", "initial_seed", "get_rng_state", "copy_context", "getweakrefcount", "getweakrefs", "getrefcount",
    "get_referrers", "get_referents",
}  # fmt: skip
_ARGUMENT_ATTRIBUTES = {
    "requires_grad": "{}.requires_grad",
    "grad": "{}._grad is None",
    "is_inference": "{}._inference",
    "retains_grad": "{}._retains_grad",
}
_UNREPEATABLE_BUILTINS = {"id", "open", "input"}
_CATCHING_NAMES = {"AttributeError", "Exception", "BaseException"}


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
        for hook in [hook for hooks in changes.global_hooks for hook in hooks.values()]:
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
    refuse_file_names(builder)
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
        self.loads: set[tuple[str, str]] = set()  # see `attribute_loads`
        self.aliases: dict[int, set[str]] = {}  # names by which code reaches a module or a path, by its id
        self.files = FileNames()
        self.called: set[str] = set()  # names in the code of a library's methods that the code may call
        self.strings: set[str] = set()  # keys that the code may use
        self.optional: set[str] = set()  # attributes that may be absent: there is a default, or an error is caught
        self.asked: set[str] = set()  # those of them in calls of getattr and hasattr
        self.any_name = False  # whether the code computes names of attributes
        self._extent_before: tuple | None = None  # the number of names when this round of visits began

    def begin(self) -> None:
        """Begin a round of visits."""
        self._extent_before = self._extent()
        self.guards: list[Guard] = []
        self.seen: set[Any] = set()
        # ids of objects that guards do not keep alive: arguments, and referents of weak references
        self.weak_ids: set[int] = set()
        self.is_weak = self.in_library = False
        self.overrides: dict[type, set[str]] = {}  # by user class: see `overriding_methods`
        self.library_names: dict[type, set[str]] = {}  # by class: see `library_fields`
        self.files.paths.clear()
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
        """Expressions over an input for the properties that the code reads, other than its layout."""
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
        sizes = map(len, (self.mentioned, self.called, self.strings, self.optional, self.loads))
        return *sizes, sum(map(len, self.aliases.values())), self.any_name

    def visit_function(self, function: Callable, prefix: str) -> None:
        """Visit everything that the code of a function reaches."""
        function = underlying_function(function)
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
                visit_definition(self, name, value)
            elif (id(owner), name) not in self.excluded:
                self.guard_value(prefix + name, text, (owner,), value)
        plain = getattr(function, "__func__", function)
        self.visit(f"{prefix}registry", getattr(plain, "registry", None))  # of functools.singledispatch
        if code is not None and code is getattr(plain, "__code__", None):
            # notebooks replace the code of functions
            self.guards.append(Guard(f"{prefix}{plain.__name__}", "{0}.__code__ is {1}", (plain, code)))
        visit_names(self, prefix + getattr(plain, "__name__", type(plain).__name__), plain)
        if missing := frozenset(self.asked - getattr(plain, "__dict__", self.asked).keys()):
            self.guards.append(Guard(f"an attribute of {prefix}", "{1}.isdisjoint({0}.__dict__)", (plain, missing)))
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
        self.loads.update(attribute_loads(code))
        self.asked.update(optional or ())
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

    def loaded_from(self, value: Any) -> set[str]:
        """The attributes that code loads from a module or a path."""
        aliases = self.aliases.get(id(value), ())
        return {attribute for receiver, attribute in self.loads if receiver in aliases}

    def guard_value(self, name: str, text: str, objects: tuple, value: Any) -> None:
        """Guard that `text` over `objects` evaluates to this value, and visit the value."""
        expected = f"{{{len(objects)}}}"
        if is_simple(value):
            self.strings.update([value] if issubclass(type(value), str) else ())
            self.guards.append(Guard(name, f"{text} is {expected} or equal({text}, {expected})", (*objects, value)))
            return
        self.guards.append(Guard(name, f"{text} is {expected}", (*objects, value)))
        self.visit(name, value)

    def guard_inside(self, name: str, text: str, objects: tuple, value: Any) -> None:
        """As `guard_value`, for a part of an object that methods of a library use."""
        before, self.in_library = self.in_library, True
        try:
            self.guard_value(name, text, objects, value)
        finally:
            self.in_library = before

    def _callers_names(self) -> set[str]:
        """The names in the code that may use the object which is visited."""
        return self.mentioned | self.called if self.in_library else self.mentioned

    def guard_unless_refused(self, name: str, text: str, objects: tuple, value: Any) -> None:
        """As `guard_value`, without an error for a value that no guard can compare: the code is not known to use it."""
        count = len(self.files.paths)
        with suppress(CannotRepeat):
            self.guard_value(name, text, objects, value)
        del self.files.paths[count:]

    def visit(self, name: str, value: Any) -> None:
        """Add guards for the contents of an object that is known to be the same one.

        Types are compared by `issubclass(type(value), ...)`: `isinstance` reads `__class__`, which may run user code.
        """
        kind = type(value)
        if issubclass(kind, (types.ModuleType, PurePath)):
            word = re.split(r"\W", name)[-1]  # an argument has a number
            self.aliases.setdefault(id(value), set()).add("local" if word.isdecimal() else word)
        if id(value) in self.seen or is_simple(value):
            return
        self.files.others |= file_names_of(value)
        if issubclass(kind, random_streams()) or is_unrepeatable(value):
            raise unrepeatable(name)
        if has_hidden_state(kind) or is_opaque(kind, self._callers_names()):
            raise CannotRepeat(
                f"compile: {name} keeps its values where a compiled function cannot compare them from call to call; "
                "pass them as arguments"
            )
        self.seen.add(id(value))
        self.weak_ids.update([id(value)] if self.is_weak and type(value) is not types.FunctionType else ())
        visit_contents(self, name, value)

    def visit_weakly(self, name: str, value: Any) -> None:
        """Visit an object that the function does not keep alive, so that guards do not either."""
        before, self.is_weak = self.is_weak, True
        self.weak_ids.update([id(value)] if id(value) not in self.seen else ())
        try:
            self.visit(name, value)
        finally:
            self.is_weak = before
