"""Matrix products with PyTorch's broadcasting, and softmax."""

from __future__ import annotations

from ... import dtypes
from ...dtypes import dtype as DType
from ...errors import normalize_dim
from ...ops.matmul import int8 as bp, matmul as mm
from ...ops.reduce import reduction as r, softmax as sm
from ...ops import table as t
from ..apply import apply
from ..math.elementwise import add
from ..convert.copies import contiguous, to
from ..shape.shapes import expand, unsqueeze
from ..tensor import Tensor

BOTH = "matmul bmm mv dot outer addmm softmax log_softmax mm=mm_"
FUNCTIONS = "_int_mm=int_mm spmm=mm_"
IN_PLACE = "addmm"
OUT = "matmul bmm mv dot outer addmm softmax log_softmax mm _int_mm"


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Product with PyTorch's broadcasting:

    (..., M, K) @ (..., K, N) -> (..., M, N); vectors are rows on the left, columns on the right.

    Example:

        >>> torch.matmul(torch.ones(2, 3), torch.ones(3, 4)).shape
        numod.Size([2, 4])
    """
    if not isinstance(other, Tensor):
        raise TypeError(f"matmul(): argument 'other' must be Tensor, not {type(other).__name__}")
    x, y = input._layout, other._layout
    if x.ndim >= 2 and y.ndim >= 2:
        return apply(mm.matmul, (input, other), (False, False))
    inner = y.shape[-2 if y.ndim > 1 else -1] if y.ndim else 0
    if x.ndim and y.ndim and x.shape[-1] != inner:
        what = "size mismatch" if (x.ndim, y.ndim) == (2, 1) else "mat1 and mat2 shapes cannot be multiplied"
        raise RuntimeError(f"matmul: inner sizes differ, {what}: {tuple(x.shape)} @ {tuple(y.shape)}")
    if x.ndim == 0 or y.ndim == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {x.ndim}D and {y.ndim}D")
    # for examples the terms become a tensor, in which 16-bit floats would be rounded
    exact = x.dtype.itemsize >= 4 or x.batch is y.batch is None
    if x.ndim == y.ndim == 1 and x.dtype is y.dtype and x.dtype.is_floating_point and exact:
        return apply(r.fused_map_reduce(t.mul), (contiguous(input), contiguous(other)), (1,))
    return apply(mm.matmul, (input, other), (False, False))


def mm_(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two matrices.

    Example:

        >>> torch.mm(torch.ones(2, 3), torch.ones(3, 4)).shape
        numod.Size([2, 4])
    """
    _expect_ndim("mm", 2, input, mat2)
    return apply(mm.matmul, (input, mat2), (False, False))


def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Products of matrices in equal batches, (B, M, K) @ (B, K, N).

    Example:

        >>> torch.bmm(torch.ones(2, 3, 4), torch.ones(2, 4, 5)).shape
        numod.Size([2, 3, 5])
    """
    _expect_ndim("bmm", 3, input, mat2)
    if input.shape[0] != mat2.shape[0]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{input.shape[0]}, {input.shape[2]}] but "
            f"got: {list(mat2.shape[:2])}."
        )
    return apply(mm.matmul, (input, mat2), (False, False))


def int_mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Exact product (M, K) @ (K, N) of int8 or uint8 with int8, in int32."""
    return apply(bp.byte_product, (input, mat2))


def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Matrix times vector.

    Example:

        >>> torch.mv(torch.ones(2, 3), torch.ones(3))
        tensor([3., 3.])
    """
    if input._layout.ndim != 2 or vec._layout.ndim != 1:
        _expect_ndim("mv", 2, input)
        _expect_ndim("mv", 1, vec)
    return matmul(input, vec)


def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Product of two vectors.

    Example:

        >>> torch.dot(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
        tensor(11.)
    """
    x, y = input._layout, tensor._layout
    if x.ndim != 1 or y.ndim != 1:
        raise RuntimeError(
            f"dot: 1D tensors expected, but got {x.ndim}D and {y.ndim}D tensors; numod.matmul takes any number of "
            "dimensions"
        )
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {x.dtype.short} and {y.dtype.short}; convert "
            "one with .to()"
        )
    if x.size != y.size:
        sizes = (
            f"tensor [{x.size}] and src [{y.size}] to have the same number of elements, but got {x.size} and "
            f"{y.size} elements respectively"
        )
        raise RuntimeError(f"dot: inconsistent tensor size, expected {sizes}")
    return matmul(input, tensor)


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of elements of two vectors.

    Example:

        >>> torch.outer(torch.tensor([1, 2]), torch.tensor([3, 4]))
        tensor([[3, 4],
                [6, 8]])
    """
    _expect_ndim("outer", 1, input, vec2)
    return t.mul(unsqueeze(input, 1), vec2)


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * mat1 @ mat2.

    Example:

        >>> torch.addmm(torch.ones(2, 2), torch.ones(2, 3), torch.ones(3, 2))
        tensor([[4., 4.],
                [4., 4.]])
    """
    return add_product("addmm", input, mm_(mat1, mat2), beta, alpha)


def add_product(name: str, input: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    """beta * input + alpha * product, of product's shape; with beta 0 the input is not read, so that NaN in it does not
    propagate.
    """
    for label, factor in (("beta", beta), ("alpha", alpha)) if type(beta) is not int or type(alpha) is not int else ():
        if isinstance(factor, (float, complex)) and not product.dtype.differentiable:
            raise RuntimeError(f"For integral input tensors, argument {label} must not be a floating point number.")
        if isinstance(factor, complex) and factor.imag and not product.dtype.is_complex:
            kind = product.dtype.name
            raise RuntimeError(
                f"value cannot be converted to type {kind} without overflow: {label} is complex; convert the tensors "
                "with .to(numod.complex64)"
            )
    if input.dtype is not product.dtype:
        raise RuntimeError(
            f"{name}: expected input and the matrices to have the same dtype, but got: {input.dtype} != "
            f"{product.dtype}; convert one with .to()"
        )
    whole = input if input._layout.shape == product._layout.shape else expand(input, product.shape)
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        # its gradient is 0, not None
        return (
            add(product, t.where(product.new_ones((), dtype=dtypes.bool_), 0, whole))
            if input.requires_grad
            else product
        )
    return apply(t.add, (product, whole if beta == 1 else whole * beta))


def _expect_ndim(name: str, ndim: int, *tensors: Tensor) -> None:
    for tensor in tensors:
        if tensor._layout.ndim != ndim:
            raise RuntimeError(
                f"{name}: expected {ndim}D tensors, got a {tensor.ndim}D tensor of shape {tuple(tensor.shape)}; "
                "numod.matmul takes any number of dimensions"
            )


def softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along a dimension.

    Example:

        >>> torch.softmax(torch.tensor([1.0, 1.0]), dim=0)
        tensor([0.5000, 0.5000])
    """
    return apply(
        sm.softmax, (contiguous(input if dtype is None else to(input, dtype)),), (normalize_dim(dim, input.ndim),)
    )


def log_softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """log(softmax(x)) along a dimension, computed directly.

    Example:

        >>> F.log_softmax(torch.tensor([1.0, 1.0]), dim=0)
        tensor([-0.6931, -0.6931])
    """
    return apply(
        sm.log_softmax, (contiguous(input if dtype is None else to(input, dtype)),), (normalize_dim(dim, input.ndim),)
    )
