"""Pointwise rows: an ONNX operator where there is one, else the row's formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ... import dtypes
from ...dtypes import dtype as DType
from ...graph.ir.program import Value
from ...kernel.expression import Symbol
from ..symbols import Call, Extent, Ratio, Size
from .formulas import FormulaWriter, converted, is_single
from .graph import Unsupported

if TYPE_CHECKING:
    from .translate import Translation

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
            return self.graph.number(converted(argument, dtype), dtype)
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
        if self.compute in _COMPOSED_IN_FLOAT32 and not is_single(expression):
            self.compute = dtypes.float32
        names = dict(zip(map(id, symbols), self.values()))
        name = FormulaWriter(self.graph, self.compute, self.shape, names).write(expression)
        return name if op.result == "bool" or self.compute is result else self.graph.cast(name, result)


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
