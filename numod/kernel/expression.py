"""Formulas as graphs, and their derivatives. `writer` turns them into text.

A `Formula` is a named scalar function. Its body is either the text of one operation in a kernel (`"x + y"`) or a lambda
over other formulas. A formula called with expressions returns an expression, so one lambda serves the forward pass, the
gradient, and the gradient of the gradient.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

vocabulary: dict[str, Formula] = {}  # formulas by name, for operators and for rows that use other rows


class Expression:
    """A node of a formula: a `Symbol`, a `Constant` or a `Call`.

    Arithmetic and comparison operators build new nodes.
    """

    __slots__ = ()

    def __add__(self, other: object) -> Expression:
        return vocabulary["add"](self, other)

    def __radd__(self, other: object) -> Expression:
        return vocabulary["add"](other, self)

    def __sub__(self, other: object) -> Expression:
        return vocabulary["sub"](self, other)

    def __rsub__(self, other: object) -> Expression:
        return vocabulary["sub"](other, self)

    def __mul__(self, other: object) -> Expression:
        return vocabulary["mul"](self, other)

    def __rmul__(self, other: object) -> Expression:
        return vocabulary["mul"](other, self)

    def __truediv__(self, other: object) -> Expression:
        return vocabulary["div"](self, other)

    def __rtruediv__(self, other: object) -> Expression:
        return vocabulary["div"](other, self)

    def __pow__(self, other: object) -> Expression:
        return vocabulary["pow"](self, other)

    def __neg__(self) -> Expression:
        return vocabulary["neg"](self)

    def __abs__(self) -> Expression:
        return vocabulary["abs"](self)

    def __lt__(self, other: object) -> Expression:
        return vocabulary["lt"](self, other)

    def __le__(self, other: object) -> Expression:
        return vocabulary["le"](self, other)

    def __gt__(self, other: object) -> Expression:
        return vocabulary["gt"](self, other)

    def __ge__(self, other: object) -> Expression:
        return vocabulary["ge"](self, other)

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return vocabulary["eq"](self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return vocabulary["ne"](self, other)

    def __and__(self, other: object) -> Expression:
        return vocabulary["logical_and"](self, other)

    def __or__(self, other: object) -> Expression:
        return vocabulary["logical_or"](self, other)

    def __invert__(self) -> Expression:
        return vocabulary["logical_not"](self)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError("a formula has no truth value: it is compiled without branches; write where(condition, a, b)")


class Symbol(Expression):
    """An input of a formula."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Constant(Expression):
    """A number in a formula. It has the formula's dtype: float32 stays float32."""

    __slots__ = ("value",)

    def __init__(self, value: float | bool) -> None:
        self.value = value


class Call(Expression):
    """A formula applied to expressions."""

    __slots__ = ("formula", "arguments")

    def __init__(self, formula: Formula, arguments: tuple[Expression, ...]) -> None:
        self.formula, self.arguments = formula, arguments


class Formula:
    """A named scalar function.

    `derivatives` maps an input's name to `lambda g, <inputs or out>: gradient`. Without it a lambda is differentiated
    symbolically, and a text has no gradient.

    `result`: "same" (dtype of the inputs), "float" (integers become the default float), "real" (a part of a complex
    number), "complex" (made of real numbers) or "bool". `conditions`: inputs that are truth values. `integers`: inputs
    that stay int64. `integer`: the body for integer dtypes, if it differs. `complex`: the body for complex dtypes, or
    True if it is the same body.
    """

    def __init__(
        self,
        name: str,
        body: str | Callable,
        derivatives: dict[str, Callable],
        result: str = "same",
        integer: str | Callable | None = None,
        complex: str | Callable | bool = False,
        conditions: tuple[str, ...] = (),
        integers: tuple[str, ...] = (),
        inputs: tuple[str, ...] | None = None,
    ) -> None:
        self.name, self.body, self.derivatives = name, body, derivatives
        self.result = result
        self.integer = integer
        self.complex = complex
        self.conditions = conditions
        self.integers = integers
        self.inputs = (
            inputs if inputs is not None else _text_inputs(body) if isinstance(body, str) else parameter_names(body)
        )
        self.opaque = isinstance(body, str) or bool(derivatives) or integer is not None or complex not in (True, False)

    def body_for(self, kind: str) -> str | Callable:
        """The body for a kind of dtype ("f", "c", "i", "u" or "b")."""
        if kind == "c":
            return self.body if self.complex in (True, False) else self.complex
        return self.body if kind == "f" or self.integer is None else self.integer

    def express(self, *arguments: object) -> Expression:
        """This formula applied to expressions or numbers. A lambda without `derivatives` is expanded immediately."""
        arguments = tuple(a if isinstance(a, Expression) else Constant(a) for a in arguments)
        return Call(self, arguments) if self.opaque else as_expression(self.body(*arguments))

    def gradient(
        self, name: str, g: Expression, arguments: tuple[Expression, ...], out: Expression
    ) -> Expression | None:
        """The gradient with respect to input `name`, given the gradient `g` of the result; None if there is none."""
        rule = self.derivatives.get(name)
        if rule is not None:
            values = {"g": g, "out": out, **dict(zip(self.inputs, arguments))}
            return as_expression(rule(*(values[parameter_name] for parameter_name in parameter_names(rule))))
        if callable(self.body):
            symbols = tuple(Symbol(input) for input in self.inputs)
            input_gradient = differentiate(as_expression(self.body(*symbols)), g).get(symbols[self.inputs.index(name)])
            return None if input_gradient is None else substitute(input_gradient, dict(zip(symbols, arguments)))
        return None


def as_expression(value: object) -> Expression:
    """The value if it is an expression, else a constant."""
    return value if isinstance(value, Expression) else Constant(value)


def parameter_names(function: Callable) -> tuple[str, ...]:
    """The names of a plain function's parameters, without importing `inspect`."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount]


def _text_inputs(text: str) -> tuple[str, ...]:
    return tuple(sorted(set(re.findall(r"\b(?:condition|[xyz])\b", text)), key="condition x y z".split().index))


def topological(roots: Iterable[Expression]) -> list[Expression]:
    """All nodes below `roots`, arguments before the calls that use them."""
    order: list[Expression] = []
    seen: set[int] = set()
    stack = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(getattr(node, "arguments", ())) if id(a) not in seen)
    return order


def substitute(root: Expression, replacements: dict[Expression, Expression]) -> Expression:
    """`root` with some nodes replaced by others (compared by identity)."""
    done: dict[int, Expression] = {id(old): new for old, new in replacements.items()}
    for node in topological([root]):
        if id(node) not in done:
            is_leaf = not isinstance(node, Call)
            done[id(node)] = node if is_leaf else Call(node.formula, tuple(done[id(a)] for a in node.arguments))
    return done[id(root)]


def differentiate(output: Expression, g: Expression) -> dict[Expression, Expression]:
    """Reverse-mode gradients, of `output` with respect to every node below it; `g` is the gradient of `output`."""
    adjoints: dict[Expression, Expression] = {output: g}
    for node in reversed(topological([output])):
        if not isinstance(node, Call) or node not in adjoints or node.formula.result == "bool":
            continue
        for name, argument in zip(node.formula.inputs, node.arguments):
            if isinstance(argument, Constant) or name in node.formula.conditions:
                continue
            term = node.formula.gradient(name, adjoints[node], node.arguments, node)
            if term is None:
                raise TypeError(f"formula {node.formula.name} has no derivative with respect to {name}")
            adjoints[argument] = adjoints[argument] + term if argument in adjoints else term
    return adjoints


def uses(root: Expression, symbols: dict[str, Expression]) -> set[str]:
    """Which of the named symbols occur in `root`."""
    below = {id(node) for node in topological([root])}
    return {name for name, symbol in symbols.items() if id(symbol) in below}
