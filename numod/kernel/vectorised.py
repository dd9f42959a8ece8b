"""The formulas of `vector_math` and `lines` as Numba intrinsics, under their names, for kernels to import. Arguments are float32, or are converted to float64."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..device import tiles
from . import lines
from .instructions import Number
from .vector_math import formulas


def _typed(formula: Callable, *arguments: object) -> tuple:
    """What Numba expects of an intrinsic: its signature, and the function that emits its code."""
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


def _of_lines(each: lines.Lines) -> Callable:
    names = [text for name in (*each.reads, *each.writes) for text in (name, f"{name}_at")]
    count = len(names)

    def function(context, *arguments):  # noqa: ANN001, ANN202
        real = arguments[0].dtype

        def generate(context: object, builder: ir.IRBuilder, signature: object, values: list) -> ir.Value:
            arrays = [context.make_array(kind)(context, builder, value) for kind, value in zip(signature.args[:count:2], values[:count:2])]
            starts = [builder.gep(array.data, [at]) for array, at in zip(arrays, values[1:count:2])]
            found = lines.emit(builder, each, tiles.host().lanes(real.bitwidth // 8), starts, values[count], values[count + 1 :])
            return context.get_dummy_value() if found is None else found

        places = [kind for array in arguments[:count:2] for kind in (array, types.int64)]
        return (real if each.joined else types.void)(*places, types.int64, *[real] * each.numbers), generate

    names = ["context", *names, "n", *(f"number{k}" for k in range(each.numbers))]  # Numba matches arguments by the function's signature
    function.__signature__ = inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names])
    return intrinsic(function)


for _name, _lines in lines.formulas.items():
    globals()[_name] = _of_lines(_lines)
for _name, _formula in formulas.items():
    globals()[_name] = (_of_one if len(inspect.signature(_formula).parameters) == 1 else _of_two)(_formula)
