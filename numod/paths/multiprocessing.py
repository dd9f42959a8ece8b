"""`numod.multiprocessing`: Python's module, with PyTorch's `spawn`.

Tensors sent between processes are copied unless `share_memory_` was called.
"""

from __future__ import annotations

import multiprocessing as _python
from multiprocessing import *

from .spawn import *
from .spawn import __all__ as _spawn_names

__all__ = [  # noqa: PLE0604  names of two modules
    *_python.__all__, *_spawn_names, "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy",
]  # fmt: skip


def get_all_sharing_strategies() -> set[str]:
    """{"file_system"}."""
    return {"file_system"}


def get_sharing_strategy() -> str:
    """ "file_system"."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Does nothing, since there is one strategy. Raises AssertionError for a name unknown to PyTorch."""
    if new_strategy not in ("file_system", "file_descriptor"):
        raise AssertionError(f"unknown sharing strategy {new_strategy!r}")
