"""Writes to saved values, leaves and views that autograd refuses, and versions that count writes."""

import pytest

import numod


VALUES = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def leaf(values=VALUES):
    return numod.tensor(values, dtype=numod.float32).requires_grad_()


def weights(y):
    """1, 2, 3, ... in the shape of y, so that every element has a gradient of its own."""
    return (numod.arange(y.numel(), dtype=numod.float32) + 1).reshape(y.shape)


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
