"""Orthogonal matrices as a parametrization: three maps from any matrix to one with orthonormal columns or rows.

With trivialization the map starts from the current matrix, Q = base @ map(X), so that X starts where the map is well
conditioned. Lezcano-Casado, Trivializations for gradient-based optimization on manifolds, 2019.
"""

from __future__ import annotations

from collections.abc import Callable

from ...autograd import no_grad
from ...core import Tensor, cat, eye
from ...core.linalg.decompositions import geqrf, householder_product, qr
from ...core.math.elementwise import allclose, where
from ...core.linalg.linear_algebra import matrix_exp, solve
from ...core.create.random import randn
from ...dtypes import finfo
from ..module import Module
from . import parametrize

__all__ = ["orthogonal"]


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep `module.<name>`, a matrix or a batch of matrices, orthogonal: its columns or rows are orthonormal.

    Rows are orthonormal if there are fewer rows than columns. `orthogonal_map` is "matrix_exp", "cayley" or
    "householder"; the default is the first for square matrices, otherwise the last. Without `use_trivialization` there
    is no buffer `base`, and only a householder matrix can be assigned to.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    parametrization = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, parametrization, unsafe=True)


class _Orthogonal(Module):
    """`base @ map(X)`; a wide X is mapped as its transpose."""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        Q = _MAPS[self.orthogonal_map](X.mT if wide else X)
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.mT if wide else Q

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        """The X that is mapped to Q, or to the result of Gram-Schmidt on Q."""
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        wide = Q.shape[-2] < Q.shape[-1]
        tall = Q.mT if wide else Q
        if hasattr(self, "base"):
            self.base = _complete(tall.cpu()).to(Q.device)
            return -eye(*Q.shape[-2:], dtype=Q.dtype, device=Q.device).expand(Q.shape).contiguous()
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        reflections = _reflections_of(tall.cpu()).to(Q.device)
        return reflections.mT if wide else reflections


# ---- the maps, (…, n, k) -> (…, n, k) with n >= k
# ----------------------------------------------------------------------


def _skew(X: Tensor) -> Tensor:
    """The skew-symmetric (…, n, n) of the entries of X below the diagonal."""
    n, k = X.shape[-2:]
    lower = X.tril()
    if n != k:
        lower = cat([lower, X.new_zeros((*X.shape[:-2], n, n - k))], dim=-1)
    return lower - lower.mT


def _exponential(X: Tensor) -> Tensor:
    """exp of the skew-symmetric matrix."""
    return matrix_exp(_skew(X))[..., : X.shape[-1]]


def _cayley(X: Tensor) -> Tensor:
    """(I - A/2)^-1 (I + A/2) for the skew-symmetric A."""
    half = _skew(X) / 2
    identity = eye(half.shape[-1], dtype=half.dtype, device=half.device)
    return solve(identity - half, identity + half)[..., : X.shape[-1]]


def _householder(X: Tensor) -> Tensor:
    """The first k columns of the product of k reflections, with signs.

    Column i of X below the diagonal is the i-th direction.
    """
    directions = X.tril(-1)
    scales = 2 / (1 + (directions * directions).sum(-2))
    return householder_product(X, scales) * X.detach().diagonal(dim1=-2, dim2=-1).trunc().unsqueeze(-2)


_MAPS: dict[str, Callable[[Tensor], Tensor]] = {
    "matrix_exp": _exponential,
    "cayley": _cayley,
    "householder": _householder,
}


# ---- the inverse, computed once on the host
# ---------------------------------------------------------------------------------------


def _complete(Q: Tensor) -> Tensor:
    """A square orthogonal matrix whose first columns are those of Q, made orthonormal."""
    n, k = Q.shape[-2:]
    if n != k:
        Q = cat([Q, randn(*Q.shape[:-2], n, n - k, dtype=Q.dtype, device=Q.device)], dim=-1)
    elif allclose(Q.mH @ Q, eye(n, dtype=Q.dtype), atol=10.0 * n * finfo(Q.dtype).eps):
        return Q.clone()
    q, r = qr(Q)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _reflections_of(Q: Tensor) -> Tensor:
    """The X whose `_householder` is Q."""
    X, scales = geqrf(Q)
    signs = X.diagonal(dim1=-2, dim2=-1).sign()
    # a skipped reflection is the identity, so its sign is flipped
    return X.diagonal_scatter(where(scales == 0, -signs, signs), 0, -2, -1)
