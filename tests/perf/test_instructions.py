"""What PyTorch may use in the table of speeds on a processor with AMX."""

import re
import subprocess

import pytest

pytest.importorskip("perf", reason="perf/ is in the repository only")
from perf import instructions

AMX = {"avx512_vnni", "amx_tile", "amx_int8"}


def test_pytorch_is_held_to_vnni_where_there_is_amx():
    assert instructions.limit({"avx512_vnni"}, {}) == {}
    assert instructions.limit(AMX, {}) == {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16"}
    assert instructions.limit(AMX, {"ONEDNN_MAX_CPU_ISA": "ALL"}) == {}  # as the user wants


def test_the_heading_says_so():
    assert instructions.note({"avx512_vnni"}, {}) == ""
    assert "held to VNNI (ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16)" in instructions.note(AMX, instructions.limit(AMX, {}))
    assert "may use it (ONEDNN_MAX_CPU_ISA=ALL)" in instructions.note(AMX, {})


def test_rows_of_bytes_are_measured_with_amx_too(monkeypatch):
    commands = []
    monkeypatch.setattr(subprocess, "run", lambda command, env, check: commands.append((command[3:], env)))
    environment = instructions.limit(AMX, {})
    rows = ["add, 1 M", "int8 linear", "int8 linear, 1 row", "quantized (64)"]
    instructions.measure_with_amx(["--rows", "1", "--quick", "--json=a.json"], rows, AMX, environment)
    ((arguments, variables),) = commands
    assert arguments[:2] == ["--quick", "--rows"] and arguments[3:] == ["--peers", "PyTorch"]
    assert [name for name in (*rows, "int8 linear, all") if re.search(arguments[2], name)] == rows[1:]
    assert variables["ONEDNN_MAX_CPU_ISA"] == "ALL"
    instructions.measure_with_amx([], rows, {"avx512_vnni"}, environment)
    instructions.measure_with_amx([], rows, AMX, variables)  # with AMX already
    instructions.measure_with_amx([], rows[:1], AMX, environment)  # no row of bytes
    assert len(commands) == 1


def test_the_flags_of_this_processor():
    assert all(flag == flag.strip() and " " not in flag for flag in instructions.flags())
