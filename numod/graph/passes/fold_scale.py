"""Folds constant scales of channels into weights: a batch norm in evaluation mode joins the layer before it.

A convolution or linear layer whose result is multiplied by a constant per channel, as in `addcmul(shift, y, scale)`,
becomes one with the weight `weight * scale`, followed by the addition of a constant. The steps that compute the new
constants are part of the program; `freezing.compute_constants` runs them. Results are equal within rounding.
"""

from __future__ import annotations

from dataclasses import replace as with_fields

from ...ops import table
from ...ops.convolution.convolution import convolution, convolution_input
from ...ops.matmul.matmul import linear
from ...ops.op import Op
from ...ops.view import rows as views
from ..ir.alias_analysis import accessed_values, copied, is_pure, prepare_arguments, program_outputs
from ..ir.program import Program, Step, Value

_PRODUCTS = convolution, convolution_input, linear


def fold_scales(program: Program, constants: set[Value]) -> Program:
    """The program with scales in the weights; `constants` are the values that may be computed ahead.

    The program must be `simplified`.
    """
    return _Folding(program, constants).result()


class _Folding:
    """Builds the new list of steps. `made`: the position, in this list, of the step that makes a value."""

    def __init__(self, program: Program, constants: set[Value]) -> None:
        self.program, self.constants = copied(program, []), set(constants)
        self.recorded, self.made = program.steps, {}
        self.uses: dict[Value, int] = {}
        for value in [*program_outputs(program), *(v for step in program.steps for v in accessed_values(step))]:
            self.uses[value] = self.uses.get(value, 0) + 1

    def result(self) -> Program:
        """The program with folded scales."""
        for step in self.recorded:
            if not (is_pure(step) and self._fold(step)):
                self._append(step)
        return self.program

    def _fold(self, step: Step) -> bool:
        """Append the folded form of a step that scales a product, if it is one."""
        for shift, scaled, scale in _readings(step):
            chain = self._product(scaled) if self._per_channel(scale, step) else None
            if chain is not None and (shift is None or self._is_constant(shift)):
                self._scale(step, shift, scale, *chain)
                return True
        return False

    def _per_channel(self, scale: object, step: Step) -> bool:
        """Whether a value is a constant with one element for each channel of the step's result."""
        if not isinstance(scale, Value) or scale not in self.constants:
            return False
        shape, out = self.program.layouts[scale].shape, self.program.layouts[step.results[0]]
        if out.ndim < 2 or self.program.layouts[scale].dtype is not out.dtype:
            return False
        by_channel = (1, out.shape[1], *(1,) * (out.ndim - 2))
        return (1,) * (out.ndim - len(shape)) + tuple(shape) == by_channel

    def _is_constant(self, value: object) -> bool:
        return not isinstance(value, Value) or value in self.constants

    def _product(self, value: object) -> tuple[Step, Step | None] | None:
        """(the step that makes a product with a constant weight, the step that adds a constant bias to it or None)."""
        step, bias = self._only_use(value), None
        if step is not None and step.op is table.add:
            bias = step
            step = next((self._only_use(part) for part in step.inputs if not self._is_constant(part)), None)
            if not any(map(self._is_constant, bias.inputs)):
                return None
        weighted = step is not None and step.op in _PRODUCTS and step.inputs[1] in self.constants
        weighted = weighted and (step.op is not linear or self._is_constant(step.inputs[2]))
        weighted = weighted and (step.op is not linear or self.program.layouts[step.results[0]].ndim == 2)
        return (step, bias) if weighted else None

    def _only_use(self, value: object) -> Step | None:
        """The step that makes a value which is used once."""
        if not isinstance(value, Value) or self.uses.get(value) != 1 or value not in self.made:
            return None
        return self.program.steps[self.made[value]]

    def _scale(self, step: Step, shift: object, scale: Value, product: Step, bias: Step | None) -> None:
        """Replace `shift + scale * (product + bias)`."""
        inputs = product.inputs[0], self._scaled_weight(product, scale, step.location)
        addends = [part for part in bias.inputs if part != product.results[0]] if bias is not None else []
        addends += [part for part in product.inputs[2:] if part is not None]
        for part in addends:
            shift = self._emit(table.addcmul, (0 if shift is None else shift, part, scale, 1), (), step.location)
        if product.op is linear:
            is_bias = isinstance(shift, Value) and self.program.layouts[shift].ndim == 1
            inputs, shift = (*inputs, shift if is_bias else None), None if is_bias else shift
        if shift is None:
            return self._append(with_fields(product, inputs=inputs, results=step.results))
        result = self._emit(product.op, inputs, product.attributes, product.location)
        return self._append(Step(table.add, (result, shift), (), step.results, False, step.location))

    def _scaled_weight(self, product: Step, scale: Value, location: str) -> Value:
        """The weight of a product, multiplied by a scale for each channel of the result."""
        weight, size = product.inputs[1], self.program.layouts[scale].size
        shape = tuple(self.program.layouts[weight].shape)
        if product.op is not convolution_input:
            by_row = self._emit(views["view"], (scale,), ((size, *(1,) * (len(shape) - 1)),), location)
            return self._emit(table.mul, (weight, by_row), (), location)
        groups = product.attributes[3]  # a transposed convolution's weight is (in, out / groups, ...)
        ones = (1,) * (len(shape) - 2)
        grouped = self._emit(views["view"], (weight,), ((groups, shape[0] // groups, *shape[1:]),), location)
        by_group = self._emit(views["view"], (scale,), ((groups, 1, size // groups, *ones),), location)
        scaled = self._emit(table.mul, (grouped, by_group), (), location)
        return self._emit(views["view"], (scaled,), (shape,), location)

    def _emit(self, op: Op, inputs: tuple, attributes: tuple, location: str) -> Value:
        """Append a step and return its result."""
        step = Step(op, inputs, attributes, (), False, location)
        layout = op.prepare(prepare_arguments(step, self.program.layouts), attributes).layout
        step.results = (result := self.program.new_value(layout),)
        if self.constants.issuperset(accessed_values(step)):
            self.constants.add(result)
        self._append(step)
        return result

    def _append(self, step: Step) -> None:
        if isinstance(step, Step) and not step.in_place:
            self.made.update(dict.fromkeys(step.results, len(self.program.steps)))
        self.program.steps.append(step)


def _readings(step: Step) -> list[tuple[object, object, object]]:
    """The ways to read a step as (shift, scaled value, scale), with None for no shift."""
    if step.op is table.mul:
        first, second = step.inputs
        return [(None, first, second), (None, second, first)]
    if step.op is table.addcmul and step.inputs[3] == 1:
        shift, first, second, _ = step.inputs
        return [(shift, first, second), (shift, second, first)]
    return []
