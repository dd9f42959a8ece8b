"""What the package says of backends and levels of checks; the rest is in test_collectives_beside_torch.py."""

from __future__ import annotations

import pytest

import numod
import numod.distributed as dist


def test_every_backend_is_mpi() -> None:
    assert (
        dist.get_default_backend_for_device("cpu") == dist.get_default_backend_for_device(numod.device("cpu")) == "mpi"
    )
    assert dist.is_backend_available("mpi") is dist.is_available() and not dist.is_backend_available("gloo")
    assert str(dist.BackendConfig("cpu:gloo,cuda:nccl")) == "cpu:gloo,cuda:nccl"
    assert dist.get_pg_count() == 0
    dist.init_process_group("mpi")
    assert dist.get_backend_config() == "cpu:mpi,cuda:mpi" and dist.get_pg_count() == 1
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="unknown backend 'tcp' in 'cpu:tcp'; numod has 'mpi'"):
        dist.BackendConfig("cpu:tcp")
    with pytest.raises(ValueError, match="expected a device, got 3"):
        dist.get_default_backend_for_device(3)


def test_names_of_pytorch_that_numod_does_not_have_say_so() -> None:
    for name in ("shrink_group", "ProcessGroupGloo"):
        with pytest.raises(NotImplementedError, match=f"distributed.{name}"):
            getattr(dist, name)()
