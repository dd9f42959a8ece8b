"""The format of a compiled kernel, in a file of the cache or in a pack.

It is plain data: nothing runs while it is read.

    16 bytes  MAGIC, which ends in the number of the format
    32 bytes  seal: HMAC-SHA256 of all that follows, with the key of the cache folder (`kernel.seal`); zeros without one
    32 bytes  digest: SHA-256 of all that follows
     4 bytes  length of the header, little-endian
              header: a JSON object in ASCII with exactly the fields of `_FIELDS`
              the bytes of the parts, one after another, up to the end of the entry

A part is an object file for the CPU, with the functions that it defines, or the PTX text of a kernel for CUDA. `key`
identifies source, signature, flags, versions and processor (`kernel.build`), so an entry can be found by its key alone.
An entry does not depend on its place: a pack can hold entries one after another with an index of (key, start, length),
map the file, and call `parse` with a slice. A pack has no seals: `kernel.trust` decides whether to use it.

`parse` checks the seal, or the digest where no secret is given, before it reads anything else. It checks every length
against the available bytes, and raises Malformed for anything else. An entry can make its
reader hash its bytes (at most MAX_ENTRY_BYTES), and decode a JSON text of at most _HEADER_LIMIT bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from typing import NamedTuple

MAGIC = b"numod kernel\0\0\0\1"
SUFFIX = ".kernel"
MAX_ENTRY_BYTES = 64 << 20  # bytes of an entry; the largest known is 0.1 MB
_HEADER_LIMIT = 1 << 20
_NAME_LIMIT = 255 - 48 - len("_.kernel")  # a file name has at most 255 bytes
_START = 80  # the position from which the digest covers the entry
_NO_SEAL = bytes(32)
_FIELDS = {"kind": str, "key": str, "name": str, "signature": str, "version": str, "names": list, "parts": list}
_decode = json.JSONDecoder().raw_decode


class Malformed(ValueError):
    """The bytes are not an entry, or not one with a valid seal. The message is the reason."""


class Entry(NamedTuple):
    """A compiled kernel.

    `kind` is "code" or "text", `version` that of numod. `names` are the function that Python calls and the variable for
    its environment, or nothing for a text. `parts` are (bytes, names of the functions defined).
    """

    kind: str
    key: str
    name: str
    signature: str
    version: str
    names: tuple[str, ...]
    parts: tuple[tuple[bytes, tuple[str, ...]], ...]

    @property
    def file(self) -> str:
        """The entry's file name in a cache folder."""
        return file_name(self.name, self.key)


def file_name(name: str, key: str) -> str:
    """The file of the kernel `name`, which ends in the first 16 digits of its key."""
    return f"{name}_{key[16:]}{SUFFIX}"


def dump(entry: Entry, secret: bytes | None = None) -> bytes:
    """The entry as bytes, sealed with `secret` if one is given. Raises Malformed if it is too large."""
    fields = {name: getattr(entry, name) for name in _FIELDS}
    header = json.dumps({**fields, "parts": [(len(data), functions) for data, functions in entry.parts]}).encode()
    body = b"".join([len(header).to_bytes(4, "little"), header, *(data for data, _ in entry.parts)])
    if len(header) > _HEADER_LIMIT or _START + len(body) > MAX_ENTRY_BYTES:
        raise Malformed(f"it is larger than {MAX_ENTRY_BYTES >> 20} MB, or its header than {_HEADER_LIMIT >> 20} MB")
    sealed = hashlib.sha256(body).digest() + body
    return MAGIC + (hmac.digest(secret, sealed, "sha256") if secret else _NO_SEAL) + sealed


def parse(data: bytes | memoryview, secret: bytes | None = None) -> Entry:
    """The entry that `data` holds. With a `secret` it must be sealed with it. Raises Malformed, and nothing else."""
    view = memoryview(data)
    start = bytes(view[: _START + 4])
    if len(start) < _START + 4 or not start.startswith(MAGIC):
        raise Malformed("it is not an entry of this format")
    if len(view) > MAX_ENTRY_BYTES:
        raise Malformed(f"it is larger than {MAX_ENTRY_BYTES >> 20} MB")
    if secret is None or not hmac.compare_digest(hmac.digest(secret, view[48:], "sha256"), start[16:48]):
        if not hmac.compare_digest(hashlib.sha256(view[_START:]).digest(), start[48:_START]):
            raise Malformed("it is damaged")
        if secret is not None:
            raise Malformed("it is not sealed with this folder's key")
    end = _START + 4 + int.from_bytes(start[_START:], "little")
    if end > min(len(view), _START + 4 + _HEADER_LIMIT):
        raise Malformed("its header is longer than the entry")
    return _entry(_header(bytes(view[_START + 4 : end])), view[end:])


def version_of(start: bytes) -> str | None:
    """The version in the first bytes of an entry, which may be cut off; None if it is not an entry."""
    match = re.search(rb'"version": "([^"]*)"', start[_START + 4 :]) if start.startswith(MAGIC) else None
    return match[1].decode("ascii", "replace") if match else None


def _header(text: bytes) -> dict:
    """The header's fields, each with the right type."""
    try:
        header, end = _decode(text.decode("ascii"))
    except (ValueError, RecursionError):  # not ASCII, not JSON, an integer with too many digits, or too many brackets
        raise Malformed("its header is not JSON") from None
    if end != len(text) or type(header) is not dict or {name: type(value) for name, value in header.items()} != _FIELDS:
        raise Malformed("its header has other fields")
    return header


def _entry(header: dict, data: memoryview) -> Entry:
    key, name, names = header["key"], header["name"], header["names"]
    is_key = len(key) == 64 and not key.strip("0123456789abcdef")
    if not (is_key and name.isidentifier() and name.endswith(f"_{key[:16]}") and len(name.encode()) <= _NAME_LIMIT):
        raise Malformed("its name and its key do not fit")
    parts = _parts(header["parts"], data)
    if not (_are_strings(names) and (header["kind"], len(names)) in (("code", 2), ("text", 0)) and parts):
        raise Malformed("its kind and its names do not fit")
    return Entry(header["kind"], key, name, header["signature"], header["version"], tuple(names), parts)


def _parts(sizes: list, data: memoryview) -> tuple[tuple[bytes, tuple[str, ...]], ...]:
    """Divide `data` as the header says. It must be used up."""
    parts, start = [], 0
    for size in sizes:
        if not (
            type(size) is list
            and len(size) == 2
            and type(size[0]) is int
            and 0 < size[0] <= len(data) - start
            and _are_strings(size[1])
        ):
            raise Malformed("a part is longer than the entry, or has no size or names")
        parts.append((bytes(data[start : start + size[0]]), tuple(size[1])))
        start += size[0]
    if start != len(data):
        raise Malformed("it is longer than its parts")
    return tuple(parts)


def _are_strings(value: object) -> bool:
    return type(value) is list and {*map(type, value)} <= {str}
