"""Saving and loading tensors. One format, safetensors, which holds data and never code; pickled PyTorch files are not read here."""

from __future__ import annotations

from .safetensors import load, load_file, load_metadata, save, save_file

__all__ = ["load", "load_file", "load_metadata", "save", "save_file"]
