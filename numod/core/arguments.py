"""What a function was given that it cannot take.

It is found after the function has failed, from its annotations: calls that succeed pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from operator import index

from numpy import bool_ as bool_scalar, ndarray

from ..dtypes import bool_, dtype
from . import signatures
from .tensor import Tensor

_KINDS = {  # by the parts of an annotation; others may be anything
    "Tensor": lambda given: isinstance(given, Tensor),
    "None": lambda given: given is None,
    "bool": lambda given: isinstance(given, bool),
    "int": lambda given: is_whole(given),
    "float": lambda given: given.ndim == 0 if isinstance(given, Tensor) else isinstance(given, Number),
    "str": lambda given: isinstance(given, str),
    "Sequence[int]": lambda given: isinstance(given, (list, tuple)) and all(map(is_whole, given)),
    "Size": lambda given: (
        is_whole(given) or (isinstance(given, (list, tuple)) and all(each is None or is_whole(each) for each in given))
    ),
    "Sequence[Tensor]": lambda given: isinstance(given, (list, tuple, Tensor)),
    "DType": lambda given: isinstance(given, (dtype, type)),
}
NO_POSITION = 1 << 30
_COUNTED = ("index", "length")
_STRICT = {"int": int, "bool": bool}
_WORDS = {
    "float": "Number",
    "Sequence[int]": "tuple of ints",
    "Size": "int or tuple of ints",
    "Sequence[Tensor]": "tuple of Tensors",
    "DType": "dtype",
}


def is_whole(given: object) -> bool:
    """Whether PyTorch takes it for a dimension or a size:

    Python's and NumPy's integers and tensors without dimensions of an integer dtype, but no bool.
    """
    if isinstance(given, Tensor):
        return given.ndim == 0 and not (given.dtype.differentiable or given.dtype is bool_)
    return hasattr(given, "__index__") and not isinstance(given, (bool, ndarray, bool_scalar))


def strict_of(function: Callable) -> dict[str, tuple[int, type]]:
    """A function's parameters that are an int or a bool, as name:

    (position, type). Those that only a keyword gives come behind all positions; dimensions and places along them are
    checked where they are counted, once for a layout.
    """
    code = function.__code__
    places = {name: k for k, name in enumerate(code.co_varnames[: code.co_argcount])}
    kinds = {
        name: _STRICT[kind] for name, kind in function.__annotations__.items() if kind in _STRICT and name != "return"
    }
    counted = lambda name: name.startswith(("dim", "axis")) or name.endswith("_dim") or name in _COUNTED  # noqa: E731
    return {name: (places.get(name, NO_POSITION), kind) for name, kind in kinds.items() if not counted(name)}


def plain_arguments(
    name: str, strict: dict[str, tuple[int, type]], arguments: tuple, named: dict
) -> tuple[tuple, dict]:
    """The arguments with NumPy's integers and tensors of one integer as ints.

    Raises TypeError for a float or a bool in the place of an int, and for what is no bool: `x.sum(0, 1)` means
    `x.sum((0, 1))`.
    """
    placed = list(arguments)
    for key, (place, kind) in strict.items():
        given, k = (named, key) if key in named else (placed, place)
        if given is named or place < len(arguments):
            each = given[k]
            if each.__class__ is not kind and not hasattr(type(each), "__number__"):
                if kind is bool or not is_whole(
                    each.reshape(()) if isinstance(each, Tensor) and each.numel() == 1 else each
                ):
                    raise TypeError(f"{name}(): argument '{key}' must be {kind.__name__}, not {type(each).__name__}")
                given[k] = index(each)
    return tuple(placed), named


def wrong_argument(name: str, function: Callable, arguments: tuple, named: dict) -> TypeError | ValueError | None:
    """PyTorch's error for the first argument that is not what `function` (called `name`) is annotated to take.

    None where all are.
    """
    try:
        signature = signatures.own(function)
        bound = signature.bind(*arguments, **named).arguments
    except (TypeError, ValueError):
        return None
    for position, (key, given) in enumerate(bound.items()):
        parameter = signature.parameters[key]
        parts = str(parameter.annotation).split(" | ")
        if parameter.kind is parameter.VAR_KEYWORD or not all(part in _KINDS for part in parts):
            continue
        several = parameter.kind is parameter.VAR_POSITIONAL
        if several and len(given) == 1 and isinstance(given[0], (list, tuple)):
            (given,) = given  # they may come as one sequence
        for each in given if several else (given,):
            if not any(_KINDS[part](each) for part in parts):
                place = "" if key in named else f" (position {position + 1})"
                return TypeError(f"{name}(): argument '{key}'{place} must be {_described(parts)}, {_but(parts, each)}")
            if "int" in parts and isinstance(each, int) and not -1 << 63 <= each < 1 << 63:
                return ValueError(
                    f"Overflow when unpacking long long: {name}(): argument '{key}' is {each}, which 64 bits do not "
                    "hold"
                )
        if "Sequence[Tensor]" in parts and not isinstance(given, Tensor):
            for k, each in enumerate(given or ()):
                if not isinstance(each, Tensor):
                    return TypeError(
                        f"{name}(): expected Tensor as element {k} in argument {position}, but got "
                        f"{type(each).__name__}"
                    )
    return None


def _described(parts: list[str]) -> str:
    return " or ".join(_WORDS.get(part, part) for part in parts if part != "None")


def _but(parts: list[str], given: object) -> str:
    """What came instead: of a sequence the element that is no integer."""
    if {"Sequence[int]", "Size"} & {*parts} and isinstance(given, (list, tuple)):
        k, wrong = next(
            (k, each)
            for k, each in enumerate(given)
            if not is_whole(each) and (each is not None or "Size" not in parts)
        )
        return f"but found element of type {type(wrong).__name__} at pos {k}"
    return f"not {type(given).__name__}"
