"""Classes and functions that the user allows in PyTorch's checkpoints, beside the plain data that load always reads:

PyTorch's names for that.

Parts of a module that are data themselves (the dictionaries of its hooks) are always allowed, so that a module loads
where its own classes are.
"""

from __future__ import annotations

import _compat_pickle
import sys
from collections.abc import Callable, Iterable
from types import TracebackType

from ..nn.hooks import Hooks, RemovableHandle

Global = Callable | tuple[Callable, str]  # the path in the file, where it is another than the object's own

_PACKAGE = __name__.partition(".")[0]
_MOVED = {"numpy.core.multiarray": "numpy._core.multiarray", "torch.cuda": "torch"}
allowed: dict[str, Callable] = {}  # by "module.name"
_DATA: dict[str, type] = {f"{each.__module__}.{each.__qualname__}": each for each in (Hooks, RemovableHandle)}


def renamed(module: str, name: str) -> tuple[str, str]:
    """The module and name that a global has today: protocol 2 writes Python 2's, and libraries have moved some."""
    module, name = _compat_pickle.NAME_MAPPING.get((module, name)) or (
        _compat_pickle.IMPORT_MAPPING.get(module, module),
        name,
    )
    return _MOVED.get(module, module), name


def homes_of(module: str) -> tuple[str, ...]:
    """The modules of numod in which a name of PyTorch's module `torch...` may be."""
    own = _PACKAGE + module.removeprefix("torch")
    return (
        (own, f"{_PACKAGE}.nn")
        if module.startswith("torch.nn.modules.")
        else (own, f"{_PACKAGE}.optim")
        if module.startswith("torch.optim.")
        else (own,)
    )


def allowed_global(module: str, name: str) -> Callable | None:
    """The class or function of this name if the user allows it, or if it is data.

    A name of PyTorch's stands for numod's. Nothing is imported.
    """
    path = f"{module}.{name}"
    found = allowed.get(path) or _DATA.get(path)
    if found is None and allowed:  # under another name than its own
        homes = homes_of(module) if module.partition(".")[0] == "torch" else (module,)
        known = [vars(sys.modules[home]).get(name) for home in homes if home in sys.modules]
        found = next((each for each in known if any(each is one for one in allowed.values())), None)
    return found


def is_allowed(kind: type) -> bool:
    """Whether objects of the class may be filled with what a file says."""
    return any(kind is value for value in (*allowed.values(), *_DATA.values()))


def add_safe_globals(safe_globals: Iterable[Global]) -> None:
    """Allow `load` to call these classes and functions where a checkpoint names them.

    Allow only what is harmless with any arguments.
    """
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
            raise TypeError(
                f"add_safe_globals: expected a class or function, or (one, its path in the file), got {each!r}"
            )
        found[path or f"{value.__module__}.{value.__qualname__}"] = value
    return found
