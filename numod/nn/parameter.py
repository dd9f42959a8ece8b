"""Parameter and Buffer: tensors that a Module registers when they are assigned to it.

They are Tensors with a class of their own and nothing more. What registration means is in `module.py`.
"""

from __future__ import annotations

import copy
from typing import Any

from ..core import Tensor, empty

__all__ = ["Buffer", "Parameter"]

_FIELDS = ("_storage", "_layout", "_offset")


class Parameter(Tensor):
    """A tensor to be trained: assigned to a Module it joins `parameters()`.

    `data` is shared, not copied, and its history is left behind; without data the Parameter is empty, shape (0,).
    Raises RuntimeError where gradients are asked of an integer tensor.
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        return _tensor_for(cls, data)._alias(cls).requires_grad_(requires_grad)

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        pass  # __new__ has done it; Tensor's constructor is not meant to see these arguments

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo: dict) -> Parameter:
        """A Parameter with its own values; the gradient is not copied, as in PyTorch."""
        if id(self) not in memo:
            result = type(self)(self.detach().clone(), self.requires_grad)
            memo[id(self)] = result
            result.__dict__.update(copy.deepcopy(_attributes(self), memo))
        return memo[id(self)]

    def __reduce_ex__(self, protocol: int) -> tuple:
        return _rebuild, (type(self), self._alias(Tensor), {"requires_grad": self.requires_grad}, _attributes(self))


class Buffer(Tensor):
    """A tensor that is state but not trained: assigned to a Module it joins `buffers()`.

    `persistent=False` leaves it out of `state_dict()`. `data` is shared, not copied.
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        data = _tensor_for(cls, data)
        result = data._alias(cls).requires_grad_(data.requires_grad)
        result.persistent = persistent
        return result

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        pass

    def __deepcopy__(self, memo: dict) -> Buffer:
        if id(self) not in memo:
            result = type(self)(self.detach().clone(), persistent=self.persistent).requires_grad_(self.requires_grad)
            memo[id(self)] = result
            result.__dict__.update(copy.deepcopy(_attributes(self), memo))
        return memo[id(self)]

    def __reduce_ex__(self, protocol: int) -> tuple:
        data = self._alias(Tensor).requires_grad_(self.requires_grad)
        return _rebuild, (type(self), data, {"persistent": self.persistent}, _attributes(self))


def _tensor_for(cls: type, data: Any) -> Tensor:
    """What a Parameter or Buffer is made of."""
    if data is None:
        return empty(0)
    if not isinstance(data, Tensor):
        raise TypeError(f"{cls.__name__}: expected a Tensor, got {type(data).__name__}; try {cls.__name__}(tensor(...))")
    return data


def _attributes(tensor: Tensor) -> dict[str, Any]:
    """What the user has hung on the tensor, not what makes it one."""
    return {name: value for name, value in tensor.__dict__.items() if name not in _FIELDS and not hasattr(Tensor, name)}


def _rebuild(cls: type, data: Tensor, settings: dict[str, Any], attributes: dict[str, Any]) -> Tensor:
    result = cls(data, **settings)
    result.__dict__.update(attributes)
    return result
