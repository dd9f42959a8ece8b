"""The header of a safetensors file, parsed and validated. `safetensors` reads the tensors' bytes.

A file consists of the header's length N (8 bytes, little endian), N bytes of JSON, and the tensors' bytes one after
another. The header maps each name to `{"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}`, with offsets
counted from the end of the header, and `__metadata__` to a map from string to string. Source:
https://github.com/huggingface/safetensors, section "Format".

Security. Files are untrusted: `read_header` checks every rule against the file's actual size before any tensor memory
is allocated. It parses the header entry by entry, with memory proportional to the header's length (100 MB at most).
Then `safetensors` reads the bytes of each tensor once. Tensors neither overlap nor leave gaps, so they take no more
memory than the file has bytes. No other path is opened, and no name is imported.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from .refusal import refuse, shorten
from .source import Source

_ZIP = b"PK\3\4"  # how a zip archive begins
MAX_HEADER_BYTES = 100_000_000
LENGTH = struct.Struct("<Q")
METADATA = "__metadata__"
_MAX_DIMENSIONS = 64  # NumPy's limit
_MAX_ENTRY_LENGTH = 1_000_000  # limit for the JSON text of a tensor; 64 dimensions need a thousandth of it
_MAX_BYTES = 2**63 - 1  # the largest size that the format and an index allow


class Format(NamedTuple):
    """An element type of the format: its bits, numod's name for the dtype, and the NumPy type that holds the bytes."""

    bits: int
    dtype: str | None = None
    numpy: str | None = None


# All codes of the format, so that sizes can be checked even for dtypes that numod does not have. NumPy has no bfloat16,
# so its bits are read as int16.
FORMATS = {
    "BOOL": Format(8, "bool", "|u1"),
    "U8": Format(8, "uint8", "|u1"),
    "I8": Format(8, "int8", "|i1"),
    "I16": Format(16, "int16", "<i2"),
    "I32": Format(32, "int32", "<i4"),
    "I64": Format(64, "int64", "<i8"),
    "F16": Format(16, "float16", "<f2"),
    "BF16": Format(16, "bfloat16", "<i2"),
    "F32": Format(32, "float32", "<f4"),
    "F64": Format(64, "float64", "<f8"),
    "U16": Format(16, "uint16", "<u2"),
    "U32": Format(32, "uint32", "<u4"),
    "U64": Format(64, "uint64", "<u8"),
    "C64": Format(64, "complex64", "<c8"),
    "F4": Format(4),
    "F6_E2M3": Format(6),
    "F6_E3M2": Format(6),
    "F8_E4M3": Format(8),
    "F8_E4M3FNUZ": Format(8),
    "F8_E5M2": Format(8),
    "F8_E5M2FNUZ": Format(8),
    "F8_E8M0": Format(8),
}
CODES = {row.dtype: code for code, row in FORMATS.items() if row.dtype}


# The pieces of a JSON object. The regular expressions have possessive quantifiers, so matching takes linear time.
_SPACE, _TEXT = r"[ \t\n\r]*+", r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRING = re.compile(_TEXT)
_OBJECT = re.compile(rf'\{{[^{{}}"]*+(?:{_TEXT}[^{{}}"]*+)*+\}}|null')
_BEGIN, _END = re.compile(r"\{"), re.compile(rf"{_SPACE}\}}{_SPACE}")
_NAME, _COMMA = re.compile(rf"{_SPACE}({_TEXT}){_SPACE}:{_SPACE}"), re.compile(rf"{_SPACE},")


class Entry(NamedTuple):
    """A tensor's entry in the header."""

    name: str
    code: str
    shape: tuple[int, ...]
    begin: int
    end: int


def is_unicode(text: str) -> bool:
    """Whether `text` can be encoded as UTF-8. Lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_header(source: Source) -> tuple[list[Entry], dict[str, str], int]:
    """Read and validate the header: (tensors in the order of their bytes, metadata, offset of the bytes)."""
    text, begin = _read_header_text(source)
    entries, metadata = _parse_header(text, source.name)
    entries.sort(key=lambda entry: (entry.begin, entry.end))
    _check_coverage(entries, source.end - begin, source.name)
    return entries, metadata, begin


def _read_header_text(source: Source) -> tuple[str, int]:
    """The text of a file's header, and the offset at which the data begins."""
    size, path = source.end - source.start, source.name
    if size < LENGTH.size:
        refuse(
            path,
            f"a safetensors file begins with 8 bytes, this one has only {size}"
            if size
            else "the file is empty; was its writing interrupted?",
        )
    start = source.bytes_at(source.start, LENGTH.size)
    if bytes(start[: len(_ZIP)]) == _ZIP:
        refuse(
            path,
            "it is a zip archive, as torch.save and PyTorch's exporters write, not a file of numod.save or "
            "numod.export.save; numod.load reads checkpoints of torch.save, and exported programs must be exported "
            "again by numod",
        )
    (length,) = LENGTH.unpack(start)
    if length > MAX_HEADER_BYTES:
        refuse(
            path,
            f"the header would have {length} bytes, and {MAX_HEADER_BYTES} is the most allowed; is it a safetensors "
            "file?",
        )
    if length > size - LENGTH.size:
        refuse(
            path, f"the header would have {length} bytes, but only {size - LENGTH.size} follow; the file is cut short"
        )
    begin = source.start + LENGTH.size
    try:
        return source.bytes_at(begin, length).tobytes().decode(), begin + length
    except UnicodeDecodeError as error:
        refuse(path, f"the header is not UTF-8 ({error.reason} at byte {error.start})")


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {shorten(repeated)} occurs twice")
    return result


_DECODER = json.JSONDecoder(object_pairs_hook=_without_duplicates, parse_constant=_no_constant)


def _parse_header(text: str, path: object) -> tuple[list[Entry], dict[str, str]]:
    """(tensors, metadata). Each entry is checked as soon as it is parsed, so that invalid input takes no memory."""
    entries, metadata = [], {}
    try:
        for name, value in _members(text, _OBJECT, "an object with dtype, shape and data_offsets"):
            if name == METADATA:
                metadata = _parse_metadata(value)
            else:
                entries.append(_checked_entry(name, _decoded_entry(name, value), path))
    except ValueError as error:
        refuse(path, f"the header is not valid: {error}")
    return entries, metadata


def _decoded_entry(name: str, value: str) -> object:
    if len(value) > _MAX_ENTRY_LENGTH:
        raise ValueError(f"the entry of {shorten(name)} has {len(value)} characters, more than any entry needs")
    try:
        return _DECODER.decode(value)
    except RecursionError:
        raise ValueError(f"the entry of {shorten(name)} is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"the entry of {shorten(name)}: {error}") from None


def _parse_metadata(value: str) -> dict[str, str]:
    if value == "null":
        return {}
    pairs = _members(value, _STRING, f"a string, since {METADATA} must map strings to strings,")
    return {name: _DECODER.decode(text) for name, text in pairs}


def _members(text: str, pattern: re.Pattern, expected: str) -> Iterator[tuple[str, str]]:
    """(name, value text) of the members of a JSON object. Raises ValueError if a value does not match `pattern`.

    Members are parsed one by one, since `json.loads` of a malicious 100 MB header would allocate thirty times its size.
    """
    names: set[str] = set()
    position = _match(_BEGIN, text, 0, "'{'").end()
    closing = _END.match(text, position)
    while not closing:
        start = _match(_NAME, text, position, "a name in quotes and a colon")
        name = _DECODER.decode(start[1])
        if name in names:
            raise ValueError(f"the key {shorten(name)} occurs twice")
        names.add(name)
        value = _match(pattern, text, start.end(), f"for {shorten(name)} {expected}")
        yield name, value[0]
        closing = _END.match(text, value.end())
        position = value.end() if closing else _match(_COMMA, text, value.end(), "',' or '}'").end()
    if closing.end() != len(text):
        raise ValueError(f"there is text after the closing brace, at character {closing.end()}")


def _match(pattern: re.Pattern, text: str, position: int, expected: str) -> re.Match:
    match = pattern.match(text, position)
    if match is None:
        raise ValueError(
            f"expected {expected} at character {position}, found {shorten(text[position : position + 20])}"
        )
    return match


def _checked_entry(name: str, value: object, path: object) -> Entry:
    """A tensor's entry of the header. Raises for an invalid one."""
    if not is_unicode(name):
        refuse(path, "the name is not valid Unicode", name)
    if not isinstance(value, dict) or not {"dtype", "shape", "data_offsets"} <= value.keys():
        refuse(path, f"expected an object with dtype, shape and data_offsets, got {shorten(value)}", name)
    code, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(code, str) or code not in FORMATS:
        refuse(path, f"unknown dtype {shorten(code)}; the format has {', '.join(FORMATS)}", name)
    if not _are_sizes(shape) or len(shape) > _MAX_DIMENSIONS:
        refuse(
            path,
            f"the shape must be a list of at most {_MAX_DIMENSIONS} non-negative integers, got {shorten(shape)}",
            name,
        )
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        refuse(path, f"data_offsets must be [begin, end] with 0 <= begin <= end, got {shorten(offsets)}", name)
    _check_byte_count(name, code, shape, offsets, path)
    return Entry(name, code, tuple(shape), *offsets)


def _are_sizes(values: object) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value <= _MAX_BYTES for value in values)


def _check_byte_count(name: str, code: str, shape: list[int], offsets: list[int], path: object) -> None:
    # also if a size is 0, since no array could have such strides
    if math.prod(size or 1 for size in shape) * 8 > _MAX_BYTES:
        refuse(path, f"the shape {shorten(shape)} is larger than any memory", name)
    bits = math.prod(shape) * FORMATS[code].bits
    if bits != 8 * (offsets[1] - offsets[0]):
        refuse(
            path,
            f"{code} of shape {shorten(shape)} takes {bits / 8:.12g} bytes, its data_offsets {offsets} give another "
            "size",
            name,
        )


def _check_coverage(entries: list[Entry], data_bytes: int, path: object) -> None:
    """Raise unless the tensors' bytes are contiguous: no gap, no overlap, nothing after the last tensor."""
    position = 0
    for entry in entries:
        if entry.begin != position:
            problem = "overlaps the one before" if entry.begin < position else "leaves a hole before it"
            refuse(
                path, f"it begins at byte {entry.begin} of the data and {problem}, which ends at {position}", entry.name
            )
        position = entry.end
    if position > data_bytes:
        refuse(
            path,
            f"it ends at byte {position} of the data, which has {data_bytes}; the file is cut short",
            entries[-1].name,
        )
    if position < data_bytes:
        refuse(path, f"{data_bytes - position} bytes at the end belong to no tensor")
