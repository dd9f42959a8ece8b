"""`numod.onnx`: what model files ask PyTorch's exporter. numod saves recorded programs by `numod.serialization.save_program`."""

from __future__ import annotations

__all__ = ["is_in_onnx_export"]


def is_in_onnx_export() -> bool:
    """False: a forward never runs for the exporter."""
    return False
