"""Branches and loops in vector formulas, for rare cases that branch-free code would compute every time.

Each formula becomes a function over one vector register. The loop vectoriser does not vectorise branches, but it
replaces a call of a scalar function by a call of its vector variant, if the attribute `vector-function-abi-variant`
names one. Only the vector variant has a body; the scalar function calls it with its argument in every lane.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from llvmlite import ir

from .instructions import Number, library, where
from .registers import vectors

_PURE_ATTRIBUTES = ("memory(none)", "nounwind", "willreturn")


def branching(*widths: int) -> Callable:
    """A decorator for formulas that branch, for Numbers of these widths.

    With scalar arguments a formula becomes a function call, which the loop vectoriser can replace by its vector
    variant; with vectors its instructions are inlined.
    """

    def decorate(formula: Callable) -> Callable:
        @functools.wraps(formula)
        def call(*numbers: Number) -> Number:
            first, builder = numbers[0], numbers[0].builder
            if first.width not in widths or isinstance(first.raw.type, ir.VectorType):
                return formula(*numbers)
            function = _scalar_function(builder.module, formula, first.element, len(numbers))
            return Number(builder, builder.call(function, [number.raw for number in numbers]))

        return call

    return decorate


def _scalar_function(module: ir.Module, formula: Callable, element: ir.Type, count: int) -> ir.Function:
    """The scalar function, with an attribute that names its vector variants.

    The variants take a whole register and half of one (for float32 in loops that also use float64).
    """
    lanes = vectors.host().lanes(8 if isinstance(element, ir.DoubleType) else 4)
    name = f"numod_{formula.__name__}_{lanes}_{element}"
    scalar = module.globals.get(name)
    if scalar is None:
        full = _full_register_function(module, f"{name}_whole", formula, ir.VectorType(element, lanes), count)
        scalar, *halves = [
            _narrower_variant(module, f"{name}_{lane_count}" if lane_count > 1 else name, full, lane_count)
            for lane_count in ((1,) if lanes == 2 or isinstance(element, ir.DoubleType) else (1, lanes // 2))
        ]
        variants = [
            f"_ZGV_LLVM_N{function.args[0].type.count}{'v' * count}_{name}({function.name})"
            for function in (full, *halves)
        ]
        set.add(scalar.attributes, f'"vector-function-abi-variant"="{",".join(variants)}"')
    return scalar


def _function(module: ir.Module, name: str, kind: ir.Type, count: int) -> tuple[ir.Function, ir.IRBuilder]:
    function = ir.Function(module, ir.FunctionType(kind, [kind] * count), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    for attribute in _PURE_ATTRIBUTES:
        set.add(function.attributes, attribute)  # llvmlite accepts the names of older LLVMs only
    return function, ir.IRBuilder(function.append_basic_block())


def _full_register_function(module: ir.Module, name: str, formula: Callable, kind: ir.Type, count: int) -> ir.Function:
    function, builder = _function(module, name, kind, count)
    builder.ret(formula(*[Number(builder, arg) for arg in function.args]).raw)
    return function


def _narrower_variant(module: ir.Module, name: str, full: ir.Function, lane_count: int) -> ir.Function:
    """A variant for fewer lanes (1 for the scalar function).

    It repeats its arguments to fill a register and calls the full-register variant.
    """
    vector = full.args[0].type
    function, builder = _function(
        module, name, vector.element if lane_count == 1 else ir.VectorType(vector.element, lane_count), len(full.args)
    )
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [k % lane_count for k in range(vector.count)])

    def filled(value: ir.Value) -> ir.Value:
        if lane_count == 1:
            value = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), lanes)

    result = builder.call(full, [filled(arg) for arg in function.args])
    if lane_count == 1:
        builder.ret(builder.extract_element(result, ir.Constant(ir.IntType(32), 0)))
    else:
        builder.ret(
            builder.shuffle_vector(
                result,
                ir.Constant(vector, ir.Undefined),
                ir.Constant(ir.VectorType(ir.IntType(32), lane_count), list(range(lane_count))),
            )
        )
    return function


def any_lane(condition: Number) -> ir.Value:
    """Whether a condition holds in any lane, as an LLVM bool."""
    builder, lanes = condition.builder, condition.raw.type.count
    bits = builder.bitcast(condition.raw, ir.IntType(lanes))
    return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(lanes), 0))


def replace_where(condition: Number, usual: Number, rare: Callable[[], Number]) -> Number:
    """`rare()` in the lanes where the condition holds, else `usual`; `rare` is skipped if there are no such lanes."""
    builder = usual.builder
    before = builder.block
    with builder.if_then(any_lane(condition), likely=False):
        new = where(condition, rare(), usual).raw
        inside = builder.block
    result = builder.phi(usual.raw.type)
    result.add_incoming(usual.raw, before)
    result.add_incoming(new, inside)
    return Number(builder, result)


def while_any(state: list[Number], condition: Callable[..., Number], step: Callable[..., list[Number]]) -> list[Number]:
    """A while loop: `state = step(*state)` in the lanes where `condition(*state)` holds, until it holds in none."""
    builder = state[0].builder
    before, head, body, after = builder.block, *(builder.append_basic_block(name) for name in ("while", "body", "done"))
    builder.branch(head)
    builder.position_at_end(head)
    values = [Number(builder, builder.phi(number.raw.type)) for number in state]
    active = condition(*values)
    builder.cbranch(any_lane(active), body, after)
    builder.position_at_end(body)
    updated = [where(active, new, old) for new, old in zip(step(*values), values)]
    builder.branch(head)
    for phi, first, new in zip(values, state, updated):
        phi.raw.add_incoming(first.raw, before)
        phi.raw.add_incoming(new.raw, builder.block)
    builder.position_at_end(after)
    return values


def lane_by_lane(name: str, *numbers: Number) -> Number:
    """LLVM's intrinsic `name`, called lane by lane, for intrinsics that become calls of the C library."""
    builder, vector, index_type = numbers[0].builder, numbers[0].raw.type, ir.IntType(64)
    before, loop, after = builder.block, builder.append_basic_block("lane"), builder.append_basic_block("lanes")
    builder.branch(loop)
    builder.position_at_end(loop)
    k, result = builder.phi(index_type), builder.phi(vector)
    value = library(name, *[Number(builder, builder.extract_element(number.raw, k)) for number in numbers])
    new, following = builder.insert_element(result, value.raw, k), builder.add(k, ir.Constant(index_type, 1))
    builder.cbranch(builder.icmp_unsigned("<", following, ir.Constant(index_type, vector.count)), loop, after)
    for phi, first, last in ((k, ir.Constant(index_type, 0), following), (result, numbers[0].raw, new)):
        phi.add_incoming(first, before)
        phi.add_incoming(last, loop)
    builder.position_at_end(after)
    return Number(builder, new)
