"""The README: its examples run and give the outputs that it shows, its row of an op is the real one, it stays short."""

from __future__ import annotations

import re
from pathlib import Path

from pages import check_page

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")


def test_examples_run_and_give_the_outputs_shown(tmp_path: Path) -> None:
    check_page(README, tmp_path)


def test_the_two_commands_come_first() -> None:
    head = TEXT.split("\n## ")[0]
    assert "pip install -e . && python -m numod demo" in head
    assert 'pip install -e ".[test]" && python -m pytest' in head


def test_readme_has_at_most_200_lines() -> None:
    assert len(TEXT.splitlines()) <= 200


def test_the_row_is_the_real_one() -> None:
    table = (README.parent / "numod" / "ops" / "table.py").read_text(encoding="utf-8")
    row = re.search(r"^elu = pointwise\(.*\n.*", table, re.MULTILINE)[0]
    assert re.sub(r"\s", "", row) in re.sub(r"\s", "", TEXT)
