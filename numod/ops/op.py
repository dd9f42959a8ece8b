"""The base class of ops: a name, named inputs, a plan per set of layouts, and a gradient per input.

Tensors are in `core`.

An op plans with layouts and runs on flat buffers. Its gradients are functions whose parameter names say what must be
saved for backward: `g` the gradient of the result, `out` the result, an input's name the input, a parameter's name the
parameter, `layout` the layout of the input the gradient is for, `layouts` those of all inputs. An op of several results
has `grads` (None where no gradient came) instead of g, and result by its name (or all as `outs`): what is named is
kept, and may not be written to before backward. A gradient listed under several inputs' names gives a tuple, one for
each; where it asks for `wanted` it is told whose are needed. `recording` tells whether the gradient will itself be
differentiated. Those of a pointwise row are formulas; those of other ops are written in tensor operations, whichever
tensor class calls them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from weakref import WeakValueDictionary

from .. import dtypes
from ..device import Layout
from ..kernel.expression import parameter_names

PLAN_LIMIT = 4096  # plans cached per op; beyond it the table is cleared, which costs only time
_ops: WeakValueDictionary[int, Op] = WeakValueDictionary()


def every_op() -> list[Op]:
    """All ops there are now: other threads may make more."""
    return [op for valueref in _ops.valuerefs() if (op := valueref()) is not None]


_era = 0  # grows when plans are dropped: what another thread plans meanwhile is not kept


def _forget_plans() -> None:
    """Drop all plans when the default dtype changes: result dtypes of integer inputs depend on it."""
    global _era
    _era += 1
    for op in every_op():
        op.plans.clear()


dtypes.on_default_change.append(_forget_plans)


class Plan:
    """How to run an op for one set of layouts:

    `launch(*input buffers, *result buffers, *numbers, *constants)` fills a result of `layout`.

    An op of several results gives a tuple of layouts. For a view, `launch` is None and `offset` is added. `Op.plan`
    adds `tensors` and `numbers`, the positions of the inputs of either kind (`kinds`: a letter for each, see
    `core.apply`); `run` is the waist's.
    """

    __slots__ = ("layout", "launch", "constants", "offset", "tensors", "numbers", "kinds", "run", "era")

    def __init__(
        self, layout: Layout | tuple[Layout, ...], launch: Callable | None, constants: tuple = (), offset: int = 0
    ) -> None:
        self.layout, self.launch, self.constants, self.offset, self.era = layout, launch, constants, offset, _era

    def place(self, arguments: list) -> None:
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
    """What a node saves, and how it calls its gradients:

    (input position or positions, function, a getter of its arguments from the node's pool).

    The pool is [g, *kept inputs], then the results numbered in `keep_out` (and all of them as a tuple where `outs` is
    asked for), then for `wide` recipes *parameters, *layouts, the list of layouts, `wanted` and `recording`.
    """

    keep: list[int]
    keep_out: tuple[int, ...]
    together: bool
    wide: bool
    calls: list[tuple[int | tuple[int, ...], Callable, Callable]]
    wanted: tuple[str, ...]
    pool: list
    # calls and `wanted` where the gradients of fewer inputs are asked for
    narrowed: dict[tuple[int, ...], tuple[list, tuple[str, ...]]]


@dataclass(frozen=True)
class Packing:
    """An input packed before:

    `op` with `parameters` packs the input at `position`, and `product` is the op that takes it, after its other inputs.
    """

    position: int
    op: Op
    parameters: tuple
    product: Op


def argument_names(function: Callable) -> tuple[str, ...]:
    """The names of a gradient function's arguments: its parameters, or its attribute `argument_names`."""
    named = getattr(function, "argument_names", None)
    return parameter_names(function) if named is None else named


def no_derivative(name: str) -> None:
    """Refuses the derivative of a gradient."""
    raise NotImplementedError(
        f"the derivative of the gradient of {name} is not implemented; differentiate it once, without create_graph"
    )


def nothing_to_do(*buffers: object) -> None:
    """The launch of an op on the device `meta`, where there is nothing to compute."""


class Op:
    """Base of all ops. Subclasses set `inputs`, `parameters` and `gradients` and implement `prepare`."""

    inputs: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()  # names of the results, if there are several
    # so many of them, the first ones, are the user's to differentiate; None: all of floating dtype
    results_with_gradient: int | None = None
    gradients: dict = {}
    # joint gradients of several inputs, used instead of `gradients` if exactly these inputs require one
    joint: dict[tuple[str, ...], Callable] = {}
    apply: Callable  # (inputs, parameters): runs the op on tensors; set by `core.apply`
    # (inputs, parameters): computes it of complex tensors, where its own kernels do not, or have other gradients there
    complex_form: Callable | None = None
    is_view = False
    # whether 16-bit floats are converted to float32 first; false if the op's kernels read them, or only move them
    upcasts_half = True
    differentiable = True
    reusable = False  # whether a backward pass keeps what the op saved, which is not the user's
    reports = False  # true for ops that tell of what they find wrong: they run though nothing reads their result
    portable = True  # false for ops on memory packed for this processor, which files do not hold
    # its inputs and attributes in the notation of `contract`: programs from files are checked against it
    takes: str | None = None

    def __init__(self, name: str) -> None:
        self.name = name
        self.plans: dict[tuple, Plan] = {}
        _ops[id(self)] = self
        self.recipes: dict[tuple[int, int], BackwardPlan] = {}

    def supports_half(self, arguments: tuple, parameters: tuple) -> bool:
        """Whether the op's kernels read these 16-bit floats, though it widens others."""
        return False

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        """The plan for inputs described by `arguments`: a Layout for a tensor, a type for a number."""
        raise TypeError(f"{self.name} writes over tensors; it has no results of its own")

    def prepare_into(
        self, arguments: tuple, parameters: tuple, into: tuple[Layout, ...], over: tuple[int | None, ...]
    ) -> Plan:
        """The plan that writes to existing tensors:

        `into` their layouts, `over` the position of the input each of them is, if any.
        """
        raise TypeError(f"{self.name} has no in-place form; assign its result instead")

    def finished(
        self,
        name: str,
        arguments: tuple,
        parameters: tuple,
        loop: object,
        product: str,
        shape: tuple,
        tensors: list[Layout],
    ) -> Callable | None:
        """A launcher (op's buffers, result buffers, list of further arrays, list of numbers) with `loop` fused as an
        epilogue; None if no kernel supports it.

        The op's result is the input `product` of `loop` (an `writer.Loop`), which is over `shape`; `tensors` are its
        other inputs.
        """
        return None

    def prepack(self, arguments: tuple, parameters: tuple) -> Packing | None:
        """How the op takes an input that stays the same from call to call; None where packing it first gains
        nothing.
        """
        return None

    def plan(self, arguments: list, parameters: tuple, into: tuple = (), over: tuple = ()) -> Plan:
        """Prepare and complete a plan."""
        arguments, era = tuple(arguments), _era
        plan = self.prepare_into(arguments, parameters, into, over) if into else self.prepare(arguments, parameters)
        plan.era = era
        plan.place(arguments)
        if any(
            getattr(each, "type", None) == "meta"
            for each in (*parameters, *[getattr(argument, "device", None) for argument in arguments])
        ):
            plan.launch = None if plan.launch is None else nothing_to_do
        return plan

    def remember(self, key: tuple, plan: Plan) -> None:
        """Cache a complete plan: another thread may run it immediately."""
        if len(self.plans) >= PLAN_LIMIT:
            self.plans.clear()
        if plan.era == _era:
            self.plans[key] = plan

    def misfit(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """What is wrong with a call that fits the notation of `takes`, whose names have these `sizes`; None if nothing
        is.
        """
        return None

    def further_limits(self, arguments: tuple, parameters: tuple, sizes: dict) -> dict[int, int | tuple[int, int]]:
        """For inputs, by position, what their values must be below, where `takes` cannot say it; with a second number
        that they may be as well.
        """
        return {}

    def known_values(self, parameters: tuple) -> dict[int, tuple[int, ...]]:
        """For inputs, by position, the values that they must have, where attributes tell the same."""
        return {}

    def gradient_of(self, position: int) -> Callable | None:
        """The gradient function of an input, or None."""
        return self.gradients.get(self.inputs[position])

    def has_gradient(self, position: int) -> bool:
        """Whether there is a gradient of an input, of its own or with others."""
        return self.gradient_of(position) is not None or any(
            isinstance(names, tuple) and self.inputs[position] in names for names in self.gradients
        )

    def recipe(self, wanted: int, count: int) -> BackwardPlan:
        """The recipe for the gradients of the wanted inputs (a bit mask)."""
        found = self.recipes[wanted, count] = self._recipe([k for k in range(count) if wanted >> k & 1], count)
        return found

    def fewer(self, recipe: BackwardPlan, asked: tuple[int, ...]) -> tuple[list, tuple[str, ...]]:
        """The calls of a recipe, and the names of inputs, that the gradients of the inputs at these positions take,
        from what the recipe keeps: a walk to some tensors needs no others.
        """
        found = recipe.narrowed.get(asked)
        if found is None:
            calls = self._calls(list(asked)) if self.inputs else []
            if calls and all(
                name in recipe.pool or name == "layout" and recipe.wide for _, _, names in calls for name in names
            ):
                found = (
                    [(k, function, _getter(recipe.pool, k, names)) for k, function, names in calls],
                    tuple([name for name in recipe.wanted if self.inputs.index(name) in asked]),
                )
            else:
                found = recipe.calls, recipe.wanted
            recipe.narrowed[asked] = found
        return found

    def _recipe(self, wanted: list[int], count: int) -> BackwardPlan:
        return self._recipe_of(self._calls(wanted), wanted, count)

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

    def _recipe_of(self, calls: list[tuple], wanted: list[int], count: int) -> BackwardPlan:
        asked = [name for _, _, names in calls for name in names]
        keep = [k for k, name in enumerate(self.inputs) if name in asked]
        results = self.outputs or ("out",)
        kept_results = tuple(k for k, name in enumerate(results) if name in asked or "outs" in asked)
        pool = [
            "grads" if self.outputs else "g",
            *(self.inputs[k] for k in keep),
            *(results[k] for k in kept_results),
            *(["outs"] if "outs" in asked else []),
        ]
        wide = any(name not in pool for name in asked)
        pool += [*self.parameters, *range(count), "layouts", "wanted", "recording"] if wide else []
        names_wanted = tuple(self.inputs[k] for k in wanted) if self.inputs else ()
        return BackwardPlan(
            keep,
            kept_results,
            "outs" in asked,
            wide,
            [(k, function, _getter(pool, k, names)) for k, function, names in calls],
            names_wanted,
            pool,
            {},
        )

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def _getter(pool: list, position: int | tuple, names: tuple) -> Callable:
    """What takes a gradient's arguments from a node's pool."""
    places = [pool.index(position if name == "layout" else name) for name in names]
    return itemgetter(*places) if len(places) > 1 else lambda values: (values[places[0]],)


def on_tensor_cores(arguments: tuple) -> bool:
    """Whether products of these 16-bit floats are made by a GPU's tensor cores."""
    return arguments[0].device.type == "cuda" and arguments[0].device.backend.tensor_cores()


def single_device(name: str, layouts: list[Layout], written: Layout | None = None) -> object:
    """The common device of all tensors; zero-dimensional CPU tensors that are not `written` go with any.

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
