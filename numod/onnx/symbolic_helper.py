"""Names of PyTorch's exporter that model files import; `numod.onnx.symbolic_helper` has them too.

Functions that they register are never called: numod writes operators from a captured program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..core.quantized import records_float_layers

__all__ = ["is_in_onnx_export", "parse_args", "register_custom_op_symbolic"]
_exporting = ContextVar("exporting", default=False)


def parse_args(*arg_descriptors: str) -> Callable[[Callable], Callable]:
    """A decorator that returns the function unchanged."""
    return lambda function: function


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable, opset_version: int) -> None:
    """Does nothing."""


def is_in_onnx_export() -> bool:
    """Whether a forward runs for `numod.onnx.export`."""
    return _exporting.get()


@contextmanager
def exporting() -> Iterator[None]:
    """Makes `is_in_onnx_export` true for a while."""
    token, float_layers = _exporting.set(True), records_float_layers.set(True)
    try:
        yield
    finally:
        records_float_layers.reset(float_layers)
        _exporting.reset(token)
