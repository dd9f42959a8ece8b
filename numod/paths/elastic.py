"""`numod.distributed.elastic.multiprocessing.errors`: the launcher reports errors itself, so `record` has no effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import name_only

__all__ = ["ChildFailedError", "record"]
Function = TypeVar("Function", bound=Callable[..., Any])
ChildFailedError = name_only(
    "distributed.elastic.multiprocessing.errors.ChildFailedError", "the launcher ends with the failed rank's exit code"
)


def record(fn: Function, error_handler: object = None) -> Function:
    """Return the function unchanged."""
    return fn
