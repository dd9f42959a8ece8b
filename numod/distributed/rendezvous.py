"""The store that the ranks of the default group share, and PyTorch's `rendezvous`."""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlparse

from .stores import FileStore, HashStore, Store
from .tcp_store import TCPStore


def default_store(communicator: Any, ranks_here: int) -> Store:
    """A store of all ranks: in a file if all run on this machine, else served by rank 0."""
    if communicator.size == 1:
        return HashStore()
    if ranks_here == communicator.size:
        path = os.path.join(tempfile.gettempdir(), f"numod-store-{secrets.token_hex(8)}")
        store = FileStore(communicator.mpi.bcast(path), communicator.size)
        if communicator.rank == 0:
            weakref.finalize(store, _remove, store.path)
        return store
    if communicator.rank:
        return TCPStore(*communicator.mpi.bcast(None))
    store = TCPStore(socket.gethostname(), 0, is_master=True)
    communicator.mpi.bcast((store.host, store.port))
    return store


def _remove(path: str) -> None:
    with suppress(OSError):  # it exists only if the store was used
        os.unlink(path)


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Iterator[tuple[Store, int, int]]:
    """Yield (store, rank, number of ranks) for a URL such as env://, tcp://host:port or file:///path.

    Numbers that are -1 come from the URL's query or, for env://, from the environment, where MASTER_ADDR and
    MASTER_PORT name the address; rank 0 serves there. Raises ValueError where one is missing, and RuntimeError for
    other URLs.
    """
    address = urlparse(url)
    query = {name: int(values[0]) for name, values in parse_qs(address.query).items()}
    if address.scheme == "env":
        query = {name: int(os.environ[name.upper()]) for name in ("rank", "world_size") if name.upper() in os.environ}
    numbers = [
        query.get(name, -1) if number == -1 else number for name, number in (("rank", rank), ("world_size", world_size))
    ]
    for name, number in zip(("rank", "world_size"), numbers):
        if number < 0:
            raise ValueError(f"rendezvous by {address.scheme}://: {name} is missing")
    rank, world_size = numbers
    if address.scheme == "file":
        yield FileStore(address.path, world_size), rank, world_size
        return
    if address.scheme not in ("env", "tcp"):
        raise RuntimeError(f"No rendezvous handler for {address.scheme}://; use env://, tcp:// or file://")
    host, port = address.hostname, address.port
    if address.scheme == "env":
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            if name not in os.environ:
                raise ValueError(f"rendezvous: the environment variable {name} is missing")
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    timeout = kwargs.get("timeout", timedelta(seconds=300))
    yield TCPStore(host, port, world_size, rank == 0, timeout, multi_tenant=True), rank, world_size
