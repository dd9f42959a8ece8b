"""`numod.export.export`: what a module or function did for example inputs, as a program that no longer needs its Python
code.
"""

from __future__ import annotations

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
from .outputs import with_own_outputs
from .program import ExportedProgram
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

    - `dynamic_shapes`: sizes that may vary are not supported yet; None, or a structure of None.
    - `strict`, `preserve_module_call_signature`: taken for PyTorch's sake; the capture is the same.

    Raises TypeError for arguments that are no tuple, RuntimeError with the line of user code for what a program cannot
    repeat, such as a branch on a value.
    """
    if not isinstance(args, tuple):
        raise TypeError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    if not callable(mod):
        raise TypeError(f"export: expected a Module or a function, got {type(mod).__name__}")
    if not _is_static(dynamic_shapes):
        raise NotImplementedError("export: dynamic_shapes is not supported yet; export one program for each size")
    arguments = [tuple(args), dict(kwargs or {})]
    tensors: list[Tensor] = []
    spec = _spec(arguments, tensors, "args")
    examples = [tensor.detach().contiguous().clone() for tensor in tensors]
    state = state_of(mod)
    program, known, about = _traced(mod, state, spec, examples)
    names, parameters = _names(program, state, known)
    return ExportedProgram(
        with_own_outputs(program),
        spec,
        _input_names(mod, arguments),
        names,
        parameters,
        tuple(examples),
        _title(mod),
        about,
    )


def _is_static(shapes: Any) -> bool:
    """Whether nothing in `dynamic_shapes` asks for a size that may vary."""
    if isinstance(shapes, Mapping):
        shapes = list(shapes.values())
    return shapes is None or (isinstance(shapes, (list, tuple)) and all(map(_is_static, shapes)))


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


def _traced(mod: Callable, state: State, spec: Any, examples: list[Tensor]) -> tuple[Program, dict[int, str], dict]:
    """(the program of the call, the names of tensors that it holds, by their ids, what `state_file` must know).

    State that the call writes is restored.
    """

    def run(*tensors: Tensor) -> Any:
        args, kwargs = filled(spec, tensors)
        return mod(*args, **kwargs)

    inputs = [example.clone() for example in examples]
    with state.kept() as rewind:
        with no_grad() if isinstance(mod, Module) else nullcontext():
            if state.optimizers:  # their state begins with a step, and gradients must be there
                for each in state.parameters:
                    each._grad = None
                run(*[example.clone() for example in examples])
                rewind()
            gradients = {id(each._grad) for each in state.parameters if each._grad is not None}
            program = trace(run, *inputs)
        if any(id(tensor) in gradients for tensor in program.held.values()):
            raise RuntimeError(
                "export: gradients of an earlier call take part, which add up from call to call; call "
                "optimizer.zero_grad() in the function, before backward()"
            )
        if state.optimizers:
            program.gradients = {}
            rewind()
        known = state.names
        return with_numbers(program, state, known), known, state.description()


def _names(program: Program, state: State, known: dict[int, str]) -> tuple[dict[Value, str], tuple[str, ...]]:
    """(the names of the tensors that a program holds, those of them that are parameters).

    Tensors that no module and no optimizer names are constants, which have none.
    """
    names = {value: known[id(tensor)] for value, tensor in program.held.items() if id(tensor) in known}
    parameters = {known[id(each)]: None for each in state.parameters if id(each) in known}
    return names, tuple(parameter for parameter in parameters if parameter in names.values())


def _input_names(mod: Any, arguments: list) -> tuple[str, ...]:
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
