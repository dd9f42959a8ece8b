"""`numod.export.export`: what a module or function did for example inputs, as a program that no longer needs its Python
code.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from ..autograd import no_grad
from ..core.tensor import Tensor
from ..graph.values.kinds import is_simple
from ..graph.ir.program import Program, Value
from ..graph.capture.trace import trace
from ..nn import Module
from . import dimensions, problems
from .problems import ExportError
from .outputs import with_own_outputs
from .program import ExportedProgram
from .sizes import Dynamic, Violation, generalised
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
    """Run `mod(*args, **kwargs)` once and give the program of what it did.

    Tensors among the arguments, also in tuples, lists and dicts, are the program's inputs; numbers and texts are
    constants. A module is run without gradients. Its state is as it was before.

    - `dynamic_shapes`: which sizes may vary, as PyTorch's: a dict by argument name, or a tuple like the arguments, of
      dicts by dimension, tuples or None; a dimension is a `Dim`, `Dim.AUTO`, `Dim.DYNAMIC`, or None. The function is
      run at several sizes, with the examples' elements.
    - `strict`, `preserve_module_call_signature`: taken for PyTorch's sake; the capture is the same.

    Raises TypeError for arguments that are no tuple, RuntimeError with the line of user code for what a program cannot
    repeat, such as a branch on a value, and for a dimension that the function does not treat as dynamic.
    """
    if not isinstance(args, tuple):
        raise TypeError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    if not callable(mod):
        raise TypeError(f"export: expected a Module or a function, got {type(mod).__name__}")
    arguments = [tuple(args), dict(kwargs or {})]
    tensors: list[Tensor] = []
    spec = _spec(arguments, tensors, "args")
    examples = [tensor.detach().contiguous().clone() for tensor in tensors]
    recording = _Recording(mod, state_of(mod), spec)
    extents = (
        [] if dynamic_shapes is None else dimensions.read(dynamic_shapes, *arguments, argument_names(mod, *arguments))
    )
    dynamic, program = _dynamic(recording.record, examples, extents)
    names, parameters = recording.names(program)
    return ExportedProgram(
        program,
        spec,
        input_names_of(mod, arguments),
        names,
        parameters,
        tuple(examples),
        _title(mod),
        recording.about,
        dynamic,
    )


def _dynamic(
    record: Callable, examples: list[Tensor], extents: list[dict[int, dimensions.Extent]]
) -> tuple[Dynamic | None, Program]:
    """(the program for all sizes, None if there is one size, and the program of the examples).

    Dimensions that are `Dim.AUTO` are equal where their examples are, if the function can be recorded so. Those that it
    does not treat as dynamic are static.
    """
    automatic = dict.fromkeys(e.symbol for each in extents for e in each.values() if e.symbol.hint == "AUTO")
    if not any(extents):
        return None, record(examples)
    try:
        return generalised(record, examples, _joined(extents))
    except Violation:
        if not automatic:
            raise
    for symbol in automatic:
        alone = [{k: extent for k, extent in each.items() if extent.symbol is symbol} for each in extents]
        try:
            generalised(record, examples, alone)
        except Violation:
            extents = [{k: extent for k, extent in each.items() if extent.symbol is not symbol} for each in extents]
    return generalised(record, examples, extents) if any(extents) else (None, record(examples))


def _joined(extents: list[dict[int, dimensions.Extent]]) -> list[dict[int, dimensions.Extent]]:
    """The extents, where automatic dimensions with equal examples have one symbol."""
    first: dict[int, dimensions.Symbol] = {}
    return [
        {
            index: dataclasses.replace(extent, symbol=first.setdefault(extent.symbol.size, extent.symbol))
            if extent.symbol.hint == "AUTO"
            else extent
            for index, extent in each.items()
        }
        for each in extents
    ]


def _spec(each: Any, tensors: list[Tensor], where: str) -> Any:
    """The structure with the number of a value instead of each tensor, which are appended to `tensors`."""
    if isinstance(each, Tensor):
        tensors.append(each)
        return Value(len(tensors) - 1)
    if type(each) in (tuple, list):
        return type(each)([_spec(part, tensors, f"{where}[{k}]") for k, part in enumerate(each)])
    if type(each) is dict and all(isinstance(key, str) for key in each):
        return {key: _spec(part, tensors, f"{where}[{key!r}]") for key, part in each.items()}
    if is_simple(each):
        return each
    raise TypeError(
        f"export: {where} is a {type(each).__name__}; arguments can be tensors, numbers, texts, and tuples, lists and "
        "dicts of them"
    )


def filled(spec: Any, tensors: Sequence[Tensor]) -> Any:
    """The structure with tensors instead of values."""
    if isinstance(spec, Value):
        return tensors[spec.number]
    if type(spec) in (tuple, list):
        return type(spec)([filled(each, tensors) for each in spec])
    return {key: filled(each, tensors) for key, each in spec.items()} if type(spec) is dict else spec


class _Recording:
    """Records a function, any number of times, and leaves its state as it was."""

    def __init__(self, mod: Callable, state: State, spec: Any) -> None:
        self.mod, self.state, self.spec = mod, state, spec
        self.known: dict[int, str] = {}  # names of tensors that the last program holds, by their ids
        self.about: dict[str, Any] = {}  # what `state_file` must know

    def run(self, *tensors: Tensor) -> Any:
        """Call the function."""
        args, kwargs = filled(self.spec, tensors)
        return self.mod(*args, **kwargs)

    def record(self, examples: list[Tensor]) -> Program:
        """The program of a call, whose outputs have memory of their own. State that the call writes is restored."""
        inputs, state = [example.clone() for example in examples], self.state
        fixed = problems.of_optimizers(state.optimizers)
        if fixed:
            raise ExportError(fixed, "export")
        with state.kept() as rewind:
            with no_grad() if isinstance(self.mod, Module) else nullcontext():
                if state.optimizers:  # their state begins with a step, and gradients must be there
                    for each in state.parameters:
                        each._grad = None
                    self.run(*[example.clone() for example in examples])
                    rewind()
                gradients = {id(each._grad) for each in state.parameters if each._grad is not None}
                program = trace(self.run, *inputs)
            if state.optimizers:
                program.gradients = {}
            adding = problems.adding_up(program, gradients)
            if adding:
                raise ExportError([*adding, *problems.of_calls(program)], "export")
            if state.optimizers:
                rewind()
            self.known, self.about = state.names, state.description()
            return with_own_outputs(with_numbers(program, state, self.known))

    def names(self, program: Program) -> tuple[dict[Value, str], tuple[str, ...]]:
        """(the names of the tensors that a program holds, those of them that are parameters).

        Tensors that no module and no optimizer names are constants, which have none.
        """
        known = self.known
        names = {value: known[id(tensor)] for value, tensor in program.held.items() if id(tensor) in known}
        parameters = {known[id(each)]: None for each in self.state.parameters if id(each) in known}
        return names, tuple(parameter for parameter in parameters if parameter in names.values())


def argument_names(mod: Any, args: tuple, kwargs: dict[str, Any]) -> list[str]:
    """The names of positional arguments."""
    function = mod.forward if isinstance(mod, Module) else mod
    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return [f"args_{k}" for k in range(len(args))]
    names = [name for name in bound if name not in kwargs and name != "kwargs"]
    return names[: len(args)] if len(names) >= len(args) else [f"args_{k}" for k in range(len(args))]


def input_names_of(mod: Any, arguments: list) -> tuple[str, ...]:
    """A name for each input: of its argument where that is one tensor, with numbers where it has several."""
    args, kwargs = arguments
    function = mod.forward if isinstance(mod, Module) else mod
    try:
        named = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        named = {f"input{k}": arg for k, arg in enumerate(args)} | kwargs
    found: list[str] = []

    def note(name: str, each: Any) -> None:
        if isinstance(each, Tensor):
            found.append(name)
        elif isinstance(each, (tuple, list)):
            for k, part in enumerate(each):
                note(f"{name}_{k}", part)
        elif isinstance(each, dict):
            for key, part in each.items():
                note(key if name == "kwargs" else f"{name}_{key}", part)

    for name, each in named.items():
        note(name, each)
    return tuple(found)


def _title(mod: Any) -> str:
    return type(mod).__name__ if isinstance(mod, Module) else getattr(mod, "__name__", type(mod).__name__).strip("<>")
