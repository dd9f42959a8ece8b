"""The cost of an op's call derived from its shapes: floating-point operations, multiply-adds, bytes.

Times are measured elsewhere.

A multiply-add is two operations. A formula counts one for every function in it, per element. Bytes are the minimum to
be read and written once, without effects of caches and scratch memory. An op whose work depends on its values (a sort)
counts no operations.
"""

from __future__ import annotations

from functools import cache
from math import prod

from ..device import Layout
from ..kernel.expression import Call, Expression, Symbol, as_expression, topological
from .attention.attention import Attention, AttentionGradient
from .convolution.convolution import Convolution
from .matmul.linear_backward import LinearGradient
from .matmul.matmul import Linear, Matmul
from .op import Op
from .pointwise import Pointwise
from .sequence.rnn_layer import Layer
from .reduce.reduction import FusedMapReduce, Reduction
from .reduce.softmax import CrossEntropy, Softmax
from .update import Update

_SOFTMAX = 4  # per element: greatest, difference, exponential, sum


def multiply_adds(op: Op, inputs: tuple, parameters: tuple, results: tuple[Layout, ...]) -> int:
    """Of products and convolutions, as they are defined; 0 for other ops.

    `inputs` and `results` are layouts (or types, for numbers).
    """
    if isinstance(op, Linear):
        return results[0].size * inputs[0].shape[-1]
    if isinstance(op, Matmul):
        return results[0].size * inputs[0].shape[-2 if parameters[0] else -1]
    if isinstance(op, LinearGradient):  # the weight's and, where it is asked for, the input's
        return inputs[0].size * inputs[1].shape[-1] * (1 + isinstance(inputs[2], Layout))
    if isinstance(op, Convolution):
        _, weight, result = op.shapes(*inputs[:2], parameters)
        return prod(result) * prod(weight[1:])
    # scores and what they weigh; backward those, the gradients of both, and the scores' again
    if isinstance(op, (Attention, AttentionGradient)):
        query, key, value = inputs[-8:-5] if isinstance(op, AttentionGradient) else inputs[:3]
        scores, weighed = query.size * key.shape[-2], query.size // query.shape[-1] * key.shape[-2] * value.shape[-1]
        return 3 * scores + 2 * weighed if isinstance(op, AttentionGradient) else scores + weighed
    # the state's share, or its gradient's; the input's is a product of its own, and so is the weight's
    if isinstance(op, Layer):
        return results[0].size * inputs[op.inputs.index("weight")].shape[0 if op.inputs[0] == "x" else 1]
    return 0


def flops(op: Op, inputs: tuple, parameters: tuple, results: tuple[Layout, ...]) -> int:
    """Floating-point operations of a call."""
    products = multiply_adds(op, inputs, parameters, results)
    if products:
        bias = (
            inputs[0]
            if isinstance(op, LinearGradient)
            else results[0]
            if isinstance(op, Linear) and isinstance(inputs[2], Layout)
            else None
        )
        return 2 * products + (bias.size if bias is not None else 0)
    tensors = [input for input in inputs if isinstance(input, Layout)]
    if isinstance(op, Update):  # its one parameter is how many tensors each member has
        return _update_functions(op) * sum(tensor.size for tensor in tensors[:: parameters[0]])
    if isinstance(op, Pointwise):
        return functions(op) * results[0].size
    if isinstance(op, FusedMapReduce):
        return (functions(op.row) + 1) * tensors[0].size
    if isinstance(op, Reduction):
        return (1 + _calls(as_expression(op.each(Symbol("x"))))) * tensors[0].size
    if isinstance(op, (Softmax, CrossEntropy)):
        return _SOFTMAX * tensors[0].size
    return 0


def bytes_moved(op: Op, inputs: tuple, results: tuple[Layout, ...]) -> int:
    """Bytes of the elements a call must read and write; none for a view."""
    if op.is_view:
        return 0
    return sum(
        min(each.size, each.extent) * each.dtype.itemsize for each in (*inputs, *results) if isinstance(each, Layout)
    )


@cache
def functions(row: Pointwise) -> int:
    """Functions in a row's formula; those that choose or convert count too, since they take their time."""
    return _calls(row.express(*map(Symbol, row.inputs)))


def _calls(root: Expression) -> int:
    return sum(isinstance(node, Call) for node in topological([root]))


@cache
def _update_functions(op: Update) -> int:
    results = [as_expression(each) for each in op.formula(*map(Symbol, op.inputs))]
    return sum(isinstance(node, Call) for node in topological(results))
