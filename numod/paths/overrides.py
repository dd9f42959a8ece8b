"""`numod.overrides`: nothing overrides numod's functions by `__torch_function__`, and libraries that ask are told so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..core.tensor import Tensor
from ..errors import name_only

__all__ = ["TorchFunctionMode", "handle_torch_function", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like"]

TorchFunctionMode = name_only("overrides.TorchFunctionMode", "nothing overrides its functions; the calls of a function are seen by numod.profiler.profile")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """False."""
    return False


def has_torch_function_unary(each: Any) -> bool:
    """False."""
    return False


def has_torch_function_variadic(*arguments: Any) -> bool:
    """False."""
    return False


def handle_torch_function(public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """The function's result."""
    return public_api(*args, **kwargs)


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor."""
    return isinstance(inp, Tensor)
