"""Thousands of damaged and hostile files: each loads or raises CheckpointError, uses memory in proportion to its size,
and runs no code.
"""

from __future__ import annotations

import io
import json
import pickle
import random
import struct
import sys
import tracemalloc
import zipfile
from collections import OrderedDict
from functools import cache

import pytest

import numod
from hostile import changed_bytes, legacy_file, members, saved, zipped
from numod import nn
from numod.ao import quantization
from numod.serialization import CheckpointError

QUICK, FULL = 120, 1100  # files per kind
KINDS = ("plain", "structured", "archive.pt", "flat.pt", "pickle.pt", "legacy.pt", "quantized", "quantized.pt")
# a dict takes 64 times its pickle; a zip archive needs its reader's buffers
BYTES_PER_BYTE, BYTES_AT_ALL = 150, 400_000
watched: list[str] = []
watching = False
FORBIDDEN = ("import", "exec", "compile", "os.", "subprocess.", "shutil.", "socket.", "ctypes.", "pickle.find_class")


def _audit(event: str, _: tuple) -> None:
    if watching and event.startswith(FORBIDDEN) and event != "os.listdir":
        watched.append(event)


sys.addaudithook(_audit)


@cache
def contents() -> dict[str, bytes]:
    """One small sound file of each kind."""
    base = numod.arange(12).reshape(3, 4)
    flat = {"a": numod.ones(3), "b.weight": numod.ones(2, dtype=numod.int64), "c": numod.tensor([True, False])}
    nested = OrderedDict(
        model=nn.Linear(3, 2).state_dict(),
        views=(base, base.T, base[1:, ::2]),
        p=nn.Parameter(numod.ones(2)),
        epoch=3,
        lr=float("inf"),
    )
    nested |= {
        "ids": {1: b"x", None: {1, 2}},
        "dtype": numod.float32,
        "device": numod.device("cpu"),
        "size": numod.Size([1, 2]),
        "big": 1 << 70,
    }
    files = {"plain": flat, "structured": nested, "archive.pt": nested, "flat.pt": flat}
    files |= dict.fromkeys(("quantized", "quantized.pt"), quantized_state())
    result = {kind: saved(value, kind) for kind, value in files.items()}
    return {**result, "pickle.pt": result["archive.pt"], "legacy.pt": legacy_file(flat)}


def quantized_state() -> dict:
    """A state dict with quantized tensors of both schemes, their dtypes and packed weights of a few bits."""
    layers = quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 3), nn.LSTM(3, 2)), {nn.Linear, nn.LSTM})
    packed = nn.Sequential(nn.Linear(32, 2))
    quantization.quantize_(packed, quantization.Int4WeightOnlyConfig(group_size=32))
    scales, zeros = numod.tensor([0.1, 0.2]), numod.tensor([0, 3])
    channels = numod.quantize_per_channel(numod.randn(2, 3), scales, zeros, 0, numod.qint8)
    bits = {
        "bits": numod.quantize_per_tensor(numod.randn(3, 5), 0.1, 3, numod.quint4x2),
        "rows": numod.quantize_per_channel(numod.randn(2, 3), scales, zeros.float(), 0, numod.quint2x4),
    }
    return {**layers.state_dict(), "channels": channels, "view": channels[:1], **packed.state_dict(), **bits}


def with_pickle(program, **records):
    """An archive around a hand-written pickle."""
    return zipped({"archive/data.pkl": program, "archive/data/0": b"\0" * 16, **records})


def damaged(kind: str, draw: random.Random) -> bytes:
    content = contents()[kind]
    if kind in ("pickle.pt", "quantized.pt"):  # the archive is sound, so that the damage reaches the pickle
        records = members(content)
        name = draw.choice(["archive/data.pkl"] * 8 + list(records))
        return zipped({**records, name: changed_bytes(records[name], draw)})
    if kind in ("structured", "quantized") and draw.random() < 0.5:  # sound header, damaged description
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        header["__metadata__"]["numod.structure"] = changed_bytes(
            header["__metadata__"]["numod.structure"].encode(), draw
        ).decode("latin1")
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + content[8 + length :]
    return changed_bytes(content, draw)


def check(content: bytes) -> bool:
    """Whether the content loads; fails where it does anything but that or be refused."""
    global watching
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    watching = True
    try:
        numod.load(io.BytesIO(content))
        loaded = True
    except CheckpointError as error:
        loaded = False
        assert "BytesIO" in str(error) and len(str(error)) < 1500
    finally:
        watching = False
    _, peak = tracemalloc.get_traced_memory()
    assert peak - before <= BYTES_PER_BYTE * len(content) + BYTES_AT_ALL
    assert not watched
    return loaded


def check_many(kind: str, count: int, seed: int) -> tuple[int, int]:
    """How many of so many damaged files loaded, and how many were refused."""
    draw = random.Random(f"{kind} {seed}")
    assert numod.load(io.BytesIO(contents()[kind])) is not None  # and all modules are imported
    with pytest.raises(CheckpointError):
        numod.load(io.BytesIO(contents()[kind][:-9]))
    tracemalloc.start()
    try:
        outcomes = [check(damaged(kind, draw)) for _ in range(count)]
    finally:
        tracemalloc.stop()
    assert outcomes.count(False) > count // 4
    return outcomes.count(True), outcomes.count(False)


@pytest.mark.parametrize("kind", KINDS)
def test_some_damaged_files(kind):
    check_many(kind, QUICK, seed=0)


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_damaged_files(kind):
    check_many(kind, FULL, seed=1)


# Pickles written by hand


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def storage(kind=b"ctorch\nFloatStorage\n", key="0", location="cpu", count=b"K\x04", first="storage"):
    return b"(" + text(first) + kind + text(key) + text(location) + count + b"tQ"


def tensor(
    stored=None,
    offset=b"K\x00",
    shape=b"K\x04\x85",
    strides=b"K\x01\x85",
    function=b"ctorch._utils\n_rebuild_tensor_v2\n",
):
    return function + b"(" + (stored or storage()) + offset + shape + strides + b"\x89ccollections\nOrderedDict\n)RtR"


def entry(value):
    """A state dict of this one value."""
    return b"\x80\x02}" + text("some.weight") + value + b"s."


BIG, NEGATIVE = b"\x8a\x08" + b"\xff" * 7 + b"\x7f", b"J\xff\xff\xff\xff"
HOSTILE = {
    "system": (entry(b"cos\nsystem\n" + text("true") + b"\x85R"), "os.system"),
    "posix": (entry(b"cposix\nsystem\n" + text("true") + b"\x85R"), "posix.system"),
    "eval": (entry(b"c__builtin__\neval\n" + text("1") + b"\x85R"), "builtins.eval"),
    "getattr": (entry(b"cbuiltins\ngetattr\n"), "builtins.getattr"),
    "name by stack": (entry(text("os") + text("system") + b"\x93"), "os.system"),
    "dotted name": (entry(text("collections") + text("OrderedDict.__init__") + b"\x93"), "which load does not accept"),
    "name of no text": (entry(b"NN\x93"), "must be text"),
    "import of a private module": (entry(b"cnumod.serialization\nsave\n"), "which load does not accept"),
    "a module's class": (
        entry(b"ctorch.nn.modules.linear\nLinear\n)\x81"),
        "torch.nn.modules.linear.Linear.*state_dict",
    ),
    "endless name": (entry(b"c" + b"a" * 5000), "a name without an end"),
    "inst": (entry(b"(ios\nsystem\n"), "INST"),
    "obj": (entry(b"(cos\nsystem\no"), "os.system"),
    "newobj": (entry(b"ctorch\nTensor\n)\x81"), "NEWOBJ"),
    "extension": (entry(b"\x82\x01"), "EXT1"),
    "long integer": (entry(b"\x8b\xff\xff\xff\x7f"), "ends at byte"),
    "pairs of one": (entry(b"ccollections\nOrderedDict\n])a\x85R"), "not made of pairs"),
    "call of a tensor class": (entry(b"ctorch\nTensor\n)R"), "calling its class"),
    "call of a tensor": (entry(tensor() + b")R"), "a call of a Tensor"),
    "call without a tuple": (entry(b"ctorch\nSize\n]R"), "a call of"),
    "too many arguments": (entry(b"ctorch\nSize\nNNN\x87R"), "argument"),
    "a bare function": (entry(b"ctorch\nSize\n"), "bare function"),
    "state of a tensor": (entry(tensor() + b"}b"), "state of a Tensor"),
    "state of a dict": (entry(b"}}b"), "state of a dict"),
    "huge text": (entry(b"X\xff\xff\xff\xff"), "ends at byte"),
    "huge bytes": (entry(b"\x8e" + b"\xff" * 8), "ends at byte"),
    "huge bytearray": (
        entry(b"c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85R"),
        "bytearray that is not made of bytes",
    ),
    "unknown memo": (entry(b"j\xff\xff\xff\xff"), "memo has no entry"),
    "empty stack": (b"\x80\x02.", "empty stack"),
    "no end": (b"\x80\x02}", "the pickle ends"),
    "no mark": (entry(b"t"), "no mark"),
    "odd items": (b"\x80\x02}(K\x01u.", "key without a value"),
    "append to a dict": (b"\x80\x02}Na.", "expected list"),
    "a list as a key": (b"\x80\x02}]Ns.", "as a key"),
    "a huge integer as a key": (b"\x80\x02}" + BIG + b"Ns.", "as a key"),
    "nested tuples as a key": (b"\x80\x02})" + b"\x85" * 3 + b"Ns.", "as a key"),
    "a large set": (
        entry(
            b"c__builtin__\nset\n]("
            + b"K\x01" * 500
            + b"eq\x01\x85q\x02R0"
            + b"c__builtin__\nset\nq\x03h\x02R0"
            + b"h\x03h\x02R0" * 2000
            + b"N"
        ),
        "more memory",
    ),
    "protocol 0": (b"(dp0\n.", "does not write"),
    "a persistent id of text": (entry(text("x") + b"Q"), "not a storage"),
    "another persistent id": (entry(storage(first="module")), "not a storage"),
    "a function alone": (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n.", "not data"),
    "a storage's class alone": (b"\x80\x02ctorch\nFloatStorage\n.", "not data"),
    "a sparse tensor": (
        entry(b"ctorch._utils\n_rebuild_sparse_tensor\n)R"),
        "'some.weight': a sparse tensor.*to_dense",
    ),
    "a layout that there is not": (
        entry(b"ctorch.serialization\n_get_layout\n" + text("os") + b"\x85R"),
        "'os' is not a layout",
    ),
    "a tensor with other metadata": (
        entry(tensor().replace(b")RtR", b")R}" + text("backend") + b"\x88stR")),
        "with metadata",
    ),
    "hooks of another class": (
        entry(b"cnumod.nn.hooks\nHooks\n)R}" + text("__class__") + b"Nsb"),
        "not a dict of attributes",
    ),
    "hooks with attributes of another class": (
        entry(b"cnumod.nn.hooks\nHooks\n)R}K\x01K\x01sb"),
        "not a dict of attributes",
    ),
    "a storage's type of text": (entry(storage(kind=text("FloatStorage"))), "lacks its type"),
    "a storage's key is a path": (entry(tensor(storage(key="../../etc/passwd"))), "no record 'data/../../etc/passwd'"),
    "a missing storage": (entry(tensor(storage(key="7"))), "no record 'data/7'"),
    "a shorter storage": (entry(tensor(storage(count=b"K\x05"))), "has 16 bytes, where 5 elements"),
    "a huge storage": (entry(tensor(storage(count=b"\x8a\x07" + b"\xff" * 6 + b"\x0f"))), "has 16 bytes"),
    "a negative storage": (entry(tensor(storage(count=NEGATIVE))), "lacks its type"),
    "a storage in two types": (
        entry(tensor() + b"0" + tensor(storage(kind=b"ctorch\nIntStorage\n"))),
        "described in two ways",
    ),
    "a dtype numod has not": (
        entry(tensor(storage(kind=b"ctorch\nComplexHalfStorage\n"))),
        "'some.weight': it holds a ComplexHalfStorage",
    ),
    "negative offset": (entry(tensor(offset=NEGATIVE)), "some.weight.*non-negative"),
    "offset beyond the end": (entry(tensor(offset=b"K\x01")), "to element 5 of a storage of 4"),
    "huge offset": (entry(tensor(offset=BIG)), "non-negative"),
    "negative size": (entry(tensor(shape=NEGATIVE + b"\x85")), "non-negative"),
    "true as a size": (entry(tensor(shape=b"\x88\x85")), "non-negative"),
    "too many sizes": (
        entry(tensor(shape=b"(" + b"K\x01" * 65 + b"t", strides=b"(" + b"K\x01" * 65 + b"t")),
        "64 at most",
    ),
    "sizes that overflow": (
        entry(tensor(shape=b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86", strides=b"K\x00K\x00\x86")),
        "larger than any memory",
    ),
    "negative stride": (entry(tensor(strides=NEGATIVE + b"\x85")), "non-negative"),
    "stride beyond the end": (entry(tensor(strides=b"K\x02\x85")), "to element 7"),
    "fewer strides than sizes": (entry(tensor(strides=b")")), "as many sizes"),
    "integers with a gradient": (
        entry(tensor(storage(kind=b"ctorch\nIntStorage\n")).replace(b"\x89cc", b"\x88cc")),
        "floating point",
    ),
    "an unknown device": (entry(tensor(storage(location="mars"))), "'mars'.*map_location='cpu'"),
    "an object array": (entry(b"cnumpy\ndtype\n" + text("O8") + b"\x89\x88\x87R"), "not a NumPy dtype of numbers"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_pickle(case, tmp_path):
    program, message = HOSTILE[case]
    (tmp_path / "model.pt").write_bytes(with_pickle(program))
    with pytest.raises(CheckpointError, match=message) as raised:
        numod.load(tmp_path / "model.pt")
    assert "model.pt" in str(raised.value) and len(str(raised.value)) < 700
    assert not check_quietly(with_pickle(program))


def check_quietly(content):
    tracemalloc.start()
    try:
        return check(content)
    finally:
        tracemalloc.stop()


def test_the_hand_written_tensor_is_sound():
    loaded = numod.load(io.BytesIO(with_pickle(entry(tensor()))))
    assert loaded["some.weight"].tolist() == [0, 0, 0, 0]


def test_a_state_dict_of_python_2_is_read():
    key = b"U\x06weight"
    program = (
        b"\x80\x02ccollections\nOrderedDict\n](]("
        + key
        + tensor(function=b"ctorch._utils\n_rebuild_tensor\n").replace(b"\x89ccollections\nOrderedDict\n)R", b"")
        + b"ee\x85R."
    )
    loaded = numod.load(io.BytesIO(with_pickle(program)))
    assert list(loaded) == ["weight"] and loaded["weight"].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("program", "depth"),
    [
        (b"\x80\x02)" + b"q\x00h\x00\x86" * 200 + b".", "tuples that double two hundred times"),
        (b"\x80\x02]" + b"q\x00h\x00\x86" * 200 + b"0N.", "and are thrown away"),
        (b"\x80\x02)" + b"\x85" * 200_000 + b".", "tuples two hundred thousand deep"),
        (b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".", "lists one hundred thousand deep"),
        (b"\x80\x02]q\x00h\x00a.", "a list in itself"),
    ],
)
def test_deep_and_doubling_objects_are_small(program, depth):
    assert check_quietly(with_pickle(program))


@pytest.mark.parametrize(
    "program", [b")R", b"cnumpy\ndtype\nh\x00\x85R", b"}b", b"Q", b"h\x00s", b"ctorch\nSize\nh\x00R"]
)
def test_messages_about_doubling_objects_are_short(program):
    doubling = b"\x80\x02)" + b"q\x00h\x00\x86" * 60
    assert not check_quietly(with_pickle(doubling + b"q\x00" + program + b"."))


def test_calls_on_remembered_arguments_cannot_grow():
    program = (
        b"\x80\x02]c_codecs\nencode\nq\x01"
        + text("a" * 5000)
        + text("latin1")
        + b"\x86q\x02R0"
        + b"h\x01h\x02Ra" * 1000
        + b"."
    )
    with pytest.raises(CheckpointError, match="more memory than its own length"):
        numod.load(io.BytesIO(with_pickle(program)))


def lazily(name, shape=b"K\x04\x85", strides=b"K\x01\x85", stored=None):
    """The arguments of a tensor that PyTorch conjugates or negates when it is read."""
    return (
        b"("
        + (stored or storage())
        + b"K\x00"
        + shape
        + strides
        + b"\x89ccollections\nOrderedDict\n)R}"
        + text(name)
        + b"\x88st"
    )


def test_a_negated_tensor_takes_the_memory_of_its_storage():
    """Not that of its sizes, and not once for each tensor."""
    rebuild = b"ctorch._utils\n_rebuild_tensor_v2\n"
    -numod.ones(4)  # the kernel is compiled here
    content = with_pickle(entry(rebuild + lazily("neg", b"\x8a\x06" + bytes(5) + b"\x01\x85", b"K\x00\x85") + b"R"))
    assert check_quietly(content) and numod.load(io.BytesIO(content))["some.weight"].shape == (1 << 40,)
    stored = storage(count=b"J" + struct.pack("<i", 1 << 16))
    size = b"J" + struct.pack("<i", 1 << 16) + b"\x85"
    program = (
        b"\x80\x02]"
        + rebuild
        + b"q\x01"
        + lazily("neg", size, stored=stored)
        + b"q\x02R0"
        + b"h\x01h\x02Ra" * 500
        + b"."
    )
    loaded = numod.load(
        io.BytesIO(zipped({"archive/data.pkl": program, "archive/data/0": struct.pack("<f", 2.0) * (1 << 16)}))
    )
    assert len({tensor.data_ptr() for tensor in loaded}) == 1 and loaded[7].sum().item() == -2 * (1 << 16)


def test_states_from_the_memo_cannot_grow():
    """NumPy copies the bytes of numbers in another byte order."""
    dtype = b"cnumpy\ndtype\n" + text(">f8") + b"\x89\x88\x87R(K\x03" + text(">") + b"NNN" + NEGATIVE * 2 + b"K\x00tb"
    made = b"cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nK\x00\x85C\x01b\x87q\x06R"
    state = (
        b"(K\x01M"
        + struct.pack("<H", 1000)
        + b"\x85"
        + dtype
        + b"\x89B"
        + struct.pack("<I", 8000)
        + bytes(8000)
        + b"tq\x07b"
    )
    once = b"\x80\x02]" + made + state + b"a"
    assert len(numod.load(io.BytesIO(with_pickle(once + b".")))[0]) == 1000
    with pytest.raises(CheckpointError, match="more memory than its own length"):
        numod.load(io.BytesIO(with_pickle(once + b"h\x05h\x06Rh\x07ba" * 1000 + b".")))


def test_attributes_of_a_tensor_cannot_replace_what_makes_it_one():
    state = b"}" + text("_storage") + b"Ns" + text("shape") + b"Ns" + text("note") + b"K\x07s"
    program = (
        b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\nctorch\nTensor\n("
        + storage()
        + b"K\x00K\x04\x85K\x01\x85\x89)t"
        + state
        + b"tR"
    )
    loaded = numod.load(io.BytesIO(with_pickle(entry(program))))["some.weight"]
    assert loaded.note == 7 and loaded.tolist() == [0, 0, 0, 0]


# Descriptions written by hand


def described(text):
    """A safetensors file of one tensor, 4 zeros, with this description."""
    header = {"__metadata__": {"numod.structure": text}, "w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}
    header = json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + b"\0" * 16


DESCRIPTIONS = {
    "no json": ("{", "numod.structure"),
    "not finite": ("NaN", "NaN is not JSON"),
    "deep lists": ("[" * 5000 + "]" * 5000, "nested too deeply"),
    "deep tuples": ('{"tuple":[' * 5000 + "]}" * 5000, "nested too deeply"),
    "no tag": ('{"module": "os"}', "no tag"),
    "another class": ('{"dict": {}, "class": "os.system"}', "os.system"),
    "no dict": ('{"dict": {}, "class": "tuple"}', "not a dict"),
    "dict of a list": ('{"dict": [1]}', "not valid"),
    "half a pair": ('{"items": [[1]]}', "not enough values"),
    "a list as a key": ('{"items": [[[1], 2]]}', "as a key"),
    "nested tuples as a key": ('{"items": [[{"tuple": [{"tuple": []}]}, 2]]}', "as a key"),
    "a dict in a set": ('{"set": [{"dict": {}}]}', "as a key"),
    "an integer of many digits": ("9" * 10_000, "digits"),
    "unknown tensor": ('{"tensor": "x"}', "no tensor 'x'"),
    "name of a list": ('{"tensor": []}', "unhashable"),
    "negative offset": ('{"tensor": "w", "view": [-1, [1], [1]]}', "non-negative"),
    "beyond the end": ('{"tensor": "w", "view": [1, [4], [1]]}', "to element 5 of a storage of 4"),
    "negative stride": ('{"tensor": "w", "view": [3, [4], [-1]]}', "non-negative"),
    "huge sizes": ('{"tensor": "w", "view": [0, [4611686018427387904, 16], [0, 0]]}', "non-negative"),
    "two numbers as a view": ('{"tensor": "w", "view": [0, 1]}', "not enough values"),
    "device": ('{"tensor": "w", "device": "mars"}', "'mars'"),
    "dtype": ('{"dtype": "os"}', "'os'"),
    "objects": ('{"numpy": "|O", "data": ""}', "not a NumPy dtype of numbers"),
    "fields": ('{"numpy": "f4,f4", "data": ""}', "not a NumPy dtype of numbers"),
    "bytes that do not fit": ('{"numpy": "<f8", "data": "AAAA"}', "multiple of element size"),
    "shape that does not fit": ('{"numpy": "<f8", "data": "", "shape": [9999999999]}', "reshape"),
    "not base64": ('{"bytes": "???"}', "base64|[Nn]on-"),
    "complex of one": ('{"complex": ["1", "2", "3"]}', "argument"),
    "integer of a list": ('{"int": []}', "int"),
}


@pytest.mark.parametrize("case", DESCRIPTIONS)
def test_bad_description(case):
    text, message = DESCRIPTIONS[case]
    content = described(text)
    with pytest.raises(CheckpointError, match=message) as raised:
        numod.load(io.BytesIO(content))
    assert len(str(raised.value)) < 500 and not check_quietly(content)


# Archives

RECORDS = {"archive/data.pkl": entry(tensor()), "archive/data/0": b"\0" * 16}
ARCHIVES = {
    "compressed": (zipped(RECORDS, zipfile.ZIP_DEFLATED), "compressed"),
    "a bomb": (
        zipped({**RECORDS, "archive/data/0": b"\0" * 10_000_000}, zipfile.ZIP_DEFLATED),
        "more bytes than the file has",
    ),
    "no pickle": (zipped({"a": b"1"}), "no record|without a record"),
    "two roots": (zipped({**RECORDS, "other/data.pkl": b"N."}), "without a record"),
    "a program": (zipped({**RECORDS, "archive/code/a.py": b""}), "TorchScript"),
    "another byte order": (zipped({**RECORDS, "archive/byteorder": b"middle"}), "'middle'"),
    "a wrong checksum": (zipped(RECORDS).replace(b"some.weight", b"some.Weight", 1), "checksum"),
    "cut short": (zipped(RECORDS)[:-30], "cut short"),
    "encrypted": (zipped(RECORDS).replace(b"PK\1\2\x14\3\x14\0\0\0", b"PK\1\2\x14\3\x14\0\1\0"), "encrypted"),
}


@pytest.mark.parametrize("case", ARCHIVES)
def test_bad_archive(case):
    content, message = ARCHIVES[case]
    with pytest.raises(CheckpointError, match=message):
        numod.load(io.BytesIO(content))
    assert not check_quietly(content)


def test_an_archive_with_one_name_twice():
    file = io.BytesIO(zipped(RECORDS))
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("archive/data.pkl", b"N.")
    file.seek(0)
    with pytest.raises(CheckpointError, match="the same name"):
        numod.load(file)


def test_paths_in_an_archive_are_never_opened(tmp_path):
    content = zipped({"../data.pkl": entry(tensor()), "../data/0": b"\0" * 16, "/etc/evil": b"x", "../../evil": b"x"})
    with pytest.raises(CheckpointError):
        numod.load(io.BytesIO(zipped({"../../data.pkl": b"N."})))
    assert numod.load(io.BytesIO(content))["some.weight"].shape == (4,)


def test_big_endian_storages_are_turned():
    records = {
        "archive/data.pkl": entry(tensor()),
        "archive/data/0": struct.pack(">4f", 1, 2, 3, 4),
        "archive/byteorder": b"big",
    }
    assert numod.load(io.BytesIO(zipped(records)))["some.weight"].tolist() == [1, 2, 3, 4]


def test_other_pickles_are_named(tmp_path):
    (tmp_path / "a.pkl").write_bytes(pickle.dumps({"a": 1}, 4))
    with pytest.raises(CheckpointError, match="never runs pickles"):
        numod.load(tmp_path / "a.pkl")


@pytest.mark.parametrize(
    "text",
    [b"<!DOCTYPE html><title>404</title>", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", b"Not found"],
)
def test_text_in_place_of_a_file_is_shown(text):
    with pytest.raises(CheckpointError, match="text that begins with '" + text[:7].decode()):
        numod.load(io.BytesIO(text))
