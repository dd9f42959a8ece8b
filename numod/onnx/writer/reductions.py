"""Reductions, running sums, extrema, softmax, sorting and selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import dtypes
from ...graph.ir.program import Value
from ...kernel.expression import Symbol
from ..symbols import Call, Size
from .formulas import FormulaWriter
from .graph import Graph, Unsupported
from .pointwise import kind_of
from .rules import rule

if TYPE_CHECKING:
    from ...dtypes import dtype as DType
    from .translate import Translation

_REDUCTIONS = {
    "sum": "ReduceSum", "nansum": "ReduceSum", "mean": "ReduceMean", "prod": "ReduceProd", "amax": "ReduceMax",
    "amin": "ReduceMin", "any": "ReduceMax", "all": "ReduceMin", "norm2": "ReduceL2", "norm1": "ReduceL1",
}  # fmt: skip
_RANK, _FIRST, _MEDIAN = range(3)  # values of the attribute `aim` of `select`
_NATIVE_INTEGERS = (dtypes.int32, dtypes.int64)


@rule(*_REDUCTIONS)
def reduction(translation: Translation, call: Call) -> str:
    """Reduce* over some dimensions."""
    graph, (x,), (dims, keepdim, _) = translation.graph, call.inputs, call.attributes
    result, name = translation.dtype(call.results[0]), translation.name(x)
    kind = call.op.name
    dtype = result
    if kind in ("any", "all"):
        name = name if translation.dtype(x).kind == "b" else graph.cast(name, dtypes.bool_)
        name, dtype = graph.cast(name, dtypes.int32), dtypes.int32
    else:
        dtype = result if result.kind == "f" or result in _NATIVE_INTEGERS else dtypes.int64
        name = name if translation.dtype(x) is dtype else graph.cast(name, dtype)
    if dtype.is_complex:
        raise Unsupported("complex numbers are no type of ONNX's operators; use real and imaginary parts")
    if kind == "nansum":
        name = graph.node("Where", graph.node("IsNaN", name), graph.constant(0.0, dtype), name)
    name = graph.reduce(_REDUCTIONS[kind], name, dims, keepdim)
    return name if dtype is result else graph.cast(name, result)


def total(translation: Translation, call: Call) -> str:
    """The sum or mean of a row over all elements, as losses are."""
    graph, row = translation.graph, call.op.row
    compute = row.types(tuple([kind_of(translation, value) for value in call.inputs]))[0]
    shapes = [translation.shape(value) for value in call.inputs if isinstance(value, Value)]
    symbols = [Symbol(name) for name in row.inputs]
    names = [
        _in(translation, value, compute) if isinstance(value, Value) else graph.number(value, compute)
        for value in call.inputs
    ]
    expression = row.express(*symbols)
    name = FormulaWriter(graph, compute, shapes[0], dict(zip(map(id, symbols), names))).write(expression)
    op = "ReduceSum" if call.attributes[0] == 1 else "ReduceMean"
    return graph.reduce(op, name, range(len(shapes[0])), False)


def _in(translation: Translation, value: Value, dtype: DType) -> str:
    name = translation.name(value)
    return name if translation.dtype(value) is dtype else translation.graph.cast(name, dtype)


@rule("softmax", "log_softmax")
def softmax(translation: Translation, call: Call) -> str:
    """Softmax and LogSoftmax along a dimension."""
    op = "Softmax" if call.op.name == "softmax" else "LogSoftmax"
    name = translation.name(call.inputs[0])
    return translation.graph.node(op, name, axis=call.attributes[0]) if translation.rank(call.inputs[0]) else name


@rule("cumsum")
def cumsum(translation: Translation, call: Call) -> str:
    """CumSum, in int64 for other integers."""
    graph, (x,), (dim,) = translation.graph, call.inputs, call.attributes
    result = translation.dtype(call.results[0])
    dtype = result if result.kind == "f" or result in _NATIVE_INTEGERS else dtypes.int64
    name = _in(translation, x, dtype)
    name = graph.node("CumSum", name, graph.constant(dim)) if translation.rank(x) else name
    return name if dtype is result else graph.cast(name, result)


@rule("cumprod", "cummax", "cummin", "logcumsumexp")
def running(translation: Translation, call: Call) -> object:
    """Running products, extrema and sums of exponentials, by combining elements 1, 2, 4, ... apart."""
    graph, (x,), (dim,) = translation.graph, call.inputs, call.attributes
    dtype = translation.dtype(call.results[0])
    size = translation.shape(x)[dim] if translation.rank(x) else 1
    if isinstance(size, Size):
        raise Unsupported(f"{call.op.name} along a dynamic dimension; export it with a fixed size")
    name, distance = _in(translation, x, dtype), 1
    while distance < size:
        head = graph.slice(name, dim, 0, distance)
        tails = graph.slice(name, dim, distance, size), graph.slice(name, dim, 0, size - distance)
        combined = _combined(graph, call.op.name, tails, dtype)
        name, distance = graph.node("Concat", head, combined, axis=dim), 2 * distance
    return name if len(call.results) == 1 else (name, None)


def _combined(graph: Graph, kind: str, names: tuple[str, str], dtype: DType) -> str:
    """Two elements as one: the product, an extremum, or the logarithm of the sum of exponentials."""
    if kind != "logcumsumexp":
        return graph.node({"cumprod": "Mul", "cummax": "Max", "cummin": "Min"}[kind], *names)
    limits = dtypes.finfo(dtype)  # of finite numbers, so that no difference is one of infinities
    largest = graph.node("Max", *names)
    largest = graph.node("Clip", largest, graph.number(limits.min, dtype), graph.number(limits.max, dtype))
    powers = [graph.node("Exp", graph.node("Sub", name, largest)) for name in names]
    return graph.node("Add", graph.node("Log", graph.node("Add", *powers)), largest)


@rule("argmax", "argmin")
def arg_extremum(translation: Translation, call: Call) -> str:
    """ArgMax and ArgMin."""
    graph, (x,), (dim, keepdim) = translation.graph, call.inputs, call.attributes
    if not translation.rank(x):
        return graph.constant(0)
    op = "ArgMax" if call.op.name == "argmax" else "ArgMin"
    return graph.node(op, _orderable(translation, x), axis=dim, keepdims=int(keepdim))


@rule("max", "min")
def extremum(translation: Translation, call: Call) -> tuple[str, str]:
    """Values and indices along a dimension."""
    graph, (x,), (dim, keepdim) = translation.graph, call.inputs, call.attributes
    op, name = ("Max" if call.op.name == "max" else "Min"), _orderable(translation, x)
    if not translation.rank(x):
        return translation.name(x), graph.constant(0)
    values = graph.reduce(f"Reduce{op}", name, [dim], keepdim)
    indices = graph.node(f"Arg{op}", name, axis=dim, keepdims=int(keepdim))
    return _restored(translation, x, values), indices


def _orderable(translation: Translation, x: Value) -> str:
    """A tensor in a dtype that runtimes compare: other integers and truth values as int64."""
    dtype = translation.dtype(x)
    name = translation.name(x)
    if dtype is dtypes.uint64:
        raise Unsupported("the order of uint64, which int64 does not keep; convert with .to(numod.int64)")
    return name if dtype.kind == "f" or dtype in _NATIVE_INTEGERS else translation.graph.cast(name, dtypes.int64)


def _restored(translation: Translation, x: Value, name: str) -> str:
    """A result of `_orderable` in x's dtype."""
    dtype = translation.dtype(x)
    return name if dtype.kind == "f" or dtype in _NATIVE_INTEGERS else translation.graph.cast(name, dtype)


# ---- sorting


@rule("sort")
def sort(translation: Translation, call: Call) -> tuple[str, str]:
    """TopK of all elements of the last dimension."""
    (x,) = call.inputs
    if not translation.rank(x):
        return translation.name(x), translation.graph.constant(0)
    return _top(translation, x, translation.shape(x)[-1], call.attributes[0])


@rule("select")
def selection(translation: Translation, call: Call) -> tuple[str, str]:
    """TopK; the element at a rank is the last of them."""
    (x,), (count, rank, descending, aim) = call.inputs, call.attributes
    if aim == _FIRST:
        return _top(translation, x, count, descending)
    if aim not in (_RANK, _MEDIAN):
        raise Unsupported("nanmedian is not in ONNX; replace NaN before, and take the median")
    graph, size = translation.graph, translation.shape(x)[-1]
    if isinstance(rank, Size) or isinstance(size, Size):
        raise Unsupported("the median of a dynamic dimension; export it with a fixed size")
    rank = rank if aim == _RANK else (size - 1) // 2
    last = graph.constant(rank)
    names = _top(translation, x, rank + 1, descending)
    dim = translation.rank(x) - 1
    return tuple([graph.unsqueeze(graph.node("Gather", name, last, axis=dim), [dim]) for name in names])


def _top(translation: Translation, x: Value, count: object, descending: bool) -> tuple[str, str]:
    graph = translation.graph
    values, indices = graph.node(
        "TopK", _orderable(translation, x), graph.sizes([count]), outputs=2, axis=-1, largest=int(descending), sorted=1
    )
    return _restored(translation, x, values), indices


@rule("searchsorted")
def searchsorted(translation: Translation, call: Call) -> str:
    """The count of edges before each value."""
    graph, (values, edges, _), (right, sorted_by) = translation.graph, call.inputs, call.attributes
    if sorted_by:
        raise Unsupported("searchsorted with a sorter; sort the edges before")
    names = graph.unsqueeze(_orderable(translation, values), [translation.rank(values)]), _orderable(translation, edges)
    if translation.rank(edges) > 1:
        names = names[0], graph.unsqueeze(names[1], [translation.rank(edges) - 1])
    before = graph.node("GreaterOrEqual" if right else "Greater", *names)
    return graph.reduce("ReduceSum", graph.cast(before, dtypes.int64), [translation.rank(values)], False)
