"""Safetensors files: round trips with the format's own package, every rule broken once, and saving that is whole or not
at all.
"""

from __future__ import annotations

import json
import os
import random
import struct

import numpy as np
import pytest

import numod
from numod import dtypes, nn
from numod.serialization import header as rules
from numod.serialization import load_file, load_metadata, save_file
from numod.serialization import safetensors as module

DTYPES = ["float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]


def entry(dtype="U8", shape=(2,), offsets=(0, 2)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def write(folder, header, data=b"", length=None):
    """A file with this header (a dict or raw bytes) and this data, valid or not."""
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = folder / "file.safetensors"
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + data)
    return path


def split(path):
    """Header length, header and data of a file, read by hand."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return length, json.loads(content[8 : 8 + length]), content[8 + length :]


def examples():
    """One array per dtype and layout, with extreme values."""
    arrays = {name: np.array([[0, 1, 1], [1, 0, 1]]).astype(name) for name in DTYPES}
    arrays |= {
        "scalar": np.array(3.5, np.float32),
        "empty": np.zeros((0, 3), np.int64),
        "line": np.arange(5, dtype=np.uint8),
    }
    arrays["flag"] = np.array(True)
    arrays["extreme"] = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], np.float32)
    arrays["limits"] = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
    return arrays


def check_equal(tensors, arrays):
    assert set(tensors) == set(arrays)
    for name, array in arrays.items():
        value = np.asarray(tensors[name])
        assert (value.dtype, value.shape) == (array.dtype, array.shape), name
        np.testing.assert_array_equal(value, array, err_msg=name)


def test_round_trip(tmp_path):
    arrays = examples()
    numod.save({name: numod.tensor(array) for name, array in arrays.items()}, tmp_path / "a.safetensors")
    loaded = numod.load(tmp_path / "a.safetensors")
    check_equal({name: value.numpy() for name, value in loaded.items()}, arrays)


def test_the_format_package_reads_what_is_written(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    arrays = examples()
    numod.save({name: numod.tensor(array) for name, array in arrays.items()}, tmp_path / "a.safetensors")
    check_equal(package.load_file(tmp_path / "a.safetensors"), arrays)


def test_files_of_the_safetensors_package_are_read(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    package.save_file(examples(), tmp_path / "a.safetensors", metadata={"author": "a", "é": "ü"})
    loaded = load_file(tmp_path / "a.safetensors")
    check_equal({name: value.numpy() for name, value in loaded.items()}, examples())
    assert load_metadata(tmp_path / "a.safetensors") == {"author": "a", "é": "ü"}


def test_the_bytes_are_those_of_the_format_package(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    arrays = {name: np.arange(size, dtype=np.float32) for name, size in (("b.weight", 6), ("a", 3), ("ü", 0))}
    save_file(
        {name: numod.tensor(array) for name, array in arrays.items()},
        tmp_path / "a.safetensors",
        metadata={"format": "pt"},
    )
    assert (tmp_path / "a.safetensors").read_bytes() == package.save(arrays, metadata={"format": "pt"})


def test_order_padding_and_offsets(tmp_path):
    tensors = {
        "b": numod.zeros(1),
        "a": numod.zeros(3, dtype=numod.uint8),
        "d": numod.zeros(2, dtype=numod.float64),
        "c": numod.zeros(2),
    }
    save_file(tensors, tmp_path / "a.safetensors")
    length, header, data = split(tmp_path / "a.safetensors")
    assert list(header) == ["d", "b", "c", "a"]
    assert [header[name]["data_offsets"] for name in header] == [[0, 16], [16, 20], [20, 28], [28, 31]]
    assert length % 8 == 0 and len(data) == 31


def test_views_and_parameters_are_saved_as_their_values(tmp_path):
    base = numod.arange(12).reshape(3, 4)
    tensors = {
        "transposed": base.T,
        "slice": base[1:, ::2],
        "expanded": base[:, :1].expand(3, 4),
        "parameter": nn.Parameter(numod.ones(2)),
    }
    save_file(tensors, tmp_path / "a.safetensors")
    loaded = load_file(tmp_path / "a.safetensors")
    for name, tensor in tensors.items():
        assert loaded[name].tolist() == tensor.tolist()
    assert not loaded["parameter"].requires_grad


def test_tied_tensors_are_written_once_per_name(tmp_path):
    weight = numod.arange(4)
    save_file({"a": weight, "b": weight}, tmp_path / "a.safetensors")
    loaded = load_file(tmp_path / "a.safetensors")
    loaded["a"][0] = 7
    assert loaded["b"].tolist() == [0, 1, 2, 3]


def test_a_state_dict_goes_into_a_new_module(tmp_path):
    first, second = nn.Linear(3, 2), nn.Linear(3, 2)
    numod.save(first.state_dict(), tmp_path / "a.safetensors")
    second.load_state_dict(numod.load(tmp_path / "a.safetensors"))
    assert second.weight.tolist() == first.weight.tolist() and second.bias.tolist() == first.bias.tolist()


def test_load_takes_pytorch_spellings(tmp_path):
    numod.save({"a": numod.ones(2)}, str(tmp_path / "a.safetensors"))
    for loaded in (
        numod.load(str(tmp_path / "a.safetensors"), "cpu"),
        numod.load(tmp_path / "a.safetensors", map_location="cpu", weights_only=True),
    ):
        assert loaded["a"].tolist() == [1, 1] and loaded["a"].device.type == "cpu"


def test_loaded_tensors_can_be_written_to(tmp_path):
    numod.save({"a": numod.ones(2)}, tmp_path / "a.safetensors")
    loaded = numod.load(tmp_path / "a.safetensors")["a"]
    loaded += 1
    assert loaded.tolist() == [2, 2]


def test_no_tensors_at_all(tmp_path):
    numod.save({}, tmp_path / "a.safetensors")
    assert numod.load(tmp_path / "a.safetensors") == {} and load_metadata(tmp_path / "a.safetensors") == {}


def test_the_largest_offsets_come_from_sizes_not_from_names(tmp_path):
    path = write(
        tmp_path,
        {"z": entry(offsets=(0, 2)), "a": entry("I16", (1,), (2, 4)), "m": entry("F32", (0, 5), (2, 2))},
        b"\1\2\3\0",
    )
    assert {name: tensor.tolist() for name, tensor in load_file(path).items()} == {"z": [1, 2], "m": [], "a": [3]}


def test_any_byte_but_zero_is_true(tmp_path):
    loaded = load_file(write(tmp_path, {"a": entry("BOOL")}, b"\0\2"))["a"]
    assert loaded.tolist() == [False, True] and loaded.numpy().view(np.uint8).tolist() == [0, 1]


def test_spaces_after_the_header_and_unknown_fields_are_accepted(tmp_path):
    header = json.dumps({"a": {**entry(), "comment": "x"}}).encode() + b"  "
    assert load_file(write(tmp_path, header, b"\1\2"))["a"].tolist() == [1, 2]


@pytest.mark.parametrize(("code", "name"), [("F16", "float16"), ("BF16", "bfloat16")])
def test_half_precision_is_read_once_numod_has_it(tmp_path, code, name):
    bits = {"F16": 0x3E00, "BF16": 0x3FC0}[code]
    path = write(tmp_path, {"a": entry(code, (1,))}, struct.pack("<H", bits))
    if name not in dtypes.ALL:
        with pytest.raises(RuntimeError, match=f"no dtype for {code}; it reads .*F32"):
            load_file(path)
        return
    loaded = load_file(path)
    assert loaded["a"].tolist() == [1.5]
    numod.save(loaded, tmp_path / "again.safetensors")
    assert split(tmp_path / "again.safetensors")[2] == struct.pack("<H", bits)


# Malformed files. Each pair: what is wrong with the file, what the message must say.

VALID = {"a": entry()}
BAD_HEADERS = {
    "not json": (b"{]", "not valid"),
    "begins with a space": (b' {"a":{}}', "expected '{' at character 0"),
    "a list": (b"[]", "expected '{' at character 0"),
    "empty": (b"", "expected '{' at character 0"),
    "text after the object": (json.dumps(VALID).encode() + b"x", "not valid"),
    "zero bytes after the object": (json.dumps(VALID).encode() + b"\0", "not valid"),
    "not utf-8": (b'{"\xff":1}', "not UTF-8"),
    "not a number": (b'{"a":{"dtype":"U8","shape":[NaN],"data_offsets":[0,2]}}', "NaN is not JSON"),
    "infinite": (b'{"a":{"dtype":"U8","shape":[-Infinity],"data_offsets":[0,2]}}', "is not JSON"),
    "duplicate tensor": (b'{"a":%s,"a":%s}' % ((json.dumps(entry()).encode(),) * 2), "'a' occurs twice"),
    "duplicate field": (b'{"a":{"dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2]}}', "'dtype' occurs twice"),
    "duplicate metadata": (b'{"__metadata__":{"k":"1","k":"2"}}', "'k' occurs twice"),
    "text between members": (b'{"a":%s x}' % json.dumps(entry()).encode(), "expected ',' or '}' at character"),
    "comma at the end": (b'{"a":%s,}' % json.dumps(entry()).encode(), "expected a name in quotes"),
    "open at the end": (b'{"a":%s' % json.dumps(entry()).encode(), "expected ',' or '}' at character"),
    "open in a name": (b'{"a', "expected a name in quotes"),
    "deeply nested lists": (b'{"a":{"dtype":' + b"[" * 100_000 + b"]" * 100_000 + b"}}", "nested too deeply"),
    "deeply nested objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "for 'a' an object"),
    "a long list": (b'{"a":[' + b"[]," * 1000 + b"1]}", "for 'a' an object"),
    "a long entry": (b'{"a":{' + b" " * 1_000_000 + b"}}", "the entry of 'a' has 1000002 characters"),
    "an integer of many digits": (
        b'{"a":{"dtype":"U8","shape":[%s],"data_offsets":[0,2]}}' % (b"9" * 10_000),
        "not valid|non-negative",
    ),
    "half of a surrogate pair": (b'{"\\ud800":%s}' % json.dumps(entry()).encode(), "not valid Unicode"),
    "metadata of numbers": ({"__metadata__": {"k": 1}, **VALID}, "__metadata__ must map strings to strings"),
    "metadata as a list": ({"__metadata__": [], **VALID}, "for '__metadata__' an object"),
}
BAD_ENTRIES = {
    "a list": (["U8", [2], [0, 2]], "an object with dtype"),
    "a null": (None, "expected an object"),
    "no dtype": ({"shape": [2], "data_offsets": [0, 2]}, "expected an object"),
    "no shape": ({"dtype": "U8", "data_offsets": [0, 2]}, "expected an object"),
    "no offsets": ({"dtype": "U8", "shape": [2]}, "expected an object"),
    "unknown dtype": (entry("F31"), "unknown dtype 'F31'"),
    "dtype is a list": (entry(["U8"]), "unknown dtype"),
    "dtype numod has not": (entry("F8_E5M2"), "no dtype for F8_E5M2"),
    "negative size": (entry(shape=(-2,)), "non-negative"),
    "fractional size": (entry(shape=(2.0,)), "non-negative integers, got \\[2.0\\]"),
    "true as a size": (entry(shape=(True, 2)), "non-negative"),
    "text as a size": (entry(shape=("2",)), "non-negative"),
    "shape is a number": ({**entry(), "shape": 2}, "non-negative"),
    "too many dimensions": (entry(shape=(1,) * 65, offsets=(0, 1)), "at most 64"),
    "size beyond 64 bits": (entry(shape=(2**64,)), "non-negative"),
    "sizes that overflow": (entry(shape=(2**32, 2**32)), "larger than any memory"),
    "sizes that overflow beside a zero": (entry("F32", (2**62, 4, 0), (0, 0)), "larger than any memory"),
    "more bytes than the file": (entry("F32", (2**40,), (0, 2**42)), "cut short"),
    "shape and offsets disagree": (entry("F32", (2,)), "takes 8 bytes"),
    "part of a byte": (entry("F4", (3,)), "takes 1.5 bytes"),
    "offsets reversed": (entry(offsets=(2, 0)), "begin <= end"),
    "negative offset": (entry(offsets=(-2, 0)), "begin <= end"),
    "three offsets": (entry(offsets=(0, 1, 2)), "begin <= end"),
    "offset beyond 64 bits": (entry(offsets=(2**64, 2**64 + 2)), "begin <= end"),
    "hole in front": (entry(shape=(1,), offsets=(1, 2)), "hole before it"),
    "bytes behind": (entry(shape=(1,), offsets=(0, 1)), "belong to no tensor"),
    "file too short": (entry(shape=(3,), offsets=(0, 3)), "cut short"),
}


@pytest.mark.parametrize("case", BAD_HEADERS)
def test_bad_header(tmp_path, case):
    header, message = BAD_HEADERS[case]
    path = write(tmp_path, header, b"\1\2")
    with pytest.raises(RuntimeError, match=message) as raised:
        load_file(path)
    assert str(path) in str(raised.value)
    assert len(str(raised.value)) < 500
    with pytest.raises(RuntimeError, match=message):
        load_metadata(path)


@pytest.mark.parametrize("case", BAD_ENTRIES)
def test_bad_entry(tmp_path, case, monkeypatch):
    monkeypatch.setattr(module, "flat_tensor", lambda *_: pytest.fail("memory was taken before the check"))
    value, message = BAD_ENTRIES[case]
    path = write(tmp_path, {"some.weight": value}, b"\1\2")
    with pytest.raises(RuntimeError, match=message) as raised:
        load_file(path)
    assert str(path) in str(raised.value)
    assert "'some.weight'" in str(raised.value) or case == "bytes behind"
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"a": entry(), "b": entry()}, "'b': it begins at byte 0 .* overlaps"),
        ({"a": entry(), "b": entry("U8", (2,), (1, 3))}, "'b': it begins at byte 1 .* overlaps"),
        ({"a": entry(), "b": entry("U8", (1,), (3, 4))}, "'b': it begins at byte 3 .* hole"),
        ({"a": entry("U8", (4,), (0, 4)), "b": entry("F32", (0,), (2, 2))}, "'b': it begins at byte 2 .* overlaps"),
    ],
)
def test_tensors_must_lie_one_behind_the_other(tmp_path, entries, message):
    with pytest.raises(RuntimeError, match=message):
        load_file(write(tmp_path, entries, b"\1\2\3\4"))


@pytest.mark.parametrize("length", [100_000_001, 2**31, 2**63, 2**64 - 1])
def test_header_length_beyond_the_limit(tmp_path, length):
    with pytest.raises(RuntimeError, match="100000000 is the most allowed"):
        load_file(write(tmp_path, VALID, b"\1\2", length=length))


def test_header_length_beyond_the_file(tmp_path):
    with pytest.raises(RuntimeError, match="cut short"):
        load_file(write(tmp_path, VALID, b"\1\2", length=100_000_000))


@pytest.mark.parametrize("size", range(8))
def test_file_too_small_for_a_length(tmp_path, size):
    path = tmp_path / "file.safetensors"
    path.write_bytes(b"\0" * size)
    with pytest.raises(RuntimeError, match=f"this one has only {size}" if size else "the file is empty"):
        load_file(path)


def test_every_truncation_is_refused(tmp_path):
    numod.save({"a": numod.ones(3), "b": numod.ones(2)}, tmp_path / "whole.safetensors")
    content = (tmp_path / "whole.safetensors").read_bytes()
    for size in range(len(content)):
        (tmp_path / "part").write_bytes(content[:size])
        with pytest.raises(RuntimeError, match="part"):
            load_file(tmp_path / "part")


def test_random_damage_gives_tensors_or_a_clear_error(tmp_path):
    """A changed byte may leave the file valid; it must never give another exception."""
    numod.save({"a": numod.ones(3), "b.weight": numod.ones(2, dtype=numod.int64)}, tmp_path / "whole.safetensors")
    content, draw = (tmp_path / "whole.safetensors").read_bytes(), random.Random(0)
    for _ in range(500):
        damaged = bytearray(content)
        for _ in range(draw.randint(1, 3)):
            damaged[draw.randrange(len(damaged))] = draw.choice(b'{}[]",:0123456789 \xff\x00aU')
        (tmp_path / "damaged").write_bytes(damaged)
        try:
            assert isinstance(load_file(tmp_path / "damaged"), dict)
        except RuntimeError as error:
            assert "damaged" in str(error)


def test_file_that_shrinks_while_it_is_read(tmp_path, monkeypatch):
    path = write(tmp_path, VALID, b"\1")
    monkeypatch.setattr(rules, "_check_coverage", lambda *_: None)  # as if the second byte had been there a moment ago
    with pytest.raises(RuntimeError, match="the file is cut short"):
        load_file(path)


def test_missing_file_folder_and_pipe(tmp_path):
    with pytest.raises(FileNotFoundError):
        numod.load(tmp_path / "nothing")
    with pytest.raises(OSError, match="irectory|ermission"):
        numod.load(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(RuntimeError, match="not a regular file"):
            numod.load(tmp_path / "pipe")


# What cannot be saved


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ([1, 2], TypeError, "expected a dict"),
        ({1: "x"}, TypeError, "names must be strings"),
        ({"a": 1.0}, TypeError, "'a' is a float"),
        ({"model": {"a": 1}}, TypeError, "'model' is a dict.*use numod.save"),
        ({"a": np.zeros(2)}, TypeError, "'a' is a ndarray"),
    ],
)
def test_unsuitable_objects(tmp_path, value, kind, message):
    with pytest.raises(kind, match=message):
        save_file(value, tmp_path / "a.safetensors")
    assert not os.listdir(tmp_path)


def test_unsuitable_names_and_metadata(tmp_path):
    for name in ("__metadata__", "\ud800"):
        with pytest.raises(ValueError, match="save: "):
            numod.save({name: numod.ones(1)}, tmp_path / "a.safetensors")
    with pytest.raises(TypeError, match="metadata must map strings to strings"):
        save_file({}, tmp_path / "a.safetensors", metadata={"a": 1})
    with pytest.raises(ValueError, match="not valid Unicode"):
        save_file({}, tmp_path / "a.safetensors", metadata={"a": "\udfff"})
    assert not os.listdir(tmp_path)


def test_header_too_long_to_save(tmp_path, monkeypatch):
    monkeypatch.setattr(rules, "MAX_HEADER_BYTES", 32)
    with pytest.raises(ValueError, match="the format allows 32"):
        numod.save({"a": numod.ones(1)}, tmp_path / "a.safetensors")


def test_unsuitable_paths(tmp_path):
    for function in (lambda path: numod.save({}, path), numod.load):
        with pytest.raises(TypeError, match="expected a path"):
            function(3)
    with pytest.raises(FileNotFoundError, match="folder does not exist"):
        numod.save({}, tmp_path / "missing" / "a.safetensors")
    with pytest.raises(RuntimeError, match="folder or a device"):
        numod.save({}, tmp_path)


# Whole or not at all


@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_failure_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, step):
    numod.save({"a": numod.zeros(2)}, tmp_path / "a.safetensors")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="disk full"):
        numod.save({"a": numod.ones(2)}, tmp_path / "a.safetensors")
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["a.safetensors"]
    assert numod.load(tmp_path / "a.safetensors")["a"].tolist() == [0, 0]


def test_saving_over_a_file_keeps_links_and_permissions(tmp_path):
    numod.save({"a": numod.zeros(2)}, tmp_path / "file.safetensors")
    os.chmod(tmp_path / "file.safetensors", 0o640)
    os.symlink("file.safetensors", tmp_path / "link.safetensors")
    numod.save({"a": numod.ones(2)}, tmp_path / "link.safetensors")
    assert os.path.islink(tmp_path / "link.safetensors") and numod.load(tmp_path / "file.safetensors")[
        "a"
    ].tolist() == [1, 1]
    assert os.stat(tmp_path / "file.safetensors").st_mode & 0o777 == 0o640
