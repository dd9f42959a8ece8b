"""DeviceMesh and split groups on four ranks, beside PyTorch's on gloo (about 5 s)."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

import pytest
from ranks import on_ranks

import numod
import numod.distributed as dist
from numod import nn
from numod.nn.parallel import DistributedDataParallel

CASES: dict[str, Callable] = {}


def case(function: Callable) -> Callable:
    CASES[function.__name__] = function
    return function


def described(T, D, mesh):
    """What a mesh says of itself, and the sum of the ranks of each of its groups."""
    sums = []
    for dim in range(mesh.ndim):
        x = T.tensor([float(D.get_rank())])
        D.all_reduce(x, group=mesh.get_group(dim))
        sums.append([x, mesh.get_local_rank(dim), mesh.size(dim), D.get_process_group_ranks(mesh.get_group(dim))])
    names = mesh.mesh_dim_names and list(mesh.mesh_dim_names)
    return [
        mesh.mesh, str(mesh.mesh.dtype).partition(".")[2], list(mesh.shape), mesh.ndim, mesh.size(), mesh.device_type,
        list(mesh.get_coordinate()), mesh.get_rank(), names, sums, len(mesh.get_all_groups()), repr(mesh),
    ]  # fmt: skip


@case
def one_dimension(T, D, DDP):
    mesh = D.init_device_mesh("cpu", (4,))
    return [described(T, D, mesh), mesh.get_group() is D.group.WORLD, mesh == D.init_device_mesh("cpu", (4,))]


@case
def two_dimensions_and_their_parts(T, D, DDP):
    mesh = D.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    parts = [mesh["replicate"], mesh["shard"], mesh["replicate", "shard"]]
    same = [parts[0].get_group() is mesh.get_group("replicate"), parts[2] is mesh, parts[0] == mesh["replicate"]]
    return [described(T, D, mesh), [described(T, D, part) for part in parts], same]


@case
def any_order_of_ranks(T, D, DDP):
    mesh = import_module(f"{T.__name__}.distributed.device_mesh").DeviceMesh("cpu", T.tensor([[3, 1], [0, 2]]))
    return described(T, D, mesh)


@case
def three_dimensions_flattened(T, D, DDP):
    mesh = D.init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("a", "b", "c"))
    flat = mesh["a", "b"]._flatten()
    return [described(T, D, mesh["a", "c"]), described(T, D, flat), D.get_process_group_ranks(mesh.get_group("a_b"))]


@case
def of_groups(T, D, DDP):
    rank = D.get_rank()
    kind = import_module(f"{T.__name__}.distributed.device_mesh").DeviceMesh
    row = [D.new_group([0, 1]), D.new_group([2, 3])][rank // 2]
    column = [D.new_group([0, 2]), D.new_group([1, 3])][rank % 2]
    mesh = kind.from_group([column, row], "cpu", [[0, 1], [2, 3]], mesh_dim_names=("x", "y"))
    return [described(T, D, mesh), described(T, D, kind.from_group(row, "cpu"))]


@case
def gradients_of_a_part(T, D, DDP):
    mesh = D.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "other"))
    model = T.nn.Linear(2, 1, bias=False)
    with T.no_grad():
        model.weight.fill_(D.get_rank() % 2)
    ddp = DDP(model, process_group=mesh["replicate"].get_group())
    ddp(T.ones(1, 2) * (D.get_rank() + 1)).sum().backward()
    whole = D.init_device_mesh("cpu", (4,))
    other = DDP(T.nn.Linear(2, 1, bias=False), device_mesh=whole)
    other(T.ones(1, 2) * (D.get_rank() + 1)).sum().backward()
    return [model.weight.grad, model.weight, other.module.weight.grad]


def refused(name: str, use: Callable) -> None:
    CASES[f"refused_{name}"] = lambda T, D, DDP: use(T, D, D.init_device_mesh("cpu", (2, 2), mesh_dim_names=("x", "y")))


refused("size", lambda T, D, mesh: D.init_device_mesh("cpu", (5,)))
refused("names", lambda T, D, mesh: D.init_device_mesh("cpu", (2, 2), mesh_dim_names=("x",)))
refused("repeated_names", lambda T, D, mesh: D.init_device_mesh("cpu", (2, 2), mesh_dim_names=("x", "x")))
refused("index", lambda T, D, mesh: D.init_device_mesh("cpu:0", (4,)))
refused("dimension", lambda T, D, mesh: mesh.get_group())
refused("name", lambda T, D, mesh: mesh.get_group("z"))
refused("part", lambda T, D, mesh: mesh["z"])
refused("order", lambda T, D, mesh: mesh["y", "x"])
refused("nameless", lambda T, D, mesh: D.init_device_mesh("cpu", (4,))["x"])
refused("ddp_of_two", lambda T, D, mesh: T.nn.parallel.DistributedDataParallel(T.nn.Linear(1, 1), device_mesh=mesh))
refused(
    "ddp_of_both",
    lambda T, D, mesh: T.nn.parallel.DistributedDataParallel(
        T.nn.Linear(1, 1), device_mesh=mesh["x"], process_group=D.group.WORLD
    ),
)


@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install torch")
@on_ranks(4)
def test_meshes_equal_pytorchs() -> None:
    from beside_torch import check

    check(CASES, 1e-7)


@on_ranks(4)
def test_split_groups_and_what_pytorch_leaves_open() -> None:
    rank = dist.get_rank()
    pair = dist.split_group(split_ranks=[[0, 1], [2, 3]], group_desc="pairs")
    assert dist.get_process_group_ranks(pair) == [[0, 1], [2, 3]][rank // 2] and pair.group_name == "pairs"
    x = numod.tensor([float(rank)])
    dist.all_reduce(x, group=pair)
    assert x.item() == (1, 1, 5, 5)[rank]
    alone = dist.split_group(pair, [[1]])  # numbered within the pair
    assert (alone is None) is (rank % 2 == 0) and (alone is None or dist.get_process_group_ranks(alone) == [rank])
    if rank < 2:  # groups that the other ranks know nothing of
        dist.split_group(pair, [[0], [1]])
    numbers = [None] * 4
    everyone = dist.new_group()
    dist.all_gather_object(numbers, (everyone.slot, everyone.group_name))
    assert len(set(numbers)) == 1 and numbers[0][0] not in (pair.slot, dist.group.WORLD.slot)
    odd = dist.new_group([1, 3])
    for arguments, message in (
        ((None, []), "cannot be None or empty"),
        ((pair, [[0], []]), "cannot be empty"),
        ((pair, [[0], [0, 1]]), "duplicate"),
        ((pair, [[2]]), "ranks from 0 to 1"),
        *([((odd, [[0]]), "not part of the parent")] if rank % 2 == 0 else []),
    ):
        with pytest.raises(ValueError, match=message):
            dist.split_group(*arguments)
    mesh = dist.init_device_mesh("cpu", (3,))  # without the last rank
    if rank == 3:
        assert mesh.get_coordinate() is None
        with pytest.raises(RuntimeError, match=r"rank 3 is not in the mesh \[0, 1, 2\]"):
            mesh.get_group()
    else:
        again = pickle.loads(pickle.dumps(mesh))
        assert again == mesh and hash(again) == hash(mesh) and again.get_group() is mesh.get_group()
    with pytest.raises(ValueError, match="each rank once"):
        dist.DeviceMesh("cpu", [0, 0])
    with pytest.raises(TypeError, match="expected a numod.distributed.DeviceMesh, got int"):
        DistributedDataParallel(nn.Linear(1, 1), device_mesh=1)
    columns = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("x", "y"))
    model = DistributedDataParallel(nn.Linear(1, 1, bias=False), device_mesh=columns["x"])
    step = numod.compile(lambda x: model(x).sum().backward())
    for _ in range(3):
        model.zero_grad()
        step(numod.full((1, 1), float(rank)))
        assert model.module.weight.grad.item() == (1, 2, 1, 2)[rank]  # of the ranks 0 and 2, and 1 and 3
