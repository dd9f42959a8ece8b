"""The examples of the guide's page on export, run in order in one namespace.

Marker `export`: they compile for several targets.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import numod

PAGE = Path(numod.__file__).parent / "guide" / "export.md"


@pytest.mark.export
def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 13
    for block in blocks:
        for line in re.findall(r"^(\S.*?)  # -> (.*)$", block, re.M):
            block = block.replace("  # -> ".join(line), f"assert repr({line[0]}) == {line[1]!r}")
        ast.parse(block)
        exec(compile(block, str(PAGE), "exec"), space)
    assert (tmp_path / "build" / "net-aarch64.o").exists() and (tmp_path / "firmware" / "net-cortex-m4.o").exists()
    sentence = re.search(r"^    import net\n(    .*\n)+", PAGE.read_text(encoding="utf-8"), re.M)[0]
    code = "".join(line[4:] + "\n" for line in sentence.splitlines()) + "assert len(y) == 1 == len(y[0])\n"
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, 'build')\n{code}"]
    subprocess.run(command, cwd=tmp_path, check=True)
