"""torchao's one-call interface: `quantize_(model, config)` replaces the linear layers of a model in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ...errors import warn_caller
from ... import dtypes
from ...autograd import no_grad
from ...core import Tensor
from ...nn.attention import NonDynamicallyQuantizableLinear
from ...nn.linear import Linear
from ...nn.module import Module
from ...nn.parameter import is_lazy
from ..nn.quantized.weight_only import DynamicActivationInt4Linear, DynamicActivationLinear, WeightOnlyLinear
from .granularity import MappingType
from .measure import KEPT, KEPT_MODEL, check_decisions, fastest, in_evaluation, seconds, shared_copy
from .qat import FakeQuantizeConfigBase, IntxFakeQuantizeConfig
from .utils import replace_modules, with_hooks


class _OfGroups:
    """Base of configs with a scale for each group of columns, or for each row (None)."""

    group_size: int | None
    even: ClassVar[bool] = False  # two columns share a byte

    def __post_init__(self) -> None:
        size = self.group_size
        if size is None:
            return
        if not isinstance(size, int) or isinstance(size, bool):
            raise TypeError(f"{type(self).__name__}: group_size must be int, not {type(size).__name__}")
        if size <= 0 or (self.even and size % 2):
            raise ValueError(f"{type(self).__name__}: group_size must be positive{' and even' * self.even}, got {size}")


@dataclass(frozen=True)
class Int8WeightOnlyConfig(_OfGroups):
    """int8 weights with a scale for each row (or group of columns); activations stay floats."""

    group_size: int | None = None

    def layer(self, mod: Linear) -> Module:
        """The layer that replaces a float one."""
        return WeightOnlyLinear(mod, 8, self.group_size)


@dataclass(frozen=True)
class Int4WeightOnlyConfig(_OfGroups):
    """4-bit weights with a scale and a zero point for each group of columns; activations stay floats."""

    group_size: int | None = 128
    even: ClassVar[bool] = True

    def layer(self, mod: Linear) -> Module:
        """The layer that replaces a float one."""
        return WeightOnlyLinear(mod, 4, self.group_size)


class _Rows(FakeQuantizeConfigBase):
    """Rounds each row of activations to 8 bits."""

    def round(self, x: Tensor) -> Tensor:
        x = x.detach()
        scale = (x.abs().amax(-1, True) / 127).clamp_min(1e-12)
        return (x / scale).round().clamp(-127, 127) * scale


_ROWS_OF_8_BITS = {
    kind: IntxFakeQuantizeConfig(dtypes.int8, "per_token", kind)
    for kind in (MappingType.ASYMMETRIC, MappingType.SYMMETRIC)
}


@dataclass(frozen=True)
class Int8DynamicActivationInt4WeightConfig(_OfGroups):
    """4-bit weights with a scale for each group of columns; each row of activations is rounded to 8 bits at the call.

    `mapping_type` is that of weights, `act_mapping_type` that of activations: with zero in the middle (SYMMETRIC), or a
    zero point for each group or row (ASYMMETRIC).
    """

    group_size: int | None = 32
    mapping_type: MappingType = MappingType.SYMMETRIC
    act_mapping_type: MappingType = MappingType.ASYMMETRIC
    even: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("mapping_type", "act_mapping_type"):
            if getattr(self, name) not in _ROWS_OF_8_BITS:
                raise ValueError(
                    f"{type(self).__name__}: {name} must be MappingType.SYMMETRIC or MappingType.ASYMMETRIC, got "
                    f"{getattr(self, name)}"
                )

    @property
    def activation_rounding(self) -> FakeQuantizeConfigBase:
        """What rounds rows of activations, also in training."""
        return _ROWS_OF_8_BITS[self.act_mapping_type]

    def layer(self, mod: Linear) -> Module:
        """The layer that replaces a float one."""
        is_symmetric = self.mapping_type is MappingType.SYMMETRIC
        return DynamicActivationInt4Linear(mod, self.group_size, is_symmetric, self.activation_rounding)


@dataclass(frozen=True)
class Int8DynamicActivationInt8WeightConfig:
    """int8 weights with a scale for each row; each row of activations is quantized at the call."""

    activation_rounding: ClassVar[Any] = _Rows()  # in training

    def layer(self, mod: Linear) -> Module:
        """The layer that replaces a float one."""
        return DynamicActivationLinear(mod)


CANDIDATES = (Int8DynamicActivationInt8WeightConfig(), Int8WeightOnlyConfig())


def is_linear(module: Module, fqn: str) -> bool:
    """The default filter: Linear and its subclasses that compute the same, also with a parametrized weight."""
    if not isinstance(module, Linear) or isinstance(module, NonDynamicallyQuantizableLinear):
        return False
    if not (module.in_features and module.out_features):
        return False
    return type(module).forward is Linear.forward and not is_lazy(module._parameters.get("weight"))


def quantize_(
    model: Module,
    config: Any,
    filter_fn: Callable[[Module, str], bool] | Any = None,
    device: Any = None,
    *,
    run: Callable[[Module], Callable] | None = None,
    kwargs: dict[str, Any] | None = None,
) -> dict[str, str] | None:
    """Replace the linear layers for which `filter_fn(module, path)` is true by those of a config, in place.

    A layer at several places is replaced at all of them: its first path decides, or one that an FqnToConfig has.

    With `config="auto"` the third argument is an input of the model, or a tuple of inputs, and `kwargs` has inputs by
    name: each layer is timed with the shapes it sees, as it is and by each int8 config, and keeps floats where these
    are not faster. Then the whole model is timed, made ready by `run` if that is given (such as `numod.compile`), and
    stays float if that is faster. Returns the decisions by path, which are also kept as `model.quantization_decisions`;
    None for other configs. Decisions as the third argument are repeated without timing, for a model that loads the
    state of the first one. The model stays as it was if a layer cannot be called or replaced.
    """
    if config == "auto":
        return _quantize_by_time(model, filter_fn, kwargs or {}, run)
    if isinstance(config, type) or not (hasattr(config, "layer") or hasattr(config, "of")):
        got = repr(config) if isinstance(config, (type, str)) else type(config).__name__
        raise TypeError(f"quantize_(): expected a config such as Int8WeightOnlyConfig(), or 'auto', got {got}")
    if filter_fn is not None and not callable(filter_fn):
        raise TypeError(
            f"quantize_(): filter_fn must be a function of (module, path), got {type(filter_fn).__name__}; try "
            'lambda module, path: path == "0"'
        )
    if hasattr(config, "of") and filter_fn is not None:
        raise ValueError("quantize_(): an FqnToConfig chooses the layers itself; leave filter_fn out")
    if device is not None:
        model.to(device)
    layers, seen = [], set()
    for path, module in _paths(model, config):
        if id(module) in seen:
            continue
        seen.add(id(module))
        chosen = _config_for(config, module, path, filter_fn)
        if chosen is not None and _fits(chosen, module, path):
            layers.append((module, with_hooks(_layer(chosen, module, path), module)))
            _check_path(path)
    replace_modules(model, layers)
    return None


def _paths(model: Module, config: Any) -> list[tuple[str, Module]]:
    """All modules by path, also those at several places, with the paths that a config names first."""
    paths = list(model.named_modules(remove_duplicate=False))
    return sorted(paths, key=lambda entry: entry[0] not in config.fqn_to_config) if hasattr(config, "of") else paths


def _fits(config: Any, module: Module, path: str) -> bool:
    """Whether the groups of a config divide a layer's input features. As in torchao, other layers stay floats."""
    size = getattr(getattr(config, "base_config", None) or config, "group_size", None)
    if size is None or not isinstance(module, Linear) or module.in_features % size == 0:
        return True
    warn_caller(
        f"quantize_(): {path or 'the model'} stays a float layer: group_size {size} does not divide its "
        f"{module.in_features} input features"
    )
    return False


def _layer(config: Any, module: Module, path: str) -> Module:
    """The config's layer. An error names the path of the module that has none."""
    try:
        return config.layer(module)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{path or 'the model'}: {error}") from None


def _config_for(config: Any, module: Module, path: str, filter_fn: Callable | None) -> Any:
    """The config of a module, or None."""
    if hasattr(config, "of"):  # an FqnToConfig
        return config.of(module, path) if path else None
    accepted = filter_fn(module, path) if filter_fn is not None else _accepts(config, module, path)
    return config if accepted else None


def _accepts(config: Any, module: Module, path: str) -> bool:
    return config.accepts(module) if hasattr(config, "accepts") else is_linear(module, path)


def _check_path(path: str) -> None:
    if not path:
        raise ValueError("quantize_() replaces layers in place, and the model is one: wrap it in nn.Sequential")


def _quantize_by_time(
    model: Module, data: Any, kwargs: dict[str, Any], run: Callable[[Module], Callable] | None
) -> dict[str, str]:
    if isinstance(data, dict) and all(isinstance(value, str) for value in data.values()):
        return _repeat(model, data)
    if not isinstance(data, (Tensor, tuple)):
        got = "a dict of inputs; pass them as kwargs=, or as (inputs,) if the model takes a dict"
        raise TypeError(
            "quantize_(model, 'auto', data): data is an input of the model, a tuple of inputs, or earlier decisions, "
            f"got {got if isinstance(data, dict) else type(data).__name__}"
        )
    args = data if isinstance(data, tuple) else (data,)
    seen = _inputs(model, args, kwargs)
    decisions: dict[str, str] = {}
    layers: dict[str, Module] = {}
    for path, module in model.named_modules():
        if not is_linear(module, path):
            continue
        if path not in seen:
            decisions[path] = "float: not called with this input"
            continue
        decisions[path], layer = _fastest(module, *seen[path])
        if layer is not module:
            _check_path(path)
            layers[path] = with_hooks(layer, module)
    if layers:
        mixed = shared_copy(model)
        _replace(mixed, layers)
        if fastest(model, mixed, data=args, run=run, kwargs=kwargs) is model:
            decisions = {"": KEPT_MODEL, **dict.fromkeys(decisions, KEPT_MODEL)}
        else:
            _replace(model, layers)
    model.quantization_decisions = decisions
    return decisions


def _replace(model: Module, layers: dict[str, Module]) -> None:
    """Replace layers by path, also at the other paths of shared ones."""
    replace_modules(model, [(model.get_submodule(path), layer) for path, layer in layers.items()])


def _repeat(model: Module, decisions: dict[str, str]) -> dict[str, str]:
    """Replace layers as an earlier call has decided."""
    configs = {type(config).__name__: config for config in CANDIDATES}
    check_decisions(decisions, model, ("float", *configs), "quantize_(model, 'auto', decisions)")
    chosen = {path: configs[decision] for path, decision in decisions.items() if decision in configs}
    former = {path: model.get_submodule(path) for path in chosen}
    _replace(model, {path: with_hooks(config.layer(former[path]), former[path]) for path, config in chosen.items()})
    model.quantization_decisions = decisions
    return decisions


def _inputs(model: Module, args: tuple, kwargs: dict[str, Any]) -> dict[str, tuple[tuple, dict]]:
    """The arguments of each linear layer's first call."""
    seen: dict[str, tuple[tuple, dict]] = {}
    handles = [
        module.register_forward_pre_hook(
            lambda _, args, kwargs, path=path: _note(seen, path, args, kwargs), with_kwargs=True
        )
        for path, module in model.named_modules()
        if is_linear(module, path)
    ]
    try:
        with in_evaluation(model), no_grad():
            model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _note(seen: dict[str, tuple[tuple, dict]], path: str, args: tuple, kwargs: dict) -> None:
    seen.setdefault(path, (args, kwargs))


def _fastest(module: Module, args: tuple, kwargs: dict) -> tuple[str, Module]:
    """(name of the configuration, layer) with the least time for these arguments."""
    x = args[0] if args else kwargs["input"]
    layers = {"float": module, **{type(config).__name__: config.layer(module) for config in CANDIDATES}}
    times = {name: seconds(layer, x) for name, layer in layers.items()}
    best = min(times, key=times.get)
    return (best if best != "float" else KEPT), layers[best]
