"""Refuses functions of os, os.path and pathlib that read the file system, the current directory or the environment.

Their names are common (`group`, `resolve`). So they are refused only where the code loads them from a module or a path.
"""

from __future__ import annotations

import pathlib
import sys
import types
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...core.tensor import Tensor
from ..values import objects
from ..values.kinds import of_library
from ..values.source_location import CannotRepeat

if TYPE_CHECKING:
    from .build import GuardBuilder

READS_FILES = {
    "absolute", "abspath", "realpath", "relpath", "resolve", "cwd", "home", "expanduser", "expandvars", "exists",
    "lexists", "stat", "lstat", "islink", "is_symlink", "samefile", "access", "walk", "rglob", "get_exec_path",
    "getctime", "getatime", "readlink", "owner", "group",
}  # fmt: skip
PATH_MODULES = ("os", "posix", "nt", "posixpath", "ntpath", "genericpath", "pathlib")


@dataclass
class FileNames:
    """`paths`: the paths that the code reaches, and objects that create paths, by name.

    `others`: names of methods of paths that other objects, which the code reaches, have as well.
    """

    paths: list[tuple[str, Any]] = field(default_factory=list)
    others: set[str] = field(default_factory=set)


def unrepeatable_read(name: str) -> CannotRepeat:
    """The error for something that reads the file system or the process."""
    return CannotRepeat(
        f"compile: {name} may have another value at the next call; use it outside the compiled function"
    )


def refuse_file_names(builder: GuardBuilder) -> None:
    """Raise CannotRepeat if the code uses methods of paths that read the file system or the current directory.

    A name that the code loads from something unknown counts only if no other object that the code reaches has it.
    """
    path_methods = READS_FILES.intersection(dir(pathlib.Path))
    for name, path in builder.files.paths:
        unknown = {
            attribute
            for receiver, attribute in builder.loads
            if not (receiver == "local" and hasattr(Tensor, attribute)) and attribute not in builder.files.others
        }
        if names := sorted(path_methods & (builder.loaded_from(path) | unknown)):
            raise unrepeatable_read(f"{names[0]} of {name}")


def file_names_of(value: Any) -> frozenset[str]:
    """The names in `READS_FILES` that mean something else for a value (not a path), or for its methods' results."""
    kind = type(value)
    if issubclass(kind, type):
        return _names_in_class(value)
    if issubclass(kind, types.ModuleType):
        return _names_in_module(value)
    return _names_in_class(kind) | READS_FILES.intersection(objects.dictionary(value) or ())


@lru_cache(maxsize=4096)
def _names_in_class(kind: type) -> frozenset[str]:
    if kind.__module__ in PATH_MODULES:
        return frozenset()
    # methods of a library's class may return instances of other classes of its module: `re.Pattern`, `re.Match.group`
    module = sys.modules.get(kind.__module__) if of_library(kind) else None
    names = READS_FILES.intersection(key for base in kind.__mro__ for key in vars(base))
    return names | _names_in_module(module)


def _names_in_module(module: types.ModuleType | None) -> frozenset[str]:
    """The names in `READS_FILES` that a user's module, or a class of a library's module, has."""
    if module is None or module.__name__ in PATH_MODULES:
        return frozenset()
    if not of_library(module):
        return frozenset(READS_FILES.intersection(vars(module)))
    return _names_in_library(module.__name__)


@lru_cache(maxsize=1024)
def _names_in_library(name: str) -> frozenset[str]:
    kinds = [
        kind
        for kind in vars(sys.modules[name]).values()
        if issubclass(type(kind), type) and kind.__module__ not in PATH_MODULES
    ]
    return frozenset(READS_FILES.intersection(key for kind in kinds for key in vars(kind)))
