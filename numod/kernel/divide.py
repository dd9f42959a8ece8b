"""Outline a kernel's parallel loops: each becomes a function over a range of iterations, which threads divide.

    for i in parallel_range(n):             def part0(_first_iteration, _last_iteration, out, x):
        out[i] = f(x[i])            ->          for i in range(uint64(_first_iteration), uint64(_last_iteration)):
                                                    out[i] = f(x[i])

and in the kernel `divide(part0, n, _threads, (out, x))`. The target defines `divide`. Numba's `prange` would compile
three to four times as much code, and need a second kernel for one thread.
"""

from __future__ import annotations

import ast
import textwrap
from functools import cache

from ..device.division import LOOP_PREFIX
from .syntax import parsed


@cache
def divided(source: str) -> str:
    """The text of the outlined loops and of the kernel, whose last argument becomes the number of threads.

    Lines are moved, which is faster than unparsing them.
    """
    lines, kernel = source.splitlines(), parsed(source).body[-1]
    nodes = list(ast.walk(kernel))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    sums = [node.target for node in nodes if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)]
    variables = {arg.arg for arg in kernel.args.args} | {name.id for name in names if isinstance(name.ctx, ast.Store)}
    parts: list[str] = []
    body, done = [], kernel.body[0].lineno - 1  # lines of the new kernel; number of lines of the old one processed
    for loop in sorted((node for node in nodes if isinstance(node, ast.For)), key=lambda node: node.lineno):
        if loop.lineno <= done or getattr(getattr(loop.iter, "func", None), "id", "") != "parallel_range":
            continue
        name = f"{LOOP_PREFIX}_{len(parts)}"
        captured = _captured(
            loop,
            *([part for part in group if loop.lineno <= part.lineno <= loop.end_lineno] for group in (names, sums)),
            variables,
        )
        first = loop.body[0]  # it may be on the line of the `for`
        iterations = textwrap.dedent(
            "\n".join(
                [
                    " " * first.col_offset + lines[first.lineno - 1][first.col_offset :],
                    *lines[first.lineno : loop.end_lineno],
                ]
            )
        )
        # counters are unsigned: code for negative indices would prevent vectorisation
        loop_line = f"    for {ast.unparse(loop.target)} in range(uint64(_first_iteration), uint64(_last_iteration)):\n"
        head = f"def {name}({', '.join(['_first_iteration', '_last_iteration', *captured])}):\n{loop_line}"
        parts.append(head + textwrap.indent(iterations, " " * 8))
        call = (
            f"divide({name}, int64({ast.unparse(loop.iter.args[0])}), _threads, "
            f"({', '.join(captured)}{',' if len(captured) == 1 else ''}))"
        )
        body += [*lines[done : loop.lineno - 1], " " * loop.col_offset + call]
        done = loop.end_lineno
    body += lines[done : kernel.end_lineno]
    return "\n".join(
        [*lines[: kernel.lineno - 1], *parts, f"def {kernel.name}({ast.unparse(kernel.args)}, _threads):", *body, ""]
    )


def _captured(loop: ast.For, names: list[ast.Name], sums: list[ast.Name], variables: set[str]) -> list[str]:
    """The kernel's variables that a loop reads and does not assign.

    `names`: the loop's names. `sums`: the names that it accumulates into, which raise ValueError.
    """
    summed = {partial_sum.id for partial_sum in sums} - {
        name.id for name in names if isinstance(name.ctx, ast.Store) and name not in sums
    }
    if summed:
        raise ValueError(
            "iterations of a parallel loop must be independent, but these accumulate into "
            f"{', '.join(sorted(summed))}; let each write its own element, and sum those"
        )
    stored = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return sorted(
        {name.id for name in names if isinstance(name.ctx, ast.Load) and name.lineno >= loop.body[0].lineno}
        & variables - stored
    )
