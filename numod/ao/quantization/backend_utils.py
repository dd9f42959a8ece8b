"""Questions about a BackendConfig, under PyTorch's names of `backend_config.utils`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .backend_config import BackendConfig, BackendPatternConfig, DTypeConfig

__all__ = [
    "entry_to_pretty_str", "get_fused_module_classes", "get_fuser_method_mapping",
    "get_fusion_pattern_to_extra_inputs_getter", "get_fusion_pattern_to_root_node_getter", "get_module_to_qat_module",
    "get_pattern_to_dtype_configs", "get_pattern_to_input_type_to_index", "get_qat_module_classes",
    "get_root_module_to_quantized_reference_module", "pattern_to_human_readable", "remove_boolean_dispatch_from_name",
]  # fmt: skip


def _by_pattern(backend_config: BackendConfig, name: str) -> dict[Any, Any]:
    """An attribute of each pattern's config, where it is set."""
    values = {pattern: getattr(config, name) for pattern, config in backend_config._patterns.items()}
    return {pattern: value for pattern, value in values.items() if value is not None}


def get_pattern_to_dtype_configs(backend_config: BackendConfig) -> dict[Any, list[DTypeConfig]]:
    """The dtypes of each pattern."""
    return _by_pattern(backend_config, "dtype_configs")


def get_pattern_to_input_type_to_index(backend_config: BackendConfig) -> dict[Any, dict[str, int]]:
    """Which argument of each pattern is the weight, and which the bias."""
    return _by_pattern(backend_config, "_input_type_to_index")


def get_fuser_method_mapping(backend_config: BackendConfig) -> dict[Any, Callable]:
    """The function that fuses each pattern."""
    return _by_pattern(backend_config, "fuser_method")


def get_module_to_qat_module(backend_config: BackendConfig) -> dict[Any, type]:
    """The layer for training of each pattern."""
    return _by_pattern(backend_config, "qat_module")


def get_fusion_pattern_to_root_node_getter(backend_config: BackendConfig) -> dict[Any, Callable]:
    """The root getters that patterns have been given."""
    return _by_pattern(backend_config, "_root_node_getter")


def get_fusion_pattern_to_extra_inputs_getter(backend_config: BackendConfig) -> dict[Any, Callable]:
    """The getters of further inputs that patterns have been given."""
    return _by_pattern(backend_config, "_extra_inputs_getter")


def get_qat_module_classes(backend_config: BackendConfig) -> tuple[type, ...]:
    """All layers for training."""
    return tuple(set(_by_pattern(backend_config, "qat_module").values()))


def get_fused_module_classes(backend_config: BackendConfig) -> tuple[type, ...]:
    """All layers that patterns are fused to."""
    return tuple(set(_by_pattern(backend_config, "fused_module").values()))


def get_root_module_to_quantized_reference_module(backend_config: BackendConfig) -> dict[type, type]:
    """The reference layer of each root layer."""
    pairs = [(config.root_module, config.reference_quantized_module) for config in backend_config.configs]
    return {root: reference for root, reference in pairs if root is not None and reference is not None}


def remove_boolean_dispatch_from_name(p: Any) -> Any:
    """The argument: numod's functions have their names."""
    return p


def pattern_to_human_readable(p: Any) -> Any:
    """A pattern with the names of classes and functions in their places."""
    if isinstance(p, (tuple, list)):
        return tuple([pattern_to_human_readable(part) for part in p])
    return p if isinstance(p, str) else f"{p.__module__}.{p.__qualname__}"


def entry_to_pretty_str(entry: BackendPatternConfig) -> str:
    """A pattern's config as text."""
    values = {**entry.to_dict(), "pattern": pattern_to_human_readable(entry.pattern)}
    return "\n".join(["{", *[f"  {name!r}: {value}," for name, value in values.items()], "}"])
