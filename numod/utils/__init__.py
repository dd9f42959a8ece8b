"""Helpers around training that are not tensors or modules: `data`, `checkpoint`, `dlpack`, `progress`."""

from . import checkpoint, data, dlpack
from .progress import progress

__all__ = ["checkpoint", "data", "dlpack", "progress"]
