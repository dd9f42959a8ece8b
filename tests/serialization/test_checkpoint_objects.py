"""Objects in checkpoints: classes that the user allows, enumerations, nesting, storages and attributes."""

from __future__ import annotations

import argparse
import enum
import io
import os
from collections import defaultdict

import numpy as np
import pytest

import numod
from numod import nn, optim
from numod.serialization import CheckpointError

from round_trips import saved


NAMES = ["model.pt", "model.safetensors"]

both = pytest.mark.parametrize("name", NAMES)


def test_attributes_of_a_tensor_are_saved():
    file, x = io.BytesIO(), numod.ones(2)
    x.scale, x.zero = 0.5, numod.zeros(1)
    numod.save([x, x.zero], file)
    file.seek(0)
    loaded, zero = numod.load(file)
    assert loaded.tolist() == [1, 1] and loaded.scale == 0.5 and loaded.zero is zero


class Thing:
    pass


def itself():
    values = [1]
    values.append({"again": values})
    return values


UNSUITABLE = {
    "module": (nn.Linear(2, 1), TypeError, "is a Linear.*state_dict"),
    "inner module": ({"model": nn.Linear(2, 1)}, TypeError, r"\['model'\] is a Linear"),
    "optimizer": ([optim.SGD([numod.ones(1, requires_grad=True)], lr=1)], TypeError, r"\[0\] is a SGD.*state_dict"),
    "object": ({"a": [Thing()]}, TypeError, r"\['a'\]\[0\] is a Thing"),
    "function": ({"a": len}, TypeError, "builtin_function"),
    "default dict": (defaultdict(list), TypeError, "defaultdict"),
    "objects in an array": ({"a": np.array([Thing()])}, TypeError, "ndarray"),
    "key": ({"a": {Thing: 1}}, TypeError, r"\['a'\] has a key"),
    "huge key": ({1 << 70: 1}, TypeError, "key"),
    "cycle": ({"a": itself()}, ValueError, r"\['a'\].*contains itself"),
}


@pytest.mark.parametrize("case", UNSUITABLE)
def test_objects_that_are_no_data_in_safetensors_files(tmp_path, case):
    value, kind, message = UNSUITABLE[case]
    with pytest.raises(kind, match=message):
        numod.save(value, tmp_path / "model.safetensors")
    assert not os.listdir(tmp_path)


class Kind(enum.Enum):
    FAST = 1


class EarlyKind(enum.Enum):
    FAST = 1

    def __reduce_ex__(self, protocol):
        return getattr, (EarlyKind, self.name)  # as Python 3.11.2 does


def test_classes_that_the_user_allows(tmp_path):
    path, safe = tmp_path / "run.pt", numod.serialization
    arguments = argparse.Namespace(rate=0.1, kind=Kind.FAST, weight=numod.ones(2))
    with safe.safe_globals([argparse.Namespace, (Kind, f"{__name__}.Kind")]):
        numod.save({"arguments": arguments}, path)
        result = numod.load(path)["arguments"]
    assert (result.rate, result.kind, result.weight.tolist()) == (
        0.1,
        Kind.FAST,
        [1, 1],
    ) and safe.get_safe_globals() == []
    with pytest.raises(CheckpointError, match=r"argparse.Namespace.*add_safe_globals"):
        numod.load(path)
    with pytest.raises(TypeError, match="class or function"):
        safe.add_safe_globals([arguments])


def test_members_of_enumerations_as_early_releases_of_python_311_pickle_them(tmp_path):
    path, safe = tmp_path / "kind.pt", numod.serialization
    with safe.safe_globals([EarlyKind]):
        numod.save({"kind": EarlyKind.FAST}, path)
        assert numod.load(path) == {"kind": EarlyKind.FAST}
    with safe.safe_globals([Kind]), pytest.raises(CheckpointError, match=r"EarlyKind.*add_safe_globals"):
        numod.load(path)


@both
def test_nested_too_deeply(tmp_path, name):
    value = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(ValueError, match="nested too deeply"):
        numod.save(value, tmp_path / name)


def test_two_dtypes_on_one_storage(tmp_path):
    tensor = numod.zeros(2)
    other = tensor.detach()
    other._layout = numod.zeros(2, dtype=numod.int32)._layout
    with pytest.raises(RuntimeError, match="one storage as numod.float32 and as numod.int32"):
        numod.save([tensor, other], tmp_path / "a.pt")
    assert not os.listdir(tmp_path)


def test_overlapping_views_of_the_midst_of_a_tensor(tmp_path):
    whole = numod.arange(10.0)
    numod.save({"left": whole[3:6], "right": whole[4:9:2]}, tmp_path / "views.safetensors")
    result = numod.load(tmp_path / "views.safetensors")
    assert result["left"].tolist() == [3, 4, 5] and result["right"].tolist() == [4, 6, 8]
    result["left"][1] = -1
    assert result["right"][0] == -1


def test_storages_in_checkpoints():
    x = numod.arange(4.0)
    value = {
        "typed": x.storage(),
        "tensor": x,
        "inside": ([x.storage()],),
        "bytes": numod.arange(3).untyped_storage(),
        "part": x.clone().untyped_storage()[4:12],
    }
    result = saved(value, "model.pt")
    assert isinstance(result["typed"], numod.FloatStorage) and result["inside"][0][0].tolist() == [0, 1, 2, 3]
    result["typed"][1] = 7.0
    assert result["tensor"].tolist() == [0, 7, 2, 3]
    assert (
        bytes(result["bytes"].tolist()) == np.arange(3).tobytes()
        and bytes(result["part"].tolist()) == np.arange(1, 3, dtype="f4").tobytes()
    )
    assert saved(x.storage(), "model.pt").tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="one storage as numod.float32 and as numod.uint8"):
        saved([x, x.untyped_storage()], "model.pt")
