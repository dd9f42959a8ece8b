"""Tensor contractions (einsum, tensordot and others), each computed as batched matrix products."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from ... import dtypes
from ...errors import SINGLE_INT, normalize_dim, plain, warn_caller, warn_deprecated
from ...ops.linalg.cross import cross as cross_op
from ...ops.pointwise import broadcast_shapes
from ..apply import apply
from ..convert.copies import contiguous, to
from .products import add_product, bmm, matmul, mm_, mv, outer
from ..math.reductions import sum as total
from ..shape.parts import diagonal
from ..shape.shapes import expand, in_shape, permute, reshape
from ..tensor import Tensor

BOTH = "inner kron cross addmv addr baddbmm addbmm ger=outer"
FUNCTIONS = "einsum tensordot chain_matmul"
IN_PLACE = "addmv addr baddbmm addbmm"
OUT = "inner kron cross addmv addr baddbmm addbmm ger tensordot chain_matmul"

# in the order of the dimensions of an implicit output
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sums of products over the subscripts of `equation`, such as "bij,bjk->bik".

    "..." stands for any number of dimensions, a repeated letter for a diagonal. einsum(tensor, [0, 1], tensor, [1, 2],
    [0, 2]) is another form. Raises RuntimeError for invalid subscripts and sizes.

    Example:

        >>> torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(3, 4)).shape
        numod.Size([2, 4])
    """
    if not isinstance(equation, str):
        equation, operands = _from_sublists((equation, *operands))
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    for k, operand in enumerate(operands):
        if not isinstance(operand, Tensor):
            raise TypeError(f"einsum(): expected Tensor as element {k} in argument 1, but got {type(operand).__name__}")
    first_steps, contractions, last_steps = _program(
        equation.replace(" ", ""), *[tuple(operand._layout.shape) for operand in operands]
    )
    result = _apply_steps(operands[0], first_steps)
    for operand, (left_steps, right_steps, product, result_steps) in zip(operands[1:], contractions):
        result = _apply_steps(
            product(_apply_steps(result, left_steps), _apply_steps(operand, right_steps)), result_steps
        )
    return _apply_steps(result, last_steps)


def _from_sublists(arguments: tuple) -> tuple[str, tuple]:
    """Convert einsum's sublist format, (tensor, dims, tensor, dims, ...), to (equation, operands)."""
    operands, lists = arguments[0 : len(arguments) // 2 * 2 : 2], arguments[1::2]
    subscripts = lambda dims: "".join("..." if n is Ellipsis else _LETTERS[n] for n in dims)  # noqa: E731
    equation = ",".join(map(subscripts, lists))
    return equation + (f"->{subscripts(arguments[-1])}" if len(arguments) % 2 else ""), operands


@lru_cache(maxsize=4096)
def _parse_equation(equation: str, *sizes: int) -> tuple[list[list], list]:
    """The labels of the dimensions of each operand and of the result.

    `sizes` are the operands' numbers of dimensions. Dimensions of "..." have negative numbers as labels.
    """
    inputs, arrow, output = equation.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(sizes):
        raise RuntimeError(
            f"einsum(): {'more' if len(sizes) > len(terms) else 'fewer'} operands were "
            f"provided than specified in the equation {equation!r}: {len(sizes)} and {len(terms)}"
        )
    labels, max_ellipsis_dims = [], 0
    for term, ndim in zip(terms, sizes):
        letters = term.replace("...", "")
        if not all(letter in _LETTERS for letter in letters) or term.count("...") > 1:
            raise RuntimeError(
                f"einsum(): invalid subscript given at {term!r}; subscripts must be in [a-zA-Z], with one ellipsis at "
                "most"
            )
        ellipsis_dims = ndim - len(letters)
        if ellipsis_dims < 0 or (ellipsis_dims and "..." not in term):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(letters)}) does not "
                f"match the number of dimensions ({ndim}) of operand {term!r} and no ellipsis was given"
            )
        before, _, after = term.partition("...")
        labels.append([*before, *(range(-ellipsis_dims, 0) if "..." in term else ()), *after])
        max_ellipsis_dims = max(max_ellipsis_dims, ellipsis_dims)
    if arrow:
        before, dots, after = output.partition("...")
        result = [*before, *(range(-max_ellipsis_dims, 0) if dots else ()), *after]
        for name in result:
            if result.count(name) > 1:
                raise RuntimeError(f"einsum(): output subscript {name} appears more than once in the output")
            if isinstance(name, str) and not any(name in term for term in labels):
                raise RuntimeError(
                    f"einsum(): output subscript {name} does not appear in the equation for any input operand"
                )
    else:
        letters = sorted(name for term in labels for name in term if isinstance(name, str))
        result = [*range(-max_ellipsis_dims, 0), *(name for name in letters if letters.count(name) == 1)]
    return labels, result


class _Steps:
    """Steps to apply to a tensor with labelled dimensions: (function, argument) pairs.

    `names` and `shape` are the labels and the shape after the steps so far.
    """

    def __init__(self, names: Sequence, shape: Sequence[int]) -> None:
        self.names, self.shape, self.steps = list(names), tuple(shape), []

    def _add(self, function: Callable, argument: Sequence, names: list, shape: tuple) -> None:
        self.steps.append((function, argument))
        self.names, self.shape = names, shape

    def to(self, function: Callable, shape: tuple) -> None:
        """Reshape or expand to this shape."""
        if shape != self.shape:
            self._add(function, shape, self.names, shape)

    def diagonals(self) -> _Steps:
        """Reduce repeated labels to one dimension, the diagonal."""
        for name in dict.fromkeys(self.names):
            while self.names.count(name) > 1:
                first = self.names.index(name)
                second = self.names.index(name, first + 1)
                n, second_size = self.shape[first], self.shape[second]
                if n != second_size:
                    raise RuntimeError(
                        f"einsum(): subscript {name} is repeated for operand but the sizes don't match, "
                        f"{second_size} != {n}"
                    )
                kept_dims = [d for d in range(len(self.names)) if d not in (first, second)]
                self._add(
                    _diagonal,
                    (first, second),
                    [*(self.names[d] for d in kept_dims), name],
                    (*(self.shape[d] for d in kept_dims), n),
                )
        return self

    def sum(self, labels: set) -> None:
        """Sum over all other labels."""
        summed = tuple(d for d, name in enumerate(self.names) if name not in labels)
        if summed:
            remaining = [d for d in range(len(self.names)) if d not in summed]
            self._add(total, summed, [self.names[d] for d in remaining], tuple(self.shape[d] for d in remaining))

    def permute(self, order: list) -> None:
        """Permute the dimensions to this order."""
        dims = tuple(self.names.index(name) for name in order)
        self._add(permute, dims, order, tuple(self.shape[d] for d in dims))

    def arrange(self, order: list) -> None:
        """Permute the dimensions to this order, with dimensions of size 1 for missing labels."""
        present, sizes = [name for name in order if name in self.names], dict(zip(self.names, self.shape))
        if present != self.names:
            self.permute(present)
        self.to(reshape, tuple(sizes.get(name, 1) for name in order))
        self.names = order

    def group(self, sizes: dict, *groups: list) -> None:
        """Flatten each group of labels to one dimension, after broadcasting to `sizes`."""
        order = [name for group in groups for name in group]
        self.arrange(order)
        self.to(expand, tuple(sizes[name] for name in order))
        self.to(reshape, tuple(prod(sizes[name] for name in group) for group in groups))


def _diagonal(x: Tensor, dims: tuple[int, int]) -> Tensor:
    return diagonal(x, 0, *dims)


def _apply_steps(x: Tensor, steps: list) -> Tensor:
    for function, argument in steps:
        x = function(x, argument)
    return x


@lru_cache(maxsize=4096)
def _program(equation: str, *shapes: tuple) -> tuple[list, list, list]:
    """The steps of an einsum: for the first operand, for each further operand (see `_contraction`), for the result."""
    terms, result = _parse_equation(equation, *map(len, shapes))
    partial = _Steps(terms[0], shapes[0]).diagonals()
    first, contractions = partial.steps, []
    for k, shape in enumerate(shapes[1:], 1):
        contraction, partial = _contraction(
            _Steps(partial.names, partial.shape),
            _Steps(terms[k], shape).diagonals(),
            set(result).union(*terms[k + 1 :]),
        )
        contractions.append(contraction)
    last_steps = _Steps(partial.names, partial.shape)
    last_steps.sum(set(result))
    if last_steps.names != result or not (
        first or contractions or last_steps.steps
    ):  # the result is never the operand itself
        last_steps.permute(result)
    return first, contractions, last_steps.steps


def _contraction(a: _Steps, b: _Steps, needed: set) -> tuple[tuple, _Steps]:
    """Contract two operands over the labels not `needed` later: (batch, a only, summed) @ (batch, summed, b only).

    Returns (steps for a, steps for b, the product function, steps for its result) and the result's labels and shape.
    """
    sizes: dict[Any, int] = {}
    for operand in (a, b):
        for name, n in zip(operand.names, operand.shape):
            if sizes.get(name, 1) not in (1, n) and n != 1:
                raise RuntimeError(
                    f"einsum(): operands do not broadcast with remapped shapes: subscript {name} has size {n} where "
                    f"another operand has {sizes[name]}"
                )
            sizes[name] = max(sizes.get(name, 1), n) if n else 0
    a.sum(set(b.names) | needed)
    b.sum(set(a.names) | needed)
    shared = [name for name in a.names if name in b.names]
    batch, inner = [name for name in shared if name in needed], [name for name in shared if name not in needed]
    a_only, b_only = [name for name in a.names if name not in shared], [name for name in b.names if name not in shared]
    names = [*batch, *a_only, *b_only]
    shape = tuple(sizes[name] for name in names)
    if not inner:  # an outer product, elementwise over the shared labels
        a.arrange([*batch, *a_only])
        a.to(reshape, (*a.shape, *(1,) * len(b_only)))
        b.arrange(names)
        return (a.steps, b.steps, operator.mul, []), _Steps(names, shape)
    batch_group = [batch] if batch else []
    a.group(sizes, *batch_group, a_only, inner)
    b.group(sizes, *batch_group, inner, b_only)
    product = _Steps(names, (*a.shape[:-1], b.shape[-1]))
    product.to(reshape, shape)
    return (a.steps, b.steps, matmul, product.steps), _Steps(names, shape)


def tensordot(a: Tensor, b: Tensor, dims: int | Sequence[Sequence[int]] | Tensor = 2) -> Tensor:
    """Contract the last `dims` dimensions of a with the first of b, or the two lists of dimensions in `dims`.

    Example:

        >>> torch.tensordot(torch.ones(2, 3), torch.ones(3, 4), dims=1).shape
        numod.Size([2, 4])
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.numel() > 1 else int(dims.item())
    dims = plain(dims)
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        first, second = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        if len(dims) != 2:
            raise RuntimeError(f"tensordot expects two lists of dimensions, one for each tensor, got dims={dims!r}")
        first, second = (
            [normalize_dim(d, x.ndim) for d in ([dim] if isinstance(dim, SINGLE_INT) else dim)]
            for dim, x in zip(dims, (a, b))
        )
    if len(first) != len(second):
        raise RuntimeError("both dimension lists should have same length")
    if any(a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]) for i, j in zip(first, second)):
        raise RuntimeError(
            f"contracted dimensions need to match, but first has sizes {[a.shape[i] for i in first]} and second "
            f"{[b.shape[j] for j in second]}"
        )
    a_steps, b_steps, product, result_steps = _tensordot(
        tuple(a._layout.shape), tuple(b._layout.shape), tuple(first), tuple(second)
    )
    return _apply_steps(product(_apply_steps(a, a_steps), _apply_steps(b, b_steps)), result_steps)


@lru_cache(maxsize=4096)
def _tensordot(a_shape: tuple, b_shape: tuple, first: tuple[int, ...], second: tuple[int, ...]) -> tuple:
    """The steps of a tensordot over dimensions `first` of a and `second` of b (see `_contraction`)."""
    a_names = [f"a{d}" for d in range(len(a_shape))]
    b_names = [f"b{d}" for d in range(len(b_shape))]
    for i, j in zip(first, second):
        b_names[j] = a_names[i]
    remaining = [name for d, name in enumerate(a_names) if d not in first] + [
        name for d, name in enumerate(b_names) if d not in second
    ]
    (a_steps, b_steps, product, result_steps), result = _contraction(
        _Steps(a_names, a_shape), _Steps(b_names, b_shape), set(remaining)
    )
    if result.names != remaining:
        result.permute(remaining)
    return a_steps, b_steps, product, [*result_steps, *result.steps]


def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last dimension of both; a number multiplies.

    Example:

        >>> torch.inner(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
        tensor(11.)
    """
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and "
            f"{list(other.shape)}"
        )
    return tensordot(input, other, ([-1], [-1]))


def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: every element of `input` times all of `other`.

    Example:

        >>> torch.kron(torch.tensor([1, 2]), torch.tensor([1, 10]))
        tensor([ 1, 10,  2, 20])
    """
    ndim = max(input.ndim, other.ndim)
    a, b = (reshape(matrix, (1,) * (ndim - matrix.ndim) + tuple(matrix.shape)) for matrix in (input, other))
    spread = reshape(a, [n for size in a.shape for n in (size, 1)]) * reshape(
        b, [n for size in b.shape for n in (1, size)]
    )
    return in_shape(spread, *[m * n for m, n in zip(a.shape, b.shape)])


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product along a dimension of size 3; by default the first such.

    Example:

        >>> torch.linalg.cross(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]))
        tensor([0., 0., 1.])
    """
    if dim is None:
        warn_caller(
            "Using numod.cross without specifying the dim arg is deprecated.\nPlease either pass the dim explicitly or "
            "simply use numod.linalg.cross."
        )
        dim = next((d for d, n in enumerate(input.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    if input.ndim != other.ndim:
        raise RuntimeError(
            f"linalg.cross: inputs must have the same number of dimensions, got {list(input.shape)} and "
            f"{list(other.shape)}"
        )
    dim = normalize_dim(dim, input.ndim)
    if input.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(
            f"inputs dimension {dim} must have length 3. Got {list(input.shape)} and {list(other.shape)}"
        )
    if input.dtype is not other.dtype:
        raise RuntimeError(
            f"linalg.cross: expected scalar type {input.dtype.short} but found {other.dtype.short}; convert with .to()"
        )
    if input.dtype is dtypes.bool_:
        raise NotImplementedError(
            "\"cross\" not implemented for 'Bool'; convert first, for example with .to(numod.int64)"
        )
    if input.shape != other.shape:
        shape = broadcast_shapes("linalg.cross", [input.shape, other.shape])
        input, other = expand(input, shape), expand(other, shape)
    return apply(cross_op, (contiguous(input), contiguous(other)), (dim,))


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * mat @ vec.

    Example:

        >>> torch.addmv(torch.ones(2), torch.ones(2, 3), torch.ones(3))
        tensor([4., 4.])
    """
    return add_product("addmv", input, mv(mat, vec), beta, alpha)


def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (the outer product of two vectors).

    Example:

        >>> torch.addr(torch.zeros(2, 2), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
        tensor([[3., 4.],
                [6., 8.]])
    """
    product = outer(vec1, vec2)
    kind = dtypes.promote_types(input.dtype, product.dtype)
    return add_product("addr", to(input, kind), to(product, kind), beta, alpha)


def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * batch1 @ batch2, batches of matrices.

    Example:

        >>> torch.baddbmm(torch.ones(2, 1, 1), torch.ones(2, 1, 3), torch.ones(2, 3, 1)).flatten()
        tensor([4., 4.])
    """
    return add_product("baddbmm", input, bmm(batch1, batch2), beta, alpha)


def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * the sum of batch1 @ batch2 over the batch.

    Example:

        >>> torch.addbmm(torch.zeros(2, 2), torch.ones(3, 2, 4), torch.ones(3, 4, 2))
        tensor([[12., 12.],
                [12., 12.]])
    """
    return add_product("addbmm", input, total(bmm(batch1, batch2), 0, dtype=batch1.dtype), beta, alpha)


def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices, multiplied in the cheapest order. Deprecated in favour of `linalg.multi_dot`.

    Example:

        >>> torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4, 1)])
        tensor([[12.],
                [12.]])
    """
    if not matrices or any(matrix.ndim != 2 for matrix in matrices):
        raise RuntimeError(
            f"chain_matmul(): Expected one or more matrices, got tensors of {[matrix.ndim for matrix in matrices]} "
            "dimensions"
        )
    warn_deprecated("chain_matmul", "linalg.multi_dot")
    return ordered_product(*matrices)


def ordered_product(*matrices: Tensor) -> Tensor:
    """The product of matrices, multiplied in the cheapest order."""
    sizes = [matrices[0].shape[0], *(matrix.shape[1] for matrix in matrices)]
    best: dict[tuple[int, int], tuple[float, int]] = {(k, k): (0.0, k) for k in range(len(matrices))}
    for length in range(1, len(matrices)):
        for i in range(len(matrices) - length):
            j = i + length
            best[i, j] = min(
                (best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )

    def product(i: int, j: int) -> Tensor:
        return matrices[i] if i == j else mm_(product(i, best[i, j][1]), product(best[i, j][1] + 1, j))

    return product(0, len(matrices) - 1)
