"""PyTorch's constructors by dtype and device, `FloatTensor(2, 3)`, `cuda.LongTensor([1, 2])`.

They make ordinary tensors; `isinstance` with one checks both.
"""

from __future__ import annotations

from ... import dtypes
from ...dtypes import dtype as DType
from ..tensor import Tensor


class _Constructor(type):
    """Metaclass of the constructors: their instances are the tensors of their dtype on their device."""

    dtype: DType
    device: str

    def __call__(cls, *arguments: object, device: object = None) -> Tensor:
        if len(arguments) == 1 and isinstance(arguments[0], Tensor) and arguments[0].dtype is not cls.dtype:
            raise TypeError(
                f"expected {cls.__name__} (got {arguments[0].dtype.short}Tensor); convert it with .to({cls.dtype})"
            )
        return Tensor._construct(*arguments, dtype=cls.dtype, device=device or cls.device)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.dtype and value.device.type == cls.device

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"


def _text(kind: DType, device: str) -> str:
    """The docstring of a constructor, with an example on the CPU."""
    text = f"Tensors of {kind} on {device}: of a size, uninitialised, or of values."
    example = f">>> torch.{kind.short}Tensor([1, 0]).dtype\n    {kind}"
    return f"{text}\n\nExample:\n\n    {example}\n" if device == "cpu" else text


def _constructors(device: str, module: str) -> list[_Constructor]:
    return [
        _Constructor(f"{kind.short}Tensor", (),
            {"dtype": kind, "device": device, "__module__": module, "__doc__": _text(kind, device)})
        for kind in dtypes.ALL.values() if kind.kind not in "cw"
    ]  # fmt: skip


# the names of `numod.cuda`
ON_CUDA = {constructor.__name__: constructor for constructor in _constructors("cuda", "numod.cuda")}
(
    BoolTensor,
    ByteTensor,
    CharTensor,
    ShortTensor,
    IntTensor,
    LongTensor,
    HalfTensor,
    BFloat16Tensor,
    FloatTensor,
    DoubleTensor,
) = _constructors("cpu", "numod")
