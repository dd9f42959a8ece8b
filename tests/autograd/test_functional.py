"""torch.autograd.functional: Jacobians, Hessians, products with them, and errors."""

from __future__ import annotations

import pytest

import numod as torch
from numod.autograd import functional as f


def energy(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * y.exp()).sum()


X, Y = torch.tensor([1.0, -2.0]), torch.tensor([0.5, 0.25])


def test_jacobian_and_hessian() -> None:
    by_x, by_y = f.jacobian(energy, (X, Y))
    torch.testing.assert_close(by_x, Y.exp())
    torch.testing.assert_close(by_y, X * Y.exp())
    (xx, xy), (yx, yy) = f.hessian(energy, (X, Y))
    assert not xx.any()
    torch.testing.assert_close(xy, torch.diag(Y.exp()))
    torch.testing.assert_close(yx, xy.T)
    torch.testing.assert_close(yy, torch.diag(X * Y.exp()))
    torch.testing.assert_close(f.jacobian(lambda x: x.outer(x), X)[0], torch.tensor([[2.0, 0.0], [-2.0, 1.0]]))
    assert f.jacobian(lambda x: torch.ones(3), X).shape == (3, 2) and f.jacobian(lambda x: x[:0], X).shape == (0, 2)


def test_products_agree_with_the_matrices() -> None:
    v = torch.tensor([3.0, -1.0])
    matrix = f.jacobian(lambda x: x.outer(x).reshape(4).sin(), X)
    value, along = f.jvp(lambda x: x.outer(x).reshape(4).sin(), X, v)
    torch.testing.assert_close(along, matrix @ v)
    w = torch.arange(4.0)
    torch.testing.assert_close(f.vjp(lambda x: x.outer(x).reshape(4).sin(), X, w), (value, w @ matrix))
    value, by_both = f.hvp(energy, (X, Y), (v, v))
    torch.testing.assert_close(by_both, (Y.exp() * v, Y.exp() * v + X * Y.exp() * v))
    torch.testing.assert_close(f.vhp(energy, (X, Y), (v, v)), (value, by_both))


def test_functional_errors_and_create_graph() -> None:
    for call in (
        lambda: f.vjp(lambda x: x, X),
        lambda: f.jvp(lambda x: x, X, torch.ones(3)),
        lambda: f.hessian(lambda x: x, X),
        lambda: f.jacobian(lambda x: torch.ones(2), X, strict=True),
    ):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(TypeError):
        f.jacobian(lambda x: 3, X)
    assert not f.jacobian(lambda x: x.exp(), X).requires_grad and not X.requires_grad
    x = X.clone().requires_grad_()
    f.jacobian(lambda x: x**3, x, create_graph=True).sum().backward()
    torch.testing.assert_close(x.grad, 6 * X)
