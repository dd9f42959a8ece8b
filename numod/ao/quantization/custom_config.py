"""PrepareCustomConfig, ConvertCustomConfig and FuseCustomConfig: exceptions to what the graph mode does."""

from __future__ import annotations

from typing import Any, NoReturn

from ...nn.module import Module


def _refuse(what: str, instead: str) -> NoReturn:
    raise NotImplementedError(f"numod's graph mode does not quantize {what}; use {instead}")


_METHODS = {  # key of PyTorch's older dict -> the method's name without "set_"
    "float_to_observed_custom_module_class": "float_to_observed_mapping",
    "input_quantized_idxs": "input_quantized_indexes",
    "non_traceable_module_class": "non_traceable_module_classes",
    "non_traceable_module_name": "non_traceable_module_names",
    "observed_to_quantized_custom_module_class": "observed_to_quantized_mapping",
    "output_quantized_idxs": "output_quantized_indexes",
}


class _CustomConfig:
    """Base: attributes that the result keeps. Models of the graph mode keep all their attributes."""

    def __init__(self) -> None:
        self.preserved_attributes: list[str] = []

    def set_preserved_attributes(self, attributes: list[str]) -> Any:
        """Attributes that the result must have."""
        self.preserved_attributes = list(attributes)
        return self

    @classmethod
    def of(cls, config: Any) -> Any:
        """The config of an argument: a config, PyTorch's older dict, or None."""
        if config is None or isinstance(config, dict):
            return cls.from_dict(config or {})
        if not isinstance(config, cls):
            raise TypeError(f"expected a {cls.__name__} or None, got {type(config).__name__}")
        return config

    @classmethod
    def from_dict(cls, config: dict[str, Any]) -> Any:
        """The config of PyTorch's older dict."""
        result = cls()
        for name, value in config.items():
            method = _METHODS.get(name, name)
            if not hasattr(result, f"set_{method}"):
                raise NotImplementedError(f"{cls.__name__}: numod's graph mode has no {name!r}")
            getattr(result, f"set_{method}")(value)
        return result


class PrepareCustomConfig(_CustomConfig):
    """For `prepare_fx`: which modules are one call each, and stay in floats."""

    def __init__(self) -> None:
        super().__init__()
        self.non_traceable_module_names: list[str] = []
        self.non_traceable_module_classes: list[type] = []
        self.input_quantized_indexes: list[int] = []
        self.output_quantized_indexes: list[int] = []

    def set_non_traceable_module_names(self, module_names: list[str]) -> PrepareCustomConfig:
        """Modules, by path, whose calls are not looked into."""
        self.non_traceable_module_names = list(module_names)
        return self

    def set_non_traceable_module_classes(self, module_classes: list[type]) -> PrepareCustomConfig:
        """Modules, by class, whose calls are not looked into."""
        self.non_traceable_module_classes = list(module_classes)
        return self

    def set_input_quantized_indexes(self, indexes: list[int]) -> PrepareCustomConfig:
        """Arguments, by position, that the converted model gets as quantized tensors."""
        self.input_quantized_indexes = list(indexes)
        return self

    def set_output_quantized_indexes(self, indexes: list[int]) -> PrepareCustomConfig:
        """Results, by position, that the converted model returns as quantized tensors."""
        self.output_quantized_indexes = list(indexes)
        return self

    def set_float_to_observed_mapping(self, *mapping: Any) -> NoReturn:
        """Raises NotImplementedError: layers of your own are replaced in eager mode."""
        _refuse(
            "a layer of your own",
            'prepare(model, prepare_custom_config_dict={"float_to_observed_custom_module_class": {Float: Observed}})',
        )

    def set_standalone_module_name(self, *module: Any) -> NoReturn:
        """Raises NotImplementedError: a part of a model is prepared by itself."""
        _refuse("a part of the model with a configuration of its own", "prepare_fx and convert_fx of that part alone")

    set_standalone_module_class = set_standalone_module_name

    def is_opaque(self, path: str, module: Module) -> bool:
        """Whether a module's calls are not looked into."""
        return path in self.non_traceable_module_names or type(module) in self.non_traceable_module_classes


class ConvertCustomConfig(_CustomConfig):
    """For `convert_fx`."""

    def set_observed_to_quantized_mapping(self, *mapping: Any) -> NoReturn:
        """Raises NotImplementedError: layers of your own are replaced in eager mode."""
        _refuse(
            "a layer of your own",
            'convert(model, convert_custom_config_dict={"observed_to_quantized_custom_module_class"'
            ": {Observed: Quantized}})",
        )


class FuseCustomConfig(_CustomConfig):
    """For `fuse_fx`."""
