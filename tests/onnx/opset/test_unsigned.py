"""Arithmetic of wide unsigned integers at the ends of their ranges, as NumPy computes it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import numod
from numod.onnx.opset import arithmetic
from numod.onnx.registry import find

pytestmark = pytest.mark.onnx
BINARY: dict[str, Callable] = {
    "Add": np.add, "Sub": np.subtract, "Greater": np.greater, "LessOrEqual": np.less_equal, "Less": np.less,
    "GreaterOrEqual": np.greater_equal, "Max": np.maximum, "Min": np.minimum, "Div": np.floor_divide, "Mod": np.remainder,
}  # fmt: skip


def pairs(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of numbers at the ends and in the middle of the range, without zeros in the second."""
    most = int(np.iinfo(kind).max)
    values = [0, 1, 2, 3, 7, 100, most // 2 - 1, most // 2, most // 2 + 1, most // 2 + 2, most - 7, most - 1, most]
    a, b = (np.array(column, kind) for column in zip(*itertools.product(values, values[1:])))
    return a, b


@pytest.mark.parametrize("kind", ["uint16", "uint32", "uint64"])
@pytest.mark.parametrize("name", BINARY)
def test_of_two_tensors(name: str, kind: str) -> None:
    a, b = pairs(kind)
    expected = BINARY[name](a, b)
    result = find("", name, 18).function(numod.from_numpy(a), numod.from_numpy(b)).numpy()
    assert result.dtype == expected.dtype and (result == expected).all()


@pytest.mark.parametrize("kind", ["uint16", "uint32", "uint64"])
def test_shifts_complements_and_signs(kind: str) -> None:
    a, b = pairs(kind)
    count = np.minimum(b, 8 * a.dtype.itemsize - 1).astype(kind)
    x, by = numod.from_numpy(a), numod.from_numpy(count)
    assert (arithmetic.shift_bits(x, by, direction="LEFT").numpy() == a << count).all()
    assert (arithmetic.shift_bits(x, by, direction="RIGHT").numpy() == a >> count).all()
    assert (find("", "BitwiseNot", 18).function(x).numpy() == ~a).all()
    assert (find("", "Abs", 18).function(x).numpy() == a).all()
    assert (find("", "Sign", 18).function(x).numpy() == np.sign(a)).all()
