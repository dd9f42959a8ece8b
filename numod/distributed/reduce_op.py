"""ReduceOp: how `all_reduce`, `reduce` and `reduce_scatter` combine the ranks' values."""

from __future__ import annotations

from enum import IntEnum


class ReduceOp(IntEnum):
    """The reductions, by PyTorch's names and numbers. AVG is the sum divided by the number of ranks."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8
    __hash__ = int.__hash__  # Enum's is a function in Python, and each all_reduce looks one up

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise TypeError(f"op: expected a member of ReduceOp such as ReduceOp.SUM, got {value!r}")

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"

    def __repr__(self) -> str:
        return f"<RedOpType.{self.name}: {int(self)}>"


ReduceOp.RedOpType = ReduceOp  # PyTorch's name of the enumeration within
ORDERED = (ReduceOp.MIN, ReduceOp.MAX)
BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def checked(op: ReduceOp, dtype: object, name: str) -> ReduceOp:
    """`op`, if the dtype has it. Raises TypeError for what is no ReduceOp, ValueError for complex minima, maxima and
    bits, and RuntimeError for bits of floats and for PREMUL_SUM.
    """
    if op.__class__ is not ReduceOp:
        raise TypeError(f"{name}: expected op to be a member of ReduceOp such as ReduceOp.SUM, got {op!r}")
    if op in (*ORDERED, *BITWISE) and dtype.is_complex:
        raise ValueError(f"{name} does not support {op} on complex tensors")
    if op in BITWISE and dtype.differentiable:
        raise RuntimeError(f"{name}: cannot use {op} with {dtype}; bitwise reductions take integers and bool")
    if op is ReduceOp.PREMUL_SUM:
        raise RuntimeError(f"{name}: ReduceOp.PREMUL_SUM is NCCL's; multiply the tensor, then use ReduceOp.SUM")
    return op
