"""Saving and loading: safetensors files and PyTorch's checkpoints.

Of both only data is read: nothing in a file is imported or executed that the user did not allow by name, or trust as a
whole (`weights_only=False`).

`checkpoint` has `save` and `load` and chooses the format. safetensors: `safetensors`, with its `header`, and nested
objects as text (`structure`). PyTorch's: `torch_save` writes; `torch_file` reads the archive, `pickle_reader` the
pickle in it, and `torch_objects` says what that may contain, with what the user allows by `safe_globals`, or `trusted`
in the place of both. `program` is a recorded
program in a file. For all of them: `saveable` checks an object before it is written, `atomic` writes, `source` reads,
`placement` puts tensors on devices, `keys` and `refusal` refuse what is malicious or damaged.
"""

from __future__ import annotations

from .checkpoint import load, save
from .placement import MAP_LOCATION as MAP_LOCATION
from .program import load_program, save_program
from .refusal import CheckpointError
from .safe_globals import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from .safetensors import load_file, load_metadata, save_file

DEFAULT_PROTOCOL = 2  # of the pickle in PyTorch's archives

__all__ = [
    "CheckpointError", "add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "load_file",
    "load_metadata", "load_program", "safe_globals", "save", "save_file", "save_program",
]  # fmt: skip
