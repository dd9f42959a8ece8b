"""The base class of ops: a name, named inputs, a plan per set of layouts, and a gradient per input.

An op plans with layouts and runs on flat buffers; tensors are in `core`. The parameter names of a gradient function say
what it needs, and with that what is saved for backward:

- `g`: the gradient of the result; `grads` for an op of several results (None where a result has no gradient)
- `out`: the result; `outs` or a result's name for an op of several results
- the name of an input or of an attribute: its value
- `layout`: the layout of the input that is differentiated; `layouts`: those of all inputs
- `wanted`: the names of the inputs whose gradients are needed
- `recording`: whether the gradient will itself be differentiated

A saved tensor may not be overwritten before backward. A gradient registered under a tuple of input names returns a
tuple. Gradients of pointwise rows are formulas; those of other ops are written in tensor operations.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from threading import Lock

from .. import dtypes
from ..device import Layout
from ..device.target import Machine
from ..kernel.any_size import for_all_sizes
from ..kernel.expression import parameter_names
from ..weak_values import WeakValues

PLAN_LIMIT = 4096  # plans cached per op; beyond it the table is cleared, which costs only time
_ops: WeakValues[int, Op] = WeakValues()  # by id


def every_op() -> list[Op]:
    """All ops that exist now; other threads may create more."""
    return list(_ops.values())


_era = 0  # incremented when plans are dropped, so that plans made meanwhile by other threads are not cached


_planning = 0  # the number of threads that plan for all sizes
_planning_changes = Lock()


@contextmanager
def planning_for_all_sizes() -> Iterator[None]:
    """A context in which plans are made for all sizes, in this thread. They are cached apart from other plans."""
    token = for_all_sizes.set(True)
    _count_planning(1)
    try:
        yield
    finally:
        _count_planning(-1)
        for_all_sizes.reset(token)


def _count_planning(change: int) -> None:
    """Count threads that plan for all sizes. The first and the last one exchange the tables of all ops."""
    global _planning
    with _planning_changes:
        former, _planning = _planning, _planning + change
        if not former or not _planning:
            _exchange_tables()


def _exchange_tables() -> None:
    for op in every_op():
        op.plans = op.tables if _planning else op.tables.plain


def _enter_child() -> None:
    """After a fork, replace the lock and count anew: threads that do not exist in the child may hold it or plan."""
    global _planning, _planning_changes
    _planning_changes = Lock()
    if _planning and not for_all_sizes.get():
        _planning = 0
        _exchange_tables()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enter_child)


class PlanTables:
    """An op's plans: `plain` ones, and `general` ones for all sizes.

    While a thread plans for all sizes, dispatch reads these tables, and each thread finds the plans of its own mode.
    Otherwise it reads `plain`: a lookup of the mode in every call would slow it down.
    """

    __slots__ = ("plain", "general")

    def __init__(self) -> None:
        self.plain: dict[tuple, Plan] = {}
        self.general: dict[tuple, Plan] = {}

    def table_of_mode(self) -> dict[tuple, Plan]:
        """The table of the thread's mode."""
        return self.general if for_all_sizes.get() else self.plain

    def get(self, key: tuple) -> Plan | None:
        """The plan of a call, or None."""
        return self.table_of_mode().get(key)


def _forget_plans() -> None:
    """Drop all plans when the default dtype changes: result dtypes of integer inputs depend on it."""
    global _era
    _era += 1
    for op in every_op():
        op.forget()


dtypes.on_default_change.append(_forget_plans)


class Plan:
    """How to run an op for one set of layouts.

    `launch(*input buffers, *result buffers, *numbers, *constants)` fills a result of `layout`, which is a tuple of
    layouts for an op of several results. For a view, `launch` is None and `offset` is added. `Op.plan` sets `tensors`
    and `numbers`, the positions of the inputs of either kind, and `kinds`, a letter for each input (see `core.apply`).
    `run` belongs to the dispatch.
    """

    __slots__ = ("layout", "launch", "constants", "offset", "tensors", "numbers", "kinds", "run", "era")

    def __init__(
        self, layout: Layout | tuple[Layout, ...], launch: Callable | None, constants: tuple = (), offset: int = 0
    ) -> None:
        self.layout, self.launch, self.constants, self.offset, self.era = layout, launch, constants, offset, _era

    def sort_arguments(self, arguments: list) -> None:
        """Record which inputs are tensors and which are numbers (None is neither)."""
        self.tensors = tuple(k for k, argument in enumerate(arguments) if isinstance(argument, Layout))
        self.numbers = tuple(
            k for k, argument in enumerate(arguments) if not isinstance(argument, Layout) and argument is not type(None)
        )
        self.kinds = "".join(
            "t" if k in self.tensors else "n" if k in self.numbers else "-" for k in range(len(arguments))
        )


@dataclass(slots=True)
class BackwardPlan:
    """The values that a node saves, and the calls that compute its gradients.

    `saved_names` are the names of the values available to gradients: g, the inputs at `keep`, the results at
    `keep_out`, a tuple of all results if `all_results`, and the attributes, layouts, `wanted` and `recording` if
    `needs_attributes`. A call is (input position or positions, function, getter of its arguments from the values).
    """

    keep: list[int]
    keep_out: tuple[int, ...]
    all_results: bool
    needs_attributes: bool
    calls: list[tuple[int | tuple[int, ...], Callable, Callable]]
    wanted: tuple[str, ...]
    saved_names: list
    # calls and `wanted` for subsets of the inputs
    subsets: dict[tuple[int, ...], tuple[list, tuple[str, ...]]]


@dataclass(frozen=True)
class Packing:
    """How to pack an input ahead of time.

    `op` with `attributes` packs the input at `position`; `product` is the op that takes the packed input as its last
    one. `portable`: whether every processor would pack the input, and in the same format. `exported`: the packing for
    programs that may run on other processors, where this one depends on what this processor does best.
    `needs_vectors`: whether kernels for processors without vector registers read the input where it is.
    """

    position: int
    op: Op
    attributes: tuple
    product: Op
    portable: bool = False
    exported: Packing | None = None
    needs_vectors: bool = False


def argument_names(function: Callable) -> tuple[str, ...]:
    """The names of a gradient function's arguments: its parameters, or its attribute `argument_names`."""
    names = getattr(function, "argument_names", None)
    return parameter_names(function) if names is None else names


def no_derivative(name: str) -> None:
    """Raise NotImplementedError for the derivative of a gradient."""
    raise NotImplementedError(
        f"the derivative of the gradient of {name} is not implemented; differentiate it once, without create_graph"
    )


def nothing_to_do(*buffers: object) -> None:
    """The launch of an op on a device without memory."""


class Op:
    """Base of all ops. Subclasses set `inputs`, `attributes` and `gradients` and implement `prepare`."""

    inputs: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()  # names of the results, if there are several
    # the number of leading results that are differentiable; None: all results of a floating dtype
    results_with_gradient: int | None = None
    gradients: dict = {}
    # gradients of several inputs at once, used instead of `gradients` if exactly these inputs require one
    joint: dict[tuple[str, ...], Callable] = {}
    apply: Callable  # (inputs, attributes): runs the op on tensors; set by `core.apply`
    # (inputs, attributes): computes the op for complex tensors, if its kernels do not or its gradients differ there
    complex_form: Callable | None = None
    is_view = False
    # whether 16-bit floats are converted to float32 first; false if the op's kernels read or only move them
    upcasts_half = True
    differentiable = True
    wide_unsigned = False  # whether the op takes tensors of uint16, uint32 and uint64, which few ops of PyTorch do
    reusable = False  # whether a backward pass keeps the saved values
    reports = False  # true for ops that raise or warn: they run although nothing reads their result
    # whether the eager function may repeat a host call that raised: false for calls in which other processes take part
    repeatable = True
    portable = True  # false for ops on memory packed for this processor, which cannot be saved to files
    # inputs and attributes in the notation of `contract`; programs from files are checked against it
    takes: str | None = None

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "parameters" in cls.__dict__:  # its former name
            raise TypeError(f"{cls.__name__}: ops have `attributes`, not `parameters`; rename it")

    def __init__(self, name: str) -> None:
        self.name = name
        self.tables = PlanTables()
        self.plans: dict[tuple, Plan] | PlanTables  # what dispatch reads
        with _planning_changes:
            self.plans = self.tables if _planning else self.tables.plain
            _ops[id(self)] = self
        self.backward_plans: dict[tuple[int, int], BackwardPlan] = {}

    def __deepcopy__(self, memo: dict) -> Op:
        """The op itself, as for a function: a copy is not in `every_op`, and its plans would never be dropped."""
        return self

    def supports_half(self, arguments: tuple, attributes: tuple) -> bool:
        """Whether the op's kernels read these 16-bit floats, although `upcasts_half` is true."""
        return False

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        """The plan for inputs described by `arguments`: a Layout for a tensor, a type for a number."""
        raise TypeError(f"{self.name} overwrites tensors; it returns no result")

    def prepare_into(
        self, arguments: tuple, attributes: tuple, into: tuple[Layout, ...], over: tuple[int | None, ...]
    ) -> Plan:
        """The plan that writes to existing tensors of layouts `into`; `over`: the position of the input that each of
        them is, or None.
        """
        raise TypeError(f"{self.name} has no in-place form; assign its result instead")

    def with_epilogue(
        self,
        name: str,
        arguments: tuple,
        attributes: tuple,
        loop: object,
        product: str,
        shape: tuple,
        tensors: list[Layout],
    ) -> Callable | None:
        """A launcher with `loop` (a `writer.Loop`) fused as an epilogue; None if no kernel supports it.

        It takes the op's buffers, the result buffers, a list of further arrays and a list of numbers. `loop` runs over
        `shape`; its input `product` is the op's result, `tensors` are its other inputs.
        """
        return None

    def prepack(self, arguments: tuple, attributes: tuple) -> Packing | None:
        """How to pack an input that is constant across calls; None if that gains nothing."""
        return None

    def packing_attributes(self, weight: Layout, attributes: tuple, machine: Machine) -> tuple:
        """The attributes of the op that packs this product's weight here, as kernels of another machine read it."""
        raise NotImplementedError(f"{self.name}: packed weights of {machine.processor} cannot be computed here")

    def plan(self, arguments: list, attributes: tuple, into: tuple = (), over: tuple = ()) -> Plan:
        """Prepare and complete a plan."""
        arguments, era = tuple(arguments), _era
        if not self.wide_unsigned:
            for argument in (*arguments, *into):
                if isinstance(argument, Layout):
                    self.refuse_wide_unsigned(argument.dtype)
        plan = self.prepare_into(arguments, attributes, into, over) if into else self.prepare(arguments, attributes)
        plan.era = era
        plan.sort_arguments(arguments)
        devices = (*attributes, *[getattr(argument, "device", None) for argument in arguments])
        if not all(getattr(device, "has_memory", True) for device in devices):
            plan.launch = None if plan.launch is None else nothing_to_do
        return plan

    def refuse_wide_unsigned(self, dtype: dtypes.dtype) -> None:
        """Raise NotImplementedError for uint16, uint32 and uint64."""
        if dtype.kind == "w":
            raise NotImplementedError(
                f"\"{self.name}\" not implemented for '{dtype.short}'; convert first, for example with .to(numod.int64)"
            )

    def remember(self, key: tuple, plan: Plan) -> None:
        """Cache a complete plan: another thread may run it immediately."""
        plans = self.tables.table_of_mode()
        if len(plans) >= PLAN_LIMIT:
            plans.clear()
        if plan.era == _era:
            plans[key] = plan

    def forget(self, key: tuple | None = None) -> None:
        """Drop a cached plan, or all."""
        for plans in (self.tables.plain, self.tables.general):
            if key is None:
                plans.clear()
            else:
                plans.pop(key, None)

    def cached_plans(self) -> list[Plan]:
        """All cached plans."""
        return [*self.tables.plain.values(), *self.tables.general.values()]

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """The error of a call that fits `takes`, whose names have these `sizes`; None if the call is valid."""
        return None

    def further_limits(self, arguments: tuple, attributes: tuple, sizes: dict) -> dict[int, int | tuple[int, int]]:
        """Upper limits (exclusive) of the values of index inputs, by position, that `takes` cannot express. In a pair
        (limit, value), `value` is allowed too.
        """
        return {}

    def known_values(self, attributes: tuple) -> dict[int, tuple[int, ...]]:
        """The values of inputs, by position, that attributes determine."""
        return {}

    def gradient_of(self, position: int) -> Callable | None:
        """The gradient function of an input, or None."""
        return self.gradients.get(self.inputs[position])

    def has_gradient(self, position: int) -> bool:
        """Whether an input has a gradient, alone or jointly with others."""
        return self.gradient_of(position) is not None or any(
            isinstance(names, tuple) and self.inputs[position] in names for names in self.gradients
        )

    def backward_plan(self, wanted: int, count: int) -> BackwardPlan:
        """The backward plan for the gradients of the wanted inputs (a bit mask)."""
        plan = self.backward_plans[wanted, count] = self._backward_plan(
            [k for k in range(count) if wanted >> k & 1], count
        )
        return plan

    def narrowed(self, plan: BackwardPlan, positions: tuple[int, ...]) -> tuple[list, tuple[str, ...]]:
        """(calls, `wanted`) of a plan for the inputs at `positions` only; all calls if they need unsaved values."""
        subset = plan.subsets.get(positions)
        if subset is None:
            calls = self._calls(list(positions)) if self.inputs else []
            if calls and all(
                name in plan.saved_names or name == "layout" and plan.needs_attributes
                for _, _, names in calls
                for name in names
            ):
                subset = (
                    [(k, function, _getter(plan.saved_names, k, names)) for k, function, names in calls],
                    tuple([name for name in plan.wanted if self.inputs.index(name) in positions]),
                )
            else:
                subset = plan.calls, plan.wanted
            plan.subsets[positions] = subset
        return subset

    def _backward_plan(self, wanted: list[int], count: int) -> BackwardPlan:
        return self._plan_of_calls(self._calls(wanted), wanted, count)

    def _calls(self, wanted: list[int]) -> list[tuple]:
        """(position or positions, function, names of its arguments) of the gradients of these inputs."""
        joint = self.joint.get(tuple([self.inputs[k] for k in wanted]) if self.joint else ())
        if joint is not None:
            return [(tuple(wanted), joint, argument_names(joint))]
        calls = [
            (k, function, argument_names(function)) for k in wanted if (function := self.gradient_of(k)) is not None
        ]
        for names, function in self.gradients.items():
            if isinstance(names, tuple) and any(self.inputs[k] in names for k in wanted):
                calls.append((tuple(map(self.inputs.index, names)), function, argument_names(function)))
        return calls

    def _plan_of_calls(self, calls: list[tuple], wanted: list[int], count: int) -> BackwardPlan:
        """The backward plan of these (positions, gradient function, argument names) for the `wanted` inputs."""
        needed = [name for _, _, names in calls for name in names]
        keep = [k for k, name in enumerate(self.inputs) if name in needed]
        results = self.outputs or ("out",)
        keep_out = tuple(k for k, name in enumerate(results) if name in needed or "outs" in needed)
        saved_names = [
            "grads" if self.outputs else "g",
            *(self.inputs[k] for k in keep),
            *(results[k] for k in keep_out),
            *(["outs"] if "outs" in needed else []),
        ]
        needs_attributes = any(name not in saved_names for name in needed)
        saved_names += [*self.attributes, *range(count), "layouts", "wanted", "recording"] if needs_attributes else []
        names_wanted = tuple(self.inputs[k] for k in wanted) if self.inputs else ()
        return BackwardPlan(
            keep,
            keep_out,
            "outs" in needed,
            needs_attributes,
            [(k, function, _getter(saved_names, k, names)) for k, function, names in calls],
            names_wanted,
            saved_names,
            {},
        )

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def _getter(saved_names: list, position: int | tuple, names: tuple) -> Callable:
    """A function that selects a gradient's arguments from the values named `saved_names`."""
    indices = [saved_names.index(position if name == "layout" else name) for name in names]
    return itemgetter(*indices) if len(indices) > 1 else lambda values: (values[indices[0]],)


def on_tensor_cores(arguments: tuple) -> bool:
    """Whether tensor cores of a GPU compute products of these 16-bit floats."""
    return arguments[0].device.type == "cuda" and arguments[0].device.backend.tensor_cores()


def single_device(name: str, layouts: list[Layout], written: Layout | None = None) -> object:
    """The common device of all tensors. Zero-dimensional CPU tensors that are not `written` go with any device.

    Raises RuntimeError, in PyTorch's words, if devices differ.
    """
    device = None if written is None else written.device
    for layout in layouts:
        if device is None or (
            written is None and device.type == "cpu" and layout.device is not device and _all_scalars(layouts, device)
        ):
            device = layout.device
        elif layout.device is not device and not (layout.ndim == 0 and layout.device.type == "cpu"):
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {device} and "
                f"{layout.device}! (in {name}; move one with .to())"
            )
    return device


def _all_scalars(layouts: list[Layout], device: object) -> bool:
    return all(layout.ndim == 0 for layout in layouts if layout.device is device)
