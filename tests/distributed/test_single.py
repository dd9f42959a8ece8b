"""Process groups without MPI: one rank, whose collectives copy; the checks of arguments; what a missing mpi4py says."""

from __future__ import annotations

from datetime import timedelta

import pytest

import numod
import numod.distributed as dist
from numod import nn
from numod.distributed import ReduceOp, engine
from numod.nn.parallel import DistributedDataParallel


@pytest.fixture
def alone():
    dist.init_process_group("mpi", rank=0, world_size=1)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_errors_without_a_group() -> None:
    for use in (dist.get_rank, dist.get_world_size, dist.barrier, lambda: dist.all_reduce(numod.ones(1))):
        with pytest.raises(ValueError, match="please make sure to call init_process_group"):
            use()
    with pytest.raises(ValueError, match="please make sure to call init_process_group"):
        DistributedDataParallel(nn.Linear(2, 2))
    with pytest.raises(AssertionError, match="Process group cannot be None"):
        dist.destroy_process_group()
    assert dist.group.WORLD is None and not dist.is_initialized()


def test_more_ranks_need_a_launcher(monkeypatch) -> None:
    monkeypatch.setattr(engine, "is_installed", lambda: False)
    with pytest.raises(RuntimeError, match=r"no MPI launcher started this process.*pip install \"numod\[mpi\]\""):
        dist.init_process_group("mpi", rank=0, world_size=2)
    assert not dist.is_available() and not dist.is_mpi_available()
    monkeypatch.setenv("PMI_SIZE", "2")
    engine.load.cache_clear()
    with pytest.raises(RuntimeError, match="pip install mpi4py mpich"):
        dist.init_process_group()
    monkeypatch.delenv("PMI_SIZE")
    with pytest.raises(ValueError, match="rank is 3, but MPI's is 0"):
        dist.init_process_group("mpi", "tcp://localhost:1234?rank=3&world_size=1")
    assert not dist.is_initialized()


def test_init_checks_its_arguments(alone) -> None:
    with pytest.raises(ValueError, match="trying to initialize the default process group twice"):
        dist.init_process_group()
    dist.destroy_process_group()
    for backend, error, message in (
        ("foo", ValueError, "Unknown backend type foo"),
        (3, ValueError, "string-ish"),
    ):
        with pytest.raises(error, match=message):
            dist.init_process_group(backend)
    with pytest.raises(TypeError, match="datetime.timedelta"):
        dist.init_process_group("mpi", timeout=5)
    with pytest.raises(RuntimeError, match="No rendezvous handler for http"):
        dist.init_process_group("mpi", "http://x")
    with pytest.warns(UserWarning, match="the backend is MPI, in the place of 'gloo'"):
        dist.init_process_group("gloo", timeout=timedelta(seconds=3))
    assert dist.get_backend() == "gloo" and dist.Backend("GLOO") == dist.Backend.GLOO


def test_one_rank_gets_its_own_values(alone) -> None:
    x, part = numod.arange(4.0), numod.empty(4)
    assert (dist.get_rank(), dist.get_world_size(), dist.get_process_group_ranks(None)) == (0, 1, [0])
    for op in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.MAX):
        dist.all_reduce(x, op)
    dist.broadcast(x, 0)
    dist.reduce(x[::2], 0)
    for use in (
        lambda: dist.all_gather([part], x),
        lambda: dist.all_gather_into_tensor(part, x),
        lambda: dist.reduce_scatter(part, [x]),
        lambda: dist.reduce_scatter_tensor(part, x),
        lambda: dist.gather(x, [part]),
        lambda: dist.scatter(part, [x]),
        lambda: dist.all_to_all([part], [x]),
        lambda: dist.all_to_all_single(part, x, [4], [4]),
        lambda: dist.all_reduce(part.copy_(x), async_op=True).wait(),
    ):
        part.fill_(-1)
        use()
        assert part.tolist() == x.tolist() == [0, 1, 2, 3]
    objects = [None]
    dist.all_gather_object(objects, {"a": 1})
    assert objects == [{"a": 1}] and dist.barrier() is None and dist.get_rank(dist.new_group([0])) == 0


def test_arguments_of_collectives(alone) -> None:
    x = numod.ones(2)
    for use, error, message in (
        (lambda: dist.all_reduce([x]), TypeError, "Expected parameter `tensor` of type numod.Tensor"),
        (lambda: dist.all_reduce(x, "sum"), TypeError, "a member of ReduceOp"),
        (lambda: dist.all_reduce(x, ReduceOp.BAND), RuntimeError, "bitwise reductions"),
        (lambda: dist.all_reduce(x.to("meta")), RuntimeError, "no memory to send"),
        (lambda: dist.broadcast(x, 4), ValueError, "invalid root rank: 4"),
        (lambda: dist.broadcast(x), ValueError, "Must specify global_rank or group_rank"),
        (lambda: dist.all_gather((x,), x), TypeError, r"type List\[numod.Tensor\]"),
        (lambda: dist.all_gather([], x), RuntimeError, "expected a list of 1 tensors"),
        (lambda: dist.all_gather([numod.ones(3)], x), RuntimeError, "invalid tensor size at index 0"),
        (lambda: dist.all_gather([x.int()], x), ValueError, "different dtypes"),
        (lambda: dist.all_gather_into_tensor(numod.ones(3), x), RuntimeError, "an output of 1 x 2 elements"),
        (lambda: dist.reduce_scatter_tensor(x, numod.ones(3)), RuntimeError, "an input of 1 x 2 elements"),
        (lambda: dist.gather(x), ValueError, "``gather_list`` must be specified on destination rank"),
        (lambda: dist.scatter(x), ValueError, "``scatter_list`` must be specified on source rank"),
        (lambda: dist.all_to_all_single(x, x, [1], [2]), RuntimeError, "doesn't match total dim 0 size"),
        (lambda: dist.send(x, 0), ValueError, "Invalid destination rank"),
        (lambda: dist.new_group([0, 5]), ValueError, "world size should be less or equal"),
        (lambda: dist.new_group([5]), ValueError, "should be within the world_size"),
        (lambda: dist.broadcast_object_list("x", 0), TypeError, "expected a list"),
        (lambda: dist.P2POp(print, x, 0), ValueError, "Invalid ``op``"),
    ):
        with pytest.raises(error, match=message):
            use()


def test_a_module_of_one_rank_trains_as_itself(alone) -> None:
    ours, plain = DistributedDataParallel(layer := nn.Linear(3, 2)), nn.Linear(3, 2)
    plain.load_state_dict(layer.state_dict())
    x = numod.randn(4, 3)
    for module in (ours, plain):
        module(x).square().mean().backward()
    assert numod.equal(layer.weight.grad, plain.weight.grad) and list(ours.state_dict()) == [
        "module.weight",
        "module.bias",
    ]
    for arguments, error, message in (
        ((nn.ReLU(),), RuntimeError, "doesn't have any parameter that requires a gradient"),
        ((nn.Linear(1, 1), [0]), ValueError, "device_ids and output_device arguments only work with"),
    ):
        with pytest.raises(error, match=message):
            DistributedDataParallel(*arguments)
