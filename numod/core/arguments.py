"""Errors for arguments of wrong types.

A function's annotations are checked only after it has failed, so that successful calls do not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from operator import index

from numpy import bool_ as bool_scalar, generic, ndarray

from ..dtypes import bool_, dtype
from . import signatures
from .tensor import Tensor

_KINDS = {  # checks by parts of an annotation; other annotations are not checked
    "Tensor": lambda value: isinstance(value, Tensor),
    "None": lambda value: value is None,
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: is_whole(value),
    "float": lambda value: _is_number(value),
    "complex": lambda value: _is_number(value),
    "str": lambda value: isinstance(value, str),
    "Sequence[int]": lambda value: isinstance(value, (list, tuple)) and all(map(is_whole, value)),
    "Size": lambda value: (
        is_whole(value) or (isinstance(value, (list, tuple)) and all(item is None or is_whole(item) for item in value))
    ),
    "Sequence[Tensor]": lambda value: isinstance(value, (list, tuple, Tensor)),
    "DType": lambda value: isinstance(value, (dtype, type)),
}
NO_POSITION = 1 << 30
_COUNTED_NAMES = ("index", "length")
_OPTION_NAMES = ("reduction", "mode")  # strings that functions check themselves, with a ValueError
_NONE = type(None)
_STRICT_TYPES = {"int": (int,), "bool": (bool,), "bool | None": (bool, _NONE)}
_WITH_REAL_NUMBERS = {
    **_STRICT_TYPES, "float": (float, int), "float | None": (float, int, _NONE), "int | None": (int, _NONE),
    "complex | None": (complex, float, int, _NONE),
}  # fmt: skip
_WITH_NUMBERS = {
    **_WITH_REAL_NUMBERS, "float": (float, int, complex), "float | None": (float, int, complex, _NONE)
}  # fmt: skip
_KIND_WORDS = {
    "float": "Number",
    "complex": "Number",
    "Sequence[int]": "tuple of ints",
    "Size": "int or tuple of ints",
    "Sequence[Tensor]": "tuple of Tensors",
    "DType": "dtype",
}


def is_whole(value: object) -> bool:
    """Whether PyTorch accepts a value as a dimension or size: an integer or a 0-d integer tensor, but no bool."""
    if isinstance(value, Tensor):
        return value.ndim == 0 and not (value.dtype.differentiable or value.dtype is bool_)
    return hasattr(value, "__index__") and not isinstance(value, (bool, ndarray, bool_scalar))


def expect_ints(name: str, key: str, value: object) -> None:
    """Raise TypeError unless an argument is an int or a tuple or list of ints."""
    if not (is_whole(value) or (isinstance(value, (tuple, list)) and all(map(is_whole, value)))):
        raise TypeError(
            f"{name}(): argument '{key}' must be int or tuple of ints, {_received(['Sequence[int]'], value)}"
        )


def _is_number(value: object) -> bool:
    return value.ndim == 0 if isinstance(value, Tensor) else isinstance(value, Number)


def strict_of(function: Callable, numbers: type | None = None) -> dict[str, tuple[int, tuple[type, ...]]]:
    """The int and bool parameters of a function, as {name: (position, types)}.

    With `numbers` also the float ones, which are real numbers (float) or may be complex ones (complex). Keyword-only
    parameters have NO_POSITION. Dimensions and indices are left out: they are checked once per layout.
    """
    types = {None: _STRICT_TYPES, float: _WITH_REAL_NUMBERS, complex: _WITH_NUMBERS}[numbers]
    code = function.__code__
    positions = {name: k for k, name in enumerate(code.co_varnames[: code.co_argcount])}
    kinds = {name: types[kind] for name, kind in function.__annotations__.items() if kind in types and name != "return"}
    counted = lambda name: name.startswith(("dim", "axis")) or name.endswith("_dim") or name in _COUNTED_NAMES  # noqa: E731
    return {name: (positions.get(name, NO_POSITION), kind) for name, kind in kinds.items() if not counted(name)}


def plain_arguments(
    name: str, strict: dict[str, tuple[int, tuple[type, ...]]], arguments: tuple, kwargs: dict
) -> tuple[tuple, dict]:
    """The arguments with NumPy numbers and one-element tensors converted to Python numbers.

    Raises TypeError for a float or bool passed as an int, for other values passed as a bool, as in `x.sum(0, 1)`, and
    for a tensor that requires a gradient passed as a number.
    """
    positional = list(arguments)
    for key, (position, types) in strict.items():
        container, k = (kwargs, key) if key in kwargs else (positional, position)
        if container is kwargs or position < len(arguments):
            value = container[k]
            if value.__class__ not in types and not hasattr(type(value), "__number__"):
                container[k] = (
                    plain_number(name, key, value, complex in types)
                    if float in types
                    else _plain_int(name, key, value, types)
                )
    return tuple(positional), kwargs


def _plain_int(name: str, key: str, value: object, types: tuple[type, ...]) -> int:
    # as PyTorch's, most of these take a vector of one integer
    if bool in types or not is_whole(value.reshape(()) if isinstance(value, Tensor) and value.numel() == 1 else value):
        raise TypeError(f"{name}(): argument '{key}' must be {types[0].__name__}, not {_type_name(value)}")
    return index(value)


def _type_name(value: object) -> str:
    """A type's name, with `numpy.` where it is a NumPy number: `numpy.bool` is no `bool`."""
    return f"numpy.{type(value).__name__}" if isinstance(value, generic) else type(value).__name__


def plain_number(name: str, key: str, value: object, or_complex: bool = True) -> object:
    """A Python number for a tensor without dimensions, a NumPy number or a bool. Other values are returned unchanged;
    the function checks them.
    """
    if isinstance(value, Tensor):
        if value.requires_grad or value.ndim:
            raise TypeError(f"{name}(): argument '{key}' must be float, not Tensor")
        return value.item()
    if isinstance(value, complex) and not or_complex:
        raise TypeError(f"{name}(): argument '{key}' must be float, not complex")
    if isinstance(value, bool):
        return int(value)
    return value.item() if isinstance(value, generic) else value


def wrong_argument(name: str, function: Callable, arguments: tuple, kwargs: dict) -> TypeError | ValueError | None:
    """PyTorch's error for the first argument that does not match its annotation, None if all do."""
    try:
        signature = signatures.defined(function)
        bound = signature.bind(*arguments, **kwargs).arguments
    except (TypeError, ValueError):
        return None
    for position, (key, argument) in enumerate(bound.items()):
        parameter = signature.parameters[key]
        parts = str(parameter.annotation).split(" | ")
        if parameter.kind is parameter.VAR_KEYWORD or key in _OPTION_NAMES or not all(part in _KINDS for part in parts):
            continue
        several = parameter.kind is parameter.VAR_POSITIONAL
        if several and len(argument) == 1 and isinstance(argument[0], (list, tuple)):
            (argument,) = argument  # they may be one sequence
        for k, value in enumerate(argument if several else (argument,)):
            if not any(_KINDS[part](value) for part in parts):
                position_text = "" if key in kwargs else f" (position {position + 1})"
                return TypeError(
                    f"{name}(): argument '{key}'{position_text} must be {_described(parts)}, {_received(parts, value)}"
                )
            if "int" in parts and isinstance(value, int) and not -1 << 63 <= value < 1 << 63:
                return _overflow(name, key, k if several else None, value)
            if {"Sequence[int]", "Size"} & {*parts} and isinstance(value, (list, tuple)):
                for position_in_value, size in enumerate(value):
                    if isinstance(size, int) and not -1 << 63 <= size < 1 << 63:
                        return _overflow(name, key, position_in_value, size)
        if "Sequence[Tensor]" in parts and "Sequence[int]" not in parts and isinstance(argument, (list, tuple)):
            for k, value in enumerate(argument):
                if not isinstance(value, Tensor):
                    return TypeError(
                        f"{name}(): expected Tensor as element {k} in argument {position}, but got "
                        f"{type(value).__name__}"
                    )
    return None


def _overflow(name: str, key: str, position: int | None, value: int) -> TypeError | ValueError:
    """PyTorch's error for an integer of more than 64 bits, a ValueError or, in a sequence, a TypeError."""
    problem = f"Overflow when unpacking long long: {value} does not fit in 64 bits"
    if position is None:
        return ValueError(f"{name}(): argument '{key}': {problem}")
    return TypeError(
        f"{name}(): argument '{key}' failed to unpack the object at pos {position + 1} with error \"{problem}\""
    )


def _described(parts: list[str]) -> str:
    return " or ".join(_KIND_WORDS.get(part, part) for part in parts if part != "None")


def _received(parts: list[str], value: object) -> str:
    """The type of a value or, for a sequence of integers, of its first element that is no integer."""
    if {"Sequence[int]", "Size"} & {*parts} and isinstance(value, (list, tuple)):
        k, element = next(
            (k, item)
            for k, item in enumerate(value)
            if not is_whole(item) and (item is not None or "Size" not in parts)
        )
        return f"but found element of type {type(element).__name__} at pos {k}"
    return f"not {_type_name(value)}"
