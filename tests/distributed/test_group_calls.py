"""Collectives as methods of a process group, on two ranks, beside the functions."""

from __future__ import annotations

import pytest
from ranks import on_ranks

import numod
import numod.distributed as dist
from numod.distributed import ReduceOp


@on_ranks()
def test_methods_of_a_group() -> None:
    group, rank = dist.group.WORLD, dist.get_rank()
    x = numod.tensor([1.0, 2.0]) + rank
    for arguments in ((), (ReduceOp.SUM,), (dist.AllreduceOptions(),)):
        total = x.clone()
        future = group.allreduce([total], *arguments).get_future()
        assert future.wait()[0].tolist() == total.tolist() == [3, 5]
    largest = x.clone()
    group.allreduce(largest, op=ReduceOp.MAX).wait()
    assert largest.tolist() == [2, 3]
    options = dist.BroadcastOptions()
    options.rootRank = 1
    for call in (lambda y: group.broadcast([y], options), lambda y: group.broadcast(y, root=1)):
        call(sent := x.clone()).wait()
        assert sent.tolist() == [2, 3]
    group.reduce(total := x.clone(), root=1, op=ReduceOp.PRODUCT).wait()
    assert rank == 0 or total.tolist() == [2, 6]
    parts = [numod.empty(2), numod.empty(2)]
    group.allgather([parts], [x]).wait()
    assert [part.tolist() for part in parts] == [[1, 2], [2, 3]]
    group.gather([parts] if rank == 0 else [], [x * 2], dist.GatherOptions()).wait()
    assert rank == 1 or [part.tolist() for part in parts] == [[2, 4], [4, 6]]
    group.scatter(y := numod.empty(2), [x, x + 1] if rank == 1 else [], root=1).wait()
    assert y.tolist() == ([2, 3], [3, 4])[rank]
    group.reduce_scatter([y], [[x, x + 1]]).wait()
    assert y.tolist() == ([3, 5], [5, 7])[rank]
    whole = numod.empty(4)
    group._allgather_base(whole, x).wait()
    assert whole.tolist() == [1, 2, 2, 3]
    group._reduce_scatter_base(y, whole).wait()
    assert y.tolist() == ([2, 4], [4, 6])[rank]
    group.alltoall(parts, [x, x + 10]).wait()
    assert [part.tolist() for part in parts] == ([[1, 2], [2, 3]], [[11, 12], [12, 13]])[rank]
    group.alltoall_base(y, x, [], []).wait()
    assert y.tolist() == ([1, 2], [2, 3])[rank]
    pair = [x.clone(), x * 2]
    group.allreduce_coalesced(pair).wait()
    assert [part.tolist() for part in pair] == [[3, 5], [6, 10]]
    lists = [[numod.empty(2)], [numod.empty(2)]]
    group.allgather_coalesced(lists, [x]).wait()
    assert [part.tolist() for (part,) in lists] == [[1, 2], [2, 3]]
    if rank == 0:
        group.send([x], 1, 5).wait()
        work = group.recv_anysource([y])
        work.wait()
        assert work._source_rank() == 1 and y.tolist() == [2, 3]
    else:
        group.recv([y], 0, 5).wait()
        group.send(x, 0).wait()
        assert y.tolist() == [1, 2]
    group.barrier().wait()
    group.monitored_barrier()
    with pytest.raises(RuntimeError, match="requires one tensor, got a list of 0"):
        group.allreduce([])


@on_ranks()
def test_a_hook_of_data_parallel_calls_its_group() -> None:
    model = numod.nn.parallel.DistributedDataParallel(numod.nn.Linear(2, 1))

    def hook(group: dist.ProcessGroup, bucket: dist.GradBucket) -> numod.futures.Future:
        buffer = bucket.buffer().div_(group.size())
        return group.allreduce([buffer]).get_future().then(lambda future: future.wait()[0])

    model.register_comm_hook(dist.group.WORLD, hook)
    model(numod.ones(1, 2) * (1 + dist.get_rank())).sum().backward()
    assert model.module.weight.grad.tolist() == [[1.5, 1.5]]
