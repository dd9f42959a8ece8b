"""Chains of pointwise steps become one loop: elements are read once, and values that only the chain uses are never stored.

A group is a run of steps of one shape and one compute dtype that can be done at one moment. It is emitted by the same generator as a single row
(`kernel.emit`): an eager op is a graph of one row, a group a graph of many.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .. import dtypes
from ..device import Layout
from ..dtypes import dtype as DType
from ..kernel import emit
from ..kernel.expression import Call, Constant, Expression, Formula, Symbol, as_expression
from ..ops import table
from ..ops.convolution import convolution
from ..ops.matmul import linear, matmul
from ..ops.op import Op, Plan
from ..ops.pointwise import Pointwise, plan_loop
from ..ops.reduction import Reduction
from .effects import Boundary, Effects, copied, draws, leaving, pure, used
from .trace import Check, Program, Step, Value

_ROUNDED = Formula("rounded_product", "rounded_product(x, y)", {})
PAIRS = 20  # of arrays of which one is written to: how many LLVM tests for overlap
LARGE = 1 << 12  # elements from which a single row is joined with a reduction or a product
MEMBERS, TENSORS = 32, 12  # of one group: longer loops compile slowly, and with many arrays LLVM does not vectorise


class Fused(Op):
    """Several rows in one loop. `rows` tells which, as (op, arguments, compute dtype): an argument is ("in", k), ("row", k) or a constant."""

    widens, differentiable = False, False

    def __init__(self, rows: tuple, inputs: tuple[emit.Input, ...], results: tuple[int, ...], layouts: tuple[Layout, ...], dtype: DType, shape: tuple) -> None:
        names = list(dict.fromkeys(op.name for op, *_ in rows))
        super().__init__("_".join(names[:4]) + (f"_and_{len(names) - 4}" if len(names) > 4 else ""))
        self.rows, self.inputs, self.layouts, self.shape = rows, tuple(each.name for each in inputs), layouts, shape
        self.outputs = tuple(f"out{k}" for k in range(len(results))) if len(results) > 1 else ()
        expressions = _expressions(rows, inputs, dtype.is_floating_point)
        outputs = tuple(emit.Output(expressions[k], layout.dtype) for k, layout in zip(results, layouts))
        self.loop = emit.Loop(inputs, outputs, dtype)

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        tensors = [each for each in arguments if isinstance(each, Layout)]
        launch, constants = plan_loop(self.loop, self.name, self.layouts[0].device, tensors, self.layouts, self.shape)
        return Plan(self.layouts if self.outputs else self.layouts[0], launch, constants)

    def prepare_into(self, arguments: tuple, parameters: tuple, into: tuple[Layout, ...], over: tuple[int | None, ...]) -> Plan:
        """The one result written over an input."""
        tensors = [each for each in arguments if isinstance(each, Layout)]
        loop = replace(self.loop, outputs=(replace(self.loop.outputs[0], over=self.inputs[over[0]]),))
        launch, constants = plan_loop(loop, self.name, into[0].device, tensors, (), self.shape)
        return Plan(into[0], launch, constants)


def _expressions(rows: tuple, inputs: tuple[emit.Input, ...], floating: bool) -> list[Expression]:
    """Each row as an expression over the inputs' names."""
    symbols, made = [Symbol(each.name) for each in inputs], []
    for op, arguments, _ in rows:
        given = [symbols[each[1]] if each[0] == "in" else made[each[1]] if each[0] == "row" else Constant(each[1]) for each in arguments]
        made.append(_rounded(op.express(*given)) if floating else op.express(*given))
    return made


def _rounded(value: Expression) -> Expression:
    """A row's result. One that is a product is rounded, as where it is stored: joined with a sum of the next row it would differ from eager."""
    if not isinstance(value, Call):
        return value
    if value.formula.name == "mul":
        return Call(_ROUNDED, value.arguments)
    if value.formula.name == "neg":
        return Call(value.formula, (_rounded(value.arguments[0]),))
    return _rounded(as_expression(value.formula.body(*value.arguments))) if callable(value.formula.body) else value


@dataclass(eq=False)
class _Group:
    """Steps that will be one loop."""

    shape: tuple
    dtype: DType
    device: object
    members: list[Step] = field(default_factory=list)
    tensors: dict[Value, None] = field(default_factory=dict)
    made: set[Value] = field(default_factory=set)
    later: list[Step] = field(default_factory=list)  # views of what the group makes


def fuse(program: Program) -> Program:
    """The program with its chains of pointwise steps as loops."""
    return _Fusion(program).result()


def makes_product(step: Step | Check, layouts: dict[Value, Layout]) -> bool:
    """Whether a loop may join what a step makes. Products of small matrices have other kernels, convolutions not."""
    return pure(step) and (step.op is convolution or step.op in (matmul, linear) and layouts[step.results[0]].size >= LARGE)


class _Fusion:
    def __init__(self, program: Program) -> None:
        self.program, self.effects = program, Effects(program)
        self.layouts = program.layouts
        self.constants = _constants(program, self.effects)
        self.uses: dict[Value, list[int]] = {}
        for position, step in enumerate(program.steps):
            for each in used(step):
                self.uses.setdefault(each, []).append(position)
        self.outside = set(leaving(program))
        self.products = {each.results[0] for each in program.steps if makes_product(each, self.layouts)}
        self.open: list[_Group] = []
        self.steps: list[Step | Check] = []
        self.places: dict[int, int] = {id(step): position for position, step in enumerate(program.steps)}

    def result(self) -> Program:
        """Put every step into a group or between groups."""
        for step in self.program.steps:
            found = self._dtype(step)
            if found is not None:
                self._add(step, found)
            elif isinstance(step, Step) and not step.in_place and step.op.is_view:
                self._view(step)
            else:
                for group in [each for each in self.open if isinstance(step, Boundary) or self._touches(each, step)]:
                    self._close(group)
                self.steps.append(step)
        for group in list(self.open):
            self._close(group)
        return copied(self.program, self.steps)

    def _dtype(self, step: Step | Check) -> DType | None:
        """The compute dtype of a step that can be in a group."""
        if not pure(step) or not isinstance(step.op, Pointwise) or step.op.integers or step.op in (table.index, table.arange, table.linspace):
            return None
        (result,) = step.results
        tensors = [each for each in step.inputs if isinstance(each, Value)]
        layout = self.layouts[result]
        if not tensors or layout.size == 0 or any(self.layouts[each].device is not layout.device for each in tensors):
            return None
        arguments = tuple([self.layouts[each] if isinstance(each, Value) else type(each) for each in step.inputs])
        compute = step.op.types(arguments, step.parameters)[0]
        whole = all(each.dtype.compute is each.dtype for each in (layout, *(self.layouts[k] for k in tensors)))
        return compute if whole and compute.kind != "b" else None

    def _add(self, step: Step, dtype: DType) -> None:
        """Join the open group that makes one of the inputs, or another of the same shape, or begin one."""
        layout = self.layouts[step.results[0]]
        needs = [each for each in step.inputs if isinstance(each, Value)]
        makers = [group for group in self.open if any(each in group.made for each in needs)]
        form = tuple(layout.shape), dtype, layout.device
        fitting = [g for g in (makers or self.open[-1:]) if (g.shape, g.dtype, g.device) == form and self._fits(g, step, needs)]
        group = fitting[-1] if fitting else None
        for other in list(self.open):
            if other is not group and self._touches(other, step):
                self._close(other)
        if group is not None and (group not in self.open or any(self._made_later(group, each) for each in needs)):
            if group in self.open:
                self._close(group)
            group = None
        if group is None:
            group = _Group(*form)
            self.open.append(group)
        group.members.append(step)
        group.made.add(step.results[0])
        group.tensors.update(dict.fromkeys(each for each in needs if each not in group.made and each not in self.constants))

    def _fits(self, group: _Group, step: Step, needs: list[Value]) -> bool:
        tensors = {*group.tensors, *(each for each in needs if each not in group.made)}
        return len(group.members) < MEMBERS and len(tensors) < TENSORS

    def _made_later(self, group: _Group, value: Value) -> bool:
        """Whether a value is a view of what the group makes, or was made after the group began and does not come before it."""
        return any(value in step.results for step in group.later)

    def _touches(self, group: _Group, step: Step | Check) -> bool:
        """Whether a step must come after a group: it uses what the group makes, or writes what the group reads."""
        roots = {self.effects.root[each] for each in used(step)}
        if roots & group.made:
            return True
        if isinstance(step, Step) and step.in_place:
            written = {self.effects.root[each] for each in step.results}
            return any(self.effects.root[each] in written for each in group.tensors)
        return False

    def _view(self, step: Step) -> None:
        """A view moves behind the group that makes what it shows."""
        root = self.effects.root[step.results[0]]
        group = next((each for each in self.open if root in each.made), None)
        (self.steps if group is None else group.later).append(step)

    def _close(self, group: _Group) -> None:
        """Write the group's loop, and then the views of its results. Groups it depends on are closed already."""
        self.open.remove(group)
        self._write(group, group.members)
        self.steps += group.later

    def _write(self, group: _Group, members: list[Step]) -> None:
        """Write steps as one loop; as two where one would be of so many arrays that LLVM does not test whether they overlap, and not vectorise."""
        own, made = {self.places[id(step)] for step in members}, {step.results[0] for step in members}
        kept = [k for k, step in enumerate(members) if step.results[0] in self.outside or any(place not in own for place in self.uses.get(step.results[0], ()))]
        tensors = {each for step in members for each in step.inputs if isinstance(each, Value)} - made - self.constants.keys()
        if len(kept) * len(tensors) + len(kept) * (len(kept) - 1) // 2 > PAIRS and len(members) > 1:
            self._write(group, members[: len(members) // 2])
            self._write(group, members[len(members) // 2 :])
        else:
            self.steps += [self._fused(group, members, kept)] if kept and self._worth(members) else members

    def _worth(self, members: list[Step]) -> bool:
        """Whether a loop of its own is less work: several steps, or one that spares the making of a constant tensor or may join a reduction or a product."""
        first = members[0]
        given = {self.effects.root[each] for each in first.inputs if isinstance(each, Value)}
        return len(members) > 1 or any(isinstance(each, Value) and each in self.constants for each in first.inputs) or self._reduced(first.results[0]) or bool(given & self.products)

    def _reduced(self, value: Value) -> bool:
        """Whether a reduction is all that uses a large value."""
        users = self.uses.get(value, ())
        return self.layouts[value].size >= LARGE and len(users) == 1 and isinstance(getattr(self.program.steps[users[0]], "op", None), Reduction)

    def _fused(self, group: _Group, members: list[Step], kept: list[int]) -> Step:
        inputs: list[emit.Input] = []
        given: list[object] = []
        places: dict[object, int] = {}
        rows = []
        made = {step.results[0]: k for k, step in enumerate(members)}

        def place(each: object) -> tuple:
            if isinstance(each, Value) and each in made:
                return "row", made[each]
            if isinstance(each, Value) and each in self.constants:
                return "constant", self.constants[each]
            key = each if isinstance(each, Value) else (type(each), repr(each))
            if key not in places:
                places[key] = len(inputs)
                tensor = isinstance(each, Value)
                inputs.append(emit.Input(f"a{len(inputs)}", self.layouts[each].dtype if tensor else dtypes.of_scalar_type(type(each)), tensor))
                given.append(each)
            return "in", places[key]

        for step in members:
            arguments = tuple(place(each) for each in step.inputs)
            if step.op in (table.add, table.mul):  # a sum's order is that of no program: equal loops have equal texts
                arguments = tuple(sorted(arguments, key=lambda each: each[0] != "row"))
            rows.append((step.op, arguments, group.dtype))
        layouts = tuple(self.layouts[members[k].results[0]] for k in kept)
        op = Fused(tuple(rows), tuple(inputs), tuple(kept), layouts, group.dtype, group.shape)
        lines = list(dict.fromkeys(step.where for step in members))
        return Step(op, tuple(given), (), tuple(members[k].results[0] for k in kept), False, lines[0] if len(lines) == 1 else f"{lines[0]}, ...")


def _constants(program: Program, effects: Effects) -> dict[Value, float | int | bool]:
    """Values that are one number everywhere: what `fill` made and nothing writes to."""
    found = {}
    for step in program.steps:
        if isinstance(step, Step) and step.op is table.fill and not step.in_place and not draws(step) and not isinstance(step.inputs[0], Value):
            (value,) = step.results
            kind, number = program.layouts[value].dtype, step.inputs[0]
            if effects.fixed(value) and kind.compute is kind and (kind.kind == "f" or (kind.kind in "ui" and isinstance(number, int) and 0 <= number < 128)):
                found[value] = kind.storage.type(number).item()
    return found
