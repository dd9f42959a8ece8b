"""Control flow, run by Python: If, Loop and Scan. With constant conditions and counts a recording has them unrolled."""

from __future__ import annotations

import numpy as np

import numod

from ...core import Tensor
from ..program import Program
from ..registry import operator
from ..tensors import as_array, as_tensor


def _truth(value: object) -> bool:
    return bool(as_array(value).reshape(()))


@operator("If", raw=True)
def if_(condition: object, *, then_branch: Program, else_branch: Program, outputs: int, scope: dict) -> object:
    """One of two graphs."""
    results = (then_branch if _truth(condition) else else_branch).run((), scope)
    return results if outputs > 1 else results[0]


@operator("Loop", raw=True)
def loop(
    count: object = None, condition: object = None, *initial: object, body: Program, outputs: int, scope: dict
) -> object:
    """A graph repeated `count` times (absent: without end) while its condition holds.

    Its first outputs are the next call's inputs; the others are stacked.
    """
    limit = None if count is None else int(as_array(count).reshape(()))
    runs, number, carried = condition is None or _truth(condition), 0, list(initial)
    scanned: list[list] = [[] for _ in range(outputs - len(initial))]
    while runs and (limit is None or number < limit):
        again, *results = body.run([np.array(number, np.int64), np.array(True), *carried], scope)
        carried = results[: len(initial)]
        for column, result in zip(scanned, results[len(initial) :]):
            column.append(as_tensor(result))
        runs, number = _truth(again), number + 1
    forms = body.empty_outputs[1 + len(initial) :]
    stacked = [
        numod.stack(column) if column else numod.zeros(shape, dtype=dtype)
        for column, (dtype, shape) in zip(scanned, forms)
    ]
    results = (*carried, *stacked)
    return results if outputs > 1 else results[0]


@operator("Scan", since=8, raw=True)
def scan_in_old_version(
    lengths: object = None,
    *inputs: object,
    body: Program,
    directions: list[int] | None = None,
    num_scan_inputs: int,
    outputs: int,
    scope: dict,
) -> object:
    """Before version 9 there is a batch axis in front, and each sequence may have its own length."""
    batch = as_tensor(inputs[-1]).shape[0]
    states = len(inputs) - num_scan_inputs
    rows = []
    for example in range(batch):
        values = [as_tensor(value)[example] for value in inputs]
        if lengths is not None:
            length = int(as_array(lengths)[example])
            values[states:] = [value[:length] for value in values[states:]]
        rows.append(_scan(values, body, num_scan_inputs, directions, None, None, None, outputs, scope))
    results = tuple(numod.stack(column) for column in zip(*rows))
    return results if outputs > 1 else results[0]


@operator("Scan", since=9, raw=True)
def scan(
    *inputs: object,
    body: Program,
    num_scan_inputs: int,
    scan_input_axes: list[int] | None = None,
    scan_input_directions: list[int] | None = None,
    scan_output_axes: list[int] | None = None,
    scan_output_directions: list[int] | None = None,
    outputs: int,
    scope: dict,
) -> object:
    """A graph applied to the slices of its last inputs in turn, with states that it hands on."""
    results = _scan(
        [as_tensor(value) for value in inputs],
        body,
        num_scan_inputs,
        scan_input_directions,
        scan_input_axes,
        scan_output_directions,
        scan_output_axes,
        outputs,
        scope,
    )
    return results if outputs > 1 else results[0]


def _scan(
    inputs: list[Tensor],
    body: Program,
    count: int,
    directions: list[int] | None,
    axes: list[int] | None,
    output_directions: list[int] | None,
    output_axes: list[int] | None,
    outputs: int,
    scope: dict,
) -> tuple:
    """Run the body for each slice of the sequences; return the final states and the stacked outputs."""
    if not 0 < count <= len(inputs) or outputs < len(inputs) - count:
        raise ValueError(
            f"num_scan_inputs must be from 1 to {len(inputs)}, and the outputs at least as many as the states, got "
            f"{count} and {outputs}"
        )
    states, sequences = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    slices = [
        _slices(sequence, axis, direction)
        for sequence, axis, direction in zip(sequences, axes or [0] * count, directions or [0] * count)
    ]
    columns: list[list] = [[] for _ in range(outputs - len(states))]
    for arguments in zip(*slices):
        results = body.run([*states, *arguments], scope)
        states = list(results[: len(states)])
        for column, result in zip(columns, results[len(states) :]):
            column.append(as_tensor(result))
    stacked = []
    for position, column in enumerate(columns):
        reverse = bool(output_directions and output_directions[position])
        stacked.append(numod.stack(column[::-1] if reverse else column, output_axes[position] if output_axes else 0))
    return *(as_tensor(state) for state in states), *stacked


def _slices(x: Tensor, axis: int, direction: int) -> tuple:
    parts = x.unbind(axis)
    return parts[::-1] if direction else parts
