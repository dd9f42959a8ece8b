"""Registers numod's tensors with einops: its backend for PyTorch, with numod in PyTorch's place.

einops finds backends among the subclasses of its backend class.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def register(backends: ModuleType) -> None:
    """Define the backend class."""

    class NumodBackend(backends.TorchBackend):
        framework_name = "numod"

        def __init__(self) -> None:
            self.torch = sys.modules["numod"]

    backends.NumodBackend = NumodBackend


def find_spec(name: str, path: Any) -> ModuleSpec | None:
    """The spec of einops' backends; importing them also registers numod's."""
    spec = PathFinder.find_spec(name, path)
    if spec is not None:
        execute = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (execute(module), register(module))
    return spec
