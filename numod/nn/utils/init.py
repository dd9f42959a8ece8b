"""skip_init: creates a module with undefined parameter values, for values that are loaded anyway."""

from __future__ import annotations

import inspect
from typing import Any

from ..module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """`module_cls(*args, **kwargs)` without its `reset_parameters`: values and random numbers are not computed.

    Example:

        >>> nn.utils.skip_init(nn.Linear, 2, 3).weight.shape
        numod.Size([3, 2])
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
    """Replaces `reset_parameters`."""
