"""Fuses chains of pointwise steps into one loop.

Elements are read once, and values used only within the chain are never stored. A group is a set of steps of one shape
and one compute dtype that can run at the same position. A single pointwise op uses the same emitter (`kernel.emit`).
"""

from __future__ import annotations

from collections.abc import Container, Hashable
from dataclasses import dataclass, field, replace

from ... import dtypes
from ...device import Layout
from ...dtypes import dtype as DType
from ...kernel import writer
from ...kernel.any_size import for_all_sizes
from ...kernel.expression import Call, Constant, Expression, Formula, Symbol, as_expression
from ...ops import table
from ...ops.convolution.convolution import convolution, winograd_convolution
from ...ops.matmul.matmul import linear, matmul, packed_linear, packed_matmul
from ...ops.op import Op, Plan
from ...ops.pointwise import Pointwise, plan_loop
from ...ops.reduce.reduction import Reduction
from ..ir.alias_analysis import (
    Boundary,
    Effects,
    copied,
    draws_random_numbers,
    program_outputs,
    is_pure,
    accessed_values,
)
from ..ir.program import Check, Program, Step, Value
from ..ir.repetition import repeated_runs

_ROUNDED = Formula("rounded_product", "rounded_product(x, y)", {})
MAX_ARRAY_PAIRS = 20  # LLVM checks at most this many pairs of arrays (one of them written to) for overlap at run time
MIN_FUSED_SIZE = 1 << 12  # minimum number of elements for fusing a single row with a reduction or a product
MAX_ITERATION = 1 << 10  # maximum number of steps of an iteration
# limits of a group: longer loops compile slowly, and LLVM does not vectorise loops over many arrays
MAX_MEMBERS, MAX_TENSORS = 32, 12


class Fused(Op):
    """Several rows in one loop.

    `rows` are (op, arguments, compute dtype); an argument is ("in", k), ("row", k) or a constant.
    """

    upcasts_half, differentiable = False, False

    def __init__(
        self,
        rows: tuple,
        inputs: tuple[writer.Input, ...],
        results: tuple[int, ...],
        layouts: tuple[Layout, ...],
        dtype: DType,
        shape: tuple,
    ) -> None:
        names = list(dict.fromkeys(op.name for op, *_ in rows))
        super().__init__("_".join(names[:4]) + (f"_and_{len(names) - 4}" if len(names) > 4 else ""))
        self.rows, self.inputs, self.layouts, self.shape = rows, tuple(input.name for input in inputs), layouts, shape
        self.outputs = tuple(f"out{k}" for k in range(len(results))) if len(results) > 1 else ()
        expressions = _expressions(rows, inputs, dtype.is_floating_point)
        outputs = tuple(writer.Output(expressions[k], layout.dtype) for k, layout in zip(results, layouts))
        self.loop = writer.Loop(inputs, outputs, dtype)

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        tensors = [argument for argument in arguments if isinstance(argument, Layout)]
        launch, constants = plan_loop(self.loop, self.name, self.layouts[0].device, tensors, self.layouts, self.shape)
        return Plan(self.layouts if self.outputs else self.layouts[0], launch, constants)

    def prepare_into(
        self, arguments: tuple, attributes: tuple, into: tuple[Layout, ...], over: tuple[int | None, ...]
    ) -> Plan:
        """Plan the loop with its only result written over an input."""
        tensors = [argument for argument in arguments if isinstance(argument, Layout)]
        loop = replace(self.loop, outputs=(self.loop.outputs[0]._replace(over=self.inputs[over[0]]),))
        launch, constants = plan_loop(loop, self.name, into[0].device, tensors, (), self.shape)
        return Plan(into[0], launch, constants)


def _expressions(rows: tuple, inputs: tuple[writer.Input, ...], floating: bool) -> list[Expression]:
    """Each row as an expression over the inputs."""
    symbols, expressions = [Symbol(input.name) for input in inputs], []
    for op, arguments, _ in rows:
        operands = [
            symbols[argument[1]]
            if argument[0] == "in"
            else expressions[argument[1]]
            if argument[0] == "row"
            else Constant(argument[1])
            for argument in arguments
        ]
        expressions.append(_with_rounded_products(op.express(*operands)) if floating else op.express(*operands))
    return expressions


def _with_rounded_products(value: Expression) -> Expression:
    """A row's result with explicitly rounded products.

    Without rounding, LLVM could contract a product and the next row's addition into an FMA, which differs from eager.
    """
    if not isinstance(value, Call):
        return value
    if value.formula.name == "mul":
        return Call(_ROUNDED, value.arguments)
    if value.formula.name == "neg":
        return Call(value.formula, (_with_rounded_products(value.arguments[0]),))
    return (
        _with_rounded_products(as_expression(value.formula.body(*value.arguments)))
        if callable(value.formula.body)
        else value
    )


@dataclass(eq=False)
class _Group:
    """Steps to be fused into one loop."""

    shape: tuple
    dtype: DType
    device: object
    members: list[Step] = field(default_factory=list)
    tensors: dict[Value, None] = field(default_factory=dict)
    produced: set[Value] = field(default_factory=set)
    views: list[Step] = field(default_factory=list)  # views of the results, to be emitted after the loop


def fuse_pointwise(program: Program) -> Program:
    """The program with chains of pointwise steps fused.

    Where steps repeat (in a recurrent layer, for example), groups that end with an iteration are tried as well. Groups
    that end when they are full would differ between iterations, and each would be compiled.
    """
    fused = _Fusion(program).result()
    ends = _ends(program)
    return min((fused, _Fusion(program, ends).result()), key=_count_loops) if ends else fused


def _ends(program: Program) -> set[int]:
    """The positions where iterations end, in repetitions with too many pointwise steps for one group."""
    ends: set[int] = set()
    keys = [_iteration_key(step, program.layouts) for step in program.steps]
    for first, period, trip_count in repeated_runs(keys, MAX_ITERATION):
        size = sum(isinstance(getattr(step, "op", None), Pointwise) for step in program.steps[first : first + period])
        if size * trip_count > MAX_MEMBERS:
            ends.update(range(first, first + (trip_count + 1) * period, period * max(1, MAX_MEMBERS // 2 // size)))
    return ends


def _iteration_key(step: Step | Check, layouts: dict[Value, Layout]) -> Hashable:
    """A key that is equal for corresponding steps of two iterations."""
    return (
        (step.op, step.in_place, *(layouts.get(operand, type(operand)) for operand in (*step.inputs, *step.results)))
        if isinstance(step, Step)
        else id(step)
    )


def _count_loops(program: Program) -> int:
    """The number of distinct loops."""
    ops = [step.op for step in program.steps if isinstance(step, Step) and isinstance(step.op, Fused)]
    return len({(op.rows, op.inputs, op.layouts) for op in ops})


def makes_product(step: Step | Check, layouts: dict[Value, Layout]) -> bool:
    """Whether a loop may be fused into a step.

    Products of small matrices use kernels without an epilogue; convolutions always support one.
    """
    return is_pure(step) and (
        step.op in (convolution, winograd_convolution)
        or step.op in (matmul, linear, packed_matmul, packed_linear)
        and is_large(layouts[step.results[0]])
    )


def is_large(layout: Layout) -> bool:
    """Whether a tensor is worth fusing a single row with a reduction or a product; in a program for all sizes, any."""
    return layout.size >= MIN_FUSED_SIZE or for_all_sizes.get()


class _Fusion:
    """One pass over a program, which collects pointwise steps in open groups and emits each group as one loop."""

    def __init__(self, program: Program, ends: Container[int] = ()) -> None:
        self.program, self.effects, self.ends = program, Effects(program), ends
        self.layouts = program.layouts
        self.constants = _constants(program, self.effects)
        self.uses: dict[Value, list[int]] = {}
        for position, step in enumerate(program.steps):
            for value in accessed_values(step):
                self.uses.setdefault(value, []).append(position)
        self.kept_values = set(program_outputs(program))
        self.products = {step.results[0] for step in program.steps if makes_product(step, self.layouts)}
        self.open: list[_Group] = []
        self.steps: list[Step | Check] = []
        self.positions: dict[int, int] = {id(step): position for position, step in enumerate(program.steps)}

    def result(self) -> Program:
        """Assign each step to a group, or emit it between groups."""
        for position, step in enumerate(self.program.steps):
            if position in self.ends:
                for group in list(self.open):
                    self._close(group)
            compute_dtype = self._dtype(step)
            if compute_dtype is not None:
                self._add(step, compute_dtype)
            elif isinstance(step, Step) and not step.in_place and step.op.is_view:
                self._view(step)
            else:
                for group in [
                    open_group
                    for open_group in self.open
                    if isinstance(step, Boundary) or self._conflicts(open_group, step)
                ]:
                    self._close(group)
                self.steps.append(step)
        for group in list(self.open):
            self._close(group)
        return copied(self.program, self.steps)

    def _dtype(self, step: Step | Check) -> DType | None:
        """The compute dtype of a step that can be in a group, else None."""
        if (
            not is_pure(step)
            or not isinstance(step.op, Pointwise)
            or step.op.integers
            or step.op in (table.index, table.arange, table.linspace)
        ):
            return None
        (result,) = step.results
        tensors = [input for input in step.inputs if issubclass(type(input), Value)]
        layout = self.layouts[result]
        if (
            not tensors
            or layout.size == 0
            or any(self.layouts[tensor].device is not layout.device for tensor in tensors)
        ):
            return None
        arguments = tuple(
            [self.layouts[input] if issubclass(type(input), Value) else type(input) for input in step.inputs]
        )
        compute = step.op.types(arguments, step.attributes)[0]
        native = all(
            tensor_layout.dtype.compute is tensor_layout.dtype
            for tensor_layout in (layout, *(self.layouts[tensor] for tensor in tensors))
        )
        # real and imaginary parts have another dtype than the loop
        return compute if native and compute.kind not in "bc" else None

    def _add(self, step: Step, dtype: DType) -> None:
        """Add a step to the open group that produces one of its inputs, to the last open group, or to a new one."""
        layout = self.layouts[step.results[0]]
        operands = [input for input in step.inputs if issubclass(type(input), Value)]
        producers = [group for group in self.open if any(operand in group.produced for operand in operands)]
        key = tuple(layout.shape), dtype, layout.device
        candidates = [
            g
            for g in (producers or self.open[-1:])
            if (g.shape, g.dtype, g.device) == key and self._has_room(g, operands)
        ]
        group = candidates[-1] if candidates else None
        for other in list(self.open):
            if other is not group and self._conflicts(other, step):
                self._close(other)
        if group is not None and (
            group not in self.open or any(self._is_pending_view(group, operand) for operand in operands)
        ):
            if group in self.open:
                self._close(group)
            group = None
        if group is None:
            group = _Group(*key)
            self.open.append(group)
        group.members.append(step)
        group.produced.add(step.results[0])
        group.tensors.update(
            dict.fromkeys(
                operand for operand in operands if operand not in group.produced and operand not in self.constants
            )
        )

    def _has_room(self, group: _Group, operands: list[Value]) -> bool:
        tensors = {*group.tensors, *(operand for operand in operands if operand not in group.produced)}
        return len(group.members) < MAX_MEMBERS and len(tensors) < MAX_TENSORS

    def _is_pending_view(self, group: _Group, value: Value) -> bool:
        """Whether a value is a view of the group's results, which follows the group's loop."""
        return any(value in step.results for step in group.views)

    def _conflicts(self, group: _Group, step: Step | Check) -> bool:
        """Whether a step must follow a group: it reads the group's results or writes to its inputs."""
        roots = {self.effects.root[value] for value in accessed_values(step)}
        if roots & group.produced:
            return True
        if isinstance(step, Step) and step.in_place:
            written = {self.effects.root[result] for result in step.results}
            return any(self.effects.root[tensor] in written for tensor in group.tensors)
        return False

    def _view(self, step: Step) -> None:
        """Emit a view, after the loop of the group that produces its base."""
        root = self.effects.root[step.results[0]]
        group = next((open_group for open_group in self.open if root in open_group.produced), None)
        (self.steps if group is None else group.views).append(step)

    def _close(self, group: _Group) -> None:
        """Emit the group's loop and the views of its results. Groups that it depends on are already closed."""
        self.open.remove(group)
        self._write(group, group.members)
        self.steps += group.views

    def _write(self, group: _Group, members: list[Step]) -> None:
        """Emit steps as one loop, or as several if there are too many arrays for LLVM's overlap checks.

        Without overlap checks LLVM does not vectorise.
        """
        positions, produced = {self.positions[id(step)] for step in members}, {step.results[0] for step in members}
        stored = [
            k
            for k, step in enumerate(members)
            if step.results[0] in self.kept_values
            or any(position not in positions for position in self.uses.get(step.results[0], ()))
        ]
        tensors = (
            {input for step in members for input in step.inputs if issubclass(type(input), Value)}
            - produced
            - self.constants.keys()
        )
        if len(stored) * len(tensors) + len(stored) * (len(stored) - 1) // 2 > MAX_ARRAY_PAIRS and len(members) > 1:
            self._write(group, members[: len(members) // 2])
            self._write(group, members[len(members) // 2 :])
        else:
            self.steps += [self._fused(group, members, stored)] if stored and self._is_worthwhile(members) else members

    def _is_worthwhile(self, members: list[Step]) -> bool:
        """Whether fusing pays off.

        A single step pays off if it has a constant operand, or can be fused with a reduction or a product.
        """
        first = members[0]
        roots = {self.effects.root[input] for input in first.inputs if issubclass(type(input), Value)}
        return (
            len(members) > 1
            or any(issubclass(type(input), Value) and input in self.constants for input in first.inputs)
            or self._is_only_reduced(first.results[0])
            or bool(roots & self.products)
        )

    def _is_only_reduced(self, value: Value) -> bool:
        """Whether a reduction is the only use of a large value."""
        users = self.uses.get(value, ())
        return (
            is_large(self.layouts[value])
            and len(users) == 1
            and isinstance(getattr(self.program.steps[users[0]], "op", None), Reduction)
        )

    def _fused(self, group: _Group, members: list[Step], stored: list[int]) -> Step:
        """The step that runs some members of a group in one loop and stores the results of those in `stored`."""
        inputs: list[writer.Input] = []
        operands: list[object] = []
        position_of: dict[object, int] = {}
        rows = []
        row_of = {step.results[0]: k for k, step in enumerate(members)}

        def argument_of(operand: object) -> tuple:
            if issubclass(type(operand), Value) and operand in row_of:
                return "row", row_of[operand]
            if issubclass(type(operand), Value) and operand in self.constants:
                return "constant", self.constants[operand]
            key = operand if issubclass(type(operand), Value) else (type(operand), repr(operand))
            if key not in position_of:
                position_of[key] = len(inputs)
                tensor = issubclass(type(operand), Value)
                kind = self.layouts[operand].dtype if tensor else dtypes.of_scalar_type(type(operand))
                inputs.append(writer.Input(writer.argument_name(str(len(inputs))), kind, tensor))
                operands.append(operand)
            return "in", position_of[key]

        for step in members:
            arguments = tuple(argument_of(input) for input in step.inputs)
            if step.op in (table.add, table.mul):  # in a canonical order, so that equal loops have equal texts
                arguments = tuple(sorted(arguments, key=lambda argument: argument[0] != "row"))
            rows.append((step.op, arguments, group.dtype))
        layouts = tuple(self.layouts[members[k].results[0]] for k in stored)
        op = Fused(tuple(rows), tuple(inputs), tuple(stored), layouts, group.dtype, group.shape)
        lines = list(dict.fromkeys(step.location for step in members))
        return Step(
            op,
            tuple(operands),
            (),
            tuple(members[k].results[0] for k in stored),
            False,
            lines[0] if len(lines) == 1 else f"{lines[0]}, ...",
        )


def _constants(program: Program, effects: Effects) -> dict[Value, float | int | bool]:
    """Values filled with one number that no step writes to."""
    constants = {}
    for step in program.steps:
        if (
            isinstance(step, Step)
            and step.op is table.fill
            and not step.in_place
            and not draws_random_numbers(step)
            and not isinstance(step.inputs[0], Value)
        ):
            (value,) = step.results
            kind, number = program.layouts[value].dtype, step.inputs[0]
            if (
                effects.fixed(value)
                and kind.compute is kind
                and (kind.kind == "f" or (kind.kind in "ui" and isinstance(number, int) and 0 <= number < 128))
            ):
                constants[value] = kind.storage.type(number).item()
    return constants
