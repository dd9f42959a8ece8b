"""Statements of kernels: LLVM's instructions, and what is known of variables after each (`front_end`)."""

from __future__ import annotations

import ast

from . import loops, progress, short_forms
from .expressions import BINARY, Expressions, Unsupported, truth_of


class OtherReturnType(Exception):
    """The function returns another type than was assumed."""

    def __init__(self, kind: object) -> None:
        self.kind = kind


class Loop:
    """A loop that is being written: its blocks, and what is known of variables at its start and at its ends."""

    def __init__(self, following: object, end: object, start: dict) -> None:
        self.following, self.end, self.start, self.ends = following, end, start, []
        self.properties: object = None  # LLVM's node of them


class Statements(Expressions):
    """Writes the instructions of a function."""

    def __init__(self, lower: object) -> None:
        super().__init__(lower)
        self.returned: list = []  # types of results
        self.loops: list[Loop] = []

    def write(self) -> None:
        """Write the function."""
        if getattr(self.lower.func_ir.function, "__rolled__", False):
            loops.keep_rolled(self.builder.function)
        for name, kind, value in zip(self.lower.func_ir.arg_names, self.lower.fndesc.argtypes, self.lower.fnargs):
            self.assign_name(name, (self.types.unliteral(kind), value))
        self.block(self.tree.body)
        if self.known is not None:
            self.return_statement(ast.Return())
        short_forms.drop_unread(self.builder.function)
        kind = self.typing.unify_types(*self.returned)
        if kind is None or (self.has_fixed_test and len(set(self.returned)) > 1):
            raise Unsupported("results of several types")
        if kind != self.result:
            raise OtherReturnType(kind)

    def block(self, statements: list[ast.stmt]) -> None:
        """Write statements up to the first jump."""
        for statement in statements:
            progress.checkpoint()
            if self.known is None:
                return
            self.lower.debuginfo.mark_location(self.builder, statement.lineno)
            write = _STATEMENTS.get(type(statement))
            if write is None:
                raise Unsupported(type(statement).__name__)
            write(self, statement)

    def expression_statement(self, node: ast.Expr) -> None:
        if type(node.value) is not ast.Constant:
            self.value(node.value)

    def nothing(self, node: ast.Pass) -> None:
        pass

    def assignment(self, node: ast.Assign) -> None:
        target, *others = node.targets
        elements = node.value.elts if type(node.value) is ast.Tuple and not others else ()
        if type(target) is ast.Tuple and len(target.elts) == len(elements):
            values = [self.value(element) for element in elements]
            for element, value in zip(target.elts, values):
                self.assign(element, value)
        else:
            value = self.value(node.value)
            for target in node.targets:
                self.assign(target, value)

    def assign(self, target: ast.expr, value: tuple) -> None:
        """Assign a value to a name, to an element, or its elements to several."""
        if type(target) is ast.Name:
            self.assign_name(target.id, value)
        elif type(target) is ast.Subscript:
            self.set_element(self.value(target.value), self.value(target.slice), value)
        elif type(target) is ast.Tuple:
            kind, raw = value
            if not isinstance(kind, self.types.BaseTuple) or len(kind) != len(target.elts):
                raise Unsupported("assignment of something else than a tuple to names")
            for k, element in enumerate(target.elts):
                self.assign(element, (kind[k], self.builder.extract_value(raw, k)))
        else:
            raise Unsupported(type(target).__name__)

    def assign_name(self, name: str, value: tuple) -> None:
        kind, raw = value
        if self.stores[name] == 1:
            self.known[name] = value
            return
        if (name, kind) not in self.slots:
            self.slots[name, kind] = self.slot(self.context.get_value_type(kind), name)
        self.builder.store(raw, self.slots[name, kind])
        self.known[name] = kind, None

    def slot(self, kind: object, name: str = "") -> object:
        """Memory on the stack, written before it is read."""
        with self.builder.goto_entry_block():
            return self.builder.alloca(kind, name=name)

    def augmented(self, node: ast.AugAssign) -> None:
        function = self.operator(BINARY, node.op)
        if type(node.target) is ast.Name:
            value = self.value(ast.Name(node.target.id, ast.Load()))
            self.assign_name(node.target.id, self.call(function, [value, self.value(node.value)]))
        elif type(node.target) is ast.Subscript:
            array, index = self.value(node.target.value), self.value(node.target.slice)
            element = self.element(array, index)
            self.set_element(array, index, self.call(function, [element, self.value(node.value)]))
        else:
            raise Unsupported("augmented assignment")

    def if_statement(self, node: ast.If) -> None:
        truth = truth_of(node.test)
        if truth is not None:
            self.block(node.body if truth else node.orelse)
            return
        yes, no, end = (self.builder.append_basic_block() for _ in range(3))
        self.branch(node.test, yes, no)
        before, ends = self.known, []
        for block, statements in ((yes, node.body), (no, node.orelse)):
            self.builder.position_at_end(block)
            self.known = dict(before)
            self.block(statements)
            if self.known is not None:
                self.builder.branch(end)
                ends.append(self.known)
        self.continue_from(end, ends)

    def continue_from(self, block: object, ends: list[dict]) -> None:
        """Continue in a block that is reached from `ends`: what is known is what is the same in all of them."""
        self.builder.position_at_end(block)
        if not ends:
            self.builder.unreachable()
            self.known = None
            return
        first, *others = ends
        self.known = {
            name: value for name, value in first.items() if all(_is_same(value, other.get(name)) for other in others)
        }

    def while_statement(self, node: ast.While) -> None:
        if node.orelse:
            raise Unsupported("else of a loop")
        test, body, end = (self.builder.append_basic_block() for _ in range(3))
        self.builder.branch(test)
        self.builder.position_at_end(test)
        loop = Loop(test, end, self.known)
        if truth_of(node.test) is not True:
            loop.ends.append(loop.start)
        self.branch(node.test, body, end)
        self.builder.position_at_end(body)
        self.known = dict(loop.start)
        self.loop_body(loop, node.body)

    def loop_body(self, loop: Loop, statements: list[ast.stmt]) -> None:
        """Write the body of a loop, and continue after the loop."""
        self.loops.append(loop)
        self.block(statements)
        if self.known is not None:
            self.jump_back(loop)
        self.loops.pop()
        self.continue_from(loop.end, loop.ends)

    def jump_back(self, loop: Loop) -> None:
        """Jump to the next iteration. Variables must have the types that they had at the loop's start."""
        for name, value in loop.start.items():
            if not _is_same(value, self.known.get(name)):
                raise Unsupported(f"{name} changes its type in a loop")
        loop.properties = loops.mark(self.builder.branch(loop.following), self.builder.function, loop.properties)
        self.known = None

    def break_statement(self, node: ast.Break) -> None:
        self.loops[-1].ends.append(self.known)
        self.builder.branch(self.loops[-1].end)
        self.known = None

    def continue_statement(self, node: ast.Continue) -> None:
        self.jump_back(self.loops[-1])

    def for_statement(self, node: ast.For) -> None:
        """A loop over a range, in the form that Numba's iterator of a range has: a count that goes down to 0."""
        call = node.iter
        if (
            node.orelse
            or type(node.target) is not ast.Name
            or type(call) is not ast.Call
            or type(call.func) is not ast.Name
            or self.global_value(call.func.id) is not range
            or call.keywords
        ):
            raise Unsupported("a loop over something else than a range")
        builder, context, ir = self.builder, self.context, self.numba.ir
        signature, arguments = self.arguments(range, [self.value(argument) for argument in call.args])
        kind = signature.args[0]
        zero, one = context.get_constant(kind, 0), context.get_constant(kind, 1)
        start, stop, step = {1: (zero, *arguments, one), 2: (*arguments, one), 3: tuple(arguments)}[len(arguments)]
        counter, iterator = (self.slot(start.type) for _ in range(2))
        builder.store(start, iterator)
        self.store_count(counter, kind, start, stop, step)
        test, body, end = (builder.append_basic_block() for _ in range(3))
        builder.branch(test)
        builder.position_at_end(test)
        remaining = builder.load(counter)
        builder.cbranch(builder.icmp_signed(">", remaining, zero), body, end)
        loop = Loop(test, end, self.known)
        builder.position_at_end(body)
        value = builder.load(iterator)
        builder.store(builder.sub(remaining, one, flags=["nsw"]), counter)
        # Without an overflow, LLVM knows that an index of a loop from 0 is not negative. The last sum, which may
        # overflow, is not read.
        is_known = kind.signed and isinstance(step, ir.Constant)
        builder.store(builder.add(value, step, flags=["nsw"] if is_known else []), iterator)
        self.known = dict(loop.start)
        self.assign_name(node.target.id, (kind, value))
        loop.ends.append(loop.start)
        self.loop_body(loop, node.body)

    def store_count(self, counter: object, kind: object, start: object, stop: object, step: object) -> None:
        """Store the number of iterations of a loop over a range, computed as Numba does.

        By branches: LLVM knows then that an index of a loop from 0 is not negative.
        """
        builder, zero, one = self.builder, self.context.get_constant(kind, 0), self.context.get_constant(kind, 1)
        difference = builder.sub(stop, start)
        is_positive = builder.icmp_signed(">", difference, zero)
        fixed = step.constant if isinstance(step, self.numba.ir.Constant) else 0
        if fixed > 0:
            is_empty = builder.not_(is_positive)
        else:
            is_empty = builder.xor(is_positive, builder.icmp_signed(">", step, zero))
            with self.numba.cgutils.if_unlikely(builder, builder.icmp_unsigned("==", step, zero)):
                error = ValueError, ("range() arg 3 must not be zero",)
                self.context.call_conv.return_user_exc(builder, *error)
        with builder.if_else(is_empty) as (empty, full):
            with empty:
                builder.store(zero, counter)
            with full:
                count = difference
                if fixed != 1:
                    rest = builder.srem(difference, step)
                    rest = rest if fixed > 0 else builder.select(is_positive, rest, builder.neg(rest))
                    uneven = builder.select(builder.icmp_signed(">", rest, zero), one, zero)
                    count = builder.add(builder.sdiv(difference, step), uneven)
                builder.store(count, counter)

    def return_statement(self, node: ast.Return) -> None:
        none = self.types.none
        value = (
            (none, self.context.get_constant_generic(self.builder, none, None))
            if node.value is None
            else self.value(node.value)
        )
        self.returned.append(value[0])
        if value[0] == self.result or self.typing.can_convert(value[0], self.result) is not None:
            raw = self.context.get_return_value(self.builder, self.result, self.cast(value, self.result))
            self.context.call_conv.return_value(self.builder, raw)
        else:
            self.builder.unreachable()  # the function is written again, for the right type
        self.known = None


def _is_same(value: tuple, other: tuple | None) -> bool:
    return other is not None and value[0] == other[0] and value[1] is other[1]


_STATEMENTS = {
    ast.Assign: Statements.assignment, ast.AugAssign: Statements.augmented, ast.Pass: Statements.nothing,
    ast.Expr: Statements.expression_statement, ast.If: Statements.if_statement, ast.For: Statements.for_statement,
    ast.While: Statements.while_statement, ast.Break: Statements.break_statement,
    ast.Continue: Statements.continue_statement, ast.Return: Statements.return_statement,
}  # fmt: skip
