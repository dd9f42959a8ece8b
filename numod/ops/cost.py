"""The cost of an op's call from its shapes: floating-point operations, multiply-adds and bytes.

A multiply-add is two operations. A formula counts one operation per element for each function in it. Bytes count each
input and result once, without caches and scratch memory. Ops whose work depends on values (sort) count no operations.
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

_SOFTMAX = 4  # operations per element: maximum, difference, exponential, sum


def multiply_adds(op: Op, inputs: tuple, attributes: tuple, results: tuple[Layout, ...]) -> int:
    """Multiply-adds of products and convolutions by their definition; 0 for other ops.

    `inputs` and `results` are layouts, or types for numbers.
    """
    if isinstance(op, Linear):
        return results[0].size * inputs[0].shape[-1]
    if isinstance(op, Matmul):
        return results[0].size * inputs[0].shape[-2 if attributes[0] else -1]
    if isinstance(op, LinearGradient):  # of the weight, and of the input if it is wanted
        return inputs[0].size * inputs[1].shape[-1] * (1 + isinstance(inputs[2], Layout))
    if isinstance(op, Convolution):
        _, weight, result = op.shapes(*inputs[:2], attributes)
        return prod(result) * prod(weight[1:])
    # scores = q @ k and out = weights @ v; backward: scores again, then d_q, d_k, d_v and d_weights
    if isinstance(op, (Attention, AttentionGradient)):
        query, key, value = inputs[-8:-5] if isinstance(op, AttentionGradient) else inputs[:3]
        scores, output = query.size * key.shape[-2], query.size // query.shape[-1] * key.shape[-2] * value.shape[-1]
        return 3 * scores + 2 * output if isinstance(op, AttentionGradient) else scores + output
    # the product with the state, or of its gradient; products with the input and the weight's gradient are other ops
    if isinstance(op, Layer):
        return results[0].size * inputs[op.inputs.index("weight")].shape[0 if op.inputs[0] == "x" else 1]
    return 0


def flops(op: Op, inputs: tuple, attributes: tuple, results: tuple[Layout, ...]) -> int:
    """Floating-point operations of a call."""
    products = multiply_adds(op, inputs, attributes, results)
    if products:
        if isinstance(op, LinearGradient):
            bias = inputs[0]
        elif isinstance(op, Linear) and isinstance(inputs[2], Layout):
            bias = results[0]
        else:
            bias = None
        return 2 * products + (bias.size if bias is not None else 0)
    tensors = [input for input in inputs if isinstance(input, Layout)]
    if isinstance(op, Update):  # the attribute is the number of members
        return _update_functions(op) * sum(tensor.size for tensor in tensors[:: attributes[0]])
    if isinstance(op, Pointwise):
        return functions(op) * results[0].size
    if isinstance(op, FusedMapReduce):
        return (functions(op.row) + 1) * tensors[0].size
    if isinstance(op, Reduction):
        return (1 + _calls(as_expression(op.map(Symbol("x"))))) * tensors[0].size
    if isinstance(op, (Softmax, CrossEntropy)):
        return _SOFTMAX * tensors[0].size
    return 0


def bytes_moved(op: Op, inputs: tuple, results: tuple[Layout, ...]) -> int:
    """Bytes that a call must read and write; 0 for a view."""
    if op.is_view:
        return 0
    return sum(
        min(tensor.size, tensor.extent) * tensor.dtype.itemsize
        for tensor in (*inputs, *results)
        if isinstance(tensor, Layout)
    )


@cache
def functions(row: Pointwise) -> int:
    """Number of functions in a row's formula, including selections and conversions."""
    return _calls(row.express(*map(Symbol, row.inputs)))


def _calls(root: Expression) -> int:
    return sum(isinstance(node, Call) for node in topological([root]))


@cache
def _update_functions(op: Update) -> int:
    results = [as_expression(result) for result in op.formula(*map(Symbol, op.inputs))]
    return sum(isinstance(node, Call) for node in topological(results))
