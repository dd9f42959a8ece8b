"""Bilinear and the adaptive softmax beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod import nn

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity


def same_weights(ours: nn.Module, theirs: object) -> None:
    assert list(ours.state_dict()) == list(theirs.state_dict()) and repr(ours) == repr(theirs)
    ours.load_state_dict({key: numod.tensor(value.numpy()) for key, value in theirs.state_dict().items()})


@pytest.mark.parametrize("shape", [(), (5,), (2, 5)])
def test_bilinear(shape: tuple) -> None:
    theirs, ours = torch.nn.Bilinear(3, 4, 2).double(), nn.Bilinear(3, 4, 2).double()
    same_weights(ours, theirs)
    a, b = np.random.default_rng(0).standard_normal((*shape, 3)), np.random.default_rng(1).standard_normal((*shape, 4))
    np.testing.assert_allclose(ours(numod.tensor(a), numod.tensor(b)).detach().numpy(), theirs(torch.tensor(a), torch.tensor(b)).detach().numpy(), atol=1e-12)


@pytest.mark.parametrize("bias", [False, True])
def test_adaptive_log_softmax(bias: bool) -> None:
    theirs, ours = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 12], 2.0, bias).double(), nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 12], 2.0, bias).double()
    same_weights(ours, theirs)
    x, y = np.random.default_rng(0).standard_normal((6, 8)), np.array([0, 4, 5, 11, 12, 19])
    found, expected = ours(numod.tensor(x), numod.tensor(y)), theirs(torch.tensor(x), torch.tensor(y))
    np.testing.assert_allclose(found.output.detach().numpy(), expected.output.detach().numpy(), atol=1e-12)
    assert found.loss.item() == pytest.approx(expected.loss.item())
    np.testing.assert_allclose(ours.log_prob(numod.tensor(x)).detach().numpy(), theirs.log_prob(torch.tensor(x)).detach().numpy(), atol=1e-12)
    assert ours.predict(numod.tensor(x)).tolist() == theirs.predict(torch.tensor(x)).tolist()
