"""torchao's one-call interface: `quantize_(model, config)` replaces the linear layers of a model in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ...autograd import no_grad
from ...core import Tensor
from ...nn.linear import Linear
from ...nn.module import Module
from ..nn.quantized.weight_only import DynamicActivationLinear, WeightOnlyLinear
from .measure import KEPT, KEPT_MODEL, fastest, in_evaluation, seconds, shared_copy
from .qat import FakeQuantizeConfigBase


@dataclass(frozen=True)
class Int8WeightOnlyConfig:
    """int8 weights with a scale for each row (or group of columns); activations stay floats."""

    group_size: int | None = None

    def layer(self, mod: Linear) -> Module:
        """The layer that replaces a float one."""
        return WeightOnlyLinear(mod, 8, self.group_size)


@dataclass(frozen=True)
class Int4WeightOnlyConfig:
    """4-bit weights with a scale and a zero point for each group of columns; activations stay floats."""

    group_size: int = 128

    def layer(self, mod: Linear) -> Module:
        """The layer that replaces a float one."""
        return WeightOnlyLinear(mod, 4, self.group_size)


class _Rows(FakeQuantizeConfigBase):
    """Rounds each row of activations to 8 bits."""

    def round(self, x: Tensor) -> Tensor:
        x = x.detach()
        scale = (x.abs().amax(-1, True) / 127).clamp_min(1e-12)
        return (x / scale).round().clamp(-127, 127) * scale


@dataclass(frozen=True)
class Int8DynamicActivationInt8WeightConfig:
    """int8 weights with a scale for each row; each row of activations is quantized at the call."""

    activation_rounding: ClassVar[Any] = _Rows()  # in training

    def layer(self, mod: Linear) -> Module:
        """The layer that replaces a float one."""
        return DynamicActivationLinear(mod)


CANDIDATES = (Int8DynamicActivationInt8WeightConfig(), Int8WeightOnlyConfig())


def is_linear(module: Module, fqn: str) -> bool:
    """The default filter: Linear itself, of float weights."""
    return type(module) is Linear


def quantize_(
    model: Module,
    config: Any,
    filter_fn: Callable[[Module, str], bool] | Any = None,
    device: Any = None,
    *,
    run: Callable[[Module], Callable] | None = None,
) -> dict[str, str] | None:
    """Replace the linear layers for which `filter_fn(module, path)` is true by those of a config, in place.

    With `config="auto"` the third argument is an input of the model: each layer is timed with the shapes it sees, as it
    is and by each int8 config, and keeps floats where these are not faster. Then the whole model is timed, made ready
    by `run` if that is given (such as `numod.compile`), and stays float if that is faster. Returns the decisions by
    path, which are also kept as `model.quantization_decisions`; None for other configs. Decisions as the third argument
    are repeated without timing, for a model that loads the state of the first one.
    """
    if config == "auto":
        return _quantize_by_time(model, filter_fn, run)
    if isinstance(config, type) or not (hasattr(config, "layer") or hasattr(config, "of")):
        raise TypeError(f"quantize_(): expected a config such as Int8WeightOnlyConfig(), or 'auto', got {config!r}")
    if device is not None:
        model.to(device)
    if hasattr(config, "of"):
        if filter_fn is not None:
            raise ValueError("quantize_(): an FqnToConfig chooses the layers itself; leave filter_fn out")
        return _quantize_by_path(model, config)
    for path, module in list(model.named_modules()):
        if filter_fn(module, path) if filter_fn is not None else _accepts(config, module, path):
            _replace(model, path, config.layer(module))
    return None


def _quantize_by_path(model: Module, config: Any) -> None:
    """Replace the layers for which an FqnToConfig has a config."""
    for path, module in list(model.named_modules()):
        chosen = config.of(module, path) if path else None
        if chosen is not None:
            _replace(model, path, chosen.layer(module))


def _accepts(config: Any, module: Module, path: str) -> bool:
    return config.accepts(module) if hasattr(config, "accepts") else is_linear(module, path)


def _replace(model: Module, path: str, layer: Module) -> None:
    if not path:
        raise ValueError("quantize_() replaces layers in place, and the model is one: wrap it in nn.Sequential")
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, layer)


def _quantize_by_time(model: Module, data: Any, run: Callable[[Module], Callable] | None) -> dict[str, str]:
    if isinstance(data, dict):
        return _repeat(model, data)
    if not isinstance(data, (Tensor, tuple)):
        raise TypeError(
            "quantize_(model, 'auto', data): data is an input of the model, or earlier decisions, got "
            f"{type(data).__name__}"
        )
    seen = _inputs(model, data)
    decisions, float_model = {}, shared_copy(model)
    for path, module in list(model.named_modules()):
        if type(module) is not Linear:
            continue
        if path not in seen:
            decisions[path] = "float: not called with this input"
            continue
        name, layer = _fastest(module, seen[path])
        decisions[path] = name
        if layer is not module:
            _replace(model, path, layer)
    if any(not decision.startswith("float") for decision in decisions.values()):
        if fastest(float_model, model, data=data, run=run) is float_model:
            model._modules = float_model._modules
            decisions = {"": KEPT_MODEL, **dict.fromkeys(decisions, KEPT_MODEL)}
    model.quantization_decisions = decisions
    return decisions


def _repeat(model: Module, decisions: dict[str, str]) -> dict[str, str]:
    """Replace layers as an earlier call has decided."""
    configs = {type(config).__name__: config for config in CANDIDATES}
    for path, decision in decisions.items():
        if decision in configs:
            _replace(model, path, configs[decision].layer(model.get_submodule(path)))
    model.quantization_decisions = decisions
    return decisions


def _inputs(model: Module, data: Any) -> dict[str, Tensor]:
    """The first input of each linear layer."""
    seen: dict[str, Tensor] = {}
    handles = []
    for path, module in model.named_modules():
        if type(module) is Linear:
            handles.append(module.register_forward_pre_hook(lambda _, inputs, path=path: _note(seen, path, inputs[0])))
    try:
        with in_evaluation(model), no_grad():
            model(*data) if isinstance(data, tuple) else model(data)
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _note(seen: dict[str, Tensor], path: str, x: Tensor) -> None:
    seen.setdefault(path, x)


def _fastest(module: Module, x: Tensor) -> tuple[str, Module]:
    """(name of the configuration, layer) with the least time for this input."""
    layers = {"float": module, **{type(config).__name__: config.layer(module) for config in CANDIDATES}}
    times = {name: seconds(layer, x) for name, layer in layers.items()}
    best = min(times, key=times.get)
    return (best if best != "float" else KEPT), layers[best]
