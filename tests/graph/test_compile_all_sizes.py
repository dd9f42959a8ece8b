"""`dynamic=True`: networks are compiled once for all batch sizes, forward and in training.

About a minute per network with an empty cache, so these run with the marker `fuzz`; `test_compile` has the small cases.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numod
import pytest
import zoo
from numod import nn
from numod.kernel import build
from numod.nn import functional as F


class ResidualBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList([nn.BatchNorm2d(8), nn.BatchNorm2d(8)])

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        out = self.norms[1](self.second(F.relu(self.norms[0](self.first(x)))))
        return F.relu(out + x).mean((2, 3))


class LastOutput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(12, 16, 2, batch_first=True), nn.Linear(16, 10)

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        return self.head(self.rnn(x)[0][:, -1])


def floats(n: int, *shape: int) -> numod.Tensor:
    return numod.tensor(np.random.default_rng(n).standard_normal((n, *shape)).astype(np.float32))


def tokens(n: int) -> numod.Tensor:
    return numod.tensor(np.random.default_rng(n).integers(0, 30, (n, 10)))


NETWORKS: dict[str, tuple[Callable, Callable]] = {
    "lenet": (lambda: zoo.lenet(numod)[0], lambda n: floats(n, 1, 28, 28)),
    "residual block": (ResidualBlock, lambda n: floats(n, 8, 8, 8)),
    "lstm": (LastOutput, lambda n: floats(n, 7, 12)),
    "gpt": (lambda: zoo.gpt(numod)[0], tokens),
}


def built_kernels() -> int:
    return build.statistics.compiled + build.statistics.loaded


@pytest.mark.fuzz
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_compiled_once_for_all_batch_sizes(name: str, training: bool) -> None:
    numod.manual_seed(0)
    make_model, make_input = NETWORKS[name]
    model = make_model().train(training)

    def gradients(x: numod.Tensor, target: numod.Tensor) -> tuple:
        out = model(x)
        loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), target)
        return loss, *numod.autograd.grad(loss, [*model.parameters()])

    def forward(x: numod.Tensor, target: numod.Tensor) -> tuple:
        with numod.no_grad():
            return (model(x),)

    function = gradients if training else forward
    compiled = numod.compile(function, dynamic=True)
    # a batch of one sequence is another program for LSTM (its transpose is contiguous) and GPT (broadcast positions)
    for n in (2, 3, 9, 33, 65, 130, *([1] if name in ("lenet", "residual block") else [])):
        x, target = make_input(n), numod.tensor(np.arange(n * (10 if name == "gpt" else 1)) % 8)
        expected = function(x, target)
        before = built_kernels()
        for _ in range(2):
            for result, wanted in zip(compiled(x, target), expected, strict=True):
                assert numod.allclose(result, wanted, rtol=1e-4, atol=1e-5)
        assert n == 2 or built_kernels() == before, n
