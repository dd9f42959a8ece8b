"""Dual tensors against derivatives by hand and by `func.jvp`."""

import pytest

import numod as torch
from numod import nn
from numod.autograd import forward_ad


def test_a_dual_carries_its_derivative():
    x, direction = torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor([0.5, -1.0], dtype=torch.float64)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, direction)
        value, tangent = forward_ad.unpack_dual(dual**2 + x)
        own = forward_ad.unpack_dual(dual)
        assert forward_ad.unpack_dual(x).tangent is None and forward_ad.unpack_dual(x * 2).tangent is None
    assert own.tangent is direction and not value.requires_grad and not tangent.requires_grad
    torch.testing.assert_close(value, x**2 + x)
    torch.testing.assert_close(tangent, 2 * x * direction)


def test_several_duals_through_a_module():
    layer, x = nn.Linear(3, 2, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    parameters = dict(layer.named_parameters())
    directions = {name: torch.randn_like(each) for name, each in parameters.items()}
    with forward_ad.dual_level():
        duals = {name: forward_ad.make_dual(each, directions[name]) for name, each in parameters.items()}
        tangent = forward_ad.unpack_dual(torch.func.functional_call(layer, duals, x).tanh()).tangent
    expected = torch.func.jvp(lambda given: torch.func.functional_call(layer, given, x).tanh(), (parameters,), (directions,))[1]
    torch.testing.assert_close(tangent.detach(), expected.detach())


def test_refusals():
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(x, x)
    with forward_ad.dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            forward_ad.enter_dual_level()
        with pytest.raises(ValueError, match="Expected tangent to be floating point"):
            forward_ad.make_dual(x, x.long())
        with pytest.raises(RuntimeError, match="has a different size than that of the original Tensor"):
            forward_ad.make_dual(x, torch.ones(3))
    assert forward_ad.unpack_dual(x).primal is x
