"""Transforms of vectors and matrices: onto the simplex, to Cholesky factors and positive definite matrices."""

from __future__ import annotations

import math

from ..core import Tensor, arange, eye, functions as f
from ..core.linalg.decompositions import cholesky
from ..dtypes import finfo
from ..nn.functional import softplus
from . import constraints as c
from .transform import PlainTransform


class SoftmaxTransform(PlainTransform):
    """softmax along the last dimension. It is not bijective and has no Jacobian.

    Example:

        >>> torch.distributions.SoftmaxTransform()(torch.tensor([0.0, 0.0]))
        tensor([0.5000, 0.5000])
    """

    domain, codomain = c.real_vector, c.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: tuple) -> tuple:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(PlainTransform):
    """n real numbers to n + 1 probabilities by stick breaking: (..., n) -> (..., n + 1).

    Example:

        >>> torch.distributions.StickBreakingTransform()(torch.tensor([0.0])).sum()
        tensor(1.)
    """

    domain, codomain, bijective = c.real_vector, c.simplex, True

    def _offsets(self, x: Tensor) -> Tensor:
        """log n, ..., log 1: added to the input, so that zeros break the stick into equal parts."""
        return arange(x.shape[-1], 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Tensor) -> Tensor:
        taken = (x - self._offsets(x)).sigmoid().clamp(finfo(x.dtype).tiny, 1.0 - finfo(x.dtype).eps)
        end = x.new_ones((*x.shape[:-1], 1))
        return f.cat([taken, end], -1) * f.cat([end, (1 - taken).cumprod(-1)], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        head = y[..., :-1]
        left = (1 - head.cumsum(-1)).clamp_min(finfo(y.dtype).tiny)
        return head.log() - left.log() + self._offsets(head)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._offsets(x)
        return (-x - softplus(-x) + y[..., :-1].log()).sum(-1)  # -x - softplus(-x) is log sigmoid(-x)

    def forward_shape(self, shape: tuple) -> tuple:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: tuple) -> tuple:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return (*shape[:-1], shape[-1] - 1)


class LowerCholeskyTransform(PlainTransform):
    """Square matrices to lower triangular ones with a positive diagonal: exp of the diagonal, lower part unchanged.

    Example:

        >>> torch.distributions.LowerCholeskyTransform()(torch.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain, codomain = c.independent(c.real, 2), c.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


class PositiveDefiniteTransform(PlainTransform):
    """Square matrices to positive definite matrices, through their Cholesky factors.

    Example:

        >>> from numod.distributions import transforms
        >>> transforms.PositiveDefiniteTransform()(torch.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain, codomain = c.independent(c.real, 2), c.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        low = LowerCholeskyTransform()(x)
        return low @ low.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(cholesky(y))


class CorrCholeskyTransform(PlainTransform):
    """n (n - 1) / 2 real numbers to the Cholesky factor of an n x n correlation matrix.

    tanh gives partial correlations, which divide up the length of each row.

    Example:

        >>> from numod.distributions import transforms
        >>> transforms.CorrCholeskyTransform()(torch.zeros(3))
        tensor([[1., 0., 0.],
                [0., 1., 0.],
                [0., 0., 1.]])
    """

    domain, codomain, bijective = c.real_vector, c.corr_cholesky, True

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        partial = _lower_triangle(x.tanh().clamp(-1 + eps, 1 - eps))
        left = (1 - partial**2).sqrt().cumprod(-1)[..., :-1]  # the rest of a row's length after each column
        return (partial + eye(partial.shape[-1], dtype=x.dtype, device=x.device)) * f.cat(
            [left.new_ones((*left.shape[:-1], 1)), left], -1
        )

    def _inverse(self, y: Tensor) -> Tensor:
        left = (1 - (y * y).cumsum(-1))[..., :-1].clamp_min(finfo(y.dtype).tiny)
        left = f.cat([left.new_ones((*left.shape[:-1], 1)), left], -1)
        partial = _below_diagonal(y) / _below_diagonal(left).sqrt()
        return (partial.log1p() - (-partial).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = 1 - (y * y).cumsum(-1)
        lengths = 0.5 * _below_diagonal(left, -2).log().sum(-1)
        return lengths - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: tuple) -> tuple:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError(
                f"Input is not a flattened lower-diagonal number: expected n * (n - 1) / 2 elements, got {shape[-1]}"
            )
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: tuple) -> tuple:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError(f"Input is not square, got {tuple(shape)}")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


def _below_diagonal(matrix: Tensor, diagonal: int = -1) -> Tensor:
    """The elements on and below a diagonal, row by row: (..., n, n) -> (..., m)."""
    rows, columns = f.tril_indices(matrix.shape[-2], matrix.shape[-1], diagonal).unbind()
    return matrix[..., rows, columns]


def _lower_triangle(values: Tensor) -> Tensor:
    """A matrix of zeros with the values below its diagonal, row by row: (..., n (n - 1) / 2) -> (..., n, n)."""
    n = round((0.25 + 2 * values.shape[-1]) ** 0.5 + 0.5)
    if n * (n - 1) // 2 != values.shape[-1]:
        raise ValueError(
            f"The size of last dimension is {values.shape[-1]} which cannot be expressed as the lower triangular part "
            "of a square D x D matrix."
        )
    rows, columns = f.tril_indices(n, n, -1).unbind()
    flat = values.new_zeros((*values.shape[:-1], n * n))
    positions = (rows * n + columns).expand(values.shape)
    return flat.scatter(-1, positions.contiguous(), values).reshape((*values.shape[:-1], n, n))
