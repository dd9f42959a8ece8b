"""`numod.overrides`: PyTorch's `__torch_function__`, by which classes and modes override public functions.

Tensor's own `__torch_function__` gives a subclass results of its class.

Plain tensors pay nothing for it. When the first class or mode that overrides functions appears, the code object of
every public function, method and attribute is replaced by a trampoline (`_trampoline`) that looks at the types of the
arguments first; the function objects stay the same. A class that is no Tensor is noticed when the first function fails
on it (`appears`).
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FunctionType, ModuleType
from typing import Any, NoReturn

from .apply import listeners, tell_overridden
from .recode import behind, original, recoded
from .signatures import Documented
from .tensor import Tensor, fields_of

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "get_ignored_functions", "get_overridable_functions",
    "handle_torch_function", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic",
    "is_tensor_like", "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
]  # fmt: skip

# whose functions can be overridden, under the first name that they have there; set by `numod`
homes: list[ModuleType] = []
others: list[FunctionType] = []  # further ones, of modules that do not compute by public functions
_TOP = __name__.partition(".")[0]
_CREATION = """arange as_tensor asarray bartlett_window blackman_window empty empty_permuted empty_strided eye
    from_file from_numpy frombuffer full hamming_window hann_window kaiser_window linspace logspace ones rand
    randint randn randperm range scalar_tensor tensor tril_indices triu_indices zeros"""
_IGNORED = """broadcast_shapes from_dlpack get_printoptions get_rng_state initial_seed is_storage is_tensor
    manual_seed seed set_default_tensor_type set_printoptions set_rng_state to_dlpack typename"""
_OPERATORS = {  # as which method an operator is seen, where it is not as itself
    "add": "add", "radd": "add", "iadd": "add_", "sub": "sub", "isub": "sub_", "mul": "mul", "rmul": "mul",
    "imul": "mul_", "truediv": "div", "itruediv": "div_", "ifloordiv": "floor_divide_", "mod": "remainder",
    "imod": "remainder_", "matmul": "matmul", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "ne": "ne",
    "rand": "bitwise_and", "ror": "bitwise_or", "rxor": "bitwise_xor",
}  # fmt: skip
_ITSELF = """eq rsub rtruediv floordiv rfloordiv rmod pow rpow ipow rmatmul and or xor
    lshift rshift rlshift rrshift iand ior ixor ilshift irshift""".split()
_PROTOCOL = {"neg": "neg", "pos": "positive", "abs": "abs"} | dict.fromkeys(
    "invert getitem setitem delitem len bool int float complex index contains repr format reversed array array_wrap "
    "deepcopy reduce_ex".split()
)


class _State(threading.local):
    """Per thread: the modes inside which it is, the innermost last, and whether (1) classes or (2) modes too are left
    alone.
    """

    modes: tuple = ()
    disabled = 0


state = _State()
_entered: list[object] = []  # an entry for every mode entered on any thread: reading thread-local state takes time
# classes that override nothing
_ordinary: set[type] = {Tensor, bool, int, float, complex, str, bytes, type(None), slice, type(...)}
overridable: dict[Callable, str] = {}  # of all that can be overridden; empty until the first class or mode appears
_creation: set[Callable] = set()
_public: dict[Callable, Callable] = {}  # a function that a public one is made of -> that one
_lock = threading.Lock()


# ---- finding out whether a call is taken over


def overrides(kind: type) -> bool:
    """Whether a class has a `__torch_function__` that is not switched off."""
    if kind in _ordinary:
        return False
    found = getattr(kind, "__torch_function__", _disabled_torch_function_impl) not in (
        None,
        _disabled_torch_function_impl,
    )
    # those of users may get one later, and are not kept alive
    ours = kind.__module__.partition(".")[0] in ("builtins", "numpy", _TOP)
    if not found and ours and not issubclass(kind, (list, tuple)):
        _ordinary.add(kind)
    return found


def _overloaded(arguments: Iterable, found: list | None = None) -> list:
    """One argument of each class that overrides functions, also in lists and tuples: from left to right, but a class
    before those it is derived from.
    """
    found = [] if found is None else found
    for argument in arguments:
        kind = type(argument)
        if kind in _ordinary:
            continue
        if overrides(kind):
            if kind not in map(type, found):
                found.insert(
                    next((k for k, other in enumerate(found) if issubclass(kind, type(other))), len(found)), argument
                )
        elif issubclass(kind, (list, tuple)):
            inside = (
                argument
                if kind is list or kind is tuple
                else list(list.__iter__(argument) if issubclass(kind, list) else tuple.__iter__(argument))
            )
            if not _ordinary.issuperset(map(type, inside)):
                _overloaded(inside, found)
    return found


def _asked(
    function: Callable, plain: Callable | None, arguments: tuple, named: dict, relevant: Iterable | None = None
) -> Any:
    """What the thread's innermost mode, or the first class that does, makes of the call; the plain function where there
    is neither. NotImplemented where none takes it over.
    """
    modes, disabled = state.modes if _entered and state.disabled < 2 else (), state.disabled
    found = [] if disabled else _overloaded((*arguments, *named.values()) if relevant is None else relevant)
    if not modes and not found and plain is not None:
        return plain(*arguments, **named)
    types = tuple(map(type, found))
    tell_overridden(overridable.get(function, ""))
    if modes:
        state.modes = modes[:-1]
        try:
            result = modes[-1].__torch_function__(function, types, arguments, named)
        finally:
            state.modes = modes
        if result is not NotImplemented:
            return result
    for each in found:
        result = each.__torch_function__(function, types, arguments, named)
        if result is not NotImplemented:
            return result
    return NotImplemented


def _dispatch(
    function: Callable, plain: Callable | None, arguments: tuple, named: dict, relevant: Iterable | None = None
) -> Any:
    """What `_asked` gives.

    Raises TypeError if neither a mode nor a class takes over the call, and there is no plain function.
    """
    result = _asked(function, plain, arguments, named, relevant)
    if result is not NotImplemented:
        return result
    found = _overloaded((*arguments, *named.values()) if relevant is None else relevant)
    who = ", ".join([type(each).__qualname__ for each in (*state.modes[-1:], *found)])
    raise TypeError(
        f"no implementation found for '{overridable.get(function) or getattr(function, '__qualname__', function)}' on "
        "types that implement __torch_function__: "
        + (f"{who} returned NotImplemented" if who else "none of the arguments has such a type")
    )


# ---- the codes that functions are given. `plain` and the other free names are given by `recoded`


def _trampoline(*arguments: object, **named: object) -> object:
    if ordinary(map(type, arguments)) and not named and not entered:  # noqa: F821
        return plain(*arguments)  # noqa: F821
    return dispatch(function, plain, arguments, named)  # noqa: F821


def _operator_door(*arguments: object) -> object:
    if ordinary(map(type, arguments)) and not entered:  # noqa: F821
        return plain(*arguments)  # noqa: F821
    return operate(function, plain, arguments)  # noqa: F821


def _operate(function: Callable, plain: Callable, arguments: tuple) -> Any:
    """The same of an operator: what is given no result leaves it to Python to ask the other operand."""
    try:
        return _asked(function, plain, arguments, {})
    except TypeError:
        if isinstance(arguments[1], (Tensor, int, float, complex)):
            raise
        return NotImplemented


def _creation_door(*arguments: object, **named: object) -> object:
    if ordinary(map(type, arguments)) and not entered:  # noqa: F821
        return plain(*arguments, **named)  # noqa: F821
    return dispatch(function, alone(plain), arguments, named, ())  # noqa: F821


def _alone(plain: Callable) -> Callable:
    """The function of plain tensors, whatever its arguments."""
    return lambda *arguments, **named: _disabled_torch_function_impl(plain, (), arguments, named)


def _install() -> None:
    """Give all public functions their doors, once."""
    with _lock:
        if overridable:
            return
        for home in homes:
            for name, function in list(vars(home).items()):
                if (
                    isinstance(function, FunctionType)
                    and not name.startswith("_")
                    and _overridable(home, name, function)
                ):
                    creates = home.__name__ == _TOP and name in _CREATION.split()
                    _give(function, f"{home.__name__}.{name}", _creation_door if creates else _trampoline)
        for function in others:
            _give(function, f"{function.__module__}.{function.__qualname__}", _trampoline)
        for name, each in list(vars(Tensor).items()):
            path = f"{_TOP}.Tensor.{name}"
            if isinstance(each, property) and (not name.startswith("_") or name == "_version"):
                for method, short in ((each.__get__, "fget"), (each.__set__, "fset"), (each.__delete__, "fdel")):
                    if getattr(each, short) is not None:
                        _give(getattr(each, short), f"{path}.{method.__name__}", _trampoline, method)
            elif isinstance(each, FunctionType):
                short = name.strip("_")
                if name.startswith("__") and (short in _OPERATORS or short in _ITSELF):
                    _give(each, path, _operator_door, getattr(Tensor, _OPERATORS.get(short, name)))
                elif name.startswith("__") and short in _PROTOCOL:
                    _give(each, path, _trampoline, getattr(Tensor, _PROTOCOL[short] or name))
                elif not name.startswith("_") and name != "as_subclass":
                    _give(each, path, _trampoline)


def _overridable(home: ModuleType, name: str, function: FunctionType) -> bool:
    """Whether it is a function of tensors, or makes one."""
    ours = function.__module__ == _TOP or function.__module__.startswith((f"{_TOP}.core.", f"{_TOP}.nn."))
    return home.__name__ != _TOP or (ours and name not in _IGNORED.split())


def _give(function: FunctionType, name: str, body: FunctionType, seen: Callable | None = None) -> None:
    """A door for the function; `seen` is what classes get to see in its place."""
    seen = seen or function
    overridable.setdefault(seen, name)
    if function in behind:
        return
    plain = original(function)
    tools = _TOOLS | {"plain": plain, "function": seen}
    code = recoded(function, body, **{name: tools[name] for name in body.__code__.co_names if name in tools})
    inner: Callable | None = function
    while inner is not None:  # what fails may be a function that the public one is wrapped around
        _public[inner] = function
        inner = getattr(inner, "__wrapped__", None)
    if body is _creation_door:
        _creation.add(function)
    behind[function] = plain
    if type(vars(function).get("__wrapped__")) is not Documented:
        function.__wrapped__ = plain  # whose signature it shows
    function.__code__ = code


# what the doors name
_TOOLS = {
    "dispatch": _dispatch,
    "operate": _operate,
    "alone": _alone,
    "entered": _entered,
    "ordinary": _ordinary.issuperset,
}


def appears(arguments: Iterable) -> bool:
    """Whether these arguments, on which a function has failed, are of the first class that overrides functions: it is
    to be called `again`.
    """
    if overridable or not _overloaded(arguments):
        return False
    _install()
    return True


def again(function: Callable, arguments: tuple, named: dict) -> Any:
    """The result of the public function that this is, or is part of."""
    return _public.get(function, function)(*arguments, **named)


# ---- subclasses of Tensor


def _disabled_torch_function_impl(func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
    """The function's result, as of plain tensors: the `__torch_function__` of classes that override nothing, as
    Parameter.
    """
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def _default(cls: type, func: Callable, types: Iterable[type], args: tuple = (), kwargs: dict | None = None) -> Any:
    """The function's result, with tensors as ones of this class; gradients stay plain.

    NotImplemented for arguments of classes that it is not derived from.
    """
    for type_ in types:
        if not issubclass(cls, type_):
            return NotImplemented
    before, state.disabled = state.disabled, state.disabled or DisableTorchFunctionSubclass.level
    try:
        result = func(*args, **kwargs) if kwargs else func(*args)
        if cls is Tensor or func == _grad_of or not isinstance(result, (Tensor, list, tuple)):
            return result
        given = [] if func in overridable else None  # what another function returns may be held by others too
        return _of_class(
            result, cls, given if given is None else _tensors((*args, *kwargs.values()) if kwargs else args, given)
        )
    finally:
        state.disabled = before


_grad_of = Tensor.grad.__get__


def _tensors(values: Iterable, found: list) -> list:
    for value in values:
        if isinstance(value, Tensor):
            found.append(id(value))
        elif isinstance(value, (list, tuple)):
            _tensors(value, found)
    return found


def _of_class(result: Any, cls: type, given: list[int] | None) -> Any:
    """The result, its tensors of class `cls`: new ones become that, those of others (not known to be new, or among the
    `given`) are seen as that.
    """
    if isinstance(result, Tensor):
        if isinstance(result, cls):
            return result
        return result.as_subclass(cls) if given is None or id(result) in given else _become(result, cls)
    if isinstance(result, (list, tuple)) and type(result).__name__ != "Size":
        parts = [_of_class(each, cls, given) for each in result]
        return type(result)._make(parts) if hasattr(result, "_make") else type(result)(parts)
    return result


def _become(tensor: Tensor, cls: type) -> Tensor:
    """An object of the subclass in the place of a tensor that nobody else holds."""
    result = object.__new__(cls)
    fields_of(result).update(fields_of(tensor))
    return result


def as_subclass(self: Tensor, cls: type) -> Tensor:
    """The same tensor as an object of a subclass: a view of it, through which gradients flow."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise RuntimeError(f"cls must be a type that inherits from Tensor, got {cls!r}")
    with DisableTorchFunction():
        return _become(self.view(self.shape), cls)


def _make_wrapper_subclass(cls: type, *arguments: object, **named: object) -> NoReturn:
    """Raises NotImplementedError: a tensor without memory of its own needs `__torch_dispatch__`."""
    raise NotImplementedError(
        f"{cls.__name__}: numod has no tensors without memory, since it has no __torch_dispatch__; make it of its "
        "data by Tensor._make_subclass and override "
        "functions by __torch_function__"
    )


def _init_subclass(cls: type, **named: object) -> None:
    """Functions have their doors from the first subclass on that is not switched off."""
    super(Tensor, cls).__init_subclass__(**named)
    if "__torch_dispatch__" in vars(cls):
        warnings.warn(
            f"{cls.__qualname__}: numod has no __torch_dispatch__, which will not be called; override functions by "
            "__torch_function__",
            stacklevel=2,
        )
    if overrides(cls):
        _install()


Tensor.__torch_function__, Tensor.__init_subclass__ = classmethod(_default), classmethod(_init_subclass)
Tensor.as_subclass, Tensor._make_wrapper_subclass = as_subclass, staticmethod(_make_wrapper_subclass)


# ---- modes, and leaving classes and modes alone


class _Disabled:
    """A context in which `__torch_function__` is not called."""

    level: int

    def __enter__(self) -> None:
        self._before, state.disabled = state.disabled, max(state.disabled, self.level)

    def __exit__(self, *exception: object) -> None:
        state.disabled = self._before


def leave_alone() -> int:
    """Leave classes and modes alone from now on, until `restore` is given what this returns."""
    before, state.disabled = state.disabled, 2
    return before


def restore(before: int) -> None:
    """Ask classes and modes as before."""
    state.disabled = before


@contextmanager
def as_at(modes: tuple, disabled: int) -> Iterator[None]:
    """A context in which classes and modes are asked as where `state` held these."""
    before = state.modes, state.disabled
    _entered.extend(modes)
    state.modes, state.disabled = modes, disabled
    try:
        yield
    finally:
        state.modes, state.disabled = before
        del _entered[: len(modes)]


class DisableTorchFunctionSubclass(_Disabled):
    """A context in which no class overrides functions; modes do."""

    level = 1


class DisableTorchFunction(_Disabled):
    """A context in which neither classes nor modes override functions."""

    level = 2


def _unheard(*call: object) -> None:
    """What listens while a mode is entered: so compiled functions leave their shortest path, and find the mode."""


class TorchFunctionMode:
    """A context in which `__torch_function__(func, types, args, kwargs)` is called for every public function, whatever
    its arguments. Inside it the mode is left, so that it may call `func`.
    """

    def __torch_function__(
        self, func: Callable, types: Iterable[type], args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__} is to define __torch_function__(self, func, types, args=(), kwargs=None)"
        )

    def __enter__(self) -> TorchFunctionMode:
        _install()
        state.modes = (*state.modes, self)
        _entered.append(self)
        listeners.append(_unheard)
        return self

    def __exit__(self, *exception: object) -> None:
        state.modes = state.modes[:-1]
        _entered.pop()
        listeners.remove(_unheard)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(
        self, func: Callable, types: Iterable[type], args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


# ---- for libraries that offer functions which can be overridden


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode is active, or a class of these arguments overrides functions: then call
    `handle_torch_function`.
    """
    disabled = state.disabled
    return bool((disabled < 2 and state.modes) or (not disabled and _overloaded(relevant_args)))


def has_torch_function_unary(each: Any) -> bool:
    """The same of one argument."""
    return has_torch_function((each,))


def has_torch_function_variadic(*arguments: Any) -> bool:
    """The same of these."""
    return has_torch_function(arguments)


def handle_torch_function(public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """What the innermost mode, or the first class of `relevant_args` that does, makes of `public_api(*args, **kwargs)`.

    Raises TypeError where none does.
    """
    return _dispatch(public_api, None, args, kwargs, relevant_args)


def wrap_torch_function(dispatcher: Callable) -> Callable:
    """A decorator of functions that can be overridden: `dispatcher` gives the relevant arguments of a call."""

    def decorate(function: Callable) -> Callable:
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor, or of a class with `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def get_overridable_functions() -> dict[Any, list[Callable]]:
    """All that classes can override, by where it is found: modules and Tensor."""
    _install()
    places = {f"{_TOP}.Tensor.": Tensor} | {
        f"{home.__name__}.": home for home in sorted(homes, key=lambda home: -len(home.__name__))
    }
    found: dict[Any, list[Callable]] = {home: [] for home in places.values()}
    for function, name in overridable.items():
        if function not in _creation and function not in others:
            found[next(home for path, home in places.items() if name.startswith(path))].append(function)
    return found


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    """The modes inside which the thread is, the innermost last."""
    return list(state.modes)


def _get_current_function_mode() -> TorchFunctionMode | None:
    """The innermost of them."""
    return state.modes[-1] if state.modes else None


def get_ignored_functions() -> set[Callable]:
    """Public functions that classes cannot override. Those that make tensors are seen by modes."""
    _install()
    top = next(home for home in homes if home.__name__ == _TOP)
    return {getattr(top, name) for name in _IGNORED.split()} | _creation | {Tensor.as_subclass}


def resolve_name(f: Callable) -> str | None:
    """The path of a public function, such as `numod.Tensor.add`; None for others."""
    _install()
    return overridable.get(f)


def is_tensor_method_or_property(func: Callable) -> bool:
    """Whether it is a method of Tensor, or the getter or setter of an attribute."""
    return (resolve_name(func) or "").startswith(f"{_TOP}.Tensor.")
