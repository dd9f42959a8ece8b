"""Reading the pickle in a checkpoint that the user trusts (`weights_only=False`): whatever Python pickles, with the
code that it names. Tensors, and what PyTorch itself put there, are read as in other checkpoints. What a file can make
this reader do: anything that the process may do.
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
    """Reads as `PickleReader` does, whose arguments it takes, but imports and calls what the pickle names:

    PyTorch's classes are numod's.
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
        super().__init__(self.file, fix_imports=False)  # `find_class` knows older names
        self.persistent_load = load_persistent

    @property
    def position(self) -> int:
        """The end of what has been read."""
        return self.file.tell()

    def read(self) -> object:
        """Read the object. Raises ValueError for a damaged pickle, and what the code that it names raises."""
        try:
            return self.load()
        except (pickle.UnpicklingError, EOFError) as error:
            raise ValueError(error) from error

    def find_class(self, module: str, name: str) -> object:
        """The object of this name in a module, which is imported."""
        module, name = renamed(module, name)
        if module.partition(".")[0] != "torch":
            return super().find_class(module, name)
        known = GLOBALS.get(f"{module}.{name}")
        if known is not None:
            return known
        for home in homes_of(module):
            with suppress(ImportError, AttributeError):
                return super().find_class(import_module(home).__name__, name)
        raise AttributeError(
            f"the file asks for {module}.{name}, which numod has not; in PyTorch, save the model's state_dict() instead"
        )
