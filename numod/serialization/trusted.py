"""Reads the pickle in a checkpoint that the user trusts (`weights_only=False`).

It accepts all objects that Python pickles, with the code that they name. Tensors and PyTorch's own objects are read as
in other checkpoints. Security: a file can do anything that the process may do.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

from .safe_globals import homes_of, renamed
from .torch_objects import GLOBALS


class TrustedReader(pickle.Unpickler):
    """Has the arguments of `PickleReader`, but imports and calls all globals of the pickle.

    PyTorch's classes become numod's.
    """

    def __init__(
        self,
        data: bytes | bytearray,
        find_global: Callable,
        load_persistent: Callable,
        build: Callable,
        position: int = 0,
    ) -> None:
        self.file = io.BytesIO(data)
        self.file.seek(position)
        super().__init__(self.file, fix_imports=False)  # `find_class` maps the old names
        self.persistent_load = load_persistent

    @property
    def position(self) -> int:
        """The end of the data that has been read."""
        return self.file.tell()

    def read(self) -> object:
        """Read the object. Raises ValueError for a damaged pickle, and the errors of the code that it calls."""
        try:
            return self.load()
        except (pickle.UnpicklingError, EOFError) as error:
            raise ValueError(error) from error

    def find_class(self, module: str, name: str) -> object:
        """Import the module and return the object with this name."""
        module, name = renamed(module, name)
        if module.partition(".")[0] != "torch":
            return super().find_class(module, name)
        equivalent = GLOBALS.get(f"{module}.{name}")
        if equivalent is not None:
            return equivalent
        for home in homes_of(module):
            with suppress(ImportError, AttributeError):
                return super().find_class(import_module(home).__name__, name)
        raise AttributeError(
            f"the file refers to {module}.{name}, which numod does not have; in PyTorch, save the model's state_dict()"
        )
