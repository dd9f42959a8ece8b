"""Gradients never share memory with a weight, with a tensor that a hook received, or with another gradient."""

import pytest

import numod


def leaf(*values):
    return numod.tensor(values[0] if len(values) == 1 else list(values), dtype=numod.float32).requires_grad_()


def same_memory(a, b):
    return a.data_ptr() == b.data_ptr()


def test_gradient_is_not_the_weight():
    x = leaf(1.0, 2.0)
    g = numod.ones(2)
    (x + 1).backward(g)
    assert not same_memory(x.grad, g)
    (x + 1).backward(g)
    assert g.tolist() == [1.0, 1.0] and x.grad.tolist() == [2.0, 2.0]


def test_gradient_of_a_leaf_is_not_the_weight():
    x = leaf(1.0, 2.0)
    g = numod.ones(2)
    x.backward(g)
    assert not same_memory(x.grad, g)


@pytest.mark.parametrize("view", [lambda g: g.view(2, 2), lambda g: g[:4].view(2, 2), lambda g: g.view(2, 2).t()])
def test_gradient_is_not_a_view_of_the_weight(view):
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    g = numod.ones(4)
    (x + 1).backward(view(g))
    x.grad.zero_()
    assert g.tolist() == [1.0] * 4


def test_a_gradient_in_another_shape_is_adopted_if_nobody_holds_it():
    x, seen = leaf([[1.0, 2.0], [3.0, 4.0]]), []
    wide = x.view(4)
    (wide * 2).sum().backward()
    assert x.grad._base is None and x.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    x.grad = None
    wide.register_hook(seen.append)
    (wide * 2).sum().backward()
    x.grad.zero_()
    assert seen[0].tolist() == [2.0] * 4


def test_gradients_of_two_leaves_are_apart():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x + y).backward(numod.ones(2))
    assert not same_memory(x.grad, y.grad)
    x.grad.zero_()
    assert y.grad.tolist() == [1.0, 1.0]


def test_gradients_of_leaves_behind_views_are_apart():
    x, y = leaf([[1.0, 2.0]]), leaf(3.0, 4.0)
    (x.view(2) + y).backward(numod.ones(2))
    x.grad.zero_()
    assert y.grad.tolist() == [1.0, 1.0]


def test_gradients_of_cat_are_apart():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    numod.cat([x, y]).backward(numod.ones(4))
    x.grad.fill_(7)
    assert y.grad.tolist() == [1.0, 1.0]


def test_gradient_of_a_sum_is_writable():
    x = leaf(1.0, 2.0, 3.0)
    x.sum().backward()
    x.grad[0] = 5
    assert x.grad.tolist() == [5.0, 1.0, 1.0]


def test_gradient_is_not_what_a_hook_returned():
    x = leaf(1.0, 2.0)
    mine = numod.zeros(2)
    x.register_hook(lambda g: mine)
    for _ in range(2):
        (x * 2).sum().backward()
    x.grad.add_(1)
    assert mine.tolist() == [0.0, 0.0]


def test_gradient_is_not_what_a_hook_saw():
    x = leaf(1.0, 2.0)
    seen = []
    h = x + 0
    h.register_hook(lambda g: seen.append(g))
    h.sum().backward()
    (x * 2).sum().backward()
    assert seen[0].tolist() == [1.0, 1.0] and x.grad.tolist() == [3.0, 3.0]


def test_gradient_is_not_a_tensor_that_a_function_kept():
    constant = numod.ones(2)

    class Constant(numod.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return constant

    x = leaf(1.0, 2.0)
    for _ in range(2):
        Constant.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0] and constant.tolist() == [1.0, 1.0]


def test_retained_gradient_is_not_the_weight():
    x = leaf(1.0, 2.0)
    h, g = x * 2, numod.ones(2)
    h.retain_grad()
    h.backward(g)
    assert not same_memory(h.grad, g) and not same_memory(x.grad, h.grad)


def test_retained_gradients_are_apart():
    x = leaf(1.0, 2.0)
    h = x + 1
    k = h + 1
    h.retain_grad()
    k.retain_grad()
    k.sum().backward()
    h.grad.zero_()
    assert k.grad.tolist() == [1.0, 1.0] and x.grad.tolist() == [1.0, 1.0]


def test_gradients_returned_by_grad_do_not_follow_the_leaf():
    x = leaf(1.0, 2.0)
    y = x * x
    (g,) = numod.autograd.grad(y.sum(), x, retain_graph=True)
    y.sum().backward()
    y2 = x * x
    y2.sum().backward()
    assert g.tolist() == [2.0, 4.0] and x.grad.tolist() == [4.0, 8.0]


def test_gradient_of_an_input_of_backward_is_not_shared():
    x = leaf(1.0, 2.0)
    h = x + 1
    k = h + 1
    k.sum().backward(inputs=[h, x])
    h.grad.zero_()
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_leaf_and_its_gradient_lie_in_memory_in_one_order():
    leaf = numod.randn(4, 3).t().detach().requires_grad_()
    for _ in range(2):
        (leaf.exp() + leaf).sum().backward()
        assert leaf.grad.stride() == leaf.stride() == (1, 3)


def test_clones_of_strided_tensors_keep_the_order_of_dimensions():
    x = numod.arange(24.0).reshape(2, 3, 4)
    for view in (x[0].t()[:, ::2], x.permute(2, 0, 1)[1:3], x[:, :, ::2].permute(2, 1, 0)):
        assert view.clone().equal(view)
        order = lambda t: sorted(range(t.ndim), key=lambda d: -t.stride(d))  # noqa: E731
        assert order(view.clone()) == order(view) == order(view * 2)
    assert numod.ones(3, 1).expand(3, 4).clone().stride() == (4, 1)
