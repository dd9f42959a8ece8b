"""Spectral normalization by a hook (deprecated form): weight / its largest singular value.

`parametrizations` has the new form. The singular vectors `u` and `v` are buffers, improved by a step of power iteration
at every call in training. Miyato et al., Spectral normalization for generative adversarial networks, 2018.
"""

from __future__ import annotations

from typing import Any

from ...autograd import no_grad
from ...core import Tensor
from ...core.linalg.linear_algebra import pinv
from .. import functional as F
from ..module import Module
from ..parameter import Parameter, is_lazy
from .weight_norm import take_hook

__all__ = [
    "SpectralNorm",
    "SpectralNormLoadStateDictPreHook",
    "SpectralNormStateDictHook",
    "remove_spectral_norm",
    "spectral_norm",
]


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight as a matrix whose rows are its dimension `dim`."""
    return weight.movedim(dim, 0).flatten(1)


def unit_vector(weight: Tensor, size: int, eps: float) -> Tensor:
    """A random unit vector with the dtype and device of `weight`."""
    return F.normalize(weight.detach().new_empty(size).normal_(0, 1), dim=0, eps=eps)


def default_dim(module: Module) -> int:
    """The dimension of the weight that counts outputs; it is 1 for transposed convolutions."""
    return 1 if any(base.__name__.startswith("ConvTranspose") for base in type(module).__mro__) else 0


class SpectralNorm:
    """The hook: sets `<name>` from `<name>_orig`, `<name>_u` and `<name>_v`."""

    _version: int = 1  # since 1 the state has `v`, and does not have the weight

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight as the matrix whose singular value is computed."""
        return as_matrix(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The normalized weight. `do_power_iteration` updates the buffers first."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.T.mv(u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.mv(v), dim=0, eps=self.eps))
            u, v = u.clone(), v.clone()  # for backward: the next call changes the buffers
        return weight / u.dot(matrix.mv(v))

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    def solve_v(self, matrix: Tensor, u: Tensor, sigma: Tensor) -> Tensor:
        """The `v` for which u . (matrix v) is `sigma`. Old state dicts have only `u` and the weight."""
        direction = pinv(matrix.detach().cpu()).mv(u.detach().cpu()).to(matrix.device)
        return direction * (sigma / u.dot(matrix.mv(direction)))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Move `module.<name>` to `<name>_orig` and register the hooks."""
        if any(isinstance(hook, SpectralNorm) and hook.name == name for hook in module._forward_pre_hooks.values()):
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        hook, weight = SpectralNorm(name, n_power_iterations, dim, eps), module._parameters[name]
        _check_weight(weight, name)
        height, width = hook.reshape_weight_to_matrix(weight).shape
        u, v = unit_vector(weight, height, eps), unit_vector(weight, width, eps)
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        setattr(module, name, weight.detach())
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(SpectralNormStateDictHook(hook))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
        return hook


def _check_weight(weight: Any, name: str) -> None:
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    if is_lazy(weight):
        raise ValueError(
            "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy "
            "forward before applying spectral normalization"
        )


class SpectralNormLoadStateDictPreHook:
    """Converts a state dict of version 0, which has the weight but no `v`."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self,
        state_dict: dict,
        prefix: str,
        local_metadata: dict,
        strict: bool,
        missing_keys: list,
        unexpected_keys: list,
        error_msgs: list,
    ) -> None:
        version = local_metadata.get("spectral_norm", {}).get(f"{self.fn.name}.version")
        if version is not None and version >= 1:
            return
        key = prefix + self.fn.name
        if (
            version is None
            and key not in state_dict
            and all(f"{key}_{part}" in state_dict for part in ("orig", "u", "v"))
        ):
            return  # a new state dict without metadata
        missing = [entry for entry in (f"{key}_orig", key, f"{key}_u") if entry not in state_dict]
        if missing:
            missing_keys.extend(missing if strict else ())
            return
        with no_grad():
            original, weight = state_dict[f"{key}_orig"], state_dict.pop(key)
            matrix, sigma = self.fn.reshape_weight_to_matrix(original), (original / weight).mean()
            state_dict[f"{key}_v"] = self.fn.solve_v(matrix, state_dict[f"{key}_u"], sigma)


class SpectralNormStateDictHook:
    """Records the version in the state dict's metadata."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: dict, prefix: str, local_metadata: dict) -> None:
        versions, key = local_metadata.setdefault("spectral_norm", {}), f"{self.fn.name}.version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide `module.<name>` by its largest singular value, as a matrix whose rows are its dimension `dim`.

    By default `dim` is the dimension of the outputs.

    Example:

        >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(2, 3))
        >>> layer.weight.shape
        numod.Size([3, 2])
    """
    SpectralNorm.apply(module, name, n_power_iterations, default_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the normalized weight a parameter again. Raises ValueError if it has no spectral norm.

    Example:

        >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(2, 3))
        >>> nn.utils.parametrize.remove_parametrizations(layer, "weight").weight.shape
        numod.Size([3, 2])
    """
    take_hook(module, SpectralNorm, name, "spectral_norm").remove(module)
    for hooks in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for number, hook in list(hooks.items()):
            if isinstance(hook, (SpectralNormStateDictHook, SpectralNormLoadStateDictPreHook)) and hook.fn.name == name:
                del hooks[number]
    return module
