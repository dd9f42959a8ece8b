"""Arguments of wrong types: PyTorch's exception type, and a message that names the argument."""

import pickle
import re

import numpy as np
import pytest

import numod
import numod.nn.functional as F
from numod import nn

ARRAY = np.ones((2, 3), np.float32)
WRONG = {
    "argmax(): argument 'input' must be Tensor, not ndarray": lambda: numod.argmax(input=ARRAY),
    "topk(): argument 'k' (position 2) must be int, not str": lambda: numod.topk(numod.ones(3), "a"),
    "stack(): expected Tensor as element 0 in argument 0, but got ndarray": lambda: numod.stack([ARRAY]),
    "einsum(): expected Tensor as element 0 in argument 1, but got NoneType": lambda: numod.einsum("i", None),
    "solve(): argument 'B' (position 2) must be Tensor, not list": lambda: numod.linalg.solve(numod.eye(2), [1.0, 2.0]),
    "fft(): argument 'n' must be int, not str": lambda: numod.fft.fft(numod.ones(3), n="a"),
    "linear(): argument 'input' (position 1) must be Tensor, not ndarray": lambda: nn.Linear(3, 2)(ARRAY),
    "linear(): argument 'weight' (position 2) must be Tensor, not list": lambda: F.linear(numod.ones(2, 3), [1.0]),
    "conv2d(): argument 'input' (position 1) must be Tensor, not ndarray": lambda: nn.Conv2d(1, 1, 1)(
        np.ones((1, 1, 2, 2), np.float32)
    ),
    "LSTM(): argument 'input' (position 1) must be Tensor, not ndarray": lambda: nn.LSTM(3, 2)(ARRAY),
    "cross_entropy(): argument 'target' (position 2) must be Tensor, not list": lambda: nn.CrossEntropyLoss()(
        numod.ones(2, 3), [0, 1]
    ),
    "argument 'dtype' must be a numod.dtype, such as numod.float32, not 'int64'": lambda: numod.tensor(
        3, dtype="int64"
    ),
    "mm(): argument 'mat2' (position 2) must be Tensor, not ndarray": lambda: numod.ones(3, 2).mm(ARRAY),
    "masked_fill(): argument 'mask' (position 2) must be Tensor, not list": lambda: numod.ones(2).masked_fill(
        [True, False], 0.0
    ),
    "linear(): argument 'weight' (position 2) must be Tensor, not int": lambda: F.linear(numod.ones(2), -2),
    "sum(): argument 'keepdim' (position 3) must be bool, not int": lambda: numod.ones(2, 3).sum(0, 1),
    "max(): argument 'keepdim' needs a 'dim'; use amax()": lambda: numod.ones(2, 3).max(keepdim=True),
    "median(): argument 'keepdim' needs a 'dim'": lambda: numod.ones(2, 3).median(keepdim=True),
    "sum(): argument 'keepdim' must be bool, not int": lambda: numod.ones(2, 3).sum(0, keepdim=1),
    "std(): argument 'unbiased' (position 3) must be bool, not int": lambda: numod.ones(2, 3).std(0, 1),
    "sort(): argument 'descending' must be bool, not str": lambda: numod.ones(2, 3).sort(0, descending="a"),
    "dropout(): argument 'training' (position 3) must be bool, not int": lambda: F.dropout(numod.ones(2), 0.5, 1),
    "zeros(): argument 'requires_grad' must be bool, not int": lambda: numod.zeros(2, requires_grad=1),
    "softmax(): argument 'dim' (position 2) must be int, not bool": lambda: numod.ones(2, 3).softmax(True),
    "cumsum(): argument 'dim' (position 2) must be int, not Tensor": lambda: numod.ones(3).cumsum(numod.tensor([0])),
    "tril(): argument 'diagonal' (position 2) must be int, not float": lambda: numod.ones(2, 2).tril(2.0),
    "diagonal(): argument 'offset' (position 2) must be int, not float": lambda: numod.ones(2, 2).diagonal(
        float("inf")
    ),
    "round(): argument 'decimals' must be int, not float": lambda: numod.ones(2).round(decimals=2.5),
    "topk(): argument 'k' (position 2) must be int, not bool": lambda: numod.ones(3).topk(True),
    "pixel_shuffle(): argument 'upscale_factor' (position 2) must be int, not float": lambda: F.pixel_shuffle(
        numod.ones(1, 4, 1, 1), 2.0
    ),
    "unflatten(): argument 'sizes' (position 3) must be tuple of ints, but found element of type float at pos 1": lambda: (
        numod.ones(4).unflatten(0, [2, 2.0])
    ),
    "max_pool2d(): argument 'kernel_size' (position 2) must be int or tuple of ints, not float": lambda: F.max_pool2d(
        numod.ones(1, 1, 4, 4), 2.5
    ),
    "avg_pool2d(): argument 'kernel_size' (position 2) must be int or tuple of ints, but found element of type float "
    "at pos 0": lambda: F.avg_pool2d(numod.ones(1, 1, 4, 4), [2.0]),
    "bartlett_window(): argument 'window_length' (position 1) must be int, not Tensor": lambda: numod.bartlett_window(
        numod.tensor([1, 2])
    ),
    "div(): argument 'rounding_mode' must be str, not int": lambda: numod.ones(2).div(2, rounding_mode=3),
    "scatter_(): argument 'value' must be Number, not Tensor": lambda: numod.ones(2).scatter(
        0, numod.tensor([0]), value=numod.ones(1)
    ),
    "where() takes a condition alone": lambda: numod.where(numod.ones(2) > 0, None, 1.0),
}


@pytest.mark.parametrize("message", WRONG)
def test_arguments_of_wrong_types_are_reported(message):
    with pytest.raises(TypeError, match=re.escape(message)):
        WRONG[message]()


def test_ints_of_64_bits():
    for call in (lambda: numod.ones(3).sum(1 << 70), lambda: numod.ones(3).kthvalue(1 << 70)):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            call()
    for call in (
        lambda: numod.zeros(2, 1 << 70),
        lambda: numod.empty((1 << 70,)),
        lambda: F.pad(numod.ones(3), (1 << 70, 0)),
    ):
        with pytest.raises(TypeError, match="failed to unpack the object at pos . with error"):
            call()


@pytest.mark.parametrize("two", [np.int64(2), np.int32(2), numod.tensor(2)])
def test_integers_of_other_types_are_ints(two):
    x = numod.arange(16.0).reshape(1, 4, 2, 2)
    assert x[0].topk(two, 0).values.shape == (2, 2, 2) and x.chunk(chunks=two, dim=1)[0].shape == (1, 2, 2, 2)
    images = F.pixel_shuffle(x, two)
    assert images.shape == (1, 1, 4, 4) and all(type(n) is int for n in images.shape)
    assert x[0, 0].tril(diagonal=two).tolist() == x[0, 0].tolist()


def test_errors_of_values_stay_where_arguments_are_taken_by_name():
    with pytest.raises(RuntimeError, match="inconsistent with step sign"):
        numod.arange(end=-0.5, dtype=numod.float32)


def test_flags_that_python_asks_for_may_be_any_object():
    assert F.relu(numod.tensor([-1.0, 2.0]), 1).tolist() == [0.0, 2.0]


def test_errors_of_right_arguments_stay():
    with (
        pytest.raises(RuntimeError, match="must match the size"),
        pytest.warns(UserWarning, match="different to the input size"),
    ):
        F.mse_loss(numod.ones(3), numod.ones(2))
    with pytest.raises(RuntimeError, match=re.escape("Invalid number of data points (-1) specified")):
        numod.fft.fft(numod.ones(3), n=-1)


def test_functions_are_pickled_by_their_public_names():
    assert pickle.loads(pickle.dumps((F.gelu, F.cross_entropy, numod.stack))) == (F.gelu, F.cross_entropy, numod.stack)


@pytest.mark.parametrize("whole", [np.int64, np.uint8, np.int16])
def test_numpys_integers_count_as_ints(whole):
    one, two, three, x = whole(1), whole(2), whole(3), numod.arange(32.0).reshape(2, 4, 4)
    for name in "sum prod mean amax amin var std any all nansum count_nonzero logsumexp norm".split():
        option = {"dim": two} if name == "norm" else {"dim": two, "keepdim": False}
        option = {"dim": two} if name == "count_nonzero" else option
        assert getattr(x, name)(**option).tolist() == getattr(x, name)(**{**option, "dim": 2}).tolist(), name
    assert x.sum([]).item() == x.sum(()).item() == x.sum().item()
    assert [
        tuple(tensor.shape) for tensor in (x.chunk(two, two)[0], x.tensor_split(two, two)[0], x.split(three, two)[1])
    ] == [(2, 4, 2), (2, 4, 2), (2, 4, 1)]
    assert numod.equal(x.roll(one, two), x.roll(1, 2)) and numod.equal(x.movedim(whole(0), two), x.movedim(0, 2))
    assert numod.equal(x.repeat_interleave(two, two), x.repeat_interleave(2, 2)) and numod.fft.fft(
        x, three, two
    ).shape == (2, 4, 3)
    assert F.max_pool2d(x, two).shape == F.avg_pool2d(x, two).shape == F.adaptive_avg_pool2d(x, two).shape == (2, 2, 2)
    assert nn.Conv2d(two, one, three, padding=one)(x).shape == (1, 4, 4) and nn.LayerNorm(whole(4))(x).shape == x.shape
    assert (
        nn.LSTM(whole(4), 3)(x)[0].shape == (2, 4, 3)
        and nn.MaxPool1d(two)(x[0]).shape == (4, 2)
        and nn.ZeroPad2d(one)(x).shape == (2, 6, 6)
    )
    assert sorted(numod.randperm(three).tolist()) == [0, 1, 2]
    first = numod.manual_seed(three) and numod.rand(2)
    assert numod.equal(first, numod.manual_seed(3) and numod.rand(2))


@pytest.mark.parametrize(
    ("call", "sizes"),
    [
        (lambda sizes: numod.ones(1, 3).expand(sizes), (2, 3)),
        (lambda sizes: numod.ones(4).resize_(sizes), (2, 2)),
        (lambda sizes: numod.ones(3).split_with_sizes(sizes), (1, 2)),
        (lambda sizes: numod.randperm(*sizes), (5,)),
        (lambda sizes: F.pad(numod.ones(2, 9), sizes), (2, 3)),
    ],
    ids="expand resize_ split_with_sizes randperm pad".split(),
)
def test_floats_that_equal_good_sizes(call, sizes):
    """Neither does a good call make a bad one good, nor the other way: 2.0 equals 2 as a key of plans."""
    floats = tuple(map(float, sizes))
    for _ in range(2):
        with pytest.raises(TypeError):
            call(floats)
        assert call(sizes) is not None
