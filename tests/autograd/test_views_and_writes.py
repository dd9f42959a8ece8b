"""Gradients through views, and through writes to tensors and views."""

import pytest

import numod


VALUES = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def leaf(values=VALUES):
    return numod.tensor(values, dtype=numod.float32).requires_grad_()


def weights(y):
    """1, 2, 3, ... in the shape of y, so that every element has a gradient of its own."""
    return (numod.arange(y.numel(), dtype=numod.float32) + 1).reshape(y.shape)


def gradient(function):
    """The gradient of the weighted sum of a function of a leaf and of what a write-free spelling would give."""
    x = leaf()
    y = function(x)
    (y * weights(y)).sum().backward()
    return x.grad.tolist()


VIEWS = {
    "select": (lambda x: x[1], [[0, 0, 0], [1, 2, 3]]),
    "select_last": (lambda x: x[:, -1], [[0, 0, 1], [0, 0, 2]]),
    "element": (lambda x: x[1, 2], [[0, 0, 0], [0, 0, 1]]),
    "slice": (lambda x: x[:, 1:], [[0, 1, 2], [0, 3, 4]]),
    "step": (lambda x: x[:, ::2], [[1, 0, 2], [3, 0, 4]]),
    "empty": (lambda x: x[:, 3:], [[0, 0, 0], [0, 0, 0]]),
    "narrow": (lambda x: x.narrow(1, 1, 1), [[0, 1, 0], [0, 2, 0]]),
    "transpose": (lambda x: x.t(), [[1, 3, 5], [2, 4, 6]]),
    "permute": (lambda x: x.permute(1, 0), [[1, 3, 5], [2, 4, 6]]),
    "view": (lambda x: x.view(3, 2), [[1, 2, 3], [4, 5, 6]]),
    "reshape_copy": (lambda x: x.t().reshape(6), [[1, 3, 5], [2, 4, 6]]),
    "flatten": (lambda x: x.flatten(), [[1, 2, 3], [4, 5, 6]]),
    "unsqueeze": (lambda x: x.unsqueeze(1), [[1, 2, 3], [4, 5, 6]]),
    "squeeze": (lambda x: x.unsqueeze(0).squeeze(0), [[1, 2, 3], [4, 5, 6]]),
    "expand": (lambda x: x.expand(2, 2, 3), [[8, 10, 12], [14, 16, 18]]),
    "expand_a_row": (lambda x: x[:1].expand(2, 3), [[5, 7, 9], [0, 0, 0]]),
    "diagonal": (lambda x: x.diagonal(), [[1, 0, 0], [0, 2, 0]]),
    "diagonal_above": (lambda x: x.diagonal(1), [[0, 1, 0], [0, 0, 2]]),
    "unbind": (lambda x: x.unbind(1)[1], [[0, 1, 0], [0, 2, 0]]),
    "split": (lambda x: x.split(2, 1)[1], [[0, 0, 1], [0, 0, 2]]),
    "chunk": (lambda x: x.chunk(2)[0], [[1, 2, 3], [0, 0, 0]]),
    "as_strided": (lambda x: x.as_strided((2, 2), (1, 2)), [[1, 3, 2], [4, 0, 0]]),
    "as_strided_overlapping": (lambda x: x.as_strided((3, 2), (1, 1)), [[1, 5, 9], [6, 0, 0]]),
    "view_of_view": (lambda x: x.t()[1:].unsqueeze(0)[:, :, 1], [[0, 0, 0], [0, 1, 2]]),
    "movedim": (lambda x: x.movedim(0, 1), [[1, 3, 5], [2, 4, 6]]),
    "unflatten": (lambda x: x.unflatten(1, (3, 1)), [[1, 2, 3], [4, 5, 6]]),
    "detour": (lambda x: x.t().contiguous().t(), [[1, 2, 3], [4, 5, 6]]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_gradient_through_a_view(name):
    function, expected = VIEWS[name]
    assert gradient(function) == expected


@pytest.mark.parametrize("name", VIEWS)
def test_second_order_gradient_through_a_view(name):
    function, expected = VIEWS[name]
    x = leaf()
    y = function(x)
    (g,) = numod.autograd.grad((y * y * y * weights(y)).sum(), x, create_graph=True)
    (gg,) = numod.autograd.grad(g.sum(), x)
    assert gg.tolist() == [[6 * v * w for v, w in zip(*rows)] for rows in zip(VALUES, expected)]


def test_a_view_knows_its_node():
    x = leaf()
    assert "View" in x.view(6).grad_fn.name() and x.view(6)._base is x
    assert x.detach().view(6).grad_fn is None


def test_write_to_a_result():
    def function(x):
        h = x * 1
        h.mul_(3)
        return h

    assert gradient(function) == [[3, 6, 9], [12, 15, 18]]


def test_write_over_what_was_there():
    def function(x):
        h = x * 1
        h.zero_()
        h.add_(x[0])
        return h

    assert gradient(function) == [[5, 7, 9], [0, 0, 0]]


def test_write_into_a_part_and_use_of_the_base():
    def function(x):
        h = x * 1
        h[0] = 7
        return h

    assert gradient(function) == [[0, 0, 0], [4, 5, 6]]


def test_write_a_differentiable_value_into_a_part():
    def function(x):
        h = numod.zeros(2, 3)
        h[1] = x[0] * 10
        return h

    assert gradient(function) == [[40, 50, 60], [0, 0, 0]]


def test_write_into_a_view_and_use_of_view_and_base():
    def function(x):
        h = x * 1
        v = h[:, 1]
        v.mul_(10)
        return numod.cat([h.flatten(), v])  # weights 1 .. 6 and 7, 8

    assert gradient(function) == [[1, 20 + 70, 3], [4, 50 + 80, 6]]


def test_write_into_the_base_and_use_of_an_older_view():
    def function(x):
        h = x * 1
        v = h.t()
        h.mul_(2)
        return v

    assert gradient(function) == [[2, 6, 10], [4, 8, 12]]


def test_write_into_one_view_and_use_of_another():
    def function(x):
        h = x * 1
        a, b = h[0], h[:, 0]
        a.mul_(5)
        return b

    assert gradient(function) == [[5, 0, 0], [2, 0, 0]]


def test_view_made_before_the_base_required_a_gradient():
    x = leaf()
    base = numod.zeros(2, 3)
    view = base[0]
    base.add_(x)
    y = view * numod.tensor([1.0, 2.0, 3.0])
    assert view.requires_grad and y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [[1, 2, 3], [0, 0, 0]]


@pytest.mark.parametrize(
    "use",
    [
        lambda v: v.sum(),
        lambda v: v @ numod.ones(3),
        lambda v: numod.cat([v, v]).sum() / 2,
        lambda v: v.view(3, 1).sum(),
        lambda v: v[0] + v[1] + v[2],
    ],
)
def test_every_kind_of_op_sees_that_a_view_came_to_require_a_gradient(use):
    x = leaf()
    base = numod.zeros(2, 3)
    view = base[0]
    base.add_(x)
    use(view).backward()
    assert x.grad.tolist() == [[1, 1, 1], [0, 0, 0]]


def test_a_function_sees_that_a_view_came_to_require_a_gradient():
    class Identity(numod.autograd.Function):
        @staticmethod
        def forward(ctx, v):
            return v * 1

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf()
    base = numod.zeros(2, 3)
    view = base[0]
    base.add_(x)
    Identity.apply(view).sum().backward()
    assert x.grad.tolist() == [[1, 1, 1], [0, 0, 0]]


def test_write_into_a_view_that_came_to_require_a_gradient_is_right_or_refused():
    x = leaf()
    base = numod.zeros(2, 3)
    view = base[0]
    base.add_(x)
    try:
        view.mul_(10)
    except RuntimeError:
        return  # as PyTorch does
    (base * weights(base)).sum().backward()
    assert x.grad.tolist() == [[10, 20, 30], [4, 5, 6]]


def test_write_into_a_view_of_a_view():
    def function(x):
        h = x * 1
        h.t()[1:][:, 0].mul_(10)
        return h

    assert gradient(function) == [[1, 20, 30], [4, 5, 6]]


def test_repeated_writes_into_overlapping_views():
    def function(x):
        h = x * 1
        h[:, :2].mul_(2)
        h[:, 1:].mul_(3)
        h[0].mul_(5)
        return h

    assert gradient(function) == [[10, 60, 45], [8, 30, 18]]


def test_copy_between_parts_of_one_base():
    def function(x):
        h = x * 1
        h[0] = h[1]
        return h

    assert gradient(function) == [[0, 0, 0], [5, 7, 9]]


def test_a_write_that_reads_an_overlapping_part():
    def function(x):
        h = x * 1
        h[:, 1:] += h[:, :-1]
        return h

    assert gradient(function) == [[3, 5, 3], [9, 11, 6]]


def test_write_with_an_index_tensor():
    def function(x):
        h = x * 1
        h[:, numod.tensor([0, 2])] = x[:, :2] * 10
        return h

    assert gradient(function) == [[10, 2 + 30, 0], [40, 5 + 60, 0]]


def test_write_with_a_mask():
    def function(x):
        h = x * 1
        h[x > 3] = 0
        return h

    assert gradient(function) == [[1, 2, 3], [0, 0, 0]]


def test_write_with_broadcasting():
    x = leaf([1.0, 2.0, 3.0])
    h = numod.zeros(2, 3)
    h += x
    (h * weights(h)).sum().backward()
    assert x.grad.tolist() == [5, 7, 9]


def test_write_through_a_reshape_that_is_a_view():
    def function(x):
        h = x * 1
        h.view(6)[::2].mul_(10)
        return h

    assert gradient(function) == [[10, 2, 30], [4, 50, 6]]


def test_write_into_a_clone_leaves_the_original():
    def function(x):
        h = x * 1
        h.t().clone().mul_(100)
        return h

    assert gradient(function) == [[1, 2, 3], [4, 5, 6]]


def test_second_order_through_a_write_into_a_view():
    x = leaf([1.0, 2.0])
    h = x * x
    v = h[0]
    v.mul_(3)
    (g,) = numod.autograd.grad((h * h).sum(), x, create_graph=True)  # 9 x0^4 + x1^4
    (gg,) = numod.autograd.grad(g.sum(), x)
    assert g.tolist() == [36, 32] and gg.tolist() == [108, 48]


def test_a_write_under_no_grad_is_not_recorded():
    def function(x):
        h = x * 2
        with numod.no_grad():
            h[0] = 100
        return h

    assert gradient(function) == [[2, 4, 6], [8, 10, 12]]


def test_nodes_after_a_write_have_pytorch_names():
    h = leaf() * 1
    v = h[0]
    v.mul_(2)
    assert h.grad_fn.name().endswith("CopySlices") and v.grad_fn is not None and v.requires_grad


def test_a_hook_on_a_base_sees_the_gradient_after_the_write():
    x = leaf([1.0, 2.0])
    h = x * 1
    h[0].mul_(3)
    seen = []
    h.register_hook(lambda g: seen.append(g.tolist()))
    h.sum().backward()
    assert seen == [[1, 1]] and x.grad.tolist() == [3, 1]


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.zero_(),
        lambda x: x.fill_(2.0),
        lambda x: x.copy_(numod.ones(3)),
        lambda x: x.normal_(),
        lambda x: x.bernoulli_(0.5),
        lambda x: x[:].zero_(),
    ],
)
def test_overwritten_values_have_zero_gradients(write):
    source = numod.arange(3.0).requires_grad_()
    x = source.clone()
    write(x)
    assert numod.autograd.grad((x * x).sum(), source)[0].tolist() == [0.0, 0.0, 0.0]


def test_a_hook_of_a_view_ends_with_a_write_to_it():
    base, seen = numod.tensor([1.0, 2.0], requires_grad=True), []
    copy = base * 3
    view = copy[:1]
    view.register_hook(seen.append)
    view.mul_(2)
    copy.sum().backward()
    assert not seen and base.grad.tolist() == [6.0, 3.0]


def test_assigning_data_keeps_the_visible_version():
    x, other = numod.randn(1, 2), numod.randn(2, 3)
    x.add_(1)
    before = x._version, other._version
    x.data = other
    assert (x._version, other._version) == before
    x.add_(1)
    assert x._version == before[0] + 1
