"""Embedding, EmbeddingBag and one-hot vectors against NumPy: rows, bags, what gets a gradient, what is written to the
table, errors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import numod
from numod import nn, tensor
from numod.autograd import gradcheck, gradgradcheck
from numod.nn import functional as F

pytestmark = pytest.mark.on_cuda(simulator=False)

TABLE = np.random.default_rng(0).standard_normal((6, 3))
INDEX = np.array([1, 0, 5, 2, 2, 1, 3])
OFFSETS = np.array([0, 2, 2, 5])
BAGS = [INDEX[0:2], INDEX[2:2], INDEX[2:5], INDEX[5:7]]


def table() -> numod.Tensor:
    return tensor(TABLE, requires_grad=True)


@pytest.mark.parametrize("shape", [(7,), (7, 1), (1, 7)])
@pytest.mark.parametrize("dtype", [numod.int64, numod.int32], ids=str)
def test_rows(shape: tuple, dtype: numod.dtype) -> None:
    weight = table()
    result = F.embedding(tensor(INDEX, dtype=dtype).reshape(shape), weight)
    assert result.shape == (*shape, 3)
    np.testing.assert_array_equal(result.detach().numpy(), TABLE[INDEX.reshape(shape)])
    result.sum().backward()
    np.testing.assert_array_equal(weight.grad.numpy(), np.bincount(INDEX, minlength=6)[:, None] * np.ones(3))


def test_indices_of_any_stride() -> None:
    columns = numod.from_numpy(np.stack([INDEX, 5 - INDEX], 1))
    assert np.array_equal(F.embedding(columns[:, 1], tensor(TABLE)), TABLE[5 - INDEX])
    assert np.array_equal(F.embedding(columns.flatten()[::2], tensor(TABLE)), TABLE[INDEX])
    weight = table()
    F.embedding(columns[:, 1], weight).sum().backward()
    assert np.array_equal(weight.grad[:, 0], np.bincount(5 - INDEX, minlength=6))


def test_one_index_and_none() -> None:
    assert F.embedding(tensor(2), table()).tolist() == TABLE[2].tolist()
    assert F.embedding(numod.zeros(0, 2, dtype=numod.int64), table()).shape == (0, 2, 3)


@pytest.mark.parametrize("padding", [2, -4])
def test_the_padding_row_gets_no_gradient(padding: int) -> None:
    weight = table()
    F.embedding(tensor(INDEX), weight, padding).sum().backward()
    expected = np.bincount(INDEX, minlength=6)[:, None] * np.ones(3)
    expected[padding] = 0
    np.testing.assert_array_equal(weight.grad.numpy(), expected)
    assert nn.Embedding(6, 3, padding_idx=padding).weight[2].tolist() == [0.0] * 3


def test_gradients_by_frequency() -> None:
    weight = table()
    F.embedding(tensor(INDEX), weight, scale_grad_by_freq=True).sum().backward()
    np.testing.assert_allclose(weight.grad.numpy(), np.isin(np.arange(6), INDEX)[:, None] * np.ones(3))


@pytest.mark.parametrize("order", [1.0, 2.0, float("inf")])
def test_long_rows_that_are_read_are_shortened_in_place(order: float) -> None:
    layer = nn.Embedding.from_pretrained(tensor(TABLE * 4), freeze=False, max_norm=1.0, norm_type=order)
    actual = layer(tensor([1, 1, 5]))
    expected = TABLE * 4
    for row in (1, 5):
        expected[row] /= max(1.0, np.linalg.norm(expected[row], order))
    np.testing.assert_allclose(layer.weight.detach().numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(actual.detach().numpy(), expected[[1, 1, 5]], rtol=1e-6)


def bag_of(mode: str, rows: np.ndarray) -> np.ndarray:
    return getattr(rows, mode)(0) if len(rows) else np.zeros(3)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode: str) -> None:
    expected = np.stack([bag_of(mode, TABLE[bag]) for bag in BAGS])
    arguments = tensor(INDEX), tensor(TABLE)
    np.testing.assert_allclose(F.embedding_bag(*arguments, tensor(OFFSETS), mode=mode).numpy(), expected)
    with_last = F.embedding_bag(*arguments, tensor([*OFFSETS, 7]), mode=mode, include_last_offset=True)
    np.testing.assert_allclose(with_last.numpy(), expected)
    grid = F.embedding_bag(tensor(INDEX[:6]).reshape(2, 3), tensor(TABLE), mode=mode)
    np.testing.assert_allclose(
        grid.numpy(), np.stack([bag_of(mode, TABLE[INDEX[:3]]), bag_of(mode, TABLE[INDEX[3:6]])])
    )


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("padding", [None, 4])
def test_last_bag_where_the_last_offset_is_below_the_end(mode: str, dtype: str, padding: int | None) -> None:
    """It goes on to the end in PyTorch's kernels for the maximum, padding and float64, and ends at the last offset in
    those for sums of float32.
    """
    rows = np.arange(10.0).reshape(5, 2)
    weight = tensor(rows, dtype=getattr(numod, dtype), requires_grad=True)
    result = F.embedding_bag(
        tensor([0, 1, 2, 3]), weight, tensor([0, 2, 3]), mode=mode, include_last_offset=True, padding_idx=padding
    )
    to_end = mode == "max" or padding is not None or dtype == "float64"
    second = getattr(rows[2 : 4 if to_end else 3], mode)(0)
    np.testing.assert_allclose(result.detach().numpy(), [getattr(rows[:2], mode)(0), second])
    result.sum().backward()
    assert (weight.grad[3].sum().item() > 0) is to_end


def test_no_offsets_are_no_bags() -> None:
    assert F.embedding_bag(tensor([0, 1]), tensor(TABLE), tensor([], dtype=numod.int64)).shape == (0, 3)


def test_bags_of_the_older_order_of_arguments() -> None:
    with pytest.warns(UserWarning, match="Argument order of nn.functional.embedding_bag was changed"):
        swapped = F.embedding_bag(tensor(TABLE), tensor(INDEX), tensor(OFFSETS))
    np.testing.assert_array_equal(
        swapped.numpy(), F.embedding_bag(tensor(INDEX), tensor(TABLE), tensor(OFFSETS)).numpy()
    )


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_padding_is_in_no_bag(mode: str) -> None:
    expected = np.stack([bag_of(mode, TABLE[bag[bag != 2]]) for bag in BAGS])
    np.testing.assert_allclose(
        F.embedding_bag(tensor(INDEX), tensor(TABLE), tensor(OFFSETS), mode=mode, padding_idx=2).numpy(), expected
    )


def test_weights_of_samples() -> None:
    shares = np.random.default_rng(1).random(7)
    expected = np.stack([shares[low:high] @ TABLE[INDEX[low:high]] for low, high in ((0, 2), (2, 2), (2, 5), (5, 7))])
    arguments = tensor(INDEX), table(), tensor(OFFSETS)
    actual = F.embedding_bag(*arguments, mode="sum", per_sample_weights=tensor(shares))
    np.testing.assert_allclose(actual.detach().numpy(), expected)


CALLS: list[Callable] = [
    lambda w, s: F.embedding(tensor(INDEX), w), lambda w, s: F.embedding_bag(tensor(INDEX), w, tensor(OFFSETS)),
    lambda w, s: F.embedding_bag(tensor(INDEX), w, tensor(OFFSETS), mode="max"),
    lambda w, s: F.embedding_bag(tensor(INDEX), w, tensor(OFFSETS), mode="sum", per_sample_weights=s, padding_idx=1),
    lambda w,
    s: F.embedding_bag(tensor(INDEX[:6]).reshape(2, 3), w, mode="sum", per_sample_weights=s[:6].reshape(2, 3)),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_gradients(call: Callable) -> None:
    inputs = table(), tensor(np.random.default_rng(2).random(7), requires_grad=True)
    assert gradcheck(call, inputs) and gradgradcheck(call, inputs)


@pytest.mark.parametrize("width", [1, 3, 65, 300])
def test_equal_indices_add_up_in_every_column(width: int) -> None:
    """The kernel divides the columns into runs; none is left out or added twice."""
    source = np.random.default_rng(width).standard_normal((2, 5, width))
    index = np.array([2, 0, 2, 2, 1])
    expected = np.zeros((2, 4, width))
    np.add.at(expected, (slice(None), index), source)
    np.testing.assert_allclose(
        numod.zeros(2, 4, width, dtype=numod.float64).index_add(1, tensor(index), tensor(source)).numpy(),
        expected,
        atol=1e-14,
    )


def test_empty_bags() -> None:
    none = numod.zeros(0, dtype=numod.int64)
    for mode in ("sum", "mean", "max"):
        weight = table()
        result = F.embedding_bag(none, weight, tensor([0, 0]), mode=mode)
        result.sum().backward()
        assert result.tolist() == [[0.0] * 3] * 2 and not weight.grad.any()
        assert F.embedding_bag(none, weight, none, mode=mode).shape == (0, 3)


@pytest.mark.parametrize("offsets, last, message", [
    ([1, 2], False, "However, got 1"), ([0, 3, 2], False, "have to increase"), ([0, 5], False, "the last offset 5"), ([0, -1], False, "the last offset -1"),
    ([0, 2, 5], True, "the last offset 5"), ([], True, "at least 1"),
])  # fmt: skip
def test_offsets_are_checked(offsets: list, last: bool, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        F.embedding_bag(tensor([1, 2, 3, 3]), table(), tensor(offsets, dtype=numod.int64), include_last_offset=last)


def test_one_hot() -> None:
    assert F.one_hot(tensor([[0, 2]]), 3).tolist() == [[[1, 0, 0], [0, 0, 1]]]
    assert F.one_hot(numod.zeros(0, dtype=numod.int64), 3).shape == (0, 3)
    with pytest.raises(RuntimeError, match="Can not infer total number of classes"):
        F.one_hot(numod.zeros(0, dtype=numod.int64))


def test_reprs_and_states() -> None:
    layer = nn.Embedding(6, 3, padding_idx=-1, max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True, sparse=True)
    assert (
        repr(layer)
        == "Embedding(6, 3, padding_idx=5, max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True, sparse=True)"
    )
    assert repr(nn.EmbeddingBag(6, 3, mode="sum", padding_idx=1)) == "EmbeddingBag(6, 3, mode='sum', padding_idx=1)"
    assert list(layer.state_dict()) == list(nn.EmbeddingBag(6, 3).state_dict()) == ["weight"]
    assert (
        not nn.Embedding.from_pretrained(tensor(TABLE)).weight.requires_grad
        and not nn.EmbeddingBag.from_pretrained(tensor(TABLE)).weight.requires_grad
    )


ERRORS = [
    (lambda w: F.embedding(tensor([6]), w), IndexError, "out of bounds"),
    (lambda w: F.embedding(tensor([-1]), w), IndexError, "out of bounds"),
    (lambda w: F.embedding(tensor([1.0]), w), RuntimeError, "Long, Int"),
    (lambda w: F.embedding([0], w), TypeError, "must be Tensor"),
    (lambda w: F.embedding(tensor([1]), w[0]), RuntimeError, "must be 2-D"),
    (lambda w: F.embedding(tensor([1]), w, 6), AssertionError, "Padding_idx"),
    (lambda w: nn.Embedding(6, 3, padding_idx=-7), AssertionError, "Padding_idx"),
    (lambda w: nn.Embedding(3, 2, _weight=w), AssertionError, "Shape of weight"),
    (lambda w: F.embedding_bag(tensor([1]), w), ValueError, "offsets has to be a 1D Tensor"),
    (lambda w: F.embedding_bag(tensor([[1]]), w, tensor([0])), ValueError, "If input is 2D"),
    (lambda w: F.embedding_bag(tensor([1, 2]), w, tensor([1])), RuntimeError, r"offsets\[0\] has to be 0"),
    (lambda w: F.embedding_bag(tensor([1, 2]), w, tensor([0, 3])), RuntimeError, "length of 2"),
    (lambda w: F.embedding_bag(tensor([1, 2, 3]), w, tensor([0, 2, 1])), RuntimeError, "increase"),
    (lambda w: F.embedding_bag(tensor([6]), w, tensor([0])), RuntimeError, "out of bounds"),
    (lambda w: F.embedding_bag(tensor([1]), w, tensor([0]), mode="most"), ValueError, "mode has to be one of"),
    (lambda w: F.embedding_bag(tensor([1]), w, tensor([0]), scale_grad_by_freq=True, mode="max"), ValueError,
    "max mode"),
    (lambda w: F.embedding_bag(tensor([1]), w, tensor([0]), per_sample_weights=numod.ones(1, dtype=numod.float64)),
    NotImplementedError, "only for mode='sum'"),
    (lambda w: F.embedding_bag(tensor([1]), w, tensor([0]), mode="sum", per_sample_weights=numod.ones(1)),
    RuntimeError, "dtype"),
    (lambda w: F.embedding_bag(tensor([1]), w, tensor([0]), mode="sum",
        per_sample_weights=numod.ones(2, dtype=numod.float64)), ValueError, "same shape"),
]  # fmt: skip


@pytest.mark.cpu_only
@pytest.mark.parametrize("call, error, text", ERRORS)
def test_errors(call: Callable, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        call(tensor(TABLE))


@pytest.mark.cpu_only
@pytest.mark.parametrize("step", [2, 3])
def test_indices_need_not_be_dense(step):
    assert np.array_equal(F.embedding(tensor(INDEX)[::step], table()).detach().numpy(), TABLE[INDEX[::step]])
