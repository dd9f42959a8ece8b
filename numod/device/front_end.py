"""A short front end of Numba's compiler for the functions of kernels.

Numba reads bytecode into its own representation, rewrites that a dozen times, infers types by iteration, and only then
writes LLVM's instructions. Kernels are structured code over flat arrays and numbers, whose variables keep their type.
So one walk over the syntax tree infers the types and writes the instructions. What an operator, a cast or a function
call means is asked of Numba (its signatures and its code for them), so the results are the same. A function with
anything that this walk does not have is left to Numba's own passes (`compiled` returns None).
"""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
import operator
from collections.abc import Callable
from types import CodeType, FunctionType, SimpleNamespace

from . import phases

_BINARY = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
_UNARY = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert, ast.Not: operator.not_}
_COMPARISONS = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip
_START = "<numod "  # how the file names of kernels start


class Unsupported(Exception):
    """The function has something that this front end does not have."""


class _Returned(Exception):
    """The function returns another type than was assumed."""

    def __init__(self, kind: object) -> None:
        self.kind = kind


def compiled(state: object) -> object | None:
    """Numba's compile result of the function of a compilation; None if Numba's own passes are needed."""
    function = state.func_id.func
    code = function.__code__
    if state.flags.debuginfo or code.co_freevars or not code.co_filename.startswith(_START):
        return None
    tree = _definition(code)
    if tree is None:
        return None
    from numba.core import errors, ir, types

    names = code.co_varnames[: code.co_argcount]
    library = state.library
    location = ir.Loc(code.co_filename, code.co_firstlineno)
    state.func_ir = _Outline(state.func_id, names, location, function, tree)
    state.typemap = {f"arg.{name}": kind for name, kind in zip(names, state.args)}
    state.calltypes = {}
    state.return_type = types.none
    with phases.Span("lowering", "translate", state.func_id.func_qualname):
        try:
            try:
                _lower(state)
            except _Returned as returned:
                state.return_type = returned.kind
                _lower(state)
        except (Unsupported, errors.NumbaError, NotImplementedError):
            state.func_ir = state.typemap = state.calltypes = state.return_type = None
            state.library = library
            return None
        _back_end()().run_pass(state)
    return state.cr


def _lower(state: object) -> None:
    _native_lowering()().run_pass(state)


@functools.lru_cache(maxsize=64)
def _definitions(filename: str) -> dict[tuple[str, int], ast.FunctionDef]:
    """The functions in the text of a kernel, by name and first line."""
    text = "".join(linecache.getlines(filename))
    functions = [node for node in ast.parse(text).body if type(node) is ast.FunctionDef]
    return {
        (function.name, min([function.lineno, *(line.lineno for line in function.decorator_list)])): function
        for function in functions
    }


def _definition(code: CodeType) -> ast.FunctionDef | None:
    return _definitions(code.co_filename).get((code.co_name, code.co_firstlineno))


class _Outline:
    """What Numba's lowering reads of a function's representation."""

    generator_info = None

    def __init__(
        self, func_id: object, names: tuple[str, ...], loc: object, function: FunctionType, tree: ast.FunctionDef
    ) -> None:
        self.func_id, self.arg_names, self.loc, self.function, self.tree = func_id, names, loc, function, tree
        self.blocks = {0: None}


@functools.cache
def _back_end() -> type:
    from numba.core.typed_passes import NoPythonBackend

    return NoPythonBackend


@functools.cache
def _native_lowering() -> type:
    from numba.core.lowering import Lower
    from numba.core.typed_passes import NativeLowering

    class WalkingLower(Lower):
        """Numba's lowering of a function, by a walk over its syntax tree."""

        def init(self) -> None:
            pass

        def lower_normal_function(self, fndesc: object) -> None:
            self.setup_function(fndesc)
            self.extract_function_arguments()
            _Walk(self).write()

    class WalkingNativeLowering(NativeLowering):
        lowering_class = WalkingLower

    return WalkingNativeLowering


class _Loop:
    """A loop that is being written: its blocks, and what is known of variables at its start and at its ends."""

    def __init__(self, following: object, end: object, start: dict) -> None:
        self.following, self.end, self.start, self.ends = following, end, start, []


@functools.cache
def _numba() -> SimpleNamespace:
    """Names of Numba and llvmlite that the walk uses."""
    from llvmlite import ir
    from numba.core import cgutils, types

    return SimpleNamespace(types=types, cgutils=cgutils, ir=ir, signatures={})


class _Walk:
    """Writes the instructions of one function.

    `known` is what is known of the variables at this point: (type, value), or (type, None) for one that is kept in
    memory because it is assigned more than once; LLVM makes registers of these. It is None after a jump.
    """

    def __init__(self, lower: object) -> None:
        outline = lower.func_ir
        self.numba = _numba()
        self.types = self.numba.types
        self.lower, self.builder, self.context = lower, lower.builder, lower.context
        self.typing = lower.context.typing_context
        self.tree, self.globals = outline.tree, outline.function.__globals__
        self.result = lower.fndesc.restype
        self.returned: list = []  # types of results
        self.loops: list[_Loop] = []
        self.slots: dict[tuple, object] = {}
        self.known: dict[str, tuple] | None = {}
        self.stores: dict[str, int] = dict.fromkeys(outline.arg_names, 1)
        for node in ast.walk(self.tree):
            if type(node) is ast.Name and type(node.ctx) is ast.Store:
                self.stores[node.id] = self.stores.get(node.id, 0) + 1
            elif type(node) is ast.AugAssign and type(node.target) is ast.Name:
                self.stores[node.target.id] = self.stores.get(node.target.id, 0) + 1

    # ---- statements

    def write(self) -> None:
        """Write the function."""
        for name, kind, value in zip(self.lower.func_ir.arg_names, self.lower.fndesc.argtypes, self.lower.fnargs):
            self.assign_name(name, (self.types.unliteral(kind), value))
        self.block(self.tree.body)
        if self.known is not None:
            self.give_back(None)
        kind = self.typing.unify_types(*self.returned)
        if kind is None:
            raise Unsupported("results of several types")
        if kind != self.result:
            raise _Returned(kind)

    def block(self, statements: list[ast.stmt]) -> None:
        """Write statements up to the first jump."""
        for statement in statements:
            if self.known is None:
                return
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
        if len(node.targets) != 1:
            raise Unsupported("several targets")
        (target,) = node.targets
        if type(target) is ast.Tuple and type(node.value) is ast.Tuple and len(target.elts) == len(node.value.elts):
            values = [self.value(element) for element in node.value.elts]
            for element, value in zip(target.elts, values):
                self.assign(element, value)
        else:
            self.assign(target, self.value(node.value))

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
            self.slots[name, kind] = self.numba.cgutils.alloca_once(
                self.builder, self.context.get_value_type(kind), name=name
            )
        self.builder.store(raw, self.slots[name, kind])
        self.known[name] = kind, None

    def set_element(self, array: tuple, index: tuple, value: tuple) -> None:
        kinds = array[0], index[0], value[0]
        if kinds not in self.numba.signatures:
            self.numba.signatures[kinds] = self.typing.resolve_setitem(*kinds)
        signature = self.numba.signatures[kinds]
        if signature is None:
            raise Unsupported("assignment to an element")
        targets = signature.args
        self.call(operator.setitem, [(kind, self.cast(x, kind)) for x, kind in zip((array, index, value), targets)])

    def augmented(self, node: ast.AugAssign) -> None:
        function = self.operator(_BINARY, node.op)
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
        truth = _truth(node.test)
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
        self.go_on(end, ends)

    def go_on(self, block: object, ends: list[dict]) -> None:
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
        loop = _Loop(test, end, self.known)
        self.branch(node.test, body, end)
        self.loop_body(loop, body, node.body)

    def loop_body(self, loop: _Loop, body: object, statements: list[ast.stmt]) -> None:
        """Write the body of a loop, which starts in block `body`, and continue after the loop."""
        self.builder.position_at_end(body)
        self.known = dict(loop.start)
        self.loop_statements(loop, statements)

    def loop_statements(self, loop: _Loop, statements: list[ast.stmt]) -> None:
        self.loops.append(loop)
        self.block(statements)
        if self.known is not None:
            self.jump_back(loop)
        self.loops.pop()
        self.go_on(loop.end, [loop.start, *loop.ends])

    def jump_back(self, loop: _Loop) -> None:
        """Jump to the next iteration. Variables must have the types that they had at the loop's start."""
        for name, value in loop.start.items():
            if not _is_same(value, self.known.get(name)):
                raise Unsupported(f"{name} changes its type in a loop")
        self.builder.branch(loop.following)
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
        counter, iterator = (self.numba.cgutils.alloca_once(builder, start.type) for _ in range(2))
        builder.store(start, iterator)
        self.store_count(counter, kind, start, stop, step)
        test, body, end = (builder.append_basic_block() for _ in range(3))
        builder.branch(test)
        builder.position_at_end(test)
        remaining = builder.load(counter)
        builder.cbranch(builder.icmp_signed(">", remaining, zero), body, end)
        loop = _Loop(test, end, self.known)
        builder.position_at_end(body)
        value = builder.load(iterator)
        builder.store(builder.sub(remaining, one, flags=["nsw"]), counter)
        # Without an overflow, LLVM knows that an index of a loop from 0 is not negative. The last sum, which may overflow,
        # is not read.
        is_known = kind.signed and isinstance(step, ir.Constant)
        builder.store(builder.add(value, step, flags=["nsw"] if is_known else []), iterator)
        self.known = dict(loop.start)
        self.assign_name(node.target.id, (kind, value))
        self.loop_statements(loop, node.body)

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
        self.give_back(node.value)

    def give_back(self, node: ast.expr | None) -> None:
        """Return the value of a node."""
        none = self.types.none
        value = (
            (none, self.context.get_constant_generic(self.builder, none, None)) if node is None else self.value(node)
        )
        self.returned.append(value[0])
        if value[0] == self.result or self.typing.can_convert(value[0], self.result) is not None:
            raw = self.context.get_return_value(self.builder, self.result, self.cast(value, self.result))
            self.context.call_conv.return_value(self.builder, raw)
        else:
            self.builder.unreachable()  # the function is written again, for the right type
        self.known = None

    # ---- conditions

    def branch(self, node: ast.expr, yes: object, no: object) -> None:
        """Jump to one of two blocks."""
        truth = _truth(node)
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
            self.builder.cbranch(self.truth(self.value(node)), yes, no)

    def chain(self, node: ast.Compare, yes: object, no: object) -> None:
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
        """The value of `and` or `or` of bools."""
        truth, parts = _truth(node), _undecided(node)
        if truth is not None:
            raise Unsupported("a condition that is a constant")
        if len(parts) == 1:
            return self.value(parts[0])
        end, incoming = self.builder.append_basic_block(), []
        for part in parts:
            kind, raw = self.value(part)
            if kind != self.types.boolean:
                raise Unsupported("and, or of numbers")
            incoming.append((raw, self.builder.block))
            if part is parts[-1]:
                self.builder.branch(end)
            else:
                following = self.builder.append_basic_block()
                self.builder.cbranch(raw, *((following, end) if type(node.op) is ast.And else (end, following)))
                self.builder.position_at_end(following)
        return self.types.boolean, self.joined(end, incoming)

    def joined(self, block: object, incoming: list[tuple]) -> object:
        """Continue in a block, with the value that comes from the block before it."""
        self.builder.position_at_end(block)
        result = self.builder.phi(incoming[0][0].type)
        for raw, source in incoming:
            result.add_incoming(raw, source)
        return result

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
        if isinstance(value, (int, float)):
            return self.number(value)
        return self.typing.resolve_value_type(value), self.context.get_dummy_value()

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
        return self.call(self.operator(_BINARY, node.op), [left, right])

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
            truth = self.numba.ir.IntType(1)
            return self.types.boolean, self.joined(end, [(truth(1), yes), (truth(0), no)])
        left, right = self.value(node.left), self.value(node.comparators[0])
        return self.call(self.operator(_COMPARISONS, node.ops[0]), [left, right])

    def conditional(self, node: ast.IfExp) -> tuple:
        truth = _truth(node.test)
        if truth is not None:
            return self.value(node.body if truth else node.orelse)
        yes, no, end = (self.builder.append_basic_block() for _ in range(3))
        self.branch(node.test, yes, no)
        values = []
        for block, part in ((yes, node.body), (no, node.orelse)):
            self.builder.position_at_end(block)
            value = self.value(part)
            values.append((value, self.builder.block))
        kind = self.typing.unify_types(*(value[0] for value, _ in values))
        if kind is None:
            raise Unsupported("values of several types")
        incoming = []
        for value, block in values:
            self.builder.position_at_end(block)
            incoming.append((self.cast(value, kind), self.builder.block))
            self.builder.branch(end)
        return kind, self.joined(end, incoming)

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
        return kind, self.context.make_tuple(self.builder, kind, [raw for _, raw in values])

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


def _is_same(value: tuple, other: tuple | None) -> bool:
    return other is not None and value[0] == other[0] and value[1] is other[1]


def _truth(node: ast.expr) -> bool | None:
    """Whether a condition holds, if constants in it decide that; else None."""
    if type(node) is ast.Constant:
        return bool(node.value)
    if type(node) is ast.UnaryOp and type(node.op) is ast.Not:
        truth = _truth(node.operand)
        return None if truth is None else not truth
    if type(node) is ast.BoolOp:
        decisive, truths = type(node.op) is ast.Or, [*map(_truth, node.values)]
        first = truths.index(decisive) if decisive in truths else len(truths)
        if None not in truths[:first]:
            return decisive if first < len(truths) else not decisive
    return None


def _undecided(node: ast.BoolOp) -> list[ast.expr]:
    """The parts of `and` or `or` without those that do not matter, as in `1 and x`."""
    return [part for part in node.values[:-1] if _truth(part) is not (type(node.op) is ast.And)] + node.values[-1:]


def _folded(node: ast.expr) -> int | float | None:
    """The value of an expression of constants, which Python computes when it compiles; else None."""
    if type(node) is ast.Constant:
        return node.value if type(node.value) in (int, float) else None
    if type(node) is ast.UnaryOp and type(node.op) in (ast.USub, ast.UAdd, ast.Invert):
        value = _folded(node.operand)
        return None if value is None else _UNARY[type(node.op)](value)
    if type(node) is ast.BinOp and type(node.op) in _BINARY:
        left = _folded(node.left)
        right = None if left is None else _folded(node.right)
        if right is not None:
            try:
                return _BINARY[type(node.op)](left, right)
            except (ArithmeticError, ValueError, TypeError):
                return None
    return None


_STATEMENTS = {
    ast.Assign: _Walk.assignment, ast.AugAssign: _Walk.augmented, ast.Expr: _Walk.expression_statement,
    ast.Pass: _Walk.nothing, ast.If: _Walk.if_statement, ast.While: _Walk.while_statement, ast.For: _Walk.for_statement,
    ast.Break: _Walk.break_statement, ast.Continue: _Walk.continue_statement, ast.Return: _Walk.return_statement,
}  # fmt: skip
_EXPRESSIONS = {
    ast.Constant: _Walk.constant, ast.Name: _Walk.name, ast.BinOp: _Walk.binary, ast.UnaryOp: _Walk.unary,
    ast.Compare: _Walk.compare, ast.BoolOp: _Walk.combined, ast.IfExp: _Walk.conditional,
    ast.Subscript: _Walk.subscript, ast.Attribute: _Walk.attribute, ast.Tuple: _Walk.tuple,
    ast.Call: _Walk.call_expression,
}  # fmt: skip
