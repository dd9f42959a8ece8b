"""Ready-made parametrizations: spectral norm, weight norm, and orthogonal matrices (from `orthogonal.py`).

`parametrize.py` explains parametrizations.
"""

from __future__ import annotations

from typing import Any

from ...autograd import no_grad
from ...core import Tensor
from .. import functional as F
from ..module import Module
from . import parametrize
from .orthogonal import orthogonal
from .spectral_norm import as_matrix, default_dim, unit_vector
from .weight_norm import norm_except_dim, weight_from

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _tensor_of(module: Module, name: str) -> Tensor:
    tensor = getattr(module, name, None)
    if not isinstance(tensor, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return tensor


# ---- weight norm
# -------------------------------------------------------------------------------------------------------


class _WeightNorm(Module):
    """`original0`, the norms, times the direction of `original1`."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_from(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Norms and directions; the weight itself serves as directions."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn the norm of `module.<name>` along `dim` (or a single norm, for None) separately from its direction.

    State dicts of the deprecated `nn.utils.weight_norm` can be loaded. Salimans and Kingma, Weight normalization, 2016.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename_old_keys(state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        old_keys = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old_keys):
            for number, key in enumerate(old_keys):
                state_dict[f"{prefix}parametrizations.{name}.original{number}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename_old_keys)
    return module


# ---- spectral norm
# -----------------------------------------------------------------------------------------------------


class _SpectralNorm(Module):
    """The weight divided by its largest singular value, which power iteration in training tracks in `_u` and `_v`."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            bounds = f"[-{weight.ndim}, {weight.ndim - 1}]"
            raise IndexError(f"Dimension out of range (expected to be in range of {bounds} but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % weight.ndim
        self.eps = eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim)
            self.register_buffer("_u", unit_vector(weight, matrix.shape[0], eps))
            self.register_buffer("_v", unit_vector(weight, matrix.shape[1], eps))
            self._iterate(matrix, 15)  # enough to be accurate at the start

    @no_grad()
    def _iterate(self, matrix: Tensor, times: int) -> None:
        for _ in range(times):
            self._u.copy_(F.normalize(matrix.mv(self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(matrix.mH.mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:  # the singular value of a vector is its length
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # for backward: the next call changes the buffers
        return weight / u.vdot(matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself. Reading it returns the value divided by its singular value."""
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide `module.<name>` by its largest singular value, as a matrix whose rows are its dimension `dim`.

    By default `dim` is the dimension of the outputs. Miyato et al., Spectral normalization for generative adversarial
    networks, 2018.
    """
    dim = default_dim(module) if dim is None else dim
    normalization = _SpectralNorm(_tensor_of(module, name), n_power_iterations, dim, eps)
    parametrize.register_parametrization(module, name, normalization)
    return module
