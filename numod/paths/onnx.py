"""`numod.onnx`: what model files ask PyTorch's exporter. numod saves recorded programs by
`numod.serialization.save_program`.
"""

from __future__ import annotations

from collections.abc import Callable

from . import later

__all__ = ["is_in_onnx_export"]
__getattr__ = later("onnx")


def parse_args(*arg_descriptors: str) -> Callable[[Callable], Callable]:
    """A decorator that gives the function as it is: nothing calls what writes a library's own operators.

    `numod.onnx.symbolic_helper` has it.
    """
    return lambda function: function


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable, opset_version: int) -> None:
    """Nothing is kept, for the same reason."""


def is_in_onnx_export() -> bool:
    """False: a forward never runs for the exporter."""
    return False
