"""Values that nodes save: writes through `data`, in-place changes of results, marks, hooks, gradients at limits."""

import numpy as np
import pytest

import numod
from numod import nn


def test_gradients_and_draws_at_the_edges():
    logits = numod.tensor(0.0, requires_grad=True)
    numod.distributions.Binomial(numod.tensor(1.0), logits=logits).log_prob(numod.tensor(0.0)).backward()
    assert logits.grad.item() == -0.5
    drawn = numod.distributions.Beta(numod.full((500,), 1e-2), numod.full((500,), 1e-2)).sample()
    assert 0 < drawn.min().item() and drawn.max().item() < 1


def test_writes_through_data_are_not_noticed_by_autograd():
    x, w = numod.tensor([3.0, 4.0], requires_grad=True), numod.tensor([5.0, 6.0], requires_grad=True)
    y = x * 1
    z = (y * y).sum()
    y.data[0], y.data[1:] = 10.0, 20.0
    z.backward()
    assert x.grad.tolist() == [20, 40] and y._version == 0
    d = y.data
    product = (d * w).sum()
    d.view(1, 2)[:, 1] = 0.0  # what is saved is `d` itself, which counts the writes through it and its views
    assert d._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    d.mul_(w)
    assert d.view(-1).grad_fn is not None


def test_marks_of_a_tensor_that_is_gone_fall_on_no_other():
    class Twice(numod.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_non_differentiable(x.detach() + 1)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            return 2 * g + 3 * h

    assert all(tensor.requires_grad for tensor in Twice.apply(numod.ones(2, requires_grad=True)))


def test_slopes_beside_infinities_and_of_complex_steps():
    inf = float("inf")
    values = np.array([2.0, -2, inf, inf, -inf, 3, -inf, 2])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(numod.gradient(numod.tensor(values))[0], np.gradient(values))
    y, at = np.array([2.0, -2, 5, 7], complex), np.array([0, 1j, 2, 4])
    for order in (1, 2):
        np.testing.assert_allclose(
            numod.gradient(numod.tensor(y.real), spacing=2j, edge_order=order)[0], np.gradient(y, 2j, edge_order=order)
        )
        np.testing.assert_allclose(
            numod.gradient(numod.tensor(y.real), spacing=[numod.tensor(at)], edge_order=order)[0],
            np.gradient(y, at, edge_order=order),
        )


def test_gradients_of_softmax_from_its_results():
    x, g = numod.rand(3, 4, requires_grad=True), numod.rand(3, 4)
    for name in ("softmax", "log_softmax"):
        y = getattr(numod, name)(x, 1)
        expected = numod.autograd.grad(y, x, g)[0]
        numod.testing.assert_close(getattr(numod, f"_{name}_backward_data")(g, y.detach(), 1, x.dtype), expected)


@pytest.mark.parametrize(
    "formula",
    [
        lambda x: x / x.sum(), lambda x: x**0.5, lambda x: x**-1, nn.functional.elu, nn.functional.selu, nn.functional.celu,
        numod.sinc, nn.functional.tanhshrink, lambda x: nn.functional.normalize(x, dim=0), numod.cov,
    ],
)  # fmt: skip
def test_results_that_may_be_changed_before_backward(formula):
    gradients = []
    for change in (lambda y: y, lambda y: y.mul_(1).add_(1)):
        x = numod.tensor([0.5, 1.0, 2.0], requires_grad=True)
        (change(formula(x)) * numod.arange(3)).sum().backward()
        gradients.append(x.grad)
    assert numod.equal(*gradients)


def test_functions_of_functions_under_inference_mode():
    with numod.inference_mode():
        x = numod.ones(2)
        assert numod.func.grad(lambda x: (x**2).sum())(x).tolist() == [2, 2]
        assert numod.func.jvp(lambda x: x**2, (x,), (x,))[1].tolist() == [2, 2]
        assert numod.func.hessian(lambda x: (x**3).sum())(x).tolist() == [[6, 0], [0, 6]]


def test_a_hook_before_a_node_gives_as_many_gradients():
    y = numod.ones(2, requires_grad=True) * 2
    y.grad_fn.register_prehook(lambda gradients: (gradients[0], gradients[0]))
    with pytest.raises(RuntimeError, match="got 2, but expected 1"):
        y.sum().backward()


def test_views_of_the_same_shape_are_other_tensors():
    x = numod.ones(3, requires_grad=True)
    for view in (x.expand(3), x.expand_as(x), x.broadcast_to(3), numod.broadcast_to(x, (3,)), x.t()):
        assert view is not x and view._base is x and view.grad_fn.next_functions[0][0].variable is x
