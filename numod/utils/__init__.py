"""Utilities for training: `benchmark`, `checkpoint`, `data`, `dlpack`, `progress`, `summary`."""

from . import benchmark, checkpoint, data, dlpack
from .progress import progress
from .summary import summary

__all__ = ["benchmark", "checkpoint", "data", "dlpack", "progress", "summary"]
