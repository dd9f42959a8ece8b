"""DistributedDataParallel, SyncBatchNorm and ZeroRedundancyOptimizer: two ranks with half the batch each give the
weights of one process with the whole batch.

Each test starts two processes; the file takes about a minute.
"""

from __future__ import annotations

import copy

import pytest
from ranks import on_ranks
from shares import difference, own_share

import numod
import numod.distributed as dist
from numod import nn
from numod.distributed.optim import ZeroRedundancyOptimizer
from numod.nn import functional as F
from numod.nn.parallel import DistributedDataParallel

STEPS, BATCH = 20, 8


def network(dtype: numod.dtype, norm: type[nn.Module] | None = None) -> nn.Module:
    """A small convolutional network with known weights."""
    numod.manual_seed(0)
    between = [] if norm is None else [norm(4)]
    layers = [nn.Conv2d(1, 4, 3), *between, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)]
    return nn.Sequential(*layers).to(dtype)


def data(dtype: numod.dtype) -> tuple[numod.Tensor, numod.Tensor]:
    """Batches and labels of all steps, (STEPS, BATCH, ...)."""
    generator = numod.Generator().manual_seed(1)
    images = numod.randn(STEPS, BATCH, 1, 8, 8, generator=generator).to(dtype)
    return images, numod.randint(0, 3, (STEPS, BATCH), generator=generator)


def train(model: nn.Module, optimizer: numod.optim.Optimizer, share: slice, steps=range(STEPS), compiled=False) -> None:
    """Train on a share of each batch."""
    dtype = next(model.parameters()).dtype

    def step(x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    step = numod.compile(step, fullgraph=True) if compiled else step
    images, labels = data(dtype)
    for k in steps:
        step(images[k, share], labels[k, share])


def sgd(model: nn.Module) -> numod.optim.Optimizer:
    return numod.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


module = optimizer = x = None  # of a script whose step uses its globals


def global_step() -> numod.Tensor:
    optimizer.zero_grad()
    loss = module(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


@on_ranks()
def test_a_scripts_step_is_compiled() -> None:
    global module, optimizer, x
    module, x = DistributedDataParallel(nn.Linear(4, 3)), numod.ones(2, 4)
    optimizer = sgd(module)
    dist.all_reduce(numod.ones(3))
    step = numod.compile(global_step, fullgraph=True)  # an error where it would run eagerly
    for _ in range(6):
        step()
    assert "version 1" in str(step.explain())


@on_ranks()
def test_weights_equal_those_of_the_whole_batch() -> None:
    for dtype, bound in ((numod.float64, 1e-8), (numod.float32, 1e-5)):
        whole = network(dtype)
        train(whole, sgd(whole), slice(None))
        for options, compiled in (
            ({}, False),
            ({"gradient_as_bucket_view": True, "bucket_cap_mb": 1e-4}, False),
            ({"static_graph": True}, False),
            ({"find_unused_parameters": True, "bucket_cap_mb": 1e-4}, True),
            ({}, True),
        ):
            model = network(dtype)
            if dist.get_rank():
                for parameter in model.parameters():
                    parameter.detach().add_(1)  # is replaced by rank 0's
            trained = DistributedDataParallel(model, **options)
            train(trained, sgd(trained), own_share(BATCH), compiled=compiled)
            assert difference(model, whole) < bound, (dtype, options, compiled)
            if options.get("bucket_cap_mb"):
                assert len(trained.reducer.buckets) > 1
            if options.get("gradient_as_bucket_view"):
                memory = {id(bucket.flat._storage) for bucket in trained.reducer.buckets}
                assert all(id(parameter.grad._storage) in memory for parameter in model.parameters())


@on_ranks()
def test_buckets_are_reduced_while_backward_goes_on() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    trained, order = DistributedDataParallel(model, bucket_cap_mb=1e-5), []
    model[1].register_full_backward_hook(lambda *_: order.append(len(trained.reducer.current.works)))
    trained(numod.ones(2, 4)).sum().backward()
    assert len(trained.reducer.buckets) > 2 and order[0] > 0


@on_ranks()
def test_synchronized_batch_norm() -> None:
    for dtype, bound in ((numod.float64, 1e-8), (numod.float32, 1e-5)):
        whole = network(dtype, nn.BatchNorm2d)
        train(whole, sgd(whole), slice(None))
        for compiled in (False, True):
            model = nn.SyncBatchNorm.convert_sync_batchnorm(network(dtype, nn.BatchNorm2d))
            assert type(model[1]) is nn.SyncBatchNorm
            trained = DistributedDataParallel(model)
            train(trained, sgd(trained), own_share(BATCH), compiled=compiled)
            assert difference(model, whole) < bound, (dtype, compiled)
    x, rank = numod.randn(5, 3, generator=numod.Generator().manual_seed(2)).double(), dist.get_rank()
    norm, plain = nn.SyncBatchNorm(3, momentum=None).double(), nn.BatchNorm1d(3, momentum=None).double()
    for _ in range(2):  # of 2 and 3 rows
        assert numod.allclose(norm(x[2 * rank : 2 + 3 * rank]), plain(x)[2 * rank : 2 + 3 * rank])
    assert numod.allclose(norm.running_var, plain.running_var) and numod.allclose(norm.running_mean, plain.running_mean)
    alone = nn.SyncBatchNorm(3, track_running_stats=False).eval()
    if dist.get_rank() == 0:  # in evaluation without statistics, by the batch of the rank that calls it
        x = numod.randn(4, 3)
        numod.testing.assert_close(alone(x), nn.BatchNorm1d(3, track_running_stats=False).eval()(x))


@on_ranks()
def test_accumulation_and_unused_parameters() -> None:
    rank, x = dist.get_rank(), data(numod.float64)[0][0]
    trained, whole = DistributedDataParallel(network(numod.float64)), network(numod.float64)
    with trained.no_sync():
        trained(x[4 * rank : 4 * rank + 2]).square().sum().backward()
    trained(x[4 * rank + 2 : 4 * rank + 4]).square().sum().backward()
    (whole(x).square().sum() / 2).backward()
    for ours, expected in zip(trained.parameters(), whole.parameters()):
        assert numod.allclose(ours.grad, expected.grad)

    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.always, self.sometimes, self.never = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.always(x) + (self.sometimes(x) if rank else 0)

    for options in ({"find_unused_parameters": True}, {"static_graph": True}):
        branches = DistributedDataParallel(Branches(), **options)
        for _ in range(2):
            branches.zero_grad()
            branches(numod.ones(1, 2)).sum().backward()
        assert branches.module.never.weight.grad is None
        assert branches.module.sometimes.weight.grad.tolist() == [[0.5, 0.5]] * 2
        assert branches.module.always.weight.grad.tolist() == [[1, 1]] * 2
    branches = DistributedDataParallel(Branches())
    branches(numod.ones(1, 2)).sum().backward()
    with pytest.raises(RuntimeError, match=r"Expected to have finished reduction in the prior iteration") as caught:
        branches(numod.ones(1, 2))
    late = "" if rank else "sometimes.weight, sometimes.bias, "
    assert f"Parameters which did not receive grad for rank {rank}: {late}never.weight, never" in str(caught.value)


@on_ranks()
def test_a_static_graph_stays_as_it_was() -> None:
    class Chosen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(2, 1), nn.Linear(2, 1)

        def forward(self, x, takes_first):
            return (self.first if takes_first else self.second)(x)

    model = DistributedDataParallel(Chosen())
    model._set_static_graph()
    model(numod.ones(1, 2), True).sum().backward()
    with pytest.raises(RuntimeError, match="should be called before training loop starts"):
        model._set_static_graph()
    with pytest.raises(
        RuntimeError, match="Your training graph has changed in this iteration, e.g., one parameter is un"
    ):
        model(numod.ones(1, 2), False).sum().backward()
    with pytest.raises(
        RuntimeError, match="that your training graph has changed in this iteration, e.g., one parameter"
    ):
        model(numod.ones(1, 2), True)


@on_ranks()
def test_compiled_steps_with_parameters_that_some_ranks_do_not_use() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1)

        def forward(self, x, takes_first):
            return self.last((self.first if takes_first else self.second)(x))

    rank = dist.get_rank()
    x = numod.randn(8, 4, generator=numod.Generator().manual_seed(rank))

    def train(where: str) -> nn.Module:
        numod.manual_seed(0)
        model = Branches()
        called = numod.compile(model) if where == "module" else model
        trained, optimizer = DistributedDataParallel(called, find_unused_parameters=True), sgd(model)

        def step(x, takes_first):
            optimizer.zero_grad()
            trained(x, takes_first).square().mean().backward()
            optimizer.step()

        run = numod.compile(step) if where == "step" else step
        for k in range(6):
            run(x, (k + rank * (k % 3 == 2)) % 2 == 0)  # each third step the ranks take different branches
        return model

    expected = train("nothing")
    assert difference(train("module"), expected) < 1e-6
    with pytest.warns(UserWarning, match="runs eagerly from here: tolist"):
        assert difference(train("step"), expected) < 1e-6


@on_ranks()
def test_join_lets_ranks_have_different_numbers_of_batches() -> None:
    images, _ = data(numod.float64)
    for by_initial, factor in ((True, 0.5), (False, 1.0)):
        trained, whole = DistributedDataParallel(network(numod.float64)), network(numod.float64)
        optimizer, plain = sgd(trained), sgd(whole)
        with trained.join(divide_by_initial_world_size=by_initial):
            for k in range(2 + 2 * dist.get_rank()):
                optimizer.zero_grad()
                trained(images[k]).square().mean().backward()
                optimizer.step()
        for k in range(4):
            plain.zero_grad()
            (whole(images[k]).square().mean() * (1 if k < 2 else factor)).backward()
            plain.step()
        assert difference(trained.module, whole) < 1e-12
    message = ("Rank 0 exhausted all inputs", "at least one rank that exhausted inputs")[dist.get_rank()]
    with pytest.raises(RuntimeError, match=message):
        with trained.join(throw_on_early_termination=True):
            for k in range(1 + dist.get_rank()):
                trained(images[k]).sum().backward()


@on_ranks()
def test_optimizer_state_is_divided_and_resumes_on_other_numbers_of_ranks() -> None:
    def adam(model):
        return numod.optim.AdamW(model.parameters(), lr=0.01)

    whole = network(numod.float64)
    train(whole, adam(whole), slice(None))
    trained = DistributedDataParallel(network(numod.float64))
    divided = ZeroRedundancyOptimizer(trained.parameters(), numod.optim.AdamW, lr=0.01)
    with pytest.raises(RuntimeError, match="has not been consolidated on this rank"):
        divided.state_dict()
    train(trained, divided, own_share(BATCH), range(10))
    counts = [None, None]
    dist.all_gather_object(counts, len(divided.optim.state))
    assert sum(counts) == len(list(trained.parameters())) and min(counts) > 0
    divided.consolidate_state_dict()
    saved = [trained.state_dict(), divided.state_dict()] if dist.get_rank() == 0 else [None, None]
    dist.broadcast_object_list(saved, 0)
    assert all(name.startswith("module.") for name in saved[0])
    again = DistributedDataParallel(network(numod.float64))
    again.load_state_dict(saved[0])
    resumed = ZeroRedundancyOptimizer(again.parameters(), numod.optim.AdamW, lr=1.0)
    resumed.load_state_dict(copy.deepcopy(saved[1]))
    train(again, resumed, own_share(BATCH), range(10, STEPS))
    single = network(numod.float64)
    single.load_state_dict({name.removeprefix("module."): value for name, value in saved[0].items()})
    (plain := adam(single)).load_state_dict(saved[1])
    train(single, plain, slice(None), range(10, STEPS))
    assert difference(again.module, whole) < 1e-8 and difference(single, whole) < 1e-8


@on_ranks()
def test_ranks_must_have_the_same_module() -> None:
    with pytest.raises(RuntimeError, match="DDP expects same model across all ranks"):
        DistributedDataParallel(nn.Linear(2 + dist.get_rank(), 2))


@on_ranks()
def test_samplers_and_runs_are_reproducible() -> None:
    sampler = numod.utils.data.DistributedSampler(range(10))
    every = [None, None]
    dist.all_gather_object(every, list(sampler))
    assert sorted(every[0] + every[1]) == list(range(10))
    weights = []
    for _ in range(2):
        trained = DistributedDataParallel(network(numod.float32), bucket_cap_mb=1e-4)
        train(trained, sgd(trained), own_share(BATCH))
        weights.append(trained.state_dict())
    assert all(numod.equal(weights[0][name], weights[1][name]) for name in weights[0])
