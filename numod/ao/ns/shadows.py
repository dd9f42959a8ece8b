"""A call of one graph module as the shadow of another's: it runs beside it on the same inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ... import dtypes
from ...autograd import no_grad
from ...core import Tensor
from ...core.quantized import Quantizer, per_tensor_affine
from ...nn.module import Module
from ..quantization.calls import Call, map_numbered, map_tensors, tensors_in
from ..quantization.graph_module import GraphModule, floats_of, run_call
from ..quantization.graph_patterns import WEIGHTED
from ..quantization.graph_prepare import has_own_weight, source_of

__all__: list[str] = []


class ShadowCopy(Module):
    """Runs a call of `model` with the arguments of the call that it shadows, for its loggers.

    Quantized arguments become floats, and integers again for a call of a converted model. A functional product has
    the weight and the bias of its own model. Observers see nothing, so that they stay as calibration left them.
    """

    def __init__(self, model: GraphModule, call: Call, input_loggers: dict[int, Module], logger: Module) -> None:
        super().__init__()
        self._shadow = model, call.name  # not a submodule: many calls share the model
        self._numbers = {number: f"input_logger_{number}" for number in input_loggers}
        for number, name in self._numbers.items():
            self.add_module(name, input_loggers[number])
        self.logger = logger

    def _call(self) -> tuple[GraphModule, Call]:
        """The model and the call, by its name: a copy of the model has its own calls."""
        model, name = self._shadow
        return model, next(call for call in model.graph.matched if call.name == name)

    def forward(self, function: Callable | None, args: tuple, kwargs: dict) -> None:
        model, call = self._call()
        with no_grad():
            arguments = map_tensors((args, kwargs), lambda value: floats_of(value.detach()).clone())
            arguments = map_numbered(arguments, partial(_as_taken, model, call))
            for number, name in self._numbers.items():
                self._modules[name](tensors_in(arguments)[number])
            self.logger(run_call(model, call, function, *arguments))


def _as_taken(model: GraphModule, call: Call, number: int, value: Tensor) -> Tensor:
    """A tensor as a shadow takes it: a weight or bias of its own model, or integers for a converted call."""
    source = call.inputs[number] if number < len(call.inputs) else None
    if number and call.key in WEIGHTED and source is not None and source.op == "get_attr":
        path, _, name = source.target.rpartition(".")
        return getattr(model.get_submodule(path), name)
    if not model._is_converted or not call.is_quantized or number not in call.sources:
        return value
    integers = _quantizer(model, call, number).quantize(value)
    return floats_of(integers) if model._is_reference else integers


def _quantizer(model: GraphModule, call: Call, number: int) -> Quantizer | None:
    """What quantizes an input of a converted model's call: its scale, or that of the layer which makes it."""
    if call.sources[number] in model._scales:
        return model.quantizer(call.sources[number])
    while call.inputs:
        call, number = source_of(call, number)[0], 0
        if call.output_observer in model._scales:
            return model.quantizer(call.output_observer)
        layer = model.get_submodule(call.target) if call.op == "call_module" else None
        if hasattr(layer, "zero_point"):
            return Quantizer(dtypes.quint8, per_tensor_affine, float(layer.scale), int(layer.zero_point))
    return None


def can_shadow(model: GraphModule, call: Call, other: Call) -> bool:
    """Whether a call of a model can run beside another: it has a weight of its own, and known scales for integers."""
    if call.op != other.op or not has_own_weight(call) or not has_own_weight(other):
        return False
    numbers = [number for number in call.sources if call.key not in WEIGHTED or not number]
    is_converted = model._is_converted and call.is_quantized
    return not is_converted or all(_quantizer(model, call, number) is not None for number in numbers)
