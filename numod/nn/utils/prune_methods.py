"""Pruning methods: classes that compute a mask, and are the hooks that apply it. `prune.py` has their use.

The entries to prune are chosen on the host, since pruning happens once and not during training.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from ...core import Tensor, from_numpy, ones_like
from ...core.create.random import rand, rand_like
from ..module import Module

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured",
]  # fmt: skip


# ---- the base class of methods
# --------------------------------------------------------------------------------------------------


class BasePruningMethod(ABC):
    """A way to choose a mask, and the hook that applies it. Subclasses define `compute_mask` and `PRUNING_TYPE`.

    The type determines what a later method in a container receives: the remaining entries ("unstructured"), the
    remaining channels along `dim` ("structured"), or everything ("global").
    """

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for a tensor with importance scores `t`, of the same shape, zero where `default_mask` is zero."""

    def apply_mask(self, module: Module) -> Tensor:
        """The pruned parameter, mask times original."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        original = getattr(module, f"{self._tensor_name}_orig")
        return getattr(module, f"{self._tensor_name}_mask").to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune `module.<name>` with a method built from the arguments. Returns the method, or its container."""
        method = _join_earlier(cls(*args, **kwargs), module, name)
        original = getattr(module, name)
        if original is None:
            raise TypeError(f"Parameter '{name}' of module {module} is None, expected a tensor to prune")
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, got "
                f"{importance_scores.shape} vs {original.shape}"
            )
        stacked = isinstance(method, PruningContainer)
        default_mask = getattr(module, f"{name}_mask").detach().clone() if stacked else ones_like(original)
        mask = method.compute_mask(
            importance_scores, default_mask=default_mask
        )  # may raise, so it precedes all changes
        if not stacked:
            del module._parameters[name]
            module.register_parameter(f"{name}_orig", original)
        module.register_buffer(f"{name}_mask", mask)
        method(module, None)
        _remove_hooks(module, name)
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """`t` with its mask applied; no module is involved."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            shapes = f"{importance_scores.shape} vs {t.shape}"
            raise AssertionError(f"importance_scores should have the same shape as tensor t, got {shapes}")
        return t * self.compute_mask(
            importance_scores, default_mask=ones_like(t) if default_mask is None else default_mask
        )

    def remove(self, module: Module) -> None:
        """Make the pruning permanent: the parameter gets its name back, with zeros where the mask had them."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        name = self._tensor_name
        original = module._parameters[f"{name}_orig"]
        original.data = self.apply_mask(module).data
        if hasattr(module, name):
            delattr(module, name)
        del module._parameters[f"{name}_orig"]
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


def hooks_on(module: Module, name: str) -> dict[int, BasePruningMethod]:
    """The pruning hooks of `module.<name>`, by number."""
    hooks = module._forward_pre_hooks.items()
    return {number: hook for number, hook in hooks if isinstance(hook, BasePruningMethod) and hook._tensor_name == name}


def _remove_hooks(module: Module, name: str) -> None:
    for number in hooks_on(module, name):
        del module._forward_pre_hooks[number]


def _join_earlier(method: BasePruningMethod, module: Module, name: str) -> BasePruningMethod:
    """`method` itself, or a container with the methods that already prune the tensor."""
    method._tensor_name = name
    earlier = list(hooks_on(module, name).values())
    if not earlier:
        return method
    if len(earlier) > 1:
        raise AssertionError(
            f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a PruningContainer."
        )
    methods = tuple(earlier[0]) if isinstance(earlier[0], PruningContainer) else (earlier[0],)
    container = PruningContainer(methods[0])
    for member in (*methods[1:], method):
        container.add_pruning_method(member)
    return container


class PruningContainer(BasePruningMethod):
    """The methods that have pruned one tensor. It computes only the newest method's part of the mask."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Add a method for the same tensor."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to "
                f"PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """`default_mask` with the newest method's mask in the part that the method receives."""
        method = self._pruning_methods[-1]
        part = _part_shown(method, t, default_mask)
        mask = default_mask.to(t.dtype).clone()
        mask[part] = method.compute_mask(t[part], default_mask=default_mask[part]).to(mask.dtype)
        return mask


def _part_shown(method: BasePruningMethod, t: Tensor, mask: Tensor) -> Any:
    """The index of the entries that earlier methods have left."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    if method.PRUNING_TYPE == "global":
        return (slice(None),) * t.ndim
    if method.PRUNING_TYPE != "structured":
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    if not hasattr(method, "dim"):
        raise AttributeError('Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.')
    dim = method.dim if method.dim >= 0 else method.dim + t.ndim
    if dim < 0:
        raise IndexError(f"Index is out of bounds for tensor with dimensions {t.ndim}")
    return _channels(t.ndim, dim, mask.sum(dim=[d for d in range(t.ndim) if d != dim]) != 0)


def _channels(ndim: int, dim: int, selected: Tensor) -> tuple:
    index: list[Any] = [slice(None)] * ndim
    index[dim] = selected
    return tuple(index)


# ---- the methods
# -------------------------------------------------------------------------------------------------------


class Identity(BasePruningMethod):
    """Prunes nothing, but sets up the mask and the names."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> BasePruningMethod:
        return super().apply(module, name)


class _Unstructured(BasePruningMethod):
    """Prunes the `amount` of entries with the lowest scores, a fraction of the remaining ones (float) or a number."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: int | float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _scores(self, t: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must define _scores(t)")

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _count(self.amount, t.numel())
        mask = default_mask.reshape(-1).clone()
        if count:
            mask[_lowest(self._scores(t), count)] = 0
        return mask.reshape(default_mask.shape)


class RandomUnstructured(_Unstructured):
    """Prunes `amount` of the entries at random, a fraction of the remaining ones (float) or a number (int)."""

    def _scores(self, t: Tensor) -> Tensor:
        return rand_like(t)

    @classmethod
    def apply(cls, module: Module, name: str, amount: int | float) -> BasePruningMethod:
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Unstructured):
    """Prunes the entries with the smallest absolute values.

    `amount` is a fraction of the remaining entries (float) or a number (int).
    """

    def _scores(self, t: Tensor) -> Tensor:
        return t.abs()

    @classmethod
    def apply(
        cls, module: Module, name: str, amount: int | float, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Structured(BasePruningMethod):
    """Prunes the `amount` of channels along `dim` with the lowest scores."""

    PRUNING_TYPE = "structured"
    amount: int | float
    dim: int

    def _scores(self, t: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must define _scores(t)")

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.ndim <= 1:
            raise ValueError(
                f"Structured pruning can only be applied to multidimensional tensors. Found tensor of shape {t.shape} "
                f"with {t.ndim} dims"
            )
        if self.dim >= t.ndim:
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        count = _count(self.amount, t.shape[self.dim])
        if not count:
            return default_mask
        mask = ones_like(t.detach())
        mask[_channels(t.ndim, self.dim, _lowest(self._scores(t), count))] = 0
        return mask * default_mask.to(mask.dtype)


class RandomStructured(_Structured):
    """Prunes `amount` of the channels along `dim` at random."""

    def __init__(self, amount: int | float, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    def _scores(self, t: Tensor) -> Tensor:
        return rand(t.shape[self.dim], device=t.device)

    @classmethod
    def apply(cls, module: Module, name: str, amount: int | float, dim: int = -1) -> BasePruningMethod:
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Structured):
    """Prunes the `amount` of channels along `dim` with the smallest norm of order `n`."""

    def __init__(self, amount: int | float, n: float | str, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def _scores(self, t: Tensor) -> Tensor:
        return t.norm(self.n, dim=[d for d in range(t.ndim) if d != self.dim % t.ndim])

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        amount: int | float,
        n: float | str,
        dim: int,
        importance_scores: Tensor | None = None,
    ) -> BasePruningMethod:
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes the entries where `mask` is 0, in addition to those already pruned."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> BasePruningMethod:
        return super().apply(module, name, mask=mask)


def _validate_pruning_amount_init(amount: Any) -> None:
    """Raise TypeError for no number, and ValueError for one that is neither a fraction nor a count."""
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (not isinstance(amount, numbers.Integral) and not amount <= 1):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    """Raise ValueError for a count of more entries than there are."""
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    """How many of `tensor_size` entries to prune."""
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _count(amount: int | float, size: int) -> int:
    """How many of `size` entries to prune. Raises ValueError for more than there are."""
    _validate_pruning_amount(amount, size)
    return _compute_nparams_toprune(amount, size)


def _lowest(scores: Tensor, count: int) -> Tensor:
    """Row-major positions of the `count` lowest scores. Among equal scores the first come first; NaN comes last."""
    order = scores.detach().cpu().double().numpy().ravel().argsort(kind="stable")
    return from_numpy(order[:count]).to(scores.device)
