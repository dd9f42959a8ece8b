"""Models of the graph mode: the model's own code, with each quantizable call observed or replaced by integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core import Tensor, tensor
from ...core.derived import number_of
from ...core.quantized import QuantizedTensor, Quantizer, per_tensor_affine, quantized_linear
from ...nn import Sequential
from ...nn.module import Module
from ..nn.quantized import QFunctional
from ..nn.quantized import functional as qF
from .measure import note_shape
from .calls import Call, CallGraph, Interception, map_numbered, map_tensors, tensors_in
from .graph_patterns import ARITHMETIC, MATCHED, ON_INTEGERS, SUMS, WEIGHTED, is_leaf

_QUESTIONS = """__get__ __set__ size dim ndimension numel nelement is_contiguous stride element_size dequantize int_repr
    q_scale q_zero_point qscheme is_floating_point __len__""".split()


class _SequentialBody(Module):
    """Runs the layers that a Sequential had; its other submodules are observers."""

    _layers: tuple[str, ...] = ()

    def forward(self, input: Tensor) -> Tensor:
        for name in self._layers:
            input = self._modules[name](input)
        return input


class GraphModule(Module):
    """A model between `prepare_fx` and `convert_fx`, or after it. `graph` has its calls (print it)."""

    _graph: CallGraph
    _is_converted = False
    _quantized_outputs: tuple[int, ...] = ()
    _is_reference = False  # converted to floats that are rounded
    # submodules that see what passes, by the name of the call: results; inputs, with the number of the tensor, or None
    # for a ShadowCopy, which takes all arguments
    _loggers: dict[str, tuple[str, ...]] = {}
    _input_loggers: dict[str, tuple[tuple[int | None, str], ...]] = {}
    _equalized: dict[str, tuple[str, Callable]] = {}  # observer of an input and recipe of the weight's, by call

    @property
    def graph(self) -> CallGraph:
        """The recorded calls."""
        return self._graph

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with (_Converted if self._is_converted else _Prepared)(self):
            result = super().forward(*args, **kwargs)
        return self._dequantized(result) if self._is_converted else result

    def _dequantized(self, result: Any) -> Any:
        """The results as floats, but for those that the configuration leaves quantized."""
        if not self._quantized_outputs or not isinstance(result, (tuple, list)):
            return result if 0 in self._quantized_outputs else map_tensors(result, floats_of)
        parts = [
            part if number in self._quantized_outputs else map_tensors(part, floats_of)
            for number, part in enumerate(result)
        ]
        return type(result)._make(parts) if hasattr(result, "_make") else type(result)(parts)

    def add_logger(self, call: Call, path: str) -> None:
        """Let the submodule at a path see the result of a call."""
        self.remove_logger(path)
        self._loggers = {**self._loggers, call.name: (path, *self._loggers.get(call.name, ()))}

    def add_input_logger(self, call: Call, path: str, number: int | None) -> None:
        """Let the submodule at a path see an input of a call, or take all arguments if `number` is None."""
        self.remove_logger(path)
        before = self._input_loggers.get(call.name, ())
        self._input_loggers = {**self._input_loggers, call.name: (*before, (number, path))}

    def remove_logger(self, path: str) -> None:
        """Undo `add_logger` and `add_input_logger`."""
        self._loggers = {
            name: tuple(other for other in paths if other != path) for name, paths in self._loggers.items()
        }
        self._input_loggers = {
            name: tuple(pair for pair in pairs if pair[1] != path) for name, pairs in self._input_loggers.items()
        }

    def _get_name(self) -> str:
        return "GraphModule"

    def __reduce_ex__(self, protocol: int) -> tuple:
        make, (_, *arguments), *rest = super().__reduce_ex__(protocol)
        return _rebuild, (type(self)._body, make, tuple(arguments)), *rest

    def numbers(self, observer: str) -> tuple[float, int]:
        """Scale and zero point of a converted model by the observer's name."""
        name = self._scales[observer]
        scale, zero_point = self._buffers[name], self._buffers[_zero_point(name)]
        return number_of(scale), int(number_of(zero_point))

    def quantizer(self, observer: str) -> Quantizer:
        """What quantizes by a converted model's scale of this observer."""
        return Quantizer(self._dtypes[observer], per_tensor_affine, *self.numbers(observer))

    def add_numbers(self, observer: str, name: str) -> None:
        """Keep an observer's scale and zero point under PyTorch's names in the state dict."""
        scale, zero_point = self._modules[observer].calculate_qparams()
        self._scales[observer], self._dtypes[observer] = name, self._modules[observer].dtype
        self.register_buffer(name, tensor(float(scale)))
        self.register_buffer(_zero_point(name), tensor(int(zero_point)))


def _zero_point(name: str) -> str:
    before, _, number = name.rpartition("_scale_")
    return f"{before}_zero_point_{number}"


def graph_class(body: type[Module]) -> type[GraphModule]:
    """The class of graph modules that run this class's code."""
    return type("GraphModule", (GraphModule, body), {"_body": body, "__module__": __name__})


def _rebuild(body: type[Module], make: Callable, arguments: tuple) -> Module:
    return make(graph_class(body), *arguments)


def as_graph_module(model: Module, graph: CallGraph) -> GraphModule:
    """Make a model a graph module, in place."""
    if isinstance(model, Sequential):
        layers, model_class = tuple(model._modules), _SequentialBody
        object.__setattr__(model, "__class__", graph_class(model_class))
        model._layers = layers
    else:
        object.__setattr__(model, "__class__", graph_class(type(model)))
    model._graph, model._scales, model._dtypes = graph, {}, {}
    return model


def floats_of(value: Tensor) -> Tensor:
    """A quantized tensor's values; other tensors as they are."""
    return value.dequantize() if isinstance(value, QuantizedTensor) else value


class _Runner(Interception):
    """Matches the calls of a run with the recorded ones."""

    def __init__(self, model: GraphModule) -> None:
        super().__init__()
        self.model, self.position = model, 0
        self.current: Call | None = None
        self.cached: dict[tuple[int, str], tuple[Tensor, Any]] = {}  # inputs that observers have seen

    def next(self, target: str) -> Call:
        calls = self.model._graph.matched
        call = calls[self.position] if self.position < len(calls) else None
        if call is None or call.target != target:
            expected = "its end" if call is None else f"a call of {call.target}"
            raise RuntimeError(
                f"the model calls {target} where its example run came to {expected}: graph mode needs the same calls "
                "at each run; use the eager mode (prepare, convert), or leave the part that varies in floats by "
                "PrepareCustomConfig().set_non_traceable_module_names([...])"
            )
        self.position += 1
        return call

    def inputs(self, call: Call, arguments: Any) -> Any:
        """The arguments with each tensor as the call takes it."""
        return map_numbered(arguments, lambda number, value: self.input(call, number, value))

    def seen(self, call: Call, func: Callable | None, arguments: Any) -> Any:
        """The arguments, after the loggers of the call's inputs have seen them."""
        for number, path in self.model._input_loggers.get(call.name, ()):
            logger = self.model.get_submodule(path)
            if number is None:
                logger(func, *arguments)
            else:
                logger(tensors_in(arguments)[number])
        return arguments

    def call_function(self, func: Callable, name: str, args: tuple, kwargs: dict) -> Any:
        if name not in MATCHED:
            return self.plain(func, name, args, kwargs)
        if not tensors_in((args, kwargs)):
            return func(*args, **kwargs)
        call = self.next(name)
        if call.is_skipped:
            return args[0]
        args, kwargs = self.seen(call, func, self.inputs(call, (args, kwargs)))
        return self.logged(call, self.output(call, self.compute(call, func, args, kwargs)))

    def logged(self, call: Call, result: Any) -> Any:
        """The result, after the loggers of the call have seen it."""
        for path in self.model._loggers.get(call.name, ()):
            result = self.model.get_submodule(path)(result)
        return result

    def plain(self, func: Callable, name: str, args: tuple, kwargs: dict) -> Any:
        """The result of a function that is not quantized."""
        return func(*args, **kwargs)

    def compute(self, call: Call, func: Callable, args: tuple, kwargs: dict) -> Any:
        return func(*args, **kwargs)

    def enter_module(self, module: Module, args: tuple, kwargs: dict) -> tuple[tuple, dict] | None:
        if self.depth:
            self.depth += 1
            return None
        if module._graph_path not in self.model._graph.targets and not is_leaf(module):
            return None
        self.depth, self.current = 1, self.next(module._graph_path)
        self.skipping = self.current.is_skipped
        return None if self.skipping else self.seen(self.current, None, self.inputs(self.current, (args, kwargs)))

    def leave_module(self, module: Module, result: Any) -> Any:
        if self.depth > 1:
            self.depth -= 1
            return None
        if not self.depth:
            return None
        if not self.skipping:
            result = self.logged(self.current, self.output(self.current, result))
        self.depth, self.skipping = 0, False  # only now, since observers call functions
        return result

    def once(self, value: Tensor, observer: str, function: Callable[[Tensor], Any]) -> Any:
        """`function(value)`, called once for each tensor and observer."""
        key = id(value), observer
        if key not in self.cached:
            self.cached[key] = value, function(value)
        return self.cached[key][1]


class _Prepared(_Runner):
    """Observers see inputs and results."""

    def enter_module(self, module: Module, args: tuple, kwargs: dict) -> tuple[tuple, dict] | None:
        result = super().enter_module(module, args, kwargs)
        if self.depth == 1 and not self.skipping:
            note_shape(module, args)
        return result

    def input(self, call: Call, number: int, value: Tensor) -> Tensor:
        name = call.input_observers.get(number)
        if name is None:
            name = call.sources.get(number)
            return self.cached[id(value), name][1] if (id(value), name) in self.cached else value
        return self.once(value, name, self.model._modules[name])

    def output(self, call: Call, result: Any) -> Any:
        name = call.output_observer
        return result if name is None else map_tensors(result, self.model._modules[name])


class _Converted(_Runner):
    """Quantizable calls run on integers, all others on floats."""

    def input(self, call: Call, number: int, value: Tensor) -> Tensor:
        result = self.quantized_input(call, number, value)
        return floats_of(result) if self.model._is_reference and call.is_quantized else result

    def quantized_input(self, call: Call, number: int, value: Tensor) -> Tensor:
        """A tensor as a call on integers takes it."""
        if not call.is_quantized:
            return value if call.is_dynamic and number else floats_of(value)
        name = call.sources.get(number)
        factors = self.model._buffers.get(f"{call.name}_equalization_scale_0") if number == 0 else None
        if factors is not None:
            value = floats_of(value) * factors
        if name is None or isinstance(value, QuantizedTensor):
            return value
        return self.once(value, name, lambda value: self.model.quantizer(name).quantize(value))

    def plain(self, func: Callable, name: str, args: tuple, kwargs: dict) -> Any:
        last = name.rpartition(".")[2]
        if last in _QUESTIONS and not name.startswith(("Tensor.T.", "Tensor.mT.", "Tensor.H.", "Tensor.mH.")):
            return func(*args, **kwargs)
        return func(*map_tensors(args, floats_of), **map_tensors(kwargs, floats_of))

    def output(self, call: Call, result: Any) -> Any:
        """The result, quantized if the call is and its function left floats."""
        if not call.is_quantized or call.output_observer not in self.model._scales or not isinstance(result, Tensor):
            return result
        if isinstance(result, QuantizedTensor):
            return result
        return self.model.quantizer(call.output_observer).quantize(result.relu() if call.has_relu else result)

    def compute(self, call: Call, func: Callable, args: tuple, kwargs: dict) -> Any:
        if not call.is_quantized or self.model._is_reference:
            return func(*args, **kwargs)
        tensors = len(tensors_in((args, kwargs)))
        if call.key in WEIGHTED:
            return _weighted(call, args, kwargs, *self.model.numbers(call.output_observer))
        if call.key in ARITHMETIC and tensors == 1:
            number, value = sorted(args, key=lambda argument: isinstance(argument, Tensor))
            change = QFunctional().add_scalar if call.key in SUMS else QFunctional().mul_scalar
            return change(value, number).relu() if call.has_relu else change(value, number)
        if call.key in ON_INTEGERS:
            return func(*args, **kwargs)
        return func(*map_tensors(args, floats_of), **map_tensors(kwargs, floats_of))


def run_call(model: GraphModule, call: Call, func: Callable | None, args: tuple, kwargs: dict) -> Any:
    """The result of one call of a model for other arguments; no observer sees them."""
    runner = _Converted(model) if model._is_converted else None
    if call.op == "call_module":
        result = model.get_submodule(call.target)(*args, **kwargs)
    else:
        result = func(*args, **kwargs) if runner is None else runner.compute(call, func, args, kwargs)
    if runner is None:
        return result.relu() if call.has_relu else result
    return runner.output(call, result)


def _weighted(call: Call, args: tuple, kwargs: dict, scale: float, zero_point: int) -> Any:
    """linear and the convolutions by integers."""
    name = call.key.rpartition(".")[2]
    if name == "linear":
        return quantized_linear(*_linear_arguments(*args, **kwargs), scale, zero_point, call.has_relu)
    result = getattr(qF, name)(*args, **kwargs, scale=scale, zero_point=zero_point)
    return result.relu() if call.has_relu else result


def _linear_arguments(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple:
    return input, weight, bias
