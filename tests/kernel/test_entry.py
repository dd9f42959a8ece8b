"""The file format of a compiled kernel: entries round-trip, and any other content raises Malformed.

The mutations take a second by default; `-m fuzz` makes 20,000 in half a minute.
"""

import hashlib
import json
import random
import time
import tracemalloc

import pytest

from numod.kernel import entry
from numod.kernel.entry import Entry, Malformed, dump, parse

SECRET = bytes(range(32))
KEY = hashlib.sha256(b"a kernel").hexdigest()
CODE = Entry(
    "code",
    KEY,
    f"add_{KEY[:16]}",
    "float32[], int64",
    "1 2",
    ("wrapper", "environment"),
    ((b"\x7fELF" * 50, ("f", "g")), (b"second", ("h",))),
)
TEXT = Entry("text", KEY, f"add_{KEY[:16]}", "float32[]", "1 2", (), ((b".version 8.0", ()),))
QUICK, FULL = 1500, 20_000


@pytest.mark.parametrize("value", [CODE, TEXT], ids=["code", "text"])
@pytest.mark.parametrize("secret", [None, SECRET], ids=["no_seal", "sealed"])
def test_entries_round_trip(value, secret):
    data = dump(value, secret)
    assert parse(data, secret) == value == parse(data) and parse(memoryview(b"in a pack" + data)[9:]) == value
    assert value.file == f"add_{KEY[:16]}_{KEY[16:]}.kernel"


def test_the_seal_is_that_of_one_secret_and_covers_every_byte():
    data = dump(CODE, SECRET)
    for secret in (b"another", bytes(32), SECRET[:31]):
        with pytest.raises(Malformed, match="not sealed with this folder's key"):
            parse(data, secret)
    with pytest.raises(Malformed, match="not sealed"):
        parse(dump(CODE), SECRET)
    for position in range(len(data)):
        for bit in (1, 128):
            with pytest.raises(Malformed):
                parse(data[:position] + bytes([data[position] ^ bit]) + data[position + 1 :], SECRET)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 47, 80, 83, 84, 85, 200, -1])
def test_truncated_or_extended_entries_are_malformed(count):
    for secret in (None, SECRET):
        with pytest.raises(Malformed):
            parse(dump(CODE, SECRET)[:count], secret)
        with pytest.raises(Malformed):
            parse(dump(CODE, SECRET) + b"\0", secret)


def rebuilt(header: bytes, data: bytes = b"", length: int | None = None, secret: bytes | None = None) -> bytes:
    """An entry with a valid digest, and seal, around any header."""
    body = (len(header) if length is None else length).to_bytes(4, "little") + header + data
    sealed = hashlib.sha256(body).digest() + body
    return entry.MAGIC + (entry.hmac.digest(secret, sealed, "sha256") if secret else bytes(32)) + sealed


def fields(**changes) -> bytes:
    header = {**{name: getattr(CODE, name) for name in entry._FIELDS}, "parts": [[4, ["f"]]], **changes}
    return json.dumps({name: value for name, value in header.items() if value is not ...}).encode()


HOSTILE = {
    "a header beyond the end": (b"{}", 3), "a huge header": (b"{}", 2**32 - 1), "no header": (b"", 0),
    "not JSON": (b"{'a': 1}", None), "not ASCII": ('{"é": 1}'.encode(), None),
    "two values": (fields() + b"1", None), "a list": (b"[]", None), "a number": (b"1", None),
    "a number too long": (b'{"key": ' + b"1" * 5000 + b"}", None),
    "brackets": (b"[" * 100_000, None), "no key": (fields(key=...), None), "another field": (fields(more=1), None),
    "a key too short": (fields(key=KEY[:-1]), None),
    "an upper-case key": (fields(key=KEY.upper()), None), "a path": (fields(name=f"../x_{KEY[:16]}"), None),
    "another name": (fields(name="add_0123456789abcdef"), None),
    "a long name": (fields(name=f"{'a' * 300}_{KEY[:16]}"), None), "an unknown kind": (fields(kind="python"), None),
    "a name too few": (fields(names=["f"]), None),
    "a text with functions": (fields(kind="text"), None), "names that are none": (fields(names=[1, None]), None),
    "no parts": (fields(parts=[]), None),
    "a negative size": (fields(parts=[[-4, []], [8, []]]), None),
    "a size of zero": (fields(parts=[[0, []], [4, []]]), None), "a huge size": (fields(parts=[[2**70, []]]), None),
    "a part too long": (fields(parts=[[5, []]]), None), "a part too short": (fields(parts=[[3, []]]), None),
    "a size that is true": (fields(parts=[[True, []]] * 4), None),
    "a size that is a float": (fields(parts=[[4.0, []]]), None), "a part without names": (fields(parts=[[4]]), None),
    "a part that is a dict": (fields(parts=[{"0": 4, "1": []}]), None),
    "NaN for a size": (fields(parts=[[float("nan"), []]]), None),
    "names of a part that are text": (fields(parts=[[4, "f"]]), None),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_headers_are_malformed(case):
    """Also where digest and seal are right, as in a pack."""
    header, length = HOSTILE[case]
    for secret in (None, SECRET):
        with pytest.raises(Malformed):
            parse(rebuilt(header, b"code", length, secret), secret)
    assert parse(rebuilt(fields(), b"code")).parts == ((b"code", ("f",)),)


def test_an_entry_that_is_too_large_is_neither_written_nor_read(monkeypatch):
    data = dump(CODE)
    monkeypatch.setattr(entry, "MAX_ENTRY_BYTES", len(data) - 1)
    with pytest.raises(Malformed, match="larger"):
        dump(CODE)
    with pytest.raises(Malformed, match="larger"):
        parse(data)


def mutated(rng: random.Random, data: bytes) -> bytes:
    """The bytes with some bits flipped, a piece removed, repeated or replaced, or the digest made right again after a
    change of header or length.
    """
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        start, count = rng.randrange(len(data)), rng.choice((1, 2, 4, 32))
        way = rng.randrange(5)
        if way == 0:
            data[start] ^= 1 << rng.randrange(8)
        elif way == 1:
            del data[start : start + count]
        elif way == 2:
            data[start:start] = data[start : start + count]
        elif way == 3:
            data[start : start + count] = rng.choice(
                (b"\0", b"\xff", b"[", b'"', b"9", b"-1", b"null", b"1e9", b"\\u0000")
            ) * rng.choice((1, count))
        else:
            data[80:84] = rng.choice((0, 1, len(data), 2**31, 2**32 - 1, rng.randrange(1000))).to_bytes(4, "little")
        data = data or bytearray(b"\0")
    return bytes(data)


def with_digest(data: bytes) -> bytes:
    return data[:48] + hashlib.sha256(data[80:]).digest() + data[80:]


def check_mutations(count: int, seed: int = 37) -> tuple[int, int]:
    """How many of so many changed entries are valid in a pack, which has no seals, and how many are not."""
    rng = random.Random(seed)
    originals = [dump(code, SECRET) for code in (CODE, TEXT)]
    accepted = 0
    for _ in range(count):
        original = rng.choice(originals)
        data = mutated(rng, original)
        if data != original:
            with pytest.raises(Malformed):
                parse(data, SECRET)
        try:  # as in a pack, which has no seals
            result = parse(with_digest(data))
        except Malformed:
            continue
        accepted += 1
        assert (
            result.file.endswith(".kernel")
            and "/" not in result.file
            and sum(len(part) for part, _ in result.parts) < len(data)
        )
    assert 0 < accepted < count
    return accepted, count - accepted


def test_mutations():
    check_mutations(QUICK)


@pytest.mark.fuzz
def test_many_mutations():
    tracemalloc.start()
    start = time.perf_counter()
    try:
        check_mutations(FULL)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    print(f"{FULL} entries in {time.perf_counter() - start:.0f} s")
