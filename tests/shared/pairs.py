"""What tests of compiled functions share: equal networks, one eager and one compiled, and how results are compared.

Not tests themselves.
"""

from __future__ import annotations

import copy

import numpy as np

import numod
from numod import nn
from numod.graph import compile as compiled_natively
from numod.nn import functional as F


def compile(function: object = None, *, fullgraph: bool = True, **options: object) -> object:
    """As kernels in turn, which costs no compilation. What cannot be recorded is an error."""
    return compiled_natively(function, options={"linked": False}, fullgraph=fullgraph, **options)


def equal(a: object, b: object) -> bool:
    """Whether two structures of tensors are the same, to rounding."""
    if isinstance(a, numod.Tensor):
        return (
            a.shape == b.shape
            and a.dtype is b.dtype
            and np.allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6, equal_nan=True)
        )
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    return a == b


def net(*extra: nn.Module) -> nn.Module:
    numod.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), *extra, nn.Linear(3, 2))


def batch(seed: int, n: int = 5) -> tuple[numod.Tensor, numod.Tensor]:
    numod.manual_seed(seed)
    return numod.randn(n, 4), numod.randint(0, 2, (n,))


def step_of(model: nn.Module, optimizer: numod.optim.Optimizer, **zero: bool) -> object:
    def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
        optimizer.zero_grad(**zero)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


class Pair:
    """Two equal models with optimizers, and their steps: eager and compiled."""

    def __init__(
        self,
        *extra: nn.Module,
        optimizer: object = lambda p: numod.optim.SGD(p, lr=0.1, momentum=0.9),
        make: object = step_of,
        **zero: bool,
    ) -> None:
        self.models = net(*extra), net(*copy.deepcopy(extra))
        self.optimizers = [optimizer(model.parameters()) for model in self.models]
        steps = [make(*pair, **zero) for pair in zip(self.models, self.optimizers)]
        self.eager, self.compiled = steps[0], compile(steps[1])

    def run(self, *seeds: int, n: int = 5) -> None:
        for seed in seeds:
            expected, actual = self.eager(*batch(seed, n)), self.compiled(*batch(seed, n))
            assert equal(expected, actual)
            self.check()

    def check(self) -> None:
        mine, theirs = (model.state_dict() for model in self.models)
        assert equal(dict(mine), dict(theirs))
        for p, q in zip(*(model.parameters() for model in self.models)):
            assert (p.grad is None) is (q.grad is None) and (p.grad is None or equal(p.grad, q.grad))

    def both(self, change: object) -> None:
        for pair in zip(self.models, self.optimizers):
            change(*pair)


def same(function: object, *calls: tuple, **options: object) -> object:
    """The compiled function, after equal answers to each call."""
    compiled = compile(function, **options)
    for call in calls:
        assert equal(compiled(*copy.deepcopy(call)), function(*copy.deepcopy(call)))
    return compiled


X = numod.arange(6.0).reshape(2, 3)


def forward_pair() -> tuple[nn.Module, nn.Module]:
    model = net()
    return model, compile(copy.deepcopy(model))


def gradients_of(model: nn.Module) -> list:
    return [parameter.grad for parameter in model.parameters()]


class Settings:
    """Numbers a function may use."""

    shared = 1.0

    def __init__(self) -> None:
        self.gain, self.nested, self.array = 1.0, {"a": [1.0]}, np.ones(1)

    def scaled(self, x: numod.Tensor) -> numod.Tensor:
        return x * self.gain
