"""`trace` records a function as a program; `finish` adds the results and the gradients to a recording."""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from ...core.listeners import listeners
from ...core.tensor import Tensor
from ...ops import view
from ..ir.program import Program, Step, Value
from ..values.kinds import attributes_of, is_simple, of_library
from ..values.lazy_scalar import Constant
from ..values.pytree import ArgumentContainer, replace
from ..values.source_location import CannotRepeat
from .recorder import Recorder, line
from .scalar_reads import written_storages


def trace(function: Callable, *inputs: Tensor) -> Program:
    """Run `function(*inputs)` once and return a program that repeats it.

    Raises RuntimeError for what cannot be repeated: values read in Python (`item()`, `if tensor:`), optimizer state
    created in the recorded step (run a step before), and inputs whose `requires_grad` is set inside.
    """
    recorder = Recorder(inputs)
    listeners.append(recorder)
    try:
        outputs = function(*inputs)
    finally:
        listeners.remove(recorder)
    if recorder.decisions.made_state:
        raise RuntimeError(
            "trace: the optimizer created its state in the recorded step, so each run would create it again; run one "
            "step before tracing"
        )
    return finish(recorder, outputs)


def finish(recorder: Recorder, outputs: Any) -> Program:
    """The program with its results, and the gradients of tensors that existed before. Raises CannotRepeat."""
    program, values = recorder.program, recorder.values
    recorder.updates.refuse_computed(written_storages(program, values) | recorder.created_storages)
    for value, tensor in [*program.held.items(), *((value, values.tensor(value)) for value in program.inputs)]:
        if values.is_moved(value, tensor) and id(tensor) not in recorder.environment.replaceable:
            shape = tuple(program.layouts[value].shape)
            raise CannotRepeat(
                f"trace: the shape or memory of a {shape} tensor from outside was changed, which a recorded "
                "program cannot repeat"
            )
        gradient = None if tensor._grad is None else values.by_tensor.get(id(tensor._grad))
        if gradient is not None and gradient not in program.held:
            program.gradients[value] = gradient
    program.outputs = replace(outputs, lambda leaf: _result(recorder, leaf))
    storages = [values.storage_id(value) for value in program.inputs]
    program.shared = [storages.index(storage) for storage in storages]
    return program


def _result(recorder: Recorder, leaf: Any) -> Any:
    """A leaf of the results: a Value for a tensor of the program, others as they are."""
    program = recorder.program
    if not issubclass(type(leaf), Tensor):
        _refuse_object(recorder, leaf)
        return leaf
    if id(leaf) in recorder.environment.outside:
        return leaf
    value = recorder.value_of(leaf)
    if value not in program.inputs and attributes_of(leaf):
        raise CannotRepeat(
            f"trace: the function returns a tensor with an attribute, {attributes_of(leaf)[0][0]}, "
            "which a recorded program would not set; set it outside"
        )
    is_same = recorder.values.tensor(value) is leaf
    if is_same and (value in program.held or value in program.inputs):
        return value
    if type(leaf) is not Tensor or (leaf.requires_grad and leaf.grad_fn is None):
        raise CannotRepeat(
            "trace: the function returns a leaf or a Parameter that it creates, which a recorded program would "
            "return as a computed tensor"
        )
    return value if is_same else _add_view(recorder, leaf, value)


def _add_view(recorder: Recorder, tensor: Tensor, value: Value) -> Value:
    """Another tensor with the memory of a value (detached, say) is returned as a view of it."""
    alias = recorder.values.add(tensor)
    permutation = tuple(range(tensor.ndim))
    recorder.program.steps.append(Step(view.rows["permute"], (value,), (permutation,), (alias,), False, line()))
    return alias


def _refuse_object(recorder: Recorder, obj: Any) -> None:
    """Refuse an object that may hold values of this run."""
    is_known = issubclass(type(obj), (ArgumentContainer, Constant)) or is_simple(obj) or _is_library_function(obj)
    if not is_known and not recorder.environment.is_constant(obj):
        raise CannotRepeat(
            f"trace: the function returns a {type(obj).__name__}, which may hold values of this run; return tensors "
            "in tuples, lists, dicts or data classes"
        )


def _is_library_function(obj: Any) -> bool:
    """Whether it is a function or class of a library, without a closure, and so holds no values of a run."""
    if not issubclass(type(obj), (type, FunctionType, BuiltinFunctionType)):
        return False
    owner = getattr(obj, "__self__", None)
    holds_values = getattr(obj, "__closure__", None) or not isinstance(owner, (ModuleType, type(None)))
    return of_library(obj) and not holds_values
