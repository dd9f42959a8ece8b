"""Reading and writing by index tensors, against NumPy loops: gather, scatter, select, add, embedding, masks."""

from __future__ import annotations

import numpy as np
import pytest
from selection import second_orders

import numod
from numod.autograd import gradcheck, gradgradcheck
from numod.core.apply import apply
from numod.nn import functional as F
from numod.ops.index import indexing as ix
from numod.kernel.specialize import specialized

pytestmark = pytest.mark.on_cuda

DIMS = [0, 1, 2, -1]


def data(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def indices(shape, high, seed=1):
    return np.random.default_rng(seed).integers(0, high, shape)


def scattered(x, dim, index, source, add):
    """A loop over the indices, in order."""
    result = x.copy()
    for position in np.ndindex(index.shape):
        target = list(position)
        target[dim] = index[position]
        result[tuple(target)] = source[position] + (result[tuple(target)] if add else 0)
    return result


# ---- reading


@pytest.mark.parametrize("dim", DIMS)
def test_gather(dim):
    x = data(3, 4, 5)
    index = indices((3, 4, 5), x.shape[dim])
    np.testing.assert_array_equal(
        numod.tensor(x).gather(dim, numod.tensor(index)).numpy(), np.take_along_axis(x, index, dim)
    )


def test_gather_with_a_smaller_index():
    x, index = data(3, 4), np.array([[3, 0, 1]])
    np.testing.assert_array_equal(
        numod.tensor(x).gather(1, numod.tensor(index)).numpy(), np.take_along_axis(x[:1], index, 1)
    )
    assert numod.tensor(x).gather(0, numod.zeros(0, 4, dtype=numod.int64)).shape == (0, 4)


def test_gather_of_strided_tensors():
    x, index = data(4, 6), indices((3, 4), 6)
    result = numod.tensor(x).t()[::2].gather(0, numod.tensor(index % 3))
    np.testing.assert_array_equal(result.numpy(), np.take_along_axis(x.T[::2], index % 3, 0))


@pytest.mark.parametrize("dim", DIMS)
def test_index_select(dim):
    x = data(3, 4, 5)
    index = indices((7,), x.shape[dim])
    np.testing.assert_array_equal(
        numod.tensor(x).index_select(dim, numod.tensor(index)).numpy(), np.take(x, index, dim)
    )
    np.testing.assert_array_equal(
        numod.tensor(x).mT.index_select(0, numod.tensor(index % 3)).numpy(), x.swapaxes(1, 2)[index % 3]
    )


def test_index_select_by_nothing():
    assert numod.ones(2, 3).index_select(1, numod.zeros(0, dtype=numod.int64)).shape == (2, 0)


@pytest.mark.parametrize("dtype", [numod.int64, numod.uint8, numod.bool, numod.float64])
def test_dtypes(dtype):
    x = numod.tensor([[0, 1], [1, 0]], dtype=dtype)
    assert x.index_select(0, numod.tensor([1, 0])).tolist() == x.flip(0).tolist()
    assert x.gather(1, numod.tensor([[1], [1]])).dtype is dtype
    assert (
        x.scatter(1, numod.tensor([[0], [1]]), numod.ones(2, 1, dtype=dtype)).tolist()
        == numod.tensor([[1, 1], [1, 1]], dtype=dtype).tolist()
    )


# ---- writing


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("name", ["scatter", "scatter_add"])
def test_scatter(name, dim):
    x, source = data(3, 4, 5), data(3, 4, 5, seed=2)
    index = indices((2, 3, 4), x.shape[dim])
    result = getattr(numod.tensor(x), name)(dim, numod.tensor(index), numod.tensor(source))
    np.testing.assert_allclose(
        result.numpy(), scattered(x, dim, index, source, name.endswith("add")), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", ["scatter_", "scatter_add_"])
def test_scatter_in_place_of_a_strided_tensor(name):
    x, source, index = data(4, 6), data(3, 4, seed=2), indices((3, 4), 3)
    whole = numod.tensor(x)
    part = whole.t()[::2]
    assert getattr(part, name)(0, numod.tensor(index), numod.tensor(source)) is part
    x = x.copy()
    x.T[::2] = scattered(x.T[::2], 0, index, source, "add" in name)
    np.testing.assert_allclose(whole.numpy(), x, rtol=1e-5, atol=1e-6)


def test_scatter_of_a_number():
    x = numod.zeros(2, 3)
    assert x.scatter(1, numod.tensor([[0], [2]]), 5.0).tolist() == [[5.0, 0.0, 0.0], [0.0, 0.0, 5.0]]
    assert x.scatter_(1, numod.tensor([[0], [2]]), 5.0, reduce="add").tolist() == [[5.0, 0.0, 0.0], [0.0, 0.0, 5.0]]


@pytest.mark.parametrize("dim", DIMS)
def test_index_add(dim):
    x = data(3, 4, 5)
    index = indices((6,), x.shape[dim])
    shape = list(x.shape)
    shape[dim] = 6
    source = data(*shape, seed=2)
    reference = x.copy()
    np.add.at(np.moveaxis(reference, dim, 0), index, 2 * np.moveaxis(source, dim, 0))
    np.testing.assert_allclose(
        numod.tensor(x).index_add(dim, numod.tensor(index), numod.tensor(source), alpha=2).numpy(),
        reference,
        rtol=1e-5,
        atol=1e-5,
    )


def test_index_copy_and_fill():
    x = numod.zeros(4, 2)
    assert x.index_copy(0, numod.tensor([3, 1]), numod.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist() == [
        [0, 0],
        [3, 4],
        [0, 0],
        [1, 2],
    ]
    assert x.index_fill(1, numod.tensor([1]), 7.0).tolist() == [[0.0, 7.0]] * 4
    assert x.sum().item() == 0.0


def test_index_put_accumulates():
    x = numod.zeros(3, 2)
    x.index_put_((numod.tensor([0, 0, 2]),), numod.ones(3, 2), accumulate=True)
    assert x.tolist() == [[2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]
    x.index_put_((numod.tensor(1),), numod.tensor([3.0, 4.0])).index_put_(
        (numod.tensor(1), numod.tensor(-1)), numod.tensor(1.0), accumulate=True
    )
    assert x.tolist() == [[2.0, 2.0], [3.0, 5.0], [1.0, 1.0]]


def test_complex_numbers_are_not_written_to_real_tensors():
    x = numod.zeros(2)
    for index in (numod.tensor([0]), 0, numod.tensor([True, False])):
        with pytest.raises(RuntimeError, match="cannot be converted"):
            x[index] = 1j
    z = x.to(numod.complex64)
    z[numod.tensor([0])], z[1] = 1j, 2j
    assert z.tolist() == [1j, 2j]


def test_writes_raise_the_version():
    x = numod.zeros(3)
    before = x._version
    x.scatter_(0, numod.tensor([1]), numod.ones(1))
    assert x._version > before


# ---- embedding


def test_embedding():
    weight, index = data(6, 3), indices((2, 4), 6)
    np.testing.assert_array_equal(F.embedding(numod.tensor(index), numod.tensor(weight)).numpy(), weight[index])
    assert F.embedding(numod.tensor(2), numod.tensor(weight)).shape == (3,)
    assert F.embedding(numod.tensor([1], dtype=numod.int32), numod.tensor(weight)).shape == (1, 3)


@pytest.mark.on_cuda(simulator=False)
def test_embedding_gradient_adds_up_and_skips_padding():
    weight = numod.zeros(4, 2, requires_grad=True)
    F.embedding(numod.tensor([1, 1, 3, 0]), weight, padding_idx=3).sum().backward()
    assert weight.grad.tolist() == [[1.0, 1.0], [2.0, 2.0], [0.0, 0.0], [0.0, 0.0]]


def test_embedding_out_of_range():
    with pytest.raises(IndexError, match="index 4 is out of bounds|out of range"):
        F.embedding(numod.tensor([4]), numod.zeros(4, 2))
    with pytest.raises(IndexError, match="-1"):
        F.embedding(numod.tensor([-1]), numod.zeros(4, 2))


# ---- masks


def test_masked_fill():
    x, mask = data(3, 4), data(3, 4, seed=1) > 0
    np.testing.assert_array_equal(
        numod.tensor(x).masked_fill(numod.tensor(mask), -1.0).numpy(), np.where(mask, np.float32(-1), x)
    )
    np.testing.assert_array_equal(
        numod.tensor(x).masked_fill(numod.tensor(mask[0]), numod.tensor(2.0)).numpy(),
        np.where(mask[0], np.float32(2), x),
    )
    assert numod.tensor([1, 2]).masked_fill(numod.tensor([True, False]), 9).dtype is numod.int64


def test_masked_fill_in_place():
    x = numod.zeros(2, 3)
    x.masked_fill_(numod.tensor([True, False, True]), 4.0)
    assert x.tolist() == [[4.0, 0.0, 4.0]] * 2


def test_masked_select():
    x, mask = data(3, 4), data(3, 4, seed=1) > 0
    np.testing.assert_array_equal(numod.tensor(x).masked_select(numod.tensor(mask)).numpy(), x[mask])
    np.testing.assert_array_equal(
        numod.tensor(x).t().masked_select(numod.tensor(mask[:, 0])).numpy(), x.T[np.broadcast_to(mask[:, 0], (4, 3))]
    )
    assert numod.ones(2).masked_select(numod.tensor([False, False])).shape == (0,)


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 2)])
def test_nonzero(shape):
    x = indices(shape, 2)
    np.testing.assert_array_equal(numod.tensor(x).nonzero().numpy(), np.argwhere(x))
    for ours, theirs in zip(numod.tensor(x).nonzero(as_tuple=True), np.nonzero(x), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs)
    np.testing.assert_array_equal(numod.where(numod.tensor(x > 0))[0].numpy(), np.nonzero(x)[0])


def test_nonzero_of_a_mask_that_another_thread_clears_after_the_count():
    places = apply(ix.nonzero, (numod.tensor([False, True, False], device="cpu"), None), (3,))
    assert places.tolist() == [1, 0, 0]


def test_nonzero_of_a_scalar_and_of_nothing():
    assert numod.tensor(3.0).nonzero().shape == (1, 0)
    assert numod.tensor(0.0).nonzero().shape == (0, 0)
    assert numod.zeros(0, 3).nonzero().shape == (0, 2)


def test_where():
    x, y, mask = data(3, 4), data(4, seed=1), data(3, 1, seed=2) > 0
    np.testing.assert_array_equal(
        numod.where(numod.tensor(mask), numod.tensor(x), numod.tensor(y)).numpy(), np.where(mask, x, y)
    )
    assert numod.where(numod.tensor([True, False]), 1.5, 2).tolist() == [1.5, 2.0]
    assert numod.where(numod.tensor([True, False]), numod.tensor([1, 2]), 0.5).dtype is numod.float32


# ---- gradients

INDEX = numod.tensor([[0, 2, 1], [1, 1, 0]])
VECTOR = numod.tensor([1, 0, 1])
GRADIENTS = {
    "gather": lambda x, y: x.gather(1, INDEX) * y, "index_select": lambda x,
    y: x.index_select(0, VECTOR) * y.index_select(0, VECTOR),
    "scatter": lambda x, y: x.scatter(1, numod.tensor([[0, 2, 1], [1, 2, 0]]), y) ** 2, "scatter_add": lambda x,
    y: x.scatter_add(1, INDEX, y) ** 2,
    "index_add": lambda x, y: x.index_add(1, VECTOR, y) ** 2, "index_copy": lambda x,
    y: x.index_copy(0, numod.tensor([1, 0]), y) ** 2,
    "masked_fill": lambda x, y: x.masked_fill(INDEX > 1, 3.0) * y, "masked_select": lambda x,
    y: x.masked_select(INDEX == 1) * y.masked_select(INDEX == 1),
    "where": lambda x, y: numod.where(INDEX > 0, x, y) ** 2, "embedding": lambda x,
    y: F.embedding(VECTOR, x) * F.embedding(VECTOR, y),
    "index_put": lambda x, y: x.index_put((VECTOR[:2],), y) ** 2, "index_fill": lambda x,
    y: x.index_fill(1, VECTOR[:1], 2.0) * y,
}  # fmt: skip


@pytest.mark.cpu_only
@pytest.mark.parametrize("name, twice", second_orders(3, GRADIENTS, others=pytest.mark.fuzz))
def test_gradients(name, twice):
    x = numod.tensor(data(2, 3).astype(np.float64), requires_grad=True)
    y = numod.tensor(data(2, 3, seed=1).astype(np.float64), requires_grad=True)
    assert gradcheck(GRADIENTS[name], (x, y))
    assert not twice or gradgradcheck(GRADIENTS[name], (x, y))


# ---- errors

X = numod.ones(2, 3)
ERRORS = {
    "gather_outside": (lambda: X.gather(1, numod.tensor([[3]])), (IndexError, RuntimeError),
        "index 3 is out of bounds for dimension 1 with size 3"),
    "gather_negative": (lambda: X.gather(1, numod.tensor([[-1]])), (IndexError, RuntimeError),
        "index -1 is out of bounds"),
    "gather_ndim": (lambda: X.gather(1, numod.tensor([1])), RuntimeError, "same number of dimensions"),
    "gather_size": (lambda: X.gather(1, numod.zeros(3, 1, dtype=numod.int64)), RuntimeError,
        "Size does not match at dimension 0"),
    "gather_dtype": (lambda: X.gather(1, numod.zeros(2, 1)), RuntimeError, "(?i)(dtype int64|Long|index)"),
    "index_select_outside": (lambda: X.index_select(0, numod.tensor([2])), (IndexError, RuntimeError),
        "out of (range|bounds)"),
    "index_select_matrix": (lambda: X.index_select(0, numod.tensor([[0]])), IndexError, "vector"),
    "index_select_dim": (lambda: X.index_select(2, numod.tensor([0])), IndexError, "Dimension out of range"),
    "index_add_shape": (lambda: X.index_add(0, numod.tensor([0]), numod.ones(2, 3)), (IndexError, RuntimeError),
        "source"),
    "index_add_outside": (lambda: X.index_add(0, numod.tensor([2]), numod.ones(1, 3)), (IndexError, RuntimeError),
        "index 2 is out of bounds|out of range"),
    "index_add_dtype": (lambda: X.index_add(0, numod.tensor([1]), numod.ones(1, 3, dtype=numod.float64)), RuntimeError,
        "same dtype"),
    "index_copy_slices": (lambda: X.index_copy(0, numod.tensor([0]), numod.ones(1, 2)), RuntimeError,
        "expected source of shape"),
    "index_copy_count": (lambda: X.index_copy(0, numod.tensor([0]), numod.ones(2, 3)), IndexError,
        "expected source of shape"),
    "equal_to_an_array": (lambda: X.equal(X.numpy()), TypeError, "argument 'other' .* must be Tensor, not ndarray"),
    "scatter_outside": (lambda: X.scatter(1, numod.tensor([[5]]), X), (IndexError, RuntimeError),
        "index 5 is out of bounds"),
    "scatter_source": (lambda: X.scatter(1, numod.zeros(2, 3, dtype=numod.int64), X[:1]), RuntimeError,
        "Expected index"),
    "scatter_dtype": (lambda: X.scatter(1, numod.tensor([[0]]), X.double()), RuntimeError, "dtype"),
    "masked_fill": (lambda: X.masked_fill(numod.tensor([1, 0, 1]), 0.0), RuntimeError, "only supports boolean masks"),
    "masked_select": (lambda: X.masked_select(numod.tensor([1, 0, 1])), RuntimeError, "BoolTensor"),
    "where": (lambda: numod.where(X, X, X), RuntimeError, "boolean tensor"),
}  # fmt: skip


@pytest.mark.on_cuda(gpu=False)
@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, exception, message = ERRORS[name]
    with pytest.raises(exception, match=message):
        call()


def test_written_values_have_the_dtype_where_index_tensors_say_where() -> None:
    x, mask, wide = numod.zeros(3), numod.tensor([True, False, True]), numod.ones(2, dtype=numod.float64)
    for write in (
        lambda: x.__setitem__([0, 2], wide),
        lambda: x.__setitem__(mask, wide),
        lambda: x.index_put_((numod.tensor([0, 1]),), wide),
    ):
        with pytest.raises(RuntimeError, match="dtypes match, got Float for the destination and Double for the source"):
            write()
    x[:2], x[mask], x[numod.tensor(1)] = wide, numod.tensor(2, dtype=numod.float64), numod.tensor(5)
    assert x.tolist() == [2, 5, 2]


def test_indices_of_another_device_than_the_cpu() -> None:
    with pytest.raises(RuntimeError, match="either on cpu or on the same device as the indexed tensor"):
        numod.zeros(3)[numod.tensor([0], device="meta")]
    assert numod.zeros(3, device="meta")[numod.tensor([0, 1], device="cpu")].shape == (2,)


@pytest.mark.on_cuda(gpu=False)
@pytest.mark.parametrize("reduce", [None, "sum", "mean", "amax", "prod"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_an_expanded_vector_of_indices_is_read_as_one(dim, reduce):
    rng = np.random.default_rng(dim)
    shape = [4, 5, 70]
    x, line = rng.standard_normal(shape), rng.integers(0, shape[dim], 3)
    shape[dim] = 3
    source = rng.standard_normal(shape)
    places = np.ascontiguousarray(np.broadcast_to(line.reshape([-1 if d == dim else 1 for d in range(3)]), shape))
    results = []
    for index in (
        numod.tensor(line).reshape([-1 if d == dim else 1 for d in range(3)]).expand(shape),
        numod.tensor(places),
    ):
        tensor, other = (numod.tensor(array, requires_grad=True) for array in (x, source))
        out = (
            tensor.scatter_add(dim, index, other)
            if reduce is None
            else tensor.scatter_reduce(dim, index, other, reduce)
        )
        (out * out + tensor.gather(dim, index).sum()).sum().backward()
        results.append([result.detach().numpy() for result in (out, tensor.grad, other.grad)])
    for ours, theirs in zip(*results):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    expected = x.copy()
    {None: np.add, "sum": np.add, "amax": np.maximum, "prod": np.multiply}.get(reduce, np.add).at(
        expected, tuple(places if d == dim else grid for d, grid in enumerate(np.indices(shape))), source
    )
    if reduce != "mean":
        np.testing.assert_allclose(results[0][0], expected, rtol=1e-12)
    with pytest.raises(RuntimeError, match="out of bounds"):
        tensor.scatter_add(
            dim, (numod.tensor(line) + 100).reshape([-1 if d == dim else 1 for d in range(3)]).expand(shape), other
        )


@pytest.mark.on_cuda(simulator=False)
def test_second_gradients_of_products_scattered_with_zeros():
    x = numod.tensor([2.0, 0.0, 3.0, 1.5], dtype=numod.float64, requires_grad=True)
    source = numod.tensor([0.0, 4.0, 0.5, 2.0, 0.0, 0.0, 3.0, 0.7], dtype=numod.float64, requires_grad=True)
    index = numod.tensor([0, 0, 1, 1, 2, 2, 2, 3])
    assert gradcheck(lambda a, b: a.scatter_reduce(0, index, b, "prod"), (x, source))
    assert gradgradcheck(lambda a, b: a.scatter_reduce(0, index, b, "prod"), (x, source))


def fills(x, inner, n):
    for j in range(n):
        for k in range(inner):
            x[j * inner + k] = 0


def test_there_are_no_loops_over_sizes_of_one():
    x = numod.ones(3, device="cpu")._layout
    assert ix.sizes_of_one(x, inner=1, n=7) == {"inner": 1} and ix.sizes_of_one(x, inner=2) == {}
    text = (
        "def kernel(x, inner, n):\n    inner = int64(1)\n    for j in range(n):\n        k = int64(0)\n        if "
        "True:\n            x[j * inner + k] = 0\n"
    )
    assert specialized(fills, **ix.sizes_of_one(x, inner=1)) == text
