"""Random numbers: nodes that draw from the generator of the runtime, other numbers at each run and other ones than
numod's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ... import dtypes
from ...core.create.generator import Draw
from ...dtypes import dtype as DType
from ...graph.ir.program import Value
from ..symbols import Call, Extent, Size
from .graph import Graph, Unsupported, element_type
from .rules import Rule, rule

if TYPE_CHECKING:
    from .translate import Translation

# the operators whose results are random
RANDOM = frozenset({"RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike"})
_EXACT_SPAN = 1 << 20  # integers below are drawn by float32 numbers


def rule_of_draw(call: Call) -> Rule:
    """The rule of a step that draws random numbers. Raises Unsupported where ONNX has no such numbers."""
    write = _ROWS.get(call.op.name)
    if write is None:
        raise Unsupported(f"ONNX has no random numbers of {call.op.name}; call model.eval(), or pass them as an input")

    def apply(translation: Translation, call: Call) -> str:
        (value,) = call.results
        inputs = list(call.inputs)
        k = next(k for k, argument in enumerate(inputs) if isinstance(argument, Draw))
        del inputs[k - 1 : k + 1]  # the seed and the offset
        numbers = _Numbers(translation, translation.shape(value), translation.dtype(value))
        name = write(numbers, *inputs)
        return name if _keeps_dtype(call, numbers) else translation.graph.cast(name, numbers.dtype)

    return apply


def _keeps_dtype(call: Call, numbers: _Numbers) -> bool:
    """Whether a row gives floats, and these already have the result's dtype."""
    return numbers.compute is numbers.dtype and call.op.name not in ("bernoulli", "randint", "random_below")


class _Numbers:
    """Random numbers in a shape. `dtype` is the result's, `compute` a dtype of floats in which they are made."""

    def __init__(self, translation: Translation, shape: Sequence[Extent], dtype: DType) -> None:
        self.translation, self.shape, self.dtype = translation, tuple(shape), dtype
        self.graph: Graph = translation.graph
        self.compute = dtype if dtype in (dtypes.float64, dtypes.float32) else dtypes.float32

    def draw(self, kind: str, **numbers: float) -> str:
        """RandomUniform or RandomNormal."""
        element = element_type(self.compute)
        if any(isinstance(size, Size) for size in self.shape):
            like = self.graph.expand(self.graph.constant(0, self.compute), (), self.shape)
            return self.graph.node(f"{kind}Like", like, dtype=element, **numbers)
        shape = self.shape or (1,)
        name = self.graph.node(kind, dtype=element, shape=list(shape), **numbers)
        return self.graph.reshape(name, shape, self.shape)

    def operand(self, value: Any) -> str:
        """A tensor or number in the dtype of the arithmetic."""
        if not isinstance(value, Value):
            return self.graph.number(value, self.compute)
        name = self.translation.name(value)
        return name if self.translation.dtype(value) is self.compute else self.graph.cast(name, self.compute)


def _uniform(numbers: _Numbers, low: float = 0.0, high: float = 1.0) -> str:
    return numbers.draw("RandomUniform", low=float(low), high=float(high))


def _normal(numbers: _Numbers, mean: Any = 0.0, std: Any = 1.0) -> str:
    if not isinstance(mean, Value) and not isinstance(std, Value):
        return numbers.draw("RandomNormal", mean=float(mean), scale=float(std))
    node = numbers.graph.node
    return node("Add", numbers.operand(mean), node("Mul", numbers.operand(std), numbers.draw("RandomNormal")))


def _integers(numbers: _Numbers, low: int, span: int) -> str:
    if isinstance(span, Size) or isinstance(low, Size):
        raise Unsupported("random integers below a dynamic size have no ONNX form; pass them as an input")
    if span < 0:
        raise Unsupported("random integers of more than 63 bits have no ONNX form; pass them as an input")
    node, graph = numbers.graph.node, numbers.graph
    if span > _EXACT_SPAN:
        numbers.compute = dtypes.float64
    scaled = node("Floor", node("Mul", _uniform(numbers), numbers.operand(span)))
    whole = graph.cast(scaled, dtypes.int64)  # the product may be rounded up to the span
    return node("Add", node("Min", whole, graph.constant(span - 1)), graph.constant(low))


def _exponential(numbers: _Numbers, rate: Any = 1.0) -> str:
    node = numbers.graph.node
    logarithm = node("Log", node("Sub", numbers.operand(1.0), _uniform(numbers)))
    return node("Div", node("Neg", logarithm), numbers.operand(rate))


def _bernoulli(numbers: _Numbers, probability: Any) -> str:
    return numbers.graph.node("Less", _uniform(numbers), numbers.operand(probability))


def _dropout(numbers: _Numbers, x: Value, probability: float) -> str:
    """A product with a mask: ONNX Runtime removes the operator Dropout also where it is told to drop."""
    node, graph = numbers.graph.node, numbers.graph
    is_kept = node("GreaterOrEqual", _uniform(numbers), numbers.operand(float(probability)))
    scale = 1.0 / (1.0 - probability) if probability < 1.0 else 0.0
    mask = node("Mul", graph.cast(is_kept, numbers.compute), numbers.operand(scale))
    return node("Mul", numbers.operand(x), mask)


_ROWS: dict[str, Callable[..., str]] = {
    "random_uniform": _uniform, "uniform": _uniform, "random_normal": _normal, "normal": _normal,
    "random_below": lambda numbers, span: _integers(numbers, 0, span), "randint": _integers,
    "exponential": _exponential, "bernoulli": _bernoulli, "dropout": _dropout,
}  # fmt: skip


@rule("permutation")
def permutation(translation: Translation, call: Call) -> str:
    """The order of random keys."""
    (keys,), graph = call.inputs, translation.graph
    count = graph.sizes(translation.shape(keys))
    _, order = graph.node("TopK", translation.name(keys), count, outputs=2, largest=0)
    return graph.cast(order, translation.dtype(call.results[0]))
