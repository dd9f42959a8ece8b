"""PyTorch's switches for how `Module.to` and its kin, and loading, treat parameters.

Parameters keep their identity here whichever way, unless overwritten.
"""

from __future__ import annotations

from .nn.conversion import on_conversion

__all__ = [
    "get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion",
]  # fmt: skip


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """With True, converting a module makes new Parameters, instead of giving those there are other data."""
    on_conversion.overwrite = bool(value)


def get_overwrite_module_params_on_conversion() -> bool:
    """What `set_overwrite_module_params_on_conversion` was given; False at the start."""
    return on_conversion.overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """With True, PyTorch's conversions of a module keep its tensors the same objects. numod's always do, so this
    changes nothing.
    """
    on_conversion.swap = bool(value)


def get_swap_module_params_on_conversion() -> bool:
    """What `set_swap_module_params_on_conversion` was given; False at the start."""
    return on_conversion.swap
