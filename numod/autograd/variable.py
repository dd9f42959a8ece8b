"""`Variable`, which wrapped tensors before PyTorch 0.4; now it returns a detached tensor."""

from __future__ import annotations

from ..core.create.creation import empty
from ..core.tensor import Tensor


class _Meta(type):
    def __instancecheck__(cls, other: object) -> bool:
        return isinstance(other, Tensor)


class Variable(metaclass=_Meta):
    """`Variable(tensor)` is a detached tensor over the same values; every tensor is an instance."""

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = False, volatile: bool | None = None) -> Tensor:
        data = empty(0) if data is None else data
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)
