"""Runs the Python examples of a Markdown page, in order and in one namespace, and compares the outputs that it shows.

An output is shown as a comment `# -> ...`, behind the statement or in the line below it.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"#\s+->\s+(.*)$")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(text: str) -> list[str]:
    """The examples of a page, each after as many empty lines as make tracebacks name the lines of the page."""
    return ["\n" * text[: block.start(1)].count("\n") + block[1] for block in BLOCK.finditer(text)]


def shown_output(lines: list[str], statement: ast.stmt) -> str | None:
    """The output that the page shows for a statement; None if it shows none."""
    shown = SHOWN.search(lines[statement.end_lineno - 1][statement.end_col_offset :])
    if not shown and statement.end_lineno < len(lines):
        shown = SHOWN.match(lines[statement.end_lineno].strip())
    return shown[1] if shown else None


def output_of(statement: ast.stmt, page: Path, namespace: dict[str, object]) -> str:
    """Run a statement and return what it printed, or what a Python prompt would show."""
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), str(page), "eval"), namespace)
        else:
            exec(compile(ast.Module([statement], []), str(page), "exec"), namespace)
    return printed.getvalue() or ("" if value is None else repr(value))


def run_page(page: Path, namespace: dict[str, object]) -> int:
    """Run all examples of a page in `namespace`. Returns the number of outputs that were compared."""
    examples = blocks(page.read_text(encoding="utf-8"))
    compared = 0
    for block in examples:
        lines = block.splitlines()
        for statement in ast.parse(block).body:
            output, expected = output_of(statement, page, namespace), shown_output(lines, statement)
            if expected is not None:
                compared += 1
                assert doctest.OutputChecker().check_output(expected + "\n", output + "\n", FLAGS), (
                    f"{page.name} line {statement.end_lineno} shows\n  {expected}\nbut gives\n  {output}"
                )
    # every `# ->` of the page belongs to a statement
    assert compared == sum(len(re.findall(r"#\s+->\s", block)) for block in examples)
    return compared


def check_page(page: Path, folder: Path) -> None:
    """Run a page in a process of its own, in `folder`: pages define ops, replace modules and write files."""
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    code = f"import sys; sys.path[:0] = {paths}; import pathlib, pages; pages.run_page(pathlib.Path({str(page)!r}), globals())"
    run = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
