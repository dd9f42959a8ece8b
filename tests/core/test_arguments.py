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
    "conv2d(): argument 'input' (position 1) must be Tensor, not ndarray": lambda: nn.Conv2d(1, 1, 1)(np.ones((1, 1, 2, 2), np.float32)),
    "LSTM(): argument 'input' (position 1) must be Tensor, not ndarray": lambda: nn.LSTM(3, 2)(ARRAY),
    "cross_entropy(): argument 'target' (position 2) must be Tensor, not list": lambda: nn.CrossEntropyLoss()(numod.ones(2, 3), [0, 1]),
    "argument 'dtype' must be a numod.dtype, such as numod.float32, not 'int64'": lambda: numod.tensor(3, dtype="int64"),
    "mm(): argument 'mat2' (position 2) must be Tensor, not ndarray": lambda: numod.ones(3, 2).mm(ARRAY),
    "masked_fill(): argument 'mask' (position 2) must be Tensor, not list": lambda: numod.ones(2).masked_fill([True, False], 0.0),
    "linear(): argument 'weight' (position 2) must be Tensor, not int": lambda: F.linear(numod.ones(2), -2),
    "where() takes a condition alone": lambda: numod.where(numod.ones(2) > 0, None, 1.0),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_no_tensor_or_number_is_named(message):
    with pytest.raises(TypeError, match=re.escape(message)):
        WRONG[message]()


def test_errors_of_right_arguments_stay():
    with pytest.raises(RuntimeError, match="must match the size"), pytest.warns(UserWarning, match="different to the input size"):
        F.mse_loss(numod.ones(3), numod.ones(2))
    with pytest.raises(RuntimeError, match=re.escape("Invalid number of data points (-1) specified")):
        numod.fft.fft(numod.ones(3), n=-1)


def test_functions_are_pickled_by_their_public_names():
    assert pickle.loads(pickle.dumps((F.gelu, F.cross_entropy, numod.stack))) == (F.gelu, F.cross_entropy, numod.stack)
