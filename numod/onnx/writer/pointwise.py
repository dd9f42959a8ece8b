"""Pointwise rows: an ONNX operator where there is one, else the row's formula, operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log as natural_log
from typing import TYPE_CHECKING, Any

from ... import dtypes
from ...dtypes import dtype as DType
from ...graph.ir.program import Value
from ...kernel.expression import Call as FormulaCall
from ...kernel.expression import Constant, Expression, Symbol
from ..symbols import Call, Extent, Ratio, Size, product
from .graph import Graph, Unsupported

if TYPE_CHECKING:
    from .translate import Translation

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
_COMPOSED_IN_FLOAT32 = (dtypes.float16, dtypes.bfloat16)


def apply_row(translation: Translation, call: Call) -> str:
    """The nodes of a step whose op is a row of the table."""
    graph, op, (value,) = translation.graph, call.op, call.results
    arguments = tuple([kind_of(translation, argument) for argument in call.inputs])
    compute, result = op.types(arguments, call.attributes)
    shapes = [translation.shape(argument) for argument in call.inputs if isinstance(argument, Value)]
    shape = _broadcast(shapes) if shapes else translation.shape(value)
    row = Row(translation, call, compute, shape)
    name = row.native()
    if name is None:
        name = row.formula(result)
    if translation.dtype(value) is not result:
        name = graph.cast(name, translation.dtype(value))
    if not shapes or row.is_scalar:
        shape = ()
    return graph.expand(name, shape, translation.shape(value))


def kind_of(translation: Translation, argument: Any) -> Any:
    """A layout for a tensor, a type for a number: what `Pointwise.types` takes."""
    if isinstance(argument, Value):
        return translation.program.program.layouts[argument]
    return int if isinstance(argument, Size) else float if isinstance(argument, Ratio) else type(argument)


def _broadcast(shapes: Sequence[Sequence[Extent]]) -> tuple[Extent, ...]:
    rank = max(map(len, shapes))
    aligned = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple([next((size for size in sizes if size != 1), 1) for sizes in zip(*aligned)])


class Row:
    """One row for certain inputs. `compute`: the dtype of the arithmetic."""

    def __init__(self, translation: Translation, call: Call, compute: DType, shape: Sequence[Extent]) -> None:
        self.translation, self.graph, self.call = translation, translation.graph, call
        self.compute, self.shape, self.is_scalar = compute, tuple(shape), False
        if compute.is_complex:
            raise Unsupported("complex numbers are no type of ONNX's operators; use real and imaginary parts")

    # ---- inputs

    def input(self, position: int, dtype: DType) -> str:
        """An input in a dtype."""
        argument = self.call.inputs[position]
        if not isinstance(argument, Value):
            return self.graph.number(_converted(argument, dtype), dtype)
        name = self.translation.name(argument)
        return name if self.translation.dtype(argument) is dtype else self.graph.cast(name, dtype)

    def values(self) -> list[str]:
        """All inputs, each in the dtype in which the row reads it."""
        op = self.call.op
        return [
            self.input(
                k, dtypes.bool_ if name in op.conditions else dtypes.int64 if name in op.integers else self.compute
            )
            for k, name in enumerate(op.inputs)
        ]

    # ---- an operator for the whole row

    def native(self) -> str | None:
        """The row by an operator of its own; None if there is none."""
        rule = _NATIVE.get(self.call.op.name)
        return None if rule is None else rule(self)

    # ---- the formula

    def formula(self, result: DType) -> str:
        """The row's formula, in the dtype `result`. Several operations on 16-bit floats are done in float32."""
        op = self.call.op
        symbols = [Symbol(name) for name in op.inputs]
        expression = op.express(*symbols)
        if self.compute in _COMPOSED_IN_FLOAT32 and not _is_single(expression):
            self.compute = dtypes.float32
        names = dict(zip(map(id, symbols), self.values()))
        name = FormulaWriter(self.graph, self.compute, self.shape, names).write(expression)
        return name if op.result == "bool" or self.compute is result else self.graph.cast(name, result)


def _converted(number: Any, dtype: DType) -> Any:
    """A number as its dtype reads it."""
    if isinstance(number, (Size, Ratio)):
        return number
    return bool(number) if dtype.kind == "b" else number if dtype.kind == "f" else int(number)


def _is_single(expression: Expression) -> bool:
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
            return self.graph.constant(_converted(expression.value, dtype), dtype)
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
    turned = node("Where", _signbit(w, y), node("Sub", angle, pi), node("Add", angle, pi))
    quadrant_angle = node("Where", node("Less", x, zero), turned, angle)
    origin = node("And", node("Equal", x, zero), node("Equal", y, zero))
    of_origin = _copysign(w, node("Where", _signbit(w, x), pi, zero), y)
    return node("Where", origin, of_origin, quadrant_angle)


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


# ---- rows with an operator of their own


def _activation(op: str, opset: int = 1, **fixed: Any) -> Callable[[Row], str | None]:
    """A row that is an operator, whose attributes are the row's other inputs."""

    def write(row: Row) -> str | None:
        if row.graph.opset < opset or row.compute.kind != "f":
            return None
        return row.graph.node(op, row.input(0, row.compute), **fixed)

    return write


def _with_alpha(op: str) -> Callable[[Row], str | None]:
    def write(row: Row) -> str | None:
        alpha = row.call.inputs[1]
        if isinstance(alpha, Value):
            return None
        return row.graph.node(op, row.input(0, row.compute), alpha=float(alpha))

    return write


def _relu(row: Row) -> str:
    x = row.input(0, row.compute)
    return (
        row.graph.node("Relu", x)
        if row.compute.kind == "f"
        else row.graph.node("Max", x, row.graph.constant(0, row.compute))
    )


def _clip(*places: int) -> Callable[[Row], str | None]:
    """Clip, with the lower and upper bound at these places among the inputs (-1 for none)."""

    def write(row: Row) -> str | None:
        bounds = [row.call.inputs[k] for k in places if k >= 0]
        if any(isinstance(bound, (Value, Size, Ratio)) for bound in bounds) or row.compute.kind not in "fi":
            return None
        if len(bounds) == 2 and not bounds[0] <= bounds[1]:
            return None
        names = [row.input(k, row.compute) if k >= 0 else "" for k in places]
        while not names[-1]:
            names.pop()
        return row.graph.node("Clip", row.input(0, row.compute), *names)

    return write


def _softplus(row: Row) -> str | None:
    plain = row.call.inputs[1:] in ((1.0, 20.0), (1, 20), (1.0, 20), (1, 20.0))
    return row.graph.node("Softplus", row.input(0, row.compute)) if plain else None


def _silu(row: Row) -> str:
    x = row.input(0, row.compute)
    return row.graph.node("Mul", x, row.graph.node("Sigmoid", x))


def _fill(row: Row) -> str:
    row.is_scalar = not any(isinstance(argument, Value) for argument in row.call.inputs)
    return row.input(0, row.compute)


def _arange(row: Row) -> str | None:
    start, step = row.call.inputs
    if (
        row.compute.kind != "i"
        or any(isinstance(bound, (Value, Ratio)) for bound in (start, step))
        or len(row.shape) != 1
    ):
        return None
    stop = start + row.shape[0] * step
    bounds = [row.graph.number(bound, dtypes.int64) for bound in (start, stop, step)]
    values = row.graph.node("Range", *bounds)
    return values if row.compute is dtypes.int64 else row.graph.cast(values, row.compute)


def _pow(row: Row) -> str | None:
    """With the exponent in its own dtype, where it is a tensor of integers."""
    if row.compute.kind == "b":
        return None
    if row.call.inputs[1] == 2 and not isinstance(row.call.inputs[1], Value):
        x = row.input(0, row.compute)
        return row.graph.node("Mul", x, x)
    return None


def _square(row: Row) -> str:
    x = row.input(0, row.compute)
    return row.graph.node("Mul", x, x)


def _prelu(row: Row) -> str | None:
    weight = row.call.inputs[1]
    if not isinstance(weight, Value):
        return None
    rank = row.translation.rank(weight)
    if rank > len(row.shape):
        return None
    return row.graph.node("PRelu", row.input(0, row.compute), row.input(1, row.compute))


def _dequantize_product(row: Row) -> str:
    """Scaled by one factor after the other: ONNX Runtime fuses a product of scales as if it were one number."""
    total, sums, zero, scale, weight_scale, bias = row.values()
    node = row.graph.node
    if row.call.inputs[2] != 0 or isinstance(row.call.inputs[2], Value):
        total = node("Sub", total, node("Mul", zero, sums))
    return node("Add", node("Mul", node("Mul", total, scale), weight_scale), bias)


_NATIVE: dict[str, Callable[[Row], str | None]] = {
    "relu": _relu,
    "leaky_relu": _with_alpha("LeakyRelu"),
    "elu": _with_alpha("Elu"),
    "celu": lambda row: None if row.compute is not dtypes.float32 else _with_alpha("Celu")(row),
    "selu": _activation("Selu"),
    "gelu": _activation("Gelu", 20),
    "gelu_tanh": _activation("Gelu", 20, approximate="tanh"),
    "mish": _activation("Mish", 18),
    "hardswish": _activation("HardSwish"),
    "hardsigmoid": _activation("HardSigmoid", alpha=1 / 6, beta=0.5),
    "softsign": _activation("Softsign"),
    "softplus": _softplus,
    "silu": _silu,
    "prelu": _prelu,
    "clamp": _clip(1, 2),
    "hardtanh": _clip(1, 2),
    "clamp_min": _clip(1, -1),
    "clamp_max": _clip(-1, 1),
    "fill": _fill,
    "arange": _arange,
    "pow": _pow,
    "square": _square,
    "dequantize_product": _dequantize_product,
}
