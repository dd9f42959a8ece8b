"""Names of PyTorch's exporter that model files import; `numod.onnx.symbolic_helper` has them too.

Nothing calls what they register: numod writes operators from a captured program.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["is_in_onnx_export", "parse_args", "register_custom_op_symbolic"]


def parse_args(*arg_descriptors: str) -> Callable[[Callable], Callable]:
    """A decorator that returns the function unchanged."""
    return lambda function: function


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable, opset_version: int) -> None:
    """Does nothing."""


def is_in_onnx_export() -> bool:
    """False: a forward never runs for the exporter."""
    return False
