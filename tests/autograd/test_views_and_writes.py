"""Gradients through views and through writes into them; version counters; and the writes that are refused."""

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


# ---- writes


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


# ---- versions


MODIFIED = "modified by an inplace operation.*is at version 1; expected version 0 instead"


def test_a_write_to_a_kept_input_is_an_error():
    x = leaf()
    h = x * 1
    y = h * h
    h.add_(1)
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.sum().backward()


def test_a_write_to_a_kept_result_is_an_error():
    x = leaf()
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.sum().backward()


def test_a_write_to_a_kept_leaf_is_an_error():
    x, w = leaf(), numod.ones(2, 3)
    y = x * w
    w.mul_(2)
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.sum().backward()


def test_a_write_through_a_view_of_what_was_kept_is_an_error():
    x = leaf()
    h = x * 1
    v = h.t()
    y = h * h
    v[0].zero_()
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.sum().backward()


def test_a_write_to_a_base_whose_view_was_kept_is_an_error():
    x = leaf()
    h = x * 1
    y = h[0] * h[1]
    h.zero_()
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.sum().backward()


@pytest.mark.parametrize(
    "write",
    [
        lambda h: h.detach().zero_(),
        lambda h: h.detach().view(6).zero_(),
        lambda h: h.detach().numpy() is None or h.zero_(),
        lambda h: h.__setitem__(0, 1.0),
    ],
    ids=["detach", "detached_view", "method", "setitem"],
)
def test_every_way_to_write_counts(write):
    x = leaf()
    h = x * 1
    y = h * h
    write(h)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_write_under_no_grad_counts():
    w = leaf()
    y = (w * w).sum()
    with numod.no_grad():
        w.sub_(0.1)
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.backward()


def test_the_message_names_the_node_and_the_tensor():
    h = leaf() * 1
    y = h * h
    h.add_(1)
    h.add_(1)
    with pytest.raises(
        RuntimeError,
        match=r"FloatTensor \[2, 3\]\], which is output 0 of Add(Backward0)?, is at version 2; expected version 0 "
        r"instead",
    ):
        y.sum().backward()


def test_a_write_to_what_is_not_kept_is_fine():
    x = leaf()
    h = x + 1
    y = h + 2
    h.mul_(5)
    (y + h).sum().backward()
    assert x.grad.tolist() == [[6, 6, 6], [6, 6, 6]]


def test_a_write_whose_gradient_needs_what_was_there():
    x, w = leaf(), leaf([[2.0, 2.0, 2.0], [3.0, 3.0, 3.0]])
    h = x * 1
    h.mul_(w)
    h.sum().backward()
    assert x.grad.tolist() == w.tolist() and w.grad.tolist() == VALUES


def test_in_place_ops_that_keep_their_result():
    x = leaf([0.5, -0.5])
    h = x * 1
    h.exp_()
    h.sum().backward()
    assert x.grad.tolist() == pytest.approx([1.6487213, 0.60653067])


def test_relu_in_place_between_layers():
    x = leaf([0.5, -0.5])
    h = (x * 2).relu_() * 3
    h.sum().backward()
    assert x.grad.tolist() == [6, 0]


def test_version_counts():
    x = numod.zeros(2, 3)
    v = x.t()
    assert x._version == v._version == 0
    x.add_(1)
    v[0] = 2
    x.detach().mul_(3)
    assert x._version == v._version == x.detach()._version == 3
    assert x.clone()._version == 0


# ---- refusals


def test_a_leaf_is_not_written():
    x = leaf()
    for write in (
        lambda: x.add_(1),
        lambda: x.zero_(),
        lambda: x.copy_(numod.ones(2, 3)),
        lambda: x.__setitem__(0, 1.0),
        lambda: x.uniform_(),
    ):
        with pytest.raises(
            RuntimeError,
            match="a (view of a )?leaf Variable that requires grad.* is being used in an in-place operation",
        ):
            write()
    assert x.tolist() == VALUES and x._version == 0


def test_a_view_of_a_leaf_is_not_written():
    x = leaf()
    with pytest.raises(
        RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place operation"
    ):
        x.t().mul_(2)
    with pytest.raises(
        RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place operation"
    ):
        x[0] = 1


def test_a_leaf_is_written_under_no_grad():
    x = leaf()
    with numod.no_grad():
        x.mul_(2)
        x[0] = 0
    assert x.tolist() == [[0, 0, 0], [8, 10, 12]] and x.is_leaf and x.requires_grad


def test_a_leaf_requiring_no_gradient_comes_to_require_one():
    x = leaf()
    h = numod.zeros(2, 3)
    h.copy_(x)
    assert h.requires_grad and not h.is_leaf
    (h * weights(h)).sum().backward()
    assert x.grad.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_a_view_made_under_no_grad_is_not_written_under_the_tape():
    h = leaf() * 1
    with numod.no_grad():
        v = h[0]
    with pytest.raises(
        RuntimeError, match="view was created in no_grad mode and is being modified inplace with grad mode enabled"
    ):
        v.mul_(2)


def test_a_view_of_a_view_made_under_no_grad_is_not_written_either():
    with numod.no_grad():
        y = numod.zeros(2).view(2)
    y.requires_grad_()
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        y.view(2).div_(2)


def test_a_view_made_under_no_grad_may_be_written_where_no_gradient_is_about():
    h = numod.zeros(2, 3)
    with numod.no_grad():
        v = h[0]
    v.fill_(2)
    assert h.tolist() == [[2, 2, 2], [0, 0, 0]]


def test_an_integer_tensor_takes_part_without_gradients():
    x = leaf()
    counts = numod.zeros(2, 3, dtype=numod.int64)
    counts.add_((x > 2).long())
    assert not counts.requires_grad and counts.tolist() == [[0, 0, 1], [1, 1, 1]]


def test_a_refused_write_leaves_the_version_alone():
    h = numod.zeros(3)
    with pytest.raises(RuntimeError):
        h.add_(numod.ones(4))
    assert h._version == 0 and h.tolist() == [0, 0, 0]


def test_a_write_to_a_view_of_what_does_not_begin_its_memory():
    w = numod.tensor([1.0, 1.0], requires_grad=True)
    base = numod.arange(6.0)[2:].detach()
    base[1:3].mul_(w)
    (base * numod.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert w.grad.tolist() == [2 * 3.0, 3 * 4.0]


class Passed(numod.autograd.Function):
    """Returns its input, or a view of it."""

    @staticmethod
    def forward(ctx, x, as_view):
        return x.view_as(x) if as_view else x

    @staticmethod
    def backward(ctx, g):
        return g, None


@pytest.mark.parametrize("as_view", [True, False])
def test_a_view_that_a_function_returned_is_not_used_after_a_write_to_what_it_shows(as_view):
    h = leaf() * 1
    y = Passed.apply(h, as_view)
    part = y[0]
    h[0].mul_(3)
    for tensor in (y, part):  # the gradient would be as it was before the write
        with pytest.raises(
            RuntimeError, match="is a view and its base or another view of its base has been modified inplace"
        ):
            tensor.sum()


@pytest.mark.parametrize("as_view", [True, False])
def test_a_view_that_a_function_returned_is_not_written(as_view):
    y = Passed.apply(leaf() * 1, as_view)
    for tensor in (y, y[0]):
        with pytest.raises(RuntimeError, match="autograd.Function"):
            tensor.mul_(3)


@pytest.mark.parametrize("take", [lambda x: x.chunk(2), lambda x: x.split(1), lambda x: x.unbind(), lambda x: [*x]])
def test_views_that_were_made_together_cannot_be_written_to(take):
    x = numod.ones(4, requires_grad=True)
    whole = x * 1
    part = take(whole)[0]
    for view in (part, part.view(-1)):
        with pytest.raises(RuntimeError, match="returns multiple views"):
            view.mul_(2)
    whole.mul_(3)
    with pytest.raises(RuntimeError, match="returns multiple views"):
        part.sum()
    plain = numod.ones(4)
    take(plain)[0].mul_(2)
    assert plain[0] == 2
    for views in ((x * 1).tensor_split(2), (x * 1).unsafe_chunk(2), (x * 1).unsafe_split(2)):
        views[0].mul_(2)
    with numod.no_grad():
        take(x)[0].mul_(2)
    assert x[0] == 2


def without_gradients(x: numod.Tensor) -> tuple:
    with numod.no_grad():
        return (x[:2],)


@pytest.mark.parametrize("take", [lambda x: x.chunk(2), lambda x: x.split(2), lambda x: x.unbind(0), without_gradients])
def test_views_that_no_node_tells_of_before_their_base_gets_a_history(take: object) -> None:
    """They hold what was written, and the backward pass does not lose its gradient in silence."""
    w = numod.tensor(3.0, requires_grad=True)
    x = numod.zeros(4)
    part = take(x)[0]
    x.add_(w)
    assert part.requires_grad and part.detach().flatten()[0] == 3 and "3." in repr(part)
    with numod.no_grad():
        assert (part * 2).flatten()[0] == 6
    with pytest.raises(RuntimeError, match="created in no_grad mode, or by a function that returns multiple views"):
        (part.sum() + 2 * w).backward()
    assert w.grad is None or w.grad == 2  # as far as the pass came


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
