"""Vector registers: formulas compiled for each kind of processor."""

from __future__ import annotations

import functools
import re

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from numod.kernel.registers import argminmax, butterflies, byte_tiles, dots, tiles
from numod.kernel.registers.vectors import Registers, Writer, registers

REAL, INTEGER = ir.FloatType(), ir.IntType(64)
LINUX, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
PROCESSORS = [
    (LINUX, "znver4", Registers(64, 8), "zmm"),
    (LINUX, "haswell", Registers(32, 4), "ymm"),
    (ARM, "neoverse-n1", Registers(16, 8, False), "v"),
]
NAMES = ["avx512", "avx2", "neon"]


def _write(module, name, arguments, emit, lanes):
    """A function of the module with these instructions; its elements are what the first argument points to."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), arguments), name)
    builder = ir.IRBuilder(function.append_basic_block())
    emit(Writer(builder, arguments[0].pointee, lanes), *function.args)
    builder.ret_void()


def _assembly(module, triple, processor):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module.triple = triple
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    return llvm.Target.from_triple(triple).create_target_machine(cpu=processor, opt=3).emit_assembly(parsed)


def _multiply_adds(register, double=False):
    """A pattern of the instruction that multiplies and adds whole registers."""
    x86, arm = ("pd", "2d") if double else ("ps", "4s")
    return rf"(vfmadd\w*{x86}.*{register}|fmla\s+{register}\d+\.{arm})"


@pytest.mark.parametrize(("triple", "processor", "registers", "register"), PROCESSORS, ids=NAMES)
def test_tiles(triple, processor, registers, register):
    """One, one at the edge, and functions that copy and split lines."""
    module, number, lanes = ir.Module(), REAL.as_pointer(), registers.lanes(4)
    for edge in (True, False):
        emit = functools.partial(tiles.emit_tile, registers.rows, tiles.VECTORS, edge, registers.masks)
        _write(module, f"edge{edge}", [number, INTEGER, INTEGER, number, INTEGER, number, *[INTEGER] * 5], emit, lanes)
    _write(module, "line", [number, INTEGER, INTEGER, number, INTEGER], tiles.emit_copy, lanes)
    _write(
        module, "split", [number, *[INTEGER] * 5, number, *[INTEGER] * 7], functools.partial(tiles.emit_split, 4), lanes
    )
    text = _assembly(module, triple, processor)
    assert len(re.findall(_multiply_adds(register), text)) >= 2 * registers.rows * tiles.VECTORS
    assert not re.search(r"call.*fma", text)


@pytest.mark.parametrize(("triple", "processor", "registers", "register"), PROCESSORS, ids=NAMES)
def test_dots(triple, processor, registers, register):
    module, number = ir.Module(), REAL.as_pointer()
    _write(module, "dots", [number, INTEGER, number, INTEGER, number, INTEGER], dots.emit, registers.lanes(4))
    assert len(re.findall(_multiply_adds(register), _assembly(module, triple, processor))) >= registers.lanes(4)


@pytest.mark.parametrize(("triple", "processor", "registers", "register"), PROCESSORS, ids=NAMES)
def test_extremes(triple, processor, registers, register, monkeypatch):
    """Masks stay as wide as the elements where there are no registers for them:

    LLVM would pack single bits, and unpack them, at every turn of a loop.
    """
    monkeypatch.setattr(argminmax, "host", lambda: registers)
    module, number, pointer = ir.Module(), REAL.as_pointer(), ir.IntType(32).as_pointer()
    arguments = [number, INTEGER, INTEGER, INTEGER, number, pointer, INTEGER]
    _write(module, "columns", arguments, functools.partial(argminmax.emit_columns, False), registers.lanes(4))
    _write(module, "row", [number, INTEGER], functools.partial(argminmax.emit_row, False), registers.lanes(4))
    text = _assembly(module, triple, processor)
    assert len(re.findall(rf"(vmaxps.*{register}|fcmgt\s+{register}\d+\.4s)", text)) >= 8
    assert not re.search(r"vpack|vpmovzx|xtn", text)


@pytest.mark.parametrize(("triple", "processor", "registers", "register"), PROCESSORS, ids=NAMES)
def test_butterflies(triple, processor, registers, register):
    """A stage of 4 adds, subtracts and turns whole registers, and keeps them."""
    module, number = ir.Module(), REAL.as_pointer()
    _write(
        module,
        "stage",
        [*[number] * 5, *[INTEGER] * 3],
        functools.partial(butterflies.emit_stage, 4),
        registers.lanes(4),
    )
    text = _assembly(module, triple, processor)
    assert len(re.findall(rf"(v(?:add|sub)ps.*{register}|f(?:add|sub)\s+{register}\d+\.4s)", text)) >= 16
    assert len(re.findall(rf"(vf\w+ps.*{register}|fml[as]\s+{register}\d+\.4s)", text)) >= 6
    assert not re.search(r"call", text)


@pytest.mark.parametrize(("triple", "processor", "registers", "register"), PROCESSORS, ids=NAMES)
@pytest.mark.parametrize("real", [ir.FloatType(), ir.DoubleType()], ids=str)
def test_tiles_of_dots(real, triple, processor, registers, register):
    """Their sums stay in registers: between the multiply-adds of a step of the loop nothing is stored."""
    module, double, number, rows = ir.Module(), isinstance(real, ir.DoubleType), real.as_pointer(), registers.rows // 2
    arguments = [number, INTEGER, number, INTEGER, INTEGER, number, *[INTEGER] * 3]
    _write(module, "tile", arguments, functools.partial(dots.emit_tile, rows), registers.lanes(8 if double else 4))
    text = _assembly(module, triple, processor)
    assert len(re.findall(_multiply_adds(register, double), text)) == 2 * rows * dots.COLUMNS
    assert not re.search(rf"({register}\d+, .*\(%rsp\)|str\s+q\d+, \[sp)", text)


@pytest.mark.parametrize(
    ("triple", "processor", "width", "kind", "instruction"),
    [(LINUX, "znver4", 64, "vnni", r"vpdpbusd.*zmm"), (LINUX, "alderlake", 32, "vnni", r"vpdpbusd.*ymm"),
     (LINUX, "znver4", 64, "vnni pairs", r"vpdpwssd.*zmm"), (LINUX, "alderlake", 32, "vnni pairs", r"vpdpwssd.*ymm"),
     (LINUX, "haswell", 32, "pairs", r"vpmaddwd.*ymm"), (LINUX, "haswell", 32, "saturating", r"vpmaddubsw.*ymm"),
     (LINUX, "skylake-avx512", 64, "saturating", r"vpmaddubsw.*zmm"), (ARM, "neoverse-n1", 16, "pairs", r"smull2?\s|smlal2?\s")],
    ids=["avx512-vnni", "avx-vnni", "avx512-vnni-pairs", "avx-vnni-pairs", "sse-pairs-by-avx2", "avx2", "avx512bw", "neon"],
)  # fmt: skip
def test_tiles_of_bytes(triple, processor, width, kind, instruction):
    module, word, rows = ir.Module(), ir.IntType(32).as_pointer(), 4
    _write(
        module,
        "tile",
        [word, INTEGER, word, INTEGER, word, INTEGER, INTEGER],
        functools.partial(byte_tiles.emit, rows, tiles.VECTORS, kind),
        width // 4,
    )
    assert len(re.findall(instruction, _assembly(module, triple, processor))) >= rows * tiles.VECTORS


def test_the_tile_of_a_convolution_of_bytes_stays_in_registers():
    module, number, byte = ir.Module(), ir.IntType(32).as_pointer(), ir.IntType(8).as_pointer()
    types = [number, INTEGER, INTEGER, number, number, ir.FloatType().as_pointer(), byte, *[INTEGER] * 8]
    _write(module, "rows", types, functools.partial(byte_tiles.emit_rows, 6, 4, "vnni"), 16)
    text = _assembly(module, LINUX, "znver4")
    assert len(re.findall(r"vpdpbusd.*zmm", text)) >= 24 and not re.search(r"zmm\d+, .*\(%rsp\)", text)


@pytest.mark.parametrize(
    ("real", "lanes"),
    [(REAL, 16), (REAL, 8), (REAL, 4), (ir.DoubleType(), 8), (ir.DoubleType(), 4), (ir.DoubleType(), 2)],
)
def test_sums_across_lanes_in_order(real, lanes):
    """The shuffles, followed with numbers in the place of vectors."""
    rows = np.random.default_rng(1).integers(0, 100, (lanes, lanes))

    class Builder:
        def shuffle_vector(self, a, b, order):
            return np.concatenate([a, b])[[index.constant for index in order.constant]]

        def fadd(self, a, b):
            return a + b

    np.testing.assert_array_equal(dots.sums_across_lanes(Writer(Builder(), real, lanes), list(rows)), rows.sum(1))


def test_registers_follow_the_features():
    assert registers(["+avx2", "+avx512f"], LINUX) == Registers(64, 8)
    assert registers(["+avx2", "-avx512f"], "x86_64-pc-windows-msvc") == Registers(32, 4)
    assert registers(["+sse2"], "x86_64-apple-darwin") == Registers(16, 4, False, False)
    assert registers([], "arm64-apple-darwin") == Registers(16, 8, False)
