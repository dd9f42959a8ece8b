"""Sums of products over named or numbered dimensions: einsum, tensordot and their kin, by way of one batched matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

from ..errors import normalize_dim
from ..ops import table as t
from .products import add_product, bmm, matmul, mm_, mv, outer
from .reductions import sum as total
from .shapes import cat, diagonal, expand, narrow, permute, reshape
from .tensor import Tensor

BOTH = "inner kron cross addmv addr baddbmm addbmm ger=outer"
FUNCTIONS = "einsum tensordot chain_matmul"
IN_PLACE = "addmv addr baddbmm addbmm"
OUT = "inner kron cross addmv addr baddbmm addbmm ger tensordot"

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"  # in the order in which a result without a name of its own has them


def einsum(equation: Any, *operands: Any) -> Tensor:
    """The sum of products that `equation` names, as "bij,bjk->bik"; "..." stands for leading dimensions, a repeated letter for a diagonal.

    Also einsum(tensor, [0, 1], tensor, [1, 2], [0, 2]). Raises RuntimeError for letters and sizes that do not fit.
    """
    if not isinstance(equation, str):
        equation, operands = _of_lists((equation, *operands))
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    for k, each in enumerate(operands):
        if not isinstance(each, Tensor):
            raise TypeError(f"einsum(): expected Tensor as element {k} in argument 1, but got {type(each).__name__}")
    terms, result = _parsed(equation.replace(" ", ""), *[each.ndim for each in operands])
    left, names = _simple(operands[0], terms[0])
    for k, operand in enumerate(operands[1:], 1):
        right, other = _simple(operand, terms[k])
        needed = set(result).union(*terms[k + 1 :])
        left, names = _contracted(left, names, right, other, needed)
    gone = [d for d, name in enumerate(names) if name not in result]
    if gone:
        left, names = total(left, gone), [name for name in names if name in result]
    return left if names == result and left is not operands[0] else permute(left, [names.index(name) for name in result])


def _of_lists(arguments: tuple) -> tuple[str, tuple]:
    """The equation of einsum's other form: tensors and lists of dimension numbers in turn."""
    operands, lists = arguments[0 : len(arguments) // 2 * 2 : 2], arguments[1::2]
    write = lambda each: "".join("..." if n is Ellipsis else _LETTERS[n] for n in each)  # noqa: E731
    equation = ",".join(map(write, lists))
    return equation + (f"->{write(arguments[-1])}" if len(arguments) % 2 else ""), operands


@lru_cache(maxsize=4096)
def _parsed(equation: str, *sizes: int) -> tuple[list[list], list]:
    """Labels of the dimensions of each operand, which has so many, and of the result's; those of "..." are numbers counted from the right."""
    inputs, arrow, output = equation.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(sizes):
        raise RuntimeError(f"einsum(): {'more' if len(sizes) > len(terms) else 'fewer'} operands were provided than specified in the equation {equation!r}: {len(sizes)} and {len(terms)}")
    named, widest = [], 0
    for term, ndim in zip(terms, sizes):
        letters = term.replace("...", "")
        if not all(each in _LETTERS for each in letters) or term.count("...") > 1:
            raise RuntimeError(f"einsum(): invalid subscript given at {term!r}; subscripts must be in [a-zA-Z], with one ellipsis at most")
        hidden = ndim - len(letters)
        if hidden < 0 or (hidden and "..." not in term):
            raise RuntimeError(f"einsum(): the number of subscripts in the equation ({len(letters)}) does not match the number of dimensions ({ndim}) of operand {term!r} and no ellipsis was given")
        before, _, after = term.partition("...")
        named.append([*before, *(range(-hidden, 0) if "..." in term else ()), *after])
        widest = max(widest, hidden)
    if arrow:
        before, dots, after = output.partition("...")
        result = [*before, *(range(-widest, 0) if dots else ()), *after]
        for name in result:
            if result.count(name) > 1:
                raise RuntimeError(f"einsum(): output subscript {name} appears more than once in the output")
            if isinstance(name, str) and not any(name in term for term in named):
                raise RuntimeError(f"einsum(): output subscript {name} does not appear in the equation for any input operand")
    else:
        letters = sorted(name for term in named for name in term if isinstance(name, str))
        result = [*range(-widest, 0), *(name for name in letters if letters.count(name) == 1)]
    return named, result


def _simple(x: Tensor, names: list) -> tuple[Tensor, list]:
    """The operand with repeated labels reduced to one dimension, the diagonal."""
    names = list(names)
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            if x.shape[first] != x.shape[second]:
                raise RuntimeError(f"einsum(): subscript {name} is repeated for operand but the sizes don't match, {x.shape[second]} != {x.shape[first]}")
            x = diagonal(x, 0, first, second)
            names = [each for d, each in enumerate(names) if d not in (first, second)] + [name]
    return x, names


def _contracted(a: Tensor, a_names: list, b: Tensor, b_names: list, needed: set) -> tuple[Tensor, list]:
    """Two operands contracted over the labels not `needed` later, as a batched matrix product (batch, a's own, summed) @ (batch, summed, b's own)."""
    sizes: dict[Any, int] = {}
    for names, x in ((a_names, a), (b_names, b)):
        for name, n in zip(names, x.shape):
            if sizes.get(name, 1) not in (1, n) and n != 1:
                raise RuntimeError(f"einsum(): operands do not broadcast with remapped shapes: subscript {name} has size {n} where another operand has {sizes[name]}")
            sizes[name] = max(sizes.get(name, 1), n) if n else 0
    a, a_names = _summed(a, a_names, set(b_names) | needed)
    b, b_names = _summed(b, b_names, set(a_names) | needed)
    shared = [name for name in a_names if name in b_names]
    batch, inner = [name for name in shared if name in needed], [name for name in shared if name not in needed]
    left, right = [name for name in a_names if name not in shared], [name for name in b_names if name not in shared]
    if not inner:  # an outer product, elementwise over what is shared
        x = _arranged(a, a_names, [*batch, *left])
        return reshape(x, (*x.shape, *(1,) * len(right))) * _arranged(b, b_names, [*batch, *left, *right]), [*batch, *left, *right]
    own = [batch] if batch else []
    product = matmul(_grouped(a, a_names, sizes, *own, left, inner), _grouped(b, b_names, sizes, *own, inner, right))
    names = [*batch, *left, *right]
    shape = tuple(sizes[name] for name in names)
    return product if product.shape == shape else reshape(product, shape), names


def _arranged(x: Tensor, names: list, order: list) -> Tensor:
    """x with its dimensions in this order, those it has not as ones of size 1."""
    here = [name for name in order if name in names]
    x = x if here == names else permute(x, [names.index(name) for name in here])
    shape = tuple(x.shape[here.index(name)] if name in names else 1 for name in order)
    return x if x.shape == shape else reshape(x, shape)


def _grouped(x: Tensor, names: list, sizes: dict, *groups: list) -> Tensor:
    """x with each group of its dimensions as one, of the sizes that the operands have together."""
    order = [name for group in groups for name in group]
    x = expand(_arranged(x, names, order), [sizes[name] for name in order])
    shape = tuple(prod(sizes[name] for name in group) for group in groups)
    return x if x.shape == shape else reshape(x, shape)


def _summed(x: Tensor, names: list, kept: set) -> tuple[Tensor, list]:
    gone = [d for d, name in enumerate(names) if name not in kept]
    return (total(x, gone), [name for name in names if name in kept]) if gone else (x, names)


def tensordot(a: Tensor, b: Tensor, dims: int | Sequence[Sequence[int]] | Tensor = 2) -> Tensor:
    """Sums of products over the last `dims` dimensions of a and the first of b, or over the dimensions listed for each."""
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.numel() > 1 else int(dims.item())
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        first, second = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        if len(dims) != 2:
            raise RuntimeError(f"tensordot expects two lists of dimensions, one for each tensor, got dims={dims!r}")
        first, second = ([normalize_dim(d, x.ndim) for d in ([each] if isinstance(each, int) else each)] for each, x in zip(dims, (a, b)))
    if len(first) != len(second):
        raise RuntimeError("both dimension lists should have same length")
    if any(a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]) for i, j in zip(first, second)):
        raise RuntimeError(f"contracted dimensions need to match, but first has sizes {[a.shape[i] for i in first]} and second {[b.shape[j] for j in second]}")
    names = [f"a{d}" for d in range(a.ndim)]
    others = [f"b{d}" for d in range(b.ndim)]
    for i, j in zip(first, second):
        others[j] = names[i]
    kept = [name for d, name in enumerate(names) if d not in first] + [name for d, name in enumerate(others) if d not in second]
    result, order = _contracted(a, names, b, others, set(kept))
    return permute(result, [order.index(name) for name in kept])


def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last dimension of both; a number multiplies."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and {list(other.shape)}")
    return tensordot(input, other, ([-1], [-1]))


def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: every element of `input` times all of `other`."""
    ndim = max(input.ndim, other.ndim)
    a, b = (reshape(each, (1,) * (ndim - each.ndim) + tuple(each.shape)) for each in (input, other))
    spread = reshape(a, [n for size in a.shape for n in (size, 1)]) * reshape(b, [n for size in b.shape for n in (1, size)])
    return reshape(spread, [m * n for m, n in zip(a.shape, b.shape)])


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product along a dimension of size 3; by default the first such."""
    if dim is None:
        dim = next((d for d, n in enumerate(input.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    if input.ndim != other.ndim:
        raise RuntimeError(f"linalg.cross: inputs must have the same number of dimensions, got {list(input.shape)} and {list(other.shape)}")
    dim = normalize_dim(dim, input.ndim)
    if input.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(f"inputs dimension {dim} must have length 3. Got {list(input.shape)} and {list(other.shape)}")
    a, b = (cat((each, each), dim) for each in (input, other))
    first, second = ([narrow(each, dim, start, 3) for start in (1, 2)] for each in (a, b))
    return t.addcmul(first[0] * second[1], first[1], second[0], -1)


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * mat @ vec."""
    return add_product("addmv", input, mv(mat, vec), beta, alpha)


def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (the outer product of two vectors)."""
    return add_product("addr", input, outer(vec1, vec2), beta, alpha)


def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * batch1 @ batch2, batches of matrices."""
    return add_product("baddbmm", input, bmm(batch1, batch2), beta, alpha)


def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * the sum of batch1 @ batch2 over the batch."""
    return add_product("addbmm", input, total(bmm(batch1, batch2), 0, dtype=batch1.dtype), beta, alpha)


def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices, multiplied in the cheapest order."""
    if not matrices or any(each.ndim != 2 for each in matrices):
        raise RuntimeError(f"chain_matmul(): Expected one or more matrices, got tensors of {[each.ndim for each in matrices]} dimensions")
    sizes = [matrices[0].shape[0], *(each.shape[1] for each in matrices)]
    best: dict[tuple[int, int], tuple[float, int]] = {(k, k): (0.0, k) for k in range(len(matrices))}
    for length in range(1, len(matrices)):
        for i in range(len(matrices) - length):
            j = i + length
            best[i, j] = min((best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j))

    def product(i: int, j: int) -> Tensor:
        return matrices[i] if i == j else mm_(product(i, best[i, j][1]), product(best[i, j][1] + 1, j))

    return product(0, len(matrices) - 1)

