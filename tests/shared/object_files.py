"""What object files need and hold, read from their bytes: ELF, COFF, Mach-O."""

from __future__ import annotations

import struct

ELF, COFF, MACH_O = b"\x7fELF", b"\x64\x86", b"\xcf\xfa\xed\xfe"


def undefined_and_writable(code: bytes) -> tuple[set[str], set[str]]:
    """The names that an object file takes from others, and its sections that can be written and are not empty."""
    read = next(read for start, read in ((ELF, _elf), (COFF, _coff), (MACH_O, _mach_o)) if code.startswith(start))
    return read(code)


def _name(code: bytes, start: int) -> str:
    return code[start : code.index(b"\0", start)].decode()


def _elf(code: bytes) -> tuple[set[str], set[str]]:
    wide = code[4] == 2
    (start,) = struct.unpack_from("<Q" if wide else "<I", code, 40 if wide else 32)
    entry, count, names = struct.unpack_from("<HHH", code, 58 if wide else 46)
    sections = [struct.unpack_from("<IIQQQQIIQQ" if wide else "<10I", code, start + k * entry) for k in range(count)]
    writable = {
        _name(code, sections[names][4] + section[0]) for section in sections if section[2] & 3 == 3 and section[5]
    }
    undefined = set()
    for _, kind, _, _, offset, size, link, _, _, step in sections:
        for position in range(offset, offset + size, step) if kind == 2 else ():
            (name,), (section,) = struct.unpack_from("<I", code, position), struct.unpack_from("<H", code, position + (6 if wide else 14))  # fmt: skip
            if name and not section:
                undefined.add(_name(code, sections[link][4] + name))
    return undefined, writable


def _coff(code: bytes) -> tuple[set[str], set[str]]:
    count, _, symbols, number = struct.unpack_from("<HIII", code, 2)
    strings, writable, undefined, k = symbols + 18 * number, set(), set(), 0
    for position in range(20, 20 + 40 * count, 40):
        size, flags = *struct.unpack_from("<I", code, position + 16), *struct.unpack_from("<I", code, position + 36)
        if flags & 0x80000000 and size:
            writable.add(code[position : position + 8].rstrip(b"\0").decode())
    while k < number:
        symbol_start = symbols + 18 * k
        zero, offset, value, section, _, kind, more = struct.unpack_from("<IIIhHBB", code, symbol_start)
        if kind == 2 and section == 0 and value == 0:
            undefined.add(
                code[symbol_start : symbol_start + 8].rstrip(b"\0").decode() if zero else _name(code, strings + offset)
            )
        k += 1 + more
    return undefined, writable


def _mach_o(code: bytes) -> tuple[set[str], set[str]]:
    (commands,), position, undefined, writable = struct.unpack_from("<I", code, 16), 32, set(), set()
    for _ in range(commands):
        command, size = struct.unpack_from("<II", code, position)
        if command == 0x19:
            for section in range(
                position + 72, position + 72 + 80 * struct.unpack_from("<I", code, position + 64)[0], 80
            ):
                if code[section + 16 : section + 22] == b"__DATA" and struct.unpack_from("<Q", code, section + 40)[0]:
                    writable.add(code[section : section + 16].rstrip(b"\0").decode())
        if command == 2:
            symbols, number, strings, _ = struct.unpack_from("<4I", code, position + 8)
            for symbol in range(symbols, symbols + 16 * number, 16):
                name, kind = struct.unpack_from("<IB", code, symbol)
                if kind & 1 and not kind & 0x0E:
                    undefined.add(_name(code, strings + name))
        position += size
    return undefined, writable
