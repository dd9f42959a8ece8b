"""Checks that a program is well formed, for passes and for programs loaded from a file. It executes nothing.

Each step must fit its op's contract (`ops.contract`), each view the memory it is a view of, each result the layout that
its op plans. Which values indices have is known at run time only: `bounds` adds the steps that check them.
"""

from __future__ import annotations

from typing import Any

from ...core.create.random import Draw
from ...core.convert.transfer import Move
from ...device import Layout
from ...dtypes import float64
from ...device.layout import same
from ...kernel import bind
from ...ops import contract
from ...ops.op import Op
from ...ops.pointwise import OverComplex, Pointwise
from ...ops.update import Update
from .alias_analysis import described
from .program import EMPTY, Check, Program, Step, Value, name, numbers_of
from ..values.pytree import replace

_Room = tuple[int, int]  # where a value begins in the memory it is a view of, and how many elements that has


def verify(program: Program) -> Program:
    """Return the program.

    Raises ValueError, naming the step, if a value is used before its definition, defined twice, or has another layout
    than its op plans, and if a step does not fit its op.
    """
    with bind.unbuilt():  # plans are made for their layouts: no kernel is compiled
        return _verified(program)


def _verified(program: Program) -> Program:
    known = {*program.inputs, *program.held}
    _check_ends(program, known)
    rooms = _first_rooms(program)
    for number, step in enumerate(program.steps):
        place = f"step {number}"
        if isinstance(step, Check):
            _expect(step.value in known, f"{place} checks {name(step.value)}, which is not there yet")
            _expect(
                program.layouts[step.value].size == 1, f"{place} checks {name(step.value)}, which has not one element"
            )
            continue
        place += f" ({step.op.name})"
        _check_values(program, step, known, place)
        _check_step(program, step, place)
        _check_rooms(program, step, rooms, place)
        known.update(step.results)
    for leaf, gradient in program.gradients.items():
        _expect(
            leaf in known and (gradient is None or gradient in known),
            f"the gradient {name(gradient)} of {name(leaf)} is not there",
        )
        fits = gradient is None or _kind_of(program.layouts[leaf]) == _kind_of(program.layouts[gradient])
        _expect(fits, f"the gradient {name(gradient)} of {name(leaf)} has another shape or dtype")
    replace(
        program.outputs,
        lambda each: _expect(
            not issubclass(type(each), Value) or each in known, f"the result {name(each)} is not there"
        ),
    )
    return program


def arguments_of(step: Step, layouts: dict[Value, Layout]) -> list:
    """A step's inputs as contracts take them: layouts of tensors, numbers as they are, and any number for one that is
    drawn.
    """
    return [
        layouts[input] if isinstance(input, Value) else 0 if isinstance(input, Draw) else input for input in step.inputs
    ]


def _check_ends(program: Program, known: set[Value]) -> None:
    """Check inputs and held tensors."""
    _expect(len(known) == len(program.inputs) + len(program.held), "a value is an input, or held, twice")
    _expect(all(each in program.layouts for each in known), "an input or held tensor has no layout")
    shared = program.shared
    _expect(not shared or len(shared) == len(program.inputs), "it does not say of each input whose memory it has")
    _expect(
        all(0 <= each <= k and shared[each] == each for k, each in enumerate(shared)),
        "an input has the memory of one that is not there",
    )
    for value, tensor in program.held.items():
        _expect(
            program.layouts[value] is tensor._layout,
            f"the held tensor {name(value)} has another layout than the program says",
        )


def _first_rooms(program: Program) -> dict[Value, _Room]:
    """The rooms of inputs, of whose memory nothing is known but their own elements, and of held tensors."""
    rooms = {input: (0, program.layouts[input].extent) for input in program.inputs}
    return {**rooms, **{value: (tensor._offset, len(tensor._storage.data)) for value, tensor in program.held.items()}}


def _check_values(program: Program, step: Step, known: set[Value], place: str) -> None:
    """Check that a step's inputs are there, and its results not yet, or there if they are written over."""
    for k, input in enumerate(step.inputs):
        _expect(not isinstance(input, Value) or input in known, f"{place} uses {name(input)}, which is not there yet")
        if isinstance(input, Draw):
            _expect(k and type(step.inputs[k - 1]) is int, f"{place} draws an offset without a seed before it")
    _expect(len(set(step.results)) == len(step.results), f"{place} makes a value twice")
    for result in step.results:
        verb, state = ("writes over", "not there") if step.in_place else ("makes", "there already")
        _expect((result in known) is step.in_place, f"{place} {verb} {name(result)}, which is {state}")
        _expect(result in program.layouts, f"{place}: {name(result)} has no layout")


def _check_step(program: Program, step: Step, place: str) -> None:
    """Check that a step fits its op, and that the results' layouts are those the op plans."""
    found = [program.layouts[result] for result in step.results]
    if step.op is EMPTY:
        fits = not step.in_place and not step.inputs and not step.parameters and len(found) == 1 and found[0].dense
        return _expect(fits, f"{place} must make one dense tensor of nothing")
    if isinstance(step.op, Update) and step.parameters[:1] == (None,):
        return _check_update(program, step, place)
    if isinstance(step.op, (Move, Update)) or not isinstance(step.op, Op):
        return None
    if step.op.takes is not None:
        try:
            contract.check(step.op, arguments_of(step, program.layouts), step.parameters)
        except ValueError as problem:
            raise ValueError(f"{place}: {problem}") from None
    if step.in_place:
        return _check_write(program, step, found, place)
    planned: Any = step.op.prepare(described(step, program.layouts), step.parameters).layout
    planned = planned if isinstance(planned, tuple) else (planned,)
    _expect(len(planned) == len(found), f"{place} makes {len(planned)} results, not {len(found)}")
    for value, own, layout in zip(step.results, found, planned):
        _expect(
            same(own, layout),
            f"{place}: {name(value)} is {own.dtype} {tuple(own.shape)}, and the op gives {layout.dtype} "
            f"{tuple(layout.shape)}",
        )
    return None


def _check_write(program: Program, step: Step, targets: list[Layout], place: str) -> None:
    """Check a step that writes over values: pointwise ops over any one, others over their first input."""
    over = tuple([next((k for k, input in enumerate(step.inputs) if input == target), None) for target in step.results])
    _expect(
        len(over) == 1 and (isinstance(step.op, Pointwise | OverComplex) or over == (0,)),
        f"{place} writes over a value that is not its first input",
    )
    step.op.prepare_into(described(step, program.layouts), step.parameters, tuple(targets), over)


def _check_update(program: Program, step: Step, place: str) -> None:
    """Check an optimizer's step whose numbers are among its inputs."""
    shape = "its parameters must be (None, the count of its members, a tuple with 0.0 for each of its numbers)"
    _expect(len(step.parameters) == 3, f"{place}: {shape}")
    _, count, kinds = step.parameters
    _expect(type(count) is int and count > 0 and type(kinds) is tuple, f"{place}: {shape}")
    size = len(step.op.inputs) - len(kinds)
    _expect(set(map(type, kinds)) <= {float} and 0 < size and max(step.op.positions) < size, f"{place}: {shape}")
    _expect(len(step.inputs) == count * size + len(kinds), f"{place} takes {count * size + len(kinds)} inputs")
    members = step.inputs[: count * size]
    _expect(all(isinstance(each, Value) for each in members), f"{place} updates what is no tensor")
    for each in numbers_of(step):
        layout = program.layouts[each] if isinstance(each, Value) else None
        fits = type(each) is float if layout is None else layout.size == 1 and layout.dtype is float64
        _expect(fits, f"{place} takes a number that is neither a float nor a float64 tensor of one element")
    written = tuple([members[k * size + position] for k in range(count) for position in step.op.positions])
    _expect(step.in_place and step.results == written, f"{place} writes over other values than it updates")
    for first in range(0, count, step.op.together):
        part = tuple([program.layouts[each] for each in members[first * size : min(first + step.op.together, count) * size]])
        _expect(not any(each.dtype.is_complex for each in part), f"{place} updates complex numbers")
        step.op.prepare_into((*part, *map(type, kinds)), (len(part) // size,), part, ())


def _check_rooms(program: Program, step: Step, rooms: dict[Value, _Room], place: str) -> None:
    """Note where results lie. Check that views lie within the memory of what they are views of."""
    if not step.op.is_view:
        rooms.update({result: (0, program.layouts[result].extent) for result in step.results if not step.in_place})
        return
    (source,), (result,) = step.inputs, step.results
    plan, (begin, room) = step.op.prepare((program.layouts[source],), step.parameters), rooms[source]
    begin += plan.offset
    reaches = begin + plan.layout.extent
    _expect(
        not plan.layout.size or (begin >= 0 and reaches <= room),
        f"{place} makes a view of elements {begin} to {reaches} of {room}",
    )
    rooms[result] = begin, room


def _kind_of(layout: Layout) -> tuple:
    return layout.shape, layout.dtype, layout.device


def _expect(condition: object, message: str) -> None:
    if not condition:
        raise ValueError(f"not a well-formed program: {message}")
