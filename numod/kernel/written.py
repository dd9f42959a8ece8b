"""Loops of a kernel that are written out:

`for k in written(2):` becomes its body twice, with 0 and 1 in the place of k.

The elements of a GPU thread's local array are in registers only if every index is a constant. LLVM unrolls short loops
by itself, but not long ones.
"""

from __future__ import annotations

import ast
import copy

from .syntax import parsed


def written_out(text: str) -> str:
    """The text with its loops over `written(...)`, which has the arguments of `range`, written out."""
    return ast.unparse(_Unroll().visit(parsed(text))) + "\n"


class _Unroll(ast.NodeTransformer):
    """Replaces each loop over `written(...)` by copies of its body."""

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.AST]:
        self.generic_visit(node)
        if not (isinstance(node.iter, ast.Call) and getattr(node.iter.func, "id", "") == "written"):
            return node
        numbers = range(*[eval(ast.unparse(arg), {"__builtins__": {}}) for arg in node.iter.args])
        return [
            _Substitute(node.target.id, number).visit(copy.deepcopy(statement))
            for number in numbers
            for statement in node.body
        ]


class _Substitute(ast.NodeTransformer):
    """Replaces the name of a loop's variable by a number."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(self.number) if node.id == self.name else node
