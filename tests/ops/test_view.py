"""Views and ops that move elements, against NumPy: values, whether memory is shared, gradients, errors."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.autograd import gradcheck, gradgradcheck

pytestmark = pytest.mark.on_cuda


def data(*shape):
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def shares(a, b):
    """Whether a write to one tensor is seen through the other."""
    return a._storage is b._storage


A = data(2, 3, 4)
# name: (numod, NumPy, whether the result shares memory)
CASES = {
    "reshape": (lambda x: x.reshape(4, 6), lambda x: x.reshape(4, 6), True),
    "reshape_sequence": (lambda x: x.reshape((6, -1)), lambda x: x.reshape(6, -1), True),
    "reshape_ones": (lambda x: x.reshape(1, 2, 1, 12, 1), lambda x: x.reshape(1, 2, 1, 12, 1), True),
    "reshape_copies": (lambda x: x.transpose(0, 2).reshape(-1), lambda x: x.transpose(2, 1, 0).reshape(-1), False),
    "reshape_splits": (lambda x: x.permute(2, 0, 1).reshape(4, 6), lambda x: x.transpose(2, 0, 1).reshape(4, 6), True),
    "view": (lambda x: x.view(-1, 2), lambda x: x.reshape(-1, 2), True),
    "view_of_a_slice": (lambda x: x[:, :, 1:3].view(2, 3, 2, 1), lambda x: x[:, :, 1:3].reshape(2, 3, 2, 1), True),
    "view_as": (lambda x: x.view_as(numod.empty(24)), lambda x: x.ravel(), True),
    "permute": (lambda x: x.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1), True),
    "permute_negative": (lambda x: numod.permute(x, (-1, 0, -2)), lambda x: x.transpose(2, 0, 1), True),
    "transpose": (lambda x: x.transpose(0, -1), lambda x: x.swapaxes(0, 2), True),
    "swapaxes": (lambda x: numod.swapaxes(x, 1, 2), lambda x: x.swapaxes(1, 2), True),
    "movedim": (lambda x: x.movedim(0, 2), lambda x: np.moveaxis(x, 0, 2), True),
    "movedim_several": (lambda x: x.movedim((0, 1), (2, 0)), lambda x: np.moveaxis(x, (0, 1), (2, 0)), True),
    "T": (lambda x: x[0].T, lambda x: x[0].T, True),
    "mT": (lambda x: x.mT, lambda x: x.swapaxes(-1, -2), True),
    "t": (lambda x: x[0].t(), lambda x: x[0].T, True),
    "expand": (lambda x: x.unsqueeze(1).expand(5, 2, 7, 3, 4), lambda x: np.broadcast_to(x[:, None], (5, 2, 7, 3, 4)),
        True),
    "expand_keeps": (lambda x: x[:, :1].expand(-1, 6, -1), lambda x: np.broadcast_to(x[:, :1], (2, 6, 4)), True),
    "broadcast_to": (lambda x: numod.broadcast_to(x[0, 0], (3, 4)), lambda x: np.broadcast_to(x[0, 0], (3, 4)), True),
    "narrow": (lambda x: x.narrow(2, 1, 2), lambda x: x[:, :, 1:3], True),
    "narrow_negative": (lambda x: x.narrow(-1, -3, 2), lambda x: x[:, :, 1:3], True),
    "select": (lambda x: x.select(1, -1), lambda x: x[:, -1], True),
    "slice": (lambda x: x[1:, ::2, 1:4:2], lambda x: x[1:, ::2, 1:4:2], True),
    "squeeze": (lambda x: x[:1, 1:2].squeeze(), lambda x: x[:1, 1:2].squeeze(), True),
    "squeeze_dim": (lambda x: x[:1, 1:2].squeeze(1), lambda x: x[:1, 1], True),
    "squeeze_not_one": (lambda x: x.squeeze(1), lambda x: x, True),
    "squeeze_dims": (lambda x: x[:1, 1:2].squeeze((0, 1)), lambda x: x[0, 1], True),
    "unsqueeze": (lambda x: x.unsqueeze(-1), lambda x: x[..., None], True),
    "unsqueeze_front": (lambda x: x.unsqueeze(0), lambda x: x[None], True),
    "flatten": (lambda x: x.flatten(), lambda x: x.ravel(), True),
    "flatten_part": (lambda x: x.flatten(1), lambda x: x.reshape(2, 12), True),
    "flatten_copies": (lambda x: x.mT.flatten(1), lambda x: x.swapaxes(1, 2).reshape(2, 12), False),
    "unflatten": (lambda x: x.unflatten(2, (2, -1)), lambda x: x.reshape(2, 3, 2, 2), True),
    "ravel": (lambda x: x.ravel(), lambda x: x.ravel(), True),
    "diagonal": (lambda x: x.diagonal(0, 1, 2), lambda x: np.diagonal(x, 0, 1, 2), True),
    "diagonal_above": (lambda x: x.diagonal(2, 1, 2), lambda x: np.diagonal(x, 2, 1, 2), True),
    "diagonal_below": (lambda x: x.diagonal(-1, -2, -1), lambda x: np.diagonal(x, -1, 1, 2), True),
    "diagonal_outside": (lambda x: x.diagonal(9, 1, 2), lambda x: np.diagonal(x, 9, 1, 2), True),
    "as_strided": (lambda x: x.as_strided((3, 2), (4, 2), 1),
        lambda x: np.lib.stride_tricks.as_strided(x.ravel()[1:], (3, 2), (16, 8)), True),
    "as_strided_windows": (lambda x: x.as_strided((5, 3), (1, 1)),
        lambda x: np.lib.stride_tricks.sliding_window_view(x.ravel()[:7], 3), True),
    "contiguous": (lambda x: x.mT.contiguous(), lambda x: np.ascontiguousarray(x.swapaxes(1, 2)), False),
    "contiguous_already": (lambda x: x.contiguous(), lambda x: x, True),
    "clone": (lambda x: x.mT.clone(), lambda x: x.swapaxes(1, 2), False),
    "flip": (lambda x: x.flip(0, 2), lambda x: np.flip(x, (0, 2)), False),
    "flip_neighbours": (lambda x: x.flip(2, 1), lambda x: np.flip(x, (1, 2)), False),
    "flip_nothing": (lambda x: x.flip(()), lambda x: x, False),
    "flip_one": (lambda x: numod.flip(x, [-2]), lambda x: np.flip(x, 1), False),
    "roll": (lambda x: x.roll(2, 1), lambda x: np.roll(x, 2, 1), False),
    "roll_several": (lambda x: x.roll((1, -1), (0, 2)), lambda x: np.roll(x, (1, -1), (0, 2)), False),
    "roll_flat": (lambda x: x.roll(5), lambda x: np.roll(x, 5), False),
    "roll_round": (lambda x: x.roll(7, 1), lambda x: np.roll(x, 7, 1), False),
    "roll_nothing": (lambda x: x.roll(3, 1), lambda x: x, False),
    "repeat": (lambda x: x[0].repeat(2, 1, 3), lambda x: np.tile(x[0], (2, 1, 3)), False),
    "cat": (lambda x: numod.cat([x, x[:, :1], x.flip(1)], 1),
        lambda x: np.concatenate([x, x[:, :1], np.flip(x, 1)], 1), False),
    "cat_negative": (lambda x: numod.cat((x.mT, x[..., :3].mT), -2),
        lambda x: np.concatenate([x.swapaxes(1, 2), x[..., :3].swapaxes(1, 2)], 1), False),
    "stack": (lambda x: numod.stack([x[0], x[1]], -1), lambda x: np.stack([x[0], x[1]], -1), False),
    "stack_strided": (lambda x: numod.stack([x[0].t(), x[1].t()], 1), lambda x: np.stack([x[0].T, x[1].T], 1), False),
    "pad": (lambda x: numod.nn.functional.pad(x, (1, 2, 0, 3), value=9.0),
        lambda x: np.pad(x, ((0, 0), (0, 3), (1, 2)), constant_values=9.0), False),
    "pad_nothing": (lambda x: numod.nn.functional.pad(x, (0, 0)), lambda x: x, False),
    "pad_crops": (lambda x: numod.nn.functional.pad(x, (-1, 2)),
        lambda x: np.pad(x, ((0, 0), (0, 0), (0, 2)))[:, :, 1:], False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_memory(name):
    function, reference, shared = CASES[name]
    x = numod.tensor(A)
    result = function(x)
    assert result.shape == reference(A).shape
    np.testing.assert_array_equal(result.numpy(), reference(A))
    assert shares(result, x) is shared


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("T", "view_as")])
def test_gradients(name):
    x = numod.tensor(A.astype(np.float64) / 7, requires_grad=True)
    weight = numod.tensor(np.linspace(-1, 2, CASES[name][1](A).size).reshape(CASES[name][1](A).shape))
    assert gradcheck(lambda x: (CASES[name][0](x) * weight).sum(), (x,))


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize(
    "name",
    [
        "reshape_copies",
        "permute",
        "expand",
        "slice",
        "diagonal",
        "as_strided_windows",
        "cat",
        "flip",
        "pad_crops",
        "repeat",
        "roll",
    ],
)
def test_gradients_to_second_order(name):
    x = numod.tensor(A[:, :, :4].astype(np.float64) / 7, requires_grad=True)
    assert gradgradcheck(lambda x: (CASES[name][0](x) ** 3).sum(), (x,))


def test_a_write_through_a_view_is_seen():
    x = numod.zeros(2, 3)
    x.t()[1].fill_(5.0)
    x.view(6)[0] = 1.0
    assert x.tolist() == [[1.0, 5.0, 0.0], [0.0, 5.0, 0.0]]


def test_a_view_of_a_view_keeps_its_place():
    x = numod.arange(24).reshape(2, 3, 4)
    y = x[1, 1:].t()[1:, 1]
    assert y.tolist() == [21, 22, 23]
    assert (y.storage_offset(), y.stride()) == (21, (1,))


@pytest.mark.parametrize("dtype", [numod.int64, numod.uint8, numod.bool])
def test_other_dtypes(dtype):
    x = numod.tensor([[0, 1, 1], [1, 0, 0]], dtype=dtype)
    assert numod.cat([x, x.flip(0)]).dtype is dtype
    assert numod.cat([x, x.flip(0)]).tolist() == [*x.tolist(), *x.tolist()[::-1]]
    assert x.t().contiguous().tolist() == list(map(list, zip(*x.tolist())))


def test_zero_dimensional():
    x = numod.tensor(3.0)
    assert x.reshape(1, 1).shape == (1, 1)
    assert x.flatten().shape == (1,)
    assert x.unsqueeze(0).shape == (1,)
    assert x.squeeze(0).shape == x.permute().shape == x.transpose(0, -1).shape == x.t().shape == ()
    assert x.expand(2, 2).tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert x.repeat(2).tolist() == [3.0, 3.0]
    assert numod.stack([x, x]).tolist() == [3.0, 3.0]


def test_empty():
    x = numod.zeros(2, 0, 3)
    assert x.reshape(0, 5).shape == (0, 5)
    assert x.permute(2, 1, 0).shape == (3, 0, 2)
    assert x.flatten(0, 1).shape == (0, 3)
    assert x.flip(1).shape == x.roll(1, 1).shape == (2, 0, 3)
    assert numod.cat([x, numod.ones(2, 1, 3)], 1).shape == (2, 1, 3)
    assert x.unbind(1) == ()
    assert [word.shape for word in x.split(1, 1)] == [(2, 0, 3)]


def test_expand_to_no_elements():
    assert numod.ones(1, 3).expand(0, 3).shape == (0, 3)


# ---- parts


@pytest.mark.parametrize("size, dim", [(2, 0), (3, 1), (1, -1), (9, 0), ([1, 3, 1], 0), ((2, 0, 1), 1)])
def test_split(size, dim):
    x = data(5, 3)
    parts = numod.tensor(x).split(size, dim)
    bounds = np.cumsum(size)[:-1] if not isinstance(size, int) else np.arange(size, x.shape[dim], size)
    reference = np.split(x, bounds, dim)
    assert len(parts) == len(reference)
    for part, wanted in zip(parts, reference):
        np.testing.assert_array_equal(part.numpy(), wanted)


@pytest.mark.parametrize(
    "chunks, sizes", [(1, [7]), (2, [4, 3]), (3, [3, 3, 1]), (4, [2, 2, 2, 1]), (5, [2, 2, 2, 1]), (9, [1] * 7)]
)
def test_chunk(chunks, sizes):
    x = numod.arange(7)
    parts = x.chunk(chunks)
    assert [len(part) for part in parts] == sizes
    assert numod.cat(parts).tolist() == x.tolist()
    assert all(shares(part, x) for part in parts)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_unbind(dim):
    x = data(2, 3)
    for part, wanted in zip(numod.tensor(x).unbind(dim), np.moveaxis(x, dim, 0), strict=True):
        np.testing.assert_array_equal(part.numpy(), wanted)


@pytest.mark.on_cuda(simulator=False)
def test_gradient_through_all_parts():
    x = numod.tensor(data(4, 3), requires_grad=True)
    first, second = x.chunk(2)
    (first * 2 + second * 3).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[2] * 3] * 2 + [[3] * 3] * 2)


@pytest.mark.on_cuda(simulator=False)
def test_gradient_of_unbound_parts():
    x = numod.tensor(data(3, 2), requires_grad=True)
    a, b, c = x
    (a * 1 + c * 5).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[1, 1], [0, 0], [5, 5]])


# ---- cat and stack


def test_cat_promotes_dtypes():
    result = numod.cat([numod.tensor([1, 2]), numod.tensor([0.5]), numod.tensor([True])])
    assert result.dtype is numod.float32
    assert result.tolist() == [1.0, 2.0, 0.5, 1.0]
    assert numod.cat([numod.tensor([200], dtype=numod.uint8), numod.tensor([-1], dtype=numod.int8)]).tolist() == [
        200,
        -1,
    ]


def test_cat_leaves_out_empty_vectors():
    assert numod.cat([numod.empty(0), numod.ones(2, 3)], 1).shape == (2, 3)
    assert numod.cat([numod.empty(0), numod.empty(0)], 1).shape == (0,)


def test_cat_of_one_tensor_is_a_copy():
    x = numod.ones(2)
    assert not shares(numod.cat([x]), x)


@pytest.mark.on_cuda(simulator=False)
def test_cat_gradients_of_several_inputs():
    a = numod.tensor(data(2, 2).astype(np.float64), requires_grad=True)
    b = numod.tensor(data(2, 3).astype(np.float64), requires_grad=True)
    assert gradcheck(lambda a, b: numod.cat([a, b, a], 1) ** 2, (a, b))
    assert gradgradcheck(lambda a, b: numod.cat([a, b, a], 1) ** 3, (a, b))


# ---- errors

X = numod.ones(2, 3)
ERRORS = {
    "reshape": (lambda: X.reshape(4, 2), RuntimeError, r"shape '\[4, 2\]' is invalid for input of size 6"),
    "reshape_unknown": (lambda: X.reshape(-1, 4), RuntimeError, r"shape '\[-1, 4\]' is invalid for input of size 6"),
    "reshape_two_unknown": (lambda: X.reshape(-1, -1), RuntimeError, "only one dimension can be inferred"),
    "reshape_empty": (lambda: numod.zeros(0).reshape(-1, 0), RuntimeError, "-1 can be any value"),
    "reshape_float": (lambda: X.reshape(2.0, 3), TypeError, "must be int"),
    "view": (lambda: X.t().view(6), RuntimeError, r"Use \.reshape"),
    "permute_length": (lambda: X.permute(0), RuntimeError, "number of dimensions"),
    "permute_twice": (lambda: X.permute(0, 0), RuntimeError, "dim"),
    "permute_outside": (lambda: X.permute(0, 2), IndexError, "Dimension out of range"),
    "transpose": (lambda: X.transpose(0, 2), IndexError, "Dimension out of range"),
    "t": (lambda: numod.ones(1, 1, 1).t(), RuntimeError, "<= 2 dimensions, but self is 3D"),
    "expand": (lambda: X.expand(4, 3), RuntimeError,
        r"expanded size of the tensor \(4\) must match the existing size \(2\)"),
    "expand_fewer": (lambda: X.expand(3), RuntimeError, "number of sizes provided"),
    "expand_new": (lambda: X.expand(-1, 2, 3), RuntimeError, "isn't allowed in a leading, non-existing dimension"),
    "narrow": (lambda: X.narrow(1, 2, 2), RuntimeError, r"start \(2\) \+ length \(2\) exceeds dimension size \(3\)"),
    "narrow_start": (lambda: X.narrow(1, 4, 0), IndexError, "out of range"),
    "select": (lambda: X.select(0, 2), IndexError, "out of (range|bounds)"),
    "squeeze": (lambda: X.squeeze(2), IndexError, "Dimension out of range"),
    "unsqueeze": (lambda: X.unsqueeze(4), IndexError, "Dimension out of range"),
    "flatten": (lambda: X.flatten(1, 0), RuntimeError, "start_dim cannot come after end_dim"),
    "unflatten": (lambda: X.unflatten(1, (2, 2)), RuntimeError, "don't multiply up to the size of dim 1"),
    "as_strided": (lambda: X.as_strided((4, 2), (2, 1)), RuntimeError, "out of bounds for storage"),
    "as_strided_negative": (lambda: X.as_strided((2,), (-1,)), (RuntimeError, ValueError), "(?i)stride"),
    "diagonal": (lambda: X.diagonal(0, 1, 1), RuntimeError, "diagonal dimensions cannot be identical"),
    "split": (lambda: X.split([1, 1], 1), RuntimeError, "split_sizes to sum exactly to 3"),
    "split_zero": (lambda: X.split(-1), RuntimeError, "split_size"),
    "chunk": (lambda: X.chunk(0), RuntimeError, "greater than 0"),
    "cat_nothing": (lambda: numod.cat([]), (RuntimeError, ValueError), "non-empty list"),
    "cat_scalar": (lambda: numod.cat([numod.tensor(1.0)]), RuntimeError, "zero-dimensional tensor"),
    "cat_sizes": (lambda: numod.cat([X, numod.ones(3, 2)]), RuntimeError, r"must match except in dimension 0"),
    "cat_ndim": (lambda: numod.cat([X, numod.ones(3)]), RuntimeError, "(?i)tensors"),
    "cat_type": (lambda: numod.cat([X, 1.0]), TypeError, "expected Tensor as element"),
    "cat_dim": (lambda: numod.cat([X], 2), IndexError, "Dimension out of range"),
    "stack": (lambda: numod.stack([X, numod.ones(3, 2)]), RuntimeError, "equal size"),
    "flip": (lambda: X.flip(2), IndexError, "Dimension out of range"),
    "flip_twice": (lambda: X.flip(0, 0), RuntimeError, "dim"),
    "roll": (lambda: X.roll((1, 2), 0), RuntimeError, "shifts and dimensions must align"),
    "repeat": (lambda: X.repeat(2), RuntimeError, "Number of dimensions of repeat dims"),
    "pad": (lambda: numod.nn.functional.pad(X, (1, 2, 3)), RuntimeError, "divisible by 2"),
    "pad_negative": (lambda: numod.nn.functional.pad(X, (-2, -2)), RuntimeError, "negative output size"),
}  # fmt: skip


@pytest.mark.on_cuda(gpu=False)
@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, exception, message = ERRORS[name]
    with pytest.raises(exception, match=message):
        call()


def test_as_strided_over_elements_that_are_one_in_memory() -> None:
    """Its gradient: what each element of the memory got, in equal parts for all that lie on it, so that their sum is
    whole.
    """
    w = numod.tensor([1.0, 2.0], requires_grad=True)
    (w.expand(3, 2).as_strided((2, 2), (0, 1)) * numod.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert w.grad.tolist() == [4, 6]
    v = numod.arange(5.0).requires_grad_()
    (v.unfold(0, 3, 1).as_strided((5,), (1,)) * numod.arange(5.0)).sum().backward()
    assert v.grad.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", [numod.float32, numod.int64, numod.bool, numod.float16])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_joins_of_many(dim: int, dtype: object) -> None:
    parts = [numod.randn(*[k % 4 if d == dim else 3 for d in range(3)]).to(dtype) for k in range(17)]
    np.testing.assert_array_equal(numod.cat(parts, dim).numpy(), np.concatenate([part.numpy() for part in parts], dim))
    alike = [tensor[:2] for tensor in numod.randn(11, 3, 2).to(dtype)]
    np.testing.assert_array_equal(numod.stack(alike, dim).numpy(), np.stack([tensor.numpy() for tensor in alike], dim))
