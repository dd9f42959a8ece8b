"""The arguments of `init_process_group`: backend, timeout, store, rank and number of ranks."""

from __future__ import annotations

import os
from datetime import timedelta
from urllib.parse import parse_qs, urlparse

from .stores import Store

default_pg_timeout = timedelta(minutes=30)


class Backend(str):
    """The name of a backend, in lower case. Every backend of numod's is MPI."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"
    backend_list = ["undefined", "gloo", "nccl", "xccl", "ucc", "mpi"]

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return super().__new__(cls, name.lower())


def checked_timeout(timeout: timedelta | None) -> timedelta:
    """A timeout, the default one for None. Raises TypeError for other values."""
    if not isinstance(timeout, (timedelta, type(None))):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    return default_pg_timeout if timeout is None else timeout


def checked_backend(backend: str | None) -> str:
    """The name that `get_backend` returns. Raises ValueError for one that PyTorch does not have either."""
    names = [entry.partition(":")[2] or entry for entry in Backend(backend or "mpi").split(",")]
    for name in names:
        if name not in Backend.backend_list[1:]:
            raise ValueError(f"Unknown backend type {name}; numod has 'mpi'")
    return Backend(names[0])


def check_store(store: object, init_method: str | None, rank: int, world_size: int) -> None:
    """Raise TypeError for what is no store, and AssertionError unless it comes with a rank and a number of ranks."""
    if not isinstance(store, Store):
        raise TypeError(f"init_process_group: store must be a Store such as TCPStore, got {type(store).__name__}")
    if init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if world_size <= 0:
        raise AssertionError("world_size must be positive if using store")
    if rank < 0:
        raise AssertionError("rank must be non-negative if using store")


def requested_position(init_method: str | None, rank: int, world_size: int) -> tuple[int, int]:
    """The rank and the number of ranks that the caller, the URL or the environment names; -1 where none does."""
    url = urlparse(init_method or "env://")
    if url.scheme not in ("env", "tcp", "file"):
        raise RuntimeError(f"No rendezvous handler for {url.scheme}://; use env://, tcp:// or file://")
    query = {name: int(values[0]) for name, values in parse_qs(url.query).items()}
    return tuple(
        query.get(name, argument) if argument in (-1, None) and name in query else _from_environment(argument, name)
        for name, argument in (("rank", rank), ("world_size", world_size))
    )


def _from_environment(argument: int, name: str) -> int:
    return int(os.environ.get(name.upper(), -1)) if argument in (-1, None) else int(argument)
