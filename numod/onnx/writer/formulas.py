"""Formulas of rows as nodes, operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log as natural_log
from typing import Any

from ... import dtypes
from ...dtypes import dtype as DType
from ...kernel.expression import Call as FormulaCall
from ...kernel.expression import Constant, Expression, Symbol
from ..symbols import Extent, Ratio, Size, product
from .graph import Graph, Unsupported

_OPERATORS = {  # formulas that are an operator, for the compute dtype
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "neg": "Neg", "abs": "Abs", "pow": "Pow",
    "maximum": "Max", "minimum": "Min", "larger": "Max", "smaller": "Min", "sign": "Sign", "exp": "Exp", "log": "Log",
    "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan",
    "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf",
    "sigmoid": "Sigmoid", "reciprocal": "Reciprocal", "inverse": "Reciprocal", "eq": "Equal", "lt": "Less",
    "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "logical_and": "And", "logical_or": "Or",
    "logical_xor": "Xor", "logical_not": "Not", "where": "Where",
}  # fmt: skip
_ROUNDING = {"floor": "Floor", "ceil": "Ceil", "round": "Round"}  # of floats; integers are as they are
_OF_BOOL = {  # arithmetic of truth values
    "add": "Or", "mul": "And", "maximum": "Or", "minimum": "And", "larger": "Or", "smaller": "And",
    "bitwise_and": "And", "bitwise_or": "Or", "bitwise_xor": "Xor", "bitwise_not": "Not",
}  # fmt: skip
_BITWISE = {
    "bitwise_and": "BitwiseAnd", "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor", "bitwise_not": "BitwiseNot",
}  # fmt: skip


def converted(number: Any, dtype: DType) -> Any:
    """A number as its dtype reads it."""
    if isinstance(number, (Size, Ratio)):
        return number
    return bool(number) if dtype.kind == "b" else number if dtype.kind == "f" else int(number)


def is_single(expression: Expression) -> bool:
    """Whether an expression is one operation of inputs and constants."""
    return not isinstance(expression, FormulaCall) or (
        not any(isinstance(argument, FormulaCall) for argument in expression.arguments)
        and expression.formula.name in (*_OPERATORS, *_ROUNDING, "copy", "row_major", "fill")
    )


class FormulaWriter:
    """Writes an expression as nodes. `names`: of the symbols' values, by the symbols' ids."""

    def __init__(self, graph: Graph, compute: DType, shape: Sequence[Extent], names: dict[int, str]) -> None:
        self.graph, self.compute, self.shape, self.names = graph, compute, tuple(shape), names

    def write(self, expression: Expression, truth: bool = False) -> str:
        """The name of an expression's value; a constant is a truth value if `truth`."""
        if id(expression) in self.names:
            return self.names[id(expression)]
        if isinstance(expression, Constant):
            dtype = dtypes.bool_ if truth else self.compute
            return self.graph.constant(converted(expression.value, dtype), dtype)
        name = self.names[id(expression)] = self._call(expression)
        return name

    def _call(self, call: FormulaCall) -> str:
        formula = call.formula
        arguments = [
            self.write(argument, name in formula.conditions) for name, argument in zip(formula.inputs, call.arguments)
        ]
        name = self.operation(formula.name, arguments)
        if name is not None:
            return name
        body = formula.body_for(self.compute.kind)
        if callable(body):
            symbols = [Symbol(name) for name in formula.inputs]
            expression = body(*symbols)
            names = dict(zip(map(id, symbols), arguments))
            return FormulaWriter(self.graph, self.compute, self.shape, names).write(expression)
        raise Unsupported(f"ONNX has no operator for {formula.name}; compute it outside, and pass the result in")

    def operation(self, name: str, arguments: list[str]) -> str | None:
        """One operation of the compute dtype; None if ONNX has no operator for it."""
        node, kind = self.graph.node, self.compute.kind
        if kind == "b" and name in _OF_BOOL:
            return node(_OF_BOOL[name], *arguments)
        if name in _ROUNDING:
            return node(_ROUNDING[name], *arguments) if kind == "f" else arguments[0]
        if name in _BITWISE:
            if self.graph.opset < 18:
                raise Unsupported(f"{name} of integers needs opset_version=18")
            return node(_BITWISE[name], *arguments)
        if name in _OPERATORS:
            if name in ("eq", "logical_not") or kind != "b":
                return node(_OPERATORS[name], *arguments)
            if name in ("where", "logical_and", "logical_or", "logical_xor"):
                return node(_OPERATORS[name], *arguments)
            return self._of_bool(name, arguments)
        rule = _FORMULAS.get(name)
        return None if rule is None else rule(self, *arguments)

    def _of_bool(self, name: str, arguments: list[str]) -> str:
        """Comparisons and arithmetic of truth values as numbers."""
        numbers = [self.graph.cast(argument, dtypes.int32) for argument in arguments]
        result = self.graph.node(_OPERATORS[name], *numbers)
        return result if name in ("lt", "le", "gt", "ge") else self.graph.cast(result, dtypes.bool_)

    # ---- helpers of the formulas below

    def number(self, value: float) -> str:
        """A constant of the compute dtype."""
        return self.graph.constant(value, self.compute)

    def scaled(self, name: str, factor: float) -> str:
        """A tensor times a number."""
        return self.graph.node("Mul", name, self.number(factor))


def _trunc(w: FormulaWriter, x: str) -> str:
    if w.compute.kind != "f":
        return x
    node = w.graph.node
    return node("Where", node("Less", x, w.number(0)), node("Ceil", x), node("Floor", x))


def _signbit(w: FormulaWriter, x: str) -> str:
    node, zero = w.graph.node, w.number(0)
    if w.compute.kind != "f":
        return node("Less", x, zero)
    # the sign of zero is that of its reciprocal
    return node("Less", node("Where", node("Equal", x, zero), node("Reciprocal", x), x), zero)


def _copysign(w: FormulaWriter, x: str, y: str) -> str:
    node = w.graph.node
    size = node("Abs", x)
    return node("Where", _signbit(w, y), node("Neg", size), size)


def _floor_divide(w: FormulaWriter, x: str, y: str) -> str:
    node = w.graph.node
    if w.compute.kind == "f":
        return node("Floor", node("Div", x, y))
    return node("Div", node("Sub", x, node("Mod", x, y)), y)


def _remainder(w: FormulaWriter, x: str, y: str) -> str:
    node = w.graph.node
    if w.compute.kind != "f":
        return node("Mod", x, y)
    rest = node("Mod", x, y, fmod=1)  # with the sign of x
    zero = w.number(0)
    other_sign = node("Xor", node("Less", rest, zero), node("Less", y, zero))
    moved = node("And", other_sign, node("Not", node("Equal", rest, zero)))
    return node("Where", moved, node("Add", rest, y), rest)


def _trunc_divide(w: FormulaWriter, x: str, y: str) -> str:
    quotient = w.graph.node("Div", x, y)
    return _trunc(w, quotient)


def _atan2(w: FormulaWriter, y: str, x: str) -> str:
    node, zero = w.graph.node, w.number(0)
    pi = w.number(3.141592653589793)
    angle = node("Atan", node("Div", y, x))
    shifted_angle = node("Where", _signbit(w, y), node("Sub", angle, pi), node("Add", angle, pi))
    plain_angle = node("Where", node("Less", x, zero), shifted_angle, angle)
    origin = node("And", node("Equal", x, zero), node("Equal", y, zero))
    of_origin = _copysign(w, node("Where", _signbit(w, x), pi, zero), y)
    return node("Where", origin, of_origin, plain_angle)


def _isnan(w: FormulaWriter, x: str) -> str:
    node = w.graph.node
    return node("IsNaN", x) if w.compute.kind == "f" else node("Not", node("Equal", x, x))


def _isinf(w: FormulaWriter, x: str) -> str:
    """By comparison: IsInf does not take all dtypes before opset 20."""
    node = w.graph.node
    if w.compute.kind != "f":
        return node("Not", node("Equal", x, x))
    return node("Equal", node("Abs", x), w.number(float("inf")))


def _isfinite(w: FormulaWriter, x: str) -> str:
    node = w.graph.node
    if w.compute.kind != "f":
        return node("Equal", x, x)
    return node("Less", node("Abs", x), w.number(float("inf")))


def _index(w: FormulaWriter) -> str:
    """The number of each element, in row-major order."""
    graph = w.graph
    bounds = [graph.constant(0), graph.number(product(w.shape), dtypes.int64), graph.constant(1)]
    flat = graph.node("Range", *bounds)
    shaped = flat if len(w.shape) == 1 else graph.node("Reshape", flat, graph.sizes(w.shape))
    return shaped if w.compute is dtypes.int64 else graph.cast(shaped, w.compute)


def _shift(w: FormulaWriter, x: str, y: str, left: bool) -> str:
    """By powers of two, since BitShift takes no signed numbers."""
    graph, node = w.graph, w.graph.node
    power = graph.cast(node("Pow", graph.constant(2.0, dtypes.float64), graph.cast(y, dtypes.float64)), w.compute)
    return node("Mul", x, power) if left else _floor_divide(w, x, power)


_FORMULAS: dict[str, Callable[..., str]] = {
    "ne": lambda w, x, y: w.graph.node("Not", w.graph.node("Equal", x, y)),
    "copy": lambda w, x: x,
    "row_major": lambda w, x: x,
    "fill": lambda w, x: x,
    "index": _index,
    "trunc": _trunc,
    "signbit": _signbit,
    "copysign": _copysign,
    "floor_divide": _floor_divide,
    "trunc_divide": _trunc_divide,
    "remainder": _remainder,
    "fmod": lambda w, x, y: w.graph.node("Mod", x, y, fmod=1),
    "atan2": _atan2,
    "isnan": _isnan,
    "isinf": _isinf,
    "isfinite": _isfinite,
    "near_origin": lambda w, x: w.graph.node("Less", w.graph.node("Abs", x), w.number(0.25)),
    "nonnegative": lambda w, x: w.graph.node("GreaterOrEqual", x, w.number(0)),
    "bitwise_left_shift": lambda w, x, y: _shift(w, x, y, True),
    "bitwise_right_shift": lambda w, x, y: _shift(w, x, y, False),
    "exp2": lambda w, x: w.graph.node("Exp", w.scaled(x, natural_log(2))),
    "expm1": lambda w, x: w.graph.node("Sub", w.graph.node("Exp", x), w.number(1)),
    "log1p": lambda w, x: w.graph.node("Log", w.graph.node("Add", x, w.number(1))),
    "log2": lambda w, x: w.scaled(w.graph.node("Log", x), 1 / natural_log(2)),
    "log10": lambda w, x: w.scaled(w.graph.node("Log", x), 1 / natural_log(10)),
    "hypot": lambda w, x, y: w.graph.node(
        "Sqrt", w.graph.node("Add", w.graph.node("Mul", x, x), w.graph.node("Mul", y, y))
    ),
    "erfc": lambda w, x: w.graph.node("Sub", w.number(1), w.graph.node("Erf", x)),
    "normal_cdf": lambda w, x: w.scaled(
        w.graph.node("Add", w.graph.node("Erf", w.scaled(x, 0.7071067811865476)), w.number(1)), 0.5
    ),
}
