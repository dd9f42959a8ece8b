"""PyTorch's constructors by dtype, `FloatTensor(2, 3)`, `LongTensor([1, 2])`. They make ordinary tensors; `isinstance` with one checks the dtype."""

from __future__ import annotations

from .. import dtypes
from ..dtypes import dtype as DType
from .tensor import Tensor


class _Constructor(type):
    """Metaclass of the constructors: their instances are the CPU tensors of their dtype."""

    dtype: DType

    def __call__(cls, *arguments: object, device: object = None) -> Tensor:
        return Tensor._legacy(*arguments, dtype=cls.dtype, device=device)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.dtype and value.device.type == "cpu"

    def __repr__(cls) -> str:
        return f"<class 'numod.{cls.__name__}'>"


def _constructor(kind: DType) -> _Constructor:
    return _Constructor(f"{kind.short}Tensor", (), {"dtype": kind, "__module__": "numod", "__doc__": f"Tensors of numod.{kind.name}."})


_of_kinds = (_constructor(each) for each in dtypes.ALL.values() if not each.is_complex)
BoolTensor, ByteTensor, CharTensor, ShortTensor, IntTensor, LongTensor, HalfTensor, BFloat16Tensor, FloatTensor, DoubleTensor = _of_kinds
