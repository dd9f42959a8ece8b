"""Classes and functions that the user allows in PyTorch's checkpoints, in addition to plain data.

The public names are PyTorch's. The dictionaries of a module's hooks, which are data, are always allowed, so that a
module loads wherever its own classes are allowed.
"""

from __future__ import annotations

import _compat_pickle
import sys
from collections.abc import Callable, Iterable
from types import TracebackType

from ..nn.hooks import Hooks, RemovableHandle

Global = Callable | tuple[Callable, str]  # with its path in the file, if that differs from the object's own

_PACKAGE = __name__.partition(".")[0]
_MOVED = {"numpy.core.multiarray": "numpy._core.multiarray", "torch.cuda": "torch"}
allowed: dict[str, Callable] = {}  # by "module.name"
_DATA: dict[str, type] = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in (Hooks, RemovableHandle)}


def renamed(module: str, name: str) -> tuple[str, str]:
    """The current module and name of a global. Protocol 2 has Python 2's names, and libraries moved some."""
    module, name = _compat_pickle.NAME_MAPPING.get((module, name)) or (
        _compat_pickle.IMPORT_MAPPING.get(module, module),
        name,
    )
    return _MOVED.get(module, module), name


def homes_of(module: str) -> tuple[str, ...]:
    """The modules of numod that may contain a name of PyTorch's module `torch...`."""
    module_ = _PACKAGE + module.removeprefix("torch")
    if module.startswith("torch.nn.modules."):
        return (module_, f"{_PACKAGE}.nn")
    if module.startswith("torch.optim."):
        return (module_, f"{_PACKAGE}.optim")
    return (module_,)


def allowed_global(module: str, name: str) -> Callable | None:
    """The class or function with this name if the user allows it, or if it is data.

    A PyTorch name refers to numod's object. Nothing is imported.
    """
    path = f"{module}.{name}"
    global_ = allowed.get(path) or _DATA.get(path)
    if global_ is None and allowed:  # under another name
        homes = homes_of(module) if module.partition(".")[0] == "torch" else (module,)
        candidates = [vars(sys.modules[home]).get(name) for home in homes if home in sys.modules]
        global_ = next(
            (candidate for candidate in candidates if any(candidate is value for value in allowed.values())), None
        )
    return global_


def is_allowed(kind: type) -> bool:
    """Whether a file may set the state of objects of this class."""
    return any(kind is value for value in (*allowed.values(), *_DATA.values()))


def add_safe_globals(safe_globals: Iterable[Global]) -> None:
    """Allow `load` to call these classes and functions where a checkpoint names them.

    Allow only those that are safe with any arguments.
    """
    allowed.update(_by_path(safe_globals))


def get_safe_globals() -> list[Callable]:
    """The classes and functions that are currently allowed."""
    return list(allowed.values())


def clear_safe_globals() -> None:
    """Allow only plain data, which is the initial state."""
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
    by_path = {}
    for entry in safe_globals:
        value, path = entry if isinstance(entry, tuple) else (entry, None)
        if not callable(value):
            raise TypeError(
                f"add_safe_globals: expected a class or function, or a pair with its path in the file, got {entry!r}"
            )
        by_path[path or f"{value.__module__}.{value.__qualname__}"] = value
    return by_path
