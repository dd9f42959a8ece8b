"""Outline a kernel's parallel loops: each becomes a function over a range of iterations, which threads divide among them.

    for i in parallel_range(n):             def part0(first_turn, last_turn, out, x):
        out[i] = f(x[i])            ->          for i in range(uint64(first_turn), uint64(last_turn)):
                                                    out[i] = f(x[i])

and in the kernel `divide(part0, n, threads, (out, x))`. The target defines `divide`. Numba's own `prange` does the same with three to four times the
code to compile, and needs a second kernel for one thread.
"""

from __future__ import annotations

import ast
from copy import deepcopy
from functools import cache

from ..device.division import MARK


@cache
def divided(source: str) -> str:
    """The text of the outlined loops and of the kernel, whose last argument is now the number of threads."""
    *others, kernel = ast.parse(source).body
    cut = _Cut({each.arg for each in kernel.args.args} | _names(kernel, ast.Store))
    cut.visit(kernel)
    kernel.args.args.append(ast.arg("threads"))
    return "".join(f"{ast.unparse(ast.fix_missing_locations(each))}\n" for each in (*others, *cut.parts, kernel))


class _Cut(ast.NodeTransformer):
    """Replaces parallel loops by calls of `divide`. An outlined loop takes the kernel's variables that it reads and does not assign.

    Loop counters are unsigned: wrap-around handling of possibly negative indices would keep the loop from being vectorised.
    """

    def __init__(self, variables: set[str]) -> None:
        self.variables, self.parts = variables, []

    def visit_For(self, node: ast.For) -> ast.AST:
        if not (isinstance(node.iter, ast.Call) and getattr(node.iter.func, "id", "") == "parallel_range"):
            return self.generic_visit(node)
        summed = {each.target.id for each in ast.walk(node) if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name)} - _names(_Plain().visit(deepcopy(node)), ast.Store)
        if summed:
            raise ValueError(f"iterations of a parallel loop must be independent, but these accumulate into {', '.join(sorted(summed))}; let each write an element of its own, and sum those")
        count, name = node.iter.args[0], f"{MARK}_{len(self.parts)}"
        given = sorted((_names(ast.Module(node.body, []), ast.Load) & self.variables) - _names(node, ast.Store))
        node.iter = ast.parse("range(uint64(first_turn), uint64(last_turn))", mode="eval").body
        part = ast.parse(f"def {name}({', '.join(['first_turn', 'last_turn', *given])}): pass").body[0]
        part.body = [node]
        self.parts.append(part)
        return ast.parse(f"divide({name}, int64({ast.unparse(count)}), threads, ({''.join(f'{each}, ' for each in given)}))").body[0]


class _Plain(ast.NodeTransformer):
    """Removes augmented assignments, so that what is left assigns only variables of the loop's own."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        return ast.Pass()


def _names(tree: ast.AST, context: type) -> set[str]:
    return {each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, context)}
