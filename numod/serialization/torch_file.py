"""PyTorch checkpoints, read without PyTorch: zip archives of `torch.save`, and the format before version 1.6.

This file handles only the layout of the files: `pickle_reader` interprets the pickle, `torch_objects` defines what it
may contain.

Security. Reading a file reads its own bytes and creates tensors on the device that `map_location` allows, with memory
proportional to the file's size. Members of an archive are read in place, uncompressed; they are never extracted. Names
of members and storages are looked up, not opened. A tensor reads only elements of its own storage. With
`weights_only=False` (`trusted`) the pickle can run any code.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.convert.storages import TypedStorage
from ..core.tensor import Tensor
from .pickle_reader import Call, PickleReader
from .placement import Placement, flat_tensor
from .refusal import refuse, shorten
from .source import Front, Source
from .torch_objects import TENSOR_FUNCTIONS, Stored, StorageType, build, find_global, is_index
from .trusted import TrustedReader

ZIP_START = b"PK\x03\x04"
# in the first bytes: the end of the pickled magic number of the legacy format
LEGACY_MARK = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_LEGACY_VERSION = 1001
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # local file header: signature, lengths of the name and of the extra field
_ZIP_ERRORS = (
    zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError, OverflowError, EOFError, LookupError,
    struct.error,
)  # fmt: skip


class Archive:
    """A zip file whose members are read in place: nothing is extracted, and no path in it is opened."""

    def __init__(self, source: Source) -> None:
        self.source, self.end = source, source.end
        members = self._list()
        # an archive in front of another one in the same file ends where the later one begins
        while members and source.start < (begin := min(member.header_offset for member in members)) < self.end:
            self.end, members = begin, self._list(begin)
        self.members = {member.filename: member for member in members}
        if len(self.members) < len(members):
            refuse(source.name, "two members of the archive have the same name")
        if sum(member.file_size for member in members) > source.end:
            refuse(
                source.name,
                "its members would take more bytes than the file has; compressed and overlapping archives are not read",
            )
        self.root = self._root()

    def _list(self, end: int | None = None) -> list[zipfile.ZipInfo]:
        """The members of the archive that ends at byte `end` of the file, or at its end."""
        try:
            return zipfile.ZipFile(self.source.file if end is None else Front(self.source.file, end)).infolist()
        except _ZIP_ERRORS as error:
            refuse(
                self.source.name,
                f"it begins like a zip archive but is not one: {error}; the file is damaged or cut short",
            )

    def _root(self) -> str:
        """The folder that contains all records, whose name is arbitrary."""
        roots = [
            name.removesuffix("data.pkl")
            for name in self.members
            if name.endswith("/data.pkl") and name.count("/") == 1
        ]
        if any(name.startswith(f"{root}code/") for root in roots for name in self.members):
            refuse(
                self.source.name,
                "it is a TorchScript archive, which holds a program; save model.state_dict() with torch.save",
            )
        if len(roots) != 1:
            refuse(self.source.name, "it is a zip archive without a record 'data.pkl', so no PyTorch checkpoint")
        return roots[0]

    def __contains__(self, record: str) -> bool:
        return self.root + record in self.members

    def read(self, record: str) -> np.ndarray:
        """The bytes of a record. Raises CheckpointError if it is missing, compressed, encrypted or damaged."""
        member = self.members.get(self.root + record)
        name = self.source.name
        if member is None:
            refuse(name, f"the archive has no record {shorten(record)}")
        if (
            member.compress_type != zipfile.ZIP_STORED
            or member.flag_bits & 1
            or member.compress_size != member.file_size
        ):
            refuse(
                name,
                f"the record {shorten(record)} is compressed or encrypted; torch.save stores records uncompressed, as "
                "zip -0 does",
            )
        signature, *lengths = _LOCAL_HEADER.unpack(
            self.source.bytes_at(member.header_offset, _LOCAL_HEADER.size).tobytes()
        )
        if signature != ZIP_START:
            refuse(name, f"the record {shorten(record)} is not where the archive's list says")
        data = self.source.bytes_at(member.header_offset + _LOCAL_HEADER.size + sum(lengths), member.file_size)
        # PyTorch writes 0 if checksums are disabled
        if member.CRC and not self.source.mapped and zlib.crc32(data) != member.CRC:
            refuse(name, f"the record {shorten(record)} is damaged: its checksum does not match")
        return data


def read_archive(source: Source, to_device: Placement, trusted: bool = False) -> Any:
    """The object in a zip checkpoint. If `trusted`, the pickle may run any code."""
    archive = Archive(source)
    byte_order = archive.read("byteorder").tobytes().decode("ascii", "replace") if "byteorder" in archive else "little"
    if byte_order not in ("little", "big"):
        refuse(source.name, f"the byte order {shorten(byte_order)} is neither 'little' nor 'big'")

    def read(key: str, stored: Stored) -> Tensor:
        raw = archive.read(f"data/{key}")
        if len(raw) != stored.count * stored.kind.kind.itemsize:
            raise ValueError(
                f"its storage has {len(raw)} bytes, where {stored.count} elements of {stored.kind.name} are announced"
            )
        return to_device(flat_tensor(raw, stored.kind.kind, byte_order), stored.location)

    value = _read_pickle(
        archive.read("data.pkl").tobytes(),
        0,
        _Storages(read),
        source,
        reader=TrustedReader if trusted else PickleReader,
    )[0]
    source.leave_at(archive.end)
    return value


def read_legacy(source: Source, to_device: Placement) -> Any:
    """The object in a checkpoint from before PyTorch 1.6.

    It consists of several pickles, the last one a list of storages, followed by the storages' bytes. The main pickle is
    read twice: first without tensors to find the storages' types, then again when their positions are known.
    """
    data = bytearray(source.bytes_at(source.start, source.end - source.start))
    types, position = _Storages(lambda *_: None, False), 0
    for expected in (None, _LEGACY_VERSION, None):  # magic number, protocol version, system information
        value, position = _read_pickle(data, position, types, source)
        if expected is not None and (type(value) is not int or value != expected):
            refuse(source.name, "it has an unknown version of the format from before PyTorch 1.6")
    _, keys_begin = _read_pickle(data, position, types, source, _find_all_but_tensors)
    keys, storages_begin = _read_pickle(data, keys_begin, types, source)
    contents, end = _legacy_places(keys, data, storages_begin, types.by_key, source)

    def read(key: str, stored: Stored) -> Tensor:
        if key not in contents:
            raise ValueError(f"the file has no storage {shorten(key)}")
        return to_device(flat_tensor(contents[key].copy(), stored.kind.kind), stored.location)

    value = _read_pickle(data, position, _Storages(read), source)[0]
    source.leave_at(source.start + end)
    return value


def _legacy_places(
    keys: object, data: bytearray, position: int, by_key: dict[str, Stored], source: Source
) -> tuple[dict[str, np.ndarray], int]:
    """(bytes by storage, end position). For each storage the file has a count of elements and the elements."""
    contents: dict[str, np.ndarray] = {}
    for key in keys if type(keys) is list else refuse(source.name, "the list of storages is not a list"):
        stored = by_key.get(key) if type(key) is str else None
        if stored is None or stored.kind.kind is None or key in contents:
            refuse(
                source.name,
                f"the storage {shorten(key)} is not used by any tensor, or has a dtype that numod does not support",
            )
        begin, size = position + 8, stored.count * stored.kind.kind.itemsize
        if begin + size > len(data) or int.from_bytes(data[position:begin], "little") != stored.count:
            refuse(
                source.name,
                f"the storage {shorten(key)} does not have the announced {stored.count} elements; the file is cut "
                "short or damaged",
            )
        contents[key] = np.frombuffer(data, np.uint8, size, begin)
        position = begin + size
    return contents, position


def _find_all_but_tensors(module: str, name: str) -> object:
    """`find_global`, but with None for tensors. Unsupported dtypes still raise."""
    global_ = find_global(module, name)
    is_tensor = f"{module}.{name}" in TENSOR_FUNCTIONS
    return (
        Call(name, lambda storage=None, *_: storage.values if isinstance(storage, Stored) else None)
        if is_tensor
        else global_
    )


def _read_pickle(
    data: bytes | bytearray,
    position: int,
    storages: _Storages,
    source: Source,
    find: Callable = find_global,
    reader: type = PickleReader,
) -> tuple[Any, int]:
    """(object, end) of the pickle at `position`. Errors are raised as CheckpointErrors with the file's name."""
    machine = reader(data, find, storages.find, build, position)
    try:
        value = machine.read()
    except ValueError as error:
        refuse(source.name, f"its pickle, {error}")
    if isinstance(value, (Call, StorageType)):
        refuse(source.name, "it contains a class or function of PyTorch, not data")
    return value, machine.position


class _Storages:
    """The storages that a pickle refers to, one object per key, so that tied tensors stay tied.

    Without `values`, only their descriptions.
    """

    def __init__(self, read: Callable[[str, Stored], Tensor], values: bool = True) -> None:
        self.read, self.by_key, self.with_values = read, {}, values

    def find(self, identity: object) -> TypedStorage | Stored:
        """The storage for a persistent id, ("storage", type, key, location, number of elements), or ValueError."""
        if (
            type(identity) is not tuple
            or len(identity) not in (5, 6)
            or type(identity[0]) is not str
            or identity[0] != "storage"
        ):
            raise ValueError("a persistent id that is not a storage")
        _, kind, key, location, count, *view = identity
        if any(part is not None for part in view):
            raise ValueError("a storage that is a view of another, as before PyTorch 0.4")
        if not (isinstance(kind, StorageType) and type(key) is str and type(location) is str and is_index(count)):
            raise ValueError("a storage that lacks its type, key, device or size")
        storage = self.by_key.get(key)
        if storage is None:
            storage = self.by_key[key] = Stored(kind, count, location, lambda stored: self.read(key, stored))
        if (storage.kind, storage.count, storage.location) != (kind, count, location):
            raise ValueError(f"the storage {shorten(key)} is described in two ways")
        return storage.object if self.with_values else storage
