"""Python types as dtypes: `dtype=float` is float64, as in NumPy and PyTorch."""

import numpy as np
import pytest

import numod


@pytest.mark.parametrize(("kind", "expected"), [(int, numod.int64), (float, numod.float64), (bool, numod.bool)])
def test_python_types_name_dtypes(kind, expected):
    x = numod.ones(2)
    results = [
        numod.zeros(2, dtype=kind), numod.tensor([1], dtype=kind), numod.as_tensor([1.0], dtype=kind),
        numod.full((2,), 1, dtype=kind), numod.zeros_like(x, dtype=kind),
        x.to(kind), x.to(dtype=kind), x.sum(dtype=kind), x.new_ones(2, dtype=kind),
        x.double().view(kind) if kind is not bool else x.to(kind), numod.eye(2, dtype=kind),
    ]  # fmt: skip
    assert [tensor.dtype for tensor in results] == [expected] * len(results)


def test_modules_take_them_too():
    assert (
        numod.nn.Linear(2, 2, dtype=float).weight.dtype is numod.nn.Linear(2, 2).to(float).bias.dtype is numod.float64
    )


def test_chances_for_bool_and_places_without_dimensions():
    drawn = numod.zeros(200, dtype=numod.bool).bernoulli_(0.5)
    assert drawn.dtype is numod.bool and 0 < np.count_nonzero(drawn.numpy()) < 200
    assert numod.gather(numod.arange(5), 0, numod.tensor(3)).item() == 3
