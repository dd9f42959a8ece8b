"""The formulas of `vector_math` under their names, as functions that kernels import. The arguments are float32, or they are taken as float64."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .instructions import Number
from .vector_math import formulas


def _typed(formula: Callable, *arguments: object) -> tuple:
    """What Numba asks of an intrinsic: its signature, and what writes its instructions."""
    kind = types.float32 if all(each == types.float32 for each in arguments) else types.float64

    def generate(context: object, builder: ir.IRBuilder, signature: object, values: list) -> ir.Value:
        return formula(*[Number(builder, each) for each in values]).raw

    return kind(*[kind for _ in arguments]), generate


def _of_one(formula: Callable) -> Callable:
    def function(context, x):  # noqa: ANN001, ANN202
        return _typed(formula, x)

    return intrinsic(function)


def _of_two(formula: Callable) -> Callable:
    def function(context, x, y):  # noqa: ANN001, ANN202
        return _typed(formula, x, y)

    return intrinsic(function)


for _name, _formula in formulas.items():
    globals()[_name] = (_of_one if len(inspect.signature(_formula).parameters) == 1 else _of_two)(_formula)
