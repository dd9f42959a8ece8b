"""`numod.fx`: markers for PyTorch's symbolic tracer. numod records calls and does not need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import name_only

__all__ = ["wrap"]

_NAMES = (  # also those of `fx.graph_module`, `fx.proxy`, `fx.graph`, `fx.node` and `fx.experimental.proxy_tensor`
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "TraceError", "Transformer", "_CodeOnlyModule",
    "_USER_PRESERVED_ATTRIBUTES_KEY", "_copy_attr", "_is_fx_tracing", "is_fx_tracing", "make_fx", "map_arg",
    "symbolic_trace",
)  # fmt: skip
globals().update({_name: name_only(f"fx.{_name}", "numod.graph.trace records a function") for _name in _NAMES})
FakeTensor, FakeTensorMode = (
    name_only(_name, "shapes without values are those of device='meta'") for _name in ("FakeTensor", "FakeTensorMode")
)


def is_fake(x: Any) -> bool:
    """False: `numod._subclasses.fake_tensor` has it."""
    return False


def get_proxy_mode() -> None:
    """None: `numod.fx.experimental.proxy_tensor` has it."""


def wrap(fn_or_name: str | Callable) -> str | Callable:
    """Return the argument."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    return fn_or_name
