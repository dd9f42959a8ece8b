"""`x[index]` and `x[index] = value` against NumPy: chosen cases, and random expressions from a seed.

Where PyTorch and NumPy differ (an int beside index tensors), PyTorch counts: ints are applied first, then the tensors.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import numod
from numod.autograd import gradcheck, gradgradcheck

pytestmark = pytest.mark.on_cuda

X = np.arange(2 * 3 * 4 * 5, dtype=np.int64).reshape(2, 3, 4, 5)
MASK = np.arange(12).reshape(3, 4) % 3 == 1


def translate(index):
    """Arrays in an index as tensors."""
    if isinstance(index, tuple):
        return tuple(map(translate, index))
    return numod.tensor(index) if isinstance(index, np.ndarray) else index


CASES = {
    "int": 1,
    "negative_int": -1,
    "numpy_int": np.int64(1),
    "ints": (1, -2, 0, 3),
    "some_ints": (0, slice(None), 2),
    "slice": slice(1, 3),
    "slice_step": (slice(None), slice(None, None, 2), slice(1, None, 2)),
    "slice_negative": (slice(-1, None), slice(-3, -1)),
    "slice_beyond": (slice(0, 99), slice(-99, 2), slice(7, 9)),
    "slice_backwards": slice(2, 1),
    "ellipsis": ...,
    "ellipsis_front": (..., 0),
    "ellipsis_middle": (0, ..., slice(1, 3)),
    "ellipsis_for_nothing": (0, 1, ..., 2, 3),
    "none": None,
    "nones": (None, 0, None, ..., None),
    "empty_tuple": (),
    "true": True,
    "false": False,
    "list": [1, 0, 1],
    "list_negative": [-1, 0],
    "list_empty": [],
    "list_of_bools": [True, False],
    "lists": ([0, 1, 1], [2, 0, -1]),
    "tensors_of_all_dims": (np.array([[1], [-2]]), np.array([2, -3, 0]), np.array(1)[None], np.array([-5, 4, 0])),
    "lists_broadcast": ([[0], [1]], [0, 2]),
    "array": np.array([1, 0]),
    "array_0d": np.array(1),
    "array_int32": np.array([1, 0], np.int32),
    "array_second": (slice(None), np.array([2, 0])),
    "arrays_adjacent": (slice(None), np.array([2, 0]), np.array([1, 3])),
    "arrays_apart": (slice(None), np.array([2, 0]), slice(1, 3), np.array([1, 4])),
    "arrays_with_none": (np.array([1, 0]), None, np.array([1, 2])),
    "arrays_last": (..., np.array([[1, 4], [0, 0]])),
    "array_and_slices": (slice(1, None), np.array([2, 0]), slice(None, None, 2)),
    "mask_1d": np.array([True, False]),
    "mask_2d": (slice(None), MASK),
    "mask_whole": X % 7 == 0,
    "mask_none": np.zeros((2, 3), bool),
    "mask_and_array": (np.array([0, 1, 1, 0]), MASK),
    "mask_and_slice": (slice(1, 2), MASK, slice(None, None, 3)),
    "mask_of_a_later_dim": (..., np.array([True, False, False, True, True])),
}


@pytest.mark.parametrize("name", CASES)
def test_get(name):
    result = numod.tensor(X)[translate(CASES[name])]
    wanted = X[CASES[name]]
    assert result.shape == wanted.shape
    np.testing.assert_array_equal(result.numpy(), wanted)


@pytest.mark.parametrize("name", CASES)
def test_set(name):
    """A number, then values of the full shape, then values that broadcast."""
    shape = X[CASES[name]].shape
    values = -1 - np.arange(np.prod(shape, dtype=int)).reshape(shape)
    for value in (-7, values, values[..., :1] if shape else values):
        wanted, tensor = X.copy(), numod.tensor(X)
        wanted[CASES[name]] = value
        tensor[translate(CASES[name])] = translate(value) if isinstance(value, np.ndarray) else value
        np.testing.assert_array_equal(tensor.numpy(), wanted)


# ---- random expressions


def expression(seed):
    """A random shape of 2 to 4 dimensions and an index for it, whose index arrays broadcast together."""
    choice = random.Random(seed)
    shape = [choice.randint(1, 4) for _ in range(choice.randint(2, 4))]
    count = choice.randint(1, 3)
    whole = choice.choice([(count,), (count,), (2, count)])
    items, dim = [], 0
    while dim < len(shape):
        n, kind = shape[dim], choice.choice(["int", "slice", "slice", "full", "array", "array", "mask"])
        if kind == "int":
            items.append(choice.randint(-n, n - 1))
        elif kind == "slice":
            items.append(
                slice(
                    choice.choice([None, choice.randint(-5, 5)]),
                    choice.choice([None, choice.randint(-5, 5)]),
                    choice.choice([None, 1, 2, 3]),
                )
            )
        elif kind == "full":
            items.append(slice(None))
        elif kind == "array":
            sizes = [choice.choice([1, extent]) for extent in whole[choice.randint(0, len(whole) - 1) :]]
            array = np.array([choice.randint(-n, n - 1) for _ in range(int(np.prod(sizes)))]).reshape(sizes)
            items.append(array.tolist() if choice.random() < 0.3 else array)
        else:
            covered = choice.randint(1, min(2, len(shape) - dim))
            size = int(np.prod(shape[dim : dim + covered]))
            if size < count:
                continue
            mask = np.zeros(size, bool)
            mask[choice.sample(range(size), count)] = True
            items.append(mask.reshape(shape[dim : dim + covered]))
            dim += covered - 1
        dim += 1
    while choice.random() < 0.3:
        items.insert(choice.randint(0, len(items)), None)
    if choice.random() < 0.3:
        full = (
            [k for k, item in enumerate(items) if item == slice(None)]
            if all(not isinstance(item, (list, np.ndarray)) for item in items)
            else []
        )
        if full:
            items[full[0]] = ...
    return shape, tuple(items)


def without_ints(x, index):
    """The view after all ints, and the index that is left."""
    items = list(index)
    if any(item is ... for item in items):
        where = next(k for k, item in enumerate(items) if item is ...)
        items[where] = slice(None)
    picks = []
    for item in items:
        if item is not None:
            picks.extend(
                [item]
                if isinstance(item, int)
                else [slice(None)] * (item.ndim if isinstance(item, np.ndarray) and item.dtype == bool else 1)
            )
    return x[(*picks, ...)], tuple(item for item in items if not isinstance(item, int))


@pytest.mark.parametrize("seed", range(150))
def test_random_get_and_set(seed):
    shape, index = expression(seed)
    x = np.arange(1, 1 + int(np.prod(shape)), dtype=np.int64).reshape(shape)
    view, rest = without_ints(x, index)
    wanted = view[rest]
    result = numod.tensor(x)[translate(index)]
    assert result.shape == wanted.shape
    np.testing.assert_array_equal(result.numpy(), wanted)
    values = -1 - np.arange(wanted.size).reshape(wanted.shape)
    tensor = numod.tensor(x)
    tensor[translate(index)] = numod.tensor(values)
    view[rest] = values
    np.testing.assert_array_equal(tensor.numpy(), x)


@pytest.mark.parametrize("seed", range(150, 200))
def test_random_get_and_set_of_a_strided_tensor(seed):
    shape, index = expression(seed)
    whole = np.arange(int(np.prod(shape)) * 2, dtype=np.int64).reshape(
        [*shape[:0:-1], 2 * shape[0]] if len(shape) > 1 else [2 * shape[0]]
    )
    tensor = numod.tensor(whole)
    x, strided = whole.transpose()[::2], tensor.permute(list(range(tensor.ndim))[::-1])[::2]
    view, rest = without_ints(x, index)
    result = strided[translate(index)]
    np.testing.assert_array_equal(result.numpy(), view[rest])
    strided[translate(index)] = -5
    view[rest] = -5
    np.testing.assert_array_equal(tensor.numpy(), whole)


# ---- what the result is


def test_index_copy_where_a_tensor_has_no_dimensions():
    index = numod.tensor([0])
    assert numod.tensor(1.0).index_copy_(0, index, numod.tensor([5.0])).item() == 5.0
    assert numod.tensor([1.0, 2.0]).index_copy_(0, index, numod.tensor(5.0)).tolist() == [5.0, 2.0]


def test_basic_indexing_is_a_view():
    x = numod.tensor(X)
    for index in (0, slice(1, 2), ..., None, (..., 1), ()):
        assert x[index]._storage is x._storage


def test_advanced_indexing_is_a_copy():
    x = numod.tensor(X)
    for index in ([0], numod.tensor([1]), numod.tensor(X > 3), True):
        assert x[index]._storage is not x._storage


def test_ellipsis_gives_a_new_tensor():
    x = numod.tensor(X)
    assert x[...] is not x
    assert x[:] is not x


def test_an_int_beside_tensors_is_applied_first():
    """PyTorch's rule; NumPy would move the indexed dimensions to the front."""
    x = numod.tensor(X)
    assert x[0, :, [1, 2]].shape == (3, 2, 5)
    assert x[:, 0, :, numod.tensor([1, 2])].shape == (2, 4, 2)


def test_zero_dimensional_tensors_as_indices():
    x = numod.tensor(X)
    assert x[numod.tensor(1)].shape == (3, 4, 5)
    assert x[0, numod.tensor(1), 2, numod.tensor(-1)].item() == X[0, 1, 2, -1]
    assert x[numod.tensor(0) : numod.tensor(1)].shape == (1, 3, 4, 5)


def test_byte_masks():
    with pytest.warns(UserWarning, match="uint8"):
        assert numod.tensor([1, 2, 3])[numod.tensor([1, 0, 1], dtype=numod.uint8)].tolist() == [1, 3]


def test_masks_of_zero_dimensions():
    x = numod.tensor(5)
    assert x[numod.tensor(True)].tolist() == [5]
    assert x[numod.tensor(False)].tolist() == []
    assert x[x > 3].tolist() == [5]
    assert x[None].tolist() == [5]
    assert x[...].item() == 5


def test_empty_tensors():
    x = numod.zeros(0, 3)
    assert x[[]].shape == (0, 3)
    assert x[:, [0, 1]].shape == (0, 2)
    assert x[x > 0].shape == (0,)
    x[x > 0] = 1.0
    assert numod.ones(3)[numod.zeros(0, dtype=numod.int64)].shape == (0,)


def test_iteration_and_length():
    x = numod.tensor([[1, 2], [3, 4], [5, 6]])
    assert [row.tolist() for row in x] == x.tolist()
    assert len(x) == 3
    a, b, c = x
    assert c.tolist() == [5, 6]


# ---- assignment


def test_set_converts_the_dtype():
    x = numod.zeros(3, dtype=numod.int64)
    x[0] = 2.9
    x[1:] = numod.tensor([1.5, -1.5])
    assert x.tolist() == [2, 1, -1]


def test_set_from_lists_and_arrays():
    x = numod.zeros(2, 2)
    x[0] = numod.tensor([1, 2])
    x[1] = numod.tensor(np.array([3.0, 4.0]))
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_set_drops_leading_ones():
    x = numod.zeros(2, 3)
    x[0] = numod.ones(1, 1, 3)
    x[numod.tensor([1])] = numod.full((1, 1, 3), 2.0)
    assert x.tolist() == [[1.0] * 3, [2.0] * 3]


def test_set_by_a_mask():
    x = numod.arange(6)
    x[x > 2] = numod.tensor([7, 8, 9])
    x[x < 2] = 0
    assert x.tolist() == [0, 0, 2, 7, 8, 9]


def test_set_from_an_overlapping_part_of_itself():
    x = numod.arange(6)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    y = numod.arange(6)
    y[numod.tensor([0, 1, 2])] = y[3:]
    assert y.tolist() == [3, 4, 5, 3, 4, 5]
    z = numod.arange(4).reshape(2, 2)
    z[:] = z.t()
    assert z.tolist() == [[0, 2], [1, 3]]


def test_the_last_of_equal_indices_stays():
    x = numod.zeros(2)
    x[[0, 0, 1, 1]] = numod.tensor([1.0, 2.0, 3.0, 4.0])
    assert x.tolist() == [2.0, 4.0]


def test_augmented_assignment():
    x = numod.zeros(3)
    x[1:] += 2.0
    x[[0, 0]] += 1.0
    assert x.tolist() == [1.0, 2.0, 2.0]


def test_set_raises_the_version():
    x = numod.zeros(3)
    before = x._version
    x[0] = 1.0
    x[[1]] = 1.0
    assert x._version >= before + 2


# ---- gradients

GRADIENTS = {
    "basic": lambda x: x[1:, ::2], "select": lambda x: x[:, -1], "list": lambda x: x[:, [0, 0, 2]],
    "pairs": lambda x: x[[0, 1, 1], [2, 0, 0]],
    "mask": lambda x: x[numod.tensor([[True, False, True], [False, True, True]])], "none": lambda x: x[None, ..., 1],
}  # fmt: skip


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_get(name):
    x = numod.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], dtype=numod.float64, requires_grad=True)
    assert gradcheck(GRADIENTS[name], (x,))
    assert gradgradcheck(lambda x: GRADIENTS[name](x) ** 3, (x,))


SETS = {
    "basic": (slice(None), slice(None, 2)), "list": (slice(None), [2, 0]),
    "mask": numod.tensor([[True, False, True], [False, True, True]]), "int": (slice(None), 1),
}  # fmt: skip


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("name", SETS)
def test_gradients_of_set(name):
    """Of the tensor written into and of the values."""

    def function(x, y):
        result = x * 2
        result[SETS[name]] = y
        return result**2

    x = numod.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], dtype=numod.float64, requires_grad=True)
    shape = tuple(numod.zeros(2, 3)[SETS[name]].shape)
    y = numod.tensor(np.linspace(0.3, 1.7, int(np.prod(shape))).reshape(shape), requires_grad=True)
    assert gradcheck(function, (x, y))
    assert gradgradcheck(function, (x, y))


# ---- errors

T = numod.ones(2, 3)
ERRORS = {
    "int": (lambda: T[2], IndexError, "index 2 is out of bounds for dimension 0 with size 2"),
    "int_negative": (lambda: T[0, -4], IndexError, "index -4 is out of bounds"),
    "tensor": (lambda: T[numod.tensor([0, 2])], IndexError, "index 2 is out of bounds for dimension 0 with size 2"),
    "tensor_negative": (lambda: T[:, [-4]], IndexError, "index -4 is out of bounds for dimension 1 with size 3"),
    "tensors": (lambda: T[numod.tensor([0, 1]), numod.tensor([[0], [3]])], IndexError,
        "index 3 is out of bounds for dimension 1 with size 3"),
    "set_tensors": (lambda: T.clone().__setitem__((numod.tensor([0, -3]), numod.tensor([2, 2])), 1.0), IndexError,
        "index -3 is out of bounds for dimension 0"),
    "too_many": (lambda: T[0, 0, 0], IndexError, "too many indices for tensor of dimension 2"),
    "too_many_masks": (lambda: T[T > 0, 0], IndexError, "too many indices"),
    "mask_shape": (lambda: T[numod.tensor([True, False, True])], IndexError, "The shape of the mask"),
    "mask_shape_2d": (lambda: T[numod.ones(2, 2) > 0], IndexError, r"mask \[2, 2\] at index 1 does not match"),
    "float_tensor": (lambda: T[numod.tensor([0.0])], IndexError, "tensors used as indices must be"),
    "float": (lambda: T[1.0], (TypeError, IndexError), "only integers"),
    "string": (lambda: T["a"], (TypeError, IndexError), "only integers"),
    "shapes": (lambda: T[[0, 1], [0, 1, 2]], IndexError, "could not be broadcast together"),
    "step": (lambda: T[::-1], ValueError, "step must be greater than zero"),
    "scalar": (lambda: numod.tensor(1.0)[0], IndexError, "invalid index of a 0-dim tensor"),
    "scalar_slice": (lambda: numod.tensor(1.0)[:], IndexError, "too many indices|0-dim"),
    "set_int": (lambda: T.clone().__setitem__(5, 1.0), IndexError, "index 5 is out of bounds"),
    "set_shape": (lambda: T.clone().__setitem__(0, numod.ones(2)), RuntimeError,
        r"expanded size|shape mismatch|must match"),
    "set_tensor_shape": (lambda: T.clone().__setitem__([0, 1], numod.ones(3, 3)), (RuntimeError, IndexError),
        "shape mismatch|expanded size|must match"),
    "set_more_dims": (lambda: T.clone().__setitem__(0, numod.ones(2, 3)), RuntimeError, "shape mismatch|expand"),
    "iterate_scalar": (lambda: list(numod.tensor(1.0)), TypeError, "iteration over a 0-d tensor"),
    "length_of_scalar": (lambda: len(numod.tensor(1.0)), TypeError, "0-d tensor"),
}  # fmt: skip


@pytest.mark.on_cuda(gpu=False)
@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, exception, message = ERRORS[name]
    with pytest.raises(exception, match=message):
        call()


def test_a_tensor_of_no_dimensions_counts_as_a_number() -> None:
    x, one, pair = numod.arange(24).reshape(2, 3, 4), numod.tensor(1), numod.tensor([0, 2])
    for mine, number in (
        (x[one, :, pair], x[1, :, pair]),
        (x[one, None, pair], x[1, None, pair]),
        (x[pair[:1], :, one], x[[0], :, 1]),
        (x[one, pair], x[1, pair]),
        (x[one, :, one], x[1, :, 1]),
    ):
        assert mine.shape == number.shape and numod.equal(mine, number)
    x[one, :, pair] = numod.tensor([[1, 2], [3, 4], [5, 6]])
    assert x[1, :, pair].tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (0, 3), ()])
def test_places_of_nonzero_elements(shape):
    x = np.random.default_rng(0).integers(0, 2, shape)
    result = numod.tensor(x).nonzero()
    assert np.array_equal(result.numpy(), np.argwhere(x)) and result.dtype is numod.int64
    if shape:
        assert all(
            np.array_equal(a.numpy(), b)
            for a, b in zip(numod.tensor(x).nonzero(as_tuple=True), np.nonzero(x), strict=True)
        )


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_an_index_of_several_dimensions_reads_and_its_gradient_adds(dim):
    x = numod.randn(3, 4, 5, dtype=numod.float64).transpose(0, 1).requires_grad_()
    index = numod.tensor([[2, -1], [0, 2]])
    out = x[(slice(None),) * dim + (index,)]
    weight = numod.randn(*out.shape, dtype=numod.float64)
    (out * weight).sum().backward()
    expected = np.zeros(x.shape)
    np.add.at(expected, (slice(None),) * dim + (index.numpy(),), weight.numpy())
    assert np.array_equal(
        out.detach().numpy(), x.detach().numpy()[(slice(None),) * dim + (index.numpy(),)]
    ) and np.allclose(x.grad.numpy(), expected)


@pytest.mark.parametrize("value", [2, -1.5, float("nan"), True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int8", "bool"])
def test_a_number_is_written_where_a_mask_is_true(dtype, value):
    x, mask = numod.arange(24).reshape(4, 6).to(getattr(numod, dtype)), numod.arange(24).reshape(4, 6) % 5 == 0
    if dtype in ("int64", "int8") and value != value:
        return  # what NaN becomes is undefined
    for tensor in (mask, mask[:, 1]):
        whole, expected = x.clone(), x.numpy().copy()
        whole[tensor] = value
        expected[tensor.numpy()] = np.asarray(value).astype(expected.dtype)
        assert np.array_equal(whole.numpy(), expected, equal_nan=dtype.startswith("float"))


@pytest.mark.on_cuda(simulator=False)
def test_scattering_nothing_keeps_the_gradient_of_the_source():
    # A graph without edges, say: the loss must remain differentiable.
    nothing = numod.zeros(0, 3, dtype=numod.int64)
    for scatter in (numod.Tensor.scatter, numod.Tensor.scatter_add, lambda x, *rest: x.scatter_reduce(*rest, "mean")):
        source = numod.zeros(0, 3, requires_grad=True)
        scatter(numod.ones(4, 3), 0, nothing, source).sum().backward()
        assert source.grad.shape == (0, 3)
    assert numod.ones(4, 3).scatter(0, numod.zeros(0, dtype=numod.int64), numod.zeros(2)).shape == (4, 3)
