"""skip_init: a module with its parameters' values undefined, for values that will be loaded anyway."""

from __future__ import annotations

import inspect
from typing import Any

from ..module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """`module_cls(*args, **kwargs)` without its `reset_parameters`: no time is spent on values, no random number is
    drawn.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    resets = {name: _leave_undefined for name in ("reset_parameters", "_reset_parameters") if hasattr(module_cls, name)}
    module = type(module_cls.__name__, (module_cls,), resets)(*args, **kwargs)
    module.__class__ = module_cls
    return module


def _leave_undefined(self: Module) -> None:
    """In place of a `reset_parameters`."""
