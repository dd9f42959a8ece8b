"""Local SGD on two ranks beside a simulation of both ranks in one process. The file takes about ten seconds."""

from __future__ import annotations

from collections import OrderedDict

import pytest
from ranks import on_ranks

import numod
import numod.distributed as dist
from numod import nn
from numod.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as post_local
from numod.distributed.algorithms.model_averaging import averagers, utils
from numod.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager
from numod.distributed.optim import PostLocalSGDOptimizer

STEPS, START, PERIOD = 9, 3, 2


def _data(step: int, rank: int) -> numod.Tensor:
    generator = numod.Generator().manual_seed(10 * step + rank)
    return numod.randn(4, 3, generator=generator, dtype=numod.float64)


def _model() -> nn.Module:
    numod.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()


def _simulated(averages_gradients_later: bool) -> list[numod.Tensor]:
    """The parameters of both ranks after the steps, by the definition of the algorithm."""
    models = [_model(), _model()]
    for step in range(STEPS):
        for rank, model in enumerate(models):
            model.zero_grad()
            model(_data(step, rank)).square().mean().backward()
        pairs = list(zip(*(model.parameters() for model in models)))
        with numod.no_grad():
            for a, b in pairs:
                if step < START or averages_gradients_later:
                    a.grad = b.grad = (a.grad + b.grad) / 2
                for x in (a, b):
                    x.sub_(0.1 * x.grad)
                if step >= START and (step - START) % PERIOD == 0:
                    mean = (a + b) / 2
                    a.copy_(mean), b.copy_(mean)
    return [numod.nn.utils.parameters_to_vector(model.parameters()) for model in models]


@on_ranks()
def test_training_equals_a_simulation() -> None:
    for averages_gradients_later in (False, True):
        ddp = nn.parallel.DistributedDataParallel(_model())
        state = post_local.PostLocalSGDState(None, None, START, averages_gradients_later)
        ddp.register_comm_hook(state, post_local.post_localSGD_hook)
        local = numod.optim.SGD(ddp.parameters(), lr=0.1)
        optimizer = PostLocalSGDOptimizer(local, averagers.PeriodicModelAverager(PERIOD, START))
        for step in range(STEPS):
            optimizer.zero_grad()
            ddp(_data(step, dist.get_rank())).square().mean().backward()
            optimizer.step()
        expected = _simulated(averages_gradients_later)[dist.get_rank()]
        result = numod.nn.utils.parameters_to_vector(ddp.parameters())
        numod.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
        assert optimizer.state_dict()["step"] == STEPS and state.iter == START


@on_ranks()
def test_groups_of_a_hierarchy_average_by_their_periods() -> None:
    averager = HierarchicalModelAverager(OrderedDict([(2, 1), (4, 2)]), warmup_steps=1)
    x = nn.Parameter(numod.ones(2) * dist.get_rank())
    x.grad = numod.zeros(2)
    idle = nn.Parameter(numod.ones(1) * dist.get_rank())
    means = []
    for _ in range(5):
        averager.average_parameters([{"params": [x, idle]}])
        means.append(x[0].item() == 0.5)
    assert means == [False, False, False, False, True]
    assert idle.item() == dist.get_rank()  # it has no gradient
    halves = [numod.ones(2, dtype=dtype) * dist.get_rank() for dtype in (numod.float32, numod.float64)]
    utils.average_parameters(iter(halves), dist.new_group([0]))  # not over rank 1
    assert halves[0][0] == dist.get_rank()
    utils.average_parameters(iter(halves), None)
    assert [half.tolist() for half in halves] == [[0.5, 0.5]] * 2


def test_arguments_and_files() -> None:
    dist.init_process_group("mpi")
    try:
        with pytest.raises(ValueError, match="``warmup_steps`` must be a non-negative"):
            averagers.PeriodicModelAverager(2, -1)
        with pytest.raises(ValueError, match="``period`` must be a positive"):
            averagers.PeriodicModelAverager(0)
        with pytest.warns(UserWarning, match="the period is 1"):
            averagers.PeriodicModelAverager(1)
        with pytest.raises(ValueError, match="must not be empty"):
            HierarchicalModelAverager({})
        with pytest.raises(ValueError, match="minimum period"):
            HierarchicalModelAverager({0: 1})
        with pytest.raises(ValueError, match="must be equal to the size"):
            HierarchicalModelAverager({2: 3})
        with pytest.raises(NotImplementedError, match="param_groups, got <class 'int'>"):
            utils.get_params_to_average([1])
        model = nn.Linear(2, 1)
        optimizer = PostLocalSGDOptimizer(
            numod.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), averagers.PeriodicModelAverager(2)
        )
        schedule = numod.optim.lr_scheduler.StepLR(optimizer, 1)
        model(numod.ones(1, 2)).sum().backward()
        optimizer.step()
        schedule.step()
        state = optimizer.state_dict()
        assert state["step"] == 1 and state["state"] and optimizer.param_groups[0]["lr"] == pytest.approx(0.01)
        optimizer.averager.step = 7
        optimizer.load_state_dict(state)
        assert optimizer.averager.step == 1
        del state["step"]
        with pytest.warns(UserWarning, match="does not contain a step counter"):
            optimizer.load_state_dict(state)
        assert optimizer.averager.step == 0
    finally:
        dist.destroy_process_group()
