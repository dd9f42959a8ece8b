"""Keeping floats where integers are not faster: layers are timed on this machine with the shapes of calibration.

Layers that are faster one by one may be slower together, since integers have to become floats between them, and a
compiler joins float layers. So whole models are timed as well, as they will be run: by `fastest`, and by `convert` and
`quantize_` for an input that they have seen.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ... import dtypes
from ...autograd import no_grad
from ...core import Tensor
from ...core.listeners import listeners
from ...core.create.random import randint
from ...core.quantized import Quantizer, per_tensor_affine
from ...graph.passes.sparsity import is_faster
from ...nn.module import Module
from ...nn.utils.computed import shallow_copy
from ..nn.quantized.base import QuantizedOutput, observed

REPEATS = 5  # timings of a layer, of which the best counts
KEPT = "float: int8 is not faster"
UNSEEN = "int8: not called in calibration"
KEPT_MODEL = "float: the whole model is not faster as int8"


def seconds(layer: Callable, x: Tensor) -> float:
    """The least time of a call."""
    with no_grad():
        layer(x)  # compiles kernels
        best = float("inf")
        for _ in range(REPEATS):
            start = time.perf_counter()
            layer(x)
            best = min(best, time.perf_counter() - start)
    return best


def check_decisions(decisions: dict[str, str], model: Module | None, allowed: tuple[str, ...], caller: str) -> None:
    """Raise ValueError unless decisions begin with one of `allowed` and are for modules of the model."""
    paths = None if model is None else {path for path, _ in model.named_modules(remove_duplicate=False)}
    for path, decision in decisions.items():
        if not isinstance(decision, str) or not decision.startswith(allowed):
            raise ValueError(
                f"{caller}: expected the decisions that an earlier call has kept as quantization_decisions, got "
                f"{decision!r:.80} for {path!r}"
            )
        if paths is not None and path not in paths:
            raise ValueError(f"{caller}: the decisions are for another model: this one has no module {path!r}")


class FloatLayer(QuantizedOutput):
    """A float layer among quantized ones: integers become floats before it, and its result is quantized."""

    def __init__(self, layer: Module, scale: float, zero_point: int) -> None:
        super().__init__()
        self.layer = layer
        self.set_output(scale, zero_point)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, input: Tensor) -> Tensor:
        return self.quantized(self.layer(input.dequantize()), input)


class Measurement:
    """Decides for each layer and then for the model of `convert(measure=...)`, or repeats earlier decisions.

    The decision for the model has the path "". `run`: what makes of a model that which will be called. `model`: the one
    for which earlier decisions must be.
    """

    def __init__(self, measure: dict[str, str] | bool | Callable, model: Module | None = None) -> None:
        if not isinstance(measure, (bool, dict)) and not callable(measure):
            raise TypeError(f"convert(measure=...): expected a bool, a function or earlier decisions, got {measure!r}")
        self.earlier = measure if isinstance(measure, dict) else {}
        check_decisions(self.earlier, model, ("float", "int8"), "convert(measure=decisions)")
        self.run = measure if callable(measure) else None
        self.decisions: dict[str, str] = {}

    @property
    def keeps_model(self) -> bool:
        """Whether an earlier decision was for the float model."""
        return self.earlier.get("", "").startswith("float")

    def choose(self, path: str, layer: Module, quantized: Module) -> Module:
        """The quantized layer, or the float layer where that is faster."""
        shape = vars(layer).get("_calibration_shape")
        float_layer = FloatLayer(_without_observers(layer), *observed(layer))
        decision = self.earlier.get(path)
        if decision is None:
            decision = UNSEEN if shape is None else _decide(quantized, float_layer, shape)
        self.decisions[path] = decision
        return float_layer if decision.startswith("float") else quantized

    def choose_model(self, float_model: Module, mixed: Module, make_full: Callable[[], Module], call: tuple) -> Module:
        """The fastest for a call (args, kwargs): with floats, with these decisions, or with all layers quantized."""
        is_mixed = any(decision.startswith("float") for decision in self.decisions.values())
        models = [float_model, mixed, *([make_full()] if is_mixed else [])]
        best = _fastest_of(models, *call, self.run)
        if best is not mixed:
            self.decisions = dict.fromkeys(self.decisions, KEPT_MODEL if best is float_model else "int8")
        self.decisions[""] = KEPT_MODEL if best is float_model else "int8"
        return best


def fastest(
    float_model: Module,
    *quantized: Module,
    data: Any,
    run: Callable[[Module], Callable] | None = None,
    kwargs: dict[str, Any] | None = None,
) -> Module:
    """The fastest of a float model and quantized forms of it, for an input or a tuple of inputs, and those in `kwargs`.

    `run` makes of a model what will be called, such as `numod.compile`; without it the models are called as they are,
    in evaluation mode. Where the float model is returned, its `quantization_decisions` has the reason, and `report`
    shows it.

    Example:

        >>> quantization = torch.ao.quantization
        >>> net, x = torch.nn.Sequential(torch.nn.Linear(8, 4)).eval(), torch.randn(2, 8)
        >>> quantized = quantization.quantize_dynamic(net)
        >>> quantization.fastest(net, quantized, data=x) in (net, quantized)
        True
    """
    best = _fastest_of([float_model, *quantized], data if isinstance(data, tuple) else (data,), kwargs or {}, run)
    if best is float_model:
        best.quantization_decisions = {"": KEPT_MODEL}
    return best


def _fastest_of(models: list[Module], args: tuple, kwargs: dict, run: Callable[[Module], Callable] | None) -> Module:
    """The first model, or one that takes less time for a call in evaluation mode."""
    best = models[0]
    with in_evaluation(*models), no_grad():
        calls = [functools.partial(model if run is None else run(model), *args, **kwargs) for model in models]
        best_call = calls[0]
        for model, call in zip(models[1:], calls[1:]):
            if is_faster(call, best_call):
                best, best_call = model, call
    return best


@contextmanager
def in_evaluation(*models: Module) -> Iterator[None]:
    """Context in which models are in evaluation mode: calls do not change running statistics."""
    modes = [(module, module.training) for model in models for module in model.modules()]
    try:
        for model in models:
            model.eval()
        yield
    finally:
        for module, training in modes:
            module.training = training


def _decide(quantized: Module, float_layer: Module, shape: tuple[int, ...]) -> str:
    quantizer = Quantizer(dtypes.quint8, per_tensor_affine, 1 / 64, 64)
    x = quantizer.quantize((randint(0, 128, shape) - 64).float() / 64)
    return "int8" if seconds(quantized, x) < seconds(float_layer, x) else KEPT


def _without_observers(layer: Module) -> Module:
    """A layer with the same parameters, without its observer and hooks."""
    result = shallow_copy(layer, dict(layer._modules))
    for kind in ("_forward_hooks", "_forward_pre_hooks"):
        result.__dict__[kind] = type(result.__dict__[kind])()
    result._modules.pop("activation_post_process", None)
    return result


def shared_copy(model: Module) -> Module:
    """A model of new modules with the same parameters, buffers and hooks."""
    copies: dict[int, Module] = {}  # by id: a class may define `__eq__`

    def copied(module: Module | None) -> Module | None:
        if module is not None and id(module) not in copies:
            copies[id(module)] = shallow_copy(module, {name: copied(child) for name, child in module._modules.items()})
        return copies.get(id(module))

    return copied(model)


def note_shape(layer: Module, input: Any) -> None:
    """Keep the shape of a layer's first input during calibration."""
    if input and isinstance(input[0], Tensor):
        layer.__dict__.setdefault("_calibration_shape", tuple(input[0].shape))


class FirstCall:
    """The arguments of a model's first call during calibration. Copies of the model share them, files have none."""

    def __init__(self, args: tuple | None = None, kwargs: dict | None = None) -> None:
        self.args, self.kwargs = args, kwargs

    def __deepcopy__(self, memo: dict) -> FirstCall:
        return self

    def __reduce__(self) -> tuple:
        return FirstCall, ()


def note_call(model: Module, args: tuple, kwargs: dict) -> None:
    """Keep the arguments of a model's first call during calibration, for `Measurement.choose_model`."""
    if not listeners and first_call(model) is None:
        detached = {name: _detached(value) for name, value in kwargs.items()}
        model.__dict__["_calibration_call"] = FirstCall(tuple(map(_detached, args)), detached)


def first_call(model: Module) -> tuple[tuple, dict] | None:
    """The arguments that `note_call` has kept: (args, kwargs)."""
    call = vars(model).get("_calibration_call", FirstCall())
    return None if call.args is None else (call.args, call.kwargs)


def forget_call(model: Module) -> None:
    """Remove what `note_call` has kept, and the hook."""
    for key in [key for key, hook in model._forward_pre_hooks.items() if hook is note_call]:
        del model._forward_pre_hooks[key]
        model._forward_pre_hooks_with_kwargs.pop(key, None)
    vars(model).pop("_calibration_call", None)


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value
