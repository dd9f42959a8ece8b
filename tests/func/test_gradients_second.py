"""Second gradients of ops whose gradient has a kernel of its own, against differences of first ones."""

from __future__ import annotations

import pytest

import numod
from numod import func
from numod.nn import functional as F


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, float("inf"), 0.0])
def test_second_gradients_of_distances(p: float) -> None:
    numod.manual_seed(3)
    x, y, tangent = (numod.randn(*shape, dtype=numod.float64) for shape in ((2, 3), (4, 3), (2, 3)))
    for function in (
        lambda x: numod.cdist(x, y, p=p).square().sum(),
        lambda x: numod.cdist(y, x, p=p).sin().sum(),
        lambda x: F.pdist(x, p).square().sum(),
    ):
        slope, (forward, back) = func.grad(function), (x + 1e-6 * tangent, x - 1e-6 * tangent)
        numod.testing.assert_close(
            func.jvp(slope, (x,), (tangent,))[1], (slope(forward) - slope(back)) / 2e-6, atol=1e-5, rtol=1e-5
        )
        numod.testing.assert_close(
            func.jvp(function, (x,), (tangent,))[1], (function(forward) - function(back)) / 2e-6, atol=1e-6, rtol=1e-6
        )
    same = y.clone().requires_grad_()
    (slope,) = numod.autograd.grad(numod.cdist(same, same, p=p).square().sum(), same, create_graph=True)
    if slope.requires_grad:
        assert numod.autograd.grad(slope.sum(), same)[0].isfinite().all()  # though rows are 0 apart from themselves


def test_missing_second_gradients_raise() -> None:
    x = numod.randn(6, 2, 4, dtype=numod.float64)
    sizes = numod.tensor([[1, 2], [3, 1]]), numod.tensor([6, 6]), numod.tensor([2, 2])
    loss = lambda x: F.ctc_loss(x.log_softmax(-1), *sizes, reduction="none")  # noqa: E731
    tangent = numod.randn_like(x)
    numod.testing.assert_close(
        func.jvp(loss, (x,), (tangent,))[1],
        (loss(x + 1e-6 * tangent) - loss(x - 1e-6 * tangent)) / 2e-6,
        atol=1e-6,
        rtol=1e-6,
    )
    with pytest.raises(NotImplementedError, match="the gradient of ctc_loss"):
        func.hessian(lambda x: loss(x).sum())(x)
    shape = numod.ones(3, requires_grad=True)
    (slope,) = numod.autograd.grad(numod.distributions.Gamma(shape, 1.0).rsample().sum(), shape, create_graph=True)
    with pytest.raises(NotImplementedError, match="a gamma variate"):
        slope.sum().backward()
