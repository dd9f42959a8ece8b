"""float16 converted by the processor, where it can: most have an instruction for it.

Others, and GPUs, compute with the bits (`library.halves`).
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from ..device import target

formulas: dict[str, Callable] = {}


def from_float16(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """The float32 of IEEE binary16 bits."""
    return builder.fpext(builder.bitcast(bits, ir.HalfType()), ir.FloatType())


def to_float16(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The IEEE binary16 bits nearest to a float32, halves to even."""
    return builder.bitcast(builder.fptrunc(x, ir.HalfType()), ir.IntType(16))


if {"+f16c", "+avx512f", "+fp-armv8"} & set(target.features().split(",")):
    formulas = {function.__name__: function for function in (from_float16, to_float16)}
