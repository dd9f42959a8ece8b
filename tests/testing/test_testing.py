"""assert_close and make_tensor by themselves: what is accepted, what is refused, and the texts."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.testing import assert_close, make_tensor

NAN = float("nan")


@pytest.mark.parametrize(
    ("actual", "expected", "options"),
    [
        (numod.tensor([1.0, 2.0]), numod.tensor([1.0, 2.0 + 2e-6]), {}),
        (numod.ones(2, 2).mT, numod.ones(2, 2), {}),
        (numod.tensor([]), numod.tensor([]), {}),
        ({"a": [numod.ones(1), 2]}, {"a": (numod.ones(1), 2)}, {}),
        (NAN, NAN, {"equal_nan": True}),
        (numod.tensor([1]), numod.tensor([1.0]), {"check_dtype": False}),
        (numod.tensor([3, 4]), numod.tensor([4, 4]), {"rtol": 0, "atol": 1}),
        (np.ones(3), np.ones(3), {}),
    ],
)
def test_close(actual, expected, options):
    assert_close(actual, expected, **options)


@pytest.mark.parametrize(
    ("actual", "expected", "kind", "text"),
    [
        (
            [numod.tensor([1.0, 2.0, 3.0])],
            [numod.tensor([1.0, 2.0, 4.0])],
            AssertionError,
            "Tensor-likes are not close!\n\nMismatched elements: 1 / 3 (33.3%)\nGreatest absolute difference: 1.0 at "
            "index (2,) (up to 1e-05 allowed)\n"
            "Greatest relative difference: 0.25 at index (2,) (up to 1.3e-06 allowed)\n\nThe failure occurred for "
            "item [0]",
        ),
        (
            2,
            3,
            AssertionError,
            "Scalars are not equal!\n\nExpected 3 but got 2.\nAbsolute difference: 1\nRelative difference: "
            "0.3333333333333333",
        ),
        (
            numod.ones(2),
            numod.ones(3),
            AssertionError,
            "The values for attribute 'shape' do not match: numod.Size([2]) != numod.Size([3]).",
        ),
        (True, 1, AssertionError, "The (d)types do not match: <class 'bool'> != <class 'int'>."),
        (
            {"a": 1},
            {1: 1},
            AssertionError,
            "The keys of the mappings do not match:\nMissing keys in the actual mapping: [1]\nAdditional keys in the "
            "actual mapping: ['a']",
        ),
        ("a", "a", TypeError, "No comparison pair was able to handle inputs of type <class 'str'> and <class 'str'>."),
    ],
)
def test_not_close(actual, expected, kind, text):
    with pytest.raises(kind) as caught:
        assert_close(actual, expected)
    assert str(caught.value) == text


def test_messages_and_subclasses():
    with pytest.raises(AssertionError, match="^mine$"):
        assert_close(1, 2, msg="mine")
    with pytest.raises(AssertionError, match="^before: Scalars"):
        assert_close(1, 2, msg="before: {}".format)
    parameter = numod.nn.Parameter(numod.ones(1))
    assert_close(parameter, numod.ones(1))
    with pytest.raises(TypeError, match="No comparison pair"):
        assert_close(parameter, numod.ones(1), allow_subclasses=False)


@pytest.mark.parametrize("dtype", [numod.float32, numod.bfloat16, numod.uint8, numod.int64, numod.bool])
def test_make_tensor(dtype):
    made = make_tensor((300, 3), dtype=dtype, device="cpu", noncontiguous=True, exclude_zero=True)
    assert (made.dtype, made.shape, made.is_contiguous(), made.requires_grad) == (dtype, (300, 3), False, False)
    values = made.to(numod.float64)
    low, high = (1, 1) if dtype is numod.bool else (0 if dtype is numod.uint8 else -9, 9)
    assert low <= values.min().item() and values.max().item() <= high and values.abs().min().item() > 0
    assert make_tensor(dtype=dtype).shape == ()


def test_make_tensor_checks_its_bounds():
    for options, text in (
        ({"low": 2, "high": 1}, "must be less"),
        ({"low": NAN}, "cannot be NaN"),
        ({"low": 256, "high": 300}, "only supports"),
    ):
        with pytest.raises(ValueError, match=text):
            make_tensor(2, dtype=numod.uint8, **options)
    assert make_tensor(3, dtype=numod.int64, low=-float("inf")).shape == (3,)
    assert make_tensor(3, dtype=numod.float32, low=2, high=2).tolist() == [2, 2, 2]
