"""The `onnx` package, imported where it is first needed: it is optional, and `import numod` must not wait for it."""

from __future__ import annotations

from types import ModuleType


def onnx() -> ModuleType:
    """The `onnx` package. Raises ImportError with the line to install where it is missing."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError(
            "numod.onnx needs the package onnx: pip install 'numod[onnx]' (or pip install onnx)"
        ) from error
    return onnx
