"""Indices of triangles of a matrix. Not the triangles themselves."""

from __future__ import annotations

from .. import dtypes
from ..device.device import Device
from ..dtypes import dtype as DType
from .creation import arange
from .selection import nonzero
from .shapes import transpose, unsqueeze
from .tensor import Tensor

FUNCTIONS = "tril_indices triu_indices"


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """Rows and columns, (2, count), of the elements on and below a diagonal of a (row, col) matrix, row by row."""
    rows, columns = _places("tril_indices", row, col, dtype, device)
    return transpose(nonzero(columns - rows <= offset), 0, 1).to(dtype or dtypes.int64).contiguous()


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """Rows and columns, (2, count), of the elements on and above a diagonal of a (row, col) matrix, row by row."""
    rows, columns = _places("triu_indices", row, col, dtype, device)
    return transpose(nonzero(columns - rows >= offset), 0, 1).to(dtype or dtypes.int64).contiguous()


def _places(name: str, row: int, col: int, dtype: DType | None, device: Device | str | None) -> tuple[Tensor, Tensor]:
    for side, size in (("row", row), ("col", col)):
        if size < 0:
            raise RuntimeError(f"{name}: {side} must be non-negative, got {size}")
    if dtype not in (None, dtypes.int32, dtypes.int64):
        raise RuntimeError(f"\"{name}\" not implemented for '{dtype.short}'; the indices are int64 or int32")
    return unsqueeze(arange(row, device=device), 1), arange(col, device=device)
