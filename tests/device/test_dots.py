"""Dot products of a vector with many rows: beside NumPy, reading and writing nothing beyond; and their text for each kind of processor."""

from __future__ import annotations

import itertools
import re

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from numod.device import cpu, dots
from numod.kernel import build


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dots_of_rows(dtype):
    text = "def kernel(a, x, out, step, depth, count):\n    dots(a, 1, step, x, 2, depth, out, 3, count)\n"
    run = build.build(cpu, "dots", text, f"{dtype}[], {dtype}[], {dtype}[], int64, int64, int64").launch
    rng = np.random.default_rng(0)
    for count, depth in [(1, 1), (6, 64), (16, 16), (17, 5), (64, 17), (33, 70), (3, 0), (0, 4)]:
        a, x = rng.standard_normal((count, depth + 2)).astype(dtype), rng.standard_normal(depth + 2).astype(dtype)
        out = np.full(count + 4, 7, dtype)
        run(np.append(a.ravel(), np.nan).astype(dtype), x, out, depth + 2, depth, count)
        np.testing.assert_allclose(out[3:-1], a[:, 1:-1] @ x[2:], rtol=1e-5, atol=1e-5)
        assert (out[[0, 1, 2, -1]] == 7).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tiles_of_dots(dtype):
    """Of every height and width, with what lies around them NaN and 7."""
    text = "def kernel(a, b, out, a_row, b_row, depth, held, wide):\n    dot_tile(a, 1, a_row, b, 2, b_row, depth, out, 3, 6, held, wide)\n"
    run = build.build(cpu, "dot_tile", text, ", ".join([f"{dtype}[]"] * 3 + ["int64"] * 5)).launch
    rng = np.random.default_rng(0)
    for held, wide, depth in itertools.product(range(1, dots.tile_rows() + 1), range(1, dots.COLUMNS + 1), (0, 3, 16, 37)):
        a, b = np.full((held, depth + 3), np.nan, dtype), np.full((wide, depth + 5), np.nan, dtype)
        a[:, 1:-2], b[:, 2:-3] = rng.standard_normal((held, depth)), rng.standard_normal((wide, depth))
        out = np.full(3 + 6 * dots.tile_rows(), 7, dtype)
        run(a.ravel(), b.ravel(), out, depth + 3, depth + 5, depth, held, wide)
        expected = np.full((dots.tile_rows(), 6), 7, dtype)
        expected[:held, :wide] = a[:, 1:-2] @ b[:, 2:-3].T
        np.testing.assert_allclose(out[3:].reshape(-1, 6), expected, rtol=1e-5, atol=1e-5)
        assert (out[:3] == 7).all()


@pytest.mark.parametrize(("real", "lanes"), [("float", 16), ("float", 8), ("float", 4), ("double", 8), ("double", 4), ("double", 2)])
def test_sums_across_lanes_in_order(real, lanes):
    """The shuffles, followed with numbers in the place of vectors."""
    rows = np.random.default_rng(1).integers(0, 100, (lanes, lanes))

    class Builder:
        def shuffle_vector(self, a, b, order):
            return _Vector(np.concatenate([a.values, b.values])[[each.constant for each in order.constant]], a.type)

        def fadd(self, a, b):
            return _Vector(a.values + b.values, a.type)

    kind = ir.VectorType({"float": ir.FloatType(), "double": ir.DoubleType()}[real], lanes)
    np.testing.assert_array_equal(dots.across(Builder(), [_Vector(row, kind) for row in rows]).values, rows.sum(1))


class _Vector:
    def __init__(self, values, kind):
        self.values, self.type = values, kind


PROCESSORS = [("x86_64-unknown-linux-gnu", "znver4", 16, "zmm"), ("x86_64-unknown-linux-gnu", "haswell", 8, "ymm"), ("aarch64-unknown-linux-gnu", "neoverse-n1", 4, "v")]


def assembly(module, triple, processor):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module.triple = triple
    return llvm.Target.from_triple(triple).create_target_machine(cpu=processor, opt=3).emit_assembly(llvm.parse_assembly(str(module)))


@pytest.mark.parametrize(("triple", "processor", "lanes", "register"), PROCESSORS)
def test_dots_compile_for_each_kind_of_processor(triple, processor, lanes, register):
    module, number, integer = ir.Module(), ir.FloatType().as_pointer(), ir.IntType(64)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [number, integer, number, integer, number, integer]), "dots")
    builder = ir.IRBuilder(function.append_basic_block())
    dots.emit(builder, ir.VectorType(ir.FloatType(), lanes), *function.args)
    builder.ret_void()
    assert len(re.findall(rf"(vfmadd\w*ps.*{register}|fmla\s+{register}\d+\.4s)", assembly(module, triple, processor))) >= lanes


@pytest.mark.parametrize(("triple", "processor", "lanes", "register"), PROCESSORS)
@pytest.mark.parametrize("real", [ir.FloatType(), ir.DoubleType()], ids=str)
def test_tiles_compile_for_each_kind_of_processor(real, triple, processor, lanes, register):
    """Their sums stay in registers: between the multiply-adds of a step of the loop nothing is stored."""
    module, double = ir.Module(), isinstance(real, ir.DoubleType)
    rows = 2 if register == "ymm" else 4
    dots.tile_function(module, ir.VectorType(real, lanes // 2 if double else lanes), rows).linkage = ""
    text = assembly(module, triple, processor)
    kind = ("pd", "2d") if double else ("ps", "4s")
    assert len(re.findall(rf"(vfmadd\w*{kind[0]}.*{register}|fmla\s+{register}\d+\.{kind[1]})", text)) == 2 * rows * dots.COLUMNS
    assert not re.search(rf"({register}\d+, .*\(%rsp\)|str\s+q\d+, \[sp)", text)
