"""Freezing: values that depend only on constant held tensors (weights, running statistics) are computed once.

They are computed again after one of these tensors was written to: tensors count their writes. Weights of matrix
products are packed for the kernels' tiles, and weights of Winograd convolutions are transformed. Other kernels read
weights in their own layout, which is as fast. The program holds frozen values like other tensors: its machine code
contains no weights.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from threading import Lock

from ... import dtypes
from ...autograd import inference_mode, no_grad
from ...core.derived import lent_bytes, settle
from ...core.tensor import DataVersionCounter, Tensor
from ...device.target import Machine
from ...kernel.bind import unbuilt
from ...ops import table
from ...ops.convolution.convolution import convolution
from ...ops.matmul.matmul import linear
from ...ops.op import Op, Packing, planning_for_all_sizes
from ...weak_values import WeakValues
from ..ir.alias_analysis import Effects, copied, prepare_arguments, program_outputs, is_pure, accessed_values
from ..ir.program import Check, Program, Step, Value
from .fold_scale import fold_scales
from .pipeline import simplified
from .sparsity import sparse_packing
from .simplify import exactly, without_dead

_Choice = Callable[[Step, Packing], Packing | None]  # how a step's weight is packed, if it is


class Frozen:
    """A value that `program` computes from held tensors: `tensor`, computed at version `computed_at` of these."""

    def __init__(self, program: Program) -> None:
        self.program, self.lock = program, Lock()
        self.storages = list(dict.fromkeys(value._storage for value in program.held.values()))
        settle(self.storages)
        self.computed_at, self.lent = self.versions(), lent_bytes(self.storages)
        self.state, self.tensor = self._state(), self._computed()
        self._note_compared(self.computed_at)

    def versions(self) -> int:
        """A number that changes with every write to held tensors, and with writes to others through `.data`."""
        return sum([storage.version for storage in self.storages]) + DataVersionCounter.last

    def _state(self) -> tuple[int, ...]:
        """What changes with every counted write to held tensors only."""
        return tuple(
            [number for storage in self.storages for number in (storage.version, getattr(storage, "stamp", 0))]
        )

    def _note_compared(self, versions: int) -> None:
        """Remember the versions at which the value was current, unless each call has to compare the memory."""
        self.computed_at = versions if self.lent is None else -1

    def is_current(self) -> bool:
        """Whether no held tensor was written to. Writes through `.data` and NumPy may have been to others."""
        versions = self.versions()
        settle(self.storages)
        if self.state != self._state() or self.lent != lent_bytes(self.storages):
            return False
        self._note_compared(versions)
        return True

    def refresh(self) -> None:
        """Compute the value again if a held tensor was written to."""
        if self.versions() == self.computed_at or self.is_current():
            return
        with self.lock, inference_mode(False), no_grad():
            if not self.is_current():
                versions, state, lent = self.versions(), self._state(), lent_bytes(self.storages)
                self.tensor.copy_(self._computed())
                self.state, self.lent = state, lent
                self._note_compared(versions)

    def _computed(self) -> Tensor:
        with inference_mode(False):
            return self.program()


# programs for different input sizes share equal frozen values
_frozen: WeakValues[tuple, Frozen] = WeakValues()
_alive: ContextVar[list[Frozen] | None] = ContextVar("alive", default=None)


@contextmanager
def shared_values() -> Iterator[None]:
    """Within it, frozen values live, so that programs of functions with common weights share equal ones."""
    token = _alive.set([])
    try:
        yield
    finally:
        _alive.reset(token)


def freeze(program: Program, sparsity: bool = False, variable: Container[Value] = ()) -> tuple[Program, list[Frozen]]:
    """(the program without frozen steps, the frozen values, whose tensors it holds instead).

    The program must come from `simplify`. With `sparsity`, weights may be packed without their zeros. `variable`:
    values that are no constants.
    """
    return compute_constants(_with_packed_weights(program, sparsity, variable=variable)[0], variable)


def trained_values(program: Program) -> set[Value] | None:
    """The held tensors of a quantized network that may be trained; None if no step multiplies by a weight of bytes.

    Weights of bytes are not trained: their packed forms and all that follows from them and from other tensors without
    gradients are computed once, also without `freezing`. Otherwise each call would pack them again.
    """
    if not multiplies_bytes(program):
        return None
    return {value for value, tensor in program.held.items() if tensor.requires_grad}


def multiplies_bytes(program: Program) -> bool:
    """Whether a step multiplies by a weight of bytes."""
    return any(_multiplies_bytes(program, step) for step in program.steps)


def with_computed_constants(program: Program, variable: Container[Value] = ()) -> Program:
    """The simplified program with what depends on constants only computed, in the same way as a run would.

    A value that takes more bytes than the tensors it depends on, such as an embedding's table as floats, is still
    computed by each run. `variable`: values that are no constants.
    """
    program, left = simplified(program), {*variable}
    while True:
        result, computed = compute_constants(program, left)
        large = {id(value.tensor) for value in computed if _bytes([value.tensor]) > _bytes(value.program.held.values())}
        if not large:
            return _with_used_tensors(result)
        left |= {value for value, tensor in result.held.items() if id(tensor) in large}


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum([tensor.numel() * tensor.element_size() for tensor in tensors])


def _with_used_tensors(program: Program, variable: Container[Value] = ()) -> Program:
    used = {value for step in program.steps for value in accessed_values(step)}.union(program_outputs(program))
    program.held = {value: tensor for value, tensor in program.held.items() if value in used or value in variable}
    return program


def _multiplies_bytes(program: Program, step: Step | Check) -> bool:
    if not isinstance(step, Step) or not isinstance(step.op, Op) or len(step.inputs) < 2:
        return False
    if type(step.op).prepack is Op.prepack:
        return False
    weight = step.inputs[1]
    return isinstance(weight, Value) and program.layouts[weight].dtype in (dtypes.int8, dtypes.uint8)


def with_transformed_weights(program: Program) -> Program:
    """The program with held weights packed, where every processor would pack them, in the same format."""

    def choice(step: Step, packing: Packing) -> Packing | None:
        return packing if packing.portable and step.inputs[packing.position] in program.held else None

    return _packed_ahead(program, choice)[0]


def with_packed_bytes(
    program: Program,
    known: Sequence[Tensor] | None = None,
    machine: Machine | None = None,
    sizes_vary: bool = False,
    vectors: bool = True,
) -> tuple[Program, list[Tensor]]:
    """(the program whose products read packed weights of bytes, the packed weights).

    `known`: the packed weights, if another process computed them for this one. `machine`: a processor for whose kernels
    the weights are packed; by default this process's. `sizes_vary`: whether the program's variants for other sizes read
    the same packed weights. `vectors`: whether all processors for which it is compiled have vector registers.
    """

    def choice(step: Step, packing: Packing) -> Packing | None:
        packing = packing.exported or packing
        if not _multiplies_bytes(program, step) or (packing.needs_vectors and not vectors):
            return None
        if machine is None:
            return packing
        weight = program.layouts[step.inputs[packing.position]]
        return replace(packing, attributes=packing.product.packing_attributes(weight, step.attributes, machine))

    return _packed_ahead(program, choice, known, sizes_vary)


def _packed_ahead(
    program: Program, choice: _Choice, known: Sequence[Tensor] | None = None, sizes_vary: bool = False
) -> tuple[Program, list[Tensor]]:
    """(the program with packed weights instead of those of the chosen steps, these packed weights)."""
    with planning_for_all_sizes() if sizes_vary else nullcontext():
        packed, values = _with_packed_weights(program, False, choice)
    constants, order = _constants(packed), sorted(values, key=lambda value: value.number)
    tensors = [_frozen_value(packed, value, constants).tensor for value in order] if known is None else [*known]
    if [tensor.shape for tensor in tensors] != [packed.layouts[value].shape for value in order]:
        raise RuntimeError("packed weights do not have the format that this processor's kernels read")
    result = copied(packed, [step for step in packed.steps if values.isdisjoint(getattr(step, "results", ()))])
    result.held = {**program.held, **dict(zip(order, tensors, strict=True))}
    return result, tensors


def with_constants(program: Program, variable: Container[Value] = ()) -> Program:
    """The simplified program with scales in the weights, and with all else computed that depends on constants only.

    `variable`: values that are no constants. The program still runs op by op.
    """
    program = simplified(program)
    folded = without_dead(fold_scales(program, _constants(program, variable)))
    result, _ = compute_constants(folded, variable)
    return _with_used_tensors(result, variable)


def compute_constants(program: Program, variable: Container[Value] = ()) -> tuple[Program, list[Frozen]]:
    """(the program without steps that depend on constants only, the frozen values, whose tensors it holds instead).

    `variable`: values that are no constants.
    """
    constants = _constants(program, variable)
    needed, steps = set(program_outputs(program)), []
    for step in reversed(program.steps):
        if not _is_constant(step, constants) or (_costs_nothing(step) and needed.intersection(step.results)):
            needed.update(accessed_values(step))
            steps.append(step)
    needed -= {result for step in steps if isinstance(step, Step) for result in step.results}
    frozen = {
        needed_value: _frozen_value(program, needed_value, constants)
        for needed_value in sorted(needed & constants - program.held.keys(), key=lambda value: value.number)
    }
    result = copied(program, steps[::-1])
    result.held = {**program.held, **{value: frozen_value.tensor for value, frozen_value in frozen.items()}}
    return result, list(dict.fromkeys(frozen.values()))


def _constants(program: Program, variable: Container[Value] = ()) -> set[Value]:
    """The values that depend only on unmodified held tensors, and that the program neither modifies nor returns."""
    effects = Effects(program)
    constants = {value for value in program.held if value not in variable and effects.fixed(value)}
    for step in program.steps:
        settled = (
            is_pure(step)
            and constants.issuperset(accessed_values(step))
            and all(effects.fixed(result) and result not in variable for result in step.results)
        )
        if settled and (
            step.op.is_view or effects.output_roots.isdisjoint(effects.root[result] for result in step.results)
        ):
            constants.update(step.results)
    return constants


def _is_constant(step: Step | Check, constants: set[Value]) -> bool:
    return isinstance(step, Step) and constants.issuperset(step.results)


def _costs_nothing(step: Step) -> bool:
    """Whether a step costs nothing: it is a view, or a fill, which loops read as a literal."""
    return step.op.is_view or step.op is table.fill


def _with_packed_weights(
    program: Program, sparsity: bool, choice: _Choice | None = None, variable: Container[Value] = ()
) -> tuple[Program, set[Value]]:
    """(the program with separate steps that pack weights, for products whose kernels read packed weights; the results
    of these steps).

    `choice`: which of these weights are packed, and how; None for all.
    """
    constants, program = _constants(program, variable), copied(program, program.steps)
    packed: dict[tuple, Value] = {}
    steps: list[Step | Check] = []
    for step in program.steps:
        packing = (
            _packing(program, step, constants, sparsity)
            if is_pure(step) and not _is_constant(step, constants)
            else None
        )
        if packing is not None and choice is not None:
            packing = choice(step, packing)
        if packing is not None and step.inputs[packing.position] in constants:
            key = packing.op, packing.attributes, step.inputs[packing.position]
            if key not in packed:
                with unbuilt():  # other processors than this one may need other kernels
                    layout = packing.op.prepare((program.layouts[key[2]],), packing.attributes).layout
                packed[key] = value = program.new_value(layout)
                steps.append(Step(packing.op, key[2:], packing.attributes, (value,), False, step.location))
            step = Step(
                packing.product, (*step.inputs, packed[key]), step.attributes, step.results, False, step.location
            )
        steps.append(step)
    program.steps = steps
    return program, set(packed.values())


def _packing(program: Program, step: Step, constants: set[Value], sparsity: bool) -> Packing | None:
    """How to pack an input of a step ahead of time."""
    arguments = prepare_arguments(step, program.layouts)
    packing = step.op.prepack(arguments, step.attributes)
    if sparsity and step.op in (linear, convolution) and step.inputs[1] in constants:
        weight = step.inputs[1]
        held = program.held.get(weight)
        tensor = _frozen_value(program, weight, constants).tensor if held is None else held
        return sparse_packing(step.op, arguments, step.attributes, tensor, packing) or packing
    return packing


def _frozen_value(program: Program, value: Value, constants: set[Value]) -> Frozen:
    """The frozen value of a program's value; equal ones are shared."""
    needed, steps = {value}, []
    for step in reversed(program.steps):
        if _is_constant(step, constants) and needed.intersection(step.results):
            needed.update(accessed_values(step))
            steps.append(step)
    constant_program = copied(program, steps[::-1])
    constant_program.inputs = []
    constant_program.shared = []
    constant_program.gradients = {}
    constant_program.outputs = value
    constant_program.held = {held_value: tensor for held_value, tensor in program.held.items() if held_value in needed}
    names = {
        held_value: (id(tensor._storage), id(tensor._storage.data), tensor._offset, tensor._layout)
        for held_value, tensor in constant_program.held.items()
    }
    results = (result for step in constant_program.steps for result in step.results)
    names |= {result: number for number, result in enumerate(results)}
    inputs = [
        tuple(names.get(input, (type(input), repr(input))) for input in step.inputs) for step in constant_program.steps
    ]
    key = (
        names[value],
        *(
            (step.op, *map(exactly, step.attributes), *operands)
            for step, operands in zip(constant_program.steps, inputs)
        ),
    )
    frozen = _frozen.get(key)
    if frozen is None:
        frozen = _frozen[key] = Frozen(constant_program)
    frozen.refresh()
    alive = _alive.get()
    if alive is not None:
        alive.append(frozen)
    return frozen
