"""Files of checkpoints: paths, file objects, compression, mapped files, permissions, and saves that are killed."""

from __future__ import annotations

import gzip
import io
import os
import pathlib
import pickle
import subprocess
import sys

import pytest

import numod
from numod.serialization import CheckpointError
from numod.serialization.pickle_reader import PickleReader
from numod.serialization.torch_objects import find_global


NAMES = ["model.pt", "model.safetensors"]

both = pytest.mark.parametrize("name", NAMES)


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
