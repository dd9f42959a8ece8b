"""Saving and loading: safetensors files and PyTorch's checkpoints. Both hold only data: nothing in a file is imported or executed."""

from __future__ import annotations

from .checkpoint import load, save
from .program import load_program, save_program
from .refusal import CheckpointError
from .safetensors import load_file, load_metadata, save_file

__all__ = ["CheckpointError", "load", "load_file", "load_metadata", "load_program", "save", "save_file", "save_program"]
