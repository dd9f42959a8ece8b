"""Indices of every form (0-d, empty, NumPy arrays, several dtypes), and indexed writes and gathers with them."""

import pytest

import numod
from numod import nn


@pytest.mark.parametrize("dtype", [numod.int64, numod.int16, numod.int8])
def test_an_index_without_dimensions_makes_a_view(dtype):
    x, i = numod.zeros(3, 2), numod.tensor(1, dtype=dtype)
    x[i].add_(5)
    x[:, 1][i] = 7
    assert x.tolist() == [[0, 0], [5, 7], [0, 0]] and x[i, numod.tensor(0)].data_ptr() == x[1].data_ptr()
    y = numod.arange(24).reshape(2, 3, 4)
    assert [tuple(tensor.shape) for tensor in (y[i, [0, 1]], y[[0, 1], i], y[[0, 1], :, i], y[i, :, i])] == [
        (2, 4),
        (2, 4),
        (2, 3),
        (3,),
    ]


def test_a_recorded_program_takes_other_indices():
    @numod.compile
    def row(x, i):
        return x[i] * 2

    x = numod.arange(6.0).reshape(3, 2)
    assert [row(x, numod.tensor(k)).tolist() for k in (0, 2, 1)] == [[0, 2], [8, 10], [4, 6]]


def test_indices_without_elements_write_nothing():
    x, none = numod.ones(2, 2), numod.tensor([], dtype=numod.int64)
    assert x.scatter_add(0, none, x).tolist() == x.scatter_reduce(0, none, x, "sum").tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="cannot be empty"):
        numod.autograd.grad(x.requires_grad_().sum(), [])


def test_masked_scatter_broadcasts_and_differences_of_order_0_take_no_more():
    assert numod.ones(2).masked_scatter(numod.tensor([[True], [False]]), numod.arange(2.0)).tolist() == [[0, 1], [1, 1]]
    assert numod.ones(3).diff(0, prepend=numod.ones(1)).shape == (3,)


def test_an_empty_index_of_any_dtype_gathers_nothing():
    assert numod.ones(3).gather(0, numod.tensor([])).shape == (0,) and numod.ones(3).scatter(
        0, numod.zeros(0, dtype=numod.uint8), 5
    ).tolist() == [1, 1, 1]


def test_products_by_index_over_what_needs_no_gradient():
    source, index = numod.tensor([[1.0, 2], [3, 4], [5, 6]], requires_grad=True), numod.tensor([0, 1, 0])
    for write in (
        lambda x: x.scatter_reduce_(0, index[:, None].expand(3, 2), source, "prod"),
        lambda x: x.index_reduce_(0, index, source, reduce="prod"),
    ):
        x = numod.full((2, 2), 2.0)
        (gradient,) = numod.autograd.grad(write(x).sum(), source)
        assert x.tolist() == [[10, 24], [6, 8]] and gradient.tolist() == [[10, 12], [2, 2], [2, 4]]


def test_fills_of_expanded_tensors():
    x = numod.zeros(2, 1)
    y = x.expand(2, 3)
    y.fill_(2)
    assert x.tolist() == [[2], [2]] and y.zero_() is y and x.sum() == 0
    assert nn.init.ones_(y) is y and x.sum() == 2
    for write in (lambda: y.add_(1), lambda: y.fill_(numod.tensor(1.0)), lambda: y.__setitem__(0, 4)):
        with pytest.raises(RuntimeError, match="single memory location"):
            write()
