"""`numod.utils.dlpack`: PyTorch's place for the two functions of DLPack."""

from ..core import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
