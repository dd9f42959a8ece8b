"""Classes and functions that the user allows in PyTorch's checkpoints, beside the plain data that load always reads: PyTorch's names for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType

Global = Callable | tuple[Callable, str]  # the path in the file, where it is another than the object's own

allowed: dict[str, Callable] = {}  # by "module.name"


def add_safe_globals(safe_globals: Iterable[Global]) -> None:
    """Allow `load` to call these classes and functions where a checkpoint names them. Allow only what is harmless with any arguments."""
    allowed.update(_by_path(safe_globals))


def get_safe_globals() -> list[Callable]:
    """What is allowed now."""
    return list(allowed.values())


def clear_safe_globals() -> None:
    """Allow plain data only, as at first."""
    allowed.clear()


class safe_globals:
    """A `with` block inside which these classes and functions are allowed as well."""

    def __init__(self, safe_globals: Iterable[Global]) -> None:
        self._added = _by_path(safe_globals)

    def __enter__(self) -> None:
        self._before = dict(allowed)
        allowed.update(self._added)

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        clear_safe_globals()
        allowed.update(self._before)


def _by_path(safe_globals: Iterable[Global]) -> dict[str, Callable]:
    found = {}
    for each in safe_globals:
        value, path = each if isinstance(each, tuple) else (each, None)
        if not callable(value):
            raise TypeError(f"add_safe_globals: expected a class or function, or (one, its path in the file), got {each!r}")
        found[path or f"{value.__module__}.{value.__qualname__}"] = value
    return found
