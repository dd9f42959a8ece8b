"""The waist: every op call, from a method, a module, an optimizer or a backward pass, goes through `apply` or `apply_into`.

It finds the plan, runs it, has the tape record a node if a gradient is wanted, and tells whoever listens (the tracer, the profiler).
Nothing else knows about all four. It does not know what any op computes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from operator import attrgetter

from ..device import Layout, Storage
from ..ops.op import Op
from ..ops.pointwise import Pointwise
from .tensor import Tensor, wrap

_layout_of = attrgetter("_layout")
_needs_gradient = attrgetter("_requires_grad")


class _State(threading.local):
    """Per thread: whether the tape records, and whether results are inference tensors (never to be differentiated)."""

    grad_enabled = True
    inference = False


state = _State()
listeners: list[Callable] = []  # called with (op, inputs, parameters, outputs, in_place) after every op
record: Callable  # (op, inputs, parameters, outputs): gives the outputs a tape node; set by `autograd`
record_into: Callable  # (op, inputs, parameters, targets): the same for targets written in place; set by `autograd`
before_write: Callable  # (target): refuses writes the tape cannot represent; set by `autograd`


def apply(op: Op, inputs: tuple, parameters: tuple = ()) -> Tensor:
    """The result of `op` on tensors and Python numbers. Raises before the launch where shapes, dtypes or devices do not fit."""
    try:
        key = (parameters, *map(_layout_of, inputs))
    except AttributeError:
        key = (parameters, *map(_describe, inputs))
    plan = op.plans.get(key)
    if plan is None:
        plan = op.plan(key, key[1:], parameters)
    if op.is_view:
        source = inputs[0]
        result = wrap(source._storage, plan.layouts[0], source._offset + plan.offset)
        result._base = source if source._base is None else source._base
        result._seen = source._storage.version
        result._unrecorded = not state.grad_enabled
    else:
        out = plan.layouts[0]
        data = out.device.empty(out.size, out.storage)
        result = wrap(Storage(data), out, 0)
        plan.launch(*[_flat(inputs[k]) for k in plan.tensors], data, *[inputs[k] for k in plan.numbers], *plan.constants)
    if state.inference:
        result._inference = True
    elif state.grad_enabled and op.differentiable:
        for each in inputs:
            if getattr(each, "_requires_grad", False):
                record(op, inputs, parameters, (result,))
                break
    if listeners:
        _tell(op, inputs, parameters, (result,), False)
    return result


def apply_into(op: Op, inputs: tuple, targets: tuple[Tensor, ...], parameters: tuple = ()) -> None:
    """Run `op` and write its results over `targets`, which may be among the inputs. Their versions grow by one."""
    for target in targets:
        before_write(target)
    inputs = tuple(_apart(each, targets) if isinstance(each, Tensor) else each for each in inputs)
    into = tuple(each._layout for each in targets)
    over = tuple(_position(target, inputs) for target in targets)
    arguments = tuple(map(_describe, inputs))
    key = (parameters, into, over, *arguments)
    plan = op.plans.get(key)
    if plan is None:
        plan = op.plan(key, arguments, parameters, into, over)
    written = [_flat(target) for target, position in zip(targets, over) if position is None]
    plan.launch(*[_flat(inputs[k]) for k in plan.tensors], *written, *[inputs[k] for k in plan.numbers], *plan.constants)
    for target in targets:
        target._storage.version += 1
    if state.grad_enabled and any(getattr(each, "_requires_grad", False) for each in (*inputs, *targets)):
        record_into(op, inputs, parameters, targets)
    if listeners:
        _tell(op, inputs, parameters, targets, True)


def _flat(tensor: Tensor) -> object:
    """The buffer from the tensor's first element on."""
    data = tensor._storage.data
    return data[tensor._offset :] if tensor._offset else data


def _describe(each: object) -> Layout | type:
    return each._layout if isinstance(each, Tensor) else type(each)


def _position(target: Tensor, inputs: tuple) -> int | None:
    """Which input is exactly the memory of `target`."""
    for k, each in enumerate(inputs):
        if isinstance(each, Tensor) and each._storage is target._storage and each._offset == target._offset and each._layout is target._layout:
            return k
    return None


def _apart(each: Tensor, targets: tuple[Tensor, ...]) -> Tensor:
    """`each`, copied if it overlaps a target without being it: a loop would read what it has just written."""
    for target in targets:
        if each._storage is target._storage and not (each._offset == target._offset and each._layout is target._layout):
            if each._offset < target._offset + target._layout.extent and target._offset < each._offset + each._layout.extent:
                return each.clone()
    return each


def _tell(op: Op, inputs: tuple, parameters: tuple, outputs: tuple, in_place: bool) -> None:
    for listener in listeners:
        listener(op, inputs, parameters, outputs, in_place)


def _compute(op: Pointwise, arguments: tuple) -> Tensor:
    """A pointwise op called as a function. At least one argument must be a tensor."""
    if not any(isinstance(each, Tensor) for each in arguments):
        raise TypeError(f"{op.name}(): expected at least one Tensor, got {', '.join(type(each).__name__ for each in arguments)}")
    return apply(op, arguments)


Pointwise.compute = staticmethod(_compute)
