"""A module with every kind of entry, for tests of Module."""

from __future__ import annotations

import numod
from numod import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.act = nn.ReLU()
        self.second = nn.Linear(4, 2, bias=False)
        self.scale = nn.Parameter(numod.ones(2))
        self.register_buffer("mean", numod.zeros(2))
        self.register_buffer("count", numod.tensor(0), persistent=False)

    def forward(self, x):
        return self.second(self.act(self.first(x))) * self.scale - self.mean


NAMES = ["scale", "first.weight", "first.bias", "second.weight"]


def names(pairs):
    return [name for name, _ in pairs]
