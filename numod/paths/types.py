"""`numod.types`: names for annotations."""

from __future__ import annotations

import os
from builtins import bool as _bool, float as _float, int as _int, str as _str
from collections.abc import Sequence
from typing import IO, Any

from ..core.tensor import Tensor
from ..device import Size
from ..device.device import Device as _device
from ..dtypes import dtype as _dtype

__all__ = ["Device", "Number", "Storage", "_bool", "_device", "_dtype", "_float", "_int", "_layout", "_size", "_str"]

Number = int | float | bool
Device = _device | str | int | None
_size = Size | list[int] | tuple[int, ...]
_symsize = _size
_TensorOrTensors = Tensor | Sequence[Tensor]
FileLike = str | os.PathLike[str] | IO[bytes]
_layout = Storage = Any
