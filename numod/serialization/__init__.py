"""Saving and loading: safetensors files and PyTorch's checkpoints.

Only data is read: nothing in a file is imported or executed, unless the user allows it by name or trusts the whole file
(`weights_only=False`).

- `checkpoint`: `save` and `load`, which choose the format
- `safetensors`, with `header` and, for nested objects, `structure`
- PyTorch's format: `torch_save` writes; `torch_file` reads the archive, `pickle_reader` the pickle in it;
  `torch_objects` defines what that may contain, `safe_globals` adds what the user allows, `trusted` replaces both
- `program`: a recorded program in a file
- for all formats: `saveable` checks an object before writing, `atomic` writes files, `source` reads them, `placement`
  puts tensors on devices, `keys` and `refusal` reject malicious or damaged input
"""

from __future__ import annotations

from .checkpoint import load, save
from .placement import MAP_LOCATION as MAP_LOCATION, default_restore_location as default_restore_location
from .program import load_program, save_program
from .refusal import CheckpointError
from .safe_globals import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from .safetensors import load_file, load_metadata, save_file

DEFAULT_PROTOCOL = 2  # of the pickle in PyTorch's archives

__all__ = [
    "CheckpointError", "add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "load_file",
    "load_metadata", "load_program", "safe_globals", "save", "save_file", "save_program",
]  # fmt: skip
