"""Checkpoints of any object, which only `weights_only=False` reads: modules, optimizers, users' classes, functions,
arrays of objects.
"""

from __future__ import annotations

import argparse
import enum
import os
import pickle
import sys
from collections import defaultdict

import numpy as np
import pytest

import numod
from numod import nn, optim
from numod.serialization import CheckpointError


class Thing:
    pass


class Kind(enum.Enum):
    FAST = 1


OBJECTS = {
    "module": nn.Linear(2, 1), "optimizer": optim.SGD([numod.ones(1, requires_grad=True)], lr=1), "object": Thing(),
    "function": len,
    "default dict": defaultdict(list), "objects in an array": np.array([Thing()]), "class as key": {Thing: 1},
    "huge key": {1 << 70: 1},
}  # fmt: skip


@pytest.mark.parametrize("case", OBJECTS)
def test_only_trusted_checkpoints_hold_objects_that_are_no_data(tmp_path, case):
    numod.save([OBJECTS[case]], tmp_path / "model.pt")
    with pytest.raises(CheckpointError):
        numod.load(tmp_path / "model.pt")
    (result,) = numod.load(tmp_path / "model.pt", weights_only=False)
    assert type(result) is type(OBJECTS[case])


def test_containers_that_hold_themselves_and_functions_and_arrays_of_objects(tmp_path):
    cycle = [1]
    cycle.append({"again": cycle})
    numod.save(
        {
            "cycle": cycle,
            "function": nn.functional.relu,
            "array": np.array([Kind.FAST, "a"], object),
            "when": np.datetime64("2024-01-02"),
        },
        tmp_path / "all.pt",
    )
    result = numod.load(tmp_path / "all.pt", weights_only=False)
    assert result["cycle"][1]["again"] is result["cycle"] and result["function"] is nn.functional.relu
    assert result["array"].tolist() == [Kind.FAST, "a"] and result["when"] == np.datetime64("2024-01-02")


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.LazyLinear(2))
        self.memory = nn.LSTM(3, 2)
        self.tied, self.activation = self.body[0].weight, nn.functional.relu
        self.register_buffer("scale", numod.full((1,), 2.0), persistent=False)

    def forward(self, x):
        return self.activation(self.memory(self.body[:2](x))[0]) * self.scale


def test_whole_modules_and_optimizers(tmp_path):
    model = Network()
    optimizer = optim.Adam(model.body[:2].parameters(), lr=0.1)
    x = numod.randn(5, 4)
    model(x).sum().backward()
    optimizer.step()
    numod.save({"model": model, "optimizer": optimizer, "arguments": argparse.Namespace(rate=0.1)}, tmp_path / "all.pt")
    result = numod.load(tmp_path / "all.pt", weights_only=False)
    other, stepped = result["model"], result["optimizer"]
    assert (
        numod.equal(other(x), model(x))
        and other.tied is other.body[0].weight
        and other.scale.item() == 2
        and "scale" not in other.state_dict()
    )
    assert (
        stepped.param_groups[0]["params"][0] is other.tied
        and stepped.state[other.tied]["step"] == 1
        and result["arguments"].rate == 0.1
    )
    assert isinstance(other.body[2].weight, nn.parameter.UninitializedParameter)


def test_trusted_checkpoints_that_are_damaged_or_name_what_is_not_there(tmp_path):
    path = tmp_path / "model.pt"
    numod.save(Thing(), path)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"Thing", b"Think"))
    with pytest.raises(CheckpointError, match="checksum"):
        numod.load(path, weights_only=False)
    path.write_bytes(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(sys.modules[__name__], "Thing")
        with pytest.raises(AttributeError, match="Thing"):
            numod.load(path, weights_only=False)
    with pytest.raises(pickle.PicklingError, match="lambda"):
        numod.save({"f": lambda: 1}, path)
    assert path.read_bytes() == whole and os.listdir(tmp_path) == ["model.pt"]
