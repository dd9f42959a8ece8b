"""Fuses pointwise loops over a product's elements into the product's kernel as an epilogue.

The elements are still in the cache, and often never stored. Products are matrix products and convolutions. The product
moves to the loop's position. The order of floating-point operations is eager's.
"""

from __future__ import annotations

from ...device import Layout
from ...kernel import bind, writer
from ...ops.op import Op, Plan
from ..ir.alias_analysis import Boundary, Effects, copied, prepare_arguments, program_outputs, accessed_values
from .fuse_pointwise import Fused, makes_product
from ..ir.program import Program, Step, Value


class WithEpilogue(Op):
    """A product with a loop as its epilogue.

    Inputs: the product's, then the loop's other inputs. With `store_product`, the product is the first result.
    `rows`: the loop's rows; their arguments are ("in", k), an input, or ("product", 0), the product's element.
    """

    upcasts_half, differentiable = False, False

    def __init__(self, product: Op, loop: Fused, position: int, out: Layout, store_product: bool) -> None:
        super().__init__(f"{product.name}_{loop.name}")
        self.product, self.shape, count = product, loop.shape, len(product.inputs)
        self.inputs = (*product.inputs, *(input for k, input in enumerate(loop.inputs) if k != position))
        self.rows = tuple(
            (op, tuple(_shifted_argument(argument, position, count) for argument in arguments), dtype)
            for op, arguments, dtype in loop.rows
        )
        self.layouts = (*([out] if store_product else []), *loop.layouts)
        self.outputs = tuple(f"out{k}" for k in range(len(self.layouts))) if len(self.layouts) > 1 else ()
        self.element, outputs = loop.inputs[position], list(loop.loop.outputs)
        # the result that holds the product
        self.product_result = (
            0 if store_product else next(k for k, layout in enumerate(loop.layouts) if layout.dtype is out.dtype)
        )
        if not store_product:
            outputs[self.product_result] = outputs[self.product_result]._replace(over="out")
        self.loop = writer.Loop(loop.loop.inputs, tuple(outputs), loop.loop.dtype)

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        count = len(self.product.inputs)
        product_arguments = arguments[:count]
        tensors = [argument for argument in arguments[count:] if isinstance(argument, Layout)]
        run = self.product.with_epilogue(
            self.name, product_arguments, attributes, self.loop, self.element, self.shape, tensors
        )
        n_product_tensors = sum(isinstance(product_argument, Layout) for product_argument in product_arguments)
        at = self.product_result
        results = len(self.layouts)
        if run is None:
            raise ValueError(f"{self.name}: no kernel of {self.product.name} supports this epilogue")

        def launch(*launch_arguments: object) -> None:
            buffers = launch_arguments[: n_product_tensors + len(tensors) + results]
            numbers = launch_arguments[n_product_tensors + len(tensors) + results :]
            outs = list(buffers[n_product_tensors + len(tensors) :])
            run(
                buffers[:n_product_tensors],
                outs.pop(at),
                [*buffers[n_product_tensors : n_product_tensors + len(tensors)], *outs],
                numbers,
            )

        return Plan(self.layouts if self.outputs else self.layouts[0], launch)


def _shifted_argument(argument: tuple, position: int, count: int) -> tuple:
    kind, k = argument
    if kind != "in":
        return argument
    return ("product", 0) if k == position else ("in", count + k - (k > position))


def fuse_epilogues(program: Program) -> Program:
    """The program with loops over products' elements fused into the products."""
    for step in program.steps[::-1]:  # if a loop uses two products, the later one is in the cache
        if makes_product(step, program.layouts):
            program = _fuse(program, step) or program
    return program


def _fuse(program: Program, product: Step) -> Program | None:
    """The program with a product and its first loop fused, or None if that is not possible."""
    effects, (value,) = Effects(program), product.results
    begin, aliases, views = program.steps.index(product), {value}, []
    end = begin + 1
    while (
        end < len(program.steps)
        and not aliases.intersection(accessed_values(program.steps[end]))
        or _is_view(program.steps, end)
    ):
        step = program.steps[end]
        if isinstance(step, Boundary):
            return None
        if aliases.intersection(accessed_values(step)):
            views.append(step)
            aliases.update(step.results)
        end += 1
    loop = program.steps[end] if end < len(program.steps) else None
    can_move = effects.fixed(value) and not any(
        begin < k < end for operand in accessed_values(product) for k in effects.written.get(effects.root[operand], ())
    )
    if not can_move or not isinstance(loop, Step) or not isinstance(loop.op, Fused):
        return None
    places = [k for k, input in enumerate(loop.inputs) if issubclass(type(input), Value) and input in aliases]
    if len(places) != 1 or not _same_order(program, value, places[0], loop):
        return None
    store_product = bool(aliases.intersection(program_outputs(program))) or any(
        aliases.intersection(accessed_values(step)) for step in program.steps[end + 1 :]
    )
    return _with_fused_step(program, product, loop, places[0], views, store_product)


def _is_view(steps: list, position: int) -> bool:
    return (
        position < len(steps)
        and isinstance(steps[position], Step)
        and not steps[position].in_place
        and steps[position].op.is_view
    )


def _same_order(program: Program, value: Value, position: int, loop: Step) -> bool:
    """Whether the loop reads and writes elements in the product's order, row by row."""
    out, loop_input = program.layouts[value], program.layouts[loop.inputs[position]]
    rows = loop_input.shape == out.shape or (
        out.ndim == 2 and loop_input.ndim > 0 and loop_input.shape[-1] == out.shape[-1]
    )
    dense = out.dense and loop_input.dense and loop_input.size == out.size and loop.op.shape == loop_input.shape
    dense = dense and all(layout.dense and layout.shape == loop_input.shape for layout in loop.op.layouts)
    return rows and dense and loop.op.loop.dtype is out.dtype


def _with_fused_step(
    program: Program, product: Step, loop: Step, position: int, views: list[Step], store_product: bool
) -> Program | None:
    """The program with product and loop as one step at the loop's position. Views of a stored product follow it."""
    out, end = program.layouts[product.results[0]], program.steps.index(loop)
    if not store_product and not any(layout.dtype is out.dtype for layout in loop.op.layouts):
        return None
    op = WithEpilogue(product.op, loop.op, position, out, store_product)
    inputs = (*product.inputs, *loop.inputs[:position], *loop.inputs[position + 1 :])
    step = Step(
        op,
        inputs,
        product.attributes,
        (*(product.results if store_product else ()), *loop.results),
        False,
        loop.location,
    )
    with bind.unbuilt():
        try:
            op.prepare(prepare_arguments(step, program.layouts), step.attributes)
        except ValueError:
            return None
    fused_steps = {id(fused_step) for fused_step in (product, *views)}
    steps = (
        [step for step in program.steps[:end] if id(step) not in fused_steps]
        + [step]
        + (views if store_product else [])
        + program.steps[end + 1 :]
    )
    return copied(program, steps)
