"""PyTorch's `_foreach_` functions, which optimizers and model libraries call: a method applied to a list of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import dtypes
from ..tensor import Tensor

_METHODS = (
    "abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp expm1 floor frac lerp "
    "lgamma log log10 log1p log2 "
    "max maximum minimum mm mul neg norm pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc"
).split()
_OTHER_ARGUMENTS = {"ord": "p", "scalars": "value"}
_OTHER_NAMES = {"maximum": "clamp_min", "minimum": "clamp_max"}  # of a tensor or of a number


def _argument_of(argument: Any, k: int, count: int) -> Any:
    """What of an argument is meant for tensor k: its k-th element, or all of it."""
    if not isinstance(argument, (list, tuple)):
        return argument
    if len(argument) != count:
        raise RuntimeError(f"Tensor lists must have the same number of tensors, got {count} and {len(argument)}")
    return argument[k]


def _apply_method(name: str, tensors: Sequence[Tensor], arguments: tuple, kwargs: dict) -> tuple:
    """The results of the method for every tensor, each with its part of the arguments."""
    if name == "pow" and not isinstance(tensors, (list, tuple)):  # a number to the power of each tensor
        return tuple(tensors**exponent for exponent in arguments[0])
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    count = len(tensors)
    if name.startswith("addc") and len(arguments) == 3:  # the third are the factors, which the method takes by name
        arguments, kwargs = (
            arguments[:2],
            {"value": arguments[2].tolist() if isinstance(arguments[2], Tensor) else arguments[2]},
        )
    kwargs = {_OTHER_ARGUMENTS.get(key, key): value for key, value in kwargs.items()}
    results = []
    for k, tensor in enumerate(tensors):
        parts = [_argument_of(argument, k, count) for argument in arguments]
        results.append(
            getattr(tensor, name)(*parts, **{key: _argument_of(kwarg, k, count) for key, kwarg in kwargs.items()})
        )
    return tuple(results)


def _function(name: str, in_place: bool) -> Callable:
    method = _OTHER_NAMES.get(name, name) + "_" * in_place

    def function(self: Sequence[Tensor], *arguments: Any, **kwargs: Any) -> Sequence[Tensor]:
        results = _apply_method(method, self, arguments, kwargs)
        return self if in_place else results

    function.__name__ = function.__qualname__ = f"_foreach_{name}{'_' * in_place}"
    function.__doc__ = (
        f"`Tensor.{method}` of every tensor, with the element of each argument that is a "
        f"list{'; returns the list given' * in_place}."
    )
    return function


def _foreach_powsum(self: Sequence[Tensor], ord: float = 2, dtype: dtypes.dtype | None = None) -> tuple[Tensor, ...]:
    """The sum of |x|^ord over every tensor of the list."""
    return tuple([(tensor.abs() ** ord).sum(dtype=dtype) for tensor in self])


_new = [_function(name, False) for name in (*_METHODS, "clone")]
_over = [_function(name, True) for name in (*_METHODS, "copy", "zero") if name not in ("max", "mm", "norm")]
functions = {function.__name__: function for function in (*_new, *_over, _foreach_powsum)}
