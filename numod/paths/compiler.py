"""`numod.compiler`: questions about compiling. What compiles is `numod.compile`, which never replaces a function by itself."""

from __future__ import annotations

from collections.abc import Callable

from ..core.apply import listeners

__all__ = ["allow_in_graph", "assume_constant_result", "cudagraph_mark_step_begin", "disable", "is_compiling", "is_dynamo_compiling", "reset"]


def is_compiling() -> bool:
    """Whether a function is being recorded now."""
    return any(hasattr(each, "made") for each in listeners)


is_dynamo_compiling = is_compiling


def is_compile_supported(device_type: str) -> bool:
    """False: a library that compiles its own functions where it can leaves them eager. `numod._dynamo.utils` has it."""
    return False


def disable(fn: Callable | None = None, recursive: bool = True, *, reason: str | None = None) -> Callable:
    """The function as it is: its ops are recorded by whoever calls it."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: Callable) -> Callable:
    """The function as it is."""
    return fn


assume_constant_result = allow_in_graph


def reset() -> None:
    """Nothing is kept outside the compiled functions themselves."""


def cudagraph_mark_step_begin() -> None:
    """Nothing to mark."""
