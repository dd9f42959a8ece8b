"""Dispatch: every op call, from a method, a module, an optimizer or a backward pass, goes through `apply` or
`apply_into`.

They look up the plan, run it, record a tape node if a gradient is needed, and notify listeners (the recorder of
compiled functions, the profiler). What an op computes is defined in `ops`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache

from numpy import empty

from ..device import Layout
from ..device.device import Device
from ..device.storage import share_memory
from ..dtypes import dtype as DType
from ..ops import table
from ..ops.op import Op, Plan, single_device
from ..ops.pointwise import OverComplex, Pointwise
from .extensions import extensions
from .launchers import launcher, launcher_factory
from .listeners import listeners, notify_listeners
from .tensor import Tensor

new = object.__new__


class _State(threading.local):
    """The modes of one thread."""

    grad_enabled = True  # whether the tape records
    inference = False  # whether results are inference tensors, which are never differentiable
    # whether any thread ever entered inference mode, autocast or checkpoint. Reading thread-local state takes 5% of an
    # op's time, so this class attribute is read first
    special = False
    autocast: tuple[tuple[str, DType], ...] = ()  # (device type, dtype) of `amp.autocast`
    vmap_depth = 0  # the number of running calls of `func.vmap`, which may traverse one graph several times
    checkpointing = False  # whether ops that run now will be rerun in backward, node by node
    stepping_schedule = False  # whether a scheduler's step runs for a recorder, which must not record the ops in it


state = Tensor._modes = _State()


def apply(op: Op, inputs: tuple, attributes: tuple = ()) -> Tensor | tuple[Tensor, ...]:
    """The result (or results) of `op` on tensors and Python numbers.

    Raises before the launch if shapes, dtypes or devices do not match.
    """
    # unrolled for the common numbers of inputs: these lines run for every op. `_made_by` is the part of `requires_grad`
    # that counts for a view
    if len(inputs) == 2:
        x, y = inputs
        if isinstance(x, Tensor):
            first, requires_grad = x._layout, x._requires_grad or (x._base is not None and x._made_by is not None)
        else:
            first, requires_grad = x.__class__, False
        if isinstance(y, Tensor):
            key = (attributes, first, y._layout)
            requires_grad = requires_grad or y._requires_grad or (y._base is not None and y._made_by is not None)
        else:
            key = attributes, first, y.__class__
    elif len(inputs) == 1:
        (x,) = inputs
        if isinstance(x, Tensor):
            key, requires_grad = (
                (attributes, x._layout),
                x._requires_grad or (x._base is not None and x._made_by is not None),
            )
        else:
            key, requires_grad = (attributes, x.__class__), False
    else:
        parts, requires_grad = [attributes], False
        for input in inputs:
            if isinstance(input, Tensor):
                parts.append(input._layout)
                requires_grad = (
                    requires_grad or input._requires_grad or (input._base is not None and input._made_by is not None)
                )
            else:
                parts.append(input.__class__)
        key = tuple(parts)
    plan = op.plans.get(key)
    if plan is None:
        if (resolved := _resolve_symbolic(op, inputs, attributes)) is not None:
            return apply(op, *resolved)
        if (device := _common_device(op, key[1:])) is not None:
            return apply(op, _copy_scalars(inputs, device), attributes)
        if op.upcasts_half and _half_dtype(op, key[1:]) and not op.supports_half(key[1:], attributes):
            return _apply_in_float32(op, inputs, attributes)
        if any_complex(key[1:]) and op.complex_form is not None:
            return op.complex_form(inputs, attributes)
        if _any_batched(key[1:]):
            plan = extensions.plan_batched(op, key[1:], attributes)
        else:
            if requires_grad and op.differentiable and state.grad_enabled:
                plan = extensions.plan_with_gradients(op, inputs, key[1:], attributes)
            else:
                plan = op.plan(key[1:], attributes)
            plan.run = viewer(plan) if op.is_view else launcher(plan)
        op.remember(key, plan)
    try:
        result = plan.run(inputs)
    except OverflowError:
        return apply(op, _as_signed(inputs), attributes)
    except TypeError:  # of attributes such as 2.0, which as a key equal good ones
        op.forget(key)
        raise
    if requires_grad and op.differentiable and state.grad_enabled:
        extensions.record(op, inputs, key[1:], attributes, result)
    # a view of an inference tensor is one in any mode
    if _State.special and (state.inference or (op.is_view and inputs[0]._inference)):
        for tensor in result if op.outputs else (result,):
            tensor._inference = not op.is_view or inputs[0]._inference
    if listeners:
        notify_listeners(op, inputs, attributes, result if op.outputs else (result,), False)
    return result


class _WithoutDerivative(Op):
    """The tape's op for a result that has no derivative in PyTorch."""

    inputs = ("x",)

    def __init__(self, name: str) -> None:
        super().__init__(name)

        def refuse(g: object) -> None:
            raise NotImplementedError(
                f"the derivative for '{name}' is not implemented; detach() its input where no gradient is needed"
            )

        self.gradients = {"x": refuse}


_without_derivative_op = cache(_WithoutDerivative)


def without_derivative(name: str, result: Tensor, x: Tensor) -> Tensor:
    """`result`, connected to x on the tape by a node whose backward raises NotImplementedError."""
    if state.grad_enabled and x.requires_grad:
        extensions.record(_without_derivative_op(name), (x,), [x._layout], (), result)
    return result


class _SharedNode(Op):
    """The tape's op for two results that PyTorch computes in one node and numod in several ops."""

    inputs, outputs = ("first", "second"), ("first", "second")
    gradients = {"first": lambda grads: grads[0], "second": lambda grads: grads[1]}


_shared_node = cache(_SharedNode)


def with_shared_node(name: str, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Two results as outputs of one node, whose prehooks receive both gradients."""
    if listeners or not (state.grad_enabled and first.requires_grad and second.requires_grad):
        return first, second  # a recorded program differentiates its own ops
    results = first._alias(Tensor), second._alias(Tensor)
    extensions.record(_shared_node(name), (first, second), [first._layout, second._layout], (), results)
    return results


def _as_signed(inputs: tuple, targets: tuple = ()) -> tuple:
    """The inputs with unsigned 64-bit integers converted as in PyTorch: to floats next to floats, else modulo 2**64.

    Called in the handler of an OverflowError, which it reraises if there are no such integers.
    """
    floats = any(isinstance(tensor, Tensor) and tensor.dtype.differentiable for tensor in (*inputs, *targets))
    large = [type(input) is int and 1 << 63 <= input < 1 << 64 for input in inputs]
    if not any(large):
        raise  # noqa: PLE0704
    return tuple(
        [
            (float(input) if floats else input - (1 << 64)) if is_large else input
            for input, is_large in zip(inputs, large)
        ]
    )


def observed(op: Op, inputs: tuple, attributes: tuple) -> float | int:
    """The result of `op` as a Python number, for checks before a launch.

    On the CPU and without listeners no tensor is created, which halves the time.
    """
    x, *numbers = inputs
    plan = (
        None if listeners or x._layout.batch is not None else op.plans.get((attributes, x._layout, *map(type, numbers)))
    )
    # a 16-bit float is stored as bits
    if plan is None or x._layout.device.type != "cpu" or plan.layout.dtype.compute is not plan.layout.dtype:
        return apply(op, inputs, attributes)._observe()
    result = empty(1, plan.layout.storage)
    plan.launch(x._storage.data[x._offset :] if x._offset else x._storage.data, result, *numbers, *plan.constants)
    return result.item()


def apply_into(op: Op, inputs: tuple, targets: tuple[Tensor, ...], attributes: tuple = ()) -> None:
    """Run `op` and write its results to `targets`, which may be among the inputs. Increments their versions."""
    original_inputs, target, storage = inputs, targets[0], targets[0]._storage
    requires_grad, target_position, no_overlap, layouts = False, None, len(targets) == 1 and not storage.foreign, []
    for k, input in enumerate(inputs):  # one pass over the inputs: these lines run for every write
        if isinstance(input, Tensor):
            layouts.append(input._layout)
            requires_grad = requires_grad or input._requires_grad or input._base is not None
            if input is target and target_position is None:
                target_position = k
            elif input._storage is storage:
                no_overlap = False
        else:
            layouts.append(input.__class__)
    for written in targets:
        extensions.check_write(written)
        requires_grad = requires_grad or written._requires_grad or written._base is not None
    if extensions.write_watchers:
        _watch_writes(targets)
    target_positions = (target_position,)
    if not no_overlap:
        target_positions = _positions_of(targets, inputs)
        inputs = _without_overlaps(op, inputs, targets, target_positions)
        layouts = [input._layout if isinstance(input, Tensor) else input.__class__ for input in inputs]
    key = (
        (attributes, target_positions, target._layout, *layouts)
        if len(targets) == 1
        else (attributes, target_positions, *[target._layout for target in targets], *layouts)
    )
    plan = op.plans.get(key)
    if plan is None:
        if (resolved := _resolve_symbolic(op, original_inputs, attributes)) is not None:
            return apply_into(op, resolved[0], targets, resolved[1])
        if (device := _common_device(op, layouts, target._layout)) is not None:
            return apply_into(op, _copy_scalars(original_inputs, device), targets, attributes)
        if (
            op.upcasts_half
            and _half_dtype(
                op, [written._layout for written in (*targets, *original_inputs) if isinstance(written, Tensor)]
            )
            and not op.supports_half(tuple(layouts), attributes)
        ):
            return _apply_into_in_float32(op, original_inputs, targets, attributes)
        if any_complex((*layouts, targets[0]._layout)) and isinstance(op.complex_form, Op):
            return apply_into(op.complex_form, original_inputs, targets, attributes)
        into = tuple([target._layout for target in targets])
        if _any_batched((*layouts, *into)):
            plan = extensions.plan_batched_into(op, (*layouts, *into), attributes)
        else:
            plan = op.plan(layouts, attributes, into, target_positions)
            plan.run = _writer(plan, target_positions)
        op.remember(key, plan)
    node = None
    if (
        requires_grad
        and target._layout.dtype.differentiable
        and state.grad_enabled
        and _is_wanted(inputs if op.differentiable else (), targets)
    ):
        # before the write, while the inputs have their old history
        node = extensions.make_node(op, inputs, layouts, attributes, target)
    try:
        plan.run(inputs, targets)
    except OverflowError:
        return apply_into(op, _as_signed(inputs, targets), targets, attributes)
    for written in targets:
        (written._version_counter or written._storage).version += 1
    if node is not None:
        extensions.attach(node, target)
    if listeners:
        notify_listeners(op, inputs, attributes, targets, True)


def _writer(plan: Plan, target_positions: tuple) -> Callable:
    """The function that launches the kernel of a write."""
    separate = tuple([position is None for position in target_positions])
    return launcher_factory(plan.kinds, 0, len(plan.constants), False, separate)(plan.launch, *plan.constants)


def _watch_writes(targets: tuple[Tensor, ...]) -> None:
    for watch in tuple(extensions.write_watchers):
        for target in targets:
            watch(target)


def copy_among(copy: Tensor, tensors: Sequence) -> Tensor:
    """`copy`, as a batched tensor if one of `tensors`, which will be written to it, is batched."""
    batch = max(
        (
            tensor._layout.batch
            for tensor in (copy, *tensors)
            if isinstance(tensor, Tensor) and tensor._layout.batch is not None
        ),
        key=lambda tensor: tensor.depth,
        default=None,
    )
    return copy if batch is copy._layout.batch else batch.as_batched(copy)


def _common_device(op: Op, arguments: Sequence, written: Layout | None = None) -> Device | None:
    """The GPU to run on if the inputs mix GPU tensors and 0-d CPU tensors; None if all are on one device.

    Raises RuntimeError for other mixtures.
    """
    layouts = [argument for argument in arguments if isinstance(argument, Layout)]
    device = single_device(op.name, layouts, written)
    return (
        device
        if device is not None and device.type == "cuda" and any(layout.device is not device for layout in layouts)
        else None
    )


def _copy_scalars(inputs: tuple, device: Device) -> tuple:
    """The inputs with 0-d CPU tensors copied to a GPU, whose kernels cannot read them."""
    return tuple(
        [
            input.to(device) if isinstance(input, Tensor) and not input.ndim and input.device.type == "cpu" else input
            for input in inputs
        ]
    )


def _any_batched(layouts: Sequence) -> bool:
    """Whether one of these layouts belongs to a batched tensor."""
    return any(isinstance(layout, Layout) and layout.batch is not None for layout in layouts)


def _resolve_symbolic(op: Op, inputs: tuple, attributes: tuple) -> tuple[tuple, tuple] | None:
    """The inputs and attributes with lazy scalars replaced by tensors or numbers; None if there are no lazy scalars."""
    return (
        (_resolved(inputs, op, inputs), _resolved(attributes, op, inputs))
        if _is_symbolic((inputs, attributes))
        else None
    )


def _is_symbolic(value: object) -> bool:
    """Whether a value is a lazy scalar, or a tuple that contains one."""
    return any(map(_is_symbolic, value)) if type(value) is tuple else hasattr(type(value), "__number__")


def as_tensor_of(number: object) -> Tensor | None:
    """The 0-d tensor, float64 or int64, of a lazy scalar. None for other values and scalars that have none."""
    make = getattr(type(number), "__tensor__", None)
    return None if make is None else make(number)


def _resolved(value: object, op: Op, inputs: tuple) -> object:
    """The value with lazy scalars replaced for this call."""
    if type(value) is tuple:
        return tuple([_resolved(part, op, inputs) for part in value])
    return value.__number__(op, inputs) if _is_symbolic(value) else value


def _is_wanted(inputs: tuple, targets: tuple[Tensor, ...]) -> bool:
    """Whether a write needs a tape node."""
    for input in inputs:
        if isinstance(input, Tensor) and (input._requires_grad or (input._base is not None and input.requires_grad)):
            return True
    for target in targets:
        if target._requires_grad or (target._base is not None and (target.requires_grad or target._base.requires_grad)):
            return True
    return False


def any_complex(arguments: Sequence) -> bool:
    """Whether one of these layouts and number types is complex."""
    return any(
        argument.dtype.is_complex if isinstance(argument, Layout) else argument is complex for argument in arguments
    )


def _half_dtype(op: Op, layouts: Sequence) -> DType | None:
    """The 16-bit floating dtype of these tensors, if any. Raises RuntimeError if it is mixed with other floats."""
    kinds = {layout.dtype for layout in layouts if isinstance(layout, Layout) and layout.dtype.is_floating_point}
    if all(kind.compute is kind for kind in kinds):
        return None
    if len(kinds) > 1:
        raise RuntimeError(
            f"{op.name}: expected all floating tensors to have the same dtype, but found "
            f"{', '.join(sorted(map(str, kinds)))}; convert with .to()"
        )
    return kinds.pop()


def _in_float32(inputs: tuple) -> tuple:
    """The inputs with 16-bit floats as float32."""
    return tuple(
        [
            apply(table.copy, (input,), (input.dtype.compute,))
            if isinstance(input, Tensor) and input.dtype.compute is not input.dtype
            else input
            for input in inputs
        ]
    )


def _apply_in_float32(op: Op, inputs: tuple, attributes: tuple) -> Tensor | tuple[Tensor, ...]:
    """The op in float32, its floating results rounded to the 16-bit dtype of its inputs."""
    dtype = next(
        input.dtype for input in inputs if isinstance(input, Tensor) and input.dtype.compute is not input.dtype
    )
    outputs = apply(op, _in_float32(inputs), attributes)
    results = tuple(
        [
            apply(table.copy, (output,), (dtype,)) if output.dtype.is_floating_point else output
            for output in (outputs if op.outputs else (outputs,))
        ]
    )
    return results if op.outputs else results[0]


def _apply_into_in_float32(op: Op, inputs: tuple, targets: tuple[Tensor, ...], attributes: tuple) -> None:
    """The in-place form: writes float32 copies of the targets and copies them back."""
    wide = _in_float32(targets)
    inputs = tuple(
        [next((w for w, target in zip(wide, targets) if target is original), original) for original in inputs]
    )
    apply_into(op, _in_float32(inputs), wide, attributes)
    for target, wide_target in zip(targets, wide):
        if wide_target is not target:
            apply_into(table.copy, (wide_target,), (target,), (target.dtype,))


def viewer(plan: Plan) -> Callable:
    """The function that creates the view of a view op."""
    layout, offset = plan.layout, plan.offset

    def run(inputs: tuple) -> Tensor:
        (source,) = inputs
        result = new(Tensor)
        result._storage, result._layout, result._offset = source._storage, layout, source._offset + offset
        base, write_count = source._base, source._version_counter
        result._base = source if base is None else base
        if write_count is None:
            result._seen = source._storage.version
        else:
            result._version_counter, result._seen = write_count, write_count.version
        if source._unrecorded or not state.grad_enabled:
            result._unrecorded = source._unrecorded or True
        return result

    return run


def _positions_of(targets: tuple[Tensor, ...], inputs: tuple) -> tuple[int | None, ...]:
    """The index of the input that covers the memory of a target, for each target."""
    return tuple([_position_of(target, inputs) for target in targets])


def _position_of(target: Tensor, inputs: tuple) -> int | None:
    """The index of the input that covers exactly the memory of `target`."""
    for k, input in enumerate(inputs):
        if input is target:
            return k
        if (
            isinstance(input, Tensor)
            and input._storage is target._storage
            and input._offset == target._offset
            and input._layout is target._layout
        ):
            return k
    return None


def _without_overlaps(
    op: Op, inputs: tuple, targets: tuple[Tensor, ...], target_positions: tuple[int | None, ...]
) -> tuple:
    """The inputs, those copied that overlap a target without being one."""
    is_pointwise = isinstance(op, (Pointwise, OverComplex))
    return tuple(
        [
            input if k in target_positions else _without_overlap(input, targets, is_pointwise)
            for k, input in enumerate(inputs)
        ]
    )


def _without_overlap(value: object, targets: tuple[Tensor, ...], may_be_target: bool) -> object:
    """`value`, copied if it overlaps a target, since the loop would read elements that it has written.

    A pointwise op may read the target itself (`may_be_target`).
    """
    for target in targets:
        if not isinstance(value, Tensor) or (
            may_be_target
            and value._offset == target._offset
            and value._layout is target._layout
            and value._storage is target._storage
        ):
            continue
        if value._storage is target._storage:
            if (
                value._offset < target._offset + target._layout.extent
                and target._offset < value._offset + value._layout.extent
            ):
                return value.clone()
        elif (
            value._storage.foreign
            and target._storage.foreign
            and share_memory(value._storage.data, target._storage.data)
        ):
            return value.clone()
    return value


def _compute(op: Pointwise, arguments: tuple) -> Tensor:
    """A pointwise op called as a function. At least one argument must be a tensor."""
    if not (isinstance(arguments[0], Tensor) or any(isinstance(argument, Tensor) for argument in arguments)):
        raise TypeError(
            f"{op.name}(): expected at least one Tensor, got {', '.join(type(value).__name__ for value in arguments)}"
        )
    return apply(op, arguments)


Op.apply = apply
Pointwise.compute, Pointwise.tensor = staticmethod(_compute), Tensor
