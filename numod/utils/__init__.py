"""Helpers around training that are not tensors or modules: so far `numod.utils.data`."""

from . import data

__all__ = ["data"]
