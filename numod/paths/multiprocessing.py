"""`numod.multiprocessing`: Python's module, with PyTorch's `spawn`.

Tensors sent between processes are copied unless `share_memory_` was called.
"""

from __future__ import annotations

import multiprocessing as _python
from collections.abc import Callable
from multiprocessing import *
from typing import Any

from ..distributed.group import is_available
from ..distributed.spawn import Ranks, needs_ranks

__all__ = _python.__all__ + [
    "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip


def start_processes(
    fn: Callable,
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> list[Any]:
    """Run fn(number, *args) in `nprocs` processes, and wait for them if `join`. Raises RuntimeError where one fails.

    If mpi4py is installed and `fn` calls `init_process_group`, the processes are started by mpiexec as its ranks.
    """
    if nprocs > 1 and is_available() and needs_ranks(fn):
        ranks = Ranks(fn, tuple(args), nprocs)
        if join:
            ranks.join()
        return [ranks]
    context = _python.get_context(start_method)
    processes = [context.Process(target=fn, args=(number, *args), daemon=daemon) for number in range(nprocs)]
    for process in processes:
        process.start()
    for number, process in enumerate(processes if join else ()):
        process.join()
        if process.exitcode:
            raise RuntimeError(f"process {number} terminated with exit code {process.exitcode}")
    return processes


def spawn(
    fn: Callable,
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> list[Any]:
    """`start_processes` with new interpreters."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


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
