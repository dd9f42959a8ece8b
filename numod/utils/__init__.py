"""Helpers around training that are not tensors or modules: `data`, `checkpoint`, `progress`."""

from . import checkpoint, data
from .progress import progress

__all__ = ["checkpoint", "data", "progress"]
