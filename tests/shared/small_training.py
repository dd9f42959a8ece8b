"""What the tests of the Learner share: a small network and its data, and a loop written by hand."""

from __future__ import annotations

from collections.abc import Callable

import numod
from numod import nn, optim
from numod.learner import DataLoaders, Learner
from numod.nn import functional as F

# few shapes, so that few kernels are compiled
X, Y = numod.randn(12, 4, generator=numod.Generator().manual_seed(1)), numod.tensor([0, 1, 2] * 4)


def batches(count: int = 3) -> list:
    return [(X[4 * k : 4 * k + 4], Y[4 * k : 4 * k + 4]) for k in range(count)]


def network() -> nn.Module:
    numod.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def learner(train: object = None, valid: object = None, **options: object) -> Learner:
    options = {"loss_func": F.cross_entropy, "opt_func": optim.SGD, "lr": 0.1, "default_cbs": False, **options}
    learn = Learner(
        DataLoaders(*[batches_ for batches_ in (batches() if train is None else train, valid) if batches_ is not None]),
        network(),
        **options,
    )
    learn.logger = lambda row: None
    return learn


def by_hand(data: list, epochs: int, change: Callable = lambda model: None, compiled: bool = False) -> nn.Module:
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        change(model)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    step = numod.compile(step) if compiled else step
    for _ in range(epochs):
        for x, y in data:
            step(x, y)
    return model


def same(first: nn.Module, second: nn.Module) -> bool:
    return all(numod.equal(a, b) for a, b in zip(first.parameters(), second.parameters()))
