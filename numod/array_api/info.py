"""What the standard's inspection functions tell of numod."""

from __future__ import annotations

from typing import Any

import numod

from .dtypes import isdtype

_DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64",
    "complex128",
)  # fmt: skip


class __array_namespace_info__:
    """Capabilities, devices and dtypes."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing and shapes that depend on values are supported, with any number of dimensions up to 64."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """Where new arrays are."""
        return numod.get_default_device()

    def devices(self) -> list[Any]:
        """The CPU and every GPU."""
        return [numod.device("cpu"), *(numod.device("cuda", index) for index in range(numod.cuda.device_count()))]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes of Python numbers and of indices."""
        real = numod.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": real.to_complex() if real is not numod.float64 else numod.complex128,
            "integral": numod.int64,
            "indexing": numod.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The dtypes by name, of one kind or of all."""
        rows = {name: getattr(numod, name) for name in _DTYPES}
        return {name: row for name, row in rows.items() if kind is None or isdtype(row, kind)}
