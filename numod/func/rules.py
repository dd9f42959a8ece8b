"""Batching rules: how each kind of op computes all examples of a batch at once.

A rule is (op, size, inputs, is_batched, attributes) -> results with the batch dimension first.

`inputs` are numbers and tensors. Where `is_batched` is true, the tensor has the batch dimension first. An op without a
rule runs once per example.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from .. import dtypes
from ..core import Tensor, arange, stack
from ..core.apply import apply, apply_into
from ..ops.attention import attention
from ..ops.image import cdist, grid_sample
from ..ops.reduce import argmax
from ..ops.linalg import factorization
from ..ops.index import flip_roll, indexing, concat
from ..ops.fft import fft
from ..ops.norm import group_norm
from ..ops.matmul import linear_backward, matmul
from ..ops.reduce import nll, reduction, scan, softmax
from ..ops.norm import normalization
from ..ops.index import pad, scatter_reduce
from ..ops.image import interpolate
from ..ops import sampling
from ..ops.sort import topk, sort
from ..ops.linalg import triangular_solve, tril_triu
from ..ops.convolution import convolution
from ..ops.image import pooling, unfold
from ..ops.op import Op
from ..ops.pointwise import OverComplex, Pointwise
from .examples import DataDependentError

Inputs = tuple[object, ...]
IsBatched = tuple[bool, ...]


# ---- shapes


def _all(size: int, inputs: Inputs, is_batched: IsBatched) -> list:
    """The inputs as dense tensors with the batch dimension first."""
    return [
        (x if has else x.expand((size, *x.shape))).contiguous() if isinstance(x, Tensor) else x
        for x, has in zip(inputs, is_batched)
    ]


def _aligned(x: Tensor, ndim: int) -> Tensor:
    """Insert dimensions of size 1 after the batch dimension, so that an example has `ndim` dimensions."""
    return x if x.ndim > ndim else x.reshape((x.shape[0], *(1,) * (ndim + 1 - x.ndim), *x.shape[1:]))


def _folded(x: object) -> object:
    """Merge the batch dimension and the one after it."""
    return x.reshape((x.shape[0] * x.shape[1], *x.shape[2:])) if isinstance(x, Tensor) else x


def _unfolded(x: Tensor, size: int) -> Tensor:
    return x.reshape((size, x.shape[0] // size, *x.shape[1:]))


def _batch_to_channels(x: Tensor) -> Tensor:
    """Images (size, N, C, ...) as (N, size * C, ...)."""
    return x.transpose(0, 1).reshape((x.shape[1], x.shape[0] * x.shape[2], *x.shape[3:]))


def _channels_to_batch(x: Tensor, size: int) -> Tensor:
    """The inverse of `_batch_to_channels`."""
    return x.reshape((x.shape[0], size, x.shape[1] // size, *x.shape[2:])).transpose(0, 1)


def _ndim(x: Tensor, has: bool) -> int:
    return x.ndim - has


# ---- any op


def _slices(size: int, inputs: Inputs, is_batched: IsBatched) -> list[tuple]:
    columns = [x.unbind() if has else (x,) * size for x, has in zip(inputs, is_batched)]
    return list(zip(*columns))


def for_each(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> object:
    """Call the op for each example."""
    rows = [apply(op, row, attributes) for row in _slices(size, inputs, is_batched)]
    return tuple(map(stack, zip(*rows))) if op.outputs else stack(rows)


def write_each(
    op: Op, size: int, inputs: Inputs, is_batched: IsBatched, targets: tuple[Tensor, ...], attributes: tuple
) -> None:
    """Write to all examples at once if the op is pointwise or writes by index, otherwise to each example.

    Slices are written at once only if all examples share the index.
    """
    if isinstance(op, (Pointwise, OverComplex)) and len(targets) == 1:
        (target,) = targets
        aligned = [
            x if x is target else _aligned(x, target.ndim - 1) if has else x for x, has in zip(inputs, is_batched)
        ]
        return apply_into(op, tuple(aligned), targets, attributes)
    if (
        isinstance(op, indexing.Scatter)
        and inputs[0] is targets[0]
        and targets[0]._layout.dense
        and _ndim(inputs[0], is_batched[0])
    ):
        x, index, source = inputs
        slices = op in (indexing.index_add, indexing.index_copy)
        if not slices or not is_batched[1]:
            _, spread, source = _all(size, inputs, is_batched)
            return apply_into(op, (x, index if slices else spread, source), targets, (attributes[0] + 1,))
    for row, parts in zip(_slices(size, inputs, is_batched), zip(*(target.unbind() for target in targets))):
        same = [next((part for part, target in zip(parts, targets) if target is x), one) for x, one in zip(inputs, row)]
        apply_into(op, tuple(same), parts, attributes)
    return None


# ---- elements, dimensions, rows


def _pointwise(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> Tensor:
    ndims = [_ndim(x, has) if isinstance(x, Tensor) else -1 for x, has in zip(inputs, is_batched)]
    top = max(ndims)
    if top and 0 in ndims:
        inputs = tuple(
            _as_scalar(x, inputs, ndims) if has and not ndim else x for x, has, ndim in zip(inputs, is_batched, ndims)
        )
    elif not top:
        inputs = tuple(x.reshape(1) if isinstance(x, Tensor) and not has else x for x, has in zip(inputs, is_batched))
    return apply(op, tuple(_aligned(x, top) if has else x for x, has in zip(inputs, is_batched)), attributes)


def _as_scalar(x: Tensor, others: Inputs, ndims: Sequence[int]) -> Tensor:
    """A batched scalar in the dtype that type promotion gives a 0-d tensor: the batch dimension must not widen it."""
    dtypes_with_dims = [other.dtype for other, ndim in zip(others, ndims) if ndim > 0]
    common = dtypes_with_dims[0]
    for dtype in dtypes_with_dims[1:]:
        common = dtypes.promote_types(common, dtype)
    return x.to(dtypes.result_type([common], [x.dtype], []))


def _along(*positions: int, contiguous: bool = True) -> Callable:
    """The rule of ops whose attributes at `positions` are dimensions, counted from the front, or tuples of them."""

    def rule(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> object:
        shifted = list(attributes)
        for position in positions:
            shifted[position] = (
                tuple(d + 1 for d in shifted[position])
                if isinstance(shifted[position], tuple)
                else shifted[position] + 1
            )
        return apply(op, tuple(_all(size, inputs, is_batched)) if contiguous else inputs, tuple(shifted))

    return rule


def _leading(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> object:
    """The rule of ops that accept any leading dimensions."""
    return apply(op, tuple(_all(size, inputs, is_batched)), attributes)


def _rows(*shared: int) -> Callable:
    """The rule of ops whose first dimension has independent rows or images.

    The inputs at positions `shared` have no such dimension. If they differ between examples, the op runs for each.
    """

    def rule(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> object:
        if any(is_batched[k] for k in shared):
            return for_each(op, size, inputs, is_batched, attributes)
        whole = _all(size, inputs, is_batched)
        results = apply(op, tuple(inputs[k] if k in shared else _folded(x) for k, x in enumerate(whole)), attributes)
        return tuple(_unfolded(x, size) for x in results) if op.outputs else _unfolded(results, size)

    return rule


def _in_rows(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> object:
    """The rule of ops on the last dimension of a vector or matrix. A number is treated as a vector of size 1."""
    if inputs[0].ndim == 1:
        return tuple(
            [result.squeeze(1) for result in _leading(op, size, (inputs[0].unsqueeze(1),), is_batched, attributes)]
        )
    return (
        _rows()(op, size, inputs, is_batched, attributes)
        if inputs[0].ndim > 2
        else _leading(op, size, inputs, is_batched, attributes)
    )


def _resampled(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> object:
    x, *tables = inputs
    return (_along(0, contiguous=False) if is_batched == (True, False, False) else for_each)(
        op, size, (x.contiguous(), *tables), is_batched, attributes
    )


def _padded(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> object:
    before, after, mode = attributes
    return apply(op, tuple(_all(size, inputs, is_batched)), ((0, *before), (0, *after), mode))


def _fused_map_reduce(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> Tensor:
    values = _pointwise(op.row, size, inputs, is_batched, ())
    total = values.reshape((size, -1)).sum(1) if values.ndim > 1 else values
    return total if attributes[0] == 1 else total * attributes[0]


def _norm(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> tuple:
    """The examples are merged into the images. Weights and biases that differ by example are applied afterwards."""
    x, weight, bias = inputs
    if not any(is_batched[1:]):
        return _rows(1, 2)(op, size, inputs, is_batched, attributes)
    out, *others = _rows(1, 2)(op, size, (x, None, None), (is_batched[0], False, False), attributes)
    shaped = lambda x, has: x.reshape((size if has else 1, 1, x.shape[-1], *(1,) * (out.ndim - 3)))  # noqa: E731
    out = out if weight is None else out * shaped(weight, is_batched[1])
    return (out if bias is None else out + shaped(bias, is_batched[2]), *others)


def _row_norm(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> tuple:
    """`_norm` for rows."""
    x, *others = inputs
    out, mean, rstd = _norm(op, size, (_in_rows_of(x, is_batched[0]), *others), is_batched, attributes)
    return out.reshape((size, *x.shape[is_batched[0] :])), mean, rstd


def _in_rows_of(x: Tensor, has: bool) -> Tensor:
    """x (..., n) as (rows, n); it may have the batch in front."""
    return x.reshape((*x.shape[:has], prod(x.shape[has:-1]), x.shape[-1]))


def _row_norm_gradient(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> tuple:
    """All rows are merged. Gradients of weight and bias, which the op would sum over examples, come from ops."""
    g, x, weight, mean, rstd = _all(size, inputs, is_batched)
    shape, g, x = x.shape, _in_rows_of(g, True), _in_rows_of(x, True)
    weighted = g * weight.unsqueeze(1) if is_batched[2] else g
    d_x, _ = apply(
        op,
        (_folded(weighted), _folded(x), None if is_batched[2] else inputs[2], _folded(mean), _folded(rstd)),
        (False,),
    )
    if not attributes[0]:
        return d_x.reshape(shape), g.new_zeros((size, 1, 2, g.shape[-1]))
    normal = (x - mean.unsqueeze(-1)) * rstd.unsqueeze(-1)
    return d_x.reshape(shape), stack(((g * normal).sum(1), g.sum(1)), 1).unsqueeze(1)


def _group_norm_gradient(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> tuple:
    """The examples are merged into the images.

    If weights differ between examples, the gradient of x is computed from g * weight, and that of weight and bias from
    g.
    """
    if not is_batched[2]:
        return _rows(2)(op, size, inputs, is_batched, attributes)
    g, x, weight, *others = _all(size, inputs, is_batched)
    of = lambda g: _rows(2)(op, size, (g, x, None, *others), (True, True, False, True, True), attributes)  # noqa: E731
    return of(g * weight.reshape((size, 1, weight.shape[1], *(1,) * (g.ndim - 3))))[0], of(g)[1]


def _channel_norm(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> tuple:
    """The examples become further channels, each with its own statistics."""
    whole = [
        _batch_to_channels(x).contiguous() if isinstance(x, Tensor) and x.ndim > 2 else _folded(x)
        for x in _all(size, inputs, is_batched)
    ]
    return tuple(
        [_channels_to_batch(x, size) if x.ndim > 1 else _unfolded(x, size) for x in apply(op, tuple(whole), attributes)]
    )


# ---- products
# ----------------------------------------------------------------------------------------------------------


def _product(a: Tensor, b: Tensor, is_batched: IsBatched, transposed: tuple = (False, False)) -> Tensor:
    """The matrix product. Each matrix may have a batch dimension in front."""
    ndim = max(_ndim(a, is_batched[0]), _ndim(b, is_batched[1]))
    a, b = (_aligned(x, ndim) if has else x for x, has in zip((a, b), is_batched))
    return apply(matmul.matmul, (a, b), transposed)


def _matmul(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> Tensor:
    a, b = inputs
    row, column = (_ndim(x, has) == 1 for x, has in zip(inputs, is_batched))
    result = _product(a.unsqueeze(-2) if row else a, b.unsqueeze(-1) if column else b, is_batched, attributes)
    result = result.squeeze(-1) if column else result
    return result.squeeze(-1 if column else -2) if row else result


def _linear(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> Tensor:
    x, weight, bias = inputs
    if is_batched == (True, False, False):
        return _unfolded(apply(op, (_folded(x.contiguous()), weight, bias), attributes), size)
    product = _product(x, weight, is_batched[:2], (False, True))
    return product if bias is None else product + (_aligned(bias, _ndim(x, is_batched[0])) if is_batched[2] else bias)


def _linear_gradient(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> tuple:
    g, x, weight = inputs
    gradients = (
        []
        if weight is None
        else [(_product(g, weight, (is_batched[0], is_batched[2])), is_batched[0] or is_batched[2])]
    )
    g, x = map(_in_rows_of, (g, x), is_batched)
    gradients += [
        (_product(g, x, is_batched[:2], (True, False)), is_batched[0] or is_batched[1]),
        (g.sum(-2), is_batched[0]),
    ]
    return tuple(x if has else x.expand((size, *x.shape)) for x, has in gradients)


def _convolution(
    op: convolution.Convolution, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple
) -> Tensor:
    """The examples become further images or, if the weights differ, further groups of channels."""
    stride, padding, dilation, groups, shape = attributes
    first, second = _all(size, inputs, is_batched)
    if op.inputs[1] == "weight" and not is_batched[1]:
        shape = shape and (size * shape[0], *shape[1:])
        return _unfolded(apply(op, (_folded(first), inputs[1]), (stride, padding, dilation, groups, shape)), size)

    of_weight = op.inputs[1] != "weight"  # whether the result is a weight gradient
    second = _batch_to_channels(second) if of_weight else _folded(second)
    shape = shape and ((size * shape[0], *shape[1:]) if of_weight else (shape[0], size * shape[1], *shape[2:]))
    result = apply(
        op,
        (_batch_to_channels(first).contiguous(), second.contiguous()),
        (stride, padding, dilation, size * groups, shape),
    )
    return _unfolded(result, size) if of_weight else _channels_to_batch(result, size)


# ---- indices
# -----------------------------------------------------------------------------------------------------------


def _gather(op: indexing.Gather, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> Tensor:
    """The batching rule of gather and index_select."""
    (x, index), (dim,) = inputs, attributes
    if op.kernel is indexing.gather_kernel:
        return apply(op, tuple(_all(size, inputs, is_batched)), (dim + 1,))
    if op.kernel is not indexing.index_select_kernel:
        return for_each(op, size, inputs, is_batched, attributes)
    if not is_batched[1]:
        return apply(op, (x.contiguous(), index), (dim + 1,))
    if not is_batched[0]:
        return apply(op, (x, index.contiguous()), attributes).movedim(dim, 0)
    slices = x.movedim(dim + 1, 1)
    n = slices.shape[1]
    positions = index + (arange(size, device=index.device) * slices.shape[1]).reshape((size, *(1,) * (index.ndim - 1)))
    result = apply(op, (slices.reshape((size * n, *slices.shape[2:])).contiguous(), positions.contiguous()), (0,))
    moved = index.ndim - 1
    return (
        result.movedim(tuple(range(1, 1 + moved)), tuple(range(1 + dim, 1 + dim + moved))) if moved and dim else result
    )


# ---- losses
# ------------------------------------------------------------------------------------------------------------


def _targets(target: Tensor, classes: int, ignored: int) -> tuple[Tensor, Tensor, Tensor]:
    """Targets limited to classes or `ignored`; which are not ignored; the number of invalid ones per example."""
    size, is_counted = target.shape[0], target != ignored
    wrong = (is_counted & ((target < 0) | (target >= classes))).reshape((size, -1)).sum(1)
    return target.clamp(0, classes - 1).masked_fill(~is_counted, ignored), is_counted, wrong


def _cross_entropy_total(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> tuple:
    ignored, mean = attributes
    x, target = _all(size, inputs, is_batched)
    safe, is_counted, wrong = _targets(target, x.shape[2], ignored)
    counts = is_counted.reshape((size, -1)).sum(1)
    total = (
        _unfolded(apply(softmax.cross_entropy, (_folded(x), _folded(safe)), (ignored,)), size)
        .reshape((size, -1))
        .sum(1)
    )
    return (total / counts if mean else total), counts, wrong


def _cross_entropy_gradient(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> Tensor:
    (ignored, mean), (g, x, target, counts) = attributes, _all(size, inputs, is_batched)
    if counts is not None:  # g is one number for all targets of an example
        g = (g / counts if mean else g).reshape((size, *(1,) * (target.ndim - 1))).expand(target.shape).contiguous()
    return _unfolded(apply(op, (_folded(g), _folded(x), _folded(target), None), (ignored, False)), size)


def _nll(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> tuple:
    """The loss of each target or, per example, the sum of the losses and of the weights."""
    (x, target, weight), (ignored, reduction) = inputs, attributes
    if is_batched[2]:
        return for_each(op, size, inputs, is_batched, attributes)
    x, target, _ = _all(size, inputs, is_batched)
    safe, is_counted, wrong = _targets(target, x.shape[2], ignored)
    weight_sum = is_counted.double() if weight is None else is_counted * weight.double()[safe * is_counted]
    weight_sum = weight_sum.reshape((size, -1)).sum(1)
    loss = _unfolded(apply(op, (_folded(x), _folded(safe), weight), (ignored, "none"))[0], size)
    if reduction != "none":
        loss = loss.reshape((size, -1)).sum(1)
    return (loss / weight_sum).to(x.dtype) if reduction == "mean" else loss, weight_sum, wrong


def _nll_gradient(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> Tensor:
    ignored, reduction, shape = attributes
    if is_batched[2]:
        return for_each(op, size, inputs, is_batched, attributes)
    g, target, _, weight_sum = _all(size, inputs, is_batched)
    if reduction != "none":  # g is one number for all targets of an example
        g = (g / weight_sum).to(g.dtype) if reduction == "mean" else g
        g = g.reshape((size, *(1,) * (target.ndim - 1))).expand(target.shape).contiguous()
    return _unfolded(
        apply(
            op, (_folded(g), _folded(target), inputs[2], weight_sum), (ignored, "none", (size * shape[0], *shape[1:]))
        ),
        size,
    )


def _attention(op: Op, size: int, inputs: Inputs, is_batched: IsBatched, attributes: tuple) -> tuple:
    """The examples become one more leading dimension or, if the kernels support no more, further heads.

    With dropout the op runs per example, since its random numbers depend on positions.
    """
    if attributes[2]:
        raise DataDependentError
    at = op.inputs.index("mask")
    mask, whole = inputs[at], _all(size, (*inputs[:at], None, *inputs[at + 1 :]), is_batched)
    if isinstance(mask, Tensor):
        whole[at] = mask if is_batched[at] else mask.expand((size, *mask.shape))  # any strides; a copy could be large
    if whole[at - 1].ndim <= attention.LEADS + 2:
        return apply(op, tuple(whole), attributes)
    return tuple([_unfolded(x, size) for x in apply(op, tuple(map(_folded, whole)), attributes)])


RULES: dict[type, Callable] = {
    Pointwise: _pointwise, OverComplex: _pointwise, reduction.FusedMapReduce: _fused_map_reduce,
    reduction.Reduction: _along(0, contiguous=False),
    softmax.Softmax: _along(0), scan.Running: _along(0), scan.RunningExtremum: _along(0), argmax.Extremum: _along(0),
    concat.Cat: _along(0),
    flip_roll.Flip: _along(0), flip_roll.Roll: _along(0),
    scatter_reduce.ScatterReduce: _along(0), interpolate.Resample: _resampled,
    fft.Transform: _along(0), pad.Pad: _padded, pad.PadBack: _padded, tril_triu.Band: _leading,
    factorization.Factorization: _leading, triangular_solve.Substitution: _leading, matmul.Matmul: _matmul,
    matmul.Linear: _linear, linear_backward.LinearGradient: _linear_gradient, convolution.Convolution: _convolution,
    sampling.Sample: _leading, sampling.GammaGradient: _leading, sort.Sort: _in_rows, topk.Select: _in_rows,
    indexing.Gather: _gather, normalization.RowNorm: _row_norm, normalization.RowNormGradient: _row_norm_gradient,
    group_norm.GroupNorm: _norm, normalization.ChannelNorm: _channel_norm,
    normalization.ChannelNormGradient: _channel_norm, group_norm.GroupNormGradient: _group_norm_gradient,
    pooling._Pool: _rows(), unfold.Patches: _rows(), grid_sample.GridSample: _rows(), cdist.Cdist: _rows(),
    nll.Nll: _nll, nll.NllGradient: _nll_gradient,
    softmax.CrossEntropy: _rows(), softmax.CrossEntropyTotal: _cross_entropy_total,
    softmax.CrossEntropyGradient: _cross_entropy_gradient, attention.Attention: _attention,
    attention.AttentionGradient: _attention,
}  # fmt: skip


def rule_of(op: Op) -> Callable:
    """The rule of the op's class, or of its nearest base class that has one."""
    return next((RULES[base] for base in type(op).__mro__ if base in RULES), for_each)
