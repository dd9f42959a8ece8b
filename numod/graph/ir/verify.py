"""Checks that a program is well formed, for tests of passes and for programs loaded from a file. It executes nothing.

Each step must fit its op's contract (`ops.contract`), each view the memory of its base, each result the layout that its
op plans. The values of indices are known only at run time: `bounds` adds steps that check them.
"""

from __future__ import annotations

from typing import Any

from ...core.create.generator import Draw
from ...core.convert.transfer import Move
from ...device import Layout
from ...dtypes import float64
from ...device.layout import same_elements
from ...kernel import bind
from ...ops import contract
from ...ops.op import Op
from ...ops.pointwise import OverComplex, Pointwise
from ...ops.update import Update
from .alias_analysis import prepare_arguments
from .program import EMPTY, Check, Program, Step, Value, name, numbers_of
from ..values.pytree import replace

_Extent = tuple[int, int]  # (offset of a value in its base's memory, number of elements of this memory)


def verify(program: Program) -> Program:
    """Check a program and return it.

    Raises ValueError with the step's number if a value is used before its definition, defined twice, or differs from
    the layout that its op plans, or if a step does not fit its op.
    """
    with bind.unbuilt():  # only the plans' layouts are needed: compile no kernels
        return _verified(program)


def _verified(program: Program) -> Program:
    """The program. Raises if it is not well-formed."""
    defined = {*program.inputs, *program.held}
    _check_ends(program, defined)
    extents = _initial_extents(program)
    for number, step in enumerate(program.steps):
        label = f"step {number}"
        if isinstance(step, Check):
            _expect(step.value in defined, f"{label} checks {name(step.value)}, which is not defined yet")
            _expect(
                program.layouts[step.value].size == 1, f"{label} checks {name(step.value)}, which must have one element"
            )
            continue
        label += f" ({step.op.name})"
        _check_values(program, step, defined, label)
        _check_step(program, step, label)
        _check_extents(program, step, extents, label)
        defined.update(step.results)
    for leaf, gradient in program.gradients.items():
        _expect(
            leaf in defined and (gradient is None or gradient in defined),
            f"the gradient {name(gradient)} of {name(leaf)} is not defined",
        )
        fits = gradient is None or _kind_of(program.layouts[leaf]) == _kind_of(program.layouts[gradient])
        _expect(fits, f"the gradient {name(gradient)} of {name(leaf)} has another shape or dtype")
    replace(
        program.outputs,
        lambda result: _expect(
            not issubclass(type(result), Value) or result in defined, f"the result {name(result)} is not defined"
        ),
    )
    return program


def arguments_of(step: Step, layouts: dict[Value, Layout]) -> list:
    """A step's inputs as arguments of its contract: layouts, and numbers (0 for random draws)."""
    return [
        layouts[input] if isinstance(input, Value) else 0 if isinstance(input, Draw) else input for input in step.inputs
    ]


def _check_ends(program: Program, defined: set[Value]) -> None:
    """Check inputs and held tensors."""
    _expect(
        len(defined) == len(program.inputs) + len(program.held), "a value is listed twice among inputs and held tensors"
    )
    _expect(all(value in program.layouts for value in defined), "an input or held tensor has no layout")
    shared = program.shared
    _expect(not shared or len(shared) == len(program.inputs), "`shared` must have one entry per input")
    _expect(
        all(0 <= first <= number and shared[first] == first for number, first in enumerate(shared)),
        "an input shares memory with an undefined input",
    )
    for value, tensor in program.held.items():
        _expect(
            program.layouts[value] is tensor._layout,
            f"the layout of the held tensor {name(value)} differs from the program's",
        )


def _initial_extents(program: Program) -> dict[Value, _Extent]:
    """The extents of inputs, whose memory is assumed to have only their own elements, and of held tensors."""
    extents = {input: (0, program.layouts[input].extent) for input in program.inputs}
    return {**extents, **{value: (tensor._offset, len(tensor._storage.data)) for value, tensor in program.held.items()}}


def _check_values(program: Program, step: Step, defined: set[Value], label: str) -> None:
    """Check that a step's inputs are defined, and that its results are not, unless it writes in place."""
    for k, input in enumerate(step.inputs):
        _expect(
            not isinstance(input, Value) or input in defined, f"{label} uses {name(input)}, which is not defined yet"
        )
        if isinstance(input, Draw):
            _expect(k and type(step.inputs[k - 1]) is int, f"{label} draws an offset without a seed before it")
    _expect(len(set(step.results)) == len(step.results), f"{label} defines a value twice")
    for result in step.results:
        verb, state = ("overwrites", "not defined") if step.in_place else ("defines", "already defined")
        _expect((result in defined) is step.in_place, f"{label} {verb} {name(result)}, which is {state}")
        _expect(result in program.layouts, f"{label}: {name(result)} has no layout")


def _check_step(program: Program, step: Step, label: str) -> None:
    """Check that a step fits its op, and that its results have the layouts that the op plans."""
    layouts = [program.layouts[result] for result in step.results]
    if step.op is EMPTY:
        fits = not step.in_place and not step.inputs and not step.attributes and len(layouts) == 1 and layouts[0].dense
        return _expect(fits, f"{label} must have no inputs and one dense result")
    if isinstance(step.op, Update) and step.attributes[:1] == (None,):
        return _check_update(program, step, label)
    if isinstance(step.op, (Move, Update)) or not isinstance(step.op, Op):
        return None
    if step.op.takes is not None:
        try:
            contract.check(step.op, arguments_of(step, program.layouts), step.attributes)
        except ValueError as problem:
            raise ValueError(f"{label}: {problem}") from None
    if step.in_place:
        return _check_write(program, step, layouts, label)
    planned: Any = step.op.prepare(prepare_arguments(step, program.layouts), step.attributes).layout
    planned = planned if isinstance(planned, tuple) else (planned,)
    _expect(len(planned) == len(layouts), f"{label} has {len(planned)} results, not {len(layouts)}")
    for value, actual, layout in zip(step.results, layouts, planned):
        _expect(  # a program for many sizes states other strides where a size is 1
            same_elements(actual, layout),
            f"{label}: {name(value)} is {actual.dtype} {tuple(actual.shape)}, but its op plans {layout.dtype} "
            f"{tuple(layout.shape)}",
        )
    return None


def _check_write(program: Program, step: Step, targets: list[Layout], label: str) -> None:
    """Check an in-place step. Pointwise ops can overwrite any input, others only the first."""
    over = tuple([next((k for k, input in enumerate(step.inputs) if input == target), None) for target in step.results])
    _expect(
        len(over) == 1 and (isinstance(step.op, Pointwise | OverComplex) or over == (0,)),
        f"{label} overwrites a value that is not its first input",
    )
    step.op.prepare_into(prepare_arguments(step, program.layouts), step.attributes, tuple(targets), over)


def _check_update(program: Program, step: Step, label: str) -> None:
    """Check an optimizer step whose numbers are among its inputs."""
    shape = "its attributes must be (None, the count of its members, a tuple with 0.0 for each of its numbers)"
    _expect(len(step.attributes) == 3, f"{label}: {shape}")
    _, count, kinds = step.attributes
    _expect(type(count) is int and count > 0 and type(kinds) is tuple, f"{label}: {shape}")
    size = len(step.op.inputs) - len(kinds)
    _expect(set(map(type, kinds)) <= {float} and 0 < size and max(step.op.positions) < size, f"{label}: {shape}")
    _expect(len(step.inputs) == count * size + len(kinds), f"{label} takes {count * size + len(kinds)} inputs")
    members = step.inputs[: count * size]
    _expect(all(isinstance(member, Value) for member in members), f"{label} updates something that is not a tensor")
    for number in numbers_of(step):
        layout = program.layouts[number] if isinstance(number, Value) else None
        fits = type(number) is float if layout is None else layout.size == 1 and layout.dtype is float64
        _expect(fits, f"{label} takes a number that is neither a float nor a float64 tensor of one element")
    written = tuple([members[k * size + position] for k in range(count) for position in step.op.positions])
    _expect(step.in_place and step.results == written, f"{label} writes over other values than it updates")
    for first in range(0, count, step.op.together):
        last = min(first + step.op.together, count)
        layouts = tuple([program.layouts[member] for member in members[first * size : last * size]])
        _expect(not any(layout.dtype.is_complex for layout in layouts), f"{label} updates complex numbers")
        step.op.prepare_into((*layouts, *map(type, kinds)), (len(layouts) // size,), layouts, ())


def _check_extents(program: Program, step: Step, extents: dict[Value, _Extent], label: str) -> None:
    """Record the extents of results. Check that views lie within the memory of their base."""
    if not step.op.is_view:
        extents.update({result: (0, program.layouts[result].extent) for result in step.results if not step.in_place})
        return
    (source,), (result,) = step.inputs, step.results
    plan, (begin, size) = step.op.prepare((program.layouts[source],), step.attributes), extents[source]
    begin += plan.offset
    end = begin + plan.layout.extent
    _expect(
        not plan.layout.size or (begin >= 0 and end <= size),
        f"{label} makes a view of elements {begin} to {end} of {size}",
    )
    extents[result] = begin, size


def _kind_of(layout: Layout) -> tuple:
    return layout.shape, layout.dtype, layout.device


def _expect(condition: object, message: str) -> None:
    if not condition:
        raise ValueError(f"not a well-formed program: {message}")
