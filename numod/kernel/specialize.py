"""Specialise a kernel: turn a Python function into kernel source, with its compile-time parameters filled in.

The keyword-only parameters of a kernel are its compile-time parameters:

    def copy_strips(x, out, n, *, STRIP, number):
        for strip in parallel_range(n // STRIP): ...

`specialized(copy_strips, STRIP=64, number=np.dtype("float32"))` returns the source with each replaced by its value:

- a number or a bool becomes that constant;
- a dtype becomes its name, which is a type in kernels;
- a function that kernels can call (`kernel.scalar`) becomes its name;
- any other function is inlined: it must be one `return` of an expression, which replaces each call, or statements
  without a `return`, which replace each call that is a statement.

An `if` whose condition is such a value is replaced by the branch that is taken.

A positional parameter can stand for a list of parameters: with `geometry=("height", "width")`, a parameter `geometry`
becomes `height, width`, `geometry.width` becomes `width`, and `geometry` as an argument of a call becomes both.

A positional parameter that is annotated with a `NamedTuple` is replaced by its fields without being given a value: the
kernel can be called from Python with a tuple, and tools can check the fields. If such a parameter is an argument of a
call, the called function receives the fields of its own annotation. A field can be given a value, which makes it a
constant; its parameter remains.

A positional parameter that is given a NumPy number (`inner=np.int64(1)`) remains, but the kernel uses this value; a
loop over a size of 1 is unrolled.

A global number of the kernel's module becomes a constant. A value for an unknown parameter raises, and so does a
parameter without a value. Every name in a kernel must resolve, as in any Python function: to a local variable, a
parameter, a name of its module or a builtin. `functools.partial(kernel, STRIP=64)` is a kernel with some of its
parameters filled in.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial

import numpy as np

from . import scalar
from .language import EMITTED
from .sources import lines_of
from .syntax import parsed


def specialized(kernel: Callable, *, name: str = "kernel", **values: object) -> str:
    """The source of `kernel` as a function `name`, with its compile-time parameters filled in and float literals typed.

    The templates that it calls come first, as inlined functions, filled with the same values. Raises TypeError for a
    value that neither the kernel nor a template takes, and for a parameter without a value.
    """
    kernel, values = _unwrapped(kernel, values)
    templates = _templates(kernel)
    known = set().union(
        *map(parameters, (*templates, kernel)),
        *(names for function in (*templates, kernel) for names in _fields(function).values()),
    )
    if unknown := values.keys() - known:
        raise TypeError(
            f"{kernel.__name__} has no parameter {', '.join(sorted(unknown))} to be specialised; it has "
            f"{', '.join(sorted(known)) or 'none'}"
        )
    helpers = "".join(
        f"@inlined_function\n{_specialized(function, function.__name__, tuple(_values_for(function, values)))}\n"
        for function in templates
    )
    return helpers + _specialized(kernel, name, tuple(_values_for(kernel, values)))


def inlined_call(
    source: str,
    name: str,
    statements: Callable[..., list[str]],
    parameters: Iterable[str] = (),
    prologue: Iterable[str] = (),
) -> str:
    """A specialised kernel with the lines of `statements` in the place of each call of `name` that is a statement.

    `statements` takes the source of each argument of the call. The kernel takes further `parameters` and begins with
    the lines of `prologue`. Every statement of `source` is one line, as `specialized` writes it.
    """
    lines = source.splitlines()
    head = max(k for k, line in enumerate(lines) if line.startswith("def "))
    lines[head] = "".join([lines[head].removesuffix("):"), *(f", {parameter}" for parameter in parameters), "):"])
    lines[head + 1 : head + 1] = ["    " + line for line in prologue]
    return "".join(f"{new}\n" for line in lines for new in _call_replaced(line, name, statements))


def _call_replaced(line: str, name: str, statements: Callable[..., list[str]]) -> list[str]:
    statement = line.lstrip()
    if not statement.startswith(f"{name}("):
        return [line]
    indent = line.removesuffix(statement)
    arguments = parsed(statement).body[0].value.args
    return [indent + new for new in statements(*map(ast.unparse, arguments))]


def template(function: Callable) -> Callable:
    """Make a function a helper of the kernels in its module, specialised with their compile-time parameters."""
    _registered.add(function)
    return function


_registered: set[Callable] = set()


@cache
def _templates(kernel: Callable) -> tuple[Callable, ...]:
    """The templates that a kernel calls, directly or indirectly, callees first."""
    templates: list[Callable] = []

    def collect(function: Callable) -> None:
        for name in function.__code__.co_names:
            called = function.__globals__.get(name)
            if inspect.isfunction(called) and called in _registered and called not in templates:
                collect(called)
                templates.append(called)

    collect(kernel)
    return tuple(templates)


@cache
def parameters(kernel: Callable) -> tuple[str, ...]:
    """The names that can be given a value: compile-time parameters without a value, then positional ones."""
    kernel, values = _unwrapped(kernel, {})
    return tuple(name for name in (*_compile_time(kernel), *_positional(kernel)) if name not in values)


def arguments(kernel: Callable) -> tuple[str, ...]:
    """The parameters of a kernel's source: its positional parameters, with NamedTuples replaced by their fields."""
    kernel, _ = _unwrapped(kernel, {})
    return tuple(field for name in _positional(kernel) for field in _fields(kernel).get(name, (name,)))


def has(kernel: Callable, name: str) -> bool:
    """Whether a kernel, or a template that it calls, has a compile-time parameter `name` without a value."""
    function, values = _unwrapped(kernel, {})
    return name not in values and any(
        name in _compile_time(candidate) for candidate in (function, *_templates(function))
    )


def _compile_time(function: Callable) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]


def _positional(function: Callable) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]


@cache
def _fields(function: Callable) -> dict[str, tuple[str, ...]]:
    """The fields of each positional parameter that is annotated with a NamedTuple."""
    annotations = {
        name: function.__globals__.get(annotation) if isinstance(annotation, str) else annotation
        for name, annotation in function.__annotations__.items()
    }
    return {name: annotation._fields for name, annotation in annotations.items() if hasattr(annotation, "_fields")}


def _unwrapped(kernel: Callable, values: dict[str, object]) -> tuple[Callable, dict[str, object]]:
    """The function of a `partial`, and all values."""
    while isinstance(kernel, partial):
        kernel, values = kernel.func, {**kernel.keywords, **values}
    return kernel, values


def _values_for(function: Callable, values: dict[str, object]) -> Iterator[tuple[str, object]]:
    """The values, defaults included, that apply to a function.

    Tuples of names and NumPy numbers for positional parameters, others for compile-time parameters.
    """
    fields = {name for names in _fields(function).values() for name in names}
    for name, value in {**(function.__kwdefaults__ or {}), **values}.items():
        if (
            name in (_positional if isinstance(value, tuple | np.generic) else _compile_time)(function)
            or name in fields
        ):
            yield name, value
        elif name in parameters(function):
            raise TypeError(
                f"{function.__name__}: a compile-time parameter takes a value, a positional one a tuple of names, got "
                f"{name}={value!r}"
            )


@cache
def _specialized(function: Callable, name: str, values: tuple[tuple[str, object], ...]) -> str:
    """The source of one function, without the templates that it calls."""
    tree = tree_of(function)
    definition = tree.body[0]
    _refuse_unknown(function, definition)
    definition.name = name
    values_by_name = {**_global_numbers(function), **dict(values)}
    missing = [kwonlyarg.arg for kwonlyarg in definition.args.kwonlyargs if kwonlyarg.arg not in values_by_name]
    if missing:
        raise TypeError(f"{function.__name__} needs a value for {', '.join(missing)}")
    definition.args.kwonlyargs, definition.args.kw_defaults = [], []
    lists = {**_fields(function), **{key: names for key, names in values_by_name.items() if isinstance(names, tuple)}}
    assigned = {key: value for key, value in values if isinstance(value, np.generic)}
    values_by_name = {key: value for key, value in values_by_name.items() if key not in assigned}
    if values_by_name or lists:
        _refuse_clashes(function, lists)
        _expand(definition, lists)
        _Fill(
            {key: value for key, value in values_by_name.items() if key not in lists}, lists, function.__globals__
        ).visit(definition)
    _assign(definition, assigned)
    return ast.unparse(tree) + "\n"


def _assign(definition: ast.FunctionDef, values: dict[str, np.generic]) -> None:
    """Assign values to parameters at the start of a kernel, and remove loops over sizes of 1.

    LLVM would not unroll the loops around such a loop.
    """
    _RemoveSingleLoops({name for name, value in values.items() if value == 1}).visit(definition)
    definition.body[:0] = parsed(
        "".join(f"{name} = {value.dtype.name}({value.item()})\n" for name, value in values.items())
    ).body


class _RemoveSingleLoops(ast.NodeTransformer):
    """Replaces loops over sizes of 1 by their bodies."""

    def __init__(self, sizes: set[str]) -> None:
        self.sizes = sizes

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.AST]:
        self.generic_visit(node)
        if not (
            isinstance(node.iter, ast.Call) and ast.unparse(node.iter) in {f"range({size})" for size in self.sizes}
        ):
            return node
        first = ast.copy_location(ast.Assign([node.target], parsed("int64(0)").body[0].value), node)
        return [first, ast.If(ast.Constant(True), node.body, [])]


def _global_numbers(function: Callable) -> dict[str, float]:
    """The numbers that a function reads from its module."""
    values = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def _refuse_unknown(function: Callable, definition: ast.FunctionDef) -> None:
    """Raise NameError for a name that does not resolve, even if the back end happens to define it."""
    known = function.__globals__.keys() | vars(builtins).keys() | set(function.__code__.co_varnames)
    suspects = {name for name in function.__code__.co_names if name not in known}  # among them attributes
    if not suspects:
        return
    if unknown := suspects & {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}:
        raise NameError(
            f"{function.__module__}.{function.__name__}: {', '.join(sorted(unknown))} is no variable or parameter of "
            "the kernel and no name of its module; "
            "import what kernels may call from kernel.language, kernel.registers.primitives or kernel.library"
        )


def _refuse_clashes(function: Callable, lists: dict[str, tuple[str, ...]]) -> None:
    """Raise TypeError for a variable with the name of a field; they would be one variable in the source."""
    if clash := {field for names in lists.values() for field in names} & {*function.__code__.co_varnames}:
        raise TypeError(
            f"{function.__name__}: {', '.join(sorted(clash))} is a variable and a field of {', '.join(lists)}; rename "
            "the variable"
        )


def _expand(definition: ast.FunctionDef, lists: dict[str, tuple[str, ...]]) -> None:
    """Replace each parameter in `lists` by its list of parameters."""
    positional = definition.args.args
    definition.args.args = [
        ast.arg(name) for argument in positional for name in lists.get(argument.arg, (argument.arg,))
    ]


class _Fill(ast.NodeTransformer):
    """Replaces names by their values."""

    def __init__(
        self, values: dict[str, object], lists: dict[str, tuple[str, ...]], functions: dict[str, object]
    ) -> None:
        """`values` and `functions` that the kernel calls are by name; `lists` has the fields of parameters."""
        self.lists, self.functions = lists, {**functions, **values}
        self.inlined = {
            name: value for name, value in values.items() if inspect.isfunction(value) and not _is_called(value)
        }
        self.values = {name: _value_node(value) for name, value in values.items() if name not in self.inlined}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.values:
            return node
        if not isinstance(node.ctx, ast.Load):
            raise TypeError(
                f"the kernel assigns its compile-time parameter {node.id}; assign a variable of another name"
            )
        return copy.deepcopy(self.values[node.id])

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        name = node.value.id if isinstance(node.value, ast.Name) else None
        if name not in self.lists:
            return self.generic_visit(node)
        if node.attr not in self.lists[name]:
            raise TypeError(f"{name} has no {node.attr}; it has {', '.join(self.lists[name])}")
        return self._field(node.attr, node.ctx)

    def _field(self, name: str, context: ast.expr_context) -> ast.AST:
        """The parameter of a field, or its value if it has one."""
        return self.visit_Name(ast.Name(name, context))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = self.inlined.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if function:
            return self.visit(_inlined(function, node.args))
        node.args = [part for position, arg in enumerate(node.args) for part in self._parts(node.func, position, arg)]
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | list[ast.AST]:
        """Replace a call by the function's statements, if it is inlined."""
        called = node.value.func if isinstance(node.value, ast.Call) else None
        function = self.inlined.get(called.id) if isinstance(called, ast.Name) else None
        if function is None or _returns(function):
            return self.generic_visit(node)
        return [
            node_part
            for statement in _inlined_statements(function, node.value.args)
            for node_part in _as_list(self.visit(statement))
        ]

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.AST]:
        """Replace an `if` with a constant condition by the branch that is taken."""
        self.generic_visit(node)
        if not isinstance(node.test, ast.Constant):
            return node
        return node.body if node.test.value else node.orelse

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.test, ast.Constant):
            return node
        return node.body if node.test.value else node.orelse

    def _parts(self, called: ast.AST, position: int, argument: ast.AST) -> list[ast.AST]:
        """The arguments that replace one argument: for a list, the fields that the called function's parameter has."""
        names = self.lists.get(argument.id) if isinstance(argument, ast.Name) else None
        if names is None:
            return [argument]
        function = self.functions.get(called.id) if isinstance(called, ast.Name) else None
        fields = _fields_of_argument(function, position) if inspect.isfunction(function) else None
        if missing := set(fields or ()) - set(names):
            raise TypeError(f"{argument.id} has no {', '.join(sorted(missing))}, which {called.id} reads")
        return [self._field(name, ast.Load()) for name in fields or names]


def _fields_of_argument(function: Callable, position: int) -> tuple[str, ...] | None:
    """The fields of a function's positional parameter, if it is a NamedTuple."""
    names = _positional(function)
    return _fields(function).get(names[position]) if position < len(names) else None


def _is_called(function: Callable) -> bool:
    """Whether kernels call a function by name; else it is inlined."""
    return function in EMITTED or scalar.functions.get(function.__name__) is function


def _is_type(value: object) -> bool:
    return isinstance(value, type | np.dtype) and value is not range


def _value_node(value: object) -> ast.AST:
    """The syntax node of a value."""
    if isinstance(value, bool | int | float):
        return ast.Constant(value)
    if _is_type(value):
        return ast.Name(np.dtype(value).name, ast.Load())
    if callable(value):
        return ast.Name(value.__name__, ast.Load())
    raise TypeError(f"a kernel is specialised by numbers, dtypes, functions and tuples of names, got {value!r}")


def _inlined(function: Callable, arguments: list[ast.AST]) -> ast.AST:
    """The expression that a function returns, with `arguments` for its parameters."""
    definition = tree_of(function).body[0]
    _refuse_unknown(function, definition)
    body, names = definition.body, [arg.arg for arg in definition.args.args]
    if len(body) != 1 or not isinstance(body[0], ast.Return) or len(names) != len(arguments):
        raise TypeError(
            f"{function.__name__} is to be inlined: it must be one return of an expression of {len(arguments)} "
            "arguments"
        )
    return _Substitute(dict(zip(names, arguments))).visit(body[0].value)


def _returns(function: Callable) -> bool:
    return any(isinstance(node, ast.Return) for node in ast.walk(tree_of(function)))


def _inlined_statements(function: Callable, arguments: list[ast.AST]) -> list[ast.AST]:
    """The statements of a function, with `arguments` for its parameters. Its variables become the kernel's."""
    definition = tree_of(function).body[0]
    _refuse_unknown(function, definition)
    names = [arg.arg for arg in definition.args.args]
    if len(names) != len(arguments) and not (definition.args.vararg and len(names) < len(arguments)):
        raise TypeError(f"{function.__name__} is to be inlined: it takes {len(names)} arguments, got {len(arguments)}")
    substitute = _Substitute(dict(zip(names, arguments)))
    return [substitute.visit(statement) for statement in definition.body]


def _as_list(nodes: ast.AST | list[ast.AST]) -> list[ast.AST]:
    return nodes if isinstance(nodes, list) else [nodes]


class _Substitute(ast.NodeTransformer):
    """Replaces names by expressions."""

    def __init__(self, expressions: dict[str, ast.AST]) -> None:
        self.expressions = expressions

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return copy.deepcopy(self.expressions[node.id]) if node.id in self.expressions else node


def tree_of(function: Callable) -> ast.Module:
    """A function's syntax tree, without docstring, decorators and annotations, its float literals typed."""
    tree = parsed(_source_of(function))
    definition = tree.body[0]
    definition.decorator_list, definition.returns = [], None
    for argument in (*definition.args.args, *definition.args.kwonlyargs):
        argument.annotation = None
    if isinstance(definition.body[0], ast.Expr) and isinstance(definition.body[0].value, ast.Constant):
        del definition.body[0]
    if not _has_floats(inspect.unwrap(function).__code__.co_consts):
        return tree
    return _TypedLiterals("float64" if function in scalar.wide else "real").visit(tree)


def _has_floats(constants: tuple) -> bool:
    """Whether a function's constants include a float literal.

    Most kernels have none, and visiting all nodes would take a third of the time.
    """
    return any(
        isinstance(constant, float)
        or _has_floats(constant if isinstance(constant, tuple) else getattr(constant, "co_consts", ()))
        for constant in constants
    )


def _source_of(function: Callable) -> str:
    """A function's source, without `inspect.getsource`, which tokenizes the file (a fifth of a warm start)."""
    function = inspect.unwrap(function)
    code = function.__code__
    lines = lines_of(function)[code.co_firstlineno - 1 :]
    depth = len(lines[0]) - len(lines[0].lstrip())
    head = next((k for k, line in enumerate(lines) if re.search(r":\s*(#.*)?$", line)), 0)
    end = next(
        (k for k, line in enumerate(lines) if k > head and line.strip() and len(line) - len(line.lstrip()) <= depth),
        len(lines),
    )
    return textwrap.dedent("".join(lines[:end]))


class _TypedLiterals(ast.NodeTransformer):
    """0.5 -> real(0.5), or with another type's name."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, float):
            return node
        return ast.Call(func=ast.Name(id=self.kind, ctx=ast.Load()), args=[node], keywords=[])
