"""SparseAdam: rows without a gradient stay as they are, the others step as Adam's do."""

import numpy as np
import pytest

import numod
from numod import nn, optim


def test_the_first_step_of_touched_rows_is_adams():
    weights = [nn.Parameter(numod.arange(8.0).reshape(4, 2)) for _ in range(2)]
    for weight, make in zip(weights, (optim.SparseAdam, optim.Adam)):
        optimizer = make([weight], lr=0.1)
        nn.functional.embedding(numod.tensor([1, 3, 1]), weight, sparse=True).pow(2).sum().backward()
        optimizer.step()
    assert np.allclose(weights[0].detach().numpy(), weights[1].detach().numpy(), atol=1e-6) and weights[0][
        ::2
    ].tolist() == [[0, 1], [4, 5]]


def test_moments_of_other_rows_wait():
    weight = nn.Parameter(numod.zeros(3, 1))
    optimizer = optim.SparseAdam([weight], lr=0.5, betas=(0.5, 0.5), eps=1e-12, maximize=True)
    for row in (0, 2, 0):
        weight.grad = numod.zeros(3, 1)
        weight.grad[row] = 2.0
        optimizer.step()
    state = optimizer.state[weight]
    assert (
        state["step"] == 3
        and state["exp_avg"].tolist() == [[-1.5], [0], [-1.0]]
        and state["exp_avg_sq"].tolist() == [[3.0], [0], [2.0]]
    )
    size = lambda n: 0.5 * np.sqrt(1 - 0.5**n) / (1 - 0.5**n)  # noqa: E731
    assert np.allclose(
        weight.detach().numpy().ravel(),
        [size(1) * 1 / np.sqrt(2) + size(3) * 1.5 / np.sqrt(3), 0, size(2) * 1 / np.sqrt(2)],
    )


@pytest.mark.parametrize("options", [{"lr": 0}, {"eps": 0}, {"betas": (1.0, 0.9)}])
def test_numbers_that_are_refused(options):
    with pytest.raises(ValueError, match="Invalid"):
        optim.SparseAdam([nn.Parameter(numod.zeros(1))], **options)
