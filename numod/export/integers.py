"""Rewrites quantized networks without floating point, for processors that have none.

A recorded network computes what is not a product of integers in float32, between two steps: one that makes floats of
bytes, and one that makes bytes of floats. Here each such part becomes, if it is

- a function of one byte, a table of 256 bytes, with the same results;
- a sum of two bytes, or a linear function with numbers for each channel: a sum of products with integers, and a shift;
- a multiple of a product, a mean or a product of matrices: the integer sum, which is scaled as those of layers are.

The last two are compared with the program's results for all pairs of bytes, or for many sums, and used where none
differs by more than 1.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from .. import dtypes
from ..core.apply import apply
from ..core.create.values import from_numpy
from ..device.layout import Layout
from ..graph.ir.alias_analysis import Effects, copied, is_pure, prepare_arguments, program_outputs, accessed_values
from ..graph.ir.program import Check, Program, Step, Value
from ..graph.passes.simplify import without_dead
from ..ops import quantize as rows
from ..ops import table as t
from ..ops.byte_table import byte_table
from ..ops.convolution.compressed import CompressedByteConvolution
from ..ops.convolution.int8 import ByteConvolution
from ..ops.index.concat import cat, stack
from ..ops.index.indexing import select_known
from ..ops.index.pad import pad
from ..ops.matmul.compressed import CompressedByteLinear
from ..ops.matmul.int8_linear import ByteLinear
from ..ops.matmul.matmul import matmul
from ..ops.op import Op
from ..ops.pointwise import Pointwise
from ..ops.reduce.reduction import mean, sum as sum_
from ..ops.view import rows as views
from .curves import BYTES, Curve, Line, Surface, Tree, combined, curve_of, line_of, mapped
from .program import ExportedProgram

_MOVING = t.row_major, cat, stack, pad, select_known  # ops that move elements, besides views
# ops whose multipliers are float32, which integers read by their bits where there is no floating point
_SCALED = ByteLinear, ByteConvolution, CompressedByteLinear, CompressedByteConvolution
_BETWEEN = t.copy, t.sub, t.mul, *rows.to_integers.values()  # of which float inputs and results of bytes consist
_WITH_FORMS = {op.name for op in (t.add, matmul, mean, sum_)}  # which have a form of integers in most networks
_BITS = 31  # of a sum, without its sign
permute = views["permute"]


def without_floats(exported: ExportedProgram) -> ExportedProgram:
    """The program with integers in the place of floats between bytes, where the results differ by at most 1."""
    result, dynamic = copy.copy(exported), exported.dynamic
    if dynamic is None:
        result.program = integer_program(exported.program)
        return result
    largest = tuple([symbol.high or symbol.size for symbol in dynamic.symbols])
    sizes = [dynamic.program(point) for point in (*dynamic.general_points(), largest)]
    varying = dynamic.values_by_size(layouts=False)
    transform = partial(integer_program, variable=dynamic.values_by_size(), varying=varying, sizes=sizes)
    result.dynamic = dynamic = dynamic.mapped(transform, dynamic.general_points())
    result.program = dynamic.program(tuple([symbol.size for symbol in dynamic.symbols]))
    return result


def integer_program(
    program: Program,
    variable: set[Value] = frozenset(),
    varying: set[Value] = frozenset(),
    sizes: Sequence[Program] = (),
) -> Program:
    """See `without_floats`.

    `variable`: values that are no constants; `varying`: results of steps with numbers that depend on dynamic sizes;
    `sizes`: the program for some sizes.
    """
    rewriter = _Rewriter(program, variable, varying, sizes or [program])
    with np.errstate(over="ignore", invalid="ignore"):  # of extreme scales, whose sums are then Inexact
        for step in program.steps:
            rewriter.add(step)
    result = without_dead(rewriter.result)
    used = {value for step in result.steps for value in accessed_values(step)}.union(program_outputs(result))
    result.held = {value: tensor for value, tensor in result.held.items() if value in used or value in variable}
    return result


def floats(program: Program) -> list[str]:
    """A line for each line of the source with floats: its place, its ops, and what to do instead."""
    lines: dict[str, list[Step]] = {}
    for step in program.steps:
        if isinstance(step, Step) and not isinstance(step.op, _SCALED):
            values = [value for value in (*step.inputs, *step.results) if isinstance(value, Value)]
            if any(program.layouts[value].dtype.kind in "fc" for value in values):
                lines.setdefault(step.location or "an unknown line", []).append(step)
    return [f"{line}: {_advice(program, steps)}" for line, steps in lines.items()]


def _advice(program: Program, steps: list[Step]) -> str:
    """Which ops of a line have floats, and what to do instead."""
    names = [step.op.name for step in steps if step.op not in _BETWEEN and not step.op.is_view]
    ends = [] if names else [text for text, is_there in _ends(program, {step.op for step in steps}) if is_there]
    if ends:
        return "; ".join(ends)
    floats = f"{', '.join(dict.fromkeys(names or [step.op.name for step in steps]))}: computed in floats"
    if {*names} and {*names} <= _WITH_FORMS:
        return (
            f"{floats}, since its scale is far finer than those of its inputs, its sums need more than 32 bits, or a "
            "mean over a dynamic size changes the scale; change that, or compute it outside"
        )
    return (
        f"{floats}; use a quantized layer that has a form of integers (see the guide on quantization, Without floating "
        "point), or compute it outside"
    )


def _ends(program: Program, ops: set[Op]) -> list[tuple[str, bool]]:
    """What to do for floats at the ends of a program, and whether ops are there."""
    takes, gives = [
        any(program.layouts[value].dtype.kind in "fc" for value in values)
        for values in (program.inputs, program_outputs(program))
    ]
    return [
        ("an input of floats is quantized; export the network without its QuantStub, with a quantized example, and "
         "quantize inputs by NET_INPUT_SCALE", takes and not ops.isdisjoint(rows.to_integers.values())),
        ("a result is made a float; export the network without its DeQuantStub, and read results by "
         "NET_OUTPUT_SCALE", gives and t.copy in ops),
    ]  # fmt: skip


class Inexact(Exception):
    """Integers would not give the bytes of a step."""


class _Rewriter:
    """Adds the steps of a program to `result`, with forms for its floats."""

    def __init__(self, program: Program, variable: set[Value], varying: set[Value], sizes: Sequence[Program]) -> None:
        self.result = copied(program, [])
        self.layouts, self.effects = self.result.layouts, Effects(program)
        self.result.held = dict(program.held)
        self.varying, self.sizes = varying, sizes
        self.forms: dict[Value, Any] = {}
        self.constants = {value: x for value, x in program.held.items() if value not in variable and self._fixed(value)}
        self.tables: dict[bytes, Value] = {}
        self.functions: dict[Value, tuple[Value, np.ndarray]] = {}  # bytes that are a table of other bytes

    def add(self, step: Step | Check) -> None:
        """Add a step, or those that stand for it. Steps of floats that nothing reads are removed later."""
        if is_pure(step) and len(step.results) == 1 and all(map(self._fixed, (*accessed_values(step), *step.results))):
            form, layout = self._form(step), self.layouts[step.results[0]]
            if form is not None and layout.dtype in BYTES:
                start = len(self.result.steps)
                try:
                    self.write(form, step, step.results[0])
                    return
                except Inexact:
                    del self.result.steps[start:]
            elif form is not None:
                self.forms[step.results[0]] = form
        self.result.steps.append(step)

    def _fixed(self, value: Value) -> bool:
        return self.effects.fixed(value)

    # ---- forms

    def _form(self, step: Step) -> Any:
        """The form of a step's result; None if it has none."""
        op, (result,) = step.op, step.results
        values = [x for x in step.inputs if isinstance(x, Value)]
        if values and all(value in self.constants for value in values):
            if result in self.varying:
                return None
            if op.is_view or (isinstance(op, Pointwise) and self.layouts[result].size <= 1 << 16):
                inputs = [self.constants.get(x, x) if isinstance(x, Value) else x for x in step.inputs]
                self.constants[result] = apply(op, tuple(inputs), step.attributes)
            return None
        if op is t.copy and self.layouts[values[0]].dtype in BYTES and self.layouts[result].dtype is dtypes.float32:
            return curve_of(
                values[0], self.layouts[values[0]].dtype, len(self.layouts[result].shape), op, step.attributes
            )
        forms = [self.forms[value] for value in values if value in self.forms]
        if not forms:
            return None
        if op.is_view or op in _MOVING:
            return self._moved(step, forms)
        if not isinstance(op, Pointwise):
            return self._sum(step, forms) if all(isinstance(form, Curve) for form in forms) else None
        return None if result in self.varying else self._pointwise(step)

    def _pointwise(self, step: Step) -> Any:
        inputs = [self.forms.get(x, self.constants.get(x)) if isinstance(x, Value) else x for x in step.inputs]
        if any(x is None and isinstance(source, Value) for x, source in zip(inputs, step.inputs)):
            return None
        forms = [x for x in inputs if isinstance(x, (Curve, Surface, Line, Tree))]
        if len({id(form) for form in forms}) == 1:
            form = mapped(forms[0], step.op, inputs, step.attributes)
        elif all(isinstance(form, Curve) for form in forms):
            form = self._product(step, forms) or combined(step.op, inputs, step.attributes, forms)
        else:
            form = None
        if isinstance(form, Curve) and self.layouts[form.source].shape != self.layouts[step.results[0]].shape:
            return None
        return form

    def _moved(self, step: Step, forms: list) -> Any:
        """The form of moved or joined elements: of moved bytes, if they have one function."""
        first, inputs = forms[0], step.inputs
        together = all(
            isinstance(form, Curve) and form.values.numel() == 256 and form.low == first.low
            and form.values.reshape(256).equal(first.values.reshape(256))
            for form in forms
        )  # fmt: skip
        if not together:
            movable = len(forms) == len(inputs) and all(isinstance(form, (Curve, Tree)) for form in forms)
            return Tree(step.op, step.attributes, tuple(forms)) if movable else None
        others = inputs[len(forms) :]
        if step.op is pad and step.attributes[-1] == "constant":  # by the byte that stands for the value
            places = np.flatnonzero(first.values.numpy().reshape(256) == np.float32(others[0]))
            others = (int(places[0]) + first.low,) if len(places) else (None,)
        sources = [self._laid_out(form.source, self.layouts[value]) for form, value in zip(forms, inputs)]
        if None in sources or None in others:
            return None
        moved = self._emit(step.op, (*sources, *others), step.attributes, step.location)
        if len(sources) == 1 and sources[0] in self.functions and step.op is not pad:
            inner, table = self.functions[sources[0]]
            if self.layouts[inner].strides == self.layouts[sources[0]].strides:
                self.functions[moved] = self._emit(step.op, (inner, *others), step.attributes, step.location), table
        shape = self.layouts[moved].shape
        return Curve(moved, first.low, first.values.reshape(256, *[1] * len(shape)))

    def _product(self, step: Step, curves: list[Curve]) -> Line | None:
        """The form of a product of two bytes."""
        if step.op is not t.mul or len(curves) != 2 or curves[0].source == curves[1].source:
            return None
        return self._of_products(step, curves, 1)

    def _sum(self, step: Step, curves: list[Curve]) -> Line | None:
        """The form of sums and means over dimensions, and of products of matrices."""
        if step.op is matmul and len(curves) == 2:
            ndim = len(self.layouts[step.inputs[0]].shape)
            dim = -2 if step.attributes[0] and ndim > 1 else -1
            return self._of_products(step, curves, max(self._counts(step.inputs[0], (dim,))))
        if step.op not in (mean, sum_):
            return None
        (curve,), (dims, keepdim, _) = curves, step.attributes
        if curve.plain_line is None:
            return None
        shape, (slope, zero) = self.layouts[curve.source].shape, curve.plain_line
        dims = dims or range(len(shape))
        count, counts = prod([shape[dim] for dim in dims]), self._counts(step.inputs[0], dims)
        ends = curve.low - zero, curve.low + 255 - zero
        if not count or not self._fits(max(counts) * max(map(abs, ends))):
            return None
        total = self._emit(sum_, (curve.source,), (step.attributes[0], keepdim, dtypes.int32), step.location)
        total = self._emit(t.sub, (total, count * zero), (), step.location) if zero else total
        if step.op is mean:
            return line_of(total, slope / count, *[count * end for end in ends], count, len(counts) > 1)
        return line_of(total, slope, *[max(counts) * end for end in ends])

    def _counts(self, value: Value, dims: Sequence[int]) -> set[int]:
        """The numbers of elements along dimensions, over the sizes of the program."""
        return {prod([program.layouts[value].shape[dim] for dim in dims]) for program in self.sizes}

    def _of_products(self, step: Step, curves: list[Curve], count: int) -> Line | None:
        """The form of sums of up to so many products of two bytes."""
        if any(curve.plain_line is None for curve in curves):
            return None
        ends = [[curve.low + end - curve.plain_line[1] for end in (0, 255)] for curve in curves]
        extremes = [a * b * count for a in ends[0] for b in ends[1]]
        factors = [
            self._laid_out(curve.source, self.layouts[value]) if step.op is matmul else curve.source
            for curve, value in zip(curves, step.inputs)
        ]
        if not self._fits(max(map(abs, extremes))) or None in factors:
            return None
        factors = [self._minus(value, curve.plain_line[1], step) for value, curve in zip(factors, curves)]
        total = self._emit(step.op, factors, step.attributes, step.location)
        return line_of(total, curves[0].plain_line[0] * curves[1].plain_line[0], min(extremes), max(extremes))

    def _minus(self, source: Value, zero: int, step: Step) -> Value:
        wide = self._emit(t.copy, (source,), (dtypes.int32,), step.location)
        return self._emit(t.sub, (wide, zero), (), step.location) if zero else wide

    @staticmethod
    def _fits(number: float) -> bool:
        return number < 1 << _BITS

    # ---- steps

    def _emit(self, op: Any, inputs: Any, attributes: tuple, location: str, result: Value | None = None) -> Value:
        """Add a step. `result`: its value, if its layout is that."""
        step = Step(op, tuple(inputs), attributes, (), False, location)
        layout = op.prepare(prepare_arguments(step, self.layouts), attributes).layout
        if result is not None and op is t.row_major and layout.strides != self.layouts[result].strides:
            raise Inexact
        if result is None or layout.strides != self.layouts[result].strides:
            new = self.result.new_value(layout)
            self.result.steps.append(Step(op, step.inputs, attributes, (new,), False, location))
            return new if result is None else self._laid_out(new, self.layouts[result], result, location)
        self.result.steps.append(Step(op, step.inputs, attributes, (result,), False, location))
        return result

    def _laid_out(self, value: Value, layout: Layout, result: Value | None = None, location: str = "") -> Value | None:
        """The value with the strides of a layout; None if that has gaps."""
        if result is None and self.layouts[value].strides == layout.strides:
            return value
        if not layout.packed:
            return None
        order = sorted(range(layout.ndim), key=lambda dim: (-layout.strides[dim], dim))
        if layout.dense or order == [*range(layout.ndim)]:
            return self._emit(t.row_major, (value,), (), location, result)
        value = self._emit(permute, (value,), (tuple(order),), location)
        value = self._emit(t.row_major, (value,), (), location)
        inverse = tuple([order.index(dim) for dim in range(layout.ndim)])
        return self._emit(permute, (value,), (inverse,), location, result)

    def _held(self, array: np.ndarray) -> Value:
        """A constant; equal ones are one."""
        array = np.ascontiguousarray(array)
        key = repr((array.dtype, array.shape)).encode() + array.tobytes()
        if key not in self.tables:
            constant = from_numpy(array)
            self.tables[key] = value = self.result.new_value(constant._layout)
            self.result.held[value] = constant
        return self.tables[key]

    def write(self, form: Any, step: Step, result: Value | None = None) -> Value:
        """Add the steps that compute a form's bytes, to be `result`. Raises Inexact if none are close enough."""
        return _WRITERS[type(form)](self, form, step, result)

    def _write_tree(self, tree: Tree, step: Step, result: Value | None) -> Value:
        parts = [self.write(part, step) for part in tree.parts]
        return self._emit(tree.op, parts, tree.attributes, step.location, result)

    def _write_curve(self, curve: Curve, step: Step, result: Value | None) -> Value:
        if curve.values.numel() > 256:
            return self._write_channels(curve, step, result)
        source, table, least = curve.source, curve.values.numpy().reshape(256), curve.low
        while source in self.functions:  # a table of a table is a table
            source, inner = self.functions[source]
            table, least = table[inner.astype(np.int64) - least], self._least(source)
        low, high = int(table.min()), int(table.max())
        clamped = (np.arange(256) + least).clip(low, high)
        if curve.values.dtype is self.layouts[source].dtype and (table == clamped).all():
            op, limits = (t.copy, ()) if high - low == 255 else (t.clamp, (low, high))
            written = self._emit(op, (source, *limits), (), step.location, result)
        else:
            written = self._look_up(source, table.reshape(1, 256), None, step, result)
        self.functions[written] = source, table
        return written

    def _least(self, value: Value) -> int:
        return dtypes.RANGES[self.layouts[value].dtype][0]

    def _look_up(self, x: Value, table: np.ndarray, axis: int | None, step: Step, result: Value | None) -> Value:
        if not self.layouts[x].packed:
            x = self._emit(t.row_major, (x,), (), step.location)
        return self._emit(byte_table, (x, self._held(table)), (axis,), step.location, result)

    def _write_channels(self, curve: Curve, step: Step, result: Value | None) -> Value:
        """A function with numbers for each channel: by a shift if it is linear, else by a table for each channel."""
        shape = curve.values.shape
        axes = [axis for axis, size in enumerate(shape[1:]) if size > 1]
        wanted = np.moveaxis(curve.values.numpy().astype(np.int64), 0, -1)  # (…, channels, …, 256)
        before, integers = self.forms.get(step.inputs[0]), np.arange(256) + curve.low
        line = before.line if isinstance(before, Curve) else None
        if line is not None:
            scale, zero = _numbers(step)
            slope, start = line[0] / scale, line[1] / scale + zero
            shift = _shift(abs(slope).max() * 256 + abs(start).max())
            factors, offset = _fixed_point((slope, start), shift)
            got = _shifted(factors[..., None] * integers + offset[..., None], shift).clip(wanted.min(), wanted.max())
            if abs(got - wanted).max() <= 1:
                inputs = self._wide(curve.source, step), 0, self._held(factors), 0, self._held(offset)
                return self._write_shift(inputs, shift, wanted, curve, step, result)
        if len(axes) != 1:
            raise Inexact
        return self._look_up(
            curve.source, wanted.reshape(-1, 256).astype(curve.values.numpy().dtype), axes[0], step, result
        )

    def _wide(self, source: Value, step: Step) -> Value:
        return self._emit(t.copy, (source,), (dtypes.int32,), step.location)

    def _write_shift(
        self, inputs: tuple, shift: int, wanted: np.ndarray, form: Any, step: Step, result: Value | None
    ) -> Value:
        row = rows.shifted_sum[form.values.dtype.name]
        limits = int(wanted.min()), int(wanted.max())
        return self._emit(row, (*inputs, shift, *limits), (), step.location, result)

    def _write_surface(self, surface: Surface, step: Step, result: Value | None) -> Value:
        scale, zero = _numbers(step)
        slopes, start = [slope / scale for slope in surface.slopes], surface.at_zero / scale + zero
        shift = _shift(sum(map(abs, slopes)) * 256 + abs(start))
        *factors, offset = [int(number) for number in _fixed_point((*slopes, start), shift)]
        integers, wanted = np.arange(256), surface.values.numpy().astype(np.int64)
        a, b = (integers + curve.low for curve in (surface.first, surface.second))
        got = _shifted(factors[0] * a[:, None] + factors[1] * b + offset, shift).clip(wanted.min(), wanted.max())
        if abs(got - wanted).max() > 1:
            raise Inexact
        sources = [self._wide(curve.source, step) for curve in (surface.first, surface.second)]
        return self._write_shift((*sources, *factors, offset), shift, wanted, surface, step, result)

    def _write_line(self, line: Line, step: Step, result: Value | None) -> Value:
        scale, zero = _numbers(step)
        multiplier, wanted = np.float32(line.slope / scale), line.values.numpy().astype(np.int64)
        low, high = int(wanted.min()), int(wanted.max())
        if line.count > 1 and abs(line.slope * line.count / scale - 1) < 1e-6:  # a mean with the scale of its input
            got = np.rint(line.totals / line.count + zero).clip(low, high)
            if abs(got - wanted).max() <= 1:
                inputs = line.source, line.count, zero, low, high
                return self._emit(rows.mean_sum[line.values.dtype.name], inputs, (), step.location, result)
        got = np.rint((line.totals.astype(np.float32) * multiplier).astype(np.float64) + zero).clip(low, high)
        if line.varies or not 0 < multiplier < np.inf or abs(got - wanted).max() > 1:
            raise Inexact
        inputs = line.source, int(multiplier.view(np.int32)), zero, low, high
        return self._emit(rows.scaled_sum[line.values.dtype.name], inputs, (), step.location, result)


_WRITERS = {
    Tree: _Rewriter._write_tree, Curve: _Rewriter._write_curve, Surface: _Rewriter._write_surface,
    Line: _Rewriter._write_line,
}  # fmt: skip


def _numbers(step: Step) -> tuple[float, int]:
    """The scale and the zero point of a step that makes bytes of floats."""
    if step.op not in rows.to_integers.values() or any(isinstance(number, Value) for number in step.inputs[1:]):
        raise Inexact
    scale = float(np.float32(step.inputs[1]))
    if not scale > 0:
        raise Inexact
    return scale, int(step.inputs[2])


def _shift(bound: float) -> int:
    """The bits by which sums of numbers up to `bound` are greater."""
    shift = _BITS - 1 - int(np.ceil(np.log2(bound + 1)))
    if shift < 1:
        raise Inexact
    return shift


def _fixed_point(numbers: tuple, shift: int) -> list[np.ndarray]:
    return [np.rint(np.asarray(number) * 2.0**shift).astype(np.int32) for number in numbers]


def _shifted(total: np.ndarray, shift: int) -> np.ndarray:
    """`kernel.library.requantize.shifted` of an array."""
    total = np.asarray(total, np.int64)
    return (total + (1 << shift - 1) - 1 + (total >> shift & 1)) >> shift
