"""Expressions of kernels: their types, and LLVM's instructions (`front_end`)."""

from __future__ import annotations

import ast
import builtins
import functools
import operator
from collections.abc import Callable
from types import SimpleNamespace


BINARY = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.Pow: operator.pow,
}  # fmt: skip
_UNARY = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert, ast.Not: operator.not_}
_COMPARISONS = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip
_EXTREMES = {min: "<", max: ">"}


class Unsupported(Exception):
    """The function has something that this front end does not have."""


@functools.cache
def _numba() -> SimpleNamespace:
    """Names of Numba and llvmlite that the walk uses."""
    from llvmlite import ir
    from numba.core import cgutils, types

    return SimpleNamespace(types=types, cgutils=cgutils, ir=ir)


class Expressions:
    """Writes the instructions of a function's expressions. A value is a pair (Numba's type, LLVM's value).

    `known` is what is known of the variables at this point: (type, value), or (type, None) for one that is kept in
    memory because it is assigned more than once; LLVM makes registers of these. It is None after a jump.
    """

    def __init__(self, lower: object) -> None:
        outline = lower.func_ir
        self.numba = _numba()
        self.types = self.numba.types
        self.lower, self.builder, self.context = lower, lower.builder, lower.context
        self.builder.no_try = True  # for `short_forms`
        self.typing = lower.context.typing_context
        self.tree, self.globals = outline.tree, outline.function.__globals__
        self.result = lower.fndesc.restype
        self.slots: dict[tuple, object] = {}
        self.known: dict[str, tuple] | None = {}
        self.has_fixed_test = False  # whether a condition is of constants; Numba drops the branch not taken
        self.stores: dict[str, int] = dict.fromkeys(outline.arg_names, 1)
        for node in ast.walk(self.tree):
            if type(node) is ast.Name and type(node.ctx) is ast.Store:
                self.stores[node.id] = self.stores.get(node.id, 0) + 1
            elif type(node) is ast.AugAssign and type(node.target) is ast.Name:
                self.stores[node.target.id] = self.stores.get(node.target.id, 0) + 1

    # ---- conditions

    def branch(self, node: ast.expr, yes: object, no: object) -> None:
        """Jump to one of two blocks."""
        truth = truth_of(node)
        if truth is not None:
            self.builder.branch(yes if truth else no)
        elif type(node) is ast.BoolOp:
            *first, last = _undecided(node)
            for part in first:
                following = self.builder.append_basic_block()
                if type(node.op) is ast.And:
                    self.branch(part, following, no)
                else:
                    self.branch(part, yes, following)
                self.builder.position_at_end(following)
            self.branch(last, yes, no)
        elif type(node) is ast.UnaryOp and type(node.op) is ast.Not:
            self.branch(node.operand, no, yes)
        elif type(node) is ast.Compare and len(node.ops) > 1:
            self.chain(node, yes, no)
        else:
            self.has_fixed_test |= self.is_fixed(node)
            self.builder.cbranch(self.truth(self.value(node)), yes, no)

    def is_fixed(self, node: ast.expr) -> bool:
        """Whether an expression is of constants, global variables, and variables that are one constant."""
        for part in ast.walk(node):
            if type(part) in (ast.Call, ast.Subscript, ast.Attribute):
                return False
            if type(part) is ast.Name and part.id in self.stores:
                value = self.known.get(part.id, (None, None))[1]
                if not isinstance(value, self.numba.ir.Constant):
                    return False
        return True

    def chain(self, node: ast.Compare, yes: object, no: object) -> None:
        fixed = [*map(self.is_fixed, (node.left, *node.comparators))]
        self.has_fixed_test |= any(map(operator.and_, fixed, fixed[1:]))
        left = self.value(node.left)
        for k, (sign, right) in enumerate(zip(node.ops, node.comparators)):
            value = self.value(right)
            result = self.truth(self.call(self.operator(_COMPARISONS, sign), [left, value]))
            following = yes if k == len(node.ops) - 1 else self.builder.append_basic_block()
            self.builder.cbranch(result, following, no)
            self.builder.position_at_end(following)
            left = value

    def truth(self, value: tuple) -> object:
        """A value as i1."""
        return value[1] if value[0] == self.types.boolean else self.call(bool, [value])[1]

    def combined(self, node: ast.BoolOp) -> tuple:
        """The value of `and` or `or`: that of the first part which decides it, else of the last."""
        if truth_of(node) is not None:
            is_or = type(node.op) is ast.Or
            return self.value(next((part for part in node.values if truth_of(part) is is_or), node.values[-1]))
        *first, last = _undecided(node)
        end, values = self.builder.append_basic_block(), []
        for part in first:
            value, following = self.value(part), self.builder.append_basic_block()
            truth = self.truth(value)
            values.append((value, self.builder.block))
            self.builder.cbranch(truth, *((following, end) if type(node.op) is ast.And else (end, following)))
            self.builder.position_at_end(following)
        values.append((self.value(last), self.builder.block))
        self.builder.branch(end)
        return self.joined(end, values, any(map(self.is_fixed, first)))

    def joined(self, end: object, values: list[tuple[tuple, object]], is_fixed: bool = False) -> tuple:
        """Continue in the block `end`, with the value that comes from the block before it: `values` are (value, block).

        If a condition is fixed, Numba drops the branch not taken, and the type of its value does not count.
        """
        kinds = [kind for (kind, _), _ in values]
        common = self.typing.unify_types(*kinds)
        if common is None or (is_fixed and len(set(kinds)) > 1):
            raise Unsupported("values of several types")
        incoming = []
        for value, block in values:
            self.builder.position_before(block.terminator)
            incoming.append((self.cast(value, common), block))
        self.builder.position_at_end(end)
        result = self.builder.phi(incoming[0][0].type)
        for raw, block in incoming:
            result.add_incoming(raw, block)
        return common, result

    # ---- expressions

    def value(self, node: ast.expr) -> tuple:
        """(type, value) of an expression."""
        write = _EXPRESSIONS.get(type(node))
        if write is None:
            raise Unsupported(type(node).__name__)
        return write(self, node)

    def constant(self, node: ast.Constant) -> tuple:
        return self.number(node.value)

    def number(self, value: object) -> tuple:
        if type(value) not in (int, float, bool):
            raise Unsupported(type(value).__name__)
        kind = self.types.unliteral(self.typing.resolve_value_type(value))
        return kind, self.context.get_constant(kind, value)

    def name(self, node: ast.Name) -> tuple:
        if node.id in self.known:
            kind, value = self.known[node.id]
            return kind, self.builder.load(self.slots[node.id, kind]) if value is None else value
        value = self.global_value(node.id)
        if type(value) in (int, float, bool):
            return self.number(value)
        kind = self.types.unliteral(self.typing.resolve_value_type(value))
        return kind, self.context.get_constant_generic(self.builder, kind, value)

    def global_value(self, name: str) -> object:
        """The value of a global or a builtin."""
        if name in self.stores:
            raise Unsupported(f"{name} is not known on all paths, or has several types")
        try:
            return self.globals[name] if name in self.globals else getattr(builtins, name)
        except AttributeError:
            raise Unsupported(f"{name} is not defined") from None

    def binary(self, node: ast.BinOp) -> tuple:
        folded = _folded(node)
        if folded is not None:
            return self.number(folded)
        left, right = self.value(node.left), self.value(node.right)
        if type(node.op) is ast.Pow and isinstance(right[0], self.types.Integer) and self.is_fixed(node.right):
            raise Unsupported("a constant power, which Numba writes as products")
        return self.call(self.operator(BINARY, node.op), [left, right])

    def unary(self, node: ast.UnaryOp) -> tuple:
        folded = _folded(node)
        if folded is not None:
            return self.number(folded)
        return self.call(self.operator(_UNARY, node.op), [self.value(node.operand)])

    def compare(self, node: ast.Compare) -> tuple:
        if len(node.ops) > 1:
            yes, no, end = (self.builder.append_basic_block() for _ in range(3))
            self.chain(node, yes, no)
            for block in (yes, no):
                self.builder.position_at_end(block)
                self.builder.branch(end)
            return self.joined(end, [(self.number(True), yes), (self.number(False), no)])
        left, right = self.value(node.left), self.value(node.comparators[0])
        return self.call(self.operator(_COMPARISONS, node.ops[0]), [left, right])

    def conditional(self, node: ast.IfExp) -> tuple:
        truth = truth_of(node.test)
        if truth is not None:
            return self.value(node.body if truth else node.orelse)
        yes, no, end = (self.builder.append_basic_block() for _ in range(3))
        had_fixed_test, self.has_fixed_test = self.has_fixed_test, False
        self.branch(node.test, yes, no)
        is_fixed = self.has_fixed_test
        self.has_fixed_test |= had_fixed_test
        values = []
        for block, part in ((yes, node.body), (no, node.orelse)):
            self.builder.position_at_end(block)
            values.append((self.value(part), self.builder.block))
            self.builder.branch(end)
        return self.joined(end, values, is_fixed)

    def subscript(self, node: ast.Subscript) -> tuple:
        container = self.value(node.value)
        if isinstance(container[0], self.types.BaseTuple):
            if type(node.slice) is not ast.Constant:
                raise Unsupported("an element of a tuple")
            k = node.slice.value
            return container[0][k], self.builder.extract_value(container[1], k)
        return self.element(container, self.value(node.slice))

    def element(self, array: tuple, index: tuple) -> tuple:
        return self.call(operator.getitem, [array, index])

    def attribute(self, node: ast.Attribute) -> tuple:
        kind, raw = self.value(node.value)
        result = self.typing.resolve_getattr(kind, node.attr)
        if isinstance(result, (self.types.DType, self.types.NumberClass)):  # array.dtype.type
            return result, self.context.get_dummy_value()
        if result is None or not isinstance(kind, self.types.Array):
            raise Unsupported(f"attribute {node.attr}")
        return result, self.context.get_getattr(kind, node.attr)(self.context, self.builder, kind, raw, node.attr)

    def tuple(self, node: ast.Tuple) -> tuple:
        values = [self.value(element) for element in node.elts]
        kind = self.types.Tuple([value[0] for value in values])
        raws = [raw for _, raw in values]
        result = self.context.make_tuple(self.builder, kind, raws)
        if raws:
            result.elements = raws  # for `short_forms`
        return kind, result

    def call_expression(self, node: ast.Call) -> tuple:
        if node.keywords:
            raise Unsupported("keyword arguments")
        if type(node.func) is ast.Name:
            return self.call(self.global_value(node.func.id), [self.value(argument) for argument in node.args])
        kind, _ = self.value(node.func)
        if type(kind) is not self.types.NumberClass or len(node.args) != 1:
            raise Unsupported("a call of an expression")
        return self.converted(kind.instance_type, self.value(node.args[0]))

    def call(self, function: object, values: list[tuple]) -> tuple:
        """Call a function that Numba knows."""
        if function in _EXTREMES and [kind for kind, _ in values] == [self.types.int64] * 2:
            (kind, x), (_, y) = values  # Numba would call a function with a tuple
            return kind, self.builder.select(self.builder.icmp_signed(_EXTREMES[function], y, x), y, x)
        kind = self.function_type(function)
        if type(kind) is self.types.NumberClass:
            if len(values) != 1:
                raise Unsupported("a conversion of several values")
            return self.converted(kind.instance_type, values[0])
        signature, arguments = self.arguments(function, values)
        result = self.context.get_function(kind, signature)(self.builder, arguments)
        return signature.return_type, self.context.get_dummy_value() if result is None else result

    def converted(self, kind: object, value: tuple) -> tuple:
        """A number as another type."""
        if not isinstance(value[0], (self.types.Number, self.types.Boolean)):
            raise Unsupported("a conversion of something that is not a number")
        return kind, self.cast(value, kind)

    def arguments(self, function: object, values: list[tuple]) -> tuple:
        """The signature of a call, and its arguments with the types of this signature."""
        kinds = tuple(kind for kind, _ in values)
        function_type = self.function_type(function)
        signature = function_type.get_call_type(self.typing, kinds, {})
        targets = signature.args
        takes_tuple = len(targets) == 1 and isinstance(targets[0], self.types.BaseTuple) and kinds != targets
        if takes_tuple:  # as max(*values)
            targets = tuple(targets[0])
        if len(targets) != len(values) or signature.recvr is not None:
            raise Unsupported("default arguments")
        arguments = [self.cast(value, kind) for value, kind in zip(values, targets)]
        return signature, [
            self.numba.cgutils.make_anonymous_struct(self.builder, arguments)
        ] if takes_tuple else arguments

    def function_type(self, function: object) -> object:
        kind = self.typing.resolve_value_type(function)
        if not isinstance(kind, (self.types.BaseFunction, self.types.NumberClass, self.types.Dispatcher)):
            raise Unsupported("a call of something that is not a function")
        return kind

    def cast(self, value: tuple, kind: object) -> object:
        return value[1] if value[0] == kind else self.context.cast(self.builder, value[1], value[0], kind)

    def operator(self, table: dict, sign: ast.AST) -> Callable:
        if type(sign) not in table:
            raise Unsupported(type(sign).__name__)
        return table[type(sign)]

    def set_element(self, array: tuple, index: tuple, value: tuple) -> None:
        self.call(operator.setitem, [array, index, value])


def truth_of(node: ast.expr) -> bool | None:
    """Whether a condition holds, if constants in it decide that; else None."""
    if type(node) is ast.Constant:
        return bool(node.value)
    if type(node) is ast.UnaryOp and type(node.op) is ast.Not:
        truth = truth_of(node.operand)
        return None if truth is None else not truth
    if type(node) is ast.BoolOp:
        decisive, truths = type(node.op) is ast.Or, [*map(truth_of, node.values)]
        first = truths.index(decisive) if decisive in truths else len(truths)
        if None not in truths[:first]:
            return decisive if first < len(truths) else not decisive
    return None


def _undecided(node: ast.BoolOp) -> list[ast.expr]:
    """The parts of `and` or `or` without those that do not matter, as in `1 and x`."""
    return [part for part in node.values[:-1] if truth_of(part) is not (type(node.op) is ast.And)] + node.values[-1:]


def _folded(node: ast.expr) -> int | float | None:
    """The value of an expression of constants, which Python computes when it compiles; else None."""
    if type(node) is ast.Constant:
        return node.value if type(node.value) in (int, float) else None
    if type(node) is ast.UnaryOp and type(node.op) in (ast.USub, ast.UAdd, ast.Invert):
        value = _folded(node.operand)
        return None if value is None else _UNARY[type(node.op)](value)
    if type(node) is ast.BinOp and type(node.op) in BINARY:
        left = _folded(node.left)
        right = None if left is None else _folded(node.right)
        if right is not None:
            try:
                return BINARY[type(node.op)](left, right)
            except (ArithmeticError, ValueError, TypeError):
                return None
    return None


_EXPRESSIONS = {
    ast.Constant: Expressions.constant, ast.Name: Expressions.name, ast.BinOp: Expressions.binary,
    ast.UnaryOp: Expressions.unary, ast.Compare: Expressions.compare, ast.BoolOp: Expressions.combined,
    ast.IfExp: Expressions.conditional, ast.Subscript: Expressions.subscript, ast.Attribute: Expressions.attribute,
    ast.Tuple: Expressions.tuple, ast.Call: Expressions.call_expression,
}  # fmt: skip
