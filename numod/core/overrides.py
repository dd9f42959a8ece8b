"""`numod.overrides`: PyTorch's `__torch_function__`, which lets classes and modes override public functions.

Tensor's own `__torch_function__` returns results of the subclass.

Plain tensors do not pay for it. When the first class or mode that overrides functions appears, the code object of
every public function, method and property is replaced by a trampoline (`_trampoline`), which checks the types of the
arguments first; the function objects stay the same. A class that is not a Tensor subclass is detected when the first
function fails on it (`appears`). A class with `overrides_from_first_object` calls `install` itself: importing it alone
does not slow down other tensors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FunctionType, ModuleType
from typing import Any, NoReturn

from ..errors import warn_caller
from ..device import signals
from .listeners import listeners, notify_overridden
from .function_code import original, originals, recoded
from .signatures import Documented
from .tensor import Tensor, fields_of

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "get_ignored_functions", "get_overridable_functions",
    "handle_torch_function", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic",
    "is_tensor_like", "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
]  # fmt: skip

# the modules whose functions can be overridden, each under its first name there; set by `numod`
homes: list[ModuleType] = []
others: list[FunctionType] = []  # overridable functions of other modules
_TOP = __name__.partition(".")[0]
_CREATION = """arange as_tensor asarray bartlett_window blackman_window empty empty_permuted empty_strided eye
    from_file from_numpy frombuffer full hamming_window hann_window kaiser_window linspace logspace ones rand
    randint randn randperm range scalar_tensor tensor tril_indices triu_indices zeros"""
_IGNORED = """broadcast_shapes from_dlpack get_printoptions get_rng_state initial_seed is_storage is_tensor
    manual_seed seed set_default_tensor_type set_printoptions set_rng_state to_dlpack typename"""
_OPERATORS = {  # the method that `__torch_function__` receives for an operator
    "add": "add", "radd": "add", "iadd": "add_", "sub": "sub", "isub": "sub_", "mul": "mul", "rmul": "mul",
    "imul": "mul_", "truediv": "div", "itruediv": "div_", "ifloordiv": "floor_divide_", "mod": "remainder",
    "imod": "remainder_", "matmul": "matmul", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "ne": "ne",
    "rand": "bitwise_and", "ror": "bitwise_or", "rxor": "bitwise_xor",
}  # fmt: skip
_SAME_NAME = """eq rsub rtruediv floordiv rfloordiv rmod pow rpow ipow rmatmul and or xor
    lshift rshift rlshift rrshift iand ior ixor ilshift irshift""".split()
_PROTOCOL = {"neg": "neg", "pos": "positive", "abs": "abs"} | dict.fromkeys(
    "invert getitem setitem delitem len bool int float complex index contains repr format reversed array array_wrap "
    "deepcopy reduce_ex".split()
)


class _State(threading.local):
    """Per thread: the active modes, the innermost last, and what is disabled: 1 for classes, 2 for modes too."""

    modes: tuple = ()
    disabled = 0


state = _State()
_entered: list[object] = []  # an entry for every mode entered on any thread: reading thread-local state takes time
# classes that override nothing
_without_override: set[type] = {Tensor, bool, int, float, complex, str, bytes, type(None), slice, type(...)}
overridable: dict[Callable, str] = {}  # names of all overridable functions; empty until the first class or mode appears
is_installed = False  # whether all of them check their arguments
_creation: set[Callable] = set()
_public: dict[Callable, Callable] = {}  # function that a public function wraps -> the public function
_lock = threading.Lock()


# ---- whether a call is overridden


def overrides(kind: type) -> bool:
    """Whether a class has a `__torch_function__` that is not disabled."""
    if kind in _without_override:
        return False
    has_override = getattr(kind, "__torch_function__", _disabled_torch_function_impl) not in (
        None,
        _disabled_torch_function_impl,
    )
    # user classes are not stored: they may get one later
    is_library = kind.__module__.partition(".")[0] in ("builtins", "numpy", _TOP)
    if not has_override and is_library and not issubclass(kind, (list, tuple)):
        _without_override.add(kind)
    return has_override


def _overloaded(arguments: Iterable, overriding: list | None = None) -> list:
    """One argument of each class that overrides functions, also from lists and tuples.

    From left to right, but a subclass before its bases.
    """
    overriding = [] if overriding is None else overriding
    for argument in arguments:
        kind = type(argument)
        if kind in _without_override:
            continue
        if overrides(kind):
            if kind not in map(type, overriding):
                overriding.insert(
                    next((k for k, other in enumerate(overriding) if issubclass(kind, type(other))), len(overriding)),
                    argument,
                )
        elif issubclass(kind, (list, tuple)):
            items = (
                argument
                if kind is list or kind is tuple
                else list(list.__iter__(argument) if issubclass(kind, list) else tuple.__iter__(argument))
            )
            if not _without_override.issuperset(map(type, items)):
                _overloaded(items, overriding)
    return overriding


def _call_override(
    function: Callable, plain: Callable | None, arguments: tuple, kwargs: dict, relevant: Iterable | None = None
) -> Any:
    """The result of the innermost mode or the first class that overrides the call, or of the plain function.

    NotImplemented if modes and classes returned that.
    """
    modes, disabled = state.modes if _entered and state.disabled < 2 else (), state.disabled
    overriding = [] if disabled else _overloaded((*arguments, *kwargs.values()) if relevant is None else relevant)
    if not modes and not overriding and plain is not None:
        return plain(*arguments, **kwargs)
    types = tuple(map(type, overriding))
    if not all(getattr(kind, "recordable", False) for kind in (*modes[-1:], *types)):
        notify_overridden(overridable.get(function, ""))
    if modes:
        state.modes = modes[:-1]
        try:
            result = modes[-1].__torch_function__(function, types, arguments, kwargs)
        finally:
            state.modes = modes
        if result is not NotImplemented:
            return result
    for argument in overriding:
        result = argument.__torch_function__(function, types, arguments, kwargs)
        if result is not NotImplemented:
            return result
    return NotImplemented


def _dispatch(
    function: Callable, plain: Callable | None, arguments: tuple, kwargs: dict, relevant: Iterable | None = None
) -> Any:
    """The result of `_call_override`. Raises TypeError for NotImplemented."""
    result = _call_override(function, plain, arguments, kwargs, relevant)
    if result is not NotImplemented:
        return result
    overriding = _overloaded((*arguments, *kwargs.values()) if relevant is None else relevant)
    names = ", ".join([type(argument).__qualname__ for argument in (*state.modes[-1:], *overriding)])
    raise TypeError(
        f"no implementation found for '{overridable.get(function) or getattr(function, '__qualname__', function)}' on "
        "types that implement __torch_function__: "
        + (f"{names} returned NotImplemented" if names else "none of the arguments has such a type")
    )


# ---- the code that replaces functions' own. `recoded` binds `plain` and the other free names


def _trampoline(*arguments: object, **kwargs: object) -> object:
    if ordinary(map(type, arguments)) and not kwargs and not entered:  # noqa: F821
        return plain(*arguments)  # noqa: F821
    return dispatch(function, plain, arguments, kwargs)  # noqa: F821


def _getter_trampoline(self: object) -> object:  # of one argument, as layers read many properties
    if type(self) in without and not entered:  # noqa: F821
        return plain(self)  # noqa: F821
    return dispatch(function, plain, (self,), {})  # noqa: F821


def _operator_trampoline(*arguments: object) -> object:
    if ordinary(map(type, arguments)) and not entered:  # noqa: F821
        return plain(*arguments)  # noqa: F821
    return operate(function, plain, arguments)  # noqa: F821


def _call_operator(function: Callable, plain: Callable, arguments: tuple) -> Any:
    """The overridden result of an operator. NotImplemented lets Python try the other operand."""
    try:
        return _call_override(function, plain, arguments, {})
    except TypeError:
        if isinstance(arguments[1], (Tensor, int, float, complex)):
            raise
        return NotImplemented


def _creation_trampoline(*arguments: object, **kwargs: object) -> object:
    if ordinary(map(type, arguments)) and not entered:  # noqa: F821
        return plain(*arguments, **kwargs)  # noqa: F821
    return dispatch(function, alone(plain), arguments, kwargs, ())  # noqa: F821


def _on_plain_tensors(plain: Callable) -> Callable:
    """The function, with overrides by classes disabled."""
    return lambda *arguments, **kwargs: _disabled_torch_function_impl(plain, (), arguments, kwargs)


def install() -> None:
    """Replace the code of all public functions by trampolines, once.

    Other threads wait, and so do signals: with a part of them, functions would compute without the override.
    """
    global is_installed
    if is_installed:
        return
    with _lock, signals.waiting():
        if not is_installed:
            _install()
            is_installed = True


def _install() -> None:
    """See `install`. Functions that have a trampoline are left as they are."""
    for home in homes:
        for name, function in list(vars(home).items()):
            if isinstance(function, FunctionType) and name[0] != "_" and _overridable(home, name, function):
                creates = home.__name__ == _TOP and name in _CREATION.split()
                _replace_code(function, f"{home.__name__}.{name}", _creation_trampoline if creates else _trampoline)
    for function in others:
        _replace_code(function, f"{function.__module__}.{function.__qualname__}", _trampoline)
    for name, attribute in list(vars(Tensor).items()):
        path = f"{_TOP}.Tensor.{name}"
        if isinstance(attribute, property) and (not name.startswith("_") or name == "_version"):
            for method, short in (
                (attribute.__get__, "fget"),
                (attribute.__set__, "fset"),
                (attribute.__delete__, "fdel"),
            ):
                if getattr(attribute, short) is not None:
                    function = getattr(attribute, short)
                    # the getters of `real` and `imag` are parts of functions, which pass `input` by name
                    is_getter = short == "fget" and function.__code__.co_varnames[0] == "self"
                    body = _getter_trampoline if is_getter else _trampoline
                    _replace_code(function, f"{path}.{method.__name__}", body, method)
        elif isinstance(attribute, FunctionType):
            short = name.strip("_")
            if name.startswith("__") and (short in _OPERATORS or short in _SAME_NAME):
                _replace_code(attribute, path, _operator_trampoline, getattr(Tensor, _OPERATORS.get(short, name)))
            elif name.startswith("__") and short in _PROTOCOL:
                _replace_code(attribute, path, _trampoline, getattr(Tensor, _PROTOCOL[short] or name))
            elif not name.startswith("_") and name != "as_subclass":
                _replace_code(attribute, path, _trampoline)


def _overridable(home: ModuleType, name: str, function: FunctionType) -> bool:
    """Whether a function takes or creates tensors."""
    ours = function.__module__ == _TOP or function.__module__.startswith((f"{_TOP}.core.", f"{_TOP}.nn."))
    return home.__name__ != _TOP or (ours and name not in _IGNORED.split())


def _replace_code(function: FunctionType, name: str, body: FunctionType, visible: Callable | None = None) -> None:
    """Replace a function's code by a trampoline. `__torch_function__` receives `visible` as the function."""
    visible = visible or function
    overridable.setdefault(visible, name)
    if function in originals:
        return
    plain = original(function)
    names = _TRAMPOLINE_NAMES | {"plain": plain, "function": visible}
    code = recoded(function, body, **{name: names[name] for name in body.__code__.co_names if name in names})
    inner: Callable | None = function
    while inner is not None:  # the failing function may be one that the public one wraps
        _public[inner] = function
        inner = getattr(inner, "__wrapped__", None)
    if body is _creation_trampoline:
        _creation.add(function)
    originals[function] = plain
    if type(vars(function).get("__wrapped__")) is not Documented:
        function.__wrapped__ = plain  # for its signature
    function.__code__ = code


# the values of free names in trampolines
_TRAMPOLINE_NAMES = {
    "dispatch": _dispatch,
    "operate": _call_operator,
    "alone": _on_plain_tensors,
    "entered": _entered,
    "ordinary": _without_override.issuperset,
    "without": _without_override,
}


def appears(arguments: Iterable) -> bool:
    """Whether a function failed because its arguments are of the first class that overrides functions.

    Then it has to be called `again`.
    """
    if is_installed or not _overloaded(arguments):
        return False
    install()
    return True


def again(function: Callable, arguments: tuple, kwargs: dict) -> Any:
    """Call the public function that this function is, or is part of."""
    return _public.get(function, function)(*arguments, **kwargs)


# ---- subclasses of Tensor


def _disabled_torch_function_impl(func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
    """The function's result without overrides: the `__torch_function__` of classes that override nothing, such as
    Parameter.
    """
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def _default(cls: type, func: Callable, types: Iterable[type], args: tuple = (), kwargs: dict | None = None) -> Any:
    """The function's result with tensors converted to this class; gradients stay plain.

    NotImplemented if an argument's class is not a base of this class.
    """
    for type_ in types:
        if not issubclass(cls, type_):
            return NotImplemented
    disabled_before, state.disabled = state.disabled, state.disabled or DisableTorchFunctionSubclass.level
    try:
        result = func(*args, **kwargs) if kwargs else func(*args)
        if cls is Tensor or func == _grad_of or not isinstance(result, (Tensor, list, tuple)):
            return result
        argument_ids = [] if func in overridable else None  # other code may hold the result of a user's function
        return _of_class(
            result,
            cls,
            argument_ids
            if argument_ids is None
            else _tensor_ids((*args, *kwargs.values()) if kwargs else args, argument_ids),
        )
    finally:
        state.disabled = disabled_before


_grad_of = Tensor.grad.__get__


def _tensor_ids(values: Iterable, ids: list) -> list:
    for value in values:
        if isinstance(value, Tensor):
            ids.append(id(value))
        elif isinstance(value, (list, tuple)):
            _tensor_ids(value, ids)
    return ids


def _of_class(result: Any, cls: type, argument_ids: list[int] | None) -> Any:
    """The result with tensors of class `cls`: new tensors are converted, arguments and other existing ones aliased."""
    if isinstance(result, Tensor):
        if isinstance(result, cls):
            return result
        return result.as_subclass(cls) if argument_ids is None or id(result) in argument_ids else _become(result, cls)
    if isinstance(result, (list, tuple)) and type(result).__name__ != "Size":
        parts = [_of_class(item, cls, argument_ids) for item in result]
        return type(result)._make(parts) if hasattr(result, "_make") else type(result)(parts)
    return result


def _become(tensor: Tensor, cls: type) -> Tensor:
    """An object of the subclass with the fields of a tensor that nothing else references."""
    result = object.__new__(cls)
    fields_of(result).update(fields_of(tensor))
    return result


def as_subclass(self: Tensor, cls: type) -> Tensor:
    """The tensor as an object of a subclass: a view, which passes gradients on.

    Example:

        >>> torch.ones(2).as_subclass(nn.Parameter).__class__.__name__
        'Parameter'
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise RuntimeError(f"cls must be a type that inherits from Tensor, got {cls!r}")
    with DisableTorchFunction():
        return _become(self.view(self.shape), cls)


def _make_wrapper_subclass(cls: type, *arguments: object, **kwargs: object) -> NoReturn:
    """Raises NotImplementedError: a tensor without memory needs `__torch_dispatch__`."""
    raise NotImplementedError(
        f"{cls.__name__}: numod has no tensors without memory, since it has no __torch_dispatch__; make it of its "
        "data by Tensor._make_subclass and override "
        "functions by __torch_function__"
    )


def _init_subclass(cls: type, **kwargs: object) -> None:
    """Install the trampolines for the first subclass that overrides functions."""
    super(Tensor, cls).__init_subclass__(**kwargs)
    if "__torch_dispatch__" in vars(cls):
        warn_caller(
            f"{cls.__qualname__}: numod has no __torch_dispatch__, which will not be called; override functions by "
            "__torch_function__"
        )
    if overrides(cls) and not vars(cls).get("overrides_from_first_object"):
        install()


Tensor.__torch_function__, Tensor.__init_subclass__ = classmethod(_default), classmethod(_init_subclass)
Tensor.as_subclass, Tensor._make_wrapper_subclass = as_subclass, staticmethod(_make_wrapper_subclass)


# ---- modes, and disabling classes and modes


class _Disabled:
    """A context in which `__torch_function__` is not called."""

    level: int

    def __enter__(self) -> None:
        self._before, state.disabled = state.disabled, max(state.disabled, self.level)

    def __exit__(self, *exception: object) -> None:
        state.disabled = self._before


def leave_alone() -> int:
    """Disable classes and modes, until `restore` is called with the return value."""
    before, state.disabled = state.disabled, 2
    return before


def restore(before: int) -> None:
    """Undo `leave_alone`."""
    state.disabled = before


@contextmanager
def as_at(modes: tuple, disabled: int) -> Iterator[None]:
    """A context with these active modes and this state of `disabled`."""
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


def _ignore(*call: object) -> None:
    """The listener while a mode is active, so that compiled functions leave their fast path and find the mode."""


class TorchFunctionMode:
    """A context in which every public function calls `__torch_function__(func, types, args, kwargs)` instead.

    The mode is not active inside `__torch_function__`, so that it may call `func`.
    """

    def __torch_function__(
        self, func: Callable, types: Iterable[type], args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__} must define __torch_function__(self, func, types, args=(), kwargs=None)"
        )

    def __enter__(self) -> TorchFunctionMode:
        install()
        state.modes = (*state.modes, self)
        _entered.append(self)
        listeners.append(_ignore)
        return self

    def __exit__(self, *exception: object) -> None:
        state.modes = state.modes[:-1]
        _entered.pop()
        listeners.remove(_ignore)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(
        self, func: Callable, types: Iterable[type], args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


# ---- for libraries with overridable functions


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode is active or the class of an argument overrides functions. Then call `handle_torch_function`."""
    disabled = state.disabled
    return bool((disabled < 2 and state.modes) or (not disabled and _overloaded(relevant_args)))


def has_torch_function_unary(argument: Any) -> bool:
    """`has_torch_function` for one argument."""
    return has_torch_function((argument,))


def has_torch_function_variadic(*arguments: Any) -> bool:
    """`has_torch_function` for several arguments."""
    return has_torch_function(arguments)


def handle_torch_function(public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """The result of `public_api(*args, **kwargs)` by the innermost mode or the first class of `relevant_args`.

    Raises TypeError if all return NotImplemented.
    """
    return _dispatch(public_api, None, args, kwargs, relevant_args)


def wrap_torch_function(dispatcher: Callable) -> Callable:
    """A decorator that makes a function overridable. `dispatcher` returns the relevant arguments of a call."""

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
    """Whether a value is a tensor or has `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def get_overridable_functions() -> dict[Any, list[Callable]]:
    """The overridable functions of each module and of Tensor."""
    install()
    homes_by_path = {f"{_TOP}.Tensor.": Tensor} | {
        f"{home.__name__}.": home for home in sorted(homes, key=lambda home: -len(home.__name__))
    }
    by_home: dict[Any, list[Callable]] = {home: [] for home in homes_by_path.values()}
    for function, name in overridable.items():
        if function not in _creation and function not in others:
            by_home[next(home for path, home in homes_by_path.items() if name.startswith(path))].append(function)
    return by_home


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    """This thread's active modes, the innermost last."""
    return list(state.modes)


def _get_current_function_mode() -> TorchFunctionMode | None:
    """The innermost active mode."""
    return state.modes[-1] if state.modes else None


def get_ignored_functions() -> set[Callable]:
    """Public functions that classes cannot override. Modes can override those that create tensors."""
    install()
    top = next(home for home in homes if home.__name__ == _TOP)
    return {getattr(top, name) for name in _IGNORED.split()} | _creation | {Tensor.as_subclass}


def resolve_name(f: Callable) -> str | None:
    """The path of a public function, such as `numod.Tensor.add`; None for others."""
    install()
    return overridable.get(f)


def is_tensor_method_or_property(func: Callable) -> bool:
    """Whether it is a method of Tensor, or the getter or setter of an attribute."""
    return (resolve_name(func) or "").startswith(f"{_TOP}.Tensor.")
