"""The default group's store, and `rendezvous`."""

from __future__ import annotations

import os

import pytest
from ranks import on_ranks

import numod.distributed as dist
from numod.distributed.rendezvous import default_store, rendezvous
from numod.distributed.group import _get_default_store, current


def test_a_process_alone() -> None:
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        _get_default_store()
    store = dist.HashStore()
    for arguments, error, message in (
        ({"store": 3}, TypeError, "store must be a Store such as TCPStore, got int"),
        ({"store": store, "init_method": "env://"}, AssertionError, "Cannot specify both init_method and store"),
        ({"store": store}, AssertionError, "world_size must be positive if using store"),
        ({"store": store, "world_size": 1}, AssertionError, "rank must be non-negative if using store"),
    ):
        with pytest.raises(error, match=message):
            dist.init_process_group("mpi", **arguments)
    dist.init_process_group("mpi", store=store, rank=0, world_size=1)
    _get_default_store().set("a", "1")
    assert store.get("default_pg/a") == b"1"
    dist.destroy_process_group()


@on_ranks()
def test_all_ranks_share_a_store() -> None:
    rank, communicator = dist.get_rank(), dist.group.WORLD.communicator
    stores = [_get_default_store(), default_store(communicator, ranks_here=1)]  # the second as on two machines
    assert [type(stores[0].underlying_store).__name__, type(stores[1]).__name__] == ["FileStore", "TCPStore"]
    for store in stores:
        store.set(f"rank {rank}", str(rank))
        assert store.get(f"rank {1 - rank}") == str(1 - rank).encode()
        store.add("sum", rank + 1)
        dist.barrier()
        assert store.add("sum", 0) == 3
    path = stores[0].underlying_store.path
    assert os.path.exists(path)
    dist.barrier()  # rank 0 removes the file
    if rank == 0:
        current.store = stores[0] = None
        del store
        assert not os.path.exists(path)
    dist.barrier()


def test_rendezvous(tmp_path, monkeypatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    store, rank, size = next(rendezvous(f"file://{tmp_path}/store?rank=1&world_size=2"))
    assert (type(store), rank, size) == (dist.FileStore, 1, 2)
    store, rank, size = next(rendezvous("tcp://127.0.0.1:0", 0, 1))
    assert (type(store), rank, size) == (dist.TCPStore, 0, 1)
    for url, error, message in (
        ("env://", ValueError, "rank is missing"),
        ("tcp://127.0.0.1:1?rank=0", ValueError, "world_size is missing"),
        ("other://", ValueError, "rank is missing"),
        ("other://?rank=0&world_size=1", RuntimeError, "No rendezvous handler for other://"),
    ):
        with pytest.raises(error, match=message):
            next(rendezvous(url))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    with pytest.raises(ValueError, match="the environment variable MASTER_ADDR is missing"):
        next(rendezvous("env://"))
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(store.port))
    other, rank, size = next(dist.rendezvous("env://"))  # joins the master of this address
    store.set("a", "1")
    assert other.get("a") == b"1"
