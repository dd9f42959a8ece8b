"""Groups, collectives, messages and objects on two ranks beside PyTorch's on gloo (about 5 s)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec

import pytest
from ranks import on_ranks

NEEDS_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install torch")
CASES: dict[str, Callable] = {}


def case(function: Callable) -> Callable:
    CASES[function.__name__] = function
    return function


@case
def default_store(T, D, DDP):
    store = import_module(f"{T.__name__}.distributed.distributed_c10d")._get_default_store()
    store.set(f"key{D.get_rank()}", str(D.get_rank()))
    values = [store.get("key0"), store.get("key1")]
    store.add("count", 1)
    D.barrier()
    return [values, store.add("count", 0), type(store).__name__]


@case
def default_group(T, D, DDP):
    private = import_module(f"{T.__name__}.distributed.distributed_c10d")
    group, rank = private._get_default_group(), D.get_rank()
    return [
        group.size(), group.rank(), group is D.group.WORLD, private._rank_not_in_group(None), D.get_pg_count(),
        private._rank_not_in_group(D.GroupMember.NON_GROUP_MEMBER), D.get_process_group_ranks(None),
        D.get_group_rank(group, rank), D.get_global_rank(group, rank),
    ]  # fmt: skip


@case
def subgroups(T, D, DDP):
    D.barrier()
    member_of, every = D.new_subgroups(1)
    x = T.tensor([D.get_rank() + 1.0])
    D.all_reduce(x, group=member_of)
    results = [x, D.get_process_group_ranks(member_of), D.get_rank(member_of), len(every), D.get_pg_count()]
    D.destroy_process_group(member_of)
    member_of, every = D.new_subgroups_by_enumeration([[1], [0]])
    return [*results, D.get_process_group_ranks(member_of), D.get_world_size(member_of), len(every)]


@case
def ranks_in_another_order(T, D, DDP):
    group, rank = D.new_group([1, 0], sort_ranks=False), D.get_rank()
    parts, x, y = [T.zeros(1), T.zeros(1)], T.tensor([rank + 1.0]), T.tensor([rank + 1.0])
    D.all_gather(parts, T.tensor([float(rank)]), group=group)
    D.broadcast(x, 1, group=group)
    D.broadcast(y, group=group, group_src=0)
    ranks = D.get_process_group_ranks(group)
    return [D.get_rank(group), ranks, parts, x, y, D.get_group_rank(group, 1), D.get_global_rank(group, 0)]


@case
def several_tensors(T, D, DDP):
    rank = D.get_rank()
    inputs = [T.tensor([rank + 1.0, 2]), T.tensor([[rank * 3.0]])]
    results = [[[T.zeros(2), T.zeros(1, 1)] for _ in range(2)] for _ in range(2)]
    D.all_gather_coalesced(results[0], inputs)
    D.all_gather_coalesced(results[1], inputs, async_op=True).wait()
    D.all_reduce_coalesced(inputs)
    gathered, part = T.zeros(4), T.zeros(2)
    D._all_gather_base(gathered, T.tensor([rank, 1.0]))
    D._reduce_scatter_base(part, T.arange(4.0) + rank)
    return [results, inputs, gathered, part]


@case
def messages(T, D, DDP):
    rank, received = D.get_rank(), T.zeros(3)
    batch = [D.P2POp(D.isend, T.full((3,), float(rank)), 1 - rank), D.P2POp(D.irecv, received, 1 - rank)]
    for work in D.batch_isend_irecv(batch):
        work.wait()
    first, second, sender = T.zeros(1), T.zeros(1), -1
    if rank == 0:
        D.send(T.tensor([1.0]), 1, tag=5)
        D.send(T.tensor([2.0]), 1, tag=6)
    else:
        D.recv(first, 0, tag=5)
        sender = D.recv(second, tag=6)
    return [received, first, second, sender]


@case
def objects(T, D, DDP):
    rank = D.get_rank()
    replaced, gathered, scattered = [{"a": rank}, None, "x" * rank], [None, None], [None]
    D.broadcast_object_list(replaced, 1, device=T.device("cpu"))
    D.all_gather_object(gathered, ("rank", rank))
    D.scatter_object_list(scattered, ["for 0", "for 1"] if rank == 0 else None)
    sent = [1, {"a": 2}] if rank == 0 else [None, None]
    D.send_object_list(sent, 1) if rank == 0 else D.recv_object_list(sent, 0)
    collected = [None, None] if rank == 0 else None
    D.gather_object({rank: 1}, collected)
    return [replaced, gathered, scattered, sent, collected]


@case
def waits_and_futures(T, D, DDP):
    x = T.tensor([D.get_rank() + 1.0])
    D.monitored_barrier(timeout=timedelta(seconds=30))
    D.barrier(timeout=timedelta(seconds=30))
    work = D.all_reduce(x, async_op=True)
    return [work.get_future().then(lambda future: future.value()[0] * 10).wait(), x]


@case
def levels(T, D, DDP):
    names = [D.get_debug_level().name]
    D.set_debug_level(D.DebugLevel.DETAIL)
    names.append(D.get_debug_level().name)
    D.set_debug_level_from_env()
    return [*names, D.get_debug_level().name]


@case
def backends(T, D, DDP):
    config = D.BackendConfig("gloo").get_device_backend_map()
    complexes = [D.supports_complex(op) for op in (D.ReduceOp.SUM, D.ReduceOp.MAX, D.ReduceOp.BAND)]
    return [str(config["cpu"]), complexes, D.is_torchelastic_launched(), str(D.Backend("GLOO"))]


@case
def memory(T, D, DDP):
    rank = D.get_rank()
    x, z = T.arange(12.0).view(3, 4).t() + rank, T.arange(6.0)[::2] * rank
    D.all_reduce(x)
    D.broadcast(z, 1)
    leaf, nothing, empty = T.ones(2, requires_grad=True), T.ones(0), T.ones(0)
    D.all_reduce(leaf)
    D.all_reduce(nothing)
    D.all_gather_into_tensor(empty, nothing)
    return [x, z, leaf, nothing, empty]


for name in "uint8 int8 int32 int64 bool float16 bfloat16 float32 float64 complex64".split():

    def reductions(T, D, DDP, name=name):
        results = []
        for op in ("SUM", "MIN", "MAX", "BAND", "BOR", "BXOR"):
            x = (T.arange(6) % 3 + D.get_rank()).to(getattr(T, name))
            try:
                D.all_reduce(x, getattr(D.ReduceOp, op))
                results.append(T.view_as_real(x) if x.is_complex() else x.double())
            except (RuntimeError, ValueError) as error:
                results.append(type(error).__name__)
        return results

    CASES[f"reductions_{name}"] = reductions

WRONG = [
    lambda T, D: D.new_subgroups(0),
    lambda T, D: D.new_subgroups(3),
    lambda T, D: D.new_subgroups(),
    lambda T, D: D.new_subgroups_by_enumeration([]),
    lambda T, D: D.new_subgroups_by_enumeration([[0, 1], [1]]),
    lambda T, D: D.new_group([0, 0]),
    lambda T, D: D.new_group([2]),
    lambda T, D: D.new_group([-1]),
    lambda T, D: D.new_group(timeout=3),
    lambda T, D: D.init_process_group("gloo"),
    lambda T, D: D.get_backend(-100),
    lambda T, D: D.Backend(3),
    lambda T, D: D.P2POp(D.broadcast, T.zeros(1), 0),
    lambda T, D: D.batch_isend_irecv([3]),
    lambda T, D: D.send(T.zeros(1), D.get_rank()),
    lambda T, D: D.all_reduce(3),
    lambda T, D: D.broadcast(T.ones(2)),
    lambda T, D: D.all_gather(T.ones(2), T.ones(2)),
    lambda T, D: D.reduce(T.ones(2)),
    lambda T, D: D.reduce(T.ones(2), 0, group_dst=0),
    lambda T, D: D.monitored_barrier(timeout=3),
    lambda T, D: D.get_rank(D.GroupMember.NON_GROUP_MEMBER),
    lambda T, D: D.get_world_size(D.GroupMember.NON_GROUP_MEMBER),
    lambda T, D: D.destroy_process_group(D.GroupMember.NON_GROUP_MEMBER),
    lambda T, D: D.set_debug_level(3),
    lambda T, D: D.init_process_group("gloo", store=D.HashStore(), init_method="env://"),
]
CASES.update({f"wrong{number}": lambda T, D, DDP, call=call: call(T, D) and None for number, call in enumerate(WRONG)})


@NEEDS_TORCH
@on_ranks()
def test_each_case_equals_pytorchs() -> None:
    from beside_torch import check

    check(CASES, 1e-6)
