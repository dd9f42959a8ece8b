"""Archives of kernels: allowed contents; hostile archives use little memory and no disk, and write nothing.

The damaged archives take two seconds by default; `-m fuzz` makes 5,000 in a minute.
"""

import contextlib
import gzip
import hashlib
import io
import random
import tarfile
import time
import tracemalloc
import warnings

import pytest

from numod.kernel import archive as archives
from numod.kernel import seal, store, trust
from numod.kernel.entry import MAX_ENTRY_BYTES, Entry, dump, parse

QUICK, FULL = 400, 5_000


def sample(number: int, size: int = 100) -> Entry:
    key = hashlib.sha256(b"%d" % number).hexdigest()
    return Entry("code", key, f"add_{key[:16]}", "float32[]", "1", ("f", "g"), ((bytes([number]) * size, ("f",)),))


ENTRIES = [sample(number) for number in range(3)]


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Two cache folders, `mine` and `theirs`, and in the second some entries."""
    monkeypatch.setattr(trust, "_open_folder", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir(mode=0o700)
    fill(tmp_path / "theirs")
    return tmp_path


def fill(path, entries=ENTRIES):
    with trust.Folder(str(path), make=True) as folder:
        for entry in entries:
            folder.write(entry.file, dump(entry, seal.make(folder)))


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != seal.NAME)


def test_entries_of_another_folder_are_accepted_by_hand_and_sealed_anew(root):
    assert store.pack("a.tar.gz", "theirs") == 3
    assert store.unpack("a.tar.gz", "mine") == (0, 3) and names(root / "mine") == []
    assert store.unpack("a.tar.gz", "theirs") == (3, 0)  # its own
    assert store.unpack("a.tar.gz", "mine", trust=True) == (3, 0) and names(root / "mine") == names(root / "theirs")
    secret = (root / "mine" / seal.NAME).read_bytes()
    assert sorted(parse(path.read_bytes(), secret) for path in (root / "mine").glob("*.kernel")) == sorted(ENTRIES)


def test_an_archive_has_no_key_and_only_valid_entries(root):
    (root / "theirs" / ENTRIES[0].file).write_bytes(dump(ENTRIES[0]))  # planted
    (root / "theirs" / "other.kernel").write_bytes(b"something")
    assert store.pack("a.tar.gz", "theirs") == 2
    with tarfile.open("a.tar.gz") as archive:
        assert sorted(archive.getnames()) == sorted(f"{entry.key}.kernel" for entry in ENTRIES[1:])


def test_folders_that_others_can_write_to_are_neither_packed_nor_filled(root):
    store.pack("a.tar.gz", "theirs")
    for name in ("mine", "theirs"):
        (root / name).chmod(0o777)
    with pytest.raises(PermissionError, match="other users can write"):
        store.pack("b.tar.gz", "theirs")
    with pytest.raises(PermissionError, match="other users can write"):
        store.unpack("a.tar.gz", "mine", trust=True)
    assert sorted(path.name for path in root.iterdir()) == ["a.tar.gz", "mine", "theirs"]


def test_an_archive_made_with_tar(root):
    """Names as in a folder, times with fractions, and names too long for a plain header:

    `tarfile` writes extended headers for them.
    """
    long = sample(9)._replace(name=f"{'long_' * 20}{sample(9).key[:16]}")
    fill(root / "theirs", [long])
    with tarfile.open("a.tar.gz", "w:gz") as archive:
        for path in (root / "theirs").glob("*.kernel"):
            archive.add(path, path.name)
    assert store.unpack("a.tar.gz", "theirs") == (4, 0) and store.unpack("a.tar.gz", "mine", trust=True) == (4, 0)


# ---- hostile archives


def member(
    name="a.kernel", data=b"", size=None, kind=tarfile.REGTYPE, target="", headers=None, form=tarfile.USTAR_FORMAT
) -> bytes:
    """A header, and the data with what fills the last block. The size may be another than that of the data."""
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(data) if size is None else size, kind, target
    info.pax_headers = headers or {}
    return info.tobuf(form) + data + bytes(-len(data) % 512)


def with_type(block: bytes, kind: bytes) -> bytes:
    block = bytearray(block)
    block[156:157], block[148:156] = kind, b" " * 8
    block[148:156] = b"%06o\0 " % sum(block[:512])
    return bytes(block)


GOOD = member(ENTRIES[0].file[-70:], dump(ENTRIES[0]))
END = bytes(1024)
PAX = tarfile.PAX_FORMAT
HOSTILE = {
    "above": (member("../outside.kernel"), "'../outside.kernel' is not a kernel's file"),
    "absolute": (member("/tmp/absolute.kernel"), "absolute.kernel' is not"),
    "in a folder": (member("sub/a.kernel"), "'sub/a.kernel' is not"),
    "in a folder, by prefix": (member("p" * 90 + "/" + "a" * 60 + ".kernel"), "is in a folder"),
    "another file": (member("script.py", b"1"), "'script.py' is not"),
    "the key": (member("seal.key", bytes(32)), "'seal.key' is not"), "hidden": (member(".kernel"), "'.kernel' is not"),
    "backslash": (member("..\\a.kernel"), "is not a kernel's file"), "drive": (member("C:a.kernel"), "is not"),
    "newline": (member("a\nb.kernel"), r"'a\\nb.kernel' is not"),
    "full-width": (member("\uff0e\uff0e\uff0fa.kernel"), r"\\uff0e"),
    "right to left": (member("a\u202ek.kernel"), r"\\u202e"),
    "not UTF-8": (member("x" * 8).replace(b"x" * 8, b"\xff.kernel", 1), "damaged|is not"),
    "another ending": (member("a.kernel.exe"), "is not"),
    "link": (member("a.kernel", kind=tarfile.SYMTYPE, target="/etc/passwd"), "'a.kernel' is a link"),
    "hard link": (member("a.kernel", kind=tarfile.LNKTYPE, target="b.kernel"), "is a link"),
    "device": (member("a.kernel", kind=tarfile.CHRTYPE), "device"),
    "pipe": (member("a.kernel", kind=tarfile.FIFOTYPE), "device"),
    "folder": (member("a.kernel", kind=tarfile.DIRTYPE), "a folder|is not"),
    "twice": (GOOD + GOOD, "twice"),
    "old sparse": (member("a.kernel", kind=tarfile.GNUTYPE_SPARSE), "is a link, a folder or a device"),
    "sparse": (member("a.kernel", headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}, form=PAX),
        "GNU.sparse.major"),
    "another size": (member("a.kernel", headers={"size": "9"}, form=PAX), "'size'"),
    "another path": (member("a.kernel", headers={"path": "../b.kernel"}, form=PAX), "'../b.kernel' is not"),
    "long name of GNU tar": (member("a" * 120 + ".kernel", form=tarfile.GNU_FORMAT),
        "is a link, a folder or a device"),
        "global header": (with_type(member("g", b"11 path=a\n\n"), b"g"), "is a link"),
    "broken extended header": (with_type(member("x", b"99 path=a\n"), b"x"), "extended header is damaged"),
    "extended header of gigabytes": (with_type(member("x", size=6 * 10**9), b"x"), "more than|6000000000"),
    "large extended header": (with_type(member("x", size=10**6), b"x"), "at most 65536"),
    "too large": (member("a.kernel", size=3 * 10**9), "'a.kernel' has 3000000000 bytes"),
    "a little too large": (member("a.kernel", size=MAX_ENTRY_BYTES + 1), "'a.kernel' has"),
    "a size beyond 8 GB": (member("a.kernel", size=2**40, form=tarfile.GNU_FORMAT), "damaged"),
    "a negative size": (member("a.kernel", size=-512, form=tarfile.GNU_FORMAT), "damaged"),
    "empty": (member("a.kernel"), "'a.kernel' in .* is not a kernel"),
    "not a kernel": (member("a.kernel", b"1234"), "'a.kernel' in .* is not a kernel"),
    "cut": (member("a.kernel", b"12", size=6000), "ends too early"),
    "bad checksum": (b"b" + GOOD[1:], "damaged"),
    "after a good one": (GOOD + member("../b.kernel"), "'../b.kernel' is not"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_archives_are_refused_and_write_nothing(root, case):
    content, match = HOSTILE[case]
    (root / "a.tar.gz").write_bytes(gzip.compress(content + END))
    with pytest.raises(ValueError, match=match):
        store.unpack("a.tar.gz", "mine", trust=True)
    assert names(root / "mine") == [] and sorted(path.name for path in root.iterdir()) == [
        "a.tar.gz",
        "mine",
        "theirs",
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive",
        b"\x1f\x8b",
        b"\x1f\x8b\x08\x00broken",
        gzip.compress(b""),
        gzip.compress(b"text" * 1000),
        gzip.compress(GOOD),
        gzip.compress(GOOD + END)[:-40],
    ],
    ids=range(8),
)
def test_files_that_are_not_archives_are_refused(root, content):
    (root / "a.tar.gz").write_bytes(content)
    with pytest.raises(ValueError, match="a.tar.gz is not an archive of kernels"):
        store.unpack("a.tar.gz", "mine", trust=True)
    assert names(root / "mine") == []


def test_bombs_take_no_memory(root, monkeypatch):
    """Entries without end, extended headers without end, and a file of zeros."""
    monkeypatch.setattr(archives, "_MAX_BYTES", 5_000_000)
    monkeypatch.setattr(archives, "_MAX_MEMBERS", 100)
    big = [member(f"{number}.kernel", dump(sample(number, 100_000))) for number in range(60)]
    many = [member(f"{number}.kernel", dump(ENTRIES[0])) for number in range(101)]
    headers = [with_type(member("x", b"28 mtime=1234567890.1234567\n"), b"x")] * 201
    tracemalloc.start()
    try:
        for content, match in (
            (big, "more than"),
            (many, "more than"),
            (headers, "more than"),
            ([bytes(10_000_000)], None),
        ):
            (root / "a.tar.gz").write_bytes(gzip.compress(b"".join(content) + END, 1))
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            with pytest.raises(ValueError, match=match) if match else contextlib.nullcontext():
                store.unpack("a.tar.gz", "mine", trust=True)
            assert tracemalloc.get_traced_memory()[1] - before < 1_500_000
            assert names(root / "mine") == []
    finally:
        tracemalloc.stop()


def mutated(rng: random.Random) -> bytes:
    """An archive of some members with one changed byte, piece, or length; in half of the cases with right checksums, so
    that more than the first is read.
    """
    content = bytearray(b"".join(rng.choice(MEMBERS) for _ in range(rng.randrange(1, 4))) + END)
    for _ in range(rng.choice((1, 1, 3))):
        if len(content) < 512:
            break
        start = (
            rng.randrange(len(content))
            if rng.random() < 0.5
            else rng.randrange(len(content) // 512) * 512 + rng.choice((0, 124, 135, 148, 156, 157, 257, 345))
        )
        way = rng.randrange(4)
        if way == 0:
            content[start : start + 1] = bytes([rng.randrange(256)])
        elif way == 1:
            del content[start : start + rng.choice((1, 512, 1000))]
        elif way == 2:
            content[start:start] = content[start : start + rng.choice((1, 512, 2000))]
        else:
            content[start : start + 12] = rng.choice(
                (
                    b"77777777777\0",
                    b"00000000000\0",
                    b"00000000777\0",
                    b"\x80" + bytes(11),
                    b"\xff" * 12,
                    b"../../../../x",
                )
            )
    if rng.random() < 0.5:
        for start in range(0, len(content) - 511, 512):
            if content[start + 257 : start + 262] == b"ustar":
                content[start : start + 512] = with_type(
                    content[start : start + 512], content[start + 156 : start + 157]
                )
    data = gzip.compress(bytes(content), 1)
    if rng.random() < 0.3:
        position = rng.randrange(len(data))
        data = data[:position] + (
            b"" if rng.random() < 0.5 else bytes([data[position] ^ 1 << rng.randrange(8)]) + data[position + 1 :]
        )
    return data


MEMBERS = [member(f"{entry.key}.kernel", dump(entry)) for entry in ENTRIES] + [
    member("b" * 110 + ".kernel", dump(ENTRIES[0]), form=PAX),
    with_type(member("x", b"21 path=other.kernel\n"), b"x"),
]


def check_mutations(root, count: int, seed: int = 37) -> tuple[int, int]:
    """Each is refused, or what it writes are the entries that went in.

    Returns how many gave entries, and how many none.
    """
    rng, accepted = random.Random(seed), 0
    secret = None
    for _ in range(count):
        (root / "a.tar.gz").write_bytes(mutated(rng))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                accepted += bool(store.unpack("a.tar.gz", "mine", trust=True)[0])
            except ValueError:
                pass
        secret = secret or ((root / "mine" / seal.NAME).read_bytes() if (root / "mine" / seal.NAME).exists() else None)
        for path in (root / "mine").glob("*.kernel"):
            assert parse(path.read_bytes(), secret) in ENTRIES
            path.unlink()
        assert names(root / "mine") == []
    assert 0 < accepted < count and sorted(path.name for path in root.iterdir()) == ["a.tar.gz", "mine", "theirs"]
    return accepted, count - accepted


def test_damaged_archives(root):
    check_mutations(root, QUICK)


@pytest.mark.fuzz
def test_many_damaged_archives(root):
    start = time.perf_counter()
    check_mutations(root, FULL)
    print(f"{FULL} archives in {time.perf_counter() - start:.0f} s")


def test_members_are_read_one_at_a_time():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as target:
        for name in ("a.kernel", "b.kernel"):
            info = tarfile.TarInfo(name)
            info.size = 3
            target.addfile(info, io.BytesIO(b"123"))
    file.seek(0)
    result = archives._members(file)
    assert (
        next(result) == ("a.kernel", b"123")
        and file.tell() == 1024
        and next(result)[0] == "b.kernel"
        and list(result) == []
    )
