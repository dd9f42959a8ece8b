"""The examples of the guide's page on quantization, run in order in one namespace."""

import ast
import doctest
import re
from pathlib import Path

import pytest

import numod

PAGE = Path(numod.__file__).parent / "guide" / "quantization.md"


@pytest.mark.filterwarnings("ignore:Please use quant_min", "ignore:Default qconfig of oneDNN")
def test_examples_run_and_show_what_they_give(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace, compared = {"__name__": "guide"}, 0
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        lines = block.splitlines()
        for statement in ast.parse(block).body:
            if not isinstance(statement, ast.Expr):
                exec(compile(ast.Module([statement], []), str(PAGE), "exec"), namespace)
                continue
            value = eval(compile(ast.Expression(statement.value), str(PAGE), "eval"), namespace)
            shown = re.search(r"# -> (.*)$", lines[statement.end_lineno - 1])
            if shown:
                compared += 1
                assert doctest.OutputChecker().check_output(shown[1], repr(value), doctest.NORMALIZE_WHITESPACE)
    assert compared >= 8
