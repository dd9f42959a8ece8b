"""Helpers of the profiler's tests: a fully profiled training step of a small network, and a search for events."""

from __future__ import annotations

from collections.abc import Callable

import numod
import numod.nn.functional as F
from numod import nn, optim
from numod.profiler import profile, record_function


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        return self.conv(x).relu()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer1 = Block()
        self.head = nn.Linear(72, 3)

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        return self.head(self.layer1(x).flatten(1))


def training_step() -> Callable[[], None]:
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x, y = numod.randn(4, 1, 8, 8), numod.tensor([0, 1, 2, 0])

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

    step()
    return step


def profile_of_a_step() -> profile:
    """One step, in a slice of the user's own, with all that a profiler can record."""
    step = training_step()
    with profile(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True, with_jit=True) as prof:
        with record_function("training"):
            step()
    return prof


def find(prof: profile, name: str) -> list:
    return [event for event in prof.events() if event.name == name]


def ancestors(event: object) -> list[str]:
    return [event.name, *ancestors(event.cpu_parent)] if event.cpu_parent is not None else [event.name]
