"""Bilinear and the adaptive softmax beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest
from parity import LIBRARIES, compare_modules, random, same, twins

pytestmark = pytest.mark.parity


@pytest.mark.parametrize("shape", [(), (5,), (2, 5)])
def test_bilinear(shape: tuple) -> None:
    inputs = random(*shape, 3), random(*shape, 4, seed=1)
    same(*(layer(*map(t.tensor, inputs)) for t, layer in zip(LIBRARIES, twins(lambda nn: nn.Bilinear(3, 4, 2)))))


@pytest.mark.parametrize("bias", [False, True])
def test_adaptive_log_softmax(bias: bool) -> None:
    modules = twins(lambda nn: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 12], 2.0, bias))
    x, y = random(6, 8), np.array([0, 4, 5, 11, 12, 19])
    compare_modules(modules, lambda t, layer: (tuple(layer(t.tensor(x), t.tensor(y))), []))
    same(*([layer.log_prob(t.tensor(x)), layer.predict(t.tensor(x))] for t, layer in zip(LIBRARIES, modules)))
