"""The collectives on two ranks, over dtypes and layouts, at once, asynchronously and in compiled functions.

Each test starts two processes; the file takes about 30 s.
"""

from __future__ import annotations

import pytest
from ranks import on_ranks

import numod
import numod.distributed as dist
from numod.distributed import ReduceOp

DTYPES = "uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()


@on_ranks()
def test_reductions_over_dtypes() -> None:
    rank = dist.get_rank()
    pair = numod.tensor([[1, 6, 3], [5, 2, 3]])
    expected = {
        ReduceOp.SUM: [6, 8, 6], ReduceOp.PRODUCT: [5, 12, 9], ReduceOp.MIN: [1, 2, 3], ReduceOp.MAX: [5, 6, 3],
        ReduceOp.BAND: [1, 2, 3], ReduceOp.BOR: [5, 6, 3], ReduceOp.BXOR: [4, 4, 0], ReduceOp.AVG: [3, 4, 3],
    }  # fmt: skip
    for name in DTYPES:
        for op, values in expected.items():
            x = pair[rank].to(getattr(numod, name), copy=True)
            bitwise = op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
            if x.is_complex() and (bitwise or op in (ReduceOp.MIN, ReduceOp.MAX)):
                with pytest.raises(ValueError, match=rf"all_reduce does not support RedOpType.{op.name} on complex"):
                    dist.all_reduce(x, op)
            elif x.is_floating_point() and bitwise:
                with pytest.raises(RuntimeError, match="bitwise reductions take integers and bool"):
                    dist.all_reduce(x, op)
            else:
                dist.all_reduce(x, op)
                assert x.dtype is getattr(numod, name) and x.tolist() == values, (name, op, x)
    flags = numod.tensor([[True, True, False], [True, False, False]])
    for op, values in ((ReduceOp.SUM, [1, 1, 0]), (ReduceOp.PRODUCT, [1, 0, 0]), (ReduceOp.BXOR, [0, 1, 0])):
        x = flags[rank].clone()
        dist.all_reduce(x, op)
        assert x.tolist() == [bool(value) for value in values]


@on_ranks()
def test_bfloat16_sums_round_to_nearest() -> None:
    numod.manual_seed(0)
    values = numod.randn(2, 1000).bfloat16()
    values[:, 0], values[0, 1], values[:, 2] = float("inf"), float("nan"), 3e38
    for dtype in (numod.bfloat16, numod.float16):
        x = values.to(dtype)
        local = x[dist.get_rank()].clone()
        dist.all_reduce(local)
        assert numod.equal(local.nan_to_num(-1.0), (x[0] + x[1]).nan_to_num(-1.0))


@on_ranks()
def test_layouts_and_versions() -> None:
    rank = dist.get_rank()
    whole = numod.zeros(4, 3)
    column = whole[:, 1]
    before = whole._version
    dist.all_reduce(column.add_(rank + 1))
    assert whole.tolist() == [[0, 3, 0]] * 4 and whole._version > before
    transposed = numod.arange(6.0).view(2, 3).t()
    dist.broadcast(transposed.add_(10 * rank), 1)
    assert transposed.tolist() == [[10, 13], [11, 14], [12, 15]]
    scalar, empty = numod.tensor(rank + 1.0), numod.empty(0, 2)
    dist.all_reduce(scalar)
    dist.all_reduce(empty)
    assert scalar == 3
    leaf = numod.ones(2, requires_grad=True)
    dist.all_reduce(leaf)
    assert leaf.tolist() == [2, 2] and leaf.is_leaf
    square = (saved := numod.ones(2, requires_grad=True)) * saved.exp()
    dist.all_reduce(saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.sum().backward()


@on_ranks()
def test_gathers_and_scatters() -> None:
    rank, local = dist.get_rank(), numod.tensor([1.0, 2.0]) + 10 * dist.get_rank()
    parts = [numod.empty(2), numod.empty(4)[::2]]
    dist.all_gather(parts, local)
    assert [part.tolist() for part in parts] == [[1, 2], [11, 12]]
    stacked = numod.empty(2, 2)
    dist.all_gather_into_tensor(stacked, local)
    assert stacked.tolist() == [[1, 2], [11, 12]]
    part = numod.empty(2)
    dist.reduce_scatter(part, [local, local * 2])
    assert part.tolist() == ([12, 14], [24, 28])[rank]
    dist.reduce_scatter_tensor(part, numod.arange(4.0), ReduceOp.AVG)
    assert part.tolist() == ([0, 1], [2, 3])[rank]
    gathered = [numod.empty(2), numod.empty(2)] if rank == 1 else None
    dist.gather(local, gathered, dst=1)
    assert rank == 0 or [part_received.tolist() for part_received in gathered] == [[1, 2], [11, 12]]
    dist.scatter(part, [local, local + 1] if rank == 0 else None, src=0)
    assert part.tolist() == ([1, 2], [2, 3])[rank]
    total = local.clone()
    dist.reduce(total, 1)
    assert rank == 0 or total.tolist() == [12, 14]
    received = [numod.empty(rank + 1, 2), numod.empty(rank + 1, 2)]
    dist.all_to_all(received, [numod.full((k + 1, 2), 10.0 * rank + k) for k in range(2)])
    assert [part_received.unique().tolist() for part_received in received] == [[rank], [10 + rank]]
    rows = numod.empty(3)
    sizes = [[1, 2], [2, 1]][rank]
    dist.all_to_all_single(rows, numod.arange(3.0) + 10 * rank, sizes, [[1, 2], [2, 1]][rank])
    assert rows.tolist() == ([0, 10, 11], [1, 2, 12])[rank]


@on_ranks()
def test_messages() -> None:
    rank, other = dist.get_rank(), 1 - dist.get_rank()
    received = numod.empty(3, dtype=numod.int32)
    if rank == 0:
        dist.send(numod.arange(3, dtype=numod.int32), 1)
        assert dist.recv(received) == 1
    else:
        assert dist.recv(received, 0) == 0
        dist.send(received * 2, 0)
    assert received.tolist() == ([0, 2, 4], [0, 1, 2])[rank]
    columns = numod.zeros(2, 2)
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, numod.ones(2) * rank, other), dist.P2POp(dist.irecv, columns[:, 1], other)]
    )
    assert all(work.wait() for work in works) and columns.tolist() == [[0, other]] * 2
    with pytest.raises(ValueError, match="should not be the same as the rank of the current process"):
        dist.send(received, rank)
    if rank == 0:
        dist.send_object_list(["a", {"b": 1}], 1)
    else:
        objects = [None, None]
        assert dist.recv_object_list(objects) == 0 and objects == ["a", {"b": 1}]


@on_ranks()
def test_objects() -> None:
    rank = dist.get_rank()
    every = [None, None]
    dist.all_gather_object(every, {"rank": rank, "x": numod.ones(rank)})
    assert [obj["rank"] for obj in every] == [0, 1] and every[1]["x"].tolist() == [1]
    shared = ["x", numod.float64] if rank == 0 else [None, None]
    dist.broadcast_object_list(shared, 0)
    assert shared == ["x", numod.float64]
    gathered = [0, 0] if rank == 1 else None
    dist.gather_object("z" * rank, gathered, dst=1)
    assert rank == 0 or gathered == ["", "z"]
    received = [None]
    dist.scatter_object_list(received, [1, "b"] if rank == 1 else None, src=1)
    assert received == [(1, "b")[rank]]


@on_ranks()
def test_handles_and_groups() -> None:
    rank = dist.get_rank()
    x, y = numod.ones(5), numod.ones(3, 2).t()
    works = [dist.all_reduce(x, async_op=True), dist.all_reduce(y, ReduceOp.AVG, async_op=True)]
    assert works[0].wait() and works[1].result() == [y] and all(work.is_completed() for work in works)
    assert x.tolist() == [2] * 5 and y.sum() == 6 and works[0].get_future().wait() == [x]
    alone, both = dist.new_group([1]), dist.new_group([1, 0])
    assert dist.get_process_group_ranks(both) == [0, 1] and dist.get_group_rank(both, 1) == 1
    if rank == 0:
        assert alone == dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(alone) == -1
        with pytest.warns(UserWarning, match="Running all_reduce on global rank 0 which does not belong"):
            assert dist.all_reduce(x, group=alone) is None
    else:
        assert (dist.get_rank(alone), dist.get_world_size(alone)) == (0, 1)
        dist.all_reduce(x, group=alone)
        dist.broadcast(x, src=1, group=alone)
        with pytest.raises(ValueError, match="invalid root rank: 0"):
            dist.broadcast(x, src=0, group=alone)
    assert x.tolist() == [2] * 5
    dist.monitored_barrier()
    for _ in range(50):  # MPI has a limited number of communicators; freed ones are used again
        dist.destroy_process_group(dist.new_group())
    dist.barrier(both)


@on_ranks()
def test_collectives_are_steps_of_compiled_functions() -> None:
    rank = dist.get_rank()

    @numod.compile(fullgraph=True)
    def reduced(x):
        y = x * 2
        work = dist.all_reduce(y, async_op=True)
        z = x * 3
        work.wait()
        parts = [numod.empty(5), numod.empty(5)]
        dist.all_gather(parts, z)
        return y + z, parts[0] - parts[1]

    for k in range(1, 4):
        y, difference = reduced(numod.full((5,), k * (rank + 1.0)))
        assert y.tolist() == [k * (6 + 3 * (rank + 1.0))] * 5 and difference.tolist() == [-3.0 * k] * 5

    @numod.compile(fullgraph=True)
    def on_one(x):
        dist.barrier()
        dist.gather(x, [numod.empty(1), numod.empty(1)] if rank == 0 else None)
        return x + 1

    assert [on_one(numod.ones(1)).item() for _ in range(3)] == [2, 2, 2]


@on_ranks()
def test_gradients_of_collectives() -> None:
    from numod.distributed.nn import functional as collective

    rank = dist.get_rank()
    x = numod.tensor([1.0, 2.0], dtype=numod.float64, requires_grad=True)
    (collective.all_reduce(x * (rank + 1)) ** 2).sum().backward()
    assert x.grad.tolist() == [12.0 * (rank + 1), 24.0 * (rank + 1)]  # 2 ranks, d(3x)^2 = 6x each, times this factor
    for function in (
        lambda x: sum(collective.all_gather(x)),
        lambda x: collective.broadcast(x, 1),
        lambda x: collective.reduce_scatter(numod.empty(2), [x, x]),
    ):
        x.grad = None
        (function(x) * numod.tensor([1.0, 3.0])).sum().backward()
        assert x.grad.tolist() == ([0, 0] if "broadcast" in str(function.__code__.co_names) and rank == 0 else [2, 6])
    x.grad = None
    (collective.broadcast(x, 1) * float("inf")).sum().backward()
    assert x.grad.tolist() == ([0, 0], [float("inf")] * 2)[rank]


@on_ranks()
def test_gradients_of_collectives_with_a_root_and_of_exchanges() -> None:
    from numod.distributed.nn import functional as collective

    rank = dist.get_rank()
    weights = [numod.tensor([1.0, 3.0]) * (k + 1) for k in range(2)]
    a, b = (numod.tensor([1.0, 2.0]) + 10 * rank + k for k in range(2))
    a.requires_grad_(), b.requires_grad_()

    def gradients(loss: numod.Tensor) -> list[list[float]]:
        a.grad = b.grad = None
        loss.backward()
        return [[] if x.grad is None else x.grad.tolist() for x in (a, b)]

    total = collective.reduce(a, 1)
    assert rank == 0 or total.tolist() == [12, 14]
    assert gradients((total * weights[rank]).sum())[0] == [2, 6]
    parts = collective.gather(a, 1)
    assert [part.tolist() for part in parts] == ([[0, 0], [0, 0]], [[1, 2], [11, 12]])[rank]
    assert gradients((parts[0] * weights[1] + parts[1] * weights[0]).sum())[0] == ([2, 6], [1, 3])[rank]
    received = collective.scatter([a, b], 1)
    assert received.tolist() == ([11, 12], [12, 13])[rank]
    assert gradients((received * weights[rank]).sum()) == ([[0, 0], [0, 0]], [[1, 3], [2, 6]])[rank]
    outputs = [numod.empty(2), numod.empty(2)]
    results = collective.all_to_all(outputs, [a, b])
    assert [x.tolist() for x in outputs] == [x.tolist() for x in results] == [
        ([1, 2], [2, 3])[rank], ([11, 12], [12, 13])[rank]
    ]  # fmt: skip
    assert gradients((results[rank] * weights[rank]).sum()) == ([[1, 3], [0, 0]], [[0, 0], [2, 6]])[rank]
    x = (numod.arange(3.0) + 10 * rank).requires_grad_()
    sent, expected = ([1, 2], [0, 10]) if rank == 0 else ([1, 2], [1, 2, 11, 12])
    output = numod.empty(len(expected))
    result = collective.all_to_all_single(output, x, [1, 1] if rank == 0 else [2, 2], sent)
    assert output.tolist() == result.tolist() == expected
    (result * (rank + 1) * numod.arange(1.0, len(expected) + 1)).sum().backward()
    assert x.grad.tolist() == ([1, 2, 4], [2, 6, 8])[rank]
    with pytest.raises(RuntimeError, match="has no gradient; use SUM"):
        collective.reduce(a, 0, ReduceOp.MAX)
