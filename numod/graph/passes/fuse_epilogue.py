"""Fuses pointwise loops over a product's elements into the product's kernel as an epilogue: the elements are still in
the cache, and often never stored.

Products are matrix products and convolutions. A product moves to the position of the loop. Sums and the rows that
follow are computed in eager's order.
"""

from __future__ import annotations

from ...device import Layout
from ...kernel import bind, writer
from ...ops.op import Op, Plan
from ..ir.alias_analysis import Boundary, Effects, copied, described, leaving, used
from .fuse_pointwise import Fused, makes_product
from ..ir.program import Program, Step, Value


class WithEpilogue(Op):
    """A product with a loop as its epilogue.

    Inputs are the product's, then the loop's others; if `kept`, the product is the first result.

    `rows` are the loop's, with arguments ("in", k) by the place among these inputs, ("product", 0) for the product's
    element.
    """

    upcasts_half, differentiable = False, False

    def __init__(self, product: Op, loop: Fused, place: int, out: Layout, kept: bool) -> None:
        super().__init__(f"{product.name}_{loop.name}")
        self.product, self.shape, count = product, loop.shape, len(product.inputs)
        self.inputs = (*product.inputs, *(input for k, input in enumerate(loop.inputs) if k != place))
        self.rows = tuple(
            (op, tuple(_moved(argument, place, count) for argument in arguments), dtype)
            for op, arguments, dtype in loop.rows
        )
        self.layouts = (*([out] if kept else []), *loop.layouts)
        self.outputs = tuple(f"out{k}" for k in range(len(self.layouts))) if len(self.layouts) > 1 else ()
        self.element, outputs = loop.inputs[place], list(loop.loop.outputs)
        # the result that holds the product
        self.at = 0 if kept else next(k for k, layout in enumerate(loop.layouts) if layout.dtype is out.dtype)
        if not kept:
            outputs[self.at] = outputs[self.at]._replace(over="out")
        self.loop = writer.Loop(loop.loop.inputs, tuple(outputs), loop.loop.dtype)

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        count = len(self.product.inputs)
        given, tensors = arguments[:count], [argument for argument in arguments[count:] if isinstance(argument, Layout)]
        make = self.product.finished(self.name, given, parameters, self.loop, self.element, self.shape, tensors)
        own, at, results = sum(isinstance(each, Layout) for each in given), self.at, len(self.layouts)
        if make is None:
            raise ValueError(f"{self.name}: no kernel of {self.product.name} does this on the way")

        def launch(*given: object) -> None:
            buffers, numbers = given[: own + len(tensors) + results], given[own + len(tensors) + results :]
            outs = list(buffers[own + len(tensors) :])
            make(buffers[:own], outs.pop(at), [*buffers[own : own + len(tensors)], *outs], numbers)

        return Plan(self.layouts if self.outputs else self.layouts[0], launch)


def _moved(argument: tuple, place: int, count: int) -> tuple:
    kind, k = argument
    if kind != "in":
        return argument
    return ("product", 0) if k == place else ("in", count + k - (k > place))


def finish(program: Program) -> Program:
    """The program with loops over products' elements fused into the products."""
    for step in program.steps[::-1]:  # if a loop uses two products, the later one is in the cache
        if makes_product(step, program.layouts):
            program = _joined(program, step) or program
    return program


def _joined(program: Program, product: Step) -> Program | None:
    """The program with a product and the loop that uses it first fused, or None if that is not possible."""
    effects, (value,) = Effects(program), product.results
    begin, shown, views = program.steps.index(product), {value}, []
    end = begin + 1
    while end < len(program.steps) and not shown.intersection(used(program.steps[end])) or _is_view(program.steps, end):
        step = program.steps[end]
        if isinstance(step, Boundary):
            return None
        if shown.intersection(used(step)):
            views.append(step)
            shown.update(step.results)
        end += 1
    loop = program.steps[end] if end < len(program.steps) else None
    moves = effects.fixed(value) and not any(
        begin < k < end for each in used(product) for k in effects.written.get(effects.root[each], ())
    )
    if not moves or not isinstance(loop, Step) or not isinstance(loop.op, Fused):
        return None
    places = [k for k, input in enumerate(loop.inputs) if issubclass(type(input), Value) and input in shown]
    if len(places) != 1 or not _same(program, value, places[0], loop):
        return None
    kept = bool(shown.intersection(leaving(program))) or any(
        shown.intersection(used(step)) for step in program.steps[end + 1 :]
    )
    return _written(program, product, loop, places[0], views, kept)


def _is_view(steps: list, place: int) -> bool:
    return (
        place < len(steps) and isinstance(steps[place], Step) and not steps[place].in_place and steps[place].op.is_view
    )


def _same(program: Program, value: Value, place: int, loop: Step) -> bool:
    """Whether the loop reads the product's elements and writes its results row by row in the product's order."""
    out, seen = program.layouts[value], program.layouts[loop.inputs[place]]
    rows = seen.shape == out.shape or (out.ndim == 2 and seen.ndim > 0 and seen.shape[-1] == out.shape[-1])
    dense = out.dense and seen.dense and seen.size == out.size and loop.op.shape == seen.shape
    dense = dense and all(layout.dense and layout.shape == seen.shape for layout in loop.op.layouts)
    return rows and dense and loop.op.loop.dtype is out.dtype


def _written(program: Program, product: Step, loop: Step, place: int, views: list[Step], kept: bool) -> Program | None:
    """The program with both as one step at the loop's position. Views of a kept product are moved after it."""
    out, end = program.layouts[product.results[0]], program.steps.index(loop)
    if not kept and not any(layout.dtype is out.dtype for layout in loop.op.layouts):
        return None
    op = WithEpilogue(product.op, loop.op, place, out, kept)
    inputs = (*product.inputs, *loop.inputs[:place], *loop.inputs[place + 1 :])
    step = Step(op, inputs, product.parameters, (*(product.results if kept else ()), *loop.results), False, loop.where)
    with bind.unbuilt():
        try:
            op.prepare(described(step, program.layouts), step.parameters)
        except ValueError:
            return None
    gone = {id(each) for each in (product, *views)}
    steps = (
        [step for step in program.steps[:end] if id(step) not in gone]
        + [step]
        + (views if kept else [])
        + program.steps[end + 1 :]
    )
    return copied(program, steps)
