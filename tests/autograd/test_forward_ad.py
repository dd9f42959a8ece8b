"""Dual tensors against derivatives by hand and by `func.jvp`."""

import threading

import pytest

import numod as torch
from numod import nn
from numod.autograd import forward_ad


def test_a_dual_carries_its_derivative():
    x, direction = torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor([0.5, -1.0], dtype=torch.float64)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, direction)
        value, tangent = forward_ad.unpack_dual(dual**2 + x)
        unpacked = forward_ad.unpack_dual(dual)
        assert forward_ad.unpack_dual(x).tangent is None and forward_ad.unpack_dual(x * 2).tangent is None
    assert unpacked.tangent is direction and not value.requires_grad and not tangent.requires_grad
    torch.testing.assert_close(value, x**2 + x)
    torch.testing.assert_close(tangent, 2 * x * direction)


def test_several_duals_through_a_module():
    layer, x = nn.Linear(3, 2, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    parameters = dict(layer.named_parameters())
    directions = {name: torch.randn_like(parameter) for name, parameter in parameters.items()}
    with forward_ad.dual_level():
        duals = {name: forward_ad.make_dual(parameter, directions[name]) for name, parameter in parameters.items()}
        tangent = forward_ad.unpack_dual(torch.func.functional_call(layer, duals, x).tanh()).tangent
    expected = torch.func.jvp(
        lambda weights: torch.func.functional_call(layer, weights, x).tanh(), (parameters,), (directions,)
    )[1]
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


class Scaled(torch.autograd.Function):
    """x * factor * y, whose jvp is told from its backward by a factor of 10."""

    @staticmethod
    def forward(ctx, x, factor, y):
        ctx.factor = factor
        ctx.save_for_forward(x, y)
        return x * factor * y

    @staticmethod
    def jvp(ctx, dx, dfactor, dy):
        x, y = ctx.saved_tensors
        assert dfactor is None
        return 10 * ctx.factor * (dx * y + x * dy)


def test_the_jvp_of_a_function_is_used():
    x, y, dx, dy = (torch.tensor(values) for values in ([1.0, 2.0], [3.0, 4.0], [1.0, 0.5], [2.0, 1.0]))
    with forward_ad.dual_level():
        both = Scaled.apply(forward_ad.make_dual(x, dx), 2, forward_ad.make_dual(y, dy))
        one = Scaled.apply(forward_ad.make_dual(x, dx), 2, y)
        assert forward_ad.unpack_dual(both * 3).tangent.tolist() == [300.0, 240.0] and forward_ad.unpack_dual(
            one
        ).tangent.tolist() == [60.0, 40.0]
    assert torch.func.jvp(lambda x: Scaled.apply(x, 2, y), (x,), (dx,))[1].tolist() == [60.0, 40.0]


def test_a_dual_modified_in_place_takes_its_tangent_along():
    x, direction = torch.tensor([1.0, 2.0]), torch.tensor([0.5, -1.0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, direction)
        dual.mul_(3).add_(1)
        assert forward_ad.unpack_dual(dual).tangent.tolist() == [1.5, -3.0] and direction.tolist() == [0.5, -1.0]
    assert x.tolist() == [4.0, 7.0]


def test_values_and_tangents_are_differentiable_by_all_but_the_duals():
    weight = torch.tensor(2.0, requires_grad=True)
    primal = torch.tensor(3.0, requires_grad=True)
    with forward_ad.dual_level():
        for x in (torch.tensor(3.0), primal):
            value, tangent = forward_ad.unpack_dual(weight * forward_ad.make_dual(x, torch.tensor(5.0)) ** 2)
            (value + tangent).backward()
    assert weight.grad.item() == 2 * (9.0 + 30.0) and primal.grad.item() == 12.0 + 20.0


def test_a_level_is_its_threads_own():
    results = []

    def work():
        with forward_ad.dual_level():
            results.append(
                forward_ad.unpack_dual(forward_ad.make_dual(torch.ones(2), torch.ones(2)) * 3).tangent.tolist()
            )

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert forward_ad.unpack_dual(dual * 2).tangent.tolist() == [2.0, 2.0]
    assert results == [[3.0, 3.0]]
