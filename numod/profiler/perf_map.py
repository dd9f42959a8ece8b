"""Symbols for Linux `perf`: a map file with the names and addresses of compiled kernels."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterable

from ..device import code_library
from ..device.division import LOOP_PREFIX
from ..kernel import build

_ASSUMED_SIZE = 1 << 16  # assumed size in bytes of a function that is not closely followed by another


def write_perf_map(path: str | None = None) -> str:
    """Write the addresses of all kernels of this process, and return the file's name.

    Call it at the end of the program that `perf record` runs. The default path is the one that `perf` reads:
    /tmp/perf-<process>.map. Lines are `begin size name`, with hexadecimal numbers.
    """
    path = path or f"/tmp/perf-{os.getpid()}.map"
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{begin:x} {size:x} {name}\n" for begin, size, name in functions(build.kernels()))
    return path


def functions(kernels: Iterable[build.Kernel]) -> list[tuple[int, int, str]]:
    """(address, maximum size, name) of all functions of kernels, sorted by address.

    They include outlined loops, helpers, Python wrappers and functions that kernels share.
    """
    symbols = sorted({address: name for kernel in kernels for address, name in _named_addresses(kernel)}.items())
    ends = [address for address, _ in symbols[1:]] + [symbols[-1][0] + _ASSUMED_SIZE] if symbols else []
    ranges = _executable()
    lows = [low for low, _ in ranges]
    # the end of the range that may contain the function
    range_ends = [ranges[bisect_right(lows, begin) - 1][1] if ranges else 0 for begin, _ in symbols]
    sizes = [
        min(end - begin, _ASSUMED_SIZE, high - begin if high > begin else _ASSUMED_SIZE)
        for (begin, _), end, high in zip(symbols, ends, range_ends)
    ]
    return [(begin, size, name) for (begin, name), size in zip(symbols, sizes)]


def _named_addresses(kernel: build.Kernel) -> list[tuple[int, str]]:
    symbols = [(symbol, f"numod::{kernel.name}{_role(symbol, kernel.name)}") for symbol in kernel.symbols]
    addresses = [
        (code_library.address(symbol_), name)
        for symbol_, name in [*symbols, *((symbol_, f"numod::{_plain(symbol_)}") for symbol_ in kernel.shared)]
    ]
    return [(address, name) for address, name in addresses if address]


def _role(mangled: str, kernel: str) -> str:
    """The role of a kernel's function: " (wrapper)", " (a thread's part)", or a helper's name; "" for the kernel."""
    if kernel in mangled:
        return " (wrapper)" if "cpython" in mangled else ""
    if LOOP_PREFIX in mangled or mangled.startswith("share"):
        return " (a thread's part)"
    return f" ({_plain(mangled)})"


def _plain(mangled: str) -> str:
    """A function's name in Python."""
    rest, name = mangled.removeprefix("_ZN"), mangled
    while length := re.match(r"\d+", rest):  # parts of a mangled name are preceded by their length
        end = length.end() + int(length[0])
        name, rest = rest[length.end() : end], rest[end:]
    return name.removeprefix("numod_")


def _executable() -> list[tuple[int, int]]:
    """The executable memory ranges in order, if the system lists them."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as file:
            fields = [line.split() for line in file]
    except OSError:
        return []
    return [tuple(int(word, 16) for word in field[0].split("-")) for field in fields if "x" in field[1]]
