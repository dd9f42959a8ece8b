"""Formulas with branches and loops, where branch-free code would always pay for a rare case.

Each becomes a function of its own, over one vector register.

The loop vectoriser does not vectorise branches, but it replaces a call of a scalar function by one of its vector
variant, where the attribute `vector-function-abi-variant` names one. Only the vector variant has a body; the scalar
function calls it with its argument in every lane.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from llvmlite import ir

from .instructions import Number, library, where
from .registers import vectors

_PURE = ("memory(none)", "nounwind", "willreturn")


def branching(*widths: int) -> Callable:
    """Let a formula branch for Numbers of these widths: with scalars it becomes a function call, with vectors its
    instructions are inlined.
    """

    def let(formula: Callable) -> Callable:
        @functools.wraps(formula)
        def call(*given: Number) -> Number:
            first, builder = given[0], given[0].builder
            if first.width not in widths or isinstance(first.raw.type, ir.VectorType):
                return formula(*given)
            function = _of_number(builder.module, formula, first.element, len(given))
            return Number(builder, builder.call(function, [each.raw for each in given]))

        return call

    return let


def _of_number(module: ir.Module, formula: Callable, element: ir.Type, count: int) -> ir.Function:
    """The scalar function, with an attribute that names its vector variants: of a whole register and of half of one
    (for float32 in loops that also hold float64).
    """
    lanes = vectors.host().lanes(8 if isinstance(element, ir.DoubleType) else 4)
    name = f"numod_{formula.__name__}_{lanes}_{element}"
    found = module.globals.get(name)
    if found is None:
        whole = _of_register(module, f"{name}_whole", formula, ir.VectorType(element, lanes), count)
        found, *halves = [
            _of_fewer(module, f"{name}_{few}" if few > 1 else name, whole, few)
            for few in ((1,) if lanes == 2 or isinstance(element, ir.DoubleType) else (1, lanes // 2))
        ]
        known = [
            f"_ZGV_LLVM_N{function.args[0].type.count}{'v' * count}_{name}({function.name})"
            for function in (whole, *halves)
        ]
        set.add(found.attributes, f'"vector-function-abi-variant"="{",".join(known)}"')
    return found


def _function(module: ir.Module, name: str, kind: ir.Type, count: int) -> tuple[ir.Function, ir.IRBuilder]:
    function = ir.Function(module, ir.FunctionType(kind, [kind] * count), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    for each in _PURE:
        set.add(function.attributes, each)  # llvmlite knows the names of older LLVMs only
    return function, ir.IRBuilder(function.append_basic_block())


def _of_register(module: ir.Module, name: str, formula: Callable, kind: ir.Type, count: int) -> ir.Function:
    function, builder = _function(module, name, kind, count)
    builder.ret(formula(*[Number(builder, arg) for arg in function.args]).raw)
    return function


def _of_fewer(module: ir.Module, name: str, whole: ir.Function, few: int) -> ir.Function:
    """A variant for fewer lanes (1 for the scalar function) that calls the one for a whole register, with its arguments
    repeated in the lanes left free.
    """
    vector = whole.args[0].type
    function, builder = _function(
        module, name, vector.element if few == 1 else ir.VectorType(vector.element, few), len(whole.args)
    )
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [k % few for k in range(vector.count)])

    def filled(value: ir.Value) -> ir.Value:
        if few == 1:
            value = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), lanes)

    result = builder.call(whole, [filled(arg) for arg in function.args])
    if few == 1:
        builder.ret(builder.extract_element(result, ir.Constant(ir.IntType(32), 0)))
    else:
        builder.ret(
            builder.shuffle_vector(
                result,
                ir.Constant(vector, ir.Undefined),
                ir.Constant(ir.VectorType(ir.IntType(32), few), list(range(few))),
            )
        )
    return function


def anywhere(condition: Number) -> ir.Value:
    """An LLVM bool: whether a condition holds in any lane."""
    builder, lanes = condition.builder, condition.raw.type.count
    packed = builder.bitcast(condition.raw, ir.IntType(lanes))
    return builder.icmp_unsigned("!=", packed, ir.Constant(ir.IntType(lanes), 0))


def amended(condition: Number, usual: Number, rare: Callable[[], Number]) -> Number:
    """`usual`, but `rare()` in the lanes where the condition holds; its code is branched around if there are none."""
    builder = usual.builder
    before = builder.block
    with builder.if_then(anywhere(condition), likely=False):
        new = where(condition, rare(), usual).raw
        inside = builder.block
    found = builder.phi(usual.raw.type)
    found.add_incoming(usual.raw, before)
    found.add_incoming(new, inside)
    return Number(builder, found)


def repeated(state: list[Number], going: Callable[..., Number], step: Callable[..., list[Number]]) -> list[Number]:
    """A while loop: `state = step(*state)` in the lanes where `going(*state)` holds, until it holds in none."""
    builder = state[0].builder
    before, head, body, after = builder.block, *(builder.append_basic_block(name) for name in ("while", "turn", "done"))
    builder.branch(head)
    builder.position_at_end(head)
    held = [Number(builder, builder.phi(each.raw.type)) for each in state]
    active = going(*held)
    builder.cbranch(anywhere(active), body, after)
    builder.position_at_end(body)
    made = [where(active, new, old) for new, old in zip(step(*held), held)]
    builder.branch(head)
    for phi, first, new in zip(held, state, made):
        phi.raw.add_incoming(first.raw, before)
        phi.raw.add_incoming(new.raw, builder.block)
    builder.position_at_end(after)
    return held


def lane_by_lane(name: str, *given: Number) -> Number:
    """LLVM's intrinsic `name`, where it is a call of the C library: one lane after the other."""
    builder, vector, place = given[0].builder, given[0].raw.type, ir.IntType(64)
    before, loop, after = builder.block, builder.append_basic_block("lane"), builder.append_basic_block("lanes")
    builder.branch(loop)
    builder.position_at_end(loop)
    k, found = builder.phi(place), builder.phi(vector)
    value = library(name, *[Number(builder, builder.extract_element(each.raw, k)) for each in given])
    new, following = builder.insert_element(found, value.raw, k), builder.add(k, ir.Constant(place, 1))
    builder.cbranch(builder.icmp_unsigned("<", following, ir.Constant(place, vector.count)), loop, after)
    for phi, first, last in ((k, ir.Constant(place, 0), following), (found, given[0].raw, new)):
        phi.add_incoming(first, before)
        phi.add_incoming(last, loop)
    builder.position_at_end(after)
    return Number(builder, new)
