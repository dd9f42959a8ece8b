"""PowerSGD beside PyTorch's on gloo, and its convergence (about 10 s)."""

from __future__ import annotations

import pickle
from importlib import import_module
from importlib.util import find_spec

import pytest
from ranks import on_ranks

import numod
import numod.distributed as dist
from numod import nn
from numod.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power_sgd
from numod.nn import functional as F
from numod.nn.parallel import DistributedDataParallel

SIDE, LAYERS = 12, 3


def network(T):
    """Layers whose weights have one shape, so that their order in a bucket does not matter."""
    layers = [T.nn.Linear(SIDE, SIDE) for _ in range(LAYERS)]
    network = T.nn.Sequential(*[part for layer in layers for part in (layer, T.nn.Tanh())]).double()
    with T.no_grad():
        for number, parameter in enumerate(network.parameters()):
            values = T.linspace(0, 40 + number, parameter.numel(), dtype=T.float64).sin() / 2
            parameter.copy_(values.view(parameter.shape))
    return network


def stepped(T, D, module, steps=6):
    """The gradients of each step. The ranks have different examples."""
    x = (T.arange(2.0 * SIDE * SIDE, dtype=T.float64) ** 2 + D.get_rank()).sin().view(2 * SIDE, SIDE)
    result = []
    for step in range(steps):
        module.zero_grad()
        (module(x * (step + 1)).square().mean() * 10).backward()
        result.append([parameter.grad.clone() for parameter in module.parameters()])
    return result


def compressed(rank: int = 2, **options):
    """A case: the gradients with PowerSGD from the third step on. The first factors are not random, but known."""

    def case(T, D, DDP):
        module = import_module(f"{T.__name__}.distributed.algorithms.ddp_comm_hooks.powerSGD_hook")
        state = module.PowerSGDState(None, rank, 2, **options)
        ddp = DDP(network(T))
        ddp.register_comm_hook(state, module.powerSGD_hook)
        if state.warm_start:
            start = (T.arange(1.0 * SIDE * rank, dtype=T.float64) ** 2).cos().repeat(LAYERS)
            state.q_memory_dict[0], state.p_memory_dict[0] = start, T.zeros_like(start)
        gradients = stepped(T, D, ddp)
        # PyTorch sends a vector of n as n + 1 numbers where the rate allows that
        return [gradients, state.iter, list(state.compression_stats()) if state.warm_start else None]

    return case


CASES = {
    "default": compressed(),
    "rank_1": compressed(1),
    "rank_3": compressed(3, min_compression_rate=1),
    "batched_shapes": compressed(batch_tensors_with_same_shape=True),
    "without_feedback": compressed(use_error_feedback=False),
    "not_worth_it": compressed(8),
    "random_but_whole": compressed(SIDE, min_compression_rate=0.4, warm_start=False),
    "too_early": lambda T, D, DDP: import_module(
        f"{T.__name__}.distributed.algorithms.ddp_comm_hooks.powerSGD_hook"
    ).PowerSGDState(None, start_powerSGD_iter=1),
}


@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install torch")
@on_ranks()
def test_gradients_equal_pytorchs() -> None:
    from beside_torch import check

    check(CASES, 1e-7)


def losses(hook: object, compiled: bool, rank: int = 3) -> list[float]:
    """The losses of training."""
    numod.manual_seed(0)
    module = DistributedDataParallel(nn.Sequential(nn.Conv2d(2, 8, 3), nn.Flatten(), nn.Linear(72, 8)))
    state = power_sgd.PowerSGDState(None, rank, 3, min_compression_rate=1, warm_start=compiled)
    if hook is not None:
        module.register_comm_hook(state, hook)
    optimizer = numod.optim.SGD(module.parameters(), lr=0.1)
    generator = numod.Generator().manual_seed(dist.get_rank())
    x, y = numod.randn(16, 2, 5, 5, generator=generator), numod.randn(16, 8, generator=generator)

    def step() -> numod.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(module(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = numod.compile(step) if compiled else step
    return [run().item() for _ in range(40)]


@on_ranks()
def test_training_converges() -> None:
    exact = losses(None, False)
    for hook, compiled, part in (
        (power_sgd.powerSGD_hook, False, 0.6),
        (power_sgd.powerSGD_hook, True, 0.6),
        (power_sgd.batched_powerSGD_hook, True, 0.8),
    ):
        result = losses(hook, compiled)
        assert result[:4] == pytest.approx(exact[:4], rel=1e-5) and result[4:] != exact[4:]
        assert result[-1] < part * result[0], (result[0], result[-1], exact[-1])
    side = 28  # of the square that holds the 800 gradients
    assert losses(power_sgd.batched_powerSGD_hook, False, side + 1) == pytest.approx(exact, rel=1e-4)


@on_ranks(1)
def test_states_and_gradients_of_odd_shapes() -> None:
    state = pickle.loads(pickle.dumps(power_sgd.PowerSGDState(dist.group.WORLD, 2, 2, random_seed=3)))
    assert state.process_group is None and state.rng.initial_seed() == 3
    module = DistributedDataParallel(nn.Linear(8, 8).half())
    module.module.scale = nn.Parameter(numod.tensor(2.0))  # a scalar, which the Reducer does not know
    state = power_sgd.PowerSGDState(None, 8, 0, 0.1, use_error_feedback=False, warm_start=False)
    module.register_comm_hook(state, power_sgd.powerSGD_hook)
    module(numod.ones(1, 8).half()).sum().backward()
    assert numod.allclose(module.module.weight.grad, numod.ones(8, 8).half(), 1e-2, 1e-2)
    scalar = nn.ParameterDict({"scale": numod.tensor(2.0), "empty": numod.empty(0, 3)})
    module = DistributedDataParallel(scalar)
    module.register_comm_hook(state, power_sgd.powerSGD_hook)
    numod.autograd.backward([scalar["scale"] * 3, scalar["empty"].sum()])
    assert scalar["scale"].grad is not None
