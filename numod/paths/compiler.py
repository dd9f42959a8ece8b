"""`numod.compiler`: PyTorch's functions about compilation. `numod.compile` compiles, and only on request."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from ..core.tensor import Tensor
from ..errors import name_only
from ..graph import compile as compile, config as config, mark_dynamic as mark_dynamic
from ..graph.compile import BACKENDS
from ..graph.capture.recorder import recording
from . import later

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "list_backends", "nested_compile_region", "reset",
]  # fmt: skip

OptimizedModule = name_only("_dynamo.OptimizedModule", "numod.compile gives a module of its own class")
__getattr__ = later("_dynamo")
TransformGetItemToIndex = nullcontext  # vmap indexes per example without it


def is_compiling() -> bool:
    """Whether a function is being recorded."""
    return recording() is not None


is_dynamo_compiling = is_compiling


def is_compile_supported(device_type: str) -> bool:
    """False, so that libraries that compile some of their own functions leave them eager."""
    return False


def disable(fn: Callable | None = None, recursive: bool = True, *, reason: str | None = None) -> Callable:
    """Return the function unchanged: its ops are recorded by the enclosing function."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: Callable) -> Callable:
    """Return the function unchanged."""
    return fn


assume_constant_result = forbid_in_graph = allow_in_graph
maybe_mark_dynamic = mark_dynamic


def nested_compile_region(fn: Callable | None = None, **settings: object) -> Callable:
    """Return the function unchanged: equal parts of a program are compiled once anyway."""
    return disable(fn)


def mark_static(tensor: Tensor, index: int | list | tuple | None = None) -> None:
    """Undo `mark_dynamic`."""
    tensor._dynamic = False


def mark_static_address(t: Tensor, guard: bool = False) -> None:
    """Does nothing, since a program takes each tensor as an argument."""


def graph_break(msg: str = "") -> None:
    """Does nothing, since there is always one whole graph."""


def is_exporting() -> bool:
    """False, since a program is saved as it was recorded."""
    return False


def list_backends(exclude_tags: tuple[str, ...] = ()) -> list[str]:
    """The names that `compile` accepts; all of them use Numba."""
    return list(BACKENDS)


def reset() -> None:
    """Does nothing, since the compiled functions have all state."""


def cudagraph_mark_step_begin() -> None:
    """Does nothing."""
