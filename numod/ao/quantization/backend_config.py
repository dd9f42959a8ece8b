"""BackendConfig: which patterns of layers and functions a backend quantizes, in which dtypes, for `prepare_fx`.

A pattern is a layer's class, a function, the name of a Tensor method, or a tuple of layers that are fused.
`get_native_backend_config()` has all that numod quantizes; a config with fewer patterns leaves the rest in floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from .backend_dtypes import CONFIGS, DTypeConfig, DTypeWithConstraints

__path__: list[str] = []  # PyTorch has files below this name; `numod.paths` finds them here
__all__ = [
    "BackendConfig", "BackendPatternConfig", "DTypeConfig", "DTypeWithConstraints", "ObservationType",
    "get_executorch_backend_config", "get_fbgemm_backend_config", "get_native_backend_config",
    "get_native_backend_config_dict", "get_onednn_backend_config", "get_qnnpack_backend_config",
    "get_x86_backend_config",
]  # fmt: skip


class ObservationType(Enum):
    """What observes the result of a pattern."""

    OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT = 0
    OUTPUT_SHARE_OBSERVER_WITH_INPUT = 1
    INPUT_OUTPUT_NOT_OBSERVED = 2


_KEYS = {  # attribute of a BackendPatternConfig -> its name in a dict
    "pattern": "pattern", "root_module": "root_module", "qat_module": "qat_module",
    "reference_quantized_module": "reference_quantized_module_for_root", "fused_module": "fused_module",
    "fuser_method": "fuser_method", "_root_node_getter": "root_node_getter",
    "_extra_inputs_getter": "extra_inputs_getter",
    "_num_tensor_args_to_observation_type": "num_tensor_args_to_observation_type",
    "_input_type_to_index": "input_type_to_index", "_pattern_complex_format": "pattern_complex_format",
}  # fmt: skip


class BackendPatternConfig:
    """What a backend does with one pattern."""

    def __init__(self, pattern: Any = None) -> None:
        for name in _KEYS:
            setattr(self, name, None)
        self.pattern = pattern
        self._num_tensor_args_to_observation_type: dict[int, ObservationType] = {}
        self._input_type_to_index: dict[str, int] = {}
        self.observation_type = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
        self.dtype_configs: list[DTypeConfig] = []

    def __repr__(self) -> str:
        values = {name: value for name, value in self.__dict__.items() if value not in (None, [], {})}
        return f"BackendPatternConfig({values})"

    def set_pattern(self, pattern: Any) -> BackendPatternConfig:
        """The pattern, such as `nn.Linear` or `(nn.Linear, nn.ReLU)`."""
        if self._pattern_complex_format is not None:
            raise ValueError("Only one of 'pattern' or 'pattern_complex_format' can be set")
        return self._set("pattern", pattern)

    def _set(self, name: str, value: Any) -> BackendPatternConfig:
        setattr(self, name, value)
        return self

    def set_observation_type(self, observation_type: ObservationType) -> BackendPatternConfig:
        """What observes the result."""
        return self._set("observation_type", observation_type)

    def add_dtype_config(self, dtype_config: DTypeConfig) -> BackendPatternConfig:
        """A further set of dtypes."""
        self.dtype_configs.append(dtype_config)
        return self

    def set_dtype_configs(self, dtype_configs: list[DTypeConfig]) -> BackendPatternConfig:
        """The sets of dtypes."""
        return self._set("dtype_configs", dtype_configs)

    def set_root_module(self, root_module: type | None) -> BackendPatternConfig:
        """The layer of the pattern that has the weight."""
        return self._set("root_module", root_module)

    def set_qat_module(self, qat_module: type | None) -> BackendPatternConfig:
        """The layer for training."""
        return self._set("qat_module", qat_module)

    def set_reference_quantized_module(self, reference_quantized_module: type | None) -> BackendPatternConfig:
        """The reference layer; `convert_to_reference_fx` takes those of `nn.quantized.reference`."""
        return self._set("reference_quantized_module", reference_quantized_module)

    def set_fused_module(self, fused_module: type | None) -> BackendPatternConfig:
        """The layer that the pattern is fused to."""
        return self._set("fused_module", fused_module)

    def set_fuser_method(self, fuser_method: Callable | None) -> BackendPatternConfig:
        """The function that fuses: `fuser_method(is_qat, *layers)`."""
        return self._set("fuser_method", fuser_method)

    def _set_root_node_getter(self, getter: Callable | None) -> BackendPatternConfig:
        return self._set("_root_node_getter", getter)

    def _set_extra_inputs_getter(self, getter: Callable | None) -> BackendPatternConfig:
        return self._set("_extra_inputs_getter", getter)

    def _set_num_tensor_args_to_observation_type(self, types: dict[int, ObservationType]) -> BackendPatternConfig:
        return self._set("_num_tensor_args_to_observation_type", types)

    def _set_input_type_to_index(self, indices: dict[str, int]) -> BackendPatternConfig:
        return self._set("_input_type_to_index", indices)

    def _set_pattern_complex_format(self, pattern: Any) -> BackendPatternConfig:
        if self.pattern is not None:
            raise ValueError("Only one of 'pattern' or 'pattern_complex_format' can be set")
        return self._set("_pattern_complex_format", pattern)

    @classmethod
    def from_dict(cls, backend_pattern_config_dict: dict[str, Any]) -> BackendPatternConfig:
        """The config of a dict with PyTorch's keys."""
        values, result = backend_pattern_config_dict, cls()
        for name, key in _KEYS.items():
            if key in values:
                setattr(result, name, values[key])
        result.observation_type = values.get("observation_type", result.observation_type)
        for config in values.get("dtype_configs", []):
            if not isinstance(config, (dict, DTypeConfig)):
                raise ValueError(
                    "Expected a list of DTypeConfigs in backend_pattern_config_dict['dtype_configs'], got "
                    f"'{type(config)}'"
                )
            result.add_dtype_config(DTypeConfig.from_dict(config) if isinstance(config, dict) else config)
        return result

    def to_dict(self) -> dict[str, Any]:
        """What is set, by PyTorch's keys."""
        values = {key: getattr(self, name) for name, key in _KEYS.items()}
        return {
            "observation_type": self.observation_type,
            "dtype_configs": [config.to_dict() for config in self.dtype_configs],
        } | {key: value for key, value in values.items() if value is not None and value != {}}

    @property
    def _key(self) -> Any:
        """The pattern in the order of the calls."""
        return self.pattern if self._pattern_complex_format is None else _in_order(self._pattern_complex_format)


def _in_order(pattern: Any) -> Any:
    """(ReLU, (BatchNorm2d, Conv2d)), PyTorch's reversed nested tuples, as (Conv2d, BatchNorm2d, ReLU)."""
    if not isinstance(pattern, tuple):
        return pattern
    last, *inner = pattern
    before = [_in_order(part) for part in inner]
    return tuple([part for parts in before for part in (parts if isinstance(parts, tuple) else (parts,))]) + (last,)


class BackendConfig:
    """The patterns of a backend: `prepare_fx(..., backend_config=config)` fuses and quantizes no others."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._patterns: dict[Any, BackendPatternConfig] = {}

    def __repr__(self) -> str:
        return f"BackendConfig({self.__dict__})"

    def set_name(self, name: str) -> BackendConfig:
        """The backend's name."""
        self.name = name
        return self

    def set_backend_pattern_config(self, config: BackendPatternConfig) -> BackendConfig:
        """Add a pattern, or replace it."""
        self._patterns[config._key] = config
        return self

    def set_backend_pattern_configs(self, configs: Sequence[BackendPatternConfig]) -> BackendConfig:
        """Add or replace several patterns."""
        for config in configs:
            self.set_backend_pattern_config(config)
        return self

    @property
    def configs(self) -> list[BackendPatternConfig]:
        """The patterns."""
        return list(self._patterns.values())

    @classmethod
    def from_dict(cls, backend_config_dict: dict[str, Any]) -> BackendConfig:
        """The config of a dict with the keys "name" and "configs"."""
        result = cls(backend_config_dict.get("name", ""))
        for config in backend_config_dict.get("configs", []):
            if not isinstance(config, (dict, BackendPatternConfig)):
                raise ValueError("Expected backend_config_dict['configs'] to be a list of dictionaries")
            is_dict = isinstance(config, dict)
            result.set_backend_pattern_config(BackendPatternConfig.from_dict(config) if is_dict else config)
        return result

    def to_dict(self) -> dict[str, Any]:
        """The keys "name" and "configs"."""
        return {"name": self.name, "configs": [config.to_dict() for config in self.configs]}

    def quantizes(self, keys: Sequence[Any], qconfig: Any) -> bool:
        """Whether a pattern has one of these names for a call, and dtypes that the QConfig has."""
        patterns = [self._patterns[key] for key in keys if key in self._patterns]
        return any(config.admits(qconfig) for pattern in patterns for config in pattern.dtype_configs)

    def fuser_of(self, kinds: tuple) -> Callable | None:
        """The function that fuses layers of these classes."""
        config = self._patterns.get(kinds)
        return None if config is None else config.fuser_method


def get_native_backend_config() -> BackendConfig:
    """All patterns that numod fuses and quantizes, in the dtypes of its kernels."""
    from .graph_patterns import native_patterns

    return BackendConfig("native").set_backend_pattern_configs(native_patterns())


def get_native_backend_config_dict() -> dict[str, Any]:
    """`get_native_backend_config()` as a dict."""
    return get_native_backend_config().to_dict()


def _named_config(name: str) -> Callable[[], BackendConfig]:
    def function() -> BackendConfig:
        return get_native_backend_config().set_name(name)

    function.__name__ = function.__qualname__ = f"get_{name}_backend_config"
    function.__doc__ = f'`get_native_backend_config()` with the name "{name}": all engines have numod\'s kernels.'
    return function


(
    get_executorch_backend_config, get_fbgemm_backend_config, get_onednn_backend_config, get_qnnpack_backend_config,
    get_x86_backend_config,
) = map(_named_config, ("executorch", "fbgemm", "onednn", "qnnpack", "x86"))  # fmt: skip
globals().update(CONFIGS)  # such as `fbgemm_default_op_quint8_dtype_config`
