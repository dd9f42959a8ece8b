"""Each call of a function or class by its name has arguments that its signature takes, also where no test runs it."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import types
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numod

PACKAGE = Path(numod.__file__).parent
FOREIGN = {
    "_asdict", "_exit", "_format_msg", "_getframe", "_is_owned", "_slotnames",  # Python
    "_check_blas", "_customize_tm_options", "_finalize_dynamic_globals", "_get_arg_packer", "_get_excinfo_argument",  # Numba
    "_get_return_status", "_module_pass_manager", "_pass_builder", "_return_errcode_raw", "_wrap_impl",
    "_original", "_uncompiled",  # set by a name in a string
}  # fmt: skip
NOT_IMPORTED = {"numod.__main__", "numod.examples"}  # they run when they are imported


def _nodes(path: Path) -> list[ast.AST]:
    """All nodes of a file's syntax tree, the module first."""
    return list(ast.walk(ast.parse(path.read_text())))


def _modules() -> Iterator[types.ModuleType]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in pkgutil.walk_packages(numod.__path__, "numod.", onerror=lambda name: None):
            if not any(module.name.startswith(name) for name in NOT_IMPORTED):
                try:
                    yield importlib.import_module(module.name)
                except ImportError:  # it needs an optional package
                    continue


def _bound_in_functions(nodes: list[ast.AST]) -> set[str]:
    """Names that mean something else somewhere in the module: arguments, variables and inner functions."""
    names = {node.arg for node in nodes if isinstance(node, ast.arg)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    inner = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return names | {node.name for node in inner if node not in nodes[0].body}


def _imported_in_functions(nodes: list[ast.AST], module: types.ModuleType) -> dict[str, object]:
    # PyTorch's paths below a file give it a `__path__`, which makes it no folder
    is_folder = Path(module.__file__).name == "__init__.py"
    package = module.__name__ if is_folder else module.__name__.rpartition(".")[0]
    imported = {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.level and node not in nodes[0].body:
            source = importlib.import_module("." * node.level + (node.module or ""), package)
            imported |= {alias.asname or alias.name: getattr(source, alias.name, None) for alias in node.names}
    return imported


def _called(function: ast.expr, names: dict[str, object]) -> Callable | None:
    """The function or class of numod that an expression names, if that can be read off the text."""
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        owner = names.get(function.value.id)
        result = vars(owner).get(function.attr) if isinstance(owner, types.ModuleType) else None
    else:
        result = names.get(function.id) if isinstance(function, ast.Name) else None
    is_own = str(getattr(result, "__module__", "")).startswith("numod.")
    return result if is_own and isinstance(result, (types.FunctionType, type)) else None


@cache
def _signature(function: Callable) -> inspect.Signature:
    return inspect.signature(function, follow_wrapped=False)


def _fault(call: ast.Call, function: Callable) -> str | None:
    if any(isinstance(argument, ast.Starred) for argument in call.args) or None in [k.arg for k in call.keywords]:
        return None
    try:
        signature = _signature(function)
    except (TypeError, ValueError):  # it has none
        return None
    by_keyword = [name for name, parameter in signature.parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]
    constants = dict.fromkeys(by_keyword) if function.__module__.startswith("numod.ops.") else {}  # of kernels
    arguments = {keyword.arg: keyword.value for keyword in call.keywords}
    try:
        signature.bind(*call.args, **constants | arguments)
    except TypeError as error:
        return str(error)
    return None


def test_calls_have_the_arguments_that_they_need() -> None:
    count, faults = 0, []
    for module in _modules():
        path = Path(module.__file__)
        nodes = _nodes(path)
        hidden = _bound_in_functions(nodes)
        names = vars(module) | _imported_in_functions(nodes, module)
        names = {name: value for name, value in names.items() if name not in hidden}
        for node in nodes:
            if isinstance(node, ast.Call) and (function := _called(node.func, names)):
                count += 1
                if fault := _fault(node, function):
                    faults.append(f"{path.relative_to(PACKAGE)}:{node.lineno}: {function.__name__}: {fault}")
    assert not faults, "\n".join(faults)
    assert count > 10_000  # the test sees the calls


def test_private_methods_that_are_called_exist() -> None:
    """A method of another module's class that was renamed leaves no caller behind."""
    defined, called = set(), set()
    for path in PACKAGE.rglob("*.py"):
        for node in _nodes(path):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                defined.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                defined.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                defined.add(node.id)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called.add(node.func.attr)
    assert not {name for name in called if name.startswith("_") and not name.startswith("__")} - defined - FOREIGN
