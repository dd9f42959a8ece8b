"""einops knows numod's tensors: by its own backend for PyTorch, with numod in PyTorch's place. einops looks for
backends among the subclasses of its class.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def register(backends: ModuleType) -> None:
    """Define the subclass."""

    class NumodBackend(backends.TorchBackend):
        framework_name = "numod"

        def __init__(self) -> None:
            self.torch = sys.modules["numod"]

    backends.NumodBackend = NumodBackend


def find_spec(name: str, path: Any) -> ModuleSpec | None:
    """Where the backends are, as Python finds them; ours is defined once they are imported."""
    spec = PathFinder.find_spec(name, path)
    if spec is not None:
        execute = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (execute(module), register(module))
    return spec
