"""PrepareCustomConfig, ConvertCustomConfig and FuseCustomConfig: exceptions to what the graph mode does."""

from __future__ import annotations

from typing import Any

from ...nn.module import Module


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
            name = name.removesuffix("_name")
            method = {"non_traceable_module": "non_traceable_module_names"}.get(name, name)
            method = {"non_traceable_module_class": "non_traceable_module_classes"}.get(method, method)
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

    def set_non_traceable_module_names(self, module_names: list[str]) -> PrepareCustomConfig:
        """Modules, by path, whose calls are not looked into."""
        self.non_traceable_module_names = list(module_names)
        return self

    def set_non_traceable_module_classes(self, module_classes: list[type]) -> PrepareCustomConfig:
        """Modules, by class, whose calls are not looked into."""
        self.non_traceable_module_classes = list(module_classes)
        return self

    def is_opaque(self, path: str, module: Module) -> bool:
        """Whether a module's calls are not looked into."""
        return path in self.non_traceable_module_names or type(module) in self.non_traceable_module_classes


class ConvertCustomConfig(_CustomConfig):
    """For `convert_fx`."""


class FuseCustomConfig(_CustomConfig):
    """For `fuse_fx`."""
