"""Type queries of the top namespace: is_tensor and the like.

Queries about tensors alone are properties and methods of Tensor.
"""

from __future__ import annotations

from .tensor import Tensor

FUNCTIONS = "is_tensor is_storage typename"
BOTH = "is_floating_point is_complex is_signed is_nonzero is_inference numel"


def is_tensor(obj: object) -> bool:
    """Whether `obj` is a Tensor.

    Example:

        >>> torch.is_tensor([1.0])
        False
    """
    return isinstance(obj, Tensor)


def is_storage(obj: object) -> bool:
    """Whether `obj` is a tensor's storage.

    Example:

        >>> torch.is_storage(torch.ones(2).untyped_storage())
        True
    """
    from ..device import Storage

    return isinstance(obj, Storage)


def typename(obj: object) -> str:
    """The qualified name of a value's type; `Tensor.type()` for tensors; a class's own name.

    Example:

        >>> torch.typename(torch.ones(2))
        'numod.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def is_nonzero(input: Tensor) -> bool:
    """Whether a tensor of one element is not zero. Raises RuntimeError for others.

    Example:

        >>> torch.is_nonzero(torch.tensor([3.0]))
        True
    """
    return bool(input)


is_floating_point, is_complex, is_signed = Tensor.is_floating_point, Tensor.is_complex, Tensor.is_signed
is_inference, numel = Tensor.is_inference, Tensor.numel
