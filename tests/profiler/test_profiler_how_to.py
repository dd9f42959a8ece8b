"""The PAGE's how-to: its commands find the planted slow spot, and see that it is gone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numod

PAGE = (Path(numod.__file__).parent / "guide" / "profiling.md").read_text(encoding="utf-8")


def first_rows(folder: Path) -> tuple[list[str], list[str]]:
    """The words of the first module and of the first line that the command names."""
    finished = subprocess.run(
        [sys.executable, "-m", "numod", "profile", "slow.py"], capture_output=True, text=True, cwd=folder, check=True
    )
    assert finished.stderr == ""
    return tuple(
        re.search(rf"^{what} .*\n(.*)$", finished.stdout, re.MULTILINE)[1].split() for what in ("module", "line")
    )


def test_the_commands_find_the_slow_spot_and_that_it_is_gone(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text(
        re.search(r"^```python\n(# slow\.py\n.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1], encoding="utf-8"
    )
    for _ in range(5):  # where others use the cores, another line may take longer
        module, line = first_rows(tmp_path)
        if module[0] == "net.1" and line[0].endswith("slow.py(9)"):
            break
    assert module[:3] == ["net.1", "RowNorm", "10"]
    assert line[0].endswith("slow.py(9)") and "row.norm()" in line
    _, pattern, replacement = (
        re.search(r"^\$ sed -i '(s\|.*\|)' slow\.py$", PAGE, re.MULTILINE)[1].strip("|").split("|")
    )
    script.write_text(re.sub(pattern, replacement, script.read_text(encoding="utf-8")), encoding="utf-8")
    _, after = first_rows(tmp_path)
    assert int(after[-3]) < int(line[-3]) / 40
