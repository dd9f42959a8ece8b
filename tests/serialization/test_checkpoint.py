"""Values, tensors and training states come back from checkpoints as they were saved."""

from __future__ import annotations

from collections import Counter, OrderedDict

import numpy as np
import pytest
import hypothesis
from hypothesis import strategies as st

import numod
from numod import nn, optim
from numod.serialization import load_file

from round_trips import saved


NAMES = ["model.pt", "model.safetensors"]

both = pytest.mark.parametrize("name", NAMES)

VALUES = {
    "none": None, "true": True, "integer": -3, "long": 1 << 70, "very long": -(1 << 3000), "float": 0.1,
    "minus zero": -0.0, "inf": float("-inf"), "complex": 1 - 2j, "text": "ü\n\ud800", "bytes": b"\0\xff",
    "bytearray": bytearray(b"x"), "list": [1, [2, []]], "tuple": (1, (2, ())), "set": {1, "a"},
    "frozenset": frozenset({1}), "size": numod.Size([2, 3]),
    "dtype": numod.float32, "device": numod.device("cpu"), "cuda": numod.device("cuda", 1),
    "keys": {1: "a", "1": "b", None: 0, 2.5: 1, (1, "x"): 2, False: 3},
    "ordered": OrderedDict(b=1, a=2), "counter": Counter("aab"), "empty": {}, "numpy": np.float64(0.1),
    "numpy int": np.int16(-7), "numpy bool": np.bool_(True), "numpy dtype": np.dtype("f4"),
    "dict": {"dict": {"tuple": [1]}, "tensor": "a", "float": "nan"},
}  # fmt: skip


@both
@pytest.mark.parametrize("case", VALUES)
def test_plain_values_come_back(name, case):
    result = saved([VALUES[case]], name)[0]
    assert result == VALUES[case] and type(result) is type(VALUES[case]) and repr(result) == repr(VALUES[case])


KEYS = st.none() | st.booleans() | st.integers(-(1 << 59), 1 << 59) | st.text(max_size=5)

LEAVES = (
    KEYS
    | st.integers()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.binary(max_size=5)
    | st.builds(numod.Size, st.lists(st.integers(0, 9), max_size=3))
)

OBJECTS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4).map(OrderedDict)
        | st.sets(KEYS, max_size=4)
    ),
    max_leaves=12,
)


@both
@hypothesis.settings(derandomize=True, max_examples=150, deadline=None)
@hypothesis.given(value=OBJECTS)
def test_any_plain_object_comes_back(name, value):
    assert repr(saved(value, name)) == repr(value) or saved(value, name) == value


@both
def test_nan_and_arrays_come_back(name):
    result = saved(
        {"nan": float("nan"), "array": np.arange(6, dtype=">i2").reshape(2, 3).T, "flags": np.array([True])}, name
    )
    assert result["nan"] != result["nan"]
    assert (
        result["array"].tolist() == [[0, 3], [1, 4], [2, 5]]
        and result["array"].dtype == np.int16
        and result["flags"].tolist() == [True]
    )


@both
@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
)
def test_dtypes(name, dtype):
    kind = getattr(numod, dtype) if dtype != "bool" else numod.bool
    tensor = numod.tensor([0.0, 1.0, 1.5]).to(kind)
    result = saved(tensor, name)
    assert result.dtype is kind and result.tolist() == tensor.tolist()


@both
def test_shapes(name):
    tensors = [
        numod.tensor(2.5),
        numod.zeros(0, 3),
        numod.ones(1, 2, 1),
        numod.arange(6).reshape(2, 3).T,
        numod.arange(3).expand(2, 3),
    ]
    for tensor, result in zip(tensors, saved(tensors, name)):
        assert result.shape == tensor.shape and result.tolist() == tensor.tolist()


@both
def test_ties_and_views_are_kept(name):
    base = numod.arange(12).reshape(3, 4)
    result = saved({"a": base, "b": base, "t": (base.T, base[1:, ::2]), "other": base.clone()}, name)
    result["a"][1, 0] = 99
    assert result["b"][1, 0] == 99 and result["t"][0][0, 1] == 99 and result["t"][1].tolist() == [[99, 6], [8, 10]]
    assert result["other"][1, 0] == 4 and result["t"][0].stride() == (1, 4)


@both
def test_parameters_stay_parameters_and_gradients_stay_wanted(name):
    weight = nn.Parameter(numod.ones(2))
    result = saved(
        {
            "p": weight,
            "frozen": nn.Parameter(numod.ones(2), requires_grad=False),
            "t": numod.ones(2, requires_grad=True),
            "tied": weight,
        },
        name,
    )
    assert [type(value) is nn.Parameter for value in result.values()] == [True, True, False, True]
    assert [value.requires_grad for value in result.values()] == [True, False, True, True]
    assert result["p"].data_ptr() == result["tied"].data_ptr()
    assert not saved((weight * 2).detach(), name).requires_grad and saved(weight * 2, name).is_leaf


@both
def test_a_whole_training_state(name):
    def network():
        return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

    model, other = network(), network()
    optimizer, second = (optim.Adam(net.parameters(), lr=0.01) for net in (model, other))

    def step(model, optimizer):
        optimizer.zero_grad()
        loss = model(numod.ones(2, 3)).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss.item()

    step(model, optimizer)
    checkpoint = saved(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "rng": numod.get_rng_state()},
        name,
    )
    other.load_state_dict(checkpoint["model"])
    second.load_state_dict(checkpoint["optimizer"])
    assert checkpoint["epoch"] == 3 and list(checkpoint["model"]) == list(model.state_dict())
    assert type(checkpoint["model"]) is OrderedDict and checkpoint["model"]._metadata == model.state_dict()._metadata
    assert [step(model, optimizer) for _ in range(3)] == [step(other, second) for _ in range(3)]


def test_a_dict_of_tensors_is_a_plain_file_and_a_nested_one_a_legal_one(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    tensors = {"a": numod.ones(2), "b": numod.zeros(3)}
    numod.save(tensors, tmp_path / "flat.safetensors")
    assert (tmp_path / "flat.safetensors").read_bytes() == package.save(
        {name: tensor.numpy() for name, tensor in tensors.items()}
    )
    numod.save({"model": nn.Linear(2, 1).state_dict(), "epochs": [1]}, tmp_path / "nested.safetensors")
    assert (
        sorted(package.load_file(tmp_path / "nested.safetensors"))
        == ["model.bias", "model.weight"]
        == sorted(load_file(tmp_path / "nested.safetensors"))
    )


def test_other_readers_find_every_name_of_a_tied_state_dict(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    base = numod.arange(4.0)
    numod.save(OrderedDict(z=base, a=base, part=base[1:], alone=numod.ones(1)), tmp_path / "tied.safetensors")
    result = package.load_file(tmp_path / "tied.safetensors")
    assert {name: result[name].tolist() for name in ("z", "a", "part", "alone")} == {
        "z": [0, 1, 2, 3],
        "a": [0, 1, 2, 3],
        "part": [1, 2, 3],
        "alone": [1],
    }
    loaded = numod.load(tmp_path / "tied.safetensors")
    loaded["z"][1] = 9
    assert list(loaded) == ["z", "a", "part", "alone"] and loaded["a"][1] == 9 and loaded["part"][0] == 9


def test_names_that_meet_are_told_apart():
    result = saved(
        {"a": {"b": numod.ones(1)}, "a.b": numod.zeros(1), "__metadata__": {"x": 1}, 3: [numod.ones(2)]},
        "x.safetensors",
    )
    assert result["a"]["b"].tolist() == [1] and result["a.b"].tolist() == [0] and result[3][0].tolist() == [1, 1]


def test_memory_that_is_shared_has_a_name_of_its_own(tmp_path):
    base = numod.arange(4)
    numod.save({"a": base, "b": base[1:], "a.storage": numod.zeros(4), "": numod.ones(1)}, tmp_path / "x.safetensors")
    loaded = numod.load(tmp_path / "x.safetensors")
    assert {name: tensor.tolist() for name, tensor in loaded.items()} == {
        "a": [0, 1, 2, 3],
        "b": [1, 2, 3],
        "a.storage": [0] * 4,
        "": [1],
    }
    assert load_file(tmp_path / "x.safetensors")["a.storage"].tolist() == [0] * 4


def test_tensors_on_the_meta_device():
    weight = nn.Linear(2, 3, device="meta").weight
    tensor, parameter = saved([weight.detach().t(), weight], "model.pt")
    assert (
        tensor.is_meta
        and tensor.shape == (2, 3)
        and tensor.stride() == (1, 2)
        and isinstance(parameter, nn.Parameter)
        and parameter.requires_grad
    )
