"""The waist: every op call, from a method, a module, an optimizer or a backward pass, goes through `apply` or
`apply_into`.

It finds the plan, runs it, has the tape record a node if a gradient is wanted, and tells whoever listens (the tracer,
the profiler). Nothing else knows about all four. It does not know what any op computes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from numpy import empty

from ..device import Layout, Storage
from ..device.device import Device
from ..device.storage import share_memory
from ..dtypes import dtype as DType
from ..ops import table
from ..ops.op import Op, Plan, single_device
from ..ops.pointwise import OverComplex, Pointwise
from ..ops.update import ACTION, Update
from .extensions import extensions
from .tensor import Tensor

new = object.__new__


class _State(threading.local):
    """Per thread: whether the tape records, whether results are inference tensors (never differentiable), what
    `amp.autocast` casts to.
    """

    grad_enabled = True
    inference = False
    # whether any thread ever entered inference mode, autocast or checkpoint: reading thread-local state would take a
    # twentieth of an op's time
    special = False
    autocast: tuple[tuple[str, DType], ...] = ()  # (device type, dtype)
    examples = 0  # how many calls of `func.vmap` are running, which may walk one graph several times
    checkpointing = False  # whether what runs will be run again in backward, node by node
    acting = False  # whether a schedule's step is run for a recorder, which is not to hear of those in it


state = Tensor._modes = _State()
# Called with (op, inputs, parameters, outputs, in_place) after every op: those with an attribute `thread` for ops of
# that thread, others for all.
listeners: list[Callable] = []


def active_listeners() -> list[Callable]:
    """The listeners that hear this thread.

    Read `listeners` first: while it is empty, as nearly always, ops look no further.
    """
    thread = threading.get_ident()
    return [listener for listener in tuple(listeners) if getattr(listener, "thread", thread) == thread]


def apply(op: Op, inputs: tuple, parameters: tuple = ()) -> Tensor | tuple[Tensor, ...]:
    """The result (or results) of `op` on tensors and Python numbers.

    Raises before the launch where shapes, dtypes or devices do not fit.
    """
    if len(inputs) == 2:  # unrolled for the common numbers of inputs: these lines run for every op
        x, y = inputs
        if isinstance(x, Tensor):
            first, wanted = x._layout, x._requires_grad or (x._base is not None and x.requires_grad)
        else:
            first, wanted = x.__class__, False
        if isinstance(y, Tensor):
            key = (parameters, first, y._layout)
            wanted = wanted or y._requires_grad or (y._base is not None and y.requires_grad)
        else:
            key = parameters, first, y.__class__
    elif len(inputs) == 1:
        (x,) = inputs
        if isinstance(x, Tensor):
            key, wanted = (parameters, x._layout), x._requires_grad or (x._base is not None and x.requires_grad)
        else:
            key, wanted = (parameters, x.__class__), False
    else:
        found, wanted = [parameters], False
        for input in inputs:
            if isinstance(input, Tensor):
                found.append(input._layout)
                wanted = wanted or input._requires_grad or (input._base is not None and input.requires_grad)
            else:
                found.append(input.__class__)
        key = tuple(found)
    plan = op.plans.get(key)
    if plan is None:
        if (known := _resolve_symbolic(op, inputs, parameters)) is not None:
            return apply(op, *known)
        if (device := _common_device(op, key[1:])) is not None:
            return apply(op, _copy_scalars(inputs, device), parameters)
        if op.upcasts_half and _narrow(op, key[1:]) and not op.supports_half(key[1:], parameters):
            return _apply_wide(op, inputs, parameters)
        if _holds_complex(key[1:]) and op.complex_form is not None:
            return op.complex_form(inputs, parameters)
        if _for_examples(key[1:]):
            plan = extensions.plan_batched(op, key[1:], parameters)
        else:
            plan = op.plan(key[1:], parameters)
            plan.run = viewer(plan) if op.is_view else _runner(plan)
        op.remember(key, plan)
    try:
        result = plan.run(inputs)
    except OverflowError:
        return apply(op, _fitting(inputs), parameters)
    if wanted and op.differentiable and state.grad_enabled:
        extensions.record(op, inputs, key[1:], parameters, result)
    # views are what their bases are, everywhere
    if _State.special and (state.inference or (op.is_view and inputs[0]._inference)):
        for each in result if op.outputs else (result,):
            each._inference = not op.is_view or inputs[0]._inference
    if listeners:
        _tell(op, inputs, parameters, result if op.outputs else (result,), False)
    return result


class _Underivable(Op):
    """Stands on the tape for what was computed without it and has no derivative in PyTorch."""

    inputs = ("x",)

    def __init__(self, name: str) -> None:
        super().__init__(name)

        def refuse(g: object) -> None:
            raise NotImplementedError(
                f"the derivative for '{name}' is not implemented; detach() its input where no gradient is needed"
            )

        self.gradients = {"x": refuse}


_underivable = cache(_Underivable)


def without_derivative(name: str, result: Tensor, x: Tensor) -> Tensor:
    """`result`, computed from the values of x: it requires a gradient where x does, and a backward pass to x raises
    NotImplementedError.
    """
    if state.grad_enabled and x.requires_grad:
        extensions.record(_underivable(name), (x,), [x._layout], (), result)
    return result


class _SharedNode(Op):
    """Stands on the tape for results that several ops computed, where PyTorch has one node for both."""

    inputs, outputs = ("first", "second"), ("first", "second")
    gradients = {"first": lambda grads: grads[0], "second": lambda grads: grads[1]}


_shared_node = cache(_SharedNode)


def with_shared_node(name: str, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Two results as those of one node: its prehooks get both gradients."""
    if listeners or not (state.grad_enabled and first.requires_grad and second.requires_grad):
        return first, second  # a recorded program has no nodes: it differentiates its own ops
    results = first._alias(Tensor), second._alias(Tensor)
    extensions.record(_shared_node(name), (first, second), [first._layout, second._layout], (), results)
    return results


def _fitting(inputs: tuple, targets: tuple = ()) -> tuple:
    """Inputs with integers that have 64 bits without a sign, as PyTorch takes them: as floats beside those, and else
    modulo 2**64. Called in the handler of the OverflowError that others are.
    """
    floats = any(isinstance(each, Tensor) and each.dtype.differentiable for each in (*inputs, *targets))
    large = [type(input) is int and 1 << 63 <= input < 1 << 64 for input in inputs]
    if not any(large):
        raise  # noqa: PLE0704
    return tuple(
        [
            (float(input) if floats else input - (1 << 64)) if is_large else input
            for input, is_large in zip(inputs, large)
        ]
    )


def observed(op: Op, inputs: tuple, parameters: tuple) -> float | int:
    """The number that `op` makes of a tensor and numbers, for checks before a launch.

    On a processor, where nobody listens, it never becomes a tensor, which halves the time.
    """
    x, *numbers = inputs
    plan = (
        None if listeners or x._layout.batch is not None else op.plans.get((parameters, x._layout, *map(type, numbers)))
    )
    # a 16-bit float is held as bits
    if plan is None or x._layout.device.type != "cpu" or plan.layout.dtype.compute is not plan.layout.dtype:
        return apply(op, inputs, parameters)._observe()
    found = empty(1, plan.layout.storage)
    plan.launch(x._storage.data[x._offset :] if x._offset else x._storage.data, found, *numbers, *plan.constants)
    return found.item()


def apply_into(op: Op, inputs: tuple, targets: tuple[Tensor, ...], parameters: tuple = ()) -> None:
    """Run `op` and write its results over `targets`, which may be among the inputs. Their versions grow by one."""
    given, target, storage = inputs, targets[0], targets[0]._storage
    wanted, own, apart, layouts = False, None, len(targets) == 1 and not storage.foreign, []
    for k, input in enumerate(inputs):  # all that is asked of inputs in one turn: these lines run for every write
        if isinstance(input, Tensor):
            layouts.append(input._layout)
            wanted = wanted or input._requires_grad or input._base is not None
            if input is target and own is None:
                own = k
            elif input._storage is storage:
                apart = False
        else:
            layouts.append(input.__class__)
    for each in targets:
        extensions.check_write(each)
        wanted = wanted or each._requires_grad or each._base is not None
    if extensions.write_watchers:
        _watch_writes(targets)
    over = (own,)
    if not apart:
        over = tuple([_position(target, inputs) for target in targets])
        same = isinstance(op, (Pointwise, OverComplex))
        inputs = tuple([input if k in over else _apart(input, targets, same) for k, input in enumerate(inputs)])
        layouts = [input._layout if isinstance(input, Tensor) else input.__class__ for input in inputs]
    key = (
        (parameters, over, target._layout, *layouts)
        if len(targets) == 1
        else (parameters, over, *[target._layout for target in targets], *layouts)
    )
    plan = op.plans.get(key)
    if plan is None:
        if (known := _resolve_symbolic(op, given, parameters)) is not None:
            return apply_into(op, known[0], targets, known[1])
        if (device := _common_device(op, layouts, target._layout)) is not None:
            return apply_into(op, _copy_scalars(given, device), targets, parameters)
        if (
            op.upcasts_half
            and _narrow(op, [each._layout for each in (*targets, *given) if isinstance(each, Tensor)])
            and not op.supports_half(tuple(layouts), parameters)
        ):
            return _apply_into_wide(op, given, targets, parameters)
        if _holds_complex((*layouts, targets[0]._layout)) and isinstance(op.complex_form, Op):
            return apply_into(op.complex_form, given, targets, parameters)
        into = tuple([target._layout for target in targets])
        if _for_examples((*layouts, *into)):
            plan = extensions.plan_batched_into(op, (*layouts, *into), parameters)
        else:
            plan = op.plan(layouts, parameters, into, over)
            plan.run = _maker(
                plan.kinds, 0, len(plan.constants), False, tuple([position is None for position in over])
            )(plan.launch, *plan.constants)
        op.remember(key, plan)
    node = None
    if (
        wanted
        and target._layout.dtype.differentiable
        and state.grad_enabled
        and _is_wanted(inputs if op.differentiable else (), targets)
    ):
        # before the write, while the inputs still have their old history
        node = extensions.make_node(op, inputs, layouts, parameters, target)
    try:
        plan.run(inputs, targets)
    except OverflowError:
        return apply_into(op, _fitting(inputs, targets), targets, parameters)
    for each in targets:
        (each._own or each._storage).version += 1
    if node is not None:
        extensions.attach(node, target)
    if listeners:
        _tell(op, inputs, parameters, targets, True)


def _watch_writes(targets: tuple[Tensor, ...]) -> None:
    for watch in tuple(extensions.write_watchers):
        for target in targets:
            watch(target)


def copy_among(copy: Tensor, others: Sequence) -> Tensor:
    """A copy that values of `others` will be written to: if one of them stands for examples of a batch, the copy does
    too.
    """
    batch = max(
        (each._layout.batch for each in (copy, *others) if isinstance(each, Tensor) and each._layout.batch is not None),
        key=lambda each: each.depth,
        default=None,
    )
    return copy if batch is copy._layout.batch else batch.alike(copy)


def _common_device(op: Op, arguments: Sequence, written: Layout | None = None) -> Device | None:
    """The GPU that a call computes on, where a tensor without dimensions is on the CPU; None where all are together.

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
    """The inputs with the CPU's tensors without dimensions copied to a GPU: kernels there cannot read them."""
    return tuple(
        [
            input.to(device) if isinstance(input, Tensor) and not input.ndim and input.device.type == "cpu" else input
            for input in inputs
        ]
    )


def _for_examples(layouts: Sequence) -> bool:
    """Whether one of these tensors stands for each example of a batch."""
    return any(isinstance(layout, Layout) and layout.batch is not None for layout in layouts)


def _resolve_symbolic(op: Op, inputs: tuple, parameters: tuple) -> tuple[tuple, tuple] | None:
    """The arguments of a call some of which stand for numbers while a function is recorded, with these replaced by
    tensors or numbers; None where there are none.
    """
    return (
        (_number(inputs, op, inputs), _number(parameters, op, inputs)) if _is_symbolic((inputs, parameters)) else None
    )


def _is_symbolic(each: object) -> bool:
    """Whether it stands for a number, or is a tuple with what does."""
    return any(map(_is_symbolic, each)) if type(each) is tuple else hasattr(type(each), "__number__")


def as_tensor_of(number: object) -> Tensor | None:
    """The tensor without dimensions, of float64 or int64, of what stands for a number while a function is recorded;
    None for all else, and where there is none.
    """
    made = getattr(type(number), "__tensor__", None)
    return None if made is None else made(number)


def _number(each: object, op: Op, inputs: tuple) -> object:
    """What it stands for in this call."""
    if type(each) is tuple:
        return tuple([_number(one, op, inputs) for one in each])
    return each.__number__(op, inputs) if _is_symbolic(each) else each


def _is_wanted(inputs: tuple, targets: tuple[Tensor, ...]) -> bool:
    """Whether a call needs a node of the tape."""
    for input in inputs:
        if isinstance(input, Tensor) and (input._requires_grad or (input._base is not None and input.requires_grad)):
            return True
    for target in targets:
        if target._requires_grad or (target._base is not None and (target.requires_grad or target._base.requires_grad)):
            return True
    return False


def apply_updates(op: Update, members: list[tuple[Tensor, ...]], numbers: Callable[[], tuple]) -> None:
    """Run an optimizer's step: per member (a parameter with its gradient and state) in place, with the same numbers.

    Small members share launches.

    The short form of `apply_into` for ops that know which inputs they write and are never recorded. A recorded program
    asks for the numbers again at every run.
    """
    values = _asked(numbers) if listeners else numbers()
    for first in range(0, len(members), op.together):
        tensors = [each for member in members[first : first + op.together] for each in member]
        layouts = [tensor._layout for tensor in tensors]
        key = tuple(layouts)
        plan = op.plans.get(key)
        # as in PyTorch's optimizers, the parts are numbers like any others
        if plan is None and _holds_complex(layouts):
            tensors = list(map(extensions.as_pairs, tensors))
            layouts = [tensor._layout for tensor in tensors]
            key = tuple(layouts)
            plan = op.plans.get(key)
        if plan is None:
            plan = op.plan([*layouts, *map(type, values)], (len(layouts) // len(members[0]),), key)
            op.remember(key, plan)
        plan.launch(
            *[tensor._storage.data[tensor._offset :] if tensor._offset else tensor._storage.data for tensor in tensors],
            *values,
            *plan.constants,
        )
        for member in members[first : first + op.together]:
            for k in op.positions:
                (member[k]._own or member[k]._storage).version += 1
    if listeners:
        written = tuple(member[k] for member in members for k in op.positions)
        _tell(op, tuple(each for member in members for each in member), (numbers, len(members), values), written, True)


def _asked(numbers: Callable[[], tuple]) -> tuple:
    """An update's numbers, while listeners know that tensors which are read (rates, say) are read again at every
    run.
    """
    _tell_of("asks", True)
    try:
        return numbers()
    finally:
        _tell_of("asks", False)


def act(owner: object, action: Callable[[], object]) -> None:
    """Run what sets the numbers that updates ask for: a schedule's step.

    A recorded program, told whose it is, runs it again in its place among the updates.
    """
    recorders = (
        []
        if state.acting
        else [active_listener for active_listener in active_listeners() if hasattr(active_listener, "acted")]
    )
    if not recorders:
        action()
        return
    state.acting = True
    try:
        apply_updates(ACTION, [], lambda: (action(), ())[1])
    finally:
        state.acting = False
    for recorder in recorders:
        recorder.acted(owner)


def _holds_complex(arguments: Sequence) -> bool:
    """Whether one of these layouts and number types is complex."""
    return any(
        argument.dtype.is_complex if isinstance(argument, Layout) else argument is complex for argument in arguments
    )


def _narrow(op: Op, layouts: Sequence) -> DType | None:
    """The 16-bit floating dtype of these tensors, if any. Raises RuntimeError where it is mixed with other floats."""
    kinds = {layout.dtype for layout in layouts if isinstance(layout, Layout) and layout.dtype.is_floating_point}
    if all(kind.compute is kind for kind in kinds):
        return None
    if len(kinds) > 1:
        raise RuntimeError(
            f"{op.name}: expected all floating tensors to have the same dtype, but found "
            f"{', '.join(sorted(map(str, kinds)))}; convert with .to()"
        )
    return kinds.pop()


def _widened(inputs: tuple) -> tuple:
    """The inputs with 16-bit floats as float32."""
    return tuple(
        [
            apply(table.copy, (input,), (input.dtype.compute,))
            if isinstance(input, Tensor) and input.dtype.compute is not input.dtype
            else input
            for input in inputs
        ]
    )


def _apply_wide(op: Op, inputs: tuple, parameters: tuple) -> Tensor | tuple[Tensor, ...]:
    """The op in float32, its floating results rounded to the 16-bit dtype of its inputs."""
    dtype = next(
        input.dtype for input in inputs if isinstance(input, Tensor) and input.dtype.compute is not input.dtype
    )
    found = apply(op, _widened(inputs), parameters)
    results = tuple(
        [
            apply(table.copy, (each,), (dtype,)) if each.dtype.is_floating_point else each
            for each in (found if op.outputs else (found,))
        ]
    )
    return results if op.outputs else results[0]


def _apply_into_wide(op: Op, inputs: tuple, targets: tuple[Tensor, ...], parameters: tuple) -> None:
    """The same in place: float32 copies of the targets are written, and copied back."""
    wide = _widened(targets)
    inputs = tuple([next((w for w, target in zip(wide, targets) if target is given), given) for given in inputs])
    apply_into(op, _widened(inputs), wide, parameters)
    for target, each in zip(targets, wide):
        if each is not target:
            apply_into(table.copy, (each,), (target,), (target.dtype,))


def viewer(plan: Plan) -> Callable:
    """The launcher of a view op: a function that returns the view."""
    layout, offset = plan.layout, plan.offset

    def run(inputs: tuple) -> Tensor:
        (source,) = inputs
        result = new(Tensor)
        result._storage, result._layout, result._offset = source._storage, layout, source._offset + offset
        base, own = source._base, source._own
        result._base = source if base is None else base
        if own is None:
            result._seen = source._storage.version
        else:
            result._own, result._seen = own, own.version
        if source._unrecorded or not state.grad_enabled:
            result._unrecorded = source._unrecorded or True
        return result

    return run


def _runner(plan: Plan) -> Callable:
    """A function that allocates the results and launches the kernel."""
    results = plan.layout if isinstance(plan.layout, tuple) else (plan.layout,)
    make = _maker(plan.kinds, len(results), len(plan.constants), isinstance(plan.layout, tuple))
    memory = [
        part
        for result in results
        for part in (
            result,
            result.device.allocator(result.size * result.storage.itemsize),
            result.device.empty,
            result.size,
            result.storage,
        )
    ]
    return make(plan.launch, *plan.constants, new, Tensor, Storage, *memory)


@cache
def _maker(kinds: str, results: int, constants: int, several: bool, into: tuple[bool, ...] | None = None) -> Callable:
    """The factory of such functions, generated for inputs of these `kinds` ("t" a tensor, "n" a number, "-" neither),
    without loops or starred arguments.

    They are called for every op, and this halves its Python overhead. `into`: where results are written to targets
    instead of new tensors, whether each target is an argument of the kernel besides the inputs.
    """
    inputs, targets = [f"x{k}" for k in range(len(kinds))], [f"y{k}" for k in range(len(into or ()))]
    tensors = [x for x, kind in zip(inputs, kinds) if kind == "t"] + [
        y for y, apart in zip(targets, into or ()) if apart
    ]
    buffers = [f"{x}._storage.data[{x}._offset:] if {x}._offset else {x}._storage.data" for x in tensors]
    data, made, fixed = (
        [f"{letter}{k}" for k in range(count)]
        for letter, count in (("data", results), ("result", results), ("c", constants))
    )
    lines = [
        f"{''.join(f'{each}, ' for each in names)}= {source}"
        for names, source in ((inputs, "inputs"), (targets, "targets"))
        if names
    ]
    # a `try` costs nothing until it catches; the second attempt follows after what is kept for later was given back
    for k in range(results):
        lines += [
            "try:",
            f"    data{k} = empty{k}(size{k}, kind{k})",
            "except MemoryError:",
            f"    data{k} = retry{k}(size{k}, kind{k})",
        ]
    lines.append(
        f"launch({', '.join([*buffers, *data, *[x for x, kind in zip(inputs, kinds) if kind == 'n'], *fixed])})"
    )
    for k in range(results):
        lines += [f"result{k} = new(Tensor)", f"result{k}._layout = layout{k}"]
        lines += [f"memory = result{k}._storage = new(Storage)", f"memory.data, memory.version = data{k}, 0"]
    lines.append(f"return {''.join(f'{each}, ' for each in made) if several else ''.join(made)}")
    given = ["launch", *fixed, *(["new", "Tensor", "Storage"] if results else [])]
    given += [f"{name}{k}" for k in range(results) for name in ("layout", "empty", "retry", "size", "kind")]
    space: dict[str, Callable] = {}
    head = f"def make({', '.join(given)}):\n    def run({'inputs' if into is None else 'inputs, targets'}):\n"
    exec(head + "".join(f"        {line}\n" for line in lines) + "    return run", space)
    return space["make"]


def _position(target: Tensor, inputs: tuple) -> int | None:
    """The position of the input that is exactly the memory of `target`."""
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


def _apart(each: object, targets: tuple[Tensor, ...], same: bool) -> object:
    """`each`, copied if it overlaps a target, where a loop would read what it has just written.

    In pointwise ops it may be the target itself (`same`).
    """
    for target in targets:
        if not isinstance(each, Tensor) or (
            same
            and each._offset == target._offset
            and each._layout is target._layout
            and each._storage is target._storage
        ):
            continue
        if each._storage is target._storage:
            if (
                each._offset < target._offset + target._layout.extent
                and target._offset < each._offset + each._layout.extent
            ):
                return each.clone()
        elif (
            each._storage.foreign and target._storage.foreign and share_memory(each._storage.data, target._storage.data)
        ):
            return each.clone()
    return each


def _tell(op: Op, inputs: tuple, parameters: tuple, outputs: tuple, in_place: bool) -> None:
    if outputs and outputs[0]._layout.batch is not None:
        return  # they have heard of the ops that computed it for all examples
    for listener in active_listeners():
        listener(op, inputs, parameters, outputs, in_place)
    if not (in_place or op.is_view):
        _show_other_threads(outputs)


def _show_other_threads(made: tuple) -> None:
    """Show new tensors to recorders on other threads, which must not take them for tensors that existed before."""
    thread = threading.get_ident()
    for listener in tuple(listeners):
        notice = getattr(listener, "notice", None)
        if notice is not None and listener.thread != thread:
            notice(made)


def tell_made(tensor: Tensor, how: str) -> Tensor:
    """Tell listeners (the tracer) of a tensor that no op made: "empty" memory, Python "values", or an "array"."""
    _tell_of("made", tensor, how)
    _show_other_threads((tensor,))
    return tensor


def tell_copied(
    copy: Tensor,
    source: Tensor,
    again: Callable[[], Tensor],
    back: Callable[[], None],
    view: Callable[[], Tensor],
    gaps: bool = False,
) -> Tensor:
    """Tell listeners of a copy that stands for a view of `source`:

    `again` gives its values after a write to that, `back` writes the copy's to it, `view` makes the view. `gaps`: the
    view's elements do not lie side by side, though the copy's do.
    """
    _tell_of("copied", copy, source, again, back, view)
    if gaps:
        _tell_of("has_gaps", copy)
    return copy


def lies_dense(tensor: Tensor) -> bool:
    """Whether the elements lie in row-major order without gaps, or would if the program that is being recorded had
    views of parts of complex numbers.
    """
    if not (tensor._layout.dense and listeners):
        return tensor._layout.dense
    storage = id(tensor._storage)
    return tensor._layout.size < 2 or not any(storage in getattr(listener, "gapped", ()) for listener in listeners)


def tell_overridden(function: str) -> None:
    """Tell listeners that a class or mode takes over a call of this function."""
    _tell_of("overridden", function)


def with_gradients(tensors: Iterable[Tensor]) -> list[Tensor]:
    """The tensors that have a gradient. Listeners are told: what follows depends on which they are."""
    if listeners:
        tensors = list(tensors)
        for tensor in tensors:
            _tell_of("asked_for_gradient", tensor)
    return [tensor for tensor in tensors if tensor._grad is not None]


def tell_dropped(leaf: Tensor) -> None:
    """Tell listeners that the function sets a leaf's gradient to None."""
    _tell_of("dropped", leaf)


def _tell_of(event: str, *things: object) -> None:
    for listener in active_listeners() if listeners else ():
        watch = getattr(listener, event, None)
        if watch is not None:
            watch(*things)


def _compute(op: Pointwise, arguments: tuple) -> Tensor:
    """A pointwise op called as a function. At least one argument must be a tensor."""
    if not (isinstance(arguments[0], Tensor) or any(isinstance(argument, Tensor) for argument in arguments)):
        raise TypeError(
            f"{op.name}(): expected at least one Tensor, got {', '.join(type(each).__name__ for each in arguments)}"
        )
    return apply(op, arguments)


def _enter_child() -> None:
    """After a fork: other threads' listeners hear nothing any more."""
    listeners[:] = active_listeners()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enter_child)
Op.apply = apply
Pointwise.compute, Pointwise.tensor = staticmethod(_compute), Tensor
