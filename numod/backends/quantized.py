"""`numod.backends.quantized`: PyTorch's choice of a library. numod has kernels of its own; a set name is read back."""

from __future__ import annotations

import sys
from types import ModuleType

supported_engines = ["qnnpack", "onednn", "x86", "fbgemm"]


class _Engines(ModuleType):
    """The module itself, so that an engine that PyTorch has not is an error, as there."""

    @property
    def engine(self) -> str:
        """The engine set last."""
        return self._engine

    @engine.setter
    def engine(self, name: str) -> None:
        if name not in supported_engines:
            raise RuntimeError(f"{name!r} is not a valid value for quantized engine; use one of {supported_engines}")
        self._engine = name


sys.modules[__name__].__class__ = _Engines
sys.modules[__name__].engine = "x86"
