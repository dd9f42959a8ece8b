"""What a function was given that it cannot take.

It is found after the function has failed, from its annotations: calls that succeed pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number

from ..dtypes import dtype
from . import signatures
from .tensor import Tensor

_KINDS = {  # by the parts of an annotation; others may be anything
    "Tensor": Tensor, "None": type(None), "bool": bool, "int": (Tensor, Number), "float": (Tensor, Number), "str": str,
    "Sequence[int]": (list, tuple, Tensor),
    "Sequence[Tensor]": (list, tuple, Tensor), "DType": (dtype, type),
}  # fmt: skip


def wrong_argument(name: str, function: Callable, arguments: tuple, named: dict) -> TypeError | None:
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
        if not all(part in _KINDS for part in parts):
            continue
        several = parameter.kind is parameter.VAR_POSITIONAL
        if several and len(given) == 1 and isinstance(given[0], (list, tuple)):
            (given,) = given  # they may come as one sequence
        for each in given if several else (given,):
            # which are no number
            vector = (
                isinstance(each, Tensor)
                and "Tensor" not in parts
                and "Sequence[int]" not in parts
                and each.numel() != 1
            )
            if vector or not any(
                isinstance(each, _KINDS[part]) or (part in ("int", "float") and hasattr(each, "__index__"))
                for part in parts
            ):
                place = "" if key in named else f" (position {position + 1})"
                return TypeError(
                    f"{name}(): argument '{key}'{place} must be {_described(parts)}, not {type(each).__name__}"
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
    words = {
        "float": "Number",
        "Sequence[int]": "tuple of ints",
        "Sequence[Tensor]": "tuple of Tensors",
        "DType": "dtype",
    }
    return " or ".join(words.get(part, part) for part in parts if part != "None")
