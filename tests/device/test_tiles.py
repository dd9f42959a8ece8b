"""Tiles of a product: the host's against NumPy, and their text compiled for each kind of processor."""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from numod.device import cpu, tiles
from numod.kernel import build

SIZE = {"float32": 4, "float64": 8}
TARGETS = [  # triple, processor, registers, the instruction that multiplies and adds whole vectors
    ("x86_64-unknown-linux-gnu", "znver4", tiles.Registers(64, 8), r"vfmadd\w*ps.*zmm"),
    ("x86_64-unknown-linux-gnu", "haswell", tiles.Registers(32, 4), r"vfmadd\w*ps.*ymm"),
    ("aarch64-unknown-linux-gnu", "neoverse-n1", tiles.Registers(16, 8), r"fmla\s+v\d+\.4s"),
]


def _run(text, name, signature, arguments):
    source = f"def kernel({', '.join(f'x{k}' for k in range(len(arguments)))}):\n    {text}\n"
    build.build(cpu, name, source, signature).launch(*arguments)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("vectors", [1, 2, 3])
@pytest.mark.parametrize("depth", [0, 1, 37])
def test_a_tile_is_a_product(dtype, vectors, depth):
    rows, lanes = tiles.host().rows, tiles.host().lanes(SIZE[dtype])
    rng, columns = np.random.default_rng(0), vectors * tiles.host().lanes(SIZE[dtype])
    a, b, c = (rng.standard_normal(shape).astype(dtype) for shape in ((rows, depth + 1), (depth + 1, columns + 3), (rows, columns + 1)))
    expected = np.concatenate([c[:, :columns] + a[:, :depth] @ b[:depth, :columns], c[:, columns:]], 1)
    text = f"tile{vectors}(x0, 0, {depth + 1}, 1, x1, 0, {columns + 3}, x3, 0, x2, 0, {columns + 1}, {depth}, 1)"
    _run(text, "tile", f"{dtype}[], {dtype}[], {dtype}[], int64[]", (a.ravel(), b.ravel(), c.reshape(-1), np.zeros(1, "int64")))
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-5)
    assert lanes * tiles.VECTORS * rows * SIZE[dtype] <= 24 * 64


@pytest.mark.parametrize("stride", [1, 2, 4])
@pytest.mark.parametrize(("first", "last", "n"), [(0, 50, 50), (3, 20, 37), (5, 5, 9), (0, 0, 0), (1, 2, 16)])
def test_a_line_is_copied_between_zeros_and_not_beyond(stride, first, last, n):
    x, out = np.arange(1, 1 + 50 * stride, dtype="float32"), np.full(64, -1, "float32")
    _run(f"copy_line{stride}(x0, 0, {first}, {last}, x1, 3, {n})", "line", "float32[], float32[]", (x, out))
    expected = np.full(64, -1, "float32")
    expected[3 : 3 + n] = 0
    expected[3 + first : 3 + last] = x[first * stride : last * stride : stride]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(("triple", "processor", "registers", "instruction"), TARGETS, ids=["avx512", "avx2", "neon"])
def test_a_tile_compiles_for_each_kind_of_processor(triple, processor, registers, instruction):
    import re

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=processor, opt=3)
    module = llvm.parse_assembly(str(_module(triple, registers)))
    module.verify()
    text = machine.emit_assembly(module)
    loop = text[: text.rindex(".cfi_endproc")]
    assert len(re.findall(instruction, loop)) >= registers.rows * tiles.VECTORS
    assert not re.search(r"call.*fma", loop)


def _module(triple, registers):
    """A function of the tile's numbers alone, over float32, and one that copies a line."""
    module, real, integer = ir.Module(), ir.FloatType(), ir.IntType(64)
    module.triple = triple
    names = ("a", "a_at", "a_row", "a_step", "b", "b_at", "b_step", "table", "table_at", "c", "c_at", "c_row", "depth", "keep")
    kinds = [real.as_pointer() if name in "abc" else integer.as_pointer() if name == "table" else integer for name in names]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), "tile")
    builder = ir.IRBuilder(function.append_basic_block())
    tiles.emit(builder, real, registers.lanes(4), registers.rows, tiles.VECTORS, "tile", **dict(zip(names, function.args)))
    builder.ret_void()
    copy = ir.Function(module, ir.FunctionType(ir.VoidType(), [real.as_pointer(), integer, integer, real.as_pointer(), integer]), "line")
    builder = ir.IRBuilder(copy.append_basic_block())
    tiles.emit_copy(builder, real, registers.lanes(4), 2, *copy.args)
    builder.ret_void()
    return module


def test_registers_follow_the_features():
    assert tiles.registers(["+avx2", "+avx512f"], "x86_64-unknown-linux-gnu") == tiles.Registers(64, 8)
    assert tiles.registers(["+avx2", "-avx512f"], "x86_64-pc-windows-msvc") == tiles.Registers(32, 4)
    assert tiles.registers(["+sse2"], "x86_64-apple-darwin") == tiles.Registers(16, 4)
    assert tiles.registers([], "arm64-apple-darwin") == tiles.Registers(16, 8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_block_is_turned(dtype):
    lanes = tiles.host().lanes(SIZE[dtype])
    x, out = np.random.default_rng(0).standard_normal((lanes, lanes + 3)).astype(dtype), np.zeros((lanes, lanes + 5), dtype)
    _run(f"turn_block(x0, 1, {lanes + 3}, x1, 2, {lanes + 5})", "turn", f"{dtype}[], {dtype}[]", (x.ravel(), out.reshape(-1)))
    np.testing.assert_array_equal(out[:, 2 : 2 + lanes], x[:, 1 : 1 + lanes].T)
