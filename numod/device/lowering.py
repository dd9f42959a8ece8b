"""From Numba's typed code to LLVM IR, in half the instructions of Numba's own lowering. Not what is typed, nor how LLVM optimises it.

Each instruction costs time in Python (an object, a line of text), and again in LLVM's parser and first passes. Kernels are loops over flat arrays and numbers,
without exceptions and reference counting; what Numba emits for those, LLVM would only remove.
"""

from __future__ import annotations

from functools import cached_property, partial

from llvmlite import ir as llvm
from numba.core import cgutils, debuginfo, ir, types
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler_machinery import register_pass
from numba.core.errors import LoweringError, new_error_context
from numba.core.lowering import BaseLower, Lower
from numba.core.typed_passes import NativeLowering


class KernelLower(Lower):
    """Numba's lowering with few variables on the stack, and with short loops over `range`."""

    def _find_singly_assigned_variable(self) -> None:
        """Find the variables that are assigned once, above all uses: they are LLVM values.

        Numba gives them slots if they are used in other blocks, reads a slot before each store, and clears it after the last use, to count references.
        """
        places: dict[str, list] = {}
        uses: dict[str, list] = {}
        for offset, block in self.blocks.items():
            for index, statement in enumerate(block.body):
                target = statement.target.name if type(statement) is ir.Assign else None
                if target is not None:
                    places.setdefault(target, []).append((offset, index))
                for each in statement.list_vars():
                    if each.name != target:
                        uses.setdefault(each.name, []).append((offset, index))
        above = compute_cfg_from_blocks(self.blocks).dominators()
        self._blk_local_varmap: dict = {}
        self._singly_assigned_vars = {
            name for name, (place, *others) in places.items() if not others and all(place < use and place[0] in above[use[0]] for use in uses.get(name, ()))
        }

    pre_block, post_block = BaseLower.pre_block, BaseLower.post_block

    def lower_block(self, block: ir.Block) -> None:
        with new_error_context("lowering the block at {loc}", loc=block.loc, errcls_=partial(LoweringError, loc=block.loc)):
            for statement in block.body:
                self.loc = statement.loc
                if type(statement) is ir.Assign and type(statement.value) is not ir.Arg:
                    self.debuginfo.mark_location(self.builder, self.loc.line)
                    name = statement.target.name
                    self.storevar(self.lower_assign(self.typeof(name), statement), name)
                else:
                    self.lower_inst(statement)

    def storevar(self, value: llvm.Value, name: str, argidx: int | None = None) -> None:
        if name in self._singly_assigned_vars or self._disable_sroa_like_opt:
            super().storevar(value, name, argidx)
        else:
            self.builder.store(value, self.getvar(name))

    def lower_expr(self, kind: types.Type, expression: ir.Expr) -> llvm.Value:
        operation = expression.op
        if operation in ("pair_first", "pair_second"):
            return self.builder.extract_value(self.loadvar(expression.value.name), int(operation == "pair_second"))
        if operation == "iternext" and isinstance(self.typeof(expression.value.name), types.RangeIteratorType) and self._upwards:
            return self._next(self.loadvar(expression.value.name))
        if operation == "getiter" and isinstance(kind, types.RangeIteratorType) and self._upwards:
            return self._start(self.loadvar(expression.value.name))
        return super().lower_expr(kind, expression)

    def lower_call(self, kind: types.Type, expression: ir.Expr) -> llvm.Value:
        if not isinstance(kind, types.RangeType):
            return super().lower_call(kind, expression)
        given = [self.context.cast(self.builder, self.loadvar(each.name), self.typeof(each.name), kind.dtype) for each in expression.args]
        number = given[0].type
        return cgutils.pack_struct(self.builder, (*given, number(1))[:3] if len(given) > 1 else (number(0), *given, number(1)))

    @cached_property
    def _upwards(self) -> bool:
        """Whether all ranges in this function have positive constant steps."""
        calls = (each for block in self.blocks.values() for each in block.find_exprs("call") if len(each.args) == 3)
        steps = [self.typeof(each.args[2].name) for each in calls if isinstance(self.fndesc.calltypes[each].return_type, types.RangeType)]
        return all(isinstance(each, types.IntegerLiteral) and each.literal_value > 0 for each in steps)

    def _start(self, state: llvm.Value) -> llvm.Value:
        """The iterator over a range, as Numba lays it out: (place of the next number, stop, step, place of how many are left)."""
        build = self.builder
        start, stop, step = (build.extract_value(state, index) for index in range(3))
        span, zero = build.sub(stop, start), start.type(0)
        whole = build.sdiv(build.add(span, build.sub(step, start.type(1))), step)
        count = build.select(build.icmp_signed(">", span, zero), whole, zero)
        return cgutils.pack_struct(build, (cgutils.alloca_once_value(build, start), stop, step, cgutils.alloca_once_value(build, count)))

    def _next(self, iterator: llvm.Value) -> llvm.Value:
        """(The next number, whether there is one), of a range's iterator."""
        build = self.builder
        place, step, left = (build.extract_value(iterator, index) for index in (0, 2, 3))
        number, count = build.load(place), build.load(left)
        found = build.icmp_signed(">", count, count.type(0))
        with build.if_then(found):
            build.store(build.sub(count, count.type(1), flags=("nsw",)), left)
            build.store(build.add(number, step), place)
        return cgutils.pack_struct(build, (number, found))


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(NativeLowering):
    """Numba's pass with `KernelLower`."""

    _name = "kernel_lowering"
    lowering_class = KernelLower


def allocated_once(builder: llvm.IRBuilder, kind: llvm.Type, size: object = None, name: str = "", zfill: bool = False) -> llvm.Value:
    """Stack memory, allocated in the function's first block and filled with zeros: there, or with `zfill` where the builder is. (Numba fills it in both.)"""
    with debuginfo.suspend_emission(builder):
        with builder.goto_entry_block():
            place = builder.alloca(kind, size=llvm.Constant(cgutils.intp_t, size) if isinstance(size, int) else size, name=name)
            if not zfill:
                builder.store(kind(None), place)
        if zfill:
            builder.store(kind(None), place)
    return place


def divided(context: object, builder: llvm.IRBuilder, signature: object, values: tuple, message: str) -> tuple[llvm.Value, llvm.Value]:
    """Places of x // y and x % y of integers, rounded down; both are 0 where y is 0 or the quotient has too many bits. As Numba's, without branches."""
    kind = getattr(signature.return_type, "dtype", signature.return_type)
    x, y = (context.cast(builder, value, source, kind) for value, source in zip(values, signature.args))
    zero, one = y.type(0), y.type(1)
    constant = isinstance(y, llvm.Constant) and isinstance(y.constant, int) and y.constant > 0
    if not constant:
        wrong = builder.icmp_signed("==", y, zero)
        if kind.signed:
            wrong = builder.or_(wrong, builder.and_(builder.icmp_signed("==", x, x.type(kind.minval)), builder.icmp_signed("==", y, y.type(-1))))
        divisor = builder.select(wrong, one, y)
    else:
        divisor = y
    if kind.signed:
        quotient, rest = builder.sdiv(x, divisor), builder.srem(x, divisor)
        low = builder.icmp_signed("<", rest, zero) if constant else builder.and_(
            builder.icmp_signed("!=", rest, zero), builder.icmp_signed("<", builder.xor(rest, divisor), zero))  # fmt: skip
        quotient = builder.select(low, builder.sub(quotient, one), quotient)
        rest = builder.select(low, builder.add(rest, divisor), rest)
    else:
        quotient, rest = builder.udiv(x, divisor), builder.urem(x, divisor)
    if not constant:
        quotient = builder.select(wrong, zero, quotient)
    return tuple(cgutils.alloca_once_value(builder, value) for value in (quotient, rest))
