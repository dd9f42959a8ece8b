"""Utilities for training: `benchmark`, `checkpoint`, `data`, `dlpack`, `progress`, `summary`."""

from ..nn import hooks
from . import benchmark, checkpoint, data, dlpack
from .progress import progress
from .summary import summary

__all__ = ["benchmark", "checkpoint", "data", "dlpack", "hooks", "progress", "summary"]
