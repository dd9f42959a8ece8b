"""`default_collate` and `default_convert`: every kind of sample, and errors."""

from __future__ import annotations

from collections import OrderedDict, UserDict, namedtuple

import numpy as np
import pytest
from small_datasets import rows

import numod
from numod.utils.data import (
    DataLoader,
    default_collate,
    default_convert,
)


Point = namedtuple("Point", "x y")


def test_collate_numbers_and_text():
    ints, floats, flags = default_collate([1, 2]), default_collate([1.5, 2.0]), default_collate([True, False])
    assert [(tensor.dtype, tensor.tolist()) for tensor in (ints, floats, flags)] == [
        (numod.int64, [1, 2]),
        (numod.float64, [1.5, 2.0]),
        (numod.bool, [True, False]),
    ]
    assert default_collate(["a", "b"]) == ["a", "b"]
    assert default_collate([b"a"]) == [b"a"]


def test_collate_tensors_and_arrays():
    stacked = default_collate([numod.ones(2, 3), numod.zeros(2, 3)])
    assert (stacked.shape, stacked.dtype) == ((2, 2, 3), numod.float32)
    stacked = default_collate([np.arange(3, dtype=np.int16), np.ones(3, np.int16)])
    assert (stacked.tolist(), stacked.dtype) == ([[0, 1, 2], [1, 1, 1]], numod.int16)
    numbers = default_collate([np.float32(1), np.float32(2)])
    assert (numbers.tolist(), numbers.dtype) == ([1.0, 2.0], numod.float32)


def test_collate_keeps_structure():
    batch = [{"p": Point(1, 2.0), "l": [1, "a"], "t": (3,)}, {"p": Point(5, 6.0), "l": [2, "b"], "t": (4,)}]
    joined = default_collate(batch)
    assert type(joined["p"]) is Point
    assert (joined["p"].x.tolist(), joined["p"].y.tolist()) == ([1, 5], [2.0, 6.0])
    assert (joined["l"][0].tolist(), tuple(joined["l"][1])) == ([1, 2], ("a", "b"))
    assert (type(joined["t"]), joined["t"][0].tolist()) == (list, [3, 4])
    assert batch[0]["l"] == [1, "a"]


def test_collate_keeps_mapping_types():
    for kind in (OrderedDict, UserDict):
        joined = default_collate([kind(a=1), kind(a=2)])
        assert type(joined) is kind
        assert joined["a"].tolist() == [1, 2]


def test_collate_errors():
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors.*set"):
        default_collate([{1}, {2}])
    with pytest.raises(TypeError, match="default_collate"):
        default_collate([np.array(["a"]), np.array(["b"])])
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([[1, 2], [1]])
    with pytest.raises(RuntimeError, match=r"got \[2\] at entry 0 and \[3\] at entry 1; crop .* collate_fn"):
        default_collate([numod.ones(2), numod.ones(3)])


def test_collate_functions_can_be_added(monkeypatch):
    from numod.utils.data.collate import default_collate_fn_map

    monkeypatch.setitem(default_collate_fn_map, complex, lambda batch, *, collate_fn_map: sum(batch))
    assert default_collate([(1j, 1), (2j, 2)])[0] == 3j
    monkeypatch.setitem(default_collate_fn_map, numod.Tensor, lambda batch, *, collate_fn_map: "mine")
    assert next(iter(DataLoader(rows(), batch_size=2))) == ["mine", "mine"]


def test_convert():
    array, point = np.arange(2), Point(np.ones(1), "a")
    assert default_convert(array).tolist() == [0, 1]
    assert default_convert(point).x.tolist() == [1.0]
    assert default_convert({"a": (array, 1)})["a"][0].tolist() == [0, 1]
    assert [default_convert(value) for value in (1, "a", None, np.array(["x"]).tolist())] == [1, "a", None, ["x"]]
    tensor = numod.ones(1)
    assert default_convert(tensor) is tensor
