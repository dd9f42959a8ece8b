"""Freezing: what a program computes of nothing but tensors that it holds and does not write (weights, running
statistics) is computed once, before it runs.

It is computed again when one of those tensors was written to: tensors count their writes. Products take weights packed
as their tiles read them, and convolutions by Winograd's method take theirs transformed; others read them as they lie,
which is as fast. What is frozen is held by the program like any tensor that existed before: its machine code has no
weights in it.
"""

from __future__ import annotations

from threading import Lock
from weakref import WeakValueDictionary

from ...autograd import inference_mode, no_grad
from ...core.tensor import OwnCount, Tensor
from ...ops import table
from ..ir.alias_analysis import Effects, copied, described, leaving, pure, used
from ..ir.program import Check, Program, Step, Value
from .simplify import exactly


class Frozen:
    """A value that `program` computes of the tensors it holds:

    `tensor`. `versions` counts the writes to these, `seen` those that it knows of.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.lock = program, Lock()
        self.storages = list(dict.fromkeys(value._storage for value in program.held.values()))
        self.seen, self.tensor = self.versions(), self._computed()

    def versions(self) -> int:
        """How often the tensors have been written to, and, since they do not count those, how often any tensor was
        through `.data`.
        """
        return sum([storage.version for storage in self.storages]) + OwnCount.total

    def refresh(self) -> None:
        """Compute the value again if a tensor has been written to since."""
        if self.versions() == self.seen:
            return
        with self.lock, inference_mode(False), no_grad():
            found = self.versions()
            if found != self.seen:
                self.tensor.copy_(self._computed())
                self.seen = found

    def _computed(self) -> Tensor:
        with inference_mode(False):
            return self.program()


# programs for other sizes of the inputs share what they compute alike
_frozen: WeakValueDictionary[tuple, Frozen] = WeakValueDictionary()


def freeze(program: Program) -> tuple[Program, list[Frozen]]:
    """(the program without the steps that are frozen, what they compute).

    It holds the tensors of that instead. The program must be `simplified`.
    """
    program = _packed(program)
    known = _constant(program)
    needed, steps = set(leaving(program)), []
    for step in reversed(program.steps):
        if not _is_constant(step, known) or (_free(step) and needed.intersection(step.results)):
            needed.update(used(step))
            steps.append(step)
    needed -= {result for step in steps if isinstance(step, Step) for result in step.results}
    frozen = {
        each: _value(program, each, known)
        for each in sorted(needed & known - program.held.keys(), key=lambda value: value.number)
    }
    result = copied(program, steps[::-1])
    result.held = {**program.held, **{value: each.tensor for value, each in frozen.items()}}
    return result, list(dict.fromkeys(frozen.values()))


def _constant(program: Program) -> set[Value]:
    """The values that depend only on tensors which the program holds and does not write, and that it neither writes nor
    returns.
    """
    effects = Effects(program)
    known = {each for each in program.held if effects.fixed(each)}
    for step in program.steps:
        settled = pure(step) and known.issuperset(used(step)) and all(effects.fixed(result) for result in step.results)
        if settled and (step.op.is_view or effects.leaving.isdisjoint(effects.root[result] for result in step.results)):
            known.update(step.results)
    return known


def _is_constant(step: Step | Check, known: set[Value]) -> bool:
    return isinstance(step, Step) and known.issuperset(step.results)


def _free(step: Step) -> bool:
    """Whether a step costs nothing where it is used: a view, and what loops have as a literal."""
    return step.op.is_view or step.op is table.fill


def _packed(program: Program) -> Program:
    """The program with weights packed by steps of their own, for products whose kernels read them so."""
    known, program = _constant(program), copied(program, program.steps)
    packed: dict[tuple, Value] = {}
    steps: list[Step | Check] = []
    for step in program.steps:
        packing = (
            step.op.prepack(described(step, program.layouts), step.parameters)
            if pure(step) and not _is_constant(step, known)
            else None
        )
        if packing is not None and step.inputs[packing.position] in known:
            key = packing.op, packing.parameters, step.inputs[packing.position]
            if key not in packed:
                packed[key] = value = Value(max(layout.number for layout in program.layouts) + 1)
                program.layouts[value] = packing.op.prepare((program.layouts[key[2]],), packing.parameters).layout
                steps.append(Step(packing.op, key[2:], packing.parameters, (value,), False, step.where))
            step = Step(packing.product, (*step.inputs, packed[key]), step.parameters, step.results, False, step.where)
        steps.append(step)
    program.steps = steps
    return program


def _value(program: Program, value: Value, known: set[Value]) -> Frozen:
    """What computes a value: a former one, where that does the same, or a new one."""
    needed, steps = {value}, []
    for step in reversed(program.steps):
        if _is_constant(step, known) and needed.intersection(step.results):
            needed.update(used(step))
            steps.append(step)
    part = copied(program, steps[::-1])
    part.inputs, part.shared, part.gradients, part.outputs = [], [], {}, value
    part.held = {each: tensor for each, tensor in program.held.items() if each in needed}
    names = {
        each: (id(tensor._storage), id(tensor._storage.data), tensor._offset, tensor._layout)
        for each, tensor in part.held.items()
    }
    names |= {each: number for number, each in enumerate(made for step in part.steps for made in step.results)}
    inputs = [tuple(names.get(input, (type(input), repr(input))) for input in step.inputs) for step in part.steps]
    key = (
        names[value],
        *((step.op, *map(exactly, step.parameters), *given) for step, given in zip(part.steps, inputs)),
    )
    found = _frozen.get(key)
    if found is None:
        found = _frozen[key] = Frozen(part)
    found.refresh()
    return found
