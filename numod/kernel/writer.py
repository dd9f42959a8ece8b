"""The body of a loop as lines of text: loads, a line for each call of a formula, stores.

`emit` and `folds` write the loops around it.

Names in a kernel's text cannot collide, whatever the inputs of a formula are called. Input x is `in_x`, result 0 is
`out0`. All other variables begin with an underscore: the values of a `Writer` are a letter and a number, variables for
random words begin with `_draw_`, and `_number_x` is the number x converted to the compute dtype. Handwritten kernels,
into which such lines can be inserted (`ops.matmul.epilogue`), use none of these names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ..dtypes import dtype as DType
from .scalar import functions
from .expression import Call, Constant, Expression, Symbol, as_expression, topological


INDEX = "_index"  # the variable that a formula's text reads as `index`: the element's position in row-major order


def argument_name(name: str) -> str:
    """The name of a formula's input in a kernel."""
    return f"in_{name}"


@dataclass(frozen=True)
class Input:
    """An input of a loop: a tensor's elements, or a number (`tensor` is false), which is passed as float64 or int64.

    `integer` numbers stay int64.
    """

    name: str
    dtype: DType
    tensor: bool = True
    condition: bool = False
    integer: bool = False


class Output(NamedTuple):
    """A result of a loop, written to a new tensor, or over input `over`."""

    expression: Expression
    dtype: DType
    over: str | None = None


@dataclass(frozen=True)
class Loop:
    """The inputs and outputs of one fused loop, which computes in `dtype`."""

    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    dtype: DType

    def written(self) -> list[str]:
        """Names of the arrays of new results, in order."""
        return [f"out{k}" for k, output in enumerate(self.outputs) if output.over is None]


def number_type(dtype: DType) -> str:
    """The type by which a kernel takes a Python number of this dtype."""
    return {"f": "float64", "c": "complex128"}.get(dtype.kind, "int64")


def cast(dtype: DType, text: str, input: Input | None = None) -> str:
    """Text that converts a value to `dtype`, unless it is an input that is a condition or an integer."""
    if input is not None and input.condition:
        return f"({text} != 0)"
    if input is not None and input.integer:
        return text
    return f"boolean({text})" if dtype.kind == "b" else f"{dtype.name}({text})"


def load(dtype: DType, input: Input, index: str) -> str:
    """Text that reads an element as the compute dtype."""
    text = _widened(f"{input.name}[{index}]", input.dtype)
    if input.dtype.kind == "b" or input.condition or (dtype.kind == "b" and input.dtype.is_complex):
        text = f"({text} != 0)"
        if input.condition or dtype.kind == "b":
            return text
    return cast(dtype, text, input)


class Writer:
    """Turns expressions into lines, one per call; equal lines are written once.

    `symbols` maps an input's name to (text, kind). A kind is "value" (in the compute dtype), "truth" (a boolean) or
    "integer" (int64).
    """

    def __init__(self, dtype: DType, symbols: dict[str, tuple[str, str]], letter: str = "t") -> None:
        self.dtype, self.symbols, self.letter = dtype, symbols, letter
        self.lines: list[str] = []
        self._variables: dict[int, tuple[str, str]] = {}
        self._known: dict[str, str] = {}
        self._alive: list[Expression] = []  # keeps expanded formulas alive, since `_variables` refers to their ids

    def write(self, root: Expression, kind: str = "value") -> str:
        """Write the lines for `root` and return the variable that holds it."""
        self._visit(root)
        return self._as(root, kind)

    def _visit(self, root: Expression) -> None:
        self._alive.append(root)
        for node in topological([root]):
            if id(node) not in self._variables:
                self._variables[id(node)] = self._node(node)

    def _node(self, node: Expression) -> tuple[str, str]:
        if isinstance(node, Symbol):
            text, kind = self.symbols[node.name]
            return (text if text.isidentifier() else self._define(text)), kind
        if isinstance(node, Constant):
            return self._define(cast(self.dtype, literal(node.value))), "value"
        return self._call(node)

    def _call(self, node: Call) -> tuple[str, str]:
        """The variable that holds a formula's result, and the kind of that result."""
        formula = node.formula
        body = formula.body_for(self.dtype.kind)
        if callable(body):
            inner = as_expression(body(*node.arguments))
            self._visit(inner)
            return self._variables[id(inner)]
        names = {
            name: self._as(
                argument, "truth" if name in formula.conditions else "integer" if name in formula.integers else "value"
            )
            for name, argument in zip(formula.inputs, node.arguments)
        }
        names["index"] = INDEX
        text = re.sub(r"\b(condition|index|x|y|z)\b", lambda match: names[match[0]], body)
        if formula.result == "bool":
            return self._define(f"boolean({text})"), "truth"
        if formula.result in ("real", "complex"):
            return self._define(
                cast(self.dtype.real if formula.result == "real" else self.dtype.to_complex(), text)
            ), "value"
        return self._define(cast(self.dtype, text)), "value"

    def _as(self, node: Expression, kind: str) -> str:
        variable, current_kind = self._variables[id(node)]
        if current_kind == kind or kind == "integer":
            return variable
        return self._define(f"({variable} != 0)" if kind == "truth" else cast(self.dtype, variable))

    def _define(self, text: str) -> str:
        if text not in self._known:
            self._known[text] = f"_{self.letter}{len(self._known)}"
            self.lines.append(f"{self._known[text]} = {text}")
        return self._known[text]


def converted_numbers(loop: Loop) -> list[str]:
    """Lines before a loop that convert its numbers to the compute dtype."""
    return [
        f"_number_{input.name} = {cast(loop.dtype, input.name, input)}" for input in loop.inputs if not input.tensor
    ]


def body(loop: Loop, index: dict[str, str]) -> list[str]:
    """The body of a loop: loads, one line per call, stores.

    A tensor without an `index` is a variable in the loop's dtype.
    """
    symbols = {}
    for input in loop.inputs:
        kind = "truth" if input.condition else "integer" if input.integer else "value"
        if input.name in index:
            loaded = load(loop.dtype, input, index[input.name])
        elif input.tensor:
            loaded = input.name
        else:
            loaded = f"_number_{input.name}"
        symbols[input.name] = loaded, kind
    writer = Writer(loop.dtype, symbols)
    halves = {
        input.name: input.dtype for input in loop.inputs if input.tensor and input.dtype.compute is not input.dtype
    }

    def result(output: Output) -> str:
        source = output.expression
        while isinstance(source, Call) and source.formula.body == "x":
            (source,) = source.arguments
        name = getattr(source, "name", None)
        if name in index and halves.get(name) is output.dtype:  # copy the bits
            return f"{name}[{index[name]}]"
        return stored(
            writer.write(output.expression, "truth" if output.dtype.kind == "b" else "value"), output.dtype, loop.dtype
        )

    results = [result(output) for output in loop.outputs]
    written = iter(loop.written())
    targets = [output.over or next(written) for output in loop.outputs]
    return writer.lines + [f"{target}[{index[target]}] = {value}" for target, value in zip(targets, results)]


def stored(value: str, dtype: DType, computed: DType) -> str:
    """Text that converts a computed value to the storage type of `dtype`."""
    if dtype.kind == "b":
        return f"uint8({value})"
    if dtype.compute is not dtype:
        return f"to_{dtype.name}({value if computed is dtype.compute else cast(dtype.compute, value)})"
    return value if dtype is computed else cast(dtype, value)


def store_function(dtype: DType) -> Callable:
    """The function with which a kernel converts a value from the compute dtype to the storage type of `dtype`."""
    return unchanged if dtype.compute is dtype else functions[f"to_{dtype.name}"]


def unchanged(value):
    return value


def _widened(text: str, dtype: DType) -> str:
    """Text that converts a loaded element to its compute dtype."""
    return text if dtype.compute is dtype else f"from_{dtype.name}({text})"


def literal(value: float | bool) -> str:
    """A number as text of a kernel."""
    text = repr(value)
    return {"inf": "1e400", "-inf": "-1e400", "nan": "(1e400 - 1e400)"}.get(text, text)
