"""Arranging, scattering, reshaping in place and legacy constructors against NumPy or an expression written here;
gradients by finite differences.
"""

from __future__ import annotations

import numpy as np
import pytest
from selection import second_orders

import numod
from numod import nn
from numod.autograd import gradcheck, gradgradcheck

pytestmark = pytest.mark.on_cuda

X = np.arange(12.0).reshape(3, 4)


def tensor(array=X, grad=False):
    return numod.tensor(array, dtype=numod.float64, requires_grad=grad)


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("mine, theirs, twice", second_orders(3, [
    (lambda x: numod.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
    (lambda x: x.repeat_interleave(2, 1), lambda x: np.repeat(x, 2, 1)),
    (lambda x: x.repeat_interleave(numod.tensor([2, 0, 1]), 0), lambda x: np.repeat(x, [2, 0, 1], 0)),
    (lambda x: numod.roll(x, (1, -2), (0, 1)), lambda x: np.roll(x, (1, -2), (0, 1))),
    (lambda x: numod.rot90(x, 3), lambda x: np.rot90(x, 3)),
    (lambda x: numod.flipud(numod.fliplr(x)), lambda x: x[::-1, ::-1]),
    (lambda x: x.t().flip(0), lambda x: x.T[::-1]),
    (lambda x: x.view(3, 2, 2).permute(2, 0, 1).flip(0, 2), lambda x: x.reshape(3, 2, 2).transpose(2, 0, 1)[::-1, :, ::-1]),
    (lambda x: numod.column_stack((x[:, 0], x)), lambda x: np.column_stack((x[:, 0], x))),
    (lambda x: numod.dstack((x, x)), lambda x: np.dstack((x, x))),
    (lambda x: numod.vstack((x[0], x)), lambda x: np.vstack((x[0], x))),
    (lambda x: numod.hstack(tuple(numod.hsplit(x, [1, 3]))[::-1]), lambda x: np.hstack(np.hsplit(x, [1, 3])[::-1])),
    (lambda x: numod.cat(numod.tensor_split(x, 3, 1)[1:], 1), lambda x: np.concatenate(np.array_split(x, 3, 1)[1:], 1)),
    (lambda x: x.unfold(1, 2, 1), lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 1)),
    (lambda x: numod.take_along_dim(x, numod.tensor([[3], [0], [-1]]), 1), lambda x: np.take_along_axis(x, np.array([[3], [0], [-1]]), 1)),
    (lambda x: x.take(numod.tensor([[0, -1], [5, 5]])), lambda x: np.take(x, [[0, -1], [5, 5]])),
    (lambda x: numod.stack(numod.meshgrid(x[0], x[:, 0], indexing="xy")), lambda x: np.stack(np.meshgrid(x[0], x[:, 0]))),
    (lambda x: numod.diagonal_scatter(x, x[:, 0]), lambda x: np.where(np.eye(3, 4) == 1, x[:, :1], x)),
    (lambda x: x.scatter_reduce(0, numod.tensor([[0, 1, 1, 0]]), 3 + x[:1], "prod"), lambda x: np.vstack((x[0] * np.array([3, 1, 1, 6]), x[1] * np.array([1, 4, 5, 1]), x[2]))),
    (lambda x: x.masked_scatter(numod.tensor([True, False, False, True]), -x), lambda x: np.hstack((-x.ravel()[0:6:2, None], x[:, 1:3], -x.ravel()[1:6:2, None]))),
], others=pytest.mark.fuzz))  # fmt: skip
def test_values_and_gradients(mine, theirs, twice):
    np.testing.assert_array_equal(mine(tensor()).numpy(), theirs(X))
    x = tensor(X.copy() + 0.5, grad=True)
    assert gradcheck(mine, (x,))
    assert not twice or gradgradcheck(mine, (x,))


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_gradients_of_scatter_reduce(reduce, include_self):
    index = numod.tensor([[0, 2, 0], [0, 2, 2]])
    x = tensor([[1.1, 2.3, 0.4], [5.0, 6.2, 7.1], [-1.0, 0.7, 0.3]], True)
    source = tensor([[0.9, 3.3, 1.7], [2.2, -0.6, 4.1]], True)

    def function(x, source):
        return x.scatter_reduce(0, index, source, reduce, include_self=include_self)

    assert gradcheck(function, (x, source))
    assert gradgradcheck(function, (x, source))


@pytest.mark.parametrize("factor", [2j, 0j])
def test_products_of_complex_numbers_by_index(factor):
    x = numod.tensor([1 + 2j, 2 - 1j, 3j], dtype=numod.complex128, requires_grad=True)
    index = numod.tensor([0, 0, 2, 2])
    source = numod.tensor([1 - 1j, factor, 2 + 1j, 1j], dtype=numod.complex128, requires_grad=True)
    assert x.scatter_reduce(0, index, source, "prod").tolist() == [
        (1 + 2j) * (1 - 1j) * factor,
        2 - 1j,
        3j * (2 + 1j) * 1j,
    ]
    assert gradcheck(lambda x, source: x.scatter_reduce(0, index, source, "prod"), (x, source))


@pytest.mark.on_cuda(simulator=False)
def test_products_with_zeros_have_exact_gradients():
    x, source = tensor([[2.0, 3.0]], True), tensor([[0.0, 0.0], [5.0, 0.0]], True)
    x.scatter_reduce(0, numod.tensor([[0, 0], [0, 0]]), source, "prod").sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0]]
    assert source.grad.tolist() == [[10.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("change, expression", [
    (lambda x: x.t_(), lambda x: x.t()), (lambda x: x.transpose_(0, 1), lambda x: x.t()), (lambda x: x.unsqueeze_(1).squeeze_(1), lambda x: x),
    (lambda x: x.pow_(2), lambda x: x**2), (lambda x: x.logit_(0.1), lambda x: x.logit(0.1)), (lambda x: x.cumsum_(0), lambda x: x.cumsum(0)),
])  # fmt: skip
def test_in_place_forms_keep_the_history(change, expression):
    """What backward keeps is what was there before the write."""
    x, y = tensor(X + 0.5, True), tensor(X + 0.5, True)
    (change(x.clone()) * expression(tensor(X))).sum().backward()
    (expression(y * 1) * expression(tensor(X))).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy())


@pytest.mark.on_cuda(simulator=False)
def test_a_comparison_in_place_leaves_no_gradient():
    x = tensor(grad=True)
    y = (x * 2).lt_(5.0)
    assert y.tolist() == (X * 2 < 5).astype(float).tolist()
    (y.sum() + x.sum() * 3).backward()
    assert (x.grad == 3).all()


def test_resize_keeps_what_was_there():
    x = numod.arange(6)
    view = x.view(2, 3)
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert x.resize_(9)[:6].tolist() == [0, 1, 2, 3, 4, 5]
    x[0] = 7
    assert view[0, 0] == 7
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        numod.ones(2, requires_grad=True).resize_(3)


def test_views_in_another_dtype_share_memory():
    x = numod.tensor([1.0, -2.0])
    bits = x.view(numod.int32)
    assert bits.tolist() == np.array([1, -2], np.float32).view(np.int32).tolist()
    bits[0] = 0
    assert x[0] == 0
    assert x.view(numod.uint8).shape == (8,) and x.view(numod.uint8).view(numod.float32).tolist() == x.tolist()


@pytest.mark.on_cuda(simulator=False)
def test_a_leaf_that_needs_a_gradient_is_not_turned_in_place():
    with pytest.raises(RuntimeError, match="leaf Variable"):
        tensor(grad=True).t_()


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b.t_(),
        lambda b: b.unsqueeze_(0),
        lambda b: b.as_strided_((2, 2), (1, 2)),
        lambda b: b.detach().resize_(4),
    ],
)
def test_a_saved_tensor_that_is_turned_in_place_is_stale(change):
    a = numod.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    b = a * 1
    c = b * b
    change(b)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        c.sum().backward()


@pytest.mark.on_cuda(simulator=False)
def test_gradients_through_tensors_turned_in_place():
    a, g = numod.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True), numod.tensor([[1.0, 10.0], [100.0, 1000.0]])
    b = a * 1
    row = b[0]
    b.t_()
    ((b * b * g).sum() + (row * row).sum()).backward()
    assert b._version == 1 and a.grad.tolist() == [[4.0, 404.0], [60.0, 8000.0]]


def test_resizing_to_the_same_shape_changes_nothing():
    x = numod.arange(4.0).reshape(2, 2).t()
    assert x.resize_(2, 2).tolist() == [[0.0, 2.0], [1.0, 3.0]] and x._version == 0


@pytest.mark.cpu_only
def test_constructors_by_dtype():
    assert numod.LongTensor([1, 2]).dtype is numod.int64 and numod.FloatTensor(2, 3).shape == (2, 3)
    assert isinstance(numod.ones(2), numod.FloatTensor) and not isinstance(numod.ones(2), numod.LongTensor)
    assert numod.ones(2).type(numod.LongTensor).dtype is numod.int64
    assert repr(numod.FloatTensor) == "<class 'numod.FloatTensor'>"


def test_channels_last():
    x = numod.randn(2, 3, 4, 5)
    last = x.contiguous(memory_format=numod.channels_last)
    assert last.stride() == (60, 1, 15, 3) and numod.equal(last, x)
    assert last.is_contiguous(memory_format=numod.channels_last) and not last.is_contiguous()
    assert last.contiguous(memory_format=numod.channels_last) is last
    assert numod.zeros(2, 3, 4, 5, memory_format=numod.channels_last).stride() == last.stride()
    with pytest.raises(RuntimeError, match="required rank 4 tensor"):
        x[0].contiguous(memory_format=numod.channels_last)
    with pytest.raises(TypeError, match="memory_format must be"):
        x.contiguous(memory_format="channels_last")


def test_multinomial_follows_the_weights():
    numod.manual_seed(0)
    weights = numod.tensor([[1.0, 0.0, 3.0], [0.0, 1.0, 0.0]])
    drawn = numod.multinomial(weights, 4000, replacement=True)
    counts = np.bincount(drawn[0].numpy(), minlength=3)
    assert counts[1] == 0 and abs(counts[2] / 4000 - 0.75) < 0.03
    assert (drawn[1] == 1).all()
    once = numod.multinomial(weights[:1], 2)
    assert sorted(once[0].tolist()) == [0, 2]


@pytest.mark.on_cuda(simulator=False)
def test_draws_with_their_means():
    numod.manual_seed(1)
    x = numod.empty(20000)
    assert abs(x.exponential_(2.0).mean().item() - 0.5) < 0.02 and x.min() > 0
    assert abs(x.geometric_(0.25).mean().item() - 4.0) < 0.15 and x.min() >= 1
    assert abs(x.cauchy_(3.0, 1.0).median().item() - 3.0) < 0.1
    assert abs(x.log_normal_(1.0, 0.5).log().mean().item() - 1.0) < 0.02


def test_out_is_resized_with_a_warning():
    x, out = tensor(), numod.empty(2, dtype=numod.float64)
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        assert numod.take(x, numod.tensor([1, 5, 7]), out=out) is out
    assert out.tolist() == [1.0, 5.0, 7.0]
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        numod.take(tensor(grad=True), numod.tensor([1]), out=out)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype Double, but got Long"):
        numod.take(x, numod.tensor([1]), out=numod.empty(1, dtype=numod.int64))


@pytest.mark.parametrize("copy", [
    lambda x: x.repeat_interleave(1, 0), lambda x: x[:, :1].repeat_interleave(3, 1), lambda x: x[:, ::2].ravel(), lambda x: nn.functional.pixel_shuffle(x[None], 1),
    lambda x: nn.functional.pixel_unshuffle(x[None], 1), lambda x: numod.histogram(numod.rand(4), x[0]).bin_edges, lambda x: x[0, 0].sum_to_size(()),
])  # fmt: skip
def test_functions_that_copy_share_no_memory(copy):
    x = numod.arange(6.0).reshape(2, 3)
    copy(x).add_(7)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("view", (3, 2)),
        ("expand", (4, 2, 3)),
        ("transpose", (0, 1)),
        ("unbind", (1,)),
        ("split", (1, 1)),
        ("select", (0, 1)),
        ("as_strided", ((2,), (3,))),
    ],
)
def test_copies_of_views(name, arguments):
    x = numod.arange(6.0).reshape(2, 3)
    copies = getattr(numod, f"{name}_copy")(x, *[arguments] if name in ("view", "expand") else arguments)
    views = getattr(x, name)(*arguments)
    pairs = list(zip(copies, views)) if isinstance(views, tuple) else [(copies, views)]
    assert all(copy.equal(view) and copy.is_contiguous() and copy._base is None for copy, view in pairs)
    assert numod.t_copy(x, out=numod.empty(0)).equal(x.T)
