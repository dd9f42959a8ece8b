"""Typical training scripts: compiled and eager results agree over several steps, with one recording."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable

import pytest

import numod as torch
from numod import nn
from numod.nn import functional as F
from numod.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from numod.utils.checkpoint import checkpoint

CASES: dict[str, Callable] = {}


def case(make: Callable) -> Callable:
    """`make()` gives (a step, a function from the number of a turn to its arguments, tensors that it trains)."""
    CASES[make.__name__] = make
    return make


def network(*sizes: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(sizes[0], sizes[1]), nn.Tanh(), nn.Linear(sizes[1], sizes[2]))


def update(optimizer: object, loss: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@case
def adversarial() -> tuple:
    maker, judge = network(4, 8, 6), network(6, 8, 1)
    first, second = torch.optim.SGD(maker.parameters(), lr=0.1), torch.optim.SGD(judge.parameters(), lr=0.1)

    def step(real: torch.Tensor) -> tuple:
        made, ones, zeros = maker(torch.randn(5, 4)), torch.ones(5, 1), torch.zeros(5, 1)
        judged = F.binary_cross_entropy_with_logits(judge(real), ones) + F.binary_cross_entropy_with_logits(
            judge(made.detach()), zeros
        )
        return update(second, judged), update(first, F.binary_cross_entropy_with_logits(judge(made), ones))

    return step, lambda turn: (torch.randn(5, 6),), [*maker.parameters(), *judge.parameters()]


@case
def loss_scaling_with_a_rate_that_is_a_tensor() -> tuple:
    model, scaler = network(4, 8, 3), torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.1), momentum=0.9)
    scaler.scale(torch.ones(()))  # makes the scale

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return scaler.scale(loss.detach())

    return step, lambda turn: (torch.randn(5, 4), torch.randint(0, 3, (5,))), [*model.parameters()]


@case
def policy() -> tuple:
    body, actor, critic = nn.Linear(4, 8), nn.Linear(8, 3), nn.Linear(8, 1)
    weights = [*body.parameters(), *actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.SGD(weights, lr=0.1)

    def step(seen: torch.Tensor, done: torch.Tensor, advantage: torch.Tensor) -> dict:
        hidden = torch.tanh(body(seen))
        choice = torch.distributions.Categorical(logits=actor(hidden))
        loss = (
            -(choice.log_prob(done) * advantage).mean()
            + 0.5 * F.mse_loss(critic(hidden).squeeze(-1), advantage)
            - 0.01 * choice.entropy().mean()
        )
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(weights, 0.5)
        optimizer.step()
        return {"loss": loss.detach(), "norm": norm}

    return step, lambda turn: (torch.randn(6, 4), torch.randint(0, 3, (6,)), torch.randn(6)), weights


@case
def groups_of_parameters() -> tuple:
    model = network(4, 5, 3)
    optimizer = torch.optim.SGD(
        [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters()}],
        lr=0.01,
        momentum=0.9,
        nesterov=True,
    )
    return (
        lambda x: update(optimizer, model(x).square().mean()),
        lambda turn: (torch.randn(3, 4),),
        [*model.parameters()],
    )


@case
def accumulation_and_average() -> tuple:
    model = network(4, 5, 3)
    average, optimizer = copy.deepcopy(model), torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        for part in x:
            (model(part).square().mean() / 2).backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), model.parameters()):
                slow.mul_(0.9).add_(fast, alpha=0.1)
        return average(x[0])

    return step, lambda turn: (torch.randn(2, 3, 4),), [*model.parameters(), *average.parameters()]


@case
def plain_average_of_statistics() -> tuple:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, momentum=None))

    def step(x: torch.Tensor) -> tuple:
        trained = model.train()(x)
        return trained.detach(), model.eval()(x).detach()

    return step, lambda turn: (torch.randn(5, 4),), [*model.buffers()]


@case
def checkpoints_with_dropout() -> tuple:
    blocks = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Tanh()) for _ in range(2)])
    optimizer = torch.optim.SGD(blocks.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        for block in blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return update(optimizer, x.square().mean())

    return step, lambda turn: (torch.randn(3, 4),), [*blocks.parameters()]


@case
def packed_sequences() -> tuple:
    model = nn.GRU(3, 4, batch_first=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        result, last = model(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
        return update(optimizer, pad_packed_sequence(result, batch_first=True)[0].square().mean() + last.sum())

    return step, lambda turn: (torch.randn(3, 4, 3), torch.tensor([4, 2, 3])), [*model.parameters()]


def recordings(name: str) -> list[str]:
    """Why five compiled steps were recorded, each time. They must agree with eager ones."""
    torch.manual_seed(0)
    step, inputs, trained = CASES[name]()
    torch.manual_seed(0)
    other, _, twins = CASES[name]()
    compiled = torch.compile(other, options={"linked": False})
    for turn in range(5):
        results = []
        for function in (step, compiled):
            torch.manual_seed(turn)
            results.append((function(*inputs(turn)), torch.rand(1)))
        for a, b in zip(*map(_flat, results), strict=True):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-5)
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(trained, twins, strict=True))
    causes = [version.cause for versions in compiled.versions.values() for version in versions]
    assert len(causes) == compiled.recorded
    return causes


@pytest.mark.parametrize("name", CASES)
def test_several_steps(name: str) -> None:
    assert recordings(name)


def test_scripts_are_recorded_once() -> None:
    """In a process of its own: no object that another test left ends meanwhile."""
    run = subprocess.run([sys.executable, __file__], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == dict.fromkeys(CASES, ["the first call"])


def _flat(nested: object) -> list:
    if isinstance(nested, torch.Tensor):
        return [nested]
    return [leaf for part in (nested.values() if isinstance(nested, dict) else nested) for leaf in _flat(part)]


@pytest.mark.filterwarnings("ignore:compile")
def test_new_lengths_trigger_a_recompilation() -> None:
    def function(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return pack_padded_sequence(x, lengths).data.sum(0)

    compiled, x = torch.compile(function, options={"linked": False}), torch.randn(3, 2, 4)
    for lengths in ([3, 2], [3, 2], [2, 1], [3, 2], [3, 3]):
        assert torch.allclose(compiled(x, torch.tensor(lengths)), function(x, torch.tensor(lengths)))
    assert compiled.recorded == 3


if __name__ == "__main__":
    print(json.dumps({name: recordings(name) for name in CASES}))
