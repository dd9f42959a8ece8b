"""A training step, eager and compiled, whose fused epilogues are named."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import numod
from numod.graph.passes.fuse_epilogue import WithEpilogue


def epilogues_of_training(model_of: Callable[[], numod.nn.Module], x: numod.Tensor) -> list[str]:
    """The names of the fused ops of a training step of `model_of()`, which must equal the eager one."""

    def network() -> tuple:
        numod.manual_seed(0)
        model = model_of()
        optimizer = numod.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x: numod.Tensor) -> numod.Tensor:
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        return model, step

    (eager, step), (model, other) = network(), network()
    compiled = numod.compile(other)
    for _ in range(4):
        assert step(x).item() == pytest.approx(compiled(x).item(), rel=1e-6)
    for a, b in zip(eager.parameters(), model.parameters()):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
    return [step.op.name for step in compiled.graph.steps if isinstance(step.op, WithEpilogue)]
