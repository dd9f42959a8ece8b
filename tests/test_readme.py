"""The examples of the README, run in order in one namespace, and the outputs they show as comments `# -> ...`."""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
SHOWN = re.compile(r"#\s+->\s+(.*)$")
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks() -> list[str]:
    """The Python examples, each with empty lines in front so that tracebacks name lines of the README."""
    text = README.read_text(encoding="utf-8")
    return [
        "\n" * text[: found.start(1)].count("\n") + found[1]
        for found in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    ]


def shown_output(lines: list[str], statement: ast.stmt) -> str | None:
    """What the README shows behind a statement, or in the comment lines right after it. None where it shows nothing."""
    found = SHOWN.search(lines[statement.end_lineno - 1][statement.end_col_offset :])
    if found:
        return found[1]
    following = lines[statement.end_lineno : statement.end_lineno + 1]
    found = following and SHOWN.match(following[0].strip())
    return found[1] if found else None


def output_of(statement: ast.stmt, namespace: dict[str, object]) -> str:
    """Run a statement; what it printed, or else what a Python prompt would show of it."""
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), str(README), "eval"), namespace)
        else:
            exec(compile(ast.Module([statement], []), str(README), "exec"), namespace)
    return printed.getvalue() or ("" if value is None else repr(value))


def test_examples_run_and_show_what_they_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "readme"}
    compared = 0
    for block in blocks():
        lines = block.splitlines()
        for statement in ast.parse(block).body:
            found, expected = output_of(statement, namespace), shown_output(lines, statement)
            if expected is not None:
                compared += 1
                assert doctest.OutputChecker().check_output(expected + "\n", found + "\n", SAME), (
                    f"README.md line {statement.end_lineno} shows\n  {expected}\nbut gives\n  {found}"
                )
    # no output is shown where this test does not look
    assert compared == sum(len(re.findall(r"#\s+->\s", block)) for block in blocks()) > 0


def test_the_two_commands_come_first() -> None:
    head = README.read_text(encoding="utf-8").split("\n## ")[0]
    assert "pip install -e . && python -m numod demo" in head
    assert 'pip install -e ".[test]" && python -m pytest' in head


def test_the_row_is_the_real_one() -> None:
    table = (README.parent / "numod" / "ops" / "table.py").read_text(encoding="utf-8")
    row = re.search(r"^elu = pointwise\(.*\n.*", table, re.MULTILINE)[0]
    assert re.sub(r"\s", "", row) in re.sub(r"\s", "", README.read_text(encoding="utf-8"))


def test_every_environment_variable_is_named() -> None:
    names = set(re.findall(r'"(NUM[A-Z_]+)"', (README.parent / "numod" / "config.py").read_text(encoding="utf-8")))
    text = README.read_text(encoding="utf-8")
    assert names and not [name for name in names if name not in text]
