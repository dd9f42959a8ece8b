"""`save` and `load` of checkpoints in both formats: round trips, errors, and atomic saves."""

from __future__ import annotations

import argparse
import enum
import gzip
import io
import os
import pathlib
import pickle
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict

import numpy as np
import pytest
import hypothesis
from hypothesis import strategies as st

import numod
from numod import nn, optim
from numod.serialization import CheckpointError, load_file
from numod.serialization.pickle_reader import PickleReader
from numod.serialization.torch_objects import find_global

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


def saved(value, name):
    """What `value` is after a round trip through a file object of this name."""
    file = io.BytesIO()
    file.name = name
    numod.save(value, file)
    file.seek(0)
    return numod.load(file)


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


# Where a file may be


@both
@pytest.mark.parametrize("as_path", [str, pathlib.Path, os.fsencode])
def test_paths(tmp_path, name, as_path):
    path = as_path(str(tmp_path / name)) if as_path is not os.fsencode else os.fsencode(tmp_path / name)
    numod.save({"a": numod.ones(2)}, path)
    assert numod.load(path)["a"].tolist() == [1, 1]


@both
def test_file_objects(tmp_path, name):
    with open(tmp_path / name, "wb") as file:
        numod.save({"a": numod.ones(2), "n": 1}, file)
    with open(tmp_path / name, "rb") as file:
        assert numod.load(file)["n"] == 1


def test_compressed_files(tmp_path):
    with gzip.open(tmp_path / "a.pt.gz", "wb") as file:
        numod.save({"a": numod.ones(2), "n": 1}, file)
    with gzip.open(tmp_path / "a.pt.gz", "rb") as file:
        loaded = numod.load(file)
    assert loaded["a"].tolist() == [1, 1] and loaded["n"] == 1


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


@pytest.mark.parametrize("name", ["checkpoint.pth.tar", "last.th", "model", None])
def test_other_file_names_are_pytorch_checkpoints(tmp_path, name):
    target = io.BytesIO() if name is None else tmp_path / name
    numod.save({"a": numod.ones(2), "n": 1}, target)
    assert (target.getvalue() if name is None else target.read_bytes())[:2] == b"PK"


def test_a_file_object_at_its_end():
    file = io.BytesIO()
    numod.save({"a": numod.ones(2)}, file)
    with pytest.raises(CheckpointError, match=r"seek\(0\)"):
        numod.load(file)


@both
def test_a_file_that_begins_within_another(name):
    file = io.BytesIO(b"before")
    file.name = name
    file.seek(6)
    numod.save({"a": numod.ones(2), "n": 1}, file)
    file.seek(6)
    assert numod.load(file)["a"].tolist() == [1, 1]


def test_attributes_of_a_tensor_are_saved():
    file, x = io.BytesIO(), numod.ones(2)
    x.scale, x.zero = 0.5, numod.zeros(1)
    numod.save([x, x.zero], file)
    file.seek(0)
    loaded, zero = numod.load(file)
    assert loaded.tolist() == [1, 1] and loaded.scale == 0.5 and loaded.zero is zero


def test_several_checkpoints_in_one_file_load_one_after_another():
    file = io.BytesIO(b"before")
    file.seek(6)
    for number in range(3):
        numod.save({"a": numod.full((2,), number)}, file)
    file.seek(6)
    assert [numod.load(file)["a"].tolist() for _ in range(3)] == [[0, 0], [1, 1], [2, 2]]
    with pytest.raises(CheckpointError, match="is at its end"):
        numod.load(file)


@both
def test_mapped_files_are_left_as_they_are(tmp_path, name):
    numod.save({"a": numod.ones(2, 3), "flags": numod.tensor([True]), "none": numod.ones(0)}, tmp_path / name)
    content = (tmp_path / name).read_bytes()
    loaded = numod.load(tmp_path / name, mmap=True)
    loaded["a"] += 1
    assert loaded["a"].tolist() == [[2] * 3] * 2 and (tmp_path / name).read_bytes() == content
    with pytest.raises(ValueError, match="path of a file"):
        numod.load(io.BytesIO(content), mmap=True)


@pytest.mark.parametrize(
    "location",
    [
        "cpu",
        numod.device("cpu"),
        {"cpu": "cpu"},
        {"cuda:0": "cpu"},
        lambda values, location: values,
        lambda values, location: None,
        lambda values, location: values.cpu(),
    ],
)
def test_map_location(tmp_path, location):
    numod.save({"a": numod.ones(2)}, tmp_path / "a.pt")
    assert numod.load(tmp_path / "a.pt", map_location=location)["a"].device.type == "cpu"


def test_map_location_sees_values_and_the_saved_device(tmp_path):
    numod.save([numod.arange(3), numod.ones(1)], tmp_path / "a.pt")
    seen = []
    numod.load(tmp_path / "a.pt", map_location=lambda values, location: seen.append((values.tolist(), location)))
    assert seen == [([0, 1, 2], "cpu"), ([1], "cpu")]
    with pytest.raises(CheckpointError, match="map_location must return its first argument"):
        numod.load(tmp_path / "a.pt", map_location=lambda values, location: 3)


def test_a_missing_gpu_is_named(tmp_path):
    if numod.cuda.is_available():
        pytest.skip("there is one")
    numod.save([numod.arange(3)], tmp_path / "a.pt")
    for refused in ({"cpu": "cuda:0"}, {"cpu": "mars"}):
        with pytest.raises(CheckpointError, match="map_location='cpu'"):
            numod.load(tmp_path / "a.pt", map_location=refused)


def test_pytorch_spellings(tmp_path):
    numod.save({"a": 1}, tmp_path / "a.pt", pickle)
    for options in ({"weights_only": True}, {"weights_only": False}, {"mmap": False}, {"pickle_module": None}):
        assert numod.load(tmp_path / "a.pt", **options) == {"a": 1}
    with pytest.raises(RuntimeError, match="without a pickle module"):
        numod.load(tmp_path / "a.pt", pickle_module=io)


# What cannot be saved


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


# Whole or not at all

KILLED = """
import os, signal, sys, numod
def stop(*_):
    os.kill(os.getpid(), signal.SIGKILL)
path, step = sys.argv[1:]
if step == "write":
    import builtins
    real = builtins.open
    class Stopping:
        def __init__(self, file): self.file = file
        def __enter__(self): return self
        def __exit__(self, *_): self.file.close()
        def __getattr__(self, name): return getattr(self.file, name)
        def write(self, data):
            self.file.write(bytes(data)[:20]); self.file.flush(); stop()
    builtins.open = lambda name, mode="r", *rest: Stopping(real(name, mode, *rest)) if mode == "xb" else real(name, mode, *rest)
else:
    setattr(os, step, stop)
numod.save({"a": numod.ones(1000), "n": 2}, path)
"""


@both
@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_killed_save_leaves_the_old_file_whole(tmp_path, name, step):
    numod.save({"a": numod.zeros(2), "n": 1}, tmp_path / name)
    old = (tmp_path / name).read_bytes()
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / name), step], capture_output=True, text=True, check=False
    )
    assert ended.returncode == -9, ended.stderr
    assert (tmp_path / name).read_bytes() == old and numod.load(tmp_path / name)["n"] == 1
    assert len(os.listdir(tmp_path)) == 2  # what the killed process had begun lies beside it


@both
def test_permissions_follow_the_umask_and_the_old_file(tmp_path, name):
    before = os.umask(0o027)
    try:
        numod.save({"a": 1}, tmp_path / name)
    finally:
        os.umask(before)
    assert os.stat(tmp_path / name).st_mode & 0o777 == 0o640
    os.chmod(tmp_path / name, 0o604)
    numod.save({"a": 2}, tmp_path / name)
    assert os.stat(tmp_path / name).st_mode & 0o777 == 0o604


def test_overlapping_views_of_the_midst_of_a_tensor(tmp_path):
    whole = numod.arange(10.0)
    numod.save({"left": whole[3:6], "right": whole[4:9:2]}, tmp_path / "views.safetensors")
    result = numod.load(tmp_path / "views.safetensors")
    assert result["left"].tolist() == [3, 4, 5] and result["right"].tolist() == [4, 6, 8]
    result["left"][1] = -1
    assert result["right"][0] == -1


# Storages, and other objects with the methods of files


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


class Bare:
    """An object with some methods of files, which remembers what is called."""

    def __init__(self, content, *names):
        self.calls, file = set(), io.BytesIO(content)
        for name in names:
            setattr(self, name, self._traced(name, getattr(file, name)))
        self.file = file

    def _traced(self, name, method):
        def call(*arguments):
            self.calls.add(name)
            result = method(*arguments)
            # as those of some libraries, which do not say where they are
            return None if name in ("seek", "write") else result

        return call


@both
def test_objects_with_the_methods_of_files(name):
    value = {"a": numod.arange(5.0), "b": numod.ones(2)}
    target = Bare(b"", "write")
    target.name = name
    numod.save(value, target)
    content = target.file.getvalue()
    for further in ((), ("readinto",)):
        source = Bare(content, "read", "seek", "tell", *further)
        result = numod.load(source)
        assert result["a"].tolist() == [0, 1, 2, 3, 4] and ("readinto" in source.calls) == bool(further)


def test_unseekable_files_are_reported():
    for wrong, error in ((Bare(b"", "read"), AttributeError), (io.BufferedReader(Pipe()), io.UnsupportedOperation)):
        with pytest.raises(error, match="file that is seekable"):
            numod.load(wrong)


class Pipe(io.RawIOBase):
    def readable(self):
        return True


def test_versions_of_pytorch_and_numod_in_a_checkpoint_are_text() -> None:
    file = io.BytesIO()
    numod.save({"version": numod.__version__}, file)
    file.seek(0)
    value = numod.load(file)["version"]
    assert type(value) is str and value.startswith(numod.version.torch) and value.endswith(numod.version.release)
    pytorch = b"\x80\x02ctorch.torch_version\nTorchVersion\nX\x0b\0\0\x002.13.0+cpu1\x85\x81."
    assert find_text(pytorch) == "2.13.0+cpu1"
    with pytest.raises(ValueError, match="a version of PyTorch must be text, got int"):
        find_text(b"\x80\x02ctorch.torch_version\nTorchVersion\nK\x01\x85\x81.")


def find_text(data: bytes) -> object:
    """The value of a pickle."""
    return PickleReader(data, find_global, None, None).read()
