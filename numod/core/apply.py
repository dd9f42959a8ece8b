"""The waist: every op call, from a method, a module, an optimizer or a backward pass, goes through `apply` or `apply_into`.

It finds the plan, runs it, has the tape record a node if a gradient is wanted, and tells whoever listens (the tracer, the profiler).
Nothing else knows about all four. It does not know what any op computes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..device import Storage
from ..ops.op import Op
from ..ops.pointwise import Pointwise
from .tensor import Tensor, wrap


class _State(threading.local):
    """Per thread: whether the tape records, and whether results are inference tensors (never to be differentiated)."""

    grad_enabled = True
    inference = False


state = _State()
listeners: list[Callable] = []  # called with (op, inputs, parameters, outputs, in_place) after every op
record: Callable  # (op, inputs, layouts, parameters, output): gives the output a tape node; set by `autograd`
record_into: Callable  # (op, inputs, layouts, parameters, targets): the same for targets written in place; set by `autograd`
before_write: Callable  # (target): refuses writes the tape cannot represent; set by `autograd`


def apply(op: Op, inputs: tuple, parameters: tuple = ()) -> Tensor:
    """The result of `op` on tensors and Python numbers. Raises before the launch where shapes, dtypes or devices do not fit."""
    layouts = [getattr(each, "_layout", each.__class__) for each in inputs]
    key = (parameters, *layouts)
    plan = op.plans.get(key)
    if plan is None:
        plan = op.plan(key, layouts, parameters)
    if op.is_view:
        source = inputs[0]
        storage = source._storage
        result = wrap(storage, plan.layout, source._offset + plan.offset)
        result._base = source if source._base is None else source._base
        result._seen = storage.version
        if not state.grad_enabled:
            result._unrecorded = True
    else:
        data = plan.empty(plan.size, plan.storage)
        if plan.plain:
            plan.launch(*[each._storage.data[each._offset :] if each._offset else each._storage.data for each in inputs], data, *plan.constants)
        else:
            plan.launch(*_buffers([inputs[k] for k in plan.tensors]), data, *[inputs[k] for k in plan.numbers], *plan.constants)
        result = wrap(Storage(data), plan.layout, 0)
    if state.inference:
        result._inference = True
    elif state.grad_enabled and op.differentiable:
        for each in inputs:
            if getattr(each, "_requires_grad", False):
                record(op, inputs, layouts, parameters, result)
                break
    if listeners:
        _tell(op, inputs, parameters, (result,), False)
    return result


def apply_into(op: Op, inputs: tuple, targets: tuple[Tensor, ...], parameters: tuple = ()) -> None:
    """Run `op` and write its results over `targets`, which may be among the inputs. Their versions grow by one."""
    for target in targets:
        before_write(target)
    over = tuple([_position(target, inputs) for target in targets])
    for each in inputs:
        for target in targets:
            if each is not target and getattr(each, "_storage", None) is target._storage:
                inputs = tuple([_apart(one, targets) for one in inputs])
                break
    layouts = [getattr(each, "_layout", each.__class__) for each in inputs]
    key = (parameters, over, *[target._layout for target in targets], *layouts)
    plan = op.plans.get(key)
    if plan is None:
        plan = op.plan(key, layouts, parameters, tuple(target._layout for target in targets), over)
    tensors = [inputs[k] for k in plan.tensors]
    tensors += [target for target, position in zip(targets, over) if position is None]
    plan.launch(*_buffers(tensors), *[inputs[k] for k in plan.numbers], *plan.constants)
    for target in targets:
        target._storage.version += 1
    if state.grad_enabled:
        for each in (*inputs, *targets):
            if getattr(each, "_requires_grad", False):
                record_into(op, inputs, layouts, parameters, targets)
                break
    if listeners:
        _tell(op, inputs, parameters, targets, True)


def _buffers(tensors: list[Tensor]) -> list:
    """Each tensor's buffer from its first element on."""
    return [each._storage.data[each._offset :] if each._offset else each._storage.data for each in tensors]


def _position(target: Tensor, inputs: tuple) -> int | None:
    """Which input is exactly the memory of `target`."""
    for k, each in enumerate(inputs):
        if each is target:
            return k
        if isinstance(each, Tensor) and each._storage is target._storage and each._offset == target._offset and each._layout is target._layout:
            return k
    return None


def _apart(each: object, targets: tuple[Tensor, ...]) -> object:
    """`each`, copied if it overlaps a target without being it: a loop would read what it has just written."""
    for target in targets:
        if isinstance(each, Tensor) and each._storage is target._storage and not (each._offset == target._offset and each._layout is target._layout):
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
