"""The formulas of `vector_math` and `lines` as Numba intrinsics, under their names, for kernels to import.

Arguments are float32, or are converted to float64.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from . import halves, lines, quotients
from .instructions import Number
from .registers.vectors import primitive
from .vector_math import formulas


def _intrinsic_of(formula: Callable, *arguments: object) -> tuple:
    """(signature, code generator) of a formula, as Numba expects them of an intrinsic."""
    kind = types.float32 if all(argument == types.float32 for argument in arguments) else types.float64

    def generate(context: object, builder: ir.IRBuilder, signature: object, values: list) -> ir.Value:
        return formula(*[Number(builder, value) for value in values]).raw

    return kind(*[kind for _ in arguments]), generate


def _unary(formula: Callable) -> Callable:
    def function(context, x):
        return _intrinsic_of(formula, x)

    return intrinsic(function)


def _binary(formula: Callable) -> Callable:
    def function(context, x, y):
        return _intrinsic_of(formula, x, y)

    return intrinsic(function)


def _line_function(name: str, formula: lines.Lines) -> Callable:
    arrays = [f"{array}[{array}_at]" for array in (*formula.reads, *formula.writes)]
    arguments = ", ".join([*arrays, "n", *(f"real number{k}" for k in range(formula.numbers))])
    return primitive(
        name, arguments, functools.partial(lines.emit, formula), result="real" if formula.joined else "void"
    )


def _half_conversion(name: str, formula: Callable) -> Callable:
    source, target = (types.uint16, types.float32) if name.startswith("from") else (types.float32, types.uint16)

    def function(context, x):
        return target(source), lambda context, builder, signature, values: formula(builder, values[0])

    return intrinsic(function)


def _integer_quotient(formula: Callable) -> Callable:
    def function(context, x, y):
        def generate(context: object, builder: ir.IRBuilder, signature: object, values: list) -> ir.Value:
            return formula(builder, *values)

        return types.int64(types.int64, types.int64), generate

    return intrinsic(function)


for _name, _formula in quotients.formulas.items():
    globals()[_name] = _integer_quotient(_formula)
for _name, _formula in halves.formulas.items():
    globals()[_name] = _half_conversion(_name, _formula)
for _name, _lines in lines.formulas.items():
    globals()[_name] = _line_function(_name, _lines)
for _name, _formula in formulas.items():
    globals()[_name] = (_unary if len(inspect.signature(_formula).parameters) == 1 else _binary)(_formula)
