"""`numod.export.export`: captures a module or function, run on example inputs, as a program without Python code."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from ..autograd import no_grad
from ..core.quantized.tensor import QuantizedTensor, Quantizer, wrap_integers
from ..core.tensor import Tensor
from ..graph.values.kinds import is_simple
from ..graph.values.pytree import replace
from ..graph.ir.program import Program, Value
from ..graph.capture.trace import trace
from ..nn import Module
from ..serialization import records
from . import dimensions, problems
from .problems import ExportError
from .outputs import with_own_outputs
from .program import ExportedProgram
from .shapes import AdditionalInputs, ShapesCollection
from .sizes import Dynamic, Unequal, Violation, generalised
from .state import State, state_of, with_numbers

_PLAIN = (tuple, list, dict)


def export(
    mod: Any,
    args: tuple,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple = (),
) -> ExportedProgram:
    """Run `mod(*args, **kwargs)` and return the captured program.

    Tensors among the arguments, also in tuples, lists and dicts, become the program's inputs; numbers and strings
    become constants. A module runs without gradients. The state of modules and optimizers is restored afterwards.
    A quantized example stands for an input of its integers, with its scale; quantized results are their integers.

    - `dynamic_shapes`: which sizes may vary, as in PyTorch: a dict by argument name, or a tuple like the arguments, of
      dicts by dimension, tuples or None; a dimension is a `Dim`, `Dim.AUTO`, `Dim.DYNAMIC`, or None. Or a
      `ShapesCollection` or `AdditionalInputs`. The function is run at several sizes, with elements of the examples.
    - `strict`, `preserve_module_call_signature`: accepted for compatibility with PyTorch; they change nothing.

    Raises TypeError if `args` is not a tuple, and RuntimeError, with the line of user code, for code that cannot be
    captured, such as a branch on a tensor's value or a dimension that the function does not treat as dynamic.
    """
    if not isinstance(args, tuple):
        raise TypeError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    if not callable(mod):
        raise TypeError(f"export: expected a Module or a function, got {type(mod).__name__}")
    arguments = [tuple(args), dict(kwargs or {})]
    tensors: list[Tensor] = []
    spec = _spec(arguments, tensors, "args")
    quantizers = {k: tensor._quantizer for k, tensor in enumerate(tensors) if isinstance(tensor, QuantizedTensor)}
    examples = [_integers_of(tensor).detach().contiguous().clone() for tensor in tensors]
    recording = _Recording(mod, state_of(mod), spec, quantizers)
    additional = dynamic_shapes if isinstance(dynamic_shapes, AdditionalInputs) else None
    if isinstance(dynamic_shapes, (AdditionalInputs, ShapesCollection)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
    extents = (
        [] if dynamic_shapes is None else dimensions.read(dynamic_shapes, *arguments, argument_names(mod, *arguments))
    )
    dynamic, program = _dynamic(recording.record, examples, extents)
    names, parameters, non_persistent = recording.names(program)
    exported = ExportedProgram(
        program,
        spec,
        input_names_of(mod, arguments),
        names,
        parameters,
        tuple(examples),
        _title(mod),
        recording.about,
        dynamic,
        non_persistent,
        recording.scales,
    )
    if additional is not None:
        additional.verify(exported)
    return exported


def _dynamic(
    record: Callable, examples: list[Tensor], extents: list[dict[int, dimensions.Extent]]
) -> tuple[Dynamic | None, Program]:
    """(the program for all sizes, or None without dynamic dimensions; the program for the examples).

    `Dim.AUTO` dimensions of equal example size share a symbol, if the function can be captured that way. Those that
    the function does not treat as dynamic become static.
    """
    automatic = dict.fromkeys(
        e.symbol for by_dimension in extents for e in by_dimension.values() if e.symbol.hint == "AUTO"
    )
    if not any(extents):
        return None, record(examples)
    try:
        return generalised(record, examples, _joined(extents, automatic))
    except Violation as violation:
        joined = _generalised_jointly(record, examples, extents, violation)
        if joined is not None:
            return joined
        if not automatic:
            raise
    for symbol in automatic:
        alone = [
            {k: extent for k, extent in by_dimension.items() if extent.symbol is symbol} for by_dimension in extents
        ]
        try:
            generalised(record, examples, alone)
        except Violation:
            extents = [
                {k: extent for k, extent in by_dimension.items() if extent.symbol is not symbol}
                for by_dimension in extents
            ]
    return generalised(record, examples, extents) if any(extents) else (None, record(examples))


def _generalised_jointly(
    record: Callable, examples: list[Tensor], extents: list[dict[int, dimensions.Extent]], violation: Violation
) -> tuple[Dynamic | None, Program] | None:
    """The programs with one symbol for all unnamed dimensions of the same example size; None if that does not help.

    Raises Violation if dimensions with different names must be equal.
    """
    symbols = [*dict.fromkeys(extent.symbol for by_dimension in extents for extent in by_dimension.values())]
    sizes = [symbol.size for symbol in symbols if symbol.hint != "AUTO"]
    if len({*sizes}) == len(sizes):
        return None
    together = set(symbols)
    result = _attempt(record, examples, _joined(extents, together))
    for symbol in symbols if result is not None else ():
        apart = _attempt(record, examples, _joined(extents, together - {symbol}))
        if apart is not None:
            result, together = apart, together - {symbol}
    first: dict[int, dimensions.Symbol] = {}
    pairs = [(symbol, first.setdefault(symbol.size, symbol)) for symbol in symbols if symbol in together]
    unequal = [(symbol, other) for symbol, other in pairs if symbol is not other and not symbol.hint]
    if result is not None and unequal:
        raise Unequal(unequal) from violation
    return result


def _attempt(
    record: Callable, examples: list[Tensor], extents: list[dict[int, dimensions.Extent]]
) -> tuple[Dynamic | None, Program] | None:
    try:
        return generalised(record, examples, extents)
    except Violation:
        return None


def _joined(
    extents: list[dict[int, dimensions.Extent]], together: Iterable[dimensions.Symbol]
) -> list[dict[int, dimensions.Extent]]:
    """The extents, with one symbol for those among `together` that have the same example size."""
    joined: dict[int, dimensions.Symbol] = {}
    together = dict.fromkeys(together)
    for symbol in together:
        former = joined.get(symbol.size, symbol)
        highs = [high for high in (former.high, symbol.high) if high is not None]
        joined[symbol.size] = dataclasses.replace(
            former, low=max(former.low, symbol.low), high=min(highs, default=None)
        )
    return [
        {
            index: dataclasses.replace(extent, symbol=joined[extent.symbol.size])
            if extent.symbol in together
            else extent
            for index, extent in by_dimension.items()
        }
        for by_dimension in extents
    ]


def _spec(argument: Any, tensors: list[Tensor], where: str) -> Any:
    """The structure with a numbered Value in place of each tensor; the tensors are appended to `tensors`."""
    if isinstance(argument, Tensor):
        tensors.append(argument)
        return Value(len(tensors) - 1)
    if type(argument) in (tuple, list):
        return type(argument)([_spec(part, tensors, f"{where}[{k}]") for k, part in enumerate(argument)])
    if type(argument) is dict and all(isinstance(key, str) for key in argument):
        return {key: _spec(part, tensors, f"{where}[{key!r}]") for key, part in argument.items()}
    if records.is_record(argument):
        parts = {key: _spec(part, tensors, f"{where}.{key}") for key, part in records.fields(argument).items()}
        return records.rebuilt(type(argument), parts)
    if is_simple(argument):
        return argument
    advice = "; call torch.export.register_dataclass(cls) first" if dataclasses.is_dataclass(argument) else ""
    raise _UnsupportedArgument(
        f"export: {where} is a {type(argument).__name__}; arguments can be tensors, numbers, strings, and "
        f"tuples, lists, dicts, named tuples and registered dataclasses of them{advice}"
    )


class _UnsupportedArgument(TypeError, ValueError):
    """PyTorch raises ValueError for an argument of a class that it does not know."""


def _integers_of(result: Any) -> Any:
    """The integers of a quantized tensor; anything else as it is."""
    return result._integers if isinstance(result, QuantizedTensor) else result


def filled(spec: Any, tensors: Sequence[Tensor]) -> Any:
    """The structure with tensors in place of its Values."""
    if isinstance(spec, Value):
        return tensors[spec.number]
    if records.is_record(spec):
        return records.rebuilt(type(spec), {key: filled(part, tensors) for key, part in records.fields(spec).items()})
    if type(spec) in (tuple, list):
        return type(spec)([filled(part, tensors) for part in spec])
    return {key: filled(part, tensors) for key, part in spec.items()} if type(spec) is dict else spec


class _Recording:
    """Records a function any number of times and restores its state after each run.

    `quantizers`: those of quantized inputs, by number.
    """

    def __init__(self, mod: Callable, state: State, spec: Any, quantizers: dict[int, Quantizer]) -> None:
        self.mod, self.state, self.spec, self.quantizers = mod, state, spec, quantizers
        self.known: dict[int, str] = {}  # names of the last program's held tensors, by id
        self.about: dict[str, Any] = {}  # the description of the state, for `state_file`
        self.scales: dict[str, tuple[float, int]] = {}  # see `ExportedProgram`
        for number, quantizer in quantizers.items():
            self._note_scale(f"input{number}", quantizer)

    def run(self, *tensors: Tensor) -> Any:
        """Call the function. Its quantized inputs and results are integers here."""
        quantizers = self.quantizers
        inputs = [wrap_integers(x, quantizers[k]) if k in quantizers else x for k, x in enumerate(tensors)]
        args, kwargs = filled(self.spec, inputs)
        leaves: list[Tensor] = []
        results = self.mod(*args, **kwargs)
        replace(results, lambda leaf: leaves.append(leaf) if isinstance(leaf, Tensor) else None)
        for number, leaf in enumerate(leaves):
            if isinstance(leaf, QuantizedTensor):
                self._note_scale(f"output{number}", leaf._quantizer)
        return replace(results, _integers_of)

    def _note_scale(self, port: str, quantizer: Quantizer) -> None:
        """Remember the scale and the zero point of an input or output that has one of each."""
        if type(quantizer.scale) is float and type(quantizer.zero_point) is int:
            self.scales[port] = quantizer.scale, quantizer.zero_point

    def record(self, examples: list[Tensor]) -> Program:
        """The program of a call. Its outputs have separate memory. State that the call writes is restored."""
        inputs, state = [example.clone() for example in examples], self.state
        fixed = problems.of_optimizers(state.optimizers)
        if fixed:
            raise ExportError(fixed, "export")
        with state.restoring() as rewind:
            with no_grad() if isinstance(self.mod, Module) else nullcontext():
                if state.optimizers:  # a first step creates their state and the gradients
                    for parameter in state.parameters:
                        parameter._grad = None
                    self.run(*[example.clone() for example in examples])
                    rewind()
                gradients = {id(parameter._grad) for parameter in state.parameters if parameter._grad is not None}
                rates = state.rates
                program = trace(self.run, *inputs)
            if state.optimizers:
                program.gradients = {}
            wrong = [*problems.adding_up(program, gradients), *problems.of_rates(state, rates)]
            if wrong:
                raise ExportError([*wrong, *problems.of_calls(program)], "export")
            if state.optimizers:
                rewind()
            self.known, self.about = state.names, state.description()
            return with_own_outputs(with_numbers(program, state, self.known, inputs))

    def names(self, program: Program) -> tuple[dict[Value, str], tuple[str, ...], tuple[str, ...]]:
        """(names of a program's held tensors, those among them of parameters, those of non-persistent buffers).

        Tensors that belong to no module and no optimizer are constants without a name.
        """
        known = self.known
        names = {value: known[id(tensor)] for value, tensor in program.held.items() if id(tensor) in known}
        parameters = {known[id(tensor)]: None for tensor in self.state.parameters if id(tensor) in known}
        non_persistent = self.state.non_persistent
        return (
            names,
            tuple(parameter for parameter in parameters if parameter in names.values()),
            tuple(name for name in names.values() if name in non_persistent),
        )


def argument_names(mod: Any, args: tuple, kwargs: dict[str, Any]) -> list[str]:
    """The names of positional arguments."""
    try:
        bound = signature_of_call(mod).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return [f"args_{k}" for k in range(len(args))]
    names = [name for name in bound if name not in kwargs and name != "kwargs"]
    return names[: len(args)] if len(names) >= len(args) else [f"args_{k}" for k in range(len(args))]


def signature_of_call(mod: Any) -> inspect.Signature:
    """The arguments of a function, or of a module's forward; a module may state them itself."""
    stated = getattr(mod, "__signature__", None)
    return stated or inspect.signature(mod.forward if isinstance(mod, Module) else mod)


def input_names_of(mod: Any, arguments: list) -> tuple[str, ...]:
    """A name for each input: its argument's name, with a suffix if the argument contains several tensors.

    Inputs are in the order of the call: positional arguments, then those by keyword as they came.
    """
    args, kwargs = arguments
    try:
        bound = signature_of_call(mod).bind(*args, **kwargs)
        keywords = {*kwargs, *[name for name in bound.arguments if _takes_keywords(bound.signature.parameters[name])]}
        positional = {name: argument for name, argument in bound.arguments.items() if name not in keywords}
    except (TypeError, ValueError):
        positional = {f"input{k}": arg for k, arg in enumerate(args)}
    input_names: list[str] = []

    def note(name: str, argument: Any) -> None:
        if isinstance(argument, Tensor):
            input_names.append(name)
        elif records.is_record(argument):
            for key, part in records.fields(argument).items():
                note(f"{name}_{key}", part)
        elif isinstance(argument, (tuple, list)):
            for k, part in enumerate(argument):
                note(f"{name}_{k}", part)
        elif isinstance(argument, dict):
            for key, part in argument.items():
                note(f"{name}_{key}", part)

    for name, argument in (*positional.items(), *kwargs.items()):
        note(name, argument)
    return tuple(input_names)


def _takes_keywords(parameter: inspect.Parameter) -> bool:
    return parameter.kind is inspect.Parameter.VAR_KEYWORD


def _title(mod: Any) -> str:
    return type(mod).__name__ if isinstance(mod, Module) else getattr(mod, "__name__", type(mod).__name__).strip("<>")
