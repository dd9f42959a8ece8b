"""Nested sequences of numbers, arrays and tensors beside PyTorch: shapes, dtypes, and errors of ragged ones."""

import re

import numpy as np
import pytest

import numod

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

NESTED = {
    "equal": lambda t: [[1, 2], (3, 4)],
    "ragged": lambda t: [[1, 2], [3]],
    "longer": lambda t: [[1, 2], [3, 4, 5]],
    "ragged below": lambda t: [[[1, 2], [3, 4]], [[1, 2], [3]]],
    "fewer rows": lambda t: [[[1, 2], [3, 4]], [[1, 2]]],
    "then empty": lambda t: [[1], []],
    "then a number": lambda t: [[1, 2], 3],
    "then True": lambda t: [[1, 2], True],
    "then a complex number": lambda t: [[1, 2], 1j],
    "then a NumPy number": lambda t: [[1, 2], np.int64(3)],
    "then a tensor of no dimension": lambda t: [[1, 2], t(3)],
    "then an array of no dimension": lambda t: [[1], np.array(3)],
    "then None": lambda t: [[1, 2], None],
    "then text": lambda t: [[1, 2], "ab"],
    "then a dict": lambda t: [[1, 2], {}],
    "then a range": lambda t: [[1, 2], range(3)],
    "then a tensor": lambda t: [[1, 2], t([3, 4])],
    "then a short tensor": lambda t: [[1, 2], t([3])],
    "then a deep tensor": lambda t: [[1, 2], t([[3, 4]])],
    "then a long array": lambda t: [[1, 2], np.array([3, 4, 5])],
    "number first": lambda t: [3, [1, 2]],
    "float first": lambda t: [1.5, [2]],
    "tensor of no dimension first": lambda t: [t(3), [1, 2]],
    "float tensor of no dimension first": lambda t: [t(1.0), [1]],
    "tensor first": lambda t: [t([1, 2]), [3, 4]],
    "float tensor first": lambda t: [t([1.0, 2.0]), [3, 4]],
    "tensors": lambda t: [t([1, 2]), t([3, 4])],
    "tensors of one number": lambda t: [t([1]), t([2])],
    "ragged arrays": lambda t: [np.array([1, 2]), np.array([1, 2, 3])],
    "deeper second row": lambda t: [[1], [[2]]],
    "deeper first row": lambda t: [[[1]], [2]],
    "deeper number": lambda t: [[1, 2], [3, [4]]],
    "tensor as a number": lambda t: [[1, 2], [3, t([4, 5])]],
}
FUNCTIONS = {
    "tensor": lambda library, data: library.tensor(data),
    "as_tensor": lambda library, data: library.as_tensor(data),
    "tensor of float32": lambda library, data: library.tensor(data, dtype=library.float32),
}
# with a dtype PyTorch does not look at the types of all items first
LATER_TYPES = "then text", "then None", "then a dict"
CASES = [
    (name, function)
    for name in NESTED
    for function in FUNCTIONS
    if function != "tensor of float32" or name not in LATER_TYPES
]


def outcome(library, function, data):
    try:
        result = FUNCTIONS[function](library, data(library.tensor))
    except (TypeError, ValueError, RuntimeError) as error:
        return type(error), str(error)
    return tuple(result.shape), str(result.dtype).split(".")[-1], result.tolist()


@pytest.mark.parametrize("name, function", CASES)
def test_nested_sequences(name, function):
    theirs, ours = (outcome(library, function, NESTED[name]) for library in (torch, numod))
    if isinstance(theirs[0], type):
        assert ours[0] is theirs[0] and re.match(re.escape(theirs[1]) + r"(: |; |$)", ours[1]), (ours, theirs)
    else:
        assert ours == theirs
