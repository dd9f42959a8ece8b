"""Leaves the zeros of weights out of an exported program, for `aot_compile(..., options={"sparsity": True})`."""

from __future__ import annotations

import copy
from functools import partial

from .. import dtypes
from ..core.apply import apply
from ..core.create.creation import ones
from ..core.create.values import from_numpy
from ..core.tensor import Tensor
from ..graph.ir.alias_analysis import Effects, accessed_values, copied, program_outputs
from ..graph.ir.program import Program, Step, Value
from ..graph.passes.simplify import without_dead
from ..graph.passes.sparsity import LEAST_ZEROS, is_faster
from ..ops.convolution.compressed import compressed_byte_convolution, compressed_convolution
from ..ops.convolution.convolution import convolution
from ..ops.convolution.int8 import byte_convolution
from ..ops.matmul import compressed
from ..ops.matmul.int8_linear import byte_linear
from ..ops.matmul.matmul import linear
from .program import ExportedProgram

_DTYPES = dtypes.float32, dtypes.int8
_FORMS = {
    linear: compressed.compressed_linear,
    byte_linear: compressed.compressed_byte_linear,
    convolution: compressed_convolution,
    byte_convolution: compressed_byte_convolution,
}


def without_zeros(
    exported: ExportedProgram, measured: bool, known: dict[tuple, list[Tensor]] | None = None
) -> ExportedProgram:
    """The frozen program whose linear layers and convolutions read compressed weights, where that takes fewer bytes.

    If `measured`, only weights that are at least half zeros, and where a measurement on this machine shows that their
    layer is faster. Programs with dynamic dimensions stay as they are, and so do weights that a program writes to.
    Programs that are given one dict `known` share the compressed form of weights that they share.
    """
    if exported.dynamic is not None:
        return exported
    result = copy.copy(exported)
    result.program = _compressed(exported.program, measured, {} if known is None else known)
    return result


def _compressed(program: Program, measured: bool, known: dict[tuple, list[Tensor]]) -> Program:
    result, effects = copied(program, []), Effects(program)
    result.held = dict(program.held)
    constants = {
        value: tensor for value, tensor in program.held.items() if tensor.dtype in _DTYPES and effects.fixed(value)
    }
    values: dict[Value, list[Value]] = {}
    for step in program.steps:
        if isinstance(step, Step) and step.op.is_view and step.inputs[0] in constants:
            view = apply(step.op, (constants[step.inputs[0]],), step.attributes)
            constants |= {step.results[0]: view} if effects.fixed(step.results[0]) else {}
        weight = step.inputs[1] if isinstance(step, Step) and step.op in _FORMS else None
        tensor = constants.get(weight)
        rows = None if tensor is None else _rows(step, tensor)
        if rows is None or (measured and not _is_faster(program, step, tensor, rows)):
            result.steps.append(step)
            continue
        block, *parts = rows
        if weight not in values:
            key = id(tensor._storage), tensor._offset, tensor._layout
            tensors = known.setdefault(key, [from_numpy(part) for part in parts])
            values[weight] = [_hold(result, part) for part in tensors]
        x, _, *others = step.inputs
        inputs = (x, *values[weight], *others)
        result.steps.append(
            Step(_FORMS[step.op], inputs, _attributes(step, tensor, block), step.results, False, step.location)
        )
    result = without_dead(result)
    used = {value for step in result.steps for value in accessed_values(step)}.union(program_outputs(result))
    result.held = {value: tensor for value, tensor in result.held.items() if value in used}
    return result


def _rows(step: Step, weight: Tensor) -> tuple | None:
    """The compressed weight of a step; None if that takes more bytes, or the step computes another convolution."""
    values = weight.detach().numpy()
    if step.op not in (convolution, byte_convolution):
        return compressed.compressed(values)
    if step.op is convolution and (
        weight.dtype is not dtypes.float32 or step.attributes[-1] is not None or len(step.inputs) > 2
    ):
        return None
    return compressed.compressed(values.reshape(len(values), -1), (1,))


def _attributes(step: Step, weight: Tensor, block: int) -> tuple:
    """The attributes of a step's op for a compressed weight."""
    if step.op is byte_convolution:
        return tuple(weight.shape[1:3]), *step.attributes
    return (tuple(weight.shape[2:]), *step.attributes[:-1]) if step.op is convolution else (block, *step.attributes)


def _hold(program: Program, tensor: Tensor) -> Value:
    value = program.new_value(tensor._layout)
    program.held[value] = tensor
    return value


def _is_faster(program: Program, step: Step, weight: Tensor, rows: tuple) -> bool:
    """Whether a layer whose weight is at least half zeros is faster with its compressed form, on this machine."""
    (x, _, *others), (block, *parts) = step.inputs, rows
    others = [program.held.get(other, other) if isinstance(other, Value) else other for other in others]
    if int((weight != 0).sum()) > (1 - LEAST_ZEROS) * weight.numel() or any(
        isinstance(other, Value) for other in others
    ):
        return False
    example = ones(*program.layouts[x].shape, dtype=program.layouts[x].dtype)
    sparse = example, *map(from_numpy, parts), *others
    return is_faster(
        partial(apply, _FORMS[step.op], sparse, _attributes(step, weight, block)),
        partial(apply, step.op, (example, weight, *others), step.attributes),
    )
