"""What Linux `perf` reads: maps of kernels, and jitdumps with their code."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import numod
import numod.nn.functional as F
from numod.device import code_library, cpu
from numod.kernel import build
from numod.kernel.divide import divided
from numod.profiler import JitDump, perf_map, write_perf_map


def test_a_map_names_kernels_for_perf(tmp_path: Path) -> None:
    numod.ones(100).exp()
    path = write_perf_map(str(tmp_path / "perf.map"))
    lines = [line.split(" ", 2) for line in Path(path).read_text().splitlines()]
    begins = [int(begin, 16) for begin, _, _ in lines]
    assert begins == sorted(begins) and all(0 < int(size, 16) for _, size, _ in lines)
    assert all(a + int(size, 16) <= b for a, (_, size, _), b in zip(begins, lines, begins[1:]))
    assert any(name.startswith("numod::exp_") for _, _, name in lines)


def test_helpers_of_kernels_have_names_for_perf() -> None:
    numod.ones(64, 64) @ numod.ones(64, 64)
    F.conv2d(numod.ones(1, 2, 8, 8), numod.ones(3, 2, 3, 3))
    roles = {name.partition(" (")[2].rstrip(")") for _, _, name in perf_map.functions(build.kernels())}
    assert {"", "wrapper"} < roles and all(
        role.isidentifier() or role in ("", "wrapper", "a thread's part") for role in roles
    ), roles


def test_functions_that_kernels_share_go_by_their_own_names() -> None:
    x = numod.ones(64, 64)
    x @ x
    sharing = [kernel for kernel in build.kernels() if kernel.shared]
    packing = next(kernel for kernel in sharing if any("pack_columns" in shared_name for shared_name in kernel.shared))
    results = []
    for product in (packing, *sharing[-8:]):  # of any test that ran before as well
        names = {address: name for address, _, name in perf_map.functions([product])}
        shared = [names[code_library.address(name_)] for name_ in product.shared]
        assert not any(product.name in shared_name for shared_name in shared)
        results += shared
    assert "numod::pack_columns" in results


def test_parts_of_threads_have_names_of_their_own() -> None:
    text = "def kernel(x):\n    for i in parallel_range(x.shape[0]):\n        x[i] += {}\n"
    first, second = (
        build.build(cpu, "part", divided(text.format(number)), "float64[], int64", parallel=True)
        for number in (2.625, 2.875)
    )
    assert len(first.symbols) > 2 and not {*first.symbols} & {*second.symbols}


def records(dump: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(kind, timestamp, rest) of each record of a jitdump, read as perf's specification says."""
    at = struct.unpack_from("<IIIIIIQQ", dump)[2]
    while at < len(dump):
        kind, size, when = struct.unpack_from("<IIQ", dump, at)
        yield kind, when, dump[at + 16 : at + size]
        at += size


@pytest.mark.skipif(sys.platform != "linux", reason="perf is Linux's")
def test_a_jitdump_holds_the_code_of_kernels_old_and_new(tmp_path: Path) -> None:
    numod.ones(100).exp()
    with JitDump(str(tmp_path)) as dump:
        middle = time.monotonic_ns()
        numod.ones(7, 5).t().mul(2.125).cos()
    dump.close()
    text = Path(dump.path).read_bytes()
    magic, version, size, machine, _, process, when, flags = struct.unpack_from("<IIIIIIQQ", text)
    assert (
        (magic, version, size, process, flags) == (0x4A695444, 1, 40, os.getpid(), 0)
        and machine in (62, 183)
        and Path(dump.path).name == f"jit-{process}.dump"
    )
    *loads, last = records(text)
    assert last[0] == 3 and last[2] == b"" and {kind for kind, _, _ in loads} == {0}
    assert when <= loads[0][1] <= middle and [address_ for _, address_, _ in loads] == sorted(
        load for _, load, _ in loads
    )
    indices, lines_by_index = set(), {}
    for _, _, rest in loads:
        process, thread, address, begin, size, index = struct.unpack_from("<IIQQQQ", rest)
        name, _, code = rest[40:].partition(b"\0")
        assert (
            process == os.getpid()
            and thread == threading.get_native_id()
            and address == begin
            and len(code) == size > 0
        )
        indices.add(index)
        lines_by_index[name.decode()] = code, address
    assert len(indices) == len(loads)
    exp = next(kernel for kernel in build.kernels() if kernel.name.startswith("exp_"))
    code, address = lines_by_index[f"numod::{exp.name}"]
    assert ctypes.string_at(address, len(code)) == code
    (main_symbol,) = (symbol for symbol in exp.symbols if exp.name in symbol and "cpython" not in symbol)
    assert address == code_library.address(main_symbol) and f"numod::{exp.name} (wrapper)" in lines_by_index
