"""Weight normalization by a hook (deprecated form): weight = g v / |v|, computed before every call.

`parametrizations` has the new form.
"""

from __future__ import annotations

from typing import Any

from ...core import Tensor
from ...errors import normalize_dim, warn_caller
from ..module import Module
from ..parameter import Parameter, is_lazy

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


def norm_except_dim(v: Tensor, pow: float = 2, dim: int = 0) -> Tensor:
    """The norms over all dimensions but `dim`, shaped to broadcast with `v`; for dim -1 the norm of all elements."""
    if dim == -1:
        return v.norm(pow)
    kept_dim = normalize_dim(dim, v.ndim)
    others = [d for d in range(v.ndim) if d != kept_dim]
    return v.norm(pow, others, keepdim=True) if others else v.abs()


def weight_from(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """The direction `v` with the length `g` (Salimans and Kingma, Weight normalization, 2016)."""
    return v * (g / norm_except_dim(v, 2, dim))


class WeightNorm:
    """The hook: sets `<name>` from `<name>_g` and `<name>_v`."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """The weight for the module's current norms and directions."""
        return weight_from(getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g"), self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Split `module.<name>` and register the hook."""
        warn_caller(
            "`nn.utils.weight_norm` is deprecated in favor of `nn.utils.parametrizations.weight_norm`.", FutureWarning
        )
        if any(isinstance(hook, WeightNorm) and hook.name == name for hook in module._forward_pre_hooks.values()):
            raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        hook, weight = WeightNorm(name, dim), getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run the dummy "
                "forward before applying weight normalization"
            )
        del module._parameters[name]
        module.register_parameter(f"{name}_g", Parameter(norm_except_dim(weight, 2, hook.dim).detach()))
        module.register_parameter(f"{name}_v", Parameter(weight.detach()))
        hook(module, None)
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module).detach()
        delattr(module, self.name)
        del module._parameters[f"{self.name}_g"]
        del module._parameters[f"{self.name}_v"]
        setattr(module, self.name, Parameter(weight))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Replace `module.<name>` with `<name>_g`, its norms along `dim` (None: one norm), and its direction `<name>_v`.

    Example:

        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
        >>> layer.weight.shape
        numod.Size([3, 2])
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight a parameter again. Raises ValueError if it has no weight norm.

    Example:

        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
        >>> nn.utils.parametrize.remove_parametrizations(layer, "weight").weight.shape
        numod.Size([3, 2])
    """
    take_hook(module, WeightNorm, name, "weight_norm").remove(module)
    return module


def take_hook(module: Module, kind: type, name: str, label: str) -> Any:
    """Remove and return the hook of this kind that computes `module.<name>`. Raises ValueError if there is none."""
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            return module._forward_pre_hooks.pop(number)
    raise ValueError(f"{label} of '{name}' not found in {module}")
