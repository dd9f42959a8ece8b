"""`numod.masked`: reductions and softmaxes over the elements where a mask is true, as in `torch.masked`.

There are masks, but no masked tensors.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence

import numod

from ..core.tensor import Tensor
from ..dtypes import dtype as DType

Dims = int | Sequence[int] | None

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip


def _least(x: Tensor) -> float:
    return -numod.inf if x.dtype.differentiable else numod.iinfo(x.dtype).min


def _greatest(x: Tensor) -> float:
    return numod.inf if x.dtype.is_floating_point else numod.iinfo(x.dtype).max


def _spread(input: Tensor, mask: Tensor) -> Tensor:
    """The mask broadcast to the shape of the input. Raises IndexError if it has more dimensions."""
    if mask.ndim > input.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    return mask.to(numod.bool).broadcast_to(input.shape)


def _filled(input: Tensor, mask: Tensor | None, value: float) -> Tensor:
    return (
        input
        if mask is None
        else numod.where(_spread(input, mask), input, numod.tensor(value, dtype=input.dtype, device=input.device))
    )


def _dims(input: Tensor, dim: Dims) -> tuple[int, ...]:
    """`dim` as a tuple; all dimensions if it is None."""
    return tuple(range(input.ndim)) if dim is None or dim == () else (dim,) if isinstance(dim, int) else tuple(dim)


def _widened(input: Tensor, dtype: DType | None) -> DType:
    return dtype or (input.dtype if input.is_floating_point() or input.is_complex() else numod.int64)


def _with_name(function: Callable, name: str, text: str) -> Callable:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The sum of the elements where `mask` is true; 0 where there are none."""
    return numod.sum(_filled(input, mask, 0), _dims(input, dim), bool(keepdim), dtype=_widened(input, dtype))


def prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The product of the elements where `mask` is true; 1 where there are none."""
    result = _filled(input, mask, 1).to(_widened(input, dtype))
    for d in sorted((axis % builtins.max(input.ndim, 1) for axis in _dims(input, dim)), reverse=True):
        result = numod.prod(result, d, bool(keepdim))
    return result


def _extreme(name: str, ending: Callable) -> Callable:
    def reduction(
        input: Tensor,
        dim: Dims = None,
        *,
        keepdim: bool = False,
        dtype: DType | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        return getattr(numod, name)(_filled(input, mask, ending(input)), _dims(input, dim), bool(keepdim)).to(
            dtype or input.dtype
        )

    return _with_name(reduction, name, f"{name} of the elements where `mask` is true.")


def _position(name: str, ending: Callable) -> Callable:
    def reduction(
        input: Tensor,
        dim: int | None = None,
        *,
        keepdim: bool = False,
        dtype: DType | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        return getattr(numod, name)(_filled(input, mask, ending(input)), dim, bool(keepdim)).to(dtype or input.dtype)

    return _with_name(
        reduction,
        name,
        f"The index of the {name[3:]} of the elements where `mask` is true, in the dtype of the input, as in PyTorch.",
    )


amax = _extreme("amax", _least)
amin = _extreme("amin", _greatest)
argmax = _position("argmax", _least)
argmin = _position("argmin", _greatest)


def _running(name: str, identity: int) -> Callable:
    def scan(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
        return getattr(numod, name)(_filled(input, mask, identity), dim, dtype=dtype or input.dtype)

    return _with_name(scan, name, f"{name} in which masked elements count as {identity}.")


cumsum, cumprod = _running("cumsum", 0), _running("cumprod", 1)


def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The mean of the elements where `mask` is true; NaN where there are none.

    Raises ValueError for integers without a floating `dtype`.
    """
    dtype = dtype or input.dtype
    if not dtype.differentiable:
        raise ValueError(f"masked mean expects input dtype to be floating point, got {dtype}; give dtype=numod.float32")
    return sum(input, dim, keepdim=keepdim, dtype=dtype, mask=mask) / _count(input, dim, keepdim, mask)


def _count(input: Tensor, dim: Dims, keepdim: bool, mask: Tensor | None) -> Tensor:
    whole = numod.ones(input.shape, dtype=numod.bool, device=input.device) if mask is None else _spread(input, mask)
    return numod.sum(whole, _dims(input, dim), bool(keepdim))


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The lower median of the elements where `mask` is true; if there are none, NaN, or ValueError for integers."""
    floating = input.is_floating_point()
    result = numod.nanmedian(_filled(input if floating else input.float(), mask, numod.nan), dim, bool(keepdim)).values
    if not floating and bool(result.isnan().any()):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return result if floating else result.to(dtype or input.dtype)


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of the sum of exponentials of the elements where `mask` is true."""
    return numod.logsumexp(_filled(input, mask, _least(input)), _dims(input, dim), bool(keepdim)).to(
        dtype or input.dtype
    )


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: DType | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """log(exp(input) + exp(other)), without masked elements."""
    return numod.logaddexp(_filled(input, input_mask, _least(input)), _filled(other, other_mask, _least(other))).to(
        dtype or input.dtype
    )


def norm(
    input: Tensor,
    ord: float = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The vector norm of the elements where `mask` is true."""
    return numod.linalg.vector_norm(
        _filled(input, mask, numod.inf if ord < 0 else 0), ord, _dims(input, dim), bool(keepdim), dtype=dtype
    )


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The elements where `mask` is true, divided by their norm; 0 elsewhere."""
    return _filled(input, mask, 0) / norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask).clamp_min(eps)


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance of the elements where `mask` is true: squared distances from the mean / (count - `correction`)."""
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    less = correction if correction is not None else float(unbiased is None or unbiased)
    dtype = dtype or (input.dtype if input.dtype.differentiable else numod.float32)
    x = input.to(dtype if dtype.differentiable else numod.float32)
    distance = x - sum(x, dim, keepdim=True, mask=mask) / _count(input, dim, True, mask)
    total = sum(
        distance * distance.conj() if distance.is_complex() else distance * distance, dim, keepdim=keepdim, mask=mask
    )
    return (total / (_count(input, dim, keepdim, mask) - less).clamp_min(0)).to(dtype)


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The square root of the variance."""
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


def softmax(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """Softmax over the elements where `mask` is true; 0 elsewhere."""
    return numod.softmax(_filled(input, mask, _least(input)), dim, dtype=dtype or input.dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of softmax."""
    return numod.log_softmax(_filled(input, mask, _least(input)), dim, dtype=dtype or input.dtype)


def softmin(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """Softmax of the negative input."""
    return numod.nn.functional.softmin(_filled(input, mask, _greatest(input)), dim, dtype=dtype or input.dtype)
