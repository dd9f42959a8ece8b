"""The guards that are tested at every call: whatever of Python a function's code can reach by name and that changes
without a note.

Attributes of modules, parameters and buffers note their changes (`core.changes`); closures, globals, containers, plain
objects, classes and helper functions do not, so each of their values that the code may use has a condition of its own
here. What cannot be tested, such as the next value of an iterator, is refused.
"""

from __future__ import annotations

import array
import contextvars
import datetime
import functools
import gc
import importlib.util
import inspect
import operator
import os
import random
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
    ASK,
    asked_for,
    asks_classes,
    asks_types,
    computes_text,
    global_names,
    global_uses,
    imports_in,
    names_of,
    strings_in,
    written,
)

_UNREPEATABLE_MODULES = ("random", "time", "datetime", "secrets", "uuid", "glob")
_FILE_NAMES = {
    "read_text", "read_bytes", "iterdir", "is_file", "is_dir", "isfile", "isdir", "getsize", "getmtime", "listdir",
    "scandir", "getcwd", "loadtxt", "genfromtxt", "fromfile", "memmap", "check_output",
}  # fmt: skip
_OS_RANDOM = {"urandom", "getrandom"}  # of os
_REGISTRIES = ("_parameters", "_buffers", "_modules")
_NOTED_ATTRIBUTE = "_non_persistent_buffers_set"  # changes with the buffers only
_OPTIMIZER_ATTRIBUTES = {"param_groups", "state"}  # of an optimizer, which have guards of their own
# each use binds anew
_METHODS = (
    types.FunctionType,
    staticmethod,
    classmethod,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
)

# of tensors, or of who calls, which nothing compares from call to call
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
_UNREPEATABLE_BUILTINS = {"id", "open", "input"}  # functions of Python
_CATCHING_NAMES = {"AttributeError", "Exception", "BaseException"}
_WRAPPERS = {  # containers written in Python, and where they keep what they hold
    **dict.fromkeys((UserDict, UserList, weakref.WeakValueDictionary, weakref.WeakKeyDictionary, weakref.WeakSet),
        "data"), ChainMap: "maps",
}  # fmt: skip
_VIEWS = (types.MappingProxyType, KeysView, ValuesView, ItemsView)
_FORMULA_MODULES = tuple(f"{PACKAGE}.{name}" for name in ("distributions", "fft", "linalg", "nn", "special"))
_AUTOGRAD_METHODS = ("backward", "vjp", "jvp", "setup_context")  # of autograd.Function, which `apply` calls
_C_DESCRIPTORS = types.MemberDescriptorType, types.GetSetDescriptorType
_DESCRIPTORS = {  # of Python's library, and where they keep what they run
    (staticmethod, classmethod): ("__func__",), functools.cached_property: ("func",),
    functools.partialmethod: ("func", "args", "keywords"),
    functools.singledispatchmethod: ("func", "dispatcher"),
}  # fmt: skip
_CREATING_METHODS = ("__new__", "__init__", "__post_init__")
_IGNORED_METHODS = (
    "__repr__", "__str__", "__del__", "__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__copy__",
    "__deepcopy__", "__init_subclass__", "__class_getitem__",
)  # fmt: skip


def build_guards(function: Callable, roots: Sequence = (), without: frozenset = frozenset()) -> GuardBuilder:
    """The guards of a function and of objects it is given (`roots`), but for places `without`, and what its code asks.

    Raises CannotRepeat for what it uses and no guard can hold.
    """
    builder = GuardBuilder(without)
    while not builder.complete:
        builder.begin()
        builder.visit_function(function, "")
        for k, root in enumerate(roots):
            builder.visit_weakly(f"object {k} given", root)
        builder.guard_library_class("Tensor", Tensor)
        for hook in [hook for hooks in changes.everywhere for hook in hooks.values()]:
            builder.visit("a hook of all modules or optimizers", hook)
        for name, each in builder.optimizers:
            optimizers.guard(builder, name, each)
        for name, each in builder.schedules:
            optimizers.guard_schedule(builder, name, each)
        if builder.abstract and builder.checks_classes:
            builder.guards.append(
                Guard("what is registered with an abstract class", "{0}() == {1}", (get_cache_token, get_cache_token()))
            )
        for space, names in builder.missing_globals.values():
            builder.guards.append(
                Guard("a global that hides one of Python's", "{0}.keys().isdisjoint({1})", (space, frozenset(names)))
            )
    for guard in builder.guards:
        guard.loosen(builder.weak_ids)
    return builder


class GuardBuilder:
    """One way through all that a function reaches, and another one where code that was found late names what lies in an
    object that was found early.
    """

    def __init__(self, without: frozenset) -> None:
        self.excluded = without  # (id of a holder, key) of what the function is given
        self.mentioned: set[str] = set()  # names in the code
        self.strings: set[str] = set()  # keys that the code may use
        self.optional: set[str] = set()  # attributes that need not be there: another is taken, or an error caught
        self.any_name = False  # whether the code computes names of attributes
        self._extent_before: tuple | None = None  # how much of all that was known when this way began

    def begin(self) -> None:
        """Begin at the function again."""
        self._extent_before = self._extent()
        self.guards: list[Guard] = []
        self.seen: set[Any] = set()
        # ids of objects that guards do not keep alive: the caller's, and what weak references refer to
        self.weak_ids: set[int] = set()
        self.is_weak = False
        self.overrides: dict[type, set[str]] = {}  # by class of the user's: see `overriding`
        self.optimizers: list[tuple[str, Any]] = []  # looked into last, when it is known what the code mentions
        self.schedules: list[tuple[str, Any]] = []
        # namespaces, and the names that code takes from Python as they are not there
        self.missing_globals: dict[int, tuple[dict, set[str]]] = {}
        # whether abstract classes are reached, and code asks for classes
        self.checks_number_types = self.checks_classes = self.abstract = False
        # names of the math module, or of its functions, with what holds them
        self.math_places: list[tuple[Any, Any]] = []

    @property
    def complete(self) -> bool:
        """Whether all names were known before the guards were made."""
        return self._extent_before == self._extent()

    def input_expressions(self) -> list[str]:
        """What the code asks of tensors it is given that their layouts do not tell, as expressions."""
        found = [text for name, text in _ARGUMENT_ATTRIBUTES.items() if name in self.mentioned or self.any_name]
        missing = {each for each in self.optional if not hasattr(Tensor, each)}
        return found + ([f"{{}}.__dict__.keys().isdisjoint({sorted(missing)})"] if missing else [])

    def refuse_attributes(self, tensors: Sequence[Tensor]) -> None:
        """Raise CannotRepeat for an attribute that the user has given an argument and the code names."""
        for name in (
            key for tensor in tensors for key, _ in attributes_of(tensor) if key in self.mentioned or self.any_name
        ):
            raise CannotRepeat(
                f"compile: an argument has an attribute, {name}, which the next call's may have another value of; "
                "give that as an argument"
            )

    def _extent(self) -> tuple:
        return len(self.mentioned), len(self.strings), len(self.optional), self.any_name

    def visit_function(self, function: Callable, prefix: str) -> None:
        """Everything the code of a function reaches."""
        function = written(function)
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is not None:
            self.read_code(code)
            space = getattr(getattr(function, "__func__", function), "__globals__", {})
            for each in imports_in(code):
                self.visit_import(each, space.get("__package__"))
            if missing := [each for each, stored in global_uses(code).items() if not stored and each not in space]:
                self.missing_globals.setdefault(id(space), (space, set()))[1].update(missing)
        for text, owner, name, value in names_of(function):
            self.abstract |= issubclass(type(value), ABCMeta)
            if id(value) in STAND_INS and isinstance(owner, (dict, types.CellType)):
                self.math_places.append((owner, name))
            if owner is None:
                self.visit(prefix + name, value)  # the function's own object is the one it was bound to
            elif _is_fixed(name, value):
                self.visit(prefix + name, value if issubclass(type(value), types.ModuleType) else None)
                self.guard_library_class(name, value)
            elif (id(owner), name) not in self.excluded:
                self.guard_value(prefix + name, text, (owner,), value)
        own = getattr(function, "__func__", function)
        self.visit(f"{prefix}registry", getattr(own, "registry", None))  # of functools.singledispatch
        if code is not None and code is getattr(own, "__code__", None):
            # notebooks put new code into functions
            self.guards.append(Guard(f"{prefix}{own.__name__}", "{0}.__code__ is {1}", (own, code)))
        for key in sorted(self.mentioned & getattr(own, "__dict__", {}).keys()):
            self.guard_value(f"{prefix}{own.__name__}.{key}", f"{{0}}.{key}", (own,), own.__dict__[key])

    def read_code(self, code: types.CodeType) -> None:
        """The names in a code."""
        names, asked = global_names(code), asked_for(code)
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
                    f"compile: {code.co_name} asks for {name}, which may be another at the next call; ask outside the "
                    "compiled function"
                )
        self.mentioned.update(names, asked or ())
        self.optional.update(names if not _CATCHING_NAMES.isdisjoint(names) else (), asked or ())
        self.strings.update(strings_in(code))
        self.any_name |= asked is None
        self.checks_number_types |= asks_types(code)
        self.checks_classes |= asks_classes(code)

    def visit_import(self, name: str, package: str | None) -> None:
        """The module that code imports by itself, and those it lies in, once they have been imported."""
        whole = importlib.util.resolve_name(name, package) if package or name[0] != "." else ""
        parts = whole.split(".")
        for each in [".".join(parts[: k + 1]) for k in range(len(parts))]:
            if each in sys.modules:
                self.visit(each, sys.modules[each])

    def guard_value(self, name: str, text: str, objects: tuple, value: Any) -> None:
        """A guard that `text` over `objects` gives this value, and those of what lies in it."""
        place = f"{{{len(objects)}}}"
        if is_simple(value):
            self.strings.update([value] if issubclass(type(value), str) else ())
            self.guards.append(Guard(name, f"{text} is {place} or equal({text}, {place})", (*objects, value)))
            return
        self.guards.append(Guard(name, f"{text} is {place}", (*objects, value)))
        self.visit(name, value)

    def visit(self, name: str, value: Any) -> None:
        """What lies in a thing that is known to be the same object.

        `isinstance` would ask for its `__class__`, which may run a user's code.
        """
        kind = type(value)
        if id(value) in self.seen or is_simple(value):
            return
        if issubclass(kind, _random_streams()) or _is_unrepeatable(value):
            raise _unrepeatable(name)
        self.seen.add(id(value))
        self.weak_ids.update([id(value)] if self.is_weak and type(value) is not types.FunctionType else ())
        if issubclass(kind, Tensor):
            self.visit_hooks(name, value)
            for key, each in attributes_of(value):
                if key in self.mentioned or self.any_name:
                    self.guard_value(f"{name}.{key}", f"{{0}}.{key}", (value,), each)
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
            key = next(_WRAPPERS[each] for each in kind.__mro__ if each in _WRAPPERS)
            self.guard_value(
                f"{name}.{key}", f"attribute({{0}}, {key!r})", (value,), objects.read_attribute(value, key)
            )
            self.visit_attributes(name, value, kind)
        elif issubclass(kind, _VIEWS) and of_library(kind):
            for get_referent in gc.get_referents(value):
                self.visit(name, get_referent)
        elif issubclass(kind, functools._lru_cache_wrapper):
            self.visit_cache(name, value)
        elif issubclass(kind, weakref.ref):
            self.visit_weak_reference(name, value)
        elif issubclass(kind, contextvars.ContextVar):
            self.guard_value(name, "{0}.get({1})", (value, None), value.get(None))
        elif issubclass(kind, (operator.attrgetter, operator.methodcaller)):
            self.mentioned.update(
                part for each in value.__reduce__()[1] if isinstance(each, str) for part in each.split(".")
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
            for each in parameters_of(value):
                self.visit(f"{name}'s parameter", each)
            for hook in [*step_hooks(value).values(), *methods_put_into(value).values()]:
                self.visit(f"{name}'s hooks", hook)
            self.visit_object(name, value)
        elif hasattr(kind, "__next__"):
            raise _unrepeatable(name)
        elif issubclass(kind, type):
            self.abstract |= issubclass(kind, ABCMeta)
            self.visit_attributes(name, value, value)
            if not of_library(kind):  # its metaclass
                self.visit_attributes(name, value, kind)
        elif issubclass(kind, types.BuiltinFunctionType):
            self.any_name |= value.__name__ in ASK  # under another name
            self.visit(f"{name}.__self__", None if isinstance(value.__self__, types.ModuleType) else value.__self__)
        elif issubclass(kind, types.MethodWrapperType):
            self.visit(f"{name}.__self__", value.__self__)
        else:
            self.visit_object(name, value)

    def visit_cache(self, name: str, value: Any) -> None:
        """A function with its results, which it gives again for the same arguments."""
        tables = [
            get_referent
            for get_referent in gc.get_referents(value)
            if type(get_referent) is dict and get_referent is not vars(value)
        ]
        if any(
            isinstance(part, Tensor)
            for table in tables
            for key in table
            for part in (key if isinstance(key, (tuple, list)) else [key])
        ):
            raise CannotRepeat(
                f"compile: {name} keeps results for tensors by their identity (functools.cache), which the next "
                "call's do not have"
            )
        # cleared: 0
        self.guards.append(
            Guard(
                f"the results that {name} keeps", "{0}.cache_info().misses >= {1}", (value, value.cache_info().misses)
            )
        )
        self.visit_function(value.__wrapped__, f"{name}: ")

    def visit_namespace(self, name: str, module: types.ModuleType) -> None:
        """Those of an imported module's names that the code mentions."""
        root = module.__name__.partition(".")[0]
        inside = [vars(module)[each] for each in self.mentioned & vars(module).keys()]
        inside += [
            vars(part)[each]
            for part in inside
            if isinstance(part, types.ModuleType)
            for each in self.mentioned & vars(part).keys()
        ]
        self.abstract |= any(isinstance(each, ABCMeta) for each in inside)
        if root in _UNREPEATABLE_MODULES or (
            root == "numpy" and ("random" in self.mentioned or module.__name__.startswith("numpy.random"))
        ):
            raise _unrepeatable(module.__name__)
        if module is os and not self.mentioned.isdisjoint(_OS_RANDOM):
            raise _unrepeatable(module.__name__)
        if module is os and self.mentioned & {"environ", "getenv"}:
            self.visit("os.environ", os.environ)
        if module is sys and "argv" in self.mentioned:
            self.guard_value("sys.argv", "{0}.argv", (sys,), sys.argv)
        if not is_library(root):
            self.visit_attributes(name, module, module)
        elif root == PACKAGE:
            for key, each in [(key, vars(module)[key]) for key in sorted(self.mentioned & vars(module).keys())]:
                if isinstance(each, types.ModuleType):
                    self.visit(f"{name}.{key}", each)
                elif isinstance(each, (types.FunctionType, type)):  # another may be put in its place
                    self.guard_value(f"{name}.{key}", f"{{0}}.{key}", (module,), each)

    def visit_hooks(self, name: str, tensor: Tensor) -> None:
        """The hooks of a leaf that has some: it notes the first one."""
        for table in (tensor._hooks, tensor._after_hooks):
            if table is not None:
                self.visit_container(f"{name}'s hooks", table)

    def visit_container(self, name: str, value: list | tuple | dict | deque) -> None:
        """The length and the items of a container."""
        fixed, base = issubclass(type(value), tuple), objects.base_of(type(value))
        own = type(value) is not base or base is defaultdict  # whose class may have methods of its own
        given = {key for holder, key in self.excluded if holder == id(value) and type(key) is not objects.Attribute}
        if issubclass(type(value), dict) and all(dict.__contains__(value, key) for key in given):
            self.guard_members(f"len({name})", value)
        elif not fixed:
            count = len(objects.members_of(value)) - (
                sum(key in given for key in objects.members_of(value)) if issubclass(type(value), dict) else 0
            )
            length = "{2}({0})" if own else "len({0})"
            text = (
                f"{length} - sum({{4}}({{0}}, key) for key in {{3}})"
                if issubclass(type(value), dict) and given
                else length
            )
            self.guards.append(
                Guard(
                    f"len({name})",
                    f"{text} == {{1}}",
                    (value, count, base.__len__, given, getattr(base, "__contains__", None)),
                )
            )
        if issubclass(type(value), defaultdict):
            made = objects.DEFAULT.__get__(value)
            self.guard_value(f"what {name} makes", "{1}.__get__({0})", (value, objects.DEFAULT), made)
        for position, (key, each) in enumerate(objects.items_of(value)):
            if fixed:
                self.visit(f"{name}[{key}]", each)
            elif not given or key not in given:
                plainly = is_plain_key(key) or of_library(type(key))
                text = f"value_at({{0}}, {position})" if not plainly else "item({0}, {1})" if own else "{0}[{1}]"
                self.guard_value(f"{name}[{worded(key)}]", text, (value, key), each)

    def guard_members(self, name: str, value: set | frozenset | dict) -> None:
        """The members of a set or the keys of a dictionary, in their order: by their values where all are plain, or by
        identity.
        """
        found, base = tuple(objects.members_of(value)), objects.base_of(type(value))
        inside = "{0}" if type(value) is base else "{2}({0})"
        plainly = all(map(is_plain_key, found))
        if plainly and issubclass(type(value), dict):
            self.guards.append(Guard(name, f"tuple({inside}) == {{1}}", (value, found, base.__iter__)))
            return
        text = f"{{3}}({{0}}) == len({{1}}) and all(map({'equal' if plainly else '{4}'}, {inside}, {{1}}))"
        self.guards.append(Guard(name, text, (value, found, base.__iter__, base.__len__, operator.is_)))
        for each in found if not plainly else ():
            self.visit(f"a member of {name}", each)

    def guard_buffer(self, name: str, value: Any) -> None:
        """The memory of an array, by its bytes, and how it is laid out."""
        if issubclass(type(value), bytearray):
            self.guards.append(Guard(name, "{2}({0}, {1})", (value, bytes(value), bytearray.__eq__)))
            return
        kind = next(each for each in (np.ndarray, array.array, memoryview) if issubclass(type(value), each))
        self.guards.append(Guard(name, "{2}({0}) == {1}", (value, kind.tobytes(value), kind.tobytes)))
        if kind is np.ndarray:
            plain = np.ndarray.view(value, np.ndarray)
            layout = [vars(np.ndarray)[name].__get__ for name in ("shape", "dtype")]
            self.guards.append(Guard(name, "({2}({0}), {3}({0})) == {1}", (value, (plain.shape, plain.dtype), *layout)))
            for k, each in enumerate(plain.flat if plain.dtype.hasobject else ()):
                self.visit(f"{name}[{k}]", each)

    def visit_weak_reference(self, name: str, value: weakref.ref) -> None:
        """A weak reference: whether what it refers to is there still. Guards do not keep that alive."""
        found = value()
        if isinstance(found, Tensor):
            raise CannotRepeat(
                f"compile: {name} is a weak reference to a tensor, with which code may compare arguments; give the "
                "tensor as an argument"
            )
        self.guards.append(
            Guard(name, f"{{1}}({{0}}) is {'not ' if found is not None else ''}None", (value, weakref.ref.__call__))
        )
        self.visit_weakly(name, found)

    def visit_weakly(self, name: str, value: Any) -> None:
        """Visit what the function itself does not keep alive."""
        before, self.is_weak = self.is_weak, True
        self.weak_ids.update([id(value)] if id(value) not in self.seen else ())
        try:
            self.visit(name, value)
        finally:
            self.is_weak = before

    def visit_object(self, name: str, value: Any) -> None:
        """The parts of a module that do not note changes, or the attributes of a plain object."""
        if is_module(value):
            self.guards.append(Guard(f"the class of {name}", "type({0}) is {1}", (value, type(value))))
            given = {key for holder, key in self.excluded if holder == id(value)}
            # then it takes a look at each attribute, and the library's classes note theirs
            if not (given and of_library(type(value))):
                self.guards.append(sized(f"the attributes of {name}", value, given))
            for key, each in list(objects.dictionary(value).items()):
                if key in _REGISTRIES:
                    for inner, part in list(each.items()):
                        self.visit(f"{name}.{inner}", part)
                elif key in ("_forward_hooks", "_forward_pre_hooks"):
                    for hook in each.values():
                        self.visit(f"{name}.{key}", hook)
                elif "_hooks" not in key and key != _NOTED_ATTRIBUTE:
                    if (
                        pytree.is_structure(each)
                        and not of_library(type(each))
                        and (id(value), key) not in self.excluded
                    ):
                        self.guards.append(entry(name, value, key))
                    self.visit(f"{name}.{key}", each)
        elif package_of(type(value)) == PACKAGE:
            self.visit_library_object(name, value)
        self.visit_attributes(name, value, type(value))

    def visit_library_object(self, name: str, value: Any) -> None:
        """The numbers and tensors of an object of this library that methods use which the code mentions (a loss scale,
        say), and containers that it mentions itself.
        """
        used = _called_names(type(value), self.mentioned)
        for key, attribute in objects.attributes(value).items():
            if (key in used and (issubclass(type(attribute), Tensor) or is_simple(attribute))) or (
                key in self.mentioned - _OPTIMIZER_ATTRIBUTES and isinstance(attribute, (list, dict))
            ):
                self.guard_value(f"{name}.{key}", f"{{0}}.{key}", (value,), attribute)

    def visit_attributes(self, name: str, value: Any, kind: type | types.ModuleType) -> None:
        """Attributes that the code mentions: values are guarded, the code of methods is looked into.

        Of a library's object, what lies in it.
        """
        if not is_module(value) and value is not kind:
            self.guard_dictionary(name, value)
        if isinstance(kind, type):
            self.guard_library_class(name, kind)
        if of_library(kind):
            return
        if not is_module(value) and value is not kind:
            self.guards.append(Guard(f"the class of {name}", "type({0}) is {1}", (value, kind)))
        for holder in _user_classes(kind):
            self.guard_absence(name, holder)
        known, held = set(), {} if value is kind else objects.attributes(value)
        unnamed = {
            "forward",
            *_implicit_methods(kind, value is kind),
            *self.overriding_methods(kind),
            *(_AUTOGRAD_METHODS if _is_autograd_function(kind) else ()),
        }
        while found := [
            each
            for each in self.mentioned | unnamed
            if each not in known and (not each.startswith("__") or each in unnamed)
        ]:
            known.update(found)
            for key in sorted(found):
                self.visit_attribute(name, value, kind, key, held)
        if isinstance(kind, type):
            self.guard_inherited(kind, {*known, "__call__"})
            self.guards.append(Guard(f"the bases of {kind.__name__}", "{0}.__mro__ is {1}", (kind, kind.__mro__)))

    def overriding_methods(self, kind: type | types.ModuleType) -> set[str]:
        """The methods and properties in a user's class that methods of this library's call, as theirs."""
        if kind not in self.overrides:
            library = [each for each in kind.__mro__ if package_of(each) == PACKAGE] if isinstance(kind, type) else []
            own = (
                {
                    key
                    for holder in _user_classes(kind)
                    for key in vars(holder)
                    if any(key in vars(base) for base in library)
                }
                if library
                else set()
            )
            self.overrides[kind] = own & _called_names(kind, self.mentioned | {"forward", "step"}) if own else own
        return self.overrides[kind]

    def guard_inherited(self, kind: type, names: set[str]) -> None:
        """Guards that none of the user's classes comes to have a method of its own in the stead of one that a later
        class gives.
        """
        methods = {
            key
            for key in names
            if isinstance(inspect.getattr_static(kind, key, None), (*_METHODS, property, functools.cached_property))
        }
        for holder in _user_classes(kind):
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

    def guard_namespaces(self, thing: Any) -> None:
        """Guards that nobody changes the namespaces in which functions of this library's are written in terms of
        others: a function's, or those of a class.
        """
        written = [
            inspect.unwrap(each)
            for each in (vars(thing).values() if isinstance(thing, type) else [thing])
            if isinstance(each, types.FunctionType)
        ]
        for space in [each.__globals__ for each in written]:
            if space["__name__"].startswith(_FORMULA_MODULES) and (id(space), None) not in self.seen:
                self.seen.add((id(space), None))
                self.guards.append(unwritten(space["__name__"], space))

    def guard_library_class(self, name: str, kind: Any) -> None:
        """A guard that nobody changes a class of this library, which is this one or a base of it, and what the user's
        functions among its methods reach.
        """
        own = (
            next((each for each in kind.__mro__ if package_of(each) == PACKAGE), None)
            if isinstance(kind, type)
            else None
        )
        if own is None or (id(own), None) in self.seen:
            return
        self.seen.add((id(own), None))
        self.guards.append(unwritten(f"the class {own.__name__}", own))
        self.guard_namespaces(own)
        inside = [
            (key, each)
            for holder in own.__mro__[:-1]
            for key, each in vars(holder).items()
            if isinstance(each, types.FunctionType)
        ]
        if theirs := [(key, each) for key, each in inside if not of_library(each)]:
            used = _called_names(own, self.mentioned | {"forward", "__call__"})
            for key, each in theirs:
                if key in used:
                    self.visit(f"{name}.{key}", each)
        F = vars(sys.modules[f"{PACKAGE}.nn.functional"])
        if hasattr(own, "register_buffer") and (id(F), None) not in self.seen:  # whose functions layers call
            self.seen.add((id(F), None))
            self.guards.append(unwritten(F["__name__"], F))

    def guard_dictionary(self, name: str, value: Any) -> None:
        """What a plain object has in its dictionary: all of it where code computes names, of a library's object what
        code names, and plain values, which its methods use; and that it has nothing more which code would take.
        """
        inside, present = objects.dictionary(value), objects.attributes(value)
        for key in sorted(each for each in self.optional & objects.slots_of(type(value)).keys() if each not in present):
            self.guards.append(Guard(f"{name}.{key}", f"lacks({{0}}, {key!r})", (value,)))
        if inside is None or package_of(type(value)) == PACKAGE or is_optimizer(value):
            return
        asked = any(
            key[0] != "_" and isinstance(each, types.FunctionType)
            for base in type(value).__mro__
            for key, each in vars(base).items()
        )
        used = (
            {key for key, each in inside.items() if key in self.mentioned or (asked and is_simple(each))}
            if of_library(type(value))
            else ()
        )
        for key in sorted(inside if self.any_name else used):
            if (
                not key.startswith("__")
                and (id(value), objects.place_of(value, key)) not in self.excluded
                and not _is_fixed(key, inside[key])
            ):
                with nullcontext() if key in self.mentioned else suppress(CannotRepeat):
                    self.guard_value(f"{name}.{key}", f"attribute({{0}}, {key!r})", (value,), inside[key])
        if self.any_name and not of_library(type(value)):
            self.guards.append(
                Guard(f"the attributes of {name}", "dictionary({0}).keys() == {1}", (value, frozenset(inside)))
            )
        # which gives what is not there
        optional = self.mentioned | self.optional if _class_attribute(type(value), "__getattr__") else self.optional
        missing = frozenset(
            each for each in optional if each not in inside and _class_attribute(type(value), each) is None
        )
        if missing:
            self.guards.append(Guard(f"an attribute of {name}", "{1}.isdisjoint(dictionary({0}))", (value, missing)))

    def guard_absence(self, name: str, holder: type | types.ModuleType) -> None:
        """A guard that a class or a module of the user's has not come to have what code would take if it were there."""
        names = self.mentioned | self.optional if _has_module_getattr(holder) else self.optional
        missing = frozenset(names - vars(holder).keys())
        if missing and (id(holder), None) not in self.seen:
            self.seen.add((id(holder), None))
            self.guards.append(Guard(f"an attribute of {name}", "{1}.isdisjoint({0}.__dict__)", (holder, missing)))

    def visit_attribute(
        self, name: str, value: Any, kind: type | types.ModuleType, key: str, held: dict[str, Any]
    ) -> None:
        """An attribute by its name: the value that the object (in `held`) or its class has, and the code of a
        descriptor, such as a method. None of it runs.
        """
        descriptor = _class_attribute(kind, key)
        if is_compiled(descriptor):
            self.visit(f"{name}.{key}", descriptor)
            return
        if _runs_code(descriptor) and (is_module(value) or key not in held or hasattr(type(descriptor), "__set__")):
            self.visit_descriptor(name, value, kind, key, descriptor)
        own = is_module(value) and any(key in objects.dictionary(value)[registry] for registry in _REGISTRIES)
        if own and key in held and held[key] is not None and (id(value), key) not in self.excluded:
            self.guards.append(entry(name, value, key))
        own = own or (is_optimizer(value) and key in _OPTIMIZER_ATTRIBUTES)
        if key in held:
            if not (own or (id(value), objects.place_of(value, key)) in self.excluded or _is_fixed(key, held[key])):
                text = f"{{0}}.{key}" if objects.reads_plainly(type(value), key) else f"attribute({{0}}, {key!r})"
                self.guard_value(f"{name}.{key}", text, (value,), held[key])
        elif (
            not (own or _runs_code(descriptor))
            and any(key in vars(holder) for holder in _user_classes(kind))
            and not _is_fixed(key, descriptor)
        ):
            if not isinstance(descriptor, types.MemberDescriptorType):
                self.visit_class_attribute(name, value, kind, key, descriptor)

    def visit_class_attribute(self, name: str, value: Any, kind: type | types.ModuleType, key: str, found: Any) -> None:
        """What an object has from its class."""
        if (id(value), objects.place_of(value, key)) in self.excluded:
            return
        if objects.reads_plainly(type(value), key) and key.isidentifier():
            self.guard_value(f"{name}.{key}", f"{{0}}.{key}", (value,), found)
            return
        self.guard_definition(name, kind, key)
        self.guard_not_in_dictionary(name, value, kind, key)
        self.visit(f"{name}.{key}", found)

    def visit_descriptor(self, name: str, value: Any, kind: type | types.ModuleType, key: str, descriptor: Any) -> None:
        """The code that runs where an attribute is asked for, or called."""
        self.guard_definition(name, kind, key)
        self.guard_not_in_dictionary(name, value, kind, key)
        for code in _functions_of(descriptor):
            self.visit(f"{name}.{key}", code)
        if "super" in self.mentioned:
            self.visit_overridden(name, kind, key)

    def guard_not_in_dictionary(self, name: str, value: Any, kind: type | types.ModuleType, key: str) -> None:
        """A guard that an object itself has no attribute that its class gives."""
        if (
            not is_module(value)
            and value is not kind
            and objects.dictionary(value) is not None
            and key not in objects.dictionary(value)
        ):
            self.guards.append(Guard(f"{name}.{key}", f"{key!r} not in dictionary({{0}})", (value,)))

    def visit_overridden(self, name: str, kind: type | types.ModuleType, key: str) -> None:
        """The methods of this name of the user's classes after the first that has one, which `super()` finds."""
        for holder in [holder for holder in _user_classes(kind) if key in vars(holder)][1:]:
            self.guard_definition(f"{name}: {holder.__name__}", holder, key)
            for code in _functions_of(vars(holder)[key]):
                self.visit(f"{name}: {holder.__name__}.{key}", code)

    def guard_definition(self, name: str, kind: type | types.ModuleType, key: str) -> None:
        """A guard that a class or module of the user's still has the function of this name."""
        holder = next(holder for holder in _user_classes(kind) if key in vars(holder))
        if (id(holder), key) not in self.seen:
            self.seen.add((id(holder), key))
            inside = vars(holder)  # what a class gives is made anew, which takes longer than a look into it
            self.guards.append(Guard(f"{name}.{key}", f"{{0}}[{key!r}] is {{1}}", (inside, inside[key])))


def _runs_code(descriptor: Any) -> bool:
    """Whether code decides what an attribute is, or it is a method, which each use binds anew."""
    return isinstance(descriptor, _METHODS) or (
        hasattr(type(descriptor), "__get__") and not isinstance(descriptor, _C_DESCRIPTORS)
    )


def _functions_of(descriptor: Any) -> list:
    """The functions that a method, a property or another descriptor runs, or that object, whose methods are looked
    into.
    """
    if isinstance(descriptor, property):
        return [each for each in (descriptor.fget, descriptor.fset, descriptor.fdel) if each is not None]
    for kind, names in _DESCRIPTORS.items():
        if isinstance(descriptor, kind):
            return [getattr(descriptor, name) for name in names]
    return [descriptor]


def _unrepeatable(name: str) -> CannotRepeat:
    return CannotRepeat(
        f"compile: {name} gives another value at every use, which a compiled function cannot repeat; draw with "
        "numod.rand, or give the value as an argument"
    )


def _implicit_methods(kind: type | types.ModuleType, makes: bool) -> list[str]:
    """The methods that code calls without their names:

    `a[k]`, `with a`, and those that make an object, where it has the class (`makes`). Modules are made outside.
    """
    if isinstance(kind, types.ModuleType):
        return ["__getattr__"] if _has_module_getattr(kind) else []
    own = [
        key
        for each in kind.__mro__
        if not of_library(each)
        for key in vars(each)
        if key.startswith("__") and isinstance(vars(each)[key], _METHODS)
    ]
    return [
        key
        for key in own
        if (makes and not hasattr(kind, "register_buffer") if key in _CREATING_METHODS else key not in _IGNORED_METHODS)
    ]


def _has_module_getattr(holder: type | types.ModuleType) -> bool:
    """Whether a module has a function that gives the attributes which it lacks."""
    return isinstance(holder, types.ModuleType) and "__getattr__" in vars(holder)


def _is_autograd_function(kind: type | types.ModuleType) -> bool:
    """Whether it is an `autograd.Function`. Modules are not asked: their own code would run."""
    return isinstance(kind, type) and hasattr(kind, "setup_context")


def _called_names(kind: type, names: set[str]) -> set[str]:
    """These names, and those in the code of a class's methods and properties that are called by one of them."""
    used, waiting = set(), list(names)
    while waiting:
        key = waiting.pop()
        if key not in used:
            used.add(key)
            method = inspect.getattr_static(kind, key, None)
            method = method.fget if isinstance(method, property) else method
            if isinstance(method, types.FunctionType):
                waiting += global_names(inspect.unwrap(method).__code__)
    return used


def _class_attribute(kind: type | types.ModuleType, key: str) -> Any:
    """A class's attribute as it stands there, or a module's name."""
    return next((vars(holder)[key] for holder in _user_classes(kind) if key in vars(holder)), None)


def _user_classes(kind: type | types.ModuleType) -> list[type | types.ModuleType]:
    """Where its attributes may stand: the module, or the class and those of its bases that are the user's."""
    return [kind] if isinstance(kind, types.ModuleType) else [each for each in kind.__mro__ if not of_library(each)]


def _is_fixed(name: str, value: Any) -> bool:
    """Whether it is a library's module or class, or a function in C, under its own name, which nobody puts another in
    the place of.
    """
    if issubclass(type(value), types.ModuleType):
        root = value.__name__.partition(".")[0]
        return is_library(root) and root not in {*_UNREPEATABLE_MODULES, "numpy", "os"}
    return (
        issubclass(type(value), (types.BuiltinFunctionType, type))
        and of_library(value)
        and value.__name__ == name
        and not _is_unrepeatable(value)
    )


def _is_unrepeatable(value: Any) -> bool:
    """Whether it is a function that gives another value at every use, as random numbers and clocks do, under whatever
    name; or a class of dates.
    """
    if value is datetime.datetime or value is datetime.date:
        return True
    generators = vars(np).get("random")
    kinds = (
        types.FunctionType,
        types.MethodType,
        types.BuiltinFunctionType,
        *([type(generators.default_rng)] if generators else []),
    )
    if not issubclass(type(value), kinds):
        return False
    known = (
        package_of(value) in _UNREPEATABLE_MODULES
        or value.__name__ in _OS_RANDOM
        or str(value.__module__).startswith("numpy.random")
    )
    return known or isinstance(getattr(value, "__self__", None), _random_streams())


def _random_streams() -> tuple[type, ...]:
    """Classes of streams of random numbers.

    NumPy's only once something has imported `numpy.random`, which takes a tenth of the time that numod takes.
    """
    generators = vars(np).get("random")
    return (random.Random, generators.Generator, generators.RandomState) if generators else (random.Random,)
